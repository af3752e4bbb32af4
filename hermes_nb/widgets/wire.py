"""A snapshot as what the browser is told: small dictionaries, sent only when they have changed.

The transcript and the timeline grow, so they travel in *pages*: a page says at which number it begins and holds what
came since. A browser that misses one, or comes late, asks for the rest by number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hermes_nb.widgets import words
from hermes_nb.widgets.gauges import gauges

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.widgets.log import Log
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Bar, Draft, Row

MILLI = 1_000_000
"""Nanoseconds in a millisecond, the browser's unit of time."""

PAGE = 60
"""Items after which a new page begins."""

PAGE_CHARS = 32_000
"""Characters after which a new page begins."""

BURST = 300
"""Items that one page can take at a time, and that one answer to a browser that asks for more holds."""

T = TypeVar("T")


def head(snapshot: Snapshot, *, pausing: bool = False) -> dict[str, Any]:
    """Everything but the transcript, the timeline and the reply that is being streamed.

    Args:
        snapshot: What to show.
        pausing: The user has asked for a pause that has not begun.
    """
    status, phase = words.status(snapshot), words.phase(snapshot)
    who, remark = words.answering(snapshot)
    return {
        "agent": snapshot.turn.agent,
        "who": who,
        "remark": remark,
        "fallback": snapshot.model.fallback > 0,
        "status": {"word": status.word, "tone": status.tone},
        "phase": {"text": phase.text, "until": phase.until // MILLI},
        "gauges": [gauge.as_dict() for gauge in gauges(snapshot, snapshot.turn.started)],
        "clock": {"start": snapshot.turn.started // MILLI, "end": snapshot.turn.ended // MILLI,
                  "limit": snapshot.limits.seconds},
        "steers": [{"id": note.id, "text": note.text} for note in snapshot.steers if note.status == "queued"],
        "cannot": cannot(snapshot, pausing=pausing),
        "pausing": pausing and not snapshot.paused,
        "rows": len(snapshot.rows),
        "bars": len(snapshot.bars),
        "done": snapshot.ended,
    }  # fmt: skip


def cannot(snapshot: Snapshot, *, pausing: bool) -> dict[str, str]:
    """Why a control can do nothing now, by the control's name; what is not named can."""
    if snapshot.ended:
        return dict.fromkeys(("steer", "interrupt", "boundary", "pause", "step", "resume"), "The turn is over.")
    why: dict[str, str] = {}
    if snapshot.stop.source:
        stopping = "The turn is stopping already."
        why |= {"steer": stopping, "boundary": stopping, "pause": stopping, "step": stopping, "resume": stopping}
        return why
    if snapshot.paused:
        why["pause"] = "The turn is paused."
        return why
    why["step"] = "Pause the turn first; a step runs one iteration of a paused turn."
    if pausing:
        why["pause"] = "The turn pauses after this iteration."
    else:
        why["resume"] = "The turn is not paused."
    return why


def draft(value: Draft) -> dict[str, Any]:
    """The reply that is being streamed, bounded."""
    text = value.head
    if value.tail:
        left = value.chars - len(value.head) - len(value.tail)
        text += (f"\n… {left:,} characters left out …\n" if left else "") + value.tail
    return {"scope": value.scope, "text": text, "thinking": value.thinking, "call": value.call_chars}


def row(value: Row) -> dict[str, Any]:
    """A row of the transcript; what is empty is left out."""
    made = {
        "key": value.key,
        "kind": value.kind,
        "title": value.title,
        "text": value.text,
        "detail": value.detail,
        "tone": value.tone,
        "bar": value.bar,
        "state": words.tool_state(value) if value.kind == "tool" else "",
    }
    return {name: part for name, part in made.items() if part}


def bar(value: Bar) -> dict[str, Any]:
    """A bar of the timeline, in milliseconds; what is empty is left out."""
    made = {
        "key": value.key,
        "lane": value.lane,
        "start": value.start / MILLI,
        "end": value.end and value.end / MILLI,
        "tone": value.tone,
        "label": value.label,
        "row": value.row,
    }
    return {name: part for name, part in made.items() if part}


class Pages(Generic[T]):
    """Cuts a growing log into pages.

    A page grows until it is full; so a browser that comes a moment late, or misses an update, still finds there what
    it needs.

    Args:
        encode: An item as a dictionary.
    """

    def __init__(self, encode: Callable[[T], dict[str, Any]]) -> None:
        self._encode = encode
        self._start = self._sent = self._chars = 0
        self._items: list[dict[str, Any]] = []

    def newest(self, log: Log[T]) -> dict[str, Any]:
        """The page at the end of the log."""
        begin = max(self._sent, len(log) - BURST)
        fresh = [self._encode(item) for item in log[begin:]]
        size = sum(len(str(item.get("text", ""))) + len(str(item.get("detail", ""))) for item in fresh)
        if begin > self._sent or len(self._items) + len(fresh) > PAGE or self._chars + size > PAGE_CHARS:
            self._start, self._items, self._chars = begin, [], 0
        if fresh:
            self._items = [*self._items, *fresh]
            self._chars += size
        self._sent = len(log)
        return {"from": self._start, "items": self._items}

    def since(self, log: Log[T], number: int) -> dict[str, Any]:
        """A page that begins at `number`, for a browser that asks; it asks again where that is not all."""
        return {"from": number, "items": [self._encode(item) for item in log[number : number + BURST]]}
