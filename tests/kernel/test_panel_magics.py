"""The magics in a real kernel."""

from __future__ import annotations

import pytest

from tests.support.jupyter import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
%load_ext hermes_nb
import time
import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, say, script

@hn.tool
def nap(seconds: float) -> str:
    "Sleep."
    for _ in range(int(seconds * 20)):
        time.sleep(0.05)
    return "slept"

agent = hn.Agent(script(call("nap", seconds=0.3), say("done"), each_turn=True), tools=[nap], name="helper")
slow = hn.Agent(script(call("nap", seconds=30), say("done"), each_turn=True), tools=[nap], name="slow")
"""


@pytest.fixture(scope="module")
def started():
    with Kernel() as kernel:
        yield kernel


@pytest.fixture
def kernel(started):
    started.run("%reset -f")
    started.run(SETUP)
    return started


def fails_with(kernel, code):
    """What a cell says that goes wrong: magics tell it in one line, without a traceback."""
    told = kernel.run(code)
    assert told.startswith("UsageError: ")
    assert "\n" not in told
    return told


def test_a_turn_takes_its_prompt_from_the_cell_as_it_stands_there(kernel):
    prompt = 'Sum {up} $HOME, don\'t %touch "it"\n    indented\n%%also this'
    assert "helper" in kernel.run(f"%%turn agent --budget 4 --as run\n{prompt}")
    assert kernel.panels()
    assert kernel.run("print(run.result().messages[0].text)") == prompt
    assert kernel.run("print(run.budget.view().limit, agent.budget)") == "4 90"


def test_a_turn_can_be_waited_for_in_its_own_cell(kernel):
    kernel.run("%%turn agent --as run --wait\nGo")
    assert kernel.run("print(run.done, run.result().text)") == "True done"


def test_the_run_is_the_value_of_the_cell(kernel):
    kernel.run("%%turn agent\nGo")
    assert kernel.run("print(_.result().text)") == "done"


def test_the_agent_may_be_an_expression_or_left_out_where_there_is_one(kernel):
    kernel.run("agents = {'a': agent}")
    kernel.run("%%turn agents['a'] --as run\nGo")
    assert kernel.run("print(run.agent is agent)") == "True"
    assert "which agent? %%turn AGENT; there is: agent, slow" in fails_with(kernel, "%%turn\nGo")
    kernel.run("del slow")
    kernel.run("%%turn --as run\nGo")
    assert kernel.run("print(run.agent is agent)") == "True"


def test_an_agent_that_a_cell_has_shown_is_not_taken_for_a_second_one(kernel):
    kernel.run("del slow")
    kernel.run("agent.with_(name='shown')")
    kernel.run("%%turn --as run --wait\nGo")
    assert kernel.run("print(run.request.agent)") == "helper"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%%turn nobody\nGo", "'nobody' cannot be the agent: name 'nobody' is not defined; there is: agent, slow"),
        ("%%turn hn\nGo", "'hn' is not an agent but module; there is: agent, slow"),
        ("%%turn agent --budget x\nGo", "argument --budget: invalid int value: 'x'"),
        ("%%turn agent --budget -1\nGo", "0 or more, not -1"),
        ("%%turn agent --as 1x\nGo", "--as needs the name of a variable, not '1x'"),
        ("%%turn agent --verbose\nGo", "unrecognized arguments: --verbose"),
        ("%%turn agent\n \n", "a prompt that is not blank"),
        ("%steer go left", "no turn is running"),
        ("%interrupt", "no turn is running"),
        ("%interrupt --run agent", "'agent' is not a run; running: none"),
        ("%turns --logbook /nowhere/at/all.db", "there is no logbook at '/nowhere/at/all.db'"),
        ("%%turn agent --as class\nGo", "--as needs the name of a variable, not 'class'"),
        ('%%turn agent "\nGo', "%%turn cannot read its line: No closing quotation"),
        ("%interrupt 'run", "%interrupt cannot read its line: No closing quotation"),
    ],
)
def test_a_mistake_is_told_in_one_line(kernel, cell, said):
    assert said in fails_with(kernel, cell)


def test_steer_and_interrupt_find_the_turn_that_is_running(kernel):
    kernel.run("%%turn slow --as run\nGo")
    assert kernel.run('%steer Don\'t {stop}, say "$x"') == "'steer 1: queued'"
    assert kernel.run("%%steer --run run\ntwo\nlines") == "'steer 2: queued'"
    kernel.run("%interrupt")
    assert kernel.run("print(run.result().exit_reason)") == "interrupted_by_user"
    assert kernel.run("print(run.result().pending_steer)") == 'Don\'t {stop}, say "$x"\ntwo\nlines'


def test_of_several_running_turns_one_must_be_named(kernel):
    kernel.run("%%turn slow --as one\nGo")
    kernel.run("%%turn slow --as two\nGo")
    assert "several turns are running; say which with --run: one, two" in fails_with(kernel, "%steer hi")
    kernel.run("%interrupt --run two")
    assert kernel.run("print(two.result().exit_reason, one.done)") == "interrupted_by_user False"
    kernel.run("%interrupt --after-iteration --run one")
    kernel.run("one.interrupt()")
    assert kernel.run("print(one.result().exit_reason)") == "interrupted_by_user"


def test_a_blank_steer_says_how_it_is_done(kernel):
    kernel.run("%%turn slow --as run\nGo")
    assert "a steer needs some text: %steer [--run NAME] text" in fails_with(kernel, "%steer ")
    assert "the text of %%steer is the cell's" in fails_with(kernel, "%%steer what\nwhere")
    kernel.run("run.interrupt(); _ = run.result()")


def test_turns_lists_running_and_past_turns(kernel):
    kernel.run("%%turn agent --as first --wait\nOne <b>question</b>")
    kernel.run("%%turn slow --as second\nAnother")
    lines = kernel.run("%turns -n 0").splitlines()
    assert lines[0].split() == ["name", "turn", "began", "agent", "state", "prompt"]
    told = [(line.split()[0], line.split()[4]) for line in lines[1:]]
    assert sorted(told) == [("first", "helper"), ("second", "slow")]
    assert "completed" in kernel.run("%turns")
    html = [m["content"]["data"].get("text/html") for m in kernel.messages if m["msg_type"] == "execute_result"][-1]
    assert "&lt;b&gt;question&lt;/b&gt;" in html
    kernel.run("second.interrupt(); _ = second.result(); del first, second")
    assert "interrupted by user" in kernel.run("%turns -n 2")
    assert "first" not in kernel.run("%turns")
    assert "One <b>question</b>" not in kernel.run("%turns -n 0")


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("%%turn ", {"agent", "slow", "--budget", "--as", "--wait", "--paused"}),
        ("%%turn agent --b", {"--budget"}),
        ("%turns -", {"--logbook"}),
        ("%interrupt --a", {"--after-iteration"}),
    ],
)
def test_agents_and_options_are_completed(kernel, line, offered):
    kernel.client.complete(line, len(line))
    reply = kernel.client.get_shell_msg(timeout=10)
    while reply["msg_type"] != "complete_reply":
        reply = kernel.client.get_shell_msg(timeout=10)
    assert offered <= {match.strip() for match in reply["content"]["matches"]}


def test_the_extension_can_be_unloaded_and_loaded_again(kernel):
    kernel.run("%unload_ext hermes_nb")
    assert "not found" in fails_with(kernel, "%%turn agent\nGo")
    kernel.run("%load_ext hermes_nb")
    kernel.run("%%turn agent --wait\nGo")
