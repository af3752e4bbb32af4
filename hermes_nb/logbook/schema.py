"""The file: its tables, how an older one is brought up to date, and how it is opened.

Each migration brings the file from the version of its place in the list to the next one; the version stands in the
file's header (`PRAGMA user_version`), and so does a mark by which other databases are told from logbooks.

Rows of one turn lie together: the id of a message or of a chunk of events is `turn << 32 | number`, so that one page
of one b-tree is written for each, and a range of ids is a turn.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import UnreadableTrace

if TYPE_CHECKING:
    from pathlib import Path

APPLICATION_ID = 0x6865726D
"""`herm`, in the header of every logbook."""

BUSY_SECONDS = 0.5
"""How long another kernel's write is waited for; a turn can be interrupted within a second even then."""

BUSY_AGAIN = 0.05
"""How long, when that has just been in vain: turns that share a thread wait for each other's ends."""

CHECKPOINT = 4000
"""Pages of 4 KiB in SQLite's write-ahead file before they are moved into the file itself. A turn writes to the same few
pages again and again: moved four times as seldom as by default, most of them are written once instead of often."""

TURN = 32
"""Bits of a row's id below the turn's number."""

TABLES = """
CREATE TABLE conversations (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, started_at INTEGER NOT NULL);
CREATE TABLE turns (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, conversation INTEGER NOT NULL REFERENCES conversations,
    number INTEGER NOT NULL, agent TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, prompt TEXT NOT NULL,
    parent TEXT NOT NULL, previous TEXT NOT NULL, replay_of TEXT NOT NULL,
    started_at INTEGER NOT NULL, ended_at INTEGER, exit_reason TEXT NOT NULL DEFAULT '',
    failed INTEGER NOT NULL DEFAULT 0, detail TEXT NOT NULL DEFAULT ''
);
CREATE INDEX turns_of_conversation ON turns (conversation);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, role TEXT NOT NULL, ephemeral INTEGER NOT NULL, data TEXT NOT NULL
);
CREATE TABLE histories (
    id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, after INTEGER NOT NULL, kept TEXT NOT NULL
);
CREATE INDEX histories_of_conversation ON histories (conversation);
CREATE TABLE prompts (
    id INTEGER PRIMARY KEY, conversation INTEGER NOT NULL, turn INTEGER NOT NULL, identity TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX prompts_of_conversation ON prompts (conversation);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, events TEXT NOT NULL);
CREATE TABLE texts (digest TEXT PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
"""

VIEWS = """
CREATE VIEW events AS
    SELECT turns.name AS turn_id, json_extract(e.value, '$[0]') AS seq, json_extract(e.value, '$[1]') AS phase,
           json_extract(e.value, '$[2]') AS at, json_extract(e.value, '$[3]') AS iteration,
           json_extract(e.value, '$[4]') AS scope, json_extract(e.value, '$[5]') AS parent,
           json_extract(e.value, '$[6]') AS kind, json_extract(e.value, '$[7]') AS interrupted,
           json_extract(e.value, '$[8]') AS data
    FROM chunks JOIN turns ON turns.id = chunks.id >> 32, json_each(chunks.events) AS e;
"""

RUNS = "ALTER TABLE turns ADD COLUMN run_id TEXT NOT NULL DEFAULT ''"

MIGRATIONS = (TABLES, VIEWS, RUNS)
VERSION = len(MIGRATIONS)


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open the file, make it (readable by its owner only) if it is not there, and bring it up to date.

    Raises:
        UnreadableTrace: The file is another program's, or a newer version's.
        OSError: It cannot be made.
        sqlite3.Error: It cannot be opened, or is damaged.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        if not _up_to_date(connection, path):
            connection.execute("PRAGMA journal_mode = WAL")
            _migrate(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection:
    """Open the file for reading only; works on media that cannot be written, an older one's file as a copy in memory.

    Raises:
        UnreadableTrace: The file is no logbook, or a newer version's.
        sqlite3.Error: It cannot be opened, or is damaged.
    """
    if path.is_dir():
        msg = f"{path} is a directory, not a logbook; name a file in it"
        raise UnreadableTrace(msg, path)
    if path.exists() and not path.is_file():  # reading a pipe may take for ever
        msg = f"{path} is a pipe or a device, not a logbook; name a file"
        raise UnreadableTrace(msg, path)
    for mode in ("mode=ro", "immutable=1"):
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
        )
        try:
            current = _up_to_date(connection, path)
        except sqlite3.OperationalError:
            connection.close()
            if mode == "immutable=1":
                raise
        except BaseException:
            connection.close()
            raise
        else:
            break
    return connection if current else _open_older(connection, path)


def _open_older(old: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Bring an older file up to date, or where it cannot be written a copy in memory."""
    with closing(old):
        try:
            open_for_writing(path).close()
        except (sqlite3.OperationalError, OSError):
            copy = sqlite3.connect(":memory:", isolation_level=None)
            old.backup(copy)
            _migrate(copy, path)
            return copy
    return open_for_reading(path)


def _up_to_date(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file is a logbook of this version; False for an older or an empty one."""
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        if mark != APPLICATION_ID and connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            msg = f"{path} is a database of another program, not a logbook; name another file"
            raise UnreadableTrace(msg, path)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        msg = f"{path} is not a logbook, or is damaged ({error}); move it away or name another file"
        raise UnreadableTrace(msg, path) from error
    if version > VERSION:
        msg = f"{path} was written by a newer hermes_nb (version {version} of the file, this one knows {VERSION})"
        raise UnreadableTrace(msg, path)
    return bool(version == VERSION)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Run the migrations that are missing, in one transaction; another process may have been faster."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if not _up_to_date(connection, path):
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            for script in MIGRATIONS[version:]:
                for statement in filter(str.strip, script.split(";")):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
