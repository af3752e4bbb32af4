"""The files of the repository, looked at as files."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ELSEWHERE = re.compile(rb"(?<![\w.])(?:/work/|/home/(?!ada/)\w+/|/root/|/Users/\w+/|[A-Z]:\\Users\\|\.\./shared\b)")
"""Paths of somebody's machine."""


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("this is not a git checkout")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_place_on_somebodys_machine():
    found = {str(p.relative_to(ROOT)) for p in tracked() if p != Path(__file__) and ELSEWHERE.search(p.read_bytes())}
    assert not found


def test_notebooks_are_saved_without_outputs_and_without_widget_state():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert notebooks
    for path in notebooks:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert "widgets" not in notebook["metadata"], path.name
        for cell in notebook["cells"]:
            assert not cell.get("outputs"), path.name
            assert cell.get("execution_count") is None, path.name


def test_notebooks_end_with_asserts():
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        assert "assert " in "".join(cells[-1]["source"]), path.name


def test_no_module_of_the_library_needs_a_map():
    long = {p.name: n for p in (ROOT / "hermes_nb").rglob("*.py") if (n := len(p.read_text().splitlines())) > 500}
    long.pop("semconv.py", None)  # generated
    assert not long


def test_no_function_of_the_library_needs_scrolling():
    long = {}
    for path in (ROOT / "hermes_nb").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                words = (ast.get_docstring(node, clean=False) or "").count("\n") + 1
                long[f"{path.name}: {node.name}"] = node.end_lineno - node.lineno - words
    assert {name: lines for name, lines in long.items() if lines >= 50} == {}


def test_every_verb_of_make_is_explained_to_contributors():
    verbs = re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [verb for verb in verbs if f"`make {verb}`" not in told] == []


def test_the_places_that_contributors_are_sent_to_are_there():
    named = set(
        re.findall(
            r"`((?:hermes_nb|tests|tools|telemetry|docs|changes)/[\w./]*)`", (ROOT / "CONTRIBUTING.md").read_text()
        )
    )
    assert len(named) > 15
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []
