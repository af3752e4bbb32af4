"""Text that anything can take: no server, file or exporter reads lone surrogates."""

from __future__ import annotations

import re

_SURROGATE = re.compile("[\ud800-\udfff]")


def unicode_only(text: str) -> str:
    """The text with each surrogate replaced by a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def mended(text: str) -> str:
    """The text with surrogates joined where they are a pair, and replaced by the replacement character elsewhere."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
