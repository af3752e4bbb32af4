"""A browser for all tests, a server for each module, and a notebook page for each test."""

from __future__ import annotations

import itertools
import statistics

import pytest

from tests.support.jupyter import Jupyter, Notebook, browser, write_notebook

SETUP = '''
import asyncio, threading, time
import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, say, script

@hn.tool
def nap(seconds: float) -> str:
    """Sleep in small pieces."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(0.02)
    return "slept"

@hn.tool
def echo(text: str) -> str:
    """Give a text back."""
    return text

events = []

def start(*steps, **more):
    events.clear()
    agent = hn.Agent(script(*steps), tools=[nap, echo], **{"budget": 8, "guard": None, **more})
    return agent.start("Go", session=False, sinks=[events.append])

def asked():
    """When the interrupt came to Python, in seconds since the epoch."""
    return [e.at for e in events if e.what.kind == "interrupt" and e.what.status == "requested"][0] / 1e9

def ended():
    """When the turn was over."""
    return [e.at for e in events if e.what.kind == "turn" and e.phase == "ended"][0] / 1e9

def steered():
    return [e.what.text for e in events if e.what.kind == "steer" and e.what.status == "queued"]
'''


@pytest.fixture(scope="session")
def chrome(chromium):
    with browser(chromium) as running:
        yield running


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    """JupyterLab, or what the module's `SERVER` says."""
    root = tmp_path_factory.mktemp("notebooks")
    with Jupyter(root, **getattr(request.module, "SERVER", {})) as running:
        yield running


FIGURES = pytest.StashKey[list[str]]()


@pytest.fixture
def figure(request, record_property):
    """Reports what was measured: a name, and milliseconds of several tries. They stand at the end of the run."""

    def figure(name, times):
        middle = statistics.median(times)
        record_property(name, round(middle, 1))
        told = request.config.stash.setdefault(FIGURES, [])
        told.append(f"{name}: median {middle:.0f} ms of {len(times)}, worst {max(times):.0f} ms")
        return middle

    return figure


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(FIGURES, []):
        terminalreporter.write_line(line)


_numbers = itertools.count(1)


@pytest.fixture
def page_of(server, chrome):
    """Opens a notebook of these cells in a page, after a first cell with an agent and its tools, which is run."""
    opened = []

    def page_of(*cells, width=1280, height=1000):
        name = f"test{next(_numbers)}.ipynb"
        write_notebook(server.root / name, [SETUP, *cells])
        notebook = Notebook.open(chrome, server.url(name), width, height)
        notebook.name = name
        opened.append(notebook)
        assert notebook.run_and_wait(0) == ""
        return notebook

    yield page_of
    for notebook in opened:
        notebook.close()
