"""Conversations that outlive their kernel."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

import hermes_nb as hn
from hermes_nb.logbook import Logbook, store
from hermes_nb.testing import call, calls, fails, no_waiting, say, script
from hermes_nb.vocabulary.messages import Message
from tests.support import server as http
from tests.support.pairing import problems
from tests.support.server import Server

PEOPLE = {"Lyon": 522_000, "Lille": 236_000}


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return PEOPLE[city]


@pytest.fixture
def place(tmp_path):
    return tmp_path / "cities.db"


def agent(*steps, **settings) -> hn.Agent:
    return hn.Agent(script(*steps), **({"tools": [population]} | settings))


def asked(server: Server, **settings) -> hn.Agent:
    """An agent of a real server."""
    provider = hn.OpenAIChat("m", base_url=server.url, api_key="k-12345678")
    return hn.Agent(provider, **({"tools": [population]} | settings))


def wire(received) -> list[Message]:
    return [Message.from_dict(message) for message in received.messages]


# ---------------------------------------------------------------------------------------- going on


def test_a_conversation_goes_on_with_reply_and_with_the_session(place):
    session = hn.Session(place)
    run = agent(call("population", city="Lyon"), say("522,000")).start("How many in Lyon?", session=session)
    run.result()
    second = run.agent.with_(models=script(say("More than in Lille."))).follow(run, "And Lille?")
    assert second.result().text == "More than in Lille."

    third = session.resume(agent(say("Marseille is larger.")), "And Marseille?")

    assert [m.text for m in third.messages if m.role == "user"] == ["How many in Lyon?", "And Lille?", "And Marseille?"]
    assert session.messages == third.messages
    assert [(turn.number, turn.exit_reason) for turn in session.turns] == [(n, "completed") for n in (1, 2, 3)]
    assert [turn.previous_turn_id for turn in session.turns] == ["", *(turn.id for turn in session.turns[:2])]


def test_a_session_finds_the_newest_conversation_of_its_file(place):
    first = hn.Session(place)
    first.resume(agent(say("one")), "1")
    other = hn.Session(place, id="another")
    other.resume(agent(say("two")), "2")

    assert hn.Session(place).id == "another"
    assert hn.Session(place, id=first.id).resume(agent(say("three")), "3").messages[0].text == "1"
    assert hn.Session(place).id == first.id, "the one that was used last"


def test_turns_without_a_session_are_kept_in_the_default_logbook(home):
    result = agent(say("hello")).run("hi")

    assert Logbook().path.parent == home
    session = hn.Session(id=result.conversation_id)
    assert session.messages == result.messages
    assert session.resume(agent(say("again")), "once more").messages[:2] == result.messages


def test_a_turn_with_session_false_keeps_nothing_on_disk(home):
    run = agent(say("hello")).start("hi", session=False)
    run.result()
    run.agent.with_(models=script(say("again"))).follow(run, "more").result()

    assert list(home.iterdir()) == []


def test_a_history_that_is_given_becomes_the_conversations(place):
    history = [{"role": "user", "content": "I live in Lille."}, {"role": "assistant", "content": "Noted."}]
    session = hn.Session(place)
    agent(say("In Lille.")).run("Where do I live?", history=history, session=session)

    last = session.resume(agent(say("Yes.")), "Sure?")

    assert [m.text for m in last.messages] == [
        "I live in Lille.", "Noted.", "Where do I live?", "In Lille.", "Sure?", "Yes.",
    ]  # fmt: skip
    assert session.messages == last.messages


def test_a_session_says_what_it_cannot_be(tmp_path):
    with pytest.raises(hn.ConfigurationError, match="blank"):
        hn.Session(tmp_path / "x.db", id=" ")
    with pytest.raises(hn.ConfigurationError, match="not 5"):
        agent(say("x")).run("q", session=5)
    (tmp_path / "notes.txt").write_text("no database " * 100)
    with pytest.raises(hn.UnreadableTrace, match=r"notes\.txt"):
        hn.Session(tmp_path / "notes.txt")


# ---------------------------------------------------------------------------------------- byte by byte

RESUME = """
    import sys, hermes_nb as hn
    @hn.tool
    def population(city: str) -> int:
        "Inhabitants of a city."
        return {"Lyon": 522_000, "Lille": 236_000}[city]
    agent = hn.Agent(
        hn.OpenAIChat("m", base_url=sys.argv[2], api_key="k-12345678"), tools=[population], instructions="Be exact."
    )
    print(hn.Session(sys.argv[1]).resume(agent, sys.argv[3]).text)
"""


def python(code: str, *arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, **options)


def test_another_kernel_sends_the_same_bytes_and_more(place, monkeypatch):
    """Tools, steers, odd texts, reasoning: the request after a restart begins with the last one's bytes."""
    with Server(
        http.call("population", city="Lyon"),
        http.calls(
            http.call("population", raw='{ "city":"Lille" }'),
            http.call("population", city="Lyon"),
            text="Now\u2028two. ",
        ),
        http.say("  522,000 \n\ud83d\ude00 ", reasoning="hm"),
        http.say("Less."),
        http.say("Yes."),
    ) as server:
        made, run = asked(server, instructions="Be exact."), []

        def steer(event: hn.Event) -> None:
            if event.what.kind == "tool" and event.phase == "started" and event.iteration == 1:
                run[0].steer("Count <b>all</b> of them.")

        run.append(made.start("Wie viele?  ", session=hn.Session(place), sinks=[steer], paused=True))
        run[0].resume()
        assert run[0].result().completed
        monkeypatch.setattr("hermes_nb.turn.prompting.datetime", _Tomorrow)
        assert made.run("Lille?", session=hn.Session(place)).completed
        done = python(RESUME, place, server.url, "Sure?")
        assert done.stdout.strip() == "Yes.", done.stderr

        bodies = [json.dumps(request.messages, ensure_ascii=False) for request in server.requests]
    assert len(bodies) == 5
    for before, after in itertools.pairwise(bodies):
        assert after.startswith(before[:-1]), "byte by byte"
    assert "Count <b>all</b> of them." in bodies[1]
    assert problems([Message.from_dict(message) for message in json.loads(bodies[-1])]) == []


class _Tomorrow:
    """The day after, for the prompt's date."""

    @staticmethod
    def now(zone):
        return dt.datetime.now(zone) + dt.timedelta(days=1)


def test_other_instructions_make_another_system_prompt(place):
    with Server(http.always(http.say("ok"))) as server:
        for words in ("Be exact.", "Be brief.", "Be exact."):
            asked(server, instructions=words).run("q", session=hn.Session(place))
        systems = [request.messages[0]["content"] for request in server.requests]

    assert "Be brief." in systems[1]
    assert systems[0] == systems[2]


# ---------------------------------------------------------------------------------------- back


def test_a_session_goes_back_to_an_iteration_and_on_from_there(place):
    session = hn.Session(place)
    session.resume(agent(say("one")), "first")
    steps = [call("population", city="Lyon"), call("population", city="Lille"), say("done")]
    second = session.resume(agent(*steps), "second")
    session.resume(agent(say("three")), "third")

    session.rewind(second.turn_id, 1)

    assert [m.text for m in session.messages] == ["first", "one", "second", "", "522000"]
    on = session.resume(agent(say("otherwise")), "Go another way.")
    assert [m.text for m in on.messages] == ["first", "one", "second", "", "522000", "Go another way.", "otherwise"]
    assert session.messages == on.messages
    assert session.search("third"), "what came later can still be found"
    assert [turn.number for turn in session.turns] == [1, 2, 3, 4]
    session.rewind(second.turn_id, 0)
    assert [m.text for m in session.messages] == ["first", "one", "second"]


def test_a_run_goes_back_and_replies_from_there():
    steps = [call("population", city="Lyon"), call("population", city="Lille"), say("done"), say("otherwise")]
    run = agent(*steps).start("q")
    run.result()
    run.rewind(1)

    assert [m.text for m in run.reply("Go on.").result().messages] == ["q", "", "522000", "Go on.", "otherwise"]
    loose = agent(say("x")).start("q", session=False)
    loose.result()
    with pytest.raises(hn.ConfigurationError, match="session=False"):
        loose.rewind(0)


def test_a_session_says_where_it_cannot_go_back_to(place):
    session = hn.Session(place)
    result = session.resume(agent(say("one")), "first")
    for turn, iteration in ((result.turn_id, 7), (result.turn_id, -1), ("no-such-turn", 0)):
        with pytest.raises(hn.ConfigurationError):
            session.rewind(turn, iteration)


# ---------------------------------------------------------------------------------------- failed and stopped turns


def test_a_failed_turns_question_is_not_put_to_the_model_again(place):
    def strict(received):
        found = problems(wire(received))
        return (
            http.status(400, {"error": {"message": str(found)}})
            if found
            else http.say(received.messages[-1]["content"])
        )

    session = hn.Session(place)
    with Server(http.status(500), http.status(500), http.status(500), http.always(strict)) as server, no_waiting():
        first = asked(server).run("first", session=session)
        second = asked(server).run("second", session=session)

    assert first.exit_reason is hn.ExitReason.PROVIDER_FAILED
    assert second.text == "second"
    assert "scripted 500" not in json.dumps([request.messages for request in server.requests])
    assert [(turn.prompt, turn.failed) for turn in session.turns] == [("first", True), ("second", False)]
    assert [m.text for m in session.logbook.transcript(session.id)] == ["first", "second", "second"]


def test_every_steer_is_in_the_store_or_comes_back(place):
    """Steers at random moments: each is in a later request and in the store, or left over; never in neither."""
    dice = random.Random(7)
    for number in range(12):
        session = hn.Session(place, id=f"talk-{number}")
        with Server(
            http.slow(0.02, http.call("wait")), http.slow(0.02, http.call("wait")), http.slow(0.02, http.say("done"))
        ) as server:
            run = asked(server, tools=[wait]).start("go", session=session)
            notes = []
            for index in range(3):
                time.sleep(dice.random() * 0.05)
                notes.append(run.steer(f"note {number}-{index}"))
            result = run.result()
            sent = json.dumps(server.requests[-1].messages)
        stored = [m.text for m in session.messages if m.origin == "steer"]
        left = (result.pending_steer or "").split("\n")
        for note in notes:
            assert (note.text in stored) + (note.text in left) == 1, note
            assert (note.text in sent) == (note.text in stored), note


@hn.tool
def wait() -> str:
    """Takes a moment."""
    time.sleep(0.02)
    return "waited"


def test_an_interrupt_during_tools_leaves_a_session_that_goes_on(place):
    began = threading.Event()

    @hn.tool(parallel_safe=True)
    def quick() -> str:
        """Quick."""
        return "done"

    @hn.tool(parallel_safe=True)
    def hang() -> str:
        """Hangs."""
        began.set()
        time.sleep(3)
        return "late"

    session = hn.Session(place)
    run = agent(calls(call("quick"), call("hang"), call("population", city="Lyon")), tools=[quick, hang, population])
    run = run.start("go", session=session)
    assert began.wait(20)
    run.interrupt()
    result = run.result()

    assert result.interrupted
    assert session.messages == result.messages
    assert problems(hn.Session(place).resume(agent(say("fine")), "again").messages) == []
    texts = [m.text for m in session.messages if m.role == "tool"]
    assert texts[0] == "done"
    assert "unknown" in texts[1]
    assert "not started" in texts[2].lower()


# ---------------------------------------------------------------------------------------- one turn at a time


def test_a_busy_session_refuses_a_second_turn_and_lets_the_first_go_on(place):
    session = hn.Session(place)
    run = agent(say("done", seconds=1.0)).start("q", session=session)
    for other in (session, hn.Session(place, id=session.id)):
        with pytest.raises(hn.RunInProgress, match=session.id):
            agent(say("x")).start("q", session=other)
    with pytest.raises(hn.RunInProgress):
        run.reply("too early")

    assert run.result().text == "done"
    assert session.resume(agent(say("next")), "q").text == "next"


def test_another_process_is_refused_while_the_session_is_busy(place):
    code = """
        import sys, hermes_nb as hn
        from hermes_nb.testing import say, script
        session = hn.Session(sys.argv[1], id="talk")
        try:
            print(session.resume(hn.Agent(script(say("mine"))), "q").text)
        except hn.RunInProgress as error:
            print("refused", error)
    """
    gate = threading.Event()

    @hn.tool
    def hold() -> str:
        """Holds the turn."""
        gate.wait(60)
        return "held"

    run = agent(call("hold"), say("done"), tools=[hold]).start("q", session=hn.Session(place, id="talk"))
    assert python(code, place).stdout.startswith("refused a turn of conversation talk")
    gate.set()
    run.result()
    assert python(code, place).stdout == "mine\n"
    assert len(hn.Session(place, id="talk").turns) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_during_a_turn_takes_nothing_from_it(place):
    """The fork writes turns of its own to the same file; what the parent has open and unwritten stays the parent's."""
    session = hn.Session(place, id="parent's")
    agent(say("before")).run("q", session=session)
    with Server(http.stall()) as server:
        run = asked(server).start("still at it", session=session)
        server.wait_for(1)
        child = os.fork()
        if child == 0:
            os._exit(_in_the_fork(place))
        _, status = os.waitpid(child, 0)
        run.interrupt()
        run.result(20)

    assert os.waitstatus_to_exitcode(status) == 0
    assert [turn.exit_reason for turn in session.turns] == ["completed", "interrupted_by_user"]
    assert [m.text for m in hn.Session(place, id="fork's").messages] == ["q", "child"]


def _in_the_fork(place) -> int:
    """What the forked process does; 0 if all is well."""
    try:
        with pytest.raises(hn.RunInProgress):
            agent(say("never")).run("q", session=hn.Session(place, id="parent's"))
        run = agent(say("child")).start("q", session=hn.Session(place, id="fork's"))
        return 0 if run.wait(10) and run.result().completed else 1
    except BaseException:  # noqa: BLE001  the fork must end here, whatever happens
        return 2


def test_many_sessions_write_to_one_file_from_many_threads(place):
    runs = [
        agent(call("population", city="Lyon"), say("ok")).start("q", session=hn.Session(place, id=f"talk-{number}"))
        for number in range(8)
    ]
    results = [run.result() for run in runs]

    for number, result in enumerate(results):
        assert hn.Session(place, id=f"talk-{number}").messages == result.messages
    assert len(Logbook(place).turns()) == 8


# ---------------------------------------------------------------------------------------- kill -9

NURSERY = """
    import os, sys, time
    import hermes_nb as hn
    import anyio, httpx, hermes_nb.telemetry, hermes_nb.providers.openai_chat  # now, not in each turn

    @hn.tool
    def work(number: int) -> str:
        "Does something."
        with open(sys.argv[2], "a") as effects:
            effects.write(f"begun {number}\\n")
        time.sleep(0.015)
        return f"result {number}"

    for line in sys.stdin:  # each line: one turn in a process of its own, until that is killed
        url, place = line.split()
        pid = os.fork()
        if pid:
            print(pid, flush=True)
            os.waitpid(pid, 0)
            print("gone", flush=True)
            continue
        agent = hn.Agent(hn.OpenAIChat("m", base_url=url, api_key="k-12345678"), tools=[work])
        agent.run("Work, please.", session=hn.Session(place, id="talk"))
        time.sleep(60)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks the turns")
def test_a_kill_at_any_moment_loses_nothing_finished(tmp_path):
    """kill -9 at twenty random moments of a real turn: what was told is there, and the next request is accepted."""
    dice = random.Random(11)
    effects = tmp_path / "effects"
    command = [sys.executable, "-c", textwrap.dedent(NURSERY), "x", str(effects)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as nursery:
        try:
            stages = {_kill_one(nursery, tmp_path / f"{number}.db", effects, dice) for number in range(20)}
        finally:
            nursery.stdin.close()
            nursery.kill()
    assert len(stages) > 4, "the kills hit different stages of the turn"


def _kill_one(nursery, place, effects, dice) -> int:
    effects.write_text("")
    rounds = [
        http.slow(0.01, http.calls(http.call("work", number=2 * n), http.call("work", number=2 * n + 1)))
        for n in range(6)
    ]
    with Server(*rounds, http.say("All done.")) as server:
        nursery.stdin.write(f"{server.url} {place}\n")
        nursery.stdin.flush()
        pid = int(nursery.stdout.readline())
        server.wait_for(1)
        time.sleep(dice.random() * 0.45)
        os.kill(pid, signal.SIGKILL)
        assert nursery.stdout.readline() == "gone\n"
        sent = wire(server.requests[-1])[1:]
    begun = effects.read_text().split("\n")[:-1]
    _check_what_is_left(place, sent, begun)
    return len(sent)


def _check_what_is_left(place, sent: list[Message], begun: list[str]) -> None:
    session = hn.Session(place, id="talk")
    stored = session.messages
    assert [m.text for m in stored[: len(sent)]] == [m.text for m in sent], "everything that was sent was stored first"
    assert problems(stored) == []
    results = {m.tool_call_id: m.text for m in stored if m.role == "tool"}
    for message in stored:
        for one in message.tool_calls:
            number = json.loads(one.arguments)["number"]
            text = results[one.id]
            if f"begun {number}" not in begun:
                assert "not started" in text or "unknown" in text
            else:
                assert text == f"result {number}" or "unknown" in text, "a call that has begun is not called harmless"
    with Server(http.say("Going on.")) as server:
        assert asked(server).run("Go on.", session=session).text == "Going on."
        assert problems(wire(server.requests[0])) == []
        assert [m.text for m in wire(server.requests[0])[1:-1]] == [m.text for m in stored]


def test_a_kill_during_the_first_request_keeps_the_prompt(tmp_path):
    place = tmp_path / "talk.db"
    with Server(http.stall()) as server:
        program = subprocess.Popen([sys.executable, "-c", textwrap.dedent(RESUME), str(place), server.url, "How many?"])
        server.wait_for(1, timeout=60)
        time.sleep(0.3)
        program.kill()
        program.wait(20)

    session = hn.Session(place)
    (turn,) = session.turns
    assert (turn.prompt, turn.ended_at) == ("How many?", None)
    assert [m.text for m in session.logbook.transcript(session.id)] == ["How many?"]
    open_scopes = {e.what.kind for e in session.logbook.events(turn.id) if e.phase == "started"}
    assert open_scopes == {"turn", "iteration", "chat", "attempt"}, "what was under way can be seen"
    assert session.resume(agent(say("Many.")), "Well?").text == "Many."


# ---------------------------------------------------------------------------------------- disks


def test_a_turn_goes_on_without_its_logbook_and_says_so(home, monkeypatch):
    """The default place cannot be written: turns and replies work, from memory."""
    monkeypatch.setenv("HERMES_NB_HOME", str(home / "file" / "deeper"))
    (home / "file").touch()
    told: list[hn.Event] = []
    run = agent(call("population", city="Lyon"), say("522,000"), say("More.")).start("q", sinks=[told.append])
    assert run.result().completed
    second = run.reply("And Marseille?")

    assert second.result().text == "More."
    assert second.result().messages[:4] == run.result().messages
    (trouble,) = [event.what for event in told if event.what.kind == "degraded"]
    assert trouble.part == "logbook"
    assert "deeper/logbook.db" in trouble.detail
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


def test_a_disk_that_fills_up_in_the_middle_of_a_turn(tmp_path):
    code = """
        import resource, sys, hermes_nb as hn
        from hermes_nb.testing import call, say, script
        @hn.tool
        def big(number: int) -> str:
            "Much text."
            if number == 2:
                resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
            return f"{number} " * 20_000
        session, told = hn.Session(sys.argv[1]), []
        rounds = [call("big", number=n) for n in range(8)]
        agent = hn.Agent(script(*rounds, say("done"), say("still here")), tools=[big])
        result = agent.run("q", session=session, sinks=[told.append])
        troubles = [event.what.detail for event in told if event.what.kind == "degraded"]
        print(result.exit_reason, len(troubles), len(result.messages))
        again = session.resume(agent, "more")
        print(again.text, again.messages[:len(result.messages)] == result.messages)
    """
    done = python(code, tmp_path / "talk.db", cwd=tmp_path)

    assert done.stdout.split("\n")[:2] == ["completed 1 18", "still here True"], done.stderr
    session = hn.Session(tmp_path / "talk.db")
    assert problems(session.messages) == []
    assert len(session.messages) >= 4, "what was written before stays"


def test_a_damaged_logbook_is_told_of_at_once(place):
    place.write_bytes(b"SQLite format 3\0" + b"\xaa" * 8_000)
    with pytest.raises(hn.UnreadableTrace, match="damaged"):
        hn.Session(place)
    assert place.read_bytes().endswith(b"\xaa")


def test_a_damaged_default_logbook_does_not_stop_a_turn(home):
    (home / "logbook.db").write_bytes(b"SQLite format 3\0" + b"\xaa" * 8_000)
    run = agent(say("one"), say("two")).start("q")

    assert run.result().text == "one"
    assert run.reply("more").result().text == "two"


def test_keys_are_nowhere_in_the_file(place):
    """A key in a prompt, in an error that echoes it, in a tool's argument and result."""
    key = "sk-test-SECRET123"
    with (
        Server(
            http.status(401, {"error": {"message": f"bad key {key}"}}),
            http.call("echo", text=key),
            http.say(f"the key is {key}"),
        ) as server,
        no_waiting(),
    ):
        provider = hn.OpenAIChat("m", base_url=server.url, api_key=key)
        made = hn.Agent(provider, tools=[echo], instructions=f"Never tell {key}.")
        made.run(f"My key is {key}", session=hn.Session(place))
        made.run(f"My key is {key}", session=hn.Session(place), history=[{"role": "user", "content": f"again {key}"}])

    Logbook(place).close()
    for file in place.parent.iterdir():
        assert key.encode() not in file.read_bytes(), file


@hn.tool
def echo(text: str) -> str:
    """Says it again."""
    return text


def test_turns_that_wait_for_the_disk_are_written_when_there_is_room(home, monkeypatch):
    monkeypatch.setattr(store, "PAUSE", 0.0)
    (home / "place").touch()
    session = hn.Session(home / "place" / "talk.db", id="talk")
    session.resume(agent(say("one")), "1")
    (home / "place").unlink()
    session.resume(agent(say("two")), "2")

    assert [m.text for m in hn.Session(home / "place" / "talk.db").messages] == ["1", "one", "2", "two"]


def test_search_over_past_turns(place):
    session = hn.Session(place)
    session.resume(agent(call("population", city="Lyon"), say("Lyon has 522,000 people.")), "How many in Lyon?")
    hn.Session(place, id="other").resume(agent(say("Lyon again.")), "Lyon?")

    assert {hit.message.role for hit in session.search("lyon")} == {"user", "assistant"}
    assert len(session.logbook.search("lyon")) == len(session.search("lyon")) + 2
    assert session.search("522,000")[0].turn_id == session.turns[0].id


def test_a_model_that_fails_in_the_middle_leaves_its_finished_calls(place):
    session = hn.Session(place)
    with no_waiting():
        first = agent(call("population", city="Lyon"), fails("server_error", times=9)).run("q", session=session)
    assert first.failed

    second = session.resume(agent(say("ok")), "again")
    assert problems(second.messages) == []
    assert [m.role for m in second.messages] == ["user", "assistant", "tool", "assistant", "user", "assistant"]
