"""HTTP/1.1 as bytes: a request written down, a response read from a stream.

httpx itself is loaded when there is something to raise or to decompress: that takes longer than a short turn.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import httpx

    Streams = tuple["Reader", asyncio.StreamWriter]
    Place = tuple[str, int, bool]

HEAD_LIMIT = 1 << 17
"""Bytes of a response's head, and of a line between its chunks."""

PIECE = 1 << 16
_NO_BODY = (204, 304)
_INFORMATIONAL = 200
_SUCCESS = range(200, 300)
_PORTS = {"http": 80, "https": 443}


class Request(NamedTuple):
    """A request with a body.

    Attributes:
        url: With every character escaped that has to be.
        headers: All but those that follow from the rest, the host and the length; with their names in lower case.
        content: The body.
    """

    url: str
    headers: Mapping[str, str]
    content: bytes


class Response(Protocol):
    """A response, of this transport or of httpx: its head is here, its body is read as it comes."""

    @property
    def status_code(self) -> int:
        """As in its first line."""

    @property
    def is_success(self) -> bool:
        """Whether the status is one of success."""

    @property
    def headers(self) -> Mapping[str, str]:
        """With their names in lower case."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body in pieces, decompressed."""

    async def aclose(self) -> None:
        """Read no more of it."""


@lru_cache
def target(url: str) -> tuple[Place, str, str]:
    """Where a request goes, its first line, and the host as a header tells it: the same for all requests of a turn."""
    at = urlsplit(url)
    port = _PORTS[at.scheme]
    place = (at.hostname or "", at.port or port, at.scheme == "https")
    return place, f"POST {at.path}{at.query and '?'}{at.query} HTTP/1.1", at.netloc.removesuffix(f":{port}")


def written(request: Request, line: str, host: str) -> bytes:
    """A request with its head; the line and the host are those of its target."""
    headers = {"host": host, "content-length": len(request.content), **request.headers}
    lines = [line, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("ascii") + request.content


class Reader(asyncio.StreamReader):
    """Knows how many bytes are here that nobody has read: on a kept connection they answer no request of ours."""

    unread = 0

    def feed_data(self, data: Any) -> None:
        """What has come."""
        self.unread += len(data)
        super().feed_data(data)

    async def read(self, n: int = -1) -> bytes:
        """Some of it."""
        data = await super().read(n)
        self.unread -= len(data)
        return data

    async def readuntil(self, separator: Any = b"\n") -> bytes:
        """What of it comes before a separator, and that."""
        data = await super().readuntil(separator)
        self.unread -= len(data)
        return data


class Answer:
    """A response of this transport."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: Body) -> None:
        self.status_code = status
        self.is_success = status in _SUCCESS
        self.headers: dict[str, str] = {}
        for name, value in headers:
            key, text = _text(name).lower(), _text(value)
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
        self._body = body

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body in pieces, decompressed where it has to be.

        Raises:
            httpx.HTTPError: The connection broke, or the body makes no sense.
        """
        if "content-encoding" not in self.headers:
            return aiter(self._body)
        import httpx  # noqa: PLC0415  heavy, and servers rarely compress

        return httpx.Response(self.status_code, headers=self.headers, content=aiter(self._body)).aiter_bytes()

    async def aclose(self) -> None:
        """Keep the connection if the body has been read; else close it."""
        await self._body.aclose()


class Body:
    """The body of one response; its connection is given back when it has been read to its end."""

    def __init__(self, streams: Streams, give_back: Callable[[], None]) -> None:
        self._reader, self._writer = streams
        self._give_back = give_back
        self._length: int | None = None
        self._chunked = self._keep = self._over = False

    def expect(self, version: bytes, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Learn from the head how the body ends.

        Raises:
            ValueError: The head contradicts itself.
        """
        pairs = [(name.lower(), value.strip().lower()) for name, value in headers]
        said = dict(pairs)
        self._chunked = said.get(b"transfer-encoding", b"").endswith(b"chunked")
        if not self._chunked and b"content-length" in said:
            self._length = _length({value for name, value in pairs if name == b"content-length"})
        if status in _NO_BODY:
            self._length, self._chunked = 0, False
        kept = version == b"HTTP/1.1" and b"close" not in said.get(b"connection", b"")
        self._keep = kept and (self._chunked or self._length is not None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body in pieces.

        Raises:
            httpx.ReadError: The connection broke.
            httpx.RemoteProtocolError: The body ended before its end, or makes no sense.
        """
        try:
            if self._chunked:
                chunks = _Chunks()
                while not chunks.over:
                    if piece := chunks.feed(await self._some()):
                        yield piece
                self._keep = self._keep and not chunks.rest
            elif self._length is None:
                while piece := await self._reader.read(PIECE):
                    yield piece
            else:
                while self._length > 0:
                    piece = await self._some(self._length)
                    self._length -= len(piece)
                    yield piece
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            raise translated(error) from error
        self._over = True

    async def _some(self, most: int = PIECE) -> bytes:
        if piece := await self._reader.read(min(most, PIECE)):
            return piece
        raise EOFError

    async def aclose(self) -> None:
        """Keep the connection if the body has been read; else close it at once, so that the server stops."""
        if self._over and self._keep:
            self._give_back()
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection without waiting for anything."""
        self._writer.transport.abort()


async def response_head(reader: asyncio.StreamReader) -> tuple[bytes, int, list[tuple[bytes, bytes]]]:
    """Version, status and headers, past what servers say in between (100 Continue)."""
    while True:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            msg = "illegal status line"
            raise ValueError(msg)
        status = int(rest[:3])
        if status >= _INFORMATIONAL:
            return version, status, [_header(line) for line in lines]


def _length(said: set[bytes]) -> int:
    """The length of a body, if it is said once or alike.

    Raises:
        ValueError: It is no length, or there are several.
    """
    length, *others = said
    if others or not length.isdigit():  # int() takes signs and underscores too
        msg = "illegal length of a body"
        raise ValueError(msg)
    return int(length)


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or name != name.strip():
        msg = "illegal header line"
        raise ValueError(msg)
    return name, value.strip()


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


class _Chunks:
    """Takes the chunked coding off a body: all that has come at once, for a token is a chunk.

    Attributes:
        over: The last chunk and the trailers have come.
        rest: Bytes that are not read yet; of something else, when it is over.
    """

    def __init__(self) -> None:
        self.over = False
        self.rest = b""
        self._left = 0  # bytes of the chunk that is being read
        self._next: Literal["size", "end of chunk", "trailer"] = "size"

    def feed(self, data: bytes) -> bytes:
        """More bytes; gives what of the body they hold.

        Raises:
            ValueError: It is not the chunked coding.
        """
        data, at, found = self.rest + data, 0, []
        while not self.over:
            if self._left:
                found.append(piece := data[at : at + self._left])
                at, self._left = at + len(piece), self._left - len(piece)
                if self._left:
                    break
            end = data.find(b"\n", at)
            if end < 0:
                break
            self._line(data[at:end].rstrip(b"\r"))
            at = end + 1
        self.rest = data[at:]
        if len(self.rest) > HEAD_LIMIT:
            msg = "a line between two chunks has no end"
            raise ValueError(msg)
        return b"".join(found)

    def _line(self, line: bytes) -> None:
        match self._next:
            case "size":
                size = line.partition(b";")[0].strip()
                if not size.isalnum():  # int() takes signs and underscores too
                    msg = f"illegal size of a chunk: {size[:20]!r}"
                    raise ValueError(msg)
                self._left = int(size, 16)
                self._next = "end of chunk" if self._left else "trailer"
            case "end of chunk":
                if line:
                    msg = "a chunk is longer than it said"
                    raise ValueError(msg)
                self._next = "size"
            case "trailer":
                self.over = not line


def translated(error: Exception) -> httpx.TransportError:
    """The exception that httpx's own transport would raise."""
    import httpx  # noqa: PLC0415  heavy, and only needed here

    if isinstance(error, OSError):
        return httpx.ReadError(str(error))
    if isinstance(error, EOFError):
        return httpx.RemoteProtocolError("the server closed the connection before the reply was complete")
    return httpx.RemoteProtocolError(f"the reply is no HTTP: {error}")
