"""From fields to attributes, whatever people and servers put into the fields."""

from __future__ import annotations

import json
import math

import pytest

import hermes_nb as hn
from hermes_nb.telemetry import mapping
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, Usage
from tests.support.receiver import attributes, receiver
from tests.support.telling import told


def started(what, **fields):
    return mapping.start_attributes(_event("started", what, **fields))


def ended(what, **fields):
    return mapping.end_attributes(_event("ended", what, **fields), openinference=False)


def _event(phase, what, **fields):
    given = {"seq": 1, "at": 1, "turn_id": "t", "conversation_id": "c", "iteration": 2, "scope": 3, "parent": 1}
    return events.Event(phase=phase, what=what, **(given | fields))


def test_request_parameters_have_the_conventions_names():
    chat = events.Chat("openai", "m", parameters={"temperature": 1, "max_completion_tokens": 9, "stop": "END", "n": 1})

    out = started(chat)

    assert out["gen_ai.request.temperature"] == 1.0
    assert out["gen_ai.request.max_tokens"] == 9
    assert out["gen_ai.request.stop_sequences"] == ("END",)
    assert "gen_ai.request.choice.count" not in out
    assert "hermes.chat.parameters" not in out


def test_parameters_without_a_name_or_a_sensible_value_are_kept_as_json():
    given = {
        "temperature": "hot", "seed": 2**70, "top_p": math.nan, "logit_bias": {"5": 1}, "max_tokens": None,
        "api_key": "abc", "extra_headers": {"authorization": "abc"},
    }  # fmt: skip

    out = started(events.Chat("openai", "m", parameters=given))

    assert json.loads(out["hermes.chat.parameters"]) == {
        "temperature": "hot", "seed": str(2**70), "top_p": "nan", "logit_bias": {"5": 1},
        "extra_headers": {"authorization": "[redacted]"},
    }  # fmt: skip
    assert not [key for key in out if key.startswith("gen_ai.request.") and key != "gen_ai.request.model"]


@pytest.mark.parametrize(("given", "shown"), [("json_object", "json"), ("text", "text")])
def test_the_form_of_output_is_told(given, shown):
    assert (
        started(events.Chat("p", "m", parameters={"response_format": {"type": given}}))["gen_ai.output.type"] == shown
    )


def test_numbers_that_are_none_are_left_out():
    turn = events.Turn("a", "p", "m", "q", exit_reason="completed", cost_usd=math.nan)

    assert "hermes.turn.cost_usd" not in ended(turn)
    assert ended(events.Attempt(1, 3, "p", "m", retry_after=math.inf)).keys().isdisjoint({"hermes.attempt.retry_after"})


def test_what_is_unknown_is_left_out_and_zero_is_not():
    attempt = started(events.Attempt(1, 3, "p", "m"))
    chat = ended(events.Chat("p", "m", reply=Reply(Message("assistant"), usage=Usage())))

    assert attempt["hermes.attempt.backoff"] == 0.0
    assert "server.address" not in attempt
    assert "http.request.method" not in attempt
    assert chat["gen_ai.usage.input_tokens"] == 0
    assert "gen_ai.usage.cache_read.input_tokens" not in chat


def test_a_second_attempt_says_that_it_is_one():
    assert started(events.Attempt(2, 3, "p", "m", server_address="h"))["http.request.resend_count"] == 1


def test_a_refund_shows_the_budget_before_and_after():
    refund = events.Refund("compression", 4, 3, 1)
    before = started(refund)
    refund.used_after, refund.remaining_after = 2, 2
    after = ended(refund)

    assert (before["hermes.budget.used"], after["hermes.budget.used"]) == (3, 2)
    assert (before["hermes.refund.remaining.before"], after["hermes.refund.remaining.after"]) == (1, 2)


@pytest.mark.parametrize(
    ("what", "key", "value"),
    [
        (events.Iteration(1), "hermes.iteration.outcome", "interrupted"),
        (events.Attempt(1, 3, "p", "m"), "hermes.attempt.outcome", "cancelled"),
        (events.Retry(1, "timeout", 1.0), "hermes.retry.outcome", "interrupted"),
        (events.Tool("t", "c", "{}"), "hermes.tool.cancelled", True),
    ],
)
def test_a_scope_left_by_an_interrupt_says_so(what, key, value):
    assert ended(what, interrupted=True)[key] == value
    assert key not in ended(what)


def test_what_an_interrupt_left_with_an_outcome_keeps_it():
    iteration = events.Iteration(1, outcome="final_response")

    assert ended(iteration, interrupted=True)["hermes.iteration.outcome"] == "final_response"


def test_a_turn_inside_of_an_iteration_is_not_part_of_it():
    assert "hermes.iteration.number" not in started(events.Turn("a", "p", "m", "q"))
    assert started(events.Iteration(2))["hermes.iteration.number"] == 2


def test_absurd_counts_of_a_server_do_not_lose_the_spans_around_them(tmp_path):
    with receiver() as server, hn.capture(tmp_path / "t.jsonl", otlp=server.url) as capture:
        with told() as turn, turn.iteration(), turn.recorder.scope(events.Chat("openai", "gpt-x")) as chat:
            chat.reply = Reply(Message("assistant"), usage=Usage(2**70, 5))
        capture.flush()

        assert capture.failures == 0
        (shown,) = (attributes(span) for span in server.spans if span.name == "chat gpt-x")
        assert shown["gen_ai.usage.input_tokens"] == 2**63 - 1
