"""What was said, in the GenAI conventions' form, valid for their own schemas whatever a model writes."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from hermes_nb.telemetry.content import arguments, content_attributes, message, parts
from hermes_nb.telemetry.store import Kept
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolSpec

SCHEMAS = Path(__file__).parents[2] / "data" / "genai"
SYSTEM = Message("system", "Be brief.")
USER = Message("user", "Which is larger?")
CALLS = Message("assistant", "", (ToolCall("c1", "population", '{"city": "Lyon"}'),), reasoning="Look it up.")
RESULT = Message("tool", "522000", tool_call_id="c1", name="population")
POPULATION = ToolSpec("population", "Inhabitants of a city.", {"type": "object", "properties": {}})


@cache
def schema(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((SCHEMAS / f"gen-ai-{name}.json").read_text()))


def valid(name: str, text: str):
    found = json.loads(text)
    schema(name).validate(found)
    return found


def kept(what, previous=None, system="") -> Kept:
    return Kept(source=None, turn_id="t", what=what, previous=previous, system=system)


def chat(*messages: Message, reply: Reply | None = None, tools=(POPULATION,)) -> events.Chat:
    return events.Chat("openai", "m", messages=messages, tools=tools, reply=reply)


texts = st.text()
calls = st.builds(ToolCall, texts, texts, texts | st.just('{"a": 1}') | st.just("[1]"))
content_parts = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "image_url", "input_audio", "file", "odd"])}
).flatmap(
    lambda part: st.fixed_dictionaries({**{k: st.just(v) for k, v in part.items()}, "text": texts, "image_url": texts})
)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    texts | st.lists(content_parts, max_size=3).map(tuple),
    st.lists(calls, max_size=2).map(tuple),
    st.none() | texts,
    reasoning=texts,
)


def test_a_chat_tells_instructions_messages_tools_and_the_reply():
    reply = Reply(CALLS, "tool_calls")

    out = content_attributes(kept(chat(SYSTEM, USER, CALLS, RESULT, reply=reply)), "full")

    assert valid("system-instructions", out["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    sent = valid("input-messages", out["gen_ai.input.messages"])
    assert [m["role"] for m in sent] == ["user", "assistant", "tool"]
    assert sent[1]["parts"] == [
        {"type": "reasoning", "content": "Look it up."},
        {"type": "tool_call", "id": "c1", "name": "population", "arguments": {"city": "Lyon"}},
    ]
    assert sent[2]["parts"] == [{"type": "tool_call_response", "id": "c1", "response": "522000"}]
    (answer,) = valid("output-messages", out["gen_ai.output.messages"])
    assert answer["finish_reason"] == "tool_call"
    (tool,) = valid("tool-definitions", out["gen_ai.tool.definitions"])
    assert (tool["type"], tool["name"]) == ("function", "population")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_call"),
        ("content_filter", "content_filter"),
        ("unknown", "error"),
    ],
)
def test_each_reply_has_a_finish_reason_of_the_conventions(ours, theirs):
    out = content_attributes(kept(chat(USER, reply=Reply(Message("assistant", "x"), ours))), "full")

    assert valid("output-messages", out["gen_ai.output.messages"])[0]["finish_reason"] == theirs


def test_new_tells_only_what_the_call_before_did_not_have():
    first = chat(SYSTEM, USER)
    second = chat(SYSTEM, USER, CALLS, RESULT)

    before = content_attributes(kept(first), "new")
    after = content_attributes(kept(second, previous=first), "new")

    assert before["hermes.messages.offset"] == 0
    assert after["hermes.messages.offset"] == 1
    assert [m["role"] for m in json.loads(after["gen_ai.input.messages"])] == ["assistant", "tool"]
    assert "gen_ai.system_instructions" not in after
    assert "gen_ai.tool.definitions" not in after


def test_new_tells_everything_behind_the_first_difference_after_a_compression():
    first = chat(SYSTEM, USER, CALLS, RESULT)
    second = chat(Message("system", "Be longer."), USER, Message("user", "summary", origin="summary"), tools=())

    out = content_attributes(kept(second, previous=first), "new")

    assert out["hermes.messages.offset"] == 1
    assert [m["parts"][0]["content"] for m in json.loads(out["gen_ai.input.messages"])] == ["summary"]
    assert "Be longer." in out["gen_ai.system_instructions"]
    assert "gen_ai.tool.definitions" not in out


@settings(deadline=None)
@given(st.lists(messages, max_size=5), st.lists(messages, max_size=5), st.integers(0, 5))
def test_old_and_new_together_are_the_whole(old, tail, common):
    first, second = chat(*old), chat(*old[:common], *tail)

    whole = json.loads(content_attributes(kept(second), "full")["gen_ai.input.messages"])
    told = json.loads(content_attributes(kept(first), "full")["gen_ai.input.messages"])
    new = content_attributes(kept(second, previous=first), "new")

    assert told[: new["hermes.messages.offset"]] + json.loads(new["gen_ai.input.messages"]) == whole


@settings(deadline=None)
@given(messages)
def test_any_message_is_valid_for_the_schemas(given_message):
    shown = json.loads(json.dumps(message(given_message)))

    schema("input-messages").validate([shown])
    schema("output-messages").validate([shown | {"finish_reason": "stop"}])


def test_pictures_and_sounds_become_blobs_and_links():
    content = (
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}},
        {"type": "input_audio", "input_audio": {"format": "wav", "data": "BBBB"}},
    )

    assert parts(content)[1:] == [
        {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AAAA"},
        {"type": "uri", "modality": "image", "uri": "https://example.org/cat.png"},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "BBBB"},
    ]


@pytest.mark.parametrize("broken", ["{", "[1]", "null", "3", '"text"', "[" * 100_000])
def test_arguments_that_are_no_object_stay_the_text_they_are(broken):
    assert arguments(broken) == broken


def test_the_redactor_reads_field_names_with_their_values():
    seen = []

    def redact(text: str) -> str:
        seen.append(text)
        return text.replace("hunter2", "***")

    assert arguments('{"password": "hunter2", "n": [{"x": "hunter2"}]}', redact) == {
        "password": "***",
        "n": [{"x": "***"}],
    }
    assert "password=hunter2" in seen


def test_a_turn_and_a_tool_have_inputs_and_outputs_for_list_views():
    turn = events.Turn("a", "p", "m", "Which?", text="Lyon.")
    tool = events.Tool("population", "c1", '{"city": "Lyon"}', status="ok", result="522000")

    told = content_attributes(kept(turn, system="Be brief."), "full")
    called = content_attributes(kept(tool), "full")

    assert (told["input.value"], told["output.value"]) == ("Which?", "Lyon.")
    assert valid("output-messages", told["gen_ai.output.messages"])[0]["finish_reason"] == "stop"
    assert called["gen_ai.tool.call.arguments"] == called["input.value"] == '{"city":"Lyon"}'
    assert called["gen_ai.tool.call.result"] == called["output.value"] == "522000"
    assert "input.value" not in content_attributes(kept(tool), "full", openinference=False)


def test_none_tells_nothing():
    for what in (chat(SYSTEM, USER), events.Turn("a", "p", "m", "q"), events.Tool("t", "c", "{}", status="ok")):
        assert content_attributes(kept(what), "none") == {}


def test_an_open_tool_call_has_no_result_yet():
    assert "gen_ai.tool.call.result" not in content_attributes(kept(events.Tool("t", "c", "{}")), "full")


def test_a_summary_is_content():
    compression = events.Compression("threshold", "summary", 9, 900, summary="The user wants ...")

    assert content_attributes(kept(compression), "full") == {"hermes.compression.summary": "The user wants ..."}
