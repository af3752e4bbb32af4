"""A transport for model servers: connections for HTTP/1.1, over asyncio's streams.

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
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from hermes_nb.providers.http1 import HEAD_LIMIT, Answer, Body, Reader, response_head, target, translated, written

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from typing import Self

    import httpx

    from hermes_nb.providers.http1 import Place, Request, Response, Streams

    Transports = dict[tuple[ssl.SSLContext, float], "StreamTransport"]

KEPT = 60.0
"""Seconds that a connection is kept for the next request: a tool may take a while."""

MOST = 100
"""Connections that are kept at most: each is an open file, of which some systems allow a process 256."""

CROSSING = 0.2
"""Seconds within which word of a connection's end may cross a request. What breaks later may have been worked on, and
is not sent again unseen: the loop decides about that, with an attempt that is told."""

ATTEMPT_DELAY = 0.25
"""Seconds after which the next address of a host is tried beside the first one (RFC 8305, section 5)."""


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
        place, line, host = target(request.url)
        whole = written(request, line, host)
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
        body, sent = Body(streams, partial(self.keep, place, streams)), time.monotonic()
        try:
            writer.write(whole)
            await writer.drain()
            version, status, headers = await response_head(reader)
            body.expect(version, status, headers)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            body.abort()
            crossed = kept and not reader.unread and time.monotonic() - sent < CROSSING
            if crossed and isinstance(error, OSError | EOFError):
                raise _Stale from error
            raise translated(error) from error
        except BaseException:
            body.abort()
            raise
        return Answer(status, headers, body)

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
            return await _outside_of_the_turn(_opened(host, port, context, self._connect))
        except OSError as error:
            raise _unreached(error) from error


class _Stale(Exception):
    """A kept connection was none any more: the server had closed it, and word of that crossed the request's way."""


class _Protocol(asyncio.StreamReaderProtocol):
    """Closes a connection when the server does."""

    def eof_received(self) -> bool:
        """There is nothing more to read, and so nothing more to say."""
        super().eof_received()
        return False


async def _opened(host: str, port: int, context: ssl.SSLContext | None, seconds: float | None) -> Streams:
    """As `asyncio.open_connection`, but with the protocol above, and within so many seconds."""
    loop = asyncio.get_running_loop()
    reader = Reader(limit=HEAD_LIMIT, loop=loop)
    async with asyncio.timeout(seconds):
        transport, protocol = await loop.create_connection(
            lambda: _Protocol(reader, loop=loop), host, port, ssl=context, happy_eyeballs_delay=ATTEMPT_DELAY
        )
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def _outside_of_the_turn(opening: Coroutine[object, object, Streams]) -> Streams:
    """A connection that holds nothing of the turn that opens it: event loops keep the context variables with it.

    Where the turn ends meanwhile it is closed as soon as it is there, and not cancelled: asyncio's race of addresses,
    cancelled just when one has won, forgets the winner's socket.
    """
    task = asyncio.get_running_loop().create_task(opening, context=Context())
    try:
        return await asyncio.shield(task)
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


def _unreached(error: OSError) -> httpx.TransportError:
    """The exception that httpx's own transport would raise where no connection comes about."""
    import httpx  # noqa: PLC0415  heavy, and only needed here

    return (httpx.ConnectTimeout if isinstance(error, TimeoutError) else httpx.ConnectError)(str(error))
