"""What happens in a turn, as data: one envelope, and one small dataclass for each kind of thing.

Two families share the envelope. A *scope* has a beginning and an end (`started`, `ended`): its dataclass is filled in
while the scope is open, first the fields known at the start, below the line `# known at the end` the others. A *point*
happens at one moment. Whoever writes a sink looks at `event.phase` and `event.what`.

`error_type` on a scope is set exactly where that scope counts as failed: a failed attempt that a retry healed leaves
its chat, iteration and turn clean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Content, Message, Reply, ToolSpec, Usage

Phase = Literal["started", "ended", "point"]


class Event(NamedTuple):
    """The envelope. A named tuple, for it is made most often of all: a frozen dataclass takes five times as long.

    Attributes:
        seq: Number within the turn, from 1, without gaps.
        phase: `started` or `ended` of a scope, or `point`.
        at: When, in nanoseconds since the epoch.
        turn_id: The turn that this belongs to.
        conversation_id: The conversation that the turn belongs to.
        iteration: The iteration under way, from 1; 0 outside of one.
        scope: The scope that started or ended, or the innermost scope in which a point happened. Unique in the turn.
        parent: The scope around it; 0 for the turn's own scope.
        what: The dataclass of what happened.
        interrupted: On `ended`, the scope was left by an interrupt; that is not an error.
    """

    seq: int
    phase: Phase
    at: int
    turn_id: str
    conversation_id: str
    iteration: int
    scope: int
    parent: int
    what: What
    interrupted: bool = False


Sink: TypeAlias = "Callable[[Event], AbstractContextManager[object] | None]"
"""A function of one event. For `started` it may return a context manager, which is entered around the scope's body."""


# ---------------------------------------------------------------------------------------------- scopes


@dataclass(slots=True)
class Turn:
    """One user prompt until its end."""

    kind: ClassVar[str] = "turn"
    agent: str
    provider: str
    model: str
    prompt: Content
    number: int = 1
    budget_limit: int = 0
    attempts_max: int = 0
    parent_turn_id: str = ""
    previous_turn_id: str = ""
    replay_of: str = ""
    replay_until: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    # known at the end
    exit_reason: str = ""
    detail: str = ""
    completed: bool = False
    failed: bool = False
    interrupted: bool = False
    iterations: int = 0
    graces: int = 0
    api_calls: int = 0
    attempts: int = 0
    retries: int = 0
    fallbacks: int = 0
    compressions: int = 0
    refunds: int = 0
    tool_calls: int = 0
    steers: int = 0
    budget_used: int = 0
    budget_remaining: int = 0
    usage: Usage | None = None
    cost_usd: float | None = None
    text: str = ""
    error_type: str = ""


@dataclass(slots=True)
class Iteration:
    """One pass of the loop; `grace` marks the one after the budget is gone."""

    kind: ClassVar[str] = "iteration"
    number: int
    grace: bool = False
    budget_limit: int = 0
    budget_remaining: int = 0
    # known at the end
    outcome: Literal["", "tool_calls", "final_response", "compressed", "continued", "failed", "interrupted"] = ""
    error_type: str = ""


ChatPurpose = Literal["main", "compression", "summary", "reference", "judge"]


@dataclass(slots=True)
class Chat:
    """One logical model call with all its retries; another provider or model is another chat."""

    kind: ClassVar[str] = "chat"
    provider: str
    model: str
    purpose: ChatPurpose = "main"
    fallback_index: int = 0
    stream: bool = False
    server_address: str = ""
    server_port: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    compacted: bool = False
    # known at the end
    reply: Reply | None = None
    attempts: int = 0
    cost_usd: float | None = None
    error_type: str = ""
    error: str = ""


@dataclass(slots=True)
class Attempt:
    """One request to a model server.

    A reply that was used stands in the chat; one that was refused, the failure with all its fields, and what asking
    for other credentials brought are kept here, so that a replay can tell the loop the same.
    """

    kind: ClassVar[str] = "attempt"
    number: int
    maximum: int
    provider: str
    model: str
    backoff: float = 0.0
    server_address: str = ""
    server_port: int | None = None
    # known at the end
    outcome: Literal["", "success", "retry", "give_up", "fallback", "compress", "cancelled"] = ""
    reason: str = ""
    status: int | None = None
    retry_after: float | None = None
    injected: str = ""
    error_type: str = ""
    error: str = ""
    refused: Reply | None = None
    failure: Failure | None = None
    renewal: Literal["", "refreshed", "rotated", "later"] = ""


@dataclass(slots=True)
class Retry:
    """The decision to try again, and the wait before it."""

    kind: ClassVar[str] = "retry"
    number: int
    reason: str
    wait: float
    retry_after: float | None = None
    source: Literal["backoff", "retry_after", "guard", "credentials", "at_once"] = "backoff"
    # known at the end
    waited: float = 0.0
    outcome: Literal["", "waited", "interrupted"] = ""
    error_type: str = ""


@dataclass(slots=True)
class Fallback:
    """The switch to the next provider of the chain; `failed_chat` is the scope of the chat that failed, 0 if none."""

    kind: ClassVar[str] = "fallback"
    index: int
    reason: str
    from_provider: str
    from_model: str
    failed_chat: int = 0
    # known at the end
    to_provider: str = ""
    to_model: str = ""
    chain_left: int = 0
    outcome: Literal["", "activated", "skipped", "none_left"] = ""
    error_type: str = ""
    error: str = ""


CompressionTrigger = Literal["threshold", "preflight", "overflow", "manual"]


@dataclass(slots=True)
class Compression:
    """The history made smaller."""

    kind: ClassVar[str] = "compression"
    trigger: CompressionTrigger
    strategy: str
    messages_before: int
    tokens_before: int
    # known at the end
    messages_after: int = 0
    tokens_after: int = 0
    refunded: bool = False
    outcome: Literal["", "compressed", "skipped", "failed"] = ""
    summary: str = ""
    error_type: str = ""
    error: str = ""


RefundReason = Literal["compression", "overflow", "free_tool", "rebuilt"]


@dataclass(slots=True)
class Refund:
    """An iteration given back: the budget before, and after."""

    kind: ClassVar[str] = "refund"
    reason: RefundReason
    limit: int
    used: int
    remaining: int
    # known at the end
    used_after: int = 0
    remaining_after: int = 0
    error_type: str = ""


@dataclass(slots=True)
class Tool:
    """One tool call being run."""

    kind: ClassVar[str] = "tool"
    name: str
    call_id: str
    arguments: str
    index: int = 0
    parallel: bool = False
    type: Literal["function", "extension", "datastore"] = "function"
    description: str = ""
    agent: str = ""
    delegate: str = ""
    # known at the end
    status: Literal["", "ok", "error", "cancelled", "skipped", "timeout"] = ""
    result: Content = ""
    result_chars: int = 0
    truncated: bool = False
    child_turn_id: str = ""
    error_type: str = ""
    error: str = ""


Scoped: TypeAlias = Turn | Iteration | Chat | Attempt | Retry | Fallback | Compression | Refund | Tool


# ---------------------------------------------------------------------------------------------- points


Actor = Literal["loop", "compressor", "subagent", "user"]
BudgetAction = Literal["grant", "consume", "refund", "grace_granted", "grace_used", "exhausted"]


@dataclass(frozen=True, slots=True)
class BudgetChanged:
    """The budget moved; absolute values, so that one lost event does no harm."""

    kind: ClassVar[str] = "budget"
    action: BudgetAction
    delta: int
    limit: int
    used: int
    remaining: int
    sequence: int
    reason: str = ""
    actor: Actor = "loop"


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """A message became part of the history, at `index` (from 0; the system prompt is not in the history)."""

    kind: ClassVar[str] = "message"
    message: Message
    index: int
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class HistoryReplaced:
    """Another history took the place of this one: compressed, with an answer's parts joined, or edited in a fork."""

    kind: ClassVar[str] = "history"
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class SystemPrompt:
    """The system prompt in force, told when it is first built and when it changes."""

    kind: ClassVar[str] = "system"
    text: str


DeltaPart = Literal["text", "reasoning", "call"]


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streaming reply."""

    kind: ClassVar[str] = "delta"
    text: str
    part: DeltaPart = "text"


@dataclass(frozen=True, slots=True)
class Steered:
    """What became of a steer."""

    kind: ClassVar[str] = "steer"
    id: int
    text: str
    status: Literal["queued", "delivered", "undelivered"]
    reason: str = ""


During = Literal["", "api_call", "tool_call", "backoff", "compression", "paused", "between_iterations"]


@dataclass(frozen=True, slots=True)
class Interrupt:
    """An interrupt was asked for, or took effect."""

    kind: ClassVar[str] = "interrupt"
    source: str
    status: Literal["requested", "observed"]
    during: During = ""
    latency: float | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """The turn waits at a boundary (`paused`), or goes on (`resumed`)."""

    kind: ClassVar[str] = "pause"
    status: Literal["paused", "resumed"]


Part = Literal[
    "guard", "sink", "logbook", "exporter", "checkpoint", "price", "prompt", "tool", "credentials", "compressor"
]


@dataclass(frozen=True, slots=True)
class Degraded:
    """Something that must not break the turn failed; the turn goes on without it."""

    kind: ClassVar[str] = "degraded"
    part: Part
    detail: str


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The files of a directory were saved before a tool touched them."""

    kind: ClassVar[str] = "checkpoint"
    directory: str
    snapshot: str


@dataclass(frozen=True, slots=True)
class Forked:
    """What follows is no longer taken from the record: another agent goes on after iteration `after`.

    Its system prompt is told next, then the history, if that was edited.
    """

    kind: ClassVar[str] = "fork"
    after: int
    agent: str
    settings: Mapping[str, Any] = field(default_factory=dict)


Point: TypeAlias = (
    BudgetChanged
    | MessageAdded
    | HistoryReplaced
    | SystemPrompt
    | Delta
    | Steered
    | Interrupt
    | Paused
    | Degraded
    | Checkpointed
    | Forked
)
What: TypeAlias = Scoped | Point


class Telling(Protocol):
    """The part of the recorder that providers and tools may use: tell what happens, open a scope."""

    def tell(self, what: Point) -> None:
        """Publish something that happens at one moment."""

    def scope(self, what: Scoped) -> AbstractContextManager[Any]:
        """Publish the beginning and the end of something."""
