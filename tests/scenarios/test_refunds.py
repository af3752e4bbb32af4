"""Iterations that are given back."""

from __future__ import annotations

import re

import hermes_nb as hn
from hermes_nb.testing import call, fails, say, script
from tests.support.scripts import agent, expected, run, tree


def long_history(rounds: int = 12) -> list[dict]:
    rows = []
    for number in range(rounds):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 40})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 40})
    return rows


def summarising(*steps):
    """A model that answers from the steps, and sums up whenever it is asked to."""
    left = list(steps)
    return lambda request: say("Towns were discussed.") if request.purpose == "compression" else left.pop(0)


def without_summaries(text: str) -> str:
    """The tree without the requests for a summary, of which there may be several, and without numbers."""
    lines = [re.sub(r"(hermes.compression \w+).*", r"\1", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith(" " * 6 + "chat") and " " * 8 + "herm" not in line)


def test_a_compression_at_the_threshold_gives_its_iteration_back():
    models = script(*[summarising(say("522,000"))] * 9, context_window=4_000)
    result = run(hn.Agent(models, budget=3), history=long_history())

    assert result.text == "522,000"
    assert (result.iterations, result.refunds, result.budget.used) == (2, 1, 1)
    assert result.messages[-2].text == "How many people live in Lyon?"
    assert len(result.messages) < 24
    assert "Towns were discussed." in next(m.text for m in result.messages if m.origin == "summary")
    assert (
        without_summaries(tree(result)).strip()
        == expected("""
        invoke_agent agent
          hermes.iteration 1
            hermes.compression preflight
              hermes.refund compression
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """).strip()
    )


def test_a_compression_after_an_overflow_gives_its_iteration_back_too():
    answers = summarising(fails("context_overflow", limit=4_000), say("522,000"))
    result = run(hn.Agent(script(*[answers] * 9), budget=3), history=long_history())

    assert result.text == "522,000"
    assert (result.iterations, result.refunds, result.budget.used) == (2, 1, 1)
    assert (
        without_summaries(tree(result)).strip()
        == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script ERROR 400
              hermes.attempt 1 compress 400
            hermes.compression overflow
              hermes.refund overflow
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """).strip()
    )


def test_a_server_that_always_overflows_ends_the_turn_by_name_with_its_history():
    result = run(hn.Agent(script(*[fails("context_overflow")] * 30), budget=9), history=long_history())

    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert result.compressions <= 3
    assert result.messages[-1].text == "How many people live in Lyon?"


def test_iterations_of_free_tools_are_given_back_up_to_a_limit():
    @hn.tool(free=True)
    def look() -> str:
        """Looks."""
        return "nothing"

    result = run(agent(*[call("look")] * 5, say("done"), tools=[look], budget=3))
    assert result.completed
    assert (result.iterations, result.refunds, result.budget.used) == (6, 5, 1)

    endless = run(agent(*[call("look")] * 20, tools=[look], budget=3, refund=hn.Refund(limit=2)))
    assert endless.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert (endless.iterations, endless.refunds, endless.graces) == (6, 2, 1)
