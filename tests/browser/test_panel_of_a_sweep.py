"""The panel of a sweep in a real JupyterLab."""

from __future__ import annotations

import re

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

SOME = re.compile("^[1-9]")
SWEEP = """
model = script(say("done", seconds={seconds}), each_turn=True)
study = hn.sweep(hn.Agent(model, guard=None), ["question"], repeats={cases}, parallel=4, progress=False)
study
"""


def test_a_sweep_is_watched_and_stopped_and_leaves_its_record(page_of):
    notebook = page_of(SWEEP.format(seconds=0.4, cases=400), "print(study.wait(20), study.progress['state'])")
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.locator(".hnb-gauge-cases .hnb-value").get_by_text(SOME).wait_for()
    told = notebook.page.locator(".hnb-frame").first.aria_snapshot()
    for line in ('- region "Sweep"', '- progressbar "Cases"', '- button "Stop all"'):
        assert line in told, f"{line} is not in\n{told}"
    notebook.press("Stop all")
    record = notebook.page.get_by_text("cases in").first
    record.wait_for()
    assert notebook.page.locator(".hnb").count() == 0
    assert notebook.run_and_wait(2) == "True stopped"
    assert not notebook.errors


def test_a_page_that_is_loaded_again_in_the_middle_of_a_sweep_gets_its_record(page_of, server):
    notebook = page_of(SWEEP.format(seconds=0.4, cases=120), "print(study.wait(60))")
    notebook.run_and_wait(1)
    notebook.panel().locator(".hnb-gauge-cases .hnb-value").get_by_text(SOME).wait_for()
    notebook.save()
    notebook.visit(server.url(notebook.name))
    notebook.panel().get_by_role("button", name="Stop all").wait_for()
    notebook.press("Stop all")
    notebook.page.get_by_text("cases in").first.wait_for()
    notebook.page.locator(".hnb").first.wait_for(state="detached")
    notebook.save()
    saved = nbformat.read(server.root / notebook.name, 4)
    assert set(saved.cells[1].outputs[0].data) == {"text/html", "text/plain"}


def test_a_kernel_that_is_restarted_in_the_middle_of_a_sweep_leaves_nothing_that_looks_alive(page_of):
    notebook = page_of(SWEEP.format(seconds=0.4, cases=400))
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.locator(".hnb-gauge-cases .hnb-value").get_by_text(SOME).wait_for()
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"
    )
    panel.locator(".hnb-pill").get_by_text("Kernel gone").wait_for()
    stop = panel.get_by_role("button", name="Stop all")
    assert stop.get_attribute("aria-disabled") == "true"
    stop.click(force=True)
    assert panel.locator(".hnb-hint").text_content() == "The kernel that ran this sweep is gone."


def test_nothing_sticks_out_of_a_narrow_sweep_and_its_bar_shows_where_the_system_forces_colours(page_of):
    notebook = page_of(SWEEP.format(seconds=0.4, cases=200), "study.stop()\nprint(study.wait(20))", width=480)
    notebook.command("application:toggle-left-area")
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.locator(".hnb-legend").get_by_text("completed").wait_for()
    edges = "parts => parts.map(part => Math.round(part.getBoundingClientRect().left))"
    lined_up = panel.locator(".hnb-pill, .hnb-gauge-cases .hnb-label, .hnb-ends-bar, .hnb-interrupt")
    assert len(set(lined_up.evaluate_all(edges))) == 1
    widths = "parts => new Set(parts.map(part => Math.round(part.getBoundingClientRect().width / 10))).size"
    assert panel.locator(".hnb-gauge:not(.hnb-gauge-cases)").evaluate_all(widths) == 1
    colour = "node => getComputedStyle(node).backgroundColor"
    before = panel.locator(".hnb-end").evaluate(colour)
    notebook.page.emulate_media(forced_colors="active")
    assert panel.locator(".hnb-end").evaluate(colour) == before
    notebook.run_and_wait(2)
