"""Exactly at a bound, and one step to either side of it."""

from __future__ import annotations

from dataclasses import fields

import pytest

import hermes_nb as hn
from hermes_nb.policies.guard import LONGEST, RateGuard
from hermes_nb.policies.limits import BudgetNotice, Ceiling, priced
from hermes_nb.policies.recovery import Tally
from hermes_nb.policies.retry import Retry
from hermes_nb.testing import say, script
from hermes_nb.vocabulary.failures import ConfigurationError, Failure
from hermes_nb.vocabulary.failures import FailureReason as Reason
from hermes_nb.vocabulary.messages import Usage

INFINITE = float("inf")
SMALLEST = [
    (hn.Retry, "attempts", 1), (hn.Retry, "empty_attempts", 1),
    (hn.Retry, "wait_initial", 0), (hn.Retry, "wait_max", 0),
    (hn.Retry, "wait_jitter", 0), (hn.Retry, "retry_after_max", 0), (hn.RateGuard, "genuine", 0),
    (hn.RateGuard, "cooling", 0), (hn.Guardrails, "invalid_batches", 1), (hn.Guardrails, "same_call", (1, 1)),
    (hn.Compression, "passes", 0), (hn.Compression, "protect_first", 0), (hn.Compression, "protect_last", 0),
    (hn.Compression, "minimum", 0), (hn.Compression, "cooldown", 0), (hn.Compression, "context_window", 256),
    (hn.Delegation, "depth", 0), (hn.Delegation, "at_once", 1), (hn.Ceiling, "landing", 0),
]  # fmt: skip


@pytest.mark.parametrize(("policy", "name", "smallest"), SMALLEST, ids=lambda value: getattr(value, "__name__", value))
def test_the_smallest_value_is_taken_and_anything_below_is_refused(policy, name, smallest):
    assert getattr(policy(**{name: smallest}), name) == smallest
    below = tuple(value - 1 for value in smallest) if isinstance(smallest, tuple) else smallest - 1
    with pytest.raises(ConfigurationError):
        policy(**{name: below})


NUMBERS = [
    (policy, field.name)
    for policy in (hn.Retry, hn.Compression, hn.Refund, hn.Ceiling, hn.Guardrails, hn.RateGuard, hn.BudgetNotice)
    for field in fields(policy)
    if field.type.startswith(("int", "float", "Bounds"))
]


@pytest.mark.parametrize("value", ["5", float("nan"), [], b"5", True, 10**400], ids=lambda value: f"{value!r:.5}")
@pytest.mark.parametrize(("policy", "name"), NUMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_no_number_is_refused_by_name_and_at_once(policy, name, value):
    with pytest.raises(ConfigurationError, match=name):
        policy(**{name: value})


@pytest.mark.parametrize("value", [5, (1,), (1, 2, 3), (1, "2"), (1, float("nan"))])
def test_bounds_of_guardrails_are_pairs(value):
    with pytest.raises(ConfigurationError, match="repeats is a pair"):
        hn.Guardrails(repeats=value)


def test_a_window_without_end_is_refused():
    with pytest.raises(ConfigurationError, match="context_window"):
        hn.Compression(context_window=INFINITE)


@pytest.mark.parametrize("name", ["threshold", "tail_share"])
@pytest.mark.parametrize("share", [0, 1])
def test_a_share_of_nothing_or_all_is_refused(name, share):
    with pytest.raises(ConfigurationError, match=name):
        hn.Compression(**{name: share})


def test_a_budget_notice_may_come_at_the_very_end_but_not_before_the_beginning():
    assert BudgetNotice(share=1).share == 1
    for share in (0, 1.01):
        with pytest.raises(ConfigurationError, match="share"):
            BudgetNotice(share=share)


@pytest.mark.parametrize("name", ["tokens", "seconds"])
def test_a_ceiling_of_nothing_is_refused(name):
    with pytest.raises(ConfigurationError, match=name):
        Ceiling(**{name: 0})
    assert getattr(Ceiling(**{name: 0.001}), name) == 0.001


def test_a_ceiling_is_reached_when_all_of_it_is_used():
    tokens, money = Ceiling(tokens=100), Ceiling(cost_usd=2.0, price=lambda *_: 0.0)
    time = Ceiling(seconds=5.0)
    assert tokens.reached(tokens=99, cost_usd=0, seconds=1e9) == ""
    assert tokens.reached(tokens=100, cost_usd=0, seconds=0) == "100 of 100 tokens used"
    assert money.reached(tokens=10**9, cost_usd=1.99, seconds=1e9) == ""
    assert money.reached(tokens=0, cost_usd=2.0, seconds=0) == "$2.0000 of $2.0000 spent"
    assert time.reached(tokens=10**9, cost_usd=0, seconds=4.9) == ""
    assert time.reached(tokens=0, cost_usd=0, seconds=5.0) == "the 5 seconds are over"


def test_what_is_left_of_a_ceiling_that_was_passed_is_hardly_anything_but_a_ceiling():
    left = Ceiling(tokens=10, seconds=10, cost_usd=10, price=lambda *_: 0.0).left(20, 20.0, 20.0)
    assert (left.tokens, left.seconds, left.cost_usd) == (1, 0.001, 0.000_000_001)


def test_a_reply_may_cost_nothing():
    assert priced(lambda *_: 0, "p", "m", Usage(1, 1)) == 0.0
    with pytest.raises(ValueError, match="price"):
        priced(lambda *_: -0.01, "p", "m", Usage(1, 1))


def test_a_limit_of_a_week_is_believed_and_a_longer_one_is_a_wrong_clock():
    now = [0.0]
    guard = RateGuard(clock=lambda: now[0])
    guard.record("p", Failure(Reason.RATE_LIMIT, "x", limited_for=10 * LONGEST))
    assert guard.blocked_for("p") == LONGEST, "no limit is remembered for longer"
    now[0] = -1.0
    assert guard.blocked_for("p") == 0.0, "the clock was set back"


def test_a_quota_that_comes_back_within_the_longest_wait_is_waited_for():
    def allowed(seconds: float) -> bool:
        return Retry().allows(Failure(Reason.RATE_LIMIT, "x", limited_for=seconds), 1, fallback_left=False)

    assert allowed(60.0)
    assert not allowed(60.1)


def test_a_wait_after_any_number_of_failures_is_a_number():
    assert Retry(wait_max=1e300).wait(Failure(Reason.TIMEOUT, "x"), 100_000, 0.0).seconds == 1e300
    assert Retry(wait_initial=0.0).wait(Failure(Reason.TIMEOUT, "x"), 100_000, 0.0).seconds == 0.0


def test_an_answer_that_may_be_long_already_is_asked_for_with_no_less():
    tally = Tally()
    tally.raise_cap(20_000)
    assert tally.max_tokens == 32_768
    tally.lower_cap(10)
    assert tally.max_tokens == 1
    tally.lower_cap(1_000)
    assert tally.max_tokens == 936


def test_a_task_is_handed_on_while_a_level_is_left():
    assert hn.Delegation(depth=1).refusal() == ""
    assert "no sub-agents" in hn.Delegation(depth=0).refusal()
    assert hn.Delegation(depth=3).below(hn.Delegation(depth=2)).depth == 1


def test_a_budget_may_be_nothing_but_not_less():
    assert hn.IterationBudget(0).view().remaining == 0
    with pytest.raises(ValueError, match="0 or more, not -1"):
        hn.IterationBudget(-1)


def test_only_what_was_used_is_given_back():
    budget = hn.IterationBudget(1)
    assert not budget.refund()
    assert budget.view().remaining == 1
    assert budget.consume()
    assert not budget.consume()
    assert budget.refund()
    assert budget.consume()


def test_none_switches_off_what_a_turn_can_be_without():
    off = dict.fromkeys(("compression", "grace", "ceiling", "guard", "budget_notice"))
    agent = hn.Agent(script(say("done")), budget=0, **off)

    assert agent.run("go", session=False).graces == 0
    policies = agent.policies
    assert not policies.compression.enabled
    assert (policies.guard, policies.budget_notice) == (None, None)
    assert policies.ceiling == Ceiling()


@pytest.mark.parametrize("name", ["retry", "refund", "delegation", "guardrails"])
def test_none_is_refused_where_a_turn_is_never_without_and_the_least_is_named(name):
    with pytest.raises(ConfigurationError, match=f"{name}=None: .* the least of it is"):
        hn.Agent(script(say("done")), **{name: None})
