"""The documentation site builds without a warning."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
    assert ">run_turn<" in (tmp_path / "concepts" / "turn" / "index.html").read_text(encoding="utf-8")
    assert (tmp_path / "notebooks" / "01_first_turn" / "index.html").exists()
