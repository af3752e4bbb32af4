"""What a notebook shows: the live panel of a run, its record, the magics, the panel of a sweep.

The monitor (`Snapshot.after(event)`) is pure; text, static HTML and the live panel are three views of its snapshots.
Everything that needs IPython is imported on first use.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_nb.run import Run
    from hermes_nb.widgets.sweep import Studied

__all__ = ["end_with_this_cell", "in_a_notebook", "show", "show_study"]


def show(run: Run) -> None:
    """Show a run in the cell that is being run; see `hermes_nb.widgets.display.show`."""
    from hermes_nb.widgets import display  # noqa: PLC0415  brings IPython in

    display.show(run)


def end_with_this_cell() -> None:
    """Let the cell that is being run be the last of those that are queued; see `hermes_nb.widgets.stopping`."""
    from hermes_nb.widgets import stopping  # noqa: PLC0415  brings IPython in

    stopping.end_with_this_cell()


def in_a_notebook() -> bool:
    """Whether cells are run here, by a kernel."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def show_study(study: Studied) -> None:
    """Show a sweep in the cell that is being run; see `hermes_nb.widgets.display.show_study`."""
    from hermes_nb.widgets import display  # noqa: PLC0415  brings IPython in

    display.show_study(study)
