"""How long until the next attempt, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from sys import float_info
from typing import TYPE_CHECKING, Literal

from hermes_nb.policies.numbers import refuse_other_than_numbers
from hermes_nb.vocabulary.failures import ConfigurationError, FailureReason

if TYPE_CHECKING:
    from hermes_nb.vocabulary.failures import Failure

EAGER = {FailureReason.RATE_LIMIT: 1, FailureReason.OVERLOADED: 2, FailureReason.TIMEOUT: 2}
"""Attempts before the next provider of the chain is tried, where there is one: waiting would only cost time."""


@dataclass(frozen=True, slots=True)
class Wait:
    """How long to wait before the next attempt, in seconds, and on whose word."""

    seconds: float
    source: Literal["backoff", "retry_after"] = "backoff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Attempts per provider, and the waits between them.

    The wait before attempt n + 1 is `min(wait_initial * 2**(n - 1), wait_max)`, and up to `wait_jitter` of that on top;
    what a server asks for by `Retry-After` is used exactly, up to `retry_after_max`.

    Args:
        attempts: Requests to one provider within one iteration, the first one included.
        wait_initial: Seconds.
        wait_max: Seconds.
        wait_jitter: Share of the wait that is added at random, 0 to 1.
        retry_after_max: Seconds; a server that asks for more is left for the next provider.
        empty_attempts: Requests while the model answers nothing at all.

    Raises:
        ConfigurationError: A number is out of its range.
    """

    attempts: int = 3
    wait_initial: float = 2.0
    wait_max: float = 60.0
    wait_jitter: float = 0.5
    retry_after_max: float = 600.0
    empty_attempts: int = 4

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        if self.attempts < 1 or self.empty_attempts < 1:
            msg = (
                f"Retry needs at least one attempt, not attempts={self.attempts}, empty_attempts={self.empty_attempts}"
            )
            raise ConfigurationError(msg)
        if min(self.wait_initial, self.wait_max, self.wait_jitter, self.retry_after_max) < 0:
            msg = f"Retry cannot wait for less than 0 seconds: {self}"
            raise ConfigurationError(msg)

    def allows(self, failure: Failure, failures: int, *, fallback_left: bool) -> bool:
        """Whether another attempt at the same provider is worth it.

        Args:
            failure: The last failure.
            failures: Failed attempts so far, this one included.
            fallback_left: Another provider is waiting in the chain.
        """
        if failure.retry_after is not None and failure.retry_after > self.retry_after_max:
            return False
        if (failure.limited_for or 0.0) > self.wait_max:
            return False  # a quota that is used up: the guard remembers until when
        limit = self.empty_attempts if failure.reason is FailureReason.EMPTY_REPLY else self.attempts
        if fallback_left:
            limit = min(limit, EAGER.get(failure.reason, limit))
        return failures < limit

    def wait(self, failure: Failure, failures: int, roll: float) -> Wait:
        """How long to wait before the next attempt.

        Args:
            failure: The last failure.
            failures: Failed attempts so far, this one included.
            roll: A random number from 0 to 1, which spreads the waits of many clients.
        """
        if failure.retry_after is not None:
            return Wait(min(failure.retry_after, self.retry_after_max), "retry_after")
        base = min(self.wait_initial * 2.0 ** min(failures - 1, float_info.max_exp - 1), self.wait_max)
        return Wait(base * (1 + self.wait_jitter * roll))
