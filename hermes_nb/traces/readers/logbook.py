"""Our own logbook: the events of its turns become the same rows as the spans that were made of them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_nb.logbook import Logbook
from hermes_nb.logbook.schema import APPLICATION_ID
from hermes_nb.telemetry import content, mapping, semconv
from hermes_nb.telemetry.store import Kept
from hermes_nb.traces import said
from hermes_nb.traces.rows import EventRow, LinkRow, MessageRow, SpanRow
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from hermes_nb.logbook import TurnRecord
    from hermes_nb.telemetry.mapping import Mark
    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.readers.selection import Selection
    from hermes_nb.traces.rows import Row
    from hermes_nb.vocabulary.events import Event


def is_logbook(path: Path) -> bool:
    """Whether a SQLite file is one of ours."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        (mark,) = database.execute("PRAGMA application_id").fetchone()
    return bool(mark == APPLICATION_ID)


def rows(path: Path, file: File, selection: Selection) -> Iterator[Row]:
    """The rows of the turns that are asked for, sub-agents' turns with them."""
    file.format = "logbook"
    with Logbook(path) as book:
        turns = book.turns(selection.conversation_id)
        own = [turn for turn in turns if not turn.parent_turn_id]
        chosen = {turn.id for turn in selection.newest(own, lambda turn: turn.started_at)}
        traces: dict[str, str] = {}
        for turn in turns:
            if turn.id in chosen or turn.parent_turn_id in traces:
                traces[turn.id] = traces.get(turn.parent_turn_id, turn.id)
                file.lines += 1
                yield from _Turn(turn, traces[turn.id]).rows(book.events(turn.id))


def _root_of(turn_id: str) -> str | None:
    return f"{mapping.span_id(turn_id, 1):016x}" if turn_id else None


@dataclass(slots=True)
class _Scope:
    """A scope: as it started, as it ended if it has, and the span events on it."""

    started: Event
    ended: Event | None = None
    marks: list[tuple[Event, Mark]] = field(default_factory=list)

    @property
    def what(self) -> Any:
        return (self.ended or self.started).what


class _Turn:
    """The rows of one turn, from its events.

    Args:
        turn: The turn.
        root_turn_id: The turn whose trace this is part of.
    """

    def __init__(self, turn: TurnRecord, root_turn_id: str) -> None:
        self._turn_id = turn.id
        self._run_id = turn.run_id or None
        self._trace_id = f"{mapping.trace_id(root_turn_id):032x}"
        self._parent_turn_id = turn.parent_turn_id
        self._scopes: dict[int, _Scope] = {}
        self._waiting: list[tuple[Event, Mark]] = []
        self._root: _Scope
        self._system = ""
        self._messages: list[MessageRow] = []

    def rows(self, told: Iterable[Event]) -> Iterator[Row]:
        """Spans with their events and links, and messages."""
        for event in told:
            self._take(event)
        if self._scopes:
            self._root.marks.extend(self._waiting)
        previous: dict[str, events.Chat] = {}
        for scope in self._scopes.values():
            yield self._span(scope, previous)
            yield from self._events(scope)
            yield from self._links(scope)
        yield from self._messages

    # ------------------------------------------------------------------------------------------ events

    def _take(self, event: Event) -> None:
        what = event.what
        if event.phase == "started":
            self._start(event)
        elif event.phase == "ended":
            self._end(event)
        elif isinstance(what, events.SystemPrompt):
            self._system = what.text
            self._keep(event, Message("system", what.text), 0)
        elif isinstance(what, events.MessageAdded) and not what.ephemeral:
            self._keep(event, what.message, what.index)
        elif (mark := mapping.mark(what)) is not None:
            self._place(event, mark)

    def _start(self, event: Event) -> None:
        scope = self._scopes[event.scope] = _Scope(event)
        if isinstance(event.what, events.Turn):
            self._root = scope
        if isinstance(event.what, events.Iteration):
            scope.marks, self._waiting = self._waiting, []

    def _end(self, event: Event) -> None:
        if event.scope in self._scopes:
            self._scopes[event.scope].ended = event

    def _place(self, event: Event, mark: Mark) -> None:
        """Put a span event where the span sink puts it: on the iteration around it, the next one, or the turn."""
        around = None if mark.place == "turn" else self._iteration(event.scope)
        if around is None and mark.place == "next_iteration":
            self._waiting.append((event, mark))
        else:
            (around or self._root).marks.append((event, mark))

    def _iteration(self, scope: int) -> _Scope | None:
        found = self._scopes.get(scope)
        while found is not None and not isinstance(found.started.what, events.Iteration):
            found = self._scopes.get(found.started.parent)
        return found

    def _keep(self, event: Event, message: Message, index: int) -> None:
        for place, part in enumerate(said.parts(content.message(message))):
            self._messages.append(
                MessageRow(
                    self._turn_id,
                    index,
                    place,
                    iteration=event.iteration or None,
                    direction=_DIRECTIONS.get(message.role, "input"),
                    first_span_id=self._id(event.scope),
                    trace_id=self._trace_id,
                    run_id=self._run_id,
                    **(part | {"origin": message.origin or None}),
                )
            )

    # ------------------------------------------------------------------------------------------ rows

    def _id(self, scope: int) -> str:
        return f"{mapping.span_id(self._turn_id, scope):016x}"

    def _parent(self, started: Event) -> str | None:
        """The span around a scope; around a sub-agent's turn that is a scope of the turn above."""
        turn_id = self._parent_turn_id if isinstance(started.what, events.Turn) else self._turn_id
        return f"{mapping.span_id(turn_id, started.parent or 1):016x}" if turn_id else None

    def _span(self, scope: _Scope, previous: dict[str, events.Chat]) -> SpanRow:
        started, ended, what = scope.started, scope.ended, scope.what
        known = mapping.end_attributes(ended, openinference=False) if ended else {}
        begun = mapping.start_attributes(started)
        attributes = {key: value for key, value in begun.items() if key not in known} | known  # in the SDK's order
        kept = Kept(None, self._turn_id, what, system=self._system)  # type: ignore[arg-type]  # there is no span
        if isinstance(what, events.Chat):
            kept.previous = previous.get(what.purpose)
            previous[what.purpose] = what
        attributes |= content.content_attributes(kept, "new", openinference=False)
        failed = ended is not None and mapping.failed(ended)
        return SpanRow(
            self._trace_id,
            self._id(started.scope),
            self._parent(started),
            mapping.span_name(what),
            mapping.span_kind(what).upper(),
            started.at,
            ended.at if ended else None,
            "ERROR" if failed else "UNSET",
            (mapping.description(what) or None) if failed else None,
            attributes,
            self._run_id,
            service_name="hermes_nb",
            scope_name="hermes_nb",
            n_events=len(scope.marks) + (failed and mapping.exception(what) is not None),
            n_links=len(mapping.links(what)),
        )

    def _events(self, scope: _Scope) -> Iterator[EventRow]:
        span_id, what = self._id(scope.started.scope), scope.what
        for seq, (event, mark) in enumerate(scope.marks):
            told = mark.attributes | content.point_content(event.what)
            yield EventRow(self._trace_id, span_id, "span", seq, event.at, mark.name, told, run_id=self._run_id)
        raised = mapping.exception(what) if scope.ended else None
        if raised is not None and scope.ended is not None:
            place = len(scope.marks), scope.ended.at
            yield EventRow(self._trace_id, span_id, "span", *place, "exception", raised, run_id=self._run_id)

    def _links(self, scope: _Scope) -> Iterator[LinkRow]:
        for link in mapping.links(scope.what):
            span_id = _root_of(link.turn_id) or self._id(link.scope)
            trace_id = f"{mapping.trace_id(link.turn_id):032x}" if link.turn_id else self._trace_id
            told = {semconv.HERMES_LINK_TYPE: link.type}
            yield LinkRow(self._trace_id, self._id(scope.started.scope), trace_id, span_id, told)


_DIRECTIONS = {"assistant": "output", "system": "system"}
