"""What the panel looks like and holds, live and frozen, in a real JupyterLab."""

from __future__ import annotations

import subprocess
import sys

import nbformat
import pytest

from tests.support.contrast import texts_too_faint
from tests.support.hostile import HOSTILE as HOSTILE_TEXTS
from tests.support.jupyter import Notebook

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

LONG = "run = start(call('nap', seconds=0.1), call('nap', seconds=60))\nrun"
STOP = "run.interrupt(); _ = run.result()"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")


def test_every_text_can_be_read_in_every_theme_live_and_frozen(page_of):
    notebook = page_of(
        "agent = hn.Agent([script(call('nap', seconds=0.1), fails('billing'), name='first'),\n"
        "                  script(call('echo', text='x' * 900), call('nap', seconds=60), name='second')],\n"
        "                 tools=[nap, echo], budget=5, guard=None)\n"
        "run = agent.start('Go', session=False)\nrun",
        STOP,
    )
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    notebook.panel().get_by_text("fallback 1, instead of first:script").wait_for()
    notebook.steer("please")
    for theme in THEMES:
        notebook.theme(theme)
        assert texts_too_faint(notebook.panel()) == [], theme
    notebook.run_and_wait(2)
    notebook.record().wait_for()
    for theme in THEMES:
        notebook.theme(theme)
        assert texts_too_faint(notebook.record()) == [], theme


def test_the_colours_of_the_system_are_used_where_it_forces_them(page_of):
    notebook = page_of(LONG, STOP)
    notebook.page.emulate_media(forced_colors="active", reduced_motion="reduce", contrast="more")
    notebook.run_and_wait(1)
    piece = notebook.panel().locator(".hnb-piece").first
    piece.wait_for()
    assert piece.evaluate("node => getComputedStyle(node).backgroundColor") != "rgba(0, 0, 0, 0)"
    notebook.run_and_wait(2)


@pytest.mark.parametrize("width", [360, 700, 1600])
def test_nothing_sticks_out_at_any_width(page_of, width):
    notebook = page_of(LONG, STOP, width=max(width, 480) if width < 480 else width)
    notebook.command("application:toggle-left-area")
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    if width == 360:
        notebook.page.set_viewport_size({"width": 480, "height": 1000})
    sticking = """root => [...root.querySelectorAll('*')].filter(node => {
      const box = node.getBoundingClientRect(), edge = root.getBoundingClientRect();
      const out = box.right > edge.right + 1 || box.bottom > edge.bottom + 1;
      return box.width && out && !node.closest('.hnb-log, .hnb-axis');
    }).map(node => node.className)"""
    assert notebook.panel().evaluate(sticking) == []
    live = notebook.panel().bounding_box()
    assert notebook.panel().get_by_role("button", name="Interrupt").is_visible()
    notebook.run_and_wait(2)
    record = notebook.record()
    record.wait_for()
    frozen = record.bounding_box()
    assert abs(live["height"] - frozen["height"]) <= 2
    assert abs(live["width"] - frozen["width"]) <= 2


def test_the_panel_is_told_to_a_screen_reader(page_of):
    notebook = page_of(LONG, STOP)
    notebook.run_and_wait(1)
    notebook.panel().get_by_text("running nap").wait_for()
    told = notebook.page.locator(".hnb-frame").first.aria_snapshot()
    for line in (
        '- region "Turn of agent"',
        '- progressbar "Iterations"',
        'slider "tools: ',
        '- log "Transcript"',
        '- textbox "Steer the running turn; Enter sends, Shift+Enter makes a new line"',
        '- button "Steer"',
        '- button "Pause"',
        '- button "Step" [disabled]',
        '- button "Interrupt"',
        "- status",
    ):
        assert line in told, f"{line} is not in\n{told}"
    notebook.run_and_wait(2)


HOSTILE = """
bad = ['<img src=x onerror="window.pwned=1">', "</div><script>window.pwned=1</script>",
       "<a href='javascript:window.pwned=1'>y</a> [x](javascript:window.pwned=1)", '" onmouseover="window.pwned=1" x="',
       "$\\\\href{javascript:window.pwned=1}{click}$ $$x^2$$", "\\x1b[31mred\\x1b[0m", "user\\u202egnp.exe",
       "half \\ud83d", "y" * 1_000_000]
text = " ".join(bad)
evil = hn.Agent(script(*[calls(call("echo", text=one), text=one) for one in bad], fails("billing"),
                       name=text[:300], model=text[:300]),
                tools=[echo, nap], name=text[:300], budget=30, guard=None)
held = hn.Agent(script(*[calls(call("echo", text=one), text=one) for one in bad], call("nap", seconds=60),
                       name=text[:300], model=text[:300]),
                tools=[echo, nap], name=text[:300], budget=30, guard=None)
run = held.start(text, session=False)
run.steer(text[:4000])
run
"""


def test_hostile_texts_run_nothing_live_and_frozen_in_a_trusted_notebook(page_of):
    notebook = page_of(HOSTILE, STOP, "evil.start(text, session=False)", "time.sleep(1)")
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.get_by_text("running nap").wait_for()
    elements = "root => [...root.querySelectorAll('img, script, a, iframe, mjx-container')].length"
    assert panel.evaluate(elements) == 0
    panel.locator("summary").first.click()
    assert panel.evaluate("() => window.pwned") is None
    notebook.run_and_wait(2)
    notebook.run_and_wait(3)
    notebook.run_and_wait(4)
    notebook.record().wait_for()
    notebook.page.wait_for_timeout(300)
    for record in notebook.page.locator(".hermes-nb-record").all():
        assert record.evaluate(elements) == 0
        record.locator("summary").first.click()
    assert notebook.page.evaluate("() => window.pwned") is None
    assert not notebook.errors


POISONED = """
from hermes_nb.widgets.display import Output, before, view
from hermes_nb.widgets.painter import painter
from hermes_nb.widgets.panel import Panel
from tests.support.contrast import texts_too_faint
from tests.support.hostile import HOSTILE, poisoned

def told(text):
    "The live panel of a turn that has told this text in every field."
    run, output = hn.Agent(script(say("x"))).start("Go", session=False, paused=True), Output()
    panel = Panel(run, before(run), output.freeze)
    panel._events.extend(poisoned(text, run.turn_id))
    output.publish({"text/plain": "live", **view(panel)}, update=False)
    painter.add(panel)
    return run

runs = [told(text) for text in HOSTILE.values()]
"""


def test_every_field_stays_text_live_and_frozen_in_a_trusted_notebook(page_of):
    notebook = page_of(POISONED, "for run in runs:\n    run.interrupt()\n    run.wait()")
    assert "Error" not in notebook.run_and_wait(1)
    panels, records = notebook.page.locator(".hnb"), notebook.page.locator(".hermes-nb-record")
    elements = "roots => roots.flatMap(r => [...r.querySelectorAll('img, script, a, iframe, mjx-container')]).length"
    panels.locator(".hnb-row-end").nth(len(HOSTILE_TEXTS) - 1).wait_for(state="attached")
    assert panels.count() == len(HOSTILE_TEXTS)
    assert panels.evaluate_all(elements) == 0
    panels.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert notebook.page.evaluate("() => window.pwned") is None
    notebook.run_and_wait(2)
    records.nth(len(HOSTILE_TEXTS) - 1).wait_for()
    assert records.evaluate_all(elements) == 0
    records.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    notebook.page.wait_for_timeout(300)
    assert notebook.page.evaluate("() => window.pwned") is None
    assert not notebook.errors


MANY = """
@hn.tool
def quick() -> str:
    "Nothing."
    return "x"

import math
many = hn.Agent(script(*[call("quick")] * 3300, call("nap", seconds=60)), tools=[quick, nap], budget=4000, guard=None,
                guardrails=hn.Guardrails(repeats=(math.inf, math.inf)))
run = many.start("Go", session=False)
run
"""


def test_a_transcript_of_ten_thousand_rows_stays_smooth(page_of):
    notebook = page_of(MANY, STOP)
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.locator(".hnb-phase").get_by_text("running nap").wait_for(timeout=90_000)
    notebook.page.wait_for_function(
        "() => document.querySelector('.hnb .hnb-rows').scrollHeight > 150_000", timeout=60_000
    )
    assert panel.evaluate("root => root.querySelectorAll('.hnb-row').length") < 1_500
    assert panel.evaluate("root => root.querySelectorAll('.hnb-piece').length") < 3_000
    slowest = panel.locator(".hnb-log").evaluate("""async log => {
      let slowest = 0, last = performance.now();
      for (let step = 0; step < 60; step++) {
        log.scrollTop = (log.scrollHeight * ((step * 7) % 60)) / 60;
        await new Promise(requestAnimationFrame);
        slowest = Math.max(slowest, performance.now() - last); last = performance.now();
      }
      return slowest; }""")
    print(f"slowest frame while jumping through 10,000 rows: {slowest:.0f} ms")
    assert slowest < 1_000
    notebook.run_and_wait(2)
    notebook.record().wait_for()
    assert "rows left out here; run.trace has them all." in notebook.record().text_content()


def test_scroll_position_and_unfolded_rows_stay_while_rows_come(page_of):
    look = "calls(call('echo', text='a\\nb\\nc\\nd\\n' * 3), call('nap', seconds=0.25))"
    notebook = page_of(f"run = start(*[{look}] * 30, budget=40)\nrun", STOP)
    notebook.run_and_wait(1)
    panel, log = notebook.panel(), notebook.panel().locator(".hnb-log")
    panel.get_by_text("Iteration 8", exact=True).wait_for()
    log.evaluate("log => { log.scrollTop = 60; }")
    panel.locator("summary").nth(1).click()
    before = log.evaluate("log => log.scrollTop")
    panel.locator(".hnb-latest").wait_for()
    notebook.page.wait_for_timeout(1500)
    assert log.evaluate("log => log.scrollTop") == before
    assert panel.locator("details[open]").count() == 1
    panel.get_by_role("button", name="Jump to latest").click()
    assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 30
    notebook.run_and_wait(2)


SLOWLY = """
import anyio
from hermes_nb.vocabulary.messages import Message, Reply

async def ask(request, on_text):
    text = "Look at `budget.py` and " + "then at the next line of it, " * 60
    for word in text.split(" "):
        on_text(word + " ")
        await anyio.sleep(0.03)
    return Reply(Message("assistant", text))

run = hn.Agent(hn.as_provider(ask, name="slow"), guard=None).start("Go", session=False)
run
"""


def test_a_selection_in_a_reply_stays_while_the_reply_grows(page_of):
    notebook = page_of(SLOWLY, STOP)
    notebook.run_and_wait(1)
    draft = notebook.panel().locator(".hnb-draft .hnb-body")
    draft.get_by_text("and then").wait_for()
    assert draft.locator("code").text_content() == "budget.py"
    draft.evaluate("""node => { const range = document.createRange(), text = node.querySelector('code').nextSibling;
      range.setStart(text, 1); range.setEnd(text, 4); getSelection().removeAllRanges(); getSelection().addRange(range);
    }""")
    before = len(draft.text_content())
    notebook.page.wait_for_function(
        "n => document.querySelector('.hnb-draft .hnb-body').textContent.length > n + 200", arg=before
    )
    assert notebook.page.evaluate("getSelection().toString()") == "and"
    notebook.run_and_wait(2)


def test_a_bar_leads_to_its_row_and_a_row_lights_its_bar(page_of):
    look = "*[call('echo', text='more')] * 12"
    notebook = page_of(f"run = start({look}, call('nap', seconds=60), budget=20)\nrun", STOP)
    notebook.run_and_wait(1)
    panel = notebook.panel()
    panel.get_by_text("running nap").wait_for()
    panel.locator(".hnb-piece.hnb-tools").last.click()
    panel.locator(".hnb-flash").get_by_text("nap").wait_for()
    panel.locator(".hnb-row-tool").last.hover()
    panel.locator(".hnb-piece.hnb-lit").wait_for()
    notebook.run_and_wait(2)


def test_the_timeline_is_reached_and_read_with_the_keys_alone(page_of):
    look = "*[call('nap', seconds=seconds) for seconds in (0.31, 0.32, 0.33)]"
    notebook = page_of(f"run = start({look}, call('nap', seconds=60))\nrun", STOP)
    notebook.run_and_wait(1)
    panel, keys = notebook.panel(), notebook.page.keyboard
    panel.get_by_text("Iteration 4", exact=True).wait_for()
    panel.get_by_text("running nap").wait_for()
    model, tools = (panel.get_by_role("slider", name=name) for name in ("model: ", "tools: "))
    panel.get_by_role("log").focus()
    keys.press("Shift+Tab")
    assert model.evaluate("node => node === document.activeElement")
    keys.press("ArrowDown")
    assert tools.evaluate("node => node === document.activeElement")
    assert tools.get_attribute("aria-valuetext").startswith("nap (")
    assert tools.get_attribute("aria-valuenow") == tools.get_attribute("aria-valuemax") == "4"
    keys.press("Home")
    keys.press("ArrowRight")
    assert tools.get_attribute("aria-valuenow") == "2"
    assert tools.get_attribute("aria-valuetext").startswith("nap (0.")
    assert panel.locator(".hnb-lit").count() == 1
    notebook.page.wait_for_timeout(600)  # the bars are drawn again, and the chosen one stays lit
    assert tools.locator(".hnb-piece").nth(1).evaluate("node => node.classList.contains('hnb-lit')")
    keys.press("Enter")
    row = panel.locator(".hnb-row:focus")
    assert "0.32" in row.text_content()
    assert tools.locator(".hnb-piece.hnb-lit").count() == 1  # and the row lights its bar
    keys.type("dd")
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == 3
    tools.focus()
    assert tools.get_attribute("aria-valuenow") == "2"
    keys.press("Tab")
    assert panel.get_by_role("log").evaluate("node => node === document.activeElement")
    notebook.run_and_wait(2)


def size(locator):
    box = locator.bounding_box()
    return box["width"], box["height"]


def test_a_saved_notebook_shows_the_record_trusted_untrusted_and_exported(page_of, server, chrome):
    turn = "run = start(call('nap', seconds=0.3), say('The answer is `42 < 43`.'))\nrun"
    notebook = page_of(turn, "_ = run.result()")
    notebook.run_and_wait(1)
    notebook.run_and_wait(2)
    notebook.record().wait_for()
    shown = size(notebook.record())
    notebook.save()
    path = server.root / notebook.name
    saved = nbformat.read(path, 4)
    assert "widgets" not in saved.metadata
    assert set(saved.cells[1].outputs[0].data) == {"text/html", "text/plain"}
    assert path.stat().st_size < 30_000

    notebook.visit(server.url(notebook.name))
    assert size(notebook.record()) == pytest.approx(shown, abs=2)

    saved.metadata["changed"] = "elsewhere"
    saved.cells[0].source += "\n"
    nbformat.write(saved, server.root / "untrusted.ipynb")
    other = Notebook.open(chrome, server.url("untrusted.ipynb"))
    record = other.record()
    assert size(record) == pytest.approx(shown, abs=2)
    assert "The answer is 42 < 43." in record.inner_text()
    assert record.locator("table").first.evaluate("node => getComputedStyle(node).width") != "0px"
    widths = record.locator('div[style*="position"]').evaluate_all("nodes => nodes.map(n => n.clientWidth)")
    assert max(widths) > 20
    other.close()

    command = [sys.executable, "-m", "nbconvert", "--to", "html", path, "--output", "exported"]
    subprocess.run(command, check=True, capture_output=True)
    page = chrome.new_page()
    page.goto((server.root / "exported.html").as_uri())
    exported = page.locator(".hermes-nb-record")
    exported.wait_for()
    assert "The answer is 42 < 43." in exported.inner_text()
    page.close()
