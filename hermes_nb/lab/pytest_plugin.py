"""A fixture for tests of agents without a model: `pytest_plugins = ["hermes_nb.lab.pytest_plugin"]`.

    def test_my_agent(cassette):
        result = cassette(agent).run("How many people live in Lyon?")

The first run asks the model and records its answers beside the test, in `cassettes/`; later runs need no model.
`pytest --cassettes=replay` refuses to ask one (for CI), `--cassettes=rewrite` records everything anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from hermes_nb.lab.cassette import Cassette, record

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--cassettes`."""
    modes = ("once", "replay", "rewrite")
    parser.addoption("--cassettes", choices=modes, default="once", help="how cassettes of hermes_nb are used")


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> Iterator[Cassette]:
    """The cassette of this test; call it with an agent."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name).strip("-")
    path = request.path.parent / "cassettes" / f"{request.path.stem}-{name}.db"
    mode = request.config.getoption("--cassettes")
    if mode == "rewrite":
        path.unlink(missing_ok=True)
    with record(path, mode=mode) as tape:
        yield tape
