"""Many spans, and long ones: bounded memory, columns apart from content, growth in proportion."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
import time

import pandas as pd
import pytest

import hermes_nb as hn
from hermes_nb.traces import Traces, convert, load
from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.columns import to_pandas


def lines(turns: int, content: str = "") -> str:
    """Turns of five spans each, a line for each turn."""
    return "".join(json.dumps(line(number, content)) + "\n" for number in range(1, turns + 1))


def line(number: int, content: str) -> dict:
    start = 1_700_000_000_000_000_000 + number * 3_600_000_000_000

    def span(place: int, name: str, **said) -> dict:
        attributes = [{"key": key.replace("__", "."), "value": {"stringValue": value}} for key, value in said.items()]
        return {
            "traceId": f"{number:032x}",
            "spanId": f"{number * 10 + place:016x}",
            "parentSpanId": f"{number * 10:016x}" if place else "",
            "name": name,
            "startTimeUnixNano": str(start + place * 10),
            "endTimeUnixNano": str(start + place * 10 + (5 if place else 100)),
            "attributes": attributes,
        }

    turn = span(0, "invoke_agent a", gen_ai__operation__name="invoke_agent", gen_ai__conversation__id=f"c{number % 3}")
    chats = [
        span(place, "chat m", gen_ai__operation__name="chat", gen_ai__output__messages=content) for place in (1, 2)
    ]
    tools = [span(place, "execute_tool t", gen_ai__operation__name="execute_tool") for place in (3, 4)]
    return {"resourceSpans": [{"scopeSpans": [{"spans": [turn, *chats, *tools]}]}]}


@pytest.mark.parametrize("content", [False, True])
def test_converting_in_parts_gives_the_same_frames_as_loading_at_once(tmp_path, content):
    path = tmp_path / "many.jsonl"
    path.write_text(lines(60, '[{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]'))

    report = convert(path, tmp_path / "turns", content=content)
    converted, loaded = load(tmp_path / "turns", content=content), load(path, content=content)

    assert report.spans == 300
    for name in set(FRAMES) - {"messages"}:
        pd.testing.assert_frame_equal(to_pandas(converted.table(name)), to_pandas(loaded.table(name)), obj=name)
    assert sorted(converted.messages_df()["turn_id"]) == (sorted(loaded.messages_df()["turn_id"]) if content else [])
    assert {path.name for path in (tmp_path / "turns").iterdir()} <= set(FRAMES)


def test_converting_what_cannot_be_read_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(hn.UnreadableTrace):
        convert(io.StringIO("hello"), tmp_path / "turns")

    assert not list((tmp_path / "turns").iterdir())


def test_converting_again_replaces_the_same_traces(tmp_path):
    path = tmp_path / "many.jsonl"
    path.write_text(lines(20))
    convert(path, tmp_path / "turns")
    convert(path, tmp_path / "turns")

    assert len(load(tmp_path / "turns").spans_df()) == 100


MEMORY = textwrap.dedent("""
    import resource, sys
    from hermes_nb.traces import convert, load
    what, path, folder = sys.argv[1:]
    load(path, limit=1).turns_df()  # everything is imported
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if what == "load":
        spans = load(path).spans_df()
    else:
        convert(path, folder, content=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured in KiB on Linux only")
@pytest.mark.parametrize("what", ["load", "convert"])
def test_memory_is_of_the_order_of_the_numbers_not_of_the_prompts(tmp_path, what):
    """100 MB of content in 200 turns do not come to stand in memory."""
    path = tmp_path / "long.jsonl"
    with path.open("w") as stream:
        for number in range(1, 201):
            stream.write(json.dumps(line(number, "x" * 250_000)) + "\n")
    small = tmp_path / "small.jsonl"
    small.write_text(lines(3))

    program = MEMORY.replace("load(path, limit=1)", f"load({str(small)!r})")
    done = subprocess.run(
        [sys.executable, "-c", program, what, str(path), str(tmp_path / "turns")],
        capture_output=True, text=True, timeout=100, check=True,
    )  # fmt: skip

    assert int(done.stdout) < 95_000  # KiB


def test_the_time_grows_with_the_number_of_spans_and_no_faster():
    def seconds(turns: int) -> float:
        text = lines(turns)
        begun = time.process_time()
        load(io.StringIO(text)).turns_df()
        return time.process_time() - begun

    seconds(10)
    few = min(seconds(200) for _ in range(2))
    assert seconds(2_000) < 40 * few  # ten times as many


def test_content_can_be_left_out_of_memory_and_still_be_asked_for():
    traces = load(io.StringIO(lines(3, '[{"role": "assistant", "parts": []}]')))

    assert isinstance(traces, Traces)
    assert traces.messages_df().empty  # a stream cannot be read again
    assert "6 spans, events or message parts had content" in str(traces.report)
