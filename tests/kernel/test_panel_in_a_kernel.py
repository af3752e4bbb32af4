"""The panel in a real kernel, with messages as a front end sends them."""

from __future__ import annotations

import time

import pytest

from tests.support.jupyter import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
import math, time
import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, say, script

@hn.tool
def nap(seconds: float) -> str:
    "Sleep."
    for _ in range(int(seconds * 20)):
        time.sleep(0.05)
    return "slept"

def start(*steps, **more):
    return hn.Agent(script(*steps), tools=[nap], **{"budget": 8, **more}).start("Go", session=False)
"""


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        kernel.run(SETUP)
        yield kernel


def show(kernel, code):
    """Start a turn in a cell that shows its panel; returns the panel's comm."""
    kernel.run(code)
    return kernel.panels()[-1]


def until(kernel, condition, seconds=20):
    """Take messages in until the condition holds."""
    if condition():
        return
    for _ in kernel.listen(seconds):
        if condition():
            return


def test_a_click_on_interrupt_ends_the_turn_with_its_messages_kept(kernel):
    comm = show(kernel, "run = start(call('nap', seconds=0.1), call('nap', seconds=60))\nrun")
    until(kernel, lambda: _is_running(kernel, comm, "nap", iteration="2"))
    kernel.say(comm, "interrupt")
    told = kernel.run("began = time.time(); print(run.wait(10), run.result().exit_reason, time.time() - began < 5)")
    assert told == "True interrupted_by_user True"
    assert kernel.run("print([m.role for m in run.result().messages])") == (
        "['user', 'assistant', 'tool', 'assistant', 'tool', 'assistant']"
    )


def _is_running(kernel, comm, tool, iteration):
    head = kernel.state(comm)["head"]
    return head["phase"]["text"] == f"running {tool}" and head["gauges"][0]["value"] == iteration


def test_the_panel_becomes_a_record_of_text_and_html_alone(kernel):
    comm = show(kernel, "run = start(call('nap', seconds=0.2), say('<b>done</b>'))\nrun")
    shown = [m for m in kernel.messages if m["msg_type"] == "display_data"][-1]["content"]
    assert set(shown["data"]) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    kernel.run("_ = run.result()")
    updates = [m for m in kernel.messages if m["msg_type"] == "update_display_data"]
    last = updates[-1]["content"]
    assert last["transient"]["display_id"] == shown["transient"]["display_id"]
    assert set(last["data"]) == {"text/html", "text/plain"}
    assert "Completed. 2 iterations" in last["data"]["text/plain"]
    assert "&lt;b&gt;done&lt;/b&gt;" in last["data"]["text/html"]
    assert kernel.state(comm)["_esm"] == ""


def test_a_panel_that_is_looked_at_stays_until_the_record_is_in_its_place(kernel):
    comm = show(kernel, "run = start(call('nap', seconds=0.2), say('done'))\nrun")
    kernel.say(comm, "fetch", rows=0, bars=0)
    kernel.run("_ = run.result()")
    assert kernel.state(comm)["head"]["done"]
    assert not _closed(kernel, comm)
    kernel.say(comm, "gone")
    until(kernel, lambda: _closed(kernel, comm))


def _closed(kernel, comm):
    return any(m["msg_type"] == "comm_close" and m["content"]["comm_id"] == comm for m in kernel.messages)


def test_a_steer_arrives_as_it_was_typed(kernel):
    text = 'Check the <b>retry</b> "path", 👩‍🔬 & שלום\nthen \\n stop'
    comm = show(kernel, "run = start(call('nap', seconds=1), say('ok'))\nrun")
    kernel.say(comm, "steer", text=text)
    kernel.run("_ = run.result()")
    assert kernel.run("print([m.content for m in run.result().messages if m.origin == 'steer'])") == str([text])
    assert kernel.state(comm)["head"]["steers"] == []
    answers = [m["content"]["data"]["content"] for m in kernel.messages
               if m["msg_type"] == "comm_msg" and m["content"]["data"].get("method") == "custom"]  # fmt: skip
    assert {"kind": "answer", "id": 1, "error": ""}.items() <= answers[-1].items()


def test_pause_step_and_resume_from_the_panel(kernel):
    comm = show(kernel, "run = start(*[call('nap', seconds=0.2)] * 4, say('done'))\nrun")
    kernel.say(comm, "pause")
    until(kernel, lambda: kernel.state(comm)["head"]["status"]["word"] == "Paused")
    before = int(kernel.state(comm)["head"]["gauges"][0]["value"])
    assert set(kernel.state(comm)["head"]["cannot"]) == {"pause"}
    kernel.say(comm, "step")
    until(kernel, lambda: _stands(kernel, comm, before + 1))
    kernel.say(comm, "resume")
    assert kernel.run("print(run.result().exit_reason, run.result().iterations)") == "completed 5"


def _stands(kernel, comm, iterations):
    head = kernel.state(comm)["head"]
    return head["status"]["word"] == "Paused" and int(head["gauges"][0]["value"]) == iterations


def test_messages_of_unknown_kinds_are_ignored(kernel):
    comm = show(kernel, "run = start(call('nap', seconds=0.5), say('done'))\nrun")
    for kind, fields in (("explode", {}), ("steer", {"text": "x" * 20_000}), ("steer", {"text": 5}),
                         (["steer"], {}), ("interrupt", {"id": "1"}), ("fetch", {"rows": -1, "bars": 0})):  # fmt: skip
        kernel.say(comm, kind, **fields)
    assert kernel.run("print(run.result().exit_reason, run.result().pending_steer)") == "completed None"


def test_a_click_passes_while_a_cell_blocks_the_kernel():
    """Front ends send it to a shell of its own; the widget must not send it back to the main one.

    The name is private to ipykernel 7.4; when it goes, this says so, and the browser tests say what that means.
    """
    comm = pytest.importorskip("ipykernel.comm.comm")
    if not hasattr(comm.BaseComm, "_reply_subshell_for"):
        pytest.skip("this ipykernel routes clicks as the front end asked")
    with Kernel() as kernel:
        kernel.run(SETUP)
        kernel.run(
            "from hermes_nb.widgets.panel import Panel\n"
            "from hermes_nb.widgets.display import before\n"
            "run = start(say('x', seconds=0.2))\n"
            "panel = Panel(run, before(run), lambda *_: None)"
        )
        assert kernel.run("print(panel.comm._reply_subshell_for)") == "None"


def test_several_panels_on_one_run_all_show_its_end(kernel):
    kernel.run("run = start(call('nap', seconds=0.3), say('done'))\nrun")
    kernel.run("run")
    kernel.run("run")
    first, second, third = kernel.panels()[-3:]
    kernel.say(second, "interrupt")
    kernel.run("_ = run.result()")
    ends = {m["content"]["transient"]["display_id"]: m["content"]["data"]["text/plain"]
            for m in kernel.messages if m["msg_type"] == "update_display_data"}  # fmt: skip
    assert ["Interrupted by you" in text for text in list(ends.values())[-3:]] == [True] * 3
    assert len({first, second, third}) == 3


def test_an_interrupt_touches_the_turn_of_its_own_panel_alone(kernel):
    agent = "agent = hn.Agent(script(call('nap', seconds=0.6), say('done'), each_turn=True), tools=[nap])"
    kernel.run(agent)
    first = show(kernel, "one = agent.start('Go', session=False)\none")
    second = show(kernel, "two = agent.start('Go', session=False)\ntwo")
    assert first != second
    kernel.say(first, "interrupt")
    told = kernel.run("print(one.result().exit_reason, two.result().exit_reason)")
    assert told == "interrupted_by_user completed"


def test_a_closed_tab_does_not_stop_the_turn_and_it_can_be_shown_again(kernel):
    comm = show(kernel, "run = start(call('nap', seconds=0.8), say('done'))\nrun")
    kernel.client.shell_channel.send(kernel.client.session.msg("comm_close", {"comm_id": comm, "data": {}}))
    again = show(kernel, "run")
    assert again != comm
    assert kernel.run("print(run.result().exit_reason)") == "completed"
    assert kernel.state(again)["head"] == {}


def test_a_run_that_is_over_is_shown_as_its_record(kernel):
    kernel.run("run = start(say('done')); _ = run.result()")
    before = len(kernel.panels())
    assert kernel.run("run").startswith("agent (script:script): Completed. 1 iteration")
    assert len(kernel.panels()) == before


def test_without_widgets_a_text_stands_there_and_nothing_else_changes():
    with Kernel() as kernel:
        kernel.run("import sys; sys.modules['anywidget'] = sys.modules['ipywidgets'] = None")
        kernel.run(SETUP)
        told = kernel.run("run = start(call('nap', seconds=0.5), say('done'))\nrun")
        assert told.startswith("agent (script:script): ")
        assert kernel.run("print(run.result().exit_reason)") == "completed"
        kernel.drain()
        last = [m["content"]["data"] for m in kernel.messages if m["msg_type"] == "update_display_data"][-1]
        assert set(last) == {"text/html", "text/plain"}
        assert "Completed" in last["text/plain"]


def test_a_flood_of_events_is_a_trickle_of_messages_and_the_last_state_is_right(kernel):
    """Twenty thousand pieces of a reply, then five hundred iterations of a tool that takes no time."""
    kernel.run("""
@hn.tool
def quick() -> str:
    "Nothing."
    return "x"

words = hn.Agent(script(calls(call("quick"), text=" ".join(["token"] * 20_000)), *[call("quick")] * 500, say("end")),
                 tools=[quick], budget=600, guardrails=hn.Guardrails(repeats=(math.inf, math.inf)))
""")
    comm = show(kernel, "run = words.start('Go', session=False)\nrun")
    began = time.monotonic()
    kernel.run("result = run.result()", seconds=100)
    kernel.drain()
    took = time.monotonic() - began
    sent = [m for m in kernel.messages if m["content"].get("comm_id") == comm and m["msg_type"] == "comm_msg"]
    assert len(sent) < 12 * took + 20
    record = [m["content"]["data"]["text/plain"] for m in kernel.messages
              if m["msg_type"] == "update_display_data"][-1]  # fmt: skip
    used = kernel.run("print(result.budget.used)")
    assert f"Iterations  {used} of 600" in record
