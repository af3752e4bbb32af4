"""Real Jupyter servers on loopback, and a page in a real browser that uses them.

    with Jupyter(root) as jupyter, browser() as chromium:
        page = Notebook.open(chromium, jupyter.url("demo.ipynb"))
        page.run(0)
        page.press("Interrupt")

Everything that a server writes goes to folders of its own, and it is stopped by its process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import nbformat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from playwright.sync_api import Browser, Locator, Page

TOKEN = "a-token-of-the-tests"
ROOT = Path(__file__).parent.parent.parent
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
}  # fmt: skip
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb",
)  # fmt: skip


def write_notebook(path: Path, cells: Sequence[str], **metadata: Any) -> Path:
    """A notebook of code cells; it names the kernel `python3`."""
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}, **metadata},
    )
    nbformat.write(notebook, path)
    return path


class Jupyter:
    """A server of JupyterLab or Notebook 7.

    Args:
        root: The folder that it serves.
        app: Which of the two.
        theme: JupyterLab's theme.
        python: The Python of the kernels; this one if left out.
        settings: More settings of plugins, by the plugin's name.
    """

    def __init__(
        self,
        root: Path,
        app: Literal["lab", "notebook"] = "lab",
        theme: str = "JupyterLab Light",
        python: str = "",
        settings: dict[str, dict[str, Any]] | None = None,
    ) -> None:
        self.root = root
        self.app = app
        self.home = Path(tempfile.mkdtemp(prefix="hermes-nb-jupyter-"))
        look = {"theme": theme, "adaptive-theme": False}
        self._settings = {**SETTINGS, "@jupyterlab/apputils-extension:themes": look, **(settings or {})}
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def url(self, notebook: str) -> str:
        """Where the notebook is."""
        place = "lab/tree" if self.app == "lab" else "notebooks"
        return f"http://127.0.0.1:{self._port}/{place}/{notebook}?token={TOKEN}{'&reset' if self.app == 'lab' else ''}"

    def __enter__(self) -> Self:
        self._write_settings()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        command = [
            sys.executable, "-m", "jupyter", self.app, "--no-browser", "--allow-root", "--expose-app-in-browser",
            "--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self._port}", "--ServerApp.port_retries=0",
            f"--ServerApp.root_dir={self.root}", f"--IdentityProvider.token={TOKEN}",
            "--LabApp.extension_manager=readonly",
            "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
        ]  # fmt: skip
        with (self.home / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self._environment(), cwd=self.root, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip
        self._wait_until_up()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        assert self._process is not None
        if kind is not None:
            sys.stderr.write((self.home / "server.log").read_text()[-3000:])
        self._process.send_signal(signal.SIGTERM)  # one is enough: the server shuts its kernels down first
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
            "HERMES_NB_HOME": "logbook",
        }
        env = {**os.environ, **{name: str(self.home / folder) for name, folder in places.items()}}
        return env | {"PYTHONPATH": str(ROOT), "JUPYTER_PREFER_ENV_PATH": "0" if self._python else "1"}

    def _write_settings(self) -> None:
        for key, value in self._settings.items():
            package, plugin = key.rsplit(":", 1)
            path = self.home / "settings" / package / f"{plugin}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(value))
        if self._python:
            spec = {"argv": [self._python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                    "display_name": "Python 3", "language": "python"}  # fmt: skip
            folder = self.home / "data" / "kernels" / "python3"
            folder.mkdir(parents=True)
            (folder / "kernel.json").write_text(json.dumps(spec))

    def _wait_until_up(self) -> None:
        status = f"http://127.0.0.1:{self._port}/api/status?token={TOKEN}"
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(status, timeout=2).read()
            except OSError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.home / "server.log").read_text()[-3000:]
                    msg = f"the Jupyter server does not answer:\n{log}"
                    raise RuntimeError(msg) from None
                time.sleep(0.15)
            else:
                return


@contextlib.contextmanager
def browser(executable: str = "/usr/bin/chromium") -> Iterator[Browser]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=list(FLAGS))
        try:
            yield chromium
        finally:
            chromium.close()


_SESSION = "window.jupyterapp?.shell?.currentWidget?.context?.sessionContext?.session"
_KERNEL = f"""() => {{ const kernel = {_SESSION}?.kernel;
  return kernel ? kernel.status + '/' + kernel.connectionStatus : 'none'; }}"""
_RUN = """async index => { const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index; notebook.deselectAll();
  await window.jupyterapp.commands.execute('notebook:run-cell'); }"""
_CLICKS = """window.clicks = [];
document.addEventListener('click', () => window.clicks.push(Date.now()), {capture: true});"""


class Notebook:
    """A notebook that is open in the browser."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    @classmethod
    def open(cls, chromium: Browser, url: str, width: int = 1280, height: int = 1000) -> Self:
        """Open a notebook in a page of its own, and wait for its kernel.

        A kernel that does not come up is started once more: its ports are chosen before it binds them, and another
        process may take one of them in between.
        """
        from playwright.sync_api import TimeoutError as TookTooLong

        context = chromium.new_context(viewport={"width": width, "height": height})
        page = context.new_page()
        page.add_init_script(_CLICKS)
        notebook = cls(page)
        try:
            notebook.visit(url)
        except TookTooLong:
            page.evaluate(f"() => {_SESSION}.kernel.restart()")
            notebook.wait_idle()
        return notebook

    def visit(self, url: str) -> None:
        """Go to a notebook, or load it again."""
        self.page.goto(url)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        self.wait_idle()

    def close(self) -> None:
        """Close the page; the server keeps its kernel."""
        self.page.context.close()

    def wait_idle(self, seconds: float = 60) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(f"() => ({_KERNEL})() === 'idle/connected'", timeout=seconds * 1000)

    def command(self, name: str, **arguments: Any) -> None:
        """Give a command of the front end, without waiting for its end."""
        self.page.evaluate("([name, args]) => { window.jupyterapp.commands.execute(name, args); }", [name, arguments])

    def run(self, index: int) -> None:
        """Run a cell, without waiting for its end."""
        self.page.evaluate(f"index => {{ (window.cells ??= {{}})[index] = ({_RUN})(index); }}", index)

    def begin(self, index: int) -> None:
        """Run a cell, and wait until it is under way.

        An interrupt in the first milliseconds hits the kernel's own code before the cell's; ipykernel 7.3 then gives
        no answer at all.
        """
        self.run(index)
        self.cell(index).locator(".jp-InputPrompt").get_by_text("[*]:").wait_for()
        self.page.wait_for_timeout(300)

    def wait(self, index: int) -> str:
        """Wait for the end of a cell that was run; returns the text of its output."""
        self.page.evaluate("index => window.cells[index]", index)
        return self.output(index)

    def run_and_wait(self, index: int) -> str:
        """Run a cell to its end; returns the text of its output."""
        self.page.evaluate(_RUN, index)
        return self.output(index)

    def theme(self, name: str) -> None:
        """Change JupyterLab's theme, and wait until it is there."""
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        self.page.wait_for_timeout(400)

    def save(self) -> None:
        """Save the notebook, and wait until that is done."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")

    def output(self, index: int) -> str:
        """The text of a cell's output."""
        text: str = self.page.evaluate(
            """i => window.jupyterapp.shell.currentWidget.content.widgets[i].outputArea.node.innerText""", index
        )
        return text.strip()

    def cell(self, index: int) -> Locator:
        """A cell on the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def panel(self, index: int = 0) -> Locator:
        """The live panel, or one of several."""
        return self.page.locator(".hnb").nth(index)

    def record(self) -> Locator:
        """What is left of a panel after the end of its turn."""
        return self.page.locator(".hermes-nb-record").first

    def press(self, name: str, panel: int = 0) -> float:
        """Press a button of the panel; returns when, in seconds since the epoch."""
        self.panel(panel).get_by_role("button", name=name, exact=True).click()
        pressed: float = self.page.evaluate("window.clicks.at(-1)")
        return pressed / 1000

    def steer(self, text: str, panel: int = 0) -> float:
        """Type into the panel's box as a person does, and press Enter; returns when."""
        box = self.panel(panel).get_by_role("textbox")
        box.click()
        lines = text.split("\n")
        for number, line in enumerate(lines):
            box.press_sequentially(line)
            if number < len(lines) - 1:
                box.press("Shift+Enter")
        box.press("Enter")
        return time.time()


class Kernel:
    """A real kernel, spoken to as a front end does.

    Args:
        python: Its Python; this one if left out.
    """

    def __init__(self, python: str = sys.executable) -> None:
        from jupyter_client.manager import KernelManager

        self._home = Path(tempfile.mkdtemp(prefix="hermes-nb-kernel-"))
        self._manager = KernelManager()
        self._manager.kernel_spec.argv[0] = python
        self.messages: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        env = os.environ | {"IPYTHONDIR": str(self._home), "PYTHONPATH": str(ROOT), "HERMES_NB_HOME": str(self._home)}
        self._manager.start_kernel(env=env, cwd=str(self._home))
        self.client = self._manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        shutil.rmtree(self._home, ignore_errors=True)

    @property
    def alive(self) -> bool:
        """The kernel's process is running."""
        return self._manager.is_alive()

    def send(self, code: str) -> str:
        """Send a cell without waiting; returns the message's id."""
        identity: str = self.client.execute(code)
        return identity

    def run(self, code: str, seconds: float = 30) -> str:
        """Run a cell to its end; returns what it printed or gave back.

        Raises:
            RuntimeError: The cell failed, with the traceback's last line.
        """
        return self.wait(self.send(code), seconds)

    def wait(self, identity: str, seconds: float = 30) -> str:
        """Wait for the end of a cell that was sent."""
        printed, failure = "", ""
        for message in self.listen(seconds):
            if message["parent_header"].get("msg_id") != identity:
                continue
            content, kind = message["content"], message["msg_type"]
            if kind == "stream":
                printed += content["text"]
            elif kind in ("execute_result", "display_data"):
                printed += content["data"].get("text/plain", "") + "\n"
            elif kind == "error":
                failure = f"{content['ename']}: {content['evalue']}"
            elif kind == "status" and content["execution_state"] == "idle":
                break
        if failure:
            raise RuntimeError(failure)
        return printed.strip()

    def listen(self, seconds: float) -> Iterator[dict[str, Any]]:
        """The kernel's messages as they come; each is kept in `messages`.

        Raises:
            TimeoutError: The listener still wants more after so many seconds.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                message = self.client.get_iopub_msg(timeout=0.2)
                self.messages.append(message)
                yield message
        msg = f"nothing of what was waited for came in {seconds} s"
        raise TimeoutError(msg)

    def drain(self, seconds: float = 0.5) -> None:
        """Take in what comes within some seconds."""
        with contextlib.suppress(TimeoutError):
            for _ in self.listen(seconds):
                pass

    def panels(self) -> list[str]:
        """The comms of the panels that were opened."""
        return [
            message["content"]["comm_id"]
            for message in self.messages
            if message["msg_type"] == "comm_open" and "head" in message["content"]["data"].get("state", {})
        ]

    def say(self, comm: str, kind: Any, **fields: Any) -> None:
        """Send a message as the panel's front end does."""
        data = {"method": "custom", "content": {"kind": kind, "id": 1, **fields}}
        shell = self.client.session.msg("comm_msg", {"comm_id": comm, "data": data})
        self.client.shell_channel.send(shell)

    def state(self, comm: str) -> dict[str, Any]:
        """The widget's state, as a front end would have it now."""
        state: dict[str, Any] = {}
        for message in self.messages:
            content = message["content"]
            if message["msg_type"] in ("comm_open", "comm_msg") and content.get("comm_id") == comm:
                state |= content["data"].get("state", {})
        return state

    def interrupt(self) -> None:
        """The Stop button of the notebook."""
        self._manager.interrupt_kernel()
