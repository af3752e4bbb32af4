"""Going round in circles: warned, then stopped."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.policies.guardrails import Guardrails, GuardrailState
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import ToolCall, ToolResult


def result(name="search", arguments='{"q": 1}', status="ok", content="found", error_type=""):
    error_type = error_type or ("ValueError" if status == "error" else "")
    return ToolResult(ToolCall("id", name, arguments), content, status, error_type)


def judge(*results, guardrails=None, state=None):
    rails, state = guardrails or Guardrails(), state or GuardrailState()
    return [rails.judge(state, item) for item in results]


def warned(verdicts):
    return [bool(verdict.warning) for verdict in verdicts]


def test_the_same_failing_call_is_warned_of_at_the_second_and_stopped_at_the_fifth_time():
    verdicts = judge(*[result(status="error")] * 5)
    assert warned(verdicts) == [False, True, True, True, False]
    assert [bool(verdict.halt) for verdict in verdicts] == [False] * 4 + [True]
    assert verdicts[1].warning == (
        "[search failed with the same arguments 2 times. Do not repeat it: try another way, or answer.]"
    )
    assert verdicts[-1].halt == "search failed with the same arguments 5 times"


def test_the_same_call_written_differently_is_the_same_call():
    verdicts = judge(
        result(arguments='{"a": 1, "b": 2}', status="error"), result(arguments='{"b":2,"a":1}', status="error")
    )
    assert warned(verdicts) == [False, True]


def test_one_tool_that_fails_with_ever_other_arguments_is_warned_of_at_the_third_and_stopped_at_the_eighth_time():
    verdicts = judge(*[result(arguments=f'{{"q": {n}}}', status="error") for n in range(8)])
    assert warned(verdicts) == [False, False, True, True, True, True, True, False]
    assert verdicts[-1].halt == "search failed 8 times"


def test_a_success_clears_the_failures_of_its_call_and_its_tool():
    bad, good = result(status="error"), result()
    assert not any(warned(judge(bad, good, bad, good, bad)))
    other = result(name="other", status="error")
    assert warned(judge(other, other, good, other)) == [False, True, False, True]


def test_the_same_result_of_the_same_call_is_warned_of_from_the_second_time_on_and_never_stopped():
    verdicts = judge(*[result()] * 20)
    assert warned(verdicts) == [False] + [True] * 19
    assert not any(verdict.halt for verdict in verdicts)


def test_repeats_are_stopped_where_that_is_asked_for():
    verdicts = judge(*[result()] * 5, guardrails=Guardrails(repeats=(2, 5)))
    assert warned(verdicts) == [False, True, True, True, False]
    assert verdicts[-1].halt == "search gave the same result for the same arguments 5 times"


def test_waiting_for_something_is_not_a_circle():
    polls = [item for _ in range(9) for item in (result(name="status"), result(name="sleep"))]
    assert not any(warned(judge(*polls)))
    assert not any(warned(judge(*[result(content=str(n)) for n in range(9)])))


def test_text_that_speaks_of_errors_is_no_failure():
    verdicts = judge(*[result(arguments=str(n), content='{"error": "failed"}') for n in range(9)])
    assert not any(warned(verdicts))


def test_time_outs_are_failures_but_interrupts_are_not():
    assert warned(judge(*[result(status="timeout", error_type="timeout")] * 2)) == [False, True]
    assert not any(warned(judge(*[result(status="cancelled"), result(status="skipped")] * 5)))


def test_three_replies_of_only_invalid_calls_end_the_turn():
    rails, state = Guardrails(same_call=(math.inf, math.inf), same_tool=(math.inf, math.inf)), GuardrailState()
    unknown = result(name="nope", status="error", error_type="unknown_tool")
    broken = result(status="error", error_type="invalid_arguments")
    for number in range(1, 4):
        state.begin_batch(2)
        first, second = judge(unknown, broken, guardrails=rails, state=state)
        assert not first.halt
        assert bool(second.halt) == (number == 3)
    assert second.invalid
    assert second.halt == "3 replies in a row held only invalid calls"


def test_a_reply_with_one_valid_call_counts_anew():
    rails, state = Guardrails(), GuardrailState()
    unknown = result(name="nope", status="error", error_type="unknown_tool")
    for n in range(4):
        state.begin_batch(2)
        judge(
            unknown,
            result(arguments=str(n)),
            guardrails=Guardrails(same_tool=(99, 99), same_call=(99, 99)),
            state=state,
        )
        assert state.invalid_batches == 0
    state.begin_batch(1)
    assert not judge(unknown, guardrails=rails, state=state)[0].invalid


def test_bounds_can_be_moved_and_taken_away():
    never = (math.inf, math.inf)
    rails = Guardrails(same_call=never, same_tool=never, repeats=never, invalid_batches=math.inf)
    bad = result(status="error", error_type="unknown_tool")
    verdicts = judge(*[bad] * 50, *[result()] * 50, guardrails=rails)
    assert not any(verdict.warning or verdict.halt for verdict in verdicts)
    assert judge(bad, guardrails=Guardrails(invalid_batches=1))[0].invalid


@pytest.mark.parametrize(
    "bounds", [{"same_call": (0, 1)}, {"same_tool": (1, 0)}, {"repeats": (2, -1)}, {"invalid_batches": 0}]
)
def test_bounds_below_one_are_refused(bounds):
    with pytest.raises(ConfigurationError, match=next(iter(bounds))):
        Guardrails(**bounds)


@given(st.lists(st.sampled_from(["ok", "error", "timeout", "cancelled", "skipped"]), max_size=30))
def test_a_stop_never_comes_without_a_warning_before_it(statuses):
    verdicts = judge(*[result(status=status) for status in statuses])
    for number, verdict in enumerate(verdicts):
        if verdict.halt:
            assert any(warned(verdicts[:number]))
            break
