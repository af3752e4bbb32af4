"""A run: one turn under way in a thread beside the notebook's, and the handle to watch, steer and stop it."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol
from weakref import WeakValueDictionary

import anyio

from hermes_nb.interrupts import stop_button
from hermes_nb.lanes import lane_for
from hermes_nb.tools.context import call_under_way
from hermes_nb.turn.inbox import Inbox
from hermes_nb.turn.loop import run_turn
from hermes_nb.turn.memory import Memory
from hermes_nb.turn.recorder import Recorder
from hermes_nb.turn.redaction import redactor
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping

    from hermes_nb.agent import Agent
    from hermes_nb.interrupts import StopButton
    from hermes_nb.session import Session
    from hermes_nb.tools.checkpoints import Restored
    from hermes_nb.traces import Trace
    from hermes_nb.turn.inbox import Source, Steer
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.budget import IterationBudget
    from hermes_nb.vocabulary.events import Event, Sink
    from hermes_nb.vocabulary.messages import Content


logger = logging.getLogger("hermes_nb")


class Observation(Protocol):
    """How a run is traced: a sink of its events, and the trace that comes of it."""

    @property
    def sink(self) -> Sink:
        """Makes the spans."""

    @property
    def trace(self) -> Trace:
        """The trace so far."""


class Edges(Protocol):
    """What the layers above give to a run: its trace and its panel. Set by the package's `__init__`."""

    def observe(self, turn_id: str, tracer_provider: Any) -> Observation:
        """Trace a turn."""

    def show(self, run: Run) -> None:
        """Show a run in a notebook's cell."""

    def end_with_this_cell(self) -> None:
        """Stop was pressed while a cell waited: the cells that follow it in the queue are not run."""


class Run:
    """One turn under way; made by `Agent.start`. Every method may be called from any thread.

    Shown in a notebook's cell, it is the live panel. `await run` and `run.result()` give the `TurnResult`.

    Attributes:
        agent: The agent whose turn it is.
        request: What the turn is asked to do.
        budget: The iterations that the turn may spend.
        turn_id: Identifies the turn.
        conversation_id: Identifies the conversation.
        tracer_provider: The user's own, which gets the spans too; None for none.
    """

    edges: Edges
    _known: ClassVar[WeakValueDictionary[str, Run]] = WeakValueDictionary()

    def __init__(
        self,
        agent: Agent,
        request: TurnRequest,
        budget: IterationBudget,
        *,
        session: Session | None = None,
        sinks: Iterable[Sink] = (),
        tracer_provider: Any = None,
        paused: bool = False,
    ) -> None:
        self.agent = agent
        self.request = request
        self.budget = budget
        self.turn_id = request.turn_id
        self.conversation_id = request.conversation_id
        self.tracer_provider = tracer_provider
        self._known[request.turn_id] = self
        self._session = session
        self._inbox = Inbox(paused=paused)
        self._memory = Memory()
        self._observation = self.edges.observe(request.turn_id, tracer_provider)
        store = () if session is None else (session.sink(request, self._tell_trouble),)
        self._recorder = Recorder(
            request.turn_id,
            request.conversation_id,
            (self._observation.sink, self._memory, *sinks, *store),  # the store last: it may tell of trouble
            redactor(request.secrets),
        )
        self._future: Future[TurnResult] = Future()
        self._future.set_running_or_notify_cancel()  # whoever waits may be cancelled, the turn's result may not
        self._lane = lane_for(request, budget, watched=bool(sinks) or tracer_provider is not None)

    # ------------------------------------------------------------------------------------- watch

    @property
    def state(self) -> Literal["running", "paused", "done"]:
        """Where the turn stands; `paused` once it waits at a boundary."""
        if self.done:
            return "done"
        return "paused" if self._inbox.waiting else "running"

    @property
    def done(self) -> bool:
        """Whether the turn is over."""
        return self._future.done()

    @property
    def trace(self) -> Trace:
        """The trace so far, also while the turn runs: frames, pictures, files."""
        return self._observation.trace

    @classmethod
    def find(cls, turn_id: str) -> Run | None:
        """The run of a turn of this process, while somebody holds it."""
        return cls._known.get(turn_id)

    @property
    def events(self) -> list[Event]:
        """What the turn has told so far, and the turns of its sub-agents."""
        return self._memory.events

    def subscribe(self, sink: Sink) -> list[Event]:
        """Watch the turn's events from now on.

        Args:
            sink: Called with each later event, exactly once, from the turn's threads. It must be quick, for other
                turns may run there too, and cannot wait for one that does.

        Returns:
            The events so far.
        """
        return self._memory.subscribe(sink)

    def unsubscribe(self, sink: Sink) -> None:
        """Stop watching."""
        self._memory.unsubscribe(sink)

    # ------------------------------------------------------------------------------------- steer and stop

    def steer(self, text: str) -> Steer:
        """Tell the model something while it works; read after the next tool results.

        Args:
            text: What the model is to read.

        Returns:
            A receipt; its `status` changes from `queued` to `delivered` or `undelivered`.

        Raises:
            ValueError: The text is blank.
        """
        return self._inbox.steer(text, self._tell_steer)

    def interrupt(self, *, when: Literal["now", "boundary"] = "now", source: Source = "user") -> bool:
        """End the turn; its messages so far are kept and stay valid.

        Args:
            when: `now` stops whatever runs; `boundary` lets the iteration under way finish.
            source: Who asks; part of the exit reason.

        Returns:
            Whether there was a turn left to interrupt.

        Raises:
            ValueError: There is no such moment or source.
        """
        requested = events.Interrupt(source, "requested")
        return self._inbox.interrupt(source, when=when, tell=lambda: self._recorder.tell(requested))

    def pause(self) -> None:
        """Let the turn wait before its next iteration."""
        self._inbox.pause()

    def step(self) -> None:
        """Let a paused turn run one iteration."""
        self._inbox.step()

    def resume(self) -> None:
        """Let a paused turn go on."""
        self._inbox.resume()

    # ------------------------------------------------------------------------------------- wait

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the turn, without its result.

        Args:
            timeout: Seconds; None for as long as it takes.

        Returns:
            Whether the turn is over.

        Raises:
            RuntimeError: The turn itself asks, without a timeout: a sink or a tool of it, or a sink in its thread.
        """
        if timeout is None:
            self._refuse_to_wait_for_oneself()
        return bool(wait((self._future,), timeout).done)

    def result(self, timeout: float | None = None) -> TurnResult:
        """Wait for the end of the turn; the notebook's Stop button interrupts it.

        The cell then goes on with the partial result, and the cells that were to follow it are not run. A second press
        gives up the waiting.

        Args:
            timeout: Seconds; None for as long as it takes.

        Raises:
            TimeoutError: The turn was not over in time; it goes on.
            KeyboardInterrupt: Stop was pressed a second time.
            RuntimeError: The turn itself asks: a sink or a tool of it, or a sink in its thread.
            Exception: A bug, ours or in code of yours that the turn called; a failing model is none.
        """
        self._refuse_to_wait_for_oneself()
        try:
            with stop_button(self._interrupt_by_kernel) as button:
                result = self._future.result(timeout)
        except KeyboardInterrupt:  # the second press, or one before the guard stood
            self._interrupt_by_kernel()
            raise
        return self._stopped_or_not(result, button)

    def _refuse_to_wait_for_oneself(self) -> None:
        """A wait in the turn's own lane, or in a tool that the turn waits for, would never end."""
        if not self.done and (self._lane.is_here or _is_called_by(self.turn_id)):
            msg = (
                "a turn cannot wait for its own end; a sink or a tool of it asked for it, or a sink of a turn beside it"
            )
            raise RuntimeError(msg)

    def _stopped_or_not(self, result: TurnResult, button: StopButton) -> TurnResult:
        if button.presses:
            self.edges.end_with_this_cell()
        if result.error is not None:
            raise result.error
        return result

    def _interrupt_by_kernel(self) -> None:
        self.interrupt(source="kernel")

    def __await__(self) -> Generator[Any, None, TurnResult]:
        """Wait for the end without blocking the event loop; cancelling the wait interrupts the turn."""
        return self._awaited().__await__()

    async def _awaited(self) -> TurnResult:
        self._refuse_to_wait_for_oneself()
        with stop_button(self._interrupt_by_kernel, asyncio.current_task()) as button:
            waiting = asyncio.wrap_future(self._future)
            try:
                result = await asyncio.shield(waiting)
            except asyncio.CancelledError:
                self.interrupt()
                if button.presses < 2:  # noqa: PLR2004  the second press gives up the waiting
                    with anyio.CancelScope(shield=True):  # anyio cancels again at every await
                        await asyncio.shield(waiting)
                raise
        return self._stopped_or_not(result, button)

    # ------------------------------------------------------------------------------------- go on

    def reply(
        self,
        prompt: Content,
        *,
        sinks: Iterable[Sink] = (),
        metadata: Mapping[str, Any] | None = None,
        paused: bool = False,
    ) -> Run:
        """Go on with the conversation: another turn, which has read everything of this one.

        It is traced like this one, and has its labels unless others are given.

        Args:
            prompt: The next user message.
            sinks: Functions of one event, told of everything that happens in it.
            metadata: Labels of yours.
            paused: The turn waits before its first iteration.

        Raises:
            RunInProgress: This turn is not over yet.
        """
        return self.agent.follow(self, prompt, sinks=sinks, metadata=metadata, paused=paused)

    def rewind(self, iteration: int) -> None:
        """Take the conversation back to the end of an iteration; `reply` goes on from there.

        Args:
            iteration: Of this turn; 0 for right after the prompt.

        Raises:
            ConfigurationError: The run keeps no session, or the turn has no such iteration.
            RunInProgress: A turn of the conversation is running.
        """
        if self._session is None:
            msg = "a run with session=False has nothing to take back; fork it with hn.replay(run, until=...)"
            raise ConfigurationError(msg)
        self._session.rewind(self.turn_id, iteration)

    def restore(self, iteration: int) -> Restored:
        """Bring back the files of the checkpoint directory as they were before an iteration changed them.

        What is there now is saved first.

        Args:
            iteration: Of this turn, from 1.

        Raises:
            ConfigurationError: The agent has no checkpoints.
            CheckpointError: There is no snapshot of that iteration, or the files cannot be written.
        """
        if (checkpoints := self.request.checkpoints) is None:
            msg = "the agent keeps no checkpoints; make it with Agent(checkpoints=Checkpoints(directory))"
            raise ConfigurationError(msg)
        return checkpoints.restore(self.turn_id, iteration)

    # ------------------------------------------------------------------------------------- show

    def __repr__(self) -> str:
        """The state in one line."""
        view = self.budget.view()
        end = f" {self._future.result().exit_reason}" if self.done and not self._future.exception() else ""
        return f"<Run {self.turn_id[:8]} {self.state}{end}, budget {view.used}/{view.limit}>"

    def _ipython_display_(self) -> None:
        self.edges.show(self)

    # ------------------------------------------------------------------------------------- the lane

    def _start(self) -> None:
        self._lane.start(self._turn, self._end, f"hermes_nb {self.turn_id[:8]}")

    def _end(self, outcome: Callable[[], TurnResult]) -> None:
        try:
            result = outcome()
        except BaseException as error:  # noqa: BLE001  whoever waits must be told
            self._close()
            self._future.set_exception(error)
        else:
            self._close()
            self._future.set_result(result)

    async def _turn(self) -> TurnResult:
        result = await run_turn(self.request, budget=self.budget, inbox=self._inbox, recorder=self._recorder)
        return replace(result, observation=self._observation)

    def _close(self) -> None:
        """Let go of the session before anybody is told of the end, so that the next turn may start at once."""
        try:
            if self._session is not None:
                self._session.close_turn()
        except Exception:
            logger.warning("the session of turn %s could not be closed", self.turn_id, exc_info=True)

    def _tell_trouble(self, detail: str) -> None:
        self._recorder.tell(events.Degraded("logbook", detail))

    def _tell_steer(self, note: Steer) -> None:
        self._recorder.tell(events.Steered(note.id, note.text, note.status, note.reason))


def _is_called_by(turn_id: str) -> bool:
    """Whether a tool of this turn, or of a sub-agent below it, is what runs here."""
    call = call_under_way.get()
    turn = None if call is None else call.turn
    while turn is not None and turn.request.turn_id != turn_id:
        turn = turn.request.parent
    return turn is not None
