"""The documentation site builds without a warning."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import time
from pathlib import Path

import nbconvert
import nbformat
import pytest

import hermes_nb
from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.record import html
from tests.support.story import everything

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_site_builds_without_a_warning_and_its_tables_are_filled(tmp_path):
    settings = {"HERMES_NB_DOCS_EXECUTE": "false", "NO_MKDOCS_2_WARNING": "1"}  # nbmake runs the notebooks
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recovery = (tmp_path / "reference" / "recovery" / "index.html").read_text(encoding="utf-8")
    assert "rate_limit" in recovery
    turn = (tmp_path / "concepts" / "turn" / "index.html").read_text(encoding="utf-8")
    assert ">run_turn<" in turn
    assert re.search(
        "TurnRequest.*─ admit .*make room .*ask model .*run tools .*─ settle .*TurnResult", turn, re.DOTALL
    )
    assert (tmp_path / "notebooks" / "01_first_turn" / "index.html").exists()


def test_the_theme_leaves_the_tables_of_a_turns_record_alone():
    page = html(Snapshot().after_all(everything()), time.time_ns())
    shown = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))["on_post_page"](page)

    tables = re.findall("<table[^>]*>", shown)  # the theme takes those without a class for its own
    assert len(tables) > 2
    assert all("class=" in table for table in tables)


def test_a_notebooks_page_fetches_no_drawing_of_widgets_from_another_server():
    state = {"state": {}, "version_major": 2, "version_minor": 0}
    notebook = nbformat.v4.new_notebook(metadata={"widgets": {"application/vnd.jupyter.widget-state+json": state}})
    page, _ = nbconvert.HTMLExporter().from_notebook_node(notebook)
    assert "embed-amd.js" in page  # what the exporter puts into every page with widgets

    shown = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))["on_post_page"](page)

    assert "embed-amd.js" not in shown
    assert "<main>" in shown


def test_every_public_name_is_in_the_reference():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    shown = set(re.findall(r"^::: ([\w.]+)$", pages, re.MULTILINE))
    missing = [
        name
        for name in hermes_nb.__all__
        if not name.endswith("_ipython_extension")  # called by IPython only
        and not shown & {f"hermes_nb.{name}", getattr(getattr(hermes_nb, name), "__module__", "")}
    ]
    assert missing == []
