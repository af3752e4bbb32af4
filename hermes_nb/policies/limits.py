"""When a turn must end: the grace call, refunds, and ceilings on tokens, seconds and money."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from hermes_nb.policies.numbers import refuse_other_than_numbers
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermes_nb.vocabulary.budget import BudgetView
    from hermes_nb.vocabulary.events import RefundReason
    from hermes_nb.vocabulary.messages import Usage

N = TypeVar("N", int, float)

Price: TypeAlias = "Callable[[str, str, Usage], float | None]"
"""`price(provider, model, usage)` in US dollars; None where it is not known."""


def priced(price: Price, provider: str, model: str, usage: Usage) -> float | None:
    """What a price function says, if it can be money.

    Raises:
        ValueError: It is no number, not finite, or negative.
    """
    cost = price(provider, model, usage)
    if cost is None:
        return None
    if not isinstance(cost, int | float) or not math.isfinite(cost) or cost < 0:
        msg = f"the price of {provider}:{model} is {cost!r}; a price is a number of dollars, 0 or more, or None"
        raise ValueError(msg)
    return float(cost)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grace:
    """One more call, although the budget is gone: once a turn, without tools, so that finished work is not dropped.

    Args:
        enabled: False ends the turn at once when the budget is gone.
        notice: Told to the model with the grace call, after everything else; not kept in the history.
    """

    enabled: bool = True
    notice: str = "No further tool calls are possible. Answer now, with what you have."

    def grants(self, *, used: bool, unread: bool) -> bool:
        """Whether there is one more call.

        Args:
            used: The turn has had its grace call.
            unread: Something stands in the history that the model has not read: tool results, or the prompt itself.
        """
        return self.enabled and unread and not used


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetNotice:
    """Tells the model once that its budget is running out, so that it comes to an end by itself.

    The notice stands at the end of one request and is not kept, so that cached prompts stay as they are.

    Args:
        share: Of the budget used, from which the model is told; above 0, at most 1.
        text: With `{remaining}` and `{limit}` to be filled in.

    Raises:
        ConfigurationError: The share is out of its range.
    """

    share: float = 0.8
    text: str = "[{remaining} of {limit} iterations are left. Come to an end.]"

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        if not 0 < self.share <= 1:
            msg = f"a budget notice comes at a share of the budget above 0 and at most 1, not {self.share!r}"
            raise ConfigurationError(msg)

    def due(self, view: BudgetView) -> str:
        """What the model is told now; empty for nothing."""
        if view.limit == 0 or view.used < self.share * view.limit:
            return ""
        return self.text.format(remaining=view.remaining, limit=view.limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refund:
    """Which iterations are given back, and how many a turn.

    An iteration is given back when it got no answer because the history was compressed (`compression`, `overflow`),
    and when all the tools that it ran are marked free (`free_tool`).

    Args:
        limit: Refunds per turn; it bounds a turn whose every tool is free.

    Raises:
        ConfigurationError: The limit is no number.
    """

    limit: int = 16

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)

    def allows(self, reason: RefundReason, refunds: int) -> bool:  # noqa: ARG002  subclasses may tell reasons apart
        """Whether this iteration is given back, after `refunds` earlier ones in the turn."""
        return refunds < self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """How far an agent may hand work on to sub-agents. What they use is bounded by the budget and the ceiling.

    Args:
        depth: Levels of sub-agents below this agent's turn, whatever they say themselves; 0 for none. It stops agents
            that hand a task on for ever; hermes-agent 0.19.0 has 1, for there every sub-agent can delegate.
        at_once: Sub-agents of one turn that work at the same time; the next one begins when one of them has ended
            (hermes-agent 0.19.0 has 3 too, and refuses more).

    Raises:
        ConfigurationError: A bound is no whole number, or too low.
    """

    depth: int = 3
    at_once: int = 3

    def __post_init__(self) -> None:
        for name, lowest in (("depth", 0), ("at_once", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                msg = f"{name} of a delegation is a whole number of sub-agents, {lowest} or more, not {value!r}"
                raise ConfigurationError(msg)

    def refusal(self) -> str:
        """Why a task cannot be handed on, in words for the model; empty if it can."""
        if self.depth > 0:
            return ""
        return "The task was not handed on: this turn may start no sub-agents. Do it with the other tools, or answer."

    def below(self, parent: Delegation) -> Delegation:
        """What a sub-agent with these bounds may hand on, one level below its parent."""
        return replace(self, depth=min(self.depth, parent.depth - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """Upper bounds of a turn besides the budget. They are looked at between iterations; the turn then lands softly.

    A landing is the grace call, and the end. When the seconds are over, tools that run are given up, a request that is
    under way may come to its end, and no other iteration begins.

    Args:
        tokens: Input and output tokens of all model calls together.
        seconds: Wall-clock time.
        cost_usd: Money, by `price`.
        price: `price(provider, model, usage) -> float | None`; `hermes_nb.price` uses the `genai-prices` package.
        landing: Seconds beyond `seconds` for the request under way and the grace call; after them whatever runs is
            stopped.

    Raises:
        ConfigurationError: A bound is not positive, or money is bounded without a price.
    """

    tokens: int | None = None
    seconds: float | None = None
    cost_usd: float | None = None
    price: Price | None = None
    landing: float = 30.0

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        for name in ("tokens", "seconds", "cost_usd"):
            if (value := getattr(self, name)) is not None and value <= 0:
                msg = f"a ceiling of {name}={value!r} would stop a turn before it began; leave it out for none"
                raise ConfigurationError(msg)
        if not self.landing >= 0:
            msg = f"the landing of a ceiling takes 0 seconds or more, not {self.landing!r}"
            raise ConfigurationError(msg)
        if self.cost_usd is not None and self.price is None:
            msg = "a ceiling of cost_usd needs price=, a function (provider, model, usage) -> dollars"
            raise ConfigurationError(msg)

    def left(self, tokens: int, seconds: float, cost_usd: float) -> Ceiling:
        """What a sub-agent may still use, after so many tokens, seconds and dollars; never less than a little."""
        return replace(
            self,
            tokens=None if self.tokens is None else max(1, self.tokens - tokens),
            seconds=None if self.seconds is None else max(1e-3, self.seconds - seconds),
            cost_usd=None if self.cost_usd is None else max(1e-9, self.cost_usd - cost_usd),
        )

    def within(self, other: Ceiling) -> Ceiling:
        """The lower of two ceilings, bound by bound."""
        return Ceiling(
            tokens=_lower(self.tokens, other.tokens),
            seconds=_lower(self.seconds, other.seconds),
            cost_usd=_lower(self.cost_usd, other.cost_usd),
            price=self.price or other.price,
            landing=min(self.landing, other.landing),
        )

    @property
    def stops_after(self) -> float:
        """Seconds after which whatever runs is stopped."""
        return math.inf if self.seconds is None else self.seconds + self.landing

    def reached(self, *, tokens: int, cost_usd: float, seconds: float) -> str:
        """Which ceiling has been reached, in words; empty for none."""
        if self.tokens is not None and tokens >= self.tokens:
            return f"{tokens:,} of {self.tokens:,} tokens used"
        if self.cost_usd is not None and cost_usd >= self.cost_usd:
            return f"${cost_usd:.4f} of ${self.cost_usd:.4f} spent"
        if self.seconds is not None and seconds >= self.seconds:
            return f"the {self.seconds:.3g} seconds are over"
        return ""


def _lower(one: N | None, other: N | None) -> N | None:
    """The lower of two bounds, of which each may be none."""
    return min((bound for bound in (one, other) if bound is not None), default=None)
