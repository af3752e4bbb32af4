"""The span tree in words: one line per span, as text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from hermes_nb.telemetry import semconv as sc
from hermes_nb.traces import names
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from hermes_nb.traces.rows import SpanRow


@dataclass(slots=True, eq=False)
class Node:
    """One span in its tree; `orphan` when its parent is not in the data."""

    span: SpanRow
    type: str
    orphan: bool = False
    children: list[Node] = field(default_factory=list)


def forest(spans: Iterable[SpanRow]) -> list[Node]:
    """The trees of some spans; siblings in the order of their start, then as given.

    A span whose parent is missing, or that is its own ancestor, stands at the top.
    """
    nodes = [Node(span, names.span_type(span.attributes)) for span in spans]
    nodes.sort(key=lambda node: node.span.start_time or 0)
    found = {(node.span.trace_id, node.span.span_id): node for node in reversed(nodes)}
    parents = [found.get((node.span.trace_id, node.span.parent_span_id or "")) for node in nodes]
    roots = []
    for node, parent in zip(nodes, parents, strict=True):
        if parent is None or parent is node:
            node.orphan = node.span.parent_span_id is not None
            roots.append(node)
        else:
            parent.children.append(node)
    reached = {id(node) for _, node in walk(roots)}
    for node, parent in zip(nodes, parents, strict=True):
        if id(node) not in reached and parent is not None:  # its own ancestor: the circle is cut at its first span
            parent.children.remove(node)
            node.orphan = True
            roots.append(node)
            reached.update(id(below) for _, below in walk([node]))
    return roots


def walk(roots: Iterable[Node], depth: int = 0) -> Iterator[tuple[int, Node]]:
    """Every node with its depth, parents before children."""
    stack = [(depth, node) for node in reversed(list(roots))]
    while stack:
        depth, node = stack.pop()
        yield depth, node
        stack.extend((depth + 1, child) for child in reversed(node.children))


class HasSpans(Protocol):
    """A trace, or traces."""

    def span_rows(self) -> Iterable[SpanRow]:
        """The spans."""


def span_tree(trace: HasSpans) -> str:
    """The spans of a trace as text without ids and times: the same for every run that did the same.

    Two spaces for each level; siblings in the order of their start; a mark on spans that failed (`ERROR`), were
    interrupted, or are still open.
    """
    return "\n".join("  " * depth + label(node) for depth, node in walk(forest(trace.span_rows())))


def text_tree(spans: Iterable[SpanRow], most: int = 1_000) -> str:
    """The tree as text with durations; beyond `most` lines only the number of the others."""
    nodes = list(walk(forest(spans)))
    lines = [f"{'  ' * depth}{label(node)}  {lasted(node.span)}{_missing(node)}" for depth, node in nodes[:most]]
    more = [f"... and {len(nodes) - most:,} more spans"] if len(nodes) > most else []
    return "\n".join(line.rstrip() for line in lines + more)


def _missing(node: Node) -> str:
    return "  (missing parent)" if node.orphan else ""


def lasted(span: SpanRow) -> str:
    """The duration of a span that has ended, in words; empty for others."""
    if span.start_time is None or span.end_time is None:
        return ""
    return duration(span.end_time - span.start_time)


def duration(nanoseconds: float) -> str:
    """A duration in words, such as `1.2 s`."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000)):
        if nanoseconds >= size:
            number = nanoseconds / size
            return f"{number:,.{1 if number < 10 else 0}f} {unit}"  # noqa: PLR2004  two digits are enough
    return f"{nanoseconds:.0f} ns"


# ---------------------------------------------------------------------------------------------- the words of one line


def label(node: Node) -> str:
    """What one line says of its span: its name, what it did, and a mark if it failed, was interrupted or is open."""
    describe = _LABELS.get(node.type, _plain)
    return " ".join(filter(None, (one_line(describe(node.span)), mark(node))))


def mark(node: Node) -> str:
    """`open`, `interrupted`, `ERROR type`, or nothing."""
    span = node.span
    if span.end_time is None:
        return "open"
    if _was_interrupted(node):
        return "interrupted"
    if span.status == "ERROR" and node.type != "attempt":
        return one_line(f"ERROR {span.attributes.get(sc.ERROR_TYPE) or ''}").strip()
    return ""


def one_line(text: str, longest: int = 200) -> str:
    """Text of one line, without control characters."""
    text = unicode_only(text if len(text) <= longest else text[: longest - 1] + "…")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _was_interrupted(node: Node) -> bool:
    said = node.span.attributes
    return (
        said.get(sc.HERMES_ITERATION_OUTCOME) == "interrupted"
        or said.get(sc.HERMES_RETRY_OUTCOME) == "interrupted"
        or bool(said.get(sc.HERMES_TOOL_CANCELLED))
    )


def _plain(span: SpanRow) -> str:
    return span.name


def _turn(span: SpanRow) -> str:
    reason = _say(span, sc.HERMES_TURN_EXIT_REASON)
    return f"{span.name} {reason if reason != 'completed' else ''}".rstrip()


def _iteration(span: SpanRow) -> str:
    return (
        span.name if _say(span, sc.HERMES_ITERATION_GRACE) == "True" else f"{span.name} {_say(span, names.ITERATION)}"
    )


def _attempt(span: SpanRow) -> str:
    outcome = _say(span, sc.HERMES_ATTEMPT_OUTCOME)
    why = ""
    if outcome != "success":
        why = _say(span, sc.HTTP_RESPONSE_STATUS_CODE) or _say(span, sc.HERMES_ATTEMPT_REASON)
    return _words(span.name, _say(span, sc.HERMES_ATTEMPT_NUMBER), outcome, why)


def _retry(span: SpanRow) -> str:
    """The wait, unless it is drawn by lot."""
    source = _say(span, sc.HERMES_RETRY_SOURCE)
    wait = "" if source == "backoff" else f"wait={span.attributes.get(sc.HERMES_RETRY_WAIT, 0.0)}s"
    return _words(span.name, wait, source)


def _fallback(span: SpanRow) -> str:
    left = f"{_say(span, sc.HERMES_FALLBACK_FROM_PROVIDER)}:{_say(span, sc.HERMES_FALLBACK_FROM_MODEL)}"
    taken = f"{_say(span, sc.HERMES_FALLBACK_TO_PROVIDER)}:{_say(span, sc.HERMES_FALLBACK_TO_MODEL)}"
    outcome = _say(span, sc.HERMES_FALLBACK_OUTCOME)
    taken = taken if taken != ":" else ""
    return _words(span.name, left, "->", taken or outcome, outcome if taken and outcome != "activated" else "")


def _compression(span: SpanRow) -> str:
    before = _say(span, sc.HERMES_COMPRESSION_MESSAGES_BEFORE)
    after = _say(span, sc.HERMES_COMPRESSION_MESSAGES_AFTER)
    outcome = _say(span, sc.HERMES_COMPRESSION_OUTCOME)
    return _words(
        span.name,
        _say(span, sc.HERMES_COMPRESSION_TRIGGER),
        before,
        "->",
        after,
        outcome if outcome != "compressed" else "",
    )


def _refund(span: SpanRow) -> str:
    return _words(span.name, _say(span, sc.HERMES_REFUND_REASON))


def _tool(span: SpanRow) -> str:
    status = _say(span, sc.HERMES_TOOL_STATUS)
    return _words(span.name, status if status in ("skipped", "timeout") else "")


def _say(span: SpanRow, key: str) -> str:
    value: Any = span.attributes.get(key)
    return "" if value is None else str(value)


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


_LABELS: dict[str, Callable[[SpanRow], str]] = {
    "turn": _turn,
    "iteration": _iteration,
    "attempt": _attempt,
    "retry": _retry,
    "fallback": _fallback,
    "compression": _compression,
    "refund": _refund,
    "tool": _tool,
}
