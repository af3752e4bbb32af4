"""The request of a turn that is played from its record, stage by stage; and of who goes on live after it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hermes_nb.lab.boxes import RecordedToolbox
from hermes_nb.lab.paced import paced, recorded
from hermes_nb.providers.recorded import Recorded
from hermes_nb.turn.prompting import system_prompt, today, told_day
from hermes_nb.turn.request import Handover, TurnRequest
from hermes_nb.turn.settings import sizes_of
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.budget import IterationBudget
from hermes_nb.vocabulary.places import results_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from hermes_nb.agent import Agent
    from hermes_nb.lab.recording import Stage
    from hermes_nb.lab.tape import Tape
    from hermes_nb.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Decided:
    """What decides in one stage of a turn.

    Attributes:
        fields: Of the request.
        budget: The iterations.
    """

    fields: Mapping[str, Any]
    budget: IterationBudget


def decided(tape: Tape, agent: Agent | None, *, live_tools: bool) -> list[Decided]:
    """What decides in each stage of a recorded turn; who answers is the tape.

    Args:
        tape: What is played.
        agent: Who is tried on the record, in its last stage; None for who it was.
        live_tools: Run the tools of that agent.
    """
    stages = tape.recording.stages
    before = (0, *(stage.used_then for stage in stages))
    found = [Decided(_recorded(tape, stage), _budget(stage, used)) for stage, used in zip(stages, before, strict=False)]
    if agent is not None:
        tried = _tried(tape, stages[-1], agent, live_tools=live_tools)
        found[-1] = Decided({**found[-1].fields, **tried}, IterationBudget.of(agent.budget))
    return found


def _budget(stage: Stage, before: int) -> IterationBudget:
    """The budget of a stage, used as far as it was, but for what the turn had used before."""
    budget = IterationBudget(stage.limit)
    for _ in range(stage.used - before):
        budget.consume()
    return budget


def opening(tape: Tape, until: int | None, first: Decided) -> TurnRequest:
    """The recorded turn as it began.

    Args:
        tape: What is played.
        until: The last iteration that is taken from it, in a fork.
        first: What decides in its first stage.
    """
    recording, turn = tape.recording, tape.recording.turn
    return TurnRequest(
        prompt=turn.prompt,
        history=recording.history,
        turn_id=str(uuid.uuid4()),
        conversation_id=str(uuid.uuid4()),
        number=turn.number,
        previous_turn_id=turn.previous_turn_id,
        replay_of=recording.turn_id,
        replay_until=until,
        day=recording.day,
        sizes=sizes_of(turn.settings),
        metadata=turn.metadata,
        **first.fields,
    )


def staged(request: TurnRequest, tape: Tape, found: Sequence[Decided], fork: Handover | None = None) -> TurnRequest:
    """The turn with everybody who takes it over.

    Args:
        request: Its opening.
        tape: What is played.
        found: What decides in each stage.
        fork: Who goes on after the record; None for nobody.
    """
    handover, last = fork, request if fork is None else fork.request
    for stage, own in reversed([*zip(tape.recording.stages, found, strict=True)][1:]):
        handed = replace(request, **own.fields, handover=handover)
        handover = Handover(stage.after, handed, own.budget, stage.history)
    return replace(request, handover=handover, disk=last.disk, checkpoints=last.checkpoints)


def live(request: TurnRequest, agent: Agent, spill: Path | None) -> TurnRequest:
    """The turn as the agent has it that goes on after a fork.

    Args:
        request: The turn's opening.
        agent: Who goes on.
        spill: Where long results are kept.
    """
    own = replace(
        request,
        chain=agent.models,
        toolbox=agent.toolbox.fitted(agent.models[0].context_window, spill),
        instructions=agent.instructions,
        context=agent.context,
        agent=agent.name,
        policies=agent.policies,
        checkpoints=agent.checkpoints,
        day=today(),
        system="",
    )
    return own if agent.faults is None else agent.faults.inject(own)


# --------------------------------------------------------------------------------------- one stage


def _recorded(tape: Tape, stage: Stage) -> dict[str, Any]:
    return {
        "chain": _chain(tape, stage),
        "toolbox": RecordedToolbox(tape, stage.tools, stage.reader),
        "instructions": "",
        "context": "",
        "agent": stage.agent,
        "policies": recorded(stage.settings, tape),
        "system": stage.system,
    }


def _tried(tape: Tape, stage: Stage, agent: Agent, *, live_tools: bool) -> dict[str, Any]:
    return {
        "toolbox": _live_tools(tape, stage, agent)
        if live_tools
        else RecordedToolbox(tape, agent.toolbox.specs, stage.reader),
        "instructions": agent.instructions,
        "context": agent.context,
        "agent": agent.name,
        "policies": paced(agent.policies, tape),
        "system": _system(tape, stage, agent),
    }


def _live_tools(tape: Tape, stage: Stage, agent: Agent) -> Toolbox:
    """The agent's tools, bounded as in the recorded turn; long results are put where they were then."""
    spill = results_of(tape.recording.told[0].conversation_id) if stage.reader else None
    return agent.toolbox.fitted(agent.models[0].context_window, spill)


def _chain(tape: Tape, stage: Stage) -> tuple[Recorded, ...]:
    """The providers as they were; of a record without settings, those that were asked."""
    entries = stage.settings.get("chain")
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


def _system(tape: Tape, stage: Stage, agent: Agent) -> str:
    """The system prompt of an agent that is tried on a record: built anew, for the day of the recorded one."""
    first = _chain(tape, stage)[0]
    day = told_day(stage.system, ())
    return system_prompt(
        first, instructions=agent.instructions, tools=agent.toolbox.specs, context=agent.context, day=day
    )
