"""Turns told to a recorder by hand: what a loop would tell, without the loop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolResult, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Told:
    """A turn that is being told; remembers its history."""

    def __init__(self, recorder: Recorder, turn: events.Turn, history: Iterable[Message] = ()) -> None:
        self.recorder = recorder
        self.turn = turn
        self.history = list(history)

    def add(self, message: Message, *, ephemeral: bool = False) -> None:
        """A message that becomes part of the history."""
        self.recorder.tell(events.MessageAdded(message, len(self.history), ephemeral))
        self.history.append(message)

    def replace(self, messages: Iterable[Message]) -> None:
        """A compression."""
        self.history = list(messages)
        self.recorder.tell(events.HistoryReplaced(tuple(self.history)))

    def ask(self, *calls: ToolCall, text: str = "") -> None:
        """The model answers, perhaps with calls."""
        message = Message("assistant", text, calls)
        chat = events.Chat("p", "m", messages=(Message("system", "You."), *self.history))
        with self.recorder.scope(chat), self.recorder.scope(events.Attempt(1, 3, "p", "m")) as attempt:
            attempt.outcome = "success"
            chat.reply, chat.attempts = Reply(message, "tool_calls" if calls else "stop", Usage(10, 5), "m"), 1
        self.add(message)

    def run(self, call: ToolCall, result: str = "ok") -> None:
        """A tool is run, and its result read."""
        with self.recorder.scope(events.Tool(call.name, call.id, call.arguments)) as tool:
            tool.status, tool.result = "ok", result
        self.add(ToolResult(call, result).as_message())

    def iteration(self, number: int, *calls: ToolCall, text: str = "") -> None:
        """One pass: the model answers, its calls are run."""
        with self.recorder.scope(events.Iteration(number)) as iteration:
            self.ask(*calls, text=text)
            for call in calls:
                self.run(call)
            iteration.outcome = "tool_calls" if calls else "final_response"


@contextmanager
def telling(
    *sinks: events.Sink,
    turn_id: str = "turn-1",
    conversation_id: str = "talk",
    prompt: str = "How many?",
    history: Iterable[Message] = (),
    exit_reason: str = "completed",
    **fields: object,
) -> Iterator[Told]:
    """A turn from its prompt to its end."""
    recorder = Recorder(turn_id, conversation_id, sinks)
    turn = events.Turn("agent", "p", "m", prompt, **fields)
    with recorder.scope(turn):
        recorder.tell(events.SystemPrompt("You."))
        told = Told(recorder, turn, history)
        told.add(Message("user", prompt))
        yield told
        turn.exit_reason, turn.completed = exit_reason, exit_reason == "completed"
        turn.failed = exit_reason.endswith("failed")
