"""Lanes: the threads with event loops in which turns run.

Threads that want the interpreter's lock at the same time cost more than what they do with it. So turns share one lane
as long as nothing of the user's runs in its event loop: a provider, a policy or a sink that takes its time would hold
the others up, and one that waits for another turn would wait for ever. A turn with any of these has a lane of its own,
and so has one whose model is not behind HTTP. Tools run in threads beside the lane in any case.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import socket
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, TypeVarTuple

import anyio

from hermes_nb.providers.remote import RemoteProvider
from hermes_nb.providers.transport import sharing
from hermes_nb.tools.threads import Pace, run_in_thread

if sys.platform == "win32":
    from asyncio import ProactorEventLoop as _Usual
else:
    from asyncio import SelectorEventLoop as _Usual

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hermes_nb.providers.base import Provider
    from hermes_nb.tools.definition import Tool
    from hermes_nb.turn.request import TurnRequest
    from hermes_nb.vocabulary.budget import IterationBudget

T = TypeVar("T")
Given = TypeVarTuple("Given")
Turn: TypeAlias = "Callable[[], Coroutine[Any, Any, T]]"
Ended: TypeAlias = "Callable[[Callable[[], T]], None]"

IDLE = 10.0
"""Seconds after which a shared lane without turns ends; at the latest after twice as many."""


class Lane(ABC):
    """A thread with an event loop."""

    _thread: threading.Thread | None = None

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the lane's."""
        return threading.current_thread() is self._thread

    @abstractmethod
    def start(self, turn: Turn[T], ended: Ended[T], name: str) -> None:
        """Run a turn, with the context variables of the caller.

        Args:
            turn: The turn.
            ended: Called in the lane at the end, with a function that gives what the turn gave, or raises what it
                raised.
            name: For those who look at threads and tasks.
        """


class OwnLane(Lane):
    """For one turn alone."""

    def start(self, turn: Turn[T], ended: Ended[T], name: str) -> None:
        """Run the turn; `ended` is called when its event loop is closed."""
        drive = partial(_context().run, ended, partial(anyio.run, turn, backend_options={"loop_factory": _Loop}))
        self._thread = threading.Thread(target=drive, name=name, daemon=True)
        self._thread.start()


class _Loop(_Usual):
    """Looks hosts up in threads that can be left behind.

    Those that event loops have for it are few for all turns, and a loop's end waits for them.
    """

    _pace = Pace()

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        """Look a host up, which may take long."""
        look_up = partial(socket.getaddrinfo, host, port, **hints)
        return await run_in_thread(look_up, name="address", pace=self._pace, on_abandoned=_nobody_minds)


class _SharedLoop(_Loop):
    """Timers hold no context variables here: one that is cancelled stays for a while, but keeps no turn alive."""

    def call_at(
        self, when: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call a function at a time; without context variables, where none are given."""
        return super().call_at(when, callback, *args, context=Context() if context is None else context)


class SharedLane(Lane):
    """For any number of turns at the same time; its thread is started with the first, and ends when none comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = None
        self._leave = asyncio.Event()
        self._under_way = 0
        self._tasks: set[asyncio.Task[None]] = set()  # event loops hold their tasks weakly

    def start(self, turn: Turn[T], ended: Ended[T], name: str) -> None:
        """Run a turn beside the others."""
        with self._lock:
            loop = self._started()
            loop.call_soon_threadsafe(self._begin, turn, ended, name, context=_context())
            self._under_way += 1

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            loop, self._leave = _SharedLoop(), asyncio.Event()
            self._thread = threading.Thread(
                target=self._serve, args=(loop, self._leave), name="hermes_nb turns", daemon=True
            )
            self._thread.start()
            self._loop = loop
        return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop, leave: asyncio.Event) -> None:
        """The thread's body."""
        if (sniffio := sys.modules.get("sniffio")) is not None:
            sniffio.thread_local.name = "asyncio"  # or it asks for the running task each time
        with (
            suppress(SystemExit, KeyboardInterrupt),  # whoever ends the loop so: the next turn gets another
            asyncio.Runner(loop_factory=lambda: loop) as runner,
            sharing(loop),
        ):
            try:
                runner.run(self._wanted(leave))
            finally:
                self._forget(loop)

    def _forget(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop takes no more turns; those that it had are cancelled after this, and told so."""
        with self._lock:
            if self._loop is loop:
                self._loop = None

    async def _wanted(self, leave: asyncio.Event) -> None:
        """Comes to its end when there has been nothing to do for a while, or when the thread is to leave."""
        idle = False
        while True:
            with anyio.move_on_after(IDLE):
                await leave.wait()
                return
            with self._lock:
                if idle and not self._under_way:
                    self._loop = None
                    return
                idle = not self._under_way

    def close(self) -> None:
        """Let the thread and its connections go before Python ends, unless a turn is under way."""
        with self._lock:
            loop, thread = self._loop, self._thread
            if loop is None or thread is None or self._under_way:
                return
            loop.call_soon_threadsafe(self._leave.set)
            self._loop = None
        thread.join(1)

    def _begin(self, turn: Turn[T], ended: Ended[T], name: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run(turn, ended), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, turn: Turn[T], ended: Ended[T]) -> None:
        """One turn; whatever comes of it stays out of the event loop, which would end at some exceptions."""
        try:
            value = await turn()
        except BaseException as error:  # noqa: BLE001  whoever waits for the turn is told
            ended(partial(_raise, error))
        else:
            ended(lambda: value)
        finally:
            with self._lock:
                self._under_way -= 1


SHARED = SharedLane()
atexit.register(SHARED.close)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=SHARED.__init__)  # type: ignore[misc]  # threads do not live on in a forked process


def lane_for(request: TurnRequest, budget: IterationBudget, *, watched: bool) -> Lane:
    """The lane of a turn.

    Args:
        request: What the turn is asked to do.
        budget: The iterations that it may spend.
        watched: Functions of the user's are told of its events.
    """
    ours = (
        not watched
        and request.handover is None
        and all(map(_is_ours, (budget, request.toolbox, request.checkpoints)))
        and all(map(_is_remote, request.chain))
        and all(map(_runs_apart, request.toolbox.tools.values()))
        and all(map(_is_plain, (getattr(request.policies, field.name) for field in fields(request.policies))))
    )
    return SHARED if ours and not SHARED.is_here else OwnLane()


def _is_remote(provider: Provider) -> bool:
    """Whether it is one of the library's models behind an HTTP API; functions that renew its keys run in threads."""
    return isinstance(provider, RemoteProvider) and _is_ours(provider) and _is_ours(provider.credentials)


def _runs_apart(tool: Tool) -> bool:
    """Whether the tool runs in a thread or an event loop beside the turn's; a sub-agent does not."""
    return _is_ours(type(tool)) and not tool.options.delegate


def _is_plain(policy: Any) -> bool:
    """Whether a policy, and every function that it was given, is the library's."""
    return policy is None or (
        _is_ours(policy) and all(_is_ours(getattr(policy, field.name)) for field in fields(policy))
    )


def _is_ours(thing: object) -> bool:
    """Whether what runs when the thing is used is the library's or Python's own; a plain value has no module."""
    module = getattr(thing, "__module__", None) or "builtins"
    return module.partition(".")[0] in ("hermes_nb", "builtins", "time")


def _nobody_minds() -> None:
    """What is left behind has no effect."""


def _raise(error: BaseException) -> Any:
    raise error


def _context() -> Context:
    """The caller's context variables; what anyio asks of the caller's event loop does not hold in a lane."""
    context = copy_context()
    if (sniffio := sys.modules.get("sniffio")) is not None:
        context.run(sniffio.current_async_library_cvar.set, None)
    return context
