"""The telemetry contract, held over the whole test run.

A pytest plugin: every span that any test ends is compared with the registry in `telemetry/registry/`, both as it is
kept and as a reader with everything switched on sees it. What is not declared, of another type, or missing fails the
test it came from.
"""

from __future__ import annotations

import json
from collections import deque
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from tools import semconv

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry._logs import LogRecord
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.telemetry.store import Kept

_TYPES = {"string": str, "int": int, "double": float, "boolean": bool}
_LATER = 5  # problems shown of one test
_MANY = 2_000  # spans that wait for the end of their test


@cache
def attributes() -> dict[str, dict[str, Any]]:
    """The declared attributes by name."""
    return {attribute["key"]: attribute for attribute in semconv.load("attributes")}


@cache
def spans() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The declared spans by type, with the requirement level of each attribute."""
    return {s["type"].removeprefix("hermes."): (s, semconv.resolved(s)) for s in semconv.load("spans")}


@cache
def points() -> dict[str, dict[str, Any]]:
    """The attributes of the declared span events, with their requirement level, by the events' names."""
    return {event["name"]: semconv.resolved(event) for event in semconv.load("events")}


@cache
def metrics() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """The declared metrics by name, with the requirement level of each attribute."""
    return {metric["name"]: (metric, semconv.resolved(metric)) for metric in semconv.load("metrics")}


def problems_of_span(span: ReadableSpan) -> list[str]:
    """How a span of ours departs from the registry."""
    given = dict(span.attributes or {})
    kind = given.get("hermes.span.type")
    if kind not in spans():
        return [f"the span {span.name} has the undeclared type {kind!r}"]
    declared, levels = spans()[kind]
    out = [f"{span.name}: {text}" for text in _problems(given, levels)]
    if span.kind.name.lower() != declared["kind"]:
        out.append(f"{span.name}: is {span.kind.name}, declared {declared['kind']}")
    if ("error.type" in given) != (span.status.status_code.name == "ERROR"):
        out.append(f"{span.name}: error.type and the status {span.status.status_code.name} contradict each other")
    for event in span.events:
        if event.name not in points():
            out.append(f"{span.name}: has the undeclared event {event.name}")
        else:
            out += [f"{event.name}: {text}" for text in _problems(dict(event.attributes or {}), points()[event.name])]
    return out


def problems_of_logs(records: Iterable[LogRecord]) -> list[str]:
    """How log records depart from the registry."""
    out = []
    for record in records:
        if record.event_name not in points() or record.timestamp is None or not record.span_id:
            out.append(f"the log record {record.event_name} is not declared, or has no time or span")
            continue
        given = {key: _as_text(value) for key, value in (record.attributes or {}).items()}
        out += [f"{record.event_name}: {text}" for text in _problems(given, points()[record.event_name])]
    return out


def _as_text(value: Any) -> Any:
    """A value of a log record, which has as data what is JSON text on a span."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def problems_of_metrics(data: MetricsData) -> list[str]:
    """How metrics depart from the registry."""
    out = []
    for metric in (m for r in data.resource_metrics for scope in r.scope_metrics for m in scope.metrics):
        if metric.name not in metrics():
            out.append(f"the metric {metric.name} is not declared")
            continue
        declared, levels = metrics()[metric.name]
        if metric.unit != declared["unit"]:
            out.append(f"{metric.name}: has the unit {metric.unit}, declared {declared['unit']}")
        for point in metric.data.data_points:
            out += [f"{metric.name}: {text}" for text in _problems(dict(point.attributes or {}), levels)]
    return out


def _problems(given: Mapping[str, Any], levels: Mapping[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        name = _declared_name(key)
        if name not in attributes():
            yield f"{key} is not declared"
        elif name not in levels:
            yield f"{key} is not declared for it"
        elif not _fits(value, attributes()[name]):
            yield f"{key} is {value!r}, declared {semconv._type(attributes()[name])}"
    for key, level in levels.items():
        if level == "required" and key not in given:
            yield f"{key} is missing"


def _declared_name(key: str) -> str:
    """The name under which an attribute is declared: that of its template, if it has one."""
    for template in ("hermes.metadata", "hermes.setting"):
        if key.startswith(f"{template}."):
            return template
    return key


def _fits(value: Any, attribute: Mapping[str, Any]) -> bool:
    kind = attribute["type"]
    if isinstance(kind, dict):
        closed = attribute["key"].startswith("hermes.")
        return isinstance(value, str) and (not closed or value in {member["value"] for member in kind["members"]})
    if kind == "string[]":
        return isinstance(value, tuple) and all(isinstance(item, str) for item in value)
    if kind == "any":
        return isinstance(value, str)  # viewers drop anything else
    return kind not in _TYPES or type(value) is _TYPES[kind] or (kind == "string" and isinstance(value, str))


class Contract:
    """Takes every ended span, and looks some time later what is wrong with it: a look writes a span."""

    sink = None

    def __init__(self) -> None:
        self.seen = 0
        self._problems: set[str] = set()
        self._waiting: deque[Kept] = deque()

    def take(self, kept: Kept) -> None:
        """Keep a span until the test is over, or until there are many."""
        self._waiting.append(kept)
        if len(self._waiting) > _MANY:
            self._problems.update(self._compared(self._waiting.popleft()))

    def _compared(self, kept: Kept) -> list[str]:
        """What is wrong with a span, and with what a reader with everything switched on sees of it."""
        from hermes_nb.telemetry.hiding import Hidden
        from hermes_nb.telemetry.logs import records
        from hermes_nb.telemetry.rendering import Rendering

        if kept.what is None:
            return []
        self.seen += 1
        shown = Rendering("new", Hidden())(kept)
        return problems_of_span(kept.span) + problems_of_span(shown) + problems_of_logs(records(shown, kept.what))

    def flush(self, timeout: float) -> bool:
        """Nothing is held."""
        return True

    def problems(self) -> list[str]:
        """What was found since the last time."""
        found, self._problems = self._problems, set()
        while self._waiting:
            found.update(self._compared(self._waiting.popleft()))
        return sorted(found)


CONTRACT = Contract()


def pytest_sessionstart() -> None:
    """Listen to all spans of this process."""
    from hermes_nb.telemetry.hub import HUB

    HUB.add(CONTRACT)


@pytest.fixture(autouse=True)
def the_contract_holds() -> Iterator[None]:
    """Fails a test whose spans are not as declared."""
    yield
    found = CONTRACT.problems()
    assert not found, "spans are not as the registry declares them:\n  " + "\n  ".join(found[:_LATER])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many spans were compared."""
    terminalreporter.write_line(f"{CONTRACT.seen} spans compared with telemetry/registry")
