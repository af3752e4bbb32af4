"""Every Python snippet of the README and the documentation runs, page by page, as a reader would paste it.

The snippets of a page share one IPython session, so `%magics`, `await` and the last expression of a cell work. What a
page needs but need not show stands in a comment, `<!-- setup ... -->`, and runs in its place. Code with the title of
another tool does not run here.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import hermes_nb
from hermes_nb import testing

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = r'(?:python|ipython)(?: title="hermes_nb")?\n'
SNIPPET = re.compile(rf"^(?:```{OURS}(.*?)^```|<!-- setup\n(.*?)^-->)", re.MULTILINE | re.DOTALL)
OTHER_FENCES = re.compile(rf"^ *```(?!{OURS})\w*py.*", re.MULTILINE | re.IGNORECASE)
FOREIGN = re.compile(r'```python title="(?:hermes-agent|pydantic-ai|langgraph|mlflow|arize-phoenix|inspect_ai) [^"]+"')
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY")


def snippets(page: Path) -> Iterator[tuple[int, str]]:
    """Line and code of each snippet of the page."""
    text = page.read_text(encoding="utf-8")
    for match in SNIPPET.finditer(text):
        yield text.count("\n", 0, match.start()) + 2, match[1] or match[2]


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    yield shell
    shell.run_line_magic("reset", "-f")
    InteractiveShell.clear_instance()


def pages() -> Iterator[object]:
    """The pages with snippets; those that ask the embedded model need it."""
    for page in PAGES:
        code = [code for _, code in snippets(page)]
        real = any("hn.Local()" in part for part in code) and not any("hn.Local = " in part for part in code)
        if code:
            yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=[pytest.mark.local_model] if real else [])


@pytest.mark.parametrize("page", list(pages()))
def test_every_snippet_of_the_page_runs(page, shell, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # as in an activated environment
    for name in ("Local", "capture"):
        monkeypatch.setattr(hermes_nb, name, getattr(hermes_nb, name))  # a page's setup may put something else there
    for key in KEYS:
        monkeypatch.setenv(key, "not-a-key")
    with testing.no_waiting():
        for line, code in snippets(page):
            outcome = shell.run_cell(code)
            error = outcome.error_before_exec or outcome.error_in_exec
            assert error is None, f"{page.relative_to(ROOT)}:{line}: {error!r}"


def test_no_python_hides_from_these_tests_behind_another_name():
    hidden = [fence for page in PAGES for fence in OTHER_FENCES.findall(page.read_text(encoding="utf-8"))]
    assert [fence for fence in hidden if not FOREIGN.fullmatch(fence)] == []
