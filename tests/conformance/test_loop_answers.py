"""The loop's rows 38 to 72: replies, overflow, interrupts, steering, streams, and what may break."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

import hermes_nb as hn
from tests.conformance.support import agent, population, run, todo_tool, waits
from tests.support.pairing import problems
from tests.support.server import (
    CUT,
    RESET,
    Server,
    always,
    call,
    calls,
    say,
    slow,
    stall,
    status,
    stream,
    text_chunks,
    whole,
)
from tests.support.strict import refusals
from tests.support.waiting import wait_for

LYON = call("population", city="Lyon")


def started(*servers, **settings) -> hn.Run:
    return agent(*servers, **settings).start("q", session=False)


def finish(reason: str) -> dict:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def test_loop_38_a_text_that_is_cut_twice():
    """3 requests, caps of 2 and 4 times the configured one, joined without a separator, one row in the history."""
    with Server(say("Hel", finish="length"), say("lo wor", finish="length"), say("ld")) as server:
        result = run(agent(server, model={"max_tokens": 1_000}))

    assert result.text == "Hello world"
    assert [request.body["max_tokens"] for request in server.requests] == [1_000, 2_000, 4_000]
    assert [message.role for message in result.messages] == ["user", "assistant"]


def test_loop_39_a_text_that_is_always_cut():
    """4 requests, the joined text, and `output_truncated`."""
    with Server(always(say("more ", finish="length"))) as server:
        result = run(agent(server))

    assert len(server.requests) == 4
    assert result.text == "more " * 4
    assert result.exit_reason is hn.ExitReason.OUTPUT_TRUNCATED


def test_loop_40_a_call_that_is_cut_is_never_run():
    """5 requests in one iteration with growing caps, the tool never run."""
    cut = call("population", raw='{"city": "Ly')
    with Server(always(calls(cut, finish="length"))) as server:
        result = run(agent(server, model={"max_tokens": 1_000}))

    assert [request.body["max_tokens"] for request in server.requests] == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert (result.api_calls, result.tool_calls) == (1, 0)
    assert result.exit_reason is hn.ExitReason.OUTPUT_TRUNCATED


def test_loop_41_an_unknown_tool_for_ever():
    """3 replies, error results that list the tools, then `invalid_tool_calls`."""
    with Server(always(call("no_such_tool"))) as server:
        result = run(agent(server))

    assert len(server.requests) == 3
    assert "population" in server.requests[1].messages[-1]["content"]
    assert result.exit_reason is hn.ExitReason.INVALID_TOOL_CALLS
    assert result.failed


def test_loop_42_a_good_and_an_unknown_call_in_one_reply():
    """The good one runs, the other is answered with an error; in the order of the calls."""
    with Server(calls(LYON, call("no_such_tool")), say("ok")) as server:
        run(agent(server))

    good, bad = server.requests[1].messages[-2:]
    assert good["content"] == "522000"
    assert "no_such_tool" in bad["content"]


def test_loop_43_a_misspelt_name_is_understood():
    """Repaired, and run."""
    with Server(call("TodoTool", items=["a"]), call("todo-tool", items=["a", "b"]), say("ok")) as server:
        result = run(agent(server, tools=[todo_tool]))

    assert [message.text for message in result.messages if message.role == "tool"] == ["1 items kept", "2 items kept"]


@pytest.mark.parametrize("streamed", [True, False])
def test_loop_44_arguments_that_are_broken_for_ever(streamed):
    """Never run, answered with error results, and ended by name; the same with and without streaming."""
    with Server(always(call("population", raw='{"city": Lyon}'))) as server:
        result = run(agent(server, model={"stream": streamed}))

    assert result.exit_reason is hn.ExitReason.INVALID_TOOL_CALLS
    assert "522000" not in str(result.messages)
    assert len(server.requests) == 3
    assert [wrong for request in server.requests for wrong in refusals(request)] == []
    assert "not valid JSON" in server.requests[-1].messages[-1]["content"]
    assert server.requests[-1].messages[-2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_loop_45_empty_answers_for_ever():
    """4 requests, `empty_response`, failed; nothing of it in the history."""
    with Server(always(say(""))) as server:
        result = run(agent(server))

    assert len(server.requests) == 4
    assert (result.exit_reason, result.completed, result.failed) == (hn.ExitReason.EMPTY_RESPONSE, False, True)
    assert [message.role for message in result.messages] == ["user"]


def test_loop_46_empty_answers_after_a_tool_keep_its_rows():
    """4 requests after the tool's; the tool's rows stay."""
    with Server(LYON, always(say(""))) as server:
        result = run(agent(server))

    assert len(server.requests) == 5
    assert [message.role for message in result.messages][:3] == ["user", "assistant", "tool"]
    assert "(empty)" not in str(result.messages)


def test_loop_47_only_thinking_then_text():
    """Asked again with a wait; nothing of it stays in the history."""
    with Server(say("", reasoning="hm"), say("522,000")) as server:
        result = run(agent(server))

    assert len(server.requests) == 2
    assert len(waits(result)) == 1
    assert 2 <= waits(result)[0] <= 3
    assert [message.text for message in result.messages][1:] == ["522,000"]

    with Server(always(say("", reasoning="hm"))) as server:
        lost = run(agent(server))
    assert (lost.exit_reason, len(server.requests)) == (hn.ExitReason.EMPTY_RESPONSE, 4)
    assert "thought" in lost.failure.message


def test_loop_48_a_text_with_a_call_and_then_nothing():
    """The earlier text is the answer, and the turn says that nothing followed."""
    with Server(calls(LYON, text="Lyon has 522,000."), always(say(""))) as server:
        result = run(agent(server))

    assert result.text == "Lyon has 522,000."
    assert result.exit_reason is hn.ExitReason.EMPTY_RESPONSE


def test_loop_49_a_refusal():
    """One request, failed as `content_filtered`, with the words of the refusal."""
    with Server(always(say("I cannot help with that.", finish="content_filter"))) as server:
        result = run(agent(server))

    assert len(server.requests) == 1
    assert result.exit_reason is hn.ExitReason.CONTENT_FILTERED
    assert "I cannot help with that." in result.failure.message


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning", "scratchpad", "REASONING_SCRATCHPAD"])
def test_loop_50_a_scratchpad_that_is_not_closed(tag):
    """Thinking in tags is reasoning, not an answer: asked again like any reply without text."""
    with Server(say(f"<{tag}>let me see"), say("522,000")) as server:
        result = run(agent(server))

    assert len(server.requests) == 2
    assert result.text == "522,000"


@pytest.mark.parametrize("too_long", [status(400, {"error": {"message": "prompt is too long"}}), status(413)])
def test_loop_51_an_overflow_for_ever(too_long):
    """At most 3 compressions, `compression_exhausted`, the history kept."""
    with Server(always(lambda request: say("A summary.") if len(request.messages) == 1 else too_long)) as server:
        result = run(agent(server), history=long_history())

    main = [request for request in server.requests if len(request.messages) > 1]
    assert len(main) <= 4
    assert 1 <= result.compressions <= 3
    assert set(result.trace.attempts_df().outcome) == {"compress", "success"}
    assert (result.exit_reason, result.failed) == (hn.ExitReason.COMPRESSION_EXHAUSTED, True)
    assert result.messages[-1].text == "How many people live in Lyon?"


def long_history(rounds: int = 14) -> list[dict]:
    rows = []
    for number in range(rounds):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 40})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 40})
    return rows


def test_loop_52_an_output_cap_that_is_too_high():
    """Asked again with what is left, less 64."""
    message = "max_tokens: 65536 > 10000, the maximum allowed: available_tokens 10000"
    with Server(status(400, {"error": {"message": message}}), say("ok")) as server:
        result = run(agent(server, model={"max_tokens": 65_536}))

    assert [request.body["max_tokens"] for request in server.requests] == [65_536, 9_936]
    assert (result.compressions, result.budget.used) == (0, 1)


def test_loop_53_an_overflow_while_compression_is_off():
    """One request, `compression_exhausted`."""
    too_long = status(400, {"error": {"message": "prompt is too long"}})
    with Server(always(too_long)) as server:
        result = run(agent(server, compression=None), history=long_history())

    assert len(server.requests) == 1
    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED


@pytest.mark.parametrize("streamed", [True, False])
def test_loop_54_an_interrupt_during_a_request(streamed):
    """Returns at once, and the server sees the connection go."""
    with Server(stall()) as server:
        turn = started(server, model={"stream": streamed})
        request = server.wait_for()
        turn.interrupt()
        asked = time.monotonic()
        result = turn.result()
        request.wait()

    assert time.monotonic() - asked < 5
    assert request.disconnected is not None
    assert request.disconnected - asked < 1
    assert result.interrupted


def test_loop_55_an_interrupt_in_the_middle_of_a_stream():
    """The text that had come is kept, with or without a listener."""
    with Server(stream(*text_chunks("Hello ", "wor"), 30.0, *text_chunks("ld"))) as server:
        turn = started(server)
        server.wait_for()
        assert wait_for(
            lambda: any(event.what.kind == "delta" and "wor" in event.what.text for event in turn.subscribe(ignore))
        )
        turn.interrupt()
        result = turn.result()

    assert result.text == "Hello wor"
    assert result.messages[-1].text == "Hello wor"


def ignore(_event) -> None:
    return None


def test_loop_56_an_interrupt_during_a_wait():
    """Returns at once; the result says who asked."""
    with Server(always(status(429, headers={"retry-after": "10"}))) as server:
        turn = started(server)
        server.wait_for()
        time.sleep(0.2)
        began = time.monotonic()
        turn.interrupt(source="kernel")
        result = turn.result()

    assert time.monotonic() - began < 3
    assert len(server.requests) == 1
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_KERNEL
    assert "kernel" in result.detail


def test_loop_57_an_interrupt_while_tools_run():
    """The next call is answered as not started, and a closing row is added."""
    begun = threading.Event()

    @hn.tool
    def slow_one() -> str:
        """Takes long."""
        begun.set()
        time.sleep(1)
        return "done"

    with Server(calls(call("slow_one"), LYON)) as server:
        turn = started(server, tools=[slow_one, population])
        begun.wait(10)
        turn.interrupt()
        result = turn.result()

    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert "not started" in result.messages[3].text
    assert problems(result.messages) == []


def test_loop_58_an_interrupt_belongs_to_one_turn():
    """One that comes after a turn says so, and does nothing to the next."""
    with Server(always(say("ok"))) as server:
        first = started(server)
        first.result()
        assert first.interrupt() is False
        second = first.reply("again")
        assert second.result().completed


SCRIPT = """
import sys, time
import hermes_nb as hn
def nap() -> str:
    "Sleeps."
    time.sleep(8)
    return "awake"
agent = hn.Agent(hn.OpenAIChat("m", base_url=sys.argv[1], api_key="k"), tools=[nap])
run = agent.start("q", session=False)
print("started", flush=True)
result = run.result()
print(result.exit_reason, len(result.messages), flush=True)
print(agent.run("again", session=False).text, flush=True)
"""


@pytest.mark.parametrize("first", [stall(), call("nap")], ids=["in a request", "in a tool"])
def test_loop_59_control_c(first):
    """The turn ends as interrupted by the kernel, its result is returned, and the next turn works."""
    with Server(first, always(say("the next turn works"))) as server:
        child = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, server.url], stdout=subprocess.PIPE, text=True, env={**os.environ}
        )
        try:
            assert child.stdout.readline().strip() == "started"
            server.wait_for()
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            lines = child.communicate(timeout=30)[0].splitlines()
        finally:
            child.kill()

    assert lines[0].startswith("interrupted_by_kernel")
    assert lines[1] == "the next turn works"


def test_loop_60_an_exception_in_a_tool():
    """An error result for the model, no retry."""
    with Server(call("population", city="Nowhere"), say("ok")) as server:
        result = run(agent(server))

    assert "KeyError" in server.requests[1].messages[-1]["content"]
    assert (result.completed, result.retries, len(server.requests)) == (True, 0, 2)


def test_loop_61_a_steer_during_a_tool_and_one_without():
    """At the end of the tool's row between markers; without a tool it is given back."""
    begun, go_on = threading.Event(), threading.Event()

    @hn.tool
    def wait() -> str:
        """Waits for the test."""
        begun.set()
        go_on.wait(10)
        return "done"

    with Server(call("wait"), say("ok")) as server:
        turn = started(server, tools=[wait])
        begun.wait(10)
        turn.steer("Be quick.")
        go_on.set()
        turn.result()
    row = server.requests[1].messages[-1]
    assert row["role"] == "tool"
    assert row["content"].startswith("done")
    assert "Be quick." in row["content"]

    with Server(slow(0.3, say("ok"))) as server:
        turn = started(server)
        turn.steer("Be quick.")
        assert turn.result().pending_steer == "Be quick."


def test_loop_62_a_broken_history_is_sent_repaired_and_left_alone():
    """Merged, dropped, replaced, marked; the caller's rows are not touched."""
    history = [
        {"role": "user", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "tool", "tool_call_id": "nobody", "content": "orphan"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "population", "arguments": '{"city": '}},
            {"id": "b", "type": "function", "function": {"name": "population", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "no idea"},
        {"role": "assistant", "content": "well"},
    ]  # fmt: skip
    before = repr(history)
    with Server(say("ok")) as server:
        run(agent(server), history=history)

    sent = server.requests[0].messages[1:]
    assert [row["role"] for row in sent] == ["user", "assistant", "tool", "tool", "assistant", "user"]
    assert sent[0]["content"] == "one\n\ntwo"
    assert sent[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert "could not be read" in sent[2]["content"]
    assert "not known" in sent[3]["content"]
    assert repr(history) == before


def test_loop_63_ids_that_are_used_twice():
    """Made unique on arrival, on both sides; both results reach the model."""
    same = call("population", city="Lyon", id="call_0")
    other = call("population", city="Lille", id="call_0")
    with Server(same, other, say("ok")) as server:
        run(agent(server))

    rows = server.requests[2].messages
    assert [row["content"] for row in rows if row["role"] == "tool"] == ["522000", "236000"]
    asked = [one["id"] for row in rows for one in row.get("tool_calls") or ()]
    assert asked == [row["tool_call_id"] for row in rows if row["role"] == "tool"]
    assert len(set(asked)) == 2


def test_loop_64_a_stream_that_is_reset_after_some_text():
    """The text is kept and continued, joined."""
    with Server(stream(*text_chunks("Hello wor"), RESET), say("ld.")) as server:
        result = run(agent(server))

    assert result.text == "Hello world."
    assert result.completed


@pytest.mark.parametrize("end", [(), (CUT,)], ids=["closed", "cut"])
def test_loop_65_a_stream_that_ends_without_a_finish_reason(end):
    """Continued, and joined."""
    with Server(stream(*text_chunks("Hello wor"), *end), say("ld.")) as server:
        result = run(agent(server))

    assert result.text == "Hello world."


def test_loop_66_a_stream_that_ends_before_the_arguments():
    """The tool is not run."""
    name = {
        "choices": [
            {"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "population"}}]}}
        ]
    }
    with Server(stream(name, CUT), say("ok")) as server:
        result = run(agent(server))

    assert result.tool_calls == 0
    assert result.text == "ok"


def test_loop_67_a_silent_server():
    """Cut at the limit, one failure for each attempt; the interrupt works meanwhile."""
    from hermes_nb.providers.http import Timeouts

    with Server(always(stall())) as server:
        result = run(agent(server, model={"timeout": Timeouts(first_token=0.3)}))

    assert len(server.requests) == 3
    assert result.failure.reason == "timeout"


def test_loop_68_a_server_that_refuses_to_stream():
    """Asked again without streaming, in the same turn."""
    refused = status(400, {"error": {"message": "stream is not supported for this model"}})
    with Server(refused, say("ok")) as server:
        result = run(agent(server))

    assert [request.body.get("stream", False) for request in server.requests] == [True, False]
    assert result.text == "ok"


def test_loop_69_json_where_a_stream_was_asked_for():
    """Read as it is, one request."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]}
    with Server(whole(body)) as server:
        result = run(agent(server))

    assert (result.text, len(server.requests)) == ("ok", 1)


def test_loop_70_a_store_that_cannot_write(tmp_path):
    """The answer comes, the events say what failed, and what waited is written when it can be."""
    place, told = tmp_path / "log.db", []
    session = hn.Session(place, id="c")
    with Server(say("one"), say("two"), say("three")) as server:
        made = agent(server)
        run(made, session=session)
        with sqlite3.connect(place, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            assert run(made, session=session, sinks=[told.append]).text == "two"
            other.execute("ROLLBACK")
        other.close()
        run(made, session=session)

    assert any(event.what.kind == "degraded" and event.what.part == "logbook" for event in told)
    assert [message.text for message in session.messages if message.role == "assistant"] == ["one", "two", "three"]


def test_loop_71_a_bug_ends_the_turn_at_once():
    """`internal_error`, raised to the user with a complete record; nothing is burnt."""

    class Broken(hn.Guardrails):
        def judge(self, state, result):
            raise ZeroDivisionError

    with Server(always(LYON)) as server:
        turn = started(server, guardrails=Broken())
        with pytest.raises(ZeroDivisionError):
            turn.result()

    assert len(server.requests) == 1
    assert turn.trace.turns_df().exit_reason.tolist() == ["internal_error"]
    assert turn.trace.turns_df().completed.tolist() == [False]


def test_loop_72_every_step_can_be_watched():
    """A sink is told of each iteration and of the calls of the one before, with arguments and results."""
    told = []
    with Server(LYON, say("ok")) as server:
        run(agent(server), sinks=[told.append])

    steps = [event.what for event in told if event.phase == "ended" and event.what.kind in ("iteration", "tool")]
    assert [step.kind for step in steps] == ["tool", "iteration", "iteration"]
    assert (steps[0].name, steps[0].arguments, steps[0].result) == ("population", '{"city": "Lyon"}', "522000")
