"""The fault table names a test for each row, and each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_each_row_of_the_fault_table_is_held_by_a_test():
    rows = [line for line in (ROOT / "docs" / "faults.md").read_text().splitlines() if line.startswith("| ")]
    named = set(re.findall(r"`(test_\w+)`", "\n".join(rows)))
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }

    assert len(rows) > 30
    assert all("test" in row for row in rows)
    assert named <= there
