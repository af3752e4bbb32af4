"""What a snapshot consists of: small frozen pieces, one for each thing that the panel shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hermes_nb.vocabulary.messages import Usage
from hermes_nb.widgets import safe

Where: TypeAlias = tuple[str, int]
"""A scope: the turn, and its number in the turn."""

Lane = Literal["model", "tools", "waits", "compression", "agents"]
RowKind = Literal["prompt", "user", "assistant", "tool", "steer", "note", "iteration", "end"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the turn as a whole. Times in nanoseconds since the epoch, 0 for not yet."""

    agent: str = ""
    number: int = 1
    provider: str = ""
    model: str = ""
    prompt: str = ""
    started: int = 0
    ended: int = 0
    exit_reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the turn may not exceed; None for no limit."""

    tokens: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    compressions: int | None = None


@dataclass(frozen=True, slots=True)
class Answering:
    """Who answers.

    Attributes:
        provider: The provider that is asked.
        model: The model that is asked.
        served: The model that the server says answered; empty where it says the same or nothing.
        fallback: Place in the chain; 0 for the primary.
        bar: The bar of the last request.
    """

    provider: str = ""
    model: str = ""
    served: str = ""
    fallback: int = 0
    bar: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """The iterations; `sequence` tells an older view from a newer one."""

    limit: int = 0
    used: int = 0
    remaining: int = 0
    refunded: int = 0
    sequence: int = -1
    grace: Literal["", "granted", "used"] = ""


@dataclass(frozen=True, slots=True)
class Context:
    """How full the model's window is, in tokens; `real` when a server counted them, not an estimate."""

    tokens: int = 0
    window: int | None = None
    real: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """What the turn has cost so far, sub-agents included; `cost_usd` is None where nothing is priced."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    chats: int = 0
    retries: int = 0
    fallbacks: int = 0
    compressions: int = 0
    tools: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """A scope that is open.

    Attributes:
        kind: The scope's kind, as in `event.what.kind`.
        name: A tool, a model, a reason, an agent.
        at: When it began, in nanoseconds.
        number: Of an attempt, an iteration.
        maximum: Of attempts, of iterations; 0 where there is none.
        until: When a wait is over, in nanoseconds; 0 elsewhere.
        purpose: Of a chat and its attempts.
        bar: The bar that grows with it.
    """

    kind: str
    name: str
    at: int
    number: int = 0
    maximum: int = 0
    until: int = 0
    purpose: str = ""
    bar: Bar | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the timeline; a later bar with the same key replaces it.

    Attributes:
        key: Identifies the bar.
        lane: Where it is drawn.
        start: In nanoseconds since the epoch.
        end: None while it grows.
        tone: The lane's own colour when empty, else `failed` or `stopped`.
        label: What it says when pointed at.
        row: The key of the row that belongs to it; empty if none.
    """

    key: str
    lane: Lane
    start: int
    end: int | None = None
    tone: Literal["", "failed", "stopped"] = ""
    label: str = ""
    row: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the transcript, its texts bounded and clean; a later row with the same key replaces it.

    Attributes:
        key: Identifies the row.
        kind: How it is drawn.
        at: When, in nanoseconds since the epoch.
        iteration: The iteration under way; 0 outside of one.
        title: A tool's name, an iteration's heading.
        text: What was said, or what a tool answered.
        detail: A tool's arguments, a model's thinking, a steer's receipt.
        tone: A tool's status, a steer's status, or how a note is meant.
        seconds: How long a tool ran; None while it is running.
        bar: The key of the bar that belongs to it; empty if none.
    """

    key: str
    kind: RowKind
    at: int = 0
    iteration: int = 0
    title: str = ""
    text: str = ""
    detail: str = ""
    tone: str = ""
    seconds: float | None = None
    bar: str = ""


def tool_key(iteration: int, call_id: str) -> str:
    """The key of a tool call's row; a careless server gives the same id again in a later iteration."""
    return f"t{iteration}:{safe.line(call_id, 100)}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A reply that is being streamed: the beginning of its text, its end where it is long, and how much there is."""

    scope: int = 0
    head: str = ""
    tail: str = ""
    chars: int = 0
    thinking: str = ""
    call_chars: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """A steer and what became of it."""

    id: int
    text: str
    status: str
    reason: str = ""
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Stop:
    """An interrupt: who asked, whether it has taken effect, and what it stopped."""

    source: str = ""
    observed: bool = False
    during: str = ""
