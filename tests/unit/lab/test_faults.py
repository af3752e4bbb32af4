"""Injected failures: which, when, and what the turn makes of them."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.lab.faults import Draws
from hermes_nb.lab.injecting import CALLS, FAILURES, REQUESTS
from hermes_nb.testing import call, calls, no_waiting, say, script


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return 522_000


def turn(faults: hn.Faults, *steps, prompt: str = "q", backup=(), **settings) -> hn.TurnResult:
    chain = [script(*(steps or (say("The answer is 42."),)), name="primary"), *backup]
    with no_waiting():
        return hn.Agent(chain, tools=[population], faults=faults, guard=None, **settings).run(prompt, session=False)


def attempts(result: hn.TurnResult) -> list[tuple[str | None, str]]:
    frame = result.trace.attempts_df()
    injected = [kind or None for kind in frame.injected.astype(object).fillna("")]
    return list(zip(injected, frame.outcome.astype(str), strict=True))


@pytest.mark.parametrize("kind", [*FAILURES.keys() - {"overflow", "auth"}, "empty"])
def test_a_fault_of_the_first_request_is_healed_by_a_retry(kind):
    result = turn(hn.Faults(**{kind: {1}}))

    assert result.text == "The answer is 42."
    assert attempts(result) == [(kind, "retry"), (None, "success")]


@pytest.mark.parametrize("kind", ["auth", *FAILURES.keys() - {"overflow"}])
def test_a_primary_that_always_fails_is_replaced_by_the_next_provider(kind):
    result = turn(hn.Faults(**{kind: 1.0}, places={0}), backup=[script(say("backup"), name="backup")])

    assert result.text == "backup"
    assert result.fallbacks == 1


def test_a_rate_limit_waits_as_long_as_it_says():
    said = turn(hn.Faults(rate_limit={1}, retry_after=7)).trace.retries_df()
    silent = turn(hn.Faults(rate_limit={1})).trace.retries_df()

    assert (said.wait[0].total_seconds(), said.source[0]) == (7, "retry_after")
    assert silent.source[0] == "backoff"


def test_an_answer_cut_in_mid_stream_is_continued_from_its_half():
    result = turn(hn.Faults(cut={1}), say("The answer is"), say(" 42."))

    assert result.completed
    assert result.text.startswith("The ans")
    assert result.text.endswith("42.")
    assert attempts(result)[0] == ("cut", "success")


def test_a_call_cut_in_mid_stream_is_asked_for_again():
    result = turn(hn.Faults(cut={1}), call("population", city="Lyon"), call("population", city="Lyon"), say("done"))

    assert result.text == "done"
    assert attempts(result)[:2] == [("cut", "retry"), (None, "success")]


@pytest.mark.parametrize("kind", ["unknown_tool", "bad_arguments"])
def test_a_wrong_call_is_answered_with_what_is_wrong(kind):
    result = turn(hn.Faults(**{kind: {1}}))

    assert result.text == "The answer is 42."
    told = next(message.text for message in result.messages if message.role == "tool")
    assert "population" in told
    assert attempts(result)[0] == (kind, "success")


def test_an_overflow_makes_the_history_smaller_or_says_that_it_cannot():
    result = turn(hn.Faults(overflow=1.0))

    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert {kind for kind, _ in attempts(result)} == {"overflow"}


@pytest.mark.parametrize("kind", CALLS)
def test_a_tool_that_fails_is_read_by_the_model_and_marked(kind):
    result = turn(hn.Faults(**{kind: {1}}), call("population", city="Lyon"), call("population", city="Lyon"), say("ok"))

    calls = result.trace.tool_calls_df()
    assert result.text == "ok"
    assert list(calls.error_type.astype(object).fillna("")) == [f"injected_{kind.removeprefix('tool_')}", ""]


def test_the_script_comes_first_and_then_the_rates():
    result = turn(hn.Faults(script=[None, "timeout"], server_error=1.0), call("population", city="Lyon"), say("never"))

    kinds = [kind for kind, _ in attempts(result)]
    assert kinds[:3] == [None, "timeout", "server_error"]
    assert result.exit_reason is hn.ExitReason.PROVIDER_FAILED


def test_a_slow_model_still_answers():
    result = turn(hn.Faults(slow={1}, seconds=0.05))

    assert (result.completed, attempts(result)) == (True, [("slow", "success")])


def kept(path, faults: hn.Faults) -> tuple[hn.TurnResult, list[str], list[int]]:
    """A turn in a logbook: its result, what it told of the disk, and how many messages the file had at each call."""
    in_file: list[int] = []

    @hn.tool
    def look() -> str:
        """Looks into the file."""
        with closing(sqlite3.connect(path)) as db:
            there = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'messages'").fetchone()[0]
            in_file.append(db.execute("SELECT count(*) FROM messages").fetchone()[0] if there else 0)
        return "seen"

    model = script(call("look"), call("look"), say("done"))
    result = hn.Agent(model, tools=[look], faults=faults, guard=None).run("q", session=hn.Session(path))
    events = result.trace.events_df()
    return result, list(events.attributes_json[events.name == "hermes.degraded"]), in_file


def test_a_disk_that_is_full_while_the_turn_runs_is_told_of_and_nothing_is_lost(tmp_path):
    result, told, in_file = kept(tmp_path / "x.db", hn.Faults(disk_full=1.0))
    healthy, silence, as_it_goes = kept(tmp_path / "y.db", hn.Faults(timeout={9}))

    assert (in_file, as_it_goes) == ([0, 0], [2, 4])
    assert (result.text, healthy.text) == ("done", "done")
    assert "(injected)" in "".join(told)
    assert (len(told), silence) == (1, [])
    assert hn.Session(tmp_path / "x.db").messages == result.messages
    assert "(injected)" in hn.load(tmp_path / "x.db").events_df().attributes_json.str.cat()


def test_a_disk_that_is_full_once_has_room_for_the_next_write(tmp_path):
    result, told, in_file = kept(tmp_path / "x.db", hn.Faults(disk_full={1}))

    assert (in_file[-1], len(told)) == (4, 1)
    assert hn.Session(tmp_path / "x.db").messages == result.messages


def test_one_turns_full_disk_is_no_matter_of_the_others_in_the_file(tmp_path):
    go_on = threading.Event()

    @hn.tool
    def wait() -> str:
        """Waits."""
        go_on.wait(30)
        return "over"

    full = hn.Agent(script(call("wait"), say("x")), tools=[wait], faults=hn.Faults(disk_full=1.0), guard=None)
    run = full.start("q", session=hn.Session(tmp_path / "x.db", id="full"))
    other, told, in_file = kept(tmp_path / "x.db", hn.Faults())
    go_on.set()

    assert (other.text, told, in_file) == ("done", [], [2, 4])
    assert run.result().text == "x"
    assert hn.Session(tmp_path / "x.db", id="full").messages == run.result().messages


def test_the_words_of_a_slow_model_come_one_by_one():
    times: list[int] = []
    sinks = [lambda event: times.append(event.at) if event.what.kind == "delta" else None]
    agent = hn.Agent(script(say("one two three four")), faults=hn.Faults(slow={1}, seconds=0.4), guard=None)
    result = agent.run("q", session=False, sinks=sinks)

    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert result.text == "one two three four"
    assert len(gaps) == 3
    assert min(gaps) > 50_000_000, "nanoseconds; half of what is asked for"


@given(seed=st.integers(), rate=st.floats(0, 1))
def test_the_same_seed_brings_the_same_faults(seed, rate):
    first, second = (Draws({"timeout": rate}, str(seed)) for _ in range(2))

    assert [first.next() for _ in range(20)] == [second.next() for _ in range(20)]


def test_a_turn_is_the_same_for_the_same_seed_and_another_for_another():
    def kinds(seed, prompt):
        faults = hn.Faults(rate_limit=0.3, timeout=0.2, empty=0.2, seed=seed)
        steps = [call("population", city="Lyon")] * 12
        return [kind for kind, _ in attempts(turn(faults, *steps, say("x"), prompt=prompt, budget=6))]

    assert kinds(1, "a") == kinds(1, "a")
    assert len({tuple(kinds(seed, prompt)) for seed in (1, 2) for prompt in "ab"}) > 1


def test_rates_come_about_as_often_as_they_say():
    draws = Draws({"timeout": 0.2, "empty": 0.3}, "7")
    drawn = [draws.next() for _ in range(4000)]

    assert 0.17 < drawn.count("timeout") / 4000 < 0.23
    assert 0.27 < drawn.count("empty") / 4000 < 0.33


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rate_limit": 1.5}, "rate from 0 to 1"),
        ({"rate_limit": {0}}, "positions"),
        ({"cut": "often"}, "'often'"),
        ({"rate_limit": 0.7, "timeout": 0.6}, "at most 1"),
        ({"script": ["nonsense"]}, "nonsense"),
        ({"script": ["tool_error"]}, "no request can fail"),
        ({"disk_full": {-1}}, "positions"),
    ],
)
def test_what_cannot_be_is_refused_at_once(given, told):
    with pytest.raises(hn.ConfigurationError, match=told):
        hn.Faults(**given)


def test_an_injected_rate_limit_is_not_remembered():
    guard = hn.RateGuard(shared=False)
    primary, backup = (script(say("a"), say("b"), name=name) for name in ("primary", "backup"))
    agent = hn.Agent([primary, backup], guard=guard, faults=hn.Faults(rate_limit=1.0, places={0}))
    with no_waiting():
        agent.run("q", session=False)
        after = agent.with_(faults=None).run("q", session=False)

    assert (after.text, after.provider, after.fallbacks) == ("a", "primary", 0)


def test_its_repr_shows_what_is_set():
    assert repr(hn.Faults(rate_limit=0.2, seed=7)) == "Faults(rate_limit=0.2, seed=7)"
    assert set(REQUESTS) >= set(FAILURES)


def test_a_sub_agent_has_faults_of_its_own():
    helper = hn.Agent(script(say("helped")), name="helper", faults=hn.Faults(timeout={1}), guard=None)
    lead = hn.Agent(script(call("helper", task="help"), say("done")), tools=[helper.as_tool()], guard=None)
    with no_waiting():
        result = lead.run("q", session=False)

    assert list(result.trace.attempts_df().injected.astype(object).dropna()) == ["timeout"]


@pytest.mark.parametrize("kind", [*REQUESTS, *CALLS])
def test_a_turn_with_faults_is_replayed_with_the_same_faults(kind):
    chain = [script(call("population", city="x"), say("done"), say("more")), script(say("backup"), name="backup")]
    agent = hn.Agent(chain, tools=[population], guard=None, faults=hn.Faults(**{kind: {1}}, seconds=0.01))
    with no_waiting():
        run = agent.start("q", session=False)
        result = run.result()
        again = hn.replay(run).result()

    assert again.messages == result.messages
    assert attempts(again) == attempts(result)
    assert hn.compare(run, again).same


# ---------------------------------------------------------------------------------------- sub-agents


def delegating(*tasks: str, helper: hn.Agent | None = None, **settings) -> hn.Agent:
    helper = helper or hn.Agent(
        script(*[call("population", city="Lyon")] * 3, say("helped"), each_turn=True, name="below"),
        tools=[population], name="helper", guard=None,
    )  # fmt: skip
    steps = [calls(*(call("helper", task=task) for task in tasks)), say("done")]
    return hn.Agent(script(*steps, each_turn=True), tools=[helper.as_tool(budget=9)], guard=None, **settings)


def run_of(agent: hn.Agent, prompt: str = "q") -> hn.TurnResult:
    with no_waiting():
        return agent.run(prompt, session=False)


def below(result: hn.TurnResult) -> list[tuple[str, str]]:
    """Provider and fault of each request of sub-agents that failed."""
    attempts = result.trace.attempts_df()
    hit = attempts[attempts.injected.notna() & (attempts.turn_id != result.turn_id)]
    return list(zip(hit.provider, hit.injected.astype(str), strict=True))


def test_faults_reach_the_models_and_tools_of_sub_agents_and_stand_on_their_spans():
    faults = hn.Faults(timeout={2}, tool_error={2})
    agent = delegating("count", faults=faults)
    with no_waiting():
        run = agent.start("q", session=False)
        result = run.result()

    attempts = result.trace.attempts_df()
    hit = attempts[attempts.injected.notna()]
    assert sorted(zip(hit.provider, hit.injected, strict=True)) == [("below", "timeout"), ("script", "timeout")]
    assert result.text == "done"
    failed = result.trace.tool_calls_df().dropna(subset="error_type")
    assert failed.tool_name.tolist() == ["population"]
    again = hn.replay(run)
    assert again.result().messages == result.messages
    assert again.trace.attempts_df().injected.tolist() == attempts.injected.tolist()


def test_the_tools_of_sub_agents_fail_by_their_own_count():
    result = run_of(delegating("count", faults=hn.Faults(tool_error={2})))

    calls_df = result.trace.tool_calls_df()
    assert list(calls_df[calls_df.error_type == "injected_error"].tool_name) == ["population"]


def test_only_the_agents_that_are_named_meet_the_faults():
    def hit(agents) -> set[str]:
        attempts = run_of(delegating("count", faults=hn.Faults(rate_limit={1}, agents=agents))).trace.attempts_df()
        return set(attempts[attempts.injected.notna()].provider)

    assert hit(None) == {"script", "below"}
    assert hit({"helper"}) == {"below"}
    assert hit({"agent"}) == {"script"}
    assert hit(set()) == set()
    with pytest.raises(hn.ConfigurationError, match="set of names"):
        hn.Faults(agents="helper")


def test_a_sub_agent_with_faults_of_its_own_meets_those():
    helper = hn.Agent(script(say("helped"), name="below"), name="helper", guard=None, faults=hn.Faults(cut={1}))
    attempts = run_of(delegating("count", helper=helper, faults=hn.Faults(timeout={1}))).trace.attempts_df()

    assert dict(attempts.dropna(subset="injected")[["provider", "injected"]].values.tolist()) == {
        "script": "timeout", "below": "cut",
    }  # fmt: skip


def test_sub_agents_of_sub_agents_are_reached_too():
    deepest = hn.Agent(script(say("deep"), name="deepest"), name="deepest", guard=None)
    helper = hn.Agent(
        script(call("deepest", task="dig"), say("helped"), name="below"), tools=[deepest.as_tool()], name="helper",
        guard=None, delegation=hn.Delegation(depth=3),
    )  # fmt: skip
    result = run_of(delegating("x", helper=helper, delegation=hn.Delegation(depth=3), faults=hn.Faults(timeout={1})))

    attempts = result.trace.attempts_df()
    assert set(attempts[attempts.injected.notna()].provider) == {"script", "below", "deepest"}


@given(st.integers(0, 50))
def test_the_same_seed_brings_the_same_faults_to_the_same_tasks(seed):
    agent = delegating("a", "b", "a", faults=hn.Faults(timeout=0.3, disconnect=0.3, agents={"helper"}, seed=seed))
    first, second = (sorted(below(run_of(agent))) for _ in range(2))

    assert first == second


def test_another_task_and_the_same_task_again_meet_other_faults():
    rates = {"timeout": 0.3, "disconnect": 0.3, "empty": 0.3}
    found = set()
    for tasks in (("a",), ("b",), ("c",)):
        met = [tuple(below(run_of(delegating(*tasks, faults=hn.Faults(**rates, agents={"helper"}, seed=5)))))]
        found |= set(met)
    once = below(run_of(delegating("a", faults=hn.Faults(**rates, agents={"helper"}, seed=5))))
    twice = below(run_of(delegating("a", "a", faults=hn.Faults(**rates, agents={"helper"}, seed=5))))

    assert len(found) > 1
    assert sorted(twice) != sorted(once + once)
