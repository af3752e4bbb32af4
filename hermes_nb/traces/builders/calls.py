"""The frames of model calls: `chats`, `attempts`, `retries`, `fallbacks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import names
from hermes_nb.traces.columns import DURATION, array
from hermes_nb.traces.values import as_bool, as_float, as_int, as_nanoseconds, as_text, as_word, pick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.forest import Rows

    Fields = Mapping[str, tuple[tuple[str, ...], Callable[[Any], Any]]]

USAGE: Fields = {
    "input_tokens": (names.INPUT_TOKENS, as_int),
    "output_tokens": (names.OUTPUT_TOKENS, as_int),
    "cache_read_tokens": (names.CACHE_READ_TOKENS, as_int),
    "cache_write_tokens": (names.CACHE_WRITE_TOKENS, as_int),
    "reasoning_tokens": (names.REASONING_TOKENS, as_int),
    "cost_usd": (names.COSTS, as_float),
}


def _finish_reason(value: Any) -> str | None:
    """The providers' word, also where the conventions have another."""
    word = as_word(value)
    return "tool_calls" if word == "tool_call" else word


CHATS: Fields = {
    **USAGE,
    "fallback_index": ((sc.HERMES_FALLBACK_INDEX,), as_int),
    "purpose": ((sc.HERMES_CHAT_PURPOSE,), as_word),
    "provider": (names.PROVIDERS, as_word),
    "request_model": (names.REQUEST_MODELS, as_word),
    "response_model": (names.RESPONSE_MODELS, as_word),
    "response_id": ((sc.GEN_AI_RESPONSE_ID, "llm.response.id"), as_text),
    "time_to_first_chunk": (names.FIRST_CHUNK, as_nanoseconds),
    "attempts": ((sc.HERMES_ATTEMPTS,), as_int),
    "finish_reason": (names.FINISH_REASONS, _finish_reason),
    "compacted": ((sc.GEN_AI_CONVERSATION_COMPACTED,), as_bool),
    "stream": ((sc.GEN_AI_REQUEST_STREAM, "llm.is_streaming"), as_bool),
    "server_address": ((sc.SERVER_ADDRESS, "net.peer.name"), as_word),
    "server_port": ((sc.SERVER_PORT, "net.peer.port"), as_int),
    "n_input_messages": ((sc.HERMES_CHAT_MESSAGE_COUNT,), as_int),
}
ATTEMPTS: Fields = {
    "attempt": ((sc.HERMES_ATTEMPT_NUMBER,), as_int),
    "attempt_max": ((sc.HERMES_ATTEMPT_MAX,), as_int),
    "provider": ((sc.HERMES_ATTEMPT_PROVIDER,), as_word),
    "model": ((sc.HERMES_ATTEMPT_MODEL,), as_word),
    "backoff": ((sc.HERMES_ATTEMPT_BACKOFF,), as_nanoseconds),
    "http_status": ((sc.HTTP_RESPONSE_STATUS_CODE,), as_int),
    "outcome": ((sc.HERMES_ATTEMPT_OUTCOME,), as_word),
    "retry_reason": ((sc.HERMES_ATTEMPT_REASON,), as_word),
    "retry_after": ((sc.HERMES_ATTEMPT_RETRY_AFTER,), as_nanoseconds),
    "injected": ((sc.HERMES_ATTEMPT_INJECTED,), as_word),
    "resend_count": ((sc.HTTP_REQUEST_RESEND_COUNT,), as_int),
}
RETRIES: Fields = {
    "retry": ((sc.HERMES_RETRY_NUMBER,), as_int),
    "reason": ((sc.HERMES_RETRY_REASON,), as_word),
    "source": ((sc.HERMES_RETRY_SOURCE,), as_word),
    "wait": ((sc.HERMES_RETRY_WAIT,), as_nanoseconds),
    "waited": ((sc.HERMES_RETRY_WAITED,), as_nanoseconds),
    "retry_after": ((sc.HERMES_RETRY_RETRY_AFTER,), as_nanoseconds),
    "outcome": ((sc.HERMES_RETRY_OUTCOME,), as_word),
}
FALLBACKS: Fields = {
    "index": ((sc.HERMES_FALLBACK_INDEX,), as_int),
    "reason": ((sc.HERMES_FALLBACK_REASON,), as_word),
    "from_provider": ((sc.HERMES_FALLBACK_FROM_PROVIDER,), as_word),
    "from_model": ((sc.HERMES_FALLBACK_FROM_MODEL,), as_word),
    "to_provider": ((sc.HERMES_FALLBACK_TO_PROVIDER,), as_word),
    "to_model": ((sc.HERMES_FALLBACK_TO_MODEL,), as_word),
    "chain_left": ((sc.HERMES_FALLBACK_CHAIN_LEFT,), as_int),
    "outcome": ((sc.HERMES_FALLBACK_OUTCOME,), as_word),
}


def read(attributes: Sequence[Mapping[str, Any]], fields: Fields) -> dict[str, Any]:
    """The columns that `fields` names, from attributes."""
    columns = {}
    for name, (keys, reader) in fields.items():
        values: Any = pick(attributes, keys, reader)
        columns[name] = array(values, DURATION) if reader is as_nanoseconds else values
    return columns


def base(analysis: Analysis, rows: Rows) -> dict[str, Any]:
    """The columns that all frames of spans have: keys, times, status."""
    said = {"status": analysis.column("status", rows), "error_type": analysis.column("own_error_type", rows)}
    return analysis.keys(rows) | analysis.times(rows) | said


def chat_fields(analysis: Analysis) -> dict[str, Any]:
    """What chats say of themselves."""
    return read(analysis.attributes(analysis.of("chat")), CHATS)


def chats(analysis: Analysis) -> dict[str, Any]:
    """Calls of one model with all their attempts."""
    rows = analysis.of("chat")
    columns = base(analysis, rows) | analysis.once(chat_fields)
    requests = analysis.of("attempt")
    sent = np.bincount(np.maximum(_chat_of(analysis)[requests], -1) + 1, minlength=len(analysis) + 1)[1:]
    known = zip(columns["attempts"], sent[rows].tolist(), strict=True)
    columns["attempts"] = [said if said is not None else counted or None for said, counted in known]
    columns["chat_span_id"] = columns["span_id"]
    return columns


def attempts(analysis: Analysis) -> dict[str, Any]:
    """Requests to model servers."""
    rows = analysis.of("attempt")
    columns = base(analysis, rows) | read(analysis.attributes(rows), ATTEMPTS)
    return columns | {"chat_span_id": analysis.column("span_id", _chat_of(analysis)[rows])}


def retries(analysis: Analysis) -> dict[str, Any]:
    """Decisions to try again."""
    rows = analysis.of("retry")
    columns = base(analysis, rows) | read(analysis.attributes(rows), RETRIES)
    return columns | {"chat_span_id": analysis.column("span_id", _chat_of(analysis)[rows])}


def fallbacks(analysis: Analysis) -> dict[str, Any]:
    """Switches of provider."""
    rows = analysis.of("fallback")
    columns = base(analysis, rows) | read(analysis.attributes(rows), FALLBACKS)
    links = analysis.tables.links
    failed = dict(zip(links["span_id"].to_pylist(), links["linked_span_id"].to_pylist(), strict=True))
    columns["failed_chat_span_id"] = [failed.get(span_id) for span_id in columns["span_id"].to_pylist()]
    return columns | {"time": columns["start_time"]}


def _chat_of(analysis: Analysis) -> Rows:
    return analysis.above(analysis.are("chat"))
