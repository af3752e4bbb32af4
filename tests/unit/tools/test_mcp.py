"""Tools of MCP servers, with real servers over stdio and over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time

import anyio
import pytest

from hermes_nb.tools.context import ToolContext
from hermes_nb.tools.mcp import MCP
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.vocabulary.failures import ConfigurationError
from tests.support.batches import ask, run_batch

pytest.importorskip("mcp", reason="needs the extra mcp")
pytestmark = pytest.mark.interop

SERVER = '''
import base64, os, sys, time
from mcp.server.mcpserver import Image, MCPServer
server = MCPServer("test")

@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

@server.tool(name="odd.name/with dots")
def odd() -> str:
    return os.environ.get("GREETING", "none")

@server.tool()
def picture() -> list:
    return ["a dot", Image(data=b"\\x89PNG", format="png")]

@server.tool()
async def slow() -> str:
    import anyio
    try:
        await anyio.sleep(60)
    except BaseException:
        open(sys.argv[1], "w").write("cancelled")
        raise

@server.tool()
def die() -> str:
    os._exit(3)

if len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]), host="127.0.0.1")
else:
    server.run("stdio")
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    place = tmp_path_factory.mktemp("mcp")
    (place / "server.py").write_text(SERVER)
    return place / "server.py"


@pytest.fixture
def server(script, tmp_path):
    with MCP(sys.executable, str(script), str(tmp_path / "note"), env={"GREETING": "hello"}, prefix="x_") as made:
        yield made


def test_a_server_from_the_package_index_answers_in_a_batch():
    pytest.importorskip("mcp_server_time", reason="needs the package mcp-server-time")
    with MCP(sys.executable, "-m", "mcp_server_time", "--local-timezone", "Europe/Paris") as clock:
        box = Toolbox(clock)
        assert [spec.name for spec in box.specs] == ["get_current_time", "convert_time"]
        times = {"source_timezone": "Europe/Paris", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        batch = run_batch(
            box,
            ask("convert_time", "good", **times),
            ask("convert_time", "bad", **times | {"target_timezone": "Mars"}),
            ask("convert_time", "empty"),
        )
    assert batch.statuses == ["ok", "error", "error"]
    assert json.loads(batch.texts[0])["time_difference"] in ("+7.0h", "+8.0h")
    assert "Mars" in batch.texts[1]
    assert [what.type for what in batch.told("tool")] == ["extension"] * 3
    assert all(what.parallel for what in batch.told("tool"))


def test_the_model_is_told_what_the_server_says(server):
    tools = {made.spec.name: made for made in server}
    assert tools["x_add"].spec.description == "Add two numbers."
    assert set(tools["x_add"].spec.parameters["properties"]) == {"a", "b"}
    assert not tools["x_add"].options.parallel_safe
    assert "x_odd_name_with_dots" in tools
    assert repr(server).endswith("5 tools>")


def test_texts_numbers_and_pictures_arrive(server):
    batch = run_batch(Toolbox(server), ask("x_add", a=2, b=3), ask("x_odd_name_with_dots"), ask("x_picture"))
    assert batch.texts[:2] == ["5", "hello"]
    text, picture = batch.results[2].content
    assert text == {"type": "text", "text": "a dot"}
    assert picture["image_url"]["url"] == "data:image/png;base64,iVBORw=="


def test_an_interrupt_reaches_the_server(server, tmp_path):
    batch = run_batch(Toolbox(server), ask("x_slow"), cancel_after=0.5)
    assert batch.statuses == ["cancelled"]
    deadline = time.monotonic() + 20
    while not (tmp_path / "note").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (tmp_path / "note").read_text() == "cancelled"
    assert run_batch(Toolbox(server), ask("x_add", a=1, b=1)).texts == ["2"]


def test_a_server_that_dies_is_an_error_and_stays_one(server):
    batch = run_batch(Toolbox(server), ask("x_die"), ask("x_add", a=1, b=1), ask("x_add", a=1, b=1), batch_timeout=20)
    assert batch.statuses == ["error", "error", "error"]
    assert "failed" in batch.texts[0]


def test_several_turns_use_one_server_at_the_same_time(server):
    [add] = [made for made in server if made.remote_name == "add"]

    def use(n: int) -> str:
        return anyio.run(add.invoke, {"a": n, "b": n}, ToolContext())

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(use, range(24))) == [str(2 * n) for n in range(24)]


def test_a_closed_server_ends_its_process_and_says_so(script, tmp_path):
    server = MCP(sys.executable, str(script), str(tmp_path / "note"))
    server.close()
    server.close()
    assert repr(server).endswith("closed>")
    batch = run_batch(Toolbox(server), ask("add", a=1, b=1))
    assert batch.results[0].error_type == "server_ended"
    assert not [thread for thread in _children() if str(script) in thread and str(tmp_path) in thread]


def _children() -> list[str]:
    if not os.path.isdir("/proc"):  # noqa: PTH112
        return []
    lines = []
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
                lines.append(file.read().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines


def test_a_server_over_http(script, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "note"), str(port)], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                server = MCP(url=f"http://127.0.0.1:{port}/mcp")
                break
            except ConfigurationError:
                time.sleep(0.2)
        with server:
            assert run_batch(Toolbox(server), ask("add", a=20, b=22)).texts == ["42"]
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        (("no-such-program-at-all",), "No such file"),
        ((sys.executable, "-c", "import sys; sys.exit('out of order')"), "it said: out of order"),
        ((sys.executable, "-c", "import time; time.sleep(59.5)"), "TimeoutError"),
    ],
)
def test_a_server_that_cannot_be_reached_is_told_at_once(command, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        MCP(*command, patience=2)
    assert not [line for line in _children() if "time.sleep(59.5)" in line]


@pytest.mark.parametrize("named", [{}, {"url": "http://x", "command": ("y",)}])
def test_a_server_is_named_in_one_way(named):
    with pytest.raises(ConfigurationError, match="one of both"):
        MCP(*named.pop("command", ()), **named)


def test_without_the_package_the_way_out_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'hermes-nb\[mcp\]'"):
        MCP("anything")
