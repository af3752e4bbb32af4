"""Which part of a source is wanted; readers that can, look for it before they read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, TypeVar

from hermes_nb.traces.values import iso_nanoseconds
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

When = datetime | date | str | int | None
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Selection:
    """Traces of one conversation, that began in some interval, at most so many.

    Attributes:
        conversation_id: The conversation; None for all.
        since: Nanoseconds since the epoch; traces that began then or later.
        until: The same; traces that began before.
        limit: How many traces at most, the newest.
    """

    conversation_id: str | None = None
    since: int | None = None
    until: int | None = None
    limit: int | None = None

    @property
    def is_everything(self) -> bool:
        """Nothing is left out."""
        return self == Selection()

    def takes(self, start: int | None) -> bool:
        """Whether a trace that began at this time is in the interval; one without a time always is."""
        if start is None:
            return True
        return (self.since is None or start >= self.since) and (self.until is None or start < self.until)

    def newest(self, items: Sequence[T], start: Callable[[T], int | None]) -> list[T]:
        """Those in the interval, the newest if there are too many; the order stays."""
        inside = [item for item in items if self.takes(start(item))]
        if self.limit is None or len(inside) <= self.limit:
            return inside
        order = sorted(range(len(inside)), key=lambda place: start(inside[place]) or 0)
        return [inside[place] for place in sorted(order[len(order) - self.limit :])]


def nanoseconds(when: When, name: str) -> int | None:
    """A moment as nanoseconds since the epoch; without a zone it is taken as UTC.

    Raises:
        ConfigurationError: It is not a time.
    """
    if when is None or (isinstance(when, int) and not isinstance(when, bool)):
        return when
    if isinstance(when, str):
        text = f"{when} 00:00:00" if len(when) == len("2026-01-31") else when
        found = iso_nanoseconds(text)
    elif isinstance(when, date):
        moment = when if isinstance(when, datetime) else datetime.combine(when, time())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        found = iso_nanoseconds(moment.isoformat())
    else:
        found = None
    if found is None:
        msg = f"{name} is an ISO 8601 time, a datetime, or nanoseconds since the epoch, not {when!r}"
        raise ConfigurationError(msg)
    return found
