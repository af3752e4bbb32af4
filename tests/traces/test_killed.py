"""Turns of a process that was killed: what had ended is in the file, and the frames show the turn as open."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time

import pandas as pd
import pytest

from hermes_nb.traces import load, span_tree

PROGRAM = textwrap.dedent("""
    import sys, time
    import hermes_nb as hn
    from hermes_nb.testing import call, script

    hn.capture(sys.argv[1])

    @hn.tool
    def work(number: int) -> str:
        "Works for a moment."
        time.sleep(0.02)
        return str(number)

    agent = hn.Agent(script(*[call("work", number=n) for n in range(1000)]), tools=[work], budget=1000, name="worker")
    agent.run("q", session=False)
""")


@pytest.mark.parametrize("moment", [0.05, 0.3, 0.7])
def test_a_killed_turn_is_rebuilt_from_the_spans_that_had_ended(tmp_path, moment):
    path = tmp_path / "spans.jsonl"
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.DEVNULL)
    try:
        wait_for_lines(path)
        time.sleep(moment)
    finally:
        process.kill()
        process.wait()

    traces = load(path)
    turn = traces.turns_df().iloc[0]
    iterations = traces.iterations_df()

    assert len(traces.turns_df()) == 1
    assert turn["is_running"]
    assert pd.isna(turn["end_time"])
    assert pd.isna(turn["exit_reason"])
    assert turn["iterations"] == len(traces.spans_df().query("span_type == 'iteration'"))
    assert iterations["iteration"].tolist() == list(range(1, len(iterations) + 1))
    assert not iterations["is_running"].iloc[:-2].any()
    assert iterations["is_running"].iloc[-1] or turn["iterations"] == len(iterations)
    assert turn["span_id"] in set(traces.spans_df()["parent_span_id"])
    assert turn["agent_name"] == "worker" or pd.isna(turn["agent_name"])
    assert "1 turns were put together without their own span" in str(traces.report)
    assert "hermes.iteration 1" in span_tree(traces)


def wait_for_lines(path, seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not path.exists() or path.read_bytes().count(b"\n") < 12:
        assert time.monotonic() < until
        time.sleep(0.02)
