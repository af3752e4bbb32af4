"""The state of one turn: made anew for each, written by the loop's task only."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

import anyio

from hermes_nb.policies.guardrails import GuardrailState
from hermes_nb.policies.limits import priced
from hermes_nb.policies.thinking import ThinkingFilter
from hermes_nb.policies.tokens import TokenMeter
from hermes_nb.tools.loops import ToolLoop
from hermes_nb.tools.saving import Saves
from hermes_nb.tools.stored import is_shortened
from hermes_nb.turn.chain import Chain
from hermes_nb.turn.prompting import NAMELESS, Wire, facts, system_prompt, with_identity
from hermes_nb.turn.result import ExitReason, TurnResult
from hermes_nb.turn.settings import settings_of
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import in_words
from hermes_nb.vocabulary.messages import Message, Usage
from hermes_nb.vocabulary.texts import mended

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.policies.compression import CompressionState
    from hermes_nb.turn.inbox import Inbox
    from hermes_nb.turn.recorder import Recorder
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.vocabulary.budget import BudgetView, IterationBudget
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Reply, ToolCall, ToolSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Admission:
    """Leave to run one iteration."""

    number: int
    view: BudgetView
    grace: bool = False


@dataclass(slots=True)
class Counts:
    """What has happened so far in the turn."""

    iterations: int = 0
    graces: int = 0
    attempts: int = 0
    retries: int = 0
    fallbacks: int = 0
    compressions: int = 0
    refunds: int = 0
    tool_calls: int = 0
    steers: int = 0


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the turn is over."""

    reason: ExitReason
    detail: str
    failure: Failure | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class TurnState:
    """Everything that changes while a turn runs.

    Attributes:
        request: What the turn is asked to do.
        budget: Iterations to spend; may be shared with other turns.
        inbox: What the outside wants of the turn.
        recorder: Told of everything.
        history: The conversation, without the system prompt.
        wire: The history as it is sent.
        chain: The providers, and which of them is asked now.
        counts: What has happened so far.
        guardrails: What the guardrails have seen of the turn's calls.
        system: The system prompt in force.
        parts: Text of replies that were cut and are being continued.
        streamed: Pieces of the reply that is being streamed.
        thinking: Takes thoughts out of the text that is being streamed.
        usage: Tokens so far, those of sub-agents too.
        usage_by_model: The same for each `provider:model`.
        cost_usd: Dollars so far, those of sub-agents too; None while no price is known.
        prompt_tokens: Size of the last prompt as the server counted it; None until it has.
        sizes: What is known about the size of requests.
        estimate: Estimated tokens of the next request.
        meter: Estimates the tokens of each message once.
        threshold: Tokens at which a compression is due.
        compacted: The history was compressed in this turn.
        output_cap: Output tokens for the next reply, where a cut one asks for more; None for the provider's own.
        answered_by: Provider and model of the last reply.
        text: The turn's answer.
        doing: Where an interrupt would meet the turn now.
        landing: What used up the turn, if it ends so: its budget, or a ceiling.
        landing_detail: The same in words.
        in_grace: This is the one call after the budget is gone.
        given_up: Providers that have failed in this turn.
        noticed: The model was told of its budget.
        shortened: A result was shortened, so that the reader of stored results is offered.
        ending: Why the turn is over; None while it goes on.
        saves: The snapshots of files; a sub-agent shares its parent's.
        loop: Where async tools run; a sub-agent shares its parent's.
        delegates: Lets only so many sub-agents work at the same time.
    """

    request: TurnRequest
    budget: IterationBudget
    inbox: Inbox
    recorder: Recorder
    history: list[Message] = field(default_factory=list)
    wire: Wire = field(default_factory=lambda: Wire(()))
    chain: Chain = field(init=False)
    counts: Counts = field(default_factory=Counts)
    guardrails: GuardrailState = field(default_factory=GuardrailState)
    system: str = ""
    parts: list[str] = field(default_factory=list)
    streamed: list[str] = field(default_factory=list)
    thinking: ThinkingFilter = field(default_factory=ThinkingFilter)
    usage: Usage = field(default_factory=Usage)
    usage_by_model: defaultdict[str, Usage] = field(default_factory=lambda: defaultdict(Usage))
    cost_usd: float | None = None
    prompt_tokens: int | None = None
    sizes: CompressionState = field(init=False)
    meter: TokenMeter = field(default_factory=TokenMeter)
    estimate: int = 0
    threshold: float = math.inf
    compacted: bool = False
    output_cap: int | None = None
    answered_by: tuple[str, str] = ("", "")
    text: str = ""
    doing: events.During = "between_iterations"
    landing: ExitReason = ExitReason.BUDGET_EXHAUSTED
    landing_detail: str = ""
    in_grace: bool = False
    given_up: set[str] = field(default_factory=set)
    noticed: bool = False
    shortened: bool = False
    ending: Ending | None = None
    started: float = field(default_factory=time.monotonic)
    event_loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    saves: Saves = field(init=False)
    loop: ToolLoop = field(init=False)
    delegates: anyio.CapacityLimiter = field(init=False)
    _call_ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chain = Chain(self.request.chain)
        self.sizes = self.request.sizes
        self.sizes.begin_turn()
        parent = self.request.parent
        self.saves = Saves(self.request.turn_id) if parent is None else parent.saves
        self.loop = ToolLoop() if parent is None else parent.loop
        self.delegates = anyio.CapacityLimiter(self.request.policies.delegation.at_once)

    # ------------------------------------------------------------------------------------- the history

    def begin(self) -> None:
        """Take the conversation so far, and put the user's prompt behind it."""
        request = self.request
        self.history = list(request.history)
        self.wire = Wire(request.history)
        self._call_ids = {call.id for message in request.history for call in message.tool_calls}
        self.shortened = any(message.role == "tool" and is_shortened(message.text) for message in request.history)
        self._begin_system_prompt()
        self.tell_budget("grant", self.budget.view())
        self.add(Message("user", request.prompt, facts=facts(request.day, self.system, self.history)))

    def hand_over(self) -> None:
        """Go on as another agent, if it is time."""
        while (handover := self.request.handover) and self.counts.iterations >= handover.after:
            self.request, self.noticed = handover.request, False
            request = self.request
            self.chain.become(request.chain)
            self.inbox.stop_after(request.policies.ceiling.stops_after - self.elapsed)
            self.recorder.tell(events.Forked(handover.after, request.agent, settings_of(request)))
            self._begin_system_prompt()
            self.tell_budget("grant", handover.budget.take_over(self.budget))
            self.budget = handover.budget
            if handover.history is not None:
                self.replace_history(list(handover.history))

    def _begin_system_prompt(self) -> None:
        """Take the prompt that the conversation has used so far, or build it anew."""
        request = self.request
        self.system = with_identity(request.system or self._own_system_prompt(), self.chain.provider)
        self.recorder.tell(events.SystemPrompt(self.system))

    def _own_system_prompt(self) -> str:
        request = self.request
        return system_prompt(
            self.chain.provider,
            instructions=request.instructions,
            tools=request.toolbox.specs,
            context=request.context,
            day=request.day,
        )

    def add(self, message: Message) -> None:
        """Append a message to the history, and to what is sent."""
        self.recorder.tell(events.MessageAdded(message, len(self.history)))
        self.history.append(message)
        self.wire.add(message)

    def replace_history(self, messages: list[Message]) -> None:
        """Go on with another history: a compressed one, or one in which a continued answer is whole."""
        self.history = list(messages)
        self.wire = Wire(messages)
        self.recorder.tell(events.HistoryReplaced(tuple(messages)))

    def switch_identity(self) -> None:
        """Bring the system prompt up to date after a switch of provider."""
        self.system = with_identity(self.system, self.chain.provider)
        self.recorder.tell(events.SystemPrompt(self.system))

    def with_own_ids(self, reply: Reply) -> Reply:
        """The reply with a name for each call, and with ids that are text and unique: each result finds its call."""
        calls = tuple(map(self._named, reply.tool_calls))
        if calls == reply.tool_calls:
            return reply
        return reply.with_(message=replace(reply.message, tool_calls=calls))

    def _named(self, call: ToolCall) -> ToolCall:
        kept = call.id and call.id == mended(call.id) and call.id not in self._call_ids
        call_id, name = call.id if kept else f"call_{secrets.token_hex(8)}", call.name.strip() or NAMELESS
        self._call_ids.add(call_id)
        return call if (call_id, name) == (call.id, call.name) else replace(call, id=call_id, name=name)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """What the model may call."""
        return self.request.toolbox.offered(shortened=self.shortened)

    @property
    def unread(self) -> bool:
        """Something stands in the history that the model has not read."""
        return bool(self.history) and self.history[-1].role != "assistant"

    # ------------------------------------------------------------------------------------- the budget

    def refund(self, reason: events.RefundReason) -> bool:
        """Give the iteration under way back, if the policy allows; a span of its own."""
        if not self.request.policies.refund.allows(reason, self.counts.refunds):
            return False
        before = self.budget.view()
        with self.recorder.scope(events.Refund(reason, before.limit, before.used, before.remaining)) as refund:
            after = self.budget.restore() or before
            refund.used_after, refund.remaining_after = after.used, after.remaining
        self.counts.refunds += 1
        actor: events.Actor = "loop" if reason == "free_tool" else "compressor"
        self.tell_budget("refund", after, delta=1, reason=reason, actor=actor)
        return True

    def tell_budget(
        self,
        action: events.BudgetAction,
        view: BudgetView,
        *,
        delta: int = 0,
        reason: str = "",
        actor: events.Actor = "loop",
    ) -> None:
        """Tell of the budget, with its numbers as they are after the change."""
        numbers = (view.limit, view.used, view.remaining, view.sequence)
        self.recorder.tell(events.BudgetChanged(action, delta, *numbers, reason, actor))

    # ------------------------------------------------------------------------------------- accounts

    @property
    def elapsed(self) -> float:
        """Seconds since the turn began."""
        return time.monotonic() - self.started

    @property
    def time_left(self) -> float:
        """Seconds until the turn lands."""
        seconds = self.request.policies.ceiling.seconds
        return math.inf if seconds is None else seconds - self.elapsed

    def account(self, reply: Reply, provider: str, model: str) -> float | None:
        """Add the tokens and prices of a reply to the turn's; returns its own price in dollars, if it is known."""
        self.answered_by = (provider, reply.model or model)
        for other in reply.others:
            self._book(*other)
        return None if reply.usage is None else self._book(provider, model, reply.usage)

    def _book(self, provider: str, model: str, usage: Usage) -> float | None:
        self.add_usage(usage, provider, model)
        price = self.request.policies.ceiling.price
        cost = None if price is None else self.guarded("price", lambda: priced(price, provider, model, usage))
        if cost is not None:
            self.add_cost(cost)
        return cost

    def add_usage(self, usage: Usage, provider: str, model: str) -> None:
        """Add tokens, here and in every turn above."""
        self.usage += usage
        self.usage_by_model[f"{provider}:{model}"] += usage
        if self.request.parent is not None:
            self.request.parent.add_usage(usage, provider, model)

    def add_cost(self, dollars: float) -> None:
        """Add money, here and in every turn above."""
        self.cost_usd = (self.cost_usd or 0.0) + dollars
        if self.request.parent is not None:
            self.request.parent.add_cost(dollars)

    @property
    def ceiling(self) -> str:
        """Which ceiling has been reached, this turn's or one above, in words; empty for none."""
        parent, cost = self.request.parent, self.cost_usd or 0.0
        own = self.request.policies.ceiling.reached(tokens=self.usage.total_tokens, cost_usd=cost, seconds=self.elapsed)
        return own or (parent.ceiling if parent is not None else "")

    def guarded(self, part: events.Part, function: Callable[[], T]) -> T | None:
        """Call something that may fail without breaking the turn; None when it did."""
        try:
            return function()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  that is the point
            self.recorder.tell(events.Degraded(part, in_words(error)))
            return None

    def begin_reply(self) -> None:
        """Forget the pieces of an earlier attempt."""
        self.streamed.clear()
        self.thinking = ThinkingFilter()

    def on_text(self, text: str, part: events.DeltaPart = "text") -> None:
        """Take a piece of a streaming reply."""
        for piece, kind in self.thinking.feed(text) if part == "text" else ((text, part),):
            if kind == "text":
                self.streamed.append(piece)
            self.recorder.tell(events.Delta(piece, kind))

    # ------------------------------------------------------------------------------------- the end

    def end(
        self,
        reason: ExitReason,
        detail: str = "",
        *,
        text: str | None = None,
        failure: Failure | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Say why the turn is over; the first word counts."""
        if self.ending is None:
            self.ending = Ending(reason, detail, failure, error)
            self.text = self.text if text is None else text

    def finish(self, turn: events.Turn) -> TurnResult:
        """The result; also fills in the turn's event, and returns undelivered steers."""
        ending = self.ending or Ending(ExitReason.INTERNAL_ERROR, "the loop ended without a reason")
        notes = self.inbox.close(f"the turn ended ({ending.reason}) before the next tool results")
        for note in notes:
            self.recorder.tell(events.Steered(note.id, note.text, "undelivered", note.reason))
        if self.request.parent is None:
            self.loop.close()
        result = self._result(ending, "\n".join(note.text for note in notes) or None)
        _fill_in(turn, result, self.counts)
        return result

    def _result(self, ending: Ending, pending_steer: str | None) -> TurnResult:
        counts = self.counts
        return TurnResult(
            text=self.text,
            messages=tuple(self.history),
            exit_reason=ending.reason,
            detail=ending.detail,
            failure=ending.failure,
            error=ending.error,
            usage=self.usage,
            usage_by_model=dict(self.usage_by_model),
            cost_usd=self.cost_usd,
            budget=self.budget.view(),
            iterations=counts.iterations,
            api_calls=counts.iterations - counts.refunds,
            refunds=counts.refunds,
            graces=counts.graces,
            retries=counts.retries,
            fallbacks=counts.fallbacks,
            compressions=counts.compressions,
            tool_calls=counts.tool_calls,
            pending_steer=pending_steer,
            system=self.system,
            provider=self.answered_by[0],
            model=self.answered_by[1],
            turn_id=self.request.turn_id,
            conversation_id=self.request.conversation_id,
            seconds=self.elapsed,
        )


def _fill_in(turn: events.Turn, result: TurnResult, counts: Counts) -> None:
    """The fields of the turn's event that are known at its end."""
    turn.exit_reason, turn.detail = result.exit_reason.value, result.detail
    turn.completed, turn.failed, turn.interrupted = result.completed, result.failed, result.interrupted
    for name in ("iterations", "graces", "attempts", "retries", "fallbacks", "compressions", "refunds"):
        setattr(turn, name, getattr(counts, name))
    turn.tool_calls, turn.steers, turn.api_calls = counts.tool_calls, counts.steers, result.api_calls
    turn.budget_limit = result.budget.limit  # a fork may have got another one
    turn.budget_used, turn.budget_remaining = result.budget.used, result.budget.remaining
    turn.usage, turn.cost_usd, turn.text = result.usage, result.cost_usd, result.text
    if result.failed:
        turn.error_type = (result.failure and result.failure.error_type) or result.exit_reason.value
