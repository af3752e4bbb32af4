"""The embedded model: a small language model in a process of its own, with no key and no server to set up."""

from __future__ import annotations

import importlib.util
import os
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from hermes_nb.providers._local_calls import HeldBack, call_in_text
from hermes_nb.providers._local_engine import Engine, EngineError, Settings, key
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.providers.weights import EMBEDDED
from hermes_nb.vocabulary.failures import ConfigurationError, Failure, FailureReason, ProviderError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from hermes_nb.providers.base import ModelRequest, OnText
    from hermes_nb.providers.http import Timeouts
    from hermes_nb.vocabulary.messages import Reply

DEFAULTS = {"temperature": 0, "max_tokens": 512}
"""A small model is at its best without chance, and what it has to say is short."""

MOST_THREADS = 4
"""More make a model of this size no faster."""


@dataclass(frozen=True, init=False, repr=False)
class Local:
    """A small model on this machine: Qwen2.5-Coder-0.5B-Instruct, or any GGUF file.

    Making one costs nothing. Its first use fetches the weights if they are not in the cache (478 MB, once, with a
    progress bar) and starts the engine (2 to 4 s), which providers with the same settings share and which ends with
    the last of them. Needs `pip install 'hermes-nb[local]'`.

    Good for plain questions, for one call of one of a few narrow tools, and for short texts; not for chains of calls.

    Args:
        path: A GGUF file, used with its own chat template; the embedded model if left out.
        context_window: Tokens of prompt and reply together.
        threads: Processor threads that compute; those that there are, up to 4, if left out.
        stream: Whether replies are streamed.
        timeout: `Timeouts`, or seconds for the whole reply; see `OpenAIChat`.
        request_parameters: As for `OpenAIChat`; `temperature` is 0 and `max_tokens` 512 if not given. No request gets
            more than these `max_tokens`.

    Raises:
        ConfigurationError: There is no such file, it is no GGUF file, or an argument cannot work.
    """

    engine: Engine
    context_window: int
    stream: bool
    request_parameters: Mapping[str, Any] = field(hash=False)
    _timeout: Timeouts | float | None

    name = "local"
    address = ("127.0.0.1", None)

    def __init__(  # the request's parameters come by name
        self,
        path: str | os.PathLike[str] | None = None,
        context_window: int = 8192,
        *,
        threads: int | None = None,
        stream: bool = True,
        timeout: Timeouts | float | None = None,
        **request_parameters: Any,
    ) -> None:
        settings = Settings(
            path=None if path is None else checked_path(path),
            context_window=positive("context_window", context_window),
            threads=positive("threads", min(cores(), MOST_THREADS) if threads is None else threads),
        )
        values: dict[str, Any] = {
            "engine": Engine.shared(settings),
            "context_window": context_window,
            "stream": bool(stream),
            "request_parameters": {**DEFAULTS, **request_parameters},
            "_timeout": timeout,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        positive("max_tokens", self.request_parameters["max_tokens"])
        self.at("http://127.0.0.1/v1")  # refuses what cannot be sent

    @staticmethod
    def ready() -> bool:
        """Whether the embedded model can answer at once: its engine is installed, and its weights are in the cache."""
        return importlib.util.find_spec("xllamacpp") is not None and EMBEDDED.find() is not None

    @property
    def model(self) -> str:
        """The model's name: that of the embedded one, or the file's."""
        return self.engine.settings.model

    @property
    def identity(self) -> str:
        """The name, the model and its file."""
        return f"{self.name}:{self.model}@{self.engine.settings.path or 'cache'}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The request parameters: those given, and the defaults."""
        return dict(self.request_parameters)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The random key of this process's engines."""
        return (key(),)

    def at(self, url: str) -> OpenAIChat:
        """The same model as a provider at the address where its engine listens."""
        return OpenAIChat(
            self.model,
            base_url=url,
            api_key=key(),
            stream=self.stream,
            timeout=self._timeout,
            name=self.name,
            context_window=self.context_window,
            **self.request_parameters,
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[LocalConnection]:
        """Nothing to open: the engine is looked after before each request, for it may have crashed meanwhile."""
        yield LocalConnection(self)

    def __repr__(self) -> str:
        path = self.engine.settings.path
        return f"Local({'' if path is None else repr(str(path))})"


@dataclass(frozen=True, slots=True)
class LocalConnection:
    """One turn's use of the embedded model."""

    provider: Local

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Send one request, once; the engine is started if it does not run.

        Raises:
            ProviderError: The engine cannot be started (it is not installed, the weights cannot be had), or the call
                failed.
        """
        chat = self.provider.at(await self._listening())
        most = self.provider.request_parameters["max_tokens"]
        request = replace(request, max_tokens=min(request.max_tokens or most, most))
        tools = request.tools if request.tool_choice == "auto" else ()
        held = HeldBack(on_text) if tools else None
        async with chat.connect() as connection:
            reply = await connection.ask(request, held or on_text)
        call = call_in_text(reply, tools)
        if held:
            held.release("call" if call else "text")
        if call is None:
            return reply
        message = replace(reply.message, content="", tool_calls=(call,))
        return replace(reply, message=message, finish_reason="tool_calls")

    async def renew(self, failure: Failure) -> Literal["", "refreshed", "rotated"]:  # noqa: ARG002  the one key does
        """There are no other credentials."""
        return ""

    async def _listening(self) -> str:
        """Where the engine listens; an interrupt gives up the fetch or the start at once."""
        provider, unwanted = self.provider, threading.Event()
        try:
            return await anyio.to_thread.run_sync(provider.engine.url, unwanted, abandon_on_cancel=True)
        except (ConfigurationError, EngineError, OSError) as error:
            lasting = isinstance(error, ConfigurationError)
            reason = FailureReason.MODEL_NOT_FOUND if lasting else FailureReason.CONNECTION
            kind = type(error).__name__
            raise ProviderError(Failure(reason, str(error), provider.name, provider.model, error_type=kind)) from error
        finally:
            unwanted.set()


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The absolute path of a GGUF file.

    Raises:
        ConfigurationError: There is none.
    """
    found = Path(path).expanduser().absolute()
    if not found.is_file():
        msg = f"there is no file {found}; give the path of a GGUF file, or none for the embedded model"
        raise ConfigurationError(msg)
    try:
        with found.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        msg = f"cannot read {found}: {error.strerror}"
        raise ConfigurationError(msg) from error
    if magic != b"GGUF":
        msg = f"{found} is no GGUF file: it begins with {magic!r}"
        raise ConfigurationError(msg)
    return found


def positive(name: str, value: int) -> int:
    """The value, if it is a whole number above 0.

    Raises:
        ConfigurationError: It is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        msg = f"{name} is a whole number above 0, not {value!r}"
        raise ConfigurationError(msg)
    return value


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
