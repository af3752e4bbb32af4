"""The panel in Jupyter Notebook 7."""

from __future__ import annotations

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SERVER = {"app": "notebook"}


def test_steer_and_interrupt_work_while_a_cell_blocks_and_the_record_stays(page_of):
    notebook = page_of(
        "run = start(call('nap', seconds=2), call('nap', seconds=60))\nrun",
        "time.sleep(6)\nended = time.time()",
        "print(asked())",
        "print(ended - asked() > 0.3, repr(steered()), run.result().exit_reason)",
    )
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.begin(2)
    notebook.steer("go <left>")
    notebook.panel().get_by_text("waiting to be delivered").wait_for()
    pressed = notebook.press("Interrupt")
    notebook.record().wait_for()
    notebook.wait(2)
    assert float(notebook.run_and_wait(3)) - pressed < 1
    assert notebook.run_and_wait(4) == "True ['go <left>'] interrupted_by_user"


def test_the_panel_works_while_a_cell_awaits_its_turn(page_of):
    notebook = page_of("run = start(*[call('nap', seconds=60)] * 2)\nrun", "print((await run).exit_reason, steered())")
    notebook.run_and_wait(1)
    notebook.begin(2)
    notebook.steer("left")
    notebook.panel().get_by_text("waiting to be delivered").wait_for()
    notebook.press("Interrupt")
    assert notebook.wait(2) == "interrupted_by_user ['left']"


def test_a_page_that_is_loaded_again_keeps_the_record_of_its_turn(page_of, server):
    notebook = page_of("run = start(*[call('nap', seconds=60)] * 2)\nrun")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.save()
    notebook.visit(server.url(notebook.name))
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.press("Interrupt")
    notebook.record().get_by_text("Interrupted by you in iteration 1").wait_for()
    notebook.save()
    saved = nbformat.read(server.root / notebook.name, 4)
    assert set(saved.cells[1].outputs[0].data) == {"text/html", "text/plain"}
