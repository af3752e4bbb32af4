"""The timeline of a turn: its spans as lanes of bars, what happened at one moment as marks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from hermes_nb.traces.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    TEAL,
    dressed,
    empty,
    explained,
    literal,
    new,
    titled,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from hermes_nb.traces.frames import Frames

OUTCOMES: Final = {
    "success": BLUE,
    "retry": ORANGE,
    "give_up": RED,
    "fallback": PURPLE,
    "compress": TEAL,
    "cancelled": GREY,
}
"""The tints of attempts."""
WAIT: Final[dict[str, Any]] = {"facecolor": "none", "edgecolor": ORANGE, "hatch": "/////", "linewidth": 0.6}
"""How a wait is drawn."""
_MOST: Final = 24
"""Lanes at most."""


class Bar(NamedTuple):
    """One bar: where it begins and how long it is, in seconds, its tint, and what is written on it."""

    start: float
    width: float
    color: str
    text: str = ""
    is_wait: bool = False


class Mark(NamedTuple):
    """What happened at one moment: when, in seconds, and of which kind."""

    at: float
    kind: str


MARKS: Final = {
    "fallback": ("D", PURPLE),
    "refund": ("^", TEAL),
    "steer": ("v", BLUE),
    "interrupt": ("X", RED),
}
"""Kinds of marks, with their shapes and tints."""
_EVENTS: Final = {"hermes.steer.applied": "steer", "hermes.interrupt.requested": "interrupt"}

Color = Callable[[Any], str]


def lanes(frames: Frames) -> dict[str, list[Bar]]:
    """The lanes from top to bottom; tools that overlap, and sub-agents, have lanes of their own."""
    turns = frames.turns_df()
    drawn = [_layer(*layer) for layer in _layers(frames)]
    out: dict[str, list[Bar]] = {}
    for turn in turns.itertuples():
        agent = "" if turn.Index == 0 else f"{turn.agent_name}: "
        for name, frame, bar in drawn:
            rows = frame[frame["turn_id"] == turn.turn_id]
            bars = [bar(row, turns["start_time"].min()) for row in rows.itertuples()]
            for place, lane in enumerate(_stacked(bars)):
                out[_unused(f"{agent}{name}" if not place else " ", out)] = lane
    return dict(list(out.items())[:_MOST])


def _layers(frames: Frames) -> list[tuple[str, pd.DataFrame, Color, Callable[[Any], str], bool]]:
    """What is drawn: name, frame, tint and text of a row, and whether it is a wait."""
    attempts = frames.attempts_df()
    if attempts.empty:
        attempts = frames.chats_df().assign(outcome="success")
    return [
        ("iterations", frames.iterations_df(), lambda _: GREY, _number, False),
        ("model", attempts, lambda row: OUTCOMES.get(row.outcome, GREY), _nothing, False),
        ("waits", frames.retries_df(), lambda _: ORANGE, _nothing, True),
        ("tools", frames.tool_calls_df(), _tool_color, lambda row: str(row.tool_name), False),
        ("compression", frames.compressions_df(), lambda _: TEAL, _nothing, False),
    ]


def _layer(
    name: str, frame: pd.DataFrame, color: Color, text: Callable[[Any], str], is_wait: bool
) -> tuple[str, pd.DataFrame, Callable[[Any, Any], Bar]]:
    def bar(row: Any, began: Any) -> Bar:
        start = (row.start_time - began).total_seconds()
        return Bar(start, row.duration.total_seconds(), color(row), text(row), is_wait)

    return name, frame[frame["start_time"].notna()], bar


def _nothing(_: Any) -> str:
    return ""


def _number(row: Any) -> str:
    return "grace" if row.grace else str(row.iteration)


def _tool_color(row: Any) -> str:
    if row.cancelled is True:
        return GREY
    return RED if row.status == "ERROR" else GREEN


def _unused(name: str, names: dict[str, list[Bar]]) -> str:
    return name if name not in names else _unused(f"{name} ", names)


def _stacked(bars: list[Bar]) -> list[list[Bar]]:
    """The bars in as few lanes as let none overlap."""
    out: list[list[Bar]] = []
    for bar in bars:
        free = (lane for lane in out if lane[-1].start + lane[-1].width <= bar.start)
        lane = next(free, None)
        if lane is None:
            out.append([bar])
        else:
            lane.append(bar)
    return out


def marks(frames: Frames) -> list[Mark]:
    """What happened at one moment."""
    began = frames.turns_df()["start_time"].min()
    events = frames.events_df()
    found = [("fallback", frames.fallbacks_df()["time"]), ("refund", frames.refunds_df()["time"])]
    found += [(kind, events.loc[events["name"] == name, "time"]) for name, kind in _EVENTS.items()]
    return [Mark((time - began).total_seconds(), kind) for kind, times in found for time in times]


def timeline(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw the timeline.

    Args:
        frames: The trace of one turn.
        ax: Where; new axes if left out.
    """
    rows = lanes(frames)
    ax = dressed(new(10, 1.1 + 0.34 * max(len(rows), 2)) if ax is None else ax, grid="x")
    titled(ax, "Timeline")
    if not rows:
        return empty(ax, "no turns yet")
    end = max(bar.start + bar.width for bars in rows.values() for bar in bars) or 1e-9
    for place, bars in enumerate(rows.values()):
        _draw(ax, place, bars, end)
    ax.set_yticks(range(len(rows)), [literal(name.rstrip()) for name in rows])
    ax.set_ylim(len(rows) - 0.4, -1.2)
    ax.set_xlim(0, end * 1.01)
    ax.set_xlabel("seconds from the start of the turn")
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    _explain(ax, rows, _mark(ax, frames))
    return ax


def _draw(ax: Axes, place: int, bars: list[Bar], end: float) -> None:
    for bar in bars:
        gap = end * 0.002
        width = max(bar.width - gap, gap)
        if bar.is_wait:
            ax.barh(place, width, 0.5, bar.start, **WAIT)
        else:
            ax.barh(place, width, 0.62, bar.start, color=bar.color, linewidth=0)
        if bar.text and width > end * 0.009 * len(bar.text):
            middle = bar.start + width / 2
            text = literal(bar.text)
            ax.text(middle, place + 0.02, text, ha="center", va="center", color="white", fontsize=7, clip_on=True)


def _mark(ax: Axes, frames: Frames) -> list[str]:
    """Draw the marks above the lanes; returns their kinds."""
    found = marks(frames)
    for mark in found:
        shape, color = MARKS[mark.kind]
        ax.plot(mark.at, -0.8, marker=shape, color=color, markersize=6, linestyle="none", clip_on=False)
        ax.axvline(mark.at, color=color, alpha=0.35, linewidth=0.8)
    return list(dict.fromkeys(mark.kind for mark in found))


def _explain(ax: Axes, rows: dict[str, list[Bar]], kinds: list[str]) -> None:
    used = {bar.color for bars in rows.values() for bar in bars if not bar.is_wait}
    names = {BLUE: "model", ORANGE: "retried", PURPLE: "gave up", GREEN: "tool", RED: "failed", TEAL: "compression"}
    handles: list[Any] = [Patch(color=color, label=name) for color, name in names.items() if color in used]
    if any(bar.is_wait for bars in rows.values() for bar in bars):
        handles.append(Patch(**WAIT, label="wait"))
    for kind in kinds:
        shape, color = MARKS[kind]
        handles.append(Line2D([], [], marker=shape, color=color, linestyle="none", markersize=5, label=kind))
    explained(ax, handles)


__all__ = ["Bar", "Mark", "lanes", "marks", "timeline"]
