"""Spans to frames: ours against a plain Arrow build, json_normalize, pyarrow's own readers, and other projects' frames.

    python benchmarks/frames.py [--spans 10000 100000] [--repeat 3] [--normalized 100000] [--peers PYTHON ...]

Every way gets the same spans, or a file written from them beforehand. The ways run in turn, `repeat` times, and each
is compared with its reference in the same round; printed are medians, as JSON lines: seconds of CPU and of the clock
per million spans, the ratio of CPU to the reference, and bytes per span of the frame (and of the file).

References: `arrow` (one Arrow column per field and attribute, from the spans' public mappings, then pandas) for what
starts in memory, `read_table` (pyarrow, then pandas) for Parquet. `json_normalize` is left out above `--normalized`
spans: a million need some 10 GB and two minutes. A peer is measured by each interpreter that has it (frames_peers.py),
on its own data of the same shape; `--peers` names interpreters beside this one.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hermes_nb.traces import Traces, load

ITERATIONS = 50
TEXT = "One step after the other, as it was before and as it will be after this one. "
PEERS = ("inspect_ai", "mlflow", "phoenix")


# ---------------------------------------------------------------------------------------------- spans


def make(count):
    """Turns of 151 spans: a turn, and 50 iterations with a chat and a tool each."""
    kept, dice = InMemorySpanExporter(), random.Random(7)
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=1024))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("hermes_nb")
    for turn in range(1, count // (3 * ITERATIONS + 1) + 2):
        own = {"hermes.turn.id": f"turn-{turn}", "gen_ai.conversation.id": f"conversation-{turn // 10}"}
        said = {"hermes.span.type": "turn", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bench"}
        with tracer.start_as_current_span("invoke_agent bench", attributes=own | said):
            for number in range(1, ITERATIONS + 1):
                one_iteration(tracer, own | {"hermes.iteration.number": number}, dice)
    return list(kept.get_finished_spans()[:count])


def one_iteration(tracer, own, dice):
    """An iteration, its chat and its tool."""
    number = own["hermes.iteration.number"]
    with tracer.start_as_current_span("hermes.iteration", attributes=own | {"hermes.span.type": "iteration"}):
        chat = {
            "hermes.span.type": "chat",
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4.1",
            "gen_ai.response.model": "gpt-4.1-2025-04-14",
            "gen_ai.response.id": f"chatcmpl-{dice.getrandbits(64):016x}",
            "gen_ai.response.finish_reasons": ("tool_call",),
            "gen_ai.usage.input_tokens": 200 + 30 * number,
            "gen_ai.usage.output_tokens": dice.randrange(10, 200),
            "server.address": "127.0.0.1",
            "server.port": 8080,
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": "x" * 80}]}]
            ),
        }
        with tracer.start_as_current_span("chat gpt-4.1", attributes=own | chat):
            pass
        tool = {
            "hermes.span.type": "tool",
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": dice.choice(["add", "read", "grep"]),
            "gen_ai.tool.call.id": f"call-{dice.getrandbits(32):08x}",
            "gen_ai.tool.call.arguments": json.dumps({"a": number, "b": dice.randrange(1000)}),
            "hermes.tool.result_chars": dice.randrange(1000),
        }
        with tracer.start_as_current_span("execute_tool", attributes=own | tool):
            pass


# ---------------------------------------------------------------------------------------------- ways


def arrow(spans):
    """The reference: fixed fields and one column per attribute, filled by hand, in Arrow, then pandas."""
    columns = {name: [] for name in ("trace_id", "span_id", "parent_span_id", "name", "start", "end", "status")}
    attributes = {}
    for place, span in enumerate(spans):
        context, parent = span.context, span.parent
        columns["trace_id"].append(f"{context.trace_id:032x}")
        columns["span_id"].append(f"{context.span_id:016x}")
        columns["parent_span_id"].append(None if parent is None else f"{parent.span_id:016x}")
        columns["name"].append(span.name)
        columns["start"].append(span.start_time)
        columns["end"].append(span.end_time)
        columns["status"].append(span.status.status_code.name)
        for key, value in span.attributes.items():
            if key not in attributes:
                attributes[key] = [None] * len(spans)
            attributes[key][place] = value
    moment = pa.timestamp("ns", "UTC")
    table = {name: pa.array(values, moment if name in ("start", "end") else None) for name, values in columns.items()}
    table |= {name: pa.array(values) for name, values in attributes.items()}
    return pa.table(table).to_pandas(types_mapper=pd.ArrowDtype)


def json_normalize(spans):
    """What comes to mind first."""
    return pd.json_normalize([json.loads(span.to_json()) for span in spans])


def ours(spans):
    """Our frame of spans."""
    return Traces.from_spans(spans).spans_df()


def turns(spans):
    """Our frame of turns."""
    return Traces.from_spans(spans).turns_df()


def all_frames(spans):
    """Our frames of spans, turns, iterations, chats and tools; gives the first."""
    traces = Traces.from_spans(spans)
    frames = [traces.spans_df(), traces.turns_df(), traces.iterations_df(), traces.chats_df(), traces.tool_calls_df()]
    return frames[0]


def read_table(folder):
    """The reference for Parquet."""
    (path,) = (folder / "spans").rglob("*.parquet")
    columns = [name for name in pq.read_schema(path).names if name != "content_json"]
    return pq.read_table(path, columns=columns).to_pandas(types_mapper=pd.ArrowDtype)


def load_parquet(folder):
    """Ours."""
    return load(folder).spans_df()


def json_loads(path):
    """The reference for OTLP JSON: Python's own parser, and nothing done with the result."""
    with path.open("rb") as stream:
        found = [json.loads(line) for line in stream]
    return pd.DataFrame({"lines": [len(each) for each in found]})


def load_otlp(path):
    """Ours."""
    return load(path).spans_df()


WAYS = {
    "memory": ("arrow", [arrow, ours, turns, all_frames, json_normalize]),
    "parquet": ("read_table", [read_table, load_parquet]),
    "otlp": ("json_loads", [json_loads, load_otlp]),
}


def measure(count, repeat, normalized):
    """Print the ways for one number of spans."""
    spans = make(count)
    with tempfile.TemporaryDirectory(prefix="bench-frames-") as place:
        folder, lines = Path(place) / "turns", Path(place) / "turns.jsonl"
        kept = Traces.from_spans(spans, content=True)
        kept.to_parquet(folder)
        kept.to_otlp_json(lines, content=True)
        del kept
        sizes = {"parquet": sum(path.stat().st_size for path in (folder / "spans").rglob("*.parquet"))}
        sizes["otlp"] = lines.stat().st_size
        given = {"memory": spans, "parquet": folder, "otlp": lines}
        for kind, (reference, ways) in WAYS.items():
            tried = [way for way in ways if way is not json_normalize or count <= normalized]
            results = rounds(tried, given[kind], repeat)
            for way in tried:
                report(way.__name__, kind, count, results, reference, sizes.get(kind))


def rounds(ways, given, repeat):
    """Seconds of CPU and of the clock, and bytes of the frame, for each way in each round."""
    results = {way.__name__: [] for way in ways}
    for _ in range(repeat):
        for way in ways:
            gc.collect()
            cpu, clock = time.process_time(), time.perf_counter()
            frame = way(given)
            cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
            results[way.__name__].append((cpu, clock, int(frame.memory_usage(deep=True).sum())))
            del frame
    return results


def report(way, kind, count, results, reference, size):
    """Print one way."""
    ratios = [mine[0] / other[0] for mine, other in zip(results[way], results[reference], strict=True)]
    line = {
        "way": way,
        "from": kind,
        "spans": count,
        "cpu_s_per_million": statistics.median(cpu for cpu, _, _ in results[way]) / count * 1e6,
        "clock_s_per_million": statistics.median(clock for _, clock, _ in results[way]) / count * 1e6,
        f"times_{reference}": statistics.median(ratios),
        "frame_bytes_per_span": results[way][0][2] / count,
    }
    if size is not None:
        line["file_bytes_per_span"] = size / count
    show(line)


def show(line):
    """Print one line, with three digits."""
    print(
        json.dumps({key: float(f"{each:.3g}") if isinstance(each, float) else each for key, each in line.items()}),
        flush=True,
    )


def _clock(spans):
    clock = time.perf_counter()
    ours(spans)
    return time.perf_counter() - clock


def peers(interpreters, count):
    """Print the peers that the interpreters have, each beside our frame of as many spans."""
    gc.collect()
    spans = make(count)
    mine = statistics.median(_clock(spans) for _ in range(5)) / count * 1e6
    for peer in PEERS:
        for interpreter in interpreters:
            program = [interpreter, str(Path(__file__).with_name("frames_peers.py")), peer, str(count)]
            done = subprocess.run(program, capture_output=True, text=True, timeout=1800, check=False)
            if done.returncode == 0:
                line = json.loads(done.stdout.splitlines()[-1])
                show(line | {"times_ours": line["clock_s_per_million"] / mine})
                break
        else:
            why = (done.stderr.strip() or "it said nothing").splitlines()[-1]
            print(json.dumps({"way": peer, "skipped": why}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spans", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--normalized", type=int, default=100_000, help="most spans that json_normalize gets")
    parser.add_argument("--peers", nargs="*", default=[], help="interpreters that have inspect_ai, mlflow or phoenix")
    parser.add_argument("--peer-spans", type=int, default=5_000)
    args = parser.parse_args()
    for count in args.spans:
        measure(count, args.repeat, args.normalized)
    peers([sys.executable, *args.peers], args.peer_spans)


if __name__ == "__main__":
    main()
