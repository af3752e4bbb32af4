"""Replay, fork and cassettes: what they are for, and what they say when they cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import Future

import pytest

import hermes_nb as hn
from hermes_nb.logbook import Logbook
from hermes_nb.testing import call, calls, fails, no_waiting, say, script, span_tree
from hermes_nb.vocabulary.messages import Message
from tests.support import server as http
from tests.support.server import Server

PEOPLE = {"Lyon": 522_000, "Lille": 236_000}
runs: list[str] = []


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    runs.append(city)
    return PEOPLE[city]


@pytest.fixture(autouse=True)
def nothing_run():
    runs.clear()


def agent(*steps, **settings) -> hn.Agent:
    return hn.Agent(script(*steps, stream=False, each_turn=True), **({"tools": [population], "budget": 8} | settings))


def two_rounds(session=False, **settings) -> hn.Run:
    made = agent(
        call("population", city="Lyon"), call("population", city="Lille"), say("Lyon, by 286,000."), **settings
    )
    run = made.start("Which is larger?", session=session)
    run.result()
    runs.clear()
    return run


# ---------------------------------------------------------------------------------------- replay


def test_a_replay_costs_nothing_and_runs_no_tool():
    run = two_rounds()
    again = hn.replay(run.trace)

    assert again.result().messages == run.result().messages
    assert span_tree(again.trace) == span_tree(run.trace)
    assert runs == []
    assert again.turn_id != run.turn_id


@pytest.mark.parametrize("source", ["run", "result", "trace", "id"])
def test_a_replay_takes_whatever_names_a_turn(source):
    run = two_rounds()
    named = {"run": run, "result": run.result(), "trace": run.trace, "id": run.turn_id}[source]

    assert hn.replay(named).result().text == run.result().text


def test_another_process_replays_a_turn_of_the_logbook(home):
    run = agent(call("population", city="Lyon"), say("done")).start("q")
    run.result()
    code = """
        import sys
        import hermes_nb as hn
        print(hn.replay(sys.argv[1]).result().text)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), run.turn_id]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "done\n", done.stderr


def test_waits_are_not_waited_for_but_stand_in_the_trace():
    with no_waiting():
        run = agent(fails("server_error", times=2), say("at last")).start("q", session=False)
        run.result()
    begun = time.monotonic()
    again = hn.replay(run)

    assert again.result().text == "at last"
    assert time.monotonic() - begun < 2
    assert again.trace.retries_df().wait.tolist() == run.trace.retries_df().wait.tolist()


def test_an_interrupted_turn_is_replayed_with_what_it_had():
    started = threading.Event()

    def slowly(request):
        started.set()
        return say("too late", seconds=30)

    run = agent(call("population", city="Lyon"), slowly).start("q", session=False)
    assert started.wait(20)
    with pytest.raises(hn.ConfigurationError, match="still running"):
        hn.replay(run)
    run.interrupt()
    assert run.result().interrupted
    again = hn.replay(run)

    assert again.result().messages == run.result().messages
    assert span_tree(again.trace) == span_tree(run.trace)


@pytest.mark.parametrize("kept", [False, True])
def test_what_was_said_before_the_turn_began_is_said_again_in_its_order(tmp_path, kept):
    session = hn.Session(tmp_path / "turns.db") if kept else False
    run = agent(call("population", city="Lyon"), say("done")).start("q", session=session, paused=True)
    run.steer("first")
    run.steer("second")
    run.resume()
    original = run.result()
    again = hn.replay(run.turn_id, logbook=session.logbook.path) if kept else hn.replay(run)

    assert again.result().messages == original.messages
    assert [message.text for message in original.messages[3:5]] == ["first", "second"]
    assert span_tree(again.trace) == span_tree(run.trace)
    assert hn.save_dataset(session if kept else run, tmp_path / "turns.jsonl") == 1


def test_a_turn_that_was_interrupted_before_it_began_is_replayed():
    run = agent(say("done")).start("q", session=False, paused=True)
    run.interrupt()
    original, again = run.result(), hn.replay(run)

    assert again.result().messages == original.messages
    assert again.result().exit_reason == original.exit_reason
    assert span_tree(again.trace) == span_tree(run.trace)


def test_interrupts_that_came_too_late_to_matter_are_told_again():
    ready: Future[hn.Run] = Future()

    def ask(event):
        if event.what.kind == "iteration" and event.phase == "ended":
            ready.result().interrupt()
            ready.result().interrupt(when="boundary")

    run = agent(say("done")).start("q", session=False, sinks=[ask])
    ready.set_result(run)
    assert run.result().text == "done"
    again = hn.replay(run)
    assert again.result().exit_reason == run.result().exit_reason

    asked, told = ([e.what.kind for e in one.events].count("interrupt") for one in (run, again))
    assert told == asked == 2


def test_a_compressor_and_a_price_of_the_users_are_played_from_the_record():
    def shorten(messages):
        return [messages[0], Message("assistant", "In short: much was read.")]

    def price(provider, model, usage):
        return 0.25

    long = "words " * 3_000
    steps = [call("population", city="Lyon"), call("population", city="Lille"), say("done")]

    @hn.tool(name="population")
    def wordy(city: str) -> str:
        """Much text."""
        return long

    settings = {
        "compression": hn.Compression(compressor=shorten, context_window=6_000, minimum=500),
        "ceiling": hn.Ceiling(cost_usd=5, price=price),
        "tools": [wordy],
    }
    run = agent(*steps, **settings).start("q", session=False)
    original = run.result()
    again = hn.replay(run.trace).result()

    assert original.compressions >= 1
    assert (again.messages, again.cost_usd, again.compressions) == (
        original.messages, original.cost_usd, original.compressions,
    )  # fmt: skip


def test_injected_faults_and_a_mixtures_references_are_in_the_replay():
    references = [script(say("one"), each_turn=True, name="r1"), script(say("two"), each_turn=True, name="r2")]
    mixture = hn.Mixture(references=references, aggregator=script(say("both"), each_turn=True, name="lead"))
    faults = hn.Faults(rate_limit={1}, seed=3)
    with no_waiting():
        run = hn.Agent(mixture, faults=faults).start("q", session=False)
        original = run.result()
    again = hn.replay(run.trace)

    assert again.result().messages == original.messages
    assert span_tree(again.trace) == span_tree(run.trace)
    assert again.trace.attempts_df().injected.tolist() == run.trace.attempts_df().injected.tolist()
    assert again.result().usage == original.usage


@pytest.mark.parametrize("kept", [False, True])
def test_what_sub_agents_and_references_used_is_counted_by_model_again(tmp_path, kept):
    def price(provider, model, usage):
        return 0.25

    references = [script(say("one"), each_turn=True, name="r1"), script(say("two"), each_turn=True, name="r2")]
    mixture = hn.Mixture(references=references, aggregator=script(say("both"), each_turn=True, name="lead"))
    deep = hn.Agent([script(fails("auth"), each_turn=True, name="d1"), mixture], name="deep", guard=None)
    middle = hn.Agent(
        script(call("deep", task="x"), say(""), say("middle"), each_turn=True, name="middle"), tools=[deep.as_tool()],
        name="middle", delegation=hn.Delegation(depth=3),
    )  # fmt: skip
    top = hn.Agent(
        script(call("middle", task="a"), call("middle", task="b"), say("top"), each_turn=True),
        tools=[middle.as_tool()], ceiling=hn.Ceiling(cost_usd=99, price=price), delegation=hn.Delegation(depth=3),
    )  # fmt: skip
    session = hn.Session(tmp_path / "turns.db") if kept else False
    with no_waiting():
        run = top.start("q", session=session)
        original = run.result()
    again = hn.replay(run.turn_id, logbook=session.logbook.path) if kept else hn.replay(run)

    assert same(again, run)
    assert set(original.usage_by_model) == {f"{one}:script" for one in ("script", "middle", "r1", "r2", "mixture")}
    assert again.result().usage_by_model == original.usage_by_model
    assert again.result().cost_usd == original.cost_usd > 0


def test_a_turn_that_was_killed_ends_its_replay_where_the_record_ends(tmp_path):
    code = """
        import os, sys, hermes_nb as hn
        from hermes_nb.testing import call, script
        @hn.tool
        def die() -> str:
            "Ends the process."
            os.kill(os.getpid(), 9)
        agent = hn.Agent(script(call("die")), tools=[die])
        agent.run("q", session=hn.Session(sys.argv[1]))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "x.db")], timeout=60, check=False)
    session = hn.Session(tmp_path / "x.db")

    with pytest.raises(hn.ReplayMismatch, match="no result of die"):
        hn.replay(session).result()


def test_a_turn_of_which_nothing_is_known_is_named():
    with pytest.raises(hn.ReplayMismatch, match=r"no-such-turn in .*logbook\.db; give logbook="):
        hn.replay("no-such-turn")
    with pytest.raises(hn.ConfigurationError, match="not 5"):
        hn.replay(5)


# ---------------------------------------------------------------------------------------- trying another agent


def test_an_agent_that_goes_the_same_way_passes_on_the_record():
    run = two_rounds(instructions="Be exact.")
    same = hn.replay(run.trace, agent=run.agent)

    assert same.result().messages == run.result().messages
    assert runs == []


def test_a_difference_shows_what_was_asked_and_what_was_recorded():
    run = two_rounds(instructions="Be exact.")
    other = run.agent.with_(instructions="Be brief.")

    with pytest.raises(hn.ReplayMismatch) as caught:
        hn.replay(run.trace, agent=other).result()
    assert "request 1: message 0 differs" in str(caught.value)
    assert "Be brief." in str(caught.value)
    assert "Be exact." in str(caught.value)


def test_a_difference_far_down_in_a_long_text_is_shown_too():
    long = "Be exact. " * 300
    run = two_rounds(instructions=f"{long}Count twice.")

    with pytest.raises(hn.ReplayMismatch) as caught:
        hn.replay(run.trace, agent=run.agent.with_(instructions=f"{long}Count once.")).result()
    assert "Count once." in str(caught.value)
    assert "Count twice." in str(caught.value)
    assert len(str(caught.value)) < 800


def test_an_agent_with_a_smaller_budget_goes_another_way():
    run = two_rounds()

    with pytest.raises(hn.ReplayMismatch):
        hn.replay(run.trace, agent=run.agent.with_(budget=1)).result()


def test_tools_can_be_run_again(monkeypatch):
    run = two_rounds()
    live = hn.replay(run.trace, agent=run.agent, tools="live")

    assert live.result().messages == run.result().messages
    assert runs == ["Lyon", "Lille"]
    monkeypatch.setitem(PEOPLE, "Lyon", 1)
    with pytest.raises(hn.ReplayMismatch, match="tool: 522000"):
        hn.replay(run.trace, agent=run.agent, tools="live").result()
    with pytest.raises(hn.ConfigurationError, match="live"):
        hn.replay(run.trace, tools="live")


# ---------------------------------------------------------------------------------------- fork


def test_a_fork_goes_on_live_with_another_agent_and_a_steer():
    run = two_rounds()
    asked = []

    def listen(request):
        asked.append(request)
        return say("Metropolitan: Lyon.")

    fork = hn.replay(run.trace, until=2, agent=agent(listen, budget=20), steer="Count metropolitan areas.")
    result = fork.result()

    assert result.text == "Metropolitan: Lyon."
    assert [m.text for m in result.messages] == [
        "Which is larger?", "", "522000", "", "236000", "Count metropolitan areas.", "Metropolitan: Lyon.",
    ]  # fmt: skip
    assert "Count metropolitan areas." in asked[0].messages[-1].text
    assert result.budget.limit == 20
    assert runs == [], "the recorded calls are not run again"
    turn = fork.events[0].what
    assert turn.replay_of == run.turn_id
    assert fork.trace.turns_df().loc[0, "exit_reason"] == "completed"


@pytest.mark.parametrize("kept", ["in memory", "in the logbook", "in a file"])
def test_the_trace_of_a_fork_names_its_parent_and_its_point(tmp_path, kept):
    run = two_rounds()
    fork = hn.replay(run, until=0, agent=agent(say("At once.")), session=tmp_path / "fork.db")
    fork.result()
    fork.trace.to_otlp_json(tmp_path / "fork.jsonl")
    traces = {
        "in memory": lambda: fork.trace,
        "in the logbook": lambda: hn.load(tmp_path / "fork.db"),
        "in a file": lambda: hn.load(tmp_path / "fork.jsonl"),
    }
    trace = traces[kept]()

    turn = trace.turns_df().iloc[0]
    assert (turn["replay_of"], turn["replay_until"]) == (run.turn_id, 0)
    if kept != "in the logbook":
        assert list(trace.links_df()["type"]) == ["replay_of"]
        assert trace.links_df()["linked_trace_id"][0] == run.trace.spans_df()["trace_id"][0]


def test_a_whole_replay_and_a_turn_of_its_own_have_no_point():
    run = two_rounds()
    again = hn.replay(run)
    again.result()

    assert again.trace.turns_df()["replay_of"].tolist() == [run.turn_id]
    assert again.trace.turns_df()["replay_until"].isna().all()
    assert run.trace.turns_df()["replay_of"].isna().all()


def test_a_fork_of_a_run_goes_on_with_its_own_agent():
    run = two_rounds()
    fork = hn.replay(run, until=1)

    assert fork.result().iterations == 4
    assert runs == ["Lyon", "Lille"], "live from iteration 2: the script begins anew"


def same(again: hn.Run, run: hn.Run) -> bool:
    one, other = again.result(), run.result()
    assert one.messages == other.messages
    assert (one.exit_reason, one.detail, one.budget, one.usage) == (
        other.exit_reason, other.detail, other.budget, other.usage,
    )  # fmt: skip
    assert span_tree(again.trace) == span_tree(run.trace)
    assert budget(again) == budget(run)
    return True


def budget(run: hn.Run) -> dict:
    return run.trace.budget_df()[["action", "delta", "limit", "used", "remaining"]].to_dict("list")


def with_other_result(messages):
    answered = messages[-1]
    return [*messages[:-1], Message("tool", "9,999,999", tool_call_id=answered.tool_call_id, name=answered.name)]


def in_another_process(turn_id: str, path) -> str:
    code = """
        import sys
        import hermes_nb as hn
        again = hn.replay(sys.argv[1], logbook=sys.argv[2])
        result = again.result()
        print(result.exit_reason, result.budget.limit, result.budget.used, [m.text for m in result.messages])
    """
    command = [sys.executable, "-c", textwrap.dedent(code), turn_id, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("until", [0, 1, 2])
def test_a_fork_is_replayed_with_all_that_was_handed_over(tmp_path, until):
    run = two_rounds()
    with no_waiting():
        fork = hn.replay(
            run,
            until=until,
            agent=agent(
                call("population", city="Lille"), fails("overloaded", times=2), say("forked"),
                name="other", budget=20, instructions="Be brief.", budget_notice=hn.BudgetNotice(share=0.1),
            ),
            steer="Count metropolitan areas.",
            edit=with_other_result if until else None,
            session=hn.Session(tmp_path / "forks.db"),
        )  # fmt: skip
        result = fork.result()
    runs.clear()

    assert result.text == "forked"
    assert same(hn.replay(fork), fork)
    assert runs == []
    Logbook(tmp_path / "forks.db").close()
    told = f"{result.exit_reason} {result.budget.limit} {result.budget.used} {[m.text for m in result.messages]}"
    assert in_another_process(fork.turn_id, tmp_path / "forks.db") == told
    agrees = hn.replay(fork, agent=fork.agent)
    assert agrees.result().messages == result.messages
    with pytest.raises(hn.ReplayMismatch, match=r"Be another|differs"):
        hn.replay(fork, agent=fork.agent.with_(instructions="Be another.")).result()


def test_a_fork_of_a_fork_is_replayed_and_keeps_what_the_first_one_edited():
    run = two_rounds(budget_notice=hn.BudgetNotice(share=0.5), budget=4)
    first = hn.replay(
        run,
        until=1,
        edit=with_other_result,
        agent=agent(call("population", city="Lille"), say("x"), budget=9, name="first"),
    )
    first.result()
    for until in (0, 1, 2):
        second = hn.replay(first, until=until, agent=agent(say("second"), name="second", budget=5))

        assert second.result().text == "second"
        assert ("9,999,999" in str(second.result().messages)) == (until > 0)
        assert same(hn.replay(second), second)
        again = hn.replay(second)
        again.result()
        assert same(hn.replay(again), second)


def test_a_fork_goes_on_with_the_budget_of_its_agent_and_counts_what_was_used_before():
    run = two_rounds(budget=3)
    fork = hn.replay(run, until=2, agent=agent(call("population", city="Lille"), say("x"), budget=20))
    shared = hn.IterationBudget(10)
    other = hn.replay(run, until=1, agent=agent(say("x"), budget=shared))

    assert (fork.result().budget.limit, fork.result().budget.used, fork.budget.view().limit) == (20, 4, 20)
    assert budget(fork)["limit"][:3] == budget(run)["limit"][:3] == [3, 3, 3]
    assert fork.trace.turns_df().loc[0, "budget_limit"] == 20
    assert other.result().budget.used == shared.view().used == 2


def test_a_conversation_that_was_rewound_is_replayed(tmp_path):
    session = hn.Session(tmp_path / "talk.db")
    run = two_rounds(session=session)
    run.rewind(1)
    later = run.reply("And Lille?")
    later.result()
    fork = hn.replay(
        run, until=2, agent=agent(call("population", city="Lyon"), say("forked")), session=tmp_path / "f.db"
    )
    fork.result()
    fork.rewind(3)
    after = fork.reply("Sure?")
    after.result()
    session.logbook.close()
    runs.clear()

    assert len(later.request.history) == 3
    assert len(after.request.history) == 7
    for turn, path in ((run, "talk.db"), (later, "talk.db"), (fork, "f.db"), (after, "f.db")):
        assert same(hn.replay(turn), turn)
        assert same(hn.replay(turn.turn_id, logbook=tmp_path / path), turn)
        assert in_another_process(turn.turn_id, tmp_path / path)
    assert runs == []


def test_what_is_said_to_a_fork_while_its_record_is_played_waits_for_its_point():
    run, ready, notes = two_rounds(), Future(), []

    def say_something(event):
        if event.what.kind == "iteration" and event.phase == "started" and event.iteration == 1:
            notes.append(ready.result(20).steer("Count metropolitan areas."))

    fork = hn.replay(run, until=1, agent=agent(say("forked")), sinks=[say_something])
    ready.set_result(fork)
    result = fork.result()

    assert (notes[0].status, notes[0].iteration) == ("delivered", 2)
    assert [m.text for m in result.messages[2:]] == ["522000", "Count metropolitan areas.", "forked"]
    again = hn.replay(fork)
    late = again.steer("This comes too late.")
    assert same(again, fork)
    assert (late.status, late.reason) == ("undelivered", "the turn is a replay; it goes the recorded way")


def test_a_fork_that_was_recorded_without_its_settings_says_how_far_it_can_be_played(monkeypatch):
    run = two_rounds()
    fork = hn.replay(run, until=1, agent=agent(call("population", city="Lille"), say("forked")))
    fork.result()
    before = [event for event in fork.events if event.what.kind != "fork"]  # as the versions before told it
    monkeypatch.setattr(type(fork), "events", before)

    with pytest.raises(hn.ConfigurationError, match=f"earlier version.*until=0 to 1.*{run.turn_id}"):
        hn.replay(fork)
    with pytest.raises(hn.ConfigurationError, match="earlier version"):
        hn.replay(fork, until=2)
    again = hn.replay(fork, until=1, agent=agent(call("population", city="Lille"), say("anew")))
    assert again.result().text == "anew"


def test_no_key_of_the_agent_that_goes_on_is_in_the_record_of_a_fork():
    run = two_rounds()
    refusal = http.status(400, {"error": {"message": "bad key k-12345678"}})
    with Server(refusal) as server:
        fork = hn.replay(run, until=1, agent=asked(server))
        fork.result()

    assert fork.result().failed
    assert "k-12345678" not in repr(fork.events)


def test_a_fork_has_the_time_of_its_agent():
    run = two_rounds()
    ceiling = hn.Ceiling(seconds=0.2, landing=0.1)
    fork = hn.replay(run, until=1, agent=agent(say("too late", seconds=60), ceiling=ceiling))

    assert fork.result(20).exit_reason == "ceiling_reached"
    assert same(hn.replay(fork), fork)


def test_a_turn_with_a_result_that_was_put_aside_is_replayed():
    @hn.tool
    def archive() -> str:
        """Much."""
        return "page " * 100_000

    made = agent(call("archive"), call("read_result", file="see above"), say("read"), tools=[archive])
    run = made.start("q")  # kept, so that the rest of the result can be read
    run.result()
    fork = hn.replay(run, until=1, agent=made.with_(name="other"))

    assert [tool.name for tool in run.events[-4].what.tools] == ["archive", "read_result"]
    assert same(hn.replay(run), run)
    assert same(hn.replay(run.turn_id, logbook=Logbook().path), run)
    assert fork.result().completed
    assert hn.replay(run, agent=made, tools="live").result().messages == run.result().messages


def test_a_fork_with_an_edited_result():
    run = two_rounds()

    def answer(request):
        return say(f"seen {request.messages[-1].text}")

    fork = hn.replay(run.trace, until=1, agent=agent(answer), edit=with_other_result)

    assert fork.result().text == "seen 9,999,999"
    with pytest.raises(hn.ConfigurationError, match="5 is neither"):
        hn.replay(run.trace, until=1, agent=agent(answer), edit=lambda messages: [*messages, 5])


def test_a_fork_at_nothing_is_the_prompt_again():
    run = two_rounds()

    assert hn.replay(run, until=0, agent=agent(say("At once."))).result().text == "At once."


@pytest.mark.parametrize("until", [-1, 3, 99])
def test_a_fork_says_where_it_could_be(until):
    run = two_rounds()

    with pytest.raises(hn.ConfigurationError, match="iterations 0 to 2"):
        hn.replay(run, until=until, agent=agent(say("x")))


def test_a_fork_says_what_it_needs(monkeypatch):
    run = agent(call("population", city="Lyon"), say("x")).start("q")
    run.result()
    with pytest.raises(hn.ConfigurationError, match="until="):
        hn.replay(run, steer="x")
    with pytest.raises(hn.ConfigurationError, match="budget of 1"):
        hn.replay(run, until=1, agent=agent(say("x"), budget=1))
    monkeypatch.setattr(hn.Run, "find", lambda turn_id: None)  # as in another process
    with pytest.raises(hn.ConfigurationError, match="agent="):
        hn.replay(run.turn_id, until=1)


def test_a_fork_can_be_kept_in_a_session(tmp_path):
    run = two_rounds()
    session = hn.Session(tmp_path / "fork.db")
    fork = hn.replay(run, until=1, agent=agent(say("Kept.")), session=session)

    assert fork.result().text == "Kept."
    assert session.messages == fork.result().messages
    assert session.resume(agent(say("On.")), "And?").messages[:-2] == fork.result().messages


# ---------------------------------------------------------------------------------------- cassettes


def asked(server: Server, **settings) -> hn.Agent:
    provider = hn.OpenAIChat("m", base_url=server.url, api_key="k-12345678")
    return hn.Agent(provider, **({"tools": [population]} | settings))


def test_a_cassette_asks_once_and_then_needs_no_model(tmp_path):
    with Server(http.call("population", city="Lyon"), http.say("522,000")) as server:
        made = asked(server)
        with hn.record(tmp_path / "cassette.db") as cassette:
            first = cassette(made).run("How many?", session=False)
    with hn.record(tmp_path / "cassette.db", mode="replay") as cassette:
        second = cassette(made).run("How many?", session=False)

    assert first.text == second.text == "522,000"
    assert len(server.requests) == 2
    assert runs == ["Lyon", "Lyon"]
    assert [turn.agent for turn in cassette.logbook.turns()] == ["cassette"] * 2


def test_a_cassette_knows_failures_and_does_not_wait(tmp_path):
    with Server(http.status(503), http.say("there")) as server, no_waiting():
        with hn.record(tmp_path / "c.db") as cassette:
            assert cassette(asked(server)).run("q", session=False).retries == 1
        begun = time.monotonic()
        with hn.record(tmp_path / "c.db", mode="replay") as cassette:
            result = cassette(asked(server)).run("q", session=False)

    assert (result.text, result.retries, len(server.requests)) == ("there", 1, 2)
    assert time.monotonic() - begun < 2


def test_a_cassette_on_another_day_and_with_other_call_ids(tmp_path, monkeypatch):
    class Tomorrow:
        @staticmethod
        def now(zone):
            import datetime as dt

            return dt.datetime.now(zone) + dt.timedelta(days=1)

    step = http.calls(http.call("population", city="Lyon", id="x"), http.call("population", city="Lille", id="x"))
    with Server(step, http.say("done")) as server:
        with hn.record(tmp_path / "c.db") as cassette:
            cassette(asked(server)).run("q", session=False)
        monkeypatch.setattr("hermes_nb.turn.prompting.datetime", Tomorrow)
        with hn.record(tmp_path / "c.db", mode="replay") as cassette:
            assert cassette(asked(server)).run("q", session=False).text == "done"


def test_a_request_that_is_not_on_the_cassette(tmp_path):
    with Server(http.say("one"), http.say("two")) as server:
        with hn.record(tmp_path / "c.db") as cassette:
            cassette(asked(server)).run("q", session=False)
        with hn.record(tmp_path / "c.db", mode="replay") as cassette, pytest.raises(hn.ReplayMismatch, match="never"):
            cassette(asked(server)).run("another question", session=False)
        with hn.record(tmp_path / "c.db") as cassette:
            assert cassette(asked(server)).run("another question", session=False).text == "two"
        with hn.record(tmp_path / "c.db", mode="replay") as cassette:
            cassette(asked(server)).run("q", session=False)
            with pytest.raises(hn.ReplayMismatch, match="only 1 times"):
                cassette(asked(server)).run("q", session=False)


def test_any_logbook_serves_as_a_cassette(tmp_path):
    with Server(http.call("population", city="Lyon"), http.say("522,000")) as server:
        asked(server).run("How many?", session=hn.Session(tmp_path / "cities.db"))
        with hn.record(tmp_path / "cities.db", mode="replay") as cassette:
            assert cassette(asked(server)).run("How many?", session=False).text == "522,000"


def test_sub_agents_are_on_the_cassette_too(tmp_path):
    with Server(http.say("helped")) as server:
        lead = agent(calls(call("helper", task="help")), say("done"))
        lead = lead.with_(tools=[asked(server, tools=[], name="helper").as_tool(budget=2)])
        with hn.record(tmp_path / "c.db") as cassette:
            first = cassette(lead).run("q", session=False)
        with hn.record(tmp_path / "c.db", mode="replay") as cassette:
            assert cassette(lead).run("q", session=False).messages[2].text == first.messages[2].text

    assert len(server.requests) == 1


def test_a_cassette_holds_no_key(tmp_path):
    refusal = http.status(401, {"error": {"message": "bad key k-12345678"}})
    with Server(refusal) as server, hn.record(tmp_path / "c.db") as cassette:
        cassette(asked(server)).run("my key is k-12345678", session=False)

    assert all(b"k-12345678" not in path.read_bytes() for path in tmp_path.iterdir())


def test_a_cassette_has_three_modes(tmp_path):
    with pytest.raises(hn.ConfigurationError, match="'never'"):
        hn.record(tmp_path / "c.db", mode="never")


def test_the_fixture_for_tests_of_others(tmp_path):
    with Server(http.say("from the server")) as server:
        (tmp_path / "conftest.py").write_text('pytest_plugins = ["hermes_nb.lab.pytest_plugin"]\n')
        (tmp_path / "test_mine.py").write_text(
            "import hermes_nb as hn\n"
            "def test_answer(cassette):\n"
            f"    agent = hn.Agent(hn.OpenAIChat('m', base_url={server.url!r}, api_key='k-12345678'))\n"
            "    assert cassette(agent).run('q', session=False).text == 'from the server'\n"
        )
        outcomes = []
        for mode in ("once", "replay"):
            command = [sys.executable, "-m", "pytest", "-q", f"--cassettes={mode}", str(tmp_path)]
            light = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=90, cwd=tmp_path, env=light, check=False
            )
            outcomes.append(done.returncode)

    assert outcomes == [0, 0], done.stdout
    assert len(server.requests) == 1
    assert [path.name for path in (tmp_path / "cassettes").glob("*.db")] == ["test_mine-test_answer.db"]
