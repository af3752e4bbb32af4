"""Failures that people reported of the wire and of other loops: the cases of part B."""

from __future__ import annotations

import asyncio
import time

import pytest

import hermes_nb as hn
from hermes_nb.providers.http import Timeouts
from tests.conformance.support import agent, population, run
from tests.support.pairing import problems
from tests.support.server import KEEPALIVE, Server, always, call, calls, say, stall, status, stream, text_chunks, whole

LYON = call("population", city="Lyon")
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}


def test_case_b01_chunks_without_choices():
    """Text and usage complete when streaming; a body without choices is a failure that is retried."""
    chunks = [{"choices": None}, *text_chunks("Hello ", "world"), STOP, {"choices": [], "usage": USAGE}]
    with Server(stream(*chunks, done=True)) as server:
        result = run(agent(server))
    assert (result.text, result.usage.input_tokens) == ("Hello world", 11)

    with Server(whole({"choices": [], "usage": USAGE}), say("ok")) as server:
        assert run(agent(server, model={"stream": False})).text == "ok"
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("events", "done", "reason"),
    [
        ([{"error": {"message": "internal", "code": 500}}], True, "server_error"),
        ([*text_chunks("a", "b", "c"), {"error": {"message": "internal", "code": 500}}], False, "server_error"),
        ([{"error": {"message": "quota exceeded", "code": 429}}], True, "rate_limit"),
        ([{"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]}], True, "server_error"),
    ],
    ids=["first", "after text", "quota", "finish reason"],
)
def test_case_b03_an_error_inside_a_stream(events, done, reason):
    """Classed like an HTTP error, asked again; text is not doubled."""
    with Server(stream(*events, done=done), say("whole answer")) as server:
        result = run(agent(server))

    assert len(server.requests) == 2
    assert result.text == "whole answer"
    attempts = result.trace.attempts_df()
    assert attempts.outcome.tolist() == ["retry", "success"]
    assert result.trace.retries_df().reason.tolist() == [reason]


def test_case_b03_an_overflow_inside_a_stream():
    """It leads to a compression."""
    error = stream(
        {"error": {"message": "maximum context length exceeded", "code": "context_length_exceeded"}}, done=True
    )
    first = iter([error])
    history = [
        {"role": role, "content": f"{role} {n} " + "word " * 200} for n in range(12) for role in ("user", "assistant")
    ]

    def step(request):
        return say("A summary.") if len(request.messages) == 1 else next(first, say("ok"))

    with Server(always(step)) as server:
        result = run(agent(server), history=history)
    assert (result.text, result.compressions) == ("ok", 1)


def piece(**fields) -> dict:
    return {"choices": [{"index": 0, "delta": {"tool_calls": [fields]}}]}


def half(text: str) -> dict:
    return {"function": {"arguments": text}}


TOOLS = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
FORMS = {
    "no index": ([piece(id="a", function={"name": "population", "arguments": '{"city": "Lyon"}'})], 1),
    "two without index": (
        [
            piece(id="a", function={"name": "population", "arguments": ""}), piece(**half('{"city": "Lyon"}')),
            piece(id="b", function={"name": "population", "arguments": ""}), piece(**half('{"city": "Lille"}')),
        ],
        2,
    ),
    "first at 1": ([piece(index=1, id="a", function={"name": "population", "arguments": '{"city": "Lyon"}'})], 1),
    "then none": (
        [piece(index=0, id="a", function={"name": "population", "arguments": '{"city"'}), piece(**half(': "Lyon"}'))],
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_case_b05_pieces_of_calls_in_every_form(form):
    """The right number of calls with the right arguments."""
    pieces, count = FORMS[form]
    with Server(stream(*pieces, TOOLS, done=True), say("ok")) as server:
        result = run(agent(server))

    results = [message.text for message in result.messages if message.role == "tool"]
    assert results == ["522000", "236000"][:count]


def test_case_b05_whole_calls_without_an_index():
    """A body that was not streamed holds them as they are."""
    named = [(f"c{n}", "population", f'{{"city": "{city}"}}') for n, city in enumerate(("Lyon", "Lille"))]
    asked = [{"id": one, "function": {"name": name, "arguments": arguments}} for one, name, arguments in named]
    body = {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": asked}}]}
    with Server(whole(body), say("ok")) as server:
        result = run(agent(server, model={"stream": False}))

    assert [message.text for message in result.messages if message.role == "tool"] == ["522000", "236000"]


@pytest.mark.parametrize(
    ("body", "requests", "reason"),
    [
        ({"error": {"message": "Rate limit", "code": 429}}, 3, "rate_limit"),
        ({"choices": None, "error": "insufficient balance"}, 1, "billing"),
        ("<html><title>Log in</title></html>", 3, "malformed_reply"),
        ("", 3, "malformed_reply"),
        ([], 3, "malformed_reply"),
    ],
    ids=["rate limit", "balance", "login page", "empty", "list"],
)
def test_case_b07_an_error_in_a_body_of_status_200(body, requests, reason):
    """Never a success; classed by its own words."""
    with Server(always(whole(body))) as server:
        result = run(agent(server, model={"stream": False}))

    assert len(server.requests) == requests
    assert result.failure.reason == reason


@pytest.mark.parametrize("code", [400, 404, 422, 413])
def test_case_b09_what_cannot_heal_goes_to_the_next_provider(code):
    """One request each, then failed; the next turn is not held up."""
    body = {"error": {"message": "Invalid schema for function 'x'", "type": "invalid_request_error"}}
    with Server(always(status(code, body))) as primary, Server(always(status(code, body))) as backup:
        made = agent(primary, backup, compression=None)
        assert run(made).failed
        if code != 413:
            assert (len(primary.requests), len(backup.requests)) == (1, 1)
        before = len(primary.requests)
        run(made)
        assert len(primary.requests) == before + 1


def test_case_b11_reasoning_goes_back_where_it_is_wanted(tmp_path):
    """A server that wants it gets it, one that refuses it does not, also after a fallback."""

    def wants(request):
        if request.messages[-1]["role"] != "tool":
            return calls(LYON, reasoning="let me look")
        if not any(row.get("reasoning_content") for row in request.messages):
            return status(400, {"error": {"message": "The reasoning_content in the thinking mode must be passed back"}})
        return say("522,000")

    def refuses(request):
        if any("reasoning_content" in row for row in request.messages):
            return status(400, {"error": {"message": "unknown field reasoning_content"}})
        return say("from the other")

    with Server(always(wants)) as server:
        assert run(agent(server)).text == "522,000"
    with Server(always(wants)) as server:
        assert run(agent(server), session=hn.Session(tmp_path / "log.db", id="c")).text == "522,000"
        again = hn.Session(tmp_path / "log.db", id="c")
        assert [message.reasoning for message in again.messages if message.tool_calls] == ["let me look"]
        assert run(agent(server), session=again).completed
    assert any(row.get("reasoning_content") == "let me look" for row in server.requests[-1].messages)
    turns = iter([calls(LYON, reasoning="hm"), *[status(500)] * 9])
    with Server(always(lambda _: next(turns))) as primary, Server(always(refuses)) as backup:
        assert run(agent(primary, backup)).text == "from the other"


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, KeyboardInterrupt, BaseException])
def test_case_b13_whatever_a_tool_raises(error):
    """The history is valid; only KeyboardInterrupt stops the turn; nothing kills the process."""

    @hn.tool
    def odd() -> str:
        """Raises."""
        raise error

    with Server(calls(call("odd"), LYON), always(say("ok"))) as server:
        result = run(agent(server, tools=[odd, population]))

    assert problems(result.messages) == []
    if error is KeyboardInterrupt:
        assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_KERNEL
    else:
        assert result.text == "ok"


def test_case_b13_an_async_tool_that_runs_out_of_time():
    """An error result; the turn goes on."""

    @hn.tool(timeout=0.2)
    async def patient() -> str:
        """Takes long."""
        await asyncio.sleep(30)
        return "late"

    with Server(call("patient"), say("ok")) as server:
        result = run(agent(server, tools=[patient]))
    assert result.text == "ok"
    assert "given up after 0.2 s" in result.messages[2].text


def test_case_b15_unknown_tools_and_wrong_arguments():
    """Error results that name what would be right; ended by name within the budget; no secrets from locals."""
    with Server(always(call("no_such_tool"))) as server:
        result = run(agent(server, budget=20))
        assert "population" in server.requests[1].messages[-1]["content"]
    assert result.exit_reason is hn.ExitReason.INVALID_TOOL_CALLS
    assert result.budget.used < 20

    with Server(
        call("population"), call("population", town="Lyon"), call("population", city={"a": 1}), say("ok")
    ) as server:
        run(agent(server))
    told = [row["content"] for row in server.requests[-1].messages if row["role"] == "tool"]
    assert all("city" in text for text in told)

    @hn.tool
    def careless() -> str:
        """Has a secret in a local."""
        password = "hunter2-in-a-local"
        raise RuntimeError(len(password))

    with Server(call("careless"), say("ok")) as server:
        run(agent(server, tools=[careless]))
        assert "RuntimeError" in server.requests[1].messages[-1]["content"]
        assert "hunter2" not in server.requests[1].messages[-1]["content"]


@pytest.mark.parametrize(
    ("answer", "limits"),
    [
        (stall(), {"first_token": 0.3}),
        (stream(*text_chunks("a"), 30.0), {"idle": 0.3}),
        (stream(*[part for _ in range(200) for part in (KEEPALIVE, 0.05)]), {"first_token": 0.4}),
        (stream(*[part for _ in range(200) for part in (*text_chunks("a"), 0.05)]), {"total": 0.5}),
    ],
    ids=["no first token", "idle", "keep-alives only", "total"],
)
def test_case_b17_a_slow_server(answer, limits):
    """Each limit counts, keep-alives are no progress, and an interrupt works at any moment."""
    began = time.monotonic()
    with Server(answer, always(say("ok"))) as server:
        result = run(agent(server, model={"timeout": Timeouts(**limits)}))
    assert time.monotonic() - began < 10
    assert "ok" in result.text

    with Server(always(answer)) as server:
        turn = agent(server, model={"timeout": Timeouts()}).start("q", session=False)
        server.wait_for()
        time.sleep(0.1)
        began = time.monotonic()
        turn.interrupt()
        turn.result()
        assert time.monotonic() - began < 3
