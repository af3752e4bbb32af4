"""Keys: several for one server, rotated when one fails, refreshed where a callback can, capped per turn.

A `CredentialPool` is shared by turns and threads. A `Lease` is one turn's use of it and holds the turn's caps, where
nothing that a failing server does can reset them.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.to_thread

from hermes_nb.vocabulary.cancellation import ends_turn
from hermes_nb.vocabulary.failures import ConfigurationError, FailureReason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from hermes_nb.providers.base import Renewal
    from hermes_nb.vocabulary.failures import Failure

logger = logging.getLogger("hermes_nb")

Refresh: TypeAlias = "Callable[[str], str | Awaitable[str]]"
COOLDOWNS = {
    FailureReason.AUTH: 300.0,
    FailureReason.RATE_LIMIT: 3600.0,
    FailureReason.BILLING: 3600.0,
}
"""Seconds that a key rests after a failure for which the server named no time (as in Hermes 0.19)."""

REFRESHES_PER_KEY = 2
REFRESHES_PER_TURN = 4


class _Entry:
    """One key of a pool; `first` is what it was when the pool was made."""

    __slots__ = ("busy", "fingerprint", "first", "key", "until")

    def __init__(self, key: str) -> None:
        self.first = self.key = key
        self.fingerprint = hashlib.sha256(key.encode()).hexdigest()[:12]
        self.until = 0.0
        self.busy = False


class CredentialPool:
    """Keys for one server; safe to share between threads.

    The first key that is not resting is used. A key rests after it failed: 5 minutes after a 401, an hour after a 429
    or a 402, or as long as the server said. When all rest, the one that is back first is tried.

    Args:
        keys: One or several keys.
        refresh: Called with a key that was refused; returns a new one. May be async; a plain function runs in a
            worker thread.
        refreshes_per_key: How often one key is refreshed in one turn.
        refreshes_per_turn: How often keys are refreshed in one turn, all together.
        refresh_timeout: Seconds that one refresh may take; after that it has failed.

    Raises:
        ConfigurationError: No key, something that cannot be one, or a time-out that is none.
    """

    def __init__(
        self,
        keys: Iterable[str],
        *,
        refresh: Refresh | None = None,
        refreshes_per_key: int = REFRESHES_PER_KEY,
        refreshes_per_turn: int = REFRESHES_PER_TURN,
        refresh_timeout: float = 120.0,
    ) -> None:
        given = [keys] if isinstance(keys, str) else list(keys)
        self._entries = [_Entry(key) for key in dict.fromkeys(map(checked, given))]
        if not self._entries:
            msg = "a credential pool needs at least one key"
            raise ConfigurationError(msg)
        if not isinstance(refresh_timeout, int | float) or not refresh_timeout > 0:
            msg = f"refresh_timeout is a number of seconds above 0 (math.inf for none), not {refresh_timeout!r}"
            raise ConfigurationError(msg)
        self.refresh = refresh
        self.refreshes_per_key = refreshes_per_key
        self.refreshes_per_turn = refreshes_per_turn
        self.refresh_timeout = refresh_timeout
        self._lock = threading.Lock()

    def lease(self) -> Lease:
        """One turn's use of the pool."""
        return Lease(self)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All keys, to be kept out of everything that is written."""
        with self._lock:
            return tuple(dict.fromkeys(key for entry in self._entries for key in (entry.key, entry.first)))

    @property
    def fingerprint(self) -> str:
        """Tells the key in use from others without showing it; stays when the key is refreshed."""
        return self.pick().fingerprint

    def pick(self) -> _Entry:
        """The first key that is not resting, or the one that is back first."""
        if (first := self._entries[0]).until <= (now := time.monotonic()):
            return first
        with self._lock:
            return next((e for e in self._entries if e.until <= now), None) or min(self._entries, key=lambda e: e.until)

    def has_other(self, entry: _Entry) -> bool:
        """Whether another key than this one can be used."""
        now = time.monotonic()
        with self._lock:
            return any(other is not entry and other.until <= now for other in self._entries)

    def rest(self, entry: _Entry, seconds: float) -> bool:
        """Let a key rest; True when another one can be used."""
        with self._lock:
            entry.until = max(entry.until, time.monotonic() + seconds)
        return self.has_other(entry)

    def begin_refresh(self, entry: _Entry) -> bool:
        """Claim the refresh of a key; False while another turn is at it."""
        with self._lock:
            claimed = not entry.busy
            entry.busy = True
            return claimed

    def end_refresh(self, entry: _Entry, key: str | None) -> None:
        """Give the claim back, with the new key if there is one."""
        with self._lock:
            entry.busy = False
            if key is not None:
                entry.key, entry.until = key, 0.0

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        now = time.monotonic()
        with self._lock:
            resting = sum(entry.until > now for entry in self._entries)
        keys = "1 key" if len(self) == 1 else f"{len(self)} keys"
        return f"<CredentialPool {keys}, {resting} resting>"

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: keys and settings; not who rests."""
        return {"keys": [e.key for e in self._entries], "refresh": self.refresh,
                "refreshes_per_key": self.refreshes_per_key, "refreshes_per_turn": self.refreshes_per_turn,
                "refresh_timeout": self.refresh_timeout}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state.pop("keys"), **state)  # type: ignore[misc]  # made anew, with a lock of its own


class Lease:
    """One turn's use of a pool."""

    def __init__(self, pool: CredentialPool) -> None:
        self._pool = pool
        self._used: tuple[_Entry, str] | None = None
        self._refreshes: Counter[int] = Counter()
        self._limited: Counter[int] = Counter()

    def take(self) -> str:
        """The key for the next request."""
        entry = self._pool.pick()
        self._used = (entry, entry.key)
        return entry.key

    def worked(self) -> None:
        """The last request was accepted."""
        self._limited.clear()

    async def renew(self, failure: Failure) -> Renewal:
        """Refresh the key that failed, or let it rest and use another.

        Returns:
            `refreshed` or `rotated`; empty when neither helps. The first 429 of a key is left to waiting (`later`),
            unless the server says that the quota is gone for long.
        """
        if self._used is None or failure.reason not in COOLDOWNS:
            return ""
        entry, key = self._used
        if failure.reason is FailureReason.AUTH and await self._refreshed(entry, key):
            return "refreshed"
        if failure.reason is FailureReason.RATE_LIMIT and failure.limited_for is None:
            self._limited[id(entry)] += 1
            if self._limited[id(entry)] == 1:
                return "later" if self._pool.has_other(entry) else ""
        seconds = failure.limited_for or failure.retry_after or COOLDOWNS[failure.reason]
        return "rotated" if self._pool.rest(entry, seconds) else ""

    async def _refreshed(self, entry: _Entry, failed: str) -> bool:
        pool = self._pool
        if pool.refresh is None or self._refreshes[id(entry)] >= pool.refreshes_per_key:
            return False
        if self._refreshes.total() >= pool.refreshes_per_turn:
            return False
        self._refreshes[id(entry)] += 1
        while not pool.begin_refresh(entry):  # noqa: ASYNC110  another turn, in another event loop, is at it
            await anyio.sleep(0.02)
        new: str | None = None
        try:
            if entry.key != failed:  # and has done it
                return True
            with anyio.fail_after(pool.refresh_timeout):
                new = checked(await _call(pool.refresh, failed))
        except BaseException as error:  # the user's function; the key must not get into the log
            if ends_turn(error):
                raise
            logger.warning("the refresh of a key failed: %s", type(error).__name__)
            return False
        finally:
            pool.end_refresh(entry, new)
        return True


async def _call(refresh: Refresh, key: str) -> str:
    function: Callable[[str], Any] = refresh
    if inspect.iscoroutinefunction(function):
        made, error = function(key), None
    else:
        made, error = await anyio.to_thread.run_sync(_outcome, function, key, abandon_on_cancel=True)
    if error is not None:
        raise error
    return str(await made if inspect.isawaitable(made) else made)


def _outcome(function: Callable[[str], Any], key: str) -> tuple[Any, BaseException | None]:
    """What a function returns or raises; not all exceptions can be carried from one thread to another as such."""
    try:
        return function(key), None
    except BaseException as error:  # noqa: BLE001  it is raised again where the key is awaited
        return None, error


def checked(key: object) -> str:
    """The key, without blanks around it.

    Raises:
        ConfigurationError: It cannot be sent in a header. The message does not show it.
    """
    if not isinstance(key, str) or not key.strip():
        msg = f"a key is a text that is not empty; this is {'an empty one' if isinstance(key, str) else type(key)}"
        raise ConfigurationError(msg)
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        msg = "a key has only printable ASCII characters and no blanks; this one has others (a line break, a quote?)"
        raise ConfigurationError(msg)
    return key
