"""Our logbook, and what other tools keep: hermes-agent's sessions, Phoenix's spans, collectors' protobuf."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import struct
import textwrap
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, no_waiting, say, script
from hermes_nb.traces import load, span_tree
from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.columns import to_pandas
from tests.support.journeys import eventful_agent, plain_trace

DATA = Path(__file__).parent.parent / "data" / "traces"

# ---------------------------------------------------------------------------------------- the logbook


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    path = tmp_path_factory.mktemp("book") / "cities.db"
    session = hn.Session(path)
    with no_waiting():
        first = eventful_agent().run("Which is larger, Lyon or Lille?", session=session)
        second = hn.Agent(script(say("Bye."))).run("Thank you.", session=session)
    return path, first, second


def test_the_logbook_gives_the_same_tree_as_the_spans_in_memory(book):
    path, first, _ = book

    assert span_tree(load(path).trace(first.turn_id)) == span_tree(first.trace)


def test_the_logbook_gives_the_same_frames_as_the_spans_in_memory(book):
    path, first, _ = book
    loaded = load(path, content=True).trace(first.turn_id)

    for name in sorted(set(FRAMES) - {"messages", "links", "spans_attributes"}):
        pd.testing.assert_frame_equal(frame_of(loaded, name), frame_of(first.trace, name), obj=name)


def frame_of(trace, name: str) -> pd.DataFrame:
    """A frame; infinities have other words in a logbook."""
    frame = to_pandas(trace.table(name))
    if "attributes_json" in frame:
        frame["attributes_json"] = frame["attributes_json"].str.replace("Infinity", "inf")
    return frame


def test_the_logbooks_messages_are_those_of_the_result(book):
    path, first, _ = book
    told = load(path).messages_df().query("turn_id == @first.turn_id and role == 'assistant' and part_type == 'text'")

    assert told["content"].tolist() == [m.text for m in first.messages if m.role == "assistant" and m.text]


def test_turns_of_one_conversation_are_linked_to_each_other(book):
    path, first, second = book
    turns = load(path).turns_df()
    own = turns[turns["parent_turn_id"].isna()]

    assert own["turn_id"].tolist() == [first.turn_id, second.turn_id]
    assert own["prev_turn_id"].iloc[1] == first.turn_id
    assert own["turn_number"].tolist() == [1, 2]
    assert load(path).links_df().query("type == 'previous_turn'")["span_id"].tolist() == [own["span_id"].iloc[1]]


def test_only_the_turns_that_are_asked_for_are_read_from_a_logbook(book):
    path, _, second = book

    newest = load(path, limit=1)
    assert newest.turns_df()["turn_id"].tolist() == [second.turn_id]
    assert newest.report.lines == 1
    assert load(path, conversation_id="another").turns_df().empty


def test_a_running_turn_in_the_logbook_is_open(tmp_path):
    session, seen = hn.Session(tmp_path / "book.db"), []

    @hn.tool
    def look() -> str:
        """Looks into the logbook."""
        seen.append(load(tmp_path / "book.db"))
        return "seen"

    hn.Agent(script(call("look"), say("ok")), tools=[look]).run("q", session=session)
    turn = seen[0].turns_df().iloc[0]

    assert turn["is_running"]
    assert pd.isna(turn["exit_reason"])
    assert "hermes.iteration 1 open" in span_tree(seen[0])


# ---------------------------------------------------------------------------------------- hermes-agent


@pytest.fixture
def state_db(tmp_path):
    path = tmp_path / "state.db"
    calls = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
    rows = [
        ("user", "List the files.", None, None, None, 1000.25, None),
        ("assistant", "", None, json.dumps(calls), None, 1001.5, "tool_calls"),
        ("tool", "a.txt", "c1", None, "terminal", 1002.0, None),
        ("assistant", "There is a.txt.", None, None, None, 1003.0, "stop"),
        ("user", '\x00json:[{"type": "text", "text": "And now?"}]', None, None, None, 2000.0, None),
    ]
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """
            CREATE TABLE sessions (id TEXT PRIMARY KEY, model TEXT, started_at REAL, billing_provider TEXT);
            CREATE TABLE messages (
                id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT, tool_calls TEXT,
                tool_name TEXT, timestamp REAL, finish_reason TEXT, token_count INTEGER, active INTEGER DEFAULT 1
            );
            INSERT INTO sessions VALUES ('s1', 'hermes-4', 1000.0, 'nous'), ('s2', 'hermes-4', 5000.0, 'nous');
            """
        )
        database.executemany(
            "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name, timestamp,"
            " finish_reason) VALUES ('s1', ?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        database.execute(
            "INSERT INTO messages (session_id, role, content, active) VALUES ('s1', 'user', 'taken back', 0)"
        )
    return path


def test_a_session_of_hermes_agent_becomes_turns_chats_tools_and_messages(state_db):
    traces = load(state_db, content=True)
    turns, chats, tools = traces.turns_df(), traces.chats_df(), traces.tool_calls_df()

    assert turns["user_message"].tolist() == ["List the files.", "And now?"]
    assert turns["final_response"].tolist()[0] == "There is a.txt."
    assert turns["completed"].tolist() == [True, False]
    assert turns["conversation_id"].tolist() == ["s1", "s1"]
    assert turns["start_time"].iloc[0] == pd.Timestamp(1000.25, unit="s", tz="UTC")
    assert chats["request_model"].tolist() == ["hermes-4", "hermes-4"]
    assert chats["finish_reason"].tolist() == ["tool_calls", "stop"]
    assert chats["duration"].iloc[0] == pd.Timedelta(1.25, "s")
    assert tools[["tool_name", "result"]].to_numpy().tolist() == [["terminal", "a.txt"]]
    assert traces.messages_df()["part_type"].tolist() == ["text", "tool_call", "tool_call_response", "text", "text"]
    assert "taken back" not in traces.messages_df()["content"].tolist()


def test_a_session_that_hermes_agent_itself_wrote_becomes_two_turns(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(gzip.decompress((DATA / "hermes" / "state.db.gz").read_bytes()))
    traces = load(path, content=True)
    turns, chats, (tool,) = traces.turns_df(), traces.chats_df(), traces.tool_calls_df().to_dict("records")

    assert traces.report.skipped == {}
    assert dict(traces.report.files[0].rows) == {"spans": 6, "messages": 6}
    assert turns["user_message"].tolist() == ["How many people live in Lyon?", "And twice that?"]
    assert turns["final_response"].tolist() == ["522,000 people live in Lyon.", "1,044,000."]
    assert turns["completed"].tolist() == [True, True]
    assert turns["api_calls"].tolist() == [2, 1]
    assert chats["finish_reason"].tolist() == ["tool_calls", "stop", "stop"]
    assert chats["request_model"].tolist() == ["m"] * 3
    assert (tool["tool_name"], json.loads(tool["arguments_json"])) == ("population", {"city": "Lyon"})
    assert json.loads(tool["result"]) == {"people": 522_000}
    assert tool["tool_call_id"] in traces.messages_df()["tool_call_id"].tolist()


def test_sessions_of_hermes_agent_can_be_chosen(state_db):
    assert load(state_db, conversation_id="s2").turns_df().empty
    assert len(load(state_db, conversation_id="s1").turns_df()) == 2
    assert load(state_db, since=2_000 * 10**9).turns_df().empty


def test_a_database_of_another_program_is_refused(tmp_path):
    with closing(sqlite3.connect(tmp_path / "x.db")) as database, database:
        database.execute("CREATE TABLE t (a)")

    with pytest.raises(hn.UnreadableTrace, match="a SQLite database of another program"):
        load(tmp_path / "x.db")


# ---------------------------------------------------------------------------------------- Phoenix

PHOENIX = pd.DataFrame(
    {
        "name": ["agent", "call"],
        "span_kind": ["AGENT", "LLM"],
        "parent_id": [None, "aaaaaaaaaaaaaaaa"],
        "start_time": pd.to_datetime([1_700_000_000_000_000_001, 1_700_000_000_000_000_101], utc=True),
        "end_time": pd.to_datetime([1_700_000_000_000_000_901, 1_700_000_000_000_000_801], utc=True),
        "status_code": ["OK", "ERROR"],
        "status_message": ["", "no"],
        "events": [
            [],
            [{"name": "exception", "timestamp": "2023-11-14T22:13:20.000000123+00:00", "attributes": {"a": 1}}],
        ],
        "context.span_id": ["aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"],
        "context.trace_id": ["c" * 32, "c" * 32],
        "attributes.llm.token_count.prompt": [float("nan"), 12.0],
        "attributes.llm.model_name": [None, "m"],
        "attributes.llm.input_messages": [None, [{"message.role": "user", "message.content": "Why?"}]],
        "attributes.session": [{"id": "s"}, None],
    }
)


def check_phoenix(traces) -> None:
    spans, chats = traces.spans_df(), traces.chats_df()

    assert spans["span_type"].tolist() == ["turn", "chat"]
    assert spans["start_time"].iloc[0].value == 1_700_000_000_000_000_001
    assert spans["conversation_id"].tolist() == ["s", "s"]
    assert (chats["input_tokens"].tolist(), chats["response_model"].tolist()) == ([12], ["m"])
    assert chats["status"].tolist() == ["ERROR"]
    assert traces.events_df()["time"].iloc[0].value % 1000 == 123
    assert traces.messages_df()["content"].tolist() == ["Why?"]


def test_frames_of_phoenix_are_understood():
    check_phoenix(load(PHOENIX, content=True))
    check_phoenix(load(PHOENIX.set_index("context.span_id", drop=False), content=True))
    check_phoenix(load(PHOENIX.set_index("context.span_id"), content=True))


def test_parquet_files_of_phoenix_are_understood(tmp_path):
    PHOENIX.to_parquet(tmp_path / "phoenix.parquet")

    check_phoenix(load(tmp_path / "phoenix.parquet", content=True))


def test_spans_in_phoenixs_json_are_understood():
    one = {
        "name": "call",
        "context": {"trace_id": "c" * 32, "span_id": "b" * 16},
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": "2023-11-14T22:13:20.000001Z",
        "end_time": "2023-11-14T22:13:21+00:00",
        "status_code": "OK",
        "attributes": {"llm.token_count.prompt": 5},
        "events": [],
    }
    traces = load(io.StringIO(json.dumps({"data": [one]})))

    assert traces.chats_df()["input_tokens"].tolist() == [5]
    assert traces.spans_df()["start_time"].iloc[0].value == 1_700_000_000_000_001_000


# ---------------------------------------------------------------------------------------- protobuf


def message() -> bytes:
    from google.protobuf import json_format
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    one = {
        "traceId": "W47/95gDgQPSabYzgT/GDA==",
        "spanId": "7uGbfsPBsXQ=",
        "name": "proto",
        "kind": "SPAN_KIND_CLIENT",
        "startTimeUnixNano": "1700000000000000001",
        "endTimeUnixNano": "1700000000000000501",
        "attributes": [{"key": "n", "value": {"intValue": "5"}}],
        "status": {"code": "STATUS_CODE_ERROR"},
    }
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}
    return json_format.ParseDict(document, TracesData()).SerializeToString()


def metrics_message() -> bytes:
    from google.protobuf import json_format
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    metric = {"name": "m", "gauge": {"dataPoints": [{"asInt": "7", "timeUnixNano": "1700000000000000001"}]}}
    return json_format.ParseDict(
        {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}, MetricsData()
    ).SerializeToString()


def packed(*messages: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(each)) + each for each in messages)


@pytest.mark.parametrize("pack", [bytes, packed])
def test_otlp_in_protobuf_is_understood(tmp_path, pack):
    path = tmp_path / "traces.pb"
    path.write_bytes(pack(message()))
    row = load(path).spans_df().iloc[0]

    assert (row["trace_id"], row["span_id"]) == ("5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174")
    assert (row["name"], row["kind"], row["status"]) == ("proto", "CLIENT", "ERROR")
    assert row["duration"] == pd.Timedelta(500, "ns")
    assert json.loads(row["attributes_json"]) == {"n": 5}


def test_messages_of_a_collector_follow_each_other_and_the_last_may_be_cut(tmp_path):
    path = tmp_path / "traces.pb"
    path.write_bytes(packed(message(), metrics_message(), message())[:-10])
    traces = load(path)

    assert len(traces.spans_df()) == 1
    assert traces.metrics_df()["value"].tolist() == [7]
    assert traces.report.skipped == {"cut off at the end of the file": 1}


def test_messages_that_a_collector_compressed_are_understood(tmp_path):
    def zstd(data: bytes) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(data)
        return sink.getvalue().to_pybytes()

    path = tmp_path / "traces.pb"
    path.write_bytes(packed(zstd(message()), zstd(message())))

    assert load(path).report.lines == 2


def test_the_tree_of_a_plain_turn_survives_every_form(tmp_path):
    trace = plain_trace()
    expected = textwrap.dedent("""\
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool population
          hermes.iteration 2
            chat script
              hermes.attempt 1 success""")
    trace.to_otlp_json(tmp_path / "turn.jsonl")
    trace.to_parquet(tmp_path / "turns")
    trace.spans_df().to_parquet(tmp_path / "spans.parquet")

    assert span_tree(trace) == expected
    for source in ("turn.jsonl", "turns", "spans.parquet"):
        assert span_tree(load(tmp_path / source)) == expected
    assert span_tree(load(trace.spans_df())) == expected
