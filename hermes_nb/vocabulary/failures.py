"""Failures and errors.

HermesError
├── ConfigurationError          wrong arguments, unknown model string, missing key: at once, before a thread starts
├── ToolDefinitionError         a tool whose signature gives no schema
├── RunInProgress               a second turn on a session that is busy
├── ProviderError               .failure; raised by providers only, never reaches the user
├── TurnFailed                  raised by `TurnResult.raise_for_failure()`
└── TraceError                  .path, .line
    ├── UnreadableTrace
    └── ReplayMismatch          the turn asked something that the record does not have
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from hermes_nb.vocabulary.messages import Message


def in_words(error: BaseException) -> str:
    """Type and message of an exception of anybody's, whose own text may fail too."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001  the exception still happened
        message = "(its message cannot be shown)"
    return f"{type(error).__name__}: {message}"


class FailureReason(StrEnum):
    """Why a model call failed; the recovery table says what follows from each."""

    RATE_LIMIT = "rate_limit"
    """Too many requests or tokens for now; the server may say for how long."""

    OVERLOADED = "overloaded"
    """The server has more to do than it can take, for anybody."""

    SERVER_ERROR = "server_error"
    """The server failed."""

    TIMEOUT = "timeout"
    """No connection, no first byte or no next byte within the provider's `Timeouts`."""

    CONNECTION = "connection"
    """The server was not reached, or the connection broke."""

    MALFORMED_REPLY = "malformed_reply"
    """The reply could not be read: no JSON, a stream cut off, or a call without a name."""

    EMPTY_REPLY = "empty_reply"
    """Neither text nor calls."""

    TRUNCATED_CALL = "truncated_call"
    """The output limit cut a tool call in two."""

    AUTH = "auth"
    """The key was refused, or may not use this model."""

    OUTPUT_CAP_EXCEEDED = "output_cap_exceeded"
    """More output tokens were asked for than the model may write."""

    CONTEXT_OVERFLOW = "context_overflow"
    """The history and the output asked for are larger than the model's window."""

    PAYLOAD_TOO_LARGE = "payload_too_large"
    """The request has more bytes than the server takes."""

    MODEL_NOT_FOUND = "model_not_found"
    """The server knows no such model."""

    BILLING = "billing"
    """No credit left, or a quota of the account used up."""

    CONTENT_FILTER = "content_filter"
    """A content filter withheld the reply."""

    POLICY_BLOCKED = "policy_blocked"
    """Not served here: a country, a law, or the data policy of the account."""

    BAD_REQUEST = "bad_request"
    """The server took the request for wrong; sent again, it would be so again."""

    CERTIFICATE = "certificate"
    """The server's certificate is not trusted."""

    STREAM_UNSUPPORTED = "stream_unsupported"
    """The server does not stream; the reply is asked for whole."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed model call, translated at the provider's edge.

    Attributes:
        reason: The class of the failure.
        message: A short text for people, from the server's body where it gave one; never holds a key.
        provider: The provider's name.
        model: The model asked for.
        status: The HTTP status, where there was one.
        retry_after: Seconds that the server asked to wait, where it did.
        limit: A number that the server stated: the context window (context_overflow) or the output tokens that
            are left (output_cap_exceeded), in tokens.
        error_type: Low-cardinality text for the span: the status, the provider's code, or the exception's class.
        limited_for: Seconds until a genuine quota resets, read from the rate-limit headers; None for noise.
        partial: What had been streamed before the failure, if anything.
        injected: The fault that was injected, if this is no real failure; see `hermes_nb.Faults`.
    """

    reason: FailureReason
    message: str
    provider: str = ""
    model: str = ""
    status: int | None = None
    retry_after: float | None = None
    limit: int | None = None
    error_type: str = ""
    limited_for: float | None = None
    partial: Message | None = None
    injected: str = ""

    def __str__(self) -> str:
        """One line: who failed, with what, and why."""
        who = f"{self.provider}:{self.model}".strip(":") or "model"
        status = f" (HTTP {self.status})" if self.status else ""
        return f"{who}: {self.reason}{status}: {self.message}"


class HermesError(Exception):
    """Base of all errors that this library raises on purpose."""


class ConfigurationError(HermesError):
    """An argument or setting that cannot work; raised before anything starts."""


class ToolDefinitionError(HermesError):
    """A function that cannot be offered as a tool."""


class RunInProgress(HermesError):
    """A second turn on a session that is busy."""


class ProviderError(HermesError):
    """A model call failed; raised by providers, caught by the loop."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class TurnFailed(HermesError):
    """A turn ended without an answer; raised by `TurnResult.raise_for_failure()`."""


class TraceError(HermesError):
    """A trace that cannot be used.

    Attributes:
        path: The file, if there is one.
        line: The line in it, counted from 1, if there is one.
    """

    def __init__(self, message: str, path: str | PathLike[str] | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class UnreadableTrace(TraceError):
    """Nothing in the file could be read as a trace."""


class ReplayMismatch(TraceError):
    """The turn asked something that the record does not have."""
