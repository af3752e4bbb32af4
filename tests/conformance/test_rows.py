"""Every row has a test, and every test a row."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.rows import ROWS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NAMED = re.compile(r"^(?:async )?def test_((?:loop|parts|case)_[ab]?\d\db?)_\w+", re.MULTILINE)


def rows_with_tests() -> set[str]:
    """The rows that the tests of this folder are named after."""
    return {found for path in HERE.glob("test_*.py") for found in NAMED.findall(path.read_text())}


@pytest.mark.parametrize("row", sorted(ROWS))
def test_the_row_has_a_test(row):
    assert row in rows_with_tests()


def test_every_test_has_a_row():
    assert rows_with_tests() <= set(ROWS)


def test_the_page_of_the_documentation_is_that_of_these_rows():
    command = [sys.executable, "tools/conformance.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
