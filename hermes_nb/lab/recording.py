"""A recording: the events of one turn, wherever they are kept, and the conversation before it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from hermes_nb.logbook import Logbook
from hermes_nb.run import Run
from hermes_nb.session import Session
from hermes_nb.turn.prompting import told_day
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError, ReplayMismatch

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from hermes_nb.logbook.records import TurnRecord
    from hermes_nb.traces import Trace
    from hermes_nb.turn.result import TurnResult
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.vocabulary.messages import Message

    Source: TypeAlias = Run | TurnResult | Trace | TurnRecord | Session | str

PASSING = (events.Delta, events.Paused, events.Degraded, events.Checkpointed)
"""What depends on the surroundings of a turn: a replay neither repeats it nor counts it."""

_KNOWN_AT_THE_END = {
    events.Turn: "exit_reason",
    events.Iteration: "outcome",
    events.Chat: "reply",
    events.Attempt: "outcome",
    events.Retry: "waited",
    events.Fallback: "to_provider",
    events.Compression: "messages_after",
    events.Refund: "used_after",
    events.Tool: "status",
}
"""The first of the fields that a scope does not have when it starts."""


@dataclass(frozen=True)
class Recording:
    """One turn as it went.

    Attributes:
        turn_id: The turn.
        told: Its own events, in order, without what passes.
        below: The events of its sub-agents' turns, by turn.
        history: The conversation before the turn.
    """

    turn_id: str
    told: tuple[Event, ...]
    below: Mapping[str, tuple[Event, ...]]
    history: tuple[Message, ...]

    @classmethod
    def of(cls, told: Iterable[Event], turn_id: str, history: tuple[Message, ...]) -> Recording:
        """A recording of all that a turn and the turns below it told.

        Raises:
            ReplayMismatch: The turn is not in there.
        """
        turns: dict[str, list[Event]] = {}
        for event in told:
            if not isinstance(event.what, PASSING):
                turns.setdefault(event.turn_id, []).append(event)
        own = turns.pop(turn_id, [])
        if not any(isinstance(event.what, events.Turn) for event in own):
            msg = f"nothing is recorded of turn {turn_id}"
            raise ReplayMismatch(msg)
        return cls(turn_id, tuple(own), {turn: tuple(below) for turn, below in turns.items()}, history)

    @cached_property
    def ends(self) -> dict[int, events.Scoped]:
        """Every scope of the turn, as it was at its end, or is now."""
        scopes = get_args(events.Scoped)
        return {event.scope: event.what for event in self.told if isinstance(event.what, scopes)}

    @cached_property
    def parents(self) -> dict[int, int]:
        """The scope around each scope."""
        return {event.scope: event.parent for event in self.told if event.phase == "started"}

    @property
    def turn(self) -> events.Turn:
        """The turn itself."""
        return next(what for what in self.ends.values() if isinstance(what, events.Turn))

    @property
    def system(self) -> str:
        """The system prompt with which it began."""
        return next((event.what.text for event in self.told if isinstance(event.what, events.SystemPrompt)), "")

    @property
    def day(self) -> str:
        """The day on which it ran, as it was told; empty if it was not."""
        prompt = next((event.what.message for event in self.told if isinstance(event.what, events.MessageAdded)), None)
        return told_day(self.system, () if prompt is None else (prompt,))

    def until(self, iteration: int) -> Recording:
        """The turn to the end of an iteration, as if nobody had interrupted it."""
        later = (place for place, event in enumerate(self.told) if _begins(event, iteration + 1))
        told = self.told[: next(later, len(self.told))]
        return replace(self, told=tuple(event for event in told if not isinstance(event.what, events.Interrupt)))

    def around(self, scope: int) -> Iterable[int]:
        """The scopes around a scope, from the inside."""
        while scope := self.parents.get(scope, 0):
            yield scope


def _begins(event: Event, iteration: int) -> bool:
    return isinstance(event.what, events.Iteration) and event.what.number >= iteration


def is_deed(event: Event) -> bool:
    """Whether somebody steered or interrupted the turn here."""
    what = event.what
    return (isinstance(what, events.Steered) and what.status == "queued") or (
        isinstance(what, events.Interrupt) and what.status == "requested"
    )


def begun(what: Any) -> Any:
    """A scope as it was when it started."""
    names = [field.name for field in fields(what)]
    start = names[: names.index(_KNOWN_AT_THE_END[type(what)])]
    return type(what)(**{name: getattr(what, name) for name in start})


def recording_of(source: Source, logbook: str | os.PathLike[str] | None = None) -> Recording:
    """The recording of a turn of this process, or of one that a logbook has.

    Args:
        source: A run, its result or trace; a session (its newest turn), a turn of it, or a turn's id.
        logbook: Where to look for turns that this process has not run; the user's default logbook if left out.

    Raises:
        ConfigurationError: The source is none of these.
        ReplayMismatch: Nothing is recorded of the turn.
    """
    if isinstance(source, Session):
        turns = source.turns
        if not turns:
            msg = f"{source!r} has no turn yet"
            raise ReplayMismatch(msg)
        return _stored(turns[-1].id, source.logbook)
    run = source if isinstance(source, Run) else None
    turn_id = source if isinstance(source, str) else getattr(source, "turn_id", None) or getattr(source, "id", None)
    if not isinstance(turn_id, str):
        msg = f"a replay needs a run, a result, a trace, a session or a turn's id, not {source!r}"
        raise ConfigurationError(msg)
    run = run or Run.find(turn_id)
    if run is not None and logbook is None:
        return Recording.of(run.events, turn_id, run.request.history)
    return _stored(turn_id, Logbook(logbook))


def _stored(turn_id: str, logbook: Logbook) -> Recording:
    told = list(_with_those_below(turn_id, logbook))
    if not told:
        msg = f"nothing is recorded of turn {turn_id} in {logbook.path}; give logbook=, the file in which it was kept"
        raise ReplayMismatch(msg)
    return Recording.of(told, turn_id, logbook.history_before(turn_id))


def _with_those_below(turn_id: str, logbook: Logbook) -> Iterator[Event]:
    for event in logbook.events(turn_id):
        yield event
        if event.phase == "ended" and isinstance(event.what, events.Tool) and event.what.child_turn_id:
            yield from _with_those_below(event.what.child_turn_id, logbook)
