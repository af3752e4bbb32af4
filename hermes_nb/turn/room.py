"""Making room: the history is compressed when it is time, or when a server says that it is too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary import events
    from hermes_nb.vocabulary.failures import Failure


async def make_room(state: TurnState, iteration: events.Iteration) -> bool:
    return False


async def make_room_after(state: TurnState, iteration: events.Iteration, failure: Failure) -> None:
    raise NotImplementedError
