"""How a run shows itself: the panel where there can be one, text and static HTML everywhere else."""

from __future__ import annotations

import importlib.util
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from IPython import get_ipython
from IPython.display import display

from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.painter import painter
from hermes_nb.widgets.parts import Answering, Facts
from hermes_nb.widgets.record import HEIGHT, html
from hermes_nb.widgets.stopping import idle_stop
from hermes_nb.widgets.text import plain

if TYPE_CHECKING:
    from hermes_nb.run import Run
    from hermes_nb.widgets.painter import Painted
    from hermes_nb.widgets.sweep import Studied

_HEIGHTS = range(160, 4_000)
"""Heights in pixels that are believed; a hidden cell has none."""
_shown_here: WeakSet[Studied] = WeakSet()
"""The sweeps whose panels are in the cell that is being run."""


def show(run: Run) -> None:
    """Show a run in the cell that is being run: live as long as it goes on, then as a record of it.

    In a kernel this is the panel, in a terminal a few lines of text. A run that is over is shown as its record.
    """
    shell = get_ipython()
    output = Output()
    if getattr(shell, "kernel", None) is None or run.done:
        output.publish(_bundle(snapshot_of(run)), update=False)
        return
    if importlib.util.find_spec("anywidget") is None:
        live: Still | Any = Still(run, output)
    else:
        from hermes_nb.widgets.panel import Panel  # noqa: PLC0415  where it is not installed, text is shown

        live = Panel(run, before(run), output.freeze)
        output.publish(_bundle(live.snapshot) | view(live), update=False)
    _keep_up(shell, live)


def before(run: Run) -> Snapshot:
    """What is known of a run before its first event."""
    first = run.agent.models[0]
    facts = Facts(run.agent.name, provider=first.name, model=first.model)
    return Snapshot(run.turn_id, facts, model=Answering(first.name, first.model)).with_budget(run.budget.view())


def snapshot_of(run: Run) -> Snapshot:
    """The run as it is now."""
    past = run.subscribe(_ignore)
    run.unsubscribe(_ignore)
    return before(run).after_all(past).with_budget(run.budget.view())


def show_study(study: Studied) -> None:
    """Show a sweep, once in a cell: live as long as it goes on, then as a record of it."""
    if study in _shown_here:
        return
    from hermes_nb.widgets import sweep  # noqa: PLC0415  brings the widgets in

    def bundle(tally: sweep.Tally) -> dict[str, Any]:
        return {"text/plain": sweep.plain(tally), "text/html": sweep.html(tally)}

    def freeze(tally: sweep.Tally) -> dict[str, Any]:
        record = bundle(tally)
        output.publish(record, update=True)
        return record

    shell, output, tally = get_ipython(), Output(), sweep.Tally.of(study.progress)
    if getattr(shell, "kernel", None) is None or study.done:
        output.publish(bundle(tally), update=False)
        return
    _shown_here.add(study)
    panel = sweep.SweepPanel(study, freeze)
    output.publish(bundle(tally) | view(panel), update=False)
    _keep_up(shell, panel)


def _keep_up(shell: Any, live: Painted) -> None:
    painter.add(live)
    idle_stop.watch()
    shell.events.register("post_run_cell", _at_the_end_of_a_cell)


def view(widget: Any) -> dict[str, Any]:
    """The representation that a front end with widgets shows."""
    model = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return {"application/vnd.jupyter.widget-view+json": model}


class Output:
    """One output of a cell, which can be replaced later."""

    def __init__(self) -> None:
        self._id = uuid.uuid4().hex

    def publish(self, bundle: dict[str, Any], *, update: bool) -> None:
        """Show a bundle of representations, or put it in the place of the one before."""
        display(bundle, raw=True, display_id=self._id, update=update)  # type: ignore[no-untyped-call]  # IPython's

    def freeze(self, snapshot: Snapshot, height: int) -> dict[str, Any]:
        """Leave the record of the turn, as high as the panel was; returns it."""
        record = _bundle(snapshot, height if height in _HEIGHTS else HEIGHT)
        self.publish(record, update=True)
        return record


class Still:
    """A line of text that becomes the record at the end: for a kernel without widgets."""

    def __init__(self, run: Run, output: Output) -> None:
        self._run = run
        self._output = output
        output.publish({"text/plain": plain(snapshot_of(run), time.time_ns())}, update=False)

    def paint(self) -> bool:
        """Replace the line once the run is over."""
        if self._run.done:
            self._output.freeze(snapshot_of(self._run), 0)
        return not self._run.done

    def stop(self) -> None:
        """End the turn."""
        self._run.interrupt(source="kernel")


def _bundle(snapshot: Snapshot, height: int = HEIGHT) -> dict[str, Any]:
    now = time.time_ns()
    return {"text/plain": plain(snapshot, now), "text/html": html(snapshot, now, height)}


def _ignore(_: object) -> None:
    pass


def _at_the_end_of_a_cell(result: object = None) -> None:
    """Nobody may be listening after the cell: paint the last state before it ends."""
    _shown_here.clear()
    idle_stop.cell_ended(result)
    painter.finish()
    if painter.idle:
        shell = get_ipython()
        with suppress(ValueError):
            shell.events.unregister("post_run_cell", _at_the_end_of_a_cell)
