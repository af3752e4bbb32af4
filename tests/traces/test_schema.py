"""Columns, order and dtypes of the frames: the same for any data."""

from __future__ import annotations

import pandas as pd
import pytest

from hermes_nb.traces import Traces, concat
from hermes_nb.traces.catalogue import FRAMES
from hermes_nb.traces.columns import to_pandas
from hermes_nb.traces.schema import VERSION, arrow_schema, markdown
from tests.support.journeys import compressed, eventful, plain_trace


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in frame.dtypes.items()}


def promised(name: str) -> dict[str, str]:
    return {column.name: column.kind for column in FRAMES[name].columns}


@pytest.fixture(scope="module")
def traces():
    return {
        "none": Traces.from_spans([]),
        "one": plain_trace(),
        "many": concat([eventful().trace, compressed().trace, plain_trace()]),
    }


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("size", ["none", "one", "many"])
def test_a_frame_has_the_promised_columns_in_the_promised_order_with_the_promised_dtypes(traces, name, size):
    frame = to_pandas(traces[size].table(name))

    assert dtypes(frame) == promised(name)
    assert isinstance(frame.index, pd.RangeIndex)


def test_every_frame_has_a_method_of_its_name(traces):
    methods = {"spans_attributes": "attributes_df"} | {
        name: f"{name}_df" for name in FRAMES if name != "spans_attributes"
    }

    for name, method in methods.items():
        assert list(getattr(traces["one"], method)()) == list(promised(name))


def test_small_vocabularies_have_the_same_categories_in_every_frame(traces):
    for size in traces:
        frame = traces[size].attempts_df()
        assert list(frame["outcome"].cat.categories) == [
            "success",
            "retry",
            "give_up",
            "fallback",
            "compress",
            "cancelled",
        ]


def test_categories_of_traces_put_together_are_united(traces):
    one, other = plain_trace(), eventful().trace
    together = concat([one, other]).chats_df()

    assert set(together["provider"].cat.categories) == {"script", "first", "second", "aux"}
    assert dtypes(together) == dtypes(one.chats_df())
    assert len(together) == len(one.chats_df()) + len(other.chats_df())


def test_missing_ids_are_missing_and_never_empty_text(traces):
    spans = traces["many"].spans_df()
    roots = spans[spans["depth"] == 0]

    assert roots["parent_span_id"].isna().all()
    assert spans["span_id"].str.fullmatch("[0-9a-f]{16}").all()
    assert spans["trace_id"].str.fullmatch("[0-9a-f]{32}").all()


def test_frames_are_sorted_by_start():
    trace = eventful().trace

    assert trace.spans_df()["start_time"].is_monotonic_increasing
    assert trace.turns_df()["start_time"].is_monotonic_increasing


def test_the_version_of_the_columns_stands_in_the_metadata(traces):
    schema = traces["one"].table("turns").schema

    assert schema.metadata[b"hermes_nb.schema"] == VERSION.encode()
    assert schema.equals(arrow_schema("turns"), check_metadata=True)


def test_the_documentation_names_every_column():
    text = markdown()

    for frame in FRAMES.values():
        assert f"### {frame.name}\n" in text
        for column in frame.columns:
            assert f"| `{column.name}` | `{column.kind}` |" in text


def test_an_unknown_frame_is_refused_with_the_names_that_there_are(traces):
    with pytest.raises(ValueError, match="no frame 'span'; there are spans, turns, iterations"):
        traces["one"].table("span")
