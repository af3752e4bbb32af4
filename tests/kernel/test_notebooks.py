"""The demonstration, as `make demo` runs it, where the weights of the embedded model are not to be had.

The notebooks themselves are run by nbmake, on the embedded model where it is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FIRST = ROOT / "notebooks" / "01_first_turn.ipynb"
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> str:
    nothing = tmp_path_factory.mktemp("no-weights")
    command = [sys.executable, ROOT / "tools" / "demo.py", FIRST]
    environment = {**os.environ, "HERMES_NB_CACHE": str(nothing)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_without_the_weights_the_same_notebook_runs_on_a_script_and_says_so(shown):
    assert "a script answers" in shown


def test_the_demonstration_shows_the_answer_the_cost_the_span_tree_and_the_frames(shown):
    assert "9.74" in shown
    assert "completed" in shown
    assert "invoke_agent" in shown
    assert "execute_tool column_mean" in shown
    assert "success" in shown
    assert "make lab" in shown


def test_the_notebook_itself_stays_as_it_was(shown):
    assert '"outputs": []' in FIRST.read_text(encoding="utf-8")
