"""The span tree in words and in a cell."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.traces import Traces, span_tree
from hermes_nb.traces.drawing import duration, forest, text_tree, walk
from hermes_nb.traces.pages import html_tree
from hermes_nb.traces.rows import SpanRow
from hermes_nb.traces.table import Builder
from tests.support.journeys import compressed, eventful, interrupted, plain_trace


def span(number: int, parent: int | None = None, *, name: str = "x", start: int = 0, **attributes) -> SpanRow:
    above = None if parent is None else f"{parent:016x}"
    return SpanRow("t", f"{number:016x}", above, name, "INTERNAL", start, start + 5, "UNSET", None, attributes)


def test_the_tree_of_an_eventful_turn_reads_like_its_story():
    assert span_tree(eventful().trace) == textwrap.dedent("""\
        invoke_agent agent budget_exhausted
          hermes.iteration 1
            chat large
              hermes.attempt 1 retry 503
              hermes.retry backoff
              hermes.attempt 2 success
            execute_tool population
            execute_tool population ERROR KeyError
          hermes.iteration 2
            chat large ERROR 429
              hermes.attempt 1 fallback 429
            hermes.fallback first:large -> second:medium
            chat medium
              hermes.attempt 1 success
            execute_tool searcher
              invoke_agent searcher
                hermes.iteration 1
                  chat small
                    hermes.attempt 1 success
                  execute_tool population
                hermes.iteration 2
                  chat small
                    hermes.attempt 1 success
          hermes.iteration 3
            chat medium
              hermes.attempt 1 success
            execute_tool population
          hermes.iteration 4
            chat medium
              hermes.attempt 1 success
            execute_tool population
          hermes.grace_call
            chat medium
              hermes.attempt 1 success""")


def test_the_tree_is_the_same_each_time():
    assert span_tree(eventful().trace) == span_tree(eventful().trace)


def test_a_compression_and_its_refund_tell_what_they_did():
    lines = [line.strip() for line in span_tree(compressed().trace).splitlines()]

    found = next(line for line in lines if line.startswith("hermes.compression"))
    assert found.startswith("hermes.compression preflight 25 -> ")
    assert "hermes.refund compression" in lines


def test_an_interrupted_turn_is_marked():
    assert span_tree(interrupted().trace) == textwrap.dedent("""\
        invoke_agent agent interrupted_by_user
          hermes.iteration 1 interrupted
            chat slow
              hermes.attempt 1 cancelled""")


def test_siblings_that_start_together_stay_in_the_order_they_came_in():
    rows = [span(1, name="root"), span(2, 1, name="b"), span(3, 1, name="a"), span(4, 1, name="c")]

    assert text_tree(rows, 2).splitlines() == ["root  5 ns", "  b  5 ns", "... and 2 more spans"]
    assert [node.span.name for _, node in walk(forest(rows))] == ["root", "b", "a", "c"]


def test_spans_without_their_parent_stand_at_the_top_and_say_so():
    assert text_tree([span(2, 1, name="lost")]) == "lost  5 ns  (missing parent)"
    assert "<em>(missing parent)</em>" in html_tree([span(2, 1, name="lost")])


def test_a_span_above_itself_is_shown_once():
    rows = [span(1, 2, name="a"), span(2, 1, name="b"), span(3, 3, name="c")]

    assert sorted(node.span.name for _, node in walk(forest(rows))) == ["a", "b", "c"]


def test_a_very_deep_tree_is_drawn_without_recursion():
    rows = [span(number, number - 1 or None, start=number) for number in range(1, 5_000)]

    assert text_tree(rows).splitlines()[-1] == "... and 3,999 more spans"
    assert [depth for depth, _ in walk(forest(rows))] == list(range(4_999))


def test_names_of_many_lines_and_control_characters_stay_in_one_line():
    tree = text_tree([span(1, name="a\nb\x1b[31m\x00c\ud800")])

    assert len(tree.splitlines()) == 1
    assert "\x1b" not in tree
    assert "\x00" not in tree


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_500, "1.5 µs"),
        (42_000_000, "42 ms"),
        (2_500_000_000, "2.5 s"),
        (99e12, "99,000 s"),
    ],
)
def test_durations_are_in_words(nanoseconds, words):
    assert duration(nanoseconds) == words


class Page(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data):
        self.text += data


HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;<!--</td></table>]]>"


def test_a_hostile_name_is_text_in_a_cell():
    page = Page(html_tree([span(1, name=HOSTILE, **{"error.type": HOSTILE})]))

    assert set(page.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "span", "div", "p", "em"}
    assert set(page.attributes) <= {"style"}
    assert HOSTILE in page.text


@settings(deadline=None)
@given(st.text(), st.text())
def test_any_name_is_text_in_a_cell(name, error):
    page = Page(html_tree([span(1, name=name, **{"error.type": error}), span(2, 1, name=name)]))

    assert set(page.tags) <= {"table", "thead", "tbody", "tr", "th", "td", "span", "div"}
    assert set(page.attributes) <= {"style"}


def test_the_tree_in_a_cell_reads_without_its_styles():
    trace = plain_trace()
    page = Page(trace._repr_html_())

    for line in span_tree(trace).splitlines():
        assert line.strip() in page.text
    assert "var(" not in trace._repr_html_()
    assert "<style" not in trace._repr_html_()


def test_a_long_trace_in_a_cell_says_how_many_spans_are_not_shown():
    assert "... and 700 more spans" in html_tree([span(number, start=number) for number in range(1, 1_001)])


def test_traces_in_a_cell_are_a_table_of_turns():
    page = Page(Traces.from_spans([])._repr_html_())

    assert page.text.startswith("<Traces: 0 turns, 0 spans>")


def test_the_tree_needs_no_pandas_and_no_pyarrow():
    program = textwrap.dedent("""
        import sys
        import hermes_nb as hn
        from hermes_nb.testing import say, script, span_tree
        trace = hn.Agent(script(say("ok"))).run("q", session=False).trace
        assert "hermes.iteration 1" in span_tree(trace)
        repr(trace), trace._repr_html_()
        print(sorted({"pandas", "pyarrow", "matplotlib"} & set(sys.modules)))
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.strip() == "[]", done.stderr


def test_a_moment_that_pandas_cannot_tell_is_shown_as_nothing():
    nothing = SpanRow("a" * 32, None, None, "", "INTERNAL", -(2**63), None, "UNSET", None, {"hermes.turn.id": "t"})
    builder = Builder()
    builder.add([nothing])
    page = Traces(builder.build)._repr_html_()
    assert "NaT" not in page
