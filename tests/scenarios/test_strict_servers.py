"""What models write goes back to servers that are stricter than the models: they must accept every request."""

from __future__ import annotations

import json

import pytest

import hermes_nb as hn
from hermes_nb.testing import no_waiting
from tests.support.scripts import population
from tests.support.server import Server, call, calls, say, stall, stream
from tests.support.strict import refusals

APIS = {"chat completions": hn.OpenAIChat, "messages": hn.Anthropic}


@hn.tool
def weigh(grams: float) -> str:
    """Any number will do."""
    return f"{grams} g"


def agent(server: Server, api: str) -> hn.Agent:
    return hn.Agent(APIS[api]("m", base_url=server.url, api_key="k"), tools=[population, weigh], budget=8)


def refused(server: Server) -> list[str]:
    return [wrong for request in server.requests for wrong in refusals(request)]


@pytest.mark.parametrize("name", ["no such tool!", "übersetze", "a.b:c/d", "x" * 65, '{"name": "f"}'])
@pytest.mark.parametrize("api", APIS)
def test_a_tool_that_a_model_made_up_has_a_name_that_servers_take(api, name):
    with Server(call(name, city="Lyon"), say("So it is.")) as server, no_waiting():
        result = agent(server, api).run("How many?", session=False)

    assert result.text == "So it is."
    assert len(server.requests) == 2
    assert refused(server) == []


@pytest.mark.parametrize("api", APIS)
def test_a_name_of_64_letters_goes_back_as_it_came(api):
    name = "x" * 64
    with Server(call(name, city="Lyon"), say("So it is.")) as server, no_waiting():
        agent(server, api).run("How many?", session=False)

    assert f'"{name}"' in server.requests[1].raw.decode()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("api", APIS)
def test_numbers_that_only_python_takes_for_json_go_back_as_json(api, number):
    with Server(call("weigh", raw=f'{{"grams": {number}}}'), say("Much.")) as server, no_waiting():
        result = agent(server, api).run("How heavy?", session=False)

    assert result.text == "Much."
    assert result.messages[2].text.endswith(" g"), "the tool got the number"
    assert len(server.requests) == 2
    assert refused(server) == []


@pytest.mark.parametrize("stopped", ["interrupted", "out of budget"])
@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a session"])
@pytest.mark.parametrize("api", APIS)
def test_a_question_that_was_never_answered_and_the_next_one_are_one_message(api, kept, stopped, tmp_path):
    session = hn.Session(tmp_path / "talk.db") if kept else False
    silent = [stall()] if stopped == "interrupted" else [call("population", city="Lyon")] * 2
    with Server(*silent, say("Both.")) as server, no_waiting():
        asker = agent(server, api).with_(budget=8 if stopped == "interrupted" else 0)
        run = asker.start("How many in Lyon?", session=session)
        if stopped == "interrupted":
            server.wait_for(1)
            run.interrupt()
        run.wait(20)
        again = run.reply("And in Lille?")

        assert again.result().text == "Both."
    last = server.requests[-1]
    assert [row["role"] for row in last.messages if row["role"] != "system"] == ["user"]
    assert "How many in Lyon?" in json.dumps(last.messages)
    assert "And in Lille?" in json.dumps(last.messages)
    assert refused(server) == []


def test_thoughts_that_must_go_back_as_they_came_hold_nothing_that_no_server_reads():
    details = [{"type": "reasoning.text", "text": "hm \ud83d", "signature": "s", "at": float("nan")}]
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_details": details}}]}
    asking = call("population", city="Lyon").chunks()
    with Server(stream(thinking, *asking, done=True), say("522,000")) as server, no_waiting():
        result = agent(server, "chat completions").run("How many?", session=False)

    assert result.text == "522,000"
    json.dumps(result.as_dict(), ensure_ascii=False).encode()
    (sent,) = [row["reasoning_details"] for row in server.requests[1].messages if "reasoning_details" in row]
    assert sent == [{"type": "reasoning.text", "text": "hm �", "signature": "s", "at": None}]
    assert refused(server) == []


def test_an_id_that_no_server_reads_is_exchanged_for_one_that_all_do():
    odd = calls(call("population", city="Lyon", id="\ud83d"), call("population", city="Lille", id="\ud800"))
    for api in APIS:
        with Server(odd, say("758,000")) as server, no_waiting():
            result = agent(server, api).run("How many?", session=False)

        assert [m.text for m in result.messages if m.role == "tool"] == ["522000", "236000"]
        json.dumps(result.as_dict(), ensure_ascii=False).encode()
        assert refused(server) == []


def test_a_server_that_uses_one_id_for_all_calls_gets_each_result_back_for_its_call():
    twice = calls(call("population", city="Lyon", id="x"), call("population", city="Lille", id="x"))
    for api in APIS:
        with Server(twice, twice, say("758,000")) as server, no_waiting():
            result = agent(server, api).run("How many?", session=False)

        assert [m.text for m in result.messages if m.role == "tool"][:2] == ["522000", "236000"]
        assert refused(server) == []
