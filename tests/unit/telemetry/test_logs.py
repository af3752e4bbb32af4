"""Events as log records: in a file beside the spans, at a server, and read back as what the spans say."""

from __future__ import annotations

import json
import logging

import pytest
from opentelemetry import _logs
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor

import hermes_nb as hn
from hermes_nb.telemetry import semconv as s
from hermes_nb.testing import call, fails, no_waiting, say, script
from hermes_nb.vocabulary import events
from tests.support.receiver import attributes, receiver
from tests.support.telling import told

DETAILS = s.EVENT_GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS
ON_SPANS = {
    s.EVENT_GEN_AI_CLIENT_OPERATION_EXCEPTION: "exception",
    s.EVENT_GEN_AI_EXECUTE_TOOL_EXCEPTION: "exception",
}
KEY = "sk-proj-abcdefghij0123456789"


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000}[city]


def run():
    """A turn that retries after a lost connection, whose tool raises, and which ends with a grace call."""
    model = script(fails("connection"), call("population", city="Rome"), say("Nobody knows."))
    with no_waiting():
        return hn.Agent(model, tools=[population], budget=1).run("How many?", session=False)


def records(path):
    """The log records of a file."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [log for line in lines for r in line["resourceLogs"] for c in r["scopeLogs"] for log in c["logRecords"]]


def rows(frame, source, *columns):
    """What the events of a source say, by time; a model call as a whole has no span event."""
    found = frame[(frame["source"] == source) & (frame["name"] != DETAILS)]
    names = [ON_SPANS.get(name, name) for name in found["name"]]
    return sorted(zip(names, *(found[each].astype(str) for each in columns), strict=True))


KEYS = ("time", "trace_id", "span_id", "turn_id", "conversation_id", "iteration", "run_id", "attributes_json")


def test_records_beside_the_file_say_what_the_span_events_say(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()
    loaded = hn.load(tmp_path)
    frame = loaded.events_df()

    assert rows(frame, "log", *KEYS) == rows(frame, "span", *KEYS)
    assert {"hermes.budget.consume", "hermes.budget.grace_used", "exception"} <= {row[0] for row in rows(frame, "log")}
    assert set(frame[frame["name"] == DETAILS]["span_id"]) == set(loaded.chats_df()["span_id"])
    assert not loaded.report.skipped


def test_records_that_are_loaded_beside_their_spans_count_nothing_twice(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()
    both, alone = hn.load(tmp_path), hn.load(tmp_path / "turns.jsonl")

    assert len(both.budget_df()) == len(alone.budget_df()) > 0
    assert both.turns_df().equals(alone.turns_df())
    assert both.iterations_df().equals(alone.iterations_df())


def test_records_without_their_spans_give_the_budget_too(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()
    logs, spans = hn.load(tmp_path / "turns.logs.jsonl").budget_df(), hn.load(tmp_path / "turns.jsonl").budget_df()

    assert list(logs["remaining"]) == list(spans["remaining"])


def test_a_record_has_the_time_of_what_it_tells_and_the_word_for_it(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both"), told() as turn, turn.iteration():
        turn.chat()
        with turn.recorder.scope(events.Tool("population", "call_1", "{}")) as tool:
            tool.status, tool.error_type, tool.error = "error", "KeyError", "'Rome'"
    found = {record["eventName"]: record for record in records(tmp_path / "turns.logs.jsonl")}
    raised, details = found[s.EVENT_GEN_AI_EXECUTE_TOOL_EXCEPTION], found[DETAILS]
    tool, chat = turn.named("execute_tool population"), turn.named("chat gpt-x")

    assert (raised["severityText"], raised["severityNumber"]) == ("WARN", 13)
    assert (details["severityText"], details["severityNumber"]) == ("INFO", 9)
    assert int(raised["timeUnixNano"]) == tool.end_time
    assert int(details["timeUnixNano"]) == chat.end_time
    assert details["spanId"] == f"{chat.get_span_context().span_id:016x}"
    assert details["traceId"] == f"{chat.get_span_context().trace_id:032x}"


def test_nothing_is_a_record_unless_it_is_asked_for(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl"):
        run()

    assert [path.name for path in tmp_path.iterdir()] == ["turns.jsonl"]


# ------------------------------------------------------------------------------------------ content and keys


def test_a_model_call_is_a_record_with_what_was_said_as_data(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both", content="full"):
        run()
    first = next(record for record in records(tmp_path / "turns.logs.jsonl") if record["eventName"] == DETAILS)
    said = {each["key"]: each["value"] for each in first["attributes"]}

    (message,) = said["gen_ai.input.messages"]["arrayValue"]["values"]
    assert {each["key"] for each in message["kvlistValue"]["values"]} == {"role", "parts"}
    assert said["gen_ai.request.model"]["stringValue"]
    assert "gen_ai.tool.definitions" in said


def test_what_was_said_stays_out_unless_it_is_asked_for(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()

    assert "How many?" not in (tmp_path / "turns.logs.jsonl").read_text()


@pytest.mark.parametrize("wanted", ["span_only", "event_only", "span_and_event"])
def test_the_environment_says_where_what_was_said_goes(tmp_path, monkeypatch, wanted):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", wanted.upper())
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()

    assert ("How many?" in (tmp_path / "turns.jsonl").read_text()) == (wanted != "event_only")
    assert ("How many?" in (tmp_path / "turns.logs.jsonl").read_text()) == (wanted != "span_only")


def test_messages_are_read_from_the_records_where_spans_have_none(tmp_path, monkeypatch):
    frames = []
    for wanted in ("event_only", "span_only"):
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", wanted)
        with hn.capture(tmp_path / wanted / "turns.jsonl", events="both"):
            run()
        frames.append(hn.load(tmp_path / wanted).messages_df())

    columns = ["role", "part_type", "message_index", "direction", "iteration", "content"]
    records_only, spans_only = (frame[frame["role"] != "tool"][columns].reset_index(drop=True) for frame in frames)
    assert len(records_only) > 2
    assert records_only.equals(spans_only)


def test_keys_and_words_are_taken_out_of_records_as_of_spans(tmp_path):
    def hide(text):
        return text.replace("Lyon", "***")

    capture = hn.capture(tmp_path / "turns.jsonl", events="both", content="full", redact=hide)
    with capture, told() as turn, turn.iteration():
        turn.chat(f"Lyon, says {KEY}.")
        turn.recorder.tell(events.Steered(1, f"mind Lyon and {KEY}", "delivered"))
        with turn.recorder.scope(events.Tool("population", "call_1", "{}")) as tool:
            tool.status, tool.error_type, tool.error = "error", "KeyError", f"Lyon {KEY}"
    text = (tmp_path / "turns.logs.jsonl").read_text()

    assert text.count("***") >= 3
    assert "Lyon" not in text
    assert KEY not in text


# ------------------------------------------------------------------------------------------ exceptions


@pytest.mark.parametrize(("wanted", "on_spans"), [("", True), ("logs/dup", True), ("logs", False)])
def test_the_environment_takes_exceptions_off_spans(tmp_path, monkeypatch, wanted, on_spans):
    monkeypatch.setenv("OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN", wanted)
    with hn.capture(tmp_path / "turns.jsonl", events="both"):
        run()
    frame = hn.load(tmp_path).events_df()

    exceptions = frame[frame["name"].astype(str).str.endswith("exception")].groupby("source", observed=False).size()
    assert exceptions["log"] == 2
    assert exceptions["span"] == (2 if on_spans else 0)


def test_exceptions_stay_on_spans_where_there_are_no_records(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_SEMCONV_EXCEPTION_SIGNAL_OPT_IN", "logs")
    with hn.capture(tmp_path / "turns.jsonl"):
        run()

    assert "exception" in set(hn.load(tmp_path).events_df()["name"])


# ------------------------------------------------------------------------------------------ servers and providers


def test_records_reach_a_server_with_their_spans():
    with receiver() as server, hn.capture(otlp=server.url, events="both", headers={"x-team": "geo"}) as capture:
        result = run()
        assert capture.flush()

        sent = {record.event_name: record for record in server.logs}
        assert {DETAILS, "hermes.budget.consume", s.EVENT_GEN_AI_EXECUTE_TOOL_EXCEPTION} <= set(sent)
        assert {record.span_id for record in server.logs} <= {span.span_id for span in server.spans}
        assert {record.trace_id for record in server.logs} == {span.trace_id for span in server.spans}
        assert all(record.time_unix_nano for record in server.logs)
        assert attributes(sent[DETAILS])["hermes.turn.id"] == result.turn_id
        assert {headers["x-team"] for headers in server.headers} == {"geo"}
        in_memory = result.trace.events_df()
        events_sent = [record for record in server.logs if record.event_name != DETAILS]
        assert sorted(record.time_unix_nano for record in events_sent) == sorted(in_memory["time"].astype("int64"))


def test_a_server_that_fails_or_a_full_disk_never_touches_the_turn(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    with receiver(status=400) as server:
        capture = hn.capture("/dev/full", otlp=server.url, events="both")
        result = run()
        capture.shutdown()

    assert result.text == "Nobody knows."
    assert capture.failures > 2
    assert caplog.text.count("log records do not reach") >= 1


def test_records_go_to_a_provider_of_the_users_and_never_to_the_global_one():
    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    before = _logs._internal._LOGGER_PROVIDER
    with hn.capture(logger_provider=provider) as capture:
        run()
        assert capture.flush()
    run()

    names = [each.log_record.event_name for each in kept.get_finished_logs()]
    assert names.count("hermes.budget.grace_used") == 1
    assert _logs._internal._LOGGER_PROVIDER is before


def test_a_cell_that_runs_again_doubles_no_record(tmp_path):
    for _ in range(3):
        capture = hn.capture(tmp_path / "turns.jsonl", events="both")
    run()
    capture.shutdown()

    names = [record["eventName"] for record in records(tmp_path / "turns.logs.jsonl")]
    assert names.count("hermes.budget.grace_used") == 1


def test_a_capture_says_where_records_cannot_go(tmp_path):
    with pytest.raises(hn.ConfigurationError, match="'span', 'both', not 'logs'"):
        hn.capture(tmp_path / "turns.jsonl", events="logs")
    with pytest.raises(hn.ConfigurationError, match="needs a file, a server, or a logger_provider"):
        hn.capture(exporter=object(), events="both")
    with pytest.raises(hn.ConfigurationError, match="or a logger_provider instead"):
        hn.capture(otlp="http://localhost:1/ingest", events="both")
