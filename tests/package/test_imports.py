"""`import hermes_nb` stays light: the heavy parts load when they are first used."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

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


ROOT = Path(__file__).parents[2]
PARTS = {"google", "opentelemetry.proto", "pydantic_core", "pytest"}
"""Parts of what is required (protobuf and its messages come with the exporter), and pytest, whose plugin is here."""


def test_what_is_imported_is_required():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    required = {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in [*project["dependencies"], *extras]}

    assert {name for file in (ROOT / "hermes_nb").rglob("*.py") for name in imported(file)} <= required | PARTS


def imported(file: Path) -> set[str]:
    """The packages of others that a module imports, by the names under which they are installed."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module)
    return {distribution(name) for name in names} - {*sys.stdlib_module_names, "hermes_nb"}


def distribution(module: str) -> str:
    """The package that a module of somebody else is in."""
    top, *below = module.split(".")
    if top != "opentelemetry":
        return top.lower()
    if below[:1] == ["sdk"]:
        return "opentelemetry_sdk"
    if below[:2] == ["exporter", "otlp"]:
        return "_".join(["opentelemetry", *below[:4]])
    return "opentelemetry.proto" if below[:1] == ["proto"] else "opentelemetry_api"
