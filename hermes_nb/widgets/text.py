"""A snapshot as plain text: for terminals, notebooks without a front end, and wherever nothing else can be shown."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from hermes_nb.widgets import safe, words
from hermes_nb.widgets.gauges import LANES, gauges, lane_totals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermes_nb.widgets.gauges import Gauge
    from hermes_nb.widgets.monitor import Snapshot
    from hermes_nb.widgets.parts import Row

WIDTH = 100
_LAST = 6
_BAR = 20
_LABELS = {
    "prompt": "prompt",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "steer": "steer",
    "note": "note",
}


def plain(snapshot: Snapshot, now: int) -> str:
    """The status, the gauges as bars, and the last entries of the transcript.

    Args:
        snapshot: What to show.
        now: The time, in nanoseconds since the epoch.
    """
    lines = [heading(snapshot, now), *(_gauge(gauge) for gauge in gauges(snapshot, now))]
    if totals := lane_totals(snapshot, now):
        lanes = ", ".join(f"{LANES[t.lane]} {t.bars} in {words.seconds(t.seconds)}" for t in totals)
        lines.append(f"{'Timeline':<11} {lanes}")
    rows = [row for row in snapshot.transcript if row.kind in _LABELS]
    if len(rows) > _LAST:
        lines.append(f"({words.some(len(rows) - _LAST, 'earlier entry', 'earlier entries')})")
    lines += [_row(row) for row in rows[-_LAST:]]
    return "\n".join(lines)


def heading(snapshot: Snapshot, now: int) -> str:
    """One line: who, how it stands, and what it is doing."""
    status = words.status(snapshot)
    who, remark = words.answering(snapshot)
    name = f"{snapshot.turn.agent or 'agent'} ({who}{'; ' + remark if remark else ''})" if who else "turn"
    phase = words.phase(snapshot).at(now)
    return f"{name}: {phase}" if snapshot.ended else f"{name}: {status.word}: {phase}"


def _gauge(gauge: Gauge) -> str:
    bar = ""
    if gauge.fraction is not None:
        full = round(min(1.0, gauge.fraction) * _BAR)
        bar = f" [{'#' * full}{'.' * (_BAR - full)}]"
    notes = f"  {', '.join(gauge.notes)}" if gauge.notes else ""
    return f"{gauge.label:<11} {f'{gauge.value} {gauge.of}'.strip()}{bar}{notes}"


def _row(row: Row) -> str:
    said = row.text
    if row.kind == "tool":
        state = words.tool_state(row)
        said = f"{row.title} {row.detail}{' -> ' + row.text if row.text else ''}{f' ({state})' if state else ''}"
    elif row.kind == "steer" and row.detail:
        said = f"{row.text} ({row.detail})"
    return f"{_LABELS[row.kind]:<11} {textwrap.shorten(safe.line(said), WIDTH - 12, placeholder=' …')}"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts under their headings, in columns; empty columns are left out."""
    kept = [number for number in range(len(columns)) if any(row[number] for row in rows)]
    lines = [[row[number] for number in kept] for row in (columns, *rows)]
    widths = [max(len(line[number]) for line in lines) for number in range(len(kept))]
    padded = ([text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)
