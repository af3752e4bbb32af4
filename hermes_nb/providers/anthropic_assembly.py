"""One reply of the Messages API, put together from events or from one body. Pure."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING

from hermes_nb.providers.failures import event_of, malformed
from hermes_nb.providers.pieces import Pieces
from hermes_nb.providers.usage import read_usage, widest
from hermes_nb.vocabulary.failures import ProviderError
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall
from hermes_nb.vocabulary.texts import mended

if TYPE_CHECKING:
    from hermes_nb.providers.base import OnText
    from hermes_nb.providers.sse import Json
    from hermes_nb.vocabulary.messages import FinishReason, Usage

STOPS: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Stop reasons of the API that mean more than a plain end; whatever else is said means that the model stopped."""


class _Block:
    """One content block under way; `fields` are those it began with."""

    __slots__ = ("fields", "json", "kind", "signature", "text")

    def __init__(self, fields: dict[str, Json]) -> None:
        self.fields = fields
        self.kind = str(fields.get("type"))
        self.text = Pieces()
        self.json: list[str] = []
        self.signature = signature if isinstance(signature := fields.get("signature"), str) else ""

    def arguments(self, *, complete: bool) -> str:
        """The input of a call as JSON text; empty where a cut call has none yet."""
        if self.json:
            return mended("".join(self.json))
        given = self.fields.get("input")
        return json.dumps(given) if given or complete else ""

    def thought(self) -> dict[str, Json] | None:
        """A thinking block that can go back: whole and signed, or sealed."""
        if self.kind == "redacted_thinking":
            sealed = self.fields.get("data")
            return {"type": self.kind, "data": mended(sealed)} if isinstance(sealed, str) else None
        if self.kind != "thinking" or not self.signature:
            return None
        return {"type": "thinking", "thinking": str(self.text), "signature": mended(self.signature)}


class MessageAssembly:
    """One reply of the Messages API under way.

    Attributes:
        finished: The server said why the model stopped.
    """

    def __init__(self, on_text: OnText, origin: str = "") -> None:
        self.finished = False
        self._on_text = on_text
        self._origin = origin
        self._blocks: dict[Json, _Block] = {}
        self._stop = self._model = self._id = ""
        self._usage: Usage | None = None

    # -------------------------------------------------------------------------------------------- taking

    def feed(self, data: Json, name: str = "") -> bool:
        """Take one event of a stream.

        Returns:
            Whether it brought anything: text, thinking, a piece of a call, an end.

        Raises:
            ProviderError: The event is an error.
        """
        if (event := event_of(data, name)) is None:
            return False
        self._count(event)
        match event.get("type"):
            case "message_start":
                self._head(event.get("message"))
            case "content_block_start":
                return self._begin(event.get("index"), event.get("content_block"))
            case "content_block_delta":
                return self._grow(event.get("index"), event.get("delta"))
            case "message_delta":
                return self._end(event.get("delta"))
            case "message_stop":
                self.done()
        return False

    def whole(self, body: Json) -> None:
        """Take a reply that came in one piece.

        Raises:
            ProviderError: It is an error, or no reply.
        """
        reply = event_of(body)
        content = None if reply is None else reply.get("content")
        if not isinstance(content, list):
            raise ProviderError(malformed("the reply has no content"))
        self._head(body)
        for index, block in enumerate(content):
            self._begin(index, block)
        self._end(body)
        self.finished = True

    def done(self) -> None:
        """The server said that nothing more will come."""
        self.finished = self.finished or self.anything

    def _head(self, message: Json) -> None:
        if isinstance(message, dict):
            self._id = str(message.get("id") or self._id)
            self._model = str(message.get("model") or self._model)
            self._count(message)

    def _count(self, data: dict[str, Json]) -> None:
        if usage := read_usage(data):
            self._usage = widest(self._usage, usage)

    def _begin(self, index: Json, fields: Json) -> bool:
        if not isinstance(fields, dict):
            return False
        block = self._blocks[_key(index, len(self._blocks))] = _Block(fields)
        text = fields.get("thinking" if block.kind == "thinking" else "text")
        return self._say(block, text) or block.kind in ("tool_use", "redacted_thinking")

    def _grow(self, index: Json, delta: Json) -> bool:
        block = self._blocks.get(_key(index, len(self._blocks) - 1))
        if block is None or not isinstance(delta, dict):
            return False
        if isinstance(signature := delta.get("signature"), str):
            block.signature += signature
        piece = delta.get("partial_json")
        if isinstance(piece, str) and piece:
            block.json.append(piece)
            self._on_text(piece, "call")
            return True
        return self._say(block, delta.get("text") or delta.get("thinking"))

    def _say(self, block: _Block, text: Json) -> bool:
        if not isinstance(text, str) or not text:
            return False
        if shown := block.text.add(text):
            self._on_text(shown, "reasoning") if block.kind == "thinking" else self._on_text(shown)
        return True

    def _end(self, delta: Json) -> bool:
        stop = delta.get("stop_reason") if isinstance(delta, dict) else None
        if isinstance(stop, str) and stop:
            self._stop, self.finished = stop, True
        return bool(stop)

    # -------------------------------------------------------------------------------------------- giving

    @property
    def anything(self) -> bool:
        """Whether text, thinking or a call has come."""
        return any(block.text or block.kind in ("tool_use", "redacted_thinking") for block in self._blocks.values())

    @property
    def usable(self) -> bool:
        """Whether a cut reply is worth keeping: it has text, or a call with a name."""
        message = self.message()
        return bool(message.text.strip() or message.tool_calls)

    def message(self) -> Message:
        """What has come so far."""
        blocks = list(self._blocks.values())
        thoughts = [thought for block in blocks if (thought := block.thought())]
        return Message(
            "assistant",
            "".join(str(block.text) for block in blocks if block.kind == "text"),
            self._calls(blocks),
            reasoning="".join(str(block.text) for block in blocks if block.kind == "thinking"),
            extra={"from": self._origin, "thinking": thoughts} if thoughts else {},
        )

    def _calls(self, blocks: list[_Block]) -> tuple[ToolCall, ...]:
        calls, taken = [], set()
        for block in blocks:
            name, identity = block.fields.get("name"), block.fields.get("id")
            if block.kind != "tool_use" or not isinstance(name, str) or not name.strip():
                continue
            if not isinstance(identity, str) or not identity or identity in taken:
                identity = f"toolu_{secrets.token_hex(12)}"
            taken.add(identity)
            calls.append(ToolCall(identity, mended(name.strip()), block.arguments(complete=self.finished)))
        return tuple(calls)

    def reply(self) -> Reply:
        """The reply; partial when the server did not say that it is over.

        Raises:
            ProviderError: Nothing came that could be a reply.
        """
        message = self.message()
        if not self.finished and not (message.text.strip() or message.tool_calls):
            raise ProviderError(malformed("the stream ended with nothing in it"))
        finish: FinishReason = STOPS.get(self._stop, "stop") if self.finished else "unknown"
        if finish == "stop" and message.tool_calls:
            finish = "tool_calls"
        return Reply(message, finish, self._usage, self._model, self._id, partial=not self.finished)


def _key(index: Json, default: int) -> int:
    return index if isinstance(index, int) else default
