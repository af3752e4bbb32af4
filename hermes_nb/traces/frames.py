"""What `Trace` and `Traces` have in common: the frames, the files, the tree.

Nothing heavy is imported here: pandas, pyarrow and matplotlib load with the first frame or picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.traces.drawing import text_tree

if TYPE_CHECKING:
    from os import PathLike

    import pandas as pd
    import pyarrow as pa

    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.plots import TracesPlots, TurnPlots
    from hermes_nb.traces.rows import SpanRow


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
        """Write spans, log records and metrics as OTLP JSON lines, for any viewer of OpenTelemetry.

        Args:
            path: The file; replaced if it is there.
            content: Write what was said too.
        """
        from hermes_nb.traces import otlp_lines  # noqa: PLC0415  loads pyarrow

        otlp_lines.to_otlp_json(self.analysis().tables, path, content=content)

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
