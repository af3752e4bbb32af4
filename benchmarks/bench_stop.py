"""A server that never answers, and what it sees of an interrupt."""

from __future__ import annotations

import socket
import statistics
import threading
import time


def interrupts(rounds: int) -> None:
    """From `run.interrupt()` to the end of the connection as the server sees it, and to the result."""
    import hermes_nb as hn  # noqa: PLC0415  after the imports were measured

    seen: list[float] = []
    asked = threading.Semaphore(0)
    closed = threading.Semaphore(0)

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                asked.release()
                while connection.recv(1 << 16):
                    pass
                seen.append(time.perf_counter())
                closed.release()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        agent = hn.Agent(hn.OpenAIChat("m", base_url=url, api_key=""))
        gone, ended = [], []
        for _ in range(5 * rounds):
            run = agent.start("Never mind.", session=False)
            asked.acquire()
            begun = time.perf_counter()
            run.interrupt()
            run.result()
            ended.append(time.perf_counter() - begun)
            closed.acquire()
            gone.append(seen[-1] - begun)
    print(
        f"interrupt: the server sees the end after {statistics.median(gone) * 1000:6.1f} ms, the result is there",
        end=" ",
    )
    print(f"after {statistics.median(ended) * 1000:.1f} ms")
