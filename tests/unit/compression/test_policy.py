"""When the history is made smaller, and which of it stays."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.policies.compression import INEFFECTIVE, Compression, CompressionState
from hermes_nb.policies.tokens import TokenMeter
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import Message
from tests.support.histories import assistant, fault_in_pairs, histories, round_of, steer, tool_loop, user

LATER = 1e9


def plan(history, *, goal=10_000.0, tail=2_000.0, summary=500, policy=None):
    return (policy or Compression()).plan(history, TokenMeter(), goal=goal, tail=tail, summary=summary)


# --------------------------------------------------------------------------------------------- when


@pytest.mark.parametrize(
    ("window", "threshold"),
    [(64_000, 54_400), (80_000, 64_000), (128_000, 96_000), (200_000, 150_000), (1_000_000, 750_000)],
)
def test_the_threshold_of_a_window(window, threshold):
    assert Compression().tokens(window) == threshold


@pytest.mark.parametrize(("window", "threshold"), [(4_096, 3_072), (8_192, 6_144), (32_768, 24_576), (63_999, 47_999)])
def test_small_windows_are_allowed_and_keep_their_share(window, threshold):
    assert Compression().tokens(window) == threshold


def test_the_minimum_can_be_moved():
    assert Compression(minimum=0).tokens(64_000) == 48_000
    assert Compression(minimum=100_000).tokens(120_000) == 100_000


def test_reserved_output_is_no_room_for_the_prompt():
    assert Compression().tokens(200_000, 50_000) == 112_500
    assert Compression().tokens(200_000, 200_000) == 150_000  # a reservation that cannot be meant


def test_an_unknown_window_has_no_threshold():
    assert Compression().tokens(None) == math.inf
    assert not Compression().due(CompressionState(), 10**9, math.inf, now=LATER)


def test_a_configured_window_wins_over_the_providers_and_a_stated_one_over_both_if_it_is_lower():
    policy, state = Compression(context_window=50_000), CompressionState()
    assert policy.window(state, 128_000) == 50_000
    assert Compression().window(state, 128_000) == 128_000
    state.learn_window(40_000, 50_000)
    assert policy.window(state, 128_000) == 40_000


@pytest.mark.parametrize("stated", [None, 0, 255, 200_000, 300_000])
def test_only_a_lower_number_that_a_server_stated_moves_the_window(stated):
    state = CompressionState()
    state.learn_window(stated, 200_000)
    assert Compression().window(state, 200_000) == 200_000


def test_a_server_that_confirms_its_window_takes_nothing_away_from_what_another_one_stated():
    state = CompressionState()
    state.learn_window(4_000, 8_000, place=0)
    state.learn_window(8_000, 8_000, place=1)
    assert Compression().window(state, 8_000, place=0) == 4_000
    assert Compression().window(state, 8_000, place=1) == 8_000


def test_the_smallest_window_that_is_believed():
    state = CompressionState()
    state.learn_window(256, 200_000)
    assert Compression().window(state, 200_000) == 256
    assert Compression(context_window=256).context_window == 256


def test_it_is_due_at_the_threshold_and_not_before():
    policy, state = Compression(), CompressionState()
    assert not policy.due(state, 999, 1_000, now=LATER)
    assert policy.due(state, 1_000, 1_000, now=LATER)
    assert not Compression(enabled=False).due(state, 1_000, 1_000, now=LATER)


def test_real_usage_outranks_the_estimate_in_both_directions():
    policy, low, high = Compression(), CompressionState(), CompressionState()
    low.observe(500, 1_000, 5_000)
    high.observe(2_000, 1_000, 5_000)
    assert not policy.due(low, 6_000, 5_000, now=LATER)
    assert policy.due(high, 3_000, 5_000, now=LATER)
    assert policy.size(high, 3_000) == 6_000


def test_a_server_that_counts_nonsense_does_not_switch_compression_off():
    policy, state = Compression(), CompressionState()
    state.observe(10, 50_000, 54_400)
    assert not policy.due(state, 163_000, 54_400, now=LATER)
    assert policy.due(state, 164_000, 54_400, now=LATER)
    state.observe(10**9, 50_000, 54_400)
    assert not policy.due(state, 18_000, 54_400, now=LATER)
    assert policy.due(state, 18_200, 54_400, now=LATER)


def test_after_a_compression_the_next_waits_for_a_real_count():
    policy, state = Compression(), CompressionState()
    state.record(progress=True)
    assert not policy.due(state, 5_000, 1_000, now=LATER)
    state.observe(None, 5_000, 1_000)
    assert policy.due(state, 5_000, 1_000, now=LATER)


def test_a_turn_has_its_passes_and_the_next_has_them_anew():
    policy, state = Compression(passes=2), CompressionState()
    for _ in range(2):
        assert policy.due(state, 5_000, 1_000, now=LATER)
        assert policy.may_after_overflow(state)
        state.record(progress=True)
        state.observe(500, 500, 1_000)
    assert not policy.due(state, 5_000, 1_000, now=LATER)
    assert not policy.may_after_overflow(state)
    state.begin_turn()
    assert policy.due(state, 5_000, 1_000, now=LATER)


def test_compressions_that_do_not_help_stop_by_themselves_over_all_turns():
    policy, state, made = Compression(), CompressionState(), 0
    for _ in range(7):  # the real prompt stays above the threshold, whatever is done
        state.begin_turn()
        if policy.due(state, 5_000, 1_000, now=LATER):
            made += 1
            state.record(progress=True)
        state.observe(1_000, 1_000, 1_000)
    assert made == INEFFECTIVE == 2
    state.observe(999, 999, 1_000)
    assert policy.due(state, 5_000, 1_000, now=LATER)


def test_compressions_without_progress_stop_by_themselves_too():
    policy, state = Compression(), CompressionState()
    for _ in range(2):
        state.record(progress=False)
        state.begin_turn()
    assert not policy.due(state, 5_000, 1_000, now=LATER)
    assert policy.may_after_overflow(state)  # a server's refusal is answered all the same


def test_no_summary_is_asked_for_while_a_failed_one_cools_down():
    policy, state = Compression(), CompressionState(quiet_until=100.0)
    assert not policy.due(state, 5_000, 1_000, now=99.0)
    assert policy.due(state, 5_000, 1_000, now=100.0)


def test_progress_is_five_per_cent_of_the_tokens():
    assert Compression().progress(1_000, 950)
    assert not Compression().progress(1_000, 951)
    assert not Compression().progress(1_000, 1_200)


def test_each_pass_after_an_overflow_aims_lower():
    policy, state, goals = Compression(), CompressionState(), []
    for _ in range(3):
        goals.append(policy.goal(state, 100_000, math.inf, overflow=True))
        state.record(progress=False)
    assert goals == [60_000, 36_000, 21_600]


def test_the_goal_lies_below_the_threshold_and_below_what_there_is():
    policy, state = Compression(), CompressionState()
    assert policy.goal(state, 60_000, 50_000) == 40_000
    assert policy.goal(state, 10_000, 50_000) == 10_000
    assert policy.goal(state, 10_000, 5_000, overflow=True) == 4_000
    state.ratio = 2.0  # the server counts twice as many
    assert policy.goal(state, 60_000, 50_000) == 20_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0},
        {"threshold": 1},
        {"tail_share": 1.5},
        {"passes": -1},
        {"protect_first": -1},
        {"context_window": 10},
        {"compressor": "short"},
        {"cooldown": -1},
    ],
)
def test_settings_that_cannot_work_are_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Compression(**wrong)


# --------------------------------------------------------------------------------------------- what


def chat(number: int, size: int = 4_000) -> list[Message]:
    history = []
    for n in range(number // 2):
        history += [user(f"question {n} " + "x" * size), assistant(f"answer {n} " + "y" * size)]
    return history


def test_the_first_messages_and_the_last_stay_with_the_live_question_at_the_end():
    history = [*chat(60), user("the live question")]
    made = plan(history, goal=40_000, tail=10_880, summary=5_440)
    assert made.head == tuple(history[:3])
    assert made.tail[-1] == user("the live question")
    assert 8 <= len(made.tail) <= 20
    assert (*made.head, *made.middle, *made.tail) == tuple(history)
    assert made.words == ()


def test_a_second_compression_protects_no_head_and_takes_the_summary_up():
    summary = Message("user", "so far", origin="summary")
    history = [*chat(4), summary, *chat(40)]
    made = plan(history, goal=20_000)
    assert (made.head, made.previous) == ((), summary)
    assert summary not in made.middle
    assert made.around(Message("user", "new", origin="summary"))[0].text == "new"


def test_in_a_long_tool_loop_the_prompt_comes_after_the_summary_and_nothing_else_of_the_user():
    history = tool_loop(80, 2_000)
    made = plan(history)
    assert made.head == ()
    assert made.words == (history[0],)
    rows = made.around(Message("user", "summary", origin="summary"))
    assert [row.text for row in rows if row.role == "user"] == ["summary", "Find the answer."]
    assert rows[2].role == "assistant"


def test_steers_after_the_prompt_stay_word_for_word():
    history = [*tool_loop(5, 3_000), steer("only the north"), *tool_loop(60, 3_000)[1:]]
    made = plan(history)
    assert [word.text for word in made.words] == ["Find the answer.", "only the north"]


def test_a_prompt_in_the_tail_is_not_said_twice():
    history = [*tool_loop(40, 3_000), assistant("done"), user("and now?")]
    made = plan(history)
    assert made.words == ()
    assert made.tail[-1] == user("and now?")


@pytest.mark.parametrize(("size", "kept"), [(400, 20), (900, 20), (4_000, 9), (9_000, 3)])
def test_the_last_messages_stay_as_long_as_they_fill_half_of_the_room(size, kept):
    history = [m for n in range(40) for m in (user(f"{n} " + "x y " * (size // 4)), assistant("a b " * (size // 4)))]
    made, meter = plan(history, goal=15_000, tail=50.0, summary=500), TokenMeter()
    room = 15_000 - 500 - meter.message(history[-2]) - meter.messages(made.head)
    assert len(made.tail) == kept
    assert meter.messages(made.tail) <= room / 2
    assert kept == 20 or meter.messages(history[-kept - 1 :]) > room / 2


def test_the_tails_share_is_filled_and_half_as_much_again():
    history = [m for n in range(80) for m in (user(f"{n} " + "x y " * 60), assistant("a b " * 60))]
    policy, meter = Compression(protect_last=0), TokenMeter()
    made = plan(history, goal=60_000, tail=2_000.0, policy=policy)
    assert 2_800 < meter.messages(made.tail) <= 3_000


def test_a_message_that_just_fits_belongs_to_the_tail():
    history, meter = chat(80), TokenMeter()
    last_ten = float(meter.messages(history[-10:]))
    made = plan(history, goal=60_000, tail=last_ten / 1.5, policy=Compression(protect_last=0))
    assert made.tail == tuple(history[-10:])


def test_five_calls_and_their_results_are_kept_or_summed_up_together():
    last = round_of(*[f"result {n} " + "x" * 2_000 for n in range(5)])
    history = [*tool_loop(20, 2_000), *last]
    made = plan(history, policy=Compression(protect_last=3), tail=500.0)
    assert made.tail[-6:] == tuple(last)
    assert not fault_in_pairs(made.around(user("s")))
    assert not fault_in_pairs(made.middle)


def test_the_head_does_not_end_with_results_that_nobody_answered():
    history = [user("one"), *round_of("r"), assistant("a"), *chat(60)]
    assert [message.role for message in plan(history).head] == ["user"]


def test_recent_bulk_is_shortened_when_it_would_not_fit():
    history = tool_loop(12, 28_000)
    made = plan(history, goal=6_000)
    assert TokenMeter().messages(made.tail) <= 6_000
    assert made.tail[-1].text.startswith("line 11")
    assert made.tail[-1].text != history[-1].text


def test_a_history_that_is_all_tail_is_returned_in_its_order_with_only_the_bulk_cut():
    summary = Message("user", "so far", origin="summary")
    history = [*chat(2, 10), summary, user("q"), *round_of("x" * 90_000, "short")]
    made = plan(history, goal=5_000)
    rows = made.in_place(history)
    assert [row.role for row in rows] == [row.role for row in history]
    assert rows[:5] == tuple(history[:5])
    assert len(rows[5].text) < 25_000
    assert rows[6] == history[6]


def test_deeper_goals_keep_less():
    history = tool_loop(60, 2_000)
    kept = [len(plan(history, goal=goal, tail=40_000.0).tail) for goal in (20_000, 10_000, 5_000)]
    assert kept[0] > kept[1] > kept[2] >= 2


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(0, 6_000), st.floats(0, 3_000), st.integers(0, 5), st.integers(0, 12))
def test_a_plan_loses_nothing_splits_nothing_and_ends_as_it_should(history, goal, tail, first, last):
    policy, meter = Compression(protect_first=first, protect_last=last), TokenMeter()
    made = policy.plan(history, meter, goal=goal, tail=tail, summary=100)
    previous = [made.previous] if made.previous else []
    assert len(made.head) + len(made.middle) + len(made.tail) + len(previous) == len(history)
    rest = [message for message in history if message is not made.previous]
    assert [*made.head, *made.middle] == rest[: len(made.head) + len(made.middle)]
    summary = Message("user", "the summary", origin="summary")
    rows = made.around(summary)
    for part in (rows, made.in_place(history), made.head, made.middle, made.tail):
        assert not fault_in_pairs(part)
    assert rows[0].role == "user"
    assert sum(row.origin == "summary" for row in rows) == 1
    prompts = [[m for m in part if m.role == "user" and not m.origin] for part in (rows, history)]
    assert prompts[0][-1] is prompts[1][-1]
    assert made.tail
    position = rows.index(summary)
    assert not any(m.role == "user" and not m.origin for m in rows[:position]) or made.head
    steers = [m.text for m in history[history.index(prompts[1][-1]) :] if m.origin == "steer"]
    assert [m.text for m in rows if m.text in steers] == steers
