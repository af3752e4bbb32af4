"""An httpx transport for model servers: HTTP/1.1 over asyncio's streams.

httpx's own transport is made for every use of HTTP, and costs a turn more than all the rest of a request. A turn asks
one server, one request after the other; this transport does just that, with the same exceptions. It speaks to servers
directly: where a proxy stands between, httpx's own is used.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

import httpx

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEAD_LIMIT = 1 << 17
"""Bytes of a response's head, and of a line between its chunks."""

PIECE = 1 << 16
_NO_BODY = (204, 304)
_INFORMATIONAL = 200


class StreamTransport(httpx.AsyncBaseTransport):
    """Keeps connections for reuse within one event loop.

    Args:
        context: For TLS.
        connect: Seconds for a connection; None for as long as it takes.
    """

    def __init__(self, context: ssl.SSLContext, connect: float | None = None) -> None:
        self._context = context
        self._connect = connect
        self._idle: dict[tuple[str, int, bool], list[Streams]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; the response's body is read as it comes.

        Raises:
            httpx.TransportError: As httpx's own transport does.
        """
        if request.url.scheme not in ("http", "https"):
            msg = f"Request URL has an unsupported protocol '{request.url.scheme}://'."
            raise httpx.UnsupportedProtocol(msg, request=request)
        place = _place(request.url)
        reader, writer = self._reused(place) or await self._connected(place, request)
        body = _Body(self, place, (reader, writer))
        try:
            writer.write(_head(request) + request.content)
            await writer.drain()
            status, headers = await _response_head(reader)
            body.expect(status, headers, request.method)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            body.abort()
            raise _translated(error, request) from error
        except BaseException:
            body.abort()
            raise
        return httpx.Response(status, headers=headers, stream=body, request=request)

    async def aclose(self) -> None:
        """Close the connections that are kept."""
        for kept in self._idle.values():
            for _, writer in kept:
                writer.transport.abort()
        self._idle.clear()

    def keep(self, place: tuple[str, int, bool], streams: Streams) -> None:
        """Take back a connection whose response has been read to its end."""
        self._idle.setdefault(place, []).append(streams)

    def _reused(self, place: tuple[str, int, bool]) -> Streams | None:
        kept = self._idle.get(place, [])
        while kept:
            reader, writer = kept.pop()
            if not reader.at_eof() and not writer.transport.is_closing():
                return reader, writer
            writer.transport.abort()
        return None

    async def _connected(self, place: tuple[str, int, bool], request: httpx.Request) -> Streams:
        host, port, secure = place
        context = self._context if secure else None
        try:
            async with asyncio.timeout(self._connect):
                return await asyncio.open_connection(host, port, ssl=context, limit=HEAD_LIMIT)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        except OSError as error:
            raise httpx.ConnectError(str(error), request=request) from error


class _Body(httpx.AsyncByteStream):
    """The body of one response; gives its connection back when it has been read to its end."""

    def __init__(self, transport: StreamTransport, place: tuple[str, int, bool], streams: Streams) -> None:
        self._transport = transport
        self._place = place
        self._reader, self._writer = streams
        self._length: int | None = None
        self._chunked = self._keep = self._over = False

    def expect(self, status: int, headers: list[tuple[bytes, bytes]], method: str) -> None:
        """Learn from the head how the body ends.

        Raises:
            ValueError: The head contradicts itself.
        """
        said = {name.lower(): value.strip().lower() for name, value in headers}
        self._chunked = said.get(b"transfer-encoding", b"").endswith(b"chunked")
        if not self._chunked and b"content-length" in said:
            self._length = int(said[b"content-length"])
        if status in _NO_BODY or method == "HEAD":
            self._length, self._chunked = 0, False
        self._keep = said.get(b"connection", b"") != b"close" and (self._chunked or self._length is not None)

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
            raise _translated(error, None) from error
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


def _place(url: httpx.URL) -> tuple[str, int, bool]:
    secure = url.scheme == "https"
    return url.raw_host.decode("ascii"), url.port or (443 if secure else 80), secure


def _head(request: httpx.Request) -> bytes:
    lines = [b"%b %b HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [b"%b: %b" % (name, value) for name, value in request.headers.raw]
    return b"\r\n".join((*lines, b"", b""))


async def _response_head(reader: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Status and headers, past what servers say in between (100 Continue)."""
    while True:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        version, _, rest = first.partition(b" ")
        if not version.startswith(b"HTTP/1."):
            msg = "illegal status line"
            raise ValueError(msg)
        status = int(rest[:3])
        if status >= _INFORMATIONAL:
            return status, [_header(line) for line in lines]


def _header(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or name != name.strip():
        msg = "illegal header line"
        raise ValueError(msg)
    return name, value.strip()


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


def _translated(error: Exception, request: httpx.Request | None) -> httpx.TransportError:
    """The exception that httpx's own transport would raise."""
    if isinstance(error, OSError):
        return httpx.ReadError(str(error), request=request)
    if isinstance(error, EOFError):
        return httpx.RemoteProtocolError(
            "the server closed the connection before the reply was complete", request=request
        )
    return httpx.RemoteProtocolError(f"the reply is no HTTP: {error}", request=request)
