"""The logbook: messages and events of all turns, in one SQLite file."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from hermes_nb.logbook.reading import Reader, read_conversation
from hermes_nb.logbook.records import Conversation, ConversationRecord, Found, TurnRecord
from hermes_nb.logbook.sink import LogbookSink
from hermes_nb.logbook.store import Store
from hermes_nb.vocabulary.failures import UnreadableTrace
from hermes_nb.vocabulary.places import home

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from hermes_nb.vocabulary.events import Event
    from hermes_nb.vocabulary.messages import Message

_TURNS = """
SELECT turns.name, conversations.name, number, agent, provider, model, prompt, turns.started_at, ended_at, exit_reason,
       failed, detail, parent, previous, replay_of, run_id
FROM turns JOIN conversations ON conversations.id = turns.conversation
"""


class Logbook:
    """Messages and events of all turns, written as they happen, in one SQLite file.

    It may be read while turns run, from any thread and any process. Nothing is made on disk before the first turn.

    Args:
        path: The file; `logbook.db` in the user's data directory if left out (`HERMES_NB_HOME` moves that).
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path).expanduser() if path is not None else home() / "logbook.db"
        self.store = Store.of(self.path)

    def sink(self, on_trouble: Callable[[str], None] | None = None) -> LogbookSink:
        """A sink of events that writes them here.

        Args:
            on_trouble: Called with one sentence when the file cannot be written, once until it can be again.
        """
        return LogbookSink(self.store, on_trouble)

    # ------------------------------------------------------------------------------------- reading

    def conversations(self) -> tuple[ConversationRecord, ...]:
        """All conversations, the one with the newest turn last."""
        with self._reader() as reader:
            rows = reader.query(
                "SELECT conversations.name, conversations.started_at, count(*), min(number), prompt, max(turns.id)"
                " FROM conversations JOIN turns ON turns.conversation = conversations.id WHERE parent = ''"
                " GROUP BY conversations.id ORDER BY max(turns.id)"
            )
        return tuple(ConversationRecord(name, at, count, prompt) for name, at, count, _first, prompt, _last in rows)

    def turns(self, conversation_id: str | None = None) -> tuple[TurnRecord, ...]:
        """Turns in the order in which they began, sub-agents' turns included.

        Args:
            conversation_id: Only those of one conversation.
        """
        where = "" if conversation_id is None else "WHERE conversations.name = ?"
        arguments = () if conversation_id is None else (conversation_id,)
        with self._reader() as reader:
            rows = reader.query(f"{_TURNS} {where} ORDER BY turns.id", *arguments)
        return tuple(map(_turn, rows))

    def messages(self, conversation_id: str) -> tuple[Message, ...]:
        """The conversation as the next request carries it: every call answered, unanswered prompts left out."""
        return self.conversation(conversation_id).messages

    def conversation(self, conversation_id: str) -> Conversation:
        """All that the next turn of a conversation needs.

        Raises:
            UnreadableTrace: The file is damaged, and not all of the conversation is in memory.
        """
        with self.store.lock:
            try:
                with self._reader() as reader:
                    return read_conversation(reader, conversation_id, self.store.unsaved(conversation_id))
            except (sqlite3.Error, UnreadableTrace):
                unsaved = self.store.unsaved(conversation_id)
                if not unsaved or unsaved[0].row is not None or unsaved[0].begun.number > 1:
                    raise
                return read_conversation(Reader(None), conversation_id, unsaved)

    def history_before(self, turn_id: str) -> tuple[Message, ...]:
        """The conversation as a turn found it; nothing for the turn of a sub-agent."""
        with self._reader() as reader:
            found = reader.query(
                "SELECT conversations.name, min(messages.id) FROM turns JOIN conversations"
                " ON conversations.id = turns.conversation"
                " JOIN messages ON messages.id BETWEEN turns.id << 32 AND (turns.id << 32) + 4294967295 AND seq > 0"
                " WHERE turns.name = ? AND turns.parent = '' GROUP BY turns.id",
                turn_id,
            )
            return read_conversation(reader, found[0][0], before=found[0][1]).messages if found else ()

    def transcript(self, conversation_id: str) -> tuple[Message, ...]:
        """Everything that ever was part of the conversation, also what was compressed, or never answered."""
        with self._reader() as reader:
            return tuple(row.message for row in reader.transcript(conversation_id))

    def events(self, turn_id: str) -> tuple[Event, ...]:
        """The events of a turn in order; a scope without an end was open when the turn was looked at, or killed."""
        with self._reader() as reader:
            return tuple(reader.events(turn_id))

    def search(self, text: str, *, conversation_id: str | None = None, limit: int = 20) -> tuple[Found, ...]:
        """Messages that contain all words of a text, the best first.

        Args:
            text: Words, in any script; any part of a word is found. Words in double quotes belong together.
            conversation_id: Look in one conversation only.
            limit: Messages at most.
        """
        from hermes_nb.logbook.search import search  # noqa: PLC0415  few need it

        return search(self.store, text, conversation_id, limit)

    @contextmanager
    def _reader(self) -> Iterator[Reader]:
        with self.store.reading() as connection:
            yield Reader(connection)

    def rewind(self, turn_id: str, iteration: int) -> None:
        """Take a conversation back to the end of an iteration; what came later stays, and is not sent any more.

        Args:
            turn_id: A turn of the conversation.
            iteration: Of that turn; 0 for right after the prompt.

        Raises:
            ConfigurationError: There is no such turn or iteration.
        """
        with self._reader() as reader:
            rows, conversation, newest = reader.rows_at(turn_id, iteration)
        with self.store.transaction() as db:
            db.execute(
                "INSERT INTO histories (conversation, after, kept) VALUES (?, ?, ?)",
                (conversation, newest, json.dumps([row.id for row in rows])),
            )

    def close(self) -> None:
        """Write what waits, and close the file; it is opened again when it is needed."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        """Names the file."""
        return f"<Logbook {str(self.path)!r}>"


def _turn(row: tuple[Any, ...]) -> TurnRecord:
    values = list(row)
    values[10] = bool(values[10])
    return TurnRecord(*values)
