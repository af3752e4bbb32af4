"""Traces as files for others: OTLP JSON lines, and one page of HTML."""

from __future__ import annotations

import base64
import io
import os
from html import escape
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.jsons import dumps, loads_mapping
from hermes_nb.traces.names import RUN_ID, SERVICE, is_content
from hermes_nb.traces.pages import html_table, html_tree
from hermes_nb.traces.table import records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    from hermes_nb.traces.frames import Frames
    from hermes_nb.traces.table import Tables

_LINE: Final = 200
"""Spans in one line of JSON at most."""
_KINDS: Final = {"INTERNAL": 1, "SERVER": 2, "CLIENT": 3, "PRODUCER": 4, "CONSUMER": 5}
_STATUSES: Final = {"UNSET": 0, "OK": 1, "ERROR": 2}
_INT64: Final = 2**63


# ---------------------------------------------------------------------------------------------- OTLP JSON


def to_otlp_json(tables: Tables, path: str | PathLike[str], *, content: bool) -> None:
    """Write the spans, with their events and links, as OTLP JSON lines; the file appears when it is whole.

    Args:
        tables: The spans.
        path: The file; replaced if it is there.
        content: Write what was said too.
    """
    target = Path(path).expanduser()
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    events = _below(each for each in records(tables.events) if each["source"] == "span")
    links = _below(records(tables.links))
    with unfinished.open("w", encoding="utf-8", newline="\n") as stream:
        spans = records(tables.spans)
        while block := list(islice(spans, _LINE)):
            stream.write(dumps({"resourceSpans": list(_resources(block, events, links, content=content))}) + "\n")
    unfinished.replace(target)


Record = dict[str, Any]
_Key = tuple[str | None, str | None]


def _below(rows: Iterable[Record]) -> dict[_Key, list[Record]]:
    """Events or links by their span."""
    found: dict[_Key, list[Record]] = {}
    for row in rows:
        found.setdefault((row["trace_id"], row["span_id"]), []).append(row)
    return found


def _resources(
    block: list[Record], events: dict[_Key, list[Record]], links: dict[_Key, list[Record]], *, content: bool
) -> Iterator[Record]:
    def origin(span: Record) -> tuple[str, str, str, str]:
        return tuple(span[name] or "" for name in ("resource_json", "service_name", "run_id", "scope_name"))  # type: ignore[return-value]  # four names

    for (told, service, run, scope), group in groupby(block, origin):
        known = {SERVICE: service, RUN_ID: run}
        resource = loads_mapping(told) or {key: value for key, value in known.items() if value}
        spans = [_span(each, events, links, content=content) for each in group]
        yield {
            "resource": {"attributes": _attributes(resource)},
            "scopeSpans": [{"scope": {"name": scope} if scope else {}, "spans": spans}],
        }


def _span(span: Record, events: dict[_Key, list[Record]], links: dict[_Key, list[Record]], *, content: bool) -> Record:
    key = span["trace_id"], span["span_id"]
    said = loads_mapping(span["attributes_json"])
    if content:
        said |= loads_mapping(span["content_json"])
    out: Record = {
        "traceId": span["trace_id"] or "",
        "spanId": span["span_id"] or "",
        "name": span["name"],
        "kind": _KINDS.get(span["kind"], 1),
        "attributes": _attributes(said),
        "events": [_event(each, content=content) for each in events.get(key, ())],
        "links": [_link(each) for each in links.get(key, ())],
        "status": {"code": _STATUSES.get(span["status"], 0)},
    }
    if span["parent_span_id"]:
        out["parentSpanId"] = span["parent_span_id"]
    if span["status_message"]:
        out["status"]["message"] = span["status_message"]
    for name, field in (("startTimeUnixNano", "start_time"), ("endTimeUnixNano", "end_time")):
        if span[field] is not None:
            out[name] = str(span[field])
    for name, field in (("droppedAttributesCount", "dropped_attributes"), ("droppedEventsCount", "dropped_events")):
        if span[field]:
            out[name] = span[field]
    return out


def _event(event: Record, *, content: bool) -> Record:
    said = loads_mapping(event["attributes_json"])
    kept = {key: value for key, value in said.items() if content or not is_content(key)}
    out: Record = {"name": event["name"] or "", "attributes": _attributes(kept)}
    if event["time"] is not None:
        out["timeUnixNano"] = str(event["time"])
    return out


def _link(link: Record) -> Record:
    return {
        "traceId": link["linked_trace_id"] or "",
        "spanId": link["linked_span_id"] or "",
        "attributes": _attributes(loads_mapping(link["attributes_json"])),
    }


def _attributes(values: Record) -> list[Record]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Any) -> Record:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _attributes(value)}}
    return {} if value is None else {"stringValue": str(value)}


# ---------------------------------------------------------------------------------------------- a page

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
    target = Path(path).expanduser()
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    unfinished.write_text(_page(frames, content=content), encoding="utf-8")
    unfinished.replace(target)


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
