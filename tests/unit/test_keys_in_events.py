"""Keys are taken out of every event before any sink sees it, wherever in the event they stand."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import pytest

from hermes_nb.turn.redaction import redactor
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall

KEY = "sk-a-key-of-a-test-0001"
SAID = f"the key is {KEY}."
CALL = ToolCall("call_0", "look", f'{{"with": "{KEY}"}}')
LEAKY = {
    "str": SAID,
    "Content": ({"type": "text", "text": SAID}, {"type": "text", "text": "fine"}),
    "Mapping[str, Any]": {"deep": [{"er": (SAID, 1)}]},
    "tuple[Message, ...]": (Message("user", "hello"), Message("assistant", SAID, (CALL,), reasoning=SAID)),
    "Message": Message("tool", SAID, tool_call_id="call_0"),
    "Reply | None": Reply(Message("assistant", "x", (CALL,)), model=SAID),
    "Failure | None": Failure(FailureReason.SERVER_ERROR, SAID, partial=Message("assistant", SAID)),
}
HARMLESS = {
    "int": 1,
    "float": 1.5,
    "bool": True,
    "str": "x",
    "Content": "x",
    "Message": Message("user", "x"),
    "tuple[Message, ...]": (),
}
KINDS = (*get_args(events.Scoped), *get_args(events.Point))


def event_of(kind, field):
    """One in which every field that has to be given is harmless, and one other holds the key."""
    event = kind(**{given.name: HARMLESS.get(given.type) for given in fields(kind) if needed(given)})
    return replace(event, **{field.name: LEAKY[field.type]})


def needed(field):
    return field.default is field.default_factory  # both are missing


PLACES = [(kind, field) for kind in KINDS for field in fields(kind) if field.type in LEAKY]


@pytest.mark.parametrize(("kind", "field"), PLACES, ids=lambda given: getattr(given, "name", None) or given.__name__)
@pytest.mark.parametrize("phase", ["started", "ended"])
def test_a_key_is_taken_out_of_every_field_that_may_hold_one(kind, field, phase):
    given = event_of(kind, field)
    shown = redactor([KEY])(given, phase)

    assert KEY in repr(given)
    assert KEY not in repr(shown)
    assert "[redacted]" in repr(shown)


def test_every_field_that_is_no_number_or_word_of_ours_is_tried():
    known = {field.type for _, field in PLACES}
    others = {field.type for kind in KINDS for field in fields(kind)} - known
    texts = {
        name for name in others if not name.startswith(("int", "float", "bool", "Literal", "Usage", "tuple[ToolSpec"))
    }

    aliases = {
        "ChatPurpose",
        "CompressionTrigger",
        "RefundReason",
        "Actor",
        "BudgetAction",
        "DeltaPart",
        "During",
        "Part",
    }
    assert texts <= aliases


def test_what_holds_no_key_is_not_made_anew_but_a_scope_that_starts_is_copied():
    redact = redactor([KEY])
    chat, added = events.Chat("p", "m"), events.MessageAdded(Message("user", "hello"), 0)
    begun = redact(chat, "started")
    chat.error = SAID

    assert begun == events.Chat("p", "m")
    assert redact(added, "point") is added
    assert redact(events.Chat("p", "m", error="none"), "ended").error == "none"


def test_a_provider_that_calls_itself_anything_breaks_nothing():
    shown = redactor([KEY])(events.Chat(7, None, error=SAID), "ended")

    assert (shown.provider, shown.model) == (7, None)
    assert KEY not in shown.error
