"""What telemetry costs per scope: the sink's spans against the SDK's own, and against events that nobody watches.

    python benchmarks/span_cost.py [--turns 200] [--repeat 5]

Each turn has 50 iterations of a chat, an attempt and a tool: 201 scopes. The ways run in turn, `repeat` times; printed
are medians in microseconds of CPU per scope, as JSON lines. `bare` is the recorder without a sink, `sdk` starts and
ends spans with the same attributes, `sink` is what every turn does, `looked` writes its spans too, as a look at the
trace does, `file` and `content` add a file of OTLP JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from pathlib import Path

from opentelemetry.sdk.trace import SpanLimits, TracerProvider

from hermes_nb.telemetry import capture, observe
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary.events import Attempt, BudgetChanged, Chat, Iteration, Tool, Turn
from hermes_nb.vocabulary.messages import Message, Reply, Usage

ITERATIONS = 50
SCOPES = 1 + 4 * ITERATIONS


def turn(sinks):
    """One turn, told to some sinks."""
    recorder = Recorder(str(uuid.uuid4()), "conversation", sinks)
    history = [Message("system", "You are helpful."), Message("user", "Which is larger?")]
    reply = Reply(Message("assistant", "Lyon."), usage=Usage(100, 20), model="gpt-4.1", response_id="r1")
    with recorder.scope(Turn("agent", "openai", "gpt-4.1", "Which is larger?", budget_limit=90, attempts_max=3)):
        for number in range(1, ITERATIONS + 1):
            recorder.tell(BudgetChanged("consume", -1, 90, number, 90 - number, number))
            with recorder.scope(Iteration(number, budget_limit=90, budget_remaining=90 - number)) as iteration:
                parameters = {"temperature": 0.2, "max_tokens": 400}
                messages = tuple(history)
                asked = Chat(
                    "openai", "gpt-4.1", server_address="h", server_port=1, parameters=parameters, messages=messages
                )
                with recorder.scope(asked) as chat:
                    with recorder.scope(Attempt(1, 3, "openai", "gpt-4.1", server_address="h")) as attempt:
                        attempt.outcome, attempt.status = "success", 200
                    chat.reply, chat.attempts = reply, 1
                with recorder.scope(Tool("population", "c1", '{"city": "Lyon"}', agent="agent")) as tool:
                    tool.status, tool.result, tool.result_chars = "ok", "522000", 6
                iteration.outcome = "tool_calls"
            history += [reply.message, Message("tool", "522000", tool_call_id="c1")]


def sdk():
    """As many spans by the SDK alone, with the attributes that ours have."""
    observed = observe()
    turn([observed.sink])
    spans = [(kept.span.name, dict(kept.span.attributes)) for kept in observed.store.spans()]
    tracer = TracerProvider(span_limits=SpanLimits(max_span_attributes=1024)).get_tracer("bench")

    def run():
        for name, attributes in spans:
            first = dict(list(attributes.items())[: len(attributes) // 2])
            with tracer.start_as_current_span(name, attributes=first) as span:
                span.set_attributes(dict(list(attributes.items())[len(attributes) // 2 :]))

    return run


def looked():
    """A turn whose spans somebody looks at."""
    observed = observe()
    turn([observed.sink])
    for kept in observed.store.spans():
        _ = kept.span


def captured(folder, content):
    """Turns that a file captures."""

    def run(turns):
        with capture(folder / f"{content}.jsonl", content=content):
            return timed(lambda: turn([observe().sink]), turns)

    return run


def timed(work, turns):
    """Microseconds of CPU per scope, exporting threads included."""
    work()
    start = time.process_time()
    for _ in range(turns):
        work()
    return (time.process_time() - start) / turns / SCOPES * 1e6


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "bare": lambda turns: timed(lambda: turn([]), turns),
            "sdk": lambda turns: timed(sdk(), turns),
            "sink": lambda turns: timed(lambda: turn([observe().sink]), turns),
            "looked": lambda turns: timed(looked, turns),
            "file": captured(Path(folder), "none"),
            "content": captured(Path(folder), "new"),
        }
        samples = {name: [] for name in ways}
        for _ in range(args.repeat):
            for name, way in ways.items():
                samples[name].append(way(args.turns))
        for name, values in samples.items():
            print(
                json.dumps(
                    {"way": name, "us_per_scope": round(statistics.median(values), 1), "least": round(min(values), 1)}
                )
            )


if __name__ == "__main__":
    main()
