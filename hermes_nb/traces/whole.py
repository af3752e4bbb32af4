"""Files that appear when they are whole."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file to write into, beside the one that it replaces at the end; where writing fails nothing is left of it.

    Args:
        path: The file; replaced if it is there. Its folder is made if it is not there.

    Raises:
        OSError: It cannot be written there.
    """
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
