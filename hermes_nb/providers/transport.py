"""A transport for model servers: HTTP/1.1 over asyncio's streams.

httpx's own transport is made for every use of HTTP, and costs a turn more than all the rest of a request. A turn asks
one server, one request after the other; this transport does just that, with the same exceptions. It speaks to servers
directly: where a proxy stands between, httpx's own is used. httpx itself is loaded when there is something to raise or
to decompress: that takes longer than a short turn.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import Context
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
    from typing import Self

    import httpx

    Streams = tuple["_Reader", asyncio.StreamWriter]
    Place = tuple[str, int, bool]
    Transports = dict[tuple[ssl.SSLContext, float], "StreamTransport"]

HEAD_LIMIT = 1 << 17
"""Bytes of a response's head, and of a line between its chunks."""

KEPT = 60.0
"""Seconds that a connection is kept for the next request: a tool may take a while."""

MOST = 100
"""Connections that are kept at most: each is an open file, of which some systems allow a process 256."""

CROSSING = 0.2
"""Seconds within which word of a connection's end may cross a request. What breaks later may have been worked on, and
is not sent again unseen: the loop decides about that, with an attempt that is told."""

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address of a host is tried beside the first one (RFC 8305, section 5)."""

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


class StreamTransport:
    """Keeps connections for reuse within one event loop.

    Args:
        context: For TLS.
        connect: Seconds for a connection; None for as long as it takes.
    """

    def __init__(self, context: ssl.SSLContext, connect: float | None = None) -> None:
        self._context = context
        self._connect = connect
        self._idle: list[tuple[float, Place, Streams]] = []  # the one that was given back last is the last

    async def send(self, request: Request) -> Response:
        """Send one request; the response's body is read as it comes.

        Raises:
            httpx.TransportError: As httpx's own transport does.
        """
        place, line, host = _target(request.url)
        headers = {"host": host, "content-length": len(request.content), **request.headers}
        lines = [line, *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        whole = "\r\n".join(lines).encode("ascii") + request.content
        if kept := self._reused(place):
            with suppress(_Stale):
                return await self._exchanged(place, kept, whole, kept=True)
        return await self._exchanged(place, await self._connected(place), whole)

    async def _exchanged(self, place: Place, streams: Streams, whole: bytes, *, kept: bool = False) -> Response:
        """Send a request over a connection; gives the response.

        Raises:
            _Stale: A kept connection broke before anything came.
            httpx.TransportError: As httpx's own transport does.
        """
        reader, writer = streams
        body, sent = _Body(self, place, streams), time.monotonic()
        try:
            writer.write(whole)
            await writer.drain()
            version, status, headers = await _response_head(reader)
            body.expect(version, status, headers)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            body.abort()
            crossed = kept and not reader.unread and time.monotonic() - sent < CROSSING
            if crossed and isinstance(error, OSError | EOFError):
                raise _Stale from error
            raise _translated(error) from error
        except BaseException:
            body.abort()
            raise
        return _Answer(status, headers, body)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that are kept."""
        for *_, (_, writer) in self._idle:
            writer.transport.abort()
        self._idle.clear()

    def keep(self, place: Place, streams: Streams) -> None:
        """Take back a connection whose response has been read to its end; those that nobody has needed are closed."""
        kept, now = self._idle, time.monotonic()
        kept.append((now, place, streams))
        while kept[0][0] < now - KEPT or len(kept) > MOST:
            _, _, (_, writer) = kept.pop(0)
            writer.transport.abort()

    def _reused(self, place: Place) -> Streams | None:
        for index in reversed(range(len(self._idle))):
            if self._idle[index][1] != place:
                continue
            since, _, (reader, writer) = self._idle.pop(index)
            if since > time.monotonic() - KEPT and not reader.unread and not writer.transport.is_closing():
                return reader, writer
            writer.transport.abort()
        return None

    async def _connected(self, place: Place) -> Streams:
        host, port, secure = place
        context = self._context if secure else None
        try:
            async with asyncio.timeout(self._connect):
                return await _outside_of_the_turn(_opened(host, port, context))
        except OSError as error:
            raise _unreached(error) from error


class _Stale(Exception):
    """A kept connection was none any more: the server had closed it, and word of that crossed the request's way."""


class _Reader(asyncio.StreamReader):
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


class _Protocol(asyncio.StreamReaderProtocol):
    """Closes a connection when the server does."""

    def eof_received(self) -> bool:
        """There is nothing more to read, and so nothing more to say."""
        super().eof_received()
        return False


async def _opened(host: str, port: int, context: ssl.SSLContext | None) -> Streams:
    """As `asyncio.open_connection`, but with the protocol above."""
    loop = asyncio.get_running_loop()
    reader = _Reader(limit=HEAD_LIMIT, loop=loop)
    transport, protocol = await loop.create_connection(
        lambda: _Protocol(reader, loop=loop), host, port, ssl=context, happy_eyeballs_delay=ATTEMPT_DELAY
    )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _outside_of_the_turn(opening: Coroutine[object, object, Streams]) -> Streams:
    """A connection that holds nothing of the turn that opens it: event loops keep the context variables with it."""
    task = asyncio.get_running_loop().create_task(opening, context=Context())
    try:
        return await task
    except asyncio.CancelledError:
        task.add_done_callback(_closed_unused)
        raise


def _closed_unused(opening: asyncio.Task[Streams]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].transport.abort()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Transports] = WeakKeyDictionary()
"""Those of the event loops that turns share."""


@contextmanager
def sharing(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Meanwhile the turns in an event loop share their connections; closed at the end."""
    _shared[loop] = {}
    try:
        yield
    finally:
        for transport in _shared.pop(loop).values():
            transport.close()


@asynccontextmanager
async def transport(context: ssl.SSLContext, connect: float) -> AsyncIterator[StreamTransport]:
    """The one that is shared in this event loop, or one for a turn alone; the arguments are those of the transport."""
    shared = _shared.get(asyncio.get_running_loop())
    if shared is None:
        async with StreamTransport(context, connect) as own:
            yield own
        return
    if (context, connect) not in shared:
        shared[context, connect] = StreamTransport(context, connect)
    yield shared[context, connect]


class _Answer:
    """A response of this transport."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: _Body) -> None:
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


class _Body:
    """The body of one response; gives its connection back when it has been read to its end."""

    def __init__(self, transport: StreamTransport, place: Place, streams: Streams) -> None:
        self._transport = transport
        self._place = place
        self._reader, self._writer = streams
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
            raise _translated(error) from error
        self._over = True

    async def _some(self, most: int = PIECE) -> bytes:
        if piece := await self._reader.read(min(most, PIECE)):
            return piece
        raise EOFError

    async def aclose(self) -> None:
        """Keep the connection if the body has been read; else close it at once, so that the server stops."""
        if self._over and self._keep:
            self._transport.keep(self._place, (self._reader, self._writer))
        else:
            self.abort()

    def abort(self) -> None:
        """Close the connection without waiting for anything."""
        self._writer.transport.abort()


@lru_cache
def _target(url: str) -> tuple[Place, str, str]:
    """Where a request goes, its first line, and the host as a header tells it: the same for all requests of a turn."""
    at = urlsplit(url)
    port = _PORTS[at.scheme]
    place = (at.hostname or "", at.port or port, at.scheme == "https")
    return place, f"POST {at.path}{at.query and '?'}{at.query} HTTP/1.1", at.netloc.removesuffix(f":{port}")


async def _response_head(reader: asyncio.StreamReader) -> tuple[bytes, int, list[tuple[bytes, bytes]]]:
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


def _unreached(error: OSError) -> httpx.TransportError:
    """The exception that httpx's own transport would raise where no connection comes about."""
    import httpx  # noqa: PLC0415  heavy, and only needed here

    return (httpx.ConnectTimeout if isinstance(error, TimeoutError) else httpx.ConnectError)(str(error))


def _translated(error: Exception) -> httpx.TransportError:
    """The exception that httpx's own transport would raise."""
    import httpx  # noqa: PLC0415  heavy, and only needed here

    if isinstance(error, OSError):
        return httpx.ReadError(str(error))
    if isinstance(error, EOFError):
        return httpx.RemoteProtocolError("the server closed the connection before the reply was complete")
    return httpx.RemoteProtocolError(f"the reply is no HTTP: {error}")
