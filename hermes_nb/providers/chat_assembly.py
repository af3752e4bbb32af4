"""One reply of the chat-completions API, put together from what servers really send.

Pure: chunks or a body in, a `Reply` out. Knows the odd forms: usage anywhere, `choices` null or empty, reasoning under
three names, the legacy function call, errors in the middle; see `calls` for those of tool calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.providers.calls import Calls
from hermes_nb.providers.failures import event_of, malformed
from hermes_nb.providers.pieces import Pieces, cleaned
from hermes_nb.providers.usage import read_usage, widest
from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError
from hermes_nb.vocabulary.messages import Message, Reply

if TYPE_CHECKING:
    from hermes_nb.providers.base import OnText
    from hermes_nb.providers.sse import Json
    from hermes_nb.vocabulary.messages import FinishReason, Usage

FINISH: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",
    "sensitive": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "spii": "content_filter",
}
"""Finish reasons of all servers that mean more than a plain end; whatever else is said means that the model stopped."""

FAILED: dict[str, FailureReason] = {
    "error": FailureReason.SERVER_ERROR,
    "network_error": FailureReason.SERVER_ERROR,
    "abort": FailureReason.SERVER_ERROR,
    "insufficient_system_resource": FailureReason.OVERLOADED,
    "malformed_function_call": FailureReason.MALFORMED_REPLY,
}
"""Finish reasons that say that the reply is no reply."""


class ChatAssembly:
    """One reply of the chat-completions API under way.

    Attributes:
        finished: The server said why the model stopped.
    """

    def __init__(self, on_text: OnText, origin: str = "") -> None:
        self.finished = False
        self._on_text = on_text
        self._origin = origin
        self._text, self._reasoning, self._refusal, self._calls = Pieces(), Pieces(), Pieces(), Calls()
        self._details: list[Json] = []
        self._reasoning_field = ""
        self._finish = self._model = self._id = ""
        self._usage: Usage | None = None
        self._choice: Json = None  # the index of the choice that is read

    # -------------------------------------------------------------------------------------------- taking

    def feed(self, data: Json, name: str = "") -> bool:
        """Take one event of a stream.

        Returns:
            Whether it brought anything: text, reasoning, a piece of a call, an end.

        Raises:
            ProviderError: The event is an error.
        """
        if (event := event_of(data, name)) is None:
            return False
        choice = self._head(event)
        if choice is None:
            return False
        delta = choice.get("delta")
        if isinstance(delta, dict):
            moved = self._delta(delta)
        elif isinstance(message := choice.get("message"), dict) and not self.anything:
            moved = self._message(message)
        else:
            moved = self._say(choice.get("text"))
        return self._end(choice) or moved

    def whole(self, body: Json) -> None:
        """Take a reply that came in one piece.

        Raises:
            ProviderError: It is an error, or no reply.
        """
        if (reply := event_of(body)) is None:
            raise ProviderError(malformed(f"the reply is {type(body).__name__}, not an object"))
        choice = self._head(reply)
        if choice is None:
            raise ProviderError(malformed("the reply has no choices"))
        message = choice.get("message") or choice.get("delta")
        if isinstance(message, dict):
            self._message(message)
        elif not self._say(choice.get("text")):
            raise ProviderError(malformed("the reply has no message"))
        self._end(choice)
        self.finished = True

    def done(self) -> None:
        """The server said that nothing more will come."""
        self.finished = self.finished or self.anything

    def _head(self, data: dict[str, Json]) -> dict[str, Json] | None:
        """Note id, model and usage; gives the choice to read."""
        if not self._id and isinstance(identity := data.get("id"), str):
            self._id = identity
        if not self._model and isinstance(model := data.get("model"), str):
            self._model = model
        choices = data.get("choices")
        choice = next((c for c in choices if self._mine(c)), None) if isinstance(choices, list) else None
        if usage := read_usage(data) or (read_usage(choice) if choice and "usage" in choice else None):
            self._usage = widest(self._usage, usage)
        return choice

    def _mine(self, choice: Json) -> bool:
        if not isinstance(choice, dict):
            return False
        index = choice.get("index") or 0
        if self._choice is None:
            self._choice = index
        return bool(index == self._choice)

    def _delta(self, delta: dict[str, Json]) -> bool:
        moved = self._think(delta)
        content = delta.get("content")
        if content is not None:
            moved = self._say(content) or moved
        if refusal := delta.get("refusal"):
            moved = bool(self._refusal.add(str(refusal))) or moved
        calls = delta.get("tool_calls") or delta.get("function_call")
        if calls:
            moved = True
            if piece := self._calls.stream(calls):
                self._on_text(piece, "call")
        return moved

    def _message(self, message: dict[str, Json]) -> bool:
        calls = message.get("tool_calls") or message.get("function_call")
        self._delta({key: value for key, value in message.items() if key not in ("tool_calls", "function_call")})
        if calls:
            self._calls.whole(calls)
        return self.anything

    def _say(self, content: Json) -> bool:
        """Text, or content parts of several kinds."""
        if isinstance(content, str):
            if content and (shown := self._text.add(content)):
                self._on_text(shown)
            return bool(content)
        moved = False
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict):
                thought = part.get("thinking")
                moved = (self._reason(_joined(thought)) if thought else self._say(part.get("text"))) or moved
            elif isinstance(part, str):
                moved = self._say(part) or moved
        return moved

    def _think(self, delta: dict[str, Json]) -> bool:
        details = delta.get("reasoning_details")
        if isinstance(details, list):
            self._details.extend(details)
        for field in ("reasoning_content", "reasoning"):
            if isinstance(text := delta.get(field), str) and text:
                self._reasoning_field = field
                return self._reason(text)
        return self._reason(_joined(details)) if details else False

    def _reason(self, text: str) -> bool:
        if text and (shown := self._reasoning.add(text)):
            self._on_text(shown, "reasoning")
        return bool(text)

    def _end(self, choice: dict[str, Json]) -> bool:
        said = choice.get("finish_reason")
        if said is None or said == "":
            return False
        self._finish, self.finished = str(said).lower().rsplit(": ", 1)[-1], True
        if (reason := FAILED.get(self._finish)) and not self._calls:
            raise ProviderError(Failure(reason, f"the server ended the reply with {said!r}", error_type=self._finish))
        return True

    # -------------------------------------------------------------------------------------------- giving

    @property
    def anything(self) -> bool:
        """Whether text, reasoning or a call has come."""
        return bool(self._text or self._reasoning or self._calls or self._refusal)

    @property
    def usable(self) -> bool:
        """Whether a cut reply is worth keeping: it has text, or a call with a name."""
        return bool(str(self._text).strip() or self._calls.result(complete=False)[0])

    def message(self) -> Message:
        """What has come so far."""
        calls, extras = self._calls.result(complete=self.finished)
        extra: dict[str, Json] = {}
        if self._details:
            extra["reasoning_details"] = cleaned(self._details)
        if any(extras):
            extra["tool_calls"] = cleaned(extras)
        if self._reasoning_field and calls:
            extra["reasoning_field"] = self._reasoning_field
        if extra:
            extra["from"] = self._origin
        text = str(self._text) or ("" if calls else str(self._refusal))
        return Message("assistant", text, calls, reasoning=str(self._reasoning), extra=extra)

    def reply(self) -> Reply:
        """The reply; partial when the server did not say that it is over.

        Raises:
            ProviderError: Nothing came that could be a reply.
        """
        message = self.message()
        if not self.finished and not self.usable:
            what = "a call without a name" if self._calls else "nothing"
            failure = malformed(f"the stream ended with {what} in it")
            raise ProviderError(failure)
        if self._calls and not (message.tool_calls or message.text or message.reasoning):
            raise ProviderError(malformed("the reply holds a call without a name"))
        return Reply(
            message, self._reason_of(message), self._usage, self._model, self._id, partial=not self.finished
        )  # fmt: skip

    def _reason_of(self, message: Message) -> FinishReason:
        if not self.finished:
            return "unknown"
        if (known := FINISH.get(self._finish)) is not None:
            return known
        if message.tool_calls:
            return "tool_calls"
        return "content_filter" if self._refusal and not self._text else "stop"


def _joined(parts: Json) -> str:
    """The text of reasoning given in parts; parts without text give none."""
    if isinstance(parts, str):
        return parts
    found = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    texts = (part.get("text") or part.get("summary") for part in found)
    return "".join(text for text in texts if isinstance(text, str))
