"""Text that anything can take, for no server, file or exporter reads lone surrogates; and text that is JSON, or not."""

from __future__ import annotations

import json
import re
from typing import Any

REDACTED = "[redacted]"
"""What stands in the place of a key."""

_SURROGATE = re.compile("[\ud800-\udfff]")


def unicode_only(text: str) -> str:
    """The text with each surrogate replaced by a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def mended(text: str) -> str:
    """The text with surrogates joined where they are a pair, and replaced by the replacement character elsewhere."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is; None where it is none, whatever a model has made of it."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # a thousand brackets are no object either
        return None
    return found if isinstance(found, dict) else None
