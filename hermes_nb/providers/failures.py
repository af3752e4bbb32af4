"""Every kind of error that a server can give, translated into a `Failure`.

Pure: status, headers and body in, a `Failure` out. The reasons come from the table in `signs`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from hermes_nb.providers.error_bodies import LONGEST_MESSAGE, ErrorBody, merged, plain, read_error
from hermes_nb.providers.limits import stated
from hermes_nb.providers.signs import reason_of
from hermes_nb.providers.waits import limited_for, retry_after
from hermes_nb.vocabulary.failures import Failure, ProviderError
from hermes_nb.vocabulary.failures import FailureReason as R

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.sse import Json


def refused(status: int, headers: Mapping[str, str], raw: bytes) -> Failure:
    """The failure that an HTTP response with an error status means.

    Args:
        status: Of the response.
        headers: Of the response.
        raw: The body, or the first part of it.
    """
    text = raw.decode("utf-8", "replace")
    try:
        body = read_error(json.loads(text))
    except (ValueError, RecursionError):
        body = read_error(text)
    if not body.messages:
        body.messages.append(_described(status, headers, text))
    return _failure(status, headers, body, error_type=str(status))


def error_within(data: dict[str, Json], event: str = "") -> Failure | None:
    """The failure that an object inside a successful response or stream means; None if it is no error."""
    error = data.get("error")
    if not error and not _is_error(data, event):
        choices = data.get("choices")
        inner = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        error = inner.get("error")
        if not error:
            return None
    body = read_error({"error": error} if error else data)
    if not body.messages:
        body.messages.append("the server reported an error without a message")
    code = next((code for code in body.codes if re.fullmatch(r"[a-z0-9_.]{1,40}", code)), "error")
    return _failure(body.status or 0, {}, body, error_type=code)


def event_of(data: Json, name: str = "") -> dict[str, Json] | None:
    """The object that an event of a stream, or a body, is; None if it is none.

    Raises:
        ProviderError: It is an error.
    """
    if not isinstance(data, dict):
        return None
    if failure := error_within(data, name):
        raise ProviderError(failure)
    return data


def _is_error(data: dict[str, Json], event: str) -> bool:
    if event == "error" or data.get("object") == "error" or data.get("type") == "error":
        return True
    if data.get("choices"):
        return False
    told = data.get("base_resp")
    if isinstance(told, dict) and told.get("status_code"):
        return True
    return bool(data.get("detail")) or ("message" in data and "code" in data)


def _failure(status: int, headers: Mapping[str, str], body: ErrorBody, error_type: str) -> Failure:
    reason, limit = _weighed(reason_of(status, body), body)
    known = merged(headers, body)
    return Failure(
        reason,
        plain(body.text, LONGEST_MESSAGE),
        status=status or None,
        retry_after=retry_after(known, body.text if reason in (R.RATE_LIMIT, R.OVERLOADED) else ""),
        limit=limit,
        error_type=error_type,
        limited_for=limited_for(known) if reason is R.RATE_LIMIT else None,
    )


def _weighed(reason: R, body: ErrorBody) -> tuple[R, int | None]:
    """Tell an output cap from an input overflow by the numbers that the error states; with the limit that it states."""
    if reason not in (R.CONTEXT_OVERFLOW, R.OUTPUT_CAP_EXCEEDED):
        return reason, None
    numbers = stated(body.text)
    window = numbers.window or _window_field(body)
    if numbers.input_fits:
        return R.OUTPUT_CAP_EXCEEDED, numbers.free
    if numbers.window is not None and numbers.input is not None:
        return R.CONTEXT_OVERFLOW, window
    if numbers.cap is not None:
        return R.OUTPUT_CAP_EXCEEDED, numbers.cap
    return reason, window


def _window_field(body: ErrorBody) -> int | None:
    """llama.cpp states its window in a field of its own."""
    window = body.fields.get("n_ctx")
    return int(window) if window else None


def _described(status: int, headers: Mapping[str, str], text: str) -> str:
    if shown := plain(text):
        return shown
    where = {name.lower(): value for name, value in headers.items()}.get("location")
    return f"HTTP {status} that leads to {plain(where, 200)}" if where else f"HTTP {status} with an empty body"


def malformed(message: str) -> Failure:
    """A reply that is none."""
    return Failure(R.MALFORMED_REPLY, message, error_type="malformed_reply")
