"""Mixture-of-Agents: several models advise, one acts. A provider like any other."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio

from hermes_nb.providers.advice import Advice, advised, advisory_view, fingerprint
from hermes_nb.providers.base import ModelRequest
from hermes_nb.providers.registry import resolve
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.cancellation import is_cancellation
from hermes_nb.vocabulary.failures import ConfigurationError, Failure, FailureReason, ProviderError, in_words
from hermes_nb.vocabulary.messages import Reply, Usage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from contextlib import AbstractContextManager

    from hermes_nb.providers.base import Connection, OnText, Provider, Renewal
    from hermes_nb.vocabulary.messages import Message

Fanout = Literal["per_iteration", "per_turn"]


@dataclass(frozen=True, init=False, repr=False)
class Mixture:
    """Several models advise, the aggregator acts with the real tools.

    The references read the conversation as text, all at once, and write advice; the aggregator reads the request with
    that advice at its end. A reference that fails or is late is left out, visibly; when all of them are, the aggregator
    acts alone. A request of the same state (a retry) reuses the advice. References are asked for the turn's main
    requests only, not for summaries.

    `Reply.usage` counts the aggregator, `Reply.others` the references. One request costs one iteration, however many
    references there are.

    Args:
        references: Models that advise: strings or providers.
        aggregator: The model that acts.
        fanout: Whether advice is asked for in each iteration, or once for each prompt of the user.
        parallel: References asked at a time; 1 for a server that takes one request only.
        reference_timeout: Seconds that a reference has.

    Raises:
        ConfigurationError: No reference, a mixture in a mixture, or an argument that cannot work.
    """

    references: tuple[Provider, ...]
    aggregator: Provider
    fanout: Fanout
    parallel: int
    reference_timeout: float

    name = "mixture"

    def __init__(
        self,
        references: Iterable[str | Provider],
        aggregator: str | Provider,
        *,
        fanout: Fanout = "per_iteration",
        parallel: int = 8,
        reference_timeout: float = 120.0,
    ) -> None:
        given = [references] if isinstance(references, str) else list(references)
        values: dict[str, Any] = {
            "references": tuple(map(resolve, given)),
            "aggregator": resolve(aggregator),
            "fanout": fanout,
            "parallel": parallel,
            "reference_timeout": reference_timeout,
        }
        for key, value in values.items():
            object.__setattr__(self, key, value)
        if problem := self._problem():
            raise ConfigurationError(problem)

    def _problem(self) -> str:
        if not self.references:
            return "a mixture needs at least one reference"
        if any(isinstance(model, Mixture) for model in (*self.references, self.aggregator)):
            return "a mixture cannot be part of a mixture"
        if self.fanout not in ("per_iteration", "per_turn"):
            return f"fanout is 'per_iteration' or 'per_turn', not {self.fanout!r}"
        if not isinstance(self.parallel, int) or self.parallel < 1:
            return f"parallel is a number of references from 1, not {self.parallel!r}"
        if not isinstance(self.reference_timeout, int | float) or not self.reference_timeout > 0:
            return f"reference_timeout is a number of seconds above 0, not {self.reference_timeout!r}"
        return ""

    @property
    def model(self) -> str:
        """The model that acts."""
        return self.aggregator.model

    @property
    def identity(self) -> str:
        """That of the aggregator, whose quota decides."""
        return self.aggregator.identity

    @property
    def context_window(self) -> int | None:
        """That of the aggregator."""
        return self.aggregator.context_window

    @property
    def address(self) -> tuple[str, int | None]:
        """That of the aggregator."""
        return self.aggregator.address

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Those of the aggregator."""
        return self.aggregator.parameters

    @property
    def stream(self) -> bool:
        """Whether the aggregator streams."""
        return self.aggregator.stream

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those of all models."""
        return tuple(secret for model in (self.aggregator, *self.references) for secret in model.secrets)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MixtureConnection]:
        """Connect to all models; a reference that cannot be reached is one that failed."""
        async with AsyncExitStack() as stack:
            acting = await stack.enter_async_context(self.aggregator.connect())
            yield MixtureConnection(self, acting, [await _reach(model, stack) for model in self.references])

    def __repr__(self) -> str:
        return f"Mixture(references={list(self.references)!r}, aggregator={self.aggregator!r})"


class MixtureConnection:
    """One turn's use of a mixture."""

    def __init__(self, mixture: Mixture, acting: Connection, references: list[Connection | Failure]) -> None:
        self._mixture = mixture
        self._acting = acting
        self._references = references
        self._state = ""
        self._advice: tuple[Advice, ...] = ()
        self._owed: list[tuple[str, str, Usage]] = []

    async def ask(self, request: ModelRequest, on_text: OnText) -> Reply:
        """Ask the references, unless they have advised on this state, then the aggregator.

        Raises:
            ProviderError: The aggregator failed.
        """
        if request.purpose != "main":
            return await self._acting.ask(request, on_text)
        await self._consult_all(request)
        reply = await self._acting.ask(replace(request, messages=advised(request.messages, self._advice)), on_text)
        owed, self._owed = self._owed, []  # counted once, also when the aggregator had to be asked again
        return replace(reply, others=tuple(owed))

    async def renew(self, failure: Failure) -> Renewal:
        """Other credentials for the aggregator."""
        return await self._acting.renew(failure)

    async def _consult_all(self, request: ModelRequest) -> None:
        mixture = self._mixture
        view = advisory_view(request.messages, whole=mixture.fanout == "per_iteration")
        if (state := fingerprint(view)) == self._state:
            return
        found: dict[int, Advice] = {}
        free = anyio.CapacityLimiter(mixture.parallel)

        async def consult(index: int) -> None:
            async with free:
                found[index] = await self._consult(index, view, request)

        async with anyio.create_task_group() as group:
            for index in range(len(self._references)):
                group.start_soon(consult, index)
        self._state, self._advice = state, tuple(found[index] for index in sorted(found))

    async def _consult(self, index: int, view: tuple[Message, ...], request: ModelRequest) -> Advice:
        """The advice of one reference, or the note that it failed."""
        reference, seconds = self._mixture.references[index], self._mixture.reference_timeout
        label = f"{reference.name}:{reference.model}"
        chat = _chat(reference, view)
        with _scope(request, chat):
            try:
                with anyio.fail_after(seconds):
                    reply = chat.reply = await _advise(self._references[index], chat, request)
            except TimeoutError:
                failure = Failure(FailureReason.TIMEOUT, f"no advice within {seconds:g} s", error_type="timeout")
            except ProviderError as error:
                failure = error.failure
            else:
                self._owed.append((reference.name, reference.model, reply.usage or Usage()))
                return Advice(label, reply.text)
            chat.error_type, chat.error = failure.error_type or failure.reason.value, failure.message
        return Advice(label, failed=failure.reason.value)


async def _reach(model: Provider, stack: AsyncExitStack) -> Connection | Failure:
    try:
        return await stack.enter_async_context(model.connect())
    except ProviderError as error:
        return error.failure
    except BaseException as error:
        if is_cancellation(error):
            raise
        return _unexpected(error)


async def _advise(connection: Connection | Failure, chat: events.Chat, request: ModelRequest) -> Reply:
    """Ask one reference; again at once where it has other credentials.

    Raises:
        ProviderError: It failed, with whatever exception.
    """
    while True:
        chat.attempts += 1
        attempt = events.Attempt(
            chat.attempts, chat.attempts, chat.provider, chat.model,
            server_address=chat.server_address, server_port=chat.server_port,
        )  # fmt: skip
        with _scope(request, attempt):
            reply = await _answer(connection, ModelRequest(chat.messages, purpose="reference"), attempt)
        if not isinstance(reply, Failure):
            return reply
        if isinstance(connection, Failure) or not await _renewed(connection, reply):
            raise ProviderError(reply)


async def _renewed(connection: Connection, failure: Failure) -> bool:
    try:
        return await connection.renew(failure) in ("refreshed", "rotated")
    except BaseException as error:
        if is_cancellation(error):
            raise
        return False


async def _answer(connection: Connection | Failure, asked: ModelRequest, attempt: events.Attempt) -> Reply | Failure:
    attempt.outcome = "cancelled"
    try:
        if isinstance(connection, Failure):
            failure = connection
        else:
            reply: object = await connection.ask(asked, _ignore)
            if isinstance(reply, Reply):
                attempt.outcome = "success"
                return reply
            failure = _unexpected(TypeError(f"a provider returns a Reply, not {type(reply).__name__}"))
    except ProviderError as error:
        failure = error.failure
    except BaseException as error:  # out of a reference's own task, it would end the turn's event loop
        if is_cancellation(error):
            raise
        failure = _unexpected(error)
    attempt.outcome, attempt.reason, attempt.status = "give_up", failure.reason.value, failure.status
    attempt.retry_after = failure.retry_after
    attempt.error_type, attempt.error = failure.error_type or failure.reason.value, failure.message
    return failure


def _chat(model: Provider, view: tuple[Message, ...]) -> events.Chat:
    host, port = model.address
    return events.Chat(
        model.name, model.model, "reference", stream=model.stream, server_address=host, server_port=port,
        parameters=model.parameters, messages=view,
    )  # fmt: skip


def _scope(request: ModelRequest, what: events.Scoped) -> AbstractContextManager[object]:
    return nullcontext() if request.recorder is None else request.recorder.scope(what)


def _ignore(*_: str) -> None:
    """Advice is for the aggregator only."""


def _unexpected(error: BaseException) -> Failure:
    return Failure(FailureReason.BAD_REQUEST, in_words(error), error_type=type(error).__name__)
