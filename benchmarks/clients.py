"""Which HTTP client: many loops at once by hand, each ten requests long, over each client that could carry them.

    python benchmarks/clients.py [--rounds 3] [--wait 50]

The server takes so many milliseconds for each reply. A loop sends one request after the other, as a turn does; nothing
is encoded or parsed, so that the clients alone are compared. A round measures every way once, one after the other.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import statistics
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import httpx
from bench_server import running
from loop import rate

from hermes_nb.providers.http1 import Request
from hermes_nb.providers.transport import StreamTransport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

REQUESTS = 10
HEADERS = {"content-type": "application/json"}
UNBOUNDED = httpx.Limits(max_connections=None)
TRUST = ssl.create_default_context()


def in_threads(lanes: int, url: str, body: bytes, shared: httpx.Client | None) -> None:
    """A thread for each loop, with a client of its own or one for all."""

    def loop(_: int) -> None:
        client = shared or httpx.Client(verify=TRUST)
        for _ in range(REQUESTS):
            client.post(url, content=body, headers=HEADERS)
        if client is not shared:
            client.close()

    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(loop, range(lanes)))


def in_tasks(lanes: int, send: Callable[[], Awaitable[Any]]) -> Any:
    """A task for each loop, all in one event loop."""

    async def loop() -> None:
        for _ in range(REQUESTS):
            await send()

    return asyncio.gather(*[loop() for _ in range(lanes)])


async def one_client(lanes: int, url: str, body: bytes, limits: httpx.Limits) -> None:
    """One `httpx.AsyncClient` for all tasks."""
    async with httpx.AsyncClient(verify=TRUST, limits=limits, timeout=None) as client:
        await in_tasks(lanes, lambda: client.post(url, content=body, headers=HEADERS))


async def a_client_each(lanes: int, url: str, body: bytes) -> None:
    """An `httpx.AsyncClient` for each task, with one TLS context for all."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        clients = [await enter(httpx.AsyncClient(verify=TRUST, timeout=None)) for _ in range(lanes)]
        loops = (in_tasks(1, lambda own=one: own.post(url, content=body, headers=HEADERS)) for one in clients)
        await asyncio.gather(*loops)


async def streams(lanes: int, url: str, body: bytes) -> None:
    """Over asyncio's streams, as our turns do."""
    async with StreamTransport(TRUST) as transport:

        async def send() -> None:
            response = await transport.send(Request(url, HEADERS, body))
            async for _ in response.aiter_bytes():
                pass

        await in_tasks(lanes, send)


def ways(url: str, body: bytes, lanes: int) -> dict[str, Callable[[], None]]:
    """Every way to send the requests of so many loops."""
    common = httpx.Client(verify=TRUST, limits=UNBOUNDED, timeout=None)
    return {
        "threads, an httpx.Client each": lambda: in_threads(lanes, url, body, None),
        "threads, one httpx.Client": lambda: in_threads(lanes, url, body, common),
        "tasks, an httpx.AsyncClient each": lambda: asyncio.run(a_client_each(lanes, url, body)),
        "tasks, one AsyncClient, its own limits": lambda: asyncio.run(one_client(lanes, url, body, httpx.Limits())),
        "tasks, one AsyncClient, no limits": lambda: asyncio.run(one_client(lanes, url, body, UNBOUNDED)),
        "tasks, asyncio's streams (ours)": lambda: asyncio.run(streams(lanes, url, body)),
    }


def measured(way: Callable[[], None], requests: int) -> tuple[float, float] | None:
    """Requests for each second, and for each second of CPU time; None where the client breaks."""
    try:
        return rate(way, requests)
    except (httpx.HTTPError, RuntimeError) as error:
        print(f"     broke: {type(error).__name__}: {error}")
        return None


def main() -> None:
    """Print a table for each number of loops."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait", type=int, default=50)
    arguments = parser.parse_args()
    body = b'{"model": "text-20+wait-%d", "messages": [{"role": "user", "content": "Go on."}]}' % arguments.wait
    with running() as base:
        for lanes in (1, 16, 64, 256):
            those = ways(f"{base}/chat/completions", body, lanes)
            rows = [
                {name: measured(way, lanes * REQUESTS) for name, way in those.items()} for _ in range(arguments.rounds)
            ]
            for name in those:
                kept = [row[name] for row in rows if row[name]]
                wall, cpu = (statistics.median(one[part] for one in kept) if kept else 0 for part in (0, 1))
                share = wall * arguments.wait / 1000 / lanes
                print(f"{lanes:4} loops, {name:40} {share:4.0%} of ideal, {cpu:6.0f} requests per CPU s")


if __name__ == "__main__":
    main()
