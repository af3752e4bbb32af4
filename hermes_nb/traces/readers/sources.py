"""Where traces come from: paths, globs, folders, open files and frames, each opened and told by its first bytes."""

from __future__ import annotations

import glob
import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Self, cast

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Source = Any

_COMPRESSED: Final = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
HEAD: Final = 64
"""Bytes that are looked at."""


def spread(source: Source) -> Iterator[Any]:
    """The single sources of a path, a glob, a folder, an open file, a frame, or a list of these.

    A folder gives its files in the order of their names, hidden ones left out; a folder of our own Parquet files is
    one source.
    """
    if isinstance(source, str | os.PathLike):
        yield from _paths(os.fspath(source))
    elif hasattr(source, "read") or hasattr(source, "columns"):
        yield source
    elif not isinstance(source, Iterable):
        msg = f"traces come from a path, a folder, an open file, a frame, or a list of these, not {source!r}"
        raise ConfigurationError(msg)
    else:
        for each in source:
            yield from spread(each)


def _paths(given: str | bytes) -> Iterator[Path]:
    path = Path(os.fsdecode(given)).expanduser()
    if path.exists() or not glob.has_magic(str(path)):
        yield from _below(path)
    else:
        for each in sorted(glob.glob(str(path), recursive=True)):  # noqa: PTH207  patterns may be absolute
            yield from _below(Path(each))


def _below(path: Path) -> Iterator[Path]:
    if not path.is_dir() or is_dataset(path):
        yield path
        return
    for each in sorted(path.iterdir()):
        if not each.name.startswith(".") and not each.name.endswith(_BESIDE):
            yield from _below(each)


_BESIDE: Final = ("-wal", "-shm", "-journal", ".unfinished")
"""Files that belong to others."""


def is_dataset(path: Path) -> bool:
    """Whether a folder is one of our own, with a folder of Parquet files for each frame."""
    return path.is_dir() and (path / "spans").is_dir() and any((path / "spans").rglob("*.parquet"))


def name(source: Source) -> str:
    """What a source is called in the report."""
    if isinstance(source, Path):
        return str(source)
    return str(getattr(source, "name", f"<{type(source).__name__}>"))


class Opened:
    """A file that is read from its beginning, decompressed, with its first bytes at hand.

    Args:
        source: A path or an open file, of bytes or of text.
    """

    def __init__(self, source: Path | IO[Any]) -> None:
        self._owned = source.open("rb") if isinstance(source, Path) else None
        self.stream = _decompressed(_peekable(self._owned or cast("IO[Any]", source)))
        self.head = self.stream.peek(HEAD)[:HEAD]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owned is not None:
            self._owned.close()

    def lines(self) -> Iterable[bytes]:
        """The lines."""
        return self.stream


class _Chunks(io.RawIOBase):
    """Any object with `read(size)` as a raw stream of bytes."""

    def __init__(self, source: Any) -> None:
        self._read = source.read
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            found = self._read(len(buffer))
            self._left = found.encode("utf-8", "surrogatepass") if isinstance(found, str) else bytes(found or b"")
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _peekable(source: Any) -> io.BufferedReader:
    return source if isinstance(source, io.BufferedReader) else io.BufferedReader(_Chunks(source))


def _decompressed(stream: io.BufferedReader) -> io.BufferedReader:
    head = stream.peek(HEAD)
    kind = next((name for mark, name in _COMPRESSED if head.startswith(mark)), None)
    if kind is None:
        return stream
    import pyarrow as pa  # noqa: PLC0415  knows all of these formats

    return io.BufferedReader(_Chunks(pa.CompressedInputStream(pa.PythonFile(stream, "r"), kind)))
