"""Asking the model: the chain of providers around the retry sub-loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.turn.attempts import ask_provider
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError

if TYPE_CHECKING:
    from hermes_nb.turn.attempts import Question
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.messages import Reply

OVERFLOWS = (FailureReason.CONTEXT_OVERFLOW, FailureReason.PAYLOAD_TOO_LARGE)
LIMITS = (FailureReason.RATE_LIMIT, FailureReason.BILLING)


class ModelUnavailable(Exception):
    """No provider of the chain answered; never leaves the turn."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Overflow(Exception):
    """The request was too large for the provider; never leaves the turn."""

    def __init__(self, failure: Failure, failed_chat: int) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.failed_chat = failed_chat


async def ask_chain(state: TurnState, question: Question) -> Reply:
    """Ask the providers of the chain, one after the other, until one answers.

    Raises:
        ModelUnavailable: None of them did.
        Overflow: One of them said that the request is too large.
    """
    while True:
        failure, failed_chat = _blocked(state), 0
        if failure is None:
            scope = state.recorder.scope(_chat(state, question))
            failed_chat = scope.number
            with scope as chat:
                try:
                    return await ask_provider(state, question, chat)
                except ProviderError as error:
                    failure = error.failure
                    _fail(chat, failure)
        if failure.reason in OVERFLOWS:
            raise Overflow(failure, failed_chat)
        if not fall_back(state, failure, failed_chat):
            raise ModelUnavailable(failure)


async def ask_aside(state: TurnState, question: Question) -> Reply:
    """Ask only the provider that is in use, for something besides the turn's answer (a summary).

    Raises:
        ProviderError: It did not answer.
    """
    with state.recorder.scope(_chat(state, question)) as chat:
        try:
            return await ask_provider(state, question, chat)
        except ProviderError as error:
            _fail(chat, error.failure)
            raise


def fall_back(state: TurnState, failure: Failure, failed_chat: int) -> bool:
    """Switch to the next provider of the chain; False when there is none. Entries that cannot help are skipped."""
    left, full = state.chain.provider, window(state)
    state.given_up.add(left.identity)
    if failure.reason in LIMITS and state.chain.left:
        _cool_down(state, left.identity, failure)
    while len(state.request.chain) > 1:
        reason = failure.reason.value if failed_chat else "rate_guard"
        fallback = events.Fallback(state.chain.position + 1, reason, left.name, left.model, failed_chat)
        with state.recorder.scope(fallback):
            provider = state.chain.advance()
            if provider is None:
                fallback.outcome, fallback.error_type = "none_left", failure.error_type or failure.reason.value
                return False
            fallback.to_provider, fallback.to_model = provider.name, provider.model
            fallback.chain_left = state.chain.left
            fallback.outcome = "skipped" if _cannot_help(state, failure, full) else "activated"
        if fallback.outcome == "activated":
            state.counts.fallbacks += 1
            state.switch_identity()
            return True
    return False


def _cannot_help(state: TurnState, failure: Failure, full: int | None) -> bool:
    """Whether the provider that would be asked now has failed in this turn, or has no more room than the `full` one."""
    room = window(state)
    small = failure.reason is FailureReason.CONTEXT_OVERFLOW and room is not None and full is not None and room <= full
    return small or state.chain.provider.identity in state.given_up


def window(state: TurnState) -> int | None:
    """Tokens that the provider in use can read, as far as that is known."""
    policy, chain = state.request.policies.compression, state.chain
    return policy.window(state.sizes, chain.provider.context_window, chain.position)


# --------------------------------------------------------------------------------------- the rate guard


def _blocked(state: TurnState) -> Failure | None:
    """The failure that asking would bring, when the guard knows that the quota is used up."""
    guard, provider = state.request.policies.guard, state.chain.provider
    if guard is None:
        return None
    identity, alternatives = provider.identity, state.chain.left > 0
    seconds = state.guarded("guard", lambda: float(guard.blocked_for(identity, alternatives=alternatives)))
    if seconds is None or not seconds > 0:
        return None
    return Failure(
        FailureReason.RATE_LIMIT,
        f"rate limited for another {seconds:.0f} s; not asked",
        provider=provider.name,
        model=provider.model,
        retry_after=seconds,
        error_type="rate_guard",
    )


def _cool_down(state: TurnState, identity: str, failure: Failure) -> None:
    guard = state.request.policies.guard
    if guard is not None and failure.error_type != "rate_guard" and not failure.injected:
        state.guarded("guard", lambda: guard.cool_down(identity))


# --------------------------------------------------------------------------------------- events


def _chat(state: TurnState, question: Question) -> events.Chat:
    provider = state.chain.provider
    host, port = provider.address
    return events.Chat(
        provider=provider.name,
        model=provider.model,
        purpose=question.purpose,
        fallback_index=state.chain.position,
        stream=provider.stream,
        server_address=host,
        server_port=port,
        parameters=provider.parameters,
        messages=question.messages or state.wire.request(state.system, question.notice),
        tools=() if question.messages else state.tools,
        compacted=state.compacted,
    )


def _fail(chat: events.Chat, failure: Failure) -> None:
    chat.error_type, chat.error = failure.error_type or failure.reason.value, failure.message
