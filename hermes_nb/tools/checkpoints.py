"""Checkpoints: the files of a directory, saved before a tool changes them, and brought back on demand.

Snapshots are trees in a git repository of our own, with an index of its own; the user's repository, its index,
hooks and settings are not touched, and files come back byte for byte. What git would ignore in the directory, files
that are too large, and repositories inside it are left alone: they are neither saved nor changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import ConfigurationError, HermesError
from hermes_nb.vocabulary.places import home

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEEP, FILES, FILE_SIZE, TOTAL_SIZE = 20, 50_000, 10_000_000, 500_000_000
"""Snapshots of a directory, files in one, bytes of a file, bytes of the store (hermes-agent 0.19.0)."""

IGNORED = (".env", ".env.*", "__pycache__/", ".venv/", "node_modules/", ".ipynb_checkpoints/")

_SECONDS = 60
_ATTRIBUTES = "* -text -filter -ident -working-tree-encoding"  # files are kept as they are, whatever the tree says


class CheckpointError(HermesError):
    """A snapshot could not be taken or brought back; never raised into a turn."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot.

    Attributes:
        id: The commit in the store.
        turn_id: The turn in which it was taken; `restore` for those taken before files were brought back.
        iteration: The iteration before whose first change it was taken.
        left_out: Paths that were not saved, with the reason; ignored files are not listed. Known only right after
            the snapshot was taken.
    """

    id: str
    turn_id: str
    iteration: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """Files that were brought back.

    Attributes:
        snapshot: Where they came from.
        saved: What was there before, in case it is wanted after all.
        changed: Paths that were written or deleted, relative to the directory.
    """

    snapshot: Snapshot
    saved: Snapshot
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Saves the files of a directory before a tool that writes changes them: at most once an iteration.

    Needs the program `git`. Empty directories, permissions and times are not kept.

    Args:
        directory: The directory; not the home directory, nor one that contains it.
        keep: Snapshots of it; older ones are dropped.
        files: A directory with more files is left alone.
        file_size: Bytes; larger files are left alone.
        total_size: Bytes of all snapshots of it; older ones are dropped.
        store: Where snapshots are kept; the user's data directory if left out (`HERMES_NB_HOME` moves that).

    Raises:
        ConfigurationError: There is no such directory, or it is too much, or git is missing.
    """

    directory: Path
    keep: int = KEEP
    files: int = FILES
    file_size: int = FILE_SIZE
    total_size: int = TOTAL_SIZE
    store: Path = field(default=Path())

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        keep: int = KEEP,
        files: int = FILES,
        file_size: int = FILE_SIZE,
        total_size: int = TOTAL_SIZE,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        place = Path(directory).expanduser().resolve()
        if not place.is_dir():
            msg = f"checkpoints need a directory that exists, not {str(directory)!r}"
            raise ConfigurationError(msg)
        if Path.home().resolve().is_relative_to(place):
            msg = f"{str(place)!r} holds your home directory; name the project's directory"
            raise ConfigurationError(msg)
        if shutil.which("git") is None:
            msg = "checkpoints need the program git, which is not installed"
            raise ConfigurationError(msg)
        if min(keep, files, file_size, total_size) < 1:
            msg = "the bounds of checkpoints are 1 or more"
            raise ConfigurationError(msg)
        root = Path(store).expanduser() if store is not None else home() / "checkpoints"
        name = f"{hashlib.sha256(str(place).encode()).hexdigest()[:16]}.git"
        values = {"directory": place, "keep": keep, "files": files, "file_size": file_size, "total_size": total_size}
        for key, value in (values | {"store": root.resolve() / name}).items():
            object.__setattr__(self, key, value)

    def covers(self, path: object) -> bool:
        """Whether a tool that is given this path may change files here; anything but a text may."""
        if not isinstance(path, str):
            return True
        try:
            return (Path.cwd() / Path(path).expanduser()).resolve().is_relative_to(self.directory)
        except (OSError, ValueError, RuntimeError):  # no path at all: the tool will say so
            return False

    def snapshot(self, turn_id: str, iteration: int) -> Snapshot:
        """Save the directory's files as they are now.

        Raises:
            CheckpointError: It was not possible; nothing is changed.
        """
        with self._locked():
            return self._take(turn_id, iteration)

    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots, the oldest first.

        Raises:
            CheckpointError: The store cannot be read.
        """
        with self._locked():
            return tuple(self._all())

    def restore(self, turn_id: str, iteration: int) -> Restored:
        """Bring the files back as they were before the first change of this iteration.

        What is there now is saved first. Files that came since are deleted, if they have been saved.

        Raises:
            CheckpointError: There is no snapshot of that iteration or a later one of the turn, or it was not possible.
        """
        with self._locked():
            later = [s for s in self._all() if s.turn_id == turn_id and s.iteration >= iteration]
            if not later:
                msg = f"nothing was saved in iteration {iteration} of turn {turn_id} or after it"
                raise CheckpointError(msg)
            wanted = min(later, key=lambda snapshot: snapshot.iteration)
            saved = self._take("restore", time.time_ns())
            return Restored(wanted, saved, self._bring_back(wanted, saved))

    # ------------------------------------------------------------------------------------- git

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the store, among all processes."""
        import filelock  # noqa: PLC0415  loaded by the first use: it takes longer than most of the library

        try:
            self.store.mkdir(parents=True, exist_ok=True)
            with filelock.FileLock(self.store / "lock", timeout=_SECONDS):
                yield
        except OSError as error:  # a lock that is not given in time is one too
            msg = f"the store of checkpoints {self.store} cannot be used: {error}"
            raise CheckpointError(msg) from error

    def _git(self, *arguments: str, given: Iterable[str] = ()) -> list[str]:
        """Run git in the store; `given` and the result are texts ended by a zero byte each."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | {
            "GIT_DIR": str(self.store),
            "GIT_WORK_TREE": str(self.directory),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
        }
        identity = ["-c", "user.name=hermes_nb", "-c", "user.email=hermes_nb@localhost", "-c", "core.autocrlf=false"]
        try:
            done = subprocess.run(  # noqa: S603  fixed program, arguments of our own
                ["git", *identity, *arguments],  # noqa: S607  the user's git
                input="".join(f"{text}\0" for text in given).encode("utf-8", "surrogateescape"),
                capture_output=True,
                cwd=self.directory,
                env=environment,
                timeout=_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or b""
            msg = f"git {arguments[0]} failed: {told.decode(errors='replace').strip() or error}"
            raise CheckpointError(msg) from error
        return [text for text in done.stdout.decode("utf-8", "surrogateescape").split("\0") if text]

    def _prepare(self) -> None:
        if not (self.store / "HEAD").exists():
            self._git("init", "--quiet")
        ignored = list(IGNORED)
        if self.store.is_relative_to(self.directory):
            ignored.append(f"/{self.store.relative_to(self.directory).as_posix()}/")
        for name, lines in {"attributes": [_ATTRIBUTES], "exclude": ignored}.items():
            (self.store / "info").mkdir(exist_ok=True)
            (self.store / "info" / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _take(self, turn_id: str, iteration: int) -> Snapshot:
        self._prepare()
        left_out = self._update_index()
        [tree] = _lines(self._git("write-tree"))
        [commit] = _lines(self._git("commit-tree", tree, "-m", "snapshot"))
        self._git("update-ref", f"refs/snapshots/{time.time_ns()}/{turn_id}/{iteration}", commit)
        self._drop_old()
        return Snapshot(commit, turn_id, iteration, left_out)

    def _update_index(self) -> tuple[str, ...]:
        """Make the index equal to the directory; returns what was left out."""
        listed = self._git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
        if len(listed) > self.files:
            msg = f"{self.directory} has more than {self.files:,} files and is not saved"
            raise CheckpointError(msg)
        behind = {folder: self._is_behind_a_link(folder) for folder in {Path(path).parent for path in listed}}
        gone = {path for path in listed if behind[Path(path).parent] or self._is_directory_now(path)}
        left_out = {path: reason for path in listed if path not in gone and (reason := self._unfit(path))}
        self._git("update-index", "-z", "--force-remove", "--stdin", given=[*gone, *left_out])
        saved = [path for path in listed if path not in left_out and path not in gone]
        self._git("update-index", "-z", "--add", "--remove", "--replace", "--stdin", given=saved)
        return tuple(f"{path}: {reason}" for path, reason in left_out.items())

    def _is_behind_a_link(self, folder: Path) -> bool:
        """Whether a link stands where a directory of this path was; the files that it leads to are not ours."""
        return any((self.directory / place).is_symlink() for place in (folder, *folder.parents) if place != Path())

    def _is_directory_now(self, path: str) -> bool:
        """Whether a directory stands where a file of this path was; a repository of its own is told by a slash."""
        return not path.endswith("/") and (self.directory / path).is_dir() and not (self.directory / path).is_symlink()

    def _unfit(self, path: str) -> str:
        """Why a file cannot be saved; empty if it can, or is not there."""
        file = self.directory / path
        if path.endswith("/"):
            return "a repository of its own"
        if file.is_symlink() or not file.exists():
            return ""
        if file.stat().st_size > self.file_size:
            return f"more than {self.file_size:,} bytes"
        return "" if os.access(file, os.R_OK) else "cannot be read"

    def _all(self) -> list[Snapshot]:
        if not (self.store / "HEAD").exists():
            return []
        form = "%(objectname) %(refname:lstrip=2)"
        found = []
        for line in _lines(self._git("for-each-ref", "--sort=refname", f"--format={form}", "refs/snapshots")):
            commit, name = line.split(" ")
            _, turn_id, iteration = name.split("/")[-3:]
            found.append(Snapshot(commit, turn_id, int(iteration)))
        return found

    def _bring_back(self, wanted: Snapshot, saved: Snapshot) -> tuple[str, ...]:
        changes = self._git("diff-tree", "-r", "-z", "--no-renames", "--name-status", saved.id, wanted.id)
        states = dict(zip(changes[1::2], changes[0::2], strict=True))
        written = [path for path, state in states.items() if state != "D"]
        self._git("read-tree", wanted.id)
        ignored = self._ignored_again(written)
        for path in states.keys() - {*written, *ignored}:
            self._delete(path)
        self._git("checkout-index", "--force", "-z", "--stdin", given=written)
        return tuple(path for path in states if path not in ignored)

    def _ignored_again(self, written: Iterable[str]) -> set[str]:
        """Files that git ignores once these are written; they are left alone, whatever rules a tool has made."""
        rules = [path for path in written if Path(path).name == ".gitignore"]
        if not rules:
            return set()
        self._git("checkout-index", "--force", "-z", "--stdin", given=rules)
        return set(self._git("ls-files", "-z", "--others", "--ignored", "--exclude-standard"))

    def _delete(self, path: str) -> None:
        file = self.directory / path
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            msg = f"{file} could not be deleted: {error}"
            raise CheckpointError(msg) from error
        for parent in file.relative_to(self.directory).parents:
            with suppress(OSError):  # not empty, or the directory itself
                if parent != Path():
                    (self.directory / parent).rmdir()

    def _drop_old(self) -> None:
        """Keep the store within its bounds."""
        names = _lines(self._git("for-each-ref", "--sort=refname", "--format=%(refname)", "refs/snapshots"))
        excess = names[: -self.keep]
        while excess or (len(names) > 1 and self._bytes() > self.total_size):
            for name in excess or names[:1]:
                self._git("update-ref", "-d", name)
                names.remove(name)
            excess = []
            self._git("prune", "--expire=now")

    def _bytes(self) -> int:
        counts = dict(line.split(": ") for line in _lines(self._git("count-objects", "-v")))
        return 1024 * (int(counts["size"]) + int(counts["size-pack"]))


def _lines(output: list[str]) -> list[str]:
    return [line for text in output for line in text.splitlines() if line]
