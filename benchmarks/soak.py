"""Many iterations in one process: memory, threads and sockets must stay where they are.

python benchmarks/soak.py [--iterations 100000]
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

os.environ["HERMES_NB_HOME"] = tempfile.mkdtemp(prefix="hermes-nb-soak-")

from bench_server import running

import hermes_nb as hn

CALLS = 49


@hn.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def state() -> str:
    """Memory, threads and sockets of this process, now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    sockets = 0
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets += "socket" in str(path.readlink())
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return f"{memory:7.1f} MiB, {threading.active_count()} threads, {sockets} sockets"


def main() -> None:
    """Run turns until the iterations are done; print the state ten times on the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=100_000)
    turns = max(10, parser.parse_args().iterations // (CALLS + 1))
    with running() as url:
        provider = hn.OpenAIChat(f"tools-{CALLS}", base_url=url, api_key="sk-bench-000001", stream=False)
        agent = hn.Agent(provider, tools=[add], budget=1_000)
        began = time.perf_counter()
        for number in range(1, turns + 1):
            agent.run("Add.").raise_for_failure()
            if number % (turns // 10) == 0 or number == 1:
                print(
                    f"{number * (CALLS + 1):8} iterations {time.perf_counter() - began:7.1f} s: {state()}", flush=True
                )


if __name__ == "__main__":
    main()
