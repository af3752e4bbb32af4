"""Sums over the spans of a turn or of an iteration, whole numbers kept whole."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hermes_nb.traces import forest
from hermes_nb.traces.builders.calls import USAGE, chat_fields
from hermes_nb.traces.columns import DURATION

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hermes_nb.traces.analysis import Analysis
    from hermes_nb.traces.forest import Rows


class Groups:
    """Spans by the group they belong to.

    Args:
        analysis: The spans.
        of: For each span the number of its group, -1 for none.
        count: How many groups there are.
    """

    def __init__(self, analysis: Analysis, of: Rows, count: int) -> None:
        self.analysis = analysis
        self.of = of
        self.count = count

    def number(self, rows: Rows) -> list[int]:
        """How many of these spans each group has."""
        numbers: list[int] = self._number(rows).tolist()
        return numbers

    def _number(self, rows: Rows) -> Rows:
        groups = self.of[rows]
        return np.bincount(groups[groups >= 0], minlength=self.count)

    def covered(self, *kinds: Rows) -> Rows:
        """Nanoseconds that these spans cover in each group, overlaps once."""
        rows = np.concatenate(kinds)
        return forest.covered(self.of[rows], self.analysis.start[rows], self.analysis.end[rows], self.count)

    @cached_property
    def requests(self) -> Rows:
        """The attempts; the chats of groups that have no attempts."""
        attempts, chats = self.analysis.of("attempt"), self.analysis.of("chat")
        bare = np.r_[self._number(attempts) == 0, False]  # the last place is that of -1, no group
        return np.concatenate([attempts, chats[bare[self.of[chats]]]])

    def first(self, rows: Rows) -> Rows:
        """The earliest of these spans in each group; -1 where it has none."""
        found = np.full(self.count + 1, -1, np.int64)  # the last place takes those without a group
        found[self.of[rows[::-1]]] = rows[::-1]
        return found[:-1]

    def last(self, rows: Rows) -> Rows:
        """The latest of these spans in each group; -1 where it has none."""
        found = np.full(self.count + 1, -1, np.int64)
        found[self.of[rows]] = rows
        return found[:-1]

    def latest_end(self) -> Rows:
        """The last moment known in each group, in nanoseconds."""
        latest = np.zeros(self.count + 1, np.int64)
        np.maximum.at(latest, self.of, self.analysis.end)
        return latest[:-1]

    def earliest_start(self) -> Rows:
        """The first moment known in each group, in nanoseconds."""
        earliest = np.full(self.count + 1, np.iinfo(np.int64).max)
        np.minimum.at(earliest, self.of, self.analysis.start)
        return earliest[:-1]

    def usage(self) -> dict[str, pa.Array]:
        """Tokens and cost of each group; a chat inside a chat is counted in the outer one only."""
        chats, said = self.analysis.of("chat"), self.analysis.once(chat_fields)
        counts = self.analysis.once(chats_that_count)
        return {name: self._sum(chats[counts], np.array(said[name], object)[counts]) for name in USAGE}

    def _sum(self, rows: Rows, values: NDArray[Any]) -> pa.Array:
        known = np.array([value is not None for value in values], bool) & (self.of[rows] >= 0)
        numbers: NDArray[Any] = np.array(values[known].tolist())
        kind = np.float64 if numbers.dtype.kind == "f" else np.int64
        total = np.zeros(self.count, kind)
        groups = self.of[rows][known]
        np.add.at(total, groups, numbers.astype(kind))
        return pa.array(total, mask=np.bincount(groups, minlength=self.count) == 0)


def chats_that_count(analysis: Analysis) -> NDArray[np.bool_]:
    """Which chats' usage counts: those not inside another chat that has usage of its own."""
    chats = analysis.of("chat")
    has_usage = np.zeros(len(analysis), bool)
    has_usage[chats] = [tokens is not None for tokens in analysis.once(chat_fields)["input_tokens"]]
    return analysis.above(has_usage)[chats] < 0


def durations(nanoseconds: Rows) -> pa.Array:
    """A column of durations."""
    return pa.array(nanoseconds).cast(DURATION)


def or_else(first: Any, second: Any) -> pa.Array:
    """The first column, filled from the second where it has nothing."""
    columns = [each if isinstance(each, pa.Array) else pa.array(each) for each in (first, second)]
    known = [each for each in columns if not pa.types.is_null(each.type)]
    return pc.coalesce(*known) if known else columns[0]
