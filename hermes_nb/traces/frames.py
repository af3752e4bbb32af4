"""`Trace` and `Traces`: how one turn or many turns went, as frames, trees, pictures and files.

Nothing heavy is imported here: pandas, pyarrow and matplotlib load with the first frame or picture.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from typing import TYPE_CHECKING, Any, Self

from hermes_nb.traces import sdk
from hermes_nb.traces.drawing import text_tree
from hermes_nb.traces.pages import html_table, html_tree
from hermes_nb.traces.readers.report import Report
from hermes_nb.traces.readers.selection import Selection, nanoseconds
from hermes_nb.traces.sources import Live, Stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from os import PathLike

    import pandas as pd
    import pyarrow as pa
    from opentelemetry.sdk.trace import ReadableSpan

    from hermes_nb.telemetry.store import LiveStore
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.plots import TracesPlots, TurnPlots
    from hermes_nb.traces.readers.selection import When
    from hermes_nb.traces.readers.sources import Source
    from hermes_nb.traces.rows import SpanRow
    from hermes_nb.traces.sources import TurnSource
    from hermes_nb.traces.table import Tables

_SHOWN = 20
"""Turns that a cell lists."""


class Frames:
    """The frames, files and pictures of some spans; the common part of `Trace` and `Traces`."""

    def analysis(self) -> Analysis:
        """The spans in order and their tree, on which the frames are built."""
        raise NotImplementedError

    def table(self, name: str, *, content: bool = False) -> pa.Table:
        """A frame as an Arrow table, for polars, DuckDB and others.

        Args:
            name: The name of a frame: `spans`, `turns`, `iterations`, ...; see `hermes_nb.traces.catalogue.FRAMES`.
            content: For `spans`, put what was said among the attributes too.

        Raises:
            ValueError: There is no such frame.
        """
        from hermes_nb.traces.builders import build  # noqa: PLC0415  loads pyarrow
        from hermes_nb.traces.catalogue import FRAMES  # noqa: PLC0415

        if name not in FRAMES:
            msg = f"there is no frame {name!r}; there are {', '.join(FRAMES)}"
            raise ValueError(msg)
        return build(name, self.analysis(), content=content)

    def _frame(self, name: str, *, content: bool = False) -> pd.DataFrame:
        from hermes_nb.traces.columns import to_pandas  # noqa: PLC0415  loads pandas

        return to_pandas(self.table(name, content=content))

    def spans_df(self, *, content: bool = False) -> pd.DataFrame:
        """One row per span, other tools' too.

        Args:
            content: Put what was said among the attributes too.
        """
        return self._frame("spans", content=content)

    def turns_df(self) -> pd.DataFrame:
        """One row per turn, sub-agents' too."""
        return self._frame("turns")

    def iterations_df(self) -> pd.DataFrame:
        """One row per pass of the loop."""
        return self._frame("iterations")

    def chats_df(self) -> pd.DataFrame:
        """One row per call of one model with all its attempts."""
        return self._frame("chats")

    def attempts_df(self) -> pd.DataFrame:
        """One row per request to a model server."""
        return self._frame("attempts")

    def retries_df(self) -> pd.DataFrame:
        """One row per decision to try again, with its wait."""
        return self._frame("retries")

    def fallbacks_df(self) -> pd.DataFrame:
        """One row per switch of provider."""
        return self._frame("fallbacks")

    def compressions_df(self) -> pd.DataFrame:
        """One row per compression of the history."""
        return self._frame("compressions")

    def refunds_df(self) -> pd.DataFrame:
        """One row per iteration given back."""
        return self._frame("refunds")

    def tool_calls_df(self) -> pd.DataFrame:
        """One row per tool run."""
        return self._frame("tool_calls")

    def budget_df(self) -> pd.DataFrame:
        """One row per change of an iteration budget."""
        return self._frame("budget")

    def messages_df(self) -> pd.DataFrame:
        """One row per part of a message; each message once, under the call in which it was first seen."""
        return self._frame("messages")

    def events_df(self) -> pd.DataFrame:
        """One row per event of a span or log record."""
        return self._frame("events")

    def links_df(self) -> pd.DataFrame:
        """One row per link from a span to another."""
        return self._frame("links")

    def metrics_df(self) -> pd.DataFrame:
        """One row per data point of a metric."""
        return self._frame("metrics")

    def attributes_df(self) -> pd.DataFrame:
        """One row per attribute of a span, what was said left out."""
        return self._frame("spans_attributes")

    def attribute(self, name: str) -> pd.Series[Any]:
        """One attribute of all spans that have it, by span id.

        Args:
            name: The attribute's name, such as `hermes.setting.temperature`.

        Returns:
            A series with the name of the attribute; numbers as `Float64` or `Int64`, truth values as `boolean`,
            anything else as text.
        """
        from hermes_nb.traces.columns import attribute  # noqa: PLC0415  loads pandas

        return attribute(self.analysis(), name)

    # ------------------------------------------------------------------------------------------ files

    def to_parquet(self, folder: str | PathLike[str], *, content: bool = False) -> None:
        """Write every frame into a folder of Parquet files, partitioned by day, for `load` and any other tool.

        A folder may collect many traces; a trace that is there already is replaced.

        Args:
            folder: Where; made if it is not there.
            content: Write what was said too.
        """
        from pathlib import Path  # noqa: PLC0415  with the writer

        from hermes_nb.traces import parquet  # noqa: PLC0415  loads pyarrow

        parquet.write(self.analysis(), Path(folder).expanduser(), content=content)

    def to_otlp_json(self, path: str | PathLike[str], *, content: bool = False) -> None:
        """Write the spans as OTLP JSON lines, for any viewer of OpenTelemetry.

        Args:
            path: The file; replaced if it is there.
            content: Write what was said too.
        """
        from hermes_nb.traces import export  # noqa: PLC0415  loads pyarrow

        export.to_otlp_json(self.analysis().tables, path, content=content)

    def to_html(self, path: str | PathLike[str], *, content: bool = False) -> None:
        """Write one self-contained page: the turns, the span trees, the pictures.

        Args:
            path: The file; replaced if it is there.
            content: Show what was said too.
        """
        from hermes_nb.traces import export  # noqa: PLC0415  loads matplotlib

        export.to_html(self, path, content=content)

    # ------------------------------------------------------------------------------------------ pictures

    @property
    def plot(self) -> TurnPlots | TracesPlots:
        """Pictures; needs matplotlib."""
        raise NotImplementedError

    def span_rows(self) -> list[SpanRow]:
        """The spans in the order of their start, as neutral rows."""
        return list(self.analysis().tables.span_rows())

    def text_tree(self) -> str:
        """The spans as an indented tree, one line each, with their durations."""
        return text_tree(self.span_rows())


class Trace(Frames):
    """How one turn went, its sub-agents' turns included; of a running turn, how it has gone so far.

    Made by `Trace.live` (a run's `.trace`) or by `Traces.trace`.

    Attributes:
        turn_id: The turn.
    """

    def __init__(self, turn_id: str, source: TurnSource) -> None:
        self.turn_id = turn_id
        self._source = source
        self._ended: Analysis | None = None

    @classmethod
    def live(cls, store: LiveStore, turn_id: str) -> Self:
        """The trace of a turn of this process.

        Args:
            store: Where its spans are kept.
            turn_id: The turn.
        """
        return cls(turn_id, Live(store, turn_id))

    def analysis(self) -> Analysis:
        """The spans in order and their tree; of a running turn, a new one each time."""
        if self._ended is not None:
            return self._ended
        from hermes_nb.traces.analysis import Analysis  # noqa: PLC0415  loads pyarrow

        found = Analysis(self._source.tables(), self._source.now())
        if len(found) and found.ended.all():
            self._ended = found
        return found

    @property
    def plot(self) -> TurnPlots:
        """Pictures: `timeline()`, `budget()`, `tokens()`, `attempts()`; needs matplotlib."""
        from hermes_nb.traces.plots import TurnPlots  # noqa: PLC0415  loads matplotlib

        return TurnPlots(self)

    def span_rows(self) -> list[SpanRow]:
        """The spans in the order of their start, as neutral rows."""
        return list(self._source.span_rows())

    def __repr__(self) -> str:
        """The span tree in words."""
        return self.text_tree() or f"<Trace of turn {self.turn_id!r}, no spans yet>"

    def _repr_html_(self) -> str:
        return html_tree(self.span_rows())


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
        return Trace(turn_id, Stored(self.analysis().turn(turn_id)))

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
        rows = [["" if value is None else value for value in row.values()] for row in shown]
        return f"<p>{escape(repr(self))}</p>{html_table(_LISTED, rows)}{more}"


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
        ConfigurationError: A time that is none.
    """
    from hermes_nb.traces.readers.loading import read  # noqa: PLC0415  loads pyarrow

    wanted = Selection(conversation_id, nanoseconds(since, "since"), nanoseconds(until, "until"), limit)
    loaded = read(source, wanted, content=content)
    again = partial(load, source, content=True, conversation_id=conversation_id, since=since, until=until, limit=limit)
    is_whole = content or hasattr(source, "read")
    return Traces(loaded.tables, loaded.report, spans=loaded.spans, again=None if is_whole else again)


def concat(traces: Iterable[Trace | Traces]) -> Traces:
    """Traces put together; columns, dtypes and their order stay, categories are united."""
    from hermes_nb.traces import merging  # noqa: PLC0415  loads pyarrow

    parts = list(traces)
    tables, repeated = merging.once(merging.concat([part.analysis().tables for part in parts]))
    report = sum((part._report for part in parts if isinstance(part, Traces)), Report())  # noqa: SLF001  same family
    if repeated:
        report.notes.append(f"{repeated:,} records of spans that are there twice were dropped")
    return Traces(lambda: tables, report)


_LISTED = ("turn_id", "agent_name", "start_time", "duration", "exit_reason", "iterations", "tool_calls", "retries",
           "input_tokens", "output_tokens")  # fmt: skip
