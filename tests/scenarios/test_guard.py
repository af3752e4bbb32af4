"""The rate guard: who remembers which limit, for how long, and what happens when its memory breaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import hermes_nb as hn
from hermes_nb.logbook import GuardFile
from hermes_nb.testing import no_waiting, script
from hermes_nb.testing import say as scripted
from tests.support.server import Server, always, say, status

GENUINE = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120s"}
HEALTHY = {"x-ratelimit-remaining-requests": "400", "x-ratelimit-reset-requests": "120s"}
LIMITED = hn.Failure(hn.FailureReason.RATE_LIMIT, "slow down", limited_for=120.0)


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


def provider(server: Server, key: str = "key-00000001", model: str = "m") -> hn.Provider:
    return hn.OpenAIChat(model, base_url=server.url, api_key=key)


def run(agent: hn.Agent, **options) -> hn.TurnResult:
    with no_waiting():
        return agent.run("q", **({"session": False} | options))


# ---------------------------------------------------------------------------------------- the policy alone


def test_a_limit_holds_until_it_resets(clock):
    guard = hn.RateGuard(clock=clock)
    guard.record("a", LIMITED)

    assert guard.blocked_for("a") == guard.blocked_for("a", alternatives=False) == 120
    assert guard.blocked_for("b") == 0
    clock.now += 119
    assert guard.blocked_for("a") == 1
    clock.now += 1
    assert guard.blocked_for("a") == 0


@pytest.mark.parametrize("seconds", [None, 0.0, 59.9])
def test_noise_and_short_limits_are_not_remembered(clock, seconds):
    guard = hn.RateGuard(clock=clock)
    guard.record("a", hn.Failure(hn.FailureReason.RATE_LIMIT, "slow down", limited_for=seconds))

    assert guard.blocked_for("a") == 0


def test_a_cool_down_counts_only_where_somebody_else_can_be_asked(clock):
    guard = hn.RateGuard(clock=clock, cooling=30)
    guard.cool_down("a")

    assert guard.blocked_for("a") == 30
    assert guard.blocked_for("a", alternatives=False) == 0
    guard.cool_down("a", 5)
    assert guard.blocked_for("a") == 5


def test_a_success_forgets_limit_and_cool_down(clock, tmp_path):
    guard = hn.RateGuard(clock=clock).with_store(GuardFile(tmp_path / "limits.json"))
    guard.record("a", LIMITED)
    guard.cool_down("a")
    guard.clear("a")

    assert guard.blocked_for("a") == 0
    assert json.loads((tmp_path / "limits.json").read_text()) == {}


def test_a_limit_from_a_wrong_clock_is_not_believed(tmp_path):
    (tmp_path / "limits.json").write_text(json.dumps({"a": time.time() + 10**9}))

    assert hn.RateGuard(store=GuardFile(tmp_path / "limits.json")).blocked_for("a") == 0


def test_a_guard_says_what_cannot_be():
    with pytest.raises(hn.ConfigurationError, match="genuine"):
        hn.RateGuard(genuine=-1)


# ---------------------------------------------------------------------------------------- in turns


def test_a_used_up_quota_is_not_asked_again_by_any_kernel():
    """One kernel learns it, another one does not ask; another key, and another model, are asked."""
    code = """
        import sys, hermes_nb as hn
        for key, model in (("key-00000001", "m"), ("key-00000002", "m"), ("key-00000001", "n")):
            provider = hn.OpenAIChat(model, base_url=sys.argv[1], api_key=key)
            print(hn.Agent(provider).run("q", session=False).exit_reason)
    """
    with Server(status(429, headers=GENUINE), always(say("ok"))) as server:
        first = run(hn.Agent(provider(server)))
        command = [sys.executable, "-c", textwrap.dedent(code), server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        asked = len(server.requests)

    assert first.exit_reason is hn.ExitReason.RATE_LIMITED
    assert first.retries == 0, "no wait makes up for a quota that is used up"
    assert done.stdout.split() == ["rate_limited", "completed", "completed"], done.stderr
    assert asked == 3


def test_a_provider_that_wants_money_cools_down_and_the_next_turn_begins_with_the_other():
    with Server(always(status(402))) as poor, Server(always(say("ok"))) as other:
        agent = hn.Agent([provider(poor), provider(other)], guard=hn.RateGuard(shared=False))
        assert run(agent).completed
        assert run(agent).completed
        assert (len(poor.requests), len(other.requests)) == (1, 2)


def test_a_provider_that_cools_down_is_asked_where_there_is_no_other():
    guard = hn.RateGuard(shared=False)
    with Server(say("ok")) as server:
        only = provider(server)
        guard.cool_down(only.identity)
        result = run(hn.Agent(only, guard=guard))
    assert result.completed
    assert len(server.requests) == 1


def test_an_agent_with_one_provider_has_nothing_to_fall_back_to():
    with Server(always(status(400))) as server:
        result = run(hn.Agent(provider(server), guard=None))
    assert result.failed
    assert len(result.trace.fallbacks_df()) == 0


def test_an_upstreams_noise_is_retried_and_locks_nothing(home):
    with Server(status(429, headers=HEALTHY), say("ok"), say("ok")) as server:
        agent = hn.Agent(provider(server))
        assert run(agent).completed
        assert run(agent).completed

    assert not (home / "rate_limits.json").exists()


def test_a_limit_is_over_when_its_time_has_come(home):
    with Server(status(429, headers=GENUINE), always(say("ok"))) as server:
        agent = hn.Agent(provider(server))
        blocked = run(agent)
        limits = json.loads((home / "rate_limits.json").read_text())
        assert [until - time.time() > 100 for until in limits.values()] == [True]
        (home / "rate_limits.json").write_text(json.dumps(dict.fromkeys(limits, time.time() - 1)))
        later = run(hn.Agent(provider(server)))

    assert blocked.exit_reason is hn.ExitReason.RATE_LIMITED
    assert later.completed


def test_the_first_provider_comes_back_when_it_has_cooled_down(clock):
    guard = hn.RateGuard(clock=clock)
    with Server(status(429), always(say("first"))) as one, Server(always(say("second"))) as two:
        agent = hn.Agent([provider(one), provider(two)], guard=guard)
        texts = [run(agent).text, run(agent).text]
        clock.now += 61
        texts.append(run(agent).text)

    assert texts == ["second", "second", "first"]


def test_a_key_is_not_in_the_guards_file(home):
    with Server(always(status(429, headers=GENUINE))) as server:
        run(hn.Agent(provider(server, key="sk-test-SECRET123")))

    assert "SECRET123" not in (home / "rate_limits.json").read_text()


@pytest.mark.parametrize("content", ["{ not json", "[1, 2]", '{"a": "soon"}', "null", "\x00" * 50, "[" * 100_000])
def test_a_damaged_file_is_told_of_and_replaced(home, content):
    (home / "rate_limits.json").write_text(content)
    told: list[hn.Event] = []
    with Server(say("ok"), always(status(429, headers=GENUINE))) as server:
        agent = hn.Agent(provider(server))
        assert run(agent, sinks=[told.append]).completed
        run(agent)

    assert [event.what.part for event in told if event.what.kind == "degraded"] == ["guard"]
    assert len(json.loads((home / "rate_limits.json").read_text())) == 1


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/full")])
def test_what_stands_in_the_files_place_is_told_of_and_keeps_no_turn_from_asking(home, make):
    home.mkdir(exist_ok=True)
    make(home / "rate_limits.json")
    turn = hn.Agent(script(scripted("ok"))).start("q", session=False)
    assert turn.wait(10)
    assert turn.result().text == "ok"
    assert {event.what.part for event in turn.events if event.what.kind == "degraded"} == {"guard"}


def test_a_file_that_cannot_be_written_is_told_of_and_this_process_remembers(home):
    (home / "rate_limits.json.lock").mkdir()
    told: list[hn.Event] = []
    with Server(status(429, headers=GENUINE), always(say("ok"))) as server:
        agent = hn.Agent(provider(server))
        run(agent, sinks=[told.append])
        assert run(agent).exit_reason is hn.ExitReason.RATE_LIMITED

    assert [event.what.part for event in told if event.what.kind == "degraded"] == ["guard"]


def test_many_processes_write_and_no_limit_is_lost(home):
    code = """
        import sys, time
        from hermes_nb.logbook import GuardFile
        for number in range(25):
            GuardFile().write(f"{sys.argv[1]}-{number}", time.time() + 500)
    """
    programs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(n)]) for n in range(3)]
    assert [program.wait(90) for program in programs] == [0, 0, 0]

    assert len(GuardFile().read()) == 75
    assert {path.name for path in home.iterdir()} <= {"rate_limits.json", "rate_limits.json.lock"}


@pytest.mark.parametrize("said", ["soon", float("nan"), None, -5])
def test_a_guard_of_the_users_that_answers_nonsense_keeps_nobody_from_asking(said):
    class Odd(hn.RateGuard):
        def blocked_for(self, identity: str, *, alternatives: bool = True) -> float:
            return said

    with Server(always(say("fine"))) as server:
        result = run(hn.Agent(provider(server), guard=Odd(shared=False)))
    assert (result.exit_reason, result.text) == (hn.ExitReason.COMPLETED, "fine")
