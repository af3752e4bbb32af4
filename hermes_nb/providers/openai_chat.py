"""The chat-completions API: OpenAI, and every server that speaks like it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_nb.providers.chat_assembly import ChatAssembly
from hermes_nb.providers.encoding import Fragments, Tools, to_json
from hermes_nb.providers.endpoints import ENDPOINTS, known_at
from hermes_nb.providers.http import timeouts_of
from hermes_nb.providers.remote import RemoteProvider
from hermes_nb.providers.settings import (
    checked_headers,
    checked_model,
    checked_parameters,
    on_this_machine,
    place_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.base import ModelRequest, OnText
    from hermes_nb.providers.credentials import CredentialPool
    from hermes_nb.providers.http import Timeouts
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Message, ToolCall, ToolSpec

_OWNED = frozenset({"messages", "tools", "stream_options"})
_REFUSED = re.compile(
    r"unknown|unexpected|not (?:allowed|permitted|supported)|extra|unrecognized|forbidden", re.IGNORECASE
)
_REASONING_MODELS = re.compile(r"o\d|gpt-5", re.IGNORECASE)


@dataclass(frozen=True, init=False, repr=False)
class OpenAIChat(RemoteProvider):
    """A model behind a chat-completions API.

    Args:
        model: The model's name, as the server knows it.
        base_url: The server's address up to and with `/v1`; OpenAI's own if left out.
        api_key: A key, or a `CredentialPool`; an empty text for a server that wants none. If left out, it is taken
            from the environment variable of a known server.
        stream: Whether replies are streamed.
        timeout: `Timeouts`, or seconds for the whole reply; the defaults are longer for servers on this machine.
        headers: Sent with each request; never shown.
        name: The provider's name; found by the address if left out.
        context_window: Tokens that the model can read, if known.
        send_reasoning: Whether an assistant message goes out with its reasoning (`reasoning_content`). None: only
            messages with tool calls, back to the server that reasoned in that field. When a server refuses or
            misses the field, the rest of the turn does the opposite.
        request_parameters: Everything else goes into the request: temperature, max_tokens, seed, response_format...

    Raises:
        ConfigurationError: The key is missing, or an argument cannot work.
    """

    send_reasoning: bool | None

    def __init__(  # noqa: PLR0913  each is a setting of its own, by keyword
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | CredentialPool | None = None,
        stream: bool = True,
        timeout: Timeouts | float | None = None,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        context_window: int | None = None,
        send_reasoning: bool | None = None,
        **request_parameters: Any,
    ) -> None:
        url, credentials = place_of(ENDPOINTS["openai"], base_url, api_key)
        known = known_at(url)
        self._configure(
            model=checked_model(model),
            name=name or (known.name if known else "openai"),
            base_url=url,
            credentials=credentials,
            stream=bool(stream),
            timeouts=timeouts_of(timeout, local=on_this_machine(url)),
            headers=checked_headers(headers or {}),
            context_window=context_window,
            send_reasoning=send_reasoning,
            request_parameters=checked_parameters(request_parameters, _OWNED),
        )

    def dialect(self) -> ChatDialect:
        """How the chat-completions API speaks."""
        return ChatDialect(self)


class ChatDialect:
    """Requests and replies of the chat-completions API, for one connection."""

    path = "/chat/completions"

    def __init__(self, provider: OpenAIChat) -> None:
        self._provider = provider
        host, port = provider.address
        self._origin = f"{provider.name}@{host}:{port}"
        self._fragments = Fragments(self._message)
        self._tools = Tools(_function)
        self._send_reasoning = provider.send_reasoning
        self._dropped: set[str] = set()
        official = host == "api.openai.com" and _REASONING_MODELS.match(provider.model)
        newer = official or "max_completion_tokens" in provider.request_parameters
        self._cap = "max_completion_tokens" if newer else "max_tokens"
        self._short_ids = provider.name == "mistral"

    def headers(self, key: str) -> dict[str, str]:
        """The key as a bearer token; nothing where there is none."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def assembly(self, on_text: OnText) -> ChatAssembly:
        """What puts the reply together."""
        return ChatAssembly(on_text, self._origin)

    def encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The body: parameters, then tools, then the messages, each encoded once."""
        head = to_json({"model": self._provider.model, **self._parameters(request, stream=stream)})
        parts = [head[:-1]]
        if request.tools and request.tool_choice != "none":
            parts.append(b',"tools":' + self._tools.json(request.tools))
        parts.append(b',"messages":[' + self._fragments.history(request.messages) + b"]}")
        self._fragments.forget(request.messages)
        return b"".join(parts)

    def _parameters(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        parameters = dict(self._provider.request_parameters)
        asked = (
            request.max_tokens or parameters.pop("max_tokens", None) or parameters.pop("max_completion_tokens", None)
        )
        if asked is not None:
            parameters.pop("max_tokens", None)
            parameters.pop("max_completion_tokens", None)
            parameters[self._cap] = asked
        if request.tool_choice == "none" or not request.tools:
            parameters.pop("tool_choice", None)
            parameters.pop("parallel_tool_calls", None)
        if stream:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        return {key: value for key, value in parameters.items() if key not in self._dropped}

    def _message(self, message: Message) -> bytes:
        content: Any = message.content if isinstance(message.content, str) else list(message.content)
        wire: dict[str, Any] = {"role": message.role, "content": content}
        if message.role == "tool":
            wire["tool_call_id"] = self._id(message.tool_call_id or "")
        elif message.role == "assistant":
            self._assistant(message, wire)
        return to_json(wire)

    def _assistant(self, message: Message, wire: dict[str, Any]) -> None:
        own = message.extra if message.extra.get("from") == self._origin else {}
        if message.tool_calls:
            wire["content"] = wire["content"] or None
            wire["tool_calls"] = list(map(self._call, message.tool_calls))
            if len(kept := own.get("tool_calls") or ()) == len(message.tool_calls):
                wire["tool_calls"] = [call | extra for call, extra in zip(wire["tool_calls"], kept, strict=True)]
        if details := own.get("reasoning_details"):
            wire["reasoning_details"] = details
        if message.reasoning and self._wants_reasoning(message, own):
            wire["reasoning_content"] = message.reasoning

    def _call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": self._id(call.id), "type": "function", "function": function}

    def _id(self, identity: str) -> str:
        """The id of a call; Mistral takes nine letters and digits and nothing else."""
        if not self._short_ids or re.fullmatch(r"[a-zA-Z0-9]{9}", identity):
            return identity
        return hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:9]

    def _wants_reasoning(self, message: Message, own: Mapping[str, Any]) -> bool:
        if self._send_reasoning is not None:
            return self._send_reasoning
        return bool(message.tool_calls) and own.get("reasoning_field") == "reasoning_content"

    def adapt(self, failure: Failure) -> bool:
        """Learn which field a server refuses, or misses."""
        said = failure.message
        if "reasoning_content" in said:
            wanted = not _REFUSED.search(said)
            if self._send_reasoning is wanted:
                return False
            self._send_reasoning = wanted
            self._fragments.clear()
            return True
        if "length of 9" in said and not self._short_ids:
            self._short_ids = True
            self._fragments.clear()
            return True
        if "max_completion_tokens" in said and self._cap == "max_tokens":
            self._cap = "max_completion_tokens"
            return True
        for field in ("stream_options", "parallel_tool_calls"):
            if field in said and field not in self._dropped:
                self._dropped.add(field)
                return True
        return False


def _function(spec: ToolSpec) -> dict[str, Any]:
    told = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": told}
