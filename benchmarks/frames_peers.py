"""How long other projects take to give their frame of spans; started by frames.py with an interpreter that has them.

    python benchmarks/frames_peers.py (inspect_ai | mlflow | phoenix) SPANS

Each stores turns of 101 spans (51 model calls, 50 tool calls) in its own way, which is not measured, and reads them
back with its own function. Prints one JSON line; fails if the project is not installed.
"""

# ruff: noqa: PLC0415  each project is imported where it is measured, and may be missing
from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

CALLS = 50
TURN = 2 * CALLS + 1


def measured(read, count, **more):
    """Read once to warm up and once to measure; print the line."""
    read()
    cpu, clock = time.process_time(), time.perf_counter()
    frame = read()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    size = int(frame.memory_usage(deep=True).sum())
    line = {"spans": count, "cpu_s_per_million": cpu / count * 1e6, "clock_s_per_million": clock / count * 1e6}
    print(json.dumps(more | line | {"frame_bytes_per_span": size / count}))


def inspect_ai(turns, folder):
    """`events_df` of the model's and the tool's events."""
    os.environ["INSPECT_DISPLAY"] = "none"
    import inspect_ai
    import pandas as pd
    from inspect_ai.analysis import EventInfo, EventTiming, ModelEventColumns, ToolEventColumns, events_df
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def add():
        async def execute(a: int, b: int) -> int:
            """Add two numbers.

            Args:
                a: One.
                b: The other.
            """
            return a + b

        return execute

    def replies():
        while True:
            for number in range(CALLS):
                yield counted(ModelOutput.for_tool_call("mockllm/model", "add", {"a": number, "b": 1}))
            yield counted(ModelOutput.from_content("mockllm/model", "done"))

    def counted(output):
        output.usage = ModelUsage(input_tokens=200, output_tokens=12, total_tokens=212)
        return output

    samples = [Sample(input=f"Add {number}.", id=number) for number in range(1, turns + 1)]
    task = inspect_ai.Task(dataset=samples, solver=[use_tools(add()), generate()])
    model = get_model("mockllm/model", custom_outputs=replies())
    inspect_ai.eval(task, model=model, log_dir=folder, display="none", max_samples=1)

    def read():
        kinds = {"model": ModelEventColumns, "tool": ToolEventColumns}
        frames = [
            events_df(
                folder, columns=EventInfo + EventTiming + columns, filter=lambda e, k=kind: e.event == k, quiet=True
            )
            for kind, columns in kinds.items()
        ]
        return pd.concat(frames)

    assert len(read()) == turns * TURN
    measured(read, turns * TURN, way="inspect_ai events_df")


def mlflow(turns, folder):
    """`search_traces`, and its spans made into rows."""
    os.environ |= {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    import mlflow as peer
    import pandas as pd

    peer.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    peer.set_experiment("bench")
    for turn in range(turns):
        with peer.start_span("invoke_agent", attributes={"turn": turn}):
            for number in range(CALLS):
                with peer.start_span("chat", span_type="CHAT_MODEL", attributes=attributes(number)):
                    pass
                with peer.start_span("tool", span_type="TOOL", attributes=attributes(number)):
                    pass

    def read():
        frame = peer.search_traces(return_type="pandas", max_results=turns)
        return pd.json_normalize([span for spans in frame["spans"] for span in spans])

    assert len(read()) == turns * TURN
    measured(read, turns * TURN, way="mlflow search_traces, exploded")


def attributes(number):
    """Some attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-4.1",
        "gen_ai.usage.input_tokens": 200 + number,
        "gen_ai.usage.output_tokens": number,
        "server.address": "127.0.0.1",
    }


def phoenix(turns, folder):
    """`get_spans_dataframe` of a server on loopback."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from phoenix.client import Client

    ports = [free_port(), free_port()]
    url = f"http://127.0.0.1:{ports[0]}"
    environment = os.environ | {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(ports[0]),
        "PHOENIX_GRPC_PORT": str(ports[1]),
        "PHOENIX_WORKING_DIR": folder,
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [sys.executable, "-m", "phoenix.server.main", "serve"]
    with (
        Path(folder, "log").open("w") as log,
        subprocess.Popen(command, env=environment, stdout=log, stderr=log) as server,
    ):
        try:
            until_ready(url)
            provider = TracerProvider()
            provider.add_span_processor(
                BatchSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces"), max_queue_size=100_000)
            )
            tracer = provider.get_tracer("bench")
            for _ in range(turns):
                with tracer.start_as_current_span("invoke_agent"):
                    for number in range(CALLS):
                        for name in ("chat", "tool"):
                            with tracer.start_as_current_span(name, attributes=attributes(number)):
                                pass
            provider.shutdown()
            client = Client(base_url=url)

            def read():
                return client.spans.get_spans_dataframe(limit=turns * TURN + 1, timeout=600)

            while len(read()) < turns * TURN:
                time.sleep(1)
            measured(read, turns * TURN, way="phoenix get_spans_dataframe")
        finally:
            server.terminate()


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def until_ready(url, seconds=120):
    """Wait until a server answers."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/healthz").close()
            return
        if time.monotonic() > end:
            raise TimeoutError(url)
        time.sleep(0.5)


if __name__ == "__main__":
    peer, spans = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="bench-peer-") as place:
        {"inspect_ai": inspect_ai, "mlflow": mlflow, "phoenix": phoenix}[peer](max(spans // TURN, 1), place)
