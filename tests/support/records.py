"""What must hold for the record of every turn: its events, its trace, its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import hermes_nb as hn


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
