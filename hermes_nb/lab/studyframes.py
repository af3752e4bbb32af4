"""The frames of a study: one row for each case, and every frame of a trace over all of its turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hermes_nb.lab.casework import COUNTS, about
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Place
    from hermes_nb.lab.contrasts import Comparison
    from hermes_nb.lab.journal import Journal
    from hermes_nb.traces import Trace, Traces

FIXED = (
    "turn_id", "conversation_id", "exit_reason", "completed", "failed", "interrupted", "text", "provider", "model",
    *COUNTS, "budget_limit", "budget_used", "input_tokens", "output_tokens", "total_tokens", "cost_usd", "seconds",
    "score", "error", "worker",
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
        _check_names(self._columns)

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
        from hermes_nb.traces.columns import to_pandas  # noqa: PLC0415  heavy; loaded on first use

        rows = self._journal.rows()
        final = {row["conversation_id"]: case_id for case_id, row in rows.items() if row.get("conversation_id")}
        frame = to_pandas(self.traces.table(name))
        case_ids = frame["conversation_id"].map(final)
        kept = frame[case_ids.notna()].reset_index(drop=True)
        case_ids = case_ids[case_ids.notna()].reset_index(drop=True)
        for place, column in enumerate(["case_id", *self._axes, "repeat"]):
            values = case_ids.map(lambda case_id, column=column: self._known.get(case_id, {}).get(column))
            kept.insert(place, column if column not in kept else f"case_{column}", values)
        return kept

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

    def compare(self, setting: str, measure: str | Sequence[str] | None = None, *, baseline: Any = None) -> Comparison:
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


def _check_names(columns: Sequence[str]) -> None:
    """Refuse labels that would stand in the place of a column of the study.

    Raises:
        ConfigurationError: There is one.
    """
    if taken := [name for name in columns if name in FIXED]:
        msg = f"a study has a column {taken[0]!r} of its own; rename that column of your cases"
        raise ConfigurationError(msg)
