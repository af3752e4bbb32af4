"""What a user does to a running turn."""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future

import anyio

import hermes_nb as hn
from hermes_nb.telemetry.hub import HUB
from hermes_nb.testing import call, calls, fails, say, script
from hermes_nb.vocabulary import events
from tests.support.scripts import Wrapped, agent, expected, population, tree
from tests.support.waiting import wait_for

# ---------------------------------------------------------------------------------------- interrupt


def test_an_interrupt_while_the_model_is_asked_ends_the_turn_at_once():
    run = agent(say("too late", seconds=30)).start("q", session=False)
    time.sleep(0.1)
    began = time.monotonic()
    assert run.interrupt()
    result = run.result()

    assert time.monotonic() - began < 5
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    assert tree(result) == expected("""
        invoke_agent agent interrupted_by_user
          hermes.iteration 1 interrupted
            chat script
              hermes.attempt 1 cancelled
        """)
    assert not run.interrupt()


def test_an_interrupt_during_a_wait_ends_the_wait_and_sends_nothing_more():
    run = agent(fails("rate_limit", retry_after=60), say("never")).start("q", session=False)
    time.sleep(0.2)
    run.interrupt()
    result = run.result()

    assert result.interrupted
    retries = result.trace.retries_df()
    assert retries.outcome.tolist() == ["interrupted"]
    assert tree(result).count("hermes.attempt") == 1
    assert "ERROR" not in tree(result)


def test_an_interrupt_during_tools_answers_every_call_honestly():
    begun = threading.Event()

    def slow() -> str:
        """Takes long."""
        begun.set()
        time.sleep(1.5)
        return "done"

    steps = calls(call("population", city="Lyon"), call("slow"), call("population", city="Lille"))
    run = agent(steps, tools=[population, slow]).start("q", session=False)
    assert begun.wait(5)
    run.interrupt()
    result = run.result()

    first, second, third = (message.text for message in result.messages if message.role == "tool")
    assert first == "522000"
    assert "effect is unknown" in second
    assert "not started" in third
    assert result.messages[-1].role == "assistant"


def test_an_interrupt_during_a_quick_call_keeps_the_next_from_starting():
    def stop() -> str:
        """Interrupts the turn that it runs in."""
        turn.interrupt()
        return "asked to stop"

    steps = calls(call("stop"), *(call("population", city="Lyon") for _ in range(20)))
    turn = agent(steps, say("never"), tools=[stop, population]).start("q", session=False, paused=True)
    turn.resume()
    result = turn.result()

    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    told = [message.text for message in result.messages if message.role == "tool"]
    assert len(told) == 21
    assert all("not started" in text for text in told[1:])


def test_an_interrupt_at_the_boundary_lets_the_iteration_finish():
    begun = threading.Event()

    def slow() -> str:
        """Takes a moment."""
        begun.set()
        time.sleep(0.2)
        return "done"

    run = agent(call("slow"), say("never"), tools=[slow]).start("q", session=False)
    assert begun.wait(5)
    run.interrupt(when="boundary")
    result = run.result()

    assert [m.text for m in result.messages if m.role == "tool"] == ["done"]
    assert result.interrupted
    assert result.iterations == 1


def test_an_interrupt_is_told_before_the_turn_can_end_by_it_so_that_a_replay_meets_it_too(monkeypatch):
    run = hn.Agent(script(say("hi"))).start("q", session=False, paused=True)
    tell = run._recorder.tell

    def slowly(what):
        if isinstance(what, events.Interrupt) and what.status == "requested":
            run.wait(0.3)  # long enough for a turn that knows already
        tell(what)

    monkeypatch.setattr(run._recorder, "tell", slowly)
    assert run.interrupt()
    assert run.result(20).exit_reason is hn.ExitReason.INTERRUPTED_BY_USER

    assert [e.what.status for e in run.events if e.what.kind == "interrupt"] == ["requested", "observed"]
    assert hn.replay(run).result().exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    assert not run.interrupt()


def observed(run: hn.Run) -> events.Interrupt:
    return next(e.what for e in run.events if isinstance(e.what, events.Interrupt) and e.what.status == "observed")


def test_an_interrupt_between_two_iterations_is_told_as_that():
    run = agent(call("population", city="Lyon"), say("ok")).start("q", session=False, paused=True)
    run.step()
    assert wait_for(lambda: run.state == "paused" and run.budget.view().used == 1)
    run.interrupt()
    run.result()
    again = hn.replay(run)
    again.result()

    assert (observed(run).during, observed(again).during) == ("paused", "between_iterations")

    ready = Future()

    def stop(event):
        if event.what.kind == "tool" and event.phase == "ended":
            ready.result().interrupt(when="boundary")

    run = agent(call("population", city="Lyon"), say("ok")).start("q", session=False, sinks=[stop])
    ready.set_result(run)
    assert run.result().interrupted
    assert observed(run).during == "between_iterations"


def test_an_interrupt_that_nobody_asked_for_took_no_time():
    @hn.tool
    def stop() -> None:
        """Stops."""
        raise KeyboardInterrupt

    run = agent(call("stop"), say("ok"), tools=[stop]).start("q", session=False)
    assert run.result().exit_reason == "interrupted_by_kernel"
    assert observed(run).latency is None


def test_an_interrupted_stream_keeps_the_text_that_had_come():
    def speak(request):
        return say("never comes", seconds=0)

    async def halting(request, on_text):
        on_text("Half an ans")
        await anyio.sleep(30)

    run = hn.Agent(hn.as_provider(halting, name="halting")).start("q", session=False)
    time.sleep(0.2)
    run.interrupt()
    result = run.result()

    assert result.text == "Half an ans"
    assert result.messages[-1].text == "Half an ans"


def test_a_connection_that_does_not_close_does_not_keep_the_turn():
    class Sticky(Wrapped):
        @contextlib.asynccontextmanager
        async def connect(self):
            async with self._inner.connect() as connection:
                yield connection
                await anyio.sleep(60)

    assert hn.Agent(Sticky(script(say("ok")))).start("q", session=False).result(timeout=20).text == "ok"

    run = hn.Agent(Sticky(script(say("late", seconds=60)))).start("q", session=False)
    assert wait_for(lambda: any(event.what.kind == "attempt" for event in run.events))
    run.interrupt()
    assert run.result(timeout=20).interrupted


# ---------------------------------------------------------------------------------------- steer


def test_a_steer_reaches_the_model_after_the_next_tool_result_exactly_once():
    seen, begun, go_on = [], threading.Event(), threading.Event()

    def wait() -> str:
        """Waits for the test."""
        begun.set()
        go_on.wait(5)
        return "done"

    def look(request):
        seen.append(request.messages[-1].text)
        return say("ok")

    run = agent(call("wait"), look, tools=[wait]).start("q", session=False)
    assert begun.wait(5)
    note = run.steer("Use <b>metropolitan</b> areas.")
    assert note.status == "queued"
    go_on.set()
    result = run.result()

    assert seen[0].count("Use <b>metropolitan</b> areas.") == 1
    assert seen[0].startswith("done")
    assert (note.status, note.iteration) == ("delivered", 2)
    assert result.pending_steer is None
    assert [message.origin for message in result.messages] == ["", "", "", "steer", ""]


def test_a_steer_that_comes_too_late_is_given_back():
    run = agent(say("ok", seconds=0.3)).start("q", session=False)
    note = run.steer("Also Lille.")
    result = run.result()

    assert result.pending_steer == "Also Lille."
    assert note.status == "undelivered"
    assert "completed" in note.reason
    late = run.steer("And Nice.")
    assert late.status == "undelivered"


def test_a_word_after_the_end_is_kept_and_leaves_nothing_behind(tmp_path):
    session = hn.Session(tmp_path / "turns.db")
    run = agent(say("ok")).start("q", session=session)
    run.result()
    assert run.steer("Too late.").status == "undelivered"
    session.logbook.store.flush()

    assert session.logbook.store.writers == {}
    kept = [event.what.status for event in session.logbook.events(run.turn_id) if event.what.kind == "steer"]
    assert kept == ["queued", "undelivered"]
    assert [event.what.kind for event in run.events][-2:] == ["steer", "steer"]
    assert run.turn_id not in HUB.turns


# ---------------------------------------------------------------------------------------- pause


def test_a_paused_turn_runs_one_iteration_for_each_step():
    run = agent(call("population", city="Lyon"), say("ok")).start("q", session=False, paused=True)
    assert wait_for(lambda: run.state == "paused")
    assert run.budget.view().used == 0
    run.step()
    assert wait_for(lambda: run.state == "paused" and run.budget.view().used == 1)
    run.resume()

    assert run.result().completed
