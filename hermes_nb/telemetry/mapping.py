"""What the events of a turn are called as spans: names, attributes, status, links and span events.

Pure functions of events; OpenTelemetry is not imported. The span sink writes spans with them, and the reader of the
logbook makes the same rows from stored events. What was said (messages, arguments, results) is in `content`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from hermes_nb.telemetry import semconv as s
from hermes_nb.telemetry.rows import ROWS
from hermes_nb.telemetry.values import clean_items
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.vocabulary.events import Event, Scoped, What

Attributes = dict[str, Any]
Place = Literal["turn", "iteration", "next_iteration"]


# ---------------------------------------------------------------------------------------------- identity


def trace_id(turn_id: str) -> int:
    """The trace of a turn that nothing surrounds: its id, if that is a UUID, so that files and logbook agree."""
    try:
        return uuid.UUID(turn_id).int
    except ValueError:
        return int.from_bytes(blake2b(turn_id.encode(), digest_size=16).digest()) or 1


def span_id(turn_id: str, scope: int) -> int:
    """The span of a scope; the same in memory, in files and from the logbook."""
    return int.from_bytes(blake2b(f"{turn_id}/{scope}".encode(), digest_size=8).digest()) or 1


# ---------------------------------------------------------------------------------------------- scopes


def span_name(what: Scoped) -> str:
    """The span's name, of low cardinality."""
    if isinstance(what, events.Turn):
        return unicode_only(f"invoke_agent {what.agent}".rstrip())
    if isinstance(what, events.Chat):
        return unicode_only(f"chat {what.model}".rstrip())
    if isinstance(what, events.Tool):
        return unicode_only(f"execute_tool {what.name}".rstrip())
    if isinstance(what, events.Iteration) and what.grace:
        return "hermes.grace_call"
    return f"hermes.{what.kind}"


def span_kind(what: Scoped) -> Literal["internal", "client"]:
    """`client` for a model call, `internal` for everything that happens in this process."""
    return "client" if isinstance(what, events.Chat) else "internal"


def start_attributes(event: Event) -> Attributes:
    """The attributes known when a scope starts, those that samplers look at among them."""
    what = event.what
    row = ROWS[type(what)]
    out: Attributes = {
        s.HERMES_SPAN_TYPE: what.kind,
        s.HERMES_TURN_ID: event.turn_id,
        s.GEN_AI_CONVERSATION_ID: event.conversation_id,
    }
    if event.iteration and not isinstance(what, events.Turn):  # a sub-agent starts inside of its parent's
        out[s.HERMES_ITERATION_NUMBER] = event.iteration
    row.start.read(what, out)
    return out


def end_attributes(event: Event, *, openinference: bool = True) -> Attributes:
    """The attributes known when a scope ends.

    Args:
        event: A scope's `ended`.
        openinference: Add what viewers of OpenInference read.
    """
    what = event.what
    row = ROWS[type(what)]
    out: Attributes = {}
    row.end.read(what, out)
    if event.interrupted and row.interrupted is not None:
        key, value = row.interrupted
        out.setdefault(key, value)
    return out | viewer_attributes(what, event.conversation_id) if openinference else out


def viewer_attributes(what: What, conversation_id: str) -> Attributes:
    """What viewers of OpenInference read beside the GenAI names, known at the end of a scope."""
    row = ROWS[type(what)]
    out: Attributes = {s.OPENINFERENCE_SPAN_KIND: row.viewer_kind}
    if isinstance(what, events.Turn):
        out[s.SESSION_ID] = conversation_id
    row.viewer(what, out)
    return out


def failed(event: Event) -> bool:
    """Whether the span of an ended scope has the status ERROR; OK is never set."""
    return bool(getattr(event.what, "error_type", ""))


def description(what: Scoped) -> str:
    """The words of a failed span's status; may be empty."""
    return what.detail if isinstance(what, events.Turn) else getattr(what, "error", "")


LinkType: TypeAlias = Literal["previous_turn", "replay_of", "failed_chat", "delegated_by"]


@dataclass(frozen=True, slots=True)
class Link:
    """From a span to another one.

    Attributes:
        type: What it means; `hermes.link.type`.
        turn_id: The turn whose root span is meant; empty for a scope of the same turn.
        scope: The scope of the same turn that is meant; 0 for another turn.
    """

    type: LinkType
    turn_id: str = ""
    scope: int = 0


def links(what: Scoped) -> tuple[Link, ...]:
    """What a span points at, beside its parent."""
    if isinstance(what, events.Turn):
        turns: dict[LinkType, str] = {"previous_turn": what.previous_turn_id, "replay_of": what.replay_of}
        return tuple(Link(meaning, turn_id=turn_id) for meaning, turn_id in turns.items() if turn_id)
    if isinstance(what, events.Fallback) and what.failed_chat:
        return (Link("failed_chat", scope=what.failed_chat),)
    return ()


# ---------------------------------------------------------------------------------------------- span events


@dataclass(frozen=True, slots=True)
class Mark:
    """A span event.

    Attributes:
        name: Its name.
        attributes: Its attributes.
        place: The span that it goes on: the turn's, that of the iteration around it, or that of the iteration which
            it leads to, if it happens between two. Without an iteration, the turn's.
    """

    name: str
    attributes: Attributes = field(default_factory=dict)
    place: Place = "iteration"


def mark(what: What) -> Mark | None:
    """The span event of a point, or None for those that are no span events (messages, streamed pieces)."""
    made = _MARKS.get(type(what))
    return None if made is None else made(what)


def exception(what: Scoped) -> Attributes | None:
    """The attributes of the `exception` event of the innermost span that failed; None elsewhere.

    A failed HTTP status is no exception, and what is above the failing scope only passes it on.
    """
    if not isinstance(what, events.Attempt | events.Tool) or not what.error_type or what.error_type.isdigit():
        return None
    out = {s.EXCEPTION_TYPE: what.error_type}
    return out | {s.EXCEPTION_MESSAGE: what.error} if what.error else out


_BUDGET_PLACES: Final[dict[str, Place]] = {
    "grant": "turn",
    "exhausted": "turn",
    "consume": "next_iteration",
    "grace_granted": "next_iteration",
    "grace_used": "next_iteration",
}


def _budget(what: events.BudgetChanged) -> Mark:
    out: Attributes = {
        s.HERMES_BUDGET_LIMIT: what.limit,
        s.HERMES_BUDGET_USED: what.used,
        s.HERMES_BUDGET_REMAINING: what.remaining,
        s.HERMES_BUDGET_DELTA: what.delta,
        s.HERMES_BUDGET_SEQUENCE: what.sequence,
        s.HERMES_BUDGET_ACTOR: what.actor,
    }
    if what.reason:
        out[s.HERMES_BUDGET_REASON] = what.reason
    return Mark(f"hermes.budget.{what.action}", out, _BUDGET_PLACES.get(what.action, "iteration"))


def _steer(what: events.Steered) -> Mark:
    name = "applied" if what.status == "delivered" else what.status
    out: Attributes = {s.HERMES_STEER_ID: what.id, s.HERMES_STEER_COUNT: 1, s.HERMES_STEER_CHARS: len(what.text)}
    if what.reason:
        out[s.HERMES_STEER_REASON] = what.reason
    return Mark(f"hermes.steer.{name}", out)


def _interrupt(what: events.Interrupt) -> Mark:
    out: Attributes = {s.HERMES_INTERRUPT_SOURCE: what.source}
    if what.during:
        out[s.HERMES_INTERRUPT_DURING] = what.during
    if what.latency is not None:
        out[s.HERMES_INTERRUPT_LATENCY] = float(what.latency)
    return Mark(f"hermes.interrupt.{what.status}", out)


def _degraded(what: events.Degraded) -> Mark:
    name = s.EVENT_HERMES_GUARD_DEGRADED if what.part == "guard" else s.EVENT_HERMES_DEGRADED
    return Mark(name, {s.HERMES_DEGRADED_PART: what.part, s.HERMES_DEGRADED_DETAIL: what.detail})


def _checkpoint(what: events.Checkpointed) -> Mark:
    out = {s.HERMES_CHECKPOINT_DIRECTORY: what.directory, s.HERMES_CHECKPOINT_SNAPSHOT: what.snapshot}
    return Mark(s.EVENT_HERMES_CHECKPOINT, out)


def _forked(what: events.Forked) -> Mark:
    out: Attributes = {s.GEN_AI_AGENT_NAME: what.agent, s.HERMES_TURN_REPLAY_UNTIL: what.after}
    return Mark(s.EVENT_HERMES_FORKED, out | clean_items(what.settings, f"{s.HERMES_SETTING}."), "turn")


_MARKS: Final[dict[type, Callable[[Any], Mark]]] = {
    events.BudgetChanged: _budget,
    events.Steered: _steer,
    events.Interrupt: _interrupt,
    events.Paused: lambda what: Mark(f"hermes.{what.status}", place="turn"),
    events.Degraded: _degraded,
    events.Checkpointed: _checkpoint,
    events.Forked: _forked,
}
