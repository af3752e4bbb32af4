"""What an error body says: its words, codes and headers, however deep they are wrapped."""

from __future__ import annotations

import html
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_nb.providers.waits import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes_nb.providers.sse import Json

LONGEST_MESSAGE = 500
"""Characters of a failure's message."""

_DEEPEST = 16  # objects in objects, and JSON in strings, are followed so far
_MOST = 200  # values looked at

_WORDS = ("message", "msg", "error", "errors", "detail", "details", "title", "description", "error_description",
          "reason", "raw", "status_msg", "error_message", "metadata", "body", "response", "innererror", "inner_error",
          "base_resp", "cause")  # fmt: skip
_CODES = ("code", "type", "status", "status_code", "error_code", "reason", "param")
_EMBEDDED = re.compile(r"[\[{].*[\]}]", re.DOTALL)
_KEYS = re.compile(r"\b(?:sk|pk|rk|gsk|xai|hf|key|AIza)[-_][\w-]{8,}|(?<=Bearer )[\w.~+/=-]{8,}|AIza[\w-]{20,}")


@dataclass
class ErrorBody:
    """What was found in an error body.

    Attributes:
        messages: The texts for people, outermost first.
        codes: Codes and types, as lower-case text.
        status: An HTTP status that the body states, if it does.
        headers: Headers of another server that the body repeats.
        fields: Numbers by the name of their field.
    """

    messages: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, float] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All texts in one."""
        return ": ".join(self.messages)


def read_error(body: Json) -> ErrorBody:
    """Search an error body: parsed JSON, or text, which may hold JSON or HTML."""
    found = ErrorBody()
    _Search(found).value(body, 0)
    return found


class _Search:
    def __init__(self, found: ErrorBody) -> None:
        self.found = found
        self.left = _MOST

    def value(self, value: Json, depth: int) -> None:
        self.left -= 1
        if depth > _DEEPEST or self.left < 0:
            return
        if isinstance(value, dict):
            self._object(value, depth)
        elif isinstance(value, list):
            for one in value[:20]:
                self.value(one, depth + 1)
        elif isinstance(value, str):
            self._text(value, depth)

    def _object(self, value: dict[str, Json], depth: int) -> None:
        where = value.get("loc")
        if isinstance(where, list) and isinstance(value.get("msg"), str):  # FastAPI
            self._say(f"{'.'.join(map(str, where))}: {value['msg']}")
            return
        for name in _CODES:
            self._code(value.get(name))
        for name, number in value.items():
            if str(name).lower() in FIELDS and isinstance(number, int | float | str):
                self.found.headers.setdefault(str(name).lower(), str(number))
            elif isinstance(number, int | float) and not isinstance(number, bool):
                self.found.fields.setdefault(str(name), number)
        if isinstance(headers := value.get("headers"), dict):
            self.found.headers.update({str(k).lower(): str(v) for k, v in headers.items()})
        for name in _WORDS:
            if value.get(name):
                self.value(value[name], depth + 1)

    def _code(self, code: Json) -> None:
        if isinstance(code, int) and not isinstance(code, bool):
            code = str(code)
        if not isinstance(code, str) or not code.strip():
            return
        if re.fullmatch(r"[45]\d\d", code) and self.found.status is None:
            self.found.status = int(code)
        self.found.codes.append(code.strip().lower())

    def _text(self, text: str, depth: int) -> None:
        if "{" in text and (inner := _embedded(text)) is not None:
            outer = text[: text.index("{")].rstrip(" [-:b'\"")
            if outer:
                self._say(outer)
            self.value(inner, depth + 1)
        else:
            self._say(text)

    def _say(self, text: str) -> None:
        text = plain(text)
        if text and not any(text in known for known in self.found.messages):
            self.found.messages.append(text)


def _embedded(text: str) -> Json:
    """JSON (or its Python repr) within a text; None where there is none."""
    match = _EMBEDDED.search(text[:20_000])
    if match is None:
        return None
    for candidate in (match[0], match[0].replace("'", '"').replace("None", "null").replace("True", "true")):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            return value
    return None


def plain(text: str, longest: int = LONGEST_MESSAGE * 4) -> str:
    """One line of text: HTML becomes its title, control characters and runs of space become one space, cut."""
    text = text[:100_000]
    if re.match(r"\s*<(!doctype|html|head|body|\?xml)", text, re.IGNORECASE):
        found = re.search(r"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", text, re.IGNORECASE | re.DOTALL)
        text = re.sub(r"<[^>]*>", " ", found[1] or found[2] or "") if found else ""
        text = html.unescape(text) or "a page of HTML"
    text = re.sub(r"[\s\x00-\x1f\x7f-\x9f]+", " ", text).strip()
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def redacted(text: str, secrets: Iterable[str]) -> str:
    """The text without the given secrets, and without anything that looks like a key."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return _KEYS.sub("***", text)


def merged(headers: Mapping[str, str], body: ErrorBody) -> dict[str, str]:
    """The headers of the response, in lower case, over those that the body repeats."""
    return body.headers | {name.lower(): value for name, value in headers.items()}
