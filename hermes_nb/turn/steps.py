"""The steps of one iteration; the loop calls them in the order in which they stand here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_nb.policies.recovery import CAP_MAX
from hermes_nb.tools.context import ToolContext
from hermes_nb.turn.asking import ModelUnavailable, Overflow, ask_chain, fall_back
from hermes_nb.turn.attempts import Question
from hermes_nb.turn.inbox import Interrupted
from hermes_nb.turn.result import ExitReason
from hermes_nb.turn.room import make_room_after
from hermes_nb.turn.state import Admission
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import FailureReason, in_words
from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from hermes_nb.turn.inbox import Source
    from hermes_nb.turn.state import TurnState
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Content, Reply, ToolResult

CONTINUE = "Your answer was cut off. Go on exactly where it stopped; repeat nothing."
SUMMARISE = "Sum up in plain text what has been found so far. No tool can be called any more."
CONTINUATIONS = 3
"""Requests to go on with an answer that was cut (hermes-agent 0.19.0: the same)."""

_EXITS = {
    FailureReason.RATE_LIMIT: ExitReason.RATE_LIMITED,
    FailureReason.EMPTY_REPLY: ExitReason.EMPTY_RESPONSE,
    FailureReason.TRUNCATED_CALL: ExitReason.OUTPUT_TRUNCATED,
    FailureReason.CONTENT_FILTER: ExitReason.CONTENT_FILTERED,
    FailureReason.CONTEXT_OVERFLOW: ExitReason.COMPRESSION_EXHAUSTED,
    FailureReason.PAYLOAD_TOO_LARGE: ExitReason.COMPRESSION_EXHAUSTED,
}
_SOURCES = {
    "user": ExitReason.INTERRUPTED_BY_USER,
    "kernel": ExitReason.INTERRUPTED_BY_KERNEL,
    "parent": ExitReason.INTERRUPTED_BY_PARENT,
    "ceiling": ExitReason.CEILING_REACHED,
}


# --------------------------------------------------------------------------------------- admit


async def admit(state: TurnState) -> Admission | None:
    """Leave for one more iteration: from the budget, else by grace; None when the turn is over.

    Between two iterations the turn also waits while it is paused, and ends where an interrupt asked for that.
    """
    if state.ending is not None:
        return None
    state.hand_over()
    await _boundary(state)
    ceiling = state.ceiling
    if not ceiling and (view := state.budget.charge()):
        state.counts.iterations += 1
        return Admission(state.counts.iterations, view)
    limit = state.budget.view().limit
    state.landing = ExitReason.CEILING_REACHED if ceiling else ExitReason.BUDGET_EXHAUSTED
    state.landing_detail = ceiling or f"the budget of {limit} iteration{'s' * (limit != 1)} is used up"
    state.tell_budget("exhausted", state.budget.mark())
    if not state.request.policies.grace.grants(used=state.counts.graces > 0, unread=state.unread):
        _land(state, "")
        return None
    state.counts.iterations += 1
    state.counts.graces += 1
    state.in_grace = True
    return Admission(state.counts.iterations, state.budget.mark(), grace=True)


async def _boundary(state: TurnState) -> None:
    """Stand between two iterations, perhaps paused; what is said of an interrupt there depends on it."""
    state.doing = "between_iterations"

    def tell(point: events.Paused) -> None:
        state.doing = "paused" if point.status == "paused" else "between_iterations"
        state.recorder.tell(point)

    await state.inbox.boundary(tell)


def enter(state: TurnState, admission: Admission) -> None:
    """Open the iteration: tell what it costs, below its own span; its first change of files is saved."""
    if state.request.parent is None:
        state.saves.begin(admission.number)
    if admission.grace:
        state.tell_budget("grace_granted", admission.view)
    else:
        state.tell_budget("consume", admission.view, delta=-1)


# --------------------------------------------------------------------------------------- steer


def take_steering(state: TurnState) -> None:
    """Take the user's steers along with the tool results that the model reads next."""
    if not state.history or state.history[-1].role != "tool":
        return
    for note in state.inbox.take(state.counts.iterations):
        state.add(Message("user", note.text, origin="steer"))
        state.counts.steers += 1
        state.recorder.tell(events.Steered(note.id, note.text, "delivered"))


# --------------------------------------------------------------------------------------- ask


async def ask_model(state: TurnState, iteration: events.Iteration) -> Reply | None:
    """The model's reply; None when the history had to be made smaller first, and the iteration was given back."""
    if state.in_grace:
        state.tell_budget("grace_used", state.budget.mark())
    try:
        while True:
            state.doing = "api_call"
            try:
                return await (
                    _ask_in_grace(state) if state.in_grace else ask_chain(state, Question(_budget_notice(state)))
                )
            except Overflow as overflow:
                if await make_room_after(state, iteration, overflow.failure):
                    if not state.in_grace:
                        return None
                elif not fall_back(state, overflow.failure, overflow.failed_chat):
                    raise ModelUnavailable(overflow.failure) from None
    except ModelUnavailable as error:
        iteration.outcome, iteration.error_type = "failed", error.failure.error_type or error.failure.reason.value
        raise


def _budget_notice(state: TurnState) -> str:
    """What the model is told of its budget, once a turn where that is wanted."""
    policy = state.request.policies.budget_notice
    text = "" if policy is None or state.noticed else policy.due(state.budget.view())
    state.noticed = state.noticed or bool(text)
    return text


async def _ask_in_grace(state: TurnState) -> Reply:
    """The grace call, and if it brings no text, one request for a summary."""
    notice = state.request.policies.grace.notice
    reply = await ask_chain(state, Question(notice, tools=False, lenient=True))
    if reply.text.strip():
        return reply
    return await ask_chain(state, Question(SUMMARISE, tools=False, purpose="summary", lenient=True))


# --------------------------------------------------------------------------------------- tools


async def run_tools(state: TurnState, reply: Reply) -> None:
    """Run the calls of the reply; each result is part of the history as soon as it is there."""
    if not reply.tool_calls or state.in_grace:
        return
    request = state.request
    state.doing = "tool_call"
    state.add(reply.message)
    state.guardrails.begin_batch(len(reply.tool_calls))
    context = ToolContext(
        turn_id=request.turn_id,
        conversation_id=request.conversation_id,
        iteration=state.counts.iterations,
        agent_name=request.agent,
        budget=state.budget,
        time_left=state.time_left,
        recorder=state.recorder,
        directory=request.toolbox.spill,
        checkpoints=request.checkpoints,
        saves=state.saves,
        loop=state.loop,
        turn=state,
    )

    def take(result: ToolResult) -> None:
        take_result(state, result)

    try:
        await request.toolbox.run(reply.tool_calls, context=context, on_result=take)
    except KeyboardInterrupt:
        source: Source = "kernel"
        raise Interrupted(source) from None


def take_result(state: TurnState, result: ToolResult) -> None:
    """Put a result into the history; guardrails may add a warning to it, or end the turn."""
    verdict = state.request.policies.guardrails.judge(state.guardrails, result)
    if verdict.warning:
        result = replace(result, content=_with_warning(result.content, verdict.warning))
    if result.status != "skipped":
        state.counts.tool_calls += 1
    state.shortened = state.shortened or bool(result.stored_at)
    state.add(result.as_message())
    if verdict.halt:
        reason = ExitReason.INVALID_TOOL_CALLS if verdict.invalid else ExitReason.GUARDRAIL_HALT
        state.end(reason, verdict.halt, text=_so_far(state, f"The turn was stopped: {verdict.halt}."))


# --------------------------------------------------------------------------------------- settle


def settle(state: TurnState, reply: Reply, iteration: events.Iteration) -> None:
    """Draw the consequences of an iteration: go on, or end the turn."""
    if state.in_grace:
        iteration.outcome = "final_response"
        if reply.text.strip():
            state.add(replace(reply.message, tool_calls=()))
            _join_parts(state, reply)
        _land(state, "".join((*state.parts, reply.text)))
    elif reply.tool_calls:
        iteration.outcome = "tool_calls"
        _settle_tools(state, reply)
    elif reply.partial or reply.finish_reason == "length":
        iteration.outcome = "continued"
        _continue(state, reply)
    else:
        iteration.outcome = "final_response"
        state.add(reply.message)
        _join_parts(state, reply)
        state.end(ExitReason.COMPLETED, "the model answered", text="".join((*state.parts, reply.text)))


def _settle_tools(state: TurnState, reply: Reply) -> None:
    state.parts.clear()
    state.output_cap = None
    if state.ending is not None:
        _close(state)
    elif state.request.toolbox.all_free(reply.tool_calls):
        state.refund("free_tool")


def _land(state: TurnState, text: str) -> None:
    """The end after the budget or a ceiling: the grace call's text, or what there is."""
    detail = state.landing_detail
    if text.strip():
        state.end(state.landing, detail, text=text)
    else:
        state.end(state.landing, detail, text=_so_far(state, f"There is no answer: {detail}."))
        _close(state)


def _continue(state: TurnState, reply: Reply) -> None:
    """A text that was cut: keep it, and ask the model to go on."""
    state.add(reply.message)
    state.parts.append(reply.text)
    if len(state.parts) > CONTINUATIONS:
        text = "".join(state.parts)
        state.end(ExitReason.OUTPUT_TRUNCATED, f"the answer was cut {len(state.parts)} times", text=text)
        return
    configured = state.chain.provider.parameters.get("max_tokens")
    if isinstance(configured, int):
        state.output_cap = max(configured, min(configured * 2 ** len(state.parts), CAP_MAX))
    state.add(Message("user", CONTINUE, origin="continuation"))


def _join_parts(state: TurnState, reply: Reply) -> None:
    """Make one message of an answer that came in parts; the requests to go on are not the user's words."""
    if not state.parts:
        return
    rows = state.history[: -2 * len(state.parts) - 1]
    whole = replace(state.history[-1], content="".join((*state.parts, reply.text)))
    state.replace_history([*rows, whole])


# --------------------------------------------------------------------------------------- ends


def stopped(state: TurnState, stop: Interrupted) -> None:
    """End after an interrupt: keep what there is, leave a history that the next request may use."""
    source = stop.source
    latency = None if source == "ceiling" else state.inbox.latency
    state.recorder.tell(events.Interrupt(source, "observed", state.doing, latency))
    who = "time limit" if source == "ceiling" else source
    detail = f"interrupted by the {who} in iteration {state.counts.iterations}"
    text = "".join(state.streamed)
    if text.strip() and state.unread:
        state.add(Message("assistant", text))
    state.end(_SOURCES[source], detail, text=_so_far(state, f"No answer yet: {detail}."))
    _close(state)


def failed(state: TurnState, error: ModelUnavailable) -> None:
    """End because no model answered."""
    failure = error.failure
    reason = _EXITS.get(failure.reason, ExitReason.PROVIDER_FAILED)
    if (cut := _cut_text(failure)) and not state.parts:
        state.add(Message("assistant", cut))
        state.parts.append(cut)
    text = "".join(state.parts) or f"There is no answer: {failure}."
    if reason is ExitReason.EMPTY_RESPONSE:
        text = _so_far(state, text)
    state.end(reason, str(failure), text=text, failure=failure)
    if state.history and state.history[-1].role == "tool":
        _close(state)


def _cut_text(failure: Failure) -> str:
    """The text that had come before the last failure; what a filter withheld is not told."""
    if failure.partial is None or failure.reason in (FailureReason.CONTENT_FILTER, FailureReason.EMPTY_REPLY):
        return ""
    return failure.partial.text if failure.partial.text.strip() else ""


def broken(state: TurnState, bug: BaseException) -> None:
    """End because of a bug, ours or in a policy of the user's; `Run.result()` raises it again."""
    bug.add_note(f"in turn {state.request.turn_id}, iteration {state.counts.iterations}")
    detail = in_words(bug)
    state.end(ExitReason.INTERNAL_ERROR, detail, text=f"The turn broke: {detail}.", error=bug)
    if state.history and state.history[-1].role == "tool":
        _close(state)


def _close(state: TurnState) -> None:
    """A closing word where the history ends with something that no one answers, so that roles alternate."""
    if state.unread and state.history[-1].role == "tool" and state.ending is not None:
        state.add(Message("assistant", f"[{state.ending.detail}]", origin="closing"))


def _so_far(state: TurnState, otherwise: str) -> str:
    """The model's last words in this turn."""
    for message in reversed(state.history):
        if message.role == "user" and not message.origin:
            break
        if message.role == "assistant" and message.text.strip():
            return message.text
    return otherwise


def _with_warning(content: Content, warning: str) -> Content:
    if isinstance(content, str):
        return f"{content}\n\n{warning}"
    return (*content, {"type": "text", "text": warning})
