"""Turns that follow each other."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import fails, say
from tests.support.scripts import agent


def test_a_reply_goes_on_with_the_conversation_and_sends_the_same_beginning():
    seen = []

    def look(request):
        seen.append(request.messages)
        return say(f"answer {len(seen)}")

    first = agent(look, look).start("Lyon?", session=False)
    first.result()
    second = first.reply("And Lille?")
    result = second.result()

    assert [message.text for message in result.messages] == ["Lyon?", "answer 1", "And Lille?", "answer 2"]
    assert seen[1][: len(seen[0])] == seen[0]
    assert second.conversation_id == first.conversation_id
    assert (second.request.number, second.request.previous_turn_id) == (2, first.turn_id)


def test_a_failed_turns_question_is_not_put_to_the_model_again():
    seen = []

    def look(request):
        seen.append([message.text for message in request.messages][1:])
        return say("ok")

    first = agent(fails("auth"), look).start("Lyon?", session=False)
    assert first.result().failed
    first.reply("And Lille?").result()

    assert seen == [["And Lille?"]]


def test_a_reply_to_a_turn_that_is_not_over_is_refused():
    run = agent(say("late", seconds=5)).start("q", session=False)
    with pytest.raises(hn.RunInProgress):
        run.reply("And?")
    run.interrupt()
