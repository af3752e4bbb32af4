"""`Trace` and `Traces`: how one turn or many turns went, as frames, trees, pictures and files.

Nothing heavy is imported here: pandas, pyarrow and matplotlib load with the first frame or picture.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Self

from hermes_nb.traces import sdk
from hermes_nb.traces.drawing import span_tree
from hermes_nb.traces.rows import SpanRow

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd
    import pyarrow as pa

    from hermes_nb.telemetry.store import LiveStore
    from hermes_nb.traces.analysis import Analysis


class _Frames:
    """The frames, for whatever has an analysis of its spans."""

    def _analysis(self) -> Analysis:
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
        return build(name, self._analysis(), content=content)

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
        """One row per part of a message."""
        return self._frame("messages")

    def events_df(self) -> pd.DataFrame:
        """One row per event of a span or log record."""
        return self._frame("events")

    def metrics_df(self) -> pd.DataFrame:
        """One row per data point of a metric."""
        return self._frame("metrics")


class Trace(_Frames):
    """How one turn went, its sub-agents' turns included; of a running turn, how it has gone so far.

    Attributes:
        turn_id: The turn.
    """

    def __init__(self, store: LiveStore, turn_id: str) -> None:
        self.turn_id = turn_id
        self._store = store

    @classmethod
    def live(cls, store: LiveStore, turn_id: str) -> Self:
        """The trace of a turn of this process.

        Args:
            store: Where its spans are kept.
            turn_id: The turn.
        """
        return cls(store, turn_id)

    def _rows(self) -> Iterable[NamedTuple]:
        return sdk.kept_rows(self._store.spans(self.turn_id))

    def _analysis(self) -> Analysis:
        from hermes_nb.traces.analysis import Analysis  # noqa: PLC0415  loads pyarrow
        from hermes_nb.traces.table import Builder  # noqa: PLC0415

        builder = Builder()
        builder.add(self._rows())
        return Analysis(builder.build(), time.time_ns())

    def span_rows(self) -> list[SpanRow]:
        """The spans in the order of their start, as neutral rows."""
        return [row for row in self._rows() if isinstance(row, SpanRow)]

    def text_tree(self) -> str:
        """The spans as an indented tree, one line each."""
        return span_tree(self)
