"""`Traces`: how many turns went; loading them, putting them together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Final, Self

from hermes_nb.traces import sdk
from hermes_nb.traces.frames import Frames
from hermes_nb.traces.pages import html_table
from hermes_nb.traces.readers.report import Report
from hermes_nb.traces.readers.selection import Selection, nanoseconds
from hermes_nb.traces.sources import Stored
from hermes_nb.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    import pyarrow as pa
    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.plots import TracesPlots
    from hermes_nb.traces.readers.selection import When
    from hermes_nb.traces.readers.sources import Source
    from hermes_nb.traces.table import Tables

_SHOWN: Final = 20
"""Turns that a cell lists."""
_LISTED: Final = (
    "turn_id",
    "agent_name",
    "start_time",
    "duration",
    "exit_reason",
    "iterations",
    "tool_calls",
    "retries",
    "input_tokens",
    "output_tokens",
)


class Traces(Frames):
    """How many turns went: loaded from files, or put together.

    Attributes:
        report: What was read, what was left out, and why.
    """

    def __init__(
        self,
        tables: Callable[[], Tables],
        report: Report | None = None,
        *,
        spans: pa.Table | None = None,
        again: Callable[[], Traces] | None = None,
    ) -> None:
        self._tables = tables
        self._report = report or Report()
        self._spans = spans
        self._again = again

    @classmethod
    def from_spans(cls, spans: Sequence[ReadableSpan], *, content: bool = False) -> Self:
        """Traces of any finished or open spans of the OpenTelemetry SDK.

        Args:
            spans: The spans.
            content: Take over what was said too; otherwise it is looked for when it is asked for (`messages_df()`).
        """
        from hermes_nb.traces.table import Builder  # noqa: PLC0415  loads pyarrow

        builder = Builder(content=content)
        sdk.add(builder, spans)
        tables = builder.build()
        return cls(lambda: tables, again=None if content else partial(cls.from_spans, spans, content=True))

    @cached_property
    def _analysed(self) -> Analysis:
        from hermes_nb.traces.analysis import Analysis  # noqa: PLC0415  loads pyarrow

        return Analysis(self._tables())

    def analysis(self) -> Analysis:
        """The spans in order and their tree."""
        return self._analysed

    @property
    def plot(self) -> TracesPlots:
        """Pictures: `overview()`, `exit_reasons()`, `latency()`, `tokens()`, `retries()`; needs matplotlib."""
        from hermes_nb.traces.plots import TracesPlots  # noqa: PLC0415  loads matplotlib

        return TracesPlots(self)

    @cached_property
    def report(self) -> Report:
        """What was read, what was left out, and why."""
        return replace(self._report, notes=[*self._report.notes, *self.analysis().notes()])

    def table(self, name: str, *, content: bool = False) -> pa.Table:
        """A frame as an Arrow table, for polars, DuckDB and others; see `Frames.table`."""
        if name == "spans" and self._spans is not None and not content:
            return self._spans
        if self._again is not None and (content or name == "messages"):
            return self.with_content().table(name, content=content)
        return super().table(name, content=content)

    def with_content(self) -> Traces:
        """The same with what was said: read again, if it was left out when it was loaded."""
        return self if self._again is None else self._again()

    def select(
        self, *, conversation_id: str | None = None, since: When = None, until: When = None, limit: int | None = None
    ) -> Traces:
        """Some of the traces.

        Args:
            conversation_id: Of one conversation.
            since: That began then or later; ISO 8601, a datetime, or nanoseconds since the epoch.
            until: That began before.
            limit: So many at most, the newest.
        """
        from hermes_nb.traces import merging  # noqa: PLC0415  loads pyarrow

        wanted = Selection(conversation_id, nanoseconds(since, "since"), nanoseconds(until, "until"), limit)
        tables, left_out = merging.select(self.analysis().tables, wanted)
        note = [f"{left_out:,} traces were not asked for, or are beyond the limit"] if left_out else []
        again = None if self._again is None else lambda: self.with_content().select(
            conversation_id=conversation_id, since=since, until=until, limit=limit
        )  # fmt: skip
        return Traces(lambda: tables, Report(self._report.files, self._report.notes + note), again=again)

    def trace(self, turn_id: str) -> Trace:
        """The trace of one turn, its sub-agents' turns included.

        Raises:
            ValueError: There is no such turn.
        """
        again = None if self._again is None else lambda: self.with_content().analysis().turn(turn_id)
        return Trace(turn_id, Stored(self.analysis().turn(turn_id), again))

    @property
    def turn_ids(self) -> list[str]:
        """The turns, by start; sub-agents' turns left out."""
        turns = self.table("turns")
        rows = zip(turns["turn_id"].to_pylist(), turns["parent_turn_id"].to_pylist(), strict=True)
        return [turn for turn, parent in rows if parent is None]

    def __len__(self) -> int:
        return len(self.turn_ids)

    def __repr__(self) -> str:
        """What there is, in one line."""
        turns = self.table("turns")
        reasons = zip(turns["exit_reason"].to_pylist(), turns["is_running"].to_pylist(), strict=True)
        ends = Counter(reason or ("open" if running else "ended") for reason, running in reasons)
        how = ", ".join(f"{number:,} {reason}" for reason, number in ends.most_common(4))
        return f"<Traces: {len(turns):,} turns, {len(self.analysis()):,} spans{'; ' if how else ''}{how}>"

    def _repr_html_(self) -> str:
        turns = self.table("turns")
        shown = turns.select(_LISTED).slice(0, _SHOWN).to_pylist()
        more = f"<p>... and {len(turns) - _SHOWN:,} more turns</p>" if len(turns) > _SHOWN else ""
        return f"<p>{escape(repr(self))}</p>{html_table(_LISTED, (row.values() for row in shown))}{more}"


def load(
    source: Source,
    *,
    content: bool = False,
    conversation_id: str | None = None,
    since: When = None,
    until: When = None,
    limit: int | None = None,
) -> Traces:
    """Read traces: our own and those of other tools; what could not be read stands in `.report`.

    Known are our logbook and Parquet folders, OTLP in JSON (lines or documents, compressed or not) and protobuf,
    Jaeger's JSON, spans of Phoenix (JSON, frame, Parquet) and of the SDK's `to_json()`, logs of inspect_ai (where that
    is installed), and the sessions of hermes-agent (`state.db`). The form is told by the content, not by the name.

    Args:
        source: A path, a glob pattern, a folder, an open file, a frame of spans, or a list of these.
        content: Read what was said too; otherwise it is read when it is asked for (`messages_df()`).
        conversation_id: Only the traces of one conversation.
        since: Only those that began then or later; ISO 8601, a datetime, or nanoseconds since the epoch.
        until: Only those that began before.
        limit: So many at most, the newest.

    Raises:
        UnreadableTrace: Nothing could be read.
        ConfigurationError: A time that is none, or a source of no such kind.
    """
    from hermes_nb.traces.readers.loading import read  # noqa: PLC0415  loads pyarrow

    wanted = Selection(conversation_id, nanoseconds(since, "since"), nanoseconds(until, "until"), limit)
    loaded = read(source, wanted, content=content)
    part = {"conversation_id": conversation_id, "since": since, "until": until, "limit": limit}
    again = partial(load, loaded.sources, content=True, **part)  # type: ignore[arg-type]  # the same as here
    can_be_read_again = not content and not any(hasattr(each, "read") for each in loaded.sources)
    return Traces(loaded.tables, loaded.report, spans=loaded.spans, again=again if can_be_read_again else None)


def concat(traces: Iterable[Trace | Traces]) -> Traces:
    """Traces put together; columns, dtypes and their order stay, categories are united."""
    from hermes_nb.traces import merging  # noqa: PLC0415  loads pyarrow

    parts = list(traces)
    tables, repeated = merging.once(merging.concat([part.analysis().tables for part in parts]))
    report = sum((part._report for part in parts if isinstance(part, Traces)), Report())  # noqa: SLF001  same family
    if repeated:
        report.notes.append(f"{repeated:,} records of spans that are there twice were dropped")
    is_whole = all(part.analysis().tables.content for part in parts)
    return Traces(lambda: tables, report, again=None if is_whole else lambda: concat(p.with_content() for p in parts))


def convert(source: Source, folder: str | PathLike[str], *, content: bool = False) -> Report:
    """Read traces of any size and any known form into a folder of Parquet files, for `load` and any other tool.

    Memory holds a part of them at a time; the disk of the folder needs room for all of them beside the result.

    Args:
        source: What `load` takes.
        folder: Where; made if it is not there.
        content: Keep what was said too.

    Returns:
        What was read, what was left out, and why.

    Raises:
        UnreadableTrace: Nothing could be read.
    """
    from hermes_nb.traces.streaming import convert as streamed  # noqa: PLC0415  loads pyarrow

    return streamed(source, folder, content=content)
