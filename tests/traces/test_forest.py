"""The tree of spans from flat columns, for any columns at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.traces import Traces, forest
from hermes_nb.traces.analysis import Analysis
from hermes_nb.traces.builders import BUILDERS, build
from hermes_nb.traces.names import SPAN_TYPES
from hermes_nb.traces.rows import EventRow, LinkRow, SpanRow
from hermes_nb.traces.table import Builder


def column(values) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.large_string())])


def parents_of(traces, spans, parents) -> list[int]:
    return forest.find_parents(column(traces), column(spans), column(parents)).tolist()


def way_up(parents: list[int], place: int) -> list[int]:
    """The spans above one, the nearest first; at most so many as make it clear that they go round in circles."""
    above = []
    while (place := parents[place]) >= 0 and len(above) <= len(parents):
        above.append(place)
    return above


ids = st.one_of(st.none(), st.sampled_from("abcdefgh"))
rows = st.lists(st.tuples(st.sampled_from(["t", "u", None]), ids, ids), max_size=12)


@settings(deadline=None)
@given(rows)
def test_parents_are_in_the_same_trace_and_nobody_is_its_own_ancestor(spans):
    traces, own, above = [list(each) for each in zip(*spans, strict=True)] or ([], [], [])
    found = parents_of(traces, own, above)

    for place, parent in enumerate(found):
        if parent >= 0:
            assert (traces[parent], own[parent]) == (traces[place], above[place])
        assert len(way_up(found, place)) == len(set(way_up(found, place)))
    depths = forest.depths(np.array(found, np.int64)).tolist()
    assert depths == [len(way_up(found, place)) for place in range(len(found))]


@settings(deadline=None)
@given(rows, st.data())
def test_the_nearest_marked_span_is_the_one_met_first_on_the_way_up(spans, data):
    traces, own, above = [list(each) for each in zip(*spans, strict=True)] or ([], [], [])
    found = parents_of(traces, own, above)
    marked = [data.draw(st.booleans()) for _ in found]

    def walk(place):
        while place >= 0 and not marked[place]:
            place = found[place]
        return place

    nearest = forest.nearest(np.array(found, np.int64), np.array(marked, bool))
    assert nearest.tolist() == [*map(walk, range(len(found)))]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(0, 40), st.integers(0, 40)), max_size=15))
def test_overlaps_are_covered_once(intervals):
    owner, start, end = np.array(intervals, np.int64).reshape(-1, 3).T
    moments = [{m for o, s, e in intervals if o == who for m in range(s, e)} for who in range(4)]

    assert forest.covered(owner, start, end, 4).tolist() == [len(each) for each in moments]


def test_a_million_spans_in_one_chain_are_no_trouble():
    names = [f"{number:016x}" for number in range(200_000)]
    parents = parents_of(["t"] * len(names), names, [None, *names[:-1]])

    assert forest.depths(np.array(parents))[-1] == len(names) - 1


@pytest.mark.parametrize("size", [2, 3, 7, 64])
def test_a_circle_is_cut_open(size):
    names = [str(number) for number in range(size)]
    parents = parents_of(["t"] * size, names, [*names[1:], names[0]])

    assert parents.count(-1) >= 1
    assert forest.depths(np.array(parents)).max() < size


# ---------------------------------------------------------------------------------------- frames of any forest

types = st.one_of(st.none(), st.sampled_from([*SPAN_TYPES, "odd"]))
values = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=5), st.booleans(), st.lists(st.integers()))
keys = st.sampled_from(
    [
        "hermes.turn.id", "hermes.iteration.number", "gen_ai.usage.input_tokens", "gen_ai.operation.name", "error.type",
        "hermes.attempt.outcome", "hermes.retry.wait", "gen_ai.response.finish_reasons", "hermes.cost_usd",
        "gen_ai.input.messages", "gen_ai.output.messages", "hermes.budget.remaining", "hermes.iteration.grace",
        "gen_ai.conversation.id", "hermes.chat.purpose", "hermes.messages.offset", "gen_ai.tool.call.result",
    ]
)  # fmt: skip
times = st.one_of(st.none(), st.integers(0, 100), st.integers(-(2**63), 2**64))


@st.composite
def span_rows(draw):
    said = draw(st.dictionaries(keys, values, max_size=5))
    kind = draw(types)
    if kind is not None:
        said["hermes.span.type"] = kind
    trace, own, above = draw(st.tuples(st.sampled_from(["t", "u", None]), ids, ids))
    status = draw(st.sampled_from(["UNSET", "ERROR", "?"]))
    return SpanRow(
        trace, own, above, draw(st.text(max_size=5)), "INTERNAL", draw(times), draw(times), status, None, said
    )


@st.composite
def beside(draw):
    said = draw(st.dictionaries(keys, values, max_size=3))
    name = draw(st.sampled_from(["hermes.budget.consume", "hermes.steer.applied", "gen_ai.user.message", "x", None]))
    trace, own = draw(st.sampled_from(["t", None])), draw(ids)
    if draw(st.booleans()):
        return EventRow(trace, own, "span", 0, draw(times), name, said)
    return LinkRow(trace, own, draw(ids), draw(ids), said)


@settings(deadline=None)
@given(st.lists(span_rows(), max_size=8), st.lists(beside(), max_size=5))
def test_any_forest_of_spans_gives_every_frame(spans, others):
    builder = Builder()
    builder.add([*spans, *others])
    analysis = Analysis(builder.build())

    assert len(build("spans", analysis, content=True)) == len(spans)
    for name in BUILDERS:
        build(name, analysis)
    traces = Traces(lambda: analysis.tables)
    assert traces.text_tree().count("\n") == max(len(spans) - 1, 0)
    assert isinstance(str(traces.report), str)
    assert isinstance(traces._repr_html_(), str)
