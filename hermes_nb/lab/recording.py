"""A recording: the events of one turn, wherever they are kept, and the conversation before it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise, takewhile
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
    from hermes_nb.vocabulary.messages import Message, ToolSpec, Usage

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


GOES_ON = ("tool_calls", "compressed", "continued")
"""Outcomes of iterations that do not end a turn."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What one agent did of a turn: all of it, or what lies before or behind the point of a fork.

    Attributes:
        after: The last iteration before it.
        agent: The agent's name.
        settings: By which the turn was decided.
        system: The system prompt with which it began.
        tools: What the model could call then.
        reader: What it could call too once a result had been shortened: the reader of stored results, or nothing.
        limit: Of the budget with which it began.
        used: Iterations of it that had been used when it began.
        used_then: Those used when it ended.
        history: The edited history that it went on with; None for the one that was there.
    """

    after: int
    agent: str
    settings: Mapping[str, Any]
    system: str
    tools: tuple[ToolSpec, ...]
    reader: tuple[ToolSpec, ...]
    limit: int
    used: int
    used_then: int
    history: tuple[Message, ...] | None = None

    @classmethod
    def of(cls, begin: events.Turn | events.Forked, told: Iterable[Event]) -> Stage:
        """What lies between two points.

        Args:
            begin: How it began.
            told: The events from there on.
        """
        whats = [event.what for event in told]
        opening = list(takewhile(lambda what: not isinstance(what, events.Iteration), whats))
        budgets = [what for what in whats if isinstance(what, events.BudgetChanged)]
        offered = [what.tools for what in whats if isinstance(what, events.Chat) and what.tools] or [()]
        return cls(
            after=begin.after if isinstance(begin, events.Forked) else 0,
            agent=begin.agent,
            settings=begin.settings,
            system=next((what.text for what in opening if isinstance(what, events.SystemPrompt)), ""),
            tools=offered[0],
            reader=offered[-1][len(offered[0]) :],
            limit=budgets[0].limit if budgets else getattr(begin, "budget_limit", 0),
            used=budgets[0].used if budgets else 0,
            used_then=budgets[-1].used if budgets else 0,
            history=next((what.messages for what in opening if isinstance(what, events.HistoryReplaced)), None),
        )


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

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What each agent did of the turn, in order; there is more than one in a fork."""
        points = [place for place, event in enumerate(self.told) if isinstance(event.what, events.Forked)]
        parts = [self.told[first:last] for first, last in pairwise((0, *points, len(self.told)))]
        forks = (event.what for event in self.told if isinstance(event.what, events.Forked))
        begins: Iterable[events.Turn | events.Forked] = (self.turn, *forks)
        return tuple(map(Stage.of, begins, parts))

    @property
    def system(self) -> str:
        """The system prompt with which it began."""
        return self.stages[0].system

    @property
    def unknown_after(self) -> int | None:
        """The iteration after which another agent went on that the record does not tell of; None as a rule.

        Earlier versions did not keep the settings of a fork.
        """
        point = self.turn.replay_until
        if point is None or any(isinstance(e.what, events.Forked) and e.what.after == point for e in self.told):
            return None
        return point if any(_begins(event, point + 1) for event in self.told) else None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation at the end of the record."""
        messages = list(self.history)
        for event in self.told:
            if isinstance(event.what, events.MessageAdded):
                messages.append(event.what.message)
            elif isinstance(event.what, events.HistoryReplaced):
                messages = list(event.what.messages)
        return tuple(messages)

    @property
    def day(self) -> str:
        """The day on which it ran, as it was told; empty if it was not."""
        prompt = next((event.what.message for event in self.told if isinstance(event.what, events.MessageAdded)), None)
        return told_day(self.system, () if prompt is None else (prompt,))

    @property
    def last_point(self) -> int:
        """The last iteration after which the turn went on, or would have; 0 for none."""
        passed = (what for what in self.ends.values() if isinstance(what, events.Iteration) and not what.grace)
        return max((what.number for what in passed if what.outcome in GOES_ON), default=0)

    def until(self, iteration: int) -> Recording:
        """The turn to the end of an iteration, and what was handed over there, as if nobody had interrupted it."""
        told = tuple(event for event in self.told if not isinstance(event.what, events.Interrupt))
        end = next(place for place, event in enumerate(told, 1) if _ends(event, iteration))
        return replace(self, told=(*told[:end], *takewhile(_is_between, told[end:])))

    def around(self, scope: int) -> Iterable[int]:
        """The scopes around a scope, from the inside."""
        return _above(scope, self.parents)


def _ends(event: Event, iteration: int) -> bool:
    """Whether that iteration ends with this event; number 0 is the prompt."""
    if not iteration:
        return isinstance(event.what, events.MessageAdded)
    return event.phase == "ended" and isinstance(event.what, events.Iteration) and event.what.number == iteration


def _is_between(event: Event) -> bool:
    """Whether this happened between two iterations, and leaves the turn where it is: a word of the user's, a fork."""
    what = event.what
    if isinstance(what, events.BudgetChanged):
        return what.action == "grant"
    return is_deed(event) or isinstance(what, events.Forked | events.SystemPrompt | events.HistoryReplaced)


def _begins(event: Event, iteration: int) -> bool:
    return isinstance(event.what, events.Iteration) and event.what.number >= iteration


def is_deed(event: Event) -> bool:
    """Whether somebody steered or interrupted the turn here."""
    what = event.what
    return (isinstance(what, events.Steered) and what.status == "queued") or (
        isinstance(what, events.Interrupt) and what.status == "requested"
    )


def spent(turn_id: str, below: Mapping[str, tuple[Event, ...]]) -> Iterator[tuple[str, str, Usage]]:
    """Provider, model and tokens of every reply of a sub-agent's turn and of those below it, as they were booked.

    Args:
        turn_id: The sub-agent's turn.
        below: The events of all turns below the recorded one.
    """
    parents: dict[int, int] = {}
    attempts: set[int] = set()
    for event in below.get(turn_id, ()):
        what = event.what
        if event.phase == "started":
            parents[event.scope] = 0 if isinstance(what, events.Turn) else event.parent  # that lies in the turn above
            attempts |= {event.scope} if isinstance(what, events.Attempt) else set()
        elif isinstance(what, events.Tool) and what.child_turn_id:
            yield from spent(what.child_turn_id, below)
        elif isinstance(what, events.Chat | events.Attempt):
            reply = what.reply if isinstance(what, events.Chat) else what.refused
            if reply is not None and attempts.isdisjoint(_above(event.scope, parents)):  # others are in `others`
                yield from reply.others
                if reply.usage is not None:
                    yield what.provider, what.model, reply.usage


def _above(scope: int, parents: Mapping[int, int]) -> Iterator[int]:
    while scope := parents.get(scope, 0):
        yield scope


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
