"""The frames of a study: one row for each case, and every frame of a trace over all of its turns."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hermes_nb.lab.casework import COUNTS, about
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pandas as pd

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Place
    from hermes_nb.lab.contrasts import Contrast
    from hermes_nb.lab.journal import Journal
    from hermes_nb.traces import Trace, Traces

FIXED = (
    "turn_id", "conversation_id", "exit_reason", "completed", "failed", "interrupted", "text", "provider", "model",
    *COUNTS, "budget_limit", "budget_used", "input_tokens", "output_tokens", "total_tokens", "cost_usd", "seconds",
    "score", "error", "worker", "fingerprint",
)  # fmt: skip
"""The columns of every study, behind the prompt, its labels and the settings."""

_TOKENS = ("input_tokens", "output_tokens", "total_tokens")
_KINDS = {
    "Int64": (*COUNTS, *_TOKENS, "repeat", "seed", "budget_limit", "budget_used"),
    "Float64": ("cost_usd", "seconds"),
    "boolean": ("completed", "failed", "interrupted"),
    "category": ("exit_reason",),
}


class StudyFrames:
    """The frames; the common part of a study that runs and one that is over."""

    def __init__(self, place: Place, journal: Journal, cases: Sequence[Case]) -> None:
        self._place = place
        self._journal = journal
        self._known = {case.id: about(case) for case in cases}
        self._columns = [*dict.fromkeys(name for known in self._known.values() for name in known)]
        self._axes = [*dict.fromkeys(name for case in cases for name in case.settings)]
        _check_labels({name for case in cases for name in case.labels})

    @property
    def settings(self) -> list[str]:
        """The settings that vary: columns of the frames."""
        return list(self._axes)

    def turns_df(self) -> pd.DataFrame:
        """One row for each case whose turn is over, failed ones too: what it was, how it ended, what it took."""
        import pandas as pd  # noqa: PLC0415  heavy; loaded on first use

        rows = [row for case_id, row in self._journal.rows().items() if case_id in self._known]
        extra = sorted({name for row in rows for name in row} - {*self._columns, *FIXED})
        frame = pd.DataFrame(rows, columns=[*self._columns, *FIXED, *extra])
        kinds = {name: kind for kind, names in _KINDS.items() for name in names}
        if pd.api.types.is_numeric_dtype(frame["score"]) or frame["score"].isna().all():
            kinds["score"] = "Float64"
        order = {case_id: place for place, case_id in enumerate(self._known)}
        frame = frame.astype(kinds)
        return frame.sort_values("case_id", key=lambda ids: ids.map(order)).reset_index(drop=True)

    @property
    def logbooks(self) -> list[Path]:
        """The files in which the turns are kept: one for each process that ran some."""
        return self._place.logbooks()

    @property
    def traces(self) -> Traces:
        """The traces of all turns that the logbooks have, also of those that a dead kernel left unfinished."""
        from hermes_nb.traces import load  # noqa: PLC0415  heavy; loaded on first use

        return load([str(path) for path in self.logbooks])

    def trace(self, name: str) -> Trace:
        """The trace of one turn, with all that was said.

        Args:
            name: A `case_id`, or a `turn_id`.

        Raises:
            ValueError: There is no such turn.
        """
        row = self._journal.rows().get(name, {})
        return self.traces.with_content().trace(row.get("turn_id") or name)

    def frame(self, name: str) -> pd.DataFrame:
        """A frame of the traces with the columns of the cases in front; turns that were begun anew are left out.

        Args:
            name: As in `hermes_nb.traces.catalogue.FRAMES`: `iterations`, `tool_calls`, ...
        """
        from hermes_nb.lab.parts import framed  # noqa: PLC0415  heavy; loaded on first use

        return framed(self.logbooks, name, self._counted())

    def _counted(self) -> pd.DataFrame:
        """The case, settings and repeat of each conversation that counts, by its id."""
        import pandas as pd  # noqa: PLC0415  heavy; loaded on first use

        known = pd.DataFrame(list(self._known.values()), columns=["case_id", *self._axes, "repeat"])
        ran = {row["case_id"]: row.get("conversation_id") for row in self._journal.rows().values()}
        ids = known["case_id"].map(ran).rename("conversation_id")
        return known[ids.notna()].set_index(ids[ids.notna()].astype("str"))

    def to_dask(self, name: str = "turns") -> Any:
        """A frame as a `dask.dataframe.DataFrame`, of the cases that are over by now.

        Args:
            name: `turns` for one row for each case, as in `turns_df()`; others as in `frame()`: those have a partition
                for each process that ran cases, read from its logbook by Dask's workers, with text for categories.

        Raises:
            ConfigurationError: Dask is not installed.
        """
        try:
            dask: Any = import_module("dask.dataframe")  # an extra
        except ImportError as error:
            msg = "to_dask() needs Dask: pip install 'hermes-nb[distributed]'"
            raise ConfigurationError(msg) from error
        from hermes_nb.lab.parts import partition  # noqa: PLC0415

        if name == "turns":
            return dask.from_pandas(self.turns_df(), npartitions=max(1, len(self.logbooks)))
        counted, parts = self._counted(), [[path] for path in self.logbooks] or [[]]
        return dask.from_map(partition, parts, name=name, counted=counted, meta=partition([], name, counted))

    def to_parquet(self, folder: str | os.PathLike[str], *, content: bool = False) -> None:
        """Write the cases and every frame of their traces into a folder of Parquet files, one logbook after the other.

        The cases stand in `cases/`, one row for each; the rest is as `Traces.to_parquet` writes it, for `hn.load` and
        any other tool. What turns have that were begun and lost is there too.

        Args:
            folder: Where; made if it is not there.
            content: Write what was said too.
        """
        from pathlib import Path  # noqa: PLC0415  with the writer

        from hermes_nb.lab.parts import write_cases  # noqa: PLC0415  heavy; loaded on first use
        from hermes_nb.traces import load  # noqa: PLC0415

        place = Path(folder).expanduser()
        write_cases(self.turns_df(), place / "cases" / f"{self._place.path.stem}.parquet")
        for path in self.logbooks:
            load(str(path), content=content).to_parquet(place, content=content)

    def iterations_df(self) -> pd.DataFrame:
        """The iterations of all turns."""
        return self.frame("iterations")

    def chats_df(self) -> pd.DataFrame:
        """The model calls of all turns."""
        return self.frame("chats")

    def attempts_df(self) -> pd.DataFrame:
        """The requests of all turns."""
        return self.frame("attempts")

    def retries_df(self) -> pd.DataFrame:
        """The retries of all turns."""
        return self.frame("retries")

    def fallbacks_df(self) -> pd.DataFrame:
        """The switches of provider of all turns."""
        return self.frame("fallbacks")

    def compressions_df(self) -> pd.DataFrame:
        """The compressions of all turns."""
        return self.frame("compressions")

    def refunds_df(self) -> pd.DataFrame:
        """The refunds of all turns."""
        return self.frame("refunds")

    def tool_calls_df(self) -> pd.DataFrame:
        """The tool calls of all turns."""
        return self.frame("tool_calls")

    def budget_df(self) -> pd.DataFrame:
        """The changes of the budgets of all turns."""
        return self.frame("budget")

    def messages_df(self) -> pd.DataFrame:
        """The messages of all turns."""
        return self.frame("messages")

    def events_df(self) -> pd.DataFrame:
        """The events on the spans of all turns."""
        return self.frame("events")

    def spans_df(self) -> pd.DataFrame:
        """The spans of all turns."""
        return self.frame("spans")

    def compare(self, setting: str, measure: str | Sequence[str] | None = None, *, baseline: Any = None) -> Contrast:
        """What a setting changes: paired differences over cases that are equal in all else.

        Args:
            setting: A column that was varied.
            measure: Columns to compare; those that turns usually have if left out.
            baseline: The value that the others are compared with; the first one if left out.

        Returns:
            The differences with bootstrap confidence intervals and effect sizes; `.frame` and `.plot()`.

        Raises:
            ConfigurationError: There is no such setting, measure or baseline.
        """
        from hermes_nb.lab.contrasts import compare_setting  # noqa: PLC0415  heavy; loaded on first use

        return compare_setting(self.turns_df(), setting, self._columns, measure, baseline)


def _check_labels(labels: Iterable[str]) -> None:
    """Refuse labels that would stand in the place of a column of the study.

    Raises:
        ConfigurationError: There is one.
    """
    if taken := sorted({"case_id", "repeat", "seed", *FIXED} & set(labels)):
        msg = f"a study has a column {taken[0]!r} of its own; rename that column of your cases"
        raise ConfigurationError(msg)
