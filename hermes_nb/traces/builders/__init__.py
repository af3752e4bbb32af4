"""One function for each frame: from the analysis of the spans to the frame's columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hermes_nb.traces.builders import calls, events, iterations, messages, spans, steps, turns
from hermes_nb.traces.columns import conform

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from hermes_nb.traces.analysis import Analysis

BUILDERS: Final[dict[str, Callable[[Analysis], dict[str, Any]]]] = {
    "turns": turns.turns,
    "iterations": iterations.iterations,
    "chats": calls.chats,
    "attempts": calls.attempts,
    "retries": calls.retries,
    "fallbacks": calls.fallbacks,
    "compressions": steps.compressions,
    "refunds": steps.refunds,
    "tool_calls": steps.tool_calls,
    "budget": events.budget,
    "events": events.events,
    "links": events.links,
    "metrics": events.metrics,
    "messages": messages.messages,
    "spans_attributes": spans.attributes,
}


def build(name: str, analysis: Analysis, *, content: bool = False) -> pa.Table:
    """The frame as an Arrow table; built once.

    Args:
        name: A key of `schema.FRAMES`.
        analysis: The spans.
        content: For `spans`, put what was said among the attributes too.
    """
    key = name, content and name == "spans"
    if key not in analysis.built:
        columns = spans.spans(analysis, content=content) if name == "spans" else BUILDERS[name](analysis)
        analysis.built[key] = conform(name, columns, len(next(iter(columns.values()))))
    return analysis.built[key]
