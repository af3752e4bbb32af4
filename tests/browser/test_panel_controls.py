"""Steering and stopping a turn in a real JupyterLab, on the kernel that is installed."""

from __future__ import annotations

import time

import nbformat
import pytest

from tests.support.contrast import texts_too_faint

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LONG = "run = start(*[call('nap', seconds=60)] * 2)\nrun"
STEER = "Check the <b>retry</b> \"path\" & 'its' 👩‍🔬 tests,\nשלום \\n {x} $HOME"  # noqa: RUF001  right-to-left on purpose


def latency(notebook, pressed, cell):
    """Seconds from the click to Python, asked for in a cell."""
    return float(notebook.run_and_wait(cell)) - pressed


FROZEN = """() => { window.frozen = 0;
  const look = () => { if (document.querySelector('.hermes-nb-record')) window.frozen ||= Date.now();
                       else requestAnimationFrame(look); };
  look(); }"""


def test_a_click_interrupts_at_once(page_of, figure):
    notebook = page_of(LONG, "print(asked(), ended())", "print(run.result().exit_reason, len(run.result().messages))")
    times = []
    for _ in range(9):
        notebook.run_and_wait(1)
        notebook.panel().get_by_text("running nap").wait_for()
        notebook.page.evaluate(FROZEN)
        pressed = notebook.press("Interrupt")
        notebook.record().wait_for()
        shown = notebook.page.evaluate("window.frozen") / 1000
        asked, ended = map(float, notebook.run_and_wait(2).split())
        times.append([1000 * (moment - pressed) for moment in (asked, ended, shown)])
        assert "Interrupted by you in iteration 1, while a tool was running." in notebook.output(1)
    assert notebook.run_and_wait(3).startswith("interrupted_by_user")
    names = ("click to interrupt asked", "click to interrupted", "click to its record on the page")
    medians = [figure(name, taken) for name, taken in zip(names, zip(*times, strict=True), strict=True)]
    assert medians[1] < 1_000  # 200 is what is wanted; a machine under test may be busy
    assert not notebook.errors


def test_a_steer_arrives_exactly_and_shows_its_receipt(page_of):
    notebook = page_of(
        "run = start(call('nap', seconds=4), call('nap', seconds=1), say('done'))\nrun",
        "_ = run.result()\nprint(repr(steered()))",
    )
    notebook.run_and_wait(1)
    notebook.steer(STEER)
    chip = notebook.panel().locator(".hnb-chip")
    chip.get_by_text("waiting to be delivered").wait_for()
    assert chip.locator(".hnb-chip-text").text_content() == STEER
    assert notebook.panel().get_by_role("textbox").input_value() == ""
    notebook.panel().get_by_text("delivered in iteration 2").wait_for()
    assert chip.count() == 0
    assert notebook.run_and_wait(2) == repr([STEER])
    assert STEER.split("\n", maxsplit=1)[0] in notebook.output(1)


def test_nothing_is_sent_when_the_box_is_left_and_keys_stay_in_it(page_of):
    notebook = page_of(
        "run = start(call('nap', seconds=60))\nrun", "run.interrupt(); _ = run.result()\nprint(steered())"
    )
    notebook.run_and_wait(1)
    box = notebook.panel().get_by_role("textbox")
    box.click()
    box.press_sequentially("dd aa")
    for _ in range(3):  # on to the buttons
        notebook.page.keyboard.press("Tab")
        notebook.page.keyboard.type("dd")
    assert box.input_value() == "dd aa"
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 3
    assert notebook.run_and_wait(2) == "[]"


@pytest.mark.parametrize("busy", ["time.sleep(6)", "sum(i for i in range(10**8))", "await asyncio.sleep(6)"])
def test_clicks_and_typing_pass_while_another_cell_keeps_the_kernel_busy(page_of, busy):
    notebook = page_of(
        "run = start(call('nap', seconds=2.5), call('nap', seconds=60))\nrun",
        f"{busy}\nended = time.time()",
        "print(asked())",
        "print(ended - asked() > 0.3, repr(steered()), run.result().exit_reason)",
    )
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.begin(2)
    notebook.steer(STEER)
    notebook.panel().get_by_text("waiting to be delivered").wait_for()
    pressed = notebook.press("Interrupt")
    notebook.record().wait_for()
    notebook.wait(2)
    assert latency(notebook, pressed, 3) < 1
    assert notebook.run_and_wait(4) == f"True {[STEER]!r} interrupted_by_user"


@pytest.mark.parametrize("wait", ["result = run.result()", "result = await run"])
def test_the_panel_works_while_a_cell_waits_for_its_turn(page_of, wait):
    notebook = page_of(LONG, f"{wait}\nprint(result.exit_reason)", "print(repr(steered()))")
    notebook.run_and_wait(1)
    notebook.begin(2)
    notebook.steer(STEER)
    notebook.panel().get_by_text("waiting to be delivered").wait_for()
    notebook.press("Interrupt")
    assert notebook.wait(2) == "interrupted_by_user"
    assert notebook.run_and_wait(3) == repr([STEER])


def test_the_kernels_stop_button_gives_the_partial_result(page_of):
    notebook = page_of(LONG, "print(run.result().exit_reason)", "print('next', start(say('fine')).result().text)")
    notebook.run_and_wait(1)
    notebook.begin(2)
    notebook.command("notebook:interrupt-kernel")
    assert notebook.wait(2) == "interrupted_by_kernel"
    assert "Interrupted by the kernel's stop button" in notebook.output(1)
    assert notebook.run_and_wait(3) == "next fine"


def test_stop_ends_run_all_with_the_cell_that_waits(page_of):
    notebook = page_of(
        LONG, "result = run.result()\nprint(result.exit_reason)", "print('went on')", "print(globals().get('x'))"
    )
    notebook.command("notebook:run-all-cells")
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.cell(2).locator(".jp-InputPrompt").get_by_text("[*]:").wait_for()
    notebook.page.wait_for_timeout(300)
    notebook.command("notebook:interrupt-kernel")
    notebook.cell(2).locator(".jp-OutputArea").get_by_text("interrupted_by_kernel").wait_for()
    notebook.record().wait_for()
    notebook.wait_idle()
    assert notebook.output(3) == notebook.output(4) == ""
    assert notebook.page.locator(".jp-InputPrompt").get_by_text("[*]:").count() == 0
    assert notebook.run_and_wait(4) == "None"


def test_stop_in_an_idle_kernel_ends_the_turn_that_is_shown(page_of):
    notebook = page_of(LONG, "print(run.result().exit_reason)")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.page.wait_for_timeout(300)
    notebook.command("notebook:interrupt-kernel")
    notebook.record().get_by_text("Interrupted by the kernel's stop button in iteration 1").wait_for()
    assert notebook.run_and_wait(2) == "interrupted_by_kernel"


def test_pause_step_resume_and_the_reasons_of_disabled_controls(page_of):
    notebook = page_of(
        "run = start(call('nap', seconds=5), *[call('nap', seconds=0.5)] * 4, say('done'))\nrun",
        "print(run.result().iterations)",
    )
    notebook.run_and_wait(1)
    panel = notebook.panel()
    step = panel.get_by_role("button", name="Step", exact=True)
    assert step.get_attribute("aria-disabled") == "true"
    assert "Pause the turn first" in step.get_attribute("title")
    step.click(force=True)  # disabled, but it answers
    panel.locator(".hnb-hint").get_by_text("Pause the turn first").wait_for()
    notebook.press("Pause")
    panel.get_by_text("Pauses after this iteration.").wait_for()
    panel.locator(".hnb-pill").get_by_text("Paused").wait_for()
    done = int(panel.locator(".hnb-gauge-iterations .hnb-value").text_content())
    notebook.press("Step")
    panel.locator(".hnb-gauge-iterations .hnb-value").get_by_text(str(done + 1)).wait_for()
    panel.locator(".hnb-pill").get_by_text("Paused").wait_for()
    notebook.press("Resume")
    assert notebook.run_and_wait(2) == "6"


def test_stop_after_this_iteration_lets_it_finish(page_of):
    notebook = page_of(
        "run = start(call('nap', seconds=1.5), call('nap', seconds=60))\nrun",
        "result = run.result()\nprint(result.exit_reason, result.iterations, result.messages[2].text)",
    )
    notebook.run_and_wait(1)
    notebook.press("Stop after this iteration")
    assert notebook.run_and_wait(2) == "interrupted_by_user 1 slept"


def test_a_kernel_that_is_restarted_in_the_middle_leaves_nothing_that_looks_alive(page_of):
    notebook = page_of(LONG)
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel.restart()"
    )
    panel = notebook.panel()
    panel.locator(".hnb-pill").get_by_text("Kernel gone").wait_for()
    interrupt = panel.get_by_role("button", name="Interrupt", exact=True)
    assert interrupt.get_attribute("aria-disabled") == "true"
    assert "The kernel that ran this turn is gone." in panel.locator(".hnb-hint").text_content()
    assert texts_too_faint(panel) == []
    clock = panel.locator(".hnb-gauge-time .hnb-value").text_content()
    notebook.page.wait_for_timeout(600)
    assert panel.locator(".hnb-gauge-time .hnb-value").text_content() == clock


def test_a_page_that_is_loaded_again_finds_the_turn_as_it_stands_and_keeps_its_record(page_of, server):
    notebook = page_of("run = start(*[call('nap', seconds=0.5)] * 30, budget=40)\nrun", "run.interrupt()")
    notebook.run_and_wait(1)
    notebook.steer("remember me")
    notebook.panel().get_by_text("delivered in iteration").wait_for()
    notebook.save()
    time.sleep(2)
    notebook.visit(server.url(notebook.name))
    panel = notebook.panel()
    panel.get_by_text("delivered in iteration").wait_for()
    assert panel.locator(".hnb-row-prompt").text_content().strip().endswith("Go")
    assert panel.locator(".hnb-separator").first.text_content() == "Iteration 1"
    notebook.press("Interrupt")
    notebook.record().get_by_text("Interrupted by you in iteration").wait_for()
    assert notebook.page.locator(".hnb").count() == 0
    notebook.save()
    saved = nbformat.read(server.root / notebook.name, 4)
    assert set(saved.cells[1].outputs[0].data) == {"text/html", "text/plain"}
    assert not notebook.errors


def test_a_page_that_comes_back_after_the_end_finds_the_record(page_of, server):
    notebook = page_of("run = start(call('nap', seconds=2.5), say('the end'))\nrun", "print(run.result().text)")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.save()
    notebook.page.goto("about:blank")
    time.sleep(4)
    notebook.visit(server.url(notebook.name))
    notebook.record().get_by_text("the end").wait_for()
    assert notebook.page.locator(".hnb").count() == 0
    assert notebook.run_and_wait(2) == "the end"


def test_running_the_cell_again_shows_the_new_turn_and_leaves_the_old_one_running(page_of):
    notebook = page_of(
        "runs = globals().get('runs', [])\n"
        "runs.append(start(call('nap', seconds=2), say(f'turn {len(runs)}')))\nruns[-1]",
        "print([r.result().text for r in runs])",
    )
    notebook.run_and_wait(1)
    notebook.run_and_wait(1)
    assert notebook.page.locator(".hnb").count() == 1
    assert notebook.run_and_wait(2) == "['turn 0', 'turn 1']"
    assert "turn 1" in notebook.output(1)


def test_two_panels_of_one_run_show_the_same_and_freeze_both(page_of):
    notebook = page_of(LONG, "run", "run.result().exit_reason")
    notebook.run_and_wait(1)
    notebook.run_and_wait(2)
    notebook.panel(1).get_by_text("running nap").wait_for()
    notebook.press("Interrupt", panel=1)
    notebook.run_and_wait(3)
    assert notebook.page.locator(".hermes-nb-record").count() == 2
    assert notebook.page.locator(".hnb").count() == 0
