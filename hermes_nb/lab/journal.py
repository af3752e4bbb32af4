"""The rows of a study on disk: one line for each case that ended, found again after the death of a kernel."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from hermes_nb.lab.casework import is_final, row_of
from hermes_nb.logbook import Logbook
from hermes_nb.turn.result import ExitReason, TurnResult
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.budget import BudgetView
from hermes_nb.vocabulary.messages import Usage
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Place, Row
    from hermes_nb.lab.scoring import Scorer
    from hermes_nb.logbook.records import TurnRecord


class Journal:
    """Appends rows, and reads them; what the disk does not take is kept in memory, and tried again with the next row.

    Args:
        place: The study's files.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._unwritten: list[str] = []

    def add(self, row: Row) -> None:
        """Keep a row; it takes the place of an earlier one of the same case."""
        with self._lock:
            self._unwritten.append(unicode_only(json.dumps(row, default=repr, ensure_ascii=False)))
            try:
                self._write()
            except OSError:
                return
            self._unwritten.clear()

    def _write(self) -> None:
        path = self._place.rows
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            size = file.seek(0, 2)
            if size:
                file.seek(size - 1)
                torn = file.read(1) != b"\n"  # the kernel died in the middle of a line
                file.write(b"\n" if torn else b"")
            file.write("".join(f"{line}\n" for line in self._unwritten).encode())

    def rows(self) -> dict[str, Row]:
        """The newest row of each case."""
        with self._lock:
            unwritten = list(self._unwritten)
        return {row["case_id"]: row for row in (*self._lines(), *map(json.loads, unwritten))}

    def _lines(self) -> Iterator[Row]:
        try:
            file = self._place.rows.open(encoding="utf-8", errors="replace")
        except OSError:  # none yet, or a disk that gives nothing: the logbook has the turns
            return
        with file:
            for line in file:
                try:
                    row = json.loads(line)
                except ValueError:  # a torn line
                    continue
                if isinstance(row, dict) and "case_id" in row:
                    yield row

    def finished(self, cases: Mapping[str, Case], score: Scorer | None) -> dict[str, Row]:
        """The rows of the cases that need not run again; those that a logbook has and the rows miss are added."""
        known = {case_id: row for case_id, row in self.rows().items() if case_id in cases and is_final(row)}
        for row in kept_rows(self._place, {name: case for name, case in cases.items() if name not in known}, score):
            if row["case_id"] not in known:
                known[row["case_id"]] = row
                self.add(row)
        return known


def kept_rows(place: Place, cases: Mapping[str, Case], score: Scorer | None) -> Iterator[Row]:
    """The rows of those cases that ended, out of the logbooks."""
    for logbook in map(Logbook, place.logbooks()):
        with logbook:
            for turn in logbook.turns():
                case = cases.get(turn.conversation_id.rpartition("-")[0])
                if case is None or turn.parent_turn_id or turn.ended_at is None:
                    continue
                row = row_of(case, _result(logbook, turn), score)
                if is_final(row):
                    yield row


def _result(logbook: Logbook, record: TurnRecord) -> TurnResult:
    """The result of a turn that a logbook has, as far as its events tell of it."""
    told = logbook.events(record.id)
    turn = next(event.what for event in reversed(told) if isinstance(event.what, events.Turn))
    chats = [event.what for event in told if isinstance(event.what, events.Chat) and event.what.reply]
    counts: dict[str, Any] = {name: getattr(turn, name) for name in _COUNTS}
    last = chats[-1] if chats else None
    return TurnResult(
        text=turn.text,
        messages=logbook.messages(record.conversation_id),
        exit_reason=ExitReason(turn.exit_reason),
        detail=turn.detail,
        usage=turn.usage or Usage(),
        budget=BudgetView(turn.budget_limit, turn.budget_used, turn.budget_remaining, turn.refunds, 0),
        turn_id=record.id,
        conversation_id=record.conversation_id,
        cost_usd=turn.cost_usd,
        provider=last.provider if last else turn.provider,
        model=(last.reply.model if last and last.reply else "") or turn.model,
        seconds=((record.ended_at or record.started_at) - record.started_at) / 1e9,
        **counts,
    )


_COUNTS = ("iterations", "api_calls", "refunds", "graces", "retries", "fallbacks", "compressions", "tool_calls")
