"""Pictures of traces, with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.traces.plots import overview, timeline, turn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hermes_nb.traces.frames import Frames


class TurnPlots:
    """Pictures of one turn: `trace.plot.timeline()`. Each draws on axes of yours, or on new ones, and returns them."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def timeline(self, ax: Axes | None = None) -> Axes:
        """Spans as lanes: iterations, model, waits, tools, compression; sub-agents below."""
        return timeline.timeline(self._frames, ax)

    def budget(self, ax: Axes | None = None) -> Axes:
        """What is left of the budget, with refunds and the grace call marked."""
        return turn.budget(self._frames, ax)

    def tokens(self, ax: Axes | None = None) -> Axes:
        """Tokens of each model call."""
        return turn.tokens(self._frames, ax)

    def attempts(self, ax: Axes | None = None) -> Axes:
        """Attempts of each model call, with the waits between them."""
        return turn.attempts(self._frames, ax)

    def figures(self) -> dict[str, Figure]:
        """All pictures, by name."""
        return {name: _figure(getattr(self, name)()) for name in ("timeline", "budget", "tokens", "attempts")}


class TracesPlots:
    """Pictures of many turns: `traces.plot.latency()`. Each draws on your axes or new ones and returns them."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def exit_reasons(self, ax: Axes | None = None) -> Axes:
        """How many turns ended for each reason."""
        return overview.exit_reasons(self._frames, ax)

    def latency(self, ax: Axes | None = None) -> Axes:
        """The distribution of how long model calls took, for each model."""
        return overview.latency(self._frames, ax)

    def tokens(self, ax: Axes | None = None) -> Axes:
        """The distribution of tokens per turn."""
        return overview.token_totals(self._frames, ax)

    def retries(self, ax: Axes | None = None) -> Axes:
        """Failed attempts by reason and provider."""
        return overview.retries(self._frames, ax)

    def overview(self) -> Figure:
        """All four in one figure."""
        return overview.overview(self._frames)

    def figures(self) -> dict[str, Figure]:
        """All pictures, by name."""
        return {"overview": self.overview()}


def _figure(ax: Axes) -> Figure:
    return ax.figure  # type: ignore[return-value]  # a figure, not a part of one: the axes are new
