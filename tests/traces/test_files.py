"""Traces written as files, and read back: Parquet, OTLP JSON, pages."""

from __future__ import annotations

import base64
import errno
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import dask.dataframe as dd
import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto_json.logs.v1.logs import LogsData
from opentelemetry.proto_json.metrics.v1.metrics import MetricsData
from opentelemetry.proto_json.trace.v1.trace import TracesData

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from hermes_nb.traces import Traces, concat, load
from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.columns import to_pandas
from tests.support.journeys import compressed, eventful, interrupted, plain_trace, steered

DATA = Path(__file__).parent.parent / "data" / "traces"


@pytest.fixture(scope="module")
def traces():
    return concat([eventful().trace, compressed().trace, steered().trace, interrupted().trace])


def assert_same(one, other, *, without: tuple[str, ...] = ()) -> None:
    for name in FRAMES:
        if name not in without:
            pd.testing.assert_frame_equal(to_pandas(one.table(name)), to_pandas(other.table(name)), obj=name)


# ---------------------------------------------------------------------------------------- Parquet


def test_every_frame_comes_back_from_parquet_exactly_as_it_was(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns", content=True)

    assert_same(traces, load(tmp_path / "turns", content=True))


@pytest.mark.parametrize("name", ["genai/jaegerui_genaiTestTrace.json", "otlp/oteltui_mixed_sample.jsonl"])
def test_traces_of_other_tools_come_back_from_parquet_too(tmp_path, name):
    traces = load(DATA / name, content=True)
    traces.to_parquet(tmp_path / "turns", content=True)

    assert_same(traces, load(tmp_path / "turns", content=True))


def test_without_content_everything_else_comes_back(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    back = load(tmp_path / "turns")

    assert_same(traces, back, without=("messages", "tool_calls", "turns", "events"))
    assert back.tool_calls_df()["result"].isna().all()
    assert back.turns_df()["user_message"].isna().all()
    assert not any(b"Lyon is larger" in path.read_bytes() for path in (tmp_path / "turns").rglob("*.parquet"))


def test_a_folder_collects_traces_and_the_same_trace_twice_is_there_once(tmp_path):
    first, second = plain_trace("one"), plain_trace("two")
    for trace in (first, second, first):
        trace.to_parquet(tmp_path / "turns", content=True)
    concat([first, second]).to_parquet(tmp_path / "turns", content=True)

    back = load(tmp_path / "turns", content=True)
    assert back.turns_df()["user_message"].tolist() == ["one", "two"]
    assert len(back.spans_df()) == len(first.spans_df()) + len(second.spans_df())
    assert back.turns_df()["input_tokens"].tolist() == concat([first, second]).turns_df()["input_tokens"].tolist()


def test_only_the_traces_that_are_asked_for_are_read_from_a_folder(tmp_path):
    first, second = plain_trace("one"), plain_trace("two")
    for trace in (first, second):
        trace.to_parquet(tmp_path / "turns")
    conversation = first.turns_df()["conversation_id"].iloc[0]

    for wanted in ({"conversation_id": conversation}, {"until": second.turns_df()["start_time"].iloc[0].isoformat()}):
        back = load(tmp_path / "turns", **wanted)
        assert back.turns_df()["turn_id"].tolist() == [first.turn_id]
        assert back.report.spans == len(first.spans_df())
    assert load(tmp_path / "turns", limit=1).turns_df()["turn_id"].tolist() == [second.turn_id]


def test_files_are_partitioned_by_day_and_bear_the_version_of_the_columns(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    paths = list((tmp_path / "turns" / "turns").rglob("*.parquet"))

    assert [re.fullmatch(r"day=\d{4}-\d\d-\d\d", path.parent.name) is not None for path in paths] == [True]
    assert pq.read_schema(paths[0]).metadata[b"hermes_nb.schema"] == b"1"
    assert {path.name for path in (tmp_path / "turns").iterdir()} == set(FRAMES) - {
        "messages",
        "metrics",
        "spans_attributes",
    }


def test_names_from_a_trace_never_become_paths(tmp_path):
    trace = plain_trace().spans_df().assign(trace_id="../../../evil", name="../x", turn_id="/etc/passwd")
    load(trace).to_parquet(tmp_path / "a" / "turns")

    assert {path.name for path in tmp_path.iterdir()} == {"a"}
    assert all(re.fullmatch(r"[0-9a-f]{24}\.parquet", path.name) for path in tmp_path.rglob("*.parquet"))


def test_an_interrupted_write_leaves_nothing_half_done(traces, tmp_path, monkeypatch):
    def fail(table, path, **_):
        path.write_bytes(b"PAR1 half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hermes_nb.traces.parquet.pq.write_table", fail)
    with pytest.raises(OSError, match="No space left"):
        traces.to_parquet(tmp_path / "turns")

    assert not list(tmp_path.rglob("*.parquet"))


def test_a_damaged_file_in_a_folder_is_skipped_and_told(tmp_path):
    first, second = plain_trace("one"), plain_trace("two")
    first.to_parquet(tmp_path / "turns")
    (damaged,) = (tmp_path / "turns" / "spans").rglob("*.parquet")
    damaged.write_bytes(damaged.read_bytes()[:-100])
    with pytest.raises(hn.UnreadableTrace, match=str(damaged)):
        load(tmp_path / "turns" / "spans")

    second.to_parquet(tmp_path / "turns")
    back = load(tmp_path / "turns")
    assert back.turns_df()["turn_id"].tolist() == [second.turn_id]
    assert str(damaged) in str(back.report.files[0].examples)


# ---------------------------------------------------------------------------------------- other tools


def test_duckdb_reads_the_folder(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    files = f"{tmp_path}/turns/turns/*/*.parquet"
    source = f"read_parquet('{files}', hive_partitioning=true)"
    rows = duckdb.sql(f"SELECT exit_reason, count(*), sum(input_tokens) FROM {source} GROUP BY 1").fetchall()

    turns = traces.turns_df()
    assert {reason: number for reason, number, _ in rows} == turns["exit_reason"].value_counts().to_dict()
    assert sum(tokens for _, _, tokens in rows) == turns["input_tokens"].sum()


def test_duckdb_joins_tables_in_memory_without_files(traces):
    turns, tools = traces.table("turns"), traces.table("tool_calls")
    found = duckdb.sql("SELECT count(*) FROM tools JOIN turns USING (turn_id)").fetchall()

    assert found == [(len(tools),)]
    assert len(turns)


def test_polars_takes_the_tables_and_the_folder(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    memory = pl.from_arrow(traces.table("chats"))
    disk = pl.scan_parquet(tmp_path / "turns" / "chats" / "**" / "*.parquet").collect()

    assert memory["chat_span_id"].to_list() == disk["chat_span_id"].to_list()
    assert memory["input_tokens"].sum() == disk["input_tokens"].sum() == traces.chats_df()["input_tokens"].sum()


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # Dask's own use of pandas
def test_dask_reads_the_folder_part_by_part(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    sent = traces.chats_df().groupby("provider", observed=True)["attempts"].sum()

    found = dd.read_parquet(tmp_path / "turns" / "chats", columns=["provider", "attempts", "day"])
    summed = found.groupby("provider", observed=True)["attempts"].sum().compute(scheduler="sync")

    assert sent.sum() > 5
    assert {name: number for name, number in summed.items() if number} == sent.to_dict()
    days = found["day"].drop_duplicates().compute(scheduler="sync").astype(str)
    assert days.str.fullmatch(r"\d{4}-\d\d-\d\d").all()


def test_arrow_reads_the_folder_by_day(traces, tmp_path):
    traces.to_parquet(tmp_path / "turns")
    found = ds.dataset(tmp_path / "turns" / "spans", partitioning="hive")

    assert "day" in found.schema.names
    assert found.count_rows() == len(traces.spans_df())


# ---------------------------------------------------------------------------------------- OTLP JSON


def test_otlp_json_comes_back_as_the_same_frames(traces, tmp_path):
    traces.to_otlp_json(tmp_path / "turns.jsonl", content=True)

    assert_same(traces, load(tmp_path / "turns.jsonl", content=True))


@pytest.mark.parametrize("way", ["to_otlp_json", "to_html"])
def test_a_file_is_there_whole_or_not_at_all_and_its_folder_is_made(traces, tmp_path, monkeypatch, way):
    write = getattr(traces, way)
    write(tmp_path / "new" / "folder" / "traces")
    first = (tmp_path / "new" / "folder" / "traces").read_bytes()

    def full(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write(tmp_path / "new" / "folder" / "traces")
    assert [file.read_bytes() for file in (tmp_path / "new" / "folder").iterdir()] == [first]


def test_otlp_json_has_no_content_unless_it_is_asked_for(traces, tmp_path):
    traces.to_otlp_json(tmp_path / "turns.jsonl")

    text = (tmp_path / "turns.jsonl").read_text()
    assert "Lyon is larger" not in text
    assert "Metropolitan" not in text
    assert_same(traces, load(tmp_path / "turns.jsonl"), without=("messages", "turns", "tool_calls", "events"))


@pytest.mark.parametrize(
    "name",
    [
        "oteltui_mixed_sample.jsonl",
        "proto_example_logs.json",
        "proto_example_events.json",
        "proto_example_metrics.json",
    ],
)
def test_log_records_and_metrics_are_written_and_come_back_too(tmp_path, name):
    found = load(DATA / "otlp" / name, content=True)
    found.to_otlp_json(tmp_path / "all.jsonl", content=True)
    back = load(tmp_path / "all.jsonl", content=True)

    assert len(found.metrics_df()) + len(found.events_df()) > 0
    assert back.report.skipped == {}
    assert_same(found, back)


def test_each_line_holds_one_signal_that_opentelemetrys_own_parser_reads(tmp_path):
    load(DATA / "otlp" / "oteltui_mixed_sample.jsonl", content=True).to_otlp_json(tmp_path / "all.jsonl", content=True)

    parsers = {"resourceSpans": TracesData, "resourceLogs": LogsData, "resourceMetrics": MetricsData}
    signals = set()
    for line in (tmp_path / "all.jsonl").read_text().splitlines():
        (signal,) = json.loads(line)
        signals.add(signal)
        assert parsers[signal].from_json(line).to_dict()[signal]
    assert signals == set(parsers)


HISTOGRAM = {
    "dataPoints": [
        {
            "count": "3",
            "sum": 4.5,
            "min": 1,
            "max": 2,
            "bucketCounts": ["1", "2"],
            "explicitBounds": [1.5],
            "timeUnixNano": "7",
        }
    ],
    "aggregationTemporality": 1,
}


def test_metrics_keep_what_they_count_and_since_when(tmp_path):
    total = {"dataPoints": [{"asInt": "3", "timeUnixNano": "7"}], "aggregationTemporality": 2, "isMonotonic": True}
    metrics = [
        {"name": "turns", "sum": total},
        {"name": "level", "gauge": {"dataPoints": [{"asDouble": 1.5, "timeUnixNano": "7"}]}},
    ]
    metrics.append({"name": "wait", "histogram": HISTOGRAM})
    given = {"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]}
    found = load(io.StringIO(json.dumps(given)))
    frame = found.metrics_df().set_index("name")

    assert frame["temporality"].astype(object).where(frame["temporality"].notna(), None).to_dict() == {
        "turns": "cumulative", "level": None, "wait": "delta",
    }  # fmt: skip
    assert frame["monotonic"].fillna(False).to_dict() == {"turns": True, "level": False, "wait": False}
    assert frame["monotonic"].isna().to_dict() == {"turns": False, "level": True, "wait": True}

    found.to_otlp_json(tmp_path / "m.jsonl")
    (written,) = (json.loads(line) for line in (tmp_path / "m.jsonl").read_text().splitlines())
    back = {each["name"]: each for each in written["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
    assert back["turns"]["sum"]["isMonotonic"] is True
    assert back["wait"]["histogram"]["dataPoints"][0].items() >= HISTOGRAM["dataPoints"][0].items()
    assert back["wait"]["histogram"]["aggregationTemporality"] == 1


def test_words_in_events_and_log_records_stay_out_of_every_file_unless_they_are_asked_for(tmp_path):
    told = [{"key": "gen_ai.event.content", "value": {"stringValue": "THE WORDS"}}]
    records = [
        {
            "timeUnixNano": "7",
            "eventName": "gen_ai.user.message",
            "body": {"stringValue": "THE WORDS"},
            "attributes": told,
        },
        {"timeUnixNano": "8", "eventName": "other", "body": {"stringValue": "no words"}},
    ]
    log = io.StringIO(json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}))
    everything = concat([steered().trace, load(log, content=True)])
    steer = "Metropolitan area"
    assert steer in str(everything.messages_df()["content"].tolist())
    for content in (False, True):
        place = tmp_path / str(content)
        place.mkdir()
        everything.to_parquet(place / "turns", content=content)
        everything.to_otlp_json(place / "all.jsonl", content=content)
        everything.to_html(place / "page.html", content=content)
        for file in (path for path in place.rglob("*") if path.is_file()):
            text = str(pq.read_table(file).to_pylist()) if file.suffix == ".parquet" else file.read_text()
            assert content or ("THE WORDS" not in text and steer not in text), file
        assert "no words" in load(place / "all.jsonl").events_df()["body"].tolist()
    assert "THE WORDS" in (tmp_path / "True" / "all.jsonl").read_text()


def test_a_frame_of_spans_can_be_loaded_again(traces):
    back = load(traces.spans_df(content=True), content=True)

    pd.testing.assert_frame_equal(back.chats_df(), traces.chats_df())
    assert back.messages_df()["content"].tolist() == traces.messages_df()["content"].tolist()


# ---------------------------------------------------------------------------------------- pages

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'</pre></td>"


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@pytest.fixture
def hostile_page(tmp_path):
    @hn.tool
    def echo(text: str) -> str:
        """Gives it back."""
        return text

    agent = hn.Agent(script(call("echo", text=HOSTILE), call(HOSTILE), say(HOSTILE)), tools=[echo], name=HOSTILE)
    agent.run(HOSTILE, session=False).trace.to_html(tmp_path / "turn.html", content=True)
    return (tmp_path / "turn.html").read_text()


def test_a_page_stands_alone_and_nothing_in_it_runs(hostile_page):
    page = Page(hostile_page)
    policy = next(value for name, value in page.attributes if name == "content")

    assert "script" not in page.tags
    assert policy.startswith("default-src 'none'")
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    links = [value for name, value in page.attributes if name in ("src", "href")]
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)
    assert HOSTILE in page.text


def test_the_pictures_in_a_page_hold_no_scripts(hostile_page):
    images = re.findall(r"base64,([A-Za-z0-9+/=]+)", hostile_page)

    assert len(images) == 4
    assert not any(b"<script" in base64.b64decode(image) for image in images)


def test_a_page_of_many_traces_shows_each(traces, tmp_path):
    traces.to_html(tmp_path / "all.html")
    text = Page((tmp_path / "all.html").read_text()).text

    for turn in traces.turn_ids:
        assert text.count(turn) >= 2
    assert "Lyon is larger" not in text


def test_a_page_of_nothing_is_a_page(tmp_path):
    Traces.from_spans([]).to_html(tmp_path / "none.html")

    assert "no spans yet" in (tmp_path / "none.html").read_text()
