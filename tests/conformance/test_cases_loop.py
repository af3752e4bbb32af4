"""Failures that people reported of agent loops: the cases of part A."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

import hermes_nb as hn
from tests.conformance.support import agent, population, provider, roles, run, texts, tree
from tests.support.pairing import problems
from tests.support.server import CUT, Server, always, call, calls, say, slow, stall, status, stream, text_chunks, whole
from tests.support.waiting import wait_for

LYON = call("population", city="Lyon")


def test_case_a01_the_grace_call_fires_once_a_turn():
    """Exactly 3 requests; the exit reason says that the budget ran out; a second turn has its own."""
    by_tools = always(lambda request: LYON if "tools" in request.body else say("summary"))
    with Server(by_tools) as server:
        made = agent(server, budget=2)
        for turn in (1, 2):
            result = run(made)
            assert len(server.requests) == 3 * turn
            assert result.text == "summary"
            assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
            assert tree(result).count("hermes.grace_call") == 1


def test_case_a03_a_refund_gives_back_the_only_counter():
    """Five refunded iterations with a budget of 3 complete; each refund is a span with before and after."""

    @hn.tool(free=True)
    def glance() -> str:
        """Free."""
        return "seen"

    with Server(*[call("glance")] * 5, say("done")) as server:
        result = run(agent(server, tools=[glance], budget=3))

    assert result.completed
    assert result.budget.used == 1
    refunds = result.trace.refunds_df()
    assert refunds.used_before.tolist() == [1] * 5
    assert refunds.used_after.tolist() == [0] * 5


def test_case_a05_one_iteration_costs_one_unit_however_many_attempts():
    """2 units, 5 requests; retries and the fallback below their iterations."""
    with Server(status(500), status(500), LYON, status(429)) as primary, Server(say("done")) as backup:
        result = run(agent(primary, backup, budget=2))

    assert len(primary.requests) + len(backup.requests) == 5
    assert (result.budget.used, result.completed) == (2, True)
    spans = result.trace.spans_df().set_index("span_id")
    fallbacks = spans[spans.span_type == "fallback"]
    assert spans.loc[fallbacks.parent_span_id].span_type.tolist() == ["iteration"]


@pytest.mark.parametrize("backed", [True, False])
def test_case_a06_a_refresh_that_always_succeeds(backed):
    """At most 2 refreshes a turn, then the fallback or a failure; the next turn may refresh again."""
    made_up = []

    def renew(key: str) -> str:
        made_up.append(key)
        return f"sk-renewed-{len(made_up):06}"

    with Server(always(status(401))) as primary, Server(always(say("ok"))) as backup:
        pool = hn.CredentialPool(["sk-first-00001"], refresh=renew)
        chain = [hn.OpenAIChat("m", base_url=primary.url, api_key=pool)]
        made = hn.Agent(chain + ([provider(backup)] if backed else []))
        result = run(made)
        assert len(made_up) == 2
        assert result.completed is backed
        if not backed:
            assert result.failure.status == 401
        run(made)
        assert len(made_up) == 4


def test_case_a08_the_chain_is_fresh_for_each_turn():
    """The next turn starts with the primary, then uses the first fallback."""
    with (
        Server(always(status(500))) as primary,
        Server(*[status(500)] * 3, say("from the first")) as first,
        Server(always(status(500))) as second,
    ):
        made = agent(primary, first, second)
        assert run(made).failed
        before = len(primary.requests)
        result = run(made)

    assert result.text == "from the first"
    assert len(primary.requests) > before


def test_case_a10_a_backup_that_refuses_does_not_stop_the_chain():
    """All are tried in order, once each; each with its status on its spans."""
    gone = {"error": {"message": "model not found", "code": "model_not_found"}}
    with (
        Server(always(status(429))) as primary,
        Server(always(status(403))) as one,
        Server(always(status(404, gone))) as two,
        Server(say("from the third")) as three,
    ):
        result = run(agent(primary, one, two, three))
        assert [len(server.requests) for server in (primary, one, two, three)] == [1, 1, 1, 1]

    assert result.text == "from the third"
    assert result.trace.attempts_df().http_status.tolist()[:3] == [429, 403, 404]
    assert len(result.trace.fallbacks_df()) == 3


def talk(rounds: int = 20) -> list[dict]:
    rows = []
    for number in range(rounds):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 30})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 30})
    return rows


def test_case_a12_a_compression_that_does_not_shrink():
    """A bounded number of summaries, then failed by name, the history intact."""
    refused = status(400, {"error": {"message": "maximum context length is 4096 tokens. However, you requested 5000"}})

    def step(request):
        return say(request.messages[0]["content"]) if len(request.messages) == 1 else refused

    history = talk()
    with Server(always(step)) as server:
        result = run(agent(server, compression=hn.Compression(context_window=4_096)), history=history)

    summaries = [request for request in server.requests if len(request.messages) == 1]
    assert 1 <= len(summaries) <= 30
    assert result.compressions <= 3
    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert result.failed
    said = [message.text for message in result.messages]
    assert said == [row["content"] for row in history] + ["How many people live in Lyon?"]


def test_case_a14_a_group_of_calls_is_kept_or_summed_up_together():
    """Every result is in the request or was in a summary's input; the request is valid."""
    marks = [f"MARK-{number}" for number in range(5)]
    group = [
        {"id": f"g{n}", "type": "function", "function": {"name": "population", "arguments": "{}"}} for n in range(5)
    ]
    history = [
        *talk(6),
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": "", "tool_calls": group},
        *[
            {"role": "tool", "tool_call_id": f"g{n}", "content": f"{mark} " + "and more " * 150}
            for n, mark in enumerate(marks)
        ],
    ]
    with Server(always(lambda request: say("A summary." if len(request.messages) == 1 else "ok"))) as server:
        run(agent(server, compression=hn.Compression(context_window=3_000, protect_last=3)), history=history)

    main = next(request for request in server.requests if len(request.messages) > 1)
    summed = " ".join(request.messages[0]["content"] for request in server.requests if len(request.messages) == 1)
    sent = " ".join(map(str, main.messages))
    assert all(mark in sent or mark in summed for mark in marks)
    assert problems([hn.Message.from_dict(row) for row in main.messages]) == []


def test_case_a16_no_window_is_guessed():
    """Compressed once; the configured window stays what it is."""
    vague = "Your input exceeds the context window of this model. Please adjust your input and try again."
    first = iter([status(400, {"error": {"message": vague}})])

    def step(request):
        return say("A summary.") if len(request.messages) == 1 else next(first, say("ok"))

    policy = hn.Compression(context_window=200_000)
    with Server(always(step)) as server:
        turn = agent(server, compression=policy).start("q", session=False, history=talk())
        result = turn.result()

    assert result.completed
    assert result.compressions == 1
    assert policy.window(turn.request.sizes, None) == 200_000


def test_case_a18_no_steer_is_ever_lost():
    """Sent exactly once in some later request of the turn, or given back; 60 turns with random delays."""
    random.seed(18)

    @hn.tool
    def nap() -> str:
        """Takes a moment."""
        time.sleep(0.02)
        return "awake"

    for number in range(60):
        with Server(slow(0.02, call("nap")), slow(0.02, call("nap")), slow(0.02, say("done"))) as server:
            turn = agent(server, tools=[nap]).start("q", session=False)
            time.sleep(random.random() * 0.15)
            note = turn.steer(f"note-{number}")
            result = turn.result()
        last = server.requests[-1].messages
        carried = str(last).count(f"note-{number}")
        returned = result.pending_steer == f"note-{number}"
        if note.reason and "ended" in note.reason and not returned:
            assert note.status == "undelivered"
            continue
        assert carried + returned == 1
        assert (note.status == "delivered") == (carried == 1)


def test_case_a21_an_interrupt_during_three_calls(tmp_path):
    """One row per call, in order, honest about each; accepted by the next request, also from another session object."""
    begun = threading.Event()

    @hn.tool
    def slow_one() -> str:
        """Takes long."""
        begun.set()
        time.sleep(1)
        return "done"

    place = tmp_path / "log.db"
    with Server(calls(LYON, call("slow_one"), LYON), always(say("and on"))) as server:
        made = agent(server, tools=[population, slow_one])
        turn = made.start("q", session=hn.Session(place, id="c"))
        begun.wait(10)
        turn.interrupt()
        result = turn.result()
        resumed = hn.Session(place, id="c").resume(made, "Go on.")

    rows = [message.text for message in result.messages if message.role == "tool"]
    assert rows[0] == "522000"
    assert "effect is unknown" in rows[1]
    assert "not started" in rows[2]
    assert resumed.completed
    assert problems([hn.Message.from_dict(row) for row in server.requests[-1].messages]) == []


@pytest.mark.parametrize("answer", [status(429, headers={"retry-after": "60"}), stall()], ids=["waiting", "silent"])
def test_case_a22_an_interrupt_while_nothing_happens(answer):
    """Back within a second or so; nothing more is sent; the wait ends as interrupted, not as an error."""
    with Server(always(answer)) as server:
        turn = agent(server).start("q", session=False)
        server.wait_for()
        time.sleep(0.3)
        began = time.monotonic()
        turn.interrupt()
        result = turn.result()
        took = time.monotonic() - began
        time.sleep(0.3)
        assert len(server.requests) == 1

    assert took < 3
    retries = result.trace.retries_df()
    assert retries.outcome.tolist() in ([], ["interrupted"])
    assert result.trace.spans_df().query("span_type == 'retry'").status.tolist() in ([], ["UNSET"])


@pytest.mark.parametrize("content", ["", None, "\n"])
def test_case_a25_an_empty_answer_after_tools(content):
    """A few retries with waits, then failed with a readable reason; no filler in the conversation."""
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
    with Server(LYON, always(whole(body))) as server:
        result = run(agent(server, model={"stream": False}))

    assert len(server.requests) <= 6
    assert all(wait.total_seconds() > 0 for wait in result.trace.retries_df().wait)
    assert (result.failed, result.exit_reason) == (True, hn.ExitReason.EMPTY_RESPONSE)
    assert "answered nothing" in result.failure.message
    assert "(empty)" not in str(result.messages)


@pytest.mark.parametrize("finish", ["length", "tool_calls", "cut"])
def test_case_a27_cut_arguments_never_run(finish):
    """The tool is not called, and the user reads that the call was cut."""
    ran = []

    @hn.tool
    def write(path: str = "default", content: str = "") -> str:
        """Writes."""
        ran.append((path, content))
        return "written"

    half = '{"path": "a.txt", "content": "abc'
    if finish == "cut":
        piece = {"index": 0, "id": "c", "function": {"name": "write", "arguments": "{"}}
        answer = stream({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}, CUT)
    else:
        answer = calls(call("write", raw=half), finish=finish)
    with Server(always(answer)) as server:
        result = run(agent(server, tools=[write]))

    assert ran == []
    assert result.failed
    assert result.exit_reason is hn.ExitReason.OUTPUT_TRUNCATED
    assert "the reply ended in the middle of a tool call" in result.detail


def test_case_a29_a_stream_that_is_dropped():
    """Continued without a finish reason, complete with one ([DONE] or not), asked again when nothing came."""
    stop = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    with Server(stream(*text_chunks("Let me ", "compare")), say(" them.")) as server:
        assert run(agent(server)).text == "Let me compare them."
    with Server(stream(*text_chunks("All ", "of it"), stop)) as server:
        assert run(agent(server)).text == "All of it"
        assert len(server.requests) == 1
    with Server(stream(*text_chunks("Let me ", "compare"), CUT), say(" them.")) as server:
        assert run(agent(server)).text == "Let me compare them."
    with Server(stream(CUT), say("again")) as server:
        assert run(agent(server)).text == "again"


def test_case_a31_a_failed_turns_question_is_not_repeated(tmp_path):
    """The next turn is accepted, and is about itself only; the failed one can be read with its status."""

    def strict(request):
        spoken = roles(request)
        if any(one == two for one, two in pairwise(spoken)):
            return status(400, {"error": {"message": "roles must alternate"}})
        return say(f"echo {texts(request)[-1]}")

    session = hn.Session(tmp_path / "log.db", id="c")
    with Server(*[status(500)] * 3, always(strict)) as server:
        made = agent(server)
        failed = run(made, prompt="first", session=session)
        second = run(made, prompt="second", session=session)

    assert failed.failed
    assert second.text == "echo second"
    assert "first" not in str(server.requests[-1].messages[1:])
    assert "500" not in str(server.requests[-1].messages)
    assert [turn.exit_reason for turn in session.turns] == ["provider_failed", "completed"]


CHILD = """
import sys
import hermes_nb as hn
def step(number: int) -> str:
    "Counts."
    print("step", number, flush=True)
    return f"result {number}"
agent = hn.Agent(hn.OpenAIChat("m", base_url=sys.argv[1], api_key="k"), tools=[step])
agent.run("the prompt", session=hn.Session(sys.argv[2], id="c"))
"""


@pytest.mark.parametrize("finished", [0, 3])
def test_case_a33_a_killed_process_loses_nothing_finished(tmp_path, finished):
    """The prompt and all finished iterations are there; the reload is valid, and nothing is there twice."""
    place = tmp_path / "log.db"
    with Server(*[call("step", number=n) for n in range(finished)], stall()) as server:
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(place)], env={**os.environ})
        server.wait_for(finished + 1)
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    with Server(say("and on")) as server:
        session = hn.Session(place, id="c")
        assert session.resume(agent(server), "Go on.").completed
        sent = server.requests[0].messages

    assert str(sent).count("the prompt") == 1
    assert [row["content"] for row in sent if row["role"] == "tool"] == [f"result {n}" for n in range(finished)]
    assert problems([hn.Message.from_dict(row) for row in sent]) == []


def test_case_a35_one_layer_of_retries_and_a_guard_that_knows_noise(home):
    """As many requests as documented; only an empty bucket with a long reset trips the guard, until it is over."""
    with Server(always(status(429))) as server:
        run(agent(server, retry=hn.Retry(attempts=3)))
        assert len(server.requests) == 3
    healthy = {"x-ratelimit-remaining-requests": "400", "x-ratelimit-reset-requests": "120s"}
    with Server(status(429, headers=healthy), say("ok"), say("ok")) as server:
        made = agent(server)
        assert run(made).completed
        assert run(made).completed
    empty = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120s"}
    with Server(always(status(429, headers=empty))) as server:
        run(agent(server))
        asked = len(server.requests)
        refused = run(agent(server))
        assert len(server.requests) == asked
        assert "limited" in refused.failure.message


@pytest.mark.parametrize("limit", [1, 8])
def test_case_a36_bad_references_do_not_sink_the_turn(limit):
    """Failures are spans, the late one is left out, one unit is used; with none left the aggregator acts alone."""
    with (
        Server(always(status(500))) as broken,
        Server(always(stall())) as hanging,
        Server(always(say("good advice"))) as fine,
        Server(always(say("ok"))) as acting,
    ):
        references = [
            provider(server, model=name) for name, server in (("broken", broken), ("hanging", hanging), ("fine", fine))
        ]
        made = hn.Mixture(references, provider(acting), parallel=limit, reference_timeout=0.5)
        result = run(hn.Agent(made))
        alone = run(hn.Agent(hn.Mixture(references[:2], provider(acting), parallel=limit, reference_timeout=0.5)))

    assert (result.text, alone.text) == ("ok", "ok")
    assert "good advice" in str(acting.requests[0].messages)
    assert result.budget.used == 1
    assert "chat broken ERROR 500" in tree(result)


def test_case_a36_a_server_that_serves_one_at_a_time():
    """With a limit of one, references never ask at the same time; their tokens are in the total."""
    advice = always(slow(0.05, say("advice", usage=(100, 1))))
    with Server(advice) as small, Server(say("ok", usage=(10, 1))) as acting:
        references = [provider(small, model=name) for name in "abc"]
        result = run(hn.Agent(hn.Mixture(references, provider(acting), parallel=1)))

    assert (len(small.requests), small.busiest) == (3, 1)
    assert (result.usage.input_tokens, result.budget.used) == (310, 1)


def test_case_a36_an_interrupt_while_references_are_asked():
    """All of their connections are closed, and the aggregator is not asked."""
    with Server(always(stall())) as slow_ones, Server(always(say("ok"))) as acting:
        references = [provider(slow_ones, model=name) for name in "abc"]
        turn = hn.Agent(hn.Mixture(references, provider(acting))).start("q", session=False)
        slow_ones.wait_for(3)
        turn.interrupt()
        assert turn.result(20).interrupted
        assert all(request.wait().disconnected for request in slow_ones.requests)
    assert acting.requests == []


def test_case_a38_equal_and_missing_call_ids():
    """Each call runs once and has its own result; ids agree on both sides."""

    def named(call_id):
        one = {"type": "function", "function": {"name": "population", "arguments": '{"city": "Lyon"}'}}
        message = {"role": "assistant", "content": None, "tool_calls": [{**one, "id": call_id}, {**one, "id": call_id}]}
        return whole({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})

    with Server(named("call_1"), named(""), named(None), named("call_1"), say("ok")) as server:
        result = run(agent(server, model={"stream": False}))

    assert result.tool_calls == 8
    assert problems([hn.Message.from_dict(row) for row in server.requests[-1].messages]) == []


def test_case_a40_everybody_can_tell_who_stopped_the_turn(tmp_path):
    """The text says who and where, with the work so far; a busy session refuses a second turn."""
    with Server(calls(LYON, text="First, Lyon."), always(stall())) as server:
        turn = agent(server).start("q", session=hn.Session(tmp_path / "log.db", id="c"))
        server.wait_for(2)
        with pytest.raises(hn.RunInProgress):
            agent(server).start("again", session=hn.Session(tmp_path / "log.db", id="c"))
        turn.interrupt(source="kernel")
        result = turn.result()

    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_KERNEL
    assert "kernel" in result.detail
    assert "iteration 2" in result.detail
    assert result.text == "First, Lyon."


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (status(500, ""), "500"),
        (
            whole(
                "<html><title>Bad gateway</title>" + "x" * 1_000_000, status=502, headers={"content-type": "text/html"}
            ),
            "502",
        ),
        (status(400, {"detail": [{"loc": ["body", "messages"], "msg": "field required"}]}), "field required"),
    ],
)
def test_case_a42_the_cause_is_told(answer, words):
    """Status and a short cut of the body, bounded tries, the same words on the span."""
    with Server(always(answer)) as server:
        result = run(agent(server))

    assert len(server.requests) <= 3
    assert words in str(result.failure)
    assert len(str(result.failure)) < 700
    assert "<html>" not in str(result.failure)
    assert words in " ".join(result.trace.spans_df().status_message.dropna())


def test_case_a44_a_stop_reaches_everything_below():
    """The sub-agent's server sees no more requests, a waiting tool may look, reasons differ by who stopped."""
    looked = threading.Event()

    @hn.tool
    def patient(context: hn.ToolContext) -> str:
        """Waits until nobody waits for it."""
        while not context.interrupted:
            time.sleep(0.01)
        looked.set()
        return "seen"

    with Server(always(slow(0.1, LYON))) as inner, Server(always(call("helper", task="t"))) as outer:
        helper = agent(inner, name="helper", budget=50)
        turn = agent(outer, tools=[helper.as_tool()]).start("q", session=False)
        inner.wait_for(2)
        turn.interrupt()
        result = turn.result()
        asked = len(inner.requests)
        time.sleep(0.5)
        assert len(inner.requests) <= asked + 1
        reasons = result.trace.turns_df().set_index("agent_name").exit_reason
        assert reasons["helper"] == "interrupted_by_parent"

    with Server(always(call("patient"))) as server:
        turn = agent(server, tools=[patient]).start("q", session=False)
        server.wait_for()
        time.sleep(0.2)
        turn.interrupt()
        assert turn.result().exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
        assert looked.wait(5)
        timed = run(agent(server, tools=[patient], ceiling=hn.Ceiling(seconds=0.3)))
        assert timed.exit_reason is hn.ExitReason.CEILING_REACHED


def test_case_a46_leaving_early_loses_nothing_and_leaks_nothing():
    """Messages and usage so far are on the result; sockets and threads return to the base level."""

    def sockets() -> int:
        found = 0
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                found += str(path.readlink()).startswith("socket")
        return found

    with Server(always(lambda request: LYON if len(request.messages) < 4 else stall())) as server:
        made = agent(server)
        run_one(made, server, 1)
        before, threads = sockets(), threading.active_count()
        for number in range(2, 30):
            result = run_one(made, server, number)
        assert wait_for(lambda: sockets() <= before + 2 and threading.active_count() <= threads + 2)

    assert [message.role for message in result.messages][:3] == ["user", "assistant", "tool"]
    assert result.usage.input_tokens > 0


def run_one(made: hn.Agent, server: Server, number: int) -> hn.TurnResult:
    turn = made.start("q", session=False)
    server.wait_for(2 * number)
    turn.interrupt()
    return turn.result()
