"""The rate guard's memory across kernels: one small JSON file."""

from __future__ import annotations

import json
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.places import home

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCK_SECONDS = 0.5
"""How long another kernel's write is waited for."""


class GuardFile:
    """A `GuardStore` in a file that several kernels share.

    A damaged file is told of once, then counts as empty, and is replaced by the next write. Reading looks at the file
    again only when it has changed.

    Args:
        path: The file; `rate_limits.json` in the user's data directory if left out.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path(path) if path is not None else home() / "rate_limits.json"
        self._seen: tuple[int, int] | None = None
        self._limits: dict[str, float] = {}

    def read(self) -> Mapping[str, float]:
        """Until when each identity is limited, in seconds since the epoch.

        Raises:
            OSError: The file is there and cannot be read.
            ValueError: It is damaged; raised once.
        """
        try:
            status = os.stat(self.path)  # noqa: PTH116  three times as fast, and done before each request
        except (FileNotFoundError, NotADirectoryError):
            self._seen, self._limits = None, {}
            return self._limits
        if not stat.S_ISREG(status.st_mode):  # reading a pipe or a device may take for ever
            msg = f"{self.path} is no ordinary file"
            raise OSError(msg)
        if (seen := (status.st_mtime_ns, status.st_size)) != self._seen:
            data, self._seen, self._limits = self.path.read_bytes(), seen, {}
            self._limits = self._parse(data)
        return self._limits

    def write(self, identity: str, until: float | None) -> None:
        """Remember a limit, or forget it; limits that are over are forgotten with it.

        Raises:
            OSError: The file cannot be written, or another process holds it.
        """
        from filelock import FileLock  # noqa: PLC0415  loaded by the first use: it takes longer than most of the library

        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock", timeout=LOCK_SECONDS):
            now = time.time()
            with suppress(ValueError):
                self.read()
            limits = {name: end for name, end in self._limits.items() if end > now and name != identity}
            if until is not None:
                limits[identity] = until
            fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
            fresh.write_text(json.dumps(limits, indent=1), "utf-8")
            fresh.replace(self.path)
            self._seen = None

    def _parse(self, data: bytes) -> dict[str, float]:
        try:
            return {str(name): float(until) for name, until in json.loads(data).items()}
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            msg = f"{self.path} is damaged and counts as empty ({error})"
            raise ValueError(msg) from error
