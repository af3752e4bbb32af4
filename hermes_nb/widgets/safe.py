"""Text from models, tools and users, made harmless to show: bounded, without control sequences, escaped."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Content

TEXT = 20_000
"""Characters of one text that are shown: several screens; the messages themselves stay whole."""

RESULT = 4_000
"""Characters of what a tool answered."""

LINE = 2_000
"""Characters of a tool's arguments, of an error, of a name."""

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -~])")
_NEWLINES = re.compile(r"\r\n?|[\u2028\u2029]")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, limit: int = TEXT) -> str:
    """A text that can be shown anywhere.

    Terminal sequences are taken out. Other control characters, direction overrides and lone surrogates become U+FFFD,
    so that one sees that something was there.

    Args:
        text: Anything.
        limit: Characters that are kept; of a longer text its beginning and its end.
    """
    text = _NEWLINES.sub("\n", bounded(text, limit))
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _TERMINAL.sub("", text))


def bounded(text: str, limit: int) -> str:
    """The text, or its beginning and its end with the number of characters left out between them."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]}\n… {len(text) - limit:,} characters left out …\n{text[-tail:]}"


def line(text: str, limit: int = LINE) -> str:
    """The same on one line."""
    return " ".join(clean(text, limit).split())


def content(value: Content, limit: int = TEXT) -> str:
    """A message's content as text; parts that are not text are named in brackets."""
    if isinstance(value, str):
        return clean(value, limit)
    parts = (part.get("text") if part.get("type") == "text" else f"[{part.get('type', 'part')}]" for part in value)
    return clean("\n".join(str(part) for part in parts), limit)


def escape(text: str) -> str:
    """The text for HTML, in elements and in attributes: the one function through which every text goes."""
    return html.escape(text, quote=True)
