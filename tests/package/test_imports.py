"""`import hermes_nb` stays light: the heavy parts load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.server import Server, say

NOTEBOOKS_AND_FRAMES = ("IPython", "anywidget", "ipywidgets", "matplotlib", "pandas", "pyarrow", "xllamacpp")
REQUESTS_AND_TOOLS = ("click", "docstring_parser", "httpx", "pydantic", "rich")
"""httpx is for proxies, certificates and failures, and brings in a command line where it can; pydantic is for tools."""


def modules_after(code: str) -> set[str]:
    """Names of the modules that a fresh interpreter has loaded after running `code`."""
    program = f"{code}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return modules_after("import hermes_nb")


@pytest.mark.parametrize("name", [*NOTEBOOKS_AND_FRAMES, *REQUESTS_AND_TOOLS, "opentelemetry"])
def test_importing_the_library_does_not_load_what_only_some_need(loaded, name):
    assert name not in loaded


def test_a_whole_turn_runs_without_frames_and_without_a_notebook():
    code = """
import hermes_nb as hn
from hermes_nb.testing import say, script
assert hn.Agent(script(say("hello"))).run("hi", session=False).text == "hello"
"""
    assert not modules_after(code).intersection(NOTEBOOKS_AND_FRAMES)


def test_a_turn_without_tools_in_which_all_goes_well_loads_what_it_needs():
    with Server(say("hello")) as server:
        code = f"""
import hermes_nb as hn
model = hn.OpenAIChat("m", base_url={server.url!r}, api_key="")
assert hn.Agent(model).run("hi", session=False).text == "hello"
"""
        assert not modules_after(code).intersection((*NOTEBOOKS_AND_FRAMES, *REQUESTS_AND_TOOLS))


def test_every_public_name_can_be_had_by_from_import_and_is_listed():
    import hermes_nb

    for name in hermes_nb.__all__:
        assert getattr(hermes_nb, name) is not None
    assert set(hermes_nb.__all__) <= set(dir(hermes_nb))
