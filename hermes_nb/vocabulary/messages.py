"""Messages, tool calls and replies: what goes to a model and what comes back."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self

Role = Literal["system", "user", "assistant", "tool"]
Content = str | tuple[dict[str, Any], ...]
"""Text, or content parts in the OpenAI form (`{"type": "text", "text": ...}`, `{"type": "image_url", ...}`)."""

Origin = Literal["", "steer", "summary", "continuation", "closing"]
"""Why a message that neither the user's prompt nor the model wrote is in the history; empty for ordinary ones."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asked for.

    Attributes:
        id: Identifies the call; unique within the conversation.
        name: The tool's name, as the model wrote it.
        arguments: JSON text, as the model wrote it; it may be broken.
    """

    id: str
    name: str
    arguments: str = "{}"


def is_part(value: object) -> bool:
    """Whether something is a content part that can be sent: its text is text, its picture has an address."""
    if not isinstance(value, Mapping) or not isinstance(kind := value.get("type"), str):
        return False
    if kind == "text":
        return isinstance(value.get("text"), str)
    picture = value.get("image_url")
    return kind != "image_url" or isinstance(picture.get("url") if isinstance(picture, Mapping) else picture, str)


@dataclass(frozen=True, slots=True)
class Message:
    """One row of a conversation. Compared by value; never changed in place.

    Attributes:
        role: Who speaks.
        content: Text, or content parts.
        tool_calls: What an assistant message asks for.
        tool_call_id: On a tool message, the call that it answers.
        name: On a tool message, the tool's name.
        reasoning: Thinking text that came with an assistant message; sent back only where a server wants it.
        origin: Set on messages that the loop put in (a steer, a summary, a request to continue, a closing word).
        extra: Fields of one provider that must go back unchanged (signed thinking blocks, reasoning details).
        facts: What the model is told behind the user's words, in what is sent only: what has changed since the system
            prompt was made.
    """

    role: Role
    content: Content = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str = ""
    origin: Origin = ""
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    facts: str = ""

    @property
    def text(self) -> str:
        """The text of the content; parts that are not text are left out."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part["text"] for part in self.content if part.get("type") == "text")

    def as_dict(self) -> dict[str, Any]:
        """The message in the OpenAI chat form, with `reasoning`, `origin` and `facts` added where they are set."""
        content = self.content if isinstance(self.content, str) else [dict(part) for part in self.content]
        out: dict[str, Any] = {"role": self.role, "content": content}
        if self.tool_calls:
            out["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.tool_calls
            ]
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        for key in ("name", "reasoning", "origin", "extra", "facts"):
            if value := getattr(self, key):
                out[key] = dict(value) if key == "extra" else value
        return out

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A message from its OpenAI chat form.

        Raises:
            ValueError: The role is missing or unknown, or a tool call has no function.
        """
        role = data.get("role")
        if role not in ("system", "user", "assistant", "tool"):
            msg = f"a message needs a role of system, user, assistant or tool, not {role!r}"
            raise ValueError(msg)
        content = data.get("content")
        return cls(
            role=role,
            content=content if isinstance(content, str) else tuple(dict(part) for part in content or ()) or "",
            tool_calls=tuple(map(_call_from_dict, data.get("tool_calls") or ())),
            tool_call_id=data.get("tool_call_id"),
            name=data.get("name"),
            reasoning=data.get("reasoning") or "",
            origin=data.get("origin") or "",
            extra=dict(data.get("extra") or {}),
            facts=data.get("facts") or "",
        )


def _call_from_dict(data: Mapping[str, Any]) -> ToolCall:
    function = data.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        msg = f"a tool call needs a function with a name, not {function!r}"
        raise ValueError(msg)
    arguments = function.get("arguments")
    return ToolCall(id=str(data.get("id") or ""), name=function["name"], arguments=arguments or "{}")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several replies. Input includes cached tokens, output includes reasoning tokens."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The sum, field by field."""
        return Usage(*map(operator.add, _COUNTS(self), _COUNTS(other)))


_COUNTS = operator.attrgetter(*(field.name for field in fields(Usage)))


FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "unknown"]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered, normalised over all providers.

    Attributes:
        message: The assistant's message: text, tool calls, reasoning.
        finish_reason: Why the model stopped; `unknown` where the server did not say (a cut stream).
        usage: Tokens as the server counted them; None where it did not.
        model: The model that the server says answered; empty if it does not say.
        response_id: The server's id of the response; empty if it gave none.
        others: Provider, model and tokens of other models that were asked for this reply (a mixture's references);
            `usage` does not count them.
        partial: The stream ended before the reply was complete.
        time_to_first_chunk: Seconds from the request to the first streamed text or call; None if not streamed.
        injected: The fault that was injected here, if one was; see `hermes_nb.Faults`.
    """

    message: Message
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    model: str = ""
    response_id: str = ""
    others: tuple[tuple[str, str, Usage], ...] = ()
    partial: bool = False
    time_to_first_chunk: float | None = None
    injected: str = ""

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The calls that the message asks for."""
        return self.message.tool_calls

    def with_(self, **changes: Any) -> Reply:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool.

    Attributes:
        name: By which it is called.
        description: What it does.
        parameters: A JSON schema of its arguments.
        guidance: When and how to use it; stands in the system prompt.
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(hash=False)
    guidance: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The end of one tool call, as the model will read it.

    Attributes:
        call: The call that this answers.
        content: Bounded text, or content parts.
        status: `ok`; `error` when the tool raised or the call was refused; `cancelled` when it was stopped and
            its effect is unknown; `skipped` when it never began; `timeout` when it was given up.
        error_type: Low-cardinality name of what went wrong; empty on success.
        value: What the tool returned, whole; None where it returned nothing.
        truncated: The content is shorter than the value; `stored_at` tells where the rest is.
        stored_at: A place where the full text can be read; empty if the content is complete.
    """

    call: ToolCall
    content: Content
    status: Literal["ok", "error", "cancelled", "skipped", "timeout"] = "ok"
    error_type: str = ""
    value: Any = field(default=None, compare=False)
    truncated: bool = False
    stored_at: str = ""

    def as_message(self) -> Message:
        """The tool message that answers the call."""
        return Message("tool", self.content, tool_call_id=self.call.id, name=self.call.name)
