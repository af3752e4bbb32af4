"""What the drivers of the peers share: the tool, and the measuring when `peers.py` asks for it.

Needs nothing but Python, because each driver runs in the environment of its peer.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

LEAST = 3  # turns of one measurement
ran = 0  # how often the tool was called


class Work(NamedTuple):
    """What a turn is to do."""

    url: str
    model: str
    calls: int
    system: str
    prompt: str


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: The first.
        b: The second.
    """
    global ran  # noqa: PLW0603  some peers take plain functions only
    ran += 1
    return a + b


def cost(turn: Callable[[], object], seconds: float, per: int) -> tuple[float, float]:
    """Wall and CPU microseconds per iteration, the median of the turns of some time."""
    walls, cpus, end = [], [], time.perf_counter() + seconds
    while len(walls) < LEAST or time.perf_counter() < end:
        wall, cpu = time.perf_counter(), time.process_time()
        turn()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return statistics.median(walls) / per * 1e6, statistics.median(cpus) / per * 1e6


def drive(make: Callable[[Work], Callable[[], object]], *packages: str) -> None:
    """Make a turn of the work in the arguments, tell the packages' versions, measure for each line of stdin."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a peer prints is no answer
    work = Work(*json.loads(sys.argv[1]))
    turn = make(work)
    turn()
    if ran != work.calls:
        sys.exit(f"the tool was called {ran} times in a turn, not {work.calls}")
    print(json.dumps([f"{package} {version(package)}" for package in packages]), file=out)
    for line in sys.stdin:
        print(json.dumps(cost(turn, float(line), work.calls + 1)), file=out)
