"""The retry sub-loop: one provider is asked until it answers or is used up."""

from __future__ import annotations

import random
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from hermes_nb.policies.recovery import Step, Tally, next_step
from hermes_nb.policies.replies import checked, failure_of
from hermes_nb.policies.thinking import without_thinking
from hermes_nb.providers.base import ModelRequest
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.cancellation import ends_turn
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError, ReplayMismatch, in_words
from hermes_nb.vocabulary.messages import Reply

if TYPE_CHECKING:
    from hermes_nb.providers.base import Connection, Provider, Renewal
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.messages import Message

waiting: ContextVar[bool] = ContextVar("hermes_nb_waiting", default=True)
"""False lets every wait before a retry take no time; see `hermes_nb.testing.no_waiting`."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, whoever answers.

    Attributes:
        notice: Told to the model after everything else, in this request only.
        tools: Calls are allowed.
        purpose: What the reply is for.
        messages: Asked instead of the history, for a question of the library's own; without a system prompt.
        lenient: A reply without text or calls is taken as it is.
    """

    notice: str = ""
    tools: bool = True
    purpose: events.ChatPurpose = "main"
    messages: tuple[Message, ...] | None = None
    lenient: bool = False


async def ask_provider(state: TurnState, question: Question, chat: events.Chat) -> Reply:
    """The retry sub-loop: ask one provider until it answers or is used up; all its state is local to this frame.

    Raises:
        ProviderError: The provider is used up.
    """
    tally, waited = Tally(max_tokens=state.output_cap), 0.0
    connection = await _connect(state)
    while True:
        chat.attempts = tally.attempts = tally.attempts + 1
        with state.recorder.scope(_attempt(state, tally, waited)) as attempt:
            answer = await _send(state, connection, question, chat, tally, attempt)
            if isinstance(answer, Reply):
                attempt.outcome = "success"
                return _accept(state, answer, chat)
            step = await _decide(state, connection, answer, tally, attempt)
            _fail_attempt(attempt, answer, step, state)
        if step in (Step.GIVE_UP, Step.COMPRESS):
            raise ProviderError(answer)
        waited = await _pause(state, step, answer, tally)


# --------------------------------------------------------------------------------------- one attempt


async def _connect(state: TurnState) -> Connection:
    provider = state.chain.provider
    try:
        return await state.chain.connection()
    except ProviderError:
        raise
    except BaseException as error:
        if ends_turn(error):
            raise
        raise ProviderError(_unexpected(error, provider)) from error


async def _send(
    state: TurnState,
    connection: Connection,
    question: Question,
    chat: events.Chat,
    tally: Tally,
    attempt: events.Attempt,
) -> Reply | Failure:
    """One request: a reply that can be used, or the failure."""
    provider = state.chain.provider
    request = ModelRequest(
        chat.messages,
        chat.tools,
        "auto" if question.tools else "none",
        tally.max_tokens,
        tally.stream,
        question.purpose,
        state.recorder,
    )
    state.begin_reply()
    try:
        reply = checked(await connection.ask(request, state.on_text if question.purpose == "main" else _ignore))
    except ProviderError as error:
        attempt.injected = error.failure.injected
        return _rescued(error.failure) or error.failure
    except ReplayMismatch:
        raise
    except BaseException as error:
        if ends_turn(error):
            raise
        return _unexpected(error, provider)
    attempt.injected = reply.injected
    reply = without_thinking(reply)
    failure = None if question.lenient else failure_of(reply, provider.name, provider.model)
    if failure is not None:
        attempt.refused = reply
        state.account(reply, provider.name, provider.model)
    return failure or reply


def _ignore(*_: object) -> None:
    """Pieces of a reply that is not the turn's answer are shown to nobody."""


def _rescued(failure: Failure) -> Reply | None:
    """The text that had come when the connection broke, as a reply that the model is asked to continue."""
    cut = failure.reason in (FailureReason.CONNECTION, FailureReason.TIMEOUT)
    if not cut or failure.partial is None or failure.partial.tool_calls or not failure.partial.text.strip():
        return None
    return Reply(failure.partial, finish_reason="unknown", partial=True)


def _unexpected(error: BaseException, provider: Provider) -> Failure:
    """Anything but a ProviderError: not worth a retry, but the next provider may do better."""
    kind = type(error)
    return Failure(
        FailureReason.BAD_REQUEST,
        in_words(error),
        provider=provider.name,
        model=provider.model,
        error_type=f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."),
    )


async def _decide(
    state: TurnState, connection: Connection, failure: Failure, tally: Tally, attempt: events.Attempt
) -> Step:
    """What follows from the failure; other credentials are tried here, for only they know whether there are any."""
    retry, fallback_left = state.request.policies.retry, state.chain.left > 0
    tally.failures += 1
    step = next_step(failure, tally, retry, fallback_left=fallback_left)
    if step is not Step.RENEW:
        return step
    attempt.renewal = renewal = await _renew(state, connection, failure)
    if renewal in ("refreshed", "rotated"):
        tally.failures -= 1
        return step
    tally.patient, tally.renewable = renewal == "later", False
    step = next_step(failure, tally, retry, fallback_left=fallback_left)
    tally.renewable = tally.patient
    return step


async def _renew(state: TurnState, connection: Connection, failure: Failure) -> Renewal:
    try:
        return await connection.renew(failure)
    except BaseException as error:
        if ends_turn(error):
            raise
        state.recorder.tell(events.Degraded("credentials", in_words(error)))
        return ""


async def _pause(state: TurnState, step: Step, failure: Failure, tally: Tally) -> float:
    """Prepare the next attempt, and wait for it; returns the seconds waited."""
    wait, source = 0.0, "at_once"
    match step:
        case Step.RETRY:
            plan = state.request.policies.retry.wait(failure, tally.failures, random.random())  # noqa: S311  no secret
            wait, source = plan.seconds, plan.source
        case Step.RENEW:
            source = "credentials"
        case Step.LOWER_CAP:
            tally.lower_cap(failure.limit or 0)
        case Step.RAISE_CAP:
            tally.raise_cap(state.chain.provider.parameters.get("max_tokens"))
        case Step.UNSTREAM:
            tally.stream = False
    state.counts.retries += 1
    state.doing = "backoff"
    retry = events.Retry(tally.attempts, failure.reason.value, wait, failure.retry_after, source)  # type: ignore[arg-type]  # one of the literals above
    with state.recorder.scope(retry):
        began = anyio.current_time()
        try:
            if wait and waiting.get():
                await anyio.sleep(wait)
            retry.outcome = "waited"
        finally:
            retry.outcome = retry.outcome or "interrupted"
            retry.waited = anyio.current_time() - began
    state.doing = "api_call"
    return wait


def _accept(state: TurnState, reply: Reply, chat: events.Chat) -> Reply:
    """Book a usable reply."""
    reply = state.with_own_ids(reply)
    chat.reply = reply
    chat.cost_usd = state.account(reply, chat.provider, chat.model)
    if chat.purpose == "main":
        state.prompt_tokens = reply.usage.input_tokens if reply.usage else None
        state.sizes.observe(state.prompt_tokens, state.estimate, state.threshold)
    guard, identity = state.request.policies.guard, state.chain.provider.identity
    if guard is not None:
        state.guarded("guard", lambda: guard.clear(identity))
    return reply


# --------------------------------------------------------------------------------------- events


def _attempt(state: TurnState, tally: Tally, waited: float) -> events.Attempt:
    provider = state.chain.provider
    host, port = provider.address
    state.counts.attempts += 1
    return events.Attempt(
        number=tally.attempts,
        maximum=state.request.policies.retry.attempts,
        provider=provider.name,
        model=provider.model,
        backoff=waited,
        server_address=host,
        server_port=port,
    )


def _fail_attempt(attempt: events.Attempt, failure: Failure, step: Step, state: TurnState) -> None:
    attempt.reason, attempt.status, attempt.retry_after = failure.reason.value, failure.status, failure.retry_after
    attempt.error_type, attempt.error = failure.error_type or failure.reason.value, failure.message
    attempt.failure = failure
    attempt.outcome = "retry"
    if step is Step.COMPRESS:
        attempt.outcome = "compress"
    elif step is Step.GIVE_UP:
        attempt.outcome = "fallback" if state.chain.left else "give_up"
    guard, identity = state.request.policies.guard, state.chain.provider.identity
    if guard is not None and failure.reason is FailureReason.RATE_LIMIT and not failure.injected:
        state.guarded("guard", lambda: guard.record(identity, failure))
