"""The logbook as its readers see it."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from hermes_nb.logbook import Logbook
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.pairing import problems
from tests.support.turns import telling


@pytest.fixture
def logbook(tmp_path):
    with Logbook(tmp_path / "logbook.db") as logbook:
        yield logbook


def call(number: int, name: str = "population", arguments: str = "{}") -> ToolCall:
    return ToolCall(f"call_{number}", name, arguments)


def test_a_logbook_makes_no_file_before_the_first_turn(tmp_path):
    logbook = Logbook(tmp_path / "deep" / "logbook.db")

    assert logbook.conversations() == logbook.turns() == logbook.messages("x") == logbook.events("x") == ()
    assert not (tmp_path / "deep").exists()


def test_the_default_place_is_the_users_and_can_be_moved(home):
    assert Logbook().path == home / "logbook.db"


def test_a_turn_is_listed_with_how_it_ended(logbook):
    with telling(logbook.sink(), number=3, previous_turn_id="turn-0") as turn:
        turn.iteration(1, text="Many.")

    (record,) = logbook.turns("talk")
    assert (record.id, record.number, record.prompt, record.exit_reason) == ("turn-1", 3, "How many?", "completed")
    assert record.previous_turn_id == "turn-0"
    assert record.ended_at > record.started_at
    assert [(c.id, c.turns, c.title) for c in logbook.conversations()] == [("talk", 1, "How many?")]


def test_a_finished_message_is_in_the_file_at_once(logbook):
    with telling(logbook.sink()) as turn:
        turn.ask(call(1))
        with turn.recorder.scope(events.Tool("population", "call_1", "{}")):
            on_disk = _rows(logbook, "SELECT role FROM messages ORDER BY id")
        turn.add(Message("tool", "5", tool_call_id="call_1"))
        after = _rows(logbook, "SELECT role FROM messages ORDER BY id")

    assert on_disk == ["user", "assistant"], "the call is in the file before its tool is run"
    assert after == ["user", "assistant", "tool"]


def test_the_beginning_of_a_request_is_soon_in_the_file(logbook):
    attempt = events.Attempt(1, 3, "p", "m")
    with telling(logbook.sink()) as turn, turn.recorder.scope(events.Iteration(1)), turn.recorder.scope(attempt):
        _wait_for(lambda: "attempt" in _rows(logbook, "SELECT kind FROM events"))

    phases = _rows(logbook, "SELECT phase FROM events WHERE kind = 'attempt' ORDER BY seq")
    assert phases == ["started", "ended"]


def test_the_thread_of_the_logbook_goes_when_nothing_happens(logbook):
    with telling(logbook.sink()) as turn:
        turn.iteration(1, text="Many.")

    _wait_for(lambda: not [t for t in threading.enumerate() if t.name == "hermes_nb logbook"])


def test_messages_and_transcript_after_a_compression(logbook):
    with telling(logbook.sink()) as turn:
        turn.iteration(1, call(1))
        turn.iteration(2, call(2))
        before = tuple(turn.history)
        turn.replace([Message("user", "In short: two calls.", origin="summary"), *before[-2:]])
        turn.iteration(3, text="Many.")

    assert logbook.messages("talk") == tuple(turn.history)
    assert logbook.transcript("talk") == (*before, turn.history[0], turn.history[-1]), "nothing is lost, nothing twice"
    assert _rows(logbook, "SELECT count(*) FROM messages") == [7]


def test_a_second_compression_counts_from_the_first(logbook):
    with telling(logbook.sink()) as turn:
        for number in range(1, 6):
            turn.iteration(number, call(number))
            turn.replace([Message("user", f"So far: {number}", origin="summary"), *turn.history[-2:]])
    history = turn.history
    with telling(logbook.sink(), turn_id="turn-2", history=history, number=2) as turn:
        turn.iteration(1, text="Many.")

    assert logbook.messages("talk") == tuple(turn.history)


def test_ephemeral_messages_are_events_only(logbook):
    with telling(logbook.sink()) as turn:
        turn.add(Message("user", "A nudge."), ephemeral=True)
        turn.ask(text="Many.")

    assert "A nudge." not in {message.text for message in logbook.messages("talk")}
    assert "A nudge." in {e.what.message.text for e in logbook.events("turn-1") if e.what.kind == "message"}


def test_a_sub_agents_messages_are_not_the_conversations(logbook):
    sink = logbook.sink()
    with telling(sink) as turn:
        turn.ask(call(1, "searcher"))
        with telling(sink, turn_id="child", prompt="Search.", parent_turn_id="turn-1") as child:
            child.replace([Message("user", "Shorter.", origin="summary")])
            child.iteration(1, text="Found.")
        turn.run(call(1, "searcher"))
        turn.ask(text="Many.")

    assert logbook.messages("talk") == tuple(turn.history)
    assert [(t.id, t.parent_turn_id) for t in logbook.turns()] == [("turn-1", ""), ("child", "turn-1")]
    assert logbook.conversations()[0].turns == 1
    assert [e.what.message.text for e in logbook.events("child") if e.what.kind == "message"] == ["Search.", "Found."]


def test_a_turn_that_was_killed_leaves_a_history_for_the_next_request(logbook):
    turn = telling(logbook.sink())
    told = turn.__enter__()
    told.ask(call(1), call(2), call(3))
    told.run(call(1), "five")
    told.recorder.scope(events.Tool("population", "call_2", "{}")).__enter__()

    messages = Logbook(logbook.path).messages("talk")

    assert problems(messages) == []
    assert next(m.text for m in messages if m.role == "tool") == "five"
    assert "effect is unknown" in messages[-3].text
    assert "not started" in messages[-2].text
    (record,) = logbook.turns()
    assert (record.ended_at, record.exit_reason) == (None, "")
    turn.gen.close()


def test_a_word_that_comes_after_the_end_belongs_to_the_turn_still(logbook):
    with telling(logbook.sink()) as turn:
        turn.ask(text="Many.")
    turn.recorder.tell(events.Steered(1, "Too late.", "undelivered", "the turn is over"))
    logbook.close()

    assert logbook.events("turn-1")[-1].what.text == "Too late."
    assert logbook.turns()[0].prompt == "How many?"


def test_a_failed_turn_stays_readable_and_is_not_sent(logbook):
    with telling(logbook.sink(), exit_reason="provider_failed"):
        pass

    assert logbook.messages("talk") == ()
    assert [m.text for m in logbook.transcript("talk")] == ["How many?"]
    assert logbook.turns()[0].failed


def test_a_big_text_is_in_the_file_once(logbook):
    big = "0123456789abcdef" * 8_192  # 128 kB
    with telling(logbook.sink()) as turn:
        turn.ask(call(1))
        turn.run(call(1), big)
        turn.ask(text="Read.")
        turn.ask(text="Read again.")
    logbook.close()

    assert logbook.path.stat().st_size < 3 * len(big)
    chats = [e.what for e in logbook.events("turn-1") if e.phase == "started" and e.what.kind == "chat"]
    assert chats[-1].messages[-2].text == big


def test_chats_keep_what_was_sent_without_writing_it_again(logbook):
    with telling(logbook.sink()) as turn:
        for number in range(1, 60):
            turn.iteration(number, call(number))
    chats = [e.what for e in logbook.events("turn-1") if e.phase == "started" and e.what.kind == "chat"]

    assert [len(chat.messages) for chat in chats] == [2 * number for number in range(1, 60)]
    assert chats[-1].messages[1:] == tuple(turn.history[:-2])
    sizes = _rows(logbook, "SELECT length(data) FROM events WHERE kind = 'chat' AND phase = 'started' ORDER BY seq")
    assert sizes[-1] < 2 * sizes[2], "the size of a request does not grow with the history"


def test_eight_threads_write_to_one_logbook(logbook):
    def work(number: int) -> None:
        with telling(logbook.sink(), turn_id=f"turn-{number}", conversation_id=f"talk-{number}") as turn:
            for index in range(25):
                turn.iteration(index, call(index))
        assert logbook.messages(f"talk-{number}") == tuple(turn.history)

    failures: list[BaseException] = []
    threads = [threading.Thread(target=_caught(work, failures), args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert failures == []
    assert len(logbook.turns()) == 8
    for number in range(8):
        sequence = [event.seq for event in logbook.events(f"turn-{number}")]
        assert sequence == list(range(1, len(sequence) + 1))


# ------------------------------------------------------------------------------------------- search


def test_search_finds_words_in_any_script(logbook):
    with telling(logbook.sink(), prompt="Wie viele Einwohner hat Lyon?") as turn:
        turn.ask(call(1, "population", '{"city": "里昂"}'))
        turn.run(call(1), "人口是五十万")
        turn.ask(text="Lyon has half a million inhabitants.")

    assert [hit.message.role for hit in logbook.search("einwohner lyon")] == ["user"]
    assert [hit.message.role for hit in logbook.search("五十万")] == ["tool"]
    assert [hit.message.role for hit in logbook.search("人口")] == ["tool"], "shorter than the index can find"
    assert [hit.message.role for hit in logbook.search("里昂")] == ["assistant"], "arguments are searched too"
    assert [hit.message.role for hit in logbook.search('"half a million"')] == ["assistant"]
    assert logbook.search("million half-a") == ()
    hit = logbook.search("million")[0]
    assert (hit.conversation_id, hit.turn_id) == ("talk", "turn-1")
    assert "half a million" in hit.snippet


def test_search_sees_what_was_written_since_and_keeps_to_its_limits(logbook):
    for number in range(3):
        with telling(logbook.sink(), turn_id=f"turn-{number}", conversation_id=f"talk-{number}", prompt="needle"):
            assert len(logbook.search("needle")) == number + 1

    assert len(logbook.search("needle", limit=2)) == 2
    assert [hit.turn_id for hit in logbook.search("needle", conversation_id="talk-1")] == ["turn-1"]


@pytest.mark.parametrize(
    "text", ['"', "a'b", 'x"y', "NEAR(a b)", "col:val", "-not", "*", "\0", "\ud800 abc", "a" * 5_000]
)
def test_search_takes_any_text_as_words(logbook, text):
    with telling(logbook.sink()):
        pass

    assert logbook.search(f"zzz {text}") == ()


def test_search_needs_a_word(logbook):
    with pytest.raises(ConfigurationError, match="needs a word"):
        logbook.search("  ")


def test_search_works_on_a_file_that_cannot_be_written(logbook):
    with telling(logbook.sink()):
        pass
    logbook.close()
    logbook.path.chmod(0o444)
    logbook.path.parent.chmod(0o555)
    try:
        assert [hit.message.text for hit in Logbook(logbook.path).search("many")] == ["How many?"]
    finally:
        logbook.path.parent.chmod(0o755)


# ------------------------------------------------------------------------------------------- helpers


def _rows(logbook: Logbook, sql: str) -> list[object]:
    connection = sqlite3.connect(logbook.path)
    try:
        return [row[0] for row in connection.execute(sql)]
    finally:
        connection.close()


def _wait_for(condition) -> None:
    waiting = threading.Event()
    for _ in range(600):
        if condition():
            return
        waiting.wait(0.05)
    raise AssertionError("waited in vain")


def _caught(function, failures):
    def caught(*arguments):
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001  for the test's own thread to see
            failures.append(error)

    return caught
