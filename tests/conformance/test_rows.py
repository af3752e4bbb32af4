"""Every row has a test, and every test a row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conformance.rows import ROWS

HERE = Path(__file__).parent
NAMED = re.compile(r"^(?:async )?def test_((?:loop|parts|case)_[ab]?\d\db?)_\w+", re.MULTILINE)


def rows_with_tests() -> set[str]:
    """The rows that the tests of this folder are named after."""
    return {found for path in HERE.glob("test_*.py") for found in NAMED.findall(path.read_text())}


@pytest.mark.parametrize("row", sorted(ROWS))
def test_the_row_has_a_test(row):
    assert row in rows_with_tests()


def test_every_test_has_a_row():
    assert rows_with_tests() <= set(ROWS)
