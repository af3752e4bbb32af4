"""A process that is killed, or a kernel that is shut down, in the middle of things: what had ended is not lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pandas as pd
import pytest
from jupyter_client.manager import start_new_kernel

import hermes_nb as hn
from tests.support.receiver import receiver

MOMENTS = 20
PROGRAM = """
    import os, sys
    import hermes_nb as hn
    from hermes_nb.telemetry.hub import HUB
    from hermes_nb.testing import call, fails, no_waiting, say, script

    class Tell:
        '''Says which spans have ended, behind the file.'''
        sink = None
        def take(self, kept):
            os.write(1, format(kept.source.get_span_context().span_id, "016x").encode() + b"\\n")
        def flush(self, timeout): return True

    @hn.tool
    def population(city: str) -> int:
        '''Inhabitants of a city.'''
        return 522_000

    def turn(path):
        hn.capture(path, content="full")
        HUB.add(Tell())
        steps = [fails("server_error"), *[call("population", city="Lyon")] * 400, say("done")]
        with no_waiting():
            hn.Agent(script(*steps), tools=[population], budget=500).run("q", session=False)

    from hermes_nb.telemetry import observe; observe()          # everything is imported before the children are made
    import hermes_nb.telemetry.capturing, anyio._backends._asyncio, opentelemetry.exporter.otlp.json.file
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.write(1, b"%d\\n" % os.getpid())
            turn(line.strip())
            os._exit(0)
        os.waitpid(child, 0)
        print("gone", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_kill_at_any_moment_leaves_every_ended_span_on_disk(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(PROGRAM)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    moments = random.Random(7)
    lost, ended = 0, 0
    try:
        for number in range(MOMENTS):
            path = tmp_path / f"{number}.jsonl"
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            child = int(process.stdout.readline())
            told = {process.stdout.readline().strip() for _ in range(moments.randint(1, 60))}
            time.sleep(moments.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            told.update(line.strip() for line in iter(process.stdout.readline, "gone\n"))
            lines = path.read_text().splitlines()
            written, names = set(), []
            for line in lines:
                try:
                    (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
                except ValueError:  # the kernel may stop a write between two pages
                    assert line is lines[-1]
                else:
                    written.add(span["spanId"])
                    names.append(span["name"])
            lost += len(told - written)
            ended += len(told)
            (turn,) = hn.load(path).turns_df().to_dict("records")
            assert turn["is_running"]
            assert pd.isna(turn["exit_reason"])
            assert pd.isna(turn["end_time"])
            assert turn["api_calls"] == sum(name.startswith("chat ") for name in names)
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()

    assert ended >= MOMENTS
    assert lost == 0


TURN = """
    import hermes_nb as hn
    from hermes_nb.testing import say, script
    hn.capture(otlp={url!r})
    hn.Agent(script(say("hi"))).run("q", session=False).text
"""


@pytest.mark.kernel
def test_a_kernel_that_is_shut_down_at_once_sends_its_spans_first():
    with receiver() as server:
        manager, client = start_new_kernel(kernel_name="python3")
        manager.shutdown_wait_time = 60.0  # the kernel is asked, and killed if it takes longer
        kernel = manager.provisioner.process
        try:
            reply = client.execute_interactive(
                textwrap.dedent(TURN.format(url=server.url)), timeout=60, output_hook=print
            )
            assert reply["content"]["status"] == "ok"
            manager.shutdown_kernel(now=False)
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

        assert kernel.returncode == 0, "it was not killed"
        assert sorted(server.names()) == ["chat script", "hermes.attempt", "hermes.iteration", "invoke_agent agent"]
