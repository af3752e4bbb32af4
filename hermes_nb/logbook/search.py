"""Full-text search over messages.

The index is brought up to date when somebody searches, so that it costs a running turn nothing. It is made of
trigrams: any part of a word is found, in any script; words of one or two characters are looked for in what the
others find, or in all messages.
"""

from __future__ import annotations

import re
import sqlite3
from itertools import islice
from typing import TYPE_CHECKING

from hermes_nb.logbook import codec
from hermes_nb.logbook.reading import Reader
from hermes_nb.logbook.records import Found
from hermes_nb.vocabulary.failures import ConfigurationError, TraceError
from hermes_nb.vocabulary.texts import unicode_only

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hermes_nb.logbook.store import Store
    from hermes_nb.vocabulary.messages import Message

INDEX = "CREATE VIRTUAL TABLE IF NOT EXISTS message_texts USING fts5 (text, content='', tokenize='trigram')"
BATCH = 500
"""Messages that are indexed in one transaction; a turn that wants to write waits for no more."""

TRIGRAM = 3
"""Characters of the shortest word that the index can find."""

AROUND = 60
"""Characters of a snippet on each side of what was found."""


def search(store: Store, text: str, conversation_id: str | None, limit: int) -> tuple[Found, ...]:
    """Messages that contain all words of a text, the best first; see `Logbook.search`.

    Raises:
        ConfigurationError: There is no word in the text.
    """
    words = re.findall(r'"([^"]+)"|(\S+)', unicode_only(text).replace("\0", " "))
    terms = [quoted or plain for quoted, plain in words]
    if not terms:
        msg = f"a search needs a word to look for, not {text!r}"
        raise ConfigurationError(msg)
    indexed = [term for term in terms if len(term) >= TRIGRAM] if bring_up_to_date(store) else []
    with store.reading() as connection:
        reader = Reader(connection)
        rows = _by_index(reader, indexed) if indexed else _all(reader)
        hits = (hit for row in rows if (hit := _hit(reader, row, terms, conversation_id)) is not None)
        return tuple(islice(hits, limit))


def bring_up_to_date(store: Store) -> bool:
    """Index what is not indexed yet; False where that cannot be done (a file that may not be written)."""
    try:
        while _index_some(store):
            pass
    except (sqlite3.Error, OSError, TraceError):
        return False
    return True


def _index_some(store: Store) -> bool:
    with store.transaction() as db:
        db.execute(INDEX)
        reader = Reader(db)
        rows = reader.query(
            "SELECT id, data FROM messages WHERE ephemeral = 0"
            " AND id NOT IN (SELECT id FROM message_texts_docsize) LIMIT ?",
            BATCH,
        )
        db.executemany(
            "INSERT INTO message_texts (rowid, text) VALUES (?, ?)",
            [(row, unicode_only(searchable(codec.message(reader.loads(data))))) for row, data in rows],
        )
        return len(rows) == BATCH


def searchable(message: Message) -> str:
    """What of a message is searched: its text, and the arguments of its calls."""
    return "\n".join((message.text, *(f"{call.name} {call.arguments}" for call in message.tool_calls)))


def _by_index(reader: Reader, terms: Iterable[str]) -> Iterator[int]:
    query = " ".join('"' + term.replace('"', '""') + '"' for term in terms)
    for (row,) in reader.query("SELECT rowid FROM message_texts WHERE message_texts MATCH ? ORDER BY rank", query):
        yield row


def _all(reader: Reader) -> Iterator[int]:
    for (row,) in reader.query("SELECT id FROM messages WHERE ephemeral = 0 ORDER BY id DESC"):
        yield row


def _hit(reader: Reader, row: int, terms: list[str], conversation_id: str | None) -> Found | None:
    message = reader.message(row)
    text = searchable(message)
    places = [place for term in terms if (place := re.search(re.escape(term), text, re.IGNORECASE))]
    if len(places) < len(terms):
        return None
    ((turn, conversation),) = reader.query(
        "SELECT turns.name, conversations.name FROM turns JOIN conversations ON conversations.id = turns.conversation"
        " WHERE turns.id = ?",
        row >> 32,
    )
    if conversation_id not in (None, conversation):
        return None
    begin, end = places[0].span()
    return Found(conversation, turn, message, text[max(0, begin - AROUND) : end + AROUND].strip())
