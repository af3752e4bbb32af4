"""The budget, its grace call, ceilings and notices."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from tests.support.scripts import agent, expected, population, run, tree

# ---------------------------------------------------------------------------------------- budget and grace


def test_the_grace_call_comes_once_without_tools_after_the_budget_is_gone():
    offered = []

    def look(request):
        offered.append(request.tool_choice)
        return call("population", city="Lyon") if len(offered) < 3 else say("about half a million")

    result = run(hn.Agent(script(look, look, look), tools=[population], budget=2))

    assert offered == ["auto", "auto", "none"]
    assert result.text == "about half a million"
    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert (result.budget.used, result.graces, result.iterations) == (2, 1, 3)
    assert not result.failed
    assert tree(result).count("hermes.grace_call") == 1


def test_calls_in_the_grace_call_are_not_run_and_a_summary_is_asked_for():
    result = run(
        agent(call("population", city="Lyon"), call("population", city="Lille"), say("So far: Lyon."), budget=1)
    )

    assert result.text == "So far: Lyon."
    assert result.tool_calls == 1
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert tree(result) == expected("""
        invoke_agent agent budget_exhausted
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool population
          hermes.grace_call
            chat script
              hermes.attempt 1 success
            chat script
              hermes.attempt 1 success
        """)


def test_if_no_text_comes_at_all_a_plain_sentence_says_so():
    wants = call("population", city="Lyon")
    result = run(agent(wants, wants, wants, budget=1))

    assert result.text == "There is no answer: the budget of 1 iteration is used up."
    assert result.messages[-1].origin == "closing"


def test_a_budget_of_zero_still_has_its_grace_call():
    result = run(agent(say("a guess"), budget=0))

    assert result.text == "a guess"
    assert (result.budget.used, result.graces) == (0, 1)
    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED


def test_an_answer_on_the_last_iteration_is_a_success():
    result = run(agent(call("population", city="Lyon"), say("522,000"), budget=2))

    assert result.completed
    assert result.budget.remaining == 0


def test_a_budget_given_by_the_user_is_the_one_that_is_used():
    budget = hn.IterationBudget(3)
    result = run(agent(call("population", city="Lyon"), say("522,000"), budget=budget))

    assert result.completed
    assert budget.view().used == 2


def test_two_turns_in_two_threads_never_spend_more_than_their_shared_budget():
    budget = hn.IterationBudget(5)
    wants = [call("population", city="Lyon")] * 9
    runs = [agent(*wants, budget=budget).start("q", session=False) for _ in range(2)]
    results = [one.result() for one in runs]

    assert budget.view().used == 5
    assert sum(result.iterations - result.graces for result in results) == 5
    assert [result.graces for result in results] == [1, 1]


# ---------------------------------------------------------------------------------------- ceilings and notices


def test_a_ceiling_on_tokens_lands_softly():
    wants = call("population", city="Lyon")
    result = run(agent(wants, wants, say("so far: Lyon"), ceiling=hn.Ceiling(tokens=150), budget=50))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.text == "so far: Lyon"
    assert "tokens used" in result.detail
    assert result.graces == 1


def test_a_ceiling_on_money_uses_the_price_function_and_a_broken_one_does_not_break_the_turn():
    wants = call("population", city="Lyon")
    dear = hn.Ceiling(cost_usd=1.0, price=lambda provider, model, usage: 0.6)
    result = run(agent(wants, wants, say("done"), ceiling=dear))
    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.cost_usd == pytest.approx(1.8)

    broken = hn.Ceiling(cost_usd=1.0, price=lambda *_: 1 / 0)
    assert run(agent(say("done"), ceiling=broken)).completed


def test_the_list_prices_of_known_models():
    pytest.importorskip("genai_prices")
    from hermes_nb import price

    assert price("openai", "gpt-4o", hn.Usage(1_000_000, 0)) == pytest.approx(2.5, rel=0.9)
    assert price("openai", "no-such-model", hn.Usage(1, 1)) is None


def test_a_budget_notice_is_told_once_at_the_end_of_a_request_and_is_not_kept():
    seen = []

    def look(request):
        seen.append(request.messages[-1].text)
        return call("population", city="Lyon") if len(seen) < 4 else say("done")

    notice = hn.BudgetNotice(share=0.5, text="[{remaining} left]")
    result = run(agent(look, look, look, look, budget=4, budget_notice=notice))

    assert [text.endswith("left]") for text in seen] == [False, True, False, False]
    assert seen[1].endswith("[2 left]")
    assert not any("left]" in message.text for message in result.messages)
