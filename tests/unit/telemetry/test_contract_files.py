"""The files beside the registry: golden traces, SQL, the collector's configuration, the dashboard; parsed or run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import promql_parser
import pytest
import yaml
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.proto_json.trace.v1.trace import TracesData
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY

import hermes_nb as hn
from hermes_nb.telemetry import semconv as s
from hermes_nb.telemetry.metrics import MetricSink
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, Usage
from tests.support import contract
from tools import golden

FOLDER = Path(__file__).parents[3] / "telemetry"


# ------------------------------------------------------------------------------------------ golden traces


@pytest.mark.parametrize("name", golden.TRACES)
def test_a_golden_trace_is_what_its_turn_emits_today(name):
    assert (FOLDER / "golden" / f"{name}.jsonl").read_text(encoding="utf-8") == golden.record(name), (
        "if the difference is meant: python tools/golden.py"
    )


@pytest.mark.parametrize("name", golden.TRACES)
def test_a_golden_trace_is_valid_otlp_and_as_declared(name):
    for line in (FOLDER / "golden" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        assert TracesData.from_json(line).resource_spans
        (span,) = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        given = {a["key"]: _value(a["value"]) for a in span["attributes"]}
        _, levels = contract.spans()[given["hermes.span.type"]]
        assert list(contract._problems(given, levels)) == []


def _value(value):
    (kind, given), *_ = value.items()
    if kind == "arrayValue":
        return tuple(_value(item) for item in given["values"])
    return int(given) if kind == "intValue" else given


def test_golden_traces_load_as_the_turns_that_they_are():
    frame = hn.load(FOLDER / "golden").turns_df()

    assert sorted(frame["exit_reason"]) == [
        "budget_exhausted",
        "completed",
        "completed",
        "completed",
        "provider_failed",
    ]


# ------------------------------------------------------------------------------------------ SQL


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        connection.execute(f"SET VARIABLE traces = '{FOLDER}/golden/*.jsonl'")
        connection.execute((FOLDER / "sql" / "spans.sql").read_text())
        yield connection


def ask(database, name):
    return database.execute((FOLDER / "sql" / f"{name}.sql").read_text()).df()


QUESTIONS = sorted(path.stem for path in (FOLDER / "sql").glob("*.sql") if path.stem != "spans")


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_has_an_answer_and_says_what_it_asks(question, database):
    assert (FOLDER / "sql" / f"{question}.sql").read_text().startswith("-- ")
    assert len(ask(database, question))


def test_turns_by_sql_are_those_of_the_frames(database):
    ours = hn.load(FOLDER / "golden").turns_df().set_index("turn_id").sort_index()
    theirs = ask(database, "turns").set_index("turn_id").sort_index()

    assert list(theirs.index) == list(ours.index)
    for column in ("exit_reason", "iterations", "tool_calls", "retries", "fallbacks"):
        assert list(theirs[column].astype(str)) == list(ours[column].astype(str)), column


def test_tokens_by_sql_are_counted_once(database):
    turns, tokens = ask(database, "turns"), ask(database, "tokens")
    tops = turns[turns["agent"] != "searcher"]  # the lead's account holds its sub-agent's tokens

    assert tokens["input_tokens"].sum() == tops["input_tokens"].sum()
    assert tokens["output_tokens"].sum() == tops["output_tokens"].sum()


def test_budgets_by_sql_add_up(database):
    budget = ask(database, "budget")

    assert (budget["remaining"] == budget["limit_"] - budget["used"]).all()


def test_sql_reads_a_file_with_a_torn_last_line(tmp_path):
    whole = (FOLDER / "golden" / "plain.jsonl").read_text()
    (tmp_path / "t.jsonl").write_text(whole + whole.splitlines()[0][:200])
    with duckdb.connect() as connection:
        connection.execute(f"SET VARIABLE traces = '{tmp_path}/t.jsonl'")
        connection.execute((FOLDER / "sql" / "spans.sql").read_text())
        (count,) = connection.execute("SELECT count(*) FROM spans WHERE trace_id IS NOT NULL").fetchone()

    assert count == len(whole.splitlines())


# ------------------------------------------------------------------------------------------ collector


def collector():
    return yaml.safe_load((FOLDER / "collector" / "config.yaml").read_text())


def test_the_collectors_pipelines_use_what_is_configured_and_nothing_else():
    config = collector()
    for section in ("receivers", "processors", "exporters"):
        used = {name for pipeline in config["service"]["pipelines"].values() for name in pipeline[section]}
        assert used == set(config[section]), section


def test_the_collector_takes_out_all_that_was_said():
    fence = collector()["processors"]["transform/no_content"]
    statements = [*fence["trace_statements"], *fence["log_statements"]]
    found = [
        re.fullmatch(r'delete_key\((span|spanevent|log)\.attributes, "([\w.]+)"\)', each).groups()
        for each in statements
    ]

    on_span_events = {s.HERMES_STEER_TEXT}
    assert {key for where, key in found if where == "span"} == s.CONTENT - on_span_events
    assert {key for where, key in found if where == "spanevent"} == on_span_events
    in_log_records = set().union(*(contract.points()[name] for name in contract.points()))
    assert {key for where, key in found if where == "log"} == s.CONTENT & in_log_records


SETTINGS = {
    "otlp": {"protocols": {"http": {"endpoint": str}, "grpc": {"endpoint": str}}},
    "memory_limiter": {"check_interval": str, "limit_mib": int},
    "batch": {"timeout": str},
    "transform": {"error_mode": {"propagate", "ignore", "silent"}, "trace_statements": [str], "log_statements": [str]},
    "tail_sampling": {
        "decision_wait": str,
        "policies": [
            {
                "name": str,
                "type": {"status_code", "numeric_attribute", "probabilistic"},
                "status_code": {"status_codes": [{"OK", "ERROR", "UNSET"}]},
                "numeric_attribute": {"key": str, "min_value": int, "max_value": int},
                "probabilistic": {"sampling_percentage": int},
            }
        ],
    },
    "otlphttp": {"traces_endpoint": str, "headers": dict},
    "prometheus": {"endpoint": str},
    "file": {"path": str, "format": {"json", "proto"}},
}
"""Settings that the components of the collector take, as their `config.go` and their documentation have them.

The collector refuses to start with a key that it does not know.
"""


def test_the_collector_is_given_only_settings_that_its_components_have():
    config = collector()
    parts = {**config["receivers"], **config["processors"], **config["exporters"]}

    for name, given in parts.items():
        _check(given, SETTINGS[name.partition("/")[0]], name)
    for policy in config["processors"]["tail_sampling"]["policies"]:
        assert set(policy) == {"name", "type", policy["type"]}


def _check(given, allowed, where):
    if isinstance(allowed, dict):
        assert set(given) <= set(allowed), where
        for key, value in given.items():
            _check(value, allowed[key], f"{where}.{key}")
    elif isinstance(allowed, list):
        for each in given:
            _check(each, allowed[0], where)
    elif isinstance(allowed, set):
        assert given in allowed, where
    else:
        assert type(given) is allowed, where


def test_the_collector_filters_on_attributes_that_are_declared():
    keys = [
        p["numeric_attribute"]["key"]
        for p in collector()["processors"]["tail_sampling"]["policies"]
        if "numeric_attribute" in p
    ]

    assert keys
    assert all(contract.attributes()[key]["type"] == "int" for key in keys)


def test_the_collector_listens_to_this_machine_alone_where_a_capture_sends():
    protocols = collector()["receivers"]["otlp"]["protocols"]

    assert all(given["endpoint"].startswith("127.0.0.1:") for given in protocols.values())
    assert protocols["http"]["endpoint"].endswith(":4318")


# ------------------------------------------------------------------------------------------ dashboard


@pytest.fixture(scope="module")
def exposed():
    """Names and labels that OpenTelemetry's own Prometheus exporter shows of a turn in which everything happened."""
    reader = PrometheusMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    _everything(MetricSink(provider.get_meter("t")))
    found: dict[str, set[str]] = {}
    for family in reader._collector.collect():
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    provider.shutdown()
    assert reader._collector not in REGISTRY._collector_to_names
    return found


def _everything(sink):
    recorder = Recorder("t", "c", [sink])
    with recorder.scope(events.Turn("agent", "p", "m", "q")) as turn:
        turn.exit_reason = "completed"
        recorder.tell(events.BudgetChanged("consume", -1, 2, 1, 1, 1))
        recorder.tell(events.Interrupt("api", "observed", "api_call", 0.1))
        with recorder.scope(events.Iteration(1, grace=True)), recorder.scope(events.Chat("p", "m")) as chat:
            chat.reply = Reply(
                Message("assistant", "x"), usage=Usage(1, 1, 1, 1, 1), model="m", time_to_first_chunk=0.1
            )
            with recorder.scope(events.Attempt(1, 3, "p", "m")) as attempt:
                recorder.tell(events.Delta("a"))
                recorder.tell(events.Delta("b"))
                attempt.error_type = "429"
            with recorder.scope(events.Retry(1, "rate_limit", 1.0)):
                pass
        with recorder.scope(events.Fallback(1, "auth", "p", "m")) as fallback:
            fallback.to_provider = "b"
        with recorder.scope(events.Compression("threshold", "s", 9, 900)) as compression:
            compression.outcome = "compressed"
        with recorder.scope(events.Refund("compression", 2, 1, 1)):
            pass
        with recorder.scope(events.Tool("t", "c", "{}")) as tool:
            tool.error_type = "ValueError"


def queries():
    """The dashboard's queries, with Grafana's variables filled in."""
    board = json.loads((FOLDER / "grafana" / "hermes_nb.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            query = re.sub(r"\$__rate_interval|\$__range", "5m", target["expr"]).replace("$agent", ".*")
            yield pytest.param(query, target["legendFormat"], id=f"{panel['title']} {target['refId']}")


def selectors(node):
    """The metrics that a query selects, with the labels that it asks for."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name, {matcher.name for matcher in node.matchers.matchers}
    for name in ("expr", "vector_selector", "lhs", "rhs"):
        if (inner := getattr(node, name, None)) is not None:
            yield from selectors(inner)
    for argument in getattr(node, "args", ()) or ():
        yield from selectors(argument)


@pytest.mark.parametrize(("query", "legend"), list(queries()))
def test_each_query_of_the_dashboard_asks_for_what_is_exposed(query, legend, exposed):
    found = list(selectors(promql_parser.parse(query)))

    assert found
    for name, labels in found:
        assert name in exposed
        assert labels <= exposed[name]
    grouped = re.findall(r"by \(([^)]*)\)", query)
    wanted = {label.strip() for group in grouped for label in group.split(",")} | set(re.findall(r"{{(\w+)}}", legend))
    assert wanted <= set().union(*(exposed[name] for name, _ in found))


def test_the_dashboard_can_be_imported():
    board = json.loads((FOLDER / "grafana" / "hermes_nb.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    places = [tuple(panel["gridPos"].values()) for panel in board["panels"]]

    assert len(set(ids)) == len(ids)
    assert len(set(places)) == len(places)
    assert {variable["name"] for variable in board["templating"]["list"]} == {"datasource", "agent"}


def test_every_metric_of_the_newest_release_is_exposed(exposed):
    newest = {name for name, made in s.METRICS.items() if not made.release}
    shown = {name.replace(".", "_") for name in newest}

    assert {name for name in shown if not any(given.startswith(name) for given in exposed)} == set()
