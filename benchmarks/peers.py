"""What the loops of other agent libraries cost, beside ours and a loop by hand over httpx, in one run.

    python benchmarks/peers.py [--rounds 3] [--calls 50]
    python benchmarks/peers.py --install [NAME ...]

Each peer runs in an environment of its own in the user cache; what is not installed is skipped. All do the work of
`loop.py` against the same server: a turn of 50 calls of one tool, not streamed unless the peer always does. Each round
measures every peer once, and the loop by hand before it; ratios are taken against that neighbour. CPU counts all
threads of the peer's process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from bench_server import running
from drivers.driving import Work, cost
from loop import PROMPT, SYSTEM, ours, raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
PLACE = platformdirs.user_cache_path("hermes_nb", appauthor=False) / "peers"
READY = "ready"  # a file in an environment whose installation came to its end
PEERS = {
    "pydantic_ai": ["pydantic-ai-slim[openai]"],
    "openai_agents": ["openai-agents"],
    "smolagents": ["smolagents[openai]"],
    "langgraph": ["langgraph", "langchain", "langchain-openai"],
    "hermes_agent": ["hermes-agent"],
}
"""What is installed for each peer."""


def install(name: str, home: Path) -> None:
    """Make a peer's environment, or bring it up to date."""
    tool = str(ROOT / "tools" / "install.py")
    python = home / "bin" / "python"
    if not python.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, tool, "--create", home], check=True)
    subprocess.run([python, tool, "--upgrade", *PEERS[name]], check=True)
    (home / READY).touch()


class Peer:
    """A driver in a process of its own, which waits until it is asked to measure."""

    def __init__(self, name: str, home: Path, work: Work, folder: str) -> None:
        """Start the driver; it has made one turn, and told its versions, when this returns."""
        self.name = name
        command = [home / "bin" / "python", ROOT / "benchmarks" / "drivers" / f"drive_{name}.py", json.dumps(work)]
        settings = {"PATH": os.defpath, "HOME": folder, "LANGSMITH_TRACING": "false", "PYTHONWARNINGS": "ignore"}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  as long as the process
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        self.process = subprocess.Popen(command, text=True, cwd=folder, env=settings, **pipes)
        self.versions = ", ".join(self.read())

    def read(self) -> list:
        """The next line that the driver tells."""
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines() or ["nothing"]
            msg = f"{self.name}: the driver has ended; its last words: {said[-1]}"
            raise RuntimeError(msg)
        return json.loads(line)

    def cost(self, seconds: float) -> tuple[float, float]:
        """Wall and CPU microseconds per iteration."""
        print(seconds, file=self.process.stdin, flush=True)
        wall, cpu = self.read()
        return wall, cpu


def compare(name: str, versions: str, rounds: list[tuple[float, ...]]) -> None:
    """Print one row: medians of the rounds, each of (wall, CPU) by hand and (wall, CPU) of the peer."""
    wall = statistics.median(row[2] / row[0] for row in rounds)
    cpu = statistics.median(row[3] / row[1] for row in rounds)
    used, by_hand = (statistics.median(row[column] for row in rounds) for column in (3, 1))
    print(f"{name:14} wall x {wall:6.1f}   CPU x {cpu:6.1f}   CPU µs {used:7.0f} (raw {by_hand:.0f})   {versions}")


def peers(place: Path, work: Work) -> Iterator[Peer]:
    """Start what is installed; tell what is not, and what fails."""
    folder = tempfile.mkdtemp(prefix="hermes-nb-peers-")
    for name in PEERS:
        if not (place / name / READY).exists():
            print(f"{name}: not installed (python benchmarks/peers.py --install {name})")
            continue
        try:
            yield Peer(name, place / name, work, folder)
        except RuntimeError as error:
            print(error)


def measure(place: Path, rounds: int, calls: int) -> None:
    """Measure what is installed, and print the table."""
    per = calls + 1
    with running() as url:
        work = Work(url, f"tools-{calls}", calls, SYSTEM, PROMPT)
        started = list(peers(place, work))
        own, by_hand = ours(url, work.model), raw(url, work.model)
        versions = {"hermes_nb": "this tree, everything on"} | {peer.name: peer.versions for peer in started}
        ways: dict[str, Callable[[float], tuple[float, float]]]
        ways = {"hermes_nb": lambda seconds: cost(own, seconds, per)} | {peer.name: peer.cost for peer in started}
        by_hand()
        own()
        rows: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, measured in ways.items():
                rows[name].append((*cost(by_hand, 0.5, per), *measured(0.5)))
        for name in ways:
            compare(name, versions[name], rows[name])
        for peer in started:
            peer.process.kill()


def main() -> None:
    """Install, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", nargs="*", metavar="NAME", choices=list(PEERS), help="all, if none is named")
    parser.add_argument("--place", type=Path, default=PLACE, help="the folder of the environments")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=50)
    arguments = parser.parse_args()
    place = arguments.place.absolute()
    if arguments.install is None:
        measure(place, arguments.rounds, arguments.calls)
        return
    for name in arguments.install or PEERS:
        install(name, place / name)


if __name__ == "__main__":
    main()
