"""The metrics sink: counts and times what happens in turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from hermes_nb.telemetry import semconv as s
from hermes_nb.telemetry.redaction import safe_attributes
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import Meter

    from hermes_nb.vocabulary.events import Event

Release = Literal["latest", "1.37"]
Attributes = dict[str, Any]

_SUPERSEDED: Final = "gen_ai.client.inference."
"""The names that release 1.37 did not have."""

_TOKENS: Final = {
    "input_tokens": s.METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS,
    "output_tokens": s.METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS,
    "cache_read_tokens": s.METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS,
    "cache_write_tokens": s.METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS,
    "reasoning_tokens": s.METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS,
}


class _Stream:
    """The reply of one request as it comes in."""

    __slots__ = ("call", "last")

    def __init__(self, attempt: events.Attempt) -> None:
        self.last = 0
        self.call: Attributes = {
            s.GEN_AI_OPERATION_NAME: "chat",
            s.GEN_AI_PROVIDER_NAME: attempt.provider,
            s.GEN_AI_REQUEST_MODEL: attempt.model,
            s.SERVER_ADDRESS: attempt.server_address,
            s.SERVER_PORT: attempt.server_port,
        }


class MetricSink:
    """A sink that records the metrics of any number of turns; called from any thread.

    Durations are those of the spans. No turn's id becomes an attribute.

    Args:
        meter: Makes the instruments.
        release: Whose names model calls are recorded under: the newest, or those of semantic conventions 1.37.
    """

    def __init__(self, meter: Meter, release: Release = "latest") -> None:
        self._record: dict[str, Callable[[Any, Attributes], None]] = {
            name: _instrument(meter, name)
            for name, made in s.METRICS.items()
            if made.release == release or not (made.release or (release == "1.37" and name.startswith(_SUPERSEDED)))
        }
        self._started: dict[tuple[str, int], int] = {}
        self._agents: dict[str, str] = {}
        self._streams: dict[tuple[str, int], _Stream] = {}

    def __call__(self, event: Event) -> None:
        """Take one event."""
        what: Any = event.what
        scope = event.turn_id, event.scope
        if event.phase == "started":
            self._started[scope] = event.at
            if isinstance(what, events.Turn):
                self._agents[event.turn_id] = what.agent
            elif isinstance(what, events.Attempt):
                self._streams[scope] = _Stream(what)
            return
        if isinstance(what, events.Delta):
            self._piece(self._streams.get(scope), event.at)
            return
        seconds = 0.0
        if event.phase == "ended":
            seconds = (event.at - self._started.pop(scope, event.at)) / 1e9
            self._streams.pop(scope, None)
        if (tell := _TELL.get((event.phase, type(what)))) is not None:
            tell(self, what, seconds, self._agents.get(event.turn_id, ""))
        if event.phase == "ended" and isinstance(what, events.Turn):
            self._agents.pop(event.turn_id, None)

    def _piece(self, stream: _Stream | None, at: int) -> None:
        """A streamed piece: how long after the one before it?"""
        if stream is None:
            return
        if stream.last:
            self.add(s.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK, (at - stream.last) / 1e9, stream.call)
        stream.last = at

    def add(self, name: str, value: float, attributes: Attributes) -> None:
        """Record one value, if the release has this metric; what is empty is left out of the attributes."""
        if (record := self._record.get(name)) is not None:
            given = {key: item for key, item in attributes.items() if item not in ("", None)}
            record(value, safe_attributes(given))


def _instrument(meter: Meter, name: str) -> Callable[[Any, Attributes], None]:
    kind, unit, description, boundaries, _ = s.METRICS[name]
    if kind == "counter":
        return meter.create_counter(name, unit, description).add
    if kind == "gauge":
        return meter.create_gauge(name, unit, description).set
    advised = list(boundaries) or None
    return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=advised).record


# ---------------------------------------------------------------------------------------------- what is told


def _turn(sink: MetricSink, turn: events.Turn, seconds: float, agent: str) -> None:
    who = {s.GEN_AI_AGENT_NAME: agent}
    how = {s.GEN_AI_REQUEST_MODEL: turn.model, s.ERROR_TYPE: turn.error_type}
    sink.add(s.METRIC_GEN_AI_INVOKE_AGENT_DURATION, seconds, who | how)
    sink.add(s.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS, turn.api_calls, who)
    sink.add(s.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS, turn.tool_calls, who)
    sink.add(s.METRIC_HERMES_TURNS, 1, who | {s.HERMES_TURN_EXIT_REASON: str(turn.exit_reason)})


def _iteration(sink: MetricSink, iteration: events.Iteration, _: float, agent: str) -> None:
    who = {s.GEN_AI_AGENT_NAME: agent}
    sink.add(s.METRIC_HERMES_ITERATIONS, 1, who | {s.HERMES_ITERATION_GRACE: iteration.grace})
    if iteration.grace:
        sink.add(s.METRIC_HERMES_GRACE_CALLS, 1, who)


def _chat(sink: MetricSink, chat: events.Chat, seconds: float, _: str) -> None:
    reply = chat.reply
    call = {
        s.GEN_AI_OPERATION_NAME: "chat",
        s.GEN_AI_PROVIDER_NAME: chat.provider,
        s.GEN_AI_REQUEST_MODEL: chat.model,
        s.GEN_AI_RESPONSE_MODEL: reply.model if reply else "",
        s.SERVER_ADDRESS: chat.server_address,
        s.SERVER_PORT: chat.server_port,
    }
    ended = call | {s.ERROR_TYPE: chat.error_type}
    sink.add(s.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION, seconds, ended)
    sink.add(s.METRIC_GEN_AI_CLIENT_OPERATION_DURATION, seconds, ended)
    if reply is not None and reply.time_to_first_chunk is not None:
        sink.add(s.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK, reply.time_to_first_chunk, call)
    usage = reply.usage if reply is not None else None
    modality = {s.GEN_AI_TOKEN_MODALITY: "unknown"}
    for field, name in _TOKENS.items():
        sink.add(name, getattr(usage, field, 0), call | modality)
    if usage is not None:
        kinds = (("input", usage.input_tokens), ("output", usage.output_tokens))
        for kind, tokens in kinds:
            sink.add(s.METRIC_GEN_AI_CLIENT_TOKEN_USAGE, tokens, call | {s.GEN_AI_TOKEN_TYPE: kind})


def _attempt(sink: MetricSink, attempt: events.Attempt, _: float, __: str) -> None:
    asked = {s.HERMES_ATTEMPT_PROVIDER: attempt.provider, s.HERMES_ATTEMPT_MODEL: attempt.model}
    sink.add(s.METRIC_HERMES_API_ATTEMPTS, 1, asked | {s.ERROR_TYPE: attempt.error_type})


def _retry(sink: MetricSink, retry: events.Retry, _: float, __: str) -> None:
    sink.add(s.METRIC_HERMES_API_BACKOFF, retry.waited, {s.HERMES_RETRY_REASON: str(retry.reason)})


def _fallback(sink: MetricSink, fallback: events.Fallback, _: float, __: str) -> None:
    switch = {
        s.HERMES_FALLBACK_FROM_PROVIDER: fallback.from_provider,
        s.HERMES_FALLBACK_TO_PROVIDER: fallback.to_provider,
        s.HERMES_FALLBACK_REASON: str(fallback.reason),
    }
    sink.add(s.METRIC_HERMES_FALLBACKS, 1, switch)


def _compression(sink: MetricSink, compression: events.Compression, _: float, __: str) -> None:
    why = {s.HERMES_COMPRESSION_TRIGGER: compression.trigger}
    sink.add(s.METRIC_HERMES_COMPRESSIONS, 1, why | {s.HERMES_COMPRESSION_OUTCOME: compression.outcome})
    if compression.outcome == "compressed":
        saved = max(0, compression.tokens_before - compression.tokens_after)
        sink.add(s.METRIC_HERMES_COMPRESSION_TOKENS_SAVED, saved, why)


def _refund(sink: MetricSink, refund: events.Refund, _: float, __: str) -> None:
    sink.add(s.METRIC_HERMES_BUDGET_REFUNDS, 1, {s.HERMES_REFUND_REASON: refund.reason})


def _tool(sink: MetricSink, tool: events.Tool, seconds: float, agent: str) -> None:
    called = {s.GEN_AI_TOOL_NAME: tool.name, s.GEN_AI_TOOL_TYPE: tool.type, s.GEN_AI_AGENT_NAME: tool.agent or agent}
    sink.add(s.METRIC_GEN_AI_EXECUTE_TOOL_DURATION, seconds, called | {s.ERROR_TYPE: tool.error_type})


def _budget(sink: MetricSink, changed: events.BudgetChanged, _: float, agent: str) -> None:
    sink.add(s.METRIC_HERMES_BUDGET_REMAINING, changed.remaining, {s.GEN_AI_AGENT_NAME: agent})


def _interrupt(sink: MetricSink, interrupt: events.Interrupt, _: float, __: str) -> None:
    if interrupt.status == "observed":
        sink.add(s.METRIC_HERMES_INTERRUPTS, 1, {s.HERMES_INTERRUPT_DURING: interrupt.during})


_TELL: Final[dict[tuple[str, type], Callable[[MetricSink, Any, float, str], None]]] = {
    ("ended", events.Turn): _turn,
    ("ended", events.Iteration): _iteration,
    ("ended", events.Chat): _chat,
    ("ended", events.Attempt): _attempt,
    ("ended", events.Retry): _retry,
    ("ended", events.Fallback): _fallback,
    ("ended", events.Compression): _compression,
    ("ended", events.Refund): _refund,
    ("ended", events.Tool): _tool,
    ("point", events.BudgetChanged): _budget,
    ("point", events.Interrupt): _interrupt,
}
