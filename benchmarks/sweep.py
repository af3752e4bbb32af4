"""A sweep with injected faults, killed in the middle and gone on with: every case once, memory, and turns per second.

    python benchmarks/sweep.py [--turns 2000] [--parallel 16] [--executor threads|dask]

The limit beside it is a loop by hand over httpx: as many lanes, the same requests of the same server, no faults, no
logbook. With Dask a worker is killed as well.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_server import running
from loop import add, raw
from soak import state

import hermes_nb as hn
from hermes_nb.logbook import Logbook
from hermes_nb.testing import no_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 2
MODEL = "tools-2+wait-50"
"""Three requests for each turn, each answered after 50 ms."""

FAULTS = hn.Faults(rate_limit=0.04, server_error=0.02, timeout=0.02, cut=0.02, malformed=0.02, tool_error=0.05, seed=1)


def start(url: str, path: Path, options: argparse.Namespace, executor: Any) -> hn.Study:
    """Start the sweep, or go on with it."""
    agent = hn.Agent(hn.OpenAIChat(MODEL, base_url=url, api_key="sk-bench-000001", stream=False), tools=[add])
    prompts = [f"Add the numbers of list {number}." for number in range(options.turns // 2)]
    with no_waiting():
        return hn.sweep(
            agent.with_(guard=None, faults=FAULTS), prompts, vary={"budget": [4, 8]}, parallel=options.parallel,
            seed=1, path=path, executor=executor, progress=False,
        )  # fmt: skip


@contextmanager
def executors(options: argparse.Namespace) -> Iterator[Any]:
    """Where the cases run."""
    if options.executor == "dask":
        import distributed  # noqa: PLC0415  an extra

        with (
            distributed.LocalCluster(
                n_workers=WORKERS, threads_per_worker=options.parallel // WORKERS, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", local_directory=tempfile.mkdtemp(prefix="hermes-nb-dask-"),
            ) as cluster,
            distributed.Client(cluster) as client,
        ):  # fmt: skip
            yield client
    else:
        yield None


def limit(url: str, turns: int, lanes: int) -> float:
    """Turns per second of loops by hand."""
    began = time.perf_counter()
    with ThreadPoolExecutor(lanes) as pool:
        for lane in [pool.submit(repeat, raw(url, MODEL), turns // lanes) for _ in range(lanes)]:
            lane.result()
    return turns // lanes * lanes / (time.perf_counter() - began)


def repeat(turn: Any, times: int) -> None:
    """The turns of one lane."""
    for _ in range(times):
        turn()


def rows_of(path: Path) -> int:
    """The cases that are over by now."""
    rows = Path(f"{path}.rows.jsonl")
    return rows.read_bytes().count(b"\n") if rows.exists() else 0


def killed(url: str, path: Path, options: argparse.Namespace) -> None:
    """Run the sweep in a process that is killed at two fifths of the cases."""
    own = ["--url", url, "--path", str(path), "--turns", str(options.turns), "--parallel", str(options.parallel)]
    with subprocess.Popen([sys.executable, __file__, *own], stdout=subprocess.DEVNULL) as process:
        while rows_of(path) < options.turns * 2 // 5 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    print(f"killed after {rows_of(path):,} of {options.turns:,} cases")


def finished(study: hn.Study, options: argparse.Namespace, executor: Any) -> float:
    """Wait for the end, printing ten times what is in use; gives turns per second."""
    done = study.progress["resumed"]
    began, first = time.perf_counter(), done
    step, victim = (options.turns - done) // 10, getattr(executor, "cluster", None)
    while not study.wait(0.2):
        now = study.progress["done"]
        if now >= done + step:
            done = now
            print(f"{now:8,} cases {time.perf_counter() - began:7.1f} s: {state()}", flush=True)
        if victim is not None and now > options.turns * 7 // 10:
            os.kill(next(iter(victim.workers.values())).pid, signal.SIGKILL)
            victim = None
            print("a worker was killed")
    return (study.progress["done"] - first) / (time.perf_counter() - began)


def ended(study: hn.Study) -> Counter[str]:
    """How often a turn of each case ended, in all logbooks."""
    met: Counter[str] = Counter()
    for path in study.logbooks:
        with Logbook(path) as logbook:
            met.update(turn.conversation_id.rpartition("-")[0] for turn in logbook.turns() if turn.ended_at)
    return met


def report(study: hn.Study, rate: float, most: float) -> None:
    """Print what came of it."""
    frame, times = study.turns_df(), ended(study)
    once = (
        len(frame) == len(study.cases) and set(frame["case_id"]) == set(study.cases) and frame["turn_id"].notna().all()
    )
    print(f"every case once in the table: {once}; turns that ended: {sum(times.values()):,} of {len(times):,} cases")
    print(f"exit reasons: {frame['exit_reason'].value_counts().to_dict()}, retries: {frame['retries'].sum():,}")
    print(f"{rate:.1f} turns/s; the limit beside it: {most:.1f} turns/s ({rate / most:.0%})")


def main() -> None:
    """Kill, go on, report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=2_000)
    parser.add_argument("--parallel", type=int, default=16)
    parser.add_argument("--executor", choices=("threads", "dask"), default="threads")
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.url:  # the process that is killed
        start(options.url, Path(options.path), options, None).wait()
        return
    with tempfile.TemporaryDirectory(prefix="hermes-nb-sweep-") as folder, running() as url:
        path = Path(folder) / "study.db"
        killed(url, path, options)
        before = limit(url, options.turns // 4, options.parallel)
        with executors(options) as executor:
            study = start(url, path, options, executor)
            rate = finished(study, options, executor)
        report(study, rate, (before + limit(url, options.turns // 4, options.parallel)) / 2)


if __name__ == "__main__":
    main()
