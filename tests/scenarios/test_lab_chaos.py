"""What a configuration survives."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return 522_000


def agent(*names: str, **settings) -> hn.Agent:
    chain = [script(answer, answer, answer, answer, answer, name=name, each_turn=True) for name in names]
    return hn.Agent(chain, tools=[population], budget=6, guard=None, **settings)


def answer(request):
    return say("522,000") if any(m.role == "tool" for m in request.messages) else call("population", city="Lyon")


def test_a_chain_survives_what_one_provider_does_not(tmp_path):
    alone = hn.chaos(agent("one"), ["a", "b"], path=tmp_path / "1.db", progress=False).set_index(["fault", "when"])
    chain = hn.chaos(agent("one", "two"), ["a", "b"], path=tmp_path / "2.db", progress=False)
    chain = chain.set_index(["fault", "when"])

    assert (alone.turns == 2).all()
    assert (alone.survived["none", "never"], alone.injected["none", "never"]) == (1, 0)
    assert alone.survived["rate_limit", "once"] == 1
    assert alone.survived["rate_limit", "always"] == 0
    assert alone.exit_reason["rate_limit", "always"] == "rate_limited"
    assert ("rate_limit", "primary") not in alone.index
    for fault in ("rate_limit", "rate_limit_wait", "server_error", "timeout", "disconnect", "malformed", "auth"):
        assert chain.survived[fault, "primary"] == 1, fault
        assert chain.fallbacks[fault, "primary"] == 1
        assert chain.survived[fault, "always"] == 0
    for fault in ("tool_error", "tool_timeout", "slow", "disk_full"):
        assert chain.survived[fault, "always"] == 1, fault
    assert (chain.injected.drop(("none", "never")) > 0).all()
    assert chain.retries["timeout", "once"] == 1


def test_an_agent_that_injects_already_is_refused():
    with pytest.raises(hn.ConfigurationError, match="itself"):
        hn.chaos(agent("one", faults=hn.Faults(timeout=0.1)), ["q"])
