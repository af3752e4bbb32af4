"""Reading the file: histories of conversations, and the events of turns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hermes_nb.logbook import codec
from hermes_nb.logbook.records import Conversation, Row
from hermes_nb.logbook.repair import sendable, unanswered
from hermes_nb.logbook.schema import TURN
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hermes_nb.logbook.repair import Fate
    from hermes_nb.logbook.writer import TurnWriter
    from hermes_nb.vocabulary.messages import Message

NEWEST = 2**63 - 1
"""A row after all rows."""

OF_CONVERSATION = """
FROM turns JOIN conversations ON conversations.id = turns.conversation
WHERE conversations.name = ? AND turns.parent = ''
"""


class Reader:
    """Reads one open file.

    Args:
        connection: The file; None reads as an empty one.
    """

    def __init__(self, connection: sqlite3.Connection | None) -> None:
        self._db = connection
        self._texts: dict[str, str | None] = {}
        self._rows: dict[int, Row] = {}

    def query(self, sql: str, *arguments: object) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return self._db.execute(sql, arguments).fetchall() if self._db is not None else []

    def message(self, row: int) -> Message:
        """The message of a row."""
        return self.row(row).message

    def row(self, row: int) -> Row:
        """A row of a message."""
        if row not in self._rows:
            ((seq, data),) = self.query("SELECT seq, data FROM messages WHERE id = ?", row)
            self._rows[row] = Row(row, seq, codec.message(self.loads(data)))
        return self._rows[row]

    def loads(self, text: str) -> Any:
        """The value of a JSON text of the file."""
        return codec.loads(text, self._text)

    def _text(self, digest: str) -> str | None:
        if digest not in self._texts:
            found = self.query("SELECT text FROM texts WHERE digest = ?", digest)
            self._texts[digest] = found[0][0].decode("utf-8", "surrogatepass") if found else None
        return self._texts[digest]

    # ------------------------------------------------------------------------------------- histories

    def history(self, conversation_id: str, before: int = NEWEST) -> list[Row]:
        """The messages that are part of a conversation, or were when the row `before` was written."""
        last = self.query(
            "SELECT histories.after, histories.kept FROM histories JOIN turns ON turns.id = histories.after >> 32"
            " JOIN conversations ON conversations.id = histories.conversation"
            " WHERE conversations.name = ? AND turns.parent = '' AND after < ? ORDER BY histories.id DESC LIMIT 1",
            conversation_id,
            before,
        )
        after, kept = (last[0][0], json.loads(last[0][1])) if last else (0, [])
        return [self.row(row) for row in kept] + self.transcript(conversation_id, after, before)

    def transcript(self, conversation_id: str, after: int = 0, before: int = NEWEST) -> list[Row]:
        """All messages that ever were part of a conversation, in the order in which they came."""
        found = self.query(
            "SELECT messages.id, seq, data FROM (SELECT turns.id << 32 AS base " + OF_CONVERSATION + ")"  # noqa: S608  a constant
            " JOIN messages ON messages.id BETWEEN base AND base + 4294967295"
            " WHERE messages.ephemeral = 0 AND messages.id > ? AND messages.id < ? ORDER BY messages.id",
            conversation_id,
            after,
            before,
        )
        return [Row(row, seq, codec.message(self.loads(data))) for row, seq, data in found]

    def begun_calls(self, turns: Iterable[int]) -> set[str]:
        """Ids of the tool calls that were begun in these turns."""
        return {
            data["call_id"]
            for turn in turns
            for _seq, phase, *_rest, kind, _interrupted, data in self._events(turn)
            if kind == events.Tool.kind and phase == "started"
        }

    def rows_at(self, turn_id: str, iteration: int) -> tuple[list[Row], int, int]:
        """The conversation as it was at the end of an iteration of a turn, its number, and its newest message's row.

        Raises:
            ConfigurationError: There is no such turn or iteration.
        """
        found = self.query(
            "SELECT turns.id, conversations.id, conversations.name FROM turns JOIN conversations"
            " ON conversations.id = turns.conversation WHERE turns.name = ? AND turns.parent = ''",
            turn_id,
        )
        known = [event for turn, *_ in found for event in self._events(turn)]
        last = max((event[3] for event in known), default=0)
        numbers = [event[-1]["row"] for event in known if event[6] == "message" and event[3] <= iteration]
        if not numbers or not 0 <= iteration <= last:
            msg = f"turn {turn_id} has no iteration {iteration} to go back to; it has {last}" if found else (
                f"there is no turn {turn_id!r} in the logbook"
            )  # fmt: skip
            raise ConfigurationError(msg)
        ((turn, conversation, name),) = found
        newest = max(row.id for row in self.transcript(name))
        return self.history(name, (turn << TURN | max(numbers)) + 1), conversation, newest

    def system_prompts(self, conversation_id: str) -> dict[str, str]:
        """The system prompt that a conversation last used, for each identity."""
        found = self.query(
            "SELECT prompts.identity, prompts.text FROM prompts JOIN turns ON turns.id = prompts.turn"
            " JOIN conversations ON conversations.id = prompts.conversation"
            " WHERE conversations.name = ? AND turns.parent = '' ORDER BY prompts.id",
            conversation_id,
        )
        return {identity: self.loads(text) for identity, text in found}

    # ---------------------------------------------------------------------------------------- events

    def events(self, turn_id: str) -> Iterator[events.Event]:
        """The events of a turn, in order; kinds that this version does not know are left out."""
        for turn, conversation_id in self.query(
            "SELECT turns.id, conversations.name FROM turns JOIN conversations"
            " ON conversations.id = turns.conversation WHERE turns.name = ?",
            turn_id,
        ):
            revive = Revival(self.message, turn << TURN)
            for seq, phase, at, iteration, scope, parent, kind, interrupted, data in self._events(turn):
                what = revive(phase, scope, kind, data)
                if what is not None:
                    yield events.Event(
                        seq, phase, at, turn_id, conversation_id, iteration, scope, parent, what, bool(interrupted)
                    )

    def _events(self, turn: int) -> Iterator[list[Any]]:
        for (chunk,) in self.query(
            "SELECT events FROM chunks WHERE id BETWEEN ? AND ? ORDER BY id", turn << TURN, ((turn + 1) << TURN) - 1
        ):
            yield from self.loads(chunk)


class Revival:
    """Builds what happened from the fields that were kept of it.

    Args:
        row: Gives the message of a row.
        base: What the ids of the turn's rows have in common.
    """

    def __init__(self, row: Callable[[int], Message], base: int) -> None:
        self._row = row
        self._base = base
        self._open: dict[int, Any] = {}
        self._sent: tuple[Message, ...] = ()

    def __call__(self, phase: events.Phase, scope: int, kind: str, data: dict[str, Any]) -> Any:
        """What happened; None for a kind that is not known."""
        cls = codec.KINDS.get(kind)
        if cls is None:
            return None
        if phase == "ended" and scope in self._open:
            begun = self._open.pop(scope)
            changes = {name: codec.revive(cls, name, value) for name, value in data.items() if hasattr(begun, name)}
            return replace(begun, **changes)
        if cls is events.MessageAdded:
            return events.MessageAdded(self._message(data.pop("row")), **data)
        if cls is events.HistoryReplaced:
            return events.HistoryReplaced(tuple(map(self._message, data["rows"])))
        sent = data.pop("sent", None)
        what = codec.build(cls, data)
        if sent is not None:
            what.messages = self._sent = self._sent[: sent[0]] + tuple(map(self._reference, sent[1]))
        if phase == "started":
            self._open[scope] = what
        return what

    def _message(self, number: int) -> Message:
        return self._row(number if number >> TURN else self._base | number)

    def _reference(self, reference: Any) -> Message:
        return self._message(reference) if isinstance(reference, int) else codec.message(reference)


def read_conversation(
    reader: Reader, conversation_id: str, unsaved: Sequence[TurnWriter] = (), before: int = NEWEST
) -> Conversation:
    """What the next turn needs, from the file and from what waits in memory because the file could not be written."""
    turns = reader.query(
        "SELECT turns.id, turns.name, ended_at, failed " + OF_CONVERSATION + " ORDER BY turns.id", conversation_id
    )
    last = turns[-1][0] if turns else 0
    names = {turn: name for turn, name, _ended, _failed in turns}
    fates = {turn: _fate(ended, failed) for turn, _name, ended, failed in turns}
    rows, system_prompts = reader.history(conversation_id, before), reader.system_prompts(conversation_id)
    for turn, writer in enumerate(unsaved, last + 1):
        number = turn if writer.row is None else writer.row
        rows = writer.applied_to(rows, number << TURN)
        names[number] = writer.turn_id
        fates[number] = _fate(writer.ended_at, writer.begun.failed)
        system_prompts |= dict(writer.prompts)
    open_calls = unanswered([row.message for row in rows])
    cut_off = {row.id >> TURN for row in rows if any(call.id in open_calls for call in row.message.tool_calls)}
    begun = reader.begun_calls(cut_off).union(*(writer.begun_calls for writer in unsaved))
    return Conversation(
        sendable(rows, {turn: fate for turn, fate in fates.items() if fate is not None}, begun),
        {row.message: row.id for row in rows if row.id >> TURN <= last and isinstance(row.message.content, str)},
        len(names),
        next(reversed(names.values()), ""),
        system_prompts,
    )


def _fate(ended_at: int | None, failed: int) -> Fate | None:
    if ended_at is None:
        return "cut off"
    return "failed" if failed else None
