"""A snapshot as static HTML: what stays in the notebook when the turn is over.

It must look right where scripts, style sheets and theme variables are gone: in an untrusted notebook, in an export, on
a site that shows notebooks. So every style is literal and inline, colours are those that stand out on white and on
black, text takes the colour of its surroundings; and with all style taken away too, tables, headings and real spaces
keep it readable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hermes_nb.widgets import safe, words
from hermes_nb.widgets.gauges import LANES, gauges, lane_totals

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes_nb.widgets.gauges import Gauge
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Bar, Row

HEIGHT = 560
"""Pixels: as high as the panel, where no front end has told that the user made it higher."""

SIZE = 200_000
"""Characters of the transcript that are kept; the rest is in the trace."""

_TEXT = 4_000
_BARS = 400
_SHORT = 60
_NOWRAP = "white-space:nowrap;"
_LINE = "1px solid rgba(128,128,128,0.35)"
_MUTED = "opacity:0.75;"
_TABLE = "width:100%;border-collapse:collapse;border:none;margin:0;table-layout:fixed;font-size:13px;"
_ROW = "background:transparent;border:none;"
_CODE = "font-family:monospace;font-size:12px;"
_PROSE = "white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext;"
TINTS = {
    "model": "#3b7fc4",
    "tools": "#3a9060",
    "waits": "#b87416",
    "compression": "#8a63c0",
    "agents": "#2f8a94",
    "failed": "#cc4b3f",
    "stopped": "#858585",
}
"""One tint for each meaning: at least 3:1 on white and on near-black."""

_TONES = {"running": TINTS["model"], "waiting": TINTS["waits"], "done": TINTS["tools"],
          "stopped": TINTS["waits"], "failed": TINTS["failed"]}  # fmt: skip


def html(snapshot: Snapshot, now: int, height: int = HEIGHT) -> str:
    """The record of a turn.

    Args:
        snapshot: What to show.
        now: The time, in nanoseconds since the epoch.
        height: Of the whole, in pixels; what does not fit is scrolled to.
    """
    parts = [_head(snapshot, now), _gauges(gauges(snapshot, now)), _timeline(snapshot, now), *_story(snapshot)]
    style = (
        f"box-sizing:border-box;height:{height}px;overflow:auto;resize:vertical;border:{_LINE};border-radius:8px;"
        "font-size:13px;line-height:1.45;"
    )
    # The class keeps JupyterLab's formula renderer away from the texts.
    return _tag("div", style, *parts, attributes=' class="hermes-nb-record mathjax_ignore"')


def _tag(name: str, style: str, *children: str, attributes: str = "") -> str:
    """An element; the children are HTML already."""
    return f'<{name}{attributes} style="{style}">{"".join(children)}</{name}>'


def _text(text: str) -> str:
    return safe.escape(text)


# ------------------------------------------------------------------------------------------ head and gauges


def _head(snapshot: Snapshot, now: int) -> str:
    status = words.status(snapshot)
    dot = _tag("span", f"color:{_TONES.get(status.tone, TINTS['stopped'])};", "&#9679;")
    who, remark = words.answering(snapshot)
    name = _tag("b", "", _text(snapshot.turn.agent or "agent"))
    behind = _tag("span", _MUTED, " &middot; ", _text(f"{who}{'; ' + remark if remark else ''}"))
    first = _tag("div", "", dot, " ", _tag("b", "", _text(status.word)), " &nbsp; ", name, behind)
    second = _tag("div", "margin-top:2px;", _text(words.phase(snapshot).at(now)))
    return _tag("div", f"padding:10px 14px;border-bottom:{_LINE};", first, second)


def _gauges(shown: list[Gauge]) -> str:
    cells = [_tag("td", "text-align:left;vertical-align:top;padding:8px 14px;border:none;", _gauge(g)) for g in shown]
    return _tag("table", f"{_TABLE}border-bottom:{_LINE};", _tag("tr", _ROW, *cells))


def _gauge(gauge: Gauge) -> str:
    label = _tag("div", f"{_MUTED}font-size:12px;", _text(gauge.label), " ")
    of = _tag("span", "font-size:12px;", _text(gauge.of))
    value = _tag("div", "", _tag("b", "font-size:17px;", _text(gauge.value)), " ", of, " ")
    bar = ""
    if gauge.fraction is not None:
        inner = f"height:5px;border-radius:3px;background:{TINTS['model']};width:{min(1.0, gauge.fraction):.1%};"
        bar = _tag("div", "height:5px;border-radius:3px;background:rgba(128,128,128,0.3);", _tag("div", inner))
    notes = _tag("div", f"{_MUTED}font-size:12px;", _text(", ".join(gauge.notes))) if gauge.notes else ""
    return label + value + bar + notes


# ------------------------------------------------------------------------------------------ timeline


def _timeline(snapshot: Snapshot, now: int) -> str:
    bars, totals = snapshot.timeline, lane_totals(snapshot, now)
    if not totals:
        return ""
    start = snapshot.turn.started or min(bar.start for bar in bars)
    end = max(snapshot.turn.ended or now, *(bar.end or now for bar in bars), start + 1)
    rows = []
    for total in totals:
        lane = [bar for bar in bars if bar.lane == total.lane][-_BARS:]
        label = _tag("td", f"{_MUTED}width:64px;text-align:left;padding:1px 0;border:none;", LANES[total.lane], " ")
        track = _tag("td", "padding:1px 0;border:none;", _lane(lane, start, end, now))
        said = f"{total.bars} in {words.seconds(total.seconds)}"
        amount = _tag("td", f"{_MUTED}{_NOWRAP}width:110px;text-align:right;padding:1px 0;border:none;", said)
        rows.append(_tag("tr", _ROW, label, track, amount))
    return _tag("div", f"padding:8px 14px;border-bottom:{_LINE};", _tag("table", _TABLE, *rows))


def _lane(bars: Iterable[Bar], start: int, end: int, now: int) -> str:
    span, drawn = end - start, []
    for bar in bars:
        left = 100 * max(0, bar.start - start) / span
        width = 100 * max(0, (bar.end or now) - bar.start) / span
        tint = TINTS.get(bar.tone) or TINTS[bar.lane]
        style = (
            f"position:absolute;left:{left:.2f}%;width:{width:.2f}%;min-width:2px;height:12px;"
            f"border-radius:2px;background:{tint};"
        )
        drawn.append(_tag("div", style, attributes=f' title="{_text(bar.label)}"'))
    return _tag("div", "position:relative;height:12px;", *drawn)


# ------------------------------------------------------------------------------------------ transcript


def _story(snapshot: Snapshot) -> list[str]:
    """The question and the answer in the open; the way there below, folded where it is long."""
    rows = [row for row in snapshot.transcript if row.kind != "end"]
    answers = [row for row in rows if row.kind == "assistant" and row.text]
    first = [row for row in rows if row.kind == "prompt"] + answers[-1:]
    parts = []
    if first:
        parts.append(_tag("div", "padding:10px 14px;", _rows(first)))
    way = [row for row in rows if row not in first]
    sections, left_out = _sections(way)
    if left_out:
        note = f"{words.some(left_out, 'row')} left out here; run.trace has them all."
        sections.insert(0, _tag("div", f"{_MUTED}padding:4px 0;", _text(note)))
    if sections:
        summary = _tag("summary", "cursor:pointer;", _text(f"The way there: {words.some(len(way), 'row')}"))
        style = f"padding:6px 14px 10px 14px;border-top:{_LINE};"
        parts.append(_tag("details", style, summary, *sections, attributes=" open" if len(way) <= _SHORT else ""))
    return parts


def _sections(rows: list[Row]) -> tuple[list[str], int]:
    """One table for each iteration, the newest that fit; and how many rows do not."""
    room, kept = SIZE, len(rows)
    for row in reversed(rows):
        room -= min(len(row.text), _TEXT) + min(len(row.detail), _TEXT) + 500
        if room < 0:
            break
        kept -= 1
    tables: list[str] = []
    table: list[Row] = []
    for row in rows[kept:]:
        if row.kind == "iteration" and table:
            tables.append(_rows(table))
            table = []
        table.append(row)
    if table:
        tables.append(_rows(table))
    return tables, kept


def _rows(rows: list[Row]) -> str:
    columns = '<colgroup><col width="74"><col></colgroup>'
    return _tag("table", _TABLE, columns, *map(_row, rows))


_LABELS = {"prompt": "prompt", "user": "user", "assistant": "assistant", "tool": "tool", "steer": "steer", "note": ""}


def _row(row: Row) -> str:
    gutter = "vertical-align:top;padding:2px 10px 2px 0;border:none;"
    if row.kind == "iteration":
        said = _text(f"{row.title}{' (' + row.detail + ')' if row.detail else ''}")
        cell = _tag("td", f"{_MUTED}text-align:left;padding:6px 0 2px 0;border:none;", said, attributes=' colspan="2"')
        return _tag("tr", _ROW, cell)
    label = _tag("td", f"{_MUTED}{gutter}{_NOWRAP}text-align:right;", _LABELS.get(row.kind, row.kind), " ")
    body = _tag("td", "vertical-align:top;text-align:left;padding:2px 0;border:none;", _body(row))
    return _tag("tr", _ROW, label, body)


def _body(row: Row) -> str:
    text = safe.bounded(row.text, _TEXT)
    if row.kind == "tool":
        return _tool(row, text)
    if row.kind == "assistant":
        thinking = _folded("thinking", _tag("div", f"{_PROSE}{_MUTED}", _text(safe.bounded(row.detail, _TEXT))))
        return (thinking if row.detail else "") + prose(text)
    if row.kind == "steer":
        receipt = _tag("span", _MUTED, " (", _text(row.detail), ")") if row.detail else ""
        style = f"{_PROSE}border-left:3px solid {TINTS['model']};padding-left:8px;"
        return _tag("div", style, _text(text), receipt)
    said = _tag("div", f"{_PROSE}{_MUTED if row.kind == 'note' else ''}", _text(text), attributes=' dir="auto"')
    return said + (_folded("more", _tag("div", _PROSE, _text(safe.bounded(row.detail, _TEXT)))) if row.detail else "")


def _tool(row: Row, text: str) -> str:
    state = words.tool_state(row)
    call = [_tag("b", _CODE, _text(row.title)), " ", _tag("span", f"{_CODE}{_MUTED}", _text(row.detail))]
    if state:
        tint = f"color:{TINTS['failed']};" if row.tone in ("error", "timeout") else _MUTED
        call += [" ", _tag("span", f"{tint}{_NOWRAP}", _text(state))]
    head = _tag("span", "overflow-wrap:anywhere;", *call)
    result = _tag("div", f"{_PROSE}{_CODE}{_MUTED}", _text(text))
    return _tag("div", "", head, " ", result)


def _folded(title: str, body: str) -> str:
    return _tag("details", "", _tag("summary", f"{_MUTED}cursor:pointer;", _text(title)), body)


_FENCES = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)|`([^`\n]+)`", re.DOTALL)


def prose(text: str) -> str:
    """A model's words: code fences and code spans are set as code, everything else stays as it was written."""
    parts, position = [], 0
    for match in _FENCES.finditer(text):
        parts.append(_text(text[position : match.start()]))
        block, span = match.groups()
        if span is None:
            parts.append(_tag("div", f"{_CODE}padding:6px 8px;border:{_LINE};border-radius:4px;", _text(block)))
        else:
            parts.append(_tag("code", "", _text(span)))
        position = match.end()
    parts.append(_text(text[position:]))
    return _tag("div", _PROSE, *parts, attributes=' dir="auto"')
