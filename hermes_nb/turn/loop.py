"""The loop: one turn, from its request to its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.turn import steps
from hermes_nb.turn.asking import ModelUnavailable
from hermes_nb.turn.inbox import Interrupted
from hermes_nb.turn.room import make_room
from hermes_nb.turn.settings import settings_of
from hermes_nb.turn.state import TurnState
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from hermes_nb.turn.inbox import Inbox
    from hermes_nb.turn.recorder import Recorder
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.turn.state import Admission
    from hermes_nb.vocabulary.budget import IterationBudget


async def run_turn(request: TurnRequest, *, budget: IterationBudget, inbox: Inbox, recorder: Recorder) -> TurnResult:
    """Drive one turn to its end; always return a result.

    Args:
        request: What is to be done.
        budget: Iterations to spend; the one given is used, and may be shared.
        inbox: Where steers, pauses and interrupts come from.
        recorder: Told of everything that happens.
    """
    state = TurnState(request, budget, inbox, recorder)
    with recorder.scope(_opening(state)) as turn:
        try:
            async with state.chain:
                with inbox.interruptible(request.policies.ceiling.stops_after):
                    state.begin()
                    while admission := await steps.admit(state):
                        with recorder.scope(_passing(admission)) as iteration:
                            steps.enter(state, admission)
                            steps.take_steering(state)
                            if await make_room(state, iteration):
                                continue
                            if (reply := await steps.ask_model(state, iteration)) is None:
                                continue
                            await steps.run_tools(state, reply)
                            steps.settle(state, reply, iteration)
        except Interrupted as stop:
            steps.stopped(state, stop)
        except ModelUnavailable as error:
            steps.failed(state, error)
        except KeyboardInterrupt:  # in code of the user's; the tools' own is dealt with there
            steps.stopped(state, Interrupted("kernel"))
        except (Exception, SystemExit) as bug:  # noqa: BLE001  the record is completed first; the run raises the bug again
            steps.broken(state, bug)
        return state.finish(turn)


def _opening(state: TurnState) -> events.Turn:
    """The turn's event, as far as it is known at the start."""
    request, provider = state.request, state.chain.provider
    return events.Turn(
        agent=request.agent,
        provider=provider.name,
        model=provider.model,
        prompt=request.prompt,
        number=request.number,
        budget_limit=state.budget.view().limit,
        attempts_max=request.policies.retry.attempts,
        parent_turn_id=request.parent_turn_id,
        previous_turn_id=request.previous_turn_id,
        replay_of=request.replay_of,
        replay_until=request.replay_until,
        settings=settings_of(request),
        metadata=request.metadata,
    )


def _passing(admission: Admission) -> events.Iteration:
    """The event of one pass of the loop."""
    view = admission.view
    return events.Iteration(admission.number, admission.grace, view.limit, view.remaining)
