"""Other tools' servers: each in an environment of its own, started on loopback, asked through its own client.

The environments are made once, below the user's cache, and made anew when a pinned version changes.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock
from platformdirs import user_cache_path

if TYPE_CHECKING:
    from collections.abc import Iterator

READY = 240.0  # seconds that a server may take to start on a busy machine
ANSWER = 180.0  # seconds that a client may take


def python(name: str, *requirements: str) -> Path:
    """The interpreter of an environment that has these packages; made if it is not there."""
    home = Path(os.environ.get("HERMES_NB_INTEROP") or user_cache_path("hermes_nb") / "interop") / name
    home.parent.mkdir(parents=True, exist_ok=True)
    interpreter = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp, wanted = home / "requirements.txt", "\n".join(requirements)
    with FileLock(f"{home}.lock"):
        if not stamp.exists() or stamp.read_text() != wanted:
            venv.create(home, with_pip=True, clear=True)
            install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
            subprocess.run(install, check=True, stderr=subprocess.DEVNULL)
            stamp.write_text(wanted)
    return interpreter


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(command: list[Any], ready: str, log: Path, **environment: str) -> Iterator[None]:
    """A server for as long as the block lasts; entered when `ready` answers.

    Raises:
        RuntimeError: It did not start; the message has the end of its log.
    """
    with log.open("w") as out:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONWARNINGS": "ignore", **environment},
            start_new_session=True,
        )
        try:
            _wait(process, ready, log)
            yield
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], ready: str, log: Path) -> None:
    end = time.monotonic() + READY
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(ready, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
            time.sleep(0.5)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
    msg = f"the server did not start:\n{tail}"
    raise RuntimeError(msg)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and what it started: they share a session of their own."""
    if os.name == "nt":
        process.terminate()
    else:
        os.killpg(process.pid, 15)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ask(interpreter: Path, program: str, *arguments: str) -> Any:
    """What a program prints as JSON, run by an environment's interpreter."""
    command = [str(interpreter), "-W", "ignore", "-c", program, *arguments]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER, check=False)
    if answer.returncode:
        msg = f"the client failed:\n{answer.stderr[-2000:]}"
        raise RuntimeError(msg)
    return json.loads(answer.stdout.splitlines()[-1])


def until(look: Any, enough: Any, patience: float = 60.0) -> Any:
    """Look again and again until it is enough; the last look."""
    end = time.monotonic() + patience
    while not enough(found := look()) and time.monotonic() < end:
        time.sleep(1)
    return found


if __name__ == "__main__":  # makes an environment: foreign.py name requirement ...
    sys.stdout.write(f"{python(sys.argv[1], *sys.argv[2:])}\n")
