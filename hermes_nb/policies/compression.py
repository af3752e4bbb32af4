"""When the history is made smaller, and which of it stays as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hermes_nb.policies.numbers import refuse_other_than_numbers
from hermes_nb.policies.pruning import cut_results, groups, prune
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hermes_nb.policies.tokens import TokenMeter
    from hermes_nb.vocabulary.messages import Message

Compressor: TypeAlias = "Callable[[tuple[Message, ...]], Sequence[Message] | Awaitable[Sequence[Message]]]"
"""The user's own way: messages in, a smaller history out; plain or async."""

MINIMUM_THRESHOLD = 64_000
"""Tokens below which a large window is not compressed, whatever its share (hermes-agent 0.19.0)."""

PROGRESS = 0.05
"""The share of the tokens that a compression must save."""

INEFFECTIVE = 2
"""Compressions in a row that did not bring the real prompt below the threshold, until no more are tried."""

_TAIL_SLACK = 1.5
_ROOM_AFTER = 0.8
_OVERFLOW_SHARE = 0.6
_SMALLEST_WINDOW = 256
_RATIOS = 1 / 3, 3.0


@dataclass(slots=True)
class CompressionState:
    """What is known about the size of requests; kept by the loop, and worth keeping over the turns of a conversation.

    Attributes:
        passes: Compressions in this turn.
        window: Tokens that a server stated as its limit; only a statement lowers the window, never a guess.
        stated_by: The place in the chain of the provider whose server that was; None while no server has.
        ratio: Tokens as the server counts them, for one of the estimate.
        awaiting_usage: A compression was made, and no server has counted the result yet.
        ineffective: Compressions in a row that did not help; only a real prompt below the threshold clears it.
        quiet_until: Until this time (`time.monotonic`) no model is asked for a summary, because one failed.
    """

    passes: int = 0
    window: int | None = None
    stated_by: int | None = None
    ratio: float = 1.0
    awaiting_usage: bool = False
    ineffective: int = 0
    quiet_until: float = -math.inf

    def begin_turn(self) -> None:
        """A new turn has its passes anew; what was learnt stays."""
        self.passes = 0

    def learn_window(self, stated: int | None, current: int | None, place: int = 0) -> None:
        """Take over a limit that the server at a place in the chain stated, if it is lower than what was believed."""
        if stated is not None and stated >= _SMALLEST_WINDOW and stated < (current or math.inf):
            self.window, self.stated_by = stated, place

    def observe(self, prompt_tokens: int | None, estimate: int, threshold: float) -> None:
        """Compare a reply's real prompt size with the estimate of that same request.

        Args:
            prompt_tokens: As the server counted them; None if it did not.
            estimate: Of the whole request: system prompt, tools and messages.
            threshold: Tokens at which a compression is due.
        """
        compressed, self.awaiting_usage = self.awaiting_usage, False
        if not prompt_tokens or not estimate:
            return
        self.ratio = min(max(prompt_tokens / estimate, _RATIOS[0]), _RATIOS[1])
        if prompt_tokens < threshold:
            self.ineffective = 0
        elif compressed:
            self.ineffective += 1

    def record(self, *, progress: bool) -> None:
        """Count one compression."""
        self.passes += 1
        if progress:
            self.awaiting_usage = True
        else:
            self.ineffective += 1


@dataclass(frozen=True, slots=True)
class Plan:
    """A history in parts.

    Attributes:
        head: Messages from the beginning that stay.
        previous: The summary so far.
        middle: Messages to be summarised; whole groups of calls and results.
        words: Those of the middle that stay all the same: the user's last words, unless they are in the tail.
        tail: Messages from the end that stay, shortened where they had to be.
    """

    head: tuple[Message, ...]
    previous: Message | None
    middle: tuple[Message, ...]
    words: tuple[Message, ...]
    tail: tuple[Message, ...]

    def around(self, summary: Message) -> tuple[Message, ...]:
        """The history with a summary in place of the middle; the user's own last words come after it."""
        return (*self.head, summary, *self.words, *self.tail)

    def in_place(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """The history with nothing summarised: only what was shortened in the tail is exchanged."""
        places = [index for index, message in enumerate(history) if message is not self.previous]
        tail = places[len(places) - len(self.tail) :]
        exchanged = dict(zip(tail, self.tail, strict=True))
        return tuple(exchanged.get(index, message) for index, message in enumerate(history))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """When the history is made smaller, and how.

    Args:
        threshold: The share of the window at which a compression is due.
        context_window: Tokens; None for what the provider or its server says.
        passes: Compressions in a turn.
        compressor: Your own: messages in, a smaller history out; instead of the built-in summary.
        protect_first: Messages at the beginning that the first compression leaves as they are.
        protect_last: Messages at the end that stay, as long as they fill at most half of the room.
        tail_share: The share of the threshold that the last messages may fill in any case, and half as much again.
        minimum: Tokens below which a window of more than that is not compressed.
        cooldown: Seconds in which no summary is asked of a model after one failed.
        enabled: False for never.

    Raises:
        ConfigurationError: A value cannot work.
    """

    threshold: float = 0.75
    context_window: int | None = None
    passes: int = 3
    compressor: Compressor | None = None
    protect_first: int = 3
    protect_last: int = 20
    tail_share: float = 0.2
    minimum: int = MINIMUM_THRESHOLD
    cooldown: float = 60.0
    enabled: bool = True

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        for name in ("threshold", "tail_share"):
            if not 0 < getattr(self, name) < 1:
                msg = f"{name} is a share between 0 and 1, not {getattr(self, name)!r}"
                raise ConfigurationError(msg)
        for name in ("passes", "protect_first", "protect_last", "minimum", "cooldown"):
            if not getattr(self, name) >= 0:
                msg = f"{name} is a number of at least 0, not {getattr(self, name)!r}"
                raise ConfigurationError(msg)
        if self.context_window is not None and not _SMALLEST_WINDOW <= self.context_window < math.inf:
            msg = f"context_window is a number of tokens, {_SMALLEST_WINDOW} or more, not {self.context_window!r}"
            raise ConfigurationError(msg)
        if self.compressor is not None and not callable(self.compressor):
            msg = f"compressor is a function of the messages, not {self.compressor!r}"
            raise ConfigurationError(msg)

    # ------------------------------------------------------------------------------------- when

    def window(self, state: CompressionState, provider_window: int | None, place: int = 0) -> int | None:
        """The window in force: the configured one, else the provider's; never above what its server stated.

        Args:
            state: What is known.
            provider_window: Tokens, as the provider says; None if it does not.
            place: The provider's place in the chain.
        """
        configured = self.context_window or provider_window
        stated = state.window if state.stated_by == place else None
        return min(filter(None, (configured, stated)), default=None)

    def tokens(self, window: int | None, reserved: int = 0) -> float:
        """The number of tokens at which a compression is due; infinite if the window is not known.

        Args:
            window: Tokens.
            reserved: Output tokens that each request asks for explicitly; they are part of the window.
        """
        if window is None:
            return math.inf
        usable = window - reserved if reserved < window else window
        share = int(usable * self.threshold)
        if window < self.minimum:
            return max(1, share)
        due = max(share, self.minimum)
        return due if due < usable else max(1, min(int(usable * 0.85), usable - 1))

    def size(self, state: CompressionState, estimate: int) -> int:
        """The likely real size of a request, by what servers counted so far."""
        return int(estimate * state.ratio)

    def due(self, state: CompressionState, estimate: int, threshold: float, *, now: float) -> bool:
        """Whether the history is to be made smaller before the next request.

        Not right after a compression, until a server has counted what came out; not when compressions do not help;
        and not for a while after a summary failed.

        Args:
            state: What is known so far.
            estimate: Of the whole request.
            threshold: See `tokens`.
            now: `time.monotonic()`.
        """
        hopeless = state.awaiting_usage or state.ineffective >= INEFFECTIVE or now < state.quiet_until
        may = self.enabled and state.passes < self.passes and not hopeless
        return may and self.size(state, estimate) >= threshold

    def may_after_overflow(self, state: CompressionState) -> bool:
        """Whether another compression is tried after a server said that the request is too large."""
        return self.enabled and state.passes < self.passes

    # ------------------------------------------------------------------------------------- how

    def goal(self, state: CompressionState, estimate: int, threshold: float, *, overflow: bool = False) -> int:
        """Tokens, by the estimate, that the request may have afterwards.

        After an overflow each further pass aims at 60 % of the last, whether or not a number was stated: the server
        has refused what the estimate thought would fit.
        """
        goal = min(threshold * _ROOM_AFTER, float(self.size(state, estimate)))
        if overflow:
            goal = min(goal, self.size(state, estimate) * _OVERFLOW_SHARE ** (state.passes + 1))
        return round(goal / state.ratio)

    def progress(self, before: int, after: int) -> bool:
        """Whether enough was saved to call it a compression: 5 % of the tokens."""
        return after <= before * (1 - PROGRESS)

    def plan(self, messages: Sequence[Message], meter: TokenMeter, *, goal: int, tail: float, summary: int) -> Plan:
        """Which messages stay.

        Call groups stay whole. The last message of the user, and steers after it, stay verbatim. Results in the last
        messages are shortened only when those alone would not fit.

        Args:
            messages: The history, without the system prompt.
            meter: Sizes.
            goal: Tokens that all messages together may have afterwards.
            tail: Tokens that the last messages may fill, if there is room.
            summary: Tokens kept free for the summary.
        """
        previous = next((m for m in reversed(messages) if m.origin == "summary"), None)
        units = groups(message for message in messages if message is not previous)
        first = 0 if previous else self._head(units)
        words = [unit[0] for unit in units if _is_prompt(unit[0])][-1:]
        room = goal - summary - meter.messages(words) - sum(map(meter.messages, units[:first]))
        last = self._tail(units, first, meter, room=room, tail=tail)
        kept = [message for unit in units[last:] for message in unit]
        middle = [message for unit in units[first:last] for message in unit]
        return Plan(
            head=tuple(message for unit in units[:first] for message in unit),
            previous=previous,
            middle=tuple(middle),
            words=tuple(_words(middle)) if not any(_is_prompt(message) for message in kept) else (),
            tail=tuple(_fitted(kept, meter, room)),
        )

    def _head(self, units: Sequence[Sequence[Message]]) -> int:
        """How many units at the beginning stay: before the user's last words, and not ending with tool results."""
        number, counted = 0, 0
        last_words = max(
            (i for i, unit in enumerate(units) if unit[0].role == "user" and not unit[0].origin), default=0
        )
        while number < last_words and counted < self.protect_first:
            counted += len(units[number])
            number += 1
        while number and units[number - 1][-1].role == "tool":
            number -= 1
        return number

    def _tail(
        self, units: Sequence[Sequence[Message]], first: int, meter: TokenMeter, *, room: float, tail: float
    ) -> int:
        """The first unit of the tail: what fills the tail's share, and a few messages within half of the room."""
        start, filled, counted = len(units), 0, 0
        share = tail * _TAIL_SLACK
        while start > first:
            cost = meter.messages(units[start - 1])
            few = counted < self.protect_last
            if start < len(units) and filled + cost > min(room, max(share, room / 2) if few else share):
                break
            start, filled, counted = start - 1, filled + cost, counted + len(units[start - 1])
        return start


def _is_prompt(message: Message) -> bool:
    return message.role == "user" and not message.origin


def _words(middle: Sequence[Message]) -> list[Message]:
    """The user's last prompt in these messages, and the steers after it."""
    said: list[Message] = []
    for message in middle:
        if _is_prompt(message):
            said = [message]
        elif message.origin == "steer":
            said.append(message)
    return said


def _fitted(kept: Sequence[Message], meter: TokenMeter, room: float) -> Sequence[Message]:
    """The tail, with results shortened as far as it must be: old ones to a line, then the last ones to their ends."""
    last = groups(kept)[-1:]
    pruned = prune(kept, size=meter.message, room=room, protect=sum(map(len, last)))
    return cut_results(pruned, size=meter.message, room=room)
