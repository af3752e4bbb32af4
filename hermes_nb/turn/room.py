"""Making room: the history is compressed when it is time, or when a server says that it is too long."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_nb.turn.asking import OVERFLOWS, ModelUnavailable, Overflow, ask_aside, window
from hermes_nb.turn.attempts import Question
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ProviderError

if TYPE_CHECKING:
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message


@dataclass(frozen=True, slots=True)
class Room:
    """How much room there is.

    Attributes:
        window: Tokens of the window in force; None if unknown.
        threshold: Tokens at which a compression is due; infinite if the window is unknown.
        overhead: Estimated tokens of the system prompt and the tools.
        goal: Estimated tokens that the whole request may have afterwards; see `Compression.goal`.
    """

    window: int | None
    threshold: float
    overhead: int
    goal: int


async def make_room(state: TurnState, iteration: events.Iteration) -> bool:
    """Compress the history if it is time; True when that has used the iteration, which is given back.

    The grace call is not given back: it goes on with the smaller history. While an answer is being continued the
    history stays as it is, since its last rows belong together.
    """
    if state.parts:
        return False
    policy = state.request.policies.compression
    room = measure(state, overflow=False)
    if not policy.due(state.sizes, state.estimate, room.threshold, now=time.monotonic()):
        return False
    trigger: events.CompressionTrigger = "preflight" if state.counts.iterations == 1 else "threshold"
    return await _shrink(state, iteration, trigger) and not state.in_grace


async def make_room_after(state: TurnState, iteration: events.Iteration, failure: Failure) -> bool:
    """Compress the history because a server refused it; the iteration is given back. False where nothing helps."""
    state.sizes.learn_window(failure.limit, window(state), state.chain.position)
    policy = state.request.policies.compression
    while not state.parts and policy.may_after_overflow(state.sizes):
        if await _shrink(state, iteration, "overflow"):
            return True
    return False


def measure(state: TurnState, *, overflow: bool) -> Room:
    """How large the next request is, and how large it may become."""
    policy, provider = state.request.policies.compression, state.chain.provider
    tokens = window(state)
    reserved = provider.parameters.get("max_tokens")
    threshold = policy.tokens(tokens, reserved if isinstance(reserved, int) else 0)
    overhead = state.meter.overhead(state.system, state.tools)
    state.estimate = overhead + state.meter.history(state.history)
    goal = policy.goal(state.sizes, state.estimate, threshold, overflow=overflow)
    state.threshold = threshold
    return Room(tokens, threshold, overhead, goal)


async def _shrink(state: TurnState, iteration: events.Iteration, trigger: events.CompressionTrigger) -> bool:
    """One pass of compression, told as a span; True when the history became smaller."""
    from hermes_nb.turn.compressing import compress  # noqa: PLC0415  few turns need it

    policy = state.request.policies.compression
    room = measure(state, overflow=trigger == "overflow")
    strategy = "custom" if policy.compressor else "summary"
    scope = events.Compression(trigger, strategy, len(state.history), state.estimate)
    state.doing = "compression"
    with state.recorder.scope(scope):
        made = await compress(
            policy,
            state.sizes,
            state.history,
            room=room,
            meter=state.meter,
            ask=lambda messages: _ask_for_summary(state, messages),
            recorder=state.recorder,
        )
        scope.strategy, scope.outcome, scope.summary = made.strategy, made.outcome, made.summary
        scope.messages_after, scope.tokens_after = len(made.messages), made.tokens_after
        scope.error_type, scope.error = made.error_type, made.error
        state.counts.compressions += 1
        if made.outcome != "compressed":
            return False
        state.replace_history(list(made.messages))
        state.compacted = True
        iteration.outcome = "compressed"
        scope.refunded = not state.in_grace and state.refund("overflow" if trigger == "overflow" else "compression")
    return True


async def _ask_for_summary(state: TurnState, messages: tuple[Message, ...]) -> str:
    """The text that the model in use makes of some messages."""
    try:
        reply = await ask_aside(state, Question(tools=False, purpose="compression", messages=messages, lenient=True))
    except ProviderError as error:
        if error.failure.reason in OVERFLOWS:
            raise Overflow(error.failure, failed_chat=0) from error
        raise ModelUnavailable(error.failure) from error
    return reply.text
