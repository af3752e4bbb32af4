"""Guardrails: is the model going round in circles? Warn it, then stop the turn."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hermes_nb.policies.numbers import is_number, refuse_other_than_numbers
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import ToolCall, ToolResult

Bounds: TypeAlias = tuple[float, float]
"""How many times until the model is warned, and until the turn is stopped; `math.inf` for never."""

INVALID = frozenset({"unknown_tool", "invalid_arguments"})
"""Error types of results that say: nothing was run, the call itself was wrong."""

_Call: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guardrail says of one result.

    Attributes:
        warning: Text for the model, to stand below the result; empty for none.
        halt: Why the turn must end, in words; empty if it may go on.
        invalid: The turn ends because of calls that could not be run at all.
    """

    warning: str = ""
    halt: str = ""
    invalid: bool = False


@dataclass(slots=True)
class GuardrailState:
    """What has been seen in one turn; made anew for each."""

    failed_calls: Counter[_Call] = field(default_factory=Counter)
    failed_tools: Counter[str] = field(default_factory=Counter)
    last: tuple[_Call, object, int] | None = None  # a success, and how often in a row it came
    open: int = 0
    any_valid: bool = False
    invalid_batches: int = 0

    def begin_batch(self, size: int) -> None:
        """The next `size` results answer the calls of one reply; without this, each result is a batch of its own."""
        self.open, self.any_valid = size, False


@dataclass(frozen=True, slots=True, kw_only=True)
class Guardrails:
    """Bounds on going round in circles, counted per turn.

    A result counts as a failure when its status says so (`error`, `timeout`), never by its text. A success clears the
    failures of its call and of its tool. Calls that were cancelled or never begun do not count. The numbers are
    those of hermes-agent 0.19.0; a tool that succeeds again and again is only warned of, since it may be polling.

    Args:
        same_call: Failures of one call with the same arguments.
        same_tool: Failures of one tool, whatever the arguments.
        repeats: The same call with the same result, with no other call between.
        invalid_batches: Replies in a row whose calls were all invalid (unknown tool, unusable arguments), until the
            turn is stopped.

    Raises:
        ConfigurationError: A bound is below 1.
    """

    same_call: Bounds = (2, 5)
    same_tool: Bounds = (3, 8)
    repeats: Bounds = (2, math.inf)
    invalid_batches: float = 3

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        for name in ("same_call", "same_tool", "repeats"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or list(map(is_number, value)) != [True, True]:
                msg = f"{name} is a pair of numbers, to the warning and to the stop, such as (2, 5), not {value!r:.50}"
                raise ConfigurationError(msg)
        for name in ("same_call", "same_tool", "repeats", "invalid_batches"):
            value = getattr(self, name)
            if not all(bound >= 1 for bound in (value if isinstance(value, tuple) else (value,))):
                msg = f"{name}={value!r}: bounds are 1 or more; math.inf for never"
                raise ConfigurationError(msg)

    def judge(self, state: GuardrailState, result: ToolResult) -> Verdict:
        """Count one result, and say what follows from it.

        Args:
            state: The turn's counts; brought up to date.
            result: The results of a reply are judged one after the other, in the order of the calls.
        """
        state.open -= 1
        state.any_valid |= result.error_type not in INVALID
        if state.open <= 0:
            state.invalid_batches = 0 if state.any_valid else state.invalid_batches + 1
            state.open, state.any_valid = 0, False
        if state.invalid_batches >= self.invalid_batches:
            return Verdict(halt=f"{state.invalid_batches} replies in a row held only invalid calls", invalid=True)
        if result.status in ("cancelled", "skipped"):
            return Verdict()
        return self._success(state, result) if result.status == "ok" else self._failure(state, result)

    def _success(self, state: GuardrailState, result: ToolResult) -> Verdict:
        call = _signature(result.call)
        state.failed_calls.pop(call, None)
        state.failed_tools.pop(result.call.name, None)
        before = state.last
        repeats = before[2] + 1 if before and before[:2] == (call, result.content) else 1
        state.last = (call, result.content, repeats)
        return _verdict(self.repeats, repeats, f"{result.call.name} gave the same result for the same arguments")

    def _failure(self, state: GuardrailState, result: ToolResult) -> Verdict:
        call, name = _signature(result.call), result.call.name
        state.last = None
        state.failed_calls[call] += 1
        state.failed_tools[name] += 1
        same = _verdict(self.same_call, state.failed_calls[call], f"{name} failed with the same arguments")
        any_ = _verdict(self.same_tool, state.failed_tools[name], f"{name} failed")
        return same if same.halt or (same.warning and not any_.halt) else any_


def _verdict(bounds: Bounds, count: int, what: str) -> Verdict:
    warn, stop = bounds
    if count >= stop:
        return Verdict(halt=f"{what} {count} times")
    if count >= warn:
        return Verdict(warning=f"[{what} {count} times. Do not repeat it: try another way, or answer.]")
    return Verdict()


_canonical = json.JSONEncoder(sort_keys=True).encode


def _signature(call: ToolCall) -> _Call:
    """The call, told apart by what its arguments mean, not by how they are written."""
    try:
        return call.name, _canonical(json.loads(call.arguments))
    except (ValueError, RecursionError):
        return call.name, call.arguments
