"""The core tests with each other Python that is here, and with the oldest dependencies that are allowed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.matrix import OLDEST, PYTHONS, found

ROOT = Path(__file__).parents[2]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
OTHERS = (*(version for version in PYTHONS if version != HERE), OLDEST)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


@pytest.mark.parametrize("name", OTHERS)
def test_the_core_tests_pass_there(name):
    if found(PYTHONS[0] if name == OLDEST else name) is None:
        pytest.skip("there is no such Python here")

    command = [sys.executable, "tools/matrix.py", "--quick", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert f"{name:8} passed" in done.stdout
