"""What the references of a mixture read, and how the aggregator reads their advice. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_nb.vocabulary.messages import Content

LONGEST_RESULT = 4_000
"""Characters that a reference reads of one tool result, half from each end (as in Hermes 0.19)."""

ROLE = (
    "You advise another model, which will act. Below is its conversation with a user as text; calls of tools and their "
    "results are written in brackets. Say what you would do or answer next, and why, in a few sentences. You cannot "
    "call tools and the user does not read you."
)
NEXT = "What should be done or answered next?"
HEAD = "Advice from other models, for you only. The user has not seen it, and it may be wrong. Decide yourself."


@dataclass(frozen=True, slots=True)
class Advice:
    """What one reference said, or why it said nothing."""

    label: str
    text: str = ""
    failed: str = ""

    def __str__(self) -> str:
        return self.text.strip() or f"[no advice: {self.failed or 'it answered nothing'}]"


def advisory_view(messages: Sequence[Message], *, whole: bool) -> tuple[Message, ...]:
    """The conversation as the references read it: roles that alternate, text only, a question of the user at the end.

    Args:
        messages: Of the request.
        whole: False leaves out what came after the user's last prompt.
    """
    last = max((i for i, m in enumerate(messages) if m.role == "user" and not m.origin), default=-1)
    turns: list[tuple[str, list[str]]] = []
    for message in messages if whole else messages[: last + 1]:
        text = _told(message)
        if message.role == "system" or not text:
            continue
        role = "user" if message.role == "user" else "assistant"
        if not turns or turns[-1][0] != role:
            turns.append((role, []))
        turns[-1][1].append(text)
    if not turns or turns[-1][0] == "assistant":
        turns.append(("user", [NEXT]))
    said = (Message("user" if role == "user" else "assistant", "\n\n".join(texts)) for role, texts in turns)
    return (Message("system", ROLE), *said)


def _told(message: Message) -> str:
    """One message as text."""
    text = message.text.strip()
    if message.role == "tool":
        return f"[{message.name or 'the tool'} returned: {_middle_out(text)}]"
    if not text and not isinstance(message.content, str) and message.content:
        text = "[a picture]"
    calls = [f"[calls {call.name}({_middle_out(call.arguments)})]" for call in message.tool_calls]
    return "\n".join([text, *calls] if text else calls)


def _middle_out(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return text
    half = LONGEST_RESULT // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"


def fingerprint(view: Sequence[Message]) -> str:
    """Equal for two states on which the same advice would be asked."""
    said = json.dumps([(message.role, message.content) for message in view])
    return hashlib.sha256(said.encode()).hexdigest()


def advised(messages: tuple[Message, ...], advice: Sequence[Advice]) -> tuple[Message, ...]:
    """The messages with the advice at their very end, so that what stands before it can stay in a server's cache.

    A last message of the user grows; after any other a new one is put. Without any advice nothing is added.
    """
    if all(one.failed or not one.text.strip() for one in advice):
        return messages
    numbered = (f"{number}. {one.label}:\n{one}" for number, one in enumerate(advice, 1))
    text = "\n\n".join([HEAD, *numbered])
    last = messages[-1] if messages else None
    if last is None or last.role != "user":
        return (*messages, Message("user", text))
    return (*messages[:-1], replace(last, content=_with(last.content, text)))


def _with(content: Content, text: str) -> Content:
    if isinstance(content, str):
        return f"{content}\n\n{text}"
    return (*content, {"type": "text", "text": text})
