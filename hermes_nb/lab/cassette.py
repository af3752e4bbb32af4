"""Cassettes: requests that were answered once are answered from a file, so that notebooks and tests need no model."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections import defaultdict
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, TypeAlias

from hermes_nb.lab.wrapping import WrappedProvider, with_models
from hermes_nb.logbook import Logbook
from hermes_nb.turn.attempts import waiting
from hermes_nb.turn.recorder import Recorder
from hermes_nb.turn.redaction import redactor
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError, ProviderError, ReplayMismatch

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterator, Sequence
    from types import TracebackType

    from hermes_nb.agent import Agent
    from hermes_nb.providers.base import Connection, ModelRequest, OnText, Provider, Renewal
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message, Reply, ToolSpec

Mode: TypeAlias = Literal["once", "replay", "rewrite"]


class Answer(NamedTuple):
    """What was answered to one request."""

    reply: Reply | None
    failure: Failure | None
    renewal: Renewal


def record(path: str | os.PathLike[str], *, mode: Mode = "once") -> Cassette:
    """A cassette: `agent = hn.record("cassette.db")(agent)` asks its models once, and later answers from the file.

    The file is a logbook: any logbook whose turns asked the same serves too, and `hn.load` reads it.

    Args:
        path: The file; made with the first request that is recorded.
        mode: `once` answers from the file what is there, and asks and records the rest; `replay` never asks;
            `rewrite` asks everything and records it anew.

    Raises:
        ConfigurationError: There is no such mode.
        UnreadableTrace: The file is no logbook.
    """
    if mode not in ("once", "replay", "rewrite"):
        msg = f"a cassette's mode is 'once', 'replay' or 'rewrite', not {mode!r}"
        raise ConfigurationError(msg)
    return Cassette(Logbook(path), mode)


class Cassette:
    """Answers by what was asked: provider, model, messages and tools; the day, and the ids of calls, do not count.

    An equal request that is asked again gets the next of its recorded answers. Safe for turns in many threads.

    Args:
        logbook: Where the answers are, and where new ones go.
        mode: See `record`.
    """

    def __init__(self, logbook: Logbook, mode: Mode) -> None:
        self.logbook = logbook
        self.mode = mode
        self._lock = threading.Lock()
        self._given: dict[str, int] = defaultdict(int)
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        for key, answer in _recorded(logbook) if mode != "rewrite" else ():
            self._answers[key].append(answer)

    def __call__(self, agent: Agent) -> Agent:
        """The agent with its models, and those of its sub-agents, on this cassette."""
        return with_models(agent, lambda model: TapedProvider(model, self))

    def find(self, key: str) -> Answer | None:
        """The next answer to a request.

        Raises:
            ReplayMismatch: There is none, and the models must not be asked.
        """
        with self._lock:
            number = self._given[key]
            self._given[key] += 1
            found = self._answers[key][number : number + 1]
        if not found and self.mode == "replay":
            times = f"only {number} times" if number else "never"
            msg = f"{self.logbook.path} has no answer: this request was {times} recorded"
            raise ReplayMismatch(msg)
        return found[0] if found else None

    def keep(self, provider: Provider, request: ModelRequest, answer: Answer) -> None:
        """Record an answer, as a turn of one request."""
        recorder = Recorder(str(uuid.uuid4()), "cassette", [self.logbook.sink()], redactor(provider.secrets))
        prompt = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        chat = events.Chat(
            provider.name, provider.model, request.purpose, messages=request.messages, tools=request.tools
        )
        turn = events.Turn("cassette", provider.name, provider.model, prompt)
        attempt = events.Attempt(1, 1, provider.name, provider.model)
        with recorder.scope(turn), recorder.scope(events.Iteration(1)), recorder.scope(chat):
            with recorder.scope(attempt):
                attempt.failure, attempt.renewal = answer.failure, answer.renewal
            chat.reply = answer.reply

    def close(self) -> None:
        """Close the file."""
        self.logbook.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Names the file."""
        return f"<Cassette {str(self.logbook.path)!r}, {self.mode}>"


@dataclass(frozen=True)
class TapedProvider(WrappedProvider):
    """A provider whose answers are on a cassette; made by `Cassette`."""

    cassette: Cassette = field(repr=False, compare=False)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        """Opens the provider's own connection only when it has to be asked."""
        async with AsyncExitStack() as stack:
            connection = _TapedConnection(self, stack)
            try:
                yield connection
            finally:
                connection.keep_failure("")


class _TapedConnection:
    def __init__(self, provider: TapedProvider, stack: AsyncExitStack) -> None:
        self._provider = provider
        self._stack = stack
        self._live: Connection | None = None
        self._last: Answer | None = None
        self._failed: tuple[ModelRequest, Failure] | None = None

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        inner, cassette = self._provider.inner, self._provider.cassette
        self.keep_failure("")
        self._last = cassette.find(_key(inner.name, inner.model, request.purpose, request.messages, request.tools))
        waiting.set(self._last is None)  # nobody waits for a server that is not asked
        if self._last is None:
            return await self._ask_live(request, on_text)
        if self._last.failure is not None:
            raise ProviderError(self._last.failure)
        assert self._last.reply is not None
        on_text(self._last.reply.text)
        return self._last.reply

    async def _ask_live(self, request: ModelRequest, on_text: OnText) -> Reply:
        inner = self._provider.inner
        if self._live is None:
            self._live = await self._stack.enter_async_context(inner.connect())
        try:
            reply = await self._live.ask(request, on_text)
        except ProviderError as error:
            self._failed = request, error.failure
            raise
        self._provider.cassette.keep(inner, request, Answer(reply, None, ""))
        return reply

    async def renew(self, failure: Failure) -> Renewal:
        if self._last is not None or self._live is None:
            return self._last.renewal if self._last is not None else ""
        renewal = await self._live.renew(failure)
        self.keep_failure(renewal)
        return renewal

    def keep_failure(self, renewal: Renewal) -> None:
        """Record the last failure, now that it is known whether other credentials were found."""
        if self._failed is not None:
            request, failure = self._failed
            self._failed = None
            self._provider.cassette.keep(self._provider.inner, request, Answer(None, failure, renewal))


# --------------------------------------------------------------------------------------- what was asked


def _recorded(logbook: Logbook) -> Iterator[tuple[str, Answer]]:
    """Every answered request of a logbook, in order."""
    for turn in logbook.turns():
        ends = {event.scope: event for event in logbook.events(turn.id) if event.phase == "ended"}
        for event in ends.values():
            chat = ends[event.parent].what if event.parent in ends else None
            if isinstance(event.what, events.Attempt) and isinstance(chat, events.Chat) and not event.interrupted:
                key = _key(chat.provider, chat.model, chat.purpose, chat.messages, chat.tools)
                if (answer := _answer(event.what, chat)) is not None:
                    yield key, answer


def _answer(attempt: events.Attempt, chat: events.Chat) -> Answer | None:
    if attempt.refused is not None:
        return Answer(attempt.refused, None, attempt.renewal)
    if attempt.failure is not None:
        return Answer(None, attempt.failure, attempt.renewal)
    return Answer(chat.reply, None, "") if chat.reply is not None else None


def _key(provider: str, model: str, purpose: str, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> str:
    """Equal for requests that ask the same."""
    numbers: dict[str | None, int] = {}
    rows = [_row(message, numbers) for message in messages]
    specs = [[tool.name, tool.description, tool.parameters] for tool in tools]
    text = json.dumps([provider, model, purpose, rows, specs], sort_keys=True, default=repr)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _row(message: Message, numbers: dict[str | None, int]) -> list[Any]:
    """A message without the day, and with numbers in the place of the calls' ids."""
    content: Any = message.content
    if isinstance(content, str):
        content = re.sub(r"\n\nDate: \S+\Z", "", content)
    else:
        content = [part for part in content if not re.fullmatch(r"Date: \S+", part.get("text") or "")]
    calls = [(numbers.setdefault(c.id, len(numbers)), c.name, c.arguments) for c in message.tool_calls]
    answered = numbers.get(message.tool_call_id) if message.tool_call_id is not None else None
    return [message.role, content, calls, answered, message.name]
