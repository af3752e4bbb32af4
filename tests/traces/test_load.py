"""Loading: every file that other projects wrote, and files in every odd shape."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

import hermes_nb as hn
from hermes_nb.traces import concat, load
from hermes_nb.traces.readers.report import File
from hermes_nb.traces.readers.texts import rows as text_rows
from tests.support.journeys import plain_trace

DATA = Path(__file__).parent.parent / "data" / "traces"
COUNTS = {
    "otlp/proto_example_trace.json": {"spans": 1},
    "otlp/proto_example_logs.json": {"events": 1},
    "otlp/proto_example_events.json": {"events": 1},
    "otlp/proto_example_metrics.json": {"metrics": 4},
    "otlp/spec_file_exporter_traces.jsonl": {"spans": 8, "events": 8, "links": 8},
    "otlp/oteltui_mixed_sample.jsonl": {"spans": 20, "events": 4, "metrics": 40},
    "otlp/jaeger_example_trace.json": {"spans": 5, "events": 10},
    "jaeger/jaeger_trace_success.json": {"spans": 2},
    "genai/jaegerui_genaiTestTrace.json": {"spans": 57},
    "genai/otel_genai_client_span_tool_calls.json": {"spans": 1},
    "genai/otel_genai_tool_execution_span.json": {"spans": 1},
    "genai/openinference_client_span_tool_calls.json": {"spans": 1},
}


def otlp(*spans: dict, resource: dict | None = None) -> dict:
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in (resource or {}).items()]
    return {"resourceSpans": [{"resource": {"attributes": attributes}, "scopeSpans": [{"spans": list(spans)}]}]}


def span(number: int = 1, **more) -> dict:
    return {
        "traceId": f"{number:032x}",
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "kind": 3,
        "startTimeUnixNano": "1700000000000000001",
        "endTimeUnixNano": "1700000000000001501",
    } | more


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.fixture
def file(tmp_path):
    def write(content: str | bytes, name: str = "traces.jsonl") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
        return path

    return write


# ---------------------------------------------------------------------------------------- foreign files


@pytest.mark.parametrize("name", COUNTS)
def test_files_of_other_projects_load_with_the_right_counts(name):
    traces = load(DATA / name)

    assert dict(+traces.report.files[0].rows) == COUNTS[name]
    assert len(traces.spans_df()) == COUNTS[name].get("spans", 0)
    assert len(traces.events_df()) == COUNTS[name].get("events", 0)
    assert len(traces.links_df()) == COUNTS[name].get("links", 0)
    assert len(traces.metrics_df()) == COUNTS[name].get("metrics", 0)


def test_a_whole_folder_of_other_projects_files_loads_at_once():
    traces = load([DATA / "otlp", DATA / "jaeger", DATA / "genai"])

    assert len(traces.report.files) == len(COUNTS)
    assert traces.report.spans == sum(count.get("spans", 0) for count in COUNTS.values())


def test_spans_with_empty_ids_are_kept_without_ids_and_counted():
    traces = load(DATA / "otlp/spec_file_exporter_traces.jsonl")

    assert traces.spans_df()["span_id"].isna().all()
    assert traces.report.skipped["a span without ids was kept without them"] == 8


def test_an_agents_trace_in_jaegers_form_becomes_turns_chats_and_tools():
    traces = load(DATA / "genai/jaegerui_genaiTestTrace.json", content=True)
    turns, chats, tools = traces.turns_df(), traces.chats_df(), traces.tool_calls_df()

    assert turns["agent_name"].tolist() == ["triage-agent", "summarizer"]
    assert turns["parent_turn_id"].iloc[1] == turns["turn_id"].iloc[0]
    assert len(chats) == 5
    assert chats["input_tokens"].notna().all()
    assert turns["input_tokens"].sum() == chats["input_tokens"].sum()
    assert tools["tool_name"].notna().sum() == 6
    assert traces.spans_df()["duration"].max() == pd.Timedelta(44, "s")
    assert not traces.messages_df().empty


def test_old_and_new_names_of_a_model_call_give_the_same_row():
    frames = [
        load(DATA / f"genai/{name}_client_span_tool_calls.json", content=True)
        for name in ("otel_genai", "openinference")
    ]
    new, old = (traces.chats_df().iloc[0] for traces in frames)
    for column in ("input_tokens", "output_tokens", "provider"):
        assert new[column] == old[column]
    assert (new["request_model"], old["response_model"]) == ("gpt-4", "gpt-4-0613")

    told = [traces.messages_df()[["message_index", "role", "part_type", "content"]] for traces in frames]
    pd.testing.assert_frame_equal(*told)
    assert told[0]["content"].tolist()[-2:] == [
        "rainy, 57°F",
        "The weather in Paris is currently rainy with a temperature of 57°F.",
    ]


def test_messages_under_their_oldest_names_are_read_too():
    attributes = [
        ("gen_ai.system", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.usage.prompt_tokens", 7),
        ("gen_ai.prompt.0.role", "user"),
        ("gen_ai.prompt.0.content", "Why?"),
        ("gen_ai.completion.0.role", "assistant"),
        ("gen_ai.completion.0.content", "Because."),
    ]
    value = {int: "intValue", str: "stringValue"}
    keys = [{"key": key, "value": {value[type(what)]: what}} for key, what in attributes]
    traces = load(io.StringIO(lines(otlp(span(attributes=keys)))), content=True)

    assert traces.chats_df()["input_tokens"].tolist() == [7]
    assert traces.chats_df()["provider"].tolist() == ["openai"]
    assert traces.messages_df()["content"].tolist() == ["Why?", "Because."]


def test_messages_in_events_are_read_too():
    def event(name, **said):
        return {"name": name, "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in said.items()]}

    chat = [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}]
    events = [
        event("gen_ai.user.message", content="Why?"),
        event("gen_ai.choice", message='{"content": "Because."}', finish_reason="stop"),
    ]
    traces = load(io.StringIO(lines(otlp(span(attributes=chat, events=events)))), content=True)

    messages = traces.messages_df()
    assert messages["role"].tolist() == ["user", "assistant"]
    assert messages["content"].tolist() == ["Why?", "Because."]
    quiet = load(io.StringIO(lines(otlp(span(attributes=chat, events=events)))))
    assert not quiet.events_df()["attributes_json"].str.contains("Because", na=False).any()


# ---------------------------------------------------------------------------------------- shapes of one file


def test_one_line_and_one_document_are_the_same(file):
    whole = json.dumps(otlp(span(1), span(2)), indent=2)
    one = load(file(whole, "a.json")).spans_df()
    other = load(file(lines(otlp(span(1)), otlp(span(2))), "b.jsonl")).spans_df()

    pd.testing.assert_frame_equal(one, other)


def test_a_cut_last_line_is_skipped_and_told(file):
    text = lines(otlp(span(1)), otlp(span(2)))
    traces = load(file(text[:-40]))

    assert traces.spans_df()["name"].tolist() == ["span 1"]
    assert traces.report.skipped == {"cut off at the end of the file": 1}
    assert traces.report.files[0].examples == ["line 2: cut off at the end of the file"]


def test_a_line_that_is_not_json_does_not_hide_the_others(file):
    traces = load(file(lines(otlp(span(1))) + "oops\n\n" + lines(otlp(span(2)))))

    assert len(traces.spans_df()) == 2
    assert traces.report.skipped == {"not JSON": 1}


def test_a_document_that_was_cut_off_gives_what_stands_before_the_cut(file):
    text = json.dumps(otlp(span(1), span(2), span(3)), indent=1)
    traces = load(file(text[: text.rindex("span 3")]))

    assert traces.spans_df()["name"].tolist() == ["span 1", "span 2"]
    assert "cut off" in str(traces.report)


def test_a_byte_order_mark_and_utf_16_are_understood(file):
    text = lines(otlp(span(1)))

    assert len(load(file("\ufeff" + text)).spans_df()) == 1
    assert len(load(file(text.encode("utf-16"))).spans_df()) == 1


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
def test_compressed_files_are_understood_whatever_they_are_called(file, pack):
    assert len(load(file(pack(lines(otlp(span(1))).encode()), "traces.json")).spans_df()) == 1


def test_names_of_enums_snake_case_and_base64_ids_are_understood(file):
    odd = {
        "resource_spans": [
            {
                "scope_spans": [
                    {
                        "spans": [
                            {
                                "trace_id": "W47/95gDgQPSabYzgT/GDA==",
                                "span_id": "7uGbfsPBsXQ=",
                                "name": "odd",
                                "kind": "SPAN_KIND_SERVER",
                                "start_time_unix_nano": 1700000000000000001,
                                "status": {"code": "STATUS_CODE_ERROR", "message": "no"},
                                "attributes": [{"key": "a_b", "value": {"string_value": "c"}}],
                            }
                        ]
                    }
                ]
            }
        ]
    }
    found = load(file(lines(odd)))
    row = found.spans_df().iloc[0]

    assert row["trace_id"] == "5b8efff798038103d269b633813fc60c"
    assert row["span_id"] == "eee19b7ec3c1b174"
    assert (row["kind"], row["status"], row["status_message"]) == ("SERVER", "ERROR", "no")
    assert row["start_time"].value == 1700000000000000001
    assert found.attribute("a_b").tolist() == ["c"]


def test_values_of_every_type_are_read_as_what_they_are(file):
    values = {
        "text": {"stringValue": "5"},
        "number as text": {"intValue": "5"},
        "number": {"intValue": 5},
        "large": {"intValue": "9223372036854775807"},
        "not a number": {"doubleValue": "NaN"},
        "float": {"doubleValue": 0.5},
        "flag": {"boolValue": False},
        "list": {"arrayValue": {"values": [{"intValue": "1"}, {"stringValue": "a"}]}},
        "nested": {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": True}}]}},
        "nothing": {},
        "bytes": {"bytesValue": "AAE="},
        "unknown": {"futureValue": 1},
    }
    one = span(attributes=[{"key": key, "value": value} for key, value in values.items()], unknownField={"x": 1})
    said = json.loads(load(file(lines(otlp(one)))).spans_df()["attributes_json"].iloc[0])

    assert said == {
        "text": "5",
        "number as text": 5,
        "number": 5,
        "large": 9223372036854775807,
        "not a number": "NaN",
        "float": 0.5,
        "flag": False,
        "list": [1, "a"],
        "nested": {"k": True},
        "nothing": None,
        "bytes": "AAE=",
        "unknown": None,
    }


def test_the_keys_of_otlp_before_1_0_are_understood(file):
    old = {
        "resourceSpans": [
            {"instrumentationLibrarySpans": [{"instrumentationLibrary": {"name": "l"}, "spans": [span()]}]}
        ]
    }

    assert load(file(lines(old))).spans_df()["scope_name"].tolist() == ["l"]


def test_spans_of_the_sdks_own_json_are_understood(file):
    from opentelemetry.sdk.trace import TracerProvider

    with TracerProvider().get_tracer("t").start_as_current_span("sdk", attributes={"n": 1}) as one:
        one.add_event("e", {"k": "v"})
    traces = load(file(one.to_json(), "console.json"))

    row = traces.spans_df().iloc[0]
    assert row["span_id"] == f"{one.get_span_context().span_id:016x}"
    assert abs(row["start_time"].value - one.start_time) < 1_000  # it writes microseconds
    assert traces.events_df()["name"].tolist() == ["e"]


# ---------------------------------------------------------------------------------------- times


TIMES = """
import sys, json
from hermes_nb.traces import concat, load
frame = load(sys.argv[1]).spans_df()
starts, durations = ([each.value for each in frame[name]] for name in ("start_time", "duration"))
print(json.dumps([str(frame.dtypes["start_time"]), starts, durations]))
"""


@pytest.mark.parametrize("zone", ["UTC", "Asia/Kolkata", "America/New_York"])
def test_times_are_exact_to_the_nanosecond_whatever_the_time_zone(file, zone):
    written = file(lines(otlp(span(1), span(2, startTimeUnixNano=1700000000000000003))))
    done = subprocess.run(
        [sys.executable, "-c", TIMES, str(written)],
        env=os.environ | {"TZ": zone},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    dtype, starts, durations = json.loads(done.stdout)
    assert dtype == "datetime64[ns, UTC]"
    assert starts == [1700000000000000001, 1700000000000000003]
    assert durations == [1500, 1498]


def test_jaegers_microseconds_are_microseconds(file):
    one = {"traceID": "1", "spanID": "2", "operationName": "o", "startTime": 1700000000000001, "duration": 15}
    row = load(file(json.dumps([one]), "jaeger.json")).spans_df().iloc[0]

    assert row["start_time"].value == 1700000000000001000
    assert row["duration"] == pd.Timedelta(15, "us")
    assert row["trace_id"] == "1".rjust(32, "0")


def test_a_span_without_an_end_is_open_up_to_the_last_moment_known(file):
    open_ = span(1, endTimeUnixNano="0")
    later = span(2, traceId=f"{1:032x}", startTimeUnixNano="1700000000000000001", endTimeUnixNano="1700000000000005001")
    frame = load(file(lines(otlp(open_, later)))).spans_df().set_index("name")

    assert frame["is_running"].to_dict() == {"span 1": True, "span 2": False}
    assert frame.loc["span 1", "duration"] == pd.Timedelta(5000, "ns")
    assert pd.isna(frame.loc["span 1", "end_time"])


# ---------------------------------------------------------------------------------------- sources


def test_paths_patterns_folders_lists_and_open_files_are_sources(file, tmp_path):
    first, second = file(lines(otlp(span(1))), "a/one.jsonl"), file(lines(otlp(span(2))), "a/b/two.jsonl")
    file("hidden", "a/.hidden")

    assert len(load(str(first)).spans_df()) == 1
    assert len(load(tmp_path / "a").spans_df()) == 2
    assert len(load(str(tmp_path / "a" / "*.jsonl")).spans_df()) == 1
    assert len(load(str(tmp_path / "**" / "*.jsonl")).spans_df()) == 2
    assert len(load([first, second]).spans_df()) == 2
    with first.open("rb") as stream:
        assert len(load(stream).spans_df()) == 1
    with first.open() as stream:
        assert len(load(stream).spans_df()) == 1


def test_what_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(hn.UnreadableTrace, match=r"nothing could be read: .*missing\.jsonl: FileNotFoundError"):
        load(tmp_path / "missing.jsonl")
    with pytest.raises(hn.UnreadableTrace, match="there are no files at"):
        load(str(tmp_path / "*.jsonl"))
    with pytest.raises(hn.UnreadableTrace, match="there are no files at"):
        load(tmp_path)


@pytest.mark.parametrize("content", ["", "hello", "{}", "[]", '{"a": 1}', "\x00\x01\x02", "PK\x03\x04", "PAR1", "1"])
def test_what_is_no_trace_is_refused_with_the_reason(file, content):
    with pytest.raises(hn.UnreadableTrace) as caught:
        load(file(content))

    assert "nothing could be read" in str(caught.value)
    assert str(caught.value.path).endswith("traces.jsonl")


def test_a_good_file_among_bad_ones_is_read_and_the_bad_ones_are_told(file):
    traces = load([file("hello", "bad.txt"), file(lines(otlp(span(1))), "good.jsonl")])

    assert len(traces.spans_df()) == 1
    assert "bad.txt: nothing\n  skipped 1: of no known format" in str(traces.report)
    assert "2 files, 1 lines, 1 spans" in str(traces.report)


# ---------------------------------------------------------------------------------------- parts of a source


def conversation(number: int, name: str, day: int) -> dict:
    start = 1_700_000_000_000_000_000 + day * 86_400_000_000_000
    said = [{"key": "gen_ai.conversation.id", "value": {"stringValue": name}}]
    return otlp(
        span(number, attributes=said, startTimeUnixNano=str(start), endTimeUnixNano=str(start + 10)),
        span(number + 100, traceId=f"{number:032x}", parentSpanId=f"{number:016x}", startTimeUnixNano=str(start + 1)),
    )


def test_traces_are_chosen_by_conversation_time_and_number_and_what_is_left_out_is_told(file):
    written = file(lines(*(conversation(number, "ab"[number % 2], number) for number in range(1, 7))))

    def names(**wanted):
        return load(written, **wanted).spans_df()["name"].tolist()

    assert names(conversation_id="a") == ["span 2", "span 102", "span 4", "span 104", "span 6", "span 106"]
    assert names(since="2023-11-19") == ["span 5", "span 105", "span 6", "span 106"]
    assert names(until="2023-11-16T00:00:00+00:00") == ["span 1", "span 101"]
    assert names(limit=1) == ["span 6", "span 106"]
    assert names(conversation_id="b", limit=1) == ["span 5", "span 105"]
    assert "5 traces were not asked for" in str(load(written, limit=1).report)
    assert load(written).select(limit=1).spans_df()["name"].tolist() == ["span 6", "span 106"]
    with pytest.raises(hn.ConfigurationError, match="since is an ISO 8601 time"):
        load(written, since="yesterday")


def test_what_was_said_is_left_out_told_and_read_when_it_is_asked_for(file):
    said = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {
            "key": "gen_ai.input.messages",
            "value": {"stringValue": '[{"role":"user","parts":[{"type":"text","content":"secret"}]}]'},
        },
    ]
    traces = load(file(lines(otlp(span(attributes=said)))))

    assert "secret" not in traces.spans_df().to_csv()
    assert "had content, which was left out" in str(traces.report)
    assert traces.messages_df()["content"].tolist() == ["secret"]
    assert "secret" in traces.spans_df(content=True).to_csv()


def test_what_was_said_can_be_asked_of_one_turn_and_of_traces_put_together(tmp_path):
    trace = plain_trace("Why?")
    trace.to_otlp_json(tmp_path / "turn.jsonl", content=True)
    loaded = load(tmp_path / "turn.jsonl")

    for one in (loaded.trace(trace.turn_id), concat([loaded]), concat([loaded, loaded])):
        assert "Why?" in one.messages_df()["content"].tolist()
        assert one.spans_df(content=True)["attributes_json"].str.contains("Why?", regex=False).any()


def test_what_only_our_turns_count_is_unknown_of_other_tools_turns():
    turns = load(DATA / "genai/jaegerui_genaiTestTrace.json").turns_df()

    assert turns[["iterations", "retries", "refunds", "grace_used"]].isna().all().all()
    assert turns["tool_calls"].tolist() == [7, 0]


def test_stand_ins_of_open_spans_give_way_to_the_spans_themselves(file):
    pending = [{"key": "hermes.span.pending", "value": {"boolValue": True}}]
    stand_in = span(1, attributes=pending, endTimeUnixNano="0")
    traces = load(file(lines(otlp(stand_in), otlp(span(1)), otlp(span(2, attributes=pending, endTimeUnixNano="0")))))

    assert traces.spans_df()["name"].tolist() == ["span 1", "span 2"]
    assert traces.spans_df()["is_running"].tolist() == [False, True]
    assert "1 records of spans that are there twice" in str(traces.report)


def test_lines_are_read_one_by_one():
    """Only the first two lines are looked at before rows come out."""
    asked = []

    def stream():
        for number in range(1, 100):
            asked.append(number)
            yield lines(otlp(span(number))).encode()

    rows = text_rows(stream(), File("stream"))
    next(rows)
    assert len(asked) <= 3
