"""Those who are told of a turn: they may break, and never learn a key."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from tests.support.scripts import Speechless, agent, run

# ---------------------------------------------------------------------------------------- sinks


def test_a_sink_that_raises_is_dropped_and_the_turn_goes_on(caplog):
    told = []

    def broken(event):
        raise OSError("no space left")

    result = run(agent(call("population", city="Lyon"), say("ok")), sinks=[broken, told.append])

    assert result.completed
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    degraded = [event.what for event in told if event.what.kind == "degraded"]
    assert [what.part for what in degraded] == ["sink"]
    assert "no space left" in degraded[0].detail
    assert caplog.text.count("is not told any more") == 1


def test_a_watcher_that_raises_costs_no_other_watcher_and_no_event(caplog):
    run = agent(call("population", city="Lyon"), say("ok", seconds=0.1)).start("q", session=False, paused=True)
    told = []

    def broken(event):
        raise OSError("the front end is gone")

    run.subscribe(broken)
    before = run.subscribe(told.append)
    run.resume()
    assert run.result().completed

    assert [event.seq for event in (*before, *told)] == list(range(1, len(before) + len(told) + 1))
    assert caplog.text.count("is told nothing more") == 1


def test_a_watcher_may_ask_for_the_turns_end_at_each_event():
    """As one does that has counted enough: the event that tells of its wish is one event, not the next of many."""
    run = agent(call("population", city="Lyon"), say("ok")).start("q", session=False, paused=True)
    run.subscribe(lambda event: run.interrupt() and None)
    run.resume()

    assert run.wait(20)
    assert run.result().interrupted
    assert [event.what.status for event in run.events if event.what.kind == "interrupt"] == ["requested", "observed"]


@pytest.mark.parametrize("odd", [Speechless, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("place", [0, 1, 7])
def test_whatever_a_sink_raises_the_others_are_told_the_whole_turn(odd, place, tmp_path):
    told, session = [], hn.Session(tmp_path / "book.db")

    def broken(event):
        if event.seq > place:
            raise odd

    result = run(agent(call("population", city="Lyon"), say("ok")), sinks=[broken, told.append], session=session)

    assert result.completed
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    assert (told[-1].phase, told[-1].what.kind) == ("ended", "turn")
    assert [turn.exit_reason for turn in session.turns] == ["completed"]


def test_control_c_while_the_main_thread_tells_the_sinks_reaches_it_and_costs_no_event():
    told = []

    def pressed(event):
        if event.seq == 1:
            raise KeyboardInterrupt

    recorder = Recorder("turn", "talk", [pressed, told.append])
    with pytest.raises(KeyboardInterrupt), recorder.scope(events.Turn("a", "p", "m", "q")):
        pass  # it is never come to
    recorder.tell(events.Paused("paused"))

    assert [(event.seq, event.phase) for event in told] == [(1, "started"), (2, "ended"), (3, "point")]
    assert recorder.failed_sinks == 0


@pytest.mark.parametrize("odd", [Speechless, SystemExit, GeneratorExit])
def test_a_watcher_that_leaves_in_an_odd_way_takes_no_other_along(odd):
    turn = agent(say("ok")).start("q", session=False, paused=True)
    told = []

    def broken(event):
        raise odd

    turn.subscribe(broken)
    before = turn.subscribe(told.append)
    turn.resume()
    assert turn.result().completed
    assert [event.seq for event in (*before, *told)] == list(range(1, len(before) + len(told) + 1))
    assert turn.events[-1].phase == "ended"


@pytest.mark.parametrize("odd", [Speechless, SystemExit, GeneratorExit, asyncio.CancelledError])
@pytest.mark.parametrize("moment", ["__enter__", "__exit__"])
def test_whatever_a_sinks_context_manager_raises_the_turn_goes_on(odd, moment):
    class Broken(nullcontext):
        pass

    def refuse(*_):
        raise odd

    setattr(Broken, moment, refuse)
    result = run(agent(call("population", city="Lyon"), say("ok")), sinks=[lambda _: Broken()])
    assert result.completed


# ---------------------------------------------------------------------------------------- keys


def test_a_key_that_a_tool_gives_away_is_told_to_nobody():
    secret = "sk-test-SECRET-0123456789"
    told = []

    @hn.tool
    def leak() -> str:
        """Gives a key away."""
        return f"the key is {secret}"

    provider = script(call("leak"), say(f"it is {secret}"))
    keyed = hn.Agent([_Keyed(provider, secret)], tools=[leak])
    result = keyed.run(f"q {secret}", session=False, sinks=[told.append])

    assert result.completed
    assert secret not in repr(told)
    assert secret not in repr(result.trace.spans_df().to_dict())


class _Keyed:
    """A provider that has a key."""

    def __init__(self, provider, secret):
        for name in ("name", "model", "identity", "context_window", "address", "parameters", "stream", "connect"):
            setattr(self, name, getattr(provider, name))
        self.secrets = (secret,)
