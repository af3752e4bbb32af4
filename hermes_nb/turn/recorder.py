"""The recorder: tells the sinks what happens, in order, and keeps a failing sink from the turn."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from contextvars import ContextVar
from typing import TYPE_CHECKING, Generic, TypeVar

from hermes_nb.vocabulary.events import Degraded, Event, Iteration
from hermes_nb.vocabulary.failures import in_words

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager
    from types import TracebackType

    from hermes_nb.turn.redaction import Redact
    from hermes_nb.vocabulary.events import Phase, Point, Scoped, Sink, What

logger = logging.getLogger("hermes_nb")

_current: ContextVar[tuple[int, int]] = ContextVar("hermes_nb_scope", default=(0, 0))
"""The innermost open scope and the iteration under way, in this task or thread."""

S = TypeVar("S", bound="Scoped")


def is_control_c(error: BaseException) -> bool:
    """Whether the user has stopped what the main thread does: Python tells that there, between any two instructions."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


class Recorder:
    """Publishes events to sinks; safe to use from any thread.

    Every sink sees every event of the turn once, in the order of `seq`, and is never called by two threads at a time.
    A sink that raises is logged, told of to the others, and not called again.

    Args:
        turn_id: The turn.
        conversation_id: The conversation that it belongs to.
        sinks: Functions of one event.
        redact: Applied to each thing before any sink sees it; takes keys out of texts.
    """

    def __init__(
        self,
        turn_id: str,
        conversation_id: str,
        sinks: Iterable[Sink] = (),
        redact: Redact | None = None,
    ) -> None:
        self.turn_id = turn_id
        self.conversation_id = conversation_id
        self.failed_sinks = 0
        self._sinks = list(sinks)
        self._redact = redact
        self._lock = threading.RLock()
        self._queue: deque[Event] = deque()
        self._seq = 0
        self._scopes = itertools.count(1)
        self._stopped: BaseException | None = None

    def child(self, turn_id: str) -> Recorder:
        """A recorder for a sub-agent's turn: the same sinks, numbers of its own."""
        recorder = Recorder(turn_id, self.conversation_id, (), self._redact)
        recorder._sinks, recorder._lock, recorder._queue = self._sinks, self._lock, self._queue
        return recorder

    def tell(self, what: Point) -> None:
        """Publish something that happens at one moment."""
        scope, iteration = _current.get()
        self._publish("point", what, scope, scope, iteration)

    def scope(self, what: S) -> Scope[S]:
        """Publish the beginning and the end of something; the body fills in the fields known at the end.

        Returns:
            A context manager that gives `what`.
        """
        return Scope(self, what)

    def _publish(
        self, phase: Phase, what: What, scope: int, parent: int, iteration: int, *, interrupted: bool = False
    ) -> list[AbstractContextManager[object]]:
        """Tell each sink; returns the context managers that they want around the scope.

        What a sink tells while it is being told comes after: every sink sees the events in the order of `seq`.
        """
        with self._lock:
            self._seq += 1
            shown = what if self._redact is None else self._redact(what, phase)
            event = Event(
                self._seq, phase, time.time_ns(), self.turn_id, self.conversation_id,
                iteration, scope, parent, shown, interrupted,
            )  # fmt: skip
            self._queue.append(event)
            if len(self._queue) > 1:
                return []
            wanted = self._deliver(event)
            while len(self._queue) > 1:
                self._queue.popleft()
                self._deliver(self._queue[0])
            self._queue.clear()
            stopped, self._stopped = self._stopped, None
        if stopped is not None:
            raise stopped
        return wanted

    def _deliver(self, event: Event) -> list[AbstractContextManager[object]]:
        wanted = []
        for sink in tuple(self._sinks):
            try:
                manager = sink(event)
            except BaseException as error:  # noqa: BLE001  a sink may never break the turn
                if is_control_c(error):
                    self._stopped = error  # raised again once every sink has been told
                else:
                    self._drop(sink, error)
            else:
                if manager is not None and event.phase == "started":
                    wanted.append(manager)
        return wanted

    def _drop(self, sink: Sink, error: BaseException) -> None:
        self._sinks.remove(sink)
        self.failed_sinks += 1
        name = getattr(sink, "__qualname__", type(sink).__qualname__)
        logger.warning("the sink %s failed and is not told any more of this turn", name, exc_info=error)
        self.tell(Degraded("sink", f"{name}: {in_words(error)}"))


class Scope(Generic[S]):
    """One scope; made by `Recorder.scope`. `number` identifies it within the turn."""

    __slots__ = ("_iteration", "_managers", "_parent", "_recorder", "_token", "number", "what")

    def __init__(self, recorder: Recorder, what: S) -> None:
        self._recorder = recorder
        self.what = what
        self.number = next(recorder._scopes)  # noqa: SLF001  the scope is the recorder's other half

    def __enter__(self) -> S:
        self._parent, self._iteration = _current.get()
        if isinstance(self.what, Iteration):
            self._iteration = self.what.number
        self._token = _current.set((self.number, self._iteration))
        self._managers: list[AbstractContextManager[object]] = []
        for manager in self._begun():
            try:
                manager.__enter__()
            except BaseException as error:
                if is_control_c(error):
                    raise
                logger.warning("a sink's context manager could not be entered", exc_info=True)
            else:
                self._managers.append(manager)
        return self.what

    def _begun(self) -> list[AbstractContextManager[object]]:
        recorder = self._recorder
        try:
            return recorder._publish("started", self.what, self.number, self._parent, self._iteration)  # noqa: SLF001
        except KeyboardInterrupt as stop:  # what has begun is ended too
            self.__exit__(type(stop), stop, stop.__traceback__)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        _current.reset(self._token)  # what a sink tells of the end happens outside of the scope
        self._recorder._publish(  # noqa: SLF001
            "ended", self.what, self.number, self._parent, self._iteration, interrupted=interrupted
        )
        for manager in reversed(self._managers):
            try:
                manager.__exit__(None, None, None)
            except BaseException as broken:
                if is_control_c(broken):
                    raise
                logger.warning("a sink's context manager could not be left", exc_info=True)
