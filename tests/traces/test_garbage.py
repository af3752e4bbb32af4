"""Files of garbage: read or refused, never fatal, never silent."""

from __future__ import annotations

import contextlib
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.traces import load
from hermes_nb.vocabulary.failures import UnreadableTrace
from tests.support.journeys import plain_trace

words = [
    "resourceSpans", "scopeSpans", "spans", "traceId", "spanId", "attributes", "key", "value", "stringValue",
    "intValue", "events", "links", "status", "code", "kind", "startTimeUnixNano", "traceID", "spanID", "references",
    "tags", "data", "name", "context", "trace_id", "span_id", "resourceMetrics", "scopeMetrics", "metrics", "gauge",
    "dataPoints", "resourceLogs", "scopeLogs", "logRecords", "body", "gen_ai.input.messages", "version", "eval",
]  # fmt: skip
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(words)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(words), inner, max_size=4)),
    max_leaves=25,
)
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def told(content: bytes) -> None:
    """Loads what can be loaded; whatever was not is in the report."""
    with contextlib.suppress(UnreadableTrace):
        traces = load(io.BytesIO(content), content=True)
        assert len(traces.spans_df()) <= traces.report.spans
        traces.turns_df()
        traces.messages_df()
        traces.metrics_df()
        str(traces.report)


@quick
@given(st.binary(max_size=200))
def test_any_bytes(content):
    told(content)


@quick
@given(st.lists(json_values, min_size=1, max_size=3))
def test_any_json_lines(values):
    told("\n".join(json.dumps(value) for value in values).encode())


@quick
@given(json_values)
def test_any_json_document(value):
    told(json.dumps({"resourceSpans": [value], "data": value}, indent=1).encode())


def test_every_beginning_of_a_real_file_is_read_up_to_there(tmp_path):
    plain_trace().to_otlp_json(tmp_path / "turn.jsonl", content=True)
    whole = (tmp_path / "turn.jsonl").read_bytes()
    line = json.loads(whole)
    pretty = json.dumps(line, indent=1).encode()
    found = []
    for cut in range(1, len(pretty), max(1, len(pretty) // 60)):
        try:
            found.append(len(load(io.BytesIO(pretty[:cut])).spans_df()))
        except UnreadableTrace:
            found.append(0)

    assert found == sorted(found)
    assert found[-1] == len(load(io.BytesIO(whole)).spans_df())


@quick
@given(st.data())
def test_a_real_file_with_some_bytes_changed(data):
    content = bytearray(REAL)
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    told(bytes(content))


def test_deeply_nested_json_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"resourceSpans":' + "[" * 100_000 + "]" * 100_000 + "}")

    with pytest.raises(UnreadableTrace, match="recursion"):
        load(path)


REAL = json.dumps(
    {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "x"},
                        "spans": [
                            {
                                "traceId": "5b8efff798038103d269b633813fc60c",
                                "spanId": "eee19b7ec3c1b174",
                                "name": "chat m",
                                "kind": 3,
                                "startTimeUnixNano": "1700000000000000001",
                                "endTimeUnixNano": "1700000000000001501",
                                "attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "5"}}],
                                "events": [{"name": "e", "timeUnixNano": "1700000000000000001"}],
                            }
                        ],
                    }
                ],
            }
        ]
    }
).encode()
