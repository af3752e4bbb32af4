"""The live panel of a run: one anywidget, which paints snapshots and passes on what the user wants.

Its two halves meet in few places: the traits `head`, `draft`, `rows` and `bars` go to the browser, small messages of
known kinds come back. Callbacks may arrive on any thread, so they only ask the run for something, which any thread may,
and leave the answer to the painter.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from hermes_nb.vocabulary.failures import in_words
from hermes_nb.widgets import assets, wire
from hermes_nb.widgets.commands import parse
from hermes_nb.widgets.painter import painter

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.run import Run
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.widgets.commands import Command
    from hermes_nb.widgets.monitor import Snapshot


class Panel(anywidget.AnyWidget):
    """Shows a run while it goes on, and lets the user steer, pause and stop it.

    Args:
        run: The run.
        snapshot: What is known of it before its first event.
        frozen: Called once, when there is nothing new any more, with the last snapshot and the panel's height in
            pixels (0 where no browser has told it); leaves the record in the panel's place, and returns it.
    """

    _esm = assets.script("panel.js")
    _css = assets.style()
    head = traitlets.Dict().tag(sync=True)
    draft = traitlets.Dict().tag(sync=True)
    rows = traitlets.Dict().tag(sync=True)
    bars = traitlets.Dict().tag(sync=True)

    def __init__(self, run: Run, snapshot: Snapshot, frozen: Callable[[Snapshot, int], dict[str, Any]]) -> None:
        self._run = run
        self._snapshot = snapshot
        self._frozen = frozen
        self._height = 0
        self._pausing = self._seen = self._over = False
        self._painting = Lock()
        self._record: dict[str, Any] = {}
        self._answers: deque[dict[str, Any]] = deque()
        self._row_pages, self._bar_pages = wire.Pages(wire.row), wire.Pages(wire.bar)
        self._body: dict[str, Any] = {}
        self._events: deque[Event] = deque()
        self._sink = self._events.append
        self._snapshot = snapshot.after_all(run.subscribe(self._sink))
        super().__init__(**self._fresh())
        self.on_msg(self._on_message)
        let_clicks_pass(self.comm)

    @property
    def snapshot(self) -> Snapshot:
        """What was painted last."""
        return self._snapshot

    # ------------------------------------------------------------------------------------- to the browser

    def paint(self) -> bool:
        """Bring the browser up to date; returns False once the run is over and shown as such."""
        with self._painting:
            if self._over:
                return False
            done = self._run.done  # before the events are taken: then the last one is among them
            self._catch_up(done=done)
            fresh = self._fresh()
            if fresh:
                with self.hold_sync():
                    for name, value in fresh.items():
                        setattr(self, name, value)
            self._answer()
            if done:
                self._finish()
        return not done

    def stop(self) -> None:
        """Interrupt the run."""
        self._run.interrupt(source="kernel")

    def _catch_up(self, *, done: bool) -> None:
        events = [self._events.popleft() for _ in range(len(self._events))]
        snapshot = self._snapshot.after_all(events).with_budget(self._run.budget.view())
        if done and not snapshot.ended:  # the turn broke off without a word
            snapshot = replace(snapshot, turn=replace(snapshot.turn, ended=time.time_ns()))
        if snapshot.paused or snapshot.ended:
            self._pausing = False
        self._snapshot = snapshot

    def _fresh(self) -> dict[str, Any]:
        """The traits that have changed."""
        snapshot, fresh = self._snapshot, {}
        body = wire.head(snapshot, pausing=self._pausing)
        if body != self._body:
            self._body = body
            fresh["head"] = body | {"at": time.time_ns() // wire.MILLI}
        now = {
            "draft": wire.draft(snapshot.draft),
            "rows": self._row_pages.newest(snapshot.rows),
            "bars": self._bar_pages.newest(snapshot.bars),
        }
        return fresh | {name: value for name, value in now.items() if value != self._trait_values.get(name)}

    def _answer(self) -> None:
        while self._answers:
            answer = self._answers.popleft()
            if answer["kind"] == "pages":
                first_row, first_bar = answer["from"]
                answer |= {
                    "rows": self._row_pages.since(self._snapshot.rows, first_row),
                    "bars": self._bar_pages.since(self._snapshot.bars, first_bar),
                }
            self.send(answer | {"at": time.time_ns() // wire.MILLI})

    def _finish(self) -> None:
        """Leave a record in the panel's place.

        The widget itself stays for a browser that comes back later, and goes when the one that looks at it says that
        it has put the record there; where none has ever looked, at once, so that nothing of it is saved.
        """
        self._over = True
        self._run.unsubscribe(self._sink)
        self._record = self._frozen(self._snapshot, self._height)
        if not self._seen:
            with self.hold_sync():
                self.head, self.draft, self.rows, self.bars = {}, {}, {}, {}
                self._esm = self._css = ""
            self.close()

    # ------------------------------------------------------------------------------------- from the browser

    def _on_message(self, _: object, message: object, __: object) -> None:
        command = parse(message)
        if command is None:
            return
        self._seen = True
        if command.kind in _DEEDS:
            self._do(command)
        elif command.kind == "fetch":
            self._answers.append({"kind": "pages", "from": command.numbers})
        elif command.kind == "size":
            self._height = command.numbers[0]
        elif command.kind == "record" and self._over:
            self._answers.append(record(self, self._record))
        elif command.kind == "gone":
            self._gone()
        else:
            self._answers.append({"kind": "answer", "id": command.id, "error": ""})
        if self._over:
            with self._painting:
                self._answer()
        else:
            painter.hurry()

    def _do(self, command: Command) -> None:
        try:
            _DEEDS[command.kind](self._run, command)
        except Exception as error:  # noqa: BLE001  it belongs into the panel, not into the kernel's log
            problem = in_words(error)
        else:
            problem = ""
            self._pausing = command.kind == "pause" or (self._pausing and command.kind != "resume")
        self._answers.append({"kind": "answer", "id": command.id, "error": problem})

    def _gone(self) -> None:
        if self._over:
            self._answers.clear()
            self.close()


_DEEDS: dict[str, Callable[[Run, Command], object]] = {
    "steer": lambda run, command: run.steer(command.text),
    "interrupt": lambda run, _: run.interrupt(),
    "boundary": lambda run, _: run.interrupt(when="boundary"),
    "pause": lambda run, _: run.pause(),
    "step": lambda run, _: run.step(),
    "resume": lambda run, _: run.resume(),
}


def record(widget: Any, bundle: dict[str, Any]) -> dict[str, Any]:
    """The record for a browser that finds a live panel after the end.

    After a page was loaded again, the front end does not know any more which output is whose, so that the kernel's own
    update of it has reached nobody.
    """
    return {"kind": "record", "model": widget.model_id, "bundle": bundle}


def let_clicks_pass(comm: Any) -> None:
    """Let clicks be handled while a cell runs.

    ipykernel 7.4 sends a widget's messages to the shell that last published on its comm: the main one, which is busy
    while a cell runs. Without that routing they go where the front end sent them, to a shell of their own. The name is
    private, so a test watches it.
    """
    if hasattr(comm, "_reply_subshell_for"):
        with suppress(AttributeError):
            comm._reply_subshell_for = None  # noqa: SLF001  there is no public way
