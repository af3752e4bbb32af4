"""Replay and fork: a turn again from its record, without network and cost, and from any iteration on anew."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from hermes_nb.agent import Agent
from hermes_nb.lab.boxes import RecordedToolbox
from hermes_nb.lab.recording import recording_of
from hermes_nb.lab.tape import Tape
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.limits import Ceiling
from hermes_nb.policies.retry import Retry, Wait
from hermes_nb.providers.base import as_provider
from hermes_nb.providers.recorded import Recorded
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.turn.attempts import waiting
from hermes_nb.turn.prompting import system_prompt, today, told_day
from hermes_nb.turn.request import Handover, TurnRequest
from hermes_nb.turn.settings import policies_of, sizes_of
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.failures import ConfigurationError, ReplayMismatch

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Sequence

    from hermes_nb.lab.recording import Recording, Source
    from hermes_nb.providers.base import ModelRequest, OnText
    from hermes_nb.turn.inbox import Source as InterruptSource
    from hermes_nb.turn.recorder import Recorder
    from hermes_nb.turn.request import Policies
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.events import Event, Sink
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message, Reply

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
    request = _request(tape, None if until is not None else agent)
    if tools == "live" and agent is not None:
        request = replace(request, toolbox=agent.toolbox)
    if until is not None and agent is not None:
        handover = _handover(request, until, agent, edit)
        request = replace(request, handover=handover, disk=handover.request.disk)
    place = Session.of(session)
    if place is not None:
        request = place.open_turn(request)
    run = Replay(
        agent or _stand_in(request), request, _budget(recording, agent), tape=tape,
        session=place, sinks=sinks, tracer_provider=tracer_provider, is_fork=until is not None,
    )  # fmt: skip
    run.begin(steer, until)
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
        self._steer: tuple[int, str] | None = None

    @property
    def recorder(self) -> Recorder:
        """Where the turn is told."""
        return self._recorder

    def interrupt_silently(self, source: str) -> None:
        """End the turn without telling that somebody asked for it: a time limit did, or somebody who was told of."""
        self._inbox.interrupt(cast("InterruptSource", source))

    def begin(self, steer: str | None, until: int | None) -> None:
        """Start; a steer is queued when the fork's iteration ends."""
        self.tape.begin()
        if steer is not None and until:
            self._steer = until, steer
        elif steer is not None:
            self.steer(steer)
        self._start()

    def _at_the_fork(self, event: Event) -> None:
        what = event.what
        if self._steer and isinstance(what, events.Iteration) and event.phase == "ended":
            until, text = self._steer
            if what.number == until:
                self.steer(text)

    async def _turn(self) -> TurnResult:
        result = await super()._turn()
        left = "" if self._is_fork else self.tape.left_over(result.exit_reason.value)
        return replace(result, error=ReplayMismatch(left)) if left and result.error is None else result


# --------------------------------------------------------------------------------------- the request


def _check(recording: Recording, until: int | None, agent: Agent | None, tools: str, *, forks: bool) -> None:
    """Refuse what cannot be played.

    Raises:
        ConfigurationError: Says what does not fit, and what would.
    """
    point = recording.turn.replay_until
    if point is not None and (until is None or until > point):
        msg = (
            f"turn {recording.turn_id} is a fork: from iteration {point + 1} on it is another agent's, whose settings "
            "are not recorded; "
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
    iterations = [what for what in recording.ends.values() if isinstance(what, events.Iteration)]
    plain = [what.number for what in iterations if not what.grace and what.outcome not in ("", "final_response")]
    last = max(plain, default=0)
    if not 0 <= until <= last:
        msg = f"until={until}: the turn can be forked after iterations 0 to {last}"
        raise ConfigurationError(msg)
    if not isinstance(agent.budget, IterationBudget) and agent.budget <= until:
        msg = f"a budget of {agent.budget} is used up by the {until} recorded iterations; give the agent a larger one"
        raise ConfigurationError(msg)


def _request(tape: Tape, agent: Agent | None) -> TurnRequest:
    """The recorded turn as a request: who answers is the tape; who decides is the agent, if there is one."""
    recording, turn = tape.recording, tape.recording.turn
    policies = policies_of(turn.settings, _functions(tape)) if agent is None else agent.policies
    specs = next((what.tools for what in recording.ends.values() if isinstance(what, events.Chat) and what.tools), ())
    return TurnRequest(
        prompt=turn.prompt,
        history=recording.history,
        chain=_chain(tape),
        toolbox=RecordedToolbox(tape, specs if agent is None else agent.toolbox.specs),
        instructions="" if agent is None else agent.instructions,
        context="" if agent is None else agent.context,
        agent=turn.agent if agent is None else agent.name,
        policies=_paced(policies, tape),
        turn_id=str(uuid.uuid4()),
        conversation_id=str(uuid.uuid4()),
        number=turn.number,
        previous_turn_id=turn.previous_turn_id,
        replay_of=recording.turn_id,
        day=recording.day,
        system=recording.system if agent is None else _system(recording, agent),
        sizes=sizes_of(turn.settings),
        metadata=turn.metadata,
    )


def _handover(request: TurnRequest, until: int, agent: Agent, edit: Edit | None) -> Handover:
    """The agent that goes on after a fork."""
    live = replace(
        request,
        chain=agent.models,
        toolbox=agent.toolbox.fitted(agent.models[0].context_window, None),
        instructions=agent.instructions,
        context=agent.context,
        agent=agent.name,
        policies=agent.policies,
        checkpoints=agent.checkpoints,
        day=today(),
        system="",
    )
    return Handover(until, live if agent.faults is None else agent.faults.inject(live), edit)


def _chain(tape: Tape) -> tuple[Recorded, ...]:
    """The providers as they were; of a record without settings, those that were asked."""
    entries = tape.recording.turn.settings.get("chain")
    if not entries:
        asked = [what for what in tape.recording.ends.values() if isinstance(what, events.Chat)]
        names = dict.fromkeys([(tape.recording.turn.provider, tape.recording.turn.model)])
        names |= dict.fromkeys((chat.provider, chat.model) for chat in asked)
        entries = [{"provider": provider, "model": model} for provider, model in names]
    return tuple(
        Recorded(
            record=tape,
            name=entry["provider"],
            model=entry["model"],
            identity=entry.get("identity", f"{entry['provider']}:{entry['model']}"),
            context_window=entry.get("context_window"),
            address=(entry.get("server_address", ""), entry.get("server_port")),
            parameters=entry.get("parameters", {}),
            stream=entry.get("stream", False),
        )
        for entry in entries
    )


def _system(recording: Recording, agent: Agent) -> str:
    """The system prompt of an agent that is tried on a record: built anew, for the day of the recorded one."""
    turn = recording.turn
    first = as_provider(_nobody, name=turn.provider, model=turn.model)
    day = told_day(recording.system, ())
    return system_prompt(
        first, instructions=agent.instructions, tools=agent.toolbox.specs, context=agent.context, day=day
    )


async def _nobody(request: ModelRequest, on_text: OnText) -> Reply:  # only its name is asked for
    raise NotImplementedError


def _budget(recording: Recording, agent: Agent | None) -> IterationBudget:
    """The agent's budget; without an agent, the recorded one, used as far as it was."""
    if agent is not None:
        return agent.budget if isinstance(agent.budget, IterationBudget) else IterationBudget(agent.budget)
    granted = (event.what for event in recording.told if isinstance(event.what, events.BudgetChanged))
    first = next(granted, None)
    budget = IterationBudget(first.limit if first else recording.turn.budget_limit)
    for _ in range(first.used if first else 0):
        budget.consume()
    return budget


def _stand_in(request: TurnRequest) -> Agent:
    """Whose run it is, where nobody says: an agent of the recorded name."""
    return Agent(request.chain, name=request.agent, guard=None)


# --------------------------------------------------------------------------------------- the policies


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedRetry(Retry):
    """Waits as long as was waited, in no time."""

    tape: Tape

    def wait(self, failure: Failure, failures: int, roll: float) -> Wait:
        """The recorded wait; only one that was interrupted takes place."""
        recorded = self.tape.next_retry()
        if recorded is None:
            return Retry.wait(self, failure, failures, roll)
        waiting.set(recorded.outcome == "interrupted")
        return Wait(recorded.wait, "retry_after" if recorded.source == "retry_after" else "backoff")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCeiling(Ceiling):
    """Lands where the turn landed because its time was over; tokens and money are counted again."""

    tape: Tape

    def reached(self, *, tokens: int, cost_usd: float, seconds: float) -> str:  # noqa: ARG002  the tape knows
        """Which ceiling was reached here, in words."""
        return Ceiling.reached(self, tokens=tokens, cost_usd=cost_usd, seconds=0.0) or self.tape.time_over()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedGuard(RateGuard):
    """Blocks what was blocked, and remembers nothing."""

    tape: Tape

    def blocked_for(self, identity: str, *, alternatives: bool = True) -> float:  # noqa: ARG002  the tape knows
        """How long the request that comes now was held back for."""
        return self.tape.blocked_for()

    def record(self, identity: str, failure: Failure) -> None:
        """Nothing: no server has said so."""

    def cool_down(self, identity: str, seconds: float | None = None) -> None:
        """Nothing: no server has said so."""

    def clear(self, identity: str) -> None:
        """Nothing."""


def _functions(tape: Tape) -> dict[str, Any]:
    """What stands in for functions of the user's that are not kept."""
    return {"ceiling.price": tape.price, "compression.compressor": tape.compressed}


def _paced(policies: Policies, tape: Tape) -> Policies:
    """The policies on the tape's time."""
    retry = {field.name: getattr(policies.retry, field.name) for field in fields(Retry)}
    ceiling = {field.name: getattr(policies.ceiling, field.name) for field in fields(Ceiling)} | {"seconds": None}
    return replace(
        policies,
        retry=PacedRetry(**retry, tape=tape),
        guard=RecordedGuard(tape=tape),
        ceiling=RecordedCeiling(**ceiling, tape=tape),
    )
