"""`Trace`: how one turn went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from hermes_nb.traces.frames import Frames
from hermes_nb.traces.pages import html_tree
from hermes_nb.traces.sources import Live, Stored

if TYPE_CHECKING:
    import pyarrow as pa

    from hermes_nb.telemetry.store import LiveStore
    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.plots import TurnPlots
    from hermes_nb.traces.rows import SpanRow
    from hermes_nb.traces.sources import TurnSource


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

        found = Analysis(self._source.tables(content=False), self._source.now())
        if len(found) and found.ended.all():
            self._ended = found
        return found

    def table(self, name: str, *, content: bool = False) -> pa.Table:
        """A frame as an Arrow table, for polars, DuckDB and others; see `Frames.table`."""
        whole = self.with_content() if content or name == "messages" else self
        return super(Trace, whole).table(name, content=content)

    def with_content(self) -> Trace:
        """The same with what was said: read again, if it was left out when it was loaded."""
        if self.analysis().tables.content:
            return self
        return Trace(self.turn_id, Stored(self._source.tables(content=True), None))

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
        return (
            self.text_tree() or f"<Trace of turn {self.turn_id!r}, {'; '.join(self._source.notes()) or 'no spans yet'}>"
        )

    def _repr_html_(self) -> str:
        return html_tree(self.span_rows())
