"""Run the tests that need no browser, no model and no other tool's server in environments that differ from this one.

    python tools/matrix.py [--quick] [3.11 3.12 3.13 oldest]

Each Python that is on this machine is tried with the newest dependencies, and the oldest Python with the oldest
versions that `pyproject.toml` allows. The environments are kept in `.matrix/`. The quick tests are those of what
differs most between versions: turns, threads, event loops, files, spans and frames.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13")
OLDEST = "oldest"
TESTS = ("tests/unit", "tests/scenarios", "tests/traces")
QUICK = (
    *("tests/unit/policies", "tests/unit/logbook", "tests/unit/tools", "tests/unit/telemetry/test_spans.py"),
    *(
        f"tests/scenarios/test_{name}.py"
        for name in ("answers", "async_tools", "replay", "retry_and_fallback", "spans")
    ),
    *("tests/scenarios/test_wrappers.py", "tests/traces/test_frames.py", "tests/traces/test_other_forms.py"),
)
FLOOR = re.compile(r"([\w.-]+)>=([\w.]+)")


def main() -> int:
    """Try what is asked for; the exit code says whether all of it passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=(*PYTHONS, OLDEST), help="what to try; all if left out")
    parser.add_argument("--quick", action="store_true", help="a minute of tests instead of all")
    arguments = parser.parse_args()
    ends = {name: tried(name, QUICK if arguments.quick else TESTS) for name in arguments.names}
    print("\n".join(f"{name:8} {end}" for name, end in ends.items()))
    return int("failed" in ends.values())


def tried(name: str, tests: Sequence[str]) -> str:
    """Make the environment, or bring it up to date, and run tests in it."""
    version = PYTHONS[0] if name == OLDEST else name
    if (python := found(version)) is None:
        return f"left out: no Python {version} here"
    place = PLACE / name
    own = str(place / "bin" / "python")
    if not place.exists() and subprocess.call([python, "tools/install.py", "--create", str(place)], cwd=ROOT):
        return "failed"
    wanted = ["--editable", ".[plot,lab,distributed]", "--group", "test", *(floors() if name == OLDEST else ())]
    if subprocess.call([own, "tools/install.py", "--upgrade", *wanted], cwd=ROOT):
        return "failed"
    print(f"── {name}", flush=True)
    return (
        "failed"
        if subprocess.call([own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT)
        else "passed"
    )


def found(version: str) -> str | None:
    """A Python of this version that can make environments: on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates = [shutil.which(f"python{version}"), *map(str, sorted(pyenv.glob(f"{version}.*/bin/python")))]
    check = f"import ensurepip, sys; sys.exit('.'.join(map(str, sys.version_info[:2])) != '{version}')"
    return next(
        (one for one in candidates if one and not subprocess.call([one, "-c", check], stderr=subprocess.DEVNULL)), None
    )


def floors() -> list[str]:
    """Pip's arguments for the lowest versions that the dependencies allow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [f"{name}=={floor}" for name, floor in map(_floor, project["dependencies"])]


def _floor(requirement: str) -> tuple[str, str]:
    match = FLOOR.match(requirement)
    assert match, f"{requirement!r} names no lowest version"
    return match[1], match[2]


if __name__ == "__main__":
    sys.exit(main())
