"""Well-formed replies of model servers, in the shape that a request asks for."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ids = itertools.count(1)


def sse_bytes(event: Any, name: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode()


@dataclass(frozen=True)
class Reply:
    """What a model says.

    `calls` are pairs of tool and arguments; among the arguments `id` sets the call's id, and `raw` the text of the
    arguments as it is. `usage` is input and output tokens, or None for a server that does not count.
    """

    text: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    reasoning: str = ""
    finish: str = ""
    usage: tuple[int, int] | None = (10, 5)
    model: str = "scripted"

    def shape(self, path: str, body: Mapping[str, Any]) -> tuple[bool, tuple[bytes, ...]]:
        """Whether it is streamed, and the pieces of the body."""
        streamed = bool(body.get("stream"))
        if path.endswith("/messages"):
            return streamed, tuple(self._anthropic_events()) if streamed else (json.dumps(self._anthropic()).encode(),)
        if not streamed:
            return False, (json.dumps(self.completion()).encode(),)
        counted = bool((body.get("stream_options") or {}).get("include_usage"))
        return True, (*(sse_bytes(chunk) for chunk in self.chunks(counted=counted)), b"data: [DONE]\n\n")

    @property
    def pieces(self) -> list[str]:
        """The text, word by word."""
        return re.findall(r"\s*\S+\s*$|\s*\S+|\s+", self.text)

    def _wire_calls(self) -> list[dict[str, Any]]:
        out = []
        for name, arguments in self.calls:
            given = dict(arguments)
            identity = given.pop("id", f"call_{next(_ids)}")
            raw = given.pop("raw", None)
            text = json.dumps(given) if raw is None else raw
            out.append({"id": identity, "type": "function", "function": {"name": name, "arguments": text}})
        return out

    def _finish(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def _usage(self) -> dict[str, int] | None:
        if self.usage is None:
            return None
        return dict(
            zip(("prompt_tokens", "completion_tokens", "total_tokens"), (*self.usage, sum(self.usage)), strict=True)
        )

    def completion(self) -> dict[str, Any]:
        """The whole reply in OpenAI's form."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self._wire_calls()
        choice = {"index": 0, "message": message, "finish_reason": self._finish()}
        reply = {"id": "resp_1", "object": "chat.completion", "model": self.model, "choices": [choice]}
        return reply | ({"usage": usage} if (usage := self._usage()) else {})

    def chunks(self, *, counted: bool = True) -> list[dict[str, Any]]:
        """The reply as OpenAI streams it."""
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
        deltas += [{"reasoning_content": self.reasoning}] if self.reasoning else []
        deltas += [{"content": piece} for piece in self.pieces]
        for index, made in enumerate(self._wire_calls()):
            arguments = made["function"].pop("arguments")
            deltas.append({"tool_calls": [{**made, "index": index}]})
            for start in range(0, len(arguments), 7):
                deltas.append(
                    {"tool_calls": [{"index": index, "function": {"arguments": arguments[start : start + 7]}}]}
                )
        head = {"id": "resp_1", "object": "chat.completion.chunk", "model": self.model}
        out = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        out.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": self._finish()}]})
        if counted and self.usage is not None:
            out.append({**head, "choices": [], "usage": self._usage()})
        return out

    # -------------------------------------------------------------------------------------------- Anthropic

    def _blocks(self) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        if self.reasoning:
            blocks.append({"type": "thinking", "thinking": self.reasoning, "signature": "signed"})
        if self.text:
            blocks.append({"type": "text", "text": self.text})
        for made in self._wire_calls():
            function = made["function"]
            blocks.append(
                {"type": "tool_use", "id": made["id"], "name": function["name"], "input": function["arguments"]}
            )
        return blocks

    def _anthropic(self) -> dict[str, Any]:
        content = [b | ({"input": _value(b["input"])} if b["type"] == "tool_use" else {}) for b in self._blocks()]
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": content,
            "stop_reason": self._stop(), "usage": self._anthropic_usage(),
        }  # fmt: skip

    def _stop(self) -> str:
        return {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}.get(
            self._finish(), self._finish()
        )

    def _anthropic_usage(self) -> dict[str, int]:
        given, made = self.usage or (0, 0)
        return {"input_tokens": given, "output_tokens": made}

    def _anthropic_events(self) -> list[bytes]:
        start = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model, "content": []}
        usage = self._anthropic_usage()
        out = [
            {"type": "message_start", "message": {**start, "usage": {**usage, "output_tokens": 1}}},
            {"type": "ping"},
        ]
        for index, block in enumerate(self._blocks()):
            out.extend(_anthropic_block(index, block))
        out.append({"type": "message_delta", "delta": {"stop_reason": self._stop()}, "usage": usage})
        out.append({"type": "message_stop"})
        return [sse_bytes(event, str(event["type"])) for event in out]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_EMPTY: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
_DELTA = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "tool_use": ("input_json_delta", "partial_json"),
}


def _anthropic_block(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    kind = block["type"]
    delta, key = _DELTA[kind]
    text = block["input" if kind == "tool_use" else kind]
    deltas = [{"type": delta, key: text[start : start + 7]} for start in range(0, len(text), 7)]
    if kind == "thinking":
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return [
        {"type": "content_block_start", "index": index, "content_block": block | _EMPTY[kind]},
        *({"type": "content_block_delta", "index": index, "delta": piece} for piece in deltas),
        {"type": "content_block_stop", "index": index},
    ]
