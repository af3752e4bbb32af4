"""The span sink: makes OpenTelemetry spans of a turn's events.

The context manager that the sink returns for a scope makes its span the current one in the very task or thread that
does the work, so that spans which the user opens there get the right parent.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, set_span_in_context

from hermes_nb.telemetry import mapping, semconv
from hermes_nb.telemetry.deferred import Deferred
from hermes_nb.telemetry.hub import HERE, HUB, Here, here
from hermes_nb.telemetry.pen import Pen
from hermes_nb.telemetry.store import LiveStore
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from contextvars import Token

    from opentelemetry.trace import Span, SpanContext, Tracer

    from hermes_nb.telemetry.content import Content
    from hermes_nb.telemetry.mapping import Mark
    from hermes_nb.telemetry.store import Kept
    from hermes_nb.vocabulary.events import Event, Scoped

_LINKING: Final = (events.Turn, events.Fallback)
"""The scopes that point at other spans than their parent."""

(_SPAN,) = set_span_in_context(INVALID_SPAN, Context())
"""Under which a context holds its span: both values of ours go into a new one at once, which is copied once."""


class SpanSink:
    """A sink that makes the spans of a turn, and of the turns of its sub-agents.

    Args:
        tracer: Makes the spans.
        store: Keeps them; a new one if left out.
        content: Whether what was said goes onto the spans themselves. Captures add it for themselves, from the store.
        openinference: Whether what viewers of OpenInference read goes onto the spans themselves.
        defer: Write a span only when somebody looks at it; for a tracer whose spans nobody else waits for.
    """

    def __init__(
        self,
        tracer: Tracer,
        *,
        store: LiveStore | None = None,
        content: Content = "none",
        openinference: bool = True,
        defer: bool = False,
    ) -> None:
        self.store = LiveStore() if store is None else store
        self.pen = Pen(tracer, content=content, openinference=openinference)
        self.defer = defer
        self._turns: dict[str, TurnSpans] = {}

    def __call__(self, event: Event) -> AbstractContextManager[object] | None:
        """Take one event; for a scope that starts, returns what makes its span current."""
        if type(event.what) is events.Delta:  # the most of all events, and on no span
            return None
        turn = self._turns.get(event.turn_id)
        if turn is None:
            if event.phase == "ended" or (event.phase == "point" and event.seq > 1):
                return None  # the turn is over: a tool outlived it, or somebody has steered too late
            turn = self._turns[event.turn_id] = HUB.turns[event.turn_id] = TurnSpans(self, event.turn_id)
        if event.phase == "started":
            return turn.start(event)
        if event.phase == "point":
            turn.point(event)
            return None
        turn.end(event)
        if isinstance(event.what, events.Turn):
            del self._turns[event.turn_id]  # it refers to this sink: nothing is left for the garbage collector
        return None


class _Open:
    """An open scope: its span, and the context manager that makes the span current and ends it."""

    __slots__ = ("_token", "context", "end_time", "kept", "parent", "pen", "span", "what")

    def __init__(self, pen: Pen, span: Span, context: Context, parent: int, what: Scoped, kept: Kept | None) -> None:
        self.pen = pen
        self.span = span
        self.context = context
        self.parent = parent
        self.what = what
        self.kept = kept
        self.end_time: int | None = None
        self._token: Token[Context] | None = None

    def __enter__(self) -> Span:
        self._token = otel.attach(self.context)
        return self.span

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            otel.detach(self._token)
            self._token = None
        self.end()

    def write(self, stroke: Callable[..., None], *what: Any) -> None:
        """Have the pen write something onto the span: now, or when somebody looks at it."""
        if isinstance(self.span, Deferred):
            self.span.later(stroke, *what)
        else:
            stroke(self.pen, *what, self.span)

    def end(self) -> None:
        """End the span, once."""
        if self.span.is_recording():
            self.span.end(self.end_time)


class TurnSpans:
    """The spans of one turn; told of by the sink, under the recorder's lock."""

    def __init__(self, sink: SpanSink, turn_id: str) -> None:
        self._sink = sink
        self._turn_id = turn_id
        self._open: dict[int, _Open] = {}
        self._contexts: dict[int, SpanContext] = {}
        self._chats: dict[str, events.Chat] = {}
        self._root: _Open | None = None
        self._waiting: list[tuple[Event, Mark]] = []

    def delegating(self, agent: str) -> SpanContext | None:
        """The open tool span that handed work to this agent; None if there is none."""
        spans = (o.span for o in self._open.values() if isinstance(o.what, events.Tool) and o.what.delegate == agent)
        span = next(spans, None)
        return None if span is None else span.get_span_context()

    # ------------------------------------------------------------------------------------------ scopes

    def start(self, event: Event) -> _Open:
        """Start the span of a scope."""
        what: Any = event.what
        around = self._around(event)
        links = self._links(what) if isinstance(what, _LINKING) else None
        span, kept = self._begun(event, around, links)
        place = Here(self._sink.store, self._turn_id, event.scope)
        context = Context({**around, HERE: place, _SPAN: span})
        if isinstance(what, events.Chat):
            context = _told_already(context)
        number = span.get_span_context()
        opened = _Open(self._sink.pen, span, context, event.parent, what, kept)
        self._open[event.scope] = opened
        self._contexts[event.scope] = number
        self._began(event, opened)
        return opened

    def _begun(self, event: Event, around: Context, links: list[Link] | None) -> tuple[Span, Kept | None]:
        """The span, written or deferred, and where it is kept.

        One with labels is written, for those are the user's, who may change them later.
        """
        pen, store = self._sink.pen, self._sink.store
        labelled = isinstance(event.what, events.Turn) and event.what.metadata
        if labelled or not self._sink.defer:
            span = pen.begin(event, around, links)
            return span, store.get(span.get_span_context().span_id)
        deferred = Deferred(pen, event, around, links)
        return deferred, HUB.keep(deferred, store, self._turn_id)

    def _began(self, event: Event, opened: _Open) -> None:
        """Keep what the span stands for, and write down what was waiting for it."""
        what, kept = opened.what, opened.kept
        if kept is not None:
            kept.what = what
        if isinstance(what, events.Chat):
            if kept is not None:
                kept.previous = self._chats.get(what.purpose)
            self._chats[what.purpose] = what
        elif isinstance(what, events.Turn):
            self._root = opened
            HUB.remember(self._turn_id, opened.span.get_span_context())
        if self._waiting and isinstance(what, events.Turn | events.Iteration):
            self._write_waiting(event.scope)

    def _around(self, event: Event) -> Context:
        """The context that a span starts in: the current one, unless it was lost on the way into a thread."""
        current = otel.get_current()
        if isinstance(event.what, events.Turn):
            return otel.set_value(HERE, Here(self._sink.store, self._turn_id, 0), current)
        parent = self._open.get(event.parent) or self._root
        if parent is None or current is parent.context:
            return current
        place = here(current)
        is_below = place is not None and place.turn_id == self._turn_id and place.scope == event.parent
        return current if is_below else parent.context

    def _links(self, what: Any) -> list[Link]:
        found = []
        for link in mapping.links(what):
            target = HUB.root(link.turn_id) if link.turn_id else self._contexts.get(link.scope)
            attributes: dict[str, Any] = {semconv.HERMES_LINK_TYPE: link.type}
            if link.turn_id:
                attributes[semconv.HERMES_TURN_ID] = link.turn_id
            found.append((target, attributes))
        if isinstance(what, events.Turn) and what.parent_turn_id:
            found.append((_delegated_by(what), {semconv.HERMES_LINK_TYPE: "delegated_by"}))
        return [Link(target, attributes) for target, attributes in found if target is not None]

    def end(self, event: Event) -> None:
        """Write what is known at the end of a scope; its context manager ends the span."""
        opened = self._open.pop(event.scope, None)
        if opened is None or not opened.span.is_recording():
            return
        what: Any = event.what
        opened.end_time = event.at
        if opened.kept is not None:
            opened.kept.what = what
        opened.write(Pen.end, event, opened.kept if self._sink.pen.content != "none" else None)
        if isinstance(what, events.Turn):
            self._finish(event.at)

    def _finish(self, at: int) -> None:
        """The turn is over: nothing waits any longer, and no span stays open."""
        self._write_waiting(0)
        for left in self._open.values():
            left.end_time = at
            left.end()
        self._open.clear()

    # ------------------------------------------------------------------------------------------ span events

    def point(self, event: Event) -> None:
        """Write a point as a span event, if it is one."""
        if isinstance(event.what, events.SystemPrompt):
            if self._root is not None and self._root.kept is not None:
                self._root.kept.system = event.what.text
        elif (mark := mapping.mark(event.what)) is not None:
            place = self._place(mark, event.scope)
            if place is None:
                self._waiting.append((event, mark))
            else:
                self._write(place, event, mark)

    def _place(self, mark: Mark, scope: int) -> _Open | None:
        """The span that an event goes on; None if that has yet to start."""
        if mark.place != "turn":
            found = self._open.get(scope)
            while found is not None and not isinstance(found.what, events.Iteration):
                found = self._open.get(found.parent) if found is not self._root else None
            if found is not None or mark.place == "next_iteration":
                return found
        return self._root

    def _write_waiting(self, scope: int) -> None:
        """Write the events that waited for this scope; for 0 all of them, on the turn."""
        waiting, self._waiting = self._waiting, []
        for event, mark in waiting:
            place = self._place(mark, scope) or (self._root if scope == 0 else None)
            if place is None:
                self._waiting.append((event, mark))
            else:
                self._write(place, event, mark)

    def _write(self, place: _Open, event: Event, mark: Mark) -> None:
        if not place.span.is_recording():
            return
        if isinstance(event.what, events.Steered) and place.kept is not None:
            place.kept.points = {**place.kept.points, event.at: event.what}
        place.write(Pen.mark, event, mark)


def _told_already(context: Context) -> Context:
    """A context in which instrumentations of model clients, if there are any, do not tell of the same call again."""
    genai = sys.modules.get("opentelemetry.util.genai.invocation")
    if genai is None:
        return context
    return otel.set_value(genai.CLIENT_INFERENCE_CONTEXT_KEY, genai.InferenceData(), context)


def _delegated_by(turn: events.Turn) -> SpanContext | None:
    """The tool span that started a sub-agent whose context was lost on the way; None if it is the parent anyway."""
    place = here()
    if place is not None and place.turn_id == turn.parent_turn_id:
        return None
    parent = HUB.turns.get(turn.parent_turn_id)
    return None if parent is None else parent.delegating(turn.agent) or HUB.root(turn.parent_turn_id)
