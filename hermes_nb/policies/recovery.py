"""What follows from a failed model call: one table, and the function that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import FailureReason as Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.policies.retry import Retry
    from hermes_nb.vocabulary.failures import Failure


class Step(StrEnum):
    """What to do next with the provider that failed."""

    RENEW = "renew"
    """Other credentials, or a request without the field that the server refused; then ask again."""
    RETRY = "retry"
    """Wait, then ask again."""
    LOWER_CAP = "lower_cap"
    """Ask again for fewer output tokens."""
    RAISE_CAP = "raise_cap"
    """Ask again for more output tokens: a tool call was cut."""
    UNSTREAM = "unstream"
    """Ask again without streaming."""
    COMPRESS = "compress"
    """Make the history smaller, then begin the iteration anew."""
    GIVE_UP = "give_up"
    """Leave this provider; the next one of the chain is asked."""


RECOVERY: Mapping[Reason, tuple[Step, ...]] = {
    Reason.RATE_LIMIT: (Step.RENEW, Step.RETRY),
    Reason.OVERLOADED: (Step.RETRY,),
    Reason.SERVER_ERROR: (Step.RETRY,),
    Reason.TIMEOUT: (Step.RETRY,),
    Reason.CONNECTION: (Step.RETRY,),
    Reason.MALFORMED_REPLY: (Step.RETRY,),
    Reason.EMPTY_REPLY: (Step.RETRY,),
    Reason.TRUNCATED_CALL: (Step.RAISE_CAP,),
    Reason.AUTH: (Step.RENEW,),
    Reason.BILLING: (Step.RENEW,),
    Reason.OUTPUT_CAP_EXCEEDED: (Step.LOWER_CAP,),
    Reason.CONTEXT_OVERFLOW: (Step.COMPRESS,),
    Reason.PAYLOAD_TOO_LARGE: (Step.COMPRESS,),
    Reason.STREAM_UNSUPPORTED: (Step.UNSTREAM,),
    Reason.MODEL_NOT_FOUND: (),
    Reason.CONTENT_FILTER: (),
    Reason.POLICY_BLOCKED: (),
    Reason.BAD_REQUEST: (Step.RENEW,),
    Reason.CERTIFICATE: (),
}
"""For each reason the steps that may help, tried from left to right; when none is left, the provider is given up."""

CAP_RAISES = 4
CAP_DEFAULT = 4_096
CAP_MAX = 32_768
CAP_MARGIN = 64
"""Doublings of the output cap after a cut call, what they start from and end at, and the tokens kept free when a
server says how many are left (hermes-agent 0.19.0 uses the same numbers)."""


@dataclass(slots=True)
class Tally:
    """What has been tried at one provider within one iteration; a fresh one for each provider.

    Attributes:
        attempts: Requests sent.
        failures: Failed requests that count against the attempts of the retry policy.
        max_tokens: Output cap to ask for, where it was changed.
        stream: False after the server refused to stream.
        raised: Doublings of the output cap.
        lowered: The output cap was lowered.
        renewable: False when there are no other credentials.
        patient: There are other credentials, so the provider is not left early.
    """

    attempts: int = 0
    failures: int = 0
    max_tokens: int | None = None
    stream: bool | None = None
    raised: int = 0
    lowered: bool = False
    renewable: bool = True
    patient: bool = False

    def raise_cap(self, configured: int | None) -> None:
        """Double the output cap, starting from the configured one; never below it, at most `CAP_MAX` or it."""
        self.raised += 1
        start = configured or CAP_DEFAULT
        self.max_tokens = max(start, min(start * 2**self.raised, max(CAP_MAX, start)))

    def lower_cap(self, available: int) -> None:
        """Ask for what the server says is left, less a margin."""
        self.lowered = True
        self.max_tokens = max(1, available - CAP_MARGIN)


def next_step(failure: Failure, tally: Tally, retry: Retry, *, fallback_left: bool) -> Step:
    """The first step of the table's row that has not been used up.

    Args:
        failure: The last failure.
        tally: What was tried so far, the failure included.
        retry: The retry policy in force.
        fallback_left: Another provider is waiting in the chain.
    """
    for step in RECOVERY[failure.reason]:
        if _open(step, failure, tally, retry, fallback_left=fallback_left):
            return step
    return Step.GIVE_UP


def _open(step: Step, failure: Failure, tally: Tally, retry: Retry, *, fallback_left: bool) -> bool:
    match step:
        case Step.RETRY:
            return retry.allows(failure, tally.failures, fallback_left=fallback_left and not tally.patient)
        case Step.RENEW:
            return tally.renewable
        case Step.LOWER_CAP:
            return failure.limit is not None and not tally.lowered
        case Step.RAISE_CAP:
            return tally.raised < CAP_RAISES
        case Step.UNSTREAM:
            return tally.stream is not False
        case _:
            return True
