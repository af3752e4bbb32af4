"""HTTP for one turn: one request at a time, limits that keep-alives do not feed, errors translated."""

from __future__ import annotations

import asyncio
import math
import os
import re
import ssl
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit, urlunsplit

import anyio

from hermes_nb.providers.endpoints import is_loopback
from hermes_nb.providers.transport import KEPT, transport
from hermes_nb.vocabulary.failures import ConfigurationError, Failure, FailureReason, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from hermes_nb.providers.http1 import Request, Response

Send: TypeAlias = "Callable[[Request], Awaitable[Response]]"
"""Sends one request; the response's body is read as it comes."""

_HEADERS = {
    "accept": "application/json, text/event-stream",
    "accept-encoding": "gzip, deflate",
    "content-type": "application/json",
    "user-agent": "hermes-nb",
}

_PLAIN = re.compile(r"https?://[a-z0-9.:\[\]-]+(?:/[\w~-][\w.~-]*)*(?:\?[\w.~=&-]*)?", re.ASCII)
"""Addresses that are written as they are given."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a model server, in seconds.

    Attributes:
        connect: For a connection.
        first_token: From the request to the first piece of a streamed reply. Comments and empty events are no piece.
        idle: Between two pieces of a streamed reply.
        total: For the whole reply, streamed or not.
    """

    connect: float = 15.0
    first_token: float = 180.0
    idle: float = 120.0
    total: float = 1800.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int | float) or not value > 0:
                msg = f"a timeout is a number of seconds above 0 (math.inf for none): {field.name}={value!r}"
                raise ConfigurationError(msg)


LOCAL = Timeouts(first_token=900.0, idle=300.0)
"""For servers on this machine, which may read a long prompt on a slow processor (900 s as in Hermes)."""


def timeouts_of(value: Timeouts | float | None, *, local: bool) -> Timeouts:
    """What the `timeout` argument of a provider means: limits, the total alone, or the defaults."""
    if isinstance(value, Timeouts):
        return value
    if value is None:
        return LOCAL if local else Timeouts()
    given = Timeouts(total=value)  # checks it
    return Timeouts(min(given.connect, value), min(given.first_token, value), min(given.idle, value), value)


def now() -> float:
    """Seconds on the clock of the event loop, which deadlines go by."""
    return asyncio.get_running_loop().time()


class Limits:
    """The limits of one reply under way, as the deadline of one cancel scope."""

    __slots__ = ("_next", "_timeouts", "begun", "complete", "end", "first", "phase", "scope", "streamed")

    def __init__(self, timeouts: Timeouts, *, streamed: bool) -> None:
        self.begun = now()
        self.end = self.begun + timeouts.total
        self.first: float | None = None
        self.complete = False
        self.streamed = streamed
        self.phase = "first_token" if streamed else "total"
        self._timeouts = timeouts
        self._next = 0.0
        first = timeouts.first_token if streamed else math.inf
        self.scope = anyio.CancelScope(deadline=min(self.end, self.begun + first))

    def progress(self) -> None:
        """A piece of the reply came."""
        if (clock := time.monotonic()) < self._next or self.complete:  # not for each of a thousand pieces a second
            return
        at = now()
        if self.first is None:
            self.first, self.phase = at - self.begun, "idle"
        self.scope.deadline = min(self.end, at + self._timeouts.idle)
        self._next = clock + self._timeouts.idle / 20

    def settle(self, seconds: float) -> None:
        """The reply is complete; what may still come (usage, the end of the stream) gets so many seconds."""
        self.complete = True
        self.scope.deadline = min(self.scope.deadline, now() + seconds)

    def failure(self) -> Failure:
        """The failure that the end of the patience means."""
        waited = now() - self.begun
        past = "total" if now() >= self.end else self.phase
        what = {
            "total": f"the reply was not complete after {waited:.3g} s",
            "first_token": f"nothing of the reply came within {waited:.3g} s",
            "idle": f"the reply stopped coming for {self._timeouts.idle:g} s",
        }[past]
        return Failure(FailureReason.TIMEOUT, what, error_type=f"{past}_timeout")


async def post(
    send: Send,
    request: Request,
    limits: Limits,
    receive: Callable[[Response], Awaitable[None]],
) -> None:
    """Send one request and let `receive` read the response; the response is closed at once, whatever happens.

    Raises:
        ProviderError: Nothing, or not enough, came.
    """
    try:
        with limits.scope:
            response = await send(request)
            try:
                await receive(response)
            finally:
                await response.aclose()
            return
    except ProviderError:
        raise
    except Exception as error:
        if not _of_http(error):
            raise
        if not limits.complete:
            raise ProviderError(translated(error)) from error
    if not limits.complete:
        raise ProviderError(limits.failure())


def _of_http(error: Exception) -> bool:
    """Whether this is what the HTTP library raises."""
    import httpx  # noqa: PLC0415  heavy: a turn in which all goes well does not load it

    return isinstance(error, (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError))


def translated(error: Exception) -> Failure:
    """The failure that an exception of the HTTP library means."""
    import httpx  # noqa: PLC0415  heavy

    kind = f"httpx.{type(error).__name__}" if isinstance(error, httpx.HTTPError) else type(error).__name__
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if certificate := _certificate_error(error):
        reason, message = FailureReason.CERTIFICATE, str(certificate)
    elif isinstance(error, httpx.TimeoutException):
        reason = FailureReason.TIMEOUT
    elif isinstance(error, httpx.DecodingError):
        reason = FailureReason.MALFORMED_REPLY
    elif isinstance(error, httpx.UnsupportedProtocol | httpx.LocalProtocolError | httpx.InvalidURL):
        reason, message = FailureReason.BAD_REQUEST, f"{type(error).__name__}: the request could not be formed"
    else:
        reason = FailureReason.CONNECTION
    return Failure(reason, message, error_type=kind)


def _certificate_error(error: BaseException | None) -> BaseException | None:
    seen = 0
    while error is not None and seen < 10:  # noqa: PLR2004  causes of causes
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None


@asynccontextmanager
async def sending(url: str, timeouts: Timeouts) -> AsyncIterator[Send]:
    """How requests go to one server: no retries and no redirects; proxies of the environment are respected.

    Servers on this machine are reached without a proxy, whether or not `NO_PROXY` says so. Turns that share an event
    loop share connections too: the next one need not greet the server again.
    """
    if not is_loopback(urlsplit(url).hostname or "") and _proxied():
        async with _through_proxies(timeouts) as send:
            yield send
    else:
        async with transport(_tls(needed=url.startswith("https:")), timeouts.connect) as direct:
            yield direct.send


def _proxied() -> bool:
    from urllib.request import getproxies  # noqa: PLC0415  it loads a whole HTTP client

    return bool(getproxies().keys() - {"no"})  # `NO_PROXY` alone names none


@asynccontextmanager
async def _through_proxies(timeouts: Timeouts) -> AsyncIterator[Send]:
    import httpx  # noqa: PLC0415  heavy, and rarely needed

    limits = httpx.Limits(keepalive_expiry=KEPT)
    timeout = httpx.Timeout(None, connect=timeouts.connect)
    async with httpx.AsyncClient(verify=_tls(needed=True), timeout=timeout, limits=limits) as client:

        async def send(request: Request) -> Response:
            # made directly, since merging it with a client's settings costs as much as writing it
            made = httpx.Request("POST", request.url, headers=request.headers, content=request.content)
            return await client.send(made, stream=True, follow_redirects=False)

        yield send


@lru_cache
def request_url(base_url: str, path: str) -> str:
    """Where requests go, read once for all connections; the path may have a query, and that of the base URL follows."""
    path, _, asked = path.partition("?")
    if _PLAIN.fullmatch(base_url):
        at = urlsplit(base_url)
        return urlunsplit(at._replace(path=at.path.rstrip("/") + path, query="&".join(filter(None, (asked, at.query)))))
    import httpx  # noqa: PLC0415  heavy, and needed for what has to be escaped only

    base = httpx.URL(base_url)
    query = b"&".join(filter(None, (asked.encode(), base.query))) or None
    return str(base.copy_with(path=base.path.rstrip("/") + path, query=query))


def request_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers of requests with JSON."""
    return _HEADERS | dict(headers)


def _tls(*, needed: bool) -> ssl.SSLContext:
    return _context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")) if needed else _no_trust()


@cache
def _context(_file: str | None, _directory: str | None) -> ssl.SSLContext:
    """One TLS context for the process and its settings: making one takes 10 ms and more."""
    import httpx  # noqa: PLC0415  heavy

    return httpx.create_ssl_context()


@cache
def _no_trust() -> ssl.SSLContext:
    """For plain HTTP: a context that trusts nobody, since loading certificates takes time."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
