"""The embedded model's process, seen from ours: started on first use, shared, restarted after a crash, never left over.

A process of its own, since the engine needs its own environment, may be killed by an old processor, and gives its
memory back at once when it goes.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import importlib.resources
import importlib.util
import json
import os
import platform
import queue
import re
import secrets
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar
from urllib.parse import urlsplit

from hermes_nb.providers.weights import EMBEDDED, progress_bar
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

EMBEDDED_MODEL = "qwen2.5-coder-0.5b-instruct"

START_TIMEOUT = 120.0
"""Seconds until the engine must listen; it takes 1.5 to 4 s on two busy cores."""

BUSY = 2.0
"""Seconds in which an engine that is busy answers that it is there, and one that dies is gone."""

TICK = 0.1
"""Seconds between two looks at whether the start is still wanted."""


class EngineError(Exception):
    """The process did not start; a second try may work."""


class Unwanted(Exception):
    """The turn that asked for the engine was interrupted meanwhile."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one engine serves; turns with the same settings share it.

    Attributes:
        path: A GGUF file; None for the embedded model in the cache, fetched when it is not there.
        context_window: Tokens of prompt and reply together.
        threads: Processor threads that compute.
    """

    path: Path | None
    context_window: int
    threads: int

    @property
    def model(self) -> str:
        """The model's name: that of the embedded one, or the file's."""
        return self.path.stem if self.path else EMBEDDED_MODEL


class Engine:
    """The one process for some settings; use `Engine.shared`."""

    _all: ClassVar[weakref.WeakValueDictionary[Settings, Engine]] = weakref.WeakValueDictionary()
    _all_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._end: weakref.finalize[..., Engine] | None = None

    @classmethod
    def shared(cls, settings: Settings) -> Engine:
        """The engine of these settings in this process; it ends when nobody holds it any more."""
        with cls._all_lock:
            engine = cls._all.get(settings) or cls(settings)
            cls._all[settings] = engine
            return engine

    def url(self, unwanted: threading.Event) -> str:
        """Where the server listens; it is started, or started again, if it does not run. Blocks until it listens.

        Args:
            unwanted: Set by another thread to give up; nothing half-started is left.

        Raises:
            ConfigurationError: No engine on this machine, or no weights; the message says the way out.
            EngineError: The process did not start.
            Unwanted: It was given up.
        """
        with _held(self._lock, unwanted):
            if self._child is None or not self._child.answers():
                require_engine()
                if self._end:
                    self._end()
                self._child = _Child(_configuration(self.settings, unwanted), unwanted)
                self._end = weakref.finalize(self, self._child.stop)
            return self._child.url

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process, it is the engine of these settings there."""
        return Engine.shared, (self.settings,)

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        child = self._child
        return child.process.pid if child and child.alive else None


@functools.cache
def key() -> str:
    """The random key that the servers of this process ask for."""
    return secrets.token_urlsafe(24)


def require_engine() -> None:
    """Check that the engine is installed.

    Raises:
        ConfigurationError: It is not; the message says how to install it, or what to use where it cannot be.
    """
    if importlib.util.find_spec("xllamacpp"):
        return
    musl = "musl" in str(sysconfig.get_config_var("SOABI"))
    if musl or (sys.platform == "win32" and platform.machine() == "ARM64"):
        where = "musl (Alpine) Linux" if musl else "Windows on ARM"
        msg = f"the embedded model has no engine for {where}; use a model server: hn.OpenAIChat(model, base_url=...)"
    else:
        msg = "the embedded model needs its engine; install it: pip install 'hermes-nb[local]'"
    raise ConfigurationError(msg)


@contextlib.contextmanager
def _held(lock: threading.Lock, unwanted: threading.Event) -> Iterator[None]:
    while not lock.acquire(timeout=TICK):
        _go_on(unwanted)
    try:
        _go_on(unwanted)
        yield
    finally:
        lock.release()


def _go_on(unwanted: threading.Event) -> None:
    if unwanted.is_set():
        raise Unwanted


def _configuration(settings: Settings, unwanted: threading.Event) -> dict[str, Any]:
    """What the child is told; fetches the weights if need be."""
    path = settings.path or EMBEDDED.find() or _fetched(unwanted)
    # Qwen's own template makes this model answer with calls that the engine does not recognise; ours does not
    ours = settings.path is None or EMBEDDED.matches(path)
    return {
        "path": str(path),
        "model": settings.model,
        "context_window": settings.context_window,
        "threads": settings.threads,
        "chat_template": _chat_template() if ours else "",
        "key": key(),
        "parent": os.getpid(),
    }


def _fetched(unwanted: threading.Event) -> Path:
    with progress_bar() as show:

        def tell(done: int, total: int) -> None:
            _go_on(unwanted)
            show(done, total)

        return EMBEDDED.fetch(tell)


def _chat_template() -> str:
    return importlib.resources.files(__package__).joinpath("qwen_coder.jinja").read_text(encoding="utf-8")


class _Child:
    """One process, from its start to its end."""

    def __init__(self, configuration: dict[str, Any], unwanted: threading.Event) -> None:
        self._owner = os.getpid()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by stop()
        self.process = _spawn(self._log)
        try:
            self.url = self._start(configuration, unwanted)
        except BaseException:
            self.stop()
            raise

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def answers(self) -> bool:
        """Whether it serves: a process that was killed runs on for a moment, and would take a request with it."""
        place = urlsplit(self.url)
        probe = http.client.HTTPConnection(place.hostname or "", place.port, timeout=BUSY)
        try:
            probe.request("GET", "/health")
            return probe.getresponse().status > 0
        except TimeoutError:
            return self.alive
        except (OSError, http.client.HTTPException):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(BUSY)
            return self.alive
        finally:
            probe.close()

    def _start(self, configuration: dict[str, Any], unwanted: threading.Event) -> str:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it died at once: its answer is empty
            self.process.stdin.write(json.dumps(configuration).encode() + b"\n")  # by pipe: no key in process lists
            self.process.stdin.flush()
        answer = json.loads(self._answer(unwanted) or b"{}")
        if url := answer.get("url"):
            return f"{url.rstrip('/')}/v1"
        msg = f"the engine of the embedded model did not start: {answer.get('error') or self._ended()}{self._logged()}"
        raise EngineError(msg)

    def _answer(self, unwanted: threading.Event) -> bytes:
        """The child's one line, empty if it died first."""
        assert self.process.stdout is not None
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=lambda out=self.process.stdout: lines.put(out.readline()), daemon=True).start()
        deadline = time.monotonic() + START_TIMEOUT
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                return lines.get(timeout=TICK)
            _go_on(unwanted)
        msg = f"the engine of the embedded model did not start within {START_TIMEOUT:.0f} s"
        raise EngineError(msg)

    def _ended(self) -> str:
        code = self.process.wait(10)
        if sys.platform != "win32" and code == -signal.SIGILL:
            return "it needs a processor with AVX2"
        return f"its process ended with code {code}"

    def _logged(self) -> str:
        """The first line of the engine's errors, without its clock, if there is one."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f" ({re.sub(r'^[0-9.]+ E ', '', lines[0])[:400]})" if lines else ""

    def stop(self) -> None:
        """End the process, which has nothing to save."""
        if self._owner == os.getpid():  # in a fork it belongs to our parent
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._log):
            with contextlib.suppress(OSError):  # a last line that nobody read
                stream.close()  # type: ignore[union-attr]  # both are pipes


def _spawn(log: BinaryIO) -> subprocess.Popen[bytes]:
    """The server's program, by its file: it needs nothing of ours, and finds the engine whatever the folder is."""
    environment = {
        **os.environ,
        "OMP_WAIT_POLICY": "passive",  # spinning threads ruin a busy small machine
        "GOMP_SPINCOUNT": "0",
        "PYTHONSAFEPATH": "1",  # a json.py beside the notebook must not be taken for the real one
    }
    return subprocess.Popen(  # noqa: S603  our own command line
        [sys.executable, str(Path(__file__).with_name("_local_server.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
        # its own session: an interrupt of the kernel goes to the kernel's whole process group
        start_new_session=sys.platform != "win32",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
