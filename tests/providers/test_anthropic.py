"""The Messages API: what goes out, and what comes back in every form."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.providers.anthropic import CONTEXT_WINDOW, MAX_TOKENS, VERSION, Anthropic
from hermes_nb.providers.anthropic_assembly import MessageAssembly
from hermes_nb.providers.base import Provider
from hermes_nb.vocabulary.failures import ConfigurationError, ProviderError
from hermes_nb.vocabulary.failures import FailureReason as R
from hermes_nb.vocabulary.messages import Message, ToolCall, Usage
from tests.support.asking import ADD, Heard, ask, fail, request
from tests.support.rubbish import ODD
from tests.support.server import CUT, KEEPALIVE, Server, always, call, calls, say, status, stream, whole

MARK = {"cache_control": {"type": "ephemeral"}}


def claude(server, **how):
    return Anthropic("claude-x", **{"base_url": server.url, "api_key": "key-one", **how})


def sent(*messages, provider=None, **how):
    """The body that is sent for some messages."""
    provider = provider or Anthropic("claude-x", base_url="http://localhost:1/v1", cache=False)
    return json.loads(provider.dialect().encode(request(*messages, **how), stream=False))


# ------------------------------------------------------------------------------------------------ configuration


def test_it_is_a_provider(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-env")
    provider = Anthropic("claude-x", temperature=0)
    assert isinstance(provider, Provider)
    shown = (provider.name, provider.address, provider.context_window)
    assert shown == (
        "anthropic",
        ("api.anthropic.com", 443),
        CONTEXT_WINDOW,
    )
    assert CONTEXT_WINDOW == 200_000
    assert provider.secrets == ("key-env",)
    assert repr(provider) == "Anthropic('claude-x', base_url='https://api.anthropic.com/v1', temperature=0)"


def test_a_missing_key_is_told_at_once(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="set ANTHROPIC_API_KEY"):
        Anthropic("claude-x")
    with pytest.raises(ConfigurationError, match=r"ANTHROPIC_API_KEY is sent to api\.anthropic\.com only"):
        Anthropic("claude-x", base_url="https://models.example.org/v1")


@pytest.mark.parametrize("name", ["system", "messages", "tools"])
def test_what_the_loop_sends_is_no_parameter(name):
    with pytest.raises(ConfigurationError, match=f"'{name}' is set for each request"):
        Anthropic("claude-x", api_key="k", **{name: []})


# ------------------------------------------------------------------------------------------------ what comes back


@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_comes_whole(streamed):
    heard = Heard()
    wanted = calls(call("add", a=1), call("add", a=2), text="Grüße 👋", reasoning="hm, hm", usage=(7, 3))
    with Server(wanted) as server:
        reply = ask(claude(server, stream=streamed), tools=(ADD,), on_text=heard)
    assert (reply.text, reply.message.reasoning, reply.finish_reason, reply.usage) == (
        "Grüße 👋",
        "hm, hm",
        "tool_calls",
        Usage(7, 3),
    )
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [("add", {"a": 1}), ("add", {"a": 2})]
    assert (reply.model, reply.response_id, reply.partial) == ("scripted", "msg_1", False)
    assert (heard.text, heard.reasoning) == (("Grüße 👋", "hm, hm") if streamed else ("", ""))


def test_the_request_says_what_was_asked():
    with Server(say("ok")) as server:
        ask(claude(server, temperature=1, cache=False), Message("system", "Be kind."), "hi", tools=(ADD,), max_tokens=9)
        received = server.requests[0]
    assert (received.path, received.key, received.headers["anthropic-version"]) == ("/v1/messages", "key-one", VERSION)
    assert received.body == {
        "model": "claude-x", "temperature": 1, "max_tokens": 9, "stream": True,
        "system": [{"type": "text", "text": "Be kind."}],
        "tools": [{"name": "add", "description": ADD.description, "input_schema": dict(ADD.parameters)}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    }  # fmt: skip


def test_cached_tokens_belong_to_the_input():
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 3}
    with Server(
        whole({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn", "usage": usage})
    ) as server:
        assert ask(claude(server)).usage == Usage(125, 3, 100, 20)


@pytest.mark.parametrize(
    ("said", "meant"),
    [("end_turn", "stop"), ("stop_sequence", "stop"), ("max_tokens", "length"),
     ("model_context_window_exceeded", "length"), ("refusal", "content_filter"),
     ("pause_turn", "stop"), ("something new", "stop")],
)  # fmt: skip
def test_stop_reasons_are_translated(said, meant):
    with Server(say("x", finish=said)) as server:
        assert ask(claude(server)).finish_reason == meant


def start(index, **block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, **fields):
    return {"type": "content_block_delta", "index": index, "delta": fields}


END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}


def asked(*moves):
    with Server(stream(*moves)) as server:
        return ask(claude(server))


def test_a_stream_needs_neither_names_nor_a_stop_nor_an_index():
    assert asked({"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
                 {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}},
                 END).text == "hi"  # fmt: skip


def test_text_that_is_cut_is_kept_as_partial():
    reply = asked(start(0, type="text", text=""), delta(0, text="Hello wor"), CUT)
    assert (reply.text, reply.partial, reply.finish_reason) == ("Hello wor", True, "unknown")


def test_a_call_that_is_cut_stays_cut():
    reply = asked(start(0, type="tool_use", id="t", name="add", input={}), delta(0, partial_json='{"a": '))
    assert (reply.tool_calls[0].arguments, reply.partial) == ('{"a": ', True)
    reply = asked(start(0, type="tool_use", id="t", name="add", input={}))
    assert (reply.tool_calls[0].arguments, reply.partial) == ("", True)


def test_a_call_without_arguments_is_complete_when_the_reply_is():
    reply = asked(start(0, type="tool_use", id="t", name="now", input={}), END)
    assert (reply.tool_calls, reply.finish_reason) == ((ToolCall("t", "now", "{}"),), "tool_calls")


def test_calls_get_ids_of_their_own():
    reply = asked(
        *(start(i, type="tool_use", id=one, name="f", input={"a": i}) for i, one in enumerate(("t", "t", "", None))),
        END,
    )
    assert [c.arguments for c in reply.tool_calls] == [f'{{"a": {i}}}' for i in range(4)]
    assert len({c.id for c in reply.tool_calls}) == 4


@pytest.mark.parametrize("before", [0, 1])
def test_an_error_inside_a_stream_is_a_failure(before):
    error = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    moves = [start(0, type="text", text=""), delta(0, text="so far")][: 2 * before]
    with Server(stream(KEEPALIVE, *moves, error)) as server:
        failure = fail(claude(server))
    assert (failure.reason, failure.provider) == (R.OVERLOADED, "anthropic")
    assert (failure.partial.text if failure.partial else "") == "so far" * before


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (status(529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}), R.OVERLOADED),
        (whole({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}), R.RATE_LIMIT),
        (whole({"content": None}), R.MALFORMED_REPLY),
        (whole([]), R.MALFORMED_REPLY),
        (stream({"type": "ping"}), R.MALFORMED_REPLY),
        (stream(start(0, type="thinking", thinking="hm")), R.MALFORMED_REPLY),
    ],
)
def test_what_is_no_reply_is_a_failure(answer, reason):
    with Server(answer) as server:
        assert fail(claude(server)).reason == reason


# ------------------------------------------------------------------------------------------------ what goes out


def test_neighbours_of_one_role_become_one_message():
    both = (ToolCall("c1", "add", '{"a": 1}'), ToolCall("c:2", "bad name", "{broken"))
    body = sent(
        "one", "two", Message("assistant", "", both), Message("tool", "1", tool_call_id="c1"),
        Message("tool", "", tool_call_id="c:2"), Message("user", "steer", origin="steer"), Message("assistant", "a"),
        Message("assistant", "b"), Message("user", " "), "three",
    )  # fmt: skip
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "add", "input": {"a": 1}},
            {"type": "tool_use", "id": "c_2", "name": "bad_name", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}]},
            {"type": "tool_result", "tool_use_id": "c_2", "content": []}, {"type": "text", "text": "steer"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": [{"type": "text", "text": "three"}]},
    ]  # fmt: skip


def test_pictures_go_out_in_the_form_of_the_api():
    body = sent(Message("user", (
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}},
        {"type": "image_url", "image_url": "https://example.org/x.png"}, {"type": "text", "text": ""},
    )))  # fmt: skip
    assert [part["source"] for part in body["messages"][0]["content"]] == [
        {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        {"type": "url", "url": "https://example.org/x.png"}]  # fmt: skip


def test_a_call_is_forbidden_without_taking_the_tools_away():
    history = ("q", Message("assistant", "", (ToolCall("c", "add"),)), Message("tool", "1", tool_call_id="c"))
    for how in ({"tools": (ADD,), "tool_choice": "none"}, {"tools": ()}):
        body = sent(*history, **how)
        assert [tool["name"] for tool in body["tools"]] == ["add"]
        assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in sent("q")
    assert "tool_choice" not in sent(*history, tools=(ADD,))


def test_the_output_cap_is_always_sent():
    def made(**how):
        return Anthropic("claude-x", base_url="http://localhost:1/v1", **how)

    assert sent("q")["max_tokens"] == MAX_TOKENS == 8_192
    assert sent("q", provider=made(max_tokens=5))["max_tokens"] == 5
    assert sent("q", provider=made(max_tokens=5), max_tokens=7)["max_tokens"] == 7
    thinking = {"type": "enabled", "budget_tokens": 2000}
    assert sent("q", provider=made(thinking=thinking))["max_tokens"] == MAX_TOKENS + 2000


def test_the_prompt_is_marked_for_the_cache_behind_the_system_prompt_and_the_last_message():
    provider = Anthropic("claude-x", base_url="http://localhost:1/v1")
    history = [Message("system", "s"), Message("user", "one"), Message("assistant", "a"), Message("user", "two")]
    first, second = sent(*history[:2], provider=provider), sent(*history, provider=provider)
    assert first["system"] == second["system"] == [{"type": "text", "text": "s", **MARK}]
    assert first["messages"][-1]["content"] == [{"type": "text", "text": "one", **MARK}]
    assert second["messages"][0]["content"] == [{"type": "text", "text": "one"}]
    assert second["messages"][-1]["content"] == [{"type": "text", "text": "two", **MARK}]
    assert json.dumps(second).count("cache_control") == 2


def test_the_prefix_of_a_growing_history_is_the_same_but_for_the_mark():
    provider = Anthropic("claude-x", base_url="http://localhost:1/v1")
    dialect = provider.dialect()
    history = [Message("system", "s"), Message("user", "one"), Message("assistant", "a"), Message("user", "two")]
    one, two = (dialect.encode(request(*history[:n], tools=(ADD,)), stream=True) for n in (2, 4))
    mark = b',"cache_control":{"type":"ephemeral"}'
    assert two.replace(mark, b"").startswith(one.replace(mark, b"").removesuffix(b"]}"))


def test_signed_thoughts_go_back_to_where_they_came_from():
    sealed = {"type": "redacted_thinking", "data": "xyz"}
    thought = [start(0, type="thinking", thinking="", signature=""), delta(0, thinking="hm"), delta(0, signature="si")]
    thought += [delta(0, signature="gned"), start(1, **sealed)]
    wanted = start(2, type="tool_use", id="t", name="f", input={})
    with Server(stream(*thought, wanted, END), say("ok"), say("ok")) as server, Server() as other:
        reply = ask(claude(server))
        stored = Message.from_dict(json.loads(json.dumps(reply.message.as_dict())))
        done = Message("tool", "1", tool_call_id="t")
        ask(claude(server), "q", stored, done)
        back = server.requests[1].messages[1]["content"]
        elsewhere = sent("q", stored, done, provider=claude(other))["messages"][1]["content"]
    assert back[:2] == [{"type": "thinking", "thinking": "hm", "signature": "signed"}, sealed]
    assert [block["type"] for block in back] == ["thinking", "redacted_thinking", "tool_use"]
    assert [block["type"] for block in elsewhere] == ["tool_use"]


def test_a_thought_that_was_cut_before_its_signature_does_not_go_back():
    reply = asked(
        start(0, type="thinking", thinking=""), delta(0, thinking="hm"), start(1, type="text", text="hi"), END
    )
    assert (reply.message.reasoning, dict(reply.message.extra)) == ("hm", {})


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("thinking", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        ("cache_control", "cache_control: Extra inputs"),
    ],
)
def test_what_a_server_refuses_is_left_out_for_the_rest_of_the_turn(field, message):
    import anyio

    def answer(received):
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        return status(400, error) if field in received.raw.decode() else say("ok")

    thought = {"type": "thinking", "thinking": "hm", "signature": "old"}
    with Server(always(answer)) as server:
        provider = claude(server)
        origin = f"anthropic@127.0.0.1:{server.port}"
        history = request("q", Message("assistant", "a", extra={"from": origin, "thinking": [thought]}), "q")

        async def main():
            async with provider.connect() as connection:
                with pytest.raises(ProviderError) as caught:
                    await connection.ask(history, Heard())
                assert await connection.renew(caught.value.failure) == "refreshed"
                return await connection.ask(history, Heard())

        assert anyio.run(main).text == "ok"


# ------------------------------------------------------------------------------------------------ anything


class Events:
    """Events of the API, with odd values in odd places."""

    def __init__(self, seed, share):
        self.chance, self.share = random.Random(seed), share

    def of(self, *values):
        return self.chance.choice(ODD if self.chance.random() < self.share else values)

    def block(self):
        return self.of(
            {"type": "text", "text": self.of("", "a")},
            {"type": "thinking", "thinking": self.of("t"), "signature": self.of("s")},
            {"type": "tool_use", "id": self.of("t", "u"), "name": self.of("f"), "input": self.of({}, {"a": 1})},
            {"type": "redacted_thinking", "data": self.of("x")},
            {"type": "server_tool_use"},
        )

    def delta(self):
        text = {"type": "text_delta", "text": self.of("b", "\ud83d")}
        return self.of(
            text, {"partial_json": self.of("{", "}")}, {"thinking": self.of("u")}, {"signature": self.of("v")}
        )

    def event(self):
        index = self.of(0, 1, 2)
        begun = {"id": self.of("m"), "usage": self.of({"input_tokens": self.of(5)})}
        ended = {"stop_reason": self.of("end_turn", None)}
        return self.of(
            {"type": "message_start", "message": self.of(begun)},
            {"type": "content_block_start", "index": index, "content_block": self.block()},
            {"type": "content_block_delta", "index": index, "delta": self.delta()},
            {"type": "content_block_delta", "index": index, "delta": self.delta()},
            {"type": "message_delta", "delta": self.of(ended), "usage": self.of({})},
            {"type": "message_stop"},
            {"type": "ping"},
        )


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.1, 0.3]), st.booleans())
def test_any_events_make_a_reply_or_a_failure(seed, share, whole_body):
    made = Events(seed, share)
    assembly = MessageAssembly(Heard(), "here")
    try:
        _feed(assembly, made, whole_body=whole_body)
        reply = assembly.reply()
    except ProviderError:
        assembly.message()
        return
    assert all(c.name.strip() and c.id for c in reply.tool_calls)
    assert len({c.id for c in reply.tool_calls}) == len(reply.tool_calls)
    assert reply.partial == (reply.finish_reason == "unknown")
    json.dumps(reply.message.as_dict()).encode()
    (reply.text + reply.message.reasoning).encode()


def _feed(assembly, made, *, whole_body):
    if whole_body:
        blocks = [made.block() for _ in range(made.chance.randrange(4))]
        stop = made.of("end_turn", "tool_use")
        assembly.whole(made.of({"content": made.of(blocks), "stop_reason": stop, "usage": made.of({})}))
    else:
        for _ in range(made.chance.randrange(12)):
            assembly.feed(made.event())
