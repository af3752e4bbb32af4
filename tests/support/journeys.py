"""Turns of the real loop in which much happens, for the tests of traces; scripted, without waiting."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import anyio

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, no_waiting, say, script

if TYPE_CHECKING:
    from hermes_nb.traces import Trace


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


def eventful_agent() -> hn.Agent:
    """Retries, a fallback, a sub-agent, a tool that fails, parallel calls, and at last the grace call."""
    helper = hn.Agent(
        script(call("population", city="Lille"), say("236,000"), each_turn=True, name="aux", model="small"),
        tools=[population],
        name="searcher",
    )
    first = script(
        fails("overloaded"),
        calls(call("population", city="Lyon"), call("population", city="Nowhere")),
        fails("rate_limit", times=9),
        name="first",
        model="large",
    )
    second = script(
        call("searcher", task="find Lille"),
        call("population", city="Lille"),
        call("population", city="Lyon"),
        say("Lyon is larger."),
        name="second",
        model="medium",
    )
    return hn.Agent(
        [first, second],
        tools=[population, helper.as_tool(budget=3)],
        budget=6,
        retry=hn.Retry(attempts=2),
        guard=None,
    )


def eventful(**how) -> hn.TurnResult:
    """A turn of that agent."""
    with no_waiting():
        return eventful_agent().run("Which is larger, Lyon or Lille?", **{"session": False, **how})


def plain_trace(prompt: str = "How many people live in Lyon?") -> Trace:
    """A turn with one tool call that simply goes well."""
    agent = hn.Agent(script(call("population", city="Lyon"), say("522,000")), tools=[population])
    return agent.run(prompt, session=False).trace


def compressed() -> hn.TurnResult:
    """A turn with a long history, which is compressed before the model is asked."""
    rows = [
        {"role": role, "content": f"{role} {number}: " + "as it was before. " * 60}
        for number in range(12)
        for role in ("user", "assistant")
    ]

    def answer(request):
        return say("Towns were discussed.") if request.purpose == "compression" else say("522,000")

    return hn.Agent(script(*[answer] * 9, context_window=4_000), budget=3).run("And Lyon?", history=rows, session=False)


def given_up() -> hn.TurnResult:
    """A turn that no model answered."""
    with no_waiting():
        return hn.Agent(script(fails("server_error", times=9))).run("Lyon?", session=False)


def steered() -> hn.TurnResult:
    """A turn with a steer between two model calls."""
    agent = hn.Agent(script(call("population", city="Lyon"), say("As you wish.")), tools=[population])
    run = agent.start("Lyon?", session=False, paused=True)
    run.steer("Metropolitan area, please.")
    run.resume()
    return run.result()


def interrupted() -> hn.TurnResult:
    """A turn that is interrupted while the model is being asked."""
    started = threading.Event()

    async def slow(request, on_text):
        started.set()
        await anyio.sleep(30)

    run = hn.Agent(hn.as_provider(slow, name="slow")).start("Lyon?", session=False)
    started.wait(10)
    run.interrupt()
    return run.result()


JOURNEYS = (eventful, compressed, given_up, steered, interrupted)
