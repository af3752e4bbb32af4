"""Spans in memory: those of one turn and of the turns below it, open ones included."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from hermes_nb.telemetry.deferred import Deferred

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.vocabulary.events import Chat, Point, Scoped


_NOTHING: Final[Mapping[int, Point]] = MappingProxyType({})


@dataclass(slots=True)
class Kept:
    """One span and what it stands for.

    Attributes:
        source: The span, which may have yet to be written.
        turn_id: The turn that it belongs to; also set for spans that the user opened in a tool.
        what: The scope that the span tells of, with all that was said; None for the user's spans.
        previous: For a chat, the one before it in the same turn and for the same purpose.
        system: For a turn, the system prompt.
        points: What its span events tell of, by their time in nanoseconds, where more was said than they show.
    """

    source: ReadableSpan | Deferred
    turn_id: str
    what: Scoped | None = None
    previous: Chat | None = None
    system: str = ""
    points: Mapping[int, Point] = field(default_factory=lambda: _NOTHING)

    @property
    def span(self) -> ReadableSpan:
        """The span itself; while it is open its attributes grow and its `end_time` is None."""
        return self.source.written() if isinstance(self.source, Deferred) else self.source


class LiveStore:
    """The spans of one turn, of its sub-agents, and those that the user opened in its tools; safe for any thread.

    It lives as long as somebody holds it, usually the run.

    Attributes:
        notes: Why spans are missing, in words; empty if none are.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._kept: dict[int, Kept] = {}
        self._lock = threading.Lock()

    def add(self, number: int, span: ReadableSpan | Deferred, turn_id: str) -> Kept:
        """Keep a span that has just started, under its id; the same span is kept once."""
        with self._lock:
            return self._kept.setdefault(number, Kept(span, turn_id, points=_NOTHING))

    def get(self, span_id: int) -> Kept | None:
        """What is kept of a span."""
        return self._kept.get(span_id)

    def spans(self, turn_id: str | None = None) -> list[Kept]:
        """The spans in the order of their start.

        Args:
            turn_id: Only this turn's, and those of the turns below it.
        """
        with self._lock:
            kept = list(self._kept.values())
        return kept if turn_id is None else list(_subtree(kept, turn_id))

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        """Shows the state: `<LiveStore 12 spans, 2 open>`."""
        kept = self.spans()
        return f"<LiveStore {len(kept)} spans, {sum(k.source.end_time is None for k in kept)} open>"


def _subtree(kept: list[Kept], turn_id: str) -> Iterator[Kept]:
    """The spans of a turn and what is below them; parents always come before their children."""
    inside: set[int] = set()
    for item in kept:
        parent = item.source.parent
        if item.turn_id == turn_id or (parent is not None and parent.span_id in inside):
            inside.add(_number(item.source))
            yield item


def _number(span: ReadableSpan | Deferred) -> int:
    context = span.get_span_context()
    assert context is not None, "spans of the SDK always have a context"
    return context.span_id
