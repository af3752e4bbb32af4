"""Makes the pictures of the panel that the documentation shows, from a real JupyterLab.

    python tools/screenshots.py [OUT_DIR] [NAME ...]

Each picture is a turn of a scripted model, caught in the state that its name says.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.jupyter import Jupyter, Notebook, browser, write_notebook  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SETUP = '''\
import re, time
import anyio
import hermes_nb as hn
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
    """Answers with step after step, word by word; a step is a text, calls, or a failure."""
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
         "So a turn that has one iteration left loses it when a refund comes in between. " * 4,)
LIMITED = Failure(FailureReason.RATE_LIMIT, "slow down", retry_after=30, status=429)
LIMITED_SHORTLY = Failure(FailureReason.RATE_LIMIT, "slow down", retry_after=1, status=429)
UNPAID = Failure(FailureReason.BILLING, "no credit left", status=402)
CEILING = hn.Ceiling(seconds=120, price=lambda provider, model, usage: usage.total_tokens * 4e-6)

def agent(*steps, budget=12, backup=()):
    chain = [model("openai", "gpt-4.1-mini", steps, 16_000)]
    if backup:
        chain.append(model("anthropic", "claude-haiku-4-5", backup, 200_000))
    return hn.Agent(chain, tools=[list_files, read_file, run_tests], budget=budget, name="reviewer", ceiling=CEILING,
                    guard=None)

QUESTION = "Why do three tests fail since yesterday?"
'''


@dataclass(frozen=True)
class Shot:
    """One picture.

    Attributes:
        agent: The agent, as code.
        wait: Seconds until the state is reached.
        theme: Of JupyterLab.
        width: Of the browser's window, in pixels.
        steer: Typed into the panel before the picture is taken.
        press: A button that is pressed then.
    """

    agent: str
    wait: float
    theme: str = "JupyterLab Light"
    width: int = 1100
    steer: str = ""
    press: str = ""


SHOTS = {
    "light": Shot("agent(*LOOK, READ, ASIDE)", 7.0, steer="Check the retry path too, please."),
    "waiting": Shot("agent(*LOOK, LIMITED, DONE)", 6.5),
    "fallback": Shot("agent(*LOOK, UNPAID, backup=[READ, ASIDE])", 8.0),
    "interrupted": Shot("agent(*LOOK, READ, ASIDE)", 8.0, press="Interrupt"),
    "budget": Shot("agent(*LOOK, READ, DONE, budget=3)", 9.0),
    "narrow": Shot("agent(*LOOK, READ, ASIDE)", 7.5, width=500),
    "wide": Shot("agent(*LOOK, READ, ASIDE)", 7.5, width=1800),
    "frozen": Shot("agent(*LOOK, READ, LIMITED_SHORTLY, DONE)", 11.0),
    "frozen_dark": Shot("agent(*LOOK, READ, LIMITED_SHORTLY, DONE)", 11.0, "JupyterLab Dark"),
    "dark": Shot("agent(*LOOK, READ, ASIDE)", 7.0, "JupyterLab Dark", steer="Check the retry path too, please."),
    "contrast": Shot("agent(*LOOK, READ, ASIDE)", 7.5, "JupyterLab Dark High Contrast"),
}


def take(shot: Shot, notebook: Notebook, path: Path) -> None:
    """Run the turn and take its picture."""
    notebook.run_and_wait(0)
    notebook.run(1)
    notebook.panel().wait_for()
    notebook.page.wait_for_timeout(shot.wait * 1000 - 1200)
    if shot.steer:
        notebook.steer(shot.steer)
    if shot.press:
        notebook.press(shot.press)
    notebook.page.wait_for_timeout(1200)
    notebook.page.mouse.move(2, 2)
    shown = notebook.page.locator(".hnb, .hermes-nb-record").first
    shown.scroll_into_view_if_needed()
    notebook.page.wait_for_timeout(150)
    shown.screenshot(path=str(path))


def session(theme: str, wanted: dict[str, Shot], chromium: Browser, out: Path) -> None:
    """All pictures of one theme, from one server."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, shot in wanted.items():
            show = f"run = {shot.agent}.start(QUESTION, session=False)\nrun"
            write_notebook(root / f"{name}.ipynb", [SETUP, show])
        with Jupyter(root, theme=theme) as jupyter:
            for name, shot in wanted.items():
                notebook = Notebook.open(chromium, jupyter.url(f"{name}.ipynb"), width=shot.width, height=1100)
                notebook.command("application:toggle-left-area")
                take(shot, notebook, out / f"panel_{name}.png")
                print(name, notebook.errors or "")
                notebook.close()


def main() -> None:
    """Take the pictures that the command line names, or all."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    out.mkdir(parents=True, exist_ok=True)
    names = sys.argv[2:] or list(SHOTS)
    with browser() as chromium:
        for theme in dict.fromkeys(SHOTS[name].theme for name in names):
            session(theme, {name: SHOTS[name] for name in names if SHOTS[name].theme == theme}, chromium, out)


if __name__ == "__main__":
    main()
