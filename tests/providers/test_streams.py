"""Replies in every form in which servers send them, over a real connection."""

from __future__ import annotations

import json

import pytest

from hermes_nb.providers.sse import EventDecoder, Unreadable
from hermes_nb.providers.usage import read_usage
from hermes_nb.vocabulary.failures import FailureReason as R
from hermes_nb.vocabulary.messages import Usage
from tests.support.asking import ADD, Heard, ask, chat, fail
from tests.support.chunks import END, asked, delta, made, part
from tests.support.server import CUT, DONE, KEEPALIVE, RESET, Server, call, calls, say, stream, text_chunks, whole

# ------------------------------------------------------------------------------------------------ plain


@pytest.mark.parametrize("streamed", [True, False])
def test_a_text_comes_whole(streamed):
    heard = Heard()
    with Server(say("Grüße, 世界! 👋", reasoning="hm, hm", usage=(7, 3), model="m-2")) as server:
        reply = ask(chat(server, stream=streamed), on_text=heard)
    assert (reply.text, reply.message.reasoning, reply.finish_reason) == ("Grüße, 世界! 👋", "hm, hm", "stop")
    assert (reply.usage, reply.model, reply.response_id) == (Usage(7, 3), "m-2", "resp_1")
    assert not reply.partial
    assert (heard.text, heard.reasoning) == (("Grüße, 世界! 👋", "hm, hm") if streamed else ("", ""))
    assert (reply.time_to_first_chunk is not None) == streamed


@pytest.mark.parametrize("streamed", [True, False])
def test_calls_come_whole(streamed):
    heard = Heard()
    with Server(calls(call("add", a=1, b=2), call("add", a=3, b=4, id="x"), text="Adding.")) as server:
        reply = ask(chat(server, stream=streamed), tools=(ADD,), on_text=heard)
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 3, "b": 4}),
    ]
    assert (reply.text, reply.finish_reason, reply.tool_calls[1].id) == ("Adding.", "tool_calls", "x")
    assert heard.call == ("".join(c.arguments for c in reply.tool_calls) if streamed else "")


def test_the_request_says_what_was_asked():
    with Server(say("ok"), say("ok")) as server:
        provider = chat(server, temperature=0.5, max_tokens=10, headers={"X-Title": "t"})
        ask(provider, tools=(ADD,), max_tokens=20)
        ask(provider, tools=(ADD,), tool_choice="none", stream=False)
    streamed, plain = server.requests
    assert streamed.body == {
        "model": "m", "temperature": 0.5, "max_tokens": 20, "stream": True, "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hello"}],
        "tools": [{"type": "function", "function": {"name": "add", "description": "Add two numbers.",
                                                     "parameters": dict(ADD.parameters)}}],
    }  # fmt: skip
    assert plain.body == {"model": "m", "temperature": 0.5, "max_tokens": 10, "messages": streamed.body["messages"]}
    assert (streamed.key, streamed.headers["x-title"], streamed.path) == ("key-one", "t", "/v1/chat/completions")


# ------------------------------------------------------------------------------------------------ bytes


def test_characters_cut_in_two_are_joined():
    body = "".join(
        f"data: {json.dumps(c, ensure_ascii=False)}\n\n" for c in text_chunks("日本", "🎉é", finish="stop")
    ).encode()
    assert asked(*(body[i : i + 1] for i in range(len(body)))).text == "日本🎉é"


def test_surrogates_cut_in_two_are_joined():
    heard = Heard()
    reply = asked(delta(content="a\ud83c"), delta(content="\udf89b"), delta(content="\ud800"), END, on_text=heard)
    assert reply.text == heard.text + "�" == "a🎉b�"


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b"\n"])
def test_every_line_end_is_one(end):
    lines = [
        b": hello",
        b"event: x",
        b"id: 1",
        b"retry: 9",
        *(b"data:" + json.dumps(c).encode() + end for c in text_chunks("a", "b", finish="stop")),
    ]
    assert asked(b"\xef\xbb\xbf" + end.join(lines) + end).text == "ab"


def test_events_without_an_empty_line_between_are_events():
    assert (
        asked(b"".join(b"data: %s\n" % json.dumps(c).encode() for c in text_chunks("a", "b", finish="stop"))).text
        == "ab"
    )


def test_an_event_over_several_lines_is_one():
    event = json.dumps(text_chunks("ab")[0], indent=1).encode()
    assert asked(b"".join(b"data: %s\n" % line for line in event.splitlines()) + b"\n").text == "ab"


def test_the_last_event_needs_no_end():
    assert (
        asked(
            *text_chunks("a"), b'data: {"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}', done=False
        ).text
        == "ab"
    )


def test_broken_events_between_good_ones_are_passed_over():
    assert (
        asked(
            *text_chunks("a"),
            b"data: {broken\n\n",
            b"data: 5\n\n",
            b"data: []\n\n",
            b"nonsense\n\n",
            *text_chunks("b", finish="stop"),
        ).text
        == "ab"
    )


def test_keep_alives_are_not_text():
    assert (
        asked(
            KEEPALIVE,
            b": OPENROUTER PROCESSING\n\n",
            b"\n\n",
            *text_chunks("a"),
            KEEPALIVE,
            *text_chunks("b", finish="stop"),
        ).text
        == "ab"
    )


# ------------------------------------------------------------------------------------------------ shapes


@pytest.mark.parametrize("streamed", [True, False])
def test_json_where_a_stream_was_asked_is_a_reply(streamed):
    wanted = {"id": "1", "function": {"name": "f", "arguments": {"a": 1}}}
    body = {"choices": [{"message": {"content": "hi", "tool_calls": [wanted]}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 2}}  # fmt: skip
    with Server(whole(body)) as server:
        reply = ask(chat(server, stream=streamed))
    assert (reply.text, reply.tool_calls[0].arguments, reply.usage, reply.finish_reason) == (
        "hi",
        '{"a": 1}',
        Usage(3, 2),
        "tool_calls",
    )


def test_a_stream_where_json_was_asked_is_a_reply():
    with Server(stream(*text_chunks("a", "b", finish="stop"), done=True)) as server:
        assert ask(chat(server, stream=False)).text == "ab"


def test_json_lines_without_data_are_a_reply():
    with Server(whole("\n".join(json.dumps(c) for c in text_chunks("a", "b", finish="stop")))) as server:
        assert ask(chat(server)).text == "ab"


@pytest.mark.parametrize("choices", [None, [], [None], "x", {}])
def test_chunks_without_choices_are_passed_over(choices):
    reply = asked(
        {"choices": choices},
        *text_chunks("a", finish="stop"),
        {"choices": choices, "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
    )
    assert (reply.text, reply.usage) == ("a", Usage(1, 2))


@pytest.mark.parametrize("place", ["first", "chunk", "choice", "after", "x_groq", "with_done"])
def test_usage_is_found_anywhere(place):
    usage = {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}
    first, last = text_chunks("a", finish="stop")
    moves = {
        "first": [{**first, "usage": usage}, last],
        "chunk": [{**first, "usage": {**usage, "completion_tokens": 1}}, {**last, "usage": usage}],
        "choice": [first, {"choices": [{**last["choices"][0], "usage": usage}]}],
        "after": [first, last, {"usage": usage}],
        "x_groq": [first, {**last, "x_groq": {"usage": usage}}],
        "with_done": [first, last, {"choices": [], "usage": usage}, {"usage": None}],
    }[place]
    assert asked(*moves).usage == Usage(5, 6)


@pytest.mark.parametrize(
    ("fields", "text", "reasoning"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", ""),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, "x"]}, "x", "t"),
        ({"reasoning": "t", "reasoning_details": [{"type": "reasoning.text", "text": "t"}]}, "", "t"),
        ({"reasoning": "t", "reasoning_content": "t"}, "", "t"),
        (
            {
                "reasoning_details": [
                    {"type": "reasoning.encrypted", "data": "x"},
                    {"type": "reasoning.text", "text": "t"},
                ]
            },
            "",
            "t",
        ),
        ({"reasoning_details": [{"text": None}, {"summary": "s"}, 5, {"text": 7}]}, "", "s"),
        ({"content": 5, "reasoning": ["x"], "tool_calls": "x"}, "", ""),
    ],
)
def test_text_and_reasoning_have_many_names(fields, text, reasoning):
    reply = asked(delta(**fields), *text_chunks("!", finish="stop"))
    assert (reply.text, reply.message.reasoning) == (text + "!", reasoning)


def test_only_one_choice_is_read():
    reply = asked({"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "x"}}]},
                  {"choices": [{"index": 1, "delta": {"content": "x"}, "finish_reason": "stop"}]},
                  *text_chunks("b", finish="stop"))  # fmt: skip
    assert reply.text == "ab"


def test_a_refusal_is_a_content_filter():
    reply = asked(delta(refusal="I can"), delta(refusal="not."), {"choices": [{"delta": {}, "finish_reason": "stop"}]})
    assert (reply.text, reply.finish_reason) == ("I cannot.", "content_filter")


@pytest.mark.parametrize(
    ("said", "meant"),
    [("stop", "stop"), ("eos", "stop"), (2, "stop"), ("length", "length"), ("MAX_TOKENS", "length"),
     ("model_length", "length"), ("content_filter", "content_filter"), ("SAFETY", "content_filter"),
     ("sensitive", "content_filter"), ("tool_calls", "stop"), ("max_output_tokens", "length"),
     ("content_filtered", "content_filter"), ("refusal", "content_filter"), ("RECITATION", "content_filter"),
     ("PROHIBITED_CONTENT", "content_filter"), ("BLOCKLIST", "content_filter"), ("SPII", "content_filter")],
)  # fmt: skip
def test_finish_reasons_are_translated(said, meant):
    assert asked(*text_chunks("a", finish=said)).finish_reason == meant


# ------------------------------------------------------------------------------------------------ ends


@pytest.mark.parametrize("cut", [(), (CUT,), (RESET,)])
def test_a_text_that_is_cut_is_kept_as_partial(cut):
    heard = Heard()
    reply = asked(*text_chunks("Let me ", "compare"), 0.05, *cut, on_text=heard, done=False)
    assert (reply.text, reply.partial, reply.finish_reason) == ("Let me compare", True, "unknown")
    assert heard.text == "Let me compare"


@pytest.mark.parametrize("cut", [(), (CUT,), (RESET,)])
def test_a_text_that_is_complete_needs_no_done(cut):
    reply = asked(*text_chunks("a", "b", finish="stop"), 0.05, *cut, done=False)
    assert (reply.text, reply.partial, reply.finish_reason) == ("ab", False, "stop")


def test_done_alone_completes_a_text():
    reply = asked(*text_chunks("a"))
    assert (reply.partial, reply.finish_reason) == (False, "stop")


def test_a_call_cut_before_its_arguments_is_not_complete():
    reply = asked(part(index=0, id="1", name="f"), done=False)
    assert (reply.tool_calls[0].arguments, reply.partial) == ("", True)


def test_a_call_without_arguments_is_complete_when_the_reply_is():
    assert made(part(index=0, id="1", name="f"), END, done=False) == [("f", "{}")]


@pytest.mark.parametrize(
    "moves",
    [(), (DONE,), (KEEPALIVE, DONE), ({"choices": []}, DONE), ({"choices": [{"delta": {"role": "assistant"}}]},)],
)
def test_an_empty_stream_is_malformed(moves):
    with Server(stream(*moves)) as server:
        failure = fail(chat(server))
    assert (failure.reason, failure.partial) == (R.MALFORMED_REPLY, None)


def test_an_empty_answer_that_is_complete_is_an_answer():
    reply = asked(*text_chunks("", finish="stop"))
    assert (reply.text, reply.partial, reply.finish_reason) == ("", False, "stop")


def test_reasoning_that_is_cut_is_a_failure_that_keeps_it():
    with Server(stream(delta(reasoning_content="Let me think"), CUT)) as server:
        failure = fail(chat(server))
    assert failure.reason == R.CONNECTION
    assert failure.partial.reasoning == "Let me think"


# ------------------------------------------------------------------------------------------------ errors inside


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"error": {"message": "boom"}}, R.SERVER_ERROR),
        ({"error": {"message": "quota exceeded", "code": 429}}, R.RATE_LIMIT),
        ({"error": {"message": "context length exceeded", "code": "x"}}, R.CONTEXT_OVERFLOW),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, R.SERVER_ERROR),
        ({"choices": [{"delta": {}, "finish_reason": "network_error"}]}, R.SERVER_ERROR),
        ({"choices": [{"delta": {}, "finish_reason": "abort"}]}, R.SERVER_ERROR),
        ({"choices": [{"delta": {}, "finish_reason": "MALFORMED_FUNCTION_CALL"}]}, R.MALFORMED_REPLY),
        ({"choices": [{"delta": {}, "finish_reason": "insufficient_system_resource"}]}, R.OVERLOADED),
        ({"error": "Overloaded", "choices": []}, R.OVERLOADED),
        (b'event: error\ndata: {"message": "Overloaded"}\n\n', R.OVERLOADED),
        (b"event: error\ndata: Overloaded, sorry\n\n", R.OVERLOADED),
    ],
)
@pytest.mark.parametrize("before", [0, 3])
def test_an_error_inside_a_stream_is_a_failure(event, reason, before):
    heard = Heard()
    with Server(stream(*text_chunks(*"abc"[:before]), event, done=not before)) as server:
        provider = chat(server)
        with pytest.raises(Exception, match=":") as caught:
            ask(provider, on_text=heard)
    failure = caught.value.failure
    assert (failure.reason, heard.text, failure.provider, failure.model) == (reason, "abc"[:before], "openai", "m")
    assert (failure.partial.text if failure.partial else "") == "abc"[:before]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"message": "Rate limit", "code": 429}}, R.RATE_LIMIT),
        ({"choices": None, "error": "insufficient balance"}, R.BILLING),
        ("<html><title>Log in</title></html>", R.MALFORMED_REPLY),
        ("", R.MALFORMED_REPLY),
        ([1, 2], R.MALFORMED_REPLY),
        ({}, R.MALFORMED_REPLY),
        ({"choices": [], "usage": {"prompt_tokens": 1}}, R.MALFORMED_REPLY),
        ({"choices": [{}]}, R.MALFORMED_REPLY),
        ({"choices": [{"message": None}]}, R.MALFORMED_REPLY),
        ("plain words", R.MALFORMED_REPLY),
        ('{"choices": [{"mess', R.MALFORMED_REPLY),
        (b"\xff\xfe\x00", R.MALFORMED_REPLY),
        ("[" * 100_000, R.MALFORMED_REPLY),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_200_without_a_reply_is_a_failure(body, reason, streamed):
    with Server(whole(body)) as server:
        failure = fail(chat(server, stream=streamed))
    assert failure.reason == reason
    assert failure.message


def test_a_login_page_is_named():
    with Server(whole("<html><title>Log in</title></html>", headers={"content-type": "text/html"})) as server:
        assert "Log in" in fail(chat(server)).message


def test_one_body_of_64_mebibytes_is_kept_and_no_more():
    decoder = EventDecoder()
    decoder.feed(b"{")
    decoder.feed(b" " * (64 * 1024 * 1024 - 1))
    with pytest.raises(Unreadable, match="67108864 bytes"):
        decoder.feed(b"}")


@pytest.mark.parametrize(
    ("told", "counted"), [(999_999_999_999, 999_999_999_999), (1_000_000_000_000, 3), (0, 3), (-1, 3)]
)
def test_a_count_that_cannot_be_is_looked_for_under_its_other_name(told, counted):
    usage = read_usage({"usage": {"prompt_tokens": told, "input_tokens": 3, "completion_tokens": 1}})
    assert usage.input_tokens == counted
