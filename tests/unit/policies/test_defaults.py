"""The numbers that turns live by, as the documents say them; and what happens on both sides of each bound."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from hermes_nb.logbook import guardfile, store
from hermes_nb.policies import guard, recovery, retry
from hermes_nb.policies.compression import Compression
from hermes_nb.policies.guard import RateGuard
from hermes_nb.policies.guardrails import Guardrails
from hermes_nb.policies.limits import BudgetNotice, Ceiling, Delegation, Grace, Refund
from hermes_nb.policies.recovery import RECOVERY, Tally
from hermes_nb.policies.retry import Retry
from hermes_nb.providers import credentials, http, remote
from hermes_nb.providers.mixture import Mixture
from hermes_nb.providers.scripted import Scripted
from hermes_nb.tools import loops, mcp, results, toolbox
from hermes_nb.turn import chain, steps
from hermes_nb.vocabulary.budget import BudgetView
from hermes_nb.vocabulary.failures import Failure
from hermes_nb.vocabulary.failures import FailureReason as Reason

INFINITE = float("inf")

DEFAULTS = {
    Retry: {
        "attempts": 3, "wait_initial": 2.0, "wait_max": 60.0, "wait_jitter": 0.5, "retry_after_max": 600.0,
        "empty_attempts": 4,
    },
    Refund: {"limit": 16},
    BudgetNotice: {"share": 0.8},
    Grace: {"enabled": True},
    Ceiling: {"tokens": None, "seconds": None, "cost_usd": None, "price": None, "landing": 30.0},
    Delegation: {"depth": 3, "at_once": 3},
    RateGuard: {"genuine": 60.0, "cooling": 60.0, "shared": True},
    Guardrails: {"same_call": (2, 5), "same_tool": (3, 8), "repeats": (2, INFINITE), "invalid_batches": 3},
    Compression: {
        "threshold": 0.75, "passes": 3, "protect_first": 3, "protect_last": 20, "tail_share": 0.2, "minimum": 64_000,
        "cooldown": 60.0, "enabled": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("policy", DEFAULTS, ids=lambda policy: policy.__name__)
def test_the_defaults_are_those_of_the_documents(policy):
    made = policy()
    assert {name: getattr(made, name) for name in DEFAULTS[policy]} == DEFAULTS[policy]
    assert DEFAULTS[policy].keys() <= {field.name for field in dataclasses.fields(made)}


def test_the_constants_are_those_of_the_documents():
    assert retry.EAGER == {Reason.RATE_LIMIT: 1, Reason.OVERLOADED: 2, Reason.TIMEOUT: 2}
    assert (recovery.CAP_RAISES, recovery.CAP_DEFAULT, recovery.CAP_MAX, recovery.CAP_MARGIN) == (4, 4_096, 32_768, 64)
    assert guard.LONGEST == 7 * 86_400
    assert steps.CONTINUATIONS == 3
    assert (loops.CLEANING_UP, chain.CLOSING) == (0.4, 0.4)
    assert (toolbox.WORKERS, toolbox.BATCH_TIMEOUT) == (8, 420.0)
    assert (results.RESULT_LIMIT, results.BATCH_LIMIT) == (100_000, 200_000)
    assert (results.PREVIEW, results.ERROR_LIMIT, results.STORE_LIMIT) == (1_500, 2_000, 1_000_000_000)


def test_the_time_outs_of_servers_are_those_of_the_documents():
    assert http.Timeouts() == http.Timeouts(connect=15.0, first_token=180.0, idle=120.0, total=1_800.0)
    assert http.Timeouts(connect=15.0, first_token=900.0, idle=300.0, total=1_800.0) == http.LOCAL
    assert http.KEPT == 60.0
    assert (remote.ERROR_BODY, remote.AFTER_FINISH, remote.AFTER_DONE) == (65_536, 5.0, 0.25)


def test_what_is_written_by_several_kernels_is_waited_for_as_the_documents_say():
    assert (guardfile.LOCK_SECONDS, store.PAUSE, store.BEHIND) == (0.5, 5.0, 64)


def test_a_server_of_tools_has_half_a_minute_to_begin_and_ten_seconds_to_end():
    assert inspect.signature(mcp.MCP).parameters["patience"].default == 30.0
    assert (mcp._SECONDS_TO_END, mcp._SHOWN_LOG, mcp._LONGEST_NAME) == (10, 500, 64)


def test_a_mixture_asks_eight_at_once_and_waits_two_minutes_for_each():
    mixture = Mixture([Scripted([])], Scripted([]))
    assert (mixture.parallel, mixture.reference_timeout) == (8, 120.0)


def test_an_interrupt_takes_less_than_a_second_however_long_tools_and_connections_take_to_close():
    assert loops.CLEANING_UP + chain.CLOSING < 1


def test_every_reason_has_its_row():
    assert set(RECOVERY) == set(Reason)


@pytest.mark.parametrize(("failures", "base"), [(1, 2), (2, 4), (3, 8), (5, 32), (6, 60), (100, 60)])
def test_waits_double_up_to_a_minute_and_are_spread_by_half(failures, base):
    failure = Failure(Reason.SERVER_ERROR, "x")
    assert Retry().wait(failure, failures, 0.0).seconds == base
    assert Retry().wait(failure, failures, 1.0).seconds == base * 1.5


@pytest.mark.parametrize(("asked", "worth_it"), [(0, True), (600, True), (600.1, False)])
def test_a_server_may_ask_for_ten_minutes(asked, worth_it):
    failure = Failure(Reason.RATE_LIMIT, "x", retry_after=asked)
    assert Retry().allows(failure, 1, fallback_left=False) is worth_it


@pytest.mark.parametrize(
    ("reason", "alone", "with_fallback"),
    [
        (Reason.RATE_LIMIT, 3, 1),
        (Reason.OVERLOADED, 3, 2),
        (Reason.TIMEOUT, 3, 2),
        (Reason.SERVER_ERROR, 3, 3),
        (Reason.EMPTY_REPLY, 4, 4),
    ],
)
def test_attempts_alone_and_with_a_fallback(reason, alone, with_fallback):
    def attempts(*, fallback_left: bool) -> int:
        failures = 1
        while Retry().allows(Failure(reason, "x"), failures, fallback_left=fallback_left):
            failures += 1
        return failures

    assert attempts(fallback_left=False) == alone
    assert attempts(fallback_left=True) == with_fallback


def test_refunds_end_at_their_limit():
    assert Refund().allows("free_tool", 15)
    assert not Refund().allows("free_tool", 16)


def test_the_budget_notice_comes_at_four_fifths():
    assert BudgetNotice().due(BudgetView(10, 7, 3, 0, 0)) == ""
    assert "2 of 10" in BudgetNotice().due(BudgetView(10, 8, 2, 0, 0))


def test_a_cool_down_is_over_after_a_minute_and_a_limit_after_its_reset():
    now = [1_000.0]
    rate = RateGuard(clock=lambda: now[0])
    rate.cool_down("a")
    rate.record("b", Failure(Reason.RATE_LIMIT, "x", limited_for=59.9))
    rate.record("c", Failure(Reason.RATE_LIMIT, "x", limited_for=60.0))
    assert rate.blocked_for("a") == 60.0
    assert rate.blocked_for("a", alternatives=False) == 0.0
    assert (rate.blocked_for("b"), rate.blocked_for("c")) == (0.0, 60.0)
    now[0] += 60.1
    assert (rate.blocked_for("a"), rate.blocked_for("c")) == (0.0, 0.0)


def test_a_cut_call_is_asked_for_with_more_and_more_tokens():
    tally = Tally()
    caps = []
    for _ in range(recovery.CAP_RAISES):
        tally.raise_cap(None)
        caps.append(tally.max_tokens)
    assert caps == [8_192, 16_384, 32_768, 32_768]
    tally.raise_cap(100_000)
    assert tally.max_tokens == 100_000


def test_refreshes_are_capped_for_a_key_and_for_a_turn():
    assert (credentials.REFRESHES_PER_KEY, credentials.REFRESHES_PER_TURN) == (2, 4)
