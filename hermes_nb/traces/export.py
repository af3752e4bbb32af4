"""Traces as one page of HTML, for people."""

from __future__ import annotations

import base64
import io
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.pages import html_table, html_tree
from hermes_nb.traces.whole import whole

if TYPE_CHECKING:
    from os import PathLike

    from hermes_nb.traces.frames import Frames

_TURNS: Final = 200
"""Turns that a page shows one by one."""
_LISTED: Final = (
    "turn_id", "agent_name", "start_time", "duration", "exit_reason", "iterations", "api_attempts", "retries",
    "fallbacks", "compressions", "tool_calls", "budget_used", "input_tokens", "output_tokens", "cost_usd",
)  # fmt: skip
_STYLE: Final = """
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { max-width: 1100px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { vertical-align: baseline; text-align: left; padding-right: 1em; }
img { max-width: 100%; }
section { border-top: 1px solid #8888; margin-top: 2em; } h1, h2 { font-weight: 600; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; } .scroll { overflow-x: auto; }
"""
_POLICY: Final = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Nothing in the page runs, and nothing is fetched, whatever the text in it."""


def to_html(frames: Frames, path: str | PathLike[str], *, content: bool) -> None:
    """Write one self-contained page; the file appears when it is whole.

    Args:
        frames: The trace or traces.
        path: The file; replaced if it is there.
        content: Show what was said too.
    """
    with whole(path) as file:
        file.write_text(_page(frames, content=content), encoding="utf-8")


def _page(frames: Frames, *, content: bool) -> str:
    turns = frames.table("turns").select(_LISTED)
    rows = (row.values() for row in turns.to_pylist())
    parts = [f'<div class="scroll">{html_table(_LISTED, rows)}</div>', _pictures(frames)]
    analysis = frames.analysis()
    own = [turn for turn, parent in zip(*_turns(frames), strict=True) if parent is None]
    for turn in own[:_TURNS]:
        parts.append(f'<section><h2>{escape(turn)}</h2><div class="scroll">')
        parts.append(html_tree(analysis.turn(turn).span_rows()) + "</div></section>")
    if len(own) > _TURNS:
        parts.append(f"<p>... and {len(own) - _TURNS:,} more turns</p>")
    if not own:
        parts.append(html_tree(frames.span_rows()))
    if content:
        parts.append(_messages(frames))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">'
        f"<title>Traces</title><style>{_STYLE}</style>"
    )
    return f"<!DOCTYPE html><html lang=en><head>{head}</head><body><h1>Traces</h1>{''.join(parts)}</body></html>\n"


def _turns(frames: Frames) -> tuple[list[str], list[str | None]]:
    turns = frames.table("turns")
    return turns["turn_id"].to_pylist(), turns["parent_turn_id"].to_pylist()


def _pictures(frames: Frames) -> str:
    """The pictures as images in the page; none where there is no matplotlib."""
    try:
        figures = frames.plot.figures()
    except ImportError:
        return "<p>pictures need matplotlib: pip install 'hermes-nb[plot]'</p>"
    return "".join(f'<p><img alt="{escape(name)}" src="{_image(figure)}"></p>' for name, figure in figures.items())


def _image(figure: Any) -> str:
    import matplotlib.pyplot as plt  # noqa: PLC0415  there is a figure, so it is loaded already

    stream = io.BytesIO()
    figure.savefig(stream, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)  # else a notebook shows it below the cell, and pyplot keeps it
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode()


def _messages(frames: Frames) -> str:
    rows = frames.table("messages").select(["turn_id", "iteration", "role", "part_type", "content"]).to_pylist()
    parts = []
    for turn, group in groupby(rows, lambda row: row["turn_id"]):
        parts.append(f"<section><h2>Messages of {escape(str(turn))}</h2><table>")
        parts.extend(
            f"<tr><th>{escape(str(row['role']))}</th><td>{escape(str(row['part_type']))}</td>"
            f"<td><pre>{escape(row['content'] or '')}</pre></td></tr>"
            for row in group
        )
        parts.append("</table></section>")
    return "".join(parts)
