"""The Messages API of Anthropic."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermes_nb.providers.anthropic_assembly import MessageAssembly
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
from hermes_nb.vocabulary.texts import json_object

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermes_nb.providers.base import ModelRequest, OnText
    from hermes_nb.providers.credentials import CredentialPool
    from hermes_nb.providers.http import Timeouts
    from hermes_nb.vocabulary.failures import Failure
    from hermes_nb.vocabulary.messages import Content, Message, ToolCall, ToolSpec

VERSION = "2023-06-01"
"""The version of the API, sent as `anthropic-version`."""

MAX_TOKENS = 8_192
"""The output cap where none is given, since the API wants one; where a model allows less, the loop lowers it."""

CONTEXT_WINDOW = 200_000
"""Tokens that every Claude model since 2.1 can read."""

_OWNED = frozenset({"messages", "tools", "system"})
_MARK = b',"cache_control":{"type":"ephemeral"}}'
_DATA_URL = re.compile(r"data:(?P<type>[\w/+.-]+);base64,(?P<data>.*)", re.DOTALL)


@dataclass(frozen=True, init=False, repr=False)
class Anthropic(RemoteProvider):
    """A model behind Anthropic's Messages API.

    Args:
        model: The model's name, as the server knows it.
        base_url: The server's address up to and with `/v1`; Anthropic's own if left out.
        api_key: A key, or a `CredentialPool`; taken from `ANTHROPIC_API_KEY` if left out.
        stream: Whether replies are streamed.
        timeout: `Timeouts`, or seconds for the whole reply.
        headers: Sent with each request (`anthropic-beta`); never shown.
        context_window: Tokens that the model can read.
        cache: Whether the prompt is marked for the server's cache, behind the system prompt and behind the last
            message.
        request_parameters: Everything else goes into the request: max_tokens, temperature, thinking, ...

    Raises:
        ConfigurationError: The key is missing, or an argument cannot work.
    """

    cache: bool

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | CredentialPool | None = None,
        stream: bool = True,
        timeout: Timeouts | float | None = None,
        headers: Mapping[str, str] | None = None,
        context_window: int | None = CONTEXT_WINDOW,
        cache: bool = True,
        **request_parameters: Any,
    ) -> None:
        url, credentials = place_of(ENDPOINTS["anthropic"], base_url, api_key)
        known = known_at(url)
        self._configure(
            model=checked_model(model),
            name=known.name if known else "anthropic",
            base_url=url,
            credentials=credentials,
            stream=bool(stream),
            timeouts=timeouts_of(timeout, local=on_this_machine(url)),
            headers=checked_headers(headers or {}),
            context_window=context_window,
            cache=bool(cache),
            request_parameters=checked_parameters(request_parameters, _OWNED),
        )

    def dialect(self) -> MessagesDialect:
        """How the Messages API speaks."""
        return MessagesDialect(self)


class MessagesDialect:
    """Requests and replies of the Messages API, for one connection."""

    path = "/messages"

    def __init__(self, provider: Anthropic) -> None:
        self._provider = provider
        host, port = provider.address
        self._origin = f"{provider.name}@{host}:{port}"
        self._fragments = Fragments(self._blocks)
        self._tools = Tools(_tool)
        self._mark = _MARK if provider.cache else b"}"
        self._send_thinking = True

    def headers(self, key: str) -> dict[str, str]:
        """The version, and the key where there is one."""
        return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}

    def assembly(self, on_text: OnText) -> MessageAssembly:
        """What puts the reply together."""
        return MessageAssembly(on_text, self._origin)

    def encode(self, request: ModelRequest, *, stream: bool) -> bytes:
        """The body: parameters, then tools, system prompt and messages, in the order in which the server caches."""
        parts = [to_json({"model": self._provider.model, **self._parameters(request, stream=stream)})[:-1]]
        parts += self._told_tools(request)
        if system := self._fragments.joined(m for m in request.messages if m.role == "system"):
            parts.append(b',"system":[' + system[:-1] + self._mark + b"]")
        parts.append(b',"messages":[' + self._turns(request.messages) + b"]}")
        self._fragments.forget(request.messages)
        return b"".join(parts)

    def _parameters(self, request: ModelRequest, *, stream: bool) -> dict[str, Any]:
        parameters = dict(self._provider.request_parameters)
        thinking = parameters.get("thinking")
        budget = thinking.get("budget_tokens") or 0 if isinstance(thinking, dict) else 0
        parameters["max_tokens"] = request.max_tokens or parameters.get("max_tokens") or MAX_TOKENS + budget
        if not request.tools:
            parameters.pop("tool_choice", None)
        return parameters | ({"stream": True} if stream else {})

    def _told_tools(self, request: ModelRequest) -> list[bytes]:
        """The tools. A history with calls needs them also where no call is wanted: then they are forbidden."""
        forbidden = b',"tool_choice":{"type":"none"}'
        if request.tools:
            told = self._tools.json(request.tools)
            return [b',"tools":' + told, forbidden if request.tool_choice == "none" else b""]
        used = dict.fromkeys(_name(call.name) for message in request.messages for call in message.tool_calls)
        known = [{"name": name, "input_schema": {"type": "object"}} for name in used]
        return [b',"tools":' + to_json(known), forbidden] if known else []

    def _turns(self, messages: Iterable[Message]) -> bytes:
        """The messages; neighbours of one role become one message, as the API wants them to alternate."""
        turns: list[tuple[bytes, list[bytes]]] = []
        for message in messages:
            blocks = self._fragments.joined((message,)) if message.role != "system" else b""
            role = b"assistant" if message.role == "assistant" else b"user"
            if blocks and turns and turns[-1][0] == role:
                turns[-1][1].append(blocks)
            elif blocks:
                turns.append((role, [blocks]))
        if turns and turns[-1][0] == b"user":
            turns[-1][1][-1] = turns[-1][1][-1][:-1] + self._mark
        return b",".join(b'{"role":"%b","content":[%b]}' % (role, b",".join(blocks)) for role, blocks in turns)

    def _blocks(self, message: Message) -> bytes:
        """The content blocks of one message, as the inside of an array."""
        if message.role == "tool":
            result = {
                "type": "tool_result",
                "tool_use_id": _id(message.tool_call_id or ""),
                "content": _parts(message.content),
            }
            return to_json(result)
        blocks: list[dict[str, Any]] = []
        if self._send_thinking and message.extra.get("from") == self._origin:
            blocks += message.extra.get("thinking") or []
        blocks += _parts(message.content)
        blocks += map(_use, message.tool_calls)
        return b",".join(map(to_json, blocks))

    def adapt(self, failure: Failure) -> bool:
        """Learn that a signed thought is not accepted any more, or that the server knows no cache marks."""
        if self._send_thinking and re.search(r"signature|thinking.{0,20} block", failure.message):
            self._send_thinking = False
            self._fragments.clear()
            return True
        if self._mark == _MARK and "cache_control" in failure.message:
            self._mark = b"}"
            return True
        return False


def _tool(spec: ToolSpec) -> dict[str, Any]:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _use(call: ToolCall) -> dict[str, Any]:
    return {
        "type": "tool_use",
        "id": _id(call.id),
        "name": _name(call.name),
        "input": json_object(call.arguments) or {},
    }


def _id(identity: str) -> str:
    """An id with the letters that the API accepts; ids of other servers may have more."""
    return re.sub(r"[^\w-]", "_", identity, flags=re.ASCII) or "_"


def _name(name: str) -> str:
    return _id(name)[:128]


def _parts(content: Content) -> list[dict[str, Any]]:
    """Content in the API's form: text, and pictures; empty text is refused by the API and left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    found = []
    for part in content:
        if part.get("type") == "image_url":
            found.append(_image(part["image_url"]))
        elif part.get("type") != "text" or str(part.get("text", "")).strip():
            found.append(dict(part))
    return found


def _image(image: str | Mapping[str, Any]) -> dict[str, Any]:
    url = image if isinstance(image, str) else str(image.get("url", ""))
    if inline := _DATA_URL.fullmatch(url):
        return {"type": "image", "source": {"type": "base64", "media_type": inline["type"], "data": inline["data"]}}
    return {"type": "image", "source": {"type": "url", "url": url}}
