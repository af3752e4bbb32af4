"""What a model server sends, cut into events; or kept whole, where it sends one body.

Decides by looking at the first bytes, not at what was asked for or at the content type: servers answer a streaming
request with one JSON body, and the other way round.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Whatever JSON can say."""

DONE = "[DONE]"
LARGEST = 64 * 1024 * 1024
"""Bytes of one body, or of one unfinished event, that are kept at most."""


class Unreadable(ValueError):
    """Bytes that are neither events nor JSON."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its name (empty if it has none), and its data: parsed JSON, the text `[DONE]`, None if unreadable."""

    name: str
    data: Json


class EventDecoder:
    """Takes bytes as they come; gives events.

    Survives split characters and lines, every line end, comments, several `data:` lines, and events that are not
    separated by an empty line.

    Attributes:
        body: The bytes of a body that is no event stream; None while events come.
    """

    def __init__(self) -> None:
        self.body: bytearray | None = None
        self._rest = bytearray()
        self._name = ""
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, piece: bytes) -> list[ServerEvent]:
        """More bytes; gives the events that they complete.

        Raises:
            Unreadable: Too much for one event or one body.
        """
        if self.body is not None:
            self.body += piece
            self._check(len(self.body))
            return []
        seen = max(0, len(self._rest) - 1)  # what was searched before is not searched again
        self._rest += piece
        if not self._begun and not self._begin():
            return []
        cut = max(self._rest.rfind(b"\n", seen), self._rest.rfind(b"\r", seen, -1)) + 1
        if not cut:
            self._check(len(self._rest))
            return []
        lines, self._rest = bytes(self._rest[:cut]).splitlines(), self._rest[cut:]
        return [event for line in lines for event in self._line(line)]

    def end(self) -> list[ServerEvent]:
        """The stream is over: what an unfinished last line still gives."""
        if self.body is not None:
            return []
        lines, self._rest = [*bytes(self._rest).splitlines(), b""], bytearray()
        return [event for line in lines for event in self._line(line)]

    def _begin(self) -> bool:
        """Look at the first visible byte: events, or one body?"""
        seen = self._rest.lstrip(b"\xef\xbb\xbf\r\n\t ")
        if not seen:
            return False
        self._begun, self._rest = True, seen
        if seen[:1] in b'{[<"':
            self.body, self._rest = seen, bytearray()
            return False
        return True

    def _line(self, line: bytes) -> list[ServerEvent]:
        if line.startswith(b"data:"):
            data = line[5:].strip()
            self._data.append(data)
            # Servers forget the empty line: what can be read is given at once.
            return self._dispatch() if data[-1:] in (b"}", b"]") else []
        if not line:
            return self._dispatch(last=True) if self._data else []
        if line.startswith(b"event:"):
            self._name = line[6:].strip().decode("utf-8", "replace")
        elif line[:1] in (b"{", b"["):  # JSON lines, without `data:`
            self._data.append(line)
            return self._dispatch()
        return []

    def _dispatch(self, *, last: bool = False) -> list[ServerEvent]:
        raw = b"\n".join(self._data)
        text = raw.decode("utf-8", "replace")
        try:
            data = DONE if text == DONE else json.loads(text)
        except (ValueError, RecursionError):
            self._check(len(raw))
            if not last:
                return []  # it may go on in the next line
            data = {"message": text} if self._name == "error" else None
        event = ServerEvent(self._name, data)
        self._data, self._name = [], ""
        return [event]

    def _check(self, size: int) -> None:
        if size > LARGEST:
            msg = f"more than {LARGEST} bytes without an end"
            raise Unreadable(msg)


def read_body(body: bytes | bytearray) -> list[Json]:
    """The JSON values of a whole body: usually one, several for JSON lines.

    Raises:
        Unreadable: It is not JSON.
    """
    text = body.decode("utf-8-sig", "replace").strip()
    try:
        return [json.loads(text)]
    except (ValueError, RecursionError):
        pass
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]  # splitlines() knows others too
    except (ValueError, RecursionError):
        msg = "the body is not JSON"
        raise Unreadable(msg) from None
