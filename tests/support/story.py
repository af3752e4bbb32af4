"""Turns as stories: what a loop would tell, told to a real recorder, without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage

if TYPE_CHECKING:
    from hermes_nb.vocabulary.events import Event


class Story:
    """A recorder that keeps what it was told, and short words for what a loop tells.

    Args:
        turn_id: The turn.
        budget: Its iterations.
    """

    def __init__(self, turn_id: str = "turn-1", budget: int = 8) -> None:
        self.events: list[Event] = []
        self.recorder = Recorder(turn_id, "conversation", [self.events.append])
        self.limit = budget
        self.used = self.sequence = self.messages = 0

    def turn(self, prompt: str = "Why?", **known):
        what = events.Turn("reviewer", "openai", "gpt-x", prompt, budget_limit=self.limit, **known)
        return self.recorder.scope(what)

    def iteration(self, number: int, *, grace: bool = False):
        return self.recorder.scope(events.Iteration(number, grace, self.limit, self.limit - self.used))

    def budget(self, action: str, delta: int = 0, **more) -> None:
        self.used -= delta
        self.sequence += 1
        self.recorder.tell(
            events.BudgetChanged(action, delta, self.limit, self.used, self.limit - self.used, self.sequence, **more)
        )

    def message(self, message: Message) -> None:
        self.recorder.tell(events.MessageAdded(message, self.messages))
        self.messages += 1

    def say(self, text: str, *calls: ToolCall, reasoning: str = "", tokens: int = 100, chat=None) -> Message:
        """A model call that goes well; its message becomes part of the history."""
        message = Message("assistant", text, calls, reasoning=reasoning)
        with (
            self.recorder.scope(chat or events.Chat("openai", "gpt-x")) as asked,
            self.recorder.scope(events.Attempt(1, 3, asked.provider, asked.model)) as attempt,
        ):
            for word in text.split(" "):
                self.recorder.tell(events.Delta(word + " "))
            attempt.outcome = "success"
            asked.reply = Reply(message, usage=Usage(tokens, 10), model=asked.model)
        self.message(message)
        return message

    def tool(self, call: ToolCall, result: str, status: str = "ok", **known) -> None:
        """A tool call that is run, and its result in the history."""
        with self.recorder.scope(events.Tool(call.name, call.id, call.arguments, **known)) as tool:
            tool.status, tool.result = status, result
            tool.error_type = "ValueError" if status == "error" else ""
        self.message(Message("tool", result, tool_call_id=call.id, name=call.name))

    def end(self, turn: events.Turn, reason: str = "completed", detail: str = "") -> None:
        turn.exit_reason, turn.detail, turn.completed = reason, detail, reason == "completed"


CHAIN = [
    {"provider": "openai", "model": "gpt-x", "context_window": 1_000},
    {"provider": "anthropic", "model": "claude-y", "context_window": 2_000},
]


def everything() -> list[Event]:
    """A turn in which every kind of thing happens that a panel shows."""
    story = Story(budget=3)
    with story.turn(settings={"compression.passes": 3, "chain": CHAIN}) as turn:
        story.budget("grant")
        story.message(Message("user", "Why?"))
        with story.iteration(1):
            story.budget("consume", -1)
            _a_retry_and_a_fallback(story)
            _tools_and_a_steer(story)
        with story.iteration(2) as iteration:
            story.budget("consume", -1)
            story.message(Message("user", "Look twice", origin="steer"))
            story.recorder.tell(events.Steered(1, "Look twice", "delivered"))
            _a_compression(story)
            iteration.outcome = "compressed"
        with story.iteration(3):
            story.budget("consume", -1)
            _a_sub_agent(story)
            story.recorder.tell(events.Degraded("price", "KeyError: 'small'"))
        with story.iteration(4):
            story.budget("consume", -1)
            _a_pause(story)
        story.budget("exhausted")
        story.budget("grace_granted")
        with story.iteration(5, grace=True) as iteration:
            story.budget("grace_used")
            story.say("It is the counter.", tokens=300)
            iteration.outcome = "final_response"
        story.recorder.tell(events.Steered(2, "too late", "undelivered", "the turn ended"))
        story.end(turn, "budget_exhausted", "the budget of 3 iterations is used up")
        turn.iterations = 5
    return story.events


def _a_retry_and_a_fallback(story: Story) -> None:
    scope = story.recorder.scope
    with scope(events.Chat("openai", "gpt-x")) as chat:
        with scope(events.Attempt(1, 3, "openai", "gpt-x")) as attempt:
            attempt.outcome, attempt.reason, attempt.error_type = "retry", "rate_limit", "429"
        with scope(events.Retry(1, "rate_limit", 12.0, 12.0, "retry_after")) as retry:
            retry.waited, retry.outcome = 12.0, "waited"
        with scope(events.Attempt(2, 3, "openai", "gpt-x")) as attempt:
            attempt.outcome, attempt.reason, attempt.error_type = "fallback", "billing", "402"
        chat.error_type = "402"
    with scope(events.Fallback(1, "billing", "openai", "gpt-x")) as fallback:
        fallback.to_provider, fallback.to_model, fallback.outcome = "anthropic", "claude-y", "activated"


def _tools_and_a_steer(story: Story) -> None:
    look, count = ToolCall("c1", "look", '{"path": "src/"}'), ToolCall("c2", "count", "{}")
    backup = events.Chat("anthropic", "claude-y", fallback_index=1, cost_usd=0.01)
    story.say("I `look` first.", look, count, reasoning="Where could it be?", chat=backup)
    story.recorder.tell(events.Steered(1, "Look twice", "queued"))
    story.tool(look, "one\ntwo")
    story.tool(count, "no such file", "error")


def _a_compression(story: Story) -> None:
    scope = story.recorder.scope
    with scope(events.Compression("threshold", "summary", 9, 9_000)) as compression:
        with scope(events.Chat("openai", "small", purpose="compression")) as chat:
            chat.reply = Reply(Message("assistant", "short"), usage=Usage(50, 5))
        compression.messages_after, compression.tokens_after = 3, 900
        compression.outcome, compression.refunded = "compressed", True
    with scope(events.Refund("compression", 3, 2, 1)):
        pass
    story.budget("refund", 1, reason="compression")
    story.recorder.tell(events.HistoryReplaced((Message("user", "Why?"),)))


def _a_sub_agent(story: Story) -> None:
    child = Story("turn-2", 5)
    child.recorder._sinks = story.recorder._sinks
    ask = ToolCall("c3", "searcher", '{"prompt": "find it"}')
    story.say("", ask)
    with (
        story.recorder.scope(events.Tool("searcher", "c3", "{}", delegate="searcher")) as tool,
        child.recorder.scope(events.Turn("searcher", "openai", "small", "find it", budget_limit=5)) as inner,
    ):
        with child.iteration(1):
            child.say("found", chat=events.Chat("openai", "small", cost_usd=0.02))
        inner.exit_reason = "completed"
        tool.status, tool.result = "ok", "found"
    story.message(Message("tool", "found", tool_call_id="c3", name="searcher"))


def _a_pause(story: Story) -> None:
    story.recorder.tell(events.Steered(2, "too late", "queued"))
    again = ToolCall("c4", "look", '{"path": "tests/"}')
    story.say("Again.", again)
    story.tool(again, "three")
    story.recorder.tell(events.Paused("paused"))
    story.recorder.tell(events.Paused("resumed"))
