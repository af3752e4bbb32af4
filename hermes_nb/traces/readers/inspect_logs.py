"""Logs of inspect_ai, read by inspect_ai itself where it is installed: a sample is a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps
from hermes_nb.traces.rows import EventRow, MessageRow, SpanRow, made_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from pathlib import Path

    from hermes_nb.traces.readers.report import File
    from hermes_nb.traces.rows import Row

_FINISH: Final = {
    "stop": "stop",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
}


def is_log(value: Any) -> bool:
    """Whether a JSON document is one of inspect's logs."""
    return isinstance(value, dict) and {"version", "status", "eval"} <= value.keys()


def rows(path: Path, file: File) -> Iterator[Row]:
    """The rows of a log (`.eval` or `.json`), sample by sample where it is zipped."""
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_samples  # noqa: PLC0415  heavy, and not ours to require
    except ImportError:
        file.skip("logs of inspect need the package inspect_ai: pip install 'hermes-nb[inspect]'")
        return
    file.format = "inspect log"
    zipped = path.suffix == ".eval"
    log = read_eval_log(str(path), header_only=zipped, resolve_attachments=True)
    many = {"all_samples_required": False, "resolve_attachments": True}
    for sample in read_eval_log_samples(str(path), **many) if zipped else log.samples or ():
        file.lines += 1
        yield from _Sample(log.eval, sample).rows()


class _Sample:
    """One sample, as the rows of one turn."""

    def __init__(self, evaluation: Any, sample: Any) -> None:
        self._evaluation = evaluation
        self._sample = sample
        self._turn_id = sample.uuid or made_id(16, evaluation.eval_id, sample.id, sample.epoch)
        self._trace_id = made_id(16, evaluation.eval_id, self._turn_id)
        self._root = made_id(8, self._trace_id, "sample")
        self._ends = {event.id: event.timestamp for event in sample.events if event.event == "span_end"}

    def rows(self) -> Iterator[Row]:
        events = self._sample.events
        times = [each for event in events for each in (event.timestamp, getattr(event, "completed", None)) if each]
        yield self._span(
            "turn",
            None,
            f"invoke_agent {self._evaluation.task}",
            min(times, default=None),
            max(times, default=None),
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": self._evaluation.task,
                "gen_ai.request.model": self._evaluation.model,
                "hermes.turn.completed": self._sample.error is None and bool(self._sample.output.choices),
                "hermes.turn.failed": self._sample.error is not None,
                "inspect.sample.id": self._sample.id,
                "inspect.sample.epoch": self._sample.epoch,
                "inspect.scores": {name: score.value for name, score in (self._sample.scores or {}).items()},
            },
            error="sample_error" if self._sample.error is not None else None,
        )
        for seq, event in enumerate(events):
            yield from self._event(seq, event)
        yield from self._messages()

    def _event(self, seq: int, event: Any) -> Iterator[Row]:
        if event.event == "span_begin":
            yield self._span(event.id, event.parent_id, event.name, event.timestamp, self._ends.get(event.id), {})
        elif event.event == "model":
            yield self._model(seq, event)
        elif event.event == "tool":
            yield self._tool(seq, event)
        elif event.event != "span_end":
            said = event.model_dump(mode="json", exclude={"event", "timestamp", "span_id"}, exclude_none=True)
            owner = self._id(event.span_id)
            when = _nanoseconds(event.timestamp)
            yield EventRow(self._trace_id, owner, "span", seq, when, f"inspect.{event.event}", said)

    def _model(self, seq: int, event: Any) -> SpanRow:
        usage, output = event.output.usage, event.output
        said = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": event.model.partition("/")[0],
            "gen_ai.request.model": event.model.rpartition("/")[2],
            "gen_ai.response.model": output.model or None,
            "gen_ai.response.finish_reasons": [_FINISH.get(output.stop_reason, output.stop_reason)],
            "gen_ai.input.messages": dumps([_message(each) for each in event.input]),
            "gen_ai.output.messages": dumps([_message(each.message) for each in output.choices]),
        }
        if usage is not None:
            said |= {
                "gen_ai.usage.input_tokens": usage.input_tokens,
                "gen_ai.usage.output_tokens": usage.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": usage.input_tokens_cache_read,
                "gen_ai.usage.cache_write.input_tokens": usage.input_tokens_cache_write,
                "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            }
        name = f"chat {said['gen_ai.request.model']}"
        error = "model_error" if event.error else None
        return self._span(f"event {seq}", event.span_id, name, event.timestamp, event.completed, said, error=error)

    def _tool(self, seq: int, event: Any) -> SpanRow:
        said = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.function,
            "gen_ai.tool.call.id": event.id,
            "gen_ai.tool.type": event.type,
            "gen_ai.tool.call.arguments": dumps(event.arguments),
            "gen_ai.tool.call.result": event.result if isinstance(event.result, str) else dumps(event.result),
        }
        name, error = f"execute_tool {event.function}", event.error.type if event.error else None
        return self._span(f"event {seq}", event.span_id, name, event.timestamp, event.completed, said, error=error)

    def _messages(self) -> Iterator[Row]:
        """The sample's messages, where no model call tells them."""
        if any(event.event == "model" for event in self._sample.events):
            return
        for index, message in enumerate(map(_message, self._sample.messages)):
            for place, part in enumerate(message["parts"]):
                content = part.get("content", part.get("response", part.get("arguments")))
                yield MessageRow(
                    self._turn_id,
                    index,
                    place,
                    message["role"],
                    part["type"],
                    content if isinstance(content, str) else dumps(content),
                    tool_call_id=part.get("id"),
                    tool_name=part.get("name"),
                    direction="output" if message["role"] == "assistant" else "input",
                    trace_id=self._trace_id,
                )

    def _span(
        self,
        mark: str,
        parent: str | None,
        name: str,
        start: datetime | None,
        end: datetime | None,
        said: dict[str, Any],
        *,
        error: str | None = None,
    ) -> SpanRow:
        """One span; `mark` identifies it within the sample."""
        is_turn = mark == "turn"
        attributes = {key: value for key, value in said.items() if value is not None}
        attributes |= {"hermes.turn.id": self._turn_id, "gen_ai.conversation.id": self._turn_id}
        if error is not None:
            attributes["error.type"] = error
        return SpanRow(
            self._trace_id,
            self._root if is_turn else self._id(mark),
            None if is_turn else self._id(parent),
            name,
            "INTERNAL",
            _nanoseconds(start),
            _nanoseconds(end),
            "UNSET" if error is None else "ERROR",
            None,
            attributes,
            self._evaluation.run_id,
            "inspect_ai",
        )

    def _id(self, mark: str | None) -> str:
        return self._root if mark is None else made_id(8, self._trace_id, mark)


def _message(message: Any) -> dict[str, Any]:
    """One message in the conventions' form."""
    if message.role == "tool":
        response = message.text if message.error is None else f"{message.text}\n{message.error.message}".strip()
        found = {
            "type": "tool_call_response",
            "id": message.tool_call_id,
            "name": message.function,
            "response": response,
        }
        return {"role": "tool", "parts": [found]}
    parts = [{"type": "text", "content": message.text}] if message.text else []
    parts += [
        {"type": "tool_call", "id": call.id, "name": call.function, "arguments": call.arguments}
        for call in getattr(message, "tool_calls", None) or ()
    ]
    return {"role": message.role, "parts": parts}


def _nanoseconds(moment: datetime | None) -> int | None:
    """Exact: a float of seconds would lose digits."""
    if moment is None:
        return None
    whole = int(moment.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + moment.microsecond * 1_000
