"""Async tools run in an event loop of their own, so that one which blocks it blocks no turn."""

from __future__ import annotations

import asyncio
import threading

import anyio
import httpx
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, calls, say, script
from tests.support.scripts import agent, run
from tests.support.server import Server, always, whole
from tests.support.waiting import wait_for


class Blocking:
    """An async tool that blocks its event loop until it is let go."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.tool = hn.tool(name="block")(self._block)

    async def _block(self) -> str:
        """Blocks."""
        self.began.set()
        self.go.wait(60)
        return "at last"


@pytest.fixture
def blocking():
    made = Blocking()
    yield made
    made.go.set()


@hn.tool(parallel_safe=True)
async def loop_of_tools() -> int:
    """Which event loop this is."""
    return id(asyncio.get_running_loop())


def test_an_interrupt_does_not_wait_for_a_tool_that_blocks_its_event_loop(blocking):
    turn = agent(call("block"), tools=[blocking.tool]).start("q", session=False)
    assert blocking.began.wait(20)
    turn.interrupt()
    result = turn.result(timeout=20)  # the tool is not let go before

    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    assert "effect is unknown" in result.messages[2].text
    told = [event.what.detail for event in turn.events if event.what.kind == "degraded"]
    assert told == ["block still runs in its thread; nobody waits for its result"]


def test_after_a_blocking_tool_was_given_up_other_async_tools_run(blocking):
    blocked = hn.tool(name="block", timeout=0.2)(blocking._block)
    steps = call("block"), call("loop_of_tools"), say("ok")
    result = run(agent(*steps, tools=[blocked, loop_of_tools]))

    assert result.text == "ok"
    assert "given up" in result.messages[2].text
    assert result.messages[4].text.isdigit()


def test_a_steer_and_a_pause_are_taken_while_a_tool_blocks(blocking):
    turn = agent(call("block"), say("ok"), tools=[blocking.tool]).start("q", session=False)
    assert blocking.began.wait(20)
    note = turn.steer("Hurry.")
    turn.pause()
    blocking.go.set()
    assert wait_for(lambda: turn.state == "paused")
    turn.resume()

    assert turn.result(timeout=20).text == "ok"
    assert note.status == "delivered"


def test_all_async_tools_of_a_turn_and_its_sub_agents_share_one_loop():
    helper = hn.Agent(script(call("loop_of_tools"), say("ok")), tools=[loop_of_tools], name="helper")
    both = calls(call("loop_of_tools"), call("loop_of_tools"))
    turn = agent(both, call("helper", task="t"), say("ok"), tools=[loop_of_tools, helper.as_tool()])
    turn = turn.start("q", session=False)
    assert turn.result().completed

    ended = [event.what for event in turn.events if event.what.kind == "tool" and event.phase == "ended"]
    assert len({tool.result for tool in ended if tool.name == "loop_of_tools"}) == 1


def test_a_client_may_be_shared_by_the_calls_of_a_turn():
    clients = []

    @hn.tool(parallel_safe=True)
    async def fetch(path: str) -> str:
        """Fetches a page."""
        if not clients:
            clients.append(httpx.AsyncClient())
        return (await clients[0].get(f"{server.url}/{path}")).text

    @hn.tool
    async def hang_up() -> None:
        """Closes the client."""
        await clients[0].aclose()

    with Server(always(whole("a page"))) as server:
        wants = [call("fetch", path="a"), calls(call("fetch", path="b"), call("fetch", path="c")), call("hang_up")]
        result = run(agent(*wants, say("ok"), tools=[fetch, hang_up]))

    told = [message.text for message in result.messages if message.role == "tool"]
    assert told == ["a page", "a page", "a page", "(no result)"]


def test_a_tool_that_is_interrupted_may_clean_up():
    began, cleaned = threading.Event(), threading.Event()

    @hn.tool
    async def careful() -> None:
        """Cleans up behind itself."""
        began.set()
        try:
            await anyio.sleep(60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            cleaned.set()

    turn = agent(call("careful"), tools=[careful]).start("q", session=False)
    assert began.wait(20)
    turn.interrupt()
    assert turn.result(timeout=20).interrupted
    assert cleaned.is_set()


@pytest.mark.parametrize("depth", [0, 1])
def test_a_tool_that_waits_for_the_end_of_its_own_turn_is_told_so(depth):
    runs = []

    @hn.tool
    def wait_for_myself() -> str:
        """Waits for its own turn, or for the one above."""
        return runs[0].result().text

    lead = agent(call("wait_for_myself"), say("ok"), tools=[wait_for_myself])
    if depth:
        lead = agent(call("helper", task="t"), say("ok"), tools=[lead.with_(name="helper").as_tool()])
    turn = lead.start("q", session=False, paused=True)
    runs.append(turn)
    turn.resume()

    assert turn.result(timeout=20).text == "ok"
    ended = [event.what for event in turn.events if event.what.kind == "tool" and event.phase == "ended"]
    assert "cannot wait for its own end" in ended[0].result


def test_an_async_tool_that_awaits_its_own_turn_is_told_so():
    runs = []

    @hn.tool
    async def wait_for_myself() -> str:
        """Waits for its own turn."""
        return (await runs[0]).text

    turn = agent(call("wait_for_myself"), say("ok"), tools=[wait_for_myself]).start("q", session=False, paused=True)
    runs.append(turn)
    turn.resume()
    result = turn.result(timeout=20)

    assert result.completed
    assert "cannot wait for its own end" in result.messages[2].text


def test_a_task_of_a_tool_that_ends_the_loop_takes_no_other_tool_along():
    @hn.tool
    async def leave() -> str:
        """Leaves, in a task of its own."""

        async def go() -> None:
            raise SystemExit(3)

        await asyncio.create_task(go())
        return "never"

    result = run(agent(call("leave"), call("loop_of_tools"), say("ok"), tools=[leave, loop_of_tools]))

    assert result.completed
    assert result.messages[4].text.isdigit()


def test_a_turn_leaves_no_loop_and_no_pending_task_behind():
    left = []

    @hn.tool
    async def leave_something() -> str:
        """Starts a task, and forgets it."""
        left.append(asyncio.create_task(asyncio.sleep(60)))
        return "started"

    assert run(agent(call("leave_something"), say("ok"), tools=[leave_something])).completed
    assert wait_for(lambda: left[0].cancelled() and left[0].get_loop().is_closed())
