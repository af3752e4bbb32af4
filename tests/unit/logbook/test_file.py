"""The file: its versions, what is not a logbook, and what happens when it cannot be written."""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
from contextlib import contextmanager

import pytest

from hermes_nb.logbook import Lease, Logbook, schema, store
from hermes_nb.vocabulary.failures import RunInProgress, UnreadableTrace
from hermes_nb.vocabulary.process import run_id
from tests.support.turns import telling


@pytest.fixture
def path(tmp_path):
    return tmp_path / "logbook.db"


@pytest.fixture
def no_pause(monkeypatch):
    monkeypatch.setattr(store, "PAUSE", 0.0)


def write_a_turn(logbook: Logbook, name: str = "turn-1", **fields):
    troubles: list[str] = []
    with telling(logbook.sink(troubles.append), turn_id=name, **fields) as turn:
        turn.iteration(1, text="Many.")
    return troubles


def python(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    """Run a program of its own."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


# ---------------------------------------------------------------------------------------- versions


def version_1(path, turns: int = 1) -> None:
    """A file as the first version made it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(schema.MIGRATIONS[0])
    connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.execute("INSERT INTO conversations VALUES (1, 'talk', 5)")
    for turn in range(1, turns + 1):
        connection.execute(
            "INSERT INTO turns VALUES (?, ?, 1, ?, 'a', 'p', 'm', 'How many?', '', '', '', 5, 9, 'completed', 0, '')",
            (turn, f"turn-{turn}", turn),
        )
        for number, role in enumerate(("user", "assistant"), 1):
            data = json.dumps({"role": role, "content": "text"})
            connection.execute("INSERT INTO messages VALUES (?, ?, ?, 0, ?)", (turn << 32 | number, number, role, data))
    connection.close()


def test_a_file_of_version_1_is_brought_up_to_date(path):
    version_1(path)
    with Logbook(path) as logbook:
        assert [message.role for message in logbook.messages("talk")] == ["user", "assistant"]
        assert write_a_turn(logbook, "turn-2", number=2) == []
        assert len(logbook.messages("talk")) == 4

    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (schema.VERSION,)
    assert connection.execute("SELECT count(*) FROM events WHERE turn_id = 'turn-2'").fetchone()[0] > 5
    connection.close()


def version_2(path) -> None:
    """A file as the second version made it, which did not keep which process ran a turn."""
    version_1(path)
    connection = sqlite3.connect(path)
    connection.executescript(schema.MIGRATIONS[1] + "PRAGMA user_version = 2")
    connection.close()


def test_a_file_of_version_2_learns_which_process_ran_a_turn(path):
    version_2(path)
    with Logbook(path) as logbook:
        write_a_turn(logbook, "turn-2", number=2)

        assert [turn.run_id for turn in logbook.turns()] == ["", run_id()]
    assert len(run_id()) == 16


def test_an_old_file_that_may_not_be_written_is_read_as_it_would_be(path, monkeypatch):
    def refuse(_):
        raise sqlite3.OperationalError

    version_2(path)
    before = path.read_bytes()
    monkeypatch.setattr(schema, "open_for_writing", refuse)

    with Logbook(path) as logbook:
        assert [turn.run_id for turn in logbook.turns()] == [""]
        assert len(logbook.messages("talk")) == 2
    assert path.read_bytes() == before


def test_processes_that_open_an_old_file_at_once_bring_it_up_to_date_once(path):
    version_1(path, turns=50)
    code = """
        import sys
        from hermes_nb.logbook import Logbook
        print(len(Logbook(sys.argv[1]).messages("talk")))
    """
    programs = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [program.communicate(timeout=60)[0] for program in programs] == ["100\n"] * 4


def test_a_file_of_a_newer_version_is_left_alone(path):
    with Logbook(path) as logbook:
        write_a_turn(logbook)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(UnreadableTrace, match="newer hermes_nb"):
        Logbook(path).turns()
    (trouble,) = write_a_turn(Logbook(path), "turn-2")
    assert "newer hermes_nb" in trouble
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["text", "database", "empty", "cut"])
def test_what_is_no_logbook_is_named_and_not_touched(path, kind):
    if kind == "text":
        path.write_text("city,people\nLyon,522000\n" * 100)
    elif kind == "database":
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE cities (name)")
        connection.commit()
        connection.close()
    elif kind == "cut":
        with Logbook(path) as logbook:
            write_a_turn(logbook)
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + b"\xaa" * (len(whole) - 4096))
    else:
        path.touch()
    before = path.read_bytes()
    if kind == "empty":
        assert write_a_turn(Logbook(path)) == [], "an empty file becomes a logbook"
        return

    with pytest.raises((UnreadableTrace, sqlite3.DatabaseError)):
        Logbook(path).messages("talk")
    troubles = write_a_turn(Logbook(path), "turn-2")
    assert len(troubles) == 1
    assert path.read_bytes() == before


def test_a_pipe_in_the_logbooks_place_is_named_and_not_waited_for(path):
    os.mkfifo(path)
    with pytest.raises(UnreadableTrace, match="pipe"):
        Logbook(path).messages("talk")


# ---------------------------------------------------------------------------------------- trouble


def test_a_locked_file_is_written_when_it_is_free_again(path, no_pause):
    logbook = Logbook(path)
    write_a_turn(logbook)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    troubles: list[str] = []
    with telling(logbook.sink(troubles.append), turn_id="turn-2", number=2) as turn:
        turn.ask(text="Many.")
        other.execute("ROLLBACK")
        other.close()
        turn.add(turn.history[0])

    assert len(troubles) == 1
    assert "locked" in troubles[0]
    assert [event.seq for event in logbook.events("turn-2")] == list(range(1, len(logbook.events("turn-2")) + 1))
    assert len(logbook.messages("talk")) == 5


def test_a_locked_file_does_not_stop_a_turn_at_every_step(path):
    logbook = Logbook(path)
    write_a_turn(logbook)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    over = threading.Event()

    def work() -> None:
        with telling(logbook.sink(), turn_id="turn-2") as turn:
            for number in range(200):
                turn.iteration(number, text="Many.")
        over.set()

    threading.Thread(target=work, daemon=True).start()
    assert over.wait(30), "two waits of half a second each, not two hundred"
    other.close()


def test_a_locked_file_is_not_waited_for_anew_by_each_turn_that_ends(path):
    """For they may share a thread, in which nobody else's turn could be interrupted meanwhile."""
    logbook = Logbook(path)
    write_a_turn(logbook)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    over = threading.Event()

    def work() -> None:
        for number in range(2, 102):
            write_a_turn(logbook, f"turn-{number}")
        over.set()

    threading.Thread(target=work, daemon=True).start()
    assert over.wait(30), "one wait of half a second, not a hundred"
    other.close()
    assert len(logbook.turns()) > 1


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_is_removed_while_it_is_in_use_is_told_of_and_the_next_turn_has_a_new_one(path, replaced):
    logbook = Logbook(path)
    troubles: list[str] = []
    with telling(logbook.sink(troubles.append)) as turn:
        turn.ask(text="Many.")
        for file in path.parent.glob(f"{path.name}*"):
            file.unlink()
        if replaced:
            write_a_turn(Logbook(path.with_name("other.db")), "turn-0", conversation_id="other")
            path.with_name("other.db").rename(path)
        turn.ask(text="Really many.")

    assert len(troubles) == 1
    assert "removed or replaced" in troubles[0]
    assert write_a_turn(logbook, "turn-2") == []
    assert [turn.id for turn in Logbook(path).turns()] == (["turn-0", "turn-2"] if replaced else ["turn-2"])
    assert len(Logbook(path).messages("talk")) == 2


def test_a_file_that_is_removed_between_two_turns_is_made_again(path):
    logbook = Logbook(path)
    write_a_turn(logbook)
    path.unlink()
    assert write_a_turn(logbook, "turn-2") == []
    assert [turn.id for turn in Logbook(path).turns()] == ["turn-2"]


def test_what_could_not_be_written_is_still_the_conversation(tmp_path, no_pause):
    place = tmp_path / "no-directory"
    place.write_text("a file where the directory should be")
    logbook = Logbook(place / "logbook.db")
    troubles = write_a_turn(logbook)
    assert len(troubles) == 1

    so_far = logbook.conversation("talk")
    assert [message.text for message in so_far.messages] == ["How many?", "Many."]
    assert (so_far.turns, so_far.last_turn_id) == (1, "turn-1")
    write_a_turn(logbook, "turn-2", history=so_far.messages, number=2)
    assert len(logbook.messages("talk")) == 4

    place.unlink()
    write_a_turn(logbook, "turn-3", history=logbook.messages("talk"), number=3)
    assert len(Logbook(logbook.path).messages("talk")) == 6
    assert [turn.id for turn in logbook.turns()] == ["turn-1", "turn-2", "turn-3"]


def test_only_so_many_turns_wait_for_a_file_that_cannot_be_written(tmp_path, no_pause, monkeypatch):
    monkeypatch.setattr(store, "BEHIND", 3)
    (tmp_path / "file").touch()
    logbook = Logbook(tmp_path / "file" / "logbook.db")
    for number in range(6):
        write_a_turn(logbook, f"turn-{number}", conversation_id=f"talk-{number}")

    assert [logbook.messages(f"talk-{number}") != () for number in range(6)] == [False, False, False, True, True, True]


def test_a_full_disk_damages_nothing_and_says_so_once(path):
    """A limit on the size of files stands in for the disk: writing fails in the same way."""
    write_a_turn(Logbook(path))
    code = """
        import resource, sys
        from hermes_nb.logbook import Logbook
        from tests.support.turns import telling
        from hermes_nb.vocabulary.messages import ToolCall
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
        troubles = []
        with telling(Logbook(sys.argv[1]).sink(troubles.append), turn_id="turn-2", number=2) as turn:
            for number in range(20):
                turn.iteration(number, ToolCall(str(number), "t", "{}"), text=f"{number} " * 20_000)
        assert len(troubles) == 1, troubles
        print(troubles[0])
    """
    done = python(code, path)

    assert done.returncode == 0, done.stderr
    assert "could not be written" in done.stdout
    logbook = Logbook(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert logbook.events("turn-1")[-1].what.exit_reason == "completed"
    kept = [event.seq for event in logbook.events("turn-2")]
    assert kept == list(range(1, len(kept) + 1)), "what was written before is whole"
    write_a_turn(logbook, "turn-3", number=3)
    assert logbook.turns()[-1].exit_reason == "completed"


def test_a_file_that_may_not_be_written_can_be_read(path, tmp_path, tmp_path_factory):
    with Logbook(path) as logbook:
        write_a_turn(logbook)
    code = """
        import os, sys
        from hermes_nb.logbook import Logbook
        from tests.support.turns import telling

        def use(path):
            logbook = Logbook(path)
            read = len(logbook.messages("talk")), len(logbook.search("many"))
            troubles = []
            with telling(logbook.sink(troubles.append), turn_id="turn-2", number=2) as turn:
                turn.iteration(1, text="Many.")
            return *read, len(troubles), len(logbook.messages("talk"))

        path, elsewhere = sys.argv[1:]
        use(elsewhere)  # for what is imported on first use: Python itself may belong to root alone
        if os.getuid() == 0:
            os.setuid(65534)
        print(*use(path))
    """
    path.chmod(0o444)  # and a directory that cannot be written
    for place in (tmp_path, *tmp_path.parents[:2]):
        place.chmod(0o555 if place == tmp_path else 0o755)
    try:
        done = python(code, path, tmp_path_factory.mktemp("elsewhere") / "logbook.db")
    finally:
        tmp_path.chmod(0o755)
    assert done.stdout.split() == ["2", "2", "1", "4"], done.stderr


def test_a_turn_that_cannot_be_kept_does_not_hold_up_the_others(path):
    logbook = Logbook(path)
    write_a_turn(logbook)
    troubles: list[str] = []
    sink = logbook.sink(troubles.append)
    with telling(sink, turn_id="turn-1") as twin:  # the id of a turn that is there already
        twin.iteration(1, text="Twice?")

    assert "cannot be kept" in troubles[0]
    assert write_a_turn(logbook, "turn-2", number=2) == []
    assert [message.text for message in logbook.messages("talk")] == ["How many?", "Many."] * 2


def test_files_are_the_users_only(path):
    write_a_turn(Logbook(path))

    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


# ---------------------------------------------------------------------------------------- the lease


@pytest.mark.parametrize("kind", [sqlite3.OperationalError, sqlite3.NotSupportedError, OSError, UnreadableTrace])
def test_what_may_be_over_later_is_written_later(path, monkeypatch, kind):
    real, troubles_are_over = store.Store.transaction, []

    @contextmanager
    def transaction(self):
        if not troubles_are_over:
            raise kind("not now")
        with real(self) as db:
            yield db

    monkeypatch.setattr(store.Store, "transaction", transaction)
    with Logbook(path) as logbook:
        assert write_a_turn(logbook)
        troubles_are_over.append(True)
        write_a_turn(logbook, "turn-2", number=2)
        assert [turn.number for turn in logbook.turns()] == [1, 2]


def test_a_file_that_cannot_be_written_is_not_tried_again_for_a_while(path, monkeypatch):
    tries = []

    @contextmanager
    def transaction(_):
        tries.append(True)
        raise OSError("not now")
        yield

    monkeypatch.setattr(store, "PAUSE", 60.0)
    monkeypatch.setattr(store.Store, "transaction", transaction)
    kept = store.Store.of(path)
    kept.writer("turn-1", "talk")
    logbook = Logbook(path)
    with telling(logbook.sink(), turn_id="turn-1") as turn:
        turn.iteration(1, text="Many.")
        kept.flush()
        tried = len(tries)
        turn.iteration(2, text="More.")
        assert kept.flush()
        assert len(tries) == tried >= 1
        kept.flush(at_once=True)
        assert len(tries) == tried + 1


def test_a_busy_conversation_refuses_a_second_turn_at_once(path):
    with Lease(path, "talk"), pytest.raises(RunInProgress, match="talk"):
        Lease(path, "talk")
    with Lease(path, "talk"), Lease(path, "other talk"):
        pass


def test_a_lease_holds_against_other_processes_and_ends_with_them(path):
    code = """
        import os, signal, sys
        from hermes_nb.logbook import Lease
        from hermes_nb.vocabulary.failures import RunInProgress
        try:
            lease = Lease(__import__("pathlib").Path(sys.argv[1]), "talk")
        except RunInProgress:
            print("refused")
        else:
            print("taken", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    with Lease(path, "talk"):
        assert python(code, path).stdout == "refused\n"
    assert python(code, path).stdout == "taken\n"
    with Lease(path, "talk"):
        pass
    assert [p.name for p in path.parent.iterdir()] == [], "nothing is left behind"


def test_a_lease_without_a_directory_to_lock_in_holds_in_this_process(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "logbook.db"
    with Lease(path, "talk"), pytest.raises(RunInProgress):
        Lease(path, "talk")


def test_a_lease_that_is_dropped_or_refused_is_nobodys(path):
    lease = Lease(path, "talk")
    with pytest.raises(RunInProgress):
        Lease(path, "talk")
    gc.collect()
    with pytest.raises(RunInProgress):
        Lease(path, "talk")
    del lease
    gc.collect()
    first = Lease(path, "talk")
    first.close()
    second = Lease(path, "talk")
    first.close()
    with pytest.raises(RunInProgress):
        Lease(path, "talk")
    second.close()


def test_leases_taken_by_many_threads_are_exclusive(path):
    held, most, refused = [0], [0], [0]
    lock = threading.Lock()

    def work() -> None:
        for _ in range(60):
            try:
                with Lease(path, "talk"):
                    with lock:
                        held[0] += 1
                        most[0] = max(most[0], held[0])
                    with lock:
                        held[0] -= 1
            except RunInProgress:
                refused[0] += 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_the_end_of_the_program_closes_no_connection_that_is_written_with(tmp_path):
    used = store.Store.of(tmp_path / "logbook.db")
    ending = threading.Thread(target=used._finalizer)

    with used.transaction() as db:
        ending.start()
        ending.join(0.1)
        assert db.execute("SELECT 1").fetchone() == (1,)
    ending.join()

    assert used._connections == []
