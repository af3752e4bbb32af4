"""JSON text of attributes: strict, fast, and never a reason to lose a span."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from hermes_nb.vocabulary.texts import unicode_only


def dumps(value: Any) -> str:
    """Strict JSON of anything: NaN and infinities as words, bytes in base64, unknown objects as their text."""
    try:
        return to_json(value, inf_nan_mode="strings", bytes_mode="base64", fallback=str).decode()
    except (PydanticSerializationError, ValueError):
        return unicode_only(json.dumps(value, ensure_ascii=False, default=str))


def loads(text: str | bytes) -> Any:
    """The value of JSON text; lone surrogates and bytes that are not UTF-8 do not stop it.

    Raises:
        ValueError: It is not JSON, or nested too deeply (more than 200 levels).
    """
    try:
        return from_json(text)
    except ValueError as error:
        if "recursion" in str(error):
            raise
        return json.loads(text.decode("utf-8", "replace") if isinstance(text, bytes) else text)


def loads_mapping(text: str | None) -> dict[str, Any]:
    """The object that JSON text holds; an empty one where it holds something else."""
    if not text:
        return {}
    try:
        value = loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
