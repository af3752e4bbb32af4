"""Files saved before a tool changes them, and brought back; against the real git."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.tools import checkpoints as module
from hermes_nb.tools.checkpoints import CheckpointError, Checkpoints
from hermes_nb.tools.context import ToolContext
from hermes_nb.tools.definition import tool
from hermes_nb.tools.saving import Saves
from hermes_nb.vocabulary.failures import ConfigurationError
from tests.support.batches import ask, run_batch


@pytest.fixture
def project(tmp_path):
    place = tmp_path / "project"
    place.mkdir()
    (place / "a.txt").write_bytes(b"one\r\n")
    (place / "sub").mkdir()
    (place / "sub" / "b.bin").write_bytes(bytes(range(256)))
    return place


@pytest.fixture
def checkpoints(project, tmp_path):
    return Checkpoints(project, store=tmp_path / "store")


def files(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def git(place: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=u", "-c", "user.email=u@localhost"]
    return subprocess.run(
        ["git", *identity, *arguments], cwd=place, check=True, capture_output=True, text=True
    ).stdout  # fmt: skip


def test_changed_deleted_and_new_files_come_back_byte_for_byte(project, checkpoints):
    before = files(project)
    checkpoints.snapshot("turn", 1)
    (project / "a.txt").write_text("changed")
    (project / "sub" / "b.bin").unlink()
    (project / "new").mkdir()
    (project / "new" / "c.txt").write_text("new")
    restored = checkpoints.restore("turn", 1)
    assert files(project) == before
    assert not (project / "new").exists()
    assert sorted(restored.changed) == ["a.txt", "new/c.txt", "sub/b.bin"]


def test_what_was_there_is_saved_first_and_can_come_back_too(project, checkpoints):
    checkpoints.snapshot("turn", 1)
    (project / "a.txt").write_text("changed")
    saved = checkpoints.restore("turn", 1).saved
    assert (project / "a.txt").read_bytes() == b"one\r\n"
    checkpoints.restore(saved.turn_id, saved.iteration)
    assert (project / "a.txt").read_text() == "changed"


def test_an_iteration_without_a_change_of_its_own_is_that_before_the_next_change(project, checkpoints):
    for iteration in (2, 5):
        checkpoints.snapshot("turn", iteration)
        (project / "a.txt").write_text(f"after {iteration}")
    assert checkpoints.restore("turn", 3).snapshot.iteration == 5
    assert (project / "a.txt").read_text() == "after 2"
    checkpoints.restore("turn", 1)
    assert (project / "a.txt").read_bytes() == b"one\r\n"


def test_an_iteration_after_all_changes_has_nothing_to_bring_back(checkpoints):
    checkpoints.snapshot("turn", 2)
    for turn, iteration in (("turn", 3), ("other", 1)):
        with pytest.raises(CheckpointError, match="nothing was saved"):
            checkpoints.restore(turn, iteration)


def test_the_users_repository_is_not_touched(project, tmp_path):
    git(project, "init", "--quiet")
    git(project, "add", "a.txt")
    git(project, "commit", "--quiet", "-m", "mine")
    (project / "staged.txt").write_text("staged")
    git(project, "add", "staged.txt")
    before = files(project / ".git"), git(project, "status", "--porcelain")
    mine = Checkpoints(project, store=tmp_path / "store")
    mine.snapshot("turn", 1)
    (project / "a.txt").write_text("changed")
    mine.restore("turn", 1)
    git(project, "update-index", "--refresh")
    assert (files(project / ".git").keys(), git(project, "status", "--porcelain")) == (before[0].keys(), before[1])
    for name in ("HEAD", "config"):
        assert files(project / ".git")[name] == before[0][name]


def test_attributes_and_settings_of_the_user_change_no_byte(project, checkpoints, tmp_path, monkeypatch):
    (project / ".gitattributes").write_text(
        "* text=auto eol=lf filter=shout working-tree-encoding=UTF-16\n*.txt ident\n"
    )
    (project / "id.txt").write_bytes(b"$Id$\r\nmixed\n")
    config = tmp_path / "gitconfig"
    config.write_text(
        '[core]\nautocrlf=true\nhooksPath=/nowhere\n[filter "shout"]\nclean="tr a-z A-Z"\nrequired=true\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    before = files(project)
    checkpoints.snapshot("turn", 1)
    for path in project.rglob("*.txt"):
        path.write_text("changed")
    checkpoints.restore("turn", 1)
    assert files(project) == before


def test_ignored_files_and_secrets_are_neither_saved_nor_changed(project, checkpoints):
    (project / ".gitignore").write_text("*.log\n")
    folders = (".venv", "__pycache__", "node_modules", ".ipynb_checkpoints")
    ignored = ("x.log", ".env", ".env.local", *(f"{folder}/lib.py" for folder in folders))
    for folder in folders:
        (project / folder).mkdir()
    for name in ignored:
        (project / name).write_text("before")
    checkpoints.snapshot("turn", 1)
    for name in ignored:
        (project / name).write_text("after")
    assert checkpoints.restore("turn", 1).changed == ()
    for name in ignored:
        assert (project / name).read_text() == "after"
    saved = git(checkpoints.store, "ls-tree", "-r", "--name-only", checkpoints.snapshots()[0].id)
    assert saved.split() == [".gitignore", "a.txt", "sub/b.bin"]


def test_large_files_and_repositories_inside_are_left_alone_and_that_is_said(project, tmp_path):
    (project / "inner").mkdir()
    git(project / "inner", "init", "--quiet")
    (project / "inner" / "x.txt").write_text("inner")
    git(project / "inner", "add", "x.txt")
    git(project / "inner", "commit", "--quiet", "-m", "inner")
    (project / "grown.txt").write_text("small")
    mine = Checkpoints(project, store=tmp_path / "store", file_size=300)
    mine.snapshot("turn", 1)
    (project / "grown.txt").write_text("x" * 301)
    left_out = mine.snapshot("turn", 2).left_out
    assert sorted(left_out) == ["grown.txt: more than 300 bytes", "inner/: a repository of its own"]
    mine.restore("turn", 2)
    assert (project / "grown.txt").read_text() == "x" * 301
    assert (project / "inner" / "x.txt").read_text() == "inner"


def test_links_are_kept_as_links_and_lead_nowhere(project, checkpoints, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("precious")
    (project / "link").symlink_to(outside)
    (project / "dangling").symlink_to("nowhere")
    checkpoints.snapshot("turn", 1)
    (project / "link").unlink()
    (project / "sub" / "b.bin").unlink()
    (project / "sub").rmdir()
    (project / "sub").symlink_to(outside)
    checkpoints.restore("turn", 1)
    assert (project / "link").readlink() == outside
    assert (project / "dangling").readlink() == Path("nowhere")
    assert (project / "sub" / "b.bin").is_file()
    assert [path.name for path in outside.iterdir()] == ["precious.txt"]


@pytest.mark.parametrize("name", ["a b", "-rf", "new\nline", "tab\t", "ü", "*", "'\"", "#x", "!y", "\udcff"])
def test_files_of_any_name_come_back(project, checkpoints, name):
    path = os.path.join(project, name)  # noqa: PTH118  the name is what is tested
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(b"before")
    checkpoints.snapshot("turn", 1)
    os.unlink(path)  # noqa: PTH108
    checkpoints.restore("turn", 1)
    assert Path(path).read_bytes() == b"before"


def test_files_and_directories_that_took_each_others_places_come_back(project, checkpoints):
    before = files(project)
    checkpoints.snapshot("turn", 1)
    (project / "a.txt").unlink()
    (project / "a.txt").mkdir()
    (project / "a.txt" / "inside").write_text("new")
    (project / "sub" / "b.bin").unlink()
    (project / "sub").rmdir()
    (project / "sub").write_text("a file now")
    checkpoints.snapshot("turn", 2)
    after = files(project)
    checkpoints.restore("turn", 1)
    assert files(project) == before
    checkpoints.restore("turn", 2)
    assert files(project) == after


def test_what_was_ignored_is_left_alone_also_when_a_tool_has_changed_the_rules(project, checkpoints):
    (project / ".gitignore").write_text("data/\n")
    (project / "data").mkdir()
    (project / "data" / "measured").write_text("for weeks")
    before = files(project)
    checkpoints.snapshot("turn", 1)
    (project / ".gitignore").unlink()
    (project / "new").write_text("new")
    restored = checkpoints.restore("turn", 1)
    assert files(project) == before
    assert sorted(restored.changed) == [".gitignore", "new"]


def test_a_store_inside_the_directory_does_not_save_itself(project):
    mine = Checkpoints(project, store=project / "data")
    mine.snapshot("turn", 1)
    assert "data" not in git(mine.store, "ls-tree", "-r", "--name-only", mine.snapshots()[0].id)
    (project / "a.txt").write_text("changed")
    mine.restore("turn", 1)
    assert (project / "a.txt").read_bytes() == b"one\r\n"


def test_only_the_newest_snapshots_are_kept(project, tmp_path):
    mine = Checkpoints(project, store=tmp_path / "store", keep=3)
    for iteration in range(1, 7):
        (project / "a.txt").write_bytes(os.urandom(5_000))
        mine.snapshot("turn", iteration)
    assert [snapshot.iteration for snapshot in mine.snapshots()] == [4, 5, 6]
    assert sum(path.stat().st_size for path in mine.store.rglob("*") if path.is_file()) < 60_000


def test_the_store_stays_within_its_size(project, tmp_path):
    mine = Checkpoints(project, store=tmp_path / "store", total_size=300_000)
    for iteration in range(1, 7):
        (project / "a.txt").write_bytes(os.urandom(100_000))
        mine.snapshot("turn", iteration)
    assert 1 <= len(mine.snapshots()) <= 3
    assert mine.snapshots()[-1].iteration == 6


def test_the_last_snapshot_stays_however_large_it_is(project, tmp_path):
    mine = Checkpoints(project, store=tmp_path / "store", total_size=1)
    mine.snapshot("turn", 1)
    mine.snapshot("turn", 2)
    assert [snapshot.iteration for snapshot in mine.snapshots()] == [2]


@pytest.mark.parametrize(("bound", "kept"), [(300, [1, 2]), (299, [2])])
def test_the_store_may_be_as_large_as_its_bound(project, tmp_path, monkeypatch, bound, kept):
    monkeypatch.setattr(Checkpoints, "_bytes", lambda _: 300)
    mine = Checkpoints(project, store=tmp_path / "store", total_size=bound)
    mine.snapshot("turn", 1)
    mine.snapshot("turn", 2)
    assert [snapshot.iteration for snapshot in mine.snapshots()] == kept


def test_the_size_of_the_store_is_counted_in_bytes(project, checkpoints):
    (project / "a.txt").write_bytes(os.urandom(1_000_000))
    checkpoints.snapshot("turn", 1)
    assert 1_000_000 <= checkpoints._bytes() < 1_050_000


def test_a_tree_and_a_file_as_large_as_their_bounds_are_saved(project, tmp_path):
    (project / "a.txt").write_bytes(b"x" * 256)
    mine = Checkpoints(project, store=tmp_path / "store", files=2, file_size=256)
    assert mine.snapshot("turn", 1).left_out == ()
    assert git(mine.store, "ls-tree", "-r", "--name-only", mine.snapshots()[0].id).split() == ["a.txt", "sub/b.bin"]


def test_a_tree_that_is_too_big_is_left_alone(project, tmp_path):
    mine = Checkpoints(project, store=tmp_path / "store", files=1)
    with pytest.raises(CheckpointError, match="more than 1 files"):
        mine.snapshot("turn", 1)


@pytest.mark.parametrize("place", ["~", "/", "/no/such/directory"])
def test_a_directory_that_is_too_much_or_not_there_is_refused_at_once(place):
    with pytest.raises(ConfigurationError, match="directory"):
        Checkpoints(place)


def test_a_machine_without_git_is_told_so_at_once(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigurationError, match="git"):
        Checkpoints(project)


def test_the_defaults_of_checkpoints(checkpoints):
    bounds = checkpoints.keep, checkpoints.files, checkpoints.file_size, checkpoints.total_size
    assert bounds == (20, 50_000, 10_000_000, 500_000_000)
    assert module._SECONDS == 60


def test_the_default_store_is_in_the_users_data_directory(project, home):
    assert Checkpoints(project).store.parent == home / "checkpoints"


# --------------------------------------------------------------------------------------------- in a batch


def writers(project: Path):
    @tool(writes="path")
    def write(path: str, text: str = "changed") -> str:
        Path(path).write_text(text)
        return "written"

    @tool(writes=True)
    def build() -> str:
        (project / "built.txt").write_text("built")
        return "built"

    @tool
    def read() -> str:
        return (project / "a.txt").read_text()

    return [write, build, read]


def run(project, checkpoints, *calls):
    return run_batch(writers(project), *calls, context=ToolContext(checkpoints=checkpoints, saves=Saves("turn", 1)))


def test_one_snapshot_is_taken_before_the_first_tool_that_writes(project, checkpoints):
    before = files(project)
    path = str(project / "a.txt")
    batch = run(project, checkpoints, ask("read"), ask("write", path=path), ask("build"))
    assert batch.statuses == ["ok", "ok", "ok"]
    [told] = batch.told("checkpoint")
    assert (told.directory, told.snapshot) == (str(project), checkpoints.snapshots()[0].id)
    checkpoints.restore("turn", 1)
    assert files(project) == before


def test_reading_and_writing_elsewhere_saves_nothing(project, checkpoints, tmp_path):
    path = str(tmp_path / "elsewhere.txt")
    batch = run(project, checkpoints, ask("read"), ask("write", path=path), ask("write", path="\0"))
    assert batch.statuses == ["ok", "ok", "error"]
    assert not batch.told("checkpoint")


def test_a_store_that_fails_does_not_keep_the_tool_from_running(project, tmp_path):
    (tmp_path / "file").write_text("in the way")
    broken = Checkpoints(project, store=tmp_path / "file")
    batch = run(project, broken, ask("build"))
    assert batch.statuses == ["ok"]
    [told] = batch.told("degraded")
    assert told.part == "checkpoint"
    assert not batch.told("checkpoint")


def test_whatever_goes_wrong_while_files_are_saved_the_tool_runs_and_that_is_said(project, checkpoints):
    class Odd(Checkpoints):
        def snapshot(self, turn_id, iteration):
            raise LookupError("not even an error of ours")

    batch = run(project, Odd(project, store=checkpoints.store.parent), ask("build"))
    assert batch.statuses == ["ok"]
    assert [what.detail for what in batch.told("degraded")] == ["LookupError: not even an error of ours"]


def test_an_interrupt_while_files_are_saved_says_that_the_tool_did_not_start(project, checkpoints):
    class Slow(Checkpoints):
        def snapshot(self, turn_id, iteration):
            time.sleep(1)
            return super().snapshot(turn_id, iteration)

    context = ToolContext(checkpoints=Slow(project, store=checkpoints.store.parent))
    batch = run_batch(writers(project), ask("build"), ask("read"), context=context, cancel_after=0.1)
    assert batch.statuses == ["skipped", "skipped"]
    assert len(batch.ended()) == 2
    assert not (project / "built.txt").exists()


names = st.sampled_from(["a", "b", "d/a", "d/e/b", "c.txt"])
trees = st.dictionaries(names, st.binary(max_size=30), max_size=5)


@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.lists(trees, min_size=2, max_size=4))
def test_any_tree_comes_back(tmp_path_factory, contents):
    place = tmp_path_factory.mktemp("any")
    project = place / "project"
    project.mkdir()
    mine = Checkpoints(project, store=place / "store")

    def become(tree: dict[str, bytes]) -> None:
        for path in sorted(project.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        for name, data in tree.items():
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            (project / name).write_bytes(data)

    for number, tree in enumerate(contents):
        become(tree)
        mine.snapshot("turn", number)
    for number, tree in reversed(list(enumerate(contents))):
        mine.restore("turn", number)
        assert files(project) == tree
