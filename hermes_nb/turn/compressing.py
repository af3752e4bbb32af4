"""One compression: the history in, a smaller one out, or the reason why not."""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from hermes_nb.policies.pruning import groups, prune
from hermes_nb.tools.threads import run_in_thread
from hermes_nb.turn import summarising
from hermes_nb.turn.asking import ModelUnavailable, Overflow
from hermes_nb.vocabulary.cancellation import ends_turn
from hermes_nb.vocabulary.events import Degraded
from hermes_nb.vocabulary.failures import FailureReason, in_words
from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hermes_nb.policies.compression import Compression, CompressionState, Compressor, Plan
    from hermes_nb.policies.tokens import TokenMeter
    from hermes_nb.turn.room import Room
    from hermes_nb.vocabulary.events import Telling

Ask: TypeAlias = "Callable[[tuple[Message, ...]], Awaitable[str]]"
"""Asks a model, by itself: the messages in, the text of its answer out."""

LONGEST_SUMMARY = 10_000
"""Tokens. A summary has a fifth of what it replaces, a tenth of the threshold at most, and never more than this."""

PORTIONS = 8
"""Requests by which one summary is made; older turns than those are summed up by rule."""

_SHORTEST_SUMMARY, _SHORTEST_PORTION, _LONGEST_PORTION, _INSTRUCTIONS = 256, 500, 100_000, 700
_REFUSED = "refused"
_HOPELESS = {
    FailureReason.AUTH,
    FailureReason.BILLING,
    FailureReason.CONNECTION,
    FailureReason.CERTIFICATE,
    FailureReason.RATE_LIMIT,
}
"""Failures that the turn's own request would meet as well: then nothing is thrown away for it."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """What became of a compression.

    Attributes:
        outcome: `compressed`; `skipped` when nothing could be gained; `failed` when what came out cannot be used.
        messages: The new history; the old one unless compressed.
        tokens_before: Estimate of the whole request.
        tokens_after: The same, afterwards.
        strategy: `summary` by a model, `static` by rule, `pruned` without a summary, `custom` by the user's function.
        summary: The text that stands for what was left out.
        error_type: Set when it failed.
        error: In words.
    """

    outcome: Literal["compressed", "skipped", "failed"]
    messages: tuple[Message, ...]
    tokens_before: int
    tokens_after: int
    strategy: Literal["summary", "static", "pruned", "custom"]
    summary: str = ""
    error_type: str = ""
    error: str = ""


class _Unusable(Exception):
    """What came out cannot be used, or nothing came out and nothing may be thrown away."""

    def __init__(self, error_type: str, error: str) -> None:
        super().__init__(error)
        self.error_type = error_type


async def compress(
    policy: Compression,
    state: CompressionState,
    history: Sequence[Message],
    *,
    room: Room,
    meter: TokenMeter,
    ask: Ask,
    recorder: Telling,
) -> Compressed:
    """Make the history smaller, once.

    The caller opens the `Compression` scope and puts the new history in place; `state` is brought up to date here.

    Args:
        policy: How.
        state: What is known of sizes; counts the pass.
        history: Without the system prompt.
        room: How small it should become.
        meter: Estimates.
        ask: Asks a model for a summary. Raises `ModelUnavailable` or `Overflow`.
        recorder: Told when the user's compressor or the model failed.

    Returns:
        The new history, or the old one and the reason.
    """
    before = room.overhead + meter.messages(history)
    job = _Job(policy, state, tuple(history), room, meter, ask, recorder)
    strategy: Literal["summary", "static", "pruned", "custom"] = "custom" if policy.compressor else "summary"
    try:
        strategy, summary, messages = await (job.by_user() if policy.compressor else job.by_summary())
    except _Unusable as failure:
        recorder.tell(Degraded("compressor", str(failure)))
        state.record(progress=False)
        return Compressed("failed", tuple(history), before, before, strategy, "", failure.error_type, str(failure))
    after = room.overhead + meter.messages(messages)
    progress = policy.progress(before, after)
    state.record(progress=progress)
    if not progress:
        return Compressed("skipped", tuple(history), before, before, strategy)
    meter.keep(messages)
    return Compressed("compressed", messages, before, after, strategy, summary)


_Made: TypeAlias = tuple[Literal["summary", "static", "pruned", "custom"], str, tuple[Message, ...]]


@dataclass(frozen=True, slots=True)
class _Job:
    policy: Compression
    state: CompressionState
    history: tuple[Message, ...]
    room: Room
    meter: TokenMeter
    ask: Ask
    recorder: Telling

    async def by_summary(self) -> _Made:
        """Replace the middle by a summary; or only shorten the last results, if that is all there is to gain."""
        scale = min(self.room.threshold, self.room.overhead + self.meter.messages(self.history))
        limit = int(min(max(scale // 10, _SHORTEST_SUMMARY), LONGEST_SUMMARY))
        plan = self.policy.plan(
            self.history,
            self.meter,
            goal=self.room.goal - self.room.overhead,
            tail=scale * self.policy.tail_share,
            summary=limit,
        )
        size = self.meter.messages(plan.middle)
        limit = min(limit, max(_SHORTEST_SUMMARY, size // 5))
        spoken = self.meter.messages(plan.words) + limit
        if not plan.middle or not self.policy.progress(size, spoken):
            return "pruned", "", plan.in_place(self.history)
        strategy, summary = await self._summary(plan, limit)
        return strategy, summary, plan.around(summarising.as_message(summary))

    async def _summary(self, plan: Plan, limit: int) -> tuple[Literal["summary", "static"], str]:
        """A model's summary; one by rule if no model can be asked.

        Raises:
            _Unusable: The turn's own request would fail in the same way.
        """
        previous = summarising.body(plan.previous)
        if time.monotonic() >= self.state.quiet_until:
            try:
                if summary := await self._asked(plan, previous, limit):
                    return "summary", summary
                reason = "the model's summary was empty"
            except (ModelUnavailable, Overflow) as error:
                reason = f"no model gave a summary: {error}"
                if error.failure.reason in _HOPELESS:
                    self.state.quiet_until = time.monotonic() + self.policy.cooldown
                    raise _Unusable(error.failure.error_type or error.failure.reason.value, reason) from error
            self.state.quiet_until = time.monotonic() + self.policy.cooldown
            self.recorder.tell(Degraded("compressor", reason))
        return "static", summarising.without_model(previous, plan.middle)

    async def _asked(self, plan: Plan, summary: str, limit: int) -> str:
        """The summary so far, brought up to date portion by portion; empty if the model said nothing."""
        size = self._portion(limit)
        messages = prune(plan.middle, size=summarising.cost, room=size)
        portions = summarising.portions(messages, size)
        older, newer = portions[:-PORTIONS], portions[-PORTIONS:]
        if older:
            summary = summarising.without_model(summary, [message for portion in older for message in portion])
        focus = summarising.focus(self.history)
        for portion in newer:
            turns = summarising.as_text(portion)
            question = summarising.request(turns, previous=summary, focus=focus, tokens=limit)
            if not (summary := summarising.cleaned(await self.ask((question,)))):
                break
        return summary

    def _portion(self, limit: int) -> int:
        """Tokens of turns that fit in one request beside its instructions, the last summary and the next one."""
        fits = self.room.goal if self.room.window is None else min(self.room.goal, self.room.window * 6 // 10)
        return max(_SHORTEST_PORTION, min(fits, _LONGEST_PORTION) - 2 * limit - _INSTRUCTIONS)

    async def by_user(self) -> _Made:
        """Ask the user's own compressor.

        Raises:
            _Unusable: It failed, or what it returned is no history.
        """
        try:
            messages = await self._custom()
        except BaseException as error:
            if ends_turn(error):
                raise
            raise _Unusable(type(error).__name__, f"the compressor failed: {in_words(error)}") from error
        if fault := fault_of(messages, self.history):
            raise _Unusable(_REFUSED, f"the compressor's history was refused: {fault}")
        return "custom", "", tuple(messages)

    async def _custom(self) -> Sequence[Message]:
        call: Callable[[], object] = partial(cast("Compressor", self.policy.compressor), self.history)
        if inspect.iscoroutinefunction(call):
            made: object = call()
        else:
            made = await run_in_thread(call, name="compressor", on_abandoned=lambda: None)
        return cast("Sequence[Message]", await made if inspect.isawaitable(made) else made)


def fault_of(messages: object, history: Sequence[Message]) -> str:
    """Why this cannot take the place of the history; empty if it can."""
    if not isinstance(messages, list | tuple) or not all(isinstance(message, Message) for message in messages):
        return f"it is no list of messages but {type(messages).__name__}"
    if not messages or messages[0].role != "user":
        return "it does not begin with a message of the user"
    if any(message.role == "system" for message in messages):
        return "it holds a system message; the system prompt is not part of the history"
    for unit in groups(messages):
        asked = [call.id for call in unit[0].tool_calls]
        answered = [message.tool_call_id for message in unit if message.role == "tool"]
        if asked != answered:
            return f"calls {asked} stand with results of {answered}; a call and its results stay together"
    prompts = [[m.content for m in rows if m.role == "user" and not m.origin][-1:] for rows in (messages, history)]
    return "" if prompts[0] == prompts[1] else "the user's last message is no longer the user's last, word for word"
