"""The panel on other versions of ipykernel, each in an environment of its own: set HERMES_NB_OTHER_KERNELS=1.

ipykernel 7.0 to 7.3 handle clicks in a shell of their own; ipykernel 6 has none, so that there a click waits for a
running cell, and only the Stop button comes through.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv

import pytest

from tests.support.jupyter import Jupyter

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(400),
    pytest.mark.skipif("HERMES_NB_OTHER_KERNELS" not in os.environ, reason="HERMES_NB_OTHER_KERNELS is not set"),
]
LONG = "run = start(call('nap', seconds=2), call('nap', seconds=60))\nrun"


@pytest.fixture(scope="module", params=["7.3.0", "6.31.0"])
def version(request):
    return request.param


@pytest.fixture(scope="module")
def server(version, tmp_path_factory):
    home = tmp_path_factory.mktemp(f"ipykernel-{version}")
    venv.create(home / "env", with_pip=True, symlinks=True)
    python = home / "env" / "bin" / "python"
    wheels = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", f"ipykernel=={version}"]
    subprocess.run(wheels, check=True)
    (place,) = (home / "env" / "lib").glob("*/site-packages")
    (place / "the_rest.pth").write_text(sysconfig.get_path("purelib"))
    with Jupyter(home, python=str(python)) as running:
        yield running


def test_the_version_is_the_one_that_is_meant(page_of, version):
    notebook = page_of("import ipykernel\nprint(ipykernel.__version__)")
    assert notebook.run_and_wait(1) == version


def test_steer_and_interrupt_work_while_the_turn_runs_in_its_thread(page_of):
    notebook = page_of(LONG, "_ = run.result()\nprint(run.result().exit_reason, steered())")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.steer("go <left>")
    notebook.panel().get_by_text("delivered in iteration 2").wait_for()
    notebook.press("Interrupt")
    notebook.record().wait_for()
    assert notebook.run_and_wait(2) == "interrupted_by_user ['go <left>']"


def test_clicks_while_another_cell_blocks_pass_or_the_panel_says_that_they_wait(page_of, version):
    notebook = page_of(LONG, "time.sleep(5)\nended = time.time()", "print(asked() < ended, run.result().exit_reason)")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.begin(2)
    notebook.press("Interrupt")
    passes = version.startswith("7")
    if not passes:
        notebook.panel().locator(".hnb-hint").get_by_text("A running cell keeps this kernel busy").wait_for()
    notebook.wait(2)
    notebook.record().wait_for()
    assert notebook.run_and_wait(3) == f"{passes} interrupted_by_user"


@pytest.mark.parametrize("wait", ["run.result()", "await run"])
def test_the_stop_button_ends_a_turn_that_is_waited_for(page_of, wait):
    notebook = page_of(LONG, f"print(({wait}).exit_reason)", "print(start(say('fine')).result().text)")
    notebook.run_and_wait(1)
    notebook.begin(2)
    notebook.command("notebook:interrupt-kernel")
    assert notebook.wait(2) == "interrupted_by_kernel"
    assert "Interrupted by the kernel's stop button" in notebook.output(1)
    assert notebook.run_and_wait(3) == "fine"
