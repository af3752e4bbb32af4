"""A scripted model server on loopback: real sockets, every request recorded, every answer under the test's control.

    with Server(say("hi"), call("add", a=1, b=2), status(503), always(say("done"))) as server:
        provider = OpenAIChat("m", base_url=server.url, api_key="k")
        ...
        assert server.requests[0].messages[-1]["content"] == "hello"

Each step answers one request, in the order of arrival; see `tests.support.answers` for the steps.
"""

from __future__ import annotations

import contextlib
import json
import math
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.support.answers import (
    CUT,
    DONE,
    KEEPALIVE,
    RESET,
    STALL,
    Always,
    Answer,
    Mark,
    Step,
    always,
    call,
    calls,
    checked,
    drip,
    reset,
    resolve,
    say,
    slow,
    stall,
    status,
    stream,
    text_chunks,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CUT", "DONE", "KEEPALIVE", "RESET", "STALL", "Answer", "Received", "Server", "always", "call", "calls", "drip",
    "reset", "say", "slow", "stall", "status", "stream", "text_chunks", "whole",
]  # fmt: skip

LONGEST = 60.0  # seconds that a stalled connection is held at most


@dataclass
class Received:
    """One request as it arrived.

    `at`, `answered` and `disconnected` are `time.monotonic()`; `disconnected` is set when the client left before its
    answer was complete.
    """

    number: int
    connection: int
    at: float
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes
    answered: float | None = None
    disconnected: float | None = None
    over: threading.Event = field(default_factory=threading.Event, repr=False)

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.body["messages"]

    @property
    def key(self) -> str:
        """The key that the client sent."""
        return self.headers.get("x-api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")

    def wait(self, timeout: float = 20.0) -> Self:
        """Wait until the answer was given or the client left."""
        assert self.over.wait(timeout), f"request {self.number} is still being answered"
        return self


class Server:
    """The server; a context manager.

    Attributes:
        url: The base URL, ending in `/v1`.
        requests: Everything that arrived, in order.
        connections: Connections accepted.
        busiest: Most answers under way at one time.
    """

    def __init__(self, *steps: Step | Always) -> None:
        self.requests: list[Received] = []
        self.connections = self.busy = self.busiest = 0
        self._steps = [checked(step) for step in steps]
        self._change = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._stopped = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        _shut(self._listener)
        self._listener.close()
        with self._change:
            sockets = list(self._sockets)
        for one in sockets:
            _shut(one)
        for thread in self._threads:
            thread.join(5)

    def add(self, *steps: Step | Always) -> None:
        """More steps, after those that are left."""
        with self._change:
            self._steps.extend(map(checked, steps))

    def wait_for(self, count: int = 1, timeout: float = 20.0) -> Received:
        """Wait until so many requests have arrived; gives the last of them."""
        with self._change:
            assert self._change.wait_for(lambda: len(self.requests) >= count, timeout), f"{len(self.requests)} requests"
            return self.requests[count - 1]

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        self._threads = [t for t in self._threads if t.is_alive()]
        thread = threading.Thread(target=target, args=args, daemon=True, name=f"server{target.__name__}")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopped:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._change:
                self._sockets.add(sock)
                self.connections += 1
                number = self.connections
            self._start(self._serve, sock, number)

    def _serve(self, sock: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, ValueError), sock, sock.makefile("rb") as reader:
            while (request := self._read(reader, number)) is not None and self._answer(sock, request):
                pass
        with self._change:
            self._sockets.discard(sock)

    def _read(self, reader: Any, connection: int) -> Received | None:
        head = reader.readline()
        if not head:
            return None
        method, path, _ = head.decode("latin-1").split(" ", 2)
        headers = {}
        while line := reader.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            key = name.lower()
            headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
        length = int(headers.get("content-length", 0))
        raw = reader.read(length)
        if len(raw) < length:
            return None  # the client left in the middle of its request
        with self._change:
            request = Received(len(self.requests) + 1, connection, time.monotonic(), method, path, headers, raw)
            self.requests.append(request)
            self._change.notify_all()
        return request

    def _next(self) -> Step:
        with self._change:
            if not self._steps:
                return status(400, {"error": {"message": "the script of this test server is over", "code": "script"}})
            step = self._steps[0]
            return step.step if isinstance(step, Always) else self._steps.pop(0)  # type: ignore[return-value]  # no Always

    def _answer(self, sock: socket.socket, request: Received) -> bool:
        """Answer; True when the connection can serve another request."""
        with contextlib.ExitStack() as under_way:
            self._count(1)
            under_way.callback(self._count, -1)
            try:
                return _play(sock, resolve(self._next(), request), under_way.close)
            except ConnectionError:
                request.disconnected = None if self._stopped else time.monotonic()
                return False
            finally:
                request.answered = time.monotonic()
                under_way.close()
                request.over.set()

    def _count(self, change: int) -> None:
        with self._change:
            self.busy += change
            self.busiest = max(self.busy, self.busiest)
            self._change.notify_all()


def _play(sock: socket.socket, answer: Answer, last: Callable[[], None]) -> bool:
    """Send an answer; False when the connection is done for. `last` is called before the bytes that complete it."""
    _pause(sock, answer.before)
    plain = [move for move in answer.moves if isinstance(move, bytes)]
    if not answer.bare:
        framing = "transfer-encoding: chunked" if answer.chunked else f"content-length: {sum(map(len, plain))}"
        lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{k}: {v}" for k, v in answer.headers.items()), framing]
        head = "\r\n".join([*lines, "", ""]).encode()
        if not answer.chunked and len(plain) == len(answer.moves):
            last()
            sock.sendall(head + b"".join(plain))  # in one packet: quick
            return True
        sock.sendall(head)
    if not all(_move(sock, move, chunked=answer.chunked) for move in answer.moves):
        return False
    if answer.chunked:
        last()
        sock.sendall(b"0\r\n\r\n")
    return True


def _move(sock: socket.socket, move: bytes | float | Mark, *, chunked: bool) -> bool:
    """One piece of a body; False when it ended the connection."""
    if isinstance(move, bytes):
        sock.sendall(b"%x\r\n%b\r\n" % (len(move), move) if chunked else move)
        return True
    if not isinstance(move, Mark):
        _pause(sock, move)
        return True
    if move is STALL:
        _pause(sock, math.inf)
    elif move is RESET:  # closing it now sends a reset
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    else:
        _shut(sock)
    return False


def _pause(sock: socket.socket, seconds: float) -> None:
    """Wait, and notice at once when the client leaves."""
    if seconds > 0 and select.select([sock], [], [], min(seconds, LONGEST))[0] and not sock.recv(1, socket.MSG_PEEK):
        raise ConnectionResetError


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        sock.shutdown(socket.SHUT_RDWR)
