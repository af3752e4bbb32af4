"""A study: a sweep under way or over, its rows and frames, and the way to stop it."""

from __future__ import annotations

import atexit
import random
import shutil
import threading
import time
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from hermes_nb.interrupts import stop_button
from hermes_nb.lab.casework import Work, error_row, run_case
from hermes_nb.lab.changes import current
from hermes_nb.lab.executors import submitting
from hermes_nb.lab.journal import Journal
from hermes_nb.lab.slots import Slots
from hermes_nb.lab.studyframes import StudyFrames
from hermes_nb.turn.attempts import waiting
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Place, Row
    from hermes_nb.lab.changes import IfChanged
    from hermes_nb.lab.executors import Executor, Future
    from hermes_nb.lab.scoring import Scorer

LEAVING = 10.0
"""Seconds that the end of the program waits for turns to be stopped."""

Progress = dict[str, Any]
"""Numbers for people: total, done, resumed, running, completed, tokens, cost_usd, seconds, exit_reasons, state."""


class Study(StudyFrames):
    """The turns of a sweep; made by `hermes_nb.sweep`. Frames may be asked for while it runs.

    Attributes:
        cases: The ids of all cases, in the order of the grid.
        path: The logbook; its neighbours `.rows.jsonl` and `.parts` belong to it.
    """

    def __init__(self, cases: Iterable[Case], place: Place, score: Scorer | None) -> None:
        self._cases = {case.id: case for case in cases}
        super().__init__(place, Journal(place), list(self._cases.values()))
        self._score = score
        self._changed = threading.Condition()
        self._watchers: list[Callable[[Progress], object]] = []
        self._flying: dict[str, Future] = {}
        self._ends: Counter[str] = Counter()
        self._done = self._resumed = self._completed = self._tokens = 0
        self._cost: float | None = None
        self._state = "running"
        self._began, self._ended = time.monotonic(), 0.0
        self._closing = ExitStack()

    @property
    def path(self) -> Path:
        """The logbook."""
        return self._place.path

    @property
    def cases(self) -> list[str]:
        """The ids of all cases."""
        return list(self._cases)

    @property
    def done(self) -> bool:
        """Whether nothing runs any more."""
        return self._state != "running"

    # ------------------------------------------------------------------------------------- for people

    @property
    def progress(self) -> Progress:
        """How far it is: numbers for people, the same that watchers are told."""
        with self._changed:
            seconds = (self._ended or time.monotonic()) - self._began
            return {
                "total": len(self._cases),
                "done": self._done,
                "resumed": self._resumed,
                "running": len(self._flying),
                "completed": self._completed,
                "tokens": self._tokens,
                "cost_usd": self._cost,
                "seconds": seconds,
                "exit_reasons": dict(self._ends.most_common()),
                "state": self._state,
            }

    def subscribe(self, watcher: Callable[[Progress], object]) -> None:
        """Tell a function how far it is, now and after each case; a function that raises is not told any more."""
        self._watchers.append(watcher)
        self._tell()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; the notebook's Stop button, or Ctrl-C, stops the sweep.

        Args:
            timeout: Seconds; None for as long as it takes.

        Returns:
            Whether it is over.

        Raises:
            KeyboardInterrupt: The Stop button was pressed; all turns have ended in order by then.
        """
        with stop_button(self.stop) as button, self._changed:
            over = self._changed.wait_for(lambda: self.done, timeout)
            if button.presses:
                self._changed.wait_for(lambda: self.done)
                raise KeyboardInterrupt
            return over

    def stop(self) -> None:
        """Interrupt all turns that run, and begin no more; a later sweep with the same `path` goes on from there."""
        if not self.done:
            self._place.stop.touch()

    def __repr__(self) -> str:
        """How far it is, in one line."""
        now = self.progress
        ends = ", ".join(f"{count:,} {reason}" for reason, count in now["exit_reasons"].items())
        return f"<Study {now['state']}: {now['done']:,} of {now['total']:,} cases{'; ' if ends else ''}{ends}>"

    def _ipython_display_(self) -> None:
        from hermes_nb.widgets import show_study  # noqa: PLC0415  loaded with the first cell that shows a study

        show_study(self)

    def _repr_html_(self) -> str:
        now = self.progress
        cells = {
            "cases": f"{now['done']:,} of {now['total']:,}",
            "running": now["running"],
            **now["exit_reasons"],
            "tokens": f"{now['tokens']:,}",
            "US dollars": "-" if now["cost_usd"] is None else f"{now['cost_usd']:.4f}",
            "seconds": f"{now['seconds']:.1f}",
        }
        head = "".join(f"<th>{escape(str(name))}</th>" for name in cells)
        body = "".join(f"<td>{escape(str(value))}</td>" for value in cells.values())
        return (
            f"<p>Study {escape(now['state'])}, kept in {escape(str(self.path))}</p>"
            f"<progress max='{max(1, now['total'])}' value='{now['done']}'></progress>"
            f"<table><tr>{head}</tr><tr>{body}</tr></table>"
        )

    # ------------------------------------------------------------------------------------- the work

    def _start(
        self,
        executor: Executor | None,
        parallel: int,
        seed: int | None,
        concurrency: Mapping[str, int] | int | None,
        if_changed: IfChanged,
    ) -> None:
        """Take the study's files, leave out what is finished, and hand the rest out.

        Raises:
            ConfigurationError: Another kernel is running this study, the executor is none, or an agent has changed.
        """
        submit = submitting(executor)
        try:
            self._take_files()
            finished = current(self._journal, self._cases, self._score, if_changed)
        except BaseException:
            self._closing.close()
            raise
        for row in finished.values():
            self._count(row)
        self._resumed = len(finished)
        pending = [case for case in self._cases.values() if case.id not in finished]
        if seed is not None:
            random.Random(seed).shuffle(pending)  # noqa: S311  no secret
        slots = None if concurrency is None else Slots(self._place.slots, concurrency)
        work = partial(Work, place=self._place, score=self._score, waiting=waiting.get(), slots=slots)
        thread = threading.Thread(
            target=self._feed, args=(submit, pending, work, parallel), name="hermes_nb sweep", daemon=True
        )
        atexit.register(self._leave)
        self._closing.callback(atexit.unregister, self._leave)
        thread.start()

    def _leave(self) -> None:
        """At the end of the program: let what runs end in order, so that a later sweep finds nothing half done."""
        self.stop()
        with self._changed:
            self._changed.wait_for(lambda: self.done, LEAVING)

    def _take_files(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._place.lock, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            msg = f"another sweep is at work with {self.path}; stop it, or give this one another path"
            raise ConfigurationError(msg) from None
        self._closing.callback(lock.release)
        self._place.stop.unlink(missing_ok=True)
        shutil.rmtree(self._place.begun, ignore_errors=True)
        self._closing.callback(shutil.rmtree, self._place.begun, ignore_errors=True)
        self._place.slots.mkdir(exist_ok=True)
        self._closing.callback(shutil.rmtree, self._place.slots, ignore_errors=True)
        self._closing.callback(self._place.stop.unlink, missing_ok=True)

    def _feed(self, submit: Any, pending: list[Case], work: Callable[[Case], Work], parallel: int) -> None:
        """The thread's body: never more than `parallel` cases are under way."""
        slots = threading.Semaphore(parallel)
        stopped = False
        for case in pending:
            slots.acquire()
            if stopped := self._place.stop.exists():
                slots.release()
                break
            try:
                future = self._flying[case.id] = submit(run_case, work(case))
            except Exception as error:  # noqa: BLE001  an executor that is broken; told in the row
                self._land(case, error_row(case, error))
                slots.release()
            else:
                future.add_done_callback(partial(self._landed, case, slots))
        for _ in range(parallel):
            slots.acquire()
        self._end("stopped" if stopped or self._place.stop.exists() else "done")

    def _landed(self, case: Case, slots: threading.Semaphore, future: Future) -> None:
        try:
            row = future.result()
        except BaseException as error:  # noqa: BLE001  a lost worker, a cancelled future: told in the row
            row = error_row(case, error)
        try:
            self._land(case, row)
        finally:
            slots.release()

    def _land(self, case: Case, row: Row | None) -> None:
        """Keep the row of a case; None is a case that was stopped before it began."""
        if row is not None:
            self._journal.add(row)
        with self._changed:
            self._flying.pop(case.id, None)
            if row is not None:
                self._count(row)
        self._tell()

    def _count(self, row: Row) -> None:
        self._done += 1
        self._completed += bool(row.get("completed"))
        self._tokens += row.get("total_tokens") or 0
        self._ends[row.get("exit_reason") or "error"] += 1
        if (cost := row.get("cost_usd")) is not None:
            self._cost = (self._cost or 0.0) + cost

    def _tell(self) -> None:
        now = self.progress
        for watcher in tuple(self._watchers):
            try:
                watcher(now)
            except Exception:  # noqa: BLE001  a view may never break a sweep
                with suppress(ValueError):
                    self._watchers.remove(watcher)

    def _end(self, state: str) -> None:
        self._closing.close()
        with self._changed:
            self._state, self._ended = state, time.monotonic()
            self._changed.notify_all()
        self._tell()
