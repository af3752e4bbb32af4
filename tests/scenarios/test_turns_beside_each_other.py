"""Turns in which only the library's own code runs share one thread and its connections; others have a thread each."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import weakref
from typing import Annotated

import anyio
import pytest
from opentelemetry.sdk.trace import TracerProvider
from pydantic import AfterValidator

import hermes_nb as hn
from hermes_nb import lanes
from hermes_nb.lanes import SharedLane
from hermes_nb.providers import transport
from hermes_nb.testing import no_waiting, say, script
from hermes_nb.tools import results
from hermes_nb.tools.threads import _Worker, in_thread
from tests.support import answers
from tests.support.scripts import population
from tests.support.server import Server, always, slow, stall, status
from tests.support.waiting import wait_for

SHARED, ALONE = "hermes_nb turns", "hermes_nb "
who = contextvars.ContextVar("who", default="nobody")


def asked(server, *tools, **settings) -> hn.Agent:
    return hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key="k-12345678"), tools=tools, **settings)


def calling(tool, words="ok", /, **arguments):
    """A step that calls a tool once, and then answers."""

    def step(request):
        done = any(message["role"] == "tool" for message in request.messages)
        return answers.say(words) if done else answers.call(tool, **arguments)

    return step


def lanes_in_use() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith(ALONE)}


# ------------------------------------------------------------------------------------------- who shares


def test_thirty_turns_at_once_need_one_thread():
    with Server(always(slow(0.3, answers.say("hi")))) as server:
        runs = [asked(server).start("q", session=False) for _ in range(30)]
        server.wait_for(30)
        names, busiest = lanes_in_use(), server.busiest
        results = [run.result(20) for run in runs]

    assert SHARED in names
    assert not names & {f"{ALONE}{run.turn_id[:8]}" for run in runs}
    assert busiest == 30
    assert [result.text for result in results] == ["hi"] * 30


class Sharing(hn.RateGuard):
    """A policy of the user's."""


class Counted(hn.IterationBudget):
    """A budget of the user's."""


class Own(hn.OpenAIChat):
    """A provider of the user's."""


class Tool:
    """A tool that is no function: it is run in the turn's event loop."""

    spec, options = hn.tool(population).spec, hn.tool(population).options

    async def invoke(self, arguments, context):
        return 1


def own_price(provider, model, usage):
    return 0.0


@pytest.mark.parametrize(
    ("settings", "asking"),
    [
        ({"guard": Sharing()}, {}),
        ({"ceiling": hn.Ceiling(cost_usd=1, price=own_price)}, {}),
        ({"compression": hn.Compression(compressor=lambda messages: messages)}, {}),
        ({"faults": hn.Faults(seed=1)}, {}),
        ({"budget": Counted(3)}, {}),
        ({}, {"sinks": [lambda event: None]}),
        ({}, {"tracer_provider": TracerProvider(shutdown_on_exit=False)}),
    ],
    ids=["policy", "price", "compressor", "faults", "budget", "sink", "tracer"],
)
def test_a_turn_with_code_of_the_users_has_a_thread_for_itself(settings, asking):
    with Server(stall()) as server:
        run = asked(server, **settings).start("q", session=False, **asking)
        server.wait_for(1)
        names = lanes_in_use()
        run.interrupt()
        run.result(20)

    assert f"{ALONE}{run.turn_id[:8]}" in names


def test_so_has_one_with_a_provider_or_a_tool_of_the_users_or_with_a_sub_agent():
    with Server(always(stall())) as server:
        own = Own("m", base_url=server.url, api_key="k-12345678")
        agents = hn.Agent(own), asked(server, Tool()), asked(server, asked(server).as_tool(name="helper"))
        runs = [agent.start("q", session=False) for agent in agents]
        server.wait_for(3)
        names = lanes_in_use()
        for run in runs:
            run.interrupt()
            run.result(20)

    assert {f"{ALONE}{run.turn_id[:8]}" for run in runs} <= names


def test_so_has_one_whose_model_is_not_behind_http():
    run = hn.Agent(script(lambda request: say(threading.current_thread().name))).start("q", session=False)

    assert run.result(20).text == f"{ALONE}{run.turn_id[:8]}"


def test_a_sink_that_takes_its_time_holds_up_its_own_turn_only():
    go = threading.Event()
    with Server(always(answers.say("hi"))) as server:
        held = asked(server).start("q", session=False, sinks=[lambda event: go.wait(60) and None])
        others = [asked(server).run("q", session=False).text for _ in range(3)]
        over = held.done
        go.set()
        held.result(20)

    assert others == ["hi"] * 3
    assert not over


# ------------------------------------------------------------------------------------------- side by side


def test_each_turn_has_its_own_context_and_its_own_spans():
    @hn.tool
    def whoami() -> str:
        """Who asks."""
        return who.get()

    def turn(server, name):
        who.set(name)
        return asked(server, whoami).start(name, session=False)

    with Server(always(calling("whoami"))) as server:
        runs = [contextvars.copy_context().run(turn, server, f"person {number}") for number in range(12)]
        results = [run.result(20) for run in runs]

    for number, result in enumerate(results):
        assert result.messages[2].text == f"person {number}"
        names = result.trace.spans_df()["name"].tolist()
        assert sorted(names) == sorted(
            ["invoke_agent agent", *["hermes.iteration", "chat m", "hermes.attempt"] * 2, "execute_tool whoami"]
        )


def test_an_interrupt_ends_one_turn_and_leaves_the_others():
    with Server(always(slow(0.4, answers.say("hi")))) as server:
        runs = [asked(server).start("q", session=False) for _ in range(5)]
        server.wait_for(5)
        runs[2].interrupt()
        reasons = [run.result(20).exit_reason for run in runs]

    assert [str(reason) for reason in reasons] == [*["completed"] * 2, "interrupted_by_user", *["completed"] * 2]


def test_a_turn_without_end_does_not_keep_the_next_from_coming():
    with Server(stall(), always(answers.say("hi"))) as server:
        waiting = asked(server).start("q", session=False)
        server.wait_for(1)
        assert asked(server).run("q", session=False).text == "hi"
        waiting.interrupt()
        assert waiting.result(20).interrupted


def test_a_watcher_that_asks_for_the_result_of_a_turn_beside_is_told_that_it_would_wait_for_ever(caplog):
    with Server(stall(), slow(0.3, answers.say("hi"))) as server:
        other = asked(server).start("q", session=False)
        server.wait_for(1)
        run = asked(server).start("q", session=False)
        server.wait_for(2)
        run.subscribe(lambda event: other.result())
        assert run.result(20).text == "hi"
        other.interrupt()
        assert other.result(20).interrupted

    assert "cannot wait" in caplog.text


def test_a_watcher_may_run_a_turn_of_its_own():
    told = []
    with Server(slow(0.3, answers.say("first")), answers.say("second")) as server:
        run = asked(server).start("q", session=False)
        server.wait_for(1)

        def ask(event):
            if event.phase == "ended" and event.what.kind == "chat":
                told.append(asked(server).run("and?", session=False).text)

        run.subscribe(ask)
        assert run.result(20).text == "first"

    assert told == ["second"]


def test_an_async_tool_may_use_a_provider_by_itself():
    """Its event loop is another one: it does not get a connection of the turns'."""

    async def told(server) -> str:
        model = hn.OpenAIChat("m", base_url=server.url, api_key="k-12345678")
        async with model.connect() as connection:
            request = hn.ModelRequest((hn.Message("user", "and?"),))
            return (await connection.ask(request, lambda *_: None)).text

    with Server(answers.call("ask"), answers.say("inner"), answers.say("outer")) as server:

        @hn.tool
        async def ask() -> str:
            """Asks."""
            return await told(server)

        result = asked(server, ask).run("q", session=False)

    assert (result.messages[2].text, result.text) == ("inner", "outer")
    assert server.connections == 2


# ------------------------------------------------------------------------------------------- connections


def test_turn_after_turn_uses_the_same_connection():
    with Server(always(answers.say("hi"))) as server:
        for _ in range(5):
            asked(server).run("q", session=False).raise_for_failure()

    assert len(server.requests) == 5
    assert server.connections == 1


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    with no_waiting(), Server(always(answers.say("hi"))) as server:
        asked(server).run("q", session=False).raise_for_failure()
        for sock in list(server._sockets):
            sock.shutdown(2)
        assert wait_for(lambda: not server._sockets)
        result = asked(server).run("q", session=False)

    assert result.completed
    assert len(server.requests) == 2
    assert server.connections == 2


def test_a_connection_is_not_used_again_after_an_interrupt():
    with Server(stall(), answers.say("hi")) as server:
        run = asked(server).start("q", session=False)
        request = server.wait_for(1)
        run.interrupt()
        run.result(20)
        assert request.wait().disconnected
        assert asked(server).run("q", session=False).text == "hi"

    assert server.connections == 2


def raw(text, more=b""):
    """A step: a reply and what comes with it, byte by byte."""
    body = json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return answers.Answer(moves=(head + body + more,), bare=True, chunked=False)


def kept_connections():
    """Those of all lanes, as what reads them."""
    transports = [one for shared in list(transport._shared.values()) for one in shared.values()]
    return [reader for one in transports for *_, (reader, _) in list(one._idle)]


@pytest.mark.parametrize("later", [False, True], ids=["with the reply", "after it"])
def test_what_a_server_says_unasked_answers_no_turn_that_comes_after(later):
    """Else one turn would read the answer to another one."""
    unasked = raw("for nobody").moves[0]
    with Server(raw("one", b"" if later else unasked), raw("two")) as server:
        assert asked(server).run("q", session=False).text == "one"
        if later:
            (sock,) = server._sockets
            sock.sendall(unasked)
            assert wait_for(lambda: any(reader.unread for reader in kept_connections()))
        result = asked(server).run("q", session=False)

    assert result.text == "two"
    assert (server.connections, len(result.trace.retries_df())) == (2, 0)


GONE = answers.Answer(moves=(answers.CUT,), bare=True, chunked=False)
"""The connection is closed before a byte of an answer: by a server that took it for idle when the request came."""


def test_a_request_that_crosses_the_end_of_a_kept_connection_is_sent_again_at_once():
    with Server(answers.say("one"), GONE, answers.say("two")) as server:
        assert asked(server).run("q", session=False).text == "one"
        result = asked(server).run("q", session=False)

    assert result.text == "two"
    assert len(result.trace.retries_df()) == 0
    assert [request.connection for request in server.requests] == [1, 1, 2]


def test_a_request_that_the_server_may_have_worked_on_is_not_sent_again_unseen():
    """It may be paid for: the loop sends it again, as an attempt that is told."""
    late = answers.Answer(before=0.5, moves=(answers.CUT,), bare=True, chunked=False)
    with no_waiting(), Server(answers.say("one"), late, answers.say("two")) as server:
        assert asked(server).run("q", session=False).text == "one"
        result = asked(server).run("q", session=False)

    assert result.text == "two"
    assert len(result.trace.attempts_df()) == len(server.requests) - 1 == 2


def test_a_host_whose_first_address_does_not_answer_is_reached_by_the_next(monkeypatch):
    """As where the network has only half of IPv6."""
    look_up, connect = socket.getaddrinfo, asyncio.SelectorEventLoop.sock_connect

    def two_addresses(host, *rest, **hints):
        if host != "two.invalid":
            return look_up(host, *rest, **hints)
        return [*look_up("127.0.0.2", *rest, **hints), *look_up("127.0.0.1", *rest, **hints)]

    async def silent(loop, sock, address):
        await (asyncio.sleep(60) if address[0] == "127.0.0.2" else connect(loop, sock, address))

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    monkeypatch.setattr(asyncio.SelectorEventLoop, "sock_connect", silent)
    with Server(answers.say("hi")) as server:
        model = hn.OpenAIChat("m", base_url=f"http://two.invalid:{server.port}/v1", api_key="k-12345678")
        run = hn.Agent(model).start("q", session=False)
        assert run.wait(10)

    assert run.result().text == "hi"


@pytest.mark.parametrize("begun", [(), (b"HTTP/1.1 200 OK\r\n",)], ids=["twice", "once it was answered"])
def test_what_is_no_crossing_is_an_attempt_that_failed(begun):
    broken = answers.Answer(moves=(*begun, answers.CUT), bare=True, chunked=False)
    with no_waiting(), Server(answers.say("one"), *[broken] * (1 if begun else 2), answers.say("two")) as server:
        assert asked(server).run("q", session=False).text == "one"
        result = asked(server).run("q", session=False)

    assert result.text == "two"
    assert len(result.trace.retries_df()) == 1


# ------------------------------------------------------------------------------------------- the lane itself


@pytest.mark.parametrize("words", ["ok", "many words " * 300_000], ids=["short", "long"])
def test_nothing_of_a_turn_is_left_when_it_is_over(words):
    with Server(always(calling("population", words, city="Lyon"))) as server:
        model = hn.OpenAIChat("m", base_url=server.url, api_key="k-12345678", stream=False)
        runs = [hn.Agent(model, tools=[population]).start("q", session=False) for _ in range(5)]
        for run in runs:
            assert run.result(20).text == words
        gone = [weakref.ref(kept) for run in runs for kept in (run, run.trace, run._observation._observed.store)]
        del runs, run
        assert wait_for(lambda: gc.collect() is not None and not any(ref() for ref in gone))


async def _raising(error):
    await asyncio.sleep(0)
    raise error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError("odd"), asyncio.CancelledError()])
def test_what_comes_out_of_one_turn_ends_no_other(error):
    lane, ends, go = SharedLane(), [], threading.Event()

    async def patient():
        await anyio.to_thread.run_sync(go.wait, 20)
        return "fine"

    def ended(outcome):
        try:
            ends.append(outcome())
        except BaseException as raised:  # noqa: BLE001  that is looked at
            ends.append(raised)

    lane.start(patient, ended, "patient")
    lane.start(lambda: _raising(error), ended, "raising")
    assert wait_for(lambda: ends)
    go.set()
    assert wait_for(lambda: len(ends) == 2)
    assert [type(ends[0]), ends[1]] == [type(error), "fine"]


def test_a_lane_without_turns_ends_closes_its_connections_and_starts_again_when_it_is_needed(monkeypatch):
    monkeypatch.setattr(lanes, "IDLE", 0.05)
    lane = SharedLane()
    monkeypatch.setattr(lanes, "SHARED", lane)
    with Server(always(answers.say("hi"))) as server:
        for number in (1, 2):
            assert asked(server).run("q", session=False).text == "hi"
            thread = lane._thread
            assert wait_for(lambda thread=thread: not thread.is_alive())
            assert wait_for(lambda: not server._sockets)
            assert server.connections == number


def test_a_turn_that_takes_longer_than_an_idle_lane_lasts_is_not_cut(monkeypatch):
    monkeypatch.setattr(lanes, "IDLE", 0.05)
    monkeypatch.setattr(lanes, "SHARED", SharedLane())
    with Server(slow(0.6, answers.say("at last"))) as server:
        assert asked(server).run("q", session=False).text == "at last"


def test_a_host_that_is_looked_up_for_long_holds_up_nobody_else(monkeypatch):
    """However many turns wait for it: a lane has no few threads that they could use up."""
    go, look_up = threading.Event(), socket.getaddrinfo
    waiting = threading.Semaphore(0)

    def slow_for_some(host, *rest, **hints):
        if host == "slow.invalid":
            waiting.release()
            go.wait(60)
        return look_up(host, *rest, **hints)

    monkeypatch.setattr(socket, "getaddrinfo", slow_for_some)
    slowly = hn.OpenAIChat("m", base_url="http://slow.invalid/v1", api_key="k-12345678")
    with Server(answers.say("hi")) as server:
        named = hn.OpenAIChat("m", base_url=f"http://localhost:{server.port}/v1", api_key="k-12345678")
        held = [hn.Agent(slowly).start("q", session=False) for _ in range(40)]
        reached = [waiting.acquire(timeout=10) for _ in held]
        assert hn.Agent(named).run("q", session=False).text == "hi"
        for run in held:
            run.interrupt()
        ends = [run.wait(10) for run in held]
        go.set()

    assert all(reached)
    assert all(ends)


@pytest.mark.parametrize("sinks", [[], [lambda _: None]], ids=["shared", "own"])
def test_an_interrupt_does_not_wait_until_a_host_has_been_looked_up(monkeypatch, sinks):
    go, waiting, look_up = threading.Event(), threading.Event(), socket.getaddrinfo

    def slow_for_one(host, *rest, **hints):
        if host == "slow.invalid":
            waiting.set()
            go.wait(60)
        return look_up(host, *rest, **hints)

    monkeypatch.setattr(socket, "getaddrinfo", slow_for_one)
    slowly = hn.OpenAIChat("m", base_url="http://slow.invalid/v1", api_key="k-12345678")
    run = hn.Agent(slowly).start("q", session=False, sinks=sinks)
    assert waiting.wait(20)
    run.interrupt()
    ended = run.wait(20)
    go.set()

    assert ended
    assert run.result().exit_reason == "interrupted_by_user"


def test_what_checks_the_arguments_of_a_tool_holds_up_nobody_else():
    """Annotations may bring functions of the user's along."""
    reached, go = threading.Event(), threading.Event()

    def slowly(city: str) -> str:
        reached.set()
        go.wait(60)
        return city

    def visit(city):
        """Visits a city."""
        return f"visited {city}"

    visit.__annotations__ = {"city": Annotated[str, AfterValidator(slowly)], "return": str}
    with Server(always(calling("visit", city="Lyon"))) as server:
        held = asked(server, visit).start("q", session=False)
        assert reached.wait(20)
        beside = asked(server, population).start("q", session=False)
        done = beside.wait(20)
        go.set()
        texts = [message.text for message in held.result(20).messages]

    assert done
    assert "visited Lyon" in texts


def test_a_long_result_is_put_aside_without_holding_up_anybody(monkeypatch, home):
    reached, go, shorten = threading.Event(), threading.Event(), results.shorten

    def slowly(*given, **limits):
        reached.set()
        go.wait(60)
        return shorten(*given, **limits)

    @hn.tool
    def archive() -> str:
        """Much."""
        return "page " * 100_000

    monkeypatch.setattr(results, "shorten", slowly)
    with Server(always(calling("archive"))) as server:
        held = asked(server, archive).start("q")
        assert reached.wait(20)
        done = asked(server, population).start("q", session=False).wait(20)
        held.interrupt()
        go.set()
        result = held.result(20)

    assert done
    assert "read_result" in result.messages[2].text  # it was there when the interrupt came


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_after_a_lane_has_come_to_a_bad_end_the_next_turn_gets_another(monkeypatch, error):
    lane = SharedLane()
    monkeypatch.setattr(lanes, "SHARED", lane)

    def end():
        raise error

    with Server(always(answers.say("hi"))) as server:
        assert asked(server).run("q", session=False).text == "hi"
        first = lane._thread
        lane._loop.call_soon_threadsafe(end)
        first.join(20)
        again = asked(server).run("q", session=False)
        lane.close()

    assert again.text == "hi"
    assert lane._thread is not first


PROGRAM = """
import hermes_nb as hn

hn.Agent(hn.OpenAIChat("m", base_url={url!r}, api_key="k-12345678")).run("q", session=False).raise_for_failure()
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_program_ends_without_a_word_after_its_last_turn(host):
    with Server(answers.say("hi")) as server:
        program = PROGRAM.format(url=f"http://{host}:{server.port}/v1")
        command = [sys.executable, "-W", "error", "-c", program]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_lane_of_its_own_and_leaves_the_parents_alone():
    with Server(slow(0.8, answers.say("parent")), always(answers.say("again"))) as server:
        run = asked(server).start("q", session=False)
        server.wait_for(1)
        child = os.fork()
        if child == 0:
            os._exit(_in_the_fork(server))
        _, ended = os.waitpid(child, 0)
        assert run.result(20).text == "parent"
        assert asked(server).run("q", session=False).text == "again"

    assert os.waitstatus_to_exitcode(ended) == 0


def test_a_process_that_is_forked_while_a_tool_is_handed_over_can_run_tools():
    done = threading.Event()
    with _Worker.lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            in_thread("tool", done.set)
            os._exit(0 if done.wait(10) else 1)
    _, ended = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(ended) == 0


def _in_the_fork(server) -> int:
    """What the forked process does; 0 if all is well."""
    try:
        runs = [asked(server).start("q", session=False) for _ in range(2)]
        return 0 if all(run.wait(10) and run.result().text == "again" for run in runs) else 1
    except BaseException:  # noqa: BLE001  the fork must end here, whatever happens
        return 2


def test_a_failing_server_is_asked_again_from_the_lane_too():
    with no_waiting(), Server(status(503), answers.say("hi")) as server:
        result = asked(server).run("q", session=False)

    assert (result.text, len(server.requests)) == ("hi", 2)


def test_scripts_run_beside_turns_of_real_servers():
    with Server(always(slow(0.2, answers.say("real")))) as server:
        real = asked(server).start("q", session=False)
        scripted = hn.Agent(hn.testing.script(say("scripted"))).run("q", session=False)
        assert (scripted.text, real.result(20).text) == ("scripted", "real")
