"""Real turns through other tools' real servers, read back by their own clients."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, fails, no_waiting, say, script
from tests.support.foreign import ask, free_port, python, server, until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

PHOENIX = ("arize-phoenix==20.26.1",)
MLFLOW = ("mlflow==3.17.2",)
USAGE = hn.Usage(120, 30, cache_read_tokens=64, cache_write_tokens=8, reasoning_tokens=5)


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


@dataclass(frozen=True)
class Viewer:
    """A server, and the interpreter that has its client."""

    url: str
    python: Path


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory):
    interpreter, port, home = python("phoenix", *PHOENIX), free_port(), tmp_path_factory.mktemp("phoenix")
    url = f"http://127.0.0.1:{port}"
    environment = {
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_WORKING_DIR": str(home),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [interpreter, "-m", "phoenix.server.main", "serve"]
    with server(command, f"{url}/healthz", home / "log", **environment):
        yield Viewer(url, interpreter)


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    interpreter, port, home = python("mlflow", *MLFLOW), free_port(), tmp_path_factory.mktemp("mlflow")
    url = f"http://127.0.0.1:{port}"
    command = [
        interpreter, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
        "--backend-store-uri", f"sqlite:///{home}/mlflow.db", "--artifacts-destination", home / "artifacts",
    ]  # fmt: skip
    with server(command, f"{url}/health", home / "log"):
        yield Viewer(url, interpreter)


def turns(tmp_path, **capture) -> list[hn.TurnResult]:
    """Two turns of one conversation, sent: a healed retry, a tool, a failed tool, a sub-agent."""
    searcher = hn.Agent(script(say("Lille has 236,000.", usage=USAGE), model="small"), name="searcher")
    steps = [
        fails("server_error"), call("population", city="Lyon"), call("searcher", task="Find Lille."),
        say("Lyon, by 286,000.", usage=USAGE), call("population", city="Rome"), say("I do not know Rome.", usage=USAGE),
    ]  # fmt: skip
    agent = hn.Agent(script(*steps, model="big"), tools=[population, searcher.as_tool()], name="geo")
    session = hn.Session(tmp_path / "s.db")
    with pytest.MonkeyPatch.context() as patch, no_waiting():
        patch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "120")  # a server's first answer may take long
        sent = hn.capture(content="full", **capture)
        results = [
            agent.run("Which is larger, Lyon or Lille?", session=session),
            agent.run("And Rome?", session=session),
        ]
        assert sent.flush(120)
        sent.shutdown()
        assert sent.failures == 0
    return results


def expected(results):
    """What was sent: id, name, kind in OpenInference's words, parent."""
    rows = {}
    for result in results:
        frame = result.trace.spans_df()
        for row in frame.itertuples():
            kind = {"turn": "AGENT", "chat": "LLM", "tool": "TOOL"}.get(row.span_type, "CHAIN")
            parent = None if row.parent_span_id != row.parent_span_id else row.parent_span_id  # NaN is not itself
            rows[row.span_id] = (row.name, kind, parent)
    return rows


# ------------------------------------------------------------------------------------------ Phoenix

ASK_PHOENIX = """
import json, sys
from phoenix.client import Client
client = Client(base_url=sys.argv[1])
spans = client.spans.get_spans(project_identifier="hermes_nb", limit=1000)
sessions = client.sessions.list(project_name="hermes_nb")
print(json.dumps({"spans": spans, "sessions": sessions}, default=str))
"""


@pytest.fixture(scope="module")
def in_phoenix(phoenix, tmp_path_factory):
    results = turns(tmp_path_factory.mktemp("turns"), otlp=f"{phoenix.url}/v1/traces")
    wanted = expected(results)
    found = until(
        lambda: ask(phoenix.python, ASK_PHOENIX, phoenix.url), lambda answer: len(answer["spans"]) >= len(wanted)
    )
    return results, wanted, found


def test_phoenix_has_every_span_with_its_kind_and_its_parent(in_phoenix):
    _, wanted, found = in_phoenix

    seen = {
        span["context"]["span_id"]: (span["name"], span["span_kind"], span.get("parent_id") or None)
        for span in found["spans"]
    }
    assert seen == wanted


def test_phoenix_counts_tokens_on_model_calls_alone(in_phoenix):
    results, _, found = in_phoenix

    chats = [span["attributes"] for span in found["spans"] if span["span_kind"] == "LLM"]
    others = [span["attributes"] for span in found["spans"] if span["span_kind"] != "LLM"]
    total = results[0].usage + results[1].usage
    assert (
        sum(chat["llm.token_count.prompt"] for chat in chats if "llm.token_count.prompt" in chat) == total.input_tokens
    )
    assert sum(chat.get("llm.token_count.completion", 0) for chat in chats) == total.output_tokens
    assert sum(chat.get("llm.token_count.prompt_details.cache_write", 0) for chat in chats) == 24
    assert sum(chat.get("llm.token_count.completion_details.reasoning", 0) for chat in chats) == 15
    assert not [key for given in others for key in given if key.startswith("llm.token_count")]


def test_phoenix_shows_messages_models_and_tools(in_phoenix):
    _, _, found = in_phoenix

    first = min((s for s in found["spans"] if s["name"] == "chat big"), key=lambda span: span["start_time"])
    shown = json.dumps(first["attributes"])
    assert first["attributes"]["llm.model_name"] == "big"
    assert "Which is larger, Lyon or Lille?" in shown
    assert '"llm.input_messages' in shown
    assert '"llm.output_messages' in shown
    assert "population" in json.dumps({k: v for k, v in first["attributes"].items() if k.startswith("llm.tools")})
    tools = [span["attributes"] for span in found["spans"] if span["name"] == "execute_tool population"]
    assert {tool["tool.name"] for tool in tools} == {"population"}
    assert ('{"city":"Lyon"}', "522000") in [(tool["input.value"], tool["output.value"]) for tool in tools]
    root = next(span for span in found["spans"] if span["name"] == "invoke_agent geo")
    assert root["attributes"]["input.value"]
    assert root["attributes"]["output.value"]


def test_phoenix_marks_what_failed_and_nothing_else(in_phoenix):
    _, _, found = in_phoenix

    failed = sorted(span["name"] for span in found["spans"] if span["status_code"] == "ERROR")
    assert failed == ["execute_tool population", "hermes.attempt"]


def test_phoenix_groups_the_turns_of_a_conversation(in_phoenix):
    results, _, found = in_phoenix

    (session,) = found["sessions"]
    assert session["session_id"] == results[0].conversation_id
    assert len(session["traces"]) == 2


# ------------------------------------------------------------------------------------------ MLflow

ASK_MLFLOW = """
import json, sys
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
traces = mlflow.search_traces(locations=["0"], return_type="list")
print(json.dumps([
    {
        "info": trace.info.to_dict(),
        "spans": [
            {"name": s.name, "id": s.span_id, "parent": s.parent_id, "type": s.span_type, "inputs": s.inputs,
             "outputs": s.outputs, "status": s.status.status_code.value, "attributes": s.attributes}
            for s in trace.data.spans
        ],
    }
    for trace in traces
], default=str))
"""


@pytest.fixture(scope="module")
def in_mlflow(mlflow, tmp_path_factory):
    results = turns(
        tmp_path_factory.mktemp("turns"), otlp=f"{mlflow.url}/v1/traces", headers={"x-mlflow-experiment-id": "0"}
    )
    wanted = expected(results)
    found = until(
        lambda: ask(mlflow.python, ASK_MLFLOW, mlflow.url),
        lambda traces: sum(len(trace["spans"]) for trace in traces) >= len(wanted),
    )
    return results, wanted, found


def test_mlflow_has_every_span_with_its_type_and_its_parent(in_mlflow):
    _, wanted, traces = in_mlflow
    names = {"AGENT": "AGENT", "CHAIN": "CHAIN", "TOOL": "TOOL", "LLM": "LLM", "CHAT_MODEL": "LLM"}

    seen = {span["id"]: (span["name"], names[span["type"]], span["parent"]) for t in traces for span in t["spans"]}
    assert len(traces) == 2
    assert seen == wanted


def test_mlflow_counts_tokens_once(in_mlflow):
    results, _, traces = in_mlflow

    total = results[0].usage + results[1].usage
    used = [json.loads(trace["info"]["trace_metadata"]["mlflow.trace.tokenUsage"]) for trace in traces]
    assert sum(usage["input_tokens"] for usage in used) == total.input_tokens
    assert sum(usage["output_tokens"] for usage in used) == total.output_tokens


def test_mlflow_shows_inputs_and_outputs(in_mlflow):
    _, _, traces = in_mlflow

    spans = [span for trace in traces for span in trace["spans"]]
    chat = next(span for span in spans if span["name"] == "chat big")
    calls = [span for span in spans if span["name"] == "execute_tool population"]
    root = next(span for span in spans if span["name"] == "invoke_agent geo")
    assert "Lyon" in json.dumps([chat["inputs"], chat["outputs"]])
    assert {"city": "Lyon"} in [call["inputs"] for call in calls]
    assert root["inputs"]
    assert root["outputs"]


def test_mlflow_groups_the_turns_of_a_conversation(in_mlflow):
    results, _, traces = in_mlflow

    sessions = {trace["info"]["trace_metadata"].get("mlflow.trace.session") for trace in traces}
    assert sessions == {results[0].conversation_id}


# ------------------------------------------------------------------------------------------ DuckDB


def test_duckdb_reads_the_same_turns_from_a_file(tmp_path):
    import duckdb

    results = turns(tmp_path, path=tmp_path / "turns.jsonl")
    folder = Path(__file__).parents[2] / "telemetry" / "sql"
    with duckdb.connect() as connection:
        connection.execute(f"SET VARIABLE traces = '{tmp_path}/turns.jsonl'")
        connection.execute((folder / "spans.sql").read_text())
        rows = connection.execute("SELECT span_id, name, parent_span_id FROM spans").fetchall()

    assert {row[0]: (row[1], row[2]) for row in rows} == {k: (n, p) for k, (n, _, p) in expected(results).items()}
