"""What all tests share: the user's data left alone, no real waiting, the embedded model, fast tests first."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from hermes_nb.providers.local import Local

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
ORDER = (
    "tests/unit",
    "tests/properties",
    "tests/typing",
    "tests/providers",
    "tests/scenarios",
    "tests/conformance",
    "tests/traces",
    "tests/docs",
    "tests/kernel",
    "notebooks",
    "tests/interop",
    "tests/browser",
)
settings.register_profile("calm", deadline=None)  # no test asserts on a clock
settings.load_profile("calm")
settings.register_profile("large", max_examples=2_000)  # for --hypothesis-profile=large
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_configure(config: pytest.Config) -> None:
    """Turns of every process started here, kernels too, keep their logbooks in a folder that goes away."""
    home = tempfile.TemporaryDirectory(prefix="hermes-nb-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(home.cleanup)
    os.environ["HERMES_NB_HOME"] = home.name
    os.environ["MPLBACKEND"] = "agg"
    if importlib.util.find_spec("tests.support.contract"):
        config.pluginmanager.import_plugin("tests.support.contract")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests of the embedded model are skipped where its weights are not."""
    if item.get_closest_marker("local_model") and not Local.ready():
        pytest.skip("the embedded model is not in the user cache; `make model` fetches it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests first; those of the embedded model last."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> tuple[bool, bool, bool, int]:
    """The browser's driver keeps an event loop open in the main thread, so its tests come after all others."""
    place = item.path.relative_to(ROOT).as_posix() if item.path.is_relative_to(ROOT) else ""
    ranks = [number for number, folder in enumerate(ORDER) if place.startswith(folder)]
    local = item.get_closest_marker("local_model") is not None
    slow = item.get_closest_marker("slow") is not None
    browser = place.startswith("tests/browser")
    return browser, local, slow, ranks[0] if ranks else len(ORDER)


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own for each test; `HERMES_NB_HOME` names it."""
    place = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HERMES_NB_HOME", str(place))
    return place


@pytest.fixture
def no_waiting() -> Iterator[None]:
    """Retries and other planned waits take no time."""
    from hermes_nb import testing

    with testing.no_waiting():
        yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; the test is skipped where there is none."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no Chromium here; `make chromium` says how to get one")
    return found
