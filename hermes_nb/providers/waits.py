"""How long a server asks to wait, in every form that servers use."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

GENUINE = 60.0
"""Seconds until the reset of an empty bucket from which a 429 counts as a real quota, not as noise (Hermes: 60)."""

FIELDS = ("retry_after", "retrydelay", "reset_at")
"""Fields of an error body that mean a wait."""

_LONGEST = 366 * 86_400.0
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhd]))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_WORDING = re.compile(
    r"(?:try again in|retry (?:after|in)|please wait|wait for|available in|resets? in)\s+(?:about |for )?"
    r"(?:(?P<span>(?:\d+(?:\.\d+)?(?:ms|[smhd]))+)\b|(?P<number>\d+(?:\.\d+)?) ?(?P<unit>milli|s|m|h|d)?)",
    re.IGNORECASE,
)
_BUCKET = re.compile(r"(?:x-|anthropic-)?ratelimit-")


def seconds(value: str, now: float | None = None) -> float | None:
    """Seconds from now that a value means; None where it means nothing.

    Understands seconds ("12", "1.5"), spans ("1m30s", "6ms"), dates (HTTP and ISO 8601) and times since the epoch in
    seconds or milliseconds.

    Args:
        value: The text of a header or field.
        now: Seconds since the epoch; the clock's, if left out.
    """
    now = time.time() if now is None else now
    value = value.strip().lower()
    if _SPAN.fullmatch(value):
        return _bounded(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(value)))
    try:
        number = float(value)
    except ValueError:
        return _date(value, now)
    if number > 1e11:  # noqa: PLR2004  milliseconds since the epoch
        return _bounded(number / 1000 - now)
    return _bounded(number - now if number > 1e9 else number)  # noqa: PLR2004  seconds since the epoch


def _date(value: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(value.upper())
    except ValueError:
        try:
            moment = parsedate_to_datetime(value)
        except (ValueError, TypeError, IndexError):
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _bounded(moment.timestamp() - now)


def _bounded(number: float) -> float | None:
    if number != number or number > _LONGEST:  # noqa: PLR0124  NaN
        return None
    return max(0.0, round(number, 3))


def retry_after(headers: Mapping[str, str], text: str = "", now: float | None = None) -> float | None:
    """Seconds that the server asks to wait: from its headers, its body, or its words.

    Args:
        headers: Of the response, names in lower case; fields of the body may be among them.
        text: The words of the error.
        now: Seconds since the epoch.
    """
    if (value := headers.get("retry-after-ms")) and (wait := seconds(value)) is not None:
        return wait / 1000
    for name in ("retry-after", *FIELDS):
        if (value := headers.get(name)) and (wait := seconds(value, now)) is not None:
            return wait
    if waits := _empty_buckets(headers, now) or _unnumbered_buckets(headers, now):
        return max(waits)
    if found := _WORDING.search(text):
        unit = (found["unit"] or "s").lower()
        return seconds(found["span"] or f"{found['number']}{'ms' if unit == 'milli' else unit}")
    return None


def limited_for(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds until a genuine quota resets: an empty bucket whose reset is at least a minute away; None for noise."""
    genuine = [wait for wait in _empty_buckets(headers, now) if wait >= GENUINE]
    return max(genuine) if genuine else None


def _empty_buckets(headers: Mapping[str, str], now: float | None) -> list[float]:
    """Seconds to the reset of every bucket (requests, tokens, per hour, ...) that has nothing left."""
    waits = []
    for name, value in headers.items():
        if _BUCKET.match(name) and "remaining" in name and re.fullmatch(r"\s*(-\d+|0+)(\.\d*)?\s*", value):
            reset = headers.get(name.replace("remaining", "reset"), "")
            waits.append(seconds(reset, now))
    return [wait for wait in waits if wait is not None]


def _unnumbered_buckets(headers: Mapping[str, str], now: float | None) -> list[float]:
    """Seconds to the reset of buckets of which the server does not say how much is left."""
    resets = (name for name in headers if _BUCKET.match(name) and "reset" in name)
    alone = (name for name in resets if name.replace("reset", "remaining") not in headers)
    return [wait for name in alone if (wait := seconds(headers[name], now)) is not None]
