"""Providers and tools of the user's that wrap others, and pass on whatever they do not do themselves."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from tests.support.scripts import Wrapped, population, run


def test_a_provider_that_delegates_to_another_is_one():
    first, second = script(call("population", city="Lyon"), say("522,000")), script(say("never"))
    result = run(hn.Agent([Wrapped(first), Wrapped(second)], tools=[population]))

    assert result.text == "522,000"


def test_a_tool_that_delegates_to_another_is_one():
    result = run(hn.Agent(script(call("population", city="Lyon"), say("ok")), tools=[Wrapped(population)]))

    assert result.messages[2].text == "522000"


def test_what_lacks_a_part_is_refused_by_name():
    class Half:
        name = model = "half"

    with pytest.raises(hn.ConfigurationError, match="Half"):
        hn.Agent(Half())
    with pytest.raises(hn.ConfigurationError, match="no tool"):
        hn.Agent(script(say("x")), tools=[Half()])
    with pytest.raises(hn.ConfigurationError):
        hn.Agent(hn.OpenAIChat)
