"""Metrics: what is counted and timed, under the names of both releases, as the registry declares."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import hermes_nb as hn
from hermes_nb.telemetry import semconv as s
from hermes_nb.testing import call, calls, fails, no_waiting, say, script
from tests.support.contract import problems_of_metrics
from tests.support.receiver import receiver
from tests.support.telling import told

USAGE = hn.Usage(100, 20, cache_read_tokens=60, cache_write_tokens=5, reasoning_tokens=7)


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


@pytest.fixture
def reader():
    return InMemoryMetricReader()


def points(reader):
    """The data points by metric."""
    data = reader.get_metrics_data()
    assert problems_of_metrics(data) == []
    return {m.name: list(m.data.data_points) for r in data.resource_metrics for c in r.scope_metrics for m in c.metrics}


def total(found, name, **attributes):
    """The sum of a metric's points that have these attributes; dots in names are written as underscores."""
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}
    given = [p for p in found.get(name, []) if wanted.items() <= dict(p.attributes).items()]
    return sum(point.value if hasattr(point, "value") else point.sum for point in given)


def run(reader, release=None):
    """A turn with a retry, a fallback and three tool calls, one of which fails; then one that runs out of budget."""
    first = script(fails("server_error"), fails("auth"), name="a", model="m1")
    cities = calls(call("population", city="Lyon"), call("population", city="Lille"), call("population", city="Rome"))
    second = script(
        cities, say("Lyon.", usage=USAGE), call("population", city="Lyon"), say("Out."), name="b", model="m2"
    )
    provider = MeterProvider([reader], shutdown_on_exit=False)
    agent = hn.Agent([first, second], tools=[population], budget=4, name="geo")
    with hn.capture(meter_provider=provider, metrics=release), no_waiting():
        results = [agent.run("Which is larger?", session=False)]
        results.append(agent.with_(models=[second], budget=1).run("Again.", session=False))
    return results


def test_what_happens_is_counted(reader):
    first, second = run(reader)
    found = points(reader)

    assert total(found, s.METRIC_HERMES_TURNS) == 2
    assert total(found, s.METRIC_HERMES_TURNS, hermes__turn__exit_reason=first.exit_reason.value) >= 1
    assert total(found, s.METRIC_HERMES_ITERATIONS) == first.iterations + second.iterations
    assert total(found, s.METRIC_HERMES_GRACE_CALLS) == second.graces == 1
    assert total(found, s.METRIC_HERMES_FALLBACKS, hermes__fallback__to__provider="b") == first.fallbacks == 1
    assert total(found, s.METRIC_HERMES_API_ATTEMPTS, hermes__attempt__provider="a") >= 2
    assert len(found[s.METRIC_HERMES_API_BACKOFF]) == 1
    assert total(found, s.METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS) == first.tool_calls + second.tool_calls == 4
    assert total(found, s.METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS) == first.api_calls + second.api_calls
    assert {p.attributes["gen_ai.agent.name"] for p in found[s.METRIC_HERMES_BUDGET_REMAINING]} == {"geo"}
    assert sum(p.count for p in found[s.METRIC_GEN_AI_EXECUTE_TOOL_DURATION]) == 4
    failed = [p for p in found[s.METRIC_GEN_AI_EXECUTE_TOOL_DURATION] if "error.type" in p.attributes]
    assert [(p.count, p.attributes["error.type"]) for p in failed] == [(1, "KeyError")]


def test_tokens_are_those_of_the_results(reader):
    results = run(reader)
    found = points(reader)
    sums = results[0].usage + results[1].usage
    prefix = "gen_ai.client.inference.usage"

    assert total(found, f"{prefix}.input_tokens") == sums.input_tokens
    assert total(found, f"{prefix}.output_tokens") == sums.output_tokens
    assert total(found, f"{prefix}.cache_read.input_tokens") == 60
    assert total(found, f"{prefix}.cache_write.input_tokens") == 5
    assert total(found, f"{prefix}.reasoning.output_tokens") == 7
    assert total(found, f"{prefix}.input_tokens", gen_ai__provider__name="a") == 0  # a failed call counts, with none


def test_durations_are_those_of_the_spans_in_the_conventions_buckets(reader):
    provider = MeterProvider([reader], shutdown_on_exit=False)
    with hn.capture(meter_provider=provider), told() as turn, turn.iteration():
        turn.chat()
        turn.tool()
    found = points(reader)

    for name, span in (
        (s.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION, "chat gpt-x"),
        (s.METRIC_GEN_AI_EXECUTE_TOOL_DURATION, "execute_tool population"),
        (s.METRIC_GEN_AI_INVOKE_AGENT_DURATION, "invoke_agent agent"),
    ):
        (point,) = found[name]
        assert point.sum * 1e9 == pytest.approx(turn.named(span).end_time - turn.named(span).start_time)
        assert point.explicit_bounds == s.METRICS[name].boundaries


def test_the_time_between_two_streamed_pieces_is_taken_within_each_request(reader):
    provider = MeterProvider([reader], shutdown_on_exit=False)
    model = script(say("one two three four"), model="m1")
    with hn.capture(meter_provider=provider):
        hn.Agent(model).run("q", session=False)
        hn.Agent(script(say("one two"), stream=False, model="m2")).run("q", session=False)
    found = points(reader)[s.METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK]

    assert [(p.attributes["gen_ai.request.model"], p.count) for p in found] == [("m1", 3)]
    assert found[0].explicit_bounds == s.METRICS[s.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION].boundaries


def test_the_older_release_has_the_older_pair_instead(reader):
    run(reader, "1.37")
    found = points(reader)

    assert s.METRIC_GEN_AI_CLIENT_OPERATION_DURATION in found
    assert {p.attributes["gen_ai.token.type"] for p in found[s.METRIC_GEN_AI_CLIENT_TOKEN_USAGE]} == {"input", "output"}
    assert not [name for name in found if name.startswith("gen_ai.client.inference.")]
    assert s.METRIC_HERMES_TURNS in found


def test_the_newest_release_has_not_the_older_pair(reader):
    run(reader)

    assert not {s.METRIC_GEN_AI_CLIENT_OPERATION_DURATION, s.METRIC_GEN_AI_CLIENT_TOKEN_USAGE} & set(points(reader))


def test_no_turn_is_an_attribute(reader):
    results = run(reader)
    found = points(reader)

    values = {value for given in found.values() for point in given for value in dict(point.attributes).values()}
    assert not values & {result.turn_id for result in results}
    assert not values & {result.conversation_id for result in results}


def test_metrics_stand_in_a_file_beside_the_spans(tmp_path):
    with hn.capture(tmp_path / "turns.jsonl", metrics="latest"), told() as turn, turn.iteration():
        turn.chat()

    lines = (tmp_path / "turns.metrics.jsonl").read_text().splitlines()
    names = {
        metric["name"]
        for line in lines
        for resource in json.loads(line)["resourceMetrics"]
        for scope in resource["scopeMetrics"]
        for metric in scope["metrics"]
    }
    assert {s.METRIC_HERMES_TURNS, s.METRIC_GEN_AI_CLIENT_INFERENCE_DURATION} <= names


def test_metrics_reach_a_server():
    with receiver() as server, hn.capture(otlp=server.url, metrics="latest") as capture:
        with told() as turn, turn.iteration():
            turn.chat()
        assert capture.flush()

        assert s.METRIC_HERMES_TURNS in {metric.name for metric in server.metrics}
        assert len(server.spans) == 4


def test_a_meter_that_breaks_does_not_take_the_spans_away(caplog):
    class Broken(MeterProvider):
        def get_meter(self, *args, **kwargs):
            meter = super().get_meter(*args, **kwargs)

            def fail(*_, **__):
                raise RuntimeError

            meter.create_counter = lambda *_, **__: type("Counter", (), {"add": fail})()
            return meter

    with hn.capture(meter_provider=Broken(shutdown_on_exit=False)), told() as turn, turn.iteration():
        turn.chat()

    assert len(turn.spans()) == 4
    assert caplog.text.count("metrics of this turn are not recorded any more") == 1
