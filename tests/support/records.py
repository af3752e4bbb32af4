"""What must hold for the record of every turn: its events, its trace, its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from hermes_nb.telemetry.hub import IDS, LIMITS, SCOPE_NAME, resource, version
from hermes_nb.telemetry.spans import SpanSink

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import hermes_nb as hn


class AtOnce:
    """A sink beside that of a run, to compare with: it writes each span when its scope starts."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        limits = SpanLimits(**LIMITS)
        provider = TracerProvider(ALWAYS_ON, resource(), shutdown_on_exit=False, id_generator=IDS, span_limits=limits)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self._spans = SpanSink(provider.get_tracer(SCOPE_NAME, version()), openinference=False)
        self._open: dict[tuple[str, int], AbstractContextManager[object]] = {}

    def __call__(self, event: hn.Event) -> None:
        """Write; the run's own spans stay those that are current."""
        manager, place = self._spans(event), (event.turn_id, event.scope)
        if manager is not None:
            self._open[place] = manager
        elif event.phase == "ended" and place in self._open:
            self._open.pop(place).__exit__(None, None, None)

    def written(self) -> list[str]:
        """What was written, as JSON."""
        return sorted(span.to_json() for span in self._exporter.get_finished_spans())


def check_spans(result: hn.TurnResult, at_once: AtOnce) -> None:
    """The spans that were written at the first look are those that would have been written at once."""
    assert sorted(kept.span.to_json() for kept in result.trace._source._store.spans()) == at_once.written()


def check_record(told: Sequence[hn.Event]) -> None:
    """Numbers without gaps, scopes inside each other, each of them ended."""
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    open_scopes: dict[int, int] = {}
    for event in told:
        if event.phase == "started":
            assert event.parent == 0 or event.parent in open_scopes
            open_scopes[event.scope] = event.parent
        elif event.phase == "ended":
            assert event.scope not in open_scopes.values()
            open_scopes.pop(event.scope)
        else:
            assert event.scope == 0 or event.scope in open_scopes
    assert open_scopes == {}


def check_trace(result: hn.TurnResult) -> None:
    """The frames tell the same numbers as the result."""
    trace = result.trace
    turn = trace.turns_df().iloc[0]
    assert turn.exit_reason == result.exit_reason
    assert len(trace.iterations_df()) == result.iterations
    assert len(trace.refunds_df()) == result.refunds
    assert len(trace.attempts_df()) - len(trace.chats_df()[trace.chats_df().attempts > 0]) == result.retries
    assert trace.budget_df().delta.sum() == -result.budget.used
    assert trace.budget_df().seq.is_monotonic_increasing
    assert trace.budget_df().seq.is_unique
    assert not trace.spans_df().is_running.any()
