"""The rows around the loop, 1 to 19: compression in real turns."""

from __future__ import annotations

import json
import re

import pytest

import hermes_nb as hn
from hermes_nb.policies.compression import Compression
from tests.conformance.support import agent, run, texts
from tests.support.pairing import problems
from tests.support.server import Server, always, call, calls, say, status, whole

QUESTION = "How many people live in Lyon?"


def chat(rounds: int = 14, size: int = 40) -> list[dict]:
    """A conversation of several questions."""
    rows = []
    for number in range(rounds):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * size})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * size})
    return rows


def for_summaries(summary, otherwise):
    """A step that answers requests for a summary in one way, and all others in another."""

    def step(request):
        wanted = len(request.messages) == 1 and "tools" not in request.body
        return summary if wanted else otherwise

    return always(step)


def summaries(server: Server) -> list:
    return [request for request in server.requests if len(request.messages) == 1]


def mains(server: Server) -> list:
    return [request for request in server.requests if len(request.messages) > 1]


def small(window: int = 4_000, **settings) -> dict:
    return {"compression": hn.Compression(context_window=window, **settings)}


@pytest.mark.parametrize(
    ("window", "threshold"), [(64_000, 54_400), (80_000, 64_000), (200_000, 150_000), (8_000, 6_000)]
)
def test_parts_01_the_threshold(window, threshold):
    """The same numbers, and small windows keep their share instead of being refused."""
    assert Compression().tokens(window) == threshold


def test_parts_02_a_long_history_before_the_first_request():
    """Compressed first; one main request, the question last, no iteration lost."""
    with Server(for_summaries(say("Towns were discussed."), say("522,000"))) as server:
        result = run(agent(server, **small()), history=chat())

    assert len(mains(server)) == 1
    assert texts(mains(server)[0])[-1] == QUESTION
    assert (result.api_calls, result.budget.used) == (1, 1)


def test_parts_03_the_request_for_a_summary():
    """One user message, no tools, never more than the window holds: long histories go in portions."""
    with Server(for_summaries(say("Towns were discussed."), say("ok"))) as server:
        run(agent(server, **small()), history=chat(rounds=60))

    assert len(summaries(server)) > 1
    for request in summaries(server):
        assert [message["role"] for message in request.messages] == ["user"]
        assert "tools" not in request.body
        assert len(request.raw) < 4 * 4_000


def test_parts_04_head_and_tail_stay():
    """The first messages word for word, whole groups, the live question last."""
    with Server(for_summaries(say("Towns were discussed."), say("ok"))) as server:
        result = run(agent(server, **small(8_000)), history=chat(rounds=30))

    sent = texts(mains(server)[0])
    assert sent[0].startswith("Question 0")
    assert sent[-1] == QUESTION
    assert any("Towns were discussed." in text for text in sent)
    assert problems(mains_as_messages(server)) == []
    assert [message.origin for message in result.messages].count("summary") == 1


def mains_as_messages(server: Server) -> list[hn.Message]:
    return [hn.Message.from_dict(row) for row in mains(server)[-1].messages]


def tool_history(calls: int, size: int) -> list[dict]:
    """One question, answered by many tool calls."""
    rows: list[dict] = [{"role": "user", "content": "Look at all towns."}]
    for number in range(calls):
        one = {
            "id": f"c{number}",
            "type": "function",
            "function": {"name": "population", "arguments": json.dumps({"city": f"{number}" * 900})},
        }
        rows += [{"role": "assistant", "content": "", "tool_calls": [one]}]
        rows += [{"role": "tool", "tool_call_id": f"c{number}", "content": f"{number} " + "people and houses " * size}]
    return rows


def test_parts_05_old_results_become_one_line_and_arguments_stay_json():
    """One-line digests, valid JSON, and under pressure recent bulk is shortened too."""
    with Server(for_summaries(say("Towns were looked at."), say("ok"))) as server:
        run(agent(server, **small(6_000)), history=tool_history(30, 60))

    read = summaries(server)[0].messages[0]["content"]
    assert read.count("people and houses") == 4 * read.count("gave 1,082 characters, beginning: ") > 0
    for arguments in re.findall(r"\[CALL population\] (.*)", read):
        assert json.loads(arguments)["city"].endswith("… (700 more characters)")

    @hn.tool
    def register(year: int) -> str:
        """All people of a year."""
        return f"{year}: " + "people and houses " * 2_000

    asked = calls(*(call("register", year=year) for year in range(3)), usage=None)
    with Server(asked, say("ok")) as server:
        run(agent(server, tools=[register], **small(6_000)))

    sent = mains(server)[-1].messages
    assert sum("characters left out to save room" in row["content"] for row in sent if row["role"] == "tool") == 3
    assert len(server.requests[-1].raw) < 4 * 6_000
    assert problems([hn.Message.from_dict(row) for row in sent]) == []


def test_parts_06_the_second_summary_brings_the_first_up_to_date():
    """The request for the second summary holds the first one."""
    summary = iter(["FIRST-SUMMARY of the talk", *["SECOND-SUMMARY"] * 20])

    def step(request):
        if len(request.messages) == 1:
            return say(next(summary))
        return say("it is as it was before. " * 120)

    with Server(always(step)) as server:
        made = agent(server, **small(6_000, passes=3))
        turn = made.start(QUESTION, session=False, history=chat(rounds=12))
        turn.result()
        for number in range(14):
            turn = turn.reply(f"More on {number}: " + "how is it with the town? " * 40)
            turn.result()

    assert any("FIRST-SUMMARY" in request.messages[0]["content"] for request in summaries(server)[1:])


def test_parts_07_compressions_in_one_long_tool_loop():
    """One rolling summary, and a bounded number of messages, however long the loop."""
    counts = []

    @hn.tool
    def read(number: int) -> str:
        """Reads a page."""
        return f"page {number} " + "people and houses " * 120

    asked = iter(range(10_000))

    def step(request):
        if len(request.messages) == 1:
            return say("Pages were read.")
        counts.append(len(request.messages))
        number, usage = next(asked), (len(request.raw) // 4, 5)
        return calls(call("read", number=number), usage=usage) if number < 60 else say("done", usage=usage)

    with Server(always(step)) as server:
        made = agent(server, tools=[read], budget=100, **small(8_000, passes=60))
        result = run(made, prompt="Read all pages.")

    assert result.completed
    assert result.compressions >= 3
    assert max(counts[20:]) <= 2 * max(counts[:20])
    assert [message.origin for message in result.messages].count("summary") <= 1
    assert max(len(request.raw) for request in mains(server)) < 8_000 * 5


def test_parts_08_the_user_speaks_first_after_every_compression():
    """Always user first."""
    with Server(for_summaries(say("Towns were discussed."), say("ok"))) as server:
        made = agent(server, **small())
        turn = made.start(QUESTION, session=False, history=chat())
        turn.result()
        for _ in range(3):
            turn = turn.reply("And now? " + "how is it with the town? " * 300)
            turn.result()

    for request in mains(server):
        assert [message["role"] for message in request.messages][:2] == ["system", "user"]


def test_parts_09_a_summary_that_fails_is_made_by_rule():
    """Retried, then made without a model; the turn answers."""
    with Server(for_summaries(status(500), say("ok"))) as server:
        result = run(agent(server, **small()), history=chat())

    assert result.completed
    assert len(summaries(server)) == 3
    summary = next(message.text for message in result.messages if message.origin == "summary")
    assert 0 < len(summary) <= 9_000
    assert result.trace.compressions_df().strategy.tolist() == ["static"]


def test_parts_10_a_summary_that_the_turn_could_not_make_either():
    """History unchanged, request sent in full, visibly."""
    told = []
    with Server(for_summaries(status(401), say("ok"))) as server:
        result = run(agent(server, **small()), history=chat(), sinks=[told.append])

    assert result.completed
    assert len(mains(server)[-1].messages) == 30
    assert any(event.what.kind == "degraded" and event.what.part == "compressor" for event in told)


def test_parts_11_an_empty_summary_is_a_failure():
    """A summary by rule takes its place."""
    with Server(for_summaries(say("  "), say("ok"))) as server:
        result = run(agent(server, **small()), history=chat())

    assert result.completed
    assert result.trace.compressions_df().strategy.tolist() == ["static"]


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a session"])
def test_parts_12_compressions_that_do_not_help_stop(kept, tmp_path):
    """After two that did not bring the real prompt down no more are made, with a store and without."""

    def step(request):
        if len(request.messages) == 1:
            return say("Towns were discussed.")
        usage = (9_000, 5)
        return say("ok", usage=usage)

    with Server(always(step)) as server:
        made = agent(server, **small(8_000))
        session = hn.Session(tmp_path / "log.db", id="c") if kept else False
        turn = made.start(QUESTION, session=session, history=chat(rounds=30))
        turn.result()
        compressions = [turn.result().compressions]
        for _ in range(5):
            turn = turn.reply("And? " + "how is it with the town? " * 100)
            compressions.append(turn.result().compressions)

    assert sum(compressions) <= 3
    assert compressions[-3:] == [0, 0, 0]


def overflow(limit: str = "This model's maximum context length is 80000 tokens."):
    return status(400, {"error": {"message": limit, "code": "context_length_exceeded"}})


def test_parts_13_an_overflow_that_states_the_window():
    """The window is lowered to what was stated; compressed, asked again, one unit used."""
    first = iter([overflow()])

    def step(request):
        return say("Towns were discussed.") if len(request.messages) == 1 else next(first, say("ok"))

    with Server(always(step)) as server:
        turn = agent(server, compression=hn.Compression(context_window=200_000)).start(
            QUESTION, session=False, history=chat(rounds=40)
        )
        result = turn.result()

    assert result.completed
    assert (result.api_calls, result.budget.used, result.refunds) == (1, 1, 1)
    assert turn.request.sizes.window == 80_000


def test_parts_14_an_overflow_without_a_number_for_ever():
    """At most 3 compressions, each aiming lower; a whole result, and the configured window is kept."""
    with Server(for_summaries(say("Towns were discussed."), overflow("prompt is too long"))) as server:
        turn = agent(server).start(QUESTION, session=False, history=chat(rounds=40))
        result = turn.result()

    sizes = [len(request.raw) for request in mains(server)]
    assert result.compressions <= 3
    assert sizes == sorted(sizes, reverse=True)
    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert result.as_dict().keys() >= {"turn_exit_reason", "total_tokens", "session_id", "pending_steer"}
    assert turn.request.sizes.window is None


def test_parts_15_an_output_cap_with_a_number():
    """Asked again with the number less 64, no compression."""
    refused = status(400, {"error": {"message": "max_tokens is too large: available_tokens: 10000"}})
    with Server(refused, say("ok")) as server:
        result = run(agent(server, model={"max_tokens": 65_536}))

    assert server.requests[1].body["max_tokens"] == 9_936
    assert result.compressions == 0


def test_parts_16_an_output_cap_without_a_number():
    """Failed at once, one request."""
    refused = status(400, {"error": {"message": "max_tokens is too large"}})
    with Server(always(refused)) as server:
        result = run(agent(server, model={"max_tokens": 65_536}))

    assert len(server.requests) == 1
    assert result.failed


def test_parts_17_a_payload_that_is_too_large():
    """Compressed, asked again."""
    first = iter([whole("too large", status=413)])

    def step(request):
        return say("Towns were discussed.") if len(request.messages) == 1 else next(first, say("ok"))

    with Server(always(step)) as server:
        result = run(agent(server), history=chat())

    assert result.completed
    assert result.trace.compressions_df().trigger.tolist() == ["overflow"]


def test_parts_18_an_overflow_while_compression_is_off():
    """One request, failed by name."""
    with Server(always(overflow())) as server:
        result = run(agent(server, compression=None), history=chat())

    assert len(server.requests) == 1
    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED


def test_parts_19_a_compression_costs_no_budget():
    """The iteration is given back by a refund, told once."""
    told = []
    with Server(for_summaries(say("Towns were discussed."), say("ok"))) as server:
        result = run(agent(server, **small()), history=chat(), sinks=[told.append])

    started = [event.what.number for event in told if event.what.kind == "iteration" and event.phase == "started"]
    assert started == [1, 2]
    assert result.trace.refunds_df().reason.tolist() == ["compression"]
    assert result.budget.used == 1
