"""Pictures of many turns: how they ended, how long model calls took, how many tokens, why attempts failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from hermes_nb.traces.plots.style import (
    GREEN,
    GREY,
    INK,
    ORANGE,
    RED,
    SERIES,
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
    from matplotlib.figure import Figure

    from hermes_nb.traces.frames import Frames

_GOOD: Final = frozenset({"completed", "text_response"})
_STOPPED: Final = frozenset({"interrupted_by_user", "interrupted_by_kernel", "interrupted_by_parent"})
_LIMITS: Final = frozenset(
    {"budget_exhausted", "ceiling_reached", "max_iterations", "output_truncated", "guardrail_halt"}
)


def endings(frames: Frames) -> pd.Series[Any]:
    """How many turns ended for each reason, the most frequent first; `open` for those that have not."""
    turns = frames.turns_df()
    reasons = turns["exit_reason"].astype("str").where(turns["exit_reason"].notna(), _other(turns))
    return reasons.value_counts()


def _other(turns: pd.DataFrame) -> Any:
    return np.where(turns["is_running"].to_numpy(dtype=bool), "open", "ended")


def exit_reasons(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw how many turns ended for each reason.

    Args:
        frames: The traces.
        ax: Where; new axes if left out.
    """
    counts = endings(frames)[::-1]
    ax = dressed(new(6, 1.0 + 0.32 * max(len(counts), 2)) if ax is None else ax)
    titled(ax, "Why turns ended")
    if counts.empty:
        return empty(ax, "no turns")
    bars = ax.barh(
        list(map(literal, counts.index)), counts.to_numpy(), 0.62, color=[_tint(reason) for reason in counts.index]
    )
    ax.bar_label(bars, padding=3, color=INK, fontsize=8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("turns")
    ax.margins(x=0.12)
    ax.tick_params(axis="y", length=0)
    return ax


def _tint(reason: str) -> str:
    if reason in _GOOD:
        return GREEN
    if reason in _STOPPED or reason in _LIMITS:
        return ORANGE
    return GREY if reason in ("open", "ended") else RED


def shares(values: pd.Series[Any]) -> tuple[Any, Any]:
    """The sorted values, and which share of them is at most as large as each."""
    found = np.sort(values.dropna().to_numpy(dtype=float))
    return found, np.arange(1, len(found) + 1) / max(len(found), 1)


def _distribution(ax: Axes, groups: dict[str, pd.Series[Any]], xlabel: str) -> Axes:
    """Draw for each group which share is at most as large as x."""
    handles = []
    for color, (name, values) in zip(SERIES, groups.items(), strict=False):
        x, y = shares(values[values > 0])
        if len(x):
            ax.step(np.r_[x[0], x], np.r_[0, y], where="post", color=color, linewidth=1.8)
            handles.append(Line2D([], [], color=color, label=literal(f"{name} ({len(x):,})")))
    if not handles:
        return empty(ax, "nothing counted")
    ax.set_xscale("log")
    ax.set_ylim(0, 1.02)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(xlabel)
    ax.tick_params(which="minor", bottom=False)
    if len(handles) > 1 or len(groups) > 1:
        explained(ax, handles[:4])
    return ax


def latency(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw the distribution of how long model calls took, for each model.

    Args:
        frames: The traces.
        ax: Where; new axes if left out.
    """
    chats = frames.chats_df()
    seconds = chats["duration"].dt.total_seconds()
    names = chats["request_model"].astype("str").fillna("unknown model")
    groups = {str(name): seconds[names == name] for name in names.value_counts().index}
    ax = dressed(new(6, 2.8) if ax is None else ax, grid="y")
    titled(ax, "Model calls")
    return _distribution(ax, groups, "seconds, share of calls that took at most so long")


def token_totals(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw the distribution of tokens per turn.

    Args:
        frames: The traces.
        ax: Where; new axes if left out.
    """
    turns = frames.turns_df()
    groups = {"input": turns["input_tokens"], "output": turns["output_tokens"]}
    ax = dressed(new(6, 2.8) if ax is None else ax, grid="y")
    titled(ax, "Tokens per turn")
    return _distribution(ax, groups, "tokens, share of turns with at most so many")


def failures(frames: Frames) -> pd.DataFrame:
    """How many attempts failed for each reason (rows), at each provider (columns)."""
    attempts = frames.attempts_df()
    failed = attempts[attempts["retry_reason"].notna()]
    reasons, providers = failed["retry_reason"].astype("str"), failed["provider"].astype("str")
    table: pd.DataFrame = failed.groupby([reasons, providers]).size().unstack(fill_value=0)  # noqa: PD010  a count has no values to pivot
    return table.loc[table.sum(axis=1).sort_values().index]


def retries(frames: Frames, ax: Axes | None = None) -> Axes:
    """Draw how many attempts failed, by reason and provider.

    Args:
        frames: The traces.
        ax: Where; new axes if left out.
    """
    table = failures(frames)
    ax = dressed(new(6, 1.0 + 0.32 * max(len(table), 2)) if ax is None else ax)
    titled(ax, "Failed attempts by reason")
    if table.empty:
        return empty(ax, "no attempt failed")
    left = np.zeros(len(table))
    for color, provider in zip(SERIES, table.columns, strict=False):
        ax.barh(list(map(literal, table.index)), table[provider].to_numpy(), 0.62, left=left, color=color)
        left += table[provider].to_numpy()
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("attempts")
    ax.tick_params(axis="y", length=0)
    explained(ax, [Patch(color=color, label=literal(name)) for color, name in zip(SERIES, table.columns, strict=False)])
    return ax


def overview(frames: Frames) -> Figure:
    """Draw all four in one figure.

    Returns:
        The figure.
    """
    figure, places = plt.subplots(2, 2, figsize=(11, 6), layout="constrained", dpi=110)
    for draw, ax in zip((exit_reasons, latency, retries, token_totals), places.flat, strict=True):
        draw(frames, ax)
    return figure
