"""The documentation site builds without a warning."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import runpy
import subprocess
import sys
import time
import zlib
from pathlib import Path

import nbconvert
import nbformat
import pytest

import hermes_nb
import hermes_nb.testing
from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.record import html
from tests.support.story import everything

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, with the notebooks run."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    environment.pop("MPLBACKEND", None)  # which keeps pictures out of notebooks
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


def page(site, *parts):
    return site.joinpath(*parts, "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning_and_its_tables_are_filled(site):
    assert "rate_limit" in page(site, "reference", "recovery")
    defaults = re.sub("<[^>]+>", "", page(site, "reference", "defaults"))
    for row in (r"Agent\s+budget\s+90", r"Guardrails\s+same_tool\s+\(3, 8\)", r"Timeouts\s+connect\s+15\.0"):
        assert re.search(row, defaults)
    turn = page(site, "concepts", "turn")
    assert ">run_turn<" in turn
    assert re.search(
        "TurnRequest.*─▶ admit .*make room .*ask model .*run tools .*── settle .*TurnResult", turn, re.DOTALL
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_each_notebook_stands_there_with_the_outputs_of_its_run(site, notebook):
    shown = page(site, "notebooks", notebook.stem)
    assert re.search('<div class="[^"]*jp-OutputArea-output', shown)
    assert re.search('<img[^>]+src="data:image/png', shown)
    assert "Traceback (most recent call last)" not in shown


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_public_name_stands_in_the_reference_with_all_that_it_can_and_gives(site):
    described = inventory(site / "objects.inv")
    missing = [
        name
        for name in [*names(hermes_nb), *names(hermes_nb.testing), *ELSEWHERE]
        if name not in described and not name.endswith("_ipython_extension")  # called by IPython only
    ]
    assert missing == []
    words = {name.rpartition(".")[2] for name in described}
    assert {kind for name in names(hermes_nb) for kind in given_by(name)} - words - FOR_THE_LOOP == set()


ELSEWHERE = {"hermes_nb.traces.concat", "hermes_nb.traces.convert", "hermes_nb.lab.pytest_plugin.cassette"}
FOR_THE_LOOP = {
    "ChatDialect", "Entry", "Lease", "LocalConnection", "LogbookSink", "MessagesDialect", "MixtureConnection",
    "RemoteConnection", "TurnRequest",
}  # fmt: skip
"""What the loop gets of public objects, and a user does not."""


def names(public):
    """The public names of a package and of its classes."""
    for name in public.__all__:
        yield f"{public.__name__}.{name}"
        value = getattr(public, name)
        if inspect.isclass(value) and value.__module__.startswith("hermes_nb"):
            ours = [base for base in value.__mro__ if base.__module__.startswith("hermes_nb")]
            members = {key: it for base in ours for key, it in vars(base).items() if not key.startswith("_")}
            for key, it in members.items():
                if getattr(it, "__doc__", None) and (callable(it) or isinstance(it, property | classmethod | value)):
                    yield f"{public.__name__}.{name}.{key}"


def given_by(name):
    """The classes of this package that a public function, method or property returns, by name."""
    value = pkgutil.resolve_name(name)
    value = getattr(value, "fget", value)
    if not inspect.isroutine(value):
        return set()
    words = set(re.findall(r"(?<!\.)\b[A-Z]\w+", str(inspect.signature(value).return_annotation)))
    return {word for word in words if word in OURS}


def classes():
    """The names of all classes of the package."""
    for file in (ROOT / "hermes_nb").rglob("*.py"):
        yield from re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)


OURS = set(classes())


def inventory(path):
    """The names that the built reference describes, from what Sphinx and its like read of it."""
    head, packed = path.read_bytes().split(b"zlib.\n", 1)
    assert b"Sphinx inventory version 2" in head
    return {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}


def test_the_theme_leaves_the_tables_of_a_turns_record_alone():
    record = html(Snapshot().after_all(everything()), time.time_ns())
    shown = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))["on_post_page"](record)

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
