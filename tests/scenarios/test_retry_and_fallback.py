"""A provider that fails is asked again, then the next one of the chain is."""

from __future__ import annotations

import time

import pytest

import hermes_nb as hn
from hermes_nb.testing import fails, say
from tests.support.scripts import agent, chain, expected, run, tree


def test_a_failing_server_is_asked_again_within_the_same_iteration():
    result = run(agent(fails("overloaded", times=2), say("522,000")))

    assert result.completed
    assert (result.budget.used, result.retries) == (1, 2)
    assert [row.wait.total_seconds() for row in result.trace.retries_df().itertuples()] == pytest.approx(
        [2.5, 5], rel=0.2
    )
    assert [line.strip() for line in tree(result).splitlines()[4:9]] == [
        "hermes.attempt 1 retry 503",
        "hermes.retry backoff",
        "hermes.attempt 2 retry 503",
        "hermes.retry backoff",
        "hermes.attempt 3 success",
    ]


def test_a_retry_waits_as_long_as_the_server_asked():
    began = time.monotonic()
    result = agent(fails("rate_limit", retry_after=0.3), say("ok")).run("q", session=False)

    assert result.completed
    assert time.monotonic() - began >= 0.3
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 retry 429
              hermes.retry wait=0.3s retry_after
              hermes.attempt 2 success
        """)


def test_a_provider_that_is_used_up_is_followed_by_the_next_one_with_its_own_attempts():
    result = run(chain([fails("server_error", times=3)], [fails("server_error", times=2), say("from b")]))

    assert result.text == "from b"
    assert (result.provider, result.fallbacks, result.budget.used) == ("b", 1, 1)
    text = tree(result)
    assert text.count("hermes.attempt") == 6
    assert "    hermes.fallback a:m -> b:m" in text
    assert text.index("chat m ERROR 500") < text.index("hermes.fallback") < text.rindex("chat m\n")


def test_the_fallback_model_is_told_who_it_is():
    seen = []

    def look(request):
        seen.append(request.messages[0].text)
        return say("ok")

    run(chain([fails("model_not_found")], [look]))

    assert "Provider: b" in seen[0]
    assert "Provider: a" not in seen[0]


def test_every_turn_starts_with_the_first_provider_again():
    both = chain([fails("server_error", times=3), say("from a")], [say("from b")])

    assert run(both).text == "from b"
    assert run(both).text == "from a"


def test_when_the_whole_chain_fails_the_turn_is_a_structured_failure():
    result = run(chain([fails("auth")], [fails("bad_request", message="no such field")]))

    assert result.exit_reason is hn.ExitReason.PROVIDER_FAILED
    assert result.failure.status == 400
    assert "no such field" in result.text
    assert [message.role for message in result.messages] == ["user"]
    with pytest.raises(hn.TurnFailed, match="no such field"):
        result.raise_for_failure()
    assert tree(result) == expected("""
        invoke_agent agent provider_failed ERROR 400
          hermes.iteration 1 ERROR 400
            chat m ERROR 401
              hermes.attempt 1 fallback 401
            hermes.fallback a:m -> b:m
            chat m ERROR 400
              hermes.attempt 1 give_up 400
            hermes.fallback b:m -> none_left ERROR 400
        """)
