"""What holds for every policy: who adds one and forgets a place reads its name here."""

from __future__ import annotations

import runpy
from dataclasses import fields
from pathlib import Path

import pytest

import hermes_nb as hn
from hermes_nb.testing import say, script
from hermes_nb.turn.request import Policies
from hermes_nb.turn.settings import KINDS, policies_of

SITE = Path(__file__).parents[3] / "tools" / "site_pages.py"
NAMES = [field.name for field in fields(Policies)]


@pytest.mark.parametrize("name", NAMES)
def test_every_policy_is_an_argument_of_an_agent_and_anything_else_is_refused_there(name):
    with pytest.raises(hn.ConfigurationError, match=f"{name} is a "):
        hn.Agent(script(say("hi")), **{name: "often"})


def test_every_policy_but_the_guard_is_recorded_with_its_turn():
    assert set(KINDS) == {*NAMES} - {"guard"}


def test_a_turn_of_which_nothing_is_recorded_had_the_defaults_and_nothing_that_is_off_by_default():
    assert policies_of({}) == Policies(guard=None)


def test_every_policy_has_its_defaults_in_the_documentation():
    pytest.importorskip("mkdocs", reason="needs what builds the documentation")
    table = runpy.run_path(str(SITE))["defaults"]()

    assert [kind.__name__ for kind in (*KINDS.values(), hn.RateGuard) if f"`{kind.__name__}`" not in table] == []
