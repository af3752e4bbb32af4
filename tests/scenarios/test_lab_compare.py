"""What a setting changes, measured over a study; and where two turns part."""

from __future__ import annotations

import builtins

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.lab.contrasts import effect_size, interval
from hermes_nb.testing import call, no_waiting, say, script


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return 522_000


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Prompts n take n rounds of tools, so that a budget of 2 is too small for some."""

    def answer(request):
        asked = next(m.content for m in request.messages if m.role == "user")
        rounds = sum(message.role == "tool" for message in request.messages)
        return call("population", city="Lyon") if request.tools and rounds < int(asked) else say("done")

    agent = hn.Agent(script(*[answer] * 20, each_turn=True), tools=[population], grace=None, guard=None)
    with no_waiting():
        path = tmp_path_factory.mktemp("study") / "s.db"
        prompts = [str(number % 4) for number in range(12)]
        made = hn.sweep(agent, prompts, vary={"budget": [2, 8]}, path=path, progress=False)
    assert made.wait(60)
    return made


def test_a_larger_budget_completes_more_and_costs_more(study):
    found = study.compare("budget").frame.set_index("measure")

    assert set(found.value) == {8}
    assert found.loc["completed", "difference"] == pytest.approx(0.5)
    assert found.loc["completed", "pairs"] == 4, "equal prompts are averaged"
    assert found.loc["iterations", "low"] <= found.loc["iterations", "difference"] <= found.loc["iterations", "high"]
    assert found.loc["iterations", "difference"] > 0


def test_measures_and_the_baseline_can_be_chosen(study):
    found = study.compare("budget", "iterations", baseline=8)

    assert list(found.frame.measure) == ["iterations"]
    assert found.frame.difference[0] < 0
    assert "iterations" in repr(found)
    assert "<table" in found._repr_html_()


def test_a_setting_without_two_values_is_refused(study):
    for setting in ("prompt_", "nonsense", "repeat"):
        with pytest.raises(hn.ConfigurationError):
            study.compare(setting)
    with pytest.raises(hn.ConfigurationError, match="never 3"):
        study.compare("budget", baseline=3)
    with pytest.raises(hn.ConfigurationError, match="no number 'text'"):
        study.compare("budget", "text")


def test_it_is_drawn(study, tmp_path):
    axes = study.compare("budget").plot("iterations")

    axes.figure.savefig(tmp_path / "x.png")
    assert "iterations" in axes.get_xlabel()


def test_without_scipy_there_are_intervals_too(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    differences = np.random.default_rng(1).normal(1, 1, 40)
    with_scipy = interval(differences)
    monkeypatch.setattr(builtins, "__import__", without)
    assert interval(differences) == pytest.approx(with_scipy, abs=0.15)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    generator = np.random.default_rng(3)
    covered = sum(low <= 0.5 <= high for low, high in (interval(generator.normal(0.5, 1, 40)) for _ in range(60)))

    assert covered >= 51


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), max_size=6))
def test_no_differences_break_it(numbers):
    differences = np.array(numbers)

    low, high = interval(differences)
    assert np.isnan(low) or low <= high
    effect_size(differences)


# ------------------------------------------------------------------------------------------- two turns


def ran(*steps, prompt="q", tools=(population,), **settings) -> hn.TurnResult:
    with no_waiting():
        return hn.Agent(script(*steps), tools=tools, guard=None, **settings).run(prompt, session=False)


def test_the_same_turn_twice_is_the_same_whatever_failed_on_the_way():
    steps = call("population", city="Lyon"), say("done")
    found = hn.compare(ran(*steps), ran(*steps, faults=hn.Faults(timeout={1})).trace)

    assert found.same
    assert found.frame.same.all()
    assert "same way" in repr(found)


@pytest.mark.parametrize(
    ("steps", "what", "iteration"),
    [
        ([call("population", city="Lille"), say("done")], "arguments", 1),
        ([call("other", city="Lyon"), say("done")], "call", 1),
        ([call("population", city="Lyon"), say("gone")], "text", 2),
        ([say("done")], "call", 1),
        ([call("population", city="Lyon"), call("population", city="Lyon"), say("done")], "call", 2),
    ],
)
def test_the_first_divergence_is_found(steps, what, iteration):
    found = hn.compare(ran(call("population", city="Lyon"), say("done")), ran(*steps))

    assert (found.divergence.what, found.divergence.iteration) == (what, iteration)
    assert not found.same


def test_a_step_more_is_set_beside_nothing():
    long = [call("population", city="Lyon"), call("population", city="Nice"), say("done")]
    found = hn.compare(ran(long[0], long[2]), ran(*long))

    frame = found.frame
    assert list(frame.iteration_b) == [1, 2, 3]
    assert list(frame.iteration_a.fillna(0)) == [1, 0, 2]
    assert list(frame.same) == [True, False, True]


def test_another_result_and_another_prompt_are_told_of():
    @hn.tool(name="population")
    def moving(city: str) -> int:
        """Inhabitants of a city."""
        return 1

    steps = call("population", city="Lyon"), say("done")
    result = hn.compare(ran(*steps), ran(*steps, tools=[moving]))
    prompt = hn.compare(ran(*steps), ran(*steps, prompt="r"))

    assert (result.divergence.what, result.divergence.a, result.divergence.b) == ("result", "522000", "1")
    assert (prompt.divergence.what, prompt.divergence.iteration) == ("prompt", 0)


def test_what_models_say_is_escaped():
    found = hn.compare(ran(say("<script>alert(1)</script>")), ran(say("<img src=x>")))

    assert "<script>" not in found._repr_html_()
    assert "<img" not in found._repr_html_()


def test_what_is_no_turn_is_refused():
    with pytest.raises(hn.ConfigurationError, match="traces, runs or results"):
        hn.compare(1, 2)
