"""How a turn ended: one result of one shape, whatever happened."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Self

from hermes_nb.vocabulary.failures import TraceError, TurnFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.traces import Trace
    from hermes_nb.vocabulary.budget import BudgetView
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message, Usage


class ExitReason(StrEnum):
    """Why a turn ended; only `completed` means that the task was done."""

    COMPLETED = "completed"
    """The model answered."""

    BUDGET_EXHAUSTED = "budget_exhausted"
    """The iteration budget is used up; the grace call, if one was granted, gave the text."""

    CEILING_REACHED = "ceiling_reached"
    """A ceiling of time, tokens or money was reached; the grace call, if there was time for one, gave the text."""

    INTERRUPTED_BY_USER = "interrupted_by_user"
    """`run.interrupt()`, or the panel's button."""

    INTERRUPTED_BY_KERNEL = "interrupted_by_kernel"
    """The notebook's Stop button, Ctrl-C, or a tool that raised `KeyboardInterrupt`."""

    INTERRUPTED_BY_PARENT = "interrupted_by_parent"
    """The turn whose tool had started this one no longer waits for it."""

    PROVIDER_FAILED = "provider_failed"
    """No provider of the chain gave an answer that could be used."""

    RATE_LIMITED = "rate_limited"
    """The last provider that was left would not take a request for now."""

    COMPRESSION_EXHAUSTED = "compression_exhausted"
    """The history does not fit the model's window, compressed or not."""

    EMPTY_RESPONSE = "empty_response"
    """The model gave neither text nor calls, however often it was asked."""

    OUTPUT_TRUNCATED = "output_truncated"
    """The answer was cut off, and so were its continuations."""

    INVALID_TOOL_CALLS = "invalid_tool_calls"
    """Call after call could not be read, or named no tool."""

    CONTENT_FILTERED = "content_filtered"
    """A content filter of the provider withheld the answer."""

    GUARDRAIL_HALT = "guardrail_halt"
    """The model went round in circles: equal calls, or failing ones, past the limit of the guardrails."""

    INTERNAL_ERROR = "internal_error"
    """A bug, ours or in a policy of yours; `Run.result()` raises it."""

    @property
    def failed(self) -> bool:
        """The turn ended because something failed."""
        return self in _FAILED

    @property
    def interrupted(self) -> bool:
        """Somebody stopped the turn."""
        return self.value.startswith("interrupted_")


_FAILED = frozenset(
    {
        ExitReason.PROVIDER_FAILED,
        ExitReason.RATE_LIMITED,
        ExitReason.COMPRESSION_EXHAUSTED,
        ExitReason.EMPTY_RESPONSE,
        ExitReason.OUTPUT_TRUNCATED,
        ExitReason.INVALID_TOOL_CALLS,
        ExitReason.CONTENT_FILTERED,
        ExitReason.INTERNAL_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What came out of a turn.

    Attributes:
        text: The answer; what there is of it after an interrupt; a plain sentence where there is none.
        messages: The conversation after the turn, system prompt left out; always valid for a next request.
        exit_reason: Why the turn ended.
        detail: The same in words.
        failure: The last model call's failure, if that ended the turn.
        usage: Tokens of all model calls of the turn, sub-agents' included.
        usage_by_model: The same per `provider:model`.
        cost_usd: By the ceiling's price function; None without one.
        budget: The budget when the turn ended.
        iterations: Passes of the loop, compressed ones and the grace call included.
        api_calls: Iterations in which a model was asked for an answer.
        refunds: Iterations given back.
        graces: Grace calls, 0 or 1.
        retries: Attempts beyond the first, over all model calls.
        fallbacks: Switches to another provider.
        compressions: Passes of compression.
        tool_calls: Calls that were run.
        pending_steer: Steers that no request carried, joined by newlines; send them as the next prompt.
        model: The model that answered last.
        provider: Its provider.
        system: The system prompt in force at the end.
        turn_id: Identifies the turn, in frames and on spans.
        conversation_id: Identifies the conversation.
        seconds: Wall-clock time.
        observation: How the turn was traced; see `trace`.
        error: The bug that ended the turn as `internal_error`; raised again by `Run.result()`.
    """

    text: str
    messages: tuple[Message, ...] = field(repr=False)
    exit_reason: ExitReason
    usage: Usage
    budget: BudgetView
    turn_id: str
    conversation_id: str
    detail: str = ""
    failure: Failure | None = None
    usage_by_model: Mapping[str, Usage] = field(default_factory=dict)
    cost_usd: float | None = None
    iterations: int = 0
    api_calls: int = 0
    refunds: int = 0
    graces: int = 0
    retries: int = 0
    fallbacks: int = 0
    compressions: int = 0
    tool_calls: int = 0
    pending_steer: str | None = None
    system: str = field(default="", repr=False)
    model: str = ""
    provider: str = ""
    seconds: float = 0.0
    observation: Any = field(default=None, repr=False, compare=False)
    error: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def trace(self) -> Trace:
        """The turn's trace, for frames and pictures; loaded on first use.

        Raises:
            TraceError: The result was copied or pickled; the trace stays with the original.
        """
        if self.observation is None:
            msg = f"this copy of the result of turn {self.turn_id} has no trace; load it from the logbook"
            raise TraceError(msg)
        trace: Trace = self.observation.trace
        return trace

    def __getstate__(self) -> list[Any]:
        """Everything but the trace, which lives in this process."""
        return [None if each.name == "observation" else getattr(self, each.name) for each in fields(self)]

    @property
    def completed(self) -> bool:
        """The task was done: a text answer within the budget."""
        return self.exit_reason is ExitReason.COMPLETED

    @property
    def failed(self) -> bool:
        """The turn ended because something failed."""
        return self.exit_reason.failed

    @property
    def interrupted(self) -> bool:
        """Somebody stopped the turn."""
        return self.exit_reason.interrupted

    def raise_for_failure(self) -> Self:
        """Raise if the turn failed, else return the result itself.

        Raises:
            TurnFailed: The exit reason is a failure.
        """
        if self.failed:
            msg = f"turn {self.turn_id} ended with {self.exit_reason}: {self.failure or self.detail}"
            raise TurnFailed(msg) from self.error
        return self

    def as_dict(self) -> dict[str, Any]:
        """The result as the dictionary that `run_conversation` of the Hermes documents returns."""
        return {
            "final_response": self.text,
            "messages": [message.as_dict() for message in self.messages],
            "api_calls": self.api_calls,
            "completed": self.completed,
            "failed": self.failed,
            "partial": bool(self.text) and not self.completed and (self.failed or self.interrupted),
            "interrupted": self.interrupted,
            "turn_exit_reason": self.exit_reason.value,
            "exit_detail": self.detail,
            "error": str(self.failure or self.detail) if self.failed else None,
            "failure_reason": self.failure.reason.value if self.failure else None,
            "compression_exhausted": self.exit_reason is ExitReason.COMPRESSION_EXHAUSTED,
            "pending_steer": self.pending_steer,
            "model": self.model,
            "provider": self.provider,
            "session_id": self.conversation_id,
            "turn_id": self.turn_id,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cache_read_tokens": self.usage.cache_read_tokens,
            "cache_write_tokens": self.usage.cache_write_tokens,
            "reasoning_tokens": self.usage.reasoning_tokens,
            "prompt_tokens": self.usage.input_tokens,
            "completion_tokens": self.usage.output_tokens,
            "total_tokens": self.usage.total_tokens,
            "estimated_cost_usd": self.cost_usd,
            "iterations": self.iterations,
            "budget_used": self.budget.used,
            "budget_remaining": self.budget.remaining,
        }
