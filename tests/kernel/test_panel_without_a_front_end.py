"""Notebooks that no one looks at, terminals, plain Python: a run shows itself there too; nothing waits for a click."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.jupyter import ROOT, write_notebook

pytestmark = pytest.mark.kernel

SETUP = """
import time
import hermes_nb as hn
from hermes_nb.testing import call, say, script

@hn.tool
def nap(seconds: float) -> str:
    "Sleep."
    time.sleep(seconds)
    return "slept"

agent = hn.Agent(script(call("nap", seconds=0.5), say("the end"), each_turn=True), tools=[nap])
"""


@pytest.fixture
def executed(tmp_path):
    """Runs the cells as nbmake, papermill and nbconvert do."""

    def executed(*cells):
        path = write_notebook(tmp_path / "a.ipynb", [SETUP, *cells])
        notebook = nbformat.read(path, 4)
        NotebookClient(notebook, timeout=30, resources={"metadata": {"path": tmp_path}}).execute()
        nbformat.write(notebook, path)
        notebook.size = path.stat().st_size
        return notebook

    return executed


def test_a_notebook_that_waits_for_its_turn_holds_the_record(executed):
    began = time.monotonic()
    notebook = executed("run = agent.start('Go', session=False)\nrun", "x = 1", "result = run.result()", "result.text")
    assert time.monotonic() - began < 25
    (shown,) = notebook.cells[1].outputs
    assert set(shown.data) == {"text/html", "text/plain"}
    assert "Completed. 2 iterations" in shown.data["text/plain"]
    assert "the end" in shown.data["text/html"]


def test_an_awaited_turn_and_one_in_its_own_cell_are_recorded_too(executed):
    notebook = executed("run = agent.start('Go', session=False)\nrun", "_ = await run",
                        "from IPython.display import display\nrun = agent.start('Go', session=False)\n"
                        "display(run)\n_ = run.result()")  # fmt: skip
    for cell in (1, 3):
        assert "Completed. 2 iterations" in notebook.cells[cell].outputs[0].data["text/plain"]


def test_the_state_of_the_widget_is_not_kept_in_the_file(executed):
    notebook = executed("run = agent.start('Go', session=False)\nrun", "_ = run.result()")
    kept = notebook.metadata.get("widgets", {}).get("application/vnd.jupyter.widget-state+json", {}).get("state", {})
    assert all(len(str(state)) < 3_000 for state in kept.values())
    assert notebook.size < 15_000


def test_a_turn_that_nobody_waits_for_is_shown_as_it_stood(executed):
    notebook = executed("agent.with_(tools=[nap]).start('Go', session=False)")
    (shown,) = notebook.cells[1].outputs
    assert "application/vnd.jupyter.widget-view+json" in shown.data
    assert "Running" in shown.data["text/plain"]


def test_in_a_terminal_a_run_is_a_few_lines_of_text(tmp_path):
    slow = SETUP.replace("seconds=0.5", "seconds=4")
    code = slow + "\nrun = agent.start('Go', session=False)\nget_ipython().display_formatter.format(run)\n"
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor", "-c",
               code + "print('----')\nrun.result()\nget_ipython().display_formatter.format(run)"]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT,
        env={"IPYTHONDIR": str(tmp_path), "HERMES_NB_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    first, second = done.stdout.split("----")
    assert re.search(r"agent \(script:script\): (Starting|Running): ", first)
    assert "agent (script:script): Completed. 2 iterations" in second
    assert "assistant   the end" in second


def test_a_notebook_run_by_papermill_holds_the_record(tmp_path):
    papermill = pytest.importorskip("papermill")
    cells = [SETUP, "prompt = 'Go'", "run = agent.start(prompt, session=False)\nrun", "print(run.result().text)"]
    path = write_notebook(tmp_path / "a.ipynb", cells)
    notebook = nbformat.read(path, 4)
    notebook.cells[1].metadata["tags"] = ["parameters"]
    nbformat.write(notebook, path)
    papermill.execute_notebook(path, tmp_path / "b.ipynb", {"prompt": "<b>Why?</b>"}, progress_bar=False, cwd=tmp_path)
    done = nbformat.read(tmp_path / "b.ipynb", 4)
    (shown,) = done.cells[3].outputs
    assert set(shown.data) == {"text/html", "text/plain"}
    assert "Completed. 2 iterations" in shown.data["text/plain"]
    assert "&lt;b&gt;Why?&lt;/b&gt;" in shown.data["text/html"]
    assert done.cells[4].outputs[0].text == "the end\n"


@pytest.fixture
def terminal(tmp_path):
    """IPython in a terminal of its own, with the agent of these tests."""
    pexpect = pytest.importorskip("pexpect", reason="there are terminals on POSIX only")
    env = {**os.environ, "IPYTHONDIR": str(tmp_path), "PYTHONPATH": str(ROOT), "TERM": "dumb"}
    (tmp_path / "setup.py").write_text(SETUP.replace("seconds=0.5", "seconds=60"))
    command = ["-m", "IPython", "--no-banner", "--colors=NoColor", "--simple-prompt", "-i", str(tmp_path / "setup.py")]
    child = pexpect.spawn(sys.executable, command, env=env, encoding="utf-8", timeout=30, dimensions=(50, 150))
    child.expect(r"In \[1\]: ")
    yield child
    child.close(force=True)


def test_in_a_real_terminal_control_c_ends_the_turn_and_the_next_one_works(terminal):
    terminal.sendline("run = agent.start('Go', session=False); run")
    terminal.expect(r"agent \(script:script\): (Starting|Running): .*\n")
    terminal.expect(r"In \[2\]: ")
    terminal.sendline("print(run.result().exit_reason)")
    time.sleep(0.8)
    terminal.sendintr()
    terminal.expect("interrupted_by_kernel")
    terminal.expect(r"In \[3\]: ")
    terminal.sendline("run")
    terminal.expect("Interrupted by the kernel's stop button in iteration 1, while a tool was running.")
    terminal.sendline("print(hn.Agent(script(say('fine'))).run('Go', session=False).text)")
    terminal.expect(r"\nfine")
    assert "Traceback" not in terminal.before


def test_in_plain_python_a_run_is_its_repr():
    code = (
        SETUP
        + "\nrun = agent.start('Go', session=False)\nrun.result()\nprint(repr(run))\nimport sys\n"
        + ("print([name for name in ('ipywidgets', 'anywidget', 'IPython') if name in sys.modules])")
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, cwd=ROOT
    )
    shown, heavy = done.stdout.splitlines()
    assert shown.startswith("<Run ")
    assert heavy == "[]"
