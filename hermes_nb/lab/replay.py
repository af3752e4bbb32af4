"""Replay and fork: a turn again from its record, without network and cost, and from any iteration on anew."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from hermes_nb.agent import Agent
from hermes_nb.arguments import coerced
from hermes_nb.lab.recording import recording_of
from hermes_nb.lab.stages import decided, live, opening, staged
from hermes_nb.lab.tape import Tape
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.turn.request import Handover
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.failures import ConfigurationError, ReplayMismatch
from hermes_nb.vocabulary.places import results_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from hermes_nb.lab.recording import Recording, Source
    from hermes_nb.turn.inbox import Source as InterruptSource
    from hermes_nb.turn.inbox import Steer
    from hermes_nb.turn.recorder import Recorder
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.events import Event, Sink
    from hermes_nb.vocabulary.messages import Message

    Edit: TypeAlias = Callable[[tuple[Message, ...]], Sequence[Message]]


def replay(  # noqa: PLR0913  one argument for each question, all but one by keyword
    source: Source,
    *,
    until: int | None = None,
    agent: Agent | None = None,
    steer: str | None = None,
    edit: Edit | None = None,
    tools: Literal["recorded", "live"] = "recorded",
    session: Session | bool | None = False,
    sinks: Iterable[Sink] = (),
    tracer_provider: Any = None,
    logbook: str | os.PathLike[str] | None = None,
) -> Run:
    """Run a turn again from its record: the same messages, exit reason, spans and budget, without network and cost.

    With `until` the turn is forked: recorded to the end of that iteration, live from the next one on.

    Args:
        source: A run, its result or trace, a session (its newest turn), a turn of it, or a turn's id.
        until: The last iteration that is taken from the record; 0 for none of them. Left out, all are.
        agent: Who goes on after a fork; the agent of the run if left out, which must be a run of this process. Without
            `until`, the agent that is to go the recorded way: its policies, instructions and tools are tried on the
            recorded answers.
        steer: For a fork: told to the model with the next tool results, like `Run.steer`.
        edit: For a fork: makes another history of the one at that point, `edit(messages) -> messages`.
        tools: `recorded` gives the recorded results; `live` runs the tools of `agent` again.
        session: Where the new turn is kept; nowhere if left out.
        sinks: Functions of one event.
        tracer_provider: An OpenTelemetry provider of yours that gets the spans too.
        logbook: The file that has the turn, if this process has not run it; the user's default one if left out.

    Returns:
        The run, started; its `result()` raises `ReplayMismatch` where the turn goes another way than the record.

    Raises:
        ConfigurationError: The arguments do not fit together, or to the turn.
        ReplayMismatch: Nothing is recorded of the turn.
    """
    recording = recording_of(source, logbook)
    run = Run.find(recording.turn_id)
    if until is not None and agent is None and run is not None:
        agent = run.agent
    if until is None and run is not None and not run.done:
        msg = f"turn {run.turn_id} is still running; wait for its result(), or fork it with until="
        raise ConfigurationError(msg)
    _check(recording, until, agent, tools, forks=steer is not None or edit is not None)
    tape = Tape(recording if until is None else recording.until(until))
    history = None if edit is None else coerced(edit(tape.recording.messages))[0]
    found = decided(tape, agent if until is None else None, live_tools=tools == "live")
    request = opening(tape, until, found[0])
    place = Session.of(session)
    if place is not None:
        request = place.open_turn(request)
    try:
        fork = None
        if until is not None and agent is not None:
            spill = None if place is None else results_of(request.conversation_id)
            fork = Handover(until, live(request, agent, spill), IterationBudget.of(agent.budget), history)
        request = staged(request, tape, found, fork)
        run = Replay(
            agent or _stand_in(request), request, found[0].budget, tape=tape,
            session=place, sinks=sinks, tracer_provider=tracer_provider, is_fork=until is not None,
        )  # fmt: skip
        run.begin(steer)
    except BaseException:
        if place is not None:
            place.close_turn()
        raise
    return run


class Replay(Run):
    """The run of a replay or fork.

    Attributes:
        tape: What is played.
    """

    def __init__(self, *arguments: Any, tape: Tape, is_fork: bool, sinks: Iterable[Sink] = (), **named: Any) -> None:
        super().__init__(*arguments, sinks=(tape, self._at_the_fork, *sinks), **named)
        self.tape = tape
        tape.run = self
        self._is_fork = is_fork
        self._lock = threading.Lock()
        self._held: list[Steer] | None = []
        self._budgets = (stage.handover.budget for stage in self.request.stages if stage.handover)

    def steer(self, text: str) -> Steer:
        """Tell the model something, as `Run.steer`; while a fork still plays its record, the steer waits for its point.

        A whole replay goes the recorded way: what is told to it is not delivered.
        """
        note = self._inbox.receipt(text)
        if not self._is_fork:
            note.status, note.reason = "undelivered", "the turn is a replay; it goes the recorded way"
            return note
        with self._lock:
            if self._held is not None:
                self._held.append(note)
                return note
        return self._inbox.queue(note, self._tell_steer)

    def steer_again(self, text: str) -> None:
        """Tell the model what it was told."""
        super().steer(text)

    def interrupt_again(self, asked: events.Interrupt, *, when: Literal["now", "boundary"]) -> None:
        """End the turn as somebody asked; it is told even where the inbox has heard of that moment before."""
        self._recorder.tell(asked)
        self._inbox.interrupt(cast("InterruptSource", asked.source), when=when)

    @property
    def recorder(self) -> Recorder:
        """Where the turn is told."""
        return self._recorder

    def interrupt_silently(self, source: str) -> None:
        """End the turn without telling that somebody asked for it: a time limit did, or somebody who was told of."""
        self._inbox.interrupt(cast("InterruptSource", source))

    def begin(self, steer: str | None) -> None:
        """Start; a steer waits for the fork."""
        if steer is not None:
            self.steer(steer)
        self.tape.begin()
        self._start()

    def _at_the_fork(self, event: Event) -> None:
        if not isinstance(event.what, events.Forked) or event.turn_id != self.turn_id:
            return
        self.budget = next(self._budgets)
        if not self.tape.played:
            return
        with self._lock:
            notes, self._held = self._held or [], None
        for note in notes:
            self._inbox.queue(note, self._tell_steer)

    def _close(self) -> None:
        with self._lock:
            notes, self._held = self._held or [], None
        for note in notes:
            note.status, note.reason = "undelivered", "the fork ended before its point"
        super()._close()

    async def _turn(self) -> TurnResult:
        result = await super()._turn()
        left = "" if self._is_fork else self.tape.left_over(result.exit_reason.value)
        return replace(result, error=ReplayMismatch(left)) if left and result.error is None else result


def _check(recording: Recording, until: int | None, agent: Agent | None, tools: str, *, forks: bool) -> None:
    """Refuse what cannot be played.

    Raises:
        ConfigurationError: Says what does not fit, and what would.
    """
    point = recording.unknown_after
    if point is not None and (until is None or until > point):
        msg = (
            f"turn {recording.turn_id} is a fork that was recorded by an earlier version of hermes_nb: from iteration "
            f"{point + 1} on it is another agent's, whose settings were not recorded then; "
            f"fork it with until=0 to {point}, or replay the turn that it comes from, {recording.turn.replay_of}"
        )
        raise ConfigurationError(msg)
    if until is None:
        if forks:
            msg = "steer= and edit= need until=, the iteration after which the turn is forked"
            raise ConfigurationError(msg)
        if tools not in ("recorded", "live") or (tools == "live" and agent is None):
            msg = f"tools={tools!r}: give 'recorded', or 'live' together with the agent= whose tools are run"
            raise ConfigurationError(msg)
        return
    if agent is None:
        msg = "a fork needs agent=, who goes on after it: the turn was run by another process"
        raise ConfigurationError(msg)
    last = recording.last_point
    if not 0 <= until <= last:
        msg = f"until={until}: the turn can be forked after iterations 0 to {last}"
        raise ConfigurationError(msg)
    if not isinstance(agent.budget, IterationBudget) and agent.budget <= until:
        msg = f"a budget of {agent.budget} is used up by the {until} recorded iterations; give the agent a larger one"
        raise ConfigurationError(msg)


def _stand_in(request: TurnRequest) -> Agent:
    """Whose run it is, where nobody says: an agent of the recorded name."""
    *_, last = request.stages
    return Agent(last.chain, name=last.agent, guard=None)
