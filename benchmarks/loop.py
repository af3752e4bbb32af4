"""What the loop costs: our turns against a loop by hand over httpx that sends the same requests, in one run.

    python benchmarks/loop.py [--rounds 5] [--calls 50]

Each round runs every way once, the raw loop before each of ours; the ratio is taken against that neighbour, and the
medians of the rounds are printed. CPU counts all threads of this process; the server runs in one of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ["HERMES_NB_HOME"] = tempfile.mkdtemp(prefix="hermes-nb-bench-")

import httpx
from bench_server import running
from drivers.driving import cost

import hermes_nb as hn

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEM, PROMPT = "You are a calculator.", "Add the numbers."
SCHEMA = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two integers.",
        "parameters": {
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    },
}


@hn.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def raw(url: str, model: str, *, each_turn: bool = False) -> Callable[[], None]:
    """A loop by hand over `httpx.Client`: one for all turns, or one for each, as threads need it (its pool breaks)."""
    trust = httpx.create_ssl_context()
    shared = None if each_turn else httpx.Client(base_url=url, verify=trust)

    def turn() -> None:
        if shared is not None:
            return loop(shared)
        with httpx.Client(base_url=url, verify=trust) as own:
            return loop(own)

    def loop(client: httpx.Client) -> None:
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
        while True:
            body = {"model": model, "messages": messages, "tools": [SCHEMA]}
            message = client.post("/chat/completions", json=body).json()["choices"][0]["message"]
            if not read(message, messages):
                return

    return turn


def read(message: dict[str, Any], messages: list[dict[str, Any]]) -> bool:
    """Take a reply's message, and answer its calls; whether there were any."""
    messages.append(message)
    for call in message.get("tool_calls") or ():
        result = str(add(**json.loads(call["function"]["arguments"])))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return bool(message.get("tool_calls"))


def raw_stream(url: str, model: str) -> Callable[[], None]:
    """A streamed text by hand."""
    client = httpx.Client(base_url=url)

    def turn() -> None:
        body = {"model": model, "messages": [{"role": "user", "content": PROMPT}], "stream": True}
        text = []
        with client.stream("POST", "/chat/completions", json=body) as response:
            for line in response.iter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    text.extend(choice["delta"].get("content") or "" for choice in choices)

    return turn


def ours(url: str, model: str, *, stream: bool = False, look: bool = False, **options: Any) -> Callable[[], None]:
    """A turn of ours; its spans are written when it is looked at."""
    provider = hn.OpenAIChat(model, base_url=url, api_key="sk-bench-000001", stream=stream)
    agent = hn.Agent(provider, tools=[add], instructions=SYSTEM, budget=10_000)

    def turn() -> None:
        result = agent.run(PROMPT, **options).raise_for_failure()
        if look:
            result.trace.span_rows()

    return turn


def compare(name: str, reference: Callable[[], None], way: Callable[[], None], rounds: int, per: int) -> None:
    """Print one row: ours beside the raw loop, round by round."""
    reference()
    way()
    rows = [(*cost(reference, 0.5, per), *cost(way, 0.5, per)) for _ in range(rounds)]
    wall = statistics.median(row[2] / row[0] for row in rows)
    cpu = statistics.median(row[3] / row[1] for row in rows)
    raw_cpu, own_cpu = (statistics.median(row[column] for row in rows) for column in (1, 3))
    print(f"{name:42} wall x {wall:5.2f}   CPU x {cpu:5.2f}   CPU µs {own_cpu:7.0f} (raw {raw_cpu:.0f})")


def in_threads(turn: Callable[[], None], lanes: int) -> None:
    """So many turns at once, two in each lane."""
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(lambda _: turn(), range(2 * lanes)))


def in_tasks(url: str, model: str, lanes: int) -> None:
    """The same by hand in one event loop, over one `httpx.AsyncClient`."""

    async def turn(client: httpx.AsyncClient) -> None:
        messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": PROMPT}]
        while True:
            body = {"model": model, "messages": messages, "tools": [SCHEMA]}
            message = (await client.post("/chat/completions", json=body)).json()["choices"][0]["message"]
            if not read(message, messages):
                return

    async def main() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=None, verify=False) as client:
            await asyncio.gather(*[turn(client) for _ in range(lanes)])

    asyncio.run(main())


def together(url: str, lanes: int, rounds: int) -> None:
    """Many turns at once, with 50 ms of waiting for each reply: turns per second beside the ideal, and beside httpx."""
    model = "tools-10+wait-50"
    by_hand, own, kept = raw(url, model, each_turn=True), ours(url, model, session=False), ours(url, model)
    ways: dict[str, tuple[Callable[[], None], int]] = {
        "ours": (lambda: in_threads(own, lanes), 2 * lanes),
        "ours, logbook": (lambda: in_threads(kept, lanes), 2 * lanes),
        "ours, no spans": (lambda: without_spans(lambda: in_threads(own, lanes)), 2 * lanes),
        "httpx in threads": (lambda: in_threads(by_hand, lanes), 2 * lanes),
        "httpx in tasks": (lambda: in_tasks(url, model, lanes), lanes),
    }
    by_hand()
    own()
    kept()
    rows = [{name: rate(way, turns) for name, (way, turns) in ways.items()} for _ in range(rounds)]
    for name in ways:
        wall, cpu = (statistics.median(row[name][part] for row in rows) for part in (0, 1))
        share = wall * 0.55 / lanes
        print(f"{lanes:4} turns at once, {name:17}{wall:6.1f} turns/s ({share:4.0%} of ideal), {cpu:6.1f} per CPU s")


def without_spans(way: Callable[[], None]) -> None:
    """The same way, with spans off."""
    os.environ["OTEL_SDK_DISABLED"] = "true"
    try:
        way()
    finally:
        del os.environ["OTEL_SDK_DISABLED"]


def rate(way: Callable[[], None], turns: int) -> tuple[float, float]:
    """Turns for each second, and for each second of CPU time."""
    began, cpu = time.perf_counter(), time.process_time()
    way()
    return turns / (time.perf_counter() - began), turns / (time.process_time() - cpu)


def growth(url: str) -> None:
    """The CPU time of an iteration in a long turn beside that in a short one, ours and by hand."""
    told = []
    for name, make in (("httpx", raw), ("ours", ours)):
        costs = {}
        for calls in (10, 200):
            turn = make(url, f"tools-{calls}")
            turn()
            costs[calls] = cost(turn, 1.5, calls + 1)[1]
        told.append(f"{name} {costs[10]:.0f} and {costs[200]:.0f} µs, x {costs[200] / costs[10]:.2f}")
    print(f"an iteration of 10 and of 200: {'; '.join(told)}")


def memory(url: str, lanes: int = 200) -> None:
    """What a turn holds while it waits for its reply."""
    provider = hn.OpenAIChat("text-2+wait-3000", base_url=url, api_key="", stream=False)
    agent = hn.Agent(provider, tools=[add])
    agent.run(PROMPT, session=False)
    before = resident()
    runs = [agent.start(PROMPT, session=False) for _ in range(lanes)]
    time.sleep(1.5)
    held = (resident() - before) / lanes
    for run in runs:
        run.result()
    print(f"memory of a waiting turn: {held / 1024:.0f} KiB")


def resident() -> int:
    """Bytes of this process in memory."""
    with Path("/proc/self/statm").open() as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run the ways, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=50)
    arguments = parser.parse_args()
    with running() as url:
        memory(url)  # first, while nothing that was freed can be used again
        model, per = f"tools-{arguments.calls}", arguments.calls + 1
        compare("everything on", raw(url, model), ours(url, model), arguments.rounds, per)
        compare(
            "everything on, its trace looked at", raw(url, model), ours(url, model, look=True), arguments.rounds, per
        )
        compare("no logbook", raw(url, model), ours(url, model, session=False), arguments.rounds, per)
        bare = partial(compare, "no logbook, no spans", raw(url, model), ours(url, model, session=False))
        without_spans(lambda: bare(arguments.rounds, per))
        words = 500
        way = ours(url, f"text-{words}", stream=True, session=False)
        compare("streaming, per token", raw_stream(url, f"text-{words}"), way, arguments.rounds, words)
        growth(url)
        for lanes in (1, 16, 64, 256):
            together(url, lanes, arguments.rounds)


if __name__ == "__main__":
    main()
