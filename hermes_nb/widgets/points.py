"""How something that happens at one moment changes a snapshot."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, cast

from hermes_nb.widgets import safe
from hermes_nb.widgets.parts import Draft, Note, Row, Stop, tool_key

if TYPE_CHECKING:
    from hermes_nb.vocabulary import events
    from hermes_nb.vocabulary.events import Event
    from hermes_nb.vocabulary.messages import Message
    from hermes_nb.widgets.monitor import Snapshot

CHARS_PER_TOKEN = 4
"""An estimate until the next server counts; usual for English text."""

_STREAMED = ("", "main", "summary")
"""Purposes of chats whose text the user reads."""

_GRACE: dict[str, Literal["granted", "used"]] = {"grace_granted": "granted", "grace_used": "used"}
_TAIL = safe.TEXT // 4
_HEAD = safe.TEXT - _TAIL
_STEERS = 200


def budget_changed(snapshot: Snapshot, event: Event) -> Snapshot:
    """Takes the absolute values; a view that came late does not undo a newer one."""
    what = cast("events.BudgetChanged", event.what)
    old = snapshot.budget
    budget = replace(old, grace=_GRACE.get(what.action, old.grace))
    if what.sequence >= old.sequence:
        refunded = old.refunded + (what.action == "refund" and what.sequence > old.sequence)
        budget = replace(
            budget,
            limit=what.limit,
            used=what.used,
            remaining=what.remaining,
            refunded=refunded,
            sequence=what.sequence,
        )
    return replace(snapshot, budget=budget)


def message_added(snapshot: Snapshot, event: Event) -> Snapshot:
    """A row for each message that has none yet, and an estimate of the window."""
    message = cast("events.MessageAdded", event.what).message
    grown = snapshot
    if message.role != "assistant":  # the model's own words are in the server's count
        tokens = snapshot.context.tokens + len(message.text) // CHARS_PER_TOKEN
        grown = replace(snapshot, context=replace(snapshot.context, tokens=tokens, real=False))
    if message.role == "assistant" and message.origin == "closing":
        return grown  # a closing word of the loop's own; the last row tells more
    if message.role == "assistant":
        return _assistant(grown, event, message)
    if message.role == "tool":
        return _answered(grown, event, message)
    return _user(grown, event, message)


def _assistant(snapshot: Snapshot, event: Event, message: Message) -> Snapshot:
    text, thinking = safe.content(message.content), safe.clean(message.reasoning)
    rows, calls = [], dict(snapshot.calls)
    if text.strip() or thinking:
        bar = snapshot.model.bar
        rows.append(Row(f"m{event.seq}", "assistant", event.at, event.iteration, text=text, detail=thinking, bar=bar))
    for call in message.tool_calls:
        if call.id not in calls:
            row = Row(tool_key(event.iteration, call.id), "tool", event.at, event.iteration, safe.line(call.name, 200),
                      detail=safe.clean(call.arguments, safe.LINE))  # fmt: skip
            calls[call.id] = row
            rows.append(row)
    return replace(snapshot, rows=snapshot.rows.plus(*rows), calls=calls, draft=Draft())


def _answered(snapshot: Snapshot, event: Event, message: Message) -> Snapshot:
    call_id = message.tool_call_id or ""
    row = snapshot.calls.get(call_id) or Row(tool_key(event.iteration, call_id), "tool", event.at, event.iteration)
    if row.tone and row.tone != "running":
        return snapshot  # the end of the tool has told more than its message does
    title, text = row.title or safe.line(message.name or "tool", 200), safe.content(message.content, safe.RESULT)
    row = replace(row, title=title, text=text, tone="ok")
    return replace(snapshot, rows=snapshot.rows.plus(row), calls={**snapshot.calls, call_id: row})


def _user(snapshot: Snapshot, event: Event, message: Message) -> Snapshot:
    text = safe.content(message.content)
    told = any(note.text == text for note in snapshot.steers) if message.origin == "steer" else not message.origin
    if told and (message.origin or text == snapshot.turn.prompt):
        return snapshot  # the steer's receipt or the turn's prompt has a row already
    key, at, iteration = f"m{event.seq}", event.at, event.iteration
    if message.origin == "steer":
        row = Row(key, "steer", at, iteration, text=text, tone="delivered")
    elif message.origin == "summary":
        row = Row(key, "note", at, iteration, text="The history so far was replaced by a summary.", detail=text)
    elif message.origin:
        row = Row(key, "note", at, iteration, text=text)
    else:
        row = Row(key, "user", at, iteration, text=text)
    return replace(snapshot, rows=snapshot.rows.plus(row))


def delta(snapshot: Snapshot, event: Event) -> Snapshot:
    """The reply that is being streamed grows; a delta of another request begins a new one."""
    what = cast("events.Delta", event.what)
    activity = snapshot.open.get((event.turn_id, event.scope))
    if activity is not None and activity.purpose not in _STREAMED:
        return snapshot
    draft = snapshot.draft if snapshot.draft.scope == event.scope else Draft(event.scope)
    if what.part == "call":
        draft = replace(draft, call_chars=draft.call_chars + len(what.text))
    elif what.part == "reasoning":
        draft = replace(draft, thinking=(draft.thinking + what.text)[-_TAIL:])
    else:
        room = max(0, _HEAD - len(draft.head))
        draft = replace(
            draft,
            head=draft.head + what.text[:room],
            tail=(draft.tail + what.text[room:])[-_TAIL:],
            chars=draft.chars + len(what.text),
        )
    return replace(snapshot, draft=draft)


def steered(snapshot: Snapshot, event: Event) -> Snapshot:
    """The steer's receipt; a row once it is known what became of it."""
    what = cast("events.Steered", event.what)
    iteration = event.iteration or snapshot.iteration
    note = Note(what.id, safe.clean(what.text), what.status, safe.line(what.reason, 300), iteration)
    steers = (*(old for old in snapshot.steers if old.id != note.id), note)[-_STEERS:]
    if note.status == "queued":
        return replace(snapshot, steers=steers)
    receipt = f"delivered in iteration {iteration}" if note.status == "delivered" else f"undelivered: {note.reason}"
    row = Row(f"s{note.id}", "steer", event.at, iteration, text=note.text, detail=receipt, tone=note.status)
    return replace(snapshot, steers=steers, rows=snapshot.rows.plus(row))


def interrupt(snapshot: Snapshot, event: Event) -> Snapshot:
    """Somebody wants the turn to end, or it is ending."""
    what = cast("events.Interrupt", event.what)
    stop = snapshot.stop
    return replace(
        snapshot,
        stop=Stop(
            stop.source or safe.line(what.source, 100),
            stop.observed or what.status == "observed",
            what.during or stop.during,
        ),
    )


def paused(snapshot: Snapshot, event: Event) -> Snapshot:
    """The turn waits at a boundary, or goes on."""
    return replace(snapshot, paused=cast("events.Paused", event.what).status == "paused")


def degraded(snapshot: Snapshot, event: Event) -> Snapshot:
    """Something failed without breaking the turn; the reader should know."""
    what = cast("events.Degraded", event.what)
    text = f"Going on without the {what.part}: {safe.line(what.detail, 500)}"
    row = Row(f"n{event.seq}", "note", event.at, event.iteration, text=text, tone="warning")
    return replace(snapshot, rows=snapshot.rows.plus(row))
