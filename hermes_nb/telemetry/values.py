"""Values that OpenTelemetry can hold, made of values that people have."""

from __future__ import annotations

import json
import logging
import math
import numbers
from collections.abc import Mapping
from typing import Any, Final

from hermes_nb.telemetry.redaction import is_secret_name
from hermes_nb.vocabulary.texts import REDACTED, unicode_only

logger = logging.getLogger("hermes_nb")

_INT64: Final = 2**63
_DEPTH: Final = 8
"""Nested values below this depth are written as text; also ends what contains itself."""


def clean(value: Any) -> Any:
    """A value that every exporter can write, or None if nothing is left of it.

    Text, booleans, 64-bit integers and finite numbers stay; NumPy's scalars become Python's. Numbers that OTLP JSON
    cannot hold (NaN, infinities, larger integers) become text, and so do bytes and foreign objects. A list of values
    of one kind becomes a tuple; everything nested becomes JSON text. What is called a key or a password is not shown.
    """
    try:
        if isinstance(value, Mapping):
            return _as_json(value)
        if isinstance(value, list | tuple | set | frozenset):
            return _sequence(list(value))
        return _scalar(value)
    except Exception:  # noqa: BLE001  a foreign object may raise anything
        return f"<{type(value).__qualname__}>"


def clean_items(values: Mapping[Any, Any], prefix: str = "") -> dict[str, Any]:
    """The attributes of a mapping, each value cleaned; keys that are no text, or empty, are left out with one note."""
    out, bad = {}, []
    for key, value in values.items():
        if not isinstance(key, str) or not key.strip():
            bad.append(key)
        elif (shown := _named(key, value)) is not None:
            out[prefix + unicode_only(key)] = shown
    if bad:
        logger.info("left out what has no text as its key: %r", bad)
    return out


def _named(key: str, value: Any) -> Any:
    """A value, cleaned; not shown, if its name says that it is a key or a password."""
    return REDACTED if isinstance(value, str) and value and is_secret_name(key) else clean(value)


def _scalar(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if not isinstance(value, int | float) and callable(item := getattr(value, "item", None)) and not _has_shape(value):
        value = item()
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value) if -_INT64 <= int(value) < _INT64 else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    return value if value is None else _text(value)


def _has_shape(value: Any) -> bool:
    """A NumPy array of one or more dimensions, as against a scalar."""
    return bool(getattr(value, "shape", ()))


def _text(value: Any) -> str:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    try:
        return str(value)
    except Exception:  # noqa: BLE001  a foreign object may raise anything
        return f"<{type(value).__qualname__}>"


def _sequence(items: list[Any]) -> Any:
    cleaned = [_scalar(item) for item in items if not isinstance(item, Mapping | list | tuple | set | frozenset)]
    kinds = {type(item) for item in cleaned}
    if len(cleaned) == len(items) and len(kinds) <= 1 and type(None) not in kinds:
        return tuple(cleaned)
    return _as_json(items)


def _as_json(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def plain(value: Any, depth: int = _DEPTH) -> Any:
    """The value as strict JSON can hold it."""
    if depth == 0:
        return _text(value)
    if isinstance(value, Mapping):
        return {
            str(key): REDACTED if isinstance(item, str) and is_secret_name(key) else plain(item, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item, depth - 1) for item in value]
    return _scalar(value)
