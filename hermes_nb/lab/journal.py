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
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from hermes_nb.lab.cases import Case
    from hermes_nb.lab.casework import Place, Row
    from hermes_nb.lab.fingerprint import Settings
    from hermes_nb.lab.scoring import Scorer
    from hermes_nb.logbook.records import TurnRecord
    from hermes_nb.vocabulary.events import Event


class Journal:
    """Appends rows, and reads them; what the disk does not take is kept in memory, and tried again with the next row.

    Args:
        place: The study's files.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._lock = threading.Lock()
        self._unwritten: list[str] = []

    @property
    def path(self) -> Path:
        """The study's logbook."""
        return self._place.path

    def add(self, row: Row) -> None:
        """Keep a row; it takes the place of an earlier one of the same case."""
        self._keep(row)

    def add_agents(self, agents: Mapping[str, Settings]) -> None:
        """Keep what agents were, by their fingerprints."""
        for name, settings in agents.items():
            self._keep({"agent": name, "settings": settings})

    def agents(self) -> dict[str, Settings]:
        """What the agents were that worked for the study, by their fingerprints."""
        return {line["agent"]: line["settings"] for line in self._lines() if "case_id" not in line}

    def _keep(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._unwritten.append(unicode_only(json.dumps(line, default=repr, ensure_ascii=False)))
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
        lines = (*self._lines(), *map(json.loads, unwritten))
        return {line["case_id"]: line for line in lines if "case_id" in line}

    def _lines(self) -> Iterator[dict[str, Any]]:
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
                if isinstance(row, dict) and ("case_id" in row or isinstance(row.get("settings"), dict)):
                    yield row

    def finished(self, cases: Mapping[str, Case], score: Scorer | None) -> dict[str, Row]:
        """The rows of the cases that need not run again; those that a logbook has and the rows miss are added."""
        known = {case_id: row for case_id, row in self.rows().items() if case_id in cases and is_final(row)}
        missing = {name: case for name, case in cases.items() if name not in known}
        kept = {row["case_id"]: row for row in kept_rows(self._place, missing, score)}  # the newest of each case
        for row in kept.values():
            self.add(row)
        return known | kept


def kept_rows(place: Place, cases: Mapping[str, Case], score: Scorer | None) -> Iterator[Row]:
    """The rows of those cases that ended, out of the logbooks."""
    for logbook in map(Logbook, place.logbooks()):
        with logbook:
            for turn in logbook.turns():
                case = cases.get(turn.conversation_id.rpartition("-")[0])
                if case is None or turn.parent_turn_id or turn.ended_at is None:
                    continue
                told = logbook.events(turn.id)
                ended = next(event.what for event in reversed(told) if isinstance(event.what, events.Turn))
                row = row_of(case, _result(logbook, turn, told, ended), score)
                if is_final(row):
                    yield row | {"fingerprint": ended.metadata.get("fingerprint")}


def _result(logbook: Logbook, record: TurnRecord, told: Sequence[Event], turn: events.Turn) -> TurnResult:
    """The result of a turn that a logbook has, as far as its events tell of it."""
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
