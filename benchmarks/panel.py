"""What the panel costs: to the loop, to the kernel, to the notebook file; and how long a click takes to arrive.

    python benchmarks/panel.py [--pairs 30] [--iterations 20] [--pause 0.02]

Everything is measured in a real kernel, which is spoken to as a front end does, in about 45 seconds. Turns with a panel
and without follow each other in pairs, in changing order; printed is the median of the pairs' differences with its
quartiles. Each model call takes as long as a very fast server does (`--pause`), since a loop that does nothing else
shows only itself. The time of the turn's own thread is what the panel takes away from the loop; the time of the process
has the painter's thread too, which works beside it.
"""

from __future__ import annotations

import argparse
import json
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

SETUP = '''
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

def start(iterations, pause, **more):
    steps = [calls(call("look", path=f"src/{n}.py"), text="Looking at the next file, as planned.") for n in
             range(iterations)]
    for step in steps:
        object.__setattr__(step, "seconds", pause)
    agent = hn.Agent(script(*steps, say("done")), tools=[look], budget=iterations + 1, guard=None)
    return agent.start("Go", session=False, **more)

def timed(iterations, pause, show):
    """Milliseconds of a median iteration: on the wall; and of a mean one: of the turn's thread, of the process."""
    begun = []
    def note(event):
        if event.what.kind == "iteration" and event.phase == "started":
            begun.append((time.perf_counter(), time.thread_time(), time.process_time()))
    run = start(iterations, pause, sinks=[note])
    if show:
        display(run)
    run.wait()
    begun = begun[3:]  # by then the panel stands there
    walls = [later[0] - earlier[0] for earlier, later in zip(begun, begun[1:])]
    means = [(begun[-1][part] - begun[0][part]) / len(walls) for part in (1, 2)]
    return [1000 * part for part in (statistics.median(walls), *means)]

def pairs(count, iterations, pause):
    """For each pair: without and with a panel."""
    for number in range(count):
        measured = {show: timed(iterations, pause, show) for show in (number % 2 == 0, number % 2 == 1)}
        yield measured[False], measured[True]
'''


def loop_cost(kernel: Kernel, count: int, iterations: int, pause: float) -> None:
    """The time of a turn with a panel against one without."""
    kernel.run(f"[*pairs(1, {iterations}, {pause})]", 60)
    told = kernel.run(f"import json; print(json.dumps([*pairs({count}, {iterations}, {pause})]))", 600)
    measured = json.loads(told.splitlines()[-1])
    heads = f"{'without':>8} {'with':>8} {'difference':>11} {'quartiles':>17} {'of the time':>12}"
    print(f"{'an iteration, in ms':<30} {heads}")
    wall = statistics.median(without[0] for without, _ in measured)
    for index, name in enumerate(("on the wall", "CPU of the turn's thread", "CPU of the process")):
        without, shown = (statistics.median(pair[side][index] for pair in measured) for side in (0, 1))
        low, middle, high = statistics.quantiles([b[index] - a[index] for a, b in measured], n=4)
        spread = f"{low:+.3f} … {high:+.3f}"
        print(f"{name:<30} {without:8.3f} {shown:8.3f} {middle:+11.3f} {spread:>17} {middle / wall:+12.1%}")


UPDATES = """
from hermes_nb.widgets.display import before
from hermes_nb.widgets.panel import Panel
from hermes_nb.widgets.monitor import Snapshot
run = start(300, 0); _ = run.result()
past = run.events
panel = Panel(start(1, 30), before(run), lambda *_: {})
looks, quiet = [], []
for n in range(0, len(past), 40):
    panel._events.extend(past[n:n + 40])
    t = time.thread_time(); panel.paint(); looks.append(time.thread_time() - t)
    t = time.thread_time(); panel.paint(); quiet.append(time.thread_time() - t)
t = time.thread_time(); Snapshot().after_all(past); fold = (time.thread_time() - t) / len(past)
t = time.thread_time()
for e in past: panel._sink(e)
sinking = (time.thread_time() - t) / len(past)
panel._run.interrupt()
state = panel.get_state()
code = len(state["_esm"]) + len(state["_css"])
changing = sum(len(json.dumps(state[name])) for name in ("head", "draft", "rows", "bars"))
print(json.dumps([statistics.median(looks) * 1e3, statistics.median(quiet) * 1e3, fold * 1e6, sinking * 1e6,
                  code / 1024, changing / 1024]))
"""


def update_cost(kernel: Kernel) -> None:
    """The CPU time of one look of the painter, with something new and without; the size of the widget."""
    look, quiet, fold, sinking, code, state = json.loads(kernel.run(UPDATES, 60).splitlines()[-1])
    print(f"one update of 40 events       {look:8.3f} ms")
    print(f"a look at nothing new         {quiet:8.3f} ms")
    print(f"an event folded               {fold:8.1f} us   (in the painter's thread)")
    print(f"an event for the loop         {sinking:8.2f} us   (in the turn's thread)")
    print(f"state, after 300 iterations   {state:8.1f} KB   (its script and styles, sent once: {code:.1f} KB)")


def latencies(kernel: Kernel, rounds: int) -> None:
    """From the front end's message to the effect in the turn, while the kernel is idle."""
    times: dict[str, list[float]] = {"steer": [], "interrupt": [], "end": []}
    for _ in range(rounds):
        kernel.run(
            "seen = {}\n"
            "agent = hn.Agent(script(call('nap', seconds=20)), tools=[nap], guard=None)\n"
            "def note(e):\n"
            "    kind = 'end' if (e.what.kind, e.phase) == ('turn', 'ended') else e.what.kind\n"
            "    seen.setdefault(kind, time.time())\n"
            "run = agent.start('Go', session=False, sinks=[note])\nrun"
        )
        comm = kernel.panels()[-1]
        kernel.drain(0.3)
        sent = {"steer": time.time()}
        kernel.say(comm, "steer", text="left")
        kernel.drain(0.15)
        sent["interrupt"] = sent["end"] = time.time()
        kernel.say(comm, "interrupt")
        kernel.drain(0.15)
        seen = json.loads(kernel.run("_ = run.result(); print(json.dumps(seen))").splitlines()[-1])
        for kind, taken in times.items():
            taken.append(1000 * (seen[kind] - sent[kind]))
    for kind, said in (("steer", "steer, message to queued"), ("interrupt", "interrupt, message to asked"),
                       ("end", "interrupt, message to end")):  # fmt: skip
        print(f"{said:<29} {statistics.median(times[kind]):8.1f} ms   (worst of {rounds}: {max(times[kind]):.1f})")


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
    parser.add_argument("--pairs", type=int, default=30, help="turns with a panel and without")
    parser.add_argument("--iterations", type=int, default=20, help="of each of these turns")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds that the model takes for each reply")
    wanted = parser.parse_args()
    with Kernel() as kernel:
        kernel.run(SETUP)
        loop_cost(kernel, wanted.pairs, wanted.iterations, wanted.pause)
        update_cost(kernel)
        latencies(kernel, 9)
    for iterations in (10, 150):
        file_size(iterations)


if __name__ == "__main__":
    main()
