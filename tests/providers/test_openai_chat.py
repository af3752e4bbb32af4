"""The chat-completions provider: its configuration, and what it sends."""

from __future__ import annotations

import itertools
import json

import pytest

import hermes_nb
from hermes_nb.providers.base import Provider
from hermes_nb.providers.openai_chat import OpenAIChat
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.failures import FailureReason as R
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.asking import ADD, Heard, ask, ask_all, chat, fail, request
from tests.support.server import Server, always, call, say, status, stream, whole

KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "GROQ_API_KEY", "OPENROUTER_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


# ------------------------------------------------------------------------------------------------ configuration


def test_it_is_a_provider():
    provider = OpenAIChat("m", base_url="http://localhost:8080/v1", context_window=8192, temperature=0)
    assert isinstance(provider, Provider)
    assert (provider.model, provider.context_window, provider.parameters) == ("m", 8192, {"temperature": 0})
    assert (provider.address, provider.stream) == (("localhost", 8080), True)
    assert repr(provider) == "OpenAIChat('m', base_url='http://localhost:8080/v1', temperature=0)"
    with pytest.raises(AttributeError):
        provider.model = "other"


def test_providers_are_compared_and_hashed_by_value():
    def made(**how):
        return OpenAIChat("m", base_url="http://localhost:1/v1", **how)

    assert made(temperature=1) == made(temperature=1) != made(temperature=2)
    assert len({made(), made()}) == 1


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1", "openai"), ("https://openrouter.ai/api/v1/", "openrouter"),
        ("https://api.groq.com/openai/v1/chat/completions", "groq"), ("https://api.deepseek.com/v1", "deepseek"),
        ("http://localhost:11434/v1", "ollama"), ("http://127.0.0.1:1234/v1", "lmstudio"),
        ("http://[::1]:8000/v1", "vllm"),
        ("http://10.0.0.7:11434/v1", "openai"), ("https://models.example.org", "openai"),
    ],
)  # fmt: skip
def test_the_name_is_found_by_the_address(url, name):
    assert OpenAIChat("m", base_url=url, api_key="k").name == name


def test_a_missing_key_is_told_at_once_with_the_variable():
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        OpenAIChat("gpt")
    with pytest.raises(ConfigurationError, match="GROQ_API_KEY"):
        OpenAIChat("m", base_url="https://api.groq.com/openai/v1")
    with pytest.raises(ConfigurationError, match="api_key=''"):
        OpenAIChat("m", base_url="http://10.0.0.7:8000/v1")


def test_the_key_comes_from_the_environment_of_that_server_only(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "key-openai")
    assert OpenAIChat("gpt").secrets == ("key-openai",)
    assert OpenAIChat("m", base_url="http://localhost:8080/v1").secrets == ()
    with pytest.raises(ConfigurationError, match=r"OPENAI_API_KEY is sent to api\.openai\.com only"):
        OpenAIChat("m", base_url="https://models.example.org/v1")
    assert OpenAIChat("m", base_url="https://models.example.org/v1", api_key="").secrets == ()


def test_the_environment_may_move_openai(monkeypatch):
    with Server(say("moved")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-moved")
        assert ask(OpenAIChat("gpt")).text == "moved"
        assert server.requests[0].key == "key-moved"


def test_no_key_means_no_header():
    with Server(say("hi")) as server:
        ask(OpenAIChat("m", base_url=server.url))
        assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    "how",
    [{"base_url": "localhost:8080"}, {"base_url": "ftp://x/v1"}, {"base_url": "http://"}, {"base_url": "http://x:99999/v1"},
     {"base_url": "https://user:pass@x/v1"}, {"model": ""}, {"model": None}, {"messages": []}, {"tools": []},
     {"temperature": float("nan")}, {"seed": object()}, {"timeout": -1}, {"timeout": 0}, {"headers": {"X": "a\nb"}},
     {"headers": {"X": None}}, {"headers": {"Content-Length": "5"}},
     {"headers": {"transfer-encoding": "chunked"}}, {"api_key": "two words"}, {"stream_options": {}}],
    ids=str,
)  # fmt: skip
def test_what_cannot_work_is_refused_at_once(how):
    with pytest.raises(ConfigurationError):
        OpenAIChat(**{"model": "m", "base_url": "http://localhost:1/v1", **how})


def test_headers_may_replace_ours():
    with Server(say("hi")) as server:
        ask(chat(server, headers={"User-Agent": "mine", "Authorization": "Basic x"}))
        assert (server.requests[0].headers["user-agent"], server.requests[0].key) == ("mine", "Basic x")
        assert server.requests[0].raw


def test_a_host_of_the_users_replaces_the_address():
    """For a gateway that is reached by its number; strict servers refuse a request that tells two hosts."""
    with Server(say("hi")) as server:
        ask(chat(server, headers={"Host": "models.example"}))
        assert server.requests[0].headers["host"] == "models.example"


# ------------------------------------------------------------------------------------------------ what goes out


def test_every_kind_of_message_goes_out():
    picture = {"type": "image_url", "image_url": {"url": "data:,x"}}
    history = [
        Message("system", "Be kind."),
        Message("user", ({"type": "text", "text": "look"}, picture)),
        Message("assistant", "", (ToolCall("c1", "add", '{"a": 1}'),), reasoning="hm"),
        Message("tool", "1", tool_call_id="c1", name="add"),
        Message("assistant", "It is 1.", origin="", extra={"from": "elsewhere", "reasoning_details": [1]}),
        Message("user", "Grüße \ud83d"),
    ]
    with Server(say("hi")) as server:
        ask(chat(server), *history)
        sent = server.requests[0]
    assert sent.messages == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": [{"type": "text", "text": "look"}, picture]},
        {"role": "assistant", "content": None,
         "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "assistant", "content": "It is 1."},
        {"role": "user", "content": "Grüße ?"},
    ]  # fmt: skip
    assert "Grüße".encode() in sent.raw


def test_the_prefix_of_a_growing_history_is_the_same_bytes_and_written_once(monkeypatch):
    history = [Message("system", "s"), Message("user", "u")]
    written = []
    monkeypatch.setattr("hermes_nb.providers.openai_chat.to_json", _counting(written))
    with Server(always(say("ok"))) as server:
        requests = []
        for turn in range(20):
            requests.append(request(*history, tools=(ADD,)))
            history += [Message("assistant", f"a{turn}"), Message("user", f"u{turn}")]
        ask_all(chat(server), requests)
        bodies = [received.raw for received in server.requests]
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(before.removesuffix(b"]}"))
    assert sum("role" in value for value in written if isinstance(value, dict)) == len(history) - 2
    assert json.loads(bodies[-1])["messages"][0] == {"role": "system", "content": "s"}


def _counting(written):
    from hermes_nb.providers.encoding import to_json

    def spy(value):
        written.append(value)
        return to_json(value)

    return spy


def test_a_smaller_history_lets_go_of_the_old_one():
    from hermes_nb.providers.encoding import Fragments

    fragments = Fragments(lambda message: message.content.encode())
    old = [Message("user", str(i)) for i in range(500)]
    fragments.joined(old)
    fragments.forget(old[:2])
    assert len(fragments._known) == 2
    assert fragments.joined(old[:2]) == b"0,1"


@pytest.mark.parametrize(
    ("url", "model", "name"),
    [("https://api.openai.com/v1", "o4-mini", "max_completion_tokens"),
     ("https://api.openai.com/v1", "gpt-5", "max_completion_tokens"),
     ("https://api.openai.com/v1", "gpt-4.1", "max_tokens"), ("http://localhost:1/v1", "o4-mini", "max_tokens")],
)  # fmt: skip
def test_the_output_cap_has_the_name_that_the_model_knows(url, model, name):
    provider = OpenAIChat(model, base_url=url, api_key="k", max_tokens=5)
    for asked, cap in ((None, 5), (7, 7)):
        body = json.loads(provider.dialect().encode(request(max_tokens=asked), stream=False))
        assert {key: value for key, value in body.items() if key.startswith("max")} == {name: cap}


def test_mistral_gets_short_ids_on_both_sides():
    provider = OpenAIChat("m", base_url="https://api.mistral.ai/v1", api_key="k")
    calls = (ToolCall("call_1", "add"), ToolCall("abcDEF123", "add"))
    answers = [Message("tool", "1", tool_call_id=call.id) for call in calls]
    sent = json.loads(provider.dialect().encode(request("q", Message("assistant", "", calls), *answers), stream=False))
    made = [call["id"] for call in sent["messages"][1]["tool_calls"]]
    assert made == [message["tool_call_id"] for message in sent["messages"][2:]]
    assert all(len(one) == 9 and one.isalnum() for one in made)
    assert made[1] == "abcDEF123"


def test_a_query_of_the_base_url_stays_at_the_end():
    with Server(say("hi")) as server:
        assert ask(chat(server, base_url=f"{server.url}/?api-version=1")).text == "hi"
        assert server.requests[0].path == "/v1/chat/completions?api-version=1"


def test_no_tools_means_no_word_about_tools():
    provider = OpenAIChat("m", base_url="http://localhost:1/v1", tool_choice="required", parallel_tool_calls=False)
    with_tools = json.loads(provider.dialect().encode(request(tools=(ADD,)), stream=False))
    without = json.loads(provider.dialect().encode(request(tools=(ADD,), tool_choice="none"), stream=False))
    assert {"tools", "tool_choice", "parallel_tool_calls"} <= set(with_tools)
    assert set(without) == {"model", "messages"}


# ------------------------------------------------------------------------------------------------ what goes back


def thinking(**more):
    body = {"role": "assistant", "content": None, "reasoning_content": "I should add.",
            "tool_calls": [{"id": "c1", "function": {"name": "add", "arguments": "{}"}, **more}]}  # fmt: skip
    return whole({"choices": [{"message": body, "finish_reason": "tool_calls"}]})


def second(provider, first_reply):
    """The assistant's message as it goes out in the next request."""
    done = Message("tool", "3", tool_call_id="c1", name="add")
    body = provider.dialect().encode(request("q", first_reply.message, done), stream=False)
    return json.loads(body)["messages"][1]


def test_reasoning_goes_back_to_the_server_that_made_it_with_calls_only():
    with Server(thinking(), say("plain", reasoning="hm")) as server, Server() as other:
        provider = chat(server)
        with_call, without = ask_all(provider, [request(), request()])
        assert second(provider, with_call)["reasoning_content"] == "I should add."
        assert "reasoning_content" not in second(provider, without)
        assert "reasoning_content" not in second(chat(other), with_call)  # after a fallback to another server
        assert "reasoning_content" not in second(chat(server, send_reasoning=False), with_call)
        assert second(chat(other, send_reasoning=True), with_call)["reasoning_content"] == "I should add."


def test_reasoning_survives_being_stored():
    with Server(thinking()) as server:
        reply = ask(chat(server))
        stored = Message.from_dict(json.loads(json.dumps(reply.message.as_dict())))
        assert second(chat(server), reply.with_(message=stored))["reasoning_content"] == "I should add."


def test_signed_details_go_back_to_the_server_that_made_them():
    details = [{"type": "reasoning.encrypted", "data": "x"}]
    chunk = {"choices": [{"delta": {"content": "a", "reasoning_details": details}, "finish_reason": "stop"}]}
    with (
        Server(stream(chunk), thinking(extra_content={"google": {"thought_signature": "s"}})) as server,
        Server() as other,
    ):
        detailed, signed = ask_all(chat(server), [request(), request()])
        assert second(chat(server), detailed)["reasoning_details"] == details
        assert "reasoning_details" not in second(chat(other), detailed)
        assert second(chat(server), signed)["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
        assert "extra_content" not in second(chat(other), signed)["tool_calls"][0]


# ------------------------------------------------------------------------------------------------ refusals learnt from


def strict(field, message):
    """A server that refuses a field, wherever it is."""

    def answer(received):
        return status(400, {"error": {"message": message}}) if field in received.raw.decode() else say("ok")

    return always(answer)


def retried(provider, asked):
    import anyio

    from hermes_nb.vocabulary.failures import ProviderError

    async def main():
        async with provider.connect() as connection:
            with pytest.raises(ProviderError) as caught:
                await connection.ask(asked, Heard())
            renewed = await connection.renew(caught.value.failure)
            again = await connection.ask(asked, Heard()) if renewed else None
            return caught.value.failure.reason, renewed, again and again.text

    return anyio.run(main)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("stream_options", "Unknown field: stream_options"),
        ("parallel_tool_calls", "Unsupported parameter: 'parallel_tool_calls'"),
        ('"max_tokens"', "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("reasoning_content", "property 'reasoning_content' is unexpected"),
        ("call_of_another_server", "Tool call id must be a-z, A-Z, 0-9, with a length of 9."),
    ],
)
def test_a_field_that_a_server_refuses_is_left_out_for_the_rest_of_the_turn(field, message):
    wanted = Message("assistant", "a", (ToolCall("call_of_another_server", "add"),), reasoning="r")
    answer = Message("tool", "1", tool_call_id="call_of_another_server")
    asked = request("q", wanted, answer, tools=(ADD,), max_tokens=5)
    with Server(strict(field, message)) as server:
        provider = chat(server, send_reasoning=True, parallel_tool_calls=True)
        assert retried(provider, asked) == (R.BAD_REQUEST, "refreshed", "ok")
        assert retried(provider, asked) == (R.BAD_REQUEST, "refreshed", "ok")  # the next turn learns it anew


def test_a_field_that_a_server_misses_is_sent_for_the_rest_of_the_turn():
    def deepseek(received):
        missing = any("reasoning_content" not in m for m in received.messages if m["role"] == "assistant")
        error = {"error": {"message": "Missing `reasoning_content` field in the assistant message at message index 1."}}
        return status(400, error) if missing else say("ok")

    history = [
        "q",
        Message("assistant", "", (ToolCall("c", "add"),), reasoning="r"),
        Message("tool", "1", tool_call_id="c"),
    ]
    with Server(always(deepseek)) as server:
        assert retried(chat(server), request(*history)) == (R.BAD_REQUEST, "refreshed", "ok")


def test_a_turn_survives_a_field_that_its_server_refuses():
    with Server(strict("stream_options", "Unknown field: stream_options")) as server:
        result = hermes_nb.Agent(chat(server)).run("hello", session=False)
        assert (result.text, len(server.requests)) == ("ok", 2)
    with Server(always(status(400, {"error": {"message": "Invalid schema for function 'x'"}}))) as server:
        result = hermes_nb.Agent(chat(server)).run("hello", session=False)
        assert (result.failure.reason, len(server.requests)) == (R.BAD_REQUEST, 1)


def test_any_other_refusal_changes_nothing():
    with Server(always(status(400, {"error": {"message": "Invalid schema for function 'x'"}}))) as server:
        assert retried(chat(server), request()) == (R.BAD_REQUEST, "", None)
        assert len(server.requests) == 1


def test_a_refused_stream_is_asked_for_whole():
    def answer(received):
        refused = status(400, {"error": {"message": "Streaming is not supported"}})
        return refused if received.body.get("stream") else say("ok")

    with Server(always(answer)) as server:
        assert fail(chat(server)).reason == R.STREAM_UNSUPPORTED
        assert ask(chat(server), stream=False).text == "ok"


def test_a_turn_of_calls_has_the_shape_that_servers_expect():
    with Server(call("add", a=1), say("done")) as server:
        provider = chat(server)
        first = ask(provider, tools=(ADD,))
        answer = Message("tool", "1", tool_call_id=first.tool_calls[0].id, name="add")
        assert ask(provider, "hello", first.message, answer, tools=(ADD,)).text == "done"
        roles = [message["role"] for message in server.requests[1].messages]
    assert roles == ["user", "assistant", "tool"]


def test_an_address_has_the_port_of_its_scheme():
    assert OpenAIChat("m", base_url="http://models.example/v1", api_key="k").address == ("models.example", 80)
    assert OpenAIChat("m", base_url="https://models.example/v1", api_key="k").address == ("models.example", 443)


def test_headers_of_eight_characters_are_kept_secret_and_flags_are_not():
    headers = {"X-Team": "12345678", "X-Flag": "1234567"}
    assert OpenAIChat("m", base_url="http://localhost/v1", headers=headers).secrets == ("12345678",)
