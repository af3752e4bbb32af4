"""The grid of a sweep: labels, ids, seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.lab.cases import cases_of, label_of
from hermes_nb.testing import say, script

AGENT = hn.Agent(script(say("x"), each_turn=True), guard=None)


def shorten(messages):
    return messages[-1:]


@given(
    prompts=st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=5),
    budgets=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    repeats=st.integers(1, 3),
)
def test_every_case_has_an_id_of_its_own_also_for_equal_prompts_and_values(prompts, budgets, repeats):
    cases = cases_of(AGENT, prompts, {"budget": budgets}, repeats, None)

    assert len({case.id for case in cases}) == len(prompts) * len(budgets) * repeats
    again = cases_of(AGENT, prompts, {"budget": budgets}, repeats, None)
    assert [case.id for case in cases] == [case.id for case in again]


def test_ids_are_the_same_in_another_process(tmp_path):
    program = (
        "import hermes_nb as hn\n"
        "from hermes_nb.lab.cases import cases_of\n"
        "from hermes_nb.testing import say, script\n"
        "agent = hn.Agent(script(say('x')))\n"
        "vary = {'faults': [None, hn.Faults(cut={5, 1, 3})], 'guard': [hn.RateGuard(), None],"
        " 'compression': [hn.Compression(compressor=lambda m: m), hn.Compression(compressor=print)]}\n"
        "print([case.id for case in cases_of(agent, ['a', {'prompt': 'b', 'x': 1}], vary, 2, 7)])\n"
    )
    told = {
        subprocess.check_output([sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.parametrize(
    ("value", "label"),
    [
        (4, 4),
        (np.int64(4), 4),
        (None, None),
        ("text", "text"),
        (script(model="m", name="p"), "p:m"),
        ([script(model="m", name="p"), script(model="n", name="p")], "p:m, p:n"),
        (hn.IterationBudget(7), 7),
        (shorten, "shorten"),
        (hn.Retry(attempts=2), repr(hn.Retry(attempts=2))),
        (hn.Compression(compressor=shorten), "Compression"),
        ({"b", "a"}, "a, b"),
    ],
)
def test_a_setting_stands_in_its_column_as_a_number_or_a_short_text(value, label):
    assert label_of(value) == label


def test_columns_that_are_missing_in_a_row_leave_the_agents_own_setting():
    frame = pd.DataFrame({"prompt": ["a", "b"], "budget": [3, None], "kind": ["x", None]})
    first, second = cases_of(AGENT, frame, {}, 1, None)

    assert (first.agent.budget, second.agent.budget) == (3, 90)
    assert (first.labels, second.labels) == ({"kind": "x"}, {})


def test_seeds_are_equal_for_all_settings_of_a_prompt_and_repeat():
    cases = cases_of(AGENT, ["a", "b"], {"budget": [1, 2]}, 2, 3)
    seeds = {(case.prompt, case.repeat): set() for case in cases}
    for case in cases:
        seeds[case.prompt, case.repeat].add(case.seed)

    assert all(len(group) == 1 for group in seeds.values())
    assert len(set().union(*seeds.values())) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompts": [1]},
        {"prompts": [{"question": "q"}]},
        {"prompts": 3},
        {"prompts": None},
        {"prompts": ["q"], "vary": {"budget": 4}},
        {"prompts": ["q"], "vary": {"budget": [0.5]}},
        {"prompts": ["q"], "vary": {"no_such": [1]}},
        {"prompts": ["q"], "agents": []},
        {"prompts": ["q"], "agents": {"a": "openai:x"}},
        {"prompts": ["q"], "repeats": 0},
        {"prompts": ["q"], "repeats": 2.0},
        {"prompts": []},
        {"prompts": ["q"], "vary": {"budget": []}},
    ],
)
def test_what_is_no_case_is_refused(wrong):
    given = {"agents": AGENT, "vary": {}, "repeats": 1, "seed": None} | wrong
    with pytest.raises(hn.ConfigurationError):
        cases_of(**given)
