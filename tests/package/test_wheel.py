"""What would be uploaded: built, checked, installed into an empty environment of each Python here, used there."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools.matrix import PYTHONS, found

ROOT = Path(__file__).parents[2]
TURN = """
import hermes_nb as hn
from hermes_nb.testing import call, say, script, span_tree

@hn.tool
def double(number: int) -> int:
    "Twice the number."
    return 2 * number

with hn.record("turns.db"):
    run = hn.Agent(script(call("double", number=21), say("42")), tools=[double]).start("twice 21?")
    result = run.result()
assert result.completed and result.text == "42"
assert len(result.trace.tool_calls_df()) == 1
assert hn.replay(run).result().messages == result.messages
study = hn.sweep(hn.Agent(script(say("a"), each_turn=True)), ["one", "two"], progress=False)
assert study.wait()
assert list(study.turns_df().exit_reason) == ["completed", "completed"]
print(span_tree(result.trace))
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", place)
    return place


@pytest.fixture(scope="module")
def wheel(dist) -> Path:
    return next(dist.glob("*.whl"))


def test_the_index_would_take_both_files(dist):
    assert run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir()).count("PASSED") == 2


def test_the_wheel_holds_the_library_its_types_and_the_panels_files_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    ours = {str(path.relative_to(ROOT)) for path in (ROOT / "hermes_nb").rglob("*.*") if path.suffix != ".pyc"}
    assert {"hermes_nb/py.typed", "hermes_nb/widgets/static/panel.js", "hermes_nb/widgets/static/panel.css"} <= ours
    assert ours <= {*names}
    tops = {name.split("/")[0] for name in names}
    assert tops == {"hermes_nb", next(top for top in tops if top.endswith(".dist-info"))}


@pytest.mark.parametrize("version", PYTHONS)
def test_the_wheel_in_an_empty_environment_runs_a_turn(wheel, tmp_path, monkeypatch, version):
    if (base := found(version)) is None:
        pytest.skip(f"there is no Python {version} here")
    monkeypatch.setenv("HERMES_NB_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    run(base, "-m", "venv", tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    tree = run(python, "-W", "error", "-c", TURN, cwd=tmp_path)
    assert "invoke_agent" in tree
    assert "execute_tool double" in tree
    assert "model" in run(tmp_path / "env" / "bin" / "hermes-nb", "--help", cwd=tmp_path)
