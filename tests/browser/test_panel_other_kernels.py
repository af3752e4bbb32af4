"""The panel on other versions of ipykernel, each in an environment of its own.

ipykernel 7.0 to 7.3 handle clicks in a shell of their own; ipykernel 6 has none, so that there a click waits for a
running cell, and only the Stop button comes through. `HERMES_NB_OTHER_KERNELS="7.1.0 6.29.5"` tests other versions, an
empty value none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.browser.conftest import SETUP
from tests.support.jupyter import Jupyter, Notebook, write_notebook

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]
VERSIONS = os.environ.get("HERMES_NB_OTHER_KERNELS", "7.3.0 6.31.0").split()
LONG = "run = start(call('nap', seconds=2), call('nap', seconds=60))\nrun"
CELLS = (
    SETUP,
    "import ipykernel\nprint(ipykernel.__version__)",
    LONG,
    "result = run.result()\nprint(result.exit_reason, steered())",
    "time.sleep(4)\nblocked_until = time.time()",
    "print(asked() < blocked_until, run.result().exit_reason)",
    "print(run.result().exit_reason)",
    "print((await run).exit_reason)",
    "print(start(say('fine')).result().text)",
)
VERSION, START, STEERED, BLOCK, PASSED, RESULT, AWAIT, NEXT = range(1, len(CELLS))


def environment(version, folder):
    """A Python with this version of ipykernel before everything that is installed here; returns the interpreter."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True)
        place = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        wheel = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, f"ipykernel=={version}"]
        try:
            subprocess.run(wheel, check=True)
        except subprocess.CalledProcessError:
            python.unlink()
            raise
        (place / "the_rest.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    return request.param


@pytest.fixture(scope="module")
def notebook(version, request, chrome, tmp_path_factory):
    kept = request.config.cache.mkdir(f"ipykernel-{version}-{sys.version_info.major}.{sys.version_info.minor}")
    root = tmp_path_factory.mktemp("notebooks")
    write_notebook(root / "a.ipynb", CELLS)
    with Jupyter(root, python=str(environment(version, kept))) as running:
        notebook = Notebook.open(chrome, running.url("a.ipynb"))
        assert notebook.run_and_wait(0) == ""
        yield notebook
        notebook.close()


def test_the_version_is_the_one_that_is_meant(notebook, version):
    assert notebook.run_and_wait(VERSION) == version


def test_steer_and_interrupt_work_while_the_turn_runs_in_its_thread(notebook):
    notebook.run_and_wait(START)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.steer("go <left>")
    notebook.panel().get_by_text("delivered in iteration 2").wait_for()
    notebook.press("Interrupt")
    notebook.record().wait_for()
    assert notebook.run_and_wait(STEERED) == "interrupted_by_user ['go <left>']"


def test_clicks_while_another_cell_blocks_pass_or_the_panel_says_that_they_wait(notebook, version):
    notebook.run_and_wait(START)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.begin(BLOCK)
    notebook.press("Interrupt")
    passes = version.startswith("7")
    if not passes:
        notebook.panel().locator(".hnb-hint").get_by_text("A running cell keeps this kernel busy").wait_for()
    notebook.wait(BLOCK)
    notebook.record().wait_for()
    assert notebook.run_and_wait(PASSED) == f"{passes} interrupted_by_user"


@pytest.mark.parametrize("wait", [RESULT, AWAIT])
def test_the_stop_button_ends_a_turn_that_is_waited_for_and_the_next_one_works(notebook, wait):
    notebook.run_and_wait(START)
    notebook.begin(wait)
    notebook.command("notebook:interrupt-kernel")
    assert notebook.wait(wait) == "interrupted_by_kernel"
    assert "Interrupted by the kernel's stop button" in notebook.output(START)
    assert notebook.run_and_wait(NEXT) == "fine"


def test_the_stop_button_ends_a_turn_that_is_shown_while_no_cell_runs(notebook):
    notebook.run_and_wait(START)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.page.wait_for_timeout(300)
    notebook.command("notebook:interrupt-kernel")
    notebook.record().get_by_text("Interrupted by the kernel's stop button").wait_for()
    assert notebook.run_and_wait(NEXT) == "fine"
