"""The loop's rows 1 to 37: the budget, retries, fallback, the rate guard, credentials."""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

import hermes_nb as hn
from tests.conformance.support import agent, provider, run, texts, tree, waits
from tests.support.server import Server, always, call, say, status, stream, text_chunks, whole

LYON = call("population", city="Lyon")
LIMIT = {
    "x-ratelimit-limit-requests": "100",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "90s",
}


def test_loop_01_a_plain_turn_is_one_streamed_request():
    """One streamed request that asks for usage; completed."""
    with Server(say("522,000")) as server:
        result = run(agent(server))

    assert len(server.requests) == 1
    assert server.requests[0].body["stream"] is True
    assert server.requests[0].body["stream_options"] == {"include_usage": True}
    assert (result.text, result.exit_reason) == ("522,000", hn.ExitReason.COMPLETED)


def test_loop_02_everything_is_on_disk_before_the_next_step(tmp_path):
    """Prompt before the first request, call before its tool, result before the next request."""
    seen = []

    def stored() -> list[str]:
        with sqlite3.connect(f"file:{tmp_path / 'log.db'}?mode=ro", uri=True) as database:
            return [role for (role,) in database.execute("SELECT role FROM messages ORDER BY rowid")]

    def look(answer):
        def step(_):
            seen.append(stored())
            return answer

        return step

    @hn.tool
    def look_in_tool() -> str:
        """Looks at the file."""
        seen.append(stored())
        return "seen"

    with Server(look(call("look_in_tool")), look(say("done"))) as server:
        result = run(agent(server, tools=[look_in_tool]), "q", session=hn.Session(tmp_path / "log.db", id="c"))

    assert result.completed
    assert seen == [["user"], ["user", "assistant"], ["user", "assistant", "tool"]]
    assert stored() == ["user", "assistant", "tool", "assistant"]


def test_loop_03_each_request_begins_with_the_one_before():
    """Byte by byte the same beginning, over three turns with tools."""
    with Server(say("one"), LYON, say("two"), say("three")) as server:
        first = agent(server).start(" spaced text ", session=False)
        first.result()
        second = first.reply("And?")
        second.result()
        second.reply("And then?").result()

    assert len(server.requests) == 4
    for before, after in itertools.pairwise(request.raw for request in server.requests):
        assert after.startswith(before.removesuffix(b"]}"))


def test_loop_04_other_instructions_for_one_turn_are_followed():
    """The instructions of the call are used, for that turn."""
    with Server(always(say("ok"))) as server:
        made = agent(server, instructions="Be brief.")
        made.run_conversation("q")
        made.run_conversation("q", system_message="Be long.")
        made.run_conversation("q")

    systems = [request.messages[0]["content"] for request in server.requests]
    assert ["Be brief." in system for system in systems] == [True, False, True]
    assert ["Be long." in system for system in systems] == [False, True, False]


def test_loop_05_tools_for_ever_end_with_one_request_without_tools():
    """The same, and the last request is the grace call, counted and traced."""
    with Server(LYON, LYON, LYON, say("so far: 522,000")) as server:
        result = run(agent(server, budget=3))

    assert ["tools" in request.body for request in server.requests] == [True, True, True, False]
    assert (result.completed, result.exit_reason) == (False, hn.ExitReason.BUDGET_EXHAUSTED)
    assert result.text == "so far: 522,000"
    assert (result.graces, result.iterations, result.api_calls, result.budget.used) == (1, 4, 4, 3)
    assert tree(result).count("hermes.grace_call") == 1


def test_loop_06_a_grace_call_that_asks_for_tools_again():
    """One more request, then a fixed sentence."""
    with Server(always(LYON)) as server:
        result = run(agent(server, budget=3))

    assert len(server.requests) == 5
    assert result.tool_calls == 3
    assert result.text == "There is no answer: the budget of 3 iterations is used up."


def test_loop_07_a_grace_call_that_fails_is_a_failure():
    """Retried like any request; then the turn says that it failed, and why."""
    with Server(LYON, always(status(500))) as server:
        result = run(agent(server, budget=1))

    assert len(server.requests) == 4
    assert (result.failed, result.exit_reason) == (True, hn.ExitReason.PROVIDER_FAILED)
    assert result.failure.status == 500


def test_loop_08_an_answer_on_the_last_iteration_is_a_success():
    """Completed, no extra request."""
    with Server(LYON, say("522,000")) as server:
        result = run(agent(server, budget=2))

    assert result.completed
    assert len(server.requests) == 2


def test_loop_09_a_budget_of_zero():
    """One request without tools, the grace call."""
    with Server(say("a guess")) as server:
        result = run(agent(server, budget=0))

    assert ["tools" in request.body for request in server.requests] == [False]
    assert result.text == "a guess"


def test_loop_10_the_loop_itself_raises_the_grace_call():
    """Granted by a policy, once a turn, without tools."""
    with Server(LYON, say("one"), LYON, say("two")) as server:
        made = agent(server, budget=1)
        results = [run(made), run(made)]

    assert [result.graces for result in results] == [1, 1]
    assert all(tree(result).count("hermes.grace_call") == 1 for result in results)


def test_loop_11_iterations_of_free_tools_are_really_given_back():
    """The turn goes on; a limit on refunds bounds it."""

    @hn.tool(free=True)
    def look() -> str:
        """Looks."""
        return "nothing"

    with Server(*[call("look")] * 6, say("done")) as server:
        result = run(agent(server, tools=[look], budget=3))

    assert result.completed
    assert (result.budget.used, result.refunds) == (1, 6)

    with Server(always(call("look"))) as server:
        result = run(agent(server, tools=[look], budget=3))

    assert (result.exit_reason, result.refunds, result.tool_calls) == (hn.ExitReason.BUDGET_EXHAUSTED, 16, 19)


def test_loop_12_an_overflow_costs_no_iteration():
    """One unit used, without a fixed pause."""
    with Server(overflow, always(say("a summary, then an answer"))) as server:
        result = run(agent(server), history=long_history())

    assert result.completed
    assert (result.budget.used, result.api_calls) == (1, 1)


def overflow(_):
    return status(400, {"error": {"message": "This model's maximum context length is 4000 tokens."}})


def long_history() -> list[dict]:
    rows = []
    for number in range(14):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 40})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 40})
    return rows


def test_loop_13_a_budget_is_shared_with_sub_agents_and_never_overspent():
    """The object given is the one used; a child draws on it, in one step."""
    budget = hn.IterationBudget(4)
    with Server(call("helper", task="Lyon?"), LYON, say("522,000"), say("done")) as server:
        helper = agent(server, name="helper")
        result = run(agent(server, tools=[helper.as_tool(budget=3)], budget=budget))
    assert result.completed
    assert budget.view().used == 4

    shared, taken = hn.IterationBudget(1_000), []
    threads = [threading.Thread(target=lambda: taken.extend(iter(shared.consume, False))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == shared.view().used == 1_000


def test_loop_14_exhaustion_has_one_name():
    """`budget_exhausted`, with the details in words in a second field."""
    with Server(LYON, say("so far")) as server:
        answer = agent(server, budget=1).run_conversation("q")

    assert answer["turn_exit_reason"] == "budget_exhausted"
    assert answer["exit_detail"] == "the budget of 1 iteration is used up"


def test_loop_15_a_server_that_is_overloaded_twice():
    """3 requests, waits of 2 s and 4 s and up to half of that on top, one unit used."""
    with Server(status(503), status(503), say("ok")) as server:
        result = run(agent(server))

    assert len(server.requests) == 3
    first, second = waits(result)
    assert 2 <= first <= 3
    assert 4 <= second <= 6
    assert (result.budget.used, result.api_calls) == (1, 1)


def test_loop_16_a_server_that_stays_overloaded():
    """3 requests, a failed result that names the reason, no exception."""
    with Server(always(status(503))) as server:
        answer = run(agent(server)).as_dict()

    assert len(server.requests) == 3
    assert (answer["failed"], answer["failure_reason"]) == (True, "overloaded")


def test_loop_17_retry_after_is_waited_for_exactly():
    """That second, without jitter."""
    with Server(status(429, headers={"retry-after": "1"}), say("ok")) as server:
        result = agent(server).run("q", session=False)

    assert result.completed
    gap = server.requests[1].at - server.requests[0].answered
    assert 0.9 <= gap < 5
    assert waits(result) == [1.0]


def test_loop_18_retry_after_counts_on_every_status_and_in_every_form():
    """Honoured on 503 too, in seconds, milliseconds, and as a date."""
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    for headers, least, most in (
        ({"retry-after": "1.5"}, 1.5, 1.5),
        ({"retry-after-ms": "250"}, 0.25, 0.25),
        ({"retry-after": date}, 20, 31),
    ):
        with Server(status(503, headers=headers), say("ok")) as server:
            (wait,) = waits(run(agent(server)))
        assert least <= wait <= most


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (400, {"error": {"message": "Invalid schema for function 'x'", "type": "invalid_request_error"}}),
        (401, {"error": {"message": "Incorrect API key provided"}}),
        (402, {"error": {"message": "Insufficient credits"}}),
        (404, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}}),
    ],
)
def test_loop_19_what_cannot_heal_is_not_asked_again(code, body):
    """One request, failed."""
    with Server(always(status(code, body))) as server:
        result = run(agent(server))

    assert len(server.requests) == 1
    assert result.failed
    assert result.failure.status == code


def test_loop_20_a_404_that_says_nothing():
    """One request, then the next provider: a 404 does not heal."""
    not_found = always(whole("not found", status=404, headers={"content-type": "text/plain"}))
    with Server(not_found) as server, Server(say("ok")) as backup:
        alone, helped = run(agent(server)), run(agent(server, backup))

    assert len(server.requests) == 2
    assert alone.failed
    assert helped.text == "ok"


def test_loop_21_a_refused_connection():
    """3 attempts like any other failure, every wait interruptible."""
    with Server() as server:
        url = server.url
    result = run(hn.Agent(hn.OpenAIChat("m", base_url=url, api_key="k")))
    assert result.retries == 2
    assert result.failure.reason == "connection"

    started = hn.Agent(hn.OpenAIChat("m", base_url=url, api_key="k")).start("q", session=False)
    time.sleep(0.5)
    began = time.monotonic()
    started.interrupt()
    assert started.result().interrupted
    assert time.monotonic() - began < 1.5


def test_loop_22_an_empty_stream():
    """Asked again as any malformed reply: one layer of retries, 3 requests."""
    with Server(always(stream(done=True))) as server:
        lost = run(agent(server))
    assert len(server.requests) == 3
    assert (lost.failed, lost.failure.reason) == (True, "malformed_reply")

    with Server(stream(done=True), say("ok")) as server:
        assert run(agent(server)).text == "ok"


def test_loop_23_a_body_without_choices():
    """3 requests, with waits."""
    with Server(always(whole({"choices": []}))) as server:
        result = run(agent(server, model={"stream": False}))

    assert len(server.requests) == 3
    assert result.failure.reason == "malformed_reply"
    assert [2 <= waits(result)[0] <= 3, 4 <= waits(result)[1] <= 6] == [True, True]


def test_loop_24_an_overloaded_primary_and_a_fallback():
    """2 requests, then the fallback, with its own key and told who it is."""
    with Server(always(status(503))) as primary, Server(say("from the backup")) as backup:
        chain = [provider(primary, model="big"), provider(backup, model="small", key="sk-other-0002", name="spare")]
        result = run(hn.Agent(chain))

    assert (len(primary.requests), len(backup.requests)) == (2, 1)
    assert result.text == "from the backup"
    assert backup.requests[0].key == "sk-other-0002"
    assert backup.requests[0].messages[0]["content"].startswith("Model: small\nProvider: spare")


def test_loop_25_a_rate_limited_primary_cools_down():
    """1 request, then the fallback; the next turn begins with the fallback, visibly."""
    with Server(always(status(429))) as primary, Server(always(say("ok"))) as backup:
        made = agent(primary, backup)
        first, second = run(made), run(made)

    assert (len(primary.requests), len(backup.requests)) == (1, 2)
    assert second.completed
    fallbacks = second.trace.fallbacks_df()
    assert fallbacks.reason.tolist() == ["rate_guard"]
    assert first.trace.fallbacks_df().reason.tolist() == ["rate_limit"]


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        (status(401), 1),
        (status(400, {"error": {"message": "Invalid parameter"}}), 1),
        (say("I will not", finish="content_filter"), 1),
        (status(500), 3),
        (say(""), 4),
    ],
    ids=["401", "400", "content_filter", "500", "empty"],
)
def test_loop_26_what_leads_to_the_fallback_and_after_how_many_requests(answer, requests):
    """1, 1, 1, 3 and 4 requests before it."""
    with Server(always(answer)) as primary, Server(say("ok")) as backup:
        result = run(agent(primary, backup))

    assert len(primary.requests) == requests
    assert result.text == "ok"


def test_loop_27_the_next_turn_begins_with_the_primary():
    """The chain is fresh for each turn."""
    with Server(status(503), status(503), say("back again")) as primary, Server(say("ok")) as backup:
        made = agent(primary, backup)
        assert run(made).text == "ok"
        assert run(made).text == "back again"


def test_loop_28_a_dead_chain_is_asked_anew_by_the_next_turn():
    """2 and 3 requests and a failed result; the next turn begins with the primary again."""
    with Server(always(status(503))) as primary, Server(always(status(503))) as backup:
        made = agent(primary, backup)
        result = run(made)
        assert (len(primary.requests), len(backup.requests)) == (2, 3)
        assert result.failed
        run(made)
        assert len(primary.requests) == 4


def test_loop_29_the_next_provider_has_all_its_attempts():
    """3 and 3 requests, success."""
    with Server(always(status(500))) as primary, Server(status(500), status(500), say("ok")) as backup:
        result = run(agent(primary, backup))

    assert (len(primary.requests), len(backup.requests)) == (3, 3)
    assert result.completed


def test_loop_29b_identity_after_a_filtered_stream():
    """The fallback is told who it is, and sees nothing of the filtered text."""
    chunks = text_chunks("Half a thought")
    filtered = stream(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "content_filter"}]}, done=True)
    with Server(filtered) as primary, Server(say("ok")) as backup:
        chain = [provider(primary, model="big"), provider(backup, model="small")]
        result = run(hn.Agent(chain))

    assert result.text == "ok"
    assert backup.requests[0].messages[0]["content"].startswith("Model: small")
    assert texts(backup.requests[0]) == ["How many people live in Lyon?"]
    assert not any("Half" in message.text for message in result.messages)


def test_loop_30_equal_entries_are_skipped_visibly_and_other_addresses_are_not():
    """An equal entry is skipped, as a span; the same model at another address is used."""
    with Server(always(status(400, {"error": {"message": "Invalid"}}))) as primary, Server(say("ok")) as other:
        same = provider(primary, model="m")
        result = run(hn.Agent([same, provider(primary, model="m"), provider(other, model="m")]))

    assert result.text == "ok"
    assert len(primary.requests) == 1
    assert result.trace.fallbacks_df().outcome.tolist() == ["skipped", "activated"]


def test_loop_31_a_known_limit_means_no_request():
    """No request; the fallback, or a failure that says for how long."""
    with Server(always(status(429, headers=LIMIT))) as server, Server(say("ok")) as backup:
        run(agent(server))
        asked = len(server.requests)
        alone = run(agent(server))
        assert len(server.requests) == asked
        assert run(agent(server, backup)).text == "ok"

    assert alone.exit_reason is hn.ExitReason.RATE_LIMITED
    assert "another" in alone.failure.message
    assert 60 < alone.failure.retry_after <= 90


def test_loop_32_a_broken_guard_is_ignored_visibly(home):
    """The request goes out, and the trace says that the guard failed."""

    class Broken(hn.RateGuard):
        def blocked_for(self, identity, *, alternatives=True):
            raise RuntimeError("no guard today")

    told = []
    with Server(always(say("ok"))) as server:
        assert run(agent(server, guard=Broken()), sinks=[told.append]).completed
        (home / "rate_limits.json").write_text("{ not json")
        assert run(agent(server), sinks=[told.append]).completed
    reader, file = [event.what.detail for event in told if event.what.kind == "degraded" and event.what.part == "guard"]
    assert "no guard today" in reader
    assert "rate_limits.json" in file


def test_loop_33_a_genuine_limit_is_remembered_also_with_a_fallback(home):
    """Written whether or not there is a fallback, per provider, key and model."""
    with Server(always(status(429, headers=LIMIT))) as server, Server(always(say("ok"))) as backup:
        assert run(agent(server, backup)).completed
        assert "rate_limits" in {path.stem for path in home.rglob("*.json")}
        run(agent(server))
        for model, key in (("m0", "sk-another-0003"), ("m9", "sk-conformance-0001")):
            run(hn.Agent(provider(server, model=model, key=key)))

    asked = [(request.body["model"], request.key) for request in server.requests]
    assert asked == [("m0", "sk-conformance-0001"), ("m0", "sk-another-0003"), ("m9", "sk-conformance-0001")]


def test_loop_34_a_429_that_shows_no_empty_bucket_is_noise(home):
    """Retried, not remembered."""
    with Server(status(429), say("ok"), say("ok")) as server:
        made = agent(server)
        assert run(made).completed
        assert run(made).completed

    assert not list(home.rglob("rate_limits*.json"))


def test_loop_35_a_rate_limit_with_two_keys():
    """First key, wait, first key, second key."""
    pool = hn.CredentialPool(["sk-first-00001", "sk-second-0002"])
    with Server(status(429), status(429), say("ok")) as server:
        result = run(hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key=pool)))

    assert [request.key for request in server.requests] == ["sk-first-00001", "sk-first-00001", "sk-second-0002"]
    assert result.trace.retries_df().source.tolist() == ["backoff", "credentials"]


@pytest.mark.parametrize("code", [401, 402])
def test_loop_36_a_refused_key_with_another_one_at_hand(code):
    """The second key at once."""
    pool = hn.CredentialPool(["sk-first-00001", "sk-second-0002"])
    with Server(status(code), say("ok"), say("ok")) as server:
        made = hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key=pool))
        assert run(made).completed
        assert run(made).completed

    assert [request.key for request in server.requests] == ["sk-first-00001", "sk-second-0002", "sk-second-0002"]


def test_loop_37_a_refresh_that_always_succeeds_is_capped():
    """2 refreshes a turn, then failed; a fresh count for the next turn."""
    refreshed = []

    def renew(key: str) -> str:
        refreshed.append(key)
        return f"sk-renewed-{len(refreshed):04}"

    pool = hn.CredentialPool(["sk-first-00001"], refresh=renew)
    with Server(always(status(401))) as server:
        made = hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key=pool))
        result = run(made)
        assert (len(server.requests), len(refreshed)) == (3, 2)
        run(made)
        assert (len(server.requests), len(refreshed)) == (6, 4)

    assert result.failed
    assert result.failure.status == 401
