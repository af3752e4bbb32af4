"""Should this call not be made now? What is known of quotas that are used up, and who is cooling down."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from hermes_nb.policies.numbers import refuse_other_than_numbers
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermes_nb.vocabulary.failures import Failure

LONGEST = 7 * 86_400.0
"""Seconds; a limit that lies further ahead comes from a wrong clock, and is not believed."""


class GuardStore(Protocol):
    """Where limits are remembered beyond this process. It may raise: the loop goes on without it, and says so."""

    def read(self) -> Mapping[str, float]:
        """Until when each identity is limited, in seconds since the epoch."""

    def write(self, identity: str, until: float | None) -> None:
        """Remember a limit; None forgets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateGuard:
    """Remembers used-up quotas per provider, key and model, so that nobody asks in vain before they reset.

    A rate limit is believed where the server's headers say that a quota is used up and when it resets
    (`Failure.limited_for`); without that it is noise, and is retried. A provider that was left for the next one of
    the chain because of a rate limit or an unpaid bill cools down: turns with this guard start with the next one
    until that is over, then with the first again. A success forgets both.

    Args:
        genuine: Seconds; a quota that resets sooner is waited for by the retries (hermes-agent 0.19.0: the same).
        cooling: Seconds that a provider cools down (hermes-agent 0.19.0: the same).
        shared: Agents share this knowledge with other kernels, by a small file in the user's data directory.
        store: Another place for it; none keeps it in this process.

    Raises:
        ConfigurationError: A time is negative.
    """

    genuine: float = 60.0
    cooling: float = 60.0
    shared: bool = True
    store: GuardStore | None = None
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _limits: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _cooling: dict[str, float] = field(default_factory=dict, init=False, repr=False, compare=False)
    _stored: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        refuse_other_than_numbers(self)
        for name in ("genuine", "cooling"):
            if (value := getattr(self, name)) < 0:
                msg = f"a guard's {name} is a number of seconds, 0 or more, not {value!r}"
                raise ConfigurationError(msg)

    def with_store(self, store: GuardStore) -> RateGuard:
        """A guard like this one that remembers in `store`."""
        return replace(self, store=store)

    def blocked_for(self, identity: str, *, alternatives: bool = True) -> float:
        """How long this provider should not be asked.

        Args:
            identity: `Provider.identity`.
            alternatives: Another provider can be asked instead; without one, only used-up quotas count.

        Returns:
            Seconds, 0 if it may be asked now.
        """
        untils = [self._limits.get(identity, 0.0)]
        if alternatives:
            untils.append(self._cooling.get(identity, 0.0))
        if self.store is not None and (until := self.store.read().get(identity)) is not None:
            self._stored.add(identity)
            untils.append(until)
        seconds = max(0.0, max(untils) - self.clock())
        return seconds if seconds <= LONGEST else 0.0

    def record(self, identity: str, failure: Failure) -> None:
        """Remember a limit, if the failure shows a genuine one."""
        if failure.limited_for is None or failure.limited_for < self.genuine:
            return
        until = self.clock() + min(failure.limited_for, LONGEST)
        self._limits[identity] = until
        if self.store is not None:
            self._stored.add(identity)
            self.store.write(identity, until)

    def cool_down(self, identity: str, seconds: float | None = None) -> None:
        """Prefer the next provider of the chain for a while: `cooling` seconds if not said otherwise."""
        self._cooling[identity] = self.clock() + (self.cooling if seconds is None else seconds)

    def clear(self, identity: str) -> None:
        """Forget what is known of a provider: it has answered."""
        self._limits.pop(identity, None)
        self._cooling.pop(identity, None)
        if self.store is not None and identity in self._stored:
            self.store.write(identity, None)
            self._stored.discard(identity)
