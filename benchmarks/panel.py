"""What the panel costs: to the loop, to the kernel, to the notebook file; and how long a click takes to arrive.

    python benchmarks/panel.py [--rounds 7] [--iterations 150]

Everything is measured in a real kernel, which is spoken to as a front end does. Turns with and without a panel follow
each other in pairs, in changing order, and their medians are compared; each iteration takes as long as a fast model
server does (`--pause`), since a loop that does nothing else shows only itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

from tests.support.jupyter import Kernel, write_notebook  # noqa: E402

SETUP = """
import math, statistics, time
import hermes_nb as hn
from hermes_nb.testing import call, calls, say, script

@hn.tool
def look(path: str) -> str:
    "Look."
    return path * 20

@hn.tool
def nap(seconds: float) -> str:
    "Sleep."
    time.sleep(seconds)
    return "slept"

def start(iterations, pause):
    steps = [calls(call("look", path=f"src/{n}.py"), text="Looking at the next file, as planned.") for n in
             range(iterations)]
    for step in steps:
        object.__setattr__(step, "seconds", pause)
    agent = hn.Agent(script(*steps, say("done")), tools=[look], budget=iterations + 1, guard=None)
    return agent.start("Go", session=False)

def timed(iterations, pause, show):
    before, cpu = time.perf_counter(), time.process_time()
    run = start(iterations, pause)
    if show:
        display(run)
    run.wait()
    return time.perf_counter() - before, time.process_time() - cpu
"""


def loop_cost(kernel: Kernel, rounds: int, iterations: int, pause: float) -> None:
    """The time of a turn with a panel against one without."""
    walls: dict[bool, list[float]] = {True: [], False: []}
    cpus: dict[bool, list[float]] = {True: [], False: []}
    kernel.run(f"timed({iterations}, {pause}, True), timed({iterations}, {pause}, False)", 120)
    for number in range(rounds):
        for show in (number % 2 == 0, number % 2 == 1):
            wall, cpu = map(
                float, kernel.run(f"print(*timed({iterations}, {pause}, {show}))", 120).split("\n")[-1].split()
            )
            walls[show].append(wall)
            cpus[show].append(cpu)
    wall = {show: statistics.median(values) for show, values in walls.items()}
    cpu = {show: statistics.median(values) for show, values in cpus.items()}
    per = 1000 / iterations
    print(f"iteration without the panel   {wall[False] * per:8.3f} ms")
    print(f"iteration with the panel      {wall[True] * per:8.3f} ms   {wall[True] / wall[False] - 1:+.1%}")
    print(f"processor, the same           {cpu[False] * per:8.3f} ms, {cpu[True] * per:.3f} ms")


def update_cost(kernel: Kernel) -> None:
    """The time of one look of the painter, with something new and without."""
    told = kernel.run(
        """
from hermes_nb.widgets.display import before
from hermes_nb.widgets.panel import Panel
from hermes_nb.widgets.monitor import Snapshot
run = start(300, 0); _ = run.result()
past = run.subscribe(lambda e: None)
panel = Panel(start(1, 30), before(run), lambda *_: None)
looks, quiet = [], []
for n in range(0, len(past), 40):
    panel._events.extend(past[n:n + 40])
    t = time.perf_counter(); panel.paint(); looks.append(time.perf_counter() - t)
    t = time.perf_counter(); panel.paint(); quiet.append(time.perf_counter() - t)
t = time.perf_counter(); Snapshot().after_all(past); fold = (time.perf_counter() - t) / len(past)
sink = []; t = time.perf_counter()
for e in past: panel._sink(e)
sinking = (time.perf_counter() - t) / len(past)
panel._run.interrupt()
print(statistics.median(looks) * 1000, statistics.median(quiet) * 1000, fold * 1e6, sinking * 1e6)
""",
        60,
    )
    look, quiet, fold, sinking = map(float, told.split("\n")[-1].split())
    print(f"one update of 40 events       {look:8.3f} ms")
    print(f"a look at nothing new         {quiet:8.3f} ms")
    print(f"an event folded               {fold:8.1f} us   (in the painter's thread)")
    print(f"an event for the loop         {sinking:8.2f} us   (in the turn's thread)")


def latencies(kernel: Kernel, rounds: int) -> None:
    """From the front end's message to the effect in the turn, while the kernel is idle."""
    stops, steers = [], []
    for _ in range(rounds):
        kernel.run(
            "seen = []\nagent = hn.Agent(script(call('nap', seconds=20)), tools=[nap], guard=None)\n"
            "run = agent.start('Go', session=False, sinks=[lambda e: seen.append((time.time(), e))])\nrun"
        )
        comm = kernel.panels()[-1]
        time.sleep(0.3)
        for kind, times in (("steer", steers), ("interrupt", stops)):
            sent = time.time()
            kernel.say(comm, kind, text="left")
            kernel.drain(0.15)
            told = kernel.run(f"print([at for at, e in seen if e.what.kind == '{kind}'][0])")
            times.append(float(told) - sent)
        kernel.run("_ = run.result()")
    print(f"steer, message to queued      {statistics.median(steers) * 1000:8.1f} ms")
    print(f"interrupt, message to asked   {statistics.median(stops) * 1000:8.1f} ms")


def file_size(iterations: int) -> None:
    """A notebook with one turn, as it is saved."""
    with tempfile.TemporaryDirectory() as folder:
        cells = [SETUP, f"run = start({iterations}, 0)\nrun", "_ = run.result()"]
        path = write_notebook(Path(folder) / "a.ipynb", cells)
        empty = path.stat().st_size
        notebook = nbformat.read(path, 4)
        NotebookClient(notebook, timeout=120).execute()
        nbformat.write(notebook, path)
        print(f"saved, {iterations:4} iterations        {(path.stat().st_size - empty) / 1024:8.1f} KB")


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that the model takes for each reply")
    wanted = parser.parse_args()
    with Kernel() as kernel:
        kernel.run(SETUP)
        loop_cost(kernel, wanted.rounds, wanted.iterations, wanted.pause)
        update_cost(kernel)
        latencies(kernel, wanted.rounds)
    for iterations in (10, wanted.iterations):
        file_size(iterations)


if __name__ == "__main__":
    main()
