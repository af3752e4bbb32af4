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


def test_it_tells_what_happens_when_only_the_sub_agents_fail(tmp_path):
    def lead(request):
        said = [m for m in request.messages if m.role == "tool"]
        return say("There is no help." if "error" in said[-1].text else "522,000") if said else call("helper", task="t")

    helper = agent("one").with_(name="helper")
    made = hn.Agent(script(lead, lead, lead, lead, each_turn=True), tools=[helper.as_tool()], guard=None)
    frame = hn.chaos(made, ["q"], path=tmp_path / "c.db", progress=False).set_index(["fault", "when"])

    assert (frame.injected_below["none", "never"], frame.injected_below["timeout", "once"]) == (0, 1)
    assert frame.injected["timeout", "once"] == 2, "in both turns"
    for fault in ("timeout", "server_error", "auth"):
        assert frame.survived[fault, "sub_agents"] == 1, fault
        assert frame.survived[fault, "always"] == 0
        assert frame.injected_below[fault, "sub_agents"] == frame.injected[fault, "sub_agents"] > 0
    assert frame.injected_below["tool_error", "sub_agents"] > 0
    assert ("disk_full", "sub_agents") not in frame.index
