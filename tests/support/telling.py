"""Turns told by hand: a recorder, its sinks, and scopes that a test opens as it likes."""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from hermes_nb.telemetry import observe
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermes_nb.telemetry import LiveStore
    from hermes_nb.telemetry.store import Kept

QUESTION = (Message("system", "Be brief."), Message("user", "Which is larger?"))


class Told:
    """One turn in the telling."""

    def __init__(self, recorder: Recorder, store: LiveStore, turn: events.Turn) -> None:
        self.recorder = recorder
        self.store = store
        self.turn = turn

    @contextmanager
    def iteration(self, number: int = 1, **fields: Any) -> Iterator[events.Iteration]:
        """A pass of the loop."""
        left = self.turn.budget_limit - number
        given = {"budget_limit": self.turn.budget_limit, "budget_remaining": left} | fields
        with self.recorder.scope(events.Iteration(number, **given)) as iteration:
            yield iteration
            iteration.outcome = iteration.outcome or "tool_calls"

    def chat(self, text: str = "Lyon.", **fields: Any) -> events.Chat:
        """A whole model call of one attempt."""
        with self.recorder.scope(events.Chat("openai", "gpt-x", **({"messages": QUESTION} | fields))) as chat:
            with self.recorder.scope(events.Attempt(1, 3, "openai", "gpt-x")) as attempt:
                attempt.outcome = "success"
            chat.reply = Reply(Message("assistant", text), usage=Usage(10, 2))
            chat.attempts = 1
        return chat

    def tool(self, arguments: str = '{"city": "Lyon"}', result: str = "522000", **fields: Any) -> events.Tool:
        """A whole tool call."""
        with self.recorder.scope(events.Tool("population", "call_1", arguments, **fields)) as tool:
            tool.status, tool.result, tool.result_chars = "ok", result, len(result)
        return tool

    def spans(self) -> list[Kept]:
        """The spans so far."""
        return self.store.spans(self.recorder.turn_id)

    def named(self, name: str) -> Any:
        """The first span of this name."""
        return next(kept.span for kept in self.spans() if kept.span.name == name)


@contextmanager
def told(tracer_provider: Any = None, **fields: Any) -> Iterator[Told]:
    """A turn, told to what observes it; completed unless the test says otherwise."""
    observed = observe(tracer_provider)
    recorder = Recorder(str(uuid.uuid4()), "conversation", [observed.sink])
    given = {"prompt": "Which is larger?", "budget_limit": 4, "attempts_max": 3} | fields
    with recorder.scope(events.Turn("agent", "openai", "gpt-x", **given)) as turn:
        yield Told(recorder, observed.store, turn)
        if not turn.exit_reason:
            turn.exit_reason, turn.completed, turn.text = "completed", True, turn.text or "Lyon."
