"""Pictures of the panel in every state that the documentation shows, from a real JupyterLab.

`make pictures` puts them into the documentation's folder; `HERMES_NB_PICTURES` names another one. Each is a turn of a
scripted model that is caught in the state of the picture's name.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

STORY = '''\
import re
import anyio
from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage

@hn.tool
def list_files(folder: str) -> str:
    """The files of a folder."""
    time.sleep(0.3)
    return {"src": "budget.py  loop.py  steer.py", "tests": "test_budget.py  test_loop.py  test_steer.py"}[folder]

@hn.tool
def read_file(path: str) -> str:
    """The text of a file."""
    time.sleep(0.5)
    return "class Budget:\\n    def consume(self):\\n        if self.used >= self.limit:\\n            return False"

@hn.tool
def run_tests(folder: str) -> str:
    """Run the tests of a folder."""
    time.sleep(1.1)
    return "test_budget.py ..F.\\ntest_loop.py ....F\\ntest_steer.py F...\\n3 failed, 41 passed in 1.04 s"

def model(name, version, steps, window):
    """Answers with step after step, word by word; a step is a text, calls, or a failure. It never ends the last text
    of a turn that is to be caught in the middle."""
    left = iter(steps)
    async def ask(request, on_text):
        step = next(left)
        if isinstance(step, Failure):
            await anyio.sleep(0.3)
            raise hn.ProviderError(step)
        text, *calls = step
        for word in re.findall(r"\\S+\\s*", text):
            await anyio.sleep(0.06)
            on_text(word)
        if step is ASIDE:
            await anyio.sleep(600)
        tokens = 900 + 160 * sum(message.role != "user" for message in request.messages)
        asked = tuple(ToolCall(f"c{time.time_ns()}{n}", tool, arguments) for n, (tool, arguments) in enumerate(calls))
        return Reply(Message("assistant", text, asked), usage=Usage(tokens, 20 + len(text) // 4))
    return hn.as_provider(ask, name=name, model=version, context_window=window)

LOOK = (
    ("I will look at the files first.", ("list_files", '{"folder": "src"}'), ("list_files", '{"folder": "tests"}')),
    ("Three modules, each with its tests. Running them.", ("run_tests", '{"folder": "tests"}')),
)
READ = ("`test_budget.py` fails where the last iteration is consumed. Reading both sides of it.",
        ("read_file", '{"path": "src/budget.py"}'), ("read_file", '{"path": "src/loop.py"}'))
DONE = ("All three failures have one cause: `consume()` compares with `>=` before the grace call is granted.",)
ASIDE = ("The failing test points at `budget.py`: the counter is compared before the grace call is granted. "
         "So a turn that has one iteration left loses it when a refund comes in between",)
LIMITED = Failure(FailureReason.RATE_LIMIT, "slow down", retry_after=60, status=429)
LIMITED_SHORTLY = Failure(FailureReason.RATE_LIMIT, "slow down", retry_after=1, status=429)
UNPAID = Failure(FailureReason.BILLING, "no credit left", status=402)
CEILING = hn.Ceiling(seconds=120, price=lambda provider, model, usage: usage.total_tokens * 4e-6)

runs = []

def show(*steps, budget=12, backup=()):
    chain = [model("openai", "gpt-4.1-mini", steps, 16_000)]
    if backup:
        chain.append(model("anthropic", "claude-haiku-4-5", backup, 200_000))
    agent = hn.Agent(chain, tools=[list_files, read_file, run_tests], budget=budget, name="reviewer", ceiling=CEILING,
                     guard=None)
    runs.append(agent.start("Why do three tests fail since yesterday?", session=False))
    return runs[-1]
'''
STEER = "Check the retry path too, please."
TURNS = {
    "light": "show(*LOOK, READ, ASIDE)",
    "waiting": "show(*LOOK, LIMITED, DONE)",
    "fallback": "show(*LOOK, UNPAID, backup=[READ, ASIDE])",
    "interrupted": "show(*LOOK, READ, ASIDE)",
    "budget": "show(*LOOK, READ, DONE, budget=3)",
    "frozen": "show(*LOOK, READ, LIMITED_SHORTLY, DONE)",
}
CELLS = {name: number for number, name in enumerate(TURNS, 2)}


def shown(notebook, name):
    """The panel of a turn, or its record."""
    return notebook.cell(CELLS[name]).locator(".hnb, .hermes-nb-record")


def test_pictures_of_every_state(page_of, tmp_path):
    folder = Path(os.environ.get("HERMES_NB_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    notebook = page_of(STORY, *TURNS.values(), "for run in runs:\n    run.interrupt()\n    run.wait()", width=1100)
    notebook.command("application:toggle-left-area")
    pictures = {}

    def picture(name, turn, *told):
        """Take a picture once the turn's panel tells all this."""
        for text in told:
            shown(notebook, turn).get_by_text(text).first.wait_for()
        shown(notebook, turn).scroll_into_view_if_needed()
        notebook.page.mouse.move(2, 2)
        notebook.page.wait_for_timeout(300)
        pictures[name] = folder / f"panel_{name}.png"
        shown(notebook, turn).screenshot(path=str(pictures[name]))

    for cell in range(1, 2 + len(TURNS)):
        notebook.run_and_wait(cell)
    answering = "comes in between"
    shown(notebook, "interrupted").get_by_text(answering).wait_for()
    shown(notebook, "interrupted").get_by_role("button", name="Interrupt", exact=True).click()
    box = shown(notebook, "light").get_by_role("textbox")
    box.fill(STEER)
    box.press("Enter")
    picture("waiting", "waiting", "for rate limit, then attempt 2 of 3")
    picture("fallback", "fallback", "fallback 1, instead of openai:gpt-4.1-mini", answering)
    picture("interrupted", "interrupted", "Interrupted by you in iteration 4", answering)
    picture("budget", "budget", "The budget of 3 iterations is used up; the grace call gave the last answer.")
    picture("frozen", "frozen", "Completed. 4 iterations", "waited 1.0 s as the server asked")
    running = ("gpt-4.1-mini is answering", "waiting to be delivered", answering)
    picture("light", "light", *running)
    notebook.theme("JupyterLab Dark")
    picture("dark", "light", *running)
    picture("frozen_dark", "frozen")
    notebook.theme("JupyterLab Dark High Contrast")
    picture("contrast", "light", *running)
    notebook.theme("JupyterLab Light")
    for name, width in (("narrow", 500), ("wide", 1800)):
        notebook.page.set_viewport_size({"width": width, "height": 1100})
        picture(name, "light", *running)
    notebook.run_and_wait(2 + len(TURNS))
    assert {name: colours(path) > MANY for name, path in pictures.items()} == dict.fromkeys(pictures, True)
    assert len({path.read_bytes() for path in pictures.values()}) == len(pictures)
    assert not notebook.errors


MANY = 100
"""Colours that a picture has at least: writing alone has some dozens, because of its soft edges."""


def colours(path):
    """How many colours a picture has."""
    from matplotlib.image import imread

    return len({tuple(colour) for row in imread(path)[::2, ::2] for colour in row})
