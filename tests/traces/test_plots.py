"""Pictures, by what they show."""

from __future__ import annotations

import io

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from IPython.core.pylabtools import print_figure
from matplotlib.colors import to_hex, to_rgb
from matplotlib_inline.backend_inline import _fetch_figure_metadata

from hermes_nb.traces import Traces, concat
from hermes_nb.traces.plots import overview, style, timeline, turn
from tests.support.journeys import compressed, eventful, given_up, interrupted, plain_trace, steered


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def trace():
    return eventful().trace


@pytest.fixture(scope="module")
def traces():
    return concat([journey().trace for journey in (eventful, compressed, given_up, steered, interrupted)])


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def rows(ax) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


# ---------------------------------------------------------------------------------------- one turn


def test_the_timeline_has_a_lane_for_each_kind_of_work_and_for_each_agent(trace):
    ax = trace.plot.timeline()

    assert rows(ax)[:4] == ["iterations", "model", "waits", "tools"]
    assert [name for name in rows(ax) if name.startswith("searcher: ")] == [
        "searcher: iterations",
        "searcher: model",
        "searcher: tools",
    ]
    assert "fallback" in words(ax)
    assert "failed" in words(ax)


def test_the_bars_of_the_timeline_are_the_rows_of_the_frames(trace):
    lanes = timeline.lanes(trace)
    own = trace.attempts_df().query("turn_id == @trace.turn_id")

    assert [bar.width for bar in lanes["model"]] == pytest.approx([d.total_seconds() for d in own["duration"]])
    assert [bar.text for bar in lanes["iterations"]] == ["1", "2", "3", "4", "grace"]
    assert len(lanes["waits"]) == 1
    assert timeline.marks(trace)[0].kind == "fallback"


def test_tools_that_overlap_have_lanes_of_their_own():
    bars = [timeline.Bar(0, 2, "x"), timeline.Bar(1, 2, "x"), timeline.Bar(2, 1, "x"), timeline.Bar(3, 1, "x")]

    assert timeline._stacked(bars) == [[bars[0], bars[2], bars[3]], [bars[1]]]


def test_refunds_steers_and_interrupts_are_marked():
    kinds = [mark.kind for journey in (compressed, steered, interrupted) for mark in timeline.marks(journey().trace)]

    assert set(kinds) == {"refund", "steer", "interrupt"}


def test_the_budget_is_a_step_line_for_each_turn_with_the_grace_call_marked(trace):
    ax = trace.plot.budget()
    budget = trace.budget_df()

    steps = ax.lines[0].get_ydata()
    assert list(steps[:-1]) == budget[budget["turn_id"] == trace.turn_id]["remaining"].tolist()
    assert words(ax) == ["agent", "grace call", "exhausted", "searcher"]


def test_refunds_are_marked_on_the_budget():
    ax = compressed().trace.plot.budget()

    assert "refund" in words(ax)


def test_the_bars_of_tokens_add_up_to_the_frames(trace):
    ax = trace.plot.tokens()
    chats = trace.chats_df()
    counted = chats["input_tokens"].sum() + chats["output_tokens"].sum()

    assert sum(bar.get_height() for bar in ax.patches) == counted
    assert turn.token_parts(trace)["label"].tolist() == ["1", "2", "1\nsearcher", "2\nsearcher", "3", "4", "5"]


def test_attempts_are_drawn_from_the_start_of_their_call(trace):
    ax = trace.plot.attempts()
    drawn = [bar for bar in ax.patches if bar.get_height() == pytest.approx(0.6)]

    assert len(drawn) == len(trace.attempts_df())
    assert rows(ax)[0] == "first:large  1"
    assert words(ax) == ["success", "retry", "fallback", "wait"]
    assert {text.get_text() for text in ax.texts} == {"503", "429"}


def test_a_picture_can_be_drawn_on_axes_of_ones_own(trace):
    _, places = plt.subplots(4)

    for name, ax in zip(("timeline", "budget", "tokens", "attempts"), places, strict=True):
        assert getattr(trace.plot, name)(ax) is ax


# ---------------------------------------------------------------------------------------- many turns


def test_turns_are_counted_by_the_reason_why_they_ended(traces):
    ax = traces.plot.exit_reasons()
    counts = overview.endings(traces)

    assert counts.to_dict() == traces.turns_df()["exit_reason"].value_counts().loc[lambda c: c > 0].to_dict()
    assert {bar.get_width() for bar in ax.patches} == set(counts)


def test_latencies_are_a_line_for_each_model_that_ends_at_all_of_its_calls(traces):
    ax = traces.plot.latency()

    models = traces.chats_df()["request_model"].value_counts()
    assert len(ax.lines) == (models > 0).sum()
    assert all(line.get_ydata()[-1] == 1 for line in ax.lines)


def test_tokens_are_a_line_for_input_and_one_for_output(traces):
    ax = traces.plot.tokens()

    assert len(ax.lines) == 2
    assert ax.lines[0].get_xdata()[-1] == traces.turns_df()["input_tokens"].max()


def test_failed_attempts_are_counted_by_reason_and_provider(traces):
    ax = traces.plot.retries()
    attempts = traces.attempts_df()

    failed = attempts["retry_reason"].notna().sum()
    assert sum(bar.get_width() for bar in ax.patches) == failed
    assert overview.failures(traces).loc["overloaded", "first"] == 1


def test_an_overview_holds_all_four(traces):
    assert len(traces.plot.overview().axes) == 4


# ---------------------------------------------------------------------------------------- both themes


@pytest.mark.parametrize("name", ["timeline", "budget", "tokens", "attempts"])
def test_pictures_have_no_background_and_text_that_can_be_read_on_white_and_on_black(trace, name):
    ax = getattr(trace.plot, name)()

    shown = plt.imread(io.BytesIO(print_figure(ax.figure)))  # as the notebook prints it
    assert shown[0, 0, 3] == shown[-1, -1, 3] == 0
    assert _fetch_figure_metadata(ax.figure) is None  # where it is not, Jupyter puts a dark or a light box behind
    inks = [ax.title, ax.xaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
    for text in [*inks, ax.yaxis.label]:
        if text.get_text():
            assert contrast(text.get_color(), "white") > 3
            assert contrast(text.get_color(), "#111111") > 3


@pytest.mark.parametrize("tint", style.SERIES)
def test_tints_stand_out_on_white_and_on_black(tint):
    assert contrast(tint, "white") > 2.2
    assert contrast(tint, "#111111") > 2.2


def contrast(one: str, other: str) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(color):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(to_hex(color))]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


# ---------------------------------------------------------------------------------------- little or nothing


def test_pictures_of_nothing_say_so():
    nothing = Traces.from_spans([])

    for figure in nothing.plot.figures().values():
        assert figure.axes
    assert plain_trace().plot.attempts() is not None


def test_a_running_turn_can_be_drawn(trace):
    open_ = trace.spans_df(content=True).assign(end_time=pd.NaT)
    from hermes_nb.traces import load

    traces = load(open_)
    assert traces.trace(trace.turn_id).plot.timeline() is not None
