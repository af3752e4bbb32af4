"""`import hermes_nb` stays light: the heavy parts load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("IPython", "anywidget", "ipywidgets", "matplotlib", "pandas", "pyarrow", "xllamacpp")


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after running `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return modules_after("import hermes_nb")


@pytest.mark.parametrize("name", HEAVY)
def test_importing_the_library_does_not_load_what_only_some_need(loaded, name):
    assert name not in loaded


def test_a_whole_turn_runs_without_frames_and_without_a_notebook():
    code = """
import hermes_nb as hn
from hermes_nb.testing import say, script
assert hn.Agent(script(say("hello"))).run("hi", session=False).text == "hello"
"""
    assert not modules_after(code).intersection(HEAVY)


def test_every_public_name_can_be_had_by_from_import_and_is_listed():
    import hermes_nb

    for name in hermes_nb.__all__:
        assert getattr(hermes_nb, name) is not None
    assert set(hermes_nb.__all__) <= set(dir(hermes_nb))
