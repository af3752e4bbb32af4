"""Our reader of OTLP JSON beside the official parser, on everything that the official exporter writes."""

from __future__ import annotations

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.proto_json.trace.v1.trace import TracesData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from hermes_nb.traces import load
from tests.support.journeys import eventful

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.one_of(
    texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
attributes = st.dictionaries(texts.filter(bool), st.one_of(scalars, st.lists(texts, max_size=3)), max_size=6)


def written(make) -> str:
    stream = io.StringIO()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(stream=stream)))
    make(provider.get_tracer("t"))
    return stream.getvalue()


def officially(text: str) -> list:
    documents = [TracesData.from_json(line) for line in text.splitlines()]
    return [span for d in documents for r in d.resource_spans for s in r.scope_spans for span in s.spans]


def plain(value):
    """The value that the official parser read, as Python has it."""
    found = {name: getattr(value, name) for name in ("string_value", "bool_value", "int_value", "double_value")}
    known = [each for each in found.values() if each is not None]
    if known:
        return known[0]
    return [plain(each) for each in value.array_value.values] if value.array_value is not None else None


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(texts, attributes, st.sampled_from(SpanKind), st.sampled_from(StatusCode)), min_size=1, max_size=4
    )
)
def test_any_span_is_read_as_the_official_parser_reads_it(spans):
    def make(tracer):
        link = Link(SpanContext(7, 8, is_remote=True, trace_flags=TraceFlags(1)), {"why": "because"})
        for name, said, kind, code in spans:
            with tracer.start_as_current_span(name, kind=kind, attributes=said, links=[link]) as span:
                span.add_event("e", said)
                span.set_status(Status(code, "words" if code is StatusCode.ERROR else None))

    text = written(make)
    ours, theirs = load(io.StringIO(text), content=True), officially(text)
    frame = ours.spans_df(content=True)

    for (_, row), span in zip(frame.iterrows(), sorted(theirs, key=lambda s: s.start_time_unix_nano), strict=True):
        assert (row["name"], row["span_id"], row["trace_id"]) == (span.name, span.span_id.hex(), span.trace_id.hex())
        assert row["start_time"].value == span.start_time_unix_nano
        assert row["end_time"].value == span.end_time_unix_nano
        assert row["status"] == ("UNSET", "OK", "ERROR")[int(span.status.code)]
        said = {each.key: plain(each.value) for each in span.attributes}
        assert json.loads(row["attributes_json"] if said else "{}") == said
        assert (row["n_events"], row["n_links"]) == (1, 1)


def test_what_we_write_is_read_by_the_official_parser(tmp_path):
    trace = eventful().trace
    trace.to_otlp_json(tmp_path / "turn.jsonl", content=True)
    theirs = officially((tmp_path / "turn.jsonl").read_text())
    ours = trace.spans_df(content=True)

    assert [span.span_id.hex() for span in theirs] == ours["span_id"].tolist()
    assert [span.name for span in theirs] == ours["name"].tolist()
    assert [span.start_time_unix_nano for span in theirs] == [time.value for time in ours["start_time"]]
    assert sum(len(span.events) for span in theirs) == len(trace.events_df())
    for span, told in zip(theirs, ours["attributes_json"], strict=True):
        assert {each.key: plain(each.value) for each in span.attributes} == json.loads(told)
