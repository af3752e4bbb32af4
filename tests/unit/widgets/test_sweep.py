"""The numbers and words of a sweep's panel."""

from __future__ import annotations

import pytest

from hermes_nb.widgets.sweep import Tally, head, html, plain, tone_of

HALF = {
    "total": 120, "done": 60, "resumed": 20, "running": 8, "completed": 50, "tokens": 1_234_000, "cost_usd": 1.5,
    "seconds": 40.0, "exit_reasons": {"completed": 50, "budget_exhausted": 6, "provider_failed": 4}, "state": "running",
}  # fmt: skip


def test_the_time_that_is_left_is_guessed_from_the_cases_of_this_run():
    assert Tally.of(HALF).phase == "8 turns running, about 1 min left"
    assert Tally.of(HALF | {"done": 22}).phase == "8 turns running"


def test_a_sweep_that_is_over_says_what_it_did():
    assert Tally.of(HALF | {"state": "stopped"}).phase == "60 of 120 cases in 40.0 s"
    assert [Tally.of({"state": state}).status.word for state in ("running", "stopped", "done")] == [
        "Running", "Stopped", "Done",
    ]  # fmt: skip


def test_the_gauges_tell_failures_and_cost_so_far():
    shown = {gauge.label: (gauge.value, gauge.of, gauge.notes) for gauge in Tally.of(HALF).gauges()}
    assert shown["Cases"] == ("60", "of 120", ("20 from before",))
    assert shown["Completed"] == ("50", "", ("83% of those done",))
    assert shown["Failed"][0] == "4"
    assert shown["Cost so far"][0] == "$1.50"
    assert "Cost so far" not in {gauge.label for gauge in Tally.of({}).gauges()}


def test_each_end_has_its_share_of_the_bar_and_its_tone():
    ends = head(Tally.of(HALF))["ends"]
    assert [(end["name"], end["tone"], end["fraction"]) for end in ends] == [
        ("completed", "done", 50 / 120),
        ("budget exhausted", "stopped", 6 / 120),
        ("provider failed", "failed", 4 / 120),
    ]
    assert tone_of("error") == "failed"


@pytest.mark.parametrize("progress", [{}, {"total": 0}, HALF, {"exit_reasons": None, "seconds": None}])
def test_every_progress_can_be_shown(progress):
    tally = Tally.of(progress)
    assert head(tally)["status"]["word"]
    assert plain(tally).startswith("Sweep running: ")
    assert "<script" not in html(tally)


def test_a_hostile_name_stays_text():
    tally = Tally.of({"total": 1, "done": 1, "exit_reasons": {"<img src=x onerror=alert(1)>\x1b[0m": 1}})
    assert "<img" not in html(tally)
    assert "\x1b" not in plain(tally)
