"""Calls that a small model writes as plain JSON into its text, where the engine does not recognise them."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any, Literal

from hermes_nb.vocabulary.messages import ToolCall
from hermes_nb.vocabulary.texts import json_object

if TYPE_CHECKING:
    from hermes_nb.providers.base import OnText
    from hermes_nb.vocabulary.messages import Reply, ToolSpec

BEGINNINGS = ("{", "```json")


def call_in_text(reply: Reply, tools: tuple[ToolSpec, ...]) -> ToolCall | None:
    """The call that a whole text is: `{"name": a tool, "arguments": {...}}`, bare or in a code block."""
    if reply.tool_calls or reply.finish_reason != "stop":
        return None
    text = re.sub(r"^```json\s*(.*?)\s*```$", r"\1", reply.text.strip(), flags=re.DOTALL)
    said = json_object(text)
    if said is None or said.keys() != {"name", "arguments"} or not isinstance(said["arguments"], dict):
        return None
    if said["name"] not in [tool.name for tool in tools]:
        return None
    return ToolCall(f"call_{secrets.token_hex(12)}", said["name"], json.dumps(said["arguments"]))


class HeldBack:
    """An `on_text` that keeps back what may become a call, so that nobody sees a call typed as an answer."""

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._held: str | None = ""

    def __call__(self, piece: str, *part: Any) -> None:
        if self._held is None or part not in ((), ("text",)):
            self._on_text(piece, *part)
            return
        self._held += piece
        seen = self._held.lstrip()
        if not any(seen.startswith(beginning) or beginning.startswith(seen) for beginning in BEGINNINGS):
            self.release("text")

    def release(self, part: Literal["text", "call"]) -> None:
        """Pass on what is held, as what it is, and hold nothing more."""
        held, self._held = self._held, None
        if held:
            self._on_text(held, part)
