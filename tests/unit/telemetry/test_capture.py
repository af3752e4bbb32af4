"""Captures: to files and servers, again and again in one cell, with their own content, and never in a turn's way."""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

import hermes_nb as hn
from hermes_nb.telemetry.hub import HUB
from hermes_nb.vocabulary import events
from tests.support.receiver import attributes, receiver
from tests.support.telling import told

OPEN_FILES = Path("/proc/self/fd")
SPANS = 5  # of the turn below


@pytest.fixture(autouse=True)
def no_capture_stays():
    before = HUB.outlets
    yield
    left = [outlet for outlet in HUB.outlets if outlet not in before]
    for outlet in left:
        HUB.remove(outlet)
        outlet.close(1)
    assert not left, "a test left its capture running"


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING)
    return caplog


def one_turn(**fields):
    with told(**fields) as turn, turn.iteration():
        turn.chat()
        turn.tool()
    return turn


def read(path):
    """The spans of a file by name."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = [span for line in lines for r in line["resourceSpans"] for s in r["scopeSpans"] for span in s["spans"]]
    return {span["name"]: {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]} for span in found}


def lines(path):
    return len(path.read_text().splitlines())


# ------------------------------------------------------------------------------------------ files


def test_each_span_is_a_line_of_the_file_as_soon_as_it_ends(tmp_path):
    path = tmp_path / "deep" / "turns.jsonl"
    with hn.capture(path), told() as turn, turn.iteration():
        turn.chat()

        assert lines(path) == 2
    assert lines(path) == 4


def test_a_cell_that_runs_again_doubles_nothing(tmp_path):
    path = tmp_path / "turns.jsonl"
    for _ in range(3):
        capture = hn.capture(path)
    one_turn()
    capture.shutdown()
    one_turn()
    capture.shutdown()

    assert lines(path) == SPANS


@pytest.mark.skipif(not OPEN_FILES.is_dir(), reason="counts open files by /proc")
def test_no_file_stays_open(tmp_path):
    before = len(list(OPEN_FILES.iterdir()))
    for _ in range(5):
        capture = hn.capture(tmp_path / "turns.jsonl", metrics="latest")
        one_turn()
    capture.shutdown()

    assert len(list(OPEN_FILES.iterdir())) == before


def test_an_old_handle_does_not_end_what_replaced_it(tmp_path):
    path = tmp_path / "turns.jsonl"
    old = hn.capture(path)
    new = hn.capture(path)
    old.shutdown()
    one_turn()
    new.shutdown()

    assert lines(path) == SPANS


def test_captures_stack_each_with_its_own_content(tmp_path):
    bare, said = tmp_path / "bare.jsonl", tmp_path / "said.jsonl"
    with hn.capture(bare, openinference=False), hn.capture(said, content="full"):
        turn = one_turn()

    assert "gen_ai.input.messages" in read(said)["chat gpt-x"]
    assert read(said)["chat gpt-x"]["openinference.span.kind"] == "LLM"
    assert "Lyon" not in bare.read_text()
    assert "openinference" not in bare.read_text().replace("openinference.project.name", "")
    assert "gen_ai.input.messages" not in turn.named("chat gpt-x").attributes
    assert set(read(bare)) == set(read(said))


def test_a_file_goes_on_behind_a_line_that_a_kill_tore(tmp_path):
    path = tmp_path / "turns.jsonl"
    path.write_text('{"resourceSpans": [{"res')
    with hn.capture(path):
        one_turn()

    first, *others = path.read_text().splitlines()
    assert first.endswith('"res')
    assert len([json.loads(line) for line in others]) == SPANS


def test_a_full_disk_is_told_of_once_and_the_turn_goes_on(warnings):
    with hn.capture("/dev/full") as capture:
        turn = one_turn()
        assert capture.failures == SPANS
        assert repr(capture) == f"<Capture to full ({SPANS} failures)>"

    assert len(turn.spans()) == SPANS
    reason = "Failed to write spans batch to stream: OSError: [Errno 28] No space left on device"
    assert [record.message for record in warnings.records] == [f"spans do not reach full ({reason}); turns go on"]
    assert warnings.records[0].exc_info is None


def test_a_file_that_cannot_be_opened_is_said_at_once(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(hn.ConfigurationError, match=r"cannot write to .*turns\.jsonl"):
        hn.capture(tmp_path / "file" / "turns.jsonl")


def test_several_threads_write_whole_lines(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    path = tmp_path / "turns.jsonl"
    with hn.capture(path, content="full"), ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(one_turn, prompt="x" * 100_000) for _ in range(8)]:
            future.result()

    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 8 * SPANS


# ------------------------------------------------------------------------------------------ servers


def test_spans_reach_a_server(tmp_path):
    with receiver() as server, hn.capture(otlp=server.url, content="full", headers={"x-key": "k"}) as capture:
        one_turn()
        assert capture.flush()

        assert sorted(server.names()) == sorted(
            ["chat gpt-x", "hermes.attempt", "execute_tool population", "hermes.iteration", "invoke_agent agent"]
        )
        (chat,) = (span for span in server.spans if span.name == "chat gpt-x")
        assert json.loads(attributes(chat)["gen_ai.output.messages"])[0]["finish_reason"] == "stop"
        assert server.headers[0]["x-key"] == "k"
        told_of = attributes(server.resources[0])
        assert told_of["openinference.project.name"] == "hermes_nb"
        assert told_of["hermes.semconv.genai"] == "0.1.0"


def test_the_end_of_a_turn_sends_at_once():
    with receiver() as server, hn.capture(otlp=f"{server.url}/v1/traces"):
        start = time.monotonic()
        one_turn()
        server.wait_for(SPANS)

        assert len(server.spans) == SPANS
        assert time.monotonic() - start < 15


def test_a_server_that_is_not_there_slows_no_turn_and_is_told_of_once(warnings):
    with hn.capture(otlp="http://127.0.0.1:9") as capture:
        start = time.monotonic()
        for _ in range(3):
            turn = one_turn()
        taken = time.monotonic() - start
        capture.flush(60)

    assert taken < 5
    assert len(turn.spans()) == SPANS
    assert len(warnings.records) == 1
    assert "spans do not reach http://127.0.0.1:9" in warnings.text
    assert "Traceback" not in warnings.text


@pytest.mark.parametrize("status", [400, 401])
def test_a_server_that_refuses_is_told_of_once(status, warnings):
    with receiver(status) as server, hn.capture(otlp=server.url) as capture:
        for _ in range(3):
            one_turn()
            capture.flush()

        assert capture.failures >= 1
    assert len(warnings.records) == 1
    assert str(status) in warnings.text


def test_a_server_that_is_busy_gets_the_spans_later():
    with receiver(503) as server, hn.capture(otlp=server.url) as capture:
        one_turn()
        while not server.headers:
            time.sleep(0.01)
        server.status = 200

        assert capture.flush(20)
        assert capture.failures == 0


def test_a_slow_server_holds_nobody_longer_than_asked():
    with receiver(delay=1.5) as server, hn.capture(otlp=server.url) as capture:
        one_turn()
        start = time.monotonic()
        capture.flush(timeout=0.1)
        capture.shutdown(timeout=0.1)

        assert time.monotonic() - start < 1.4


def test_the_environment_names_a_server(monkeypatch):
    with receiver() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        with hn.capture() as capture:
            one_turn()
            capture.flush()

        assert len(server.spans) == SPANS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "say where to"),
        ({"otlp": "localhost:6006"}, "address of a server"),
        ({"otlp": "ftp://host"}, "address of a server"),
        ({"path": "x.jsonl", "content": "all"}, "content is one of 'none', 'new', 'full', not 'all'"),
        ({"path": "x.jsonl", "metrics": "1.36"}, "metrics is one of"),
        ({"otlp": "http://127.0.0.1:9/api/spans", "metrics": "latest"}, "give a meter_provider or"),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments, words):
    with pytest.raises(hn.ConfigurationError, match=words):
        hn.capture(**arguments)


def test_no_key_is_shown(warnings):
    secret = "http://user:hunter2@127.0.0.1:9/v1/traces?key=abcdef123456"
    with hn.capture(otlp=secret, headers={"authorization": "Bearer abcdef"}) as capture:
        one_turn()
        capture.shutdown(timeout=0.2)
        shown = repr(capture) + warnings.text

    assert "hunter2" not in shown
    assert "abcdef" not in shown
    with pytest.raises(hn.ConfigurationError) as error:
        hn.capture(otlp="host?key=abcdef123456")
    assert "abcdef" not in str(error.value)


# ------------------------------------------------------------------------------------------ exporters of the user's


class Keep(SpanExporter):
    def __init__(self):
        self.spans = []

    def export(self, spans):
        self.spans += spans
        return SpanExportResult.SUCCESS


class Raise(SpanExporter):
    def export(self, spans):
        raise OSError("no network, sk-test-SECRET123")


def test_any_exporter_gets_the_spans():
    with hn.capture(exporter=(keep := Keep())) as capture:
        one_turn()
        capture.flush()

    assert len(keep.spans) == SPANS


def test_an_exporter_that_raises_is_told_of_once(warnings):
    with hn.capture(exporter=Raise()) as capture:
        for _ in range(3):
            one_turn()
            capture.flush()

    assert [record.message for record in warnings.records] == [
        "spans do not reach Raise (OSError: no network, [redacted]); turns go on"
    ]


def test_spans_of_the_users_in_a_tool_go_along_as_they_are():
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(shutdown_on_exit=False)
    with hn.capture(exporter=(keep := Keep())) as capture:
        with told(provider) as turn, turn.iteration(), turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
            with provider.get_tracer("mine").start_as_current_span("query", attributes={"input.value": "mine"}):
                pass
            tool.status = "ok"
        with provider.get_tracer("mine").start_as_current_span("outside"):
            pass
        capture.flush()

    shown = {span.name: dict(span.attributes) for span in keep.spans}
    assert shown["query"] == {"input.value": "mine"}
    assert "outside" not in shown


# ------------------------------------------------------------------------------------------ content


@pytest.mark.parametrize(
    ("value", "told_of"),
    [
        ("", False),
        ("NO_CONTENT", False),
        ("EVENT_ONLY", False),
        ("SPAN_ONLY", True),
        ("SPAN_AND_EVENT", True),
        ("true", True),
    ],
)
def test_content_follows_the_environment_unless_the_caller_says_otherwise(value, told_of, monkeypatch, tmp_path):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
    by_environment, by_hand = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    with hn.capture(by_environment), hn.capture(by_hand, content="none"):
        one_turn()

    told_of = value in ("SPAN_ONLY", "SPAN_AND_EVENT", "true")
    assert ("Which is larger" in by_environment.read_text()) is told_of
    assert "Which is larger" not in by_hand.read_text()


def test_a_redactor_of_ones_own_sees_every_text_and_a_broken_one_drops_it(tmp_path):
    def redact(text: str) -> str:
        if "522000" in text:
            raise ValueError
        return text.replace("Lyon", "[city]")

    capture = hn.capture(tmp_path / "t.jsonl", content="full", redact=redact)
    with capture, told(metadata={"note": "Lyon"}) as turn, turn.iteration():
        turn.recorder.tell(events.Steered(1, "Only Lyon.", "delivered"))
        turn.chat()
        turn.tool()
        with turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
            tool.status, tool.error_type, tool.error = "error", "ValueError", "no Lyon"

    written = (tmp_path / "t.jsonl").read_text()
    assert "Lyon" not in written
    assert "522000" not in written
    assert "[dropped: the redactor failed]" in written
    assert written.count("[city]") > 5


@pytest.mark.parametrize(
    ("variable", "gone", "stays"),
    [
        ("INPUTS", "gen_ai.input.messages", "gen_ai.output.messages"),
        ("OUTPUTS", "gen_ai.output.messages", "gen_ai.input.messages"),
        ("INPUT_MESSAGES", "gen_ai.input.messages", "gen_ai.output.messages"),
        ("OUTPUT_MESSAGES", "gen_ai.output.messages", "gen_ai.input.messages"),
        ("LLM_INVOCATION_PARAMETERS", "gen_ai.request.temperature", "gen_ai.request.model"),
        ("LLM_TOOLS", "gen_ai.tool.definitions", "gen_ai.input.messages"),
    ],
)
def test_what_openinference_hides_is_hidden(variable, gone, stays, monkeypatch, tmp_path):
    from hermes_nb.vocabulary.messages import ToolSpec

    monkeypatch.setenv(f"OPENINFERENCE_HIDE_{variable}", "true")
    with hn.capture(tmp_path / "t.jsonl", content="full"), told() as turn, turn.iteration():
        turn.chat(parameters={"temperature": 0}, tools=(ToolSpec("t", "d", {}),))

    chat = read(tmp_path / "t.jsonl")["chat gpt-x"]
    assert gone not in chat
    assert stays in chat


def test_openinference_can_hide_the_texts_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("OPENINFERENCE_HIDE_INPUT_TEXT", "1")
    monkeypatch.setenv("OPENINFERENCE_HIDE_OUTPUTS", "1")
    with hn.capture(tmp_path / "t.jsonl", content="full"):
        one_turn()

    found = read(tmp_path / "t.jsonl")
    sent = json.loads(found["chat gpt-x"]["gen_ai.input.messages"])
    assert sent[0]["parts"] == [{"type": "text", "content": "__REDACTED__"}]
    assert found["invoke_agent agent"]["output.value"] == "__REDACTED__"


def test_text_that_is_no_unicode_is_written_all_the_same(tmp_path):
    with receiver() as server, hn.capture(tmp_path / "t.jsonl", otlp=server.url, content="full") as capture:
        with told(prompt="\ud800 lone", metadata={"\ud800": "\ud800"}) as turn, turn.iteration():
            turn.chat("\udfff", parameters={"stop": ["\ud800"]})
            turn.tool(arguments='{"x": "\\ud800"}', result="\ud800")
            with turn.recorder.scope(events.Tool("\ud800", "\ud800", "{}")) as tool:
                tool.status, tool.error_type, tool.error = "error", "X", "\ud800"
        capture.flush()

        assert len(server.spans) == SPANS + 1
        assert lines(tmp_path / "t.jsonl") == SPANS + 1
        assert capture.failures == 0


# ------------------------------------------------------------------------------------------ the process


def test_memory_is_given_back_when_nobody_holds_the_run():
    import weakref

    gc.collect()
    gc.disable()  # nothing is left for the garbage collector: it would be slow with many turns
    try:
        turn = one_turn()
        store = weakref.ref(turn.store)
        del turn

        assert store() is None
    finally:
        gc.enable()


def run_program(program: str, *arguments, wait=True):
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process.communicate(timeout=60) if wait else process


TURN = """
import sys, time
sys.path.insert(0, ".")
import hermes_nb as hn
from tests.support.telling import told
"""


def test_the_end_of_the_process_sends_what_is_held():
    program = TURN + "hn.capture(otlp=sys.argv[1])\nwith told() as turn, turn.iteration():\n    turn.chat()\n"
    with receiver() as server:
        _, errors = run_program(program, server.url)

        assert errors == ""
        assert len(server.spans) == 4


def test_the_end_of_the_process_waits_for_no_dead_server():
    program = TURN + "hn.capture(otlp='http://127.0.0.1:9')\nwith told() as turn, turn.iteration():\n    turn.chat()\n"
    start = time.monotonic()
    _, errors = run_program(program)

    assert time.monotonic() - start < 30
    assert errors.count("\n") <= 1
    assert "Traceback" not in errors


def test_a_killed_process_leaves_every_ended_span_on_disk(tmp_path):
    path = tmp_path / "turns.jsonl"
    program = TURN + (
        "hn.capture(sys.argv[1], content='full')\n"
        "with told() as turn:\n    for n in range(1, 4):\n        with turn.iteration(n):\n            turn.chat()\n"
        "            if n == 3:\n                print('now', flush=True)\n                time.sleep(60)\n"
    )
    process = run_program(program, path, wait=False)
    assert process.stdout.readline() == "now\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    lines_of_file = map(json.loads, path.read_text().splitlines())
    found = [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["name"] for line in lines_of_file]
    assert found == [
        "hermes.attempt", "chat gpt-x", "hermes.iteration", "hermes.attempt", "chat gpt-x", "hermes.iteration",
        "hermes.attempt", "chat gpt-x",
    ]  # fmt: skip
