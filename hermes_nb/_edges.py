"""The composition root: gives runs their trace and their panel, which live in layers above them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes_nb.run import Observation, Run
    from hermes_nb.telemetry import Observation as Observed
    from hermes_nb.traces import Trace
    from hermes_nb.vocabulary.events import Sink


class LazyEdges:
    """Loads telemetry with the first turn, frames with the first look at a trace, the panel with the first cell."""

    def observe(self, turn_id: str, tracer_provider: Any) -> Observation:
        """Trace a turn."""
        from hermes_nb.telemetry import observe  # noqa: PLC0415  loaded on first use

        return _Traced(turn_id, observe(tracer_provider))

    def show(self, run: Run) -> None:
        """Show a run in a notebook's cell."""
        from hermes_nb.widgets import show  # noqa: PLC0415  loaded on first use

        show(run)

    def end_with_this_cell(self) -> None:
        """Let the cell that is being run be the last one of those that are queued."""
        if "IPython" in sys.modules:
            from hermes_nb.widgets import end_with_this_cell  # noqa: PLC0415  brings IPython in

            end_with_this_cell()


class _Traced:
    def __init__(self, turn_id: str, observed: Observed) -> None:
        self._turn_id = turn_id
        self._observed = observed
        self._trace: Trace | None = None

    @property
    def sink(self) -> Sink:
        return self._observed.sink

    @property
    def trace(self) -> Trace:
        if self._trace is None:
            from hermes_nb.traces import Trace  # noqa: PLC0415  frames are heavy; loaded on first use

            self._trace = Trace.live(self._observed.store, self._turn_id)
        return self._trace
