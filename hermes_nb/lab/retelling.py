"""Telling again what was recorded inside of a call: the scopes of its tools, of its sub-agents, of a mixture."""

from __future__ import annotations

import uuid
from contextvars import Context, copy_context
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import anyio

from hermes_nb.lab.recording import begun
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes_nb.turn.recorder import Recorder, Scope
    from hermes_nb.vocabulary.events import Event


class Retelling:
    """Tells recorded events to another turn's recorder, each scope in a context of its own.

    Args:
        recorder: Of the turn that is told.
        ends: The recorded scopes, as they were at their ends.
        below: The events of sub-agents' turns, by turn; told when the call that started them begins.
    """

    def __init__(
        self, recorder: Recorder, ends: Mapping[int, events.Scoped], below: Mapping[str, tuple[Event, ...]]
    ) -> None:
        self._recorder = recorder
        self._ends = ends
        self._below = below
        self._open: dict[int, tuple[Context, Scope[Any]]] = {}

    def tell(self, event: Event) -> None:
        """Tell one event; its place is inside of the scopes that are open here, or of those open around the caller."""
        context = self._open[event.parent][0] if event.parent in self._open else copy_context()
        if event.phase == "point":
            inside = self._open[event.scope][0] if event.scope in self._open else context
            inside.run(self._recorder.tell, event.what)  # type: ignore[arg-type]  # points
        elif event.phase == "started":
            self._start(event, context.copy())
        elif event.scope in self._open:
            self._end(event)

    def _start(self, event: Event, context: Context) -> None:
        scope = self._recorder.scope(begun(self._ends[event.scope]))
        context.run(scope.__enter__)
        self._open[event.scope] = context, scope
        turn = getattr(self._ends[event.scope], "child_turn_id", "")
        if turn in self._below:
            scope.what.child_turn_id = context.run(self._tell_turn_below, turn)

    def _end(self, event: Event) -> None:
        context, scope = self._open.pop(event.scope)
        end = self._ends[event.scope]
        for field in fields(end):
            if field.name != "child_turn_id":
                setattr(scope.what, field.name, getattr(end, field.name))
        kind = anyio.get_cancelled_exc_class() if event.interrupted else None
        context.run(scope.__exit__, kind, None, None)

    def _tell_turn_below(self, turn: str) -> str:
        """Tell the whole turn of a sub-agent, under an id of its own."""
        told, turn_id = self._below[turn], str(uuid.uuid4())
        ends = {event.scope: event.what for event in told if event.phase != "point"}
        for scope, what in ends.items():
            if isinstance(what, events.Turn):
                ends[scope] = replace(what, parent_turn_id=self._recorder.turn_id, replay_of=turn)
        below = Retelling(self._recorder.child(turn_id), ends, self._below)  # type: ignore[arg-type]  # scopes
        for event in told:
            below.tell(event)
        return turn_id

    def tell_all(self, told: Iterable[Event]) -> None:
        """Tell events, one after the other."""
        for event in told:
            self.tell(event)

    def is_inside(self, event: Event) -> bool:
        """Whether an event lies within a scope that is open here."""
        return (event.scope if event.phase == "point" else event.parent) in self._open or event.scope in self._open
