"""Where clicks wait for a running cell, the panel says so, and the kernel's Stop button works.

JupyterLab with comms over subshells switched off sends what older front ends and editors send.
"""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SERVER = {"settings": {"@jupyterlab/apputils-extension:kernels-settings": {"commsOverSubshells": "disabled"}}}
LONG = "run = start(*[call('nap', seconds=60)] * 2)\nrun"


def test_a_click_that_has_to_wait_says_so_and_is_done_when_the_cell_ends(page_of):
    notebook = page_of(LONG, "time.sleep(4)\nended = time.time()", "print(asked() > ended, run.result().exit_reason)")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.begin(2)
    notebook.press("Interrupt")
    notebook.panel().locator(".hnb-hint").get_by_text("A running cell keeps this kernel busy").wait_for()
    notebook.wait(2)
    notebook.record().wait_for()
    assert notebook.run_and_wait(3) == "True interrupted_by_user"


def test_the_kernels_stop_button_works_where_clicks_have_to_wait(page_of):
    notebook = page_of(LONG, "print(run.result().exit_reason)")
    notebook.run_and_wait(1)
    notebook.begin(2)
    notebook.command("notebook:interrupt-kernel")
    assert notebook.wait(2) == "interrupted_by_kernel"
    notebook.record().wait_for()
