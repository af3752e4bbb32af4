"""Conversations to be made smaller: by hand, and at random."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from hermes_nb.vocabulary.messages import Message, ToolCall

if TYPE_CHECKING:
    from collections.abc import Sequence

_ids = itertools.count(1)


def user(text: str) -> Message:
    return Message("user", text)


def assistant(text: str) -> Message:
    return Message("assistant", text)


def steer(text: str) -> Message:
    return Message("user", text, origin="steer")


def round_of(*results: str, name: str = "read", text: str = "", arguments: str = "{}") -> list[Message]:
    """One assistant message with as many calls as there are results, and the results."""
    calls = tuple(ToolCall(f"id{next(_ids)}", name, arguments) for _ in results)
    answers = [Message("tool", r, tool_call_id=c.id, name=name) for c, r in zip(calls, results, strict=True)]
    return [Message("assistant", text, tool_calls=calls), *answers]


def tool_loop(rounds: int, size: int, prompt: str = "Find the answer.") -> list[Message]:
    """One prompt, and rounds of one call each, whose results have `size` characters and differ."""
    history = [user(prompt)]
    for number in range(rounds):
        body = (f"line {number} of the file; " * (size // 10))[:size]
        history += round_of(body, arguments=f'{{"path": "file_{number}.txt"}}')
    return history


def fault_in_pairs(history: Sequence[Message]) -> str:
    """What a strict server would refuse: a result without its call, or a call without its result, in order."""
    open_calls: list[str | None] = []
    for message in history:
        if message.role == "tool":
            if not open_calls or message.tool_call_id != open_calls[0]:
                return f"a result of {message.tool_call_id} where {open_calls} are awaited"
            open_calls.pop(0)
        elif message.origin != "steer":
            if open_calls:
                return f"{open_calls} were not answered before a message of the {message.role}"
            open_calls = [call.id for call in message.tool_calls]
    return f"{open_calls} were not answered" if open_calls else ""


texts = st.integers(0, 400).map(lambda n: ("word " * n)[: n * 4])


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """A valid history: prompts, answers, rounds of one to four calls, steers after results, at most one summary."""
    history = [Message("user", "summary so far", origin="summary")] if draw(st.booleans()) else []
    history.append(user("first prompt " + draw(texts)))
    for kind in draw(st.lists(st.sampled_from(["round", "round", "round", "talk", "steer"]), max_size=25)):
        if kind == "round":
            size = draw(st.sampled_from([3, 150, 400, 3_000]))
            results = [f"{next(_ids)} " + "r" * size for _ in range(draw(st.integers(1, 4)))]
            history += round_of(*results, arguments=f'{{"a": "{"x" * draw(st.sampled_from([3, 900]))}"}}')
        elif kind == "talk":
            history += [assistant("answer " + draw(texts)), user(f"prompt {next(_ids)} " + draw(texts))]
        elif history[-1].role == "tool":
            history.append(steer(f"steer {next(_ids)}"))
    return history
