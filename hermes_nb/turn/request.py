"""What a turn is asked to do: frozen, made by the agent, read by the loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_nb.policies.compression import Compression, CompressionState
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.retry import Retry
from hermes_nb.turn.prompting import today

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hermes_nb.providers.base import Provider
    from hermes_nb.tools.checkpoints import Checkpoints
    from hermes_nb.tools.toolbox import Toolbox
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.budget import IterationBudget
    from hermes_nb.vocabulary.messages import Content, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Every decision that a turn takes, one small object each; the defaults of the library stand here."""

    retry: Retry = field(default_factory=Retry)
    compression: Compression = field(default_factory=Compression)
    grace: Grace = field(default_factory=Grace)
    refund: Refund = field(default_factory=Refund)
    ceiling: Ceiling = field(default_factory=Ceiling)
    delegation: Delegation = field(default_factory=Delegation)
    guard: RateGuard | None = field(default_factory=RateGuard)
    guardrails: Guardrails = field(default_factory=Guardrails)
    budget_notice: BudgetNotice | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    """Another agent takes the turn over between two iterations; how a recorded turn goes on live.

    Attributes:
        after: The last iteration of the first agent.
        request: The turn as the other agent has it: chain, tools, instructions, policies; perhaps the next handover.
        budget: What it may spend; what was spent before counts there.
        history: The history that it goes on with; None for the one at that point.
    """

    after: int
    request: TurnRequest
    budget: IterationBudget
    history: tuple[Message, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRequest:
    """One turn, before it starts.

    Attributes:
        prompt: The user's message.
        history: The conversation so far, without a system prompt.
        chain: The providers, in the order in which they are asked.
        toolbox: What the model may call.
        instructions: The agent's own.
        context: What the agent's working directory tells.
        agent: The agent's name.
        policies: Every decision.
        turn_id: A UUID in text form.
        conversation_id: Equal for all turns of one conversation.
        number: Of the turn in its conversation, from 1.
        parent_turn_id: The turn whose tool this is, for a sub-agent.
        previous_turn_id: The turn before it in the conversation.
        replay_of: The turn that is being replayed or forked.
        replay_until: The last iteration that a fork takes from the record; None where nothing is forked.
        day: On which the turn is run, in UTC, as an ISO date.
        system: The system prompt that the conversation has used so far; built anew where there is none.
        sizes: What the conversation has taught about the size of requests.
        checkpoints: Saves files before tools change them.
        disk: Says what goes wrong with the next write of the turn to its logbook; empty for nothing. For faults that
            are injected; None where none are.
        parent: The running turn whose sub-agent this is; tokens and money count there too.
        metadata: The user's own labels; they go to the trace.
        handover: Who goes on after some iteration; None for nobody else.
    """

    prompt: Content
    history: tuple[Message, ...]
    chain: tuple[Provider, ...]
    toolbox: Toolbox
    instructions: str
    agent: str
    policies: Policies
    turn_id: str
    conversation_id: str
    number: int = 1
    parent_turn_id: str = ""
    previous_turn_id: str = ""
    replay_of: str = ""
    replay_until: int | None = None
    context: str = ""
    day: str = field(default_factory=today)
    system: str = ""
    checkpoints: Checkpoints | None = None
    disk: Callable[[], str] | None = field(default=None, repr=False)
    parent: TurnState | None = field(default=None, repr=False)
    sizes: CompressionState = field(default_factory=CompressionState)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    handover: Handover | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys of every provider that the turn or a sub-agent of it may ask."""
        stages = tuple(self.stages)
        own = (secret for stage in stages for provider in stage.chain for secret in provider.secrets)
        return (*own, *(secret for stage in stages for secret in stage.toolbox.secrets))

    @property
    def stages(self) -> Iterator[TurnRequest]:
        """This request, and those of the agents that take the turn over, in their order."""
        request: TurnRequest | None = self
        while request is not None:
            yield request
            request = request.handover.request if request.handover else None
