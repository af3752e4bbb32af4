"""The monitor: how an event changes what the panel shows.

`Snapshot.after(event)` is a pure function. A snapshot never changes; it shares its two long parts, the transcript and
the timeline, with the snapshots before and after it (`Log`), so that an event costs the same in a turn of ten rows
and in one of ten thousand. Nothing that is missing, late or twice may raise: the worst is a gap in what is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from hermes_nb.widgets import points, scopes
from hermes_nb.widgets.log import Log
from hermes_nb.widgets.parts import Answering, Bar, Budget, Context, Draft, Facts, Limits, Row, Spent, Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from hermes_nb.vocabulary.budget import BudgetView
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.widgets.parts import Activity, Note, Where


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the panel shows of a turn at one moment.

    Attributes:
        turn_id: The turn; the events of other turns are those of its sub-agents. Empty: the first event's.
        turn: The turn as a whole.
        limits: What it may not exceed.
        windows: The context windows of the chain, in tokens, by `provider:model`; what is not known is missing.
        model: Who answers.
        budget: The iterations.
        context: How full the window is.
        spent: Tokens, money, counts.
        iteration: The iteration under way, or the last one.
        open: The scopes that are open, in the order in which they began.
        rows: Versions of the transcript's rows, in the order of what happened.
        bars: Versions of the timeline's bars.
        calls: The rows of the tool calls of this iteration, by the call's id.
        draft: The reply that is being streamed.
        steers: Every steer and what became of it.
        paused: The turn waits at a boundary.
        stop: The interrupt that was asked for.
    """

    turn_id: str = ""
    turn: Facts = field(default_factory=Facts)
    limits: Limits = field(default_factory=Limits)
    windows: Mapping[str, int] = field(default_factory=dict)
    model: Answering = field(default_factory=Answering)
    budget: Budget = field(default_factory=Budget)
    context: Context = field(default_factory=Context)
    spent: Spent = field(default_factory=Spent)
    iteration: int = 0
    open: Mapping[Where, Activity] = field(default_factory=dict)
    rows: Log[Row] = field(default_factory=Log)
    bars: Log[Bar] = field(default_factory=Log)
    calls: Mapping[str, Row] = field(default_factory=dict)
    draft: Draft = field(default_factory=Draft)
    steers: tuple[Note, ...] = ()
    paused: bool = False
    stop: Stop = field(default_factory=Stop)

    def after(self, event: Event) -> Snapshot:
        """The snapshot once `event` has happened."""
        known = self if self.turn_id else replace(self, turn_id=event.turn_id)
        changes = _OWN if event.turn_id == known.turn_id else _CHILDREN
        change = changes.get((event.what.kind, event.phase))
        return known if change is None else change(known, event)

    def after_all(self, events: Iterable[Event]) -> Snapshot:
        """The snapshot once all `events` have happened."""
        return reduce(Snapshot.after, events, self)

    def with_budget(self, view: BudgetView) -> Snapshot:
        """The snapshot with a look at the budget itself, which moves without an event when a sub-agent uses it."""
        if view.sequence <= self.budget.sequence:
            return self
        budget = replace(
            self.budget,
            limit=view.limit,
            used=view.used,
            remaining=view.remaining,
            refunded=view.refunded,
            sequence=view.sequence,
        )
        return replace(self, budget=budget)

    @property
    def transcript(self) -> list[Row]:
        """The rows, each once, in its last version."""
        return list({row.key: row for row in self.rows}.values())

    @property
    def timeline(self) -> list[Bar]:
        """The bars, each once, in its last version."""
        return list({bar.key: bar for bar in self.bars}.values())

    @property
    def ended(self) -> bool:
        """The turn is over."""
        return bool(self.turn.ended)


Change: TypeAlias = "Callable[[Snapshot, Event], Snapshot]"

_OWN: dict[tuple[str, str], Change] = {
    ("turn", "started"): scopes.turn_started,
    ("turn", "ended"): scopes.turn_ended,
    ("iteration", "started"): scopes.iteration_started,
    ("iteration", "ended"): scopes.closed,
    ("refund", "ended"): scopes.refund_ended,
    ("chat", "started"): scopes.chat_started,
    ("chat", "ended"): scopes.chat_ended,
    ("attempt", "started"): scopes.attempt_started,
    ("attempt", "ended"): scopes.attempt_ended,
    ("retry", "started"): scopes.retry_started,
    ("retry", "ended"): scopes.retry_ended,
    ("fallback", "started"): scopes.fallback_started,
    ("fallback", "ended"): scopes.fallback_ended,
    ("compression", "started"): scopes.compression_started,
    ("compression", "ended"): scopes.compression_ended,
    ("tool", "started"): scopes.tool_started,
    ("tool", "ended"): scopes.tool_ended,
    ("budget", "point"): points.budget_changed,
    ("message", "point"): points.message_added,
    ("delta", "point"): points.delta,
    ("steer", "point"): points.steered,
    ("interrupt", "point"): points.interrupt,
    ("pause", "point"): points.paused,
    ("degraded", "point"): points.degraded,
    ("fork", "point"): scopes.forked,
}
_CHILDREN: dict[tuple[str, str], Change] = {
    ("turn", "started"): scopes.child_started,
    ("turn", "ended"): scopes.child_ended,
    ("iteration", "started"): scopes.child_iteration,
    ("chat", "ended"): scopes.spend,
}
