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
    from hermes_nb.widgets.gauges import Gauge
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Bar, Row

HEIGHT = 560
"""Pixels: as high as the panel, where no front end has told that the user made it higher."""

SIZE = 100_000
"""Characters of the transcript that are kept; the rest is in the trace."""

_TEXT = 4_000
_AROUND = 260  # characters of HTML around the texts of a row
_SHORT = 60
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)  # seconds
_TICKS = 8
_NARROW = 0.5  # percent of the timeline, below which neighbouring bars are drawn as one
_GAP = 1  # percent between two cells of the budget
_BETWEEN = 0.15  # percent between two bars that touch
EMPTY = "background:rgba(128,128,128,0.3);"
_NOWRAP = "white-space:nowrap;"
LINE = "1px solid rgba(128,128,128,0.35)"
MUTED = "opacity:0.75;"
_TABLE = "width:100%;border-collapse:collapse;border:none;table-layout:fixed;font-size:13px;"
_ROW = "background:none;border:none;padding:0;"
_GUTTER = "opacity:0.75;padding:2px 10px 2px 0;text-align:right;vertical-align:baseline;font-size:12px;"
_BODY = "padding:2px 0;text-align:left;vertical-align:baseline;white-space:pre-wrap;overflow-wrap:anywhere;"
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

_CELLS = {
    "used": f"background:{TINTS['model']};",
    "refunded": f"box-sizing:border-box;border:1px solid {TINTS['compression']};",
    "free": EMPTY,
    "grace": f"background:{TINTS['waits']};",
}
_TONES = {"running": TINTS["model"], "waiting": TINTS["waits"], "done": TINTS["tools"],
          "stopped": TINTS["waits"], "failed": TINTS["failed"]}  # fmt: skip


def html(snapshot: Snapshot, now: int, height: int = HEIGHT) -> str:
    """The record of a turn.

    Args:
        snapshot: What to show.
        now: The time, in nanoseconds since the epoch.
        height: Of the whole, in pixels; what does not fit is scrolled to.
    """
    parts = [_head(snapshot, now), gauge_row(gauges(snapshot, now)), _timeline(snapshot, now), *_story(snapshot)]
    return framed(f"height:{height}px;overflow:auto;resize:vertical;", *parts)


def framed(style: str, *parts: str) -> str:
    """The whole of a record. The class keeps JupyterLab's formula renderer away from its texts."""
    look = f"box-sizing:border-box;border:{LINE};border-radius:8px;font-size:13px;line-height:1.45;"
    tabular = "font-variant-numeric:tabular-nums;"
    return tag("div", look + tabular + style, *parts, attributes=' class="hermes-nb-record mathjax_ignore"')


def tag(name: str, style: str, *children: str, attributes: str = "") -> str:
    """An element of static HTML; the children are HTML already, the style is literal."""
    styled = f' style="{style}"' if style else ""
    return f"<{name}{attributes}{styled}>{''.join(children)}</{name}>"


def _text(text: str) -> str:
    return safe.escape(text)


# ------------------------------------------------------------------------------------------ head and gauges


def pill(status: words.Status) -> str:
    """A status in its tint."""
    tint = _TONES.get(status.tone, TINTS["stopped"])
    dot = tag("span", f"color:{tint};", "&#9679;")
    style = f"border:1px solid {tint};border-radius:99px;padding:1px 10px;font-size:12px;"
    return tag("span", style, dot, " ", tag("b", "", _text(status.word)))


def _head(snapshot: Snapshot, now: int) -> str:
    who, remark = words.answering(snapshot)
    name = tag("b", "", _text(snapshot.turn.agent or "agent"))
    behind = tag("span", MUTED, _text(f"{who}{'; ' + remark if remark else ''}"))
    left = tag("td", "text-align:left;padding:0;border:none;", pill(words.status(snapshot)), " ")
    right = tag("td", "text-align:right;padding:0;border:none;", name, " &nbsp;", behind, " ")
    first = tag("table", f"{_TABLE}margin:0;", tag("tr", _ROW, left, right))
    second = tag("div", "margin-top:6px;", _text(words.phase(snapshot).at(now)))
    return tag("div", f"padding:9px 14px;border-bottom:{LINE};", first, second)


def gauge_row(shown: list[Gauge]) -> str:
    """Gauges as a row of a table, whose cells go on below where it is narrow."""
    row = tag("tr", f"{_ROW}display:flex;flex-wrap:wrap;", *map(_gauge, shown))
    style = f"display:block;width:100%;margin:0;border:none;border-bottom:{LINE};font-size:13px;"
    return tag("table", style, tag("tbody", "display:block;overflow:hidden;", row))


def _gauge(gauge: Gauge) -> str:
    label = tag("div", f"{MUTED}font-size:12px;", _text(gauge.label), " ")
    of = tag("span", f"{MUTED}font-size:12px;", _text(gauge.of))
    value = tag("div", "", tag("b", "font-size:18px;", _text(gauge.value)), " ", of, " ")
    bar = tag("div", "position:relative;height:5px;margin:5px 0 4px 0;", *_fill(gauge))
    notes = tag("div", f"{MUTED}font-size:12px;", _text(", ".join(gauge.notes)))
    place = "display:block;flex:1 1 90px;box-sizing:border-box;min-width:112px;"
    lines = f"border:none;border-left:{LINE};border-top:{LINE};margin:-1px 0 0 -1px;"  # those at the edges are hidden
    style = f"{place}{lines}text-align:left;padding:8px 14px 7px 14px;"
    return tag("td", style, label, value, bar, notes)


def _fill(gauge: Gauge) -> list[str]:
    """What is used of a limit; for a small budget with one cell for each iteration, the grace call's apart."""
    if gauge.fraction is None:
        return []
    if gauge.cells:
        used, refunded, grace = gauge.filled
        kinds = ["used"] * used + ["refunded"] * refunded
        kinds = [*kinds[: gauge.cells], *["free"] * (gauge.cells - len(kinds)), *["grace"] * grace]
        share = 100 / len(kinds)
        return [_piece(share * place, share - _GAP, _CELLS[kind]) for place, kind in enumerate(kinds)]
    tint = TINTS["waits" if gauge.tight is not None and gauge.fraction >= gauge.tight else "model"]
    return [_piece(0, 100, EMPTY), _piece(0, 100 * min(1.0, gauge.fraction), f"background:{tint};")]


def _piece(left: float, width: float, style: str) -> str:
    place = f"position:absolute;left:{left:.2f}%;width:{width:.2f}%;height:5px;border-radius:3px;"
    return tag("div", f"{place}{style}")


# ------------------------------------------------------------------------------------------ timeline


def _timeline(snapshot: Snapshot, now: int) -> str:
    bars, totals = snapshot.timeline, lane_totals(snapshot, now)
    if not totals:
        return ""
    start = snapshot.turn.started or min(bar.start for bar in bars)
    end = max(snapshot.turn.ended or now, *(bar.end or now for bar in bars), start + 1)
    rows = []
    for total in totals:
        lane = [bar for bar in bars if bar.lane == total.lane]
        label = tag("td", f"{MUTED}width:72px;text-align:left;padding:1px 0;border:none;", LANES[total.lane], " ")
        track = tag("td", "padding:1px 0;border:none;", _lane(lane, start, end, now))
        said = f"{total.bars} in {words.seconds(total.seconds)}"
        amount = tag("td", f"{MUTED}{_NOWRAP}width:92px;text-align:right;padding:1px 0;border:none;", said)
        rows.append(tag("tr", _ROW, label, track, amount))
    empty = tag("td", "padding:0;border:none;")
    axis = tag("td", "padding:0;border:none;", _axis((end - start) / words.NANO))
    rows.append(tag("tr", _ROW, empty, axis, empty))
    return tag("div", f"padding:9px 14px 5px 14px;border-bottom:{LINE};", tag("table", f"{_TABLE}margin:0;", *rows))


def _axis(span: float) -> str:
    """Where the seconds are, as round numbers."""
    step = next((step for step in _STEPS if span / step <= _TICKS), _STEPS[-1])
    ticks = []
    for number in range(int(span / step) + 1):
        style = f"position:absolute;left:{100 * number * step / span:.2f}%;font-size:11px;{_NOWRAP}{MUTED}"
        ticks.append(tag("span", style, words.duration(number * step), " "))
    return tag("div", "position:relative;height:16px;", *ticks)


def _lane(bars: list[Bar], start: int, end: int, now: int) -> str:
    scale, drawn = 100 / (end - start), []
    pieces: list[tuple[float, float, str, str]] = []
    for bar in bars:
        left, right = scale * max(0, bar.start - start), scale * max(0, (bar.end or now) - start)
        tint = TINTS.get(bar.tone) or TINTS[bar.lane]
        if pieces and pieces[-1][2] == tint and right - pieces[-1][0] < _NARROW:
            pieces[-1] = (pieces[-1][0], max(right, pieces[-1][1]), tint, "")
        else:
            pieces.append((left, right, tint, bar.label))
    for left, right, tint, label in pieces:
        width = max(0.2, right - left - _BETWEEN)
        style = f"position:absolute;left:{left:.2f}%;width:{width:.2f}%;height:12px;background:{tint};"
        drawn.append(tag("div", style, attributes=f' title="{_text(label)}"' if label else ""))
    return tag("div", "position:relative;height:12px;", *drawn)


# ------------------------------------------------------------------------------------------ transcript


def _story(snapshot: Snapshot) -> list[str]:
    """The question and the answer in the open; the way there below, folded where it is long."""
    rows = [row for row in snapshot.transcript if row.kind != "end"]
    answers = [row for row in rows if row.kind == "assistant" and row.text]
    first = [row for row in rows if row.kind == "prompt"] + answers[-1:]
    parts = []
    if first:
        parts.append(tag("div", "padding:10px 14px;", _rows(first)))
    way = [row for row in rows if row not in first]
    sections, left_out = _sections(way)
    if left_out:
        note = f"{words.some(left_out, 'row')} left out here; run.trace has them all."
        sections.insert(0, tag("div", f"{MUTED}padding:4px 0;", _text(note)))
    if sections:
        summary = tag("summary", "cursor:pointer;", _text(f"The way there: {words.some(len(way), 'row')}"))
        style = f"padding:6px 14px 10px 14px;border-top:{LINE};"
        parts.append(tag("details", style, summary, *sections, attributes=" open" if len(way) <= _SHORT else ""))
    return parts


def _sections(rows: list[Row]) -> tuple[list[str], int]:
    """One table for each iteration, the newest that fit; and how many rows do not."""
    room, kept = SIZE, len(rows)
    for row in reversed(rows):
        room -= min(len(row.text), _TEXT) + min(len(row.detail), _TEXT) + _AROUND
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
    columns = '<colgroup><col width="72"><col><col width="84"></colgroup>'
    return tag("table", f"{_TABLE}margin:0 0 6px 0;", columns, *map(_row, rows))


_LABELS = {"prompt": "prompt", "user": "user", "assistant": "assistant", "tool": "tool", "steer": "steer", "note": ""}


def _row(row: Row) -> str:
    if row.kind == "iteration":
        said = _text(f"{row.title}{' (' + row.detail + ')' if row.detail else ''}")
        heading = f"{MUTED}text-align:left;padding:5px 0 3px 0;font-size:12px;border:none;border-top:{LINE};"
        return tag("tr", _ROW, tag("td", heading, said, attributes=' colspan="3"'))
    label = tag("td", _GUTTER, _LABELS.get(row.kind, row.kind), " ")
    if row.kind != "tool":
        return tag("tr", _ROW, label, tag("td", _BODY, *_body(row), attributes=' dir="auto" colspan="2"'))
    return tag("tr", _ROW, label, tag("td", _BODY, *_body(row), attributes=' dir="auto"'), _state(row))


def _state(row: Row) -> str:
    """How it stands with a tool call."""
    tint = f"color:{TINTS['failed']};" if row.tone in ("error", "timeout") else MUTED
    style = "text-align:right;vertical-align:baseline;padding:2px 0;border:none;font-size:12px;"
    return tag("td", style, " ", tag("span", tint, _text(words.tool_state(row))))


def _body(row: Row) -> list[str]:
    """The pieces of a row; line breaks between them are kept by its style, and spaces without it."""
    text, detail = safe.bounded(row.text, _TEXT), safe.bounded(row.detail, _TEXT)
    if row.kind == "tool":
        call = tag("samp", "", tag("b", "", _text(row.title)), " ", _text(detail))
        return [call, "\n" if text else "", tag("samp", MUTED, _text(text)) if text else ""]
    if row.kind == "assistant":
        return [_folded("thinking", detail) if detail else "", prose(text)]
    if row.kind == "steer":
        return [tag("i", "", _text(text)), _muted(f" ({detail})") if detail else ""]
    said = _muted(text) if row.kind == "note" else _text(text)
    return [said, _folded("more", detail) if detail else ""]


def _muted(text: str) -> str:
    return tag("span", MUTED, _text(text))


def _folded(title: str, text: str) -> str:
    return tag("details", "", tag("summary", f"{MUTED}cursor:pointer;", _text(title)), _muted(text))


_FENCES = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)|`([^`\n]+)`", re.DOTALL)


def prose(text: str) -> str:
    """A model's words: code fences and code spans are set as code, everything else stays as it was written."""
    parts, position = [], 0
    for match in _FENCES.finditer(text):
        parts.append(_text(text[position : match.start()]))
        block, span = match.groups()
        if span is None:
            parts.append(tag("div", f"padding:6px 8px;border:{LINE};border-radius:4px;", tag("samp", "", _text(block))))
        else:
            parts.append(tag("code", "", _text(span)))
        position = match.end()
    parts.append(_text(text[position:]))
    return "".join(parts)
