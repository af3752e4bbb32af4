"""Whatever a value holds, it is read to an end."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import deque
from collections.abc import Iterable  # noqa: TC003  pydantic reads the annotation
from typing import Any

import pydantic
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from hermes_nb.tools import finite, results


def endless():
    """Numbers; the many that a broken bound would take end the test, not the machine."""
    yield from range(5_000_000)
    raise AssertionError("read without end")


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    title: str
    lines: Any


class Model(pydantic.BaseModel):
    lines: Iterable[int]


class Open(pydantic.BaseModel, extra="allow"):
    pass


HOLDERS = {
    "dict": lambda lines: {"lines": lines},
    "list": lambda lines: [lines],
    "tuple": lambda lines: (1, [lines]),
    "set": lambda lines: {lines},
    "frozenset": lambda lines: frozenset({lines}),
    "deque": lambda lines: deque([lines]),
    "dataclass": lambda lines: Report("r", lines),
    "model": lambda lines: Model(lines=lines),
    "extra": lambda lines: Open(lines=lines),
    "deep": lambda lines: {"a": [{"b": Report("r", {"c": (lines,)})}]},
    "iterator": lambda lines: iter([lines]),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_iterator_without_end_is_read_in_part_wherever_it_stands(holder, monkeypatch):
    monkeypatch.setattr(finite, "ITEMS", 100)
    shown = results.readable(HOLDERS[holder](endless()))
    assert "[0, 1, 2, " in shown
    assert '"…"]' in shown
    assert 90 < shown.count(",") < 110


@pytest.mark.parametrize("holder", HOLDERS)
def test_an_iterator_that_ends_is_read_whole(holder):
    shown = results.readable(HOLDERS[holder](iter([1, 2, 3])))
    assert "[1, 2, 3]" in shown


def test_a_million_things_are_read_and_not_one_more():
    assert len(json.loads(results.readable(iter(range(1_000_000))))) == 1_000_000
    assert json.loads(results.readable(itertools.count()))[-2:] == [999_999, "…"]


def test_texts_are_read_up_to_a_hundred_million_characters():
    page = "x" * 1_000_000
    assert len(json.loads(results.readable(itertools.repeat(page, 100)))) == 100
    pages = itertools.chain(itertools.repeat(page, 100), "y", endless())
    assert json.loads(results.readable(pages))[-2:] == [page, "…"]


def test_iterators_of_iterators_share_the_bound(monkeypatch):
    monkeypatch.setattr(finite, "ITEMS", 9)
    assert json.loads(results.readable(iter(lambda: iter(range(4)), None))) == [[0, 1, 2, 3], [0, 1, 2, "…"], "…"]


@pytest.mark.parametrize("value", [{"a": [1, (2,), {3}]}, Report("r", [1]), Open(lines=[1]), [Report], range(3)])
def test_a_value_without_iterators_is_looked_at_and_left_as_it_is(value):
    assert finite.Reading().of(value) is value


def test_a_tool_may_return_a_mapping_of_endless_streams_and_the_turn_goes_on():
    def ticks():
        """Yields."""
        return {"ticks": endless(), "unit": "s"}

    result = hn.Agent(script(call("ticks"), say("enough")), tools=[ticks]).run("q", session=False)
    assert result.text == "enough"
    assert result.messages[2].text.endswith('"…"], "unit": "s"}')


def test_an_async_generator_without_end_is_read_in_part_and_closed():
    closed = []

    async def ticks():
        """Yields."""
        try:
            for number in endless():
                yield number
        finally:
            closed.append(True)

    result = hn.Agent(script(call("ticks"), say("enough")), tools=[ticks]).run("q", session=False)
    assert result.text == "enough"
    assert result.messages[2].text.endswith('999999, "…"]')
    assert closed == [True]
