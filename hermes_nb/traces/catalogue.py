"""The columns of every frame, with their order, dtypes and meaning: the same for any data, also for none.

This is the one place where columns are declared: frames are cast to it, empty frames are made of it, and the
documentation's tables are written from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hermes_nb.traces.names import SPAN_TYPES

Kind = Literal["str", "category", "Int64", "Float64", "boolean", "datetime64[ns, UTC]", "timedelta64[ns]"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame.

    Attributes:
        name: As in the frame.
        kind: The pandas dtype.
        doc: What it holds.
        values: The categories that always exist, in this order; others are added behind them as they are met.
    """

    name: str
    kind: Kind
    doc: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its name, what a row is, and its columns."""

    name: str
    row: str
    columns: tuple[Column, ...]


def _text(name: str, doc: str) -> Column:
    return Column(name, "str", doc)


def _word(name: str, doc: str, *values: str) -> Column:
    return Column(name, "category", doc, values)


def _count(name: str, doc: str) -> Column:
    return Column(name, "Int64", doc)


def _flag(name: str, doc: str) -> Column:
    return Column(name, "boolean", doc)


def _money(name: str, doc: str) -> Column:
    return Column(name, "Float64", doc)


def _time(name: str, doc: str) -> Column:
    return Column(name, "datetime64[ns, UTC]", doc)


def _span(name: str, doc: str) -> Column:
    return Column(name, "timedelta64[ns]", doc)


_KEYS = (
    _text("run_id", "The process that ran the turn (`hermes.run.id` of the resource)"),
    _text("conversation_id", "The conversation"),
    _text("turn_id", "The turn; for other tools' agents the id of the agent's span"),
    _text("trace_id", "The trace, 32 hex digits"),
    _text("span_id", "The row's span, 16 hex digits"),
)
_ITERATION = _count("iteration", "Pass of the loop, from 1")
_WHEN = (
    _time("start_time", "Start"),
    _time("end_time", "End; missing while it runs"),
    _span("duration", "From start to end; of something still open, until the frame was made"),
)
_TOKENS = (
    _count("input_tokens", "Tokens read by the model, cached ones included"),
    _count("output_tokens", "Tokens written by the model, reasoning included"),
    _count("cache_read_tokens", "Input tokens that came from a cache"),
    _count("cache_write_tokens", "Input tokens that were put into a cache"),
    _count("reasoning_tokens", "Output tokens that were reasoning"),
    _money("cost_usd", "US dollars, where a price is known"),
)
_STATUS = _word("status", "Status of the span", "UNSET", "OK", "ERROR")
_ERROR = _word("error_type", "What failed, in one word; missing where nothing did")
_OPEN = _flag("is_running", "Not ended when the frame was made")
_REASON_DOC = "Why the attempt failed"
_JSON = _text("attributes_json", "All attributes as JSON")

FRAMES: Final[dict[str, Frame]] = {
    frame.name: frame
    for frame in (
        Frame(
            "spans",
            "span, other tools' too",
            (
                *_KEYS[3:],
                _KEYS[0],
                _KEYS[1],
                _KEYS[2],
                _text("parent_span_id", "The span around it; missing for a root"),
                _word("name", "Name of the span"),
                _word("span_type", "What it is", *SPAN_TYPES),
                _word("kind", "OpenTelemetry's kind", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"),
                *_WHEN,
                _span("self_time", "Duration without the time covered by children"),
                _count("depth", "Spans above it in this data; 0 for a root"),
                _STATUS,
                _text("status_message", "Description that came with the status"),
                _ERROR,
                _word("agent_name", "The agent"),
                _ITERATION,
                _word("service_name", "`service.name` of the resource"),
                _word("scope_name", "Instrumentation scope"),
                _count("n_events", "Events on the span"),
                _count("n_links", "Links of the span"),
                _count("dropped_attributes", "Attributes lost to a limit"),
                _count("dropped_events", "Events lost to a limit"),
                _OPEN,
                _flag("missing_parent", "Its parent is not in this data"),
                _JSON,
            ),
        ),
        Frame(
            "turns",
            "turn, sub-agents' too",
            (
                *_KEYS,
                _text("parent_turn_id", "The turn whose tool started it; missing for the user's own"),
                _text("prev_turn_id", "The turn before it in the conversation"),
                _count("turn_number", "Within the conversation, from 1"),
                _word("agent_name", "The agent"),
                _word("model_requested", "Model of the first provider of the chain"),
                _text("user_message", "The prompt, if content was recorded"),
                _text("final_response", "The answer, if content was recorded"),
                *_WHEN,
                _word("exit_reason", "Why it ended"),
                _flag("completed", "It has its answer"),
                _flag("failed", "A failure ended it"),
                _flag("interrupted", "An interrupt ended it"),
                _OPEN,
                _count("iterations", "Passes of the loop, the grace call included"),
                _flag("grace_used", "There was a grace call"),
                _count("api_calls", "Chats: calls of one model with all their attempts"),
                _count("api_attempts", "Requests sent"),
                _count("retries", "Attempts after a failed one"),
                _count("fallbacks", "Switches of provider"),
                _count("compressions", "Compressions of the history"),
                _count("refunds", "Iterations given back"),
                _count("tool_calls", "Tools run"),
                _count("tool_errors", "Tools that failed"),
                _count("budget_limit", "Iterations allowed"),
                _count("budget_used", "Iterations used, refunds taken off"),
                _count("budget_remaining", "Iterations left"),
                *_TOKENS,
                _span("model_time", "Covered by attempts (by chats where there are none)"),
                _span("tool_time", "Covered by tools"),
                _span("wait_time", "Covered by waits before attempts"),
                _span("overhead", "Covered by none of these"),
                _ERROR,
                _text("providers_used", "Providers that were asked, in order of first use, with commas"),
                _count("steer_count", "Steers delivered"),
            ),
        ),
        Frame(
            "iterations",
            "pass of the loop",
            (
                *_KEYS,
                _ITERATION,
                _flag("grace", "The one pass after the budget is gone"),
                *_WHEN,
                _word(
                    "outcome",
                    "How it ended",
                    "tool_calls",
                    "final_response",
                    "compressed",
                    "continued",
                    "failed",
                    "interrupted",
                ),
                _OPEN,
                _count("budget_before", "Iterations left before it"),
                _count("budget_after", "Iterations left after it"),
                _count("refunded", "Iterations given back in it"),
                _count("n_chats", "Chats"),
                _count("n_attempts", "Attempts"),
                _count("n_retries", "Retries"),
                _count("n_fallbacks", "Fallbacks"),
                _count("n_tools", "Tools run"),
                _span("model_time", "Covered by attempts (by chats where there are none)"),
                _span("tool_time", "Covered by tools"),
                _span("compression_time", "Covered by compressions"),
                _word("provider", "The provider that answered"),
                _word("model", "The model that answered"),
                _word("finish_reason", "Why it stopped"),
                *_TOKENS,
                _count("steer_count", "Steers delivered"),
                _ERROR,
            ),
        ),
        Frame(
            "chats",
            "call of one model with all its attempts",
            (
                *_KEYS,
                _ITERATION,
                _text("chat_span_id", "Same as `span_id`; joins `attempts`"),
                _count("fallback_index", "Place in the chain, 0 for the primary"),
                _word("purpose", "What it was for", "main", "compression", "summary", "reference", "judge"),
                _word("provider", "Provider asked"),
                _word("request_model", "Model asked for"),
                _word("response_model", "Model that answered"),
                _text("response_id", "The server's id"),
                *_WHEN,
                _span("time_to_first_chunk", "Until the first streamed piece"),
                _count("attempts", "Requests sent"),
                _word("finish_reason", "Why the model stopped"),
                *_TOKENS,
                _flag("compacted", "The history had been compressed"),
                _flag("stream", "Streamed"),
                _STATUS,
                _ERROR,
                _word("server_address", "Host"),
                _count("server_port", "Port"),
                _count("n_input_messages", "Messages sent"),
                _OPEN,
            ),
        ),
        Frame(
            "attempts",
            "request to a model server",
            (
                *_KEYS,
                _ITERATION,
                _text("chat_span_id", "The chat it belongs to"),
                _count("attempt", "Within its chat, from 1"),
                _count("attempt_max", "Attempts allowed"),
                _word("provider", "Provider asked"),
                _word("model", "Model asked for"),
                *_WHEN,
                _span("backoff", "Waited before it"),
                _count("http_status", "HTTP status"),
                _word("outcome", "How it ended", "success", "retry", "give_up", "fallback", "compress", "cancelled"),
                _ERROR,
                _word("retry_reason", _REASON_DOC),
                _span("retry_after", "Wait that the server asked for"),
                _word("injected", "The fault that was injected; missing where none was"),
                _count("resend_count", "Requests before it in this chat"),
                _OPEN,
            ),
        ),
        Frame(
            "retries",
            "decision to try again, with its wait",
            (
                *_KEYS,
                _ITERATION,
                _text("chat_span_id", "The chat it belongs to"),
                _count("retry", "Within its chat, from 1"),
                _word("reason", _REASON_DOC),
                _word("source", "Who set the wait", "backoff", "retry_after", "guard", "credentials", "at_once"),
                _span("wait", "Planned"),
                _span("waited", "Spent"),
                _span("retry_after", "Wait that the server asked for"),
                _word("outcome", "How it ended", "waited", "interrupted"),
                *_WHEN,
                _OPEN,
            ),
        ),
        Frame(
            "fallbacks",
            "switch of provider",
            (
                *_KEYS,
                _ITERATION,
                _count("index", "Switches in the turn, from 1"),
                _time("time", "When"),
                _word("reason", "Why"),
                _word("from_provider", "Provider left"),
                _word("from_model", "Model left"),
                _word("to_provider", "Provider taken"),
                _word("to_model", "Model taken"),
                _count("chain_left", "Providers left behind it"),
                _word("outcome", "What became of it", "activated", "skipped", "none_left"),
                _text("failed_chat_span_id", "The chat that failed"),
                _ERROR,
            ),
        ),
        Frame(
            "compressions",
            "compression of the history",
            (
                *_KEYS,
                _ITERATION,
                *_WHEN,
                _word("trigger", "What called for it", "threshold", "preflight", "overflow", "manual"),
                _word("strategy", "How"),
                _count("messages_before", "Messages before"),
                _count("messages_after", "Messages after"),
                _count("tokens_before", "Tokens before"),
                _count("tokens_after", "Tokens after"),
                _flag("refunded", "Its iteration was given back"),
                _word("outcome", "What became of it", "compressed", "skipped", "failed"),
                _ERROR,
                _OPEN,
            ),
        ),
        Frame(
            "refunds",
            "iteration given back",
            (
                *_KEYS,
                _ITERATION,
                _time("time", "When"),
                _word("reason", "Why", "compression", "overflow", "free_tool", "rebuilt"),
                _count("limit", "Limit of the budget"),
                _count("used_before", "Used before"),
                _count("used_after", "Used after"),
                _count("remaining_before", "Left before"),
                _count("remaining_after", "Left after"),
            ),
        ),
        Frame(
            "tool_calls",
            "tool run",
            (
                *_KEYS,
                _ITERATION,
                _text("chat_span_id", "The chat that asked for it"),
                _text("tool_call_id", "The model's id of the call"),
                _word("tool_name", "Tool"),
                _word("tool_type", "OpenTelemetry's type", "function", "extension", "datastore"),
                _count("order", "Within the reply's calls, from 0"),
                _flag("parallel", "Run beside others"),
                *_WHEN,
                _word("outcome", "How it ended", "ok", "error", "cancelled", "skipped", "timeout"),
                _STATUS,
                _ERROR,
                _flag("cancelled", "Stopped by an interrupt"),
                _text("arguments_json", "Arguments, if content was recorded"),
                _text("result", "Result, if content was recorded"),
                _count("result_chars", "Length of the result"),
                _flag("truncated", "The model read less than the tool returned"),
                _text("child_turn_id", "The sub-agent's turn"),
                _OPEN,
            ),
        ),
        Frame(
            "budget",
            "change of an iteration budget",
            (
                *_KEYS,
                _ITERATION,
                _count("seq", "Change of this budget, strictly rising"),
                _time("time", "When"),
                _word(
                    "action", "What happened", "grant", "consume", "refund", "grace_granted", "grace_used", "exhausted"
                ),
                _count("delta", "Change of what is left"),
                _count("limit", "Limit"),
                _count("used", "Used after it"),
                _count("remaining", "Left after it"),
                _word("reason", "Why"),
                _word("actor", "Who", "loop", "compressor", "subagent", "user"),
            ),
        ),
        Frame(
            "messages",
            "part of a message of a conversation",
            (
                *_KEYS,
                _ITERATION,
                _count("message_index", "Within the turn's history, from 0"),
                _count("part_index", "Within the message, from 0"),
                _word("role", "Who speaks", "system", "user", "assistant", "tool"),
                _word("part_type", "What it is", "text", "reasoning", "tool_call", "tool_call_response"),
                _text("content", "Text, or JSON of anything else"),
                _text("tool_call_id", "The call asked for or answered"),
                _word("tool_name", "Tool"),
                _word("direction", "Part of what", "system", "input", "output"),
                _word("origin", "Why the loop put it in", "steer", "summary", "continuation"),
                _text("first_span_id", "The chat in which it was first seen"),
                _count("chars", "Length of the content"),
                _count("tokens", "Tokens, where the source counted them"),
            ),
        ),
        Frame(
            "events",
            "event of a span, or log record",
            (
                *_KEYS,
                _ITERATION,
                _word("source", "Where it was found", "span", "log"),
                _count("seq", "Within its span, from 0"),
                _time("time", "When"),
                _word("name", "Name"),
                _word("severity", "Severity of a log record"),
                _text("body", "Body of a log record"),
                _JSON,
            ),
        ),
        Frame(
            "links",
            "link from a span to another",
            (
                *_KEYS,
                _ITERATION,
                _text("linked_trace_id", "Trace of the other span"),
                _text("linked_span_id", "The other span"),
                _word("type", "What it means", "previous_turn", "failed_chat", "delegated_by"),
                _JSON,
            ),
        ),
        Frame(
            "metrics",
            "data point of a metric",
            (
                _KEYS[0],
                _word("name", "Metric"),
                _word("unit", "Unit"),
                _word("kind", "Instrument", "sum", "gauge", "histogram", "exponential_histogram", "summary"),
                _time("start_time", "Start of the interval"),
                _time("time", "When"),
                _money("value", "Value of a sum or gauge"),
                _count("count", "Values in a histogram"),
                _money("sum", "Sum of a histogram"),
                _JSON,
                _text("bucket_counts_json", "Counts of the buckets"),
                _text("explicit_bounds_json", "Bounds of the buckets"),
                _word("service_name", "`service.name` of the resource"),
            ),
        ),
        Frame(
            "spans_attributes",
            "attribute of a span",
            (
                _KEYS[3],
                _KEYS[4],
                _word("key", "Name of the attribute"),
                _word("type", "JSON type", "string", "number", "boolean", "array", "object"),
                _text("value_str", "The value as text"),
                _money("value_num", "The value of a number or boolean"),
            ),
        ),
    )
}
"""Every frame, by name."""
