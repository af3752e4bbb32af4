"""A limit of seconds: the turn lands softly with its grace call, and is stopped only when even that takes too long."""

from __future__ import annotations

import threading
import time

import anyio
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, no_waiting, say, script
from tests.support.server import Server, always, calls, drip, slow, stall, stream, text_chunks
from tests.support.server import call as called
from tests.support.server import say as said

LYON = called("population", city="Lyon")


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


def over(server: Server, **settings) -> hn.Agent:
    model = hn.OpenAIChat("m", base_url=server.url, api_key="sk-ceiling-0001")
    return hn.Agent(model, **({"tools": [population], "budget": 50, "ceiling": hn.Ceiling(seconds=0.5)} | settings))


def run(agent: hn.Agent, **options) -> hn.TurnResult:
    with no_waiting():
        return agent.run("How many people live in Lyon?", **({"session": False} | options))


def until_the_grace_call(words: str):
    """Answers with a call, slowly, as long as calls are offered."""
    return lambda request: slow(0.2, LYON) if request.body.get("tools") else said(words)


def test_between_two_iterations_the_turn_lands_with_its_grace_call():
    with Server(always(until_the_grace_call("so far: 522,000"))) as server:
        result = run(over(server))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.text == "so far: 522,000"
    assert "0.5 seconds" in result.detail
    assert (result.graces, result.budget.used) == (1, len(server.requests) - 1)
    assert not server.requests[-1].body.get("tools")
    assert not result.interrupted


def test_a_request_that_is_under_way_may_come_to_its_end_and_its_answer_counts():
    with Server(slow(0.6, said("522,000"))) as server:
        result = run(over(server, ceiling=hn.Ceiling(seconds=0.2)))

    assert result.completed
    assert result.text == "522,000"
    assert len(server.requests) == 1


def test_calls_that_come_too_late_are_not_started():
    ran = []

    @hn.tool
    def write(number: int) -> str:
        """Has an effect."""
        ran.append(number)
        return "written"

    with Server(slow(0.5, calls(called("write", number=1), called("write", number=2))), said("nothing done")) as server:
        result = run(over(server, tools=[write], ceiling=hn.Ceiling(seconds=0.2)))

    assert ran == []
    assert "not started" in server.requests[1].messages[-1]["content"]
    assert (result.text, result.exit_reason) == ("nothing done", hn.ExitReason.CEILING_REACHED)


@pytest.mark.parametrize("kind", ["plain", "async", "patient"])
def test_a_tool_that_runs_is_given_up_and_the_model_told_before_it_sums_up(kind):
    let_go = threading.Event()

    @hn.tool(name="hang")
    def plain() -> str:
        """Takes long."""
        let_go.wait(30)
        return "late"

    @hn.tool(name="hang")
    async def asynchronous() -> str:
        """Takes long."""
        await anyio.sleep(30)
        return "late"

    @hn.tool(name="hang", timeout=25)
    def patient() -> str:
        """Takes long, as it says."""
        let_go.wait(30)
        return "late"

    hang = {"plain": plain, "async": asynchronous, "patient": patient}[kind]
    with Server(called("hang"), said("it hung")) as server:
        result = run(over(server, tools=[hang], ceiling=hn.Ceiling(seconds=0.4)))
    let_go.set()

    assert "effect is unknown" in server.requests[1].messages[-1]["content"]
    assert (result.text, result.exit_reason) == ("it hung", hn.ExitReason.CEILING_REACHED)
    assert result.seconds < 10


def test_what_takes_longer_than_the_landing_is_stopped():
    with Server(stall()) as server:
        result = run(over(server, ceiling=hn.Ceiling(seconds=0.2, landing=0.2)))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert "time limit" in result.detail
    assert result.seconds < 10
    assert not result.interrupted


def test_a_grace_call_that_takes_longer_than_the_landing_keeps_what_was_said():
    slowly = drip(stream(*text_chunks("so ", "far ", *["..."] * 200)), 0.05)
    with Server(slow(0.3, LYON), slowly) as server:
        result = run(over(server, ceiling=hn.Ceiling(seconds=0.2, landing=0.6)))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.messages[-1].text.startswith("so ")
    assert result.seconds < 10


def test_without_a_landing_the_turn_stops_at_once():
    with Server(slow(30, said("late"))) as server:
        result = run(over(server, ceiling=hn.Ceiling(seconds=0.2, landing=0)))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.graces == 0
    assert result.seconds < 10


def test_a_sub_agent_lands_first_and_its_lead_after_it():
    with (
        Server(always(until_the_grace_call("the helper's last words"))) as inner,
        Server(called("helper", task="t"), said("the lead's last words")) as outer,
    ):
        helper = over(inner, name="helper", ceiling=None).as_tool()
        result = run(over(outer, tools=[helper]))

    assert "the helper's last words" in outer.requests[1].messages[-1]["content"]
    assert result.text == "the lead's last words"
    reasons = result.trace.turns_df().set_index("agent_name").exit_reason
    assert (reasons["agent"], reasons["helper"]) == ("ceiling_reached", "ceiling_reached")


def test_a_sub_agent_that_waits_for_its_turn_until_the_time_is_over_does_not_begin():
    tasks = calls(called("helper", task="one"), called("helper", task="two"))
    with Server(always(slow(0.5, said("done")))) as inner, Server(tasks, said("one is done")) as outer:
        helper = over(inner, name="helper", ceiling=None).as_tool()
        lead = over(outer, tools=[helper], ceiling=hn.Ceiling(seconds=0.3), delegation=hn.Delegation(at_once=1))
        result = run(lead)

    assert len(inner.requests) == 1
    assert "not handed on" in outer.requests[1].messages[-1]["content"]
    assert result.text == "one is done"


def test_the_stop_at_the_end_of_the_landing_reaches_a_sub_agent():
    with Server(stall()) as inner, Server(called("helper", task="t")) as outer:
        helper = over(inner, name="helper", ceiling=None).as_tool()
        result = run(over(outer, tools=[helper], ceiling=hn.Ceiling(seconds=0.2, landing=0.3)))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.seconds < 10


def test_an_answer_that_was_being_continued_is_whole_after_the_landing():
    cut = said("one two ", finish="length")
    with Server(slow(0.3, cut), said("three")) as server:
        result = run(over(server, ceiling=hn.Ceiling(seconds=0.2)))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.text == "one two three"
    assert [message.text for message in result.messages[1:]] == ["one two three"]


def test_a_landing_is_replayed():
    @hn.tool
    def nap() -> str:
        """Sleeps."""
        time.sleep(0.3)
        return "slept"

    turn = hn.Agent(script(call("nap"), call("nap"), say("tired")), tools=[nap], ceiling=hn.Ceiling(seconds=0.2))
    original = turn.start("q", session=False)
    assert original.result().exit_reason is hn.ExitReason.CEILING_REACHED
    again = hn.replay(original.trace).result()

    assert again.messages == original.result().messages
    assert (again.exit_reason, again.detail) == (original.result().exit_reason, original.result().detail)


@pytest.mark.parametrize("wrong", [-1, float("nan")])
def test_a_landing_that_cannot_be_is_refused(wrong):
    with pytest.raises(hn.ConfigurationError, match="landing"):
        hn.Ceiling(seconds=5, landing=wrong)
