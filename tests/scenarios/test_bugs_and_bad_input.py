"""Bugs of the library or of what a user gave it, and input that cannot work."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import fails, say, script
from tests.support.scripts import agent, population


def test_a_bug_in_a_policy_ends_the_turn_with_a_complete_record_and_is_raised():
    class Broken(hn.Retry):
        def allows(self, *_, **__):
            raise ZeroDivisionError("in the policy")

    run = agent(fails("overloaded"), retry=Broken()).start("q", session=False)
    with pytest.raises(ZeroDivisionError) as caught:
        run.result()

    assert run.turn_id in str(caught.value.__notes__)
    turns = run.trace.turns_df()
    assert turns.exit_reason.tolist() == ["internal_error"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: hn.Agent([]), "at least one model"),
        (lambda: hn.Agent(script(), budget=-1), "-1"),
        (lambda: agent(say("x")).run("  ", session=False), "not blank"),
        (lambda: agent(say("x")).with_(bugdet=3), "bugdet"),
        (lambda: agent(say("x")).run("q", history=[{"role": "robot"}], session=False), "robot"),
        (lambda: hn.Agent(script(), tools=[population, population]), "population"),
        (lambda: agent(say("x")).run("q", history=["hi"], session=False), "'hi' is neither"),
        (lambda: hn.tool(3), "made of a function, not 3"),
        (lambda: hn.load(3), "not 3"),
        (lambda: fails("nonsense"), "nonsense"),
    ],
)
def test_bad_input_is_named_at_once(build, words):
    with pytest.raises((hn.HermesError, ValueError), match=words):
        build()


def test_the_dictionary_of_the_hermes_documents():
    pieces = []
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    before = [dict(row) for row in history]
    answer = agent(say("522,000 people")).run_conversation("q", "Be brief.", history, "task-1", pieces.append)

    assert history == before
    assert answer["final_response"] == "522,000 people"
    assert (answer["completed"], answer["failed"], answer["api_calls"]) == (True, False, 1)
    assert answer["turn_exit_reason"] == "completed"
    assert [row["role"] for row in answer["messages"]] == ["user", "assistant", "user", "assistant"]
    assert "".join(pieces) == "522,000 people"
