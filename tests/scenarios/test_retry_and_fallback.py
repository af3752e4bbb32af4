"""A provider that fails is asked again, then the next one of the chain is."""

from __future__ import annotations

import time

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, fails, say, script
from tests.support.scripts import agent, chain, expected, population, run, tree
from tests.support.server import Server, always, status
from tests.support.server import call as called
from tests.support.server import say as said


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


# ---------------------------------------------------------------------------------------- too long


def full(window: int | None = None, code: int = 400) -> object:
    """A server's answer to a request that is too long."""
    number = "" if window is None else f" {window} tokens"
    return always(status(code, {"error": {"message": f"This model's maximum context length is{number} exceeded."}}))


def windows(*servers: Server, sizes: tuple[int | None, ...], **settings) -> hn.Agent:
    models = [
        hn.OpenAIChat(f"m{number}", base_url=server.url, api_key="sk-full-0001", context_window=size)
        for number, (server, size) in enumerate(zip(servers, sizes, strict=True))
    ]
    return hn.Agent(models, **({"tools": [population]} | settings))


@pytest.mark.parametrize("sizes", [(8_000, 128_000), (None, None), (8_000, None), (None, 8_000)])
@pytest.mark.parametrize("settings", [{}, {"compression": None}], ids=["", "without compression"])
def test_a_provider_with_a_larger_window_is_asked_when_nothing_can_be_made_smaller(sizes, settings):
    with Server(full()) as small, Server(said("522,000")) as large:
        result = run(windows(small, large, sizes=sizes, **settings))

    assert result.text == "522,000"
    assert (result.fallbacks, result.budget.used, len(small.requests)) == (1, 1, 1)
    told = result.trace.fallbacks_df().iloc[0]
    assert (told.reason, told.outcome, told.to_model) == ("context_overflow", "activated", "m1")
    assert large.requests[0].messages[0]["content"].startswith("Model: m1\n")


def test_providers_whose_window_is_known_to_be_no_larger_are_skipped_visibly():
    with Server(full()) as small, Server(full()) as smaller, Server(said("522,000")) as large:
        result = run(windows(small, smaller, large, sizes=(8_000, 8_000, 9_000)))

    assert result.text == "522,000"
    assert smaller.requests == []
    assert result.trace.fallbacks_df().outcome.tolist() == ["skipped", "activated"]


@hn.tool(name="population")
def wordy(city: str) -> str:
    """Much text."""
    return "words " * 4_000


def test_what_a_server_states_of_its_window_is_not_held_against_the_next_one():
    with Server(full(4_096)) as small, Server(called("population", city="Lyon"), said("522,000")) as large:
        turn = windows(small, large, sizes=(128_000, 64_000), tools=[wordy]).start("q", session=False)
        result = turn.result()

    assert result.text == "522,000"
    assert turn.request.sizes.window == 4_096
    assert set(result.trace.compressions_df().trigger) == {"overflow"}  # none for the large window
    assert large.requests[1].messages[-1]["content"] == "words " * 4_000


def test_a_request_too_large_for_every_provider_ends_by_name_with_its_history():
    with Server(full()) as one, Server(full(code=413)) as other:
        result = run(windows(one, other, sizes=(None, None)))

    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert [message.role for message in result.messages] == ["user"]
    assert result.trace.fallbacks_df().outcome.tolist() == ["activated", "none_left"]


def test_what_can_be_made_smaller_is_made_so_before_the_next_provider_is_asked():
    first = script(call("population", city="Lyon"), fails("context_overflow"), say("done"), name="a")
    result = run(hn.Agent([first, script(say("never"), name="b")], tools=[wordy]))

    assert (result.text, result.fallbacks, result.refunds) == ("done", 0, 1)


def test_the_grace_call_goes_to_the_next_provider_too():
    first = script(call("population", city="Lyon"), fails("context_overflow"), name="a", context_window=4_000)
    second = script(say("so far"), name="b", context_window=64_000)
    result = run(hn.Agent([first, second], tools=[population], budget=1, compression=None))

    assert (result.text, result.exit_reason, result.provider) == ("so far", hn.ExitReason.BUDGET_EXHAUSTED, "b")
    actions = result.trace.budget_df().action.tolist()
    assert actions.count("grace_used") == 1
