"""What a model answers: texts, calls, answers that are cut or empty."""

from __future__ import annotations

import hermes_nb as hn
from hermes_nb.testing import call, say
from tests.support.scripts import agent, chain, expected, run, tree

# ---------------------------------------------------------------------------------------- answers and tools


def test_a_plain_answer_is_one_iteration():
    result = run(agent(say("522,000")))

    assert result.text == "522,000"
    assert result.exit_reason is hn.ExitReason.COMPLETED
    assert [message.role for message in result.messages] == ["user", "assistant"]
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
        """)


def test_a_tool_round_takes_two_iterations_and_gives_the_model_the_result():
    result = run(agent(call("population", city="Lyon"), say("522,000")))

    assert result.messages[2].text == "522000"
    assert result.messages[2].tool_call_id == result.messages[1].tool_calls[0].id
    assert (result.iterations, result.budget.used, result.tool_calls) == (2, 2, 1)
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool population
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """)


def test_a_tool_that_raises_is_the_models_business_and_no_failure_of_the_turn():
    result = run(agent(call("population", city="Nowhere"), say("I do not know.")))

    assert result.completed
    assert "KeyError" in result.messages[2].text
    assert "execute_tool population ERROR KeyError" in tree(result)
    assert "invoke_agent agent\n" in tree(result)


# ---------------------------------------------------------------------------------------- replies that are cut or empty


def test_an_answer_that_was_cut_is_continued_and_comes_back_whole():
    result = run(agent(say("Hello, ", finish_reason="length"), say("world")))

    assert result.text == "Hello, world"
    assert [message.text for message in result.messages][1:] == ["Hello, world"]
    assert result.iterations == 2


def test_an_answer_that_is_always_cut_ends_as_output_truncated_with_its_text():
    result = run(agent(*[say("x", finish_reason="length")] * 9))

    assert result.exit_reason is hn.ExitReason.OUTPUT_TRUNCATED
    assert result.text == "xxxx"


def test_empty_answers_are_asked_again_then_fall_back_then_fail_by_name():
    saved = run(chain([say("")] * 4, [say("from b")]))
    assert saved.text == "from b"

    lost = run(agent(*[say("")] * 9))
    assert lost.exit_reason is hn.ExitReason.EMPTY_RESPONSE
    assert lost.failed
    assert [message.role for message in lost.messages] == ["user"]


def test_ids_that_a_server_uses_twice_are_made_unique_on_both_sides():
    from hermes_nb.providers.scripted import Say, tool_call

    same = Say(calls=(tool_call("population", {"city": "Lyon"}, "call_0"),))
    result = run(agent(same, same, say("ok")))

    ids = [c.id for message in result.messages for c in message.tool_calls]
    answered = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert len(set(ids)) == 2
    assert ids == answered
