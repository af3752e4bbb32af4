"""What must hold in every turn, told from its frames alone."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.support.journeys import JOURNEYS, interrupted


@pytest.fixture(scope="module", params=JOURNEYS, ids=lambda journey: journey.__name__)
def result(request):
    return request.param()


@pytest.fixture(scope="module")
def trace(result):
    return result.trace


def test_what_remains_is_the_limit_less_what_was_used(trace):
    budget = trace.budget_df()
    own = budget[budget["turn_id"] == trace.turn_id]

    assert len(own)
    assert (own["remaining"] == own["limit"] - own["used"]).all()


def test_the_changes_of_a_budget_add_up_to_what_is_used(trace):
    turns = trace.turns_df().set_index("turn_id")
    for turn, rows in trace.budget_df().groupby("turn_id"):
        assert -rows["delta"].sum() == rows["used"].iloc[-1] == turns["budget_used"][turn]


def test_a_budget_is_numbered_without_repeats(trace):
    for _, rows in trace.budget_df().groupby("turn_id"):
        assert rows["seq"].is_monotonic_increasing


def test_there_is_at_most_one_grace_call(trace):
    iterations = trace.iterations_df()

    assert iterations.groupby("turn_id")["grace"].sum().max() <= 1
    assert (trace.budget_df()["action"] == "grace_used").sum() <= 1


def test_iterations_less_refunds_and_graces_are_what_was_used(trace):
    turns = trace.turns_df().set_index("turn_id")
    below = turns.groupby("parent_turn_id")["budget_used"].sum().reindex(turns.index, fill_value=0)
    used = turns["iterations"] - turns["refunds"] - turns["grace_used"].astype("Int64") + below

    assert used.tolist() == turns["budget_used"].tolist()


def test_refunds_are_those_of_the_budget(trace):
    refunds, budget = trace.refunds_df(), trace.budget_df()
    given_back = budget[budget["action"] == "refund"]

    assert len(refunds) == len(given_back)
    assert refunds["used_after"].tolist() == given_back["used"].tolist()
    assert (refunds["remaining_after"] - refunds["remaining_before"] == 1).all()
    assert trace.iterations_df()["refunded"].sum() == len(refunds)


def test_the_attempts_of_a_chat_are_numbered_and_only_the_last_may_succeed(trace):
    for _, rows in trace.attempts_df().groupby("chat_span_id"):
        assert rows["attempt"].tolist() == list(range(1, len(rows) + 1))
        assert (rows["outcome"].iloc[:-1] != "success").all()


def test_attempts_lie_inside_their_chat_one_after_the_other(trace):
    chats = trace.chats_df().set_index("chat_span_id")
    attempts = trace.attempts_df()
    around = chats.loc[attempts["chat_span_id"]]

    assert (attempts["start_time"].to_numpy() >= around["start_time"].to_numpy()).all()
    assert (attempts["end_time"].to_numpy() <= around["end_time"].to_numpy()).all()
    for _, rows in attempts.groupby("chat_span_id"):
        assert (rows["start_time"].iloc[1:].to_numpy() >= rows["end_time"].iloc[:-1].to_numpy()).all()


def test_a_chat_has_one_retry_less_than_attempts(trace):
    attempts = trace.attempts_df().groupby("chat_span_id").size()
    retries = trace.retries_df().groupby("chat_span_id").size().reindex(attempts.index, fill_value=0)

    assert (retries == attempts - 1).all()
    assert trace.chats_df().set_index("chat_span_id")["attempts"].loc[attempts.index].tolist() == attempts.tolist()


def test_children_lie_inside_their_parents(trace):
    spans = trace.spans_df().set_index("span_id")
    below = spans[spans["parent_span_id"].isin(spans.index)]
    around = spans.loc[below["parent_span_id"]]

    assert (below["start_time"].to_numpy() >= around["start_time"].to_numpy()).all()
    assert (below["end_time"].to_numpy() <= around["end_time"].to_numpy()).all()
    assert (below["depth"].to_numpy() == around["depth"].to_numpy() + 1).all()


def test_self_time_is_never_negative_and_adds_up_where_nothing_overlaps(trace):
    spans = trace.spans_df()

    assert (spans["self_time"] >= pd.Timedelta(0)).all()
    assert (spans["self_time"] <= spans["duration"]).all()


def test_usage_is_counted_once(trace, result):
    turns, chats = trace.turns_df(), trace.chats_df()

    assert turns["input_tokens"].sum() == chats["input_tokens"].sum()
    assert turns.set_index("turn_id")["output_tokens"].fillna(0)[trace.turn_id] <= result.usage.output_tokens
    assert trace.iterations_df()["input_tokens"].sum() == chats["input_tokens"].sum()


def test_the_turns_own_counts_are_those_of_the_other_frames(trace):
    turns = trace.turns_df().set_index("turn_id")
    frames = {
        "api_attempts": trace.attempts_df(),
        "retries": trace.retries_df(),
        "fallbacks": trace.fallbacks_df(),
        "compressions": trace.compressions_df(),
        "refunds": trace.refunds_df(),
        "iterations": trace.iterations_df(),
    }
    for name, frame in frames.items():
        counted = frame.groupby("turn_id").size().reindex(turns.index, fill_value=0)
        assert counted.tolist() == turns[name].tolist(), name


def test_time_is_shared_out_without_being_used_twice(trace):
    turns = trace.turns_df()
    shares = turns[["model_time", "tool_time", "wait_time", "overhead"]]

    assert (shares >= pd.Timedelta(0)).all().all()
    assert (turns["overhead"] <= turns["duration"]).all()


def test_every_key_joins(trace):
    turns = set(trace.turns_df()["turn_id"])
    passes = set(zip(trace.iterations_df()["turn_id"], trace.iterations_df()["iteration"], strict=True))
    spans = set(trace.spans_df()["span_id"])
    chats = set(trace.chats_df()["chat_span_id"])

    for frame in (trace.chats_df(), trace.attempts_df(), trace.tool_calls_df(), trace.fallbacks_df()):
        assert set(frame["turn_id"]) <= turns
        assert set(zip(frame["turn_id"], frame["iteration"], strict=True)) <= passes
        assert set(frame["span_id"]) <= spans
    assert set(trace.attempts_df()["chat_span_id"]) <= chats
    assert set(trace.tool_calls_df()["chat_span_id"].dropna()) <= chats


def test_an_interrupted_turn_says_so_and_is_no_failure():
    trace = interrupted().trace

    turn = trace.turns_df().iloc[0]
    assert turn["exit_reason"] == "interrupted_by_user"
    assert turn["interrupted"]
    assert not turn["failed"]
    assert (trace.spans_df()["status"] == "UNSET").all()
    assert trace.attempts_df()["outcome"].tolist() == ["cancelled"]
