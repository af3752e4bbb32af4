"""One turn at a time in a conversation, over all processes."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Self

from hermes_nb.vocabulary.failures import RunInProgress

if TYPE_CHECKING:
    from types import TracebackType

_busy: set[str] = set()
_lock = threading.RLock()  # a lease may be collected while another one is taken

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_busy.clear)  # the locked files tell a forked process what its parent does


class Lease:
    """The right to write to a conversation: taken at once or refused; free again when its process dies.

    It is a locked file beside the logbook, gone after the turn. Where that file cannot be made, the logbook cannot be
    written by others either, and the lease holds within this process.

    Args:
        logbook: The logbook's file.
        conversation_id: The conversation.

    Raises:
        RunInProgress: A turn of the conversation is running, here or in another process.
    """

    _held = False

    def __init__(self, logbook: Path, conversation_id: str) -> None:
        from filelock import FileLock, Timeout  # noqa: PLC0415  loaded by the first use: it takes longer than most of the library

        name = blake2b(conversation_id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._path = f"{logbook.absolute()}-{name}.lock"
        refusal = (
            f"a turn of conversation {conversation_id} in {logbook} is still running; wait for its result, "
            "interrupt it, or begin another session"
        )
        with _lock:
            if self._path in _busy:
                raise RunInProgress(refusal)
            self._file = FileLock(self._path, timeout=0, thread_local=False)
            try:
                logbook.parent.mkdir(parents=True, exist_ok=True)
                self._file.acquire()
            except Timeout:
                raise RunInProgress(refusal) from None
            except OSError:  # a directory that cannot be written
                pass
            _busy.add(self._path)
            self._held = True

    def close(self) -> None:
        """Give it back; more than once does no harm."""
        with _lock:
            if not self._held:
                return
            self._held = False
            if self._file.is_locked:
                if os.name == "posix":  # elsewhere an open file cannot be removed, and filelock removes it itself
                    with suppress(OSError):
                        Path(self._path).unlink()
                self._file.release()
            _busy.discard(self._path)

    def __del__(self) -> None:
        """A lease that nobody holds any more is given back."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
