"""Span trees and turns as HTML that can stand in a cell: literal styles only, readable without them, all text escaped.

JupyterLab's sanitizer takes style sheets, SVG and scripts away; tables and literal widths, backgrounds and borders
stay.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from html import escape
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.drawing import duration, forest, label, lasted, mark, one_line, walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hermes_nb.traces.drawing import Node
    from hermes_nb.traces.rows import SpanRow

COLORS: Final = {
    "turn": "#8a8a8a",
    "iteration": "#a5a5a5",
    "chat": "#1f8ae0",
    "attempt": "#6db3f2",
    "retry": "#f08c00",
    "fallback": "#b45cd6",
    "compression": "#2f8a94",
    "refund": "#2f8a94",
    "tool": "#43a047",
    "http": "#9e9e9e",
    "other": "#9e9e9e",
}
"""One tint for each kind of span; all of middle brightness, for light and dark pages."""
RED: Final = "#e53935"
_MOST: Final = 300
_CELL: Final = "padding:1px 10px 1px 0;text-align:left;border:0"


def html_tree(spans: Iterable[SpanRow]) -> str:
    """The span tree as a table: what happened, how long it took, and when."""
    nodes = list(walk(forest(spans)))
    if not nodes:
        return "<p>no spans yet</p>"
    first, last = _extent([node for _, node in nodes])
    rows = "".join(_row(depth, node, first, last) for depth, node in nodes[:_MOST])
    more = f"<p>... and {len(nodes) - _MOST:,} more spans</p>" if len(nodes) > _MOST else ""
    head = f'<tr><th style="{_CELL}">span</th><th style="{_CELL}">duration</th><th style="{_CELL}">when</th></tr>'
    style = "border:0;width:100%;font-family:monospace;font-size:12px"
    return f'<table style="{style}"><thead>{head}</thead><tbody>{rows}</tbody></table>{more}'


def _extent(nodes: Sequence[Node]) -> tuple[int, int]:
    """The first and the last moment known."""
    starts = [node.span.start_time for node in nodes if node.span.start_time is not None]
    ends = [node.span.end_time for node in nodes if node.span.end_time is not None]
    return min(starts, default=0), max(starts + ends, default=0)


def _row(depth: int, node: Node, first: int, last: int) -> str:
    failed = mark(node).startswith("ERROR")
    color = RED if failed else COLORS.get(node.type, COLORS["other"])
    dot = f'<span style="color:{color}">&#9632;</span>'
    text = escape(label(node)) + (" <em>(missing parent)</em>" if node.orphan else "")
    return (
        f'<tr><td style="{_CELL};white-space:pre">{"&nbsp;&nbsp;" * depth}{dot} {text}</td>'
        f'<td style="{_CELL};text-align:right">{escape(lasted(node.span))}</td>'
        f'<td style="{_CELL};width:40%">{_bar(node.span, color, first, last)}</td></tr>'
    )


def _bar(span: SpanRow, color: str, first: int, last: int) -> str:
    """Where the span lies in the whole, as a stripe."""
    if span.start_time is None or last <= first:
        return ""
    start = 100 * (span.start_time - first) / (last - first)
    end = max(100 * ((span.end_time or last) - first) / (last - first), start + 0.4)
    stops = f"transparent {start:.2f}%, {color} {start:.2f}%, {color} {end:.2f}%, transparent {end:.2f}%"
    return f'<div style="height:8px;width:100%;background:linear-gradient(to right, {stops})"></div>'


def words(value: Any) -> str:
    """A value of a frame in words: durations and times short, nothing as nothing."""
    if value is None or value != value:  # noqa: PLR0124  pandas' NaT
        return ""
    if isinstance(value, timedelta):
        return duration(value / timedelta(microseconds=1) * 1_000)
    return f"{value:%Y-%m-%d %H:%M:%S}" if isinstance(value, datetime) else str(value)


def html_table(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A plain table; every cell is escaped, and cut to one line."""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<table style="border:0"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cell(value: Any) -> str:
    return f'<td style="{_CELL};white-space:nowrap">{escape(one_line(words(value)))}</td>'
