"""A model behind an HTTP API: what the adapters for all such servers share.

An adapter adds its *dialect*: how a request is written, and how a reply is read.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from hermes_nb.providers.error_bodies import redacted
from hermes_nb.providers.failures import refused
from hermes_nb.providers.http import Limits, Timeouts, post, request_headers, request_url, sending
from hermes_nb.providers.http1 import Request, Response
from hermes_nb.providers.sse import DONE, EventDecoder, Unreadable, read_body
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hermes_nb.providers.base import ModelRequest, OnText, Renewal
    from hermes_nb.providers.credentials import CredentialPool, Lease
    from hermes_nb.providers.http import Send
    from hermes_nb.providers.sse import Json
    from hermes_nb.vocabulary.messages import Message, Reply

ERROR_BODY = 64 * 1024
"""Bytes that are read of an error's body."""

AFTER_FINISH = 5.0
"""Seconds that a server has to send the usage after it said why the model stopped."""

AFTER_DONE = 0.25
"""Seconds that a server has to end the response after it said that all is sent; keeps the connection for the next."""


class Assembly(Protocol):
    """One reply under way; see `ChatAssembly`."""

    finished: bool

    @property
    def anything(self) -> bool:
        """Whether any of the reply has come."""

    @property
    def usable(self) -> bool:
        """Whether a reply cut here is worth keeping."""

    def feed(self, data: Json, name: str = "") -> bool:
        """Take one event; True when it brought anything."""

    def whole(self, body: Json) -> None:
        """Take a reply in one piece."""

    def done(self) -> None:
        """Nothing more will come."""

    def message(self) -> Message:
        """What has come so far."""

    def reply(self) -> Reply:
        """The reply."""


class Dialect(Protocol):
    """How one API speaks. Made for each connection: it may remember what it encoded and what a server refused.

    Attributes:
        path: Behind the base URL, for all requests, streamed or not; it may have a query.
    """

    path: str

    def headers(self, key: str) -> dict[str, str]:
        """The headers that carry the key and the version."""

    def encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The body of a request."""

    def assembly(self, on_text: OnText) -> Assembly:
        """What puts the reply together."""

    def adapt(self, failure: Failure) -> bool:
        """Learn from a refusal; True when the next request will be different."""


@dataclass(frozen=True, init=False, repr=False)
class RemoteProvider:
    """Frozen configuration of a model behind an HTTP API; the base of the adapters."""

    model: str
    name: str
    base_url: str
    stream: bool
    timeouts: Timeouts
    context_window: int | None
    headers: Mapping[str, str] = field(hash=False)
    request_parameters: Mapping[str, Any] = field(hash=False)
    credentials: CredentialPool | None = field(compare=False)

    def _configure(self, **values: Any) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The request parameters that were given."""
        return dict(self.request_parameters)

    @property
    def address(self) -> tuple[str, int | None]:
        """Host and port of the server."""
        return _address(self.base_url)

    @property
    def identity(self) -> str:
        """Name, address, key (hashed) and model."""
        key = self.credentials.fingerprint if self.credentials else "-"
        host, port = self.address
        return f"{self.name}:{self.model}@{host}:{port}/{key}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys, and the values of the extra headers."""
        keys = self.credentials.secrets if self.credentials else ()
        return (*keys, *(value for value in self.headers.values() if len(value) >= 8))  # noqa: PLR2004  not a flag

    def dialect(self) -> Dialect:
        """How this API speaks."""
        raise NotImplementedError

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RemoteConnection]:
        """Keep connections for one turn; closed at its end."""
        async with sending(self.base_url, self.timeouts) as send:
            yield RemoteConnection(self, send, self.dialect())

    def __repr__(self) -> str:
        """Shows what is safe to show: no key, no headers."""
        shown = [repr(self.model), f"base_url={self.base_url!r}"]
        shown += [f"{key}={value!r}" for key, value in self.request_parameters.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class RemoteConnection:
    """One turn's use of a model server."""

    def __init__(self, provider: RemoteProvider, send: Send, dialect: Dialect) -> None:
        self._provider = provider
        self._send = send
        self._dialect = dialect
        self._url = request_url(provider.base_url, dialect.path)
        self._lease: Lease | None = provider.credentials.lease() if provider.credentials else None
        self._headers: tuple[str, dict[str, str]] | None = None
        self._adapted = False

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Send one request, once.

        A reply that was cut after text or a call came is returned as partial.

        Raises:
            ProviderError: The call failed.
        """
        provider = self._provider
        streamed = provider.stream if request.stream is None else request.stream
        limits = Limits(provider.timeouts, streamed=streamed)
        reading = _Reading(self._dialect.assembly(on_text if streamed else _quiet), limits)
        try:
            await post(self._send, self._request(request, stream=streamed), limits, reading.receive)
            reply = reading.assembly.reply()
        except ProviderError as error:
            failure, cause = error.failure, error.__cause__
        else:
            return self._accepted(reply, limits)
        if failure.reason is FailureReason.CONNECTION and reading.assembly.usable:
            return self._accepted(reading.assembly.reply(), limits)
        # Raised out here: what was caught may show a key, which the server repeated in its error.
        raise ProviderError(self._explained(failure, reading.assembly)) from cause

    async def renew(self, failure: Failure) -> Renewal:
        """Other credentials after this failure; or, after a refused request, the same with another shape."""
        if self._adapted:
            self._adapted = False
            return "refreshed"
        return await self._lease.renew(failure) if self._lease else ""

    def _request(self, request: ModelRequest, *, stream: bool) -> Request:
        key = self._lease.take() if self._lease else ""
        if self._headers is None or self._headers[0] != key:
            self._headers = (key, request_headers({**self._dialect.headers(key), **self._provider.headers}))
        return Request(self._url, self._headers[1], self._dialect.encode(request, stream=stream))

    def _accepted(self, reply: Reply, limits: Limits) -> Reply:
        if self._lease:
            self._lease.worked()
        return reply if limits.first is None else replace(reply, time_to_first_chunk=limits.first)

    def _explained(self, failure: Failure, assembly: Assembly) -> Failure:
        """The failure with the names of who failed, what had come before it, and no key."""
        self._adapted = failure.reason is FailureReason.BAD_REQUEST and self._dialect.adapt(failure)
        provider = self._provider
        return replace(
            failure,
            provider=provider.name,
            model=provider.model,
            message=redacted(failure.message, provider.secrets),
            partial=assembly.message() if assembly.anything else None,
        )


@lru_cache
def _address(url: str) -> tuple[str, int | None]:
    """Host and port, read once: they are asked for several times in each request."""
    at = urlsplit(url)
    return at.hostname or "", at.port or {"https": 443, "http": 80}.get(at.scheme)


class _Reading:
    """One response being read."""

    def __init__(self, assembly: Assembly, limits: Limits) -> None:
        self.assembly = assembly
        self._limits = limits
        self._decoder = EventDecoder()

    async def receive(self, response: Response) -> None:
        """Read a response into the assembly."""
        if not response.is_success:
            raise ProviderError(refused(response.status_code, response.headers, await _beginning(response)))
        decoder = self._decoder
        try:
            async for piece in response.aiter_bytes():
                for event in decoder.feed(piece):
                    self._event(event.data, event.name)
                if decoder.body is not None and piece.strip() and self._limits.streamed:
                    self._limits.progress()
            self._end(response)
        except Unreadable as error:
            raise ProviderError(_unreadable(response, error, decoder)) from error

    def _event(self, data: Json, name: str) -> None:
        if self._limits.complete and data != DONE:
            self._late(data, name)
        elif data == DONE:
            self.assembly.done()
            self._limits.settle(AFTER_DONE)
        elif self.assembly.feed(data, name):
            self._limits.progress()
            if self.assembly.finished:
                self._limits.settle(AFTER_FINISH)

    def _late(self, data: Json, name: str) -> None:
        """What comes after the end: usage is welcome, an error changes nothing any more."""
        try:
            self.assembly.feed(data, name)
        except ProviderError:
            return

    def _end(self, response: Response) -> None:
        for event in self._decoder.end():
            self._event(event.data, event.name)
        body = self._decoder.body
        if body is None:
            return
        kind = response.headers.get("content-type", "")
        values = read_body(body) if "html" not in kind else _no_json()
        if len(values) == 1:
            self.assembly.whole(values[0])
            return
        for value in values:
            self._event(value, "")
        self.assembly.done()


def _quiet(*_: str) -> None:
    """Nobody listens to the pieces of a reply that is not streamed."""


def _no_json() -> list[Json]:
    msg = "a page of HTML"
    raise Unreadable(msg)


async def _beginning(response: Response) -> bytes:
    """The first part of a body."""
    found = bytearray()
    async for piece in response.aiter_bytes():
        found += piece
        if len(found) >= ERROR_BODY:
            break
    return bytes(found[:ERROR_BODY])


def _unreadable(response: Response, error: Unreadable, decoder: EventDecoder) -> Failure:
    begun = bytes((decoder.body or b"")[:ERROR_BODY])
    shown = refused(response.status_code, {}, begun).message if begun else str(error)
    message = f"the reply cannot be read ({error}): {shown}"
    return Failure(FailureReason.MALFORMED_REPLY, message, status=response.status_code, error_type="malformed_reply")
