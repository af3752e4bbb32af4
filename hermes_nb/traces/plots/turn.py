"""Pictures of a turn's numbers: its budget, its tokens, its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from hermes_nb.traces.plots.style import (
    BLUE,
    GREEN,
    INK,
    LIGHT_BLUE,
    ORANGE,
    RED,
    SERIES,
    TEAL,
    dressed,
    empty,
    explained,
    literal,
    new,
    titled,
)
from hermes_nb.traces.plots.timeline import OUTCOMES, WAIT

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from hermes_nb.traces.frames import Frames

_ACTIONS: Final = {
    "refund": ("^", TEAL, "refund"),
    "grace_granted": ("*", ORANGE, "grace call"),
    "exhausted": ("X", RED, "exhausted"),
}
_MOST: Final = 60
"""Chats that are drawn one by one."""


def budget(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw what is left of the budget, change by change: one step line per turn.

    Args:
        frames: The trace of one turn.
        ax: Where; new axes if left out.
    """
    changes = frames.budget_df()
    ax = dressed(new(8, 2.8) if ax is None else ax, grid="y")
    titled(ax, "Budget")
    if changes.empty:
        return empty(ax, "no budget recorded")
    agents: dict[Any, Any] = dict(frames.turns_df()[["turn_id", "agent_name"]].itertuples(index=False))
    handles: list[Any] = []
    for color, (turn, rows) in zip(SERIES, changes.groupby("turn_id", sort=False), strict=False):
        place, left = rows.index.to_numpy(), rows["remaining"].to_numpy(dtype=float)
        until = np.r_[place, place[-1] + 1], np.r_[left, left[-1]]
        ax.step(*until, where="post", color=color, linewidth=1.8)
        ax.fill_between(*until, step="post", color=color, alpha=0.12, linewidth=0)
        handles.append(Line2D([], [], color=color, label=literal(agents.get(turn) or turn)))
        handles += _changes(ax, rows, place, left)
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("changes of the budget, in order")
    ax.set_ylabel("iterations left")
    explained(ax, list({handle.get_label(): handle for handle in handles}.values()))
    return ax


def _changes(ax: Axes, rows: pd.DataFrame, place: Any, left: Any) -> list[Line2D]:
    """Mark refunds, the grace call, and the end of the budget."""
    handles = []
    for action, (shape, color, name) in _ACTIONS.items():
        at = (rows["action"] == action).to_numpy()
        if at.any():
            size = 10 if shape == "*" else 7
            ax.plot(place[at], left[at], shape, color=color, markersize=size, clip_on=False, zorder=3)
            handles.append(Line2D([], [], marker=shape, color=color, linestyle="none", markersize=size - 2, label=name))
    return handles


def token_parts(frames: Frames) -> pd.DataFrame:
    """The tokens of each chat that is not part of another one: cached input, other input, output, reasoning."""
    chats = frames.chats_df()
    chats = chats[~chats["purpose"].isin(["reference", "judge"]) & chats["input_tokens"].notna()]
    agents = _agents(frames)
    known = chats[["input_tokens", "output_tokens", "cache_read_tokens", "reasoning_tokens"]].fillna(0)
    return known.assign(
        cached=known["cache_read_tokens"],
        read=known["input_tokens"] - known["cache_read_tokens"],
        written=known["output_tokens"] - known["reasoning_tokens"],
        thought=known["reasoning_tokens"],
        label=[literal(_numbered(row, agents)) for row in chats.itertuples()],
        span_id=chats["span_id"],
    )[["label", "cached", "read", "written", "thought", "span_id"]].reset_index(drop=True)


def _agents(frames: Frames) -> dict[Any, str]:
    """The names of the sub-agents by their turns."""
    turns = frames.turns_df()
    below = turns[turns["parent_turn_id"].notna()]
    return dict(zip(below["turn_id"], below["agent_name"].astype("str"), strict=True))


def _numbered(row: Any, agents: dict[Any, str]) -> str:
    """The iteration of a chat; a sub-agent's name below it."""
    number = f"{row.iteration:d}" if isinstance(row.iteration, int | np.integer) else ""
    agent = agents.get(row.turn_id, "")
    return f"{number}\n{agent}" if agent else number


def tokens(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw the tokens of each model call: read from a cache, read, written, thought.

    Args:
        frames: The trace of one turn.
        ax: Where; new axes if left out.
    """
    parts = token_parts(frames)
    ax = dressed(new(8, 2.8) if ax is None else ax, grid="y")
    titled(ax, "Tokens of each model call")
    if parts.empty:
        return empty(ax, "no tokens counted")
    tints = {"cached": LIGHT_BLUE, "read": BLUE, "written": GREEN, "thought": TEAL}
    names = {"cached": "input, cached", "read": "input", "written": "output", "thought": "reasoning"}
    below = np.zeros(len(parts))
    for part, color in tints.items():
        height = parts[part].to_numpy(dtype=float)
        ax.bar(range(len(parts)), height, 0.7, bottom=below, color=color, linewidth=0)
        below += height
    _number(ax, parts["label"].tolist())
    ax.set_xlabel("iteration")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")  # noqa: PLR2004  thousands
    explained(ax, [Patch(color=tints[part], label=names[part]) for part in tints if parts[part].sum()])
    return ax


def _number(ax: Axes, labels: list[str]) -> None:
    """Iterations below the bars, as many as fit."""
    step = max(1, len(labels) // 25)
    shown = range(0, len(labels), step)
    ax.set_xticks(list(shown), [labels[place] or str(place + 1) for place in shown])
    ax.set_xlim(-0.6, max(len(labels) - 0.4, 1.6))


def attempts(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw the attempts of each chat, with the waits between them, from the start of the chat.

    Args:
        frames: The trace of one turn.
        ax: Where; new axes if left out.
    """
    chats = frames.chats_df()
    requests, waits = frames.attempts_df(), frames.retries_df()
    chats = chats[chats["span_id"].isin(requests["chat_span_id"])].tail(_MOST).reset_index(drop=True)
    ax = dressed(new(8, 1.2 + 0.3 * max(len(chats), 2)) if ax is None else ax, grid="x")
    titled(ax, "Attempts of each model call")
    if chats.empty:
        return empty(ax, "no attempts")
    places = dict(zip(chats["span_id"], chats.index, strict=True))
    starts = dict(zip(chats["span_id"], chats["start_time"], strict=True))
    least = chats["duration"].max().total_seconds() * 0.004
    _bars(ax, waits, places, starts, least)
    _bars(ax, requests, places, starts, least)
    labels = [literal(f"{row.provider}:{row.request_model}  {_numbered(row, {})}") for row in chats.itertuples()]
    ax.set_yticks(range(len(chats)), labels)
    ax.set_ylim(len(chats) - 0.4, -0.9)
    ax.set_xlim(left=0)
    ax.set_xlabel("seconds from the start of the call")
    used = dict.fromkeys(requests["outcome"].dropna())
    handles = [Patch(color=OUTCOMES[name], label=name.replace("_", " ")) for name in OUTCOMES if name in used]
    explained(ax, handles + ([Patch(**WAIT, label="wait")] if len(waits) else []))
    return ax


def _bars(ax: Axes, rows: pd.DataFrame, places: dict[str, int], starts: dict[str, pd.Timestamp], least: float) -> None:
    row: Any
    for row in rows[rows["chat_span_id"].isin(list(places))].itertuples():
        start = (row.start_time - starts[row.chat_span_id]).total_seconds()
        width, place = max(row.duration.total_seconds(), least), places[row.chat_span_id]
        if hasattr(row, "wait"):
            ax.barh(place, width, 0.4, start, **WAIT)
            continue
        ax.barh(place, width, 0.6, start, color=OUTCOMES.get(row.outcome, INK), linewidth=0)
        if row.outcome != "success":
            known = isinstance(row.http_status, int | np.integer)
            text = str(row.http_status) if known else str(row.retry_reason)
            ax.text(start, place - 0.32, literal(text), color=INK, fontsize=7, va="bottom")
