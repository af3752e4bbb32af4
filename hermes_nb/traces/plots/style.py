"""How all pictures look: transparent, with tints and text of middle brightness, for light and dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib.pyplot as plt

from hermes_nb.traces.pages import COLORS, RED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

INK: Final = "#808080"
GREY: Final = "#909090"
GREEN: Final = COLORS["tool"]
BLUE: Final = COLORS["chat"]
LIGHT_BLUE: Final = COLORS["attempt"]
ORANGE: Final = COLORS["retry"]
TEAL: Final = COLORS["compression"]
PURPLE: Final = COLORS["fallback"]
SERIES: Final = (BLUE, GREEN, ORANGE, PURPLE, TEAL, "#c2185b", "#795548", "#607d8b")
"""Tints for lines that have no meaning of their own."""

__all__ = [
    "BLUE", "GREEN", "GREY", "INK", "LIGHT_BLUE", "ORANGE", "PURPLE", "RED", "SERIES", "TEAL", "dressed", "explained",
    "literal", "new", "titled",
]  # fmt: skip


def new(width: float, height: float) -> Axes:
    """Axes in a figure of their own; sizes in inches."""
    _, ax = plt.subplots(figsize=(width, height), layout="constrained", dpi=110)
    return ax


def dressed(ax: Axes, *, grid: str = "") -> Axes:
    """The axes without a background, with quiet lines.

    Args:
        ax: The axes.
        grid: `x` or `y` for faint lines across.
    """
    ax.figure.patch.set_visible(False)  # behind a patch with an alpha of 0 Jupyter puts a dark box
    ax.patch.set_alpha(0)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
        spine.set_alpha(0.5)
    ax.tick_params(colors=INK, labelsize=9, length=3)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    ax.xaxis.label.set_fontsize(9)
    ax.yaxis.label.set_fontsize(9)
    ax.set_axisbelow(True)
    if grid:
        ax.grid(axis=grid, color=INK, alpha=0.2, linewidth=0.7)  # type: ignore[arg-type]  # x or y
    return ax


def literal(text: object) -> str:
    """Text of others as it stands: dollar signs make no formula, and what cannot be printed is replaced."""
    shown = (c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in str(text))
    return "".join(shown).replace("$", r"\$")


def titled(ax: Axes, text: str) -> None:
    """A title at the left."""
    ax.set_title(text, loc="left", color=INK, fontsize=10, fontweight="bold", pad=8)


def explained(ax: Axes, marks: Sequence[Any]) -> None:
    """A quiet legend above the picture, at the right."""
    if marks:
        ax.legend(
            handles=list(marks), loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(marks), frameon=False,
            fontsize=8, labelcolor=INK, handlelength=1.1, handletextpad=0.5, columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip


def empty(ax: Axes, text: str) -> Axes:
    """Says that there is nothing to draw."""
    ax.text(0.5, 0.5, text, ha="center", va="center", color=INK, fontsize=9, transform=ax.transAxes)
    ax.set_xticks([])
    ax.set_yticks([])
    return ax
