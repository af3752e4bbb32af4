"""A snapshot in numbers: the gauges, and what each lane of the timeline adds up to. The same for every view."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hermes_nb.widgets import words

if TYPE_CHECKING:
    from hermes_nb.widgets.monitor import Snapshot


TIGHT = 0.9
"""The fraction of a limit from which on a gauge warns."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A number with what it is measured against.

    Attributes:
        id: `iterations`, `context`, `tokens`, `cost` or `time`.
        label: Its heading.
        value: The number, large.
        of: Against what; empty without a limit.
        fraction: How much of the limit; None without one.
        notes: What must be known besides.
        cells: For iterations: how many cells the bar has; 0 for a plain bar.
        filled: Cells used, those given back, and whether there is one more for the grace call.
        tight: The fraction from which on the bar warns; None for never.
    """

    id: str
    label: str
    value: str
    of: str = ""
    fraction: float | None = None
    notes: tuple[str, ...] = ()
    cells: int = 0
    filled: tuple[int, int, bool] = (0, 0, False)

    tight: float | None = TIGHT

    def as_dict(self) -> dict[str, Any]:
        """The gauge as the browser is told of it."""
        return asdict(self) | {"notes": list(self.notes), "filled": list(self.filled)}


CELLS = 32
"""Iterations up to which each has a cell of its own."""


def gauges(snapshot: Snapshot, now: int) -> list[Gauge]:
    """The gauges, in their order; `now` in nanoseconds since the epoch. What is not measured is left out."""
    made = [_iterations(snapshot), _context(snapshot), _tokens(snapshot), _cost(snapshot), _time(snapshot, now)]
    return [gauge for gauge in made if gauge is not None]


def _iterations(snapshot: Snapshot) -> Gauge:
    budget = snapshot.budget
    notes = []
    if budget.refunded:
        notes.append(f"{budget.refunded} given back")
    if budget.grace:
        notes.append("grace call")
    return Gauge(
        "iterations", "Iterations", str(budget.used), f"of {budget.limit}",
        budget.used / budget.limit if budget.limit else None, tuple(notes),
        budget.limit if budget.limit <= CELLS else 0, (budget.used, budget.refunded, bool(budget.grace)),
        tight=None,  # a budget is there to be used
    )  # fmt: skip


def _context(snapshot: Snapshot) -> Gauge:
    context = snapshot.context
    of, fraction = "tokens", None
    if context.window:
        of, fraction = f"of {words.count(context.window)}", min(1.0, context.tokens / context.window)
    value = words.count(context.tokens) if context.real else f"≈ {words.count(context.tokens)}"
    return Gauge("context", "Context", value, of, fraction, () if context.real else ("estimated",))


def _tokens(snapshot: Snapshot) -> Gauge:
    usage, limit = snapshot.spent.usage, snapshot.limits.tokens
    of, fraction = (f"of {words.count(limit)}", min(1.0, usage.total_tokens / limit)) if limit else ("", None)
    notes = [f"{words.count(usage.input_tokens)} in", f"{words.count(usage.output_tokens)} out"]
    if usage.cache_read_tokens:
        notes.append(f"{words.count(usage.cache_read_tokens)} cached")
    return Gauge("tokens", "Tokens", words.count(usage.total_tokens), of, fraction, tuple(notes))


def _cost(snapshot: Snapshot) -> Gauge | None:
    cost, limit = snapshot.spent.cost_usd, snapshot.limits.cost_usd
    if cost is None and limit is None:
        return None
    of, fraction = (f"of {words.dollars(limit)}", min(1.0, (cost or 0.0) / limit)) if limit else ("", None)
    return Gauge("cost", "Cost", words.dollars(cost or 0.0), of, fraction)


def _time(snapshot: Snapshot, now: int) -> Gauge:
    turn, limit = snapshot.turn, snapshot.limits.seconds
    spent = ((turn.ended or now) - turn.started) / words.NANO if turn.started else 0.0
    of, fraction = (f"of {words.duration(limit)}", min(1.0, max(0.0, spent / limit))) if limit else ("", None)
    return Gauge("time", "Time", words.seconds(spent), of, fraction)


@dataclass(frozen=True, slots=True)
class LaneTotal:
    """One lane of the timeline in numbers."""

    lane: str
    bars: int
    seconds: float


LANES = {
    "model": "model",
    "tools": "tools",
    "waits": "waits",
    "compression": "compress",
    "agents": "agents",
}
"""The lanes in their order, and how they are called."""


def lane_totals(snapshot: Snapshot, now: int) -> list[LaneTotal]:
    """The lanes that have bars; parallel bars count each."""
    totals = []
    bars = snapshot.timeline
    for lane in LANES:
        own = [bar for bar in bars if bar.lane == lane]
        if own:
            totals.append(LaneTotal(lane, len(own), sum(((bar.end or now) - bar.start) / words.NANO for bar in own)))
    return totals
