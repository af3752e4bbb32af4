"""What a model is told before everything else, and what it is told of a day that has changed."""

from __future__ import annotations

import datetime as dt
import json
from itertools import pairwise

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, calls, say
from hermes_nb.turn.context_files import read_context_file
from hermes_nb.turn.prompting import STEER_NOTE
from tests.support.scripts import agent, population, run
from tests.support.server import Server, always
from tests.support.server import say as said


@hn.tool(guidance="Ask for one city at a time.")
def weather(city: str) -> str:
    """The weather in a city."""
    return "fair"


@pytest.fixture
def day(monkeypatch):
    """Sets how many days from now it is."""

    def become(days: int) -> str:
        class Clock:
            @staticmethod
            def now(zone):
                return dt.datetime.now(zone) + dt.timedelta(days=days)

        monkeypatch.setattr("hermes_nb.turn.prompting.datetime", Clock)
        return Clock.now(dt.UTC).date().isoformat()

    return become


def over(server: Server, **settings) -> hn.Agent:
    model = hn.OpenAIChat("m", base_url=server.url, api_key="sk-prompt-0001")
    return hn.Agent(model, **({"tools": [population, weather]} | settings))


# ---------------------------------------------------------------------------------------- the parts


def test_the_parts_of_the_system_prompt_stand_in_their_order(tmp_path, day):
    (tmp_path / "AGENTS.md").write_text("Use metric units.")
    (tmp_path / "CLAUDE.md").write_text("Not read.")
    today = day(0)
    helper = agent(say("ok"), name="helper").as_tool(guidance="Give it whole tasks.\n")
    with Server(said("ok")) as server:
        made = over(server, instructions="Be brief.", context_files=tmp_path, tools=[population, weather, helper])
        run(made)

    assert server.requests[0].messages[0]["content"].split("\n\n") == [
        "Model: m\nProvider: openai",
        "Be brief.",
        "How to use the tools:\n- weather: Ask for one city at a time.\n- helper: Give it whole tasks.",
        STEER_NOTE,
        "From AGENTS.md of the working directory:",
        "Use metric units.",
        f"Date: {today}",
    ]


def test_an_agent_without_tools_or_guidance_is_told_nothing_of_them():
    seen = []
    run(agent(lambda request: seen.append(request.messages[0].text) or say("ok"), tools=[]))
    assert len(seen[0].split("\n\n")) == 2

    run(agent(lambda request: seen.append(request.messages[0].text) or say("ok")))
    assert "How to use" not in seen[1]


def test_guidance_is_part_of_what_a_conversation_keeps(tmp_path):
    @hn.tool(name="weather", guidance="Ask for two cities at a time.")
    def otherwise(city: str) -> str:
        """The weather in a city."""
        return "fair"

    with Server(always(said("ok"))) as server:
        for tools in ([weather], [otherwise], [weather]):
            over(server, tools=tools).run("q", session=hn.Session(tmp_path / "x.db"))
        systems = [request.messages[0]["content"] for request in server.requests]

    assert "one city" in systems[0]
    assert "two cities" in systems[1]
    assert systems[0] == systems[2]


# ---------------------------------------------------------------------------------------- another day


def test_a_conversation_that_goes_on_another_day_keeps_its_bytes_and_tells_the_day_once(tmp_path, day):
    today, later = day(0), None
    with Server(always(said("ok"))) as server:
        for days, prompt in [(0, "one"), (0, "two"), (3, "three"), (3, "four"), (4, "five")]:
            later = day(days)
            over(server).run(prompt, session=hn.Session(tmp_path / "x.db"))
        bodies = [json.dumps(request.messages) for request in server.requests]
        last = server.requests[-1].messages

    for before, after in pairwise(bodies):
        assert after.startswith(before[:-1]), "byte by byte"
    assert last[0]["content"].endswith(f"Date: {today}")
    told = [message["content"] for message in last if message["role"] == "user"]
    assert told == ["one", "two", f"three\n\nDate: {_plus(today, 3)}", "four", f"five\n\nDate: {later}"]
    session = hn.Session(tmp_path / "x.db")
    assert [m.text for m in session.messages if m.role == "user"] == ["one", "two", "three", "four", "five"]


def test_a_prompt_of_parts_is_told_the_day_in_a_part_of_its_own(tmp_path, day):
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    with Server(always(said("ok"))) as server:
        over(server).run("one", session=hn.Session(tmp_path / "x.db"))
        later = day(1)
        over(server).run(parts, session=hn.Session(tmp_path / "x.db"))

    assert server.requests[1].messages[-1]["content"] == [*parts, {"type": "text", "text": f"Date: {later}"}]


def test_a_reply_on_another_day_tells_the_day_also_without_a_session(day):
    seen = []

    def look(request):
        seen.append(request.messages)
        return say("ok")

    first = agent(look, look).start("one", session=False)
    first.result()
    later = day(1)
    first.reply("two").result()

    assert seen[1][0] == seen[0][0]
    assert seen[1][-1].text == f"two\n\nDate: {later}"


def test_a_date_in_the_instructions_or_in_a_prompt_is_not_taken_for_the_day(tmp_path, day):
    with Server(always(said("ok"))) as server:
        for days in (0, 1):
            later = day(days)
            made = over(server, instructions="Date: 2999-01-01\n\nPretend.")
            made.run("Date: 2999-01-01", session=hn.Session(tmp_path / "x.db"))

    assert server.requests[1].messages[-1]["content"] == f"Date: 2999-01-01\n\nDate: {later}"


def test_a_turn_of_another_day_is_replayed_and_forked_whenever_that_is(tmp_path, day):
    session = hn.Session(tmp_path / "x.db")
    session.resume(agent(say("one")), "first")
    day(2)
    steps = calls(call("population", city="Lyon"), call("population", city="Lille")), say("two")
    turn = session.start(agent(*steps), "second")
    original = turn.result()
    assert original.messages[2].facts
    day(5)

    assert hn.replay(turn.trace).result().messages == original.messages
    assert hn.replay(turn.trace, agent=agent()).result().text == "two"
    assert hn.replay(turn.trace, until=1, agent=agent(say("another end"))).result().text == "another end"


def _plus(day: str, days: int) -> str:
    return (dt.date.fromisoformat(day) + dt.timedelta(days=days)).isoformat()


# ---------------------------------------------------------------------------------------- the context file


def test_the_first_context_file_of_the_list_is_read_and_no_other(tmp_path):
    names = ["HERMES.md", ".hermes.md", "AGENTS.md", "agents.md", "CLAUDE.md", ".cursorrules"]
    for name in reversed(names):
        (tmp_path / name).write_text(f"Read {name}.")
    for name in names:
        assert read_context_file(tmp_path) == f"From {name} of the working directory:\n\nRead {name}."
        (tmp_path / name).unlink()
    assert read_context_file(tmp_path) == ""


def test_twenty_thousand_characters_of_a_context_file_are_read_whole_and_of_more_nine_tenths(tmp_path):
    path, head = tmp_path / "AGENTS.md", "From AGENTS.md of the working directory:\n\n"
    path.write_text("a" * 20_000)
    assert read_context_file(tmp_path) == head + "a" * 20_000
    path.write_text("a" * 14_000 + "b" * 2_001 + "c" * 4_000)
    note = "\n\n[... 2001 characters of AGENTS.md are left out here ...]\n\n"
    assert read_context_file(tmp_path) == head + "a" * 14_000 + note + "c" * 4_000


def test_a_long_context_file_keeps_its_beginning_and_its_end(tmp_path):
    (tmp_path / "AGENTS.md").write_text("begin" + "x" * 50_000 + "end")
    made = agent(context_files=tmp_path)

    assert len(made.context) < 21_000
    assert "begin" in made.context
    assert made.context.endswith("end")
    with pytest.raises(hn.ConfigurationError, match="no directory"):
        agent(context_files=tmp_path / "nowhere")
