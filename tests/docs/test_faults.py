"""The fault tables name a test for each cell or row, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FAULTS = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
PLACES = ["request", "stream", "tool", "compression", "persistence", "sink", "guard"]


def rows(text: str) -> list[list[str]]:
    """The cells of all rows of all tables but their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.endswith("interrupt |")]


def test_each_kind_of_fault_in_each_place_is_held_by_a_test():
    glance = rows(FAULTS.partition("## Requests")[0])

    assert [place for place, *_ in glance] == PLACES
    assert all(len(cells) == 5 for cells in glance)
    assert all(re.search(r"`test_\w+`$", cell) for _, *cells in glance for cell in cells)


def test_each_row_of_the_details_is_held_by_a_test():
    details = [row for row in rows(FAULTS.partition("## Requests")[2]) if row[-1] != "test"]

    assert len(details) > 30
    assert all(re.fullmatch(r"`test_\w+`", row[-1]) for row in details)


def test_the_tests_that_are_named_are_there():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    there = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert set(re.findall(r"`(test_\w+)`", FAULTS)) <= there
