"""The file in use: one connection that writes, and what could not be written yet."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, ClassVar

from hermes_nb.logbook.later import Later
from hermes_nb.logbook.schema import BUSY_AGAIN, BUSY_SECONDS, open_for_reading, open_for_writing
from hermes_nb.logbook.writer import TurnWriter
from hermes_nb.vocabulary.failures import TraceError, in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from hermes_nb.vocabulary.messages import Message

logger = logging.getLogger("hermes_nb")

PAUSE = 5.0
"""Seconds without another try after the file could not be written, so that a locked file does not slow the turn."""

BEHIND = 64
"""Ended turns that wait in memory for a file that cannot be written; the oldest are given up beyond."""


_PASSING = (sqlite3.OperationalError, sqlite3.NotSupportedError, OSError, TraceError)
"""What may be over later: a full disk, a lock, a file that somebody moves out of the way."""


class Store:
    """One logbook file in this process, shared by all that use it there; safe to use from any thread.

    Nothing of a turn depends on it: what cannot be written waits in memory, and is written when the file can be again.
    """

    _open: ClassVar[weakref.WeakValueDictionary[Path, Store]] = weakref.WeakValueDictionary()
    _opening = threading.Lock()

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.RLock()
        self.writers: dict[str, TurnWriter] = {}
        self._connections: list[sqlite3.Connection] = []
        self._file: tuple[int, int] | None = None
        self._next_try = 0.0
        self.later = Later(_flushing(weakref.ref(self)))
        self._patience = BUSY_SECONDS
        self._finalizer = weakref.finalize(self, _close_when_free, self.lock, self._connections)

    @classmethod
    def of(cls, path: Path) -> Store:
        """The store of a file: the same one for all who ask while it is in use."""
        path = path.absolute()
        with cls._opening:
            store = cls._open.get(path)
            if store is None:
                store = cls._open[path] = cls(path)
            return store

    def writer(
        self, turn_id: str, conversation_id: str, known: Mapping[Message, int] | None = None, settings: str = ""
    ) -> TurnWriter:
        """The writer of a turn, made if there is none."""
        with self.lock:
            if turn_id not in self.writers:
                self.writers[turn_id] = TurnWriter(turn_id, conversation_id, known or {}, settings)
            return self.writers[turn_id]

    def flush(self, only: TurnWriter | None = None, *, at_once: bool = False) -> str:
        """Write what waits.

        Args:
            only: Of one turn, and of those that could not be written before; of all turns if left out.
            at_once: Try, although it failed a moment ago.

        Returns:
            What went wrong; empty if all is written.
        """
        with self.lock:
            if not at_once and time.monotonic() < self._next_try:
                return f"{self.path} could not be written; what waits is kept in memory, and tried again"
            trouble = ""
            for writer in list(self.writers.values()):
                late = writer.behind and writer.obstacle is None  # an injected fault is one turn's own matter
                if writer.waiting and (writer is only or only is None or late):
                    trouble = self._save(writer) or trouble
                    if time.monotonic() < self._next_try:
                        break
            return trouble

    def _save(self, writer: TurnWriter) -> str:
        """Write one turn's rows; returns what went wrong."""
        if writer.obstacle is not None and (obstacle := writer.obstacle()):
            writer.behind = True
            return self._kept(obstacle)
        if self._connections and self._file != _identity(self.path):
            self._begin_again()
            if writer.given_up:
                return f"{self.path} was removed or replaced while it was in use; this turn is not kept any more"
        try:
            with self.transaction() as db:
                row = writer.write(db)
        except _PASSING as error:
            writer.behind = True
            self._fail()
            return self._kept(error)
        except Exception as error:
            logger.warning("turn %s cannot be kept in the logbook any more", writer.turn_id, exc_info=True)
            writer.give_up()
            return f"{self.path}: turn {writer.turn_id} cannot be kept any more ({in_words(error)})"
        writer.saved(row)
        self._next_try = 0.0
        if writer.ended_at is not None or writer.late:
            del self.writers[writer.turn_id]
        return ""

    def _kept(self, reason: object) -> str:
        return f"{self.path} could not be written ({reason}); what waits is kept in memory, and tried again"

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Write something: all of it, or nothing.

        Raises:
            UnreadableTrace: The file is no logbook.
            OSError: Its directory cannot be made.
            sqlite3.Error: It cannot be written.
        """
        with self.lock:
            if not self._connections:
                self._connections.append(open_for_writing(self.path))
                self._file, self._patience = _identity(self.path), BUSY_SECONDS
            db = self._connections[0]
            patience = BUSY_AGAIN if time.monotonic() < self._next_try else BUSY_SECONDS
            if patience != self._patience:
                db.execute(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
                self._patience = patience
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    def unsaved(self, conversation_id: str) -> list[TurnWriter]:
        """The turns of a conversation of which something waits in memory, in order."""
        with self.lock:
            return [
                writer
                for writer in self.writers.values()
                if writer.waiting and writer.conversation_id == conversation_id and not writer.begun.parent_turn_id
            ]

    def _begin_again(self) -> None:
        """The file was removed or replaced: the turns that began in it are given up, later ones go to the new one."""
        _close(self._connections)
        for writer in self.writers.values():
            if writer.row is not None:
                writer.give_up()

    def _fail(self) -> None:
        """Close what may be broken, wait a little, and keep no more than a bounded number of ended turns."""
        _close(self._connections)
        self._next_try = time.monotonic() + PAUSE
        ended = [name for name, writer in self.writers.items() if writer.ended_at is not None]
        for name in ended[:-BEHIND]:
            del self.writers[name]

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection for reading, with all written that can be; None where there is no file.

        Raises:
            UnreadableTrace: The file is no logbook, or is damaged.
        """
        self.flush(at_once=True)
        if not self.path.exists():
            yield None
            return
        with closing(open_for_reading(self.path)) as connection:
            yield connection

    def close(self) -> None:
        """Write what waits and close the file; it is opened again when it is needed."""
        with self.lock:
            self.flush(at_once=True)
            _close(self._connections)

    @classmethod
    def after_fork(cls) -> None:
        """In a forked process: every store begins anew."""
        cls._opening = threading.Lock()
        for store in tuple(cls._open.values()):
            store.begin_anew()

    def begin_anew(self) -> None:
        """Leave to the parent process what it has open, and what it has not written yet."""
        _parents.extend(self._connections)
        self._connections.clear()
        self.lock, self.writers, self._next_try = threading.RLock(), {}, 0.0
        self._finalizer.detach()
        self._finalizer = weakref.finalize(self, _close_when_free, self.lock, self._connections)
        self.later = Later(_flushing(weakref.ref(self)))


_parents: list[sqlite3.Connection] = []
"""Connections of the parent process: SQLite allows a forked one neither to use nor to close them."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Store.after_fork)


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path leads to now; None for none."""
    try:
        status = os.stat(path)  # noqa: PTH116  before each writing: three times as fast
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _flushing(store: weakref.ref[Store]) -> Callable[[], None]:
    """Flush the store, if it is still in use."""

    def flush() -> None:
        if (alive := store()) is not None:
            alive.flush()

    return flush


def _close(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _close_when_free(lock: threading.RLock, connections: list[sqlite3.Connection]) -> None:
    """Close what nobody writes with: when the program ends, a turn may be in the middle of a transaction."""
    if lock.acquire(timeout=BUSY_SECONDS):
        try:
            _close(connections)
        finally:
            lock.release()
