"""Agents whose models are scripts, and their turns as trees."""

from __future__ import annotations

import textwrap

import hermes_nb as hn
from hermes_nb.testing import no_waiting, script, span_tree

PEOPLE = {"Lyon": 522_000, "Lille": 236_000}


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return PEOPLE[city]


class Speechless(Exception):
    """Cannot even say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")


class Wrapped:
    """Passes everything on."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


def agent(*steps, **settings) -> hn.Agent:
    return hn.Agent(script(*steps), **({"tools": [population], "budget": 8} | settings))


def chain(*scripts, **settings) -> hn.Agent:
    models = [script(*steps, name=name, model="m") for name, steps in zip("abc", scripts, strict=False)]
    return hn.Agent(models, **({"tools": [population], "budget": 8} | settings))


def run(agent: hn.Agent, prompt: str = "How many people live in Lyon?", **options) -> hn.TurnResult:
    with no_waiting():
        return agent.run(prompt, **({"session": False} | options))


def tree(result: hn.TurnResult) -> str:
    return "\n" + span_tree(result.trace) + "\n"


def expected(text: str) -> str:
    return textwrap.dedent(text)
