"""The tree of spans from flat columns: parents, depths, nearest ancestors, self time; all at once, with numpy.

Hostile input is welcome: absent parents make a span a root, and a span that is its own ancestor is cut loose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows: TypeAlias = NDArray[np.int64]
    """Row numbers; -1 for none."""


def codes(values: pa.Array | pa.ChunkedArray) -> Rows:
    """A number for each distinct value; -1 for a missing one."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    found: Rows = pc.fill_null(values.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def find(
    trace_id: pa.ChunkedArray, span_id: pa.ChunkedArray, in_traces: pa.ChunkedArray, in_spans: pa.ChunkedArray
) -> Rows:
    """For each pair of ids the first row of the table with the same two ids; -1 where there is none."""
    wanted, rows = len(span_id), len(in_spans)
    traces, spans = codes(_joined(trace_id, in_traces)), codes(_joined(span_id, in_spans))
    spread = spans.max(initial=0) + 2  # a missing id, -1, must not meet its neighbour
    both = traces * spread + spans
    if not rows:
        return np.full(wanted, -1, np.int64)
    keys, first = np.unique(both[wanted:], return_index=True)
    places = np.searchsorted(keys, both[:wanted]).clip(max=len(keys) - 1)
    return np.where((spans[:wanted] >= 0) & (keys[places] == both[:wanted]), first[places], -1)


def _joined(first: pa.ChunkedArray, second: pa.ChunkedArray) -> pa.ChunkedArray:
    return pa.chunked_array([*first.chunks, *second.chunks], second.type)


def find_parents(trace_id: pa.ChunkedArray, span_id: pa.ChunkedArray, parent_span_id: pa.ChunkedArray) -> Rows:
    """The row of each span's parent: the first span with that id in the same trace."""
    parents = find(trace_id, parent_span_id, trace_id, span_id)
    parents[parents == np.arange(len(parents))] = -1
    return _cut_cycles(parents)


def _climb(jump: Rows) -> tuple[Rows, Rows]:
    """For each row the top that is reached from it, and the number of steps; by doubling the steps each round."""
    steps = (jump >= 0).astype(np.int64)
    top = np.where(jump < 0, np.arange(len(jump)), jump)
    for _ in range(max(len(jump), 1).bit_length() + 1):
        further = top[top]
        if np.array_equal(further, top):
            break
        steps, top = steps + steps[top], further
    return top, steps


def _cut_cycles(parents: Rows) -> Rows:
    top, _ = _climb(parents)
    astray = parents[top] >= 0
    if astray.any():
        parents = parents.copy()
        parents[np.unique(top[astray])] = -1
        return _cut_cycles(parents)
    return parents


def depths(parents: Rows) -> Rows:
    """How many spans are above each."""
    return _climb(parents)[1]


def nearest(parents: Rows, marked: NDArray[np.bool_]) -> Rows:
    """The row of the nearest marked span, from each span itself upwards; -1 where there is none."""
    top, _ = _climb(np.where(marked, -1, parents))
    return np.where(marked[top], top, -1) if len(top) else top


def covered(owner: Rows, start: Rows, end: Rows, owners: int) -> Rows:
    """Nanoseconds that the intervals of each owner cover together, overlaps once.

    Args:
        owner: For each interval who it belongs to, from 0 to `owners`; -1 for nobody.
        start: Starts.
        end: Ends; one before its start counts as empty.
        owners: How many there are.
    """
    out = np.zeros(owners, np.int64)
    kept = np.flatnonzero((owner >= 0) & (end > start))
    order = kept[np.lexsort((start[kept], owner[kept]))]
    if not len(order):
        return out
    owner, start, end = owner[order], start[order], end[order]
    head = np.r_[True, owner[1:] != owner[:-1]]
    reached = _running_maximum(end, np.cumsum(head) - 1)
    before = np.where(head, start, np.r_[start[:1], reached[:-1]])
    new = np.maximum(end - np.maximum(start, before), 0)
    firsts = np.flatnonzero(head)
    out[owner[firsts]] = np.add.reduceat(new, firsts)
    return out


def _running_maximum(values: Rows, group: Rows) -> Rows:
    """The largest value so far within each group; groups stand together."""
    rank = np.empty(len(values), np.int64)
    order = np.argsort(values, kind="stable")
    rank[order] = np.arange(len(values))
    lifted = np.maximum.accumulate(rank + group * len(values))
    return values[order[lifted - group * len(values)]]
