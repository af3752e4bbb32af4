"""The panel of a sweep in a real kernel, on real sweeps."""

from __future__ import annotations

import pytest

from tests.support.jupyter import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
import time
import hermes_nb as hn
from hermes_nb.lab.sweep import sweep
from hermes_nb.testing import call, fails, say, script
from hermes_nb.widgets import show_study

def study(seconds, cases):
    model = script(say("done", seconds=seconds), each_turn=True)
    return sweep(hn.Agent(model), ["question"], repeats=cases, parallel=4, progress=False)
"""


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        kernel.run(SETUP)
        yield kernel


def test_a_sweep_is_shown_live_and_left_as_a_record(kernel):
    kernel.run("s = study(0.2, 12)\nshow_study(s)")
    comm = kernel.panels()[-1]
    kernel.say(comm, "ping")
    kernel.run("s.wait()")
    assert kernel.state(comm)["head"]["status"]["word"] == "Done"
    assert kernel.state(comm)["head"]["ends"][0]["count"] == 12
    last = [m["content"]["data"] for m in kernel.messages if m["msg_type"] == "update_display_data"][-1]
    assert set(last) == {"text/html", "text/plain"}
    assert last["text/plain"].startswith("Sweep done: 12 of 12 cases in ")


def test_stop_all_interrupts_what_runs_and_begins_no_more(kernel):
    kernel.run("s = study(30, 40)\nshow_study(s)")
    kernel.say(kernel.panels()[-1], "interrupt")
    assert kernel.run("print(s.wait(10), s.progress['state'], s.progress['done'] < 40)") == "True stopped True"


def test_a_sweep_that_is_over_is_shown_as_its_record(kernel):
    kernel.run("s = study(0.0, 3); s.wait()")
    before = len(kernel.panels())
    assert kernel.run("show_study(s)").startswith("Sweep done: 3 of 3 cases")
    assert len(kernel.panels()) == before


def test_a_study_as_the_last_expression_of_a_cell_shows_itself(kernel):
    before = len(kernel.panels())
    kernel.run("s = study(0.3, 8)\ns")
    assert len(kernel.panels()) == before + 1
    assert kernel.run("print(s.wait(20), s.progress['state'])") == "True done"


def test_progress_is_the_panel_once_in_a_cell(kernel):
    before = len(kernel.panels())
    model = "hn.Agent(script(say('done', seconds=0.3), each_turn=True))"
    kernel.run(f"s = sweep({model}, ['question'], repeats=8, parallel=4)\ns")
    assert len(kernel.panels()) == before + 1
    kernel.run("s.wait()")
    assert len(kernel.panels()) == before + 1
    assert kernel.run("s").startswith("Sweep done: 8 of 8 cases")
