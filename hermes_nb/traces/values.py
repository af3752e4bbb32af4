"""Tolerant reading of attribute values: other tools write numbers as text, and text as anything."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from hermes_nb.traces.jsons import dumps
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

_INT64 = 2**63
_SECOND = 1_000_000_000


def pick(
    attributes: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    read: Callable[[Any], Any],
    present: Container[str] | None = None,
) -> list[Any]:
    """For each mapping, the value of the first of `keys` that it has, as `read` understands it.

    Args:
        attributes: The mappings.
        keys: Names of the value.
        read: Understands a value; gives None for what makes no sense.
        present: All keys that occur, if that is known; others are not looked for.
    """
    known = [key for key in keys if present is None or key in present]
    if not known:
        return [None] * len(attributes)
    try:
        found: list[Any] = list(map(itemgetter(known[0]), attributes))
    except KeyError:  # not all have it
        found = [each.get(known[0]) for each in attributes]
    for key in known[1:]:
        for i in [i for i, value in enumerate(found) if value is None]:
            found[i] = attributes[i].get(key)
    if set(map(type, found)) <= _AS_THEY_ARE.get(read, frozenset()):
        return found
    return [None if value is None else read(value) for value in found]


def as_int(value: Any) -> int | None:
    """A whole number of 64 bits, also from text; None for anything else."""
    if type(value) is not int:
        try:
            value = int(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return value if -_INT64 <= value < _INT64 else None


def as_float(value: Any) -> float | None:
    """A number, also from text; None for anything else."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def as_nanoseconds(value: Any) -> int | None:
    """Seconds, as whole nanoseconds; None for anything but a number of 64 bits."""
    seconds = as_float(value)
    if seconds is None or not -_INT64 < seconds * _SECOND < _INT64:
        return None
    return round(seconds * _SECOND)


def as_bool(value: Any) -> bool | None:
    """A truth value, also the words true and false; None for anything else."""
    return value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())


def as_text(value: Any) -> str | None:
    """Text that UTF-8 can hold; anything but text is written as JSON; None for empty text."""
    if not isinstance(value, str):
        return dumps(value)
    return unicode_only(value)


def as_word(value: Any) -> str | None:
    """Like `as_text`, but the first of a list, and None where there is nothing."""
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return as_text(value) or None if value is not None else None


def iso_nanoseconds(value: Any) -> int | None:
    """An ISO 8601 time as nanoseconds since the epoch, no digit lost; without a zone it is taken as UTC."""
    found = _ISO.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        return None
    second, fraction, zone = found.groups()
    try:
        moment = datetime.fromisoformat(second + (zone or "+00:00"))
    except ValueError:
        return None
    whole = round((moment - _EPOCH) / timedelta(seconds=1))
    return as_int(whole * _SECOND + int((fraction or "0").ljust(9, "0")[:9]))


_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_AS_THEY_ARE: dict[Callable[[Any], Any], frozenset[type]] = {
    as_text: frozenset({str, type(None)}),
    as_int: frozenset({int, type(None)}),
}
"""Types of values that need no reading; what is out of bounds is found when a column is made of them."""
