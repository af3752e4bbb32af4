"""The scripts that go to the browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib import resources

import pytest

from hermes_nb.widgets.assets import script, style

STATIC = resources.files("hermes_nb.widgets").joinpath("static")
FILES = [file for file in STATIC.iterdir() if file.name.endswith(".js")]
FORBIDDEN = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "http:", "https:", "fetch(")


@pytest.mark.parametrize("name", ["panel.js", "sweep.js"])
def test_a_widget_is_one_module_that_a_browser_accepts(name, tmp_path):
    text = script(name)
    assert not re.search(r"^import ", text, re.MULTILINE)
    assert re.findall(r"^export .*", text, re.MULTILINE) == [text[text.index("export default") :].splitlines()[0]]
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node here to parse it; the browser tests run it")
    (tmp_path / "module.mjs").write_text(text)
    subprocess.run([node, "--check", tmp_path / "module.mjs"], check=True)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_texts_become_text_nodes_and_nothing_is_fetched(file):
    text = file.read_text(encoding="utf-8")
    assert [word for word in FORBIDDEN if word in text] == []


def test_the_style_sheet_stays_within_the_widgets():
    rules = re.sub(r"/\*.*?\*/", "", style(), flags=re.DOTALL)
    selectors = re.findall(r"(?:^|[{}])\s*([^{}@]+?)\s*\{", rules)
    for selector in (part.strip() for text in selectors for part in text.split(",")):
        if selector not in ("from", "to"):
            assert ".hnb" in selector, selector
    assert "url(" not in style()
