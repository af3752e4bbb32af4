"""How soon one can begin, and how soon one can stop: imports, the first turn, an agent, an interrupt.

    python benchmarks/start.py [--rounds 9]

Imports are whole processes, ours and the reference in turn; the time of an empty interpreter is taken off both. All of
them find their bytecode, as that of an installed package is found, whatever `PYTHONDONTWRITEBYTECODE` says here.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

REFERENCE = "import httpx, opentelemetry.trace, opentelemetry.sdk.trace"
FIRST_TURN = """
import sys, time
import hermes_nb as hn
begun = time.perf_counter()
bare = sys.argv[2] == "bare"

def add(a: int, b: int) -> int:
    "Add two integers."
    return a + b

model = hn.OpenAIChat("text-5" if bare else "tools-1", base_url=sys.argv[1], api_key="", stream=not bare)
agent = hn.Agent(model, tools=[] if bare else [add])
agent.run("Go on.", session=False if bare else None).raise_for_failure()
print((time.perf_counter() - begun) * 1000)
"""


def process(code: str) -> float:
    """Milliseconds of a Python process."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return (time.perf_counter() - begun) * 1000


def imports(rounds: int) -> None:
    """The import beside the libraries that a turn needs."""
    process(REFERENCE)  # writes the bytecode
    process("import hermes_nb")
    rows = [(process("pass"), process(REFERENCE), process("import hermes_nb")) for _ in range(rounds)]
    ratio = statistics.median((own - empty) / (reference - empty) for empty, reference, own in rows)
    reference, own = (statistics.median(row[column] - row[0] for row in rows) for column in (1, 2))
    print(
        f"import hermes_nb                        {own:7.0f} ms; httpx and OpenTelemetry {reference:.0f} ms: "
        f"x {ratio:.2f}"
    )


def first_turn(url: str, rounds: int) -> None:
    """From the end of the import to the first answer: bare, and streamed with a tool call and the logbook."""
    for kind in ("bare", "full"):
        command = [sys.executable, "-c", FIRST_TURN, url, kind]
        subprocess.run(command, check=True, capture_output=True)
        found = [float(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(rounds)]
        print(f"the first turn after the import, {kind}   {statistics.median(found):7.0f} ms")


def agents(rounds: int) -> None:
    """Another agent with one tool."""
    import hermes_nb as hn  # noqa: PLC0415  after the imports were measured

    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    found = []
    for _ in range(10 * rounds):
        begun = time.perf_counter()
        hn.Agent(hn.OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key=""), tools=[add])
        found.append((time.perf_counter() - begun) * 1000)
    print(f"a new agent with a tool                 {statistics.median(found):7.2f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = os.environ["HERMES_NB_HOME"] = folder
        measure(rounds)


def measure(rounds: int) -> None:
    """All of it."""
    imports(rounds)
    from bench_server import running  # noqa: PLC0415
    from bench_stop import interrupts  # noqa: PLC0415

    with running() as url:
        first_turn(url, rounds)
    agents(rounds)
    interrupts(rounds)


if __name__ == "__main__":
    main()
