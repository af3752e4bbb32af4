"""Texts that would do harm if anything took them for more than text."""

from __future__ import annotations

from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.story import Story

HOSTILE = {
    "image": '<img src=x onerror="window.pwned=1">',
    "script": "</div></table><script>window.pwned=1</script>",
    "link": "[x](javascript:window.pwned=1) <a href='javascript:window.pwned=1'>y</a>",
    "attribute": '" onmouseover="window.pwned=1" x=\'',
    "formula": "$\\href{javascript:window.pwned=1}{x}$",
    "terminal": "\x1b[31mred\x1b[0m \x1b]8;;http://evil\x07link\x1b]8;;\x07 \x9b31m bell\x07",
    "direction": "user\u202egnp.exe\u202c \u2066isolated\u2069",
    "surrogate": "half \ud83d of a pair",
    "nothing": "\x00\x08\x7f",
    "megabyte": "x" * 1_000_000,
}


def poisoned(text, turn_id="turn-1"):
    """The events of a turn that says `text` wherever a text can stand."""
    story = Story(turn_id)
    scope, tell = story.recorder.scope, story.recorder.tell
    what = events.Turn(text, text, text, text, budget_limit=3, detail=text)
    with scope(what):
        with scope(events.Iteration(1)), scope(events.Chat(text, text)) as chat:
            with scope(events.Attempt(1, 3, text, text)) as attempt:
                tell(events.Delta(text))
                tell(events.Delta(text, "reasoning"))
                attempt.reason, attempt.error_type = text, text
            with scope(events.Retry(1, text, 1.0)):
                pass
            with scope(events.Fallback(1, text, text, text)) as fallback:
                fallback.outcome, fallback.to_provider, fallback.to_model = "activated", text, text
            call = ToolCall(text[:200], text, text)
            story.message(Message("assistant", text, (call,), reasoning=text))
            with scope(events.Tool(text, call.id, text, delegate=text)) as tool:
                tool.status, tool.result = "ok", text
            with scope(events.Compression("manual", text, 1, 1)) as compression:
                compression.outcome, compression.summary = "compressed", text
            tell(events.Steered(1, text, "delivered"))
            tell(events.Steered(2, text, "undelivered", text))
            tell(events.Degraded("guard", text))
            story.message(Message("user", ({"type": "text", "text": text}, {"type": text})))
            chat.error_type = text
        what.exit_reason = text[:50]
    return story.events
