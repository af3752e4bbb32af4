"""The rows around the loop, 20 to 38: the end of the budget, steering, tools, a killed process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import hermes_nb as hn
from tests.conformance.support import agent, population, run, texts
from tests.support.pairing import problems
from tests.support.server import Server, always, call, calls, say, slow

LYON = call("population", city="Lyon")


def test_parts_20_the_end_of_the_budget(tmp_path):
    """The last request is counted and traced; no row of the library's own is stored."""
    session = hn.Session(tmp_path / "log.db", id="c")
    with Server(LYON, LYON, LYON, say("So far: 522,000.")) as server:
        result = run(agent(server, budget=3), session=session)

    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert (result.api_calls, result.graces) == (4, 1)
    assert [message.role for message in session.messages].count("user") == 1
    assert session.messages[-1].text == "So far: 522,000."


def test_parts_21_an_answer_on_the_last_iteration():
    """Completed."""
    with Server(LYON, LYON, say("522,000")) as server:
        assert run(agent(server, budget=3)).completed


def test_parts_22_the_one_grace_iteration():
    """Granted once, also with a budget of 0."""
    with Server(say("a guess")) as server:
        result = run(agent(server, budget=0))

    assert (result.graces, result.iterations, result.text) == (1, 1, "a guess")


class Waiter:
    """A tool that waits for the test."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    def wait(self) -> str:
        """Waits."""
        self.begun.set()
        self.go_on.wait(10)
        return "done"


def test_parts_23_a_steer_in_a_tool(tmp_path):
    """At the end of its result between markers, and a row of its own in the store."""
    waiter, session = Waiter(), hn.Session(tmp_path / "log.db", id="c")
    with Server(call("wait"), say("ok"), say("again")) as server:
        made = agent(server, tools=[waiter.wait])
        turn = made.start("q", session=session)
        waiter.begun.wait(10)
        turn.steer("Be quick.")
        waiter.go_on.set()
        turn.result()
        stored = hn.Session(tmp_path / "log.db", id="c")
        stored.resume(made, "And?")

    assert "Be quick." in server.requests[1].messages[-1]["content"]
    assert [message.origin for message in session.messages].count("steer") == 1
    first, last = server.requests[1].messages, server.requests[2].messages
    assert last[: len(first)] == first


def test_parts_24_a_steer_during_the_last_answer():
    """Given back."""
    with Server(slow(0.4, say("ok"))) as server:
        turn = agent(server).start("q", session=False)
        server.wait_for()
        turn.steer("Be quick.")
        assert turn.result().as_dict()["pending_steer"] == "Be quick."


def test_parts_25_a_steer_before_any_tool():
    """Stays queued until there is a tool result to stand behind."""
    with Server(slow(0.3, LYON), say("ok")) as server:
        turn = agent(server).start("q", session=False)
        note = turn.steer("Be quick.")
        turn.result()

    assert "Be quick." not in str(server.requests[0].messages[1:])
    assert (note.status, note.iteration) == ("delivered", 2)
    result = server.requests[1].messages[-1]
    assert (result["role"], "Be quick." in result["content"]) == ("tool", True)


def test_parts_26_a_steer_never_touches_earlier_turns():
    """Old tool results stay as they were, on the wire too."""
    old = {"id": "old", "type": "function", "function": {"name": "population", "arguments": "{}"}}
    history = [
        {"role": "user", "content": "Lyon?"},
        {"role": "assistant", "content": "", "tool_calls": [old]},
        {"role": "tool", "tool_call_id": "old", "content": "522000"},
        {"role": "assistant", "content": "522,000"},
    ]
    with Server(slow(0.3, say("ok"))) as server:
        turn = agent(server).start("q", session=False, history=history)
        turn.steer("Be quick.")
        result = turn.result()

    assert server.requests[0].messages[3]["content"] == "522000"
    assert result.pending_steer == "Be quick."


def test_parts_27_parallel_reads():
    """At the same time, results in the order of the calls."""
    together = threading.Barrier(2, timeout=10)

    @hn.tool(parallel_safe=True)
    def read(path: str) -> str:
        """Reads."""
        together.wait()
        return path

    with Server(calls(call("read", path="a"), call("read", path="b")), say("ok")) as server:
        run(agent(server, tools=[read]))

    assert texts(server.requests[1])[-2:] == ["a", "b"]


def test_parts_28_a_barrier_between_reads():
    """Alone, in order."""
    log = []

    @hn.tool(parallel_safe=True)
    def read(path: str) -> str:
        """Reads."""
        log.append(f"read {path}")
        time.sleep(0.1)
        log.append(f"end {path}")
        return path

    @hn.tool
    def write() -> str:
        """Writes."""
        log.append("write")
        return "written"

    with Server(calls(call("read", path="a"), call("write"), call("read", path="b")), say("ok")) as server:
        run(agent(server, tools=[read, write]))

    assert log == ["read a", "end a", "write", "read b", "end b"]
    assert texts(server.requests[1])[-3:] == ["a", "written", "b"]


@pytest.mark.parametrize("raw", ["[1]", '"text"', "12"])
def test_parts_29_arguments_that_are_no_object(raw):
    """An error result, not run."""
    ran = []

    @hn.tool
    def note(text: str = "") -> str:
        """Notes."""
        ran.append(text)
        return "noted"

    with Server(call("note", raw=raw), say("ok")) as server:
        result = run(agent(server, tools=[note]))

    assert (result.completed, ran) == (True, [])
    assert "JSON object" in server.requests[1].messages[-1]["content"]


def test_parts_30_an_exception_in_a_tool():
    """A bounded error result with the type and the message."""

    @hn.tool
    def fail() -> str:
        """Fails."""
        raise ValueError("no " * 5_000)

    with Server(call("fail"), say("ok")) as server:
        run(agent(server, tools=[fail]))

    told = server.requests[1].messages[-1]["content"]
    assert "ValueError" in told
    assert len(told) <= 2_000


def test_parts_31_arguments_are_coerced_by_the_schema():
    """Exact big integers, unions untouched, scalars for lists wrapped."""
    seen = []

    @hn.tool
    def take(n: int, b: bool, xs: list[str], either: str | int, rows: list[dict[str, int]]) -> str:
        """Takes."""
        seen.append((n, b, xs, either, rows))
        return "ok"

    given = {"n": "12345678901234567890", "b": "true", "xs": "x", "either": "42", "rows": '[{"k": 1}]'}
    with Server(call("take", **given), say("ok")) as server:
        run(agent(server, tools=[take]))

    assert seen == [(12345678901234567890, True, ["x"], "42", [{"k": 1}])]


def test_parts_32_the_same_call_fails_again():
    """Warned from the second failure on, by the call's status; text about errors is no failure."""

    @hn.tool
    def fine() -> str:
        """Speaks of errors."""
        return '{"error": "none", "failed": 0}'

    with Server(*[call("population", city="X")] * 3, call("fine"), call("fine"), say("ok")) as server:
        run(agent(server, tools=[population, fine]))

    told = [row["content"] for row in server.requests[-1].messages if row["role"] == "tool"]
    assert ["Do not repeat it" in text for text in told[:3]] == [False, True, True]
    assert "failed with the same" not in told[3]


def test_parts_33_a_hard_stop():
    """The turn ends as `guardrail_halt`, with words, and a history that is valid."""
    rails = hn.Guardrails(same_call=(1, 2))
    with Server(always(call("population", city="X"))) as server:
        result = run(agent(server, guardrails=rails))

    assert result.exit_reason is hn.ExitReason.GUARDRAIL_HALT
    assert len(server.requests) == 2
    assert "failed with the same arguments 2 times" in result.detail
    assert problems(result.messages) == []


def test_parts_34_large_results_stay_reachable(tmp_path):
    """Cut for the model, the largest first; the whole text is kept, and from then on the model can read on."""

    @hn.tool
    def big(size: int) -> str:
        """Returns much."""
        return f"begin {'x' * size} end"

    def read_on(request):
        first = next(row["content"] for row in request.messages if row["role"] == "tool")
        file = next(word for word in first.split() if ".txt" in word).strip(",")
        return call("read_result", file=file, start=150_000, characters=100)

    sizes = [150_000, 90_000, 80_000, 70_000]
    with Server(calls(*[call("big", size=size) for size in sizes]), read_on, say("ok")) as server:
        result = run(agent(server, tools=[big]), session=hn.Session(tmp_path / "log.db", id="c"))

    told = texts(server.requests[1])[-4:]
    assert sum(map(len, told)) <= 200_000
    assert len(told[0]) < 3_000
    assert texts(server.requests[2])[-1].endswith("xxx end")
    names = [[tool["function"]["name"] for tool in request.body["tools"]] for request in server.requests]
    assert names == [["big"], ["big", "read_result"], ["big", "read_result"]]

    with Server(call("big", size=150_000), say("ok")) as server:
        run(agent(server, tools=[big]))
    assert len(texts(server.requests[1])[-1]) < 3_000, "one result alone has its limit too"
    assert result.completed


def test_parts_35_an_interrupt_in_a_batch():
    """Later calls are answered as not started, and a closing row is added."""
    waiter = Waiter()
    with Server(calls(call("wait"), LYON, LYON)) as server:
        turn = agent(server, tools=[waiter.wait, population]).start("q", session=False)
        waiter.begun.wait(10)
        turn.interrupt()
        waiter.go_on.set()
        result = turn.result()

    tools = [message.text for message in result.messages if message.role == "tool"]
    assert len(tools) == 3
    assert all("not started" in text for text in tools[1:])
    assert result.messages[-1].role == "assistant"
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER


def test_parts_36_a_keyboard_interrupt_in_a_tool():
    """The turn ends as interrupted by the kernel, every call answered; the next turn works."""

    @hn.tool
    def press() -> str:
        """Presses the button."""
        raise KeyboardInterrupt

    with Server(calls(call("press"), LYON), say("next")) as server:
        made = agent(server, tools=[press, population])
        result = run(made)
        assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_KERNEL
        assert problems(result.messages) == []
        assert run(made).text == "next"


def test_parts_37_call_ids_that_are_used_twice():
    """Made unique, both results arrive."""
    with Server(
        call("population", city="Lyon", id="call_1"), call("population", city="Lille", id="call_1"), say("ok")
    ) as server:
        run(agent(server))

    rows = server.requests[2].messages
    assert [row["content"] for row in rows if row["role"] == "tool"] == ["522000", "236000"]
    assert problems([hn.Message.from_dict(row) for row in rows]) == []


KILLED = """
import sys, time
import hermes_nb as hn
def one() -> str:
    "One."
    return "first result"
def two() -> str:
    "Two."
    print("in two", flush=True)
    time.sleep(60)
def three() -> str:
    "Three."
agent = hn.Agent(hn.OpenAIChat("m", base_url=sys.argv[1], api_key="k"), tools=[one, two, three])
agent.run("q", session=hn.Session(sys.argv[2], id="c"))
"""


def test_parts_38_killed_in_the_second_of_three_tools(tmp_path):
    """Prompt, calls and the first result are on disk; the others are answered honestly, in order."""
    place = tmp_path / "log.db"
    with Server(calls(call("one"), call("two"), call("three")), say("and on")) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", KILLED, server.url, str(place)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ},
        )
        try:
            assert child.stdout.readline().strip() == "in two"
        finally:
            child.send_signal(signal.SIGKILL)
            child.communicate()
        resumed = hn.Session(place, id="c")
        result = resumed.resume(agent(server), "Go on.")

    assert result.completed
    sent = server.requests[-1].messages
    assert problems([hn.Message.from_dict(row) for row in sent]) == []
    told = [row["content"] for row in sent if row["role"] == "tool"]
    assert told[0] == "first result"
    assert "not known" in told[1] or "unknown" in told[1]
    assert "not started" in told[2]
    assert json.dumps(sent).count("first result") == 1
