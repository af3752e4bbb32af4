"""A replay goes as the turn went, and a fork goes so up to its point, whatever that turn was."""

from __future__ import annotations

import tempfile
from concurrent.futures import Future

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.lab.recording import PASSING, is_deed
from hermes_nb.lab.replay import replay
from hermes_nb.providers.scripted import Say
from hermes_nb.testing import no_waiting, say, script, span_tree
from hermes_nb.vocabulary.messages import ToolCall
from tests.support.anything import TOOLS, count, deeds, do, failures, finishes, ids, outside

helper = hn.Agent(script(Say(calls=(ToolCall("", "count", "{}"),)), say("helped"), each_turn=True), tools=[count])
WITH_HELPER = [*TOOLS, helper.as_tool(name="helper", budget=3)]

names = st.sampled_from(["count", "refuse", "glance", "fetch", "helper", "Count", "no_such_tool", ""])
arguments = st.sampled_from(["{}", '{"number": 2}', '{"task": "help"}', "[1]", '{"number": ', ""])
tool_calls = st.builds(ToolCall, ids, names, arguments)
texts = st.sampled_from(["", " ", "an answer", "<think>hm</think>yes", "déjà 日本 \ud800", "x" * 3_000])
replies = st.builds(Say, texts, st.lists(tool_calls, max_size=3).map(tuple), finish_reason=finishes, reasoning=texts)
good = st.sampled_from(
    [say("done"), Say("working", (ToolCall("", "count", "{}"), ToolCall("", "helper", '{"task": "x"}')))]
)
scripts = st.lists(st.one_of(good, good, replies, failures), max_size=10)


OPENING = 15
"""Events at the beginning of a turn, and a few steers: told before it waits."""


def played(chain, budget, deeds, window, session=False) -> hn.Run:
    models = [
        script(*steps, name=name, model="m", context_window=4_000 if window else None)
        for name, steps in zip("abc", chain, strict=False)
    ]
    agent = hn.Agent(
        models,
        tools=WITH_HELPER,
        budget=budget,
        compression=hn.Compression(minimum=500),
        guard=hn.RateGuard(shared=False),
    )
    if any(moment == 0 for moment, _ in deeds):  # those of two threads at one moment have no order
        deeds = [(moment, deed) for moment, deed in deeds if not 0 < moment <= OPENING]
    ready: Future[hn.Run] = Future()
    with no_waiting():
        run = agent.start("Go on.", session=session, sinks=[outside(ready, deeds, [])], paused=True)
        ready.set_result(run)
        for moment, deed in deeds:
            if moment == 0:  # before the turn begins, mostly
                do(run, deed, "note 0")
        run.resume()
        run.wait(60)
    return run


def kinds(run: hn.Run) -> list[tuple]:
    """What was told, in order, by its kind; pauses and the like left out."""
    return [
        (event.phase, event.what.kind, 0 if is_deed(event) else event.iteration, event.interrupted)
        for event in run.events
        if event.turn_id == run.turn_id and not isinstance(event.what, PASSING)
    ]


def budget_frame(run: hn.Run):
    frame = run.trace.budget_df()
    return frame[[column for column in ("action", "delta", "limit", "used", "remaining") if column in frame]].to_dict(
        "list"
    )


def check_that_it_is_again(again: hn.Run, run: hn.Run) -> None:
    original, result = run.result(), again.result()
    assert result.messages == original.messages
    assert (result.exit_reason, result.detail, result.text) == (original.exit_reason, original.detail, original.text)
    assert span_tree(again.trace) == span_tree(run.trace)
    assert kinds(again) == kinds(run)
    assert (result.usage, result.budget) == (original.usage, original.budget)
    assert result.pending_steer == original.pending_steer
    assert budget_frame(again) == budget_frame(run)
    assert turn_of(again).replay_of == run.turn_id


def turn_of(run: hn.Run):
    return next(event.what for event in run.events if event.what.kind == "turn")


turns = {
    "chain": st.lists(scripts, min_size=1, max_size=3),
    "budget": st.integers(0, 6),
    "deeds": deeds,
    "window": st.booleans(),
}


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(**turns)
def test_a_replay_is_the_turn_again(chain, budget, deeds, window):
    run = played(chain, budget, deeds, window)

    check_that_it_is_again(replay(run.trace), run)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(**turns)
def test_a_replay_from_the_logbook_is_the_turn_again(chain, budget, deeds, window):
    with tempfile.TemporaryDirectory() as place:
        session = hn.Session(f"{place}/turns.db")
        for _ in range(2):  # the second turn has a history
            run = played(chain, budget, deeds, window, session=session)

        check_that_it_is_again(replay(run.turn_id, logbook=session.logbook.path), run)
        check_that_it_is_again(replay(session), run)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(**turns)
def test_a_fork_agrees_with_the_turn_up_to_its_point(chain, budget, deeds, window):
    run = played(chain, budget, deeds, window)
    agent = hn.Agent(script(say("forked"), each_turn=True, name="live", model="other"), budget=50)
    for until in range(last_fork(run) + 1):
        fork = replay(run.trace, until=until, agent=agent)
        result = fork.result()

        assert result.text.endswith("forked")
        assert told(fork, until) == told(run, until)
        assert result.iterations == until + 1
        assert (turn_of(fork).replay_of, turn_of(fork).replay_until) == (run.turn_id, until)
        own = [event for event in fork.events if event.turn_id == fork.turn_id and event.iteration > until]
        live = [event.what for event in own if event.what.kind == "chat"]
        assert {(chat.provider, chat.model) for chat in live} == {("live", "other")}
        assert all("Model: other" in chat.messages[0].text for chat in live)


other_turns = {
    "live_chain": st.lists(scripts, min_size=1, max_size=2),
    "more": st.integers(1, 5),
    "live_deeds": deeds,
    "steer": st.sampled_from([None, "Count again."]),
    "edits": st.booleans(),
    "window": st.booleans(),
}


def forked(run: hn.Run, until: int, live_chain, more, live_deeds, steer, edits, window, **place) -> hn.Run:
    """A fork by an agent that differs in everything, steered and interrupted too."""
    models = [
        script(*steps, name=name, model="other", context_window=3_000 if window else None, each_turn=True)
        for name, steps in zip("xy", live_chain, strict=False)
    ]
    agent = hn.Agent(
        models,
        tools=[*WITH_HELPER[:2], helper.as_tool(name="helper", budget=2)],
        name="other",
        instructions="Be another one.",
        budget=until + more,
        retry=hn.Retry(attempts=2),
        compression=hn.Compression(minimum=400, passes=2),
        budget_notice=hn.BudgetNotice(),
        guard=hn.RateGuard(shared=False),
    )
    ready: Future[hn.Run] = Future()
    later = [(moment, deed) for moment, deed in live_deeds if moment > OPENING]
    with no_waiting():
        fork = replay(
            run, until=until, agent=agent, steer=steer, edit=edited if edits else None,
            sinks=[outside(ready, later, [])], **place,
        )  # fmt: skip
        ready.set_result(fork)
        assert fork.wait(60)
    return fork


def edited(messages):
    last = messages[-1]
    return [*messages[:-1], last.__class__(last.role, f"edited: {last.text}", last.tool_calls, last.tool_call_id)]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(played_with=st.fixed_dictionaries(turns), forked_with=st.fixed_dictionaries(other_turns))
def test_a_replay_of_a_fork_is_the_fork_again(played_with, forked_with):
    run = played(**played_with)
    for until in range(last_fork(run) + 1):
        fork = forked(run, until, **forked_with)

        check_that_it_is_again(replay(fork), fork)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    played_with=st.fixed_dictionaries(turns),
    first=st.fixed_dictionaries(other_turns),
    second=st.fixed_dictionaries(other_turns),
)
def test_a_fork_of_a_fork_agrees_with_it_up_to_its_point_and_is_replayed(played_with, first, second):
    run = played(**played_with)
    fork = forked(run, last_fork(run), **first)
    for until in range(last_fork(fork) + 1):
        again = forked(fork, until, **second | {"edits": False})

        assert again.result().interrupted or told(again, until) == told(fork, until)
        check_that_it_is_again(replay(again), again)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(played_with=st.fixed_dictionaries(turns), forked_with=st.fixed_dictionaries(other_turns))
def test_a_replay_of_a_fork_from_the_logbook_is_the_fork_again(played_with, forked_with):
    run = played(**played_with)
    with tempfile.TemporaryDirectory() as place:
        session = hn.Session(f"{place}/forks.db")
        fork = forked(run, last_fork(run), session=session, **forked_with)
        session.logbook.close()

        check_that_it_is_again(replay(fork.turn_id, logbook=session.logbook.path), fork)


def last_fork(run: hn.Run) -> int:
    """The last iteration after which the turn went on."""
    ended = [
        e.what for e in run.events if e.what.kind == "iteration" and e.phase == "ended" and e.turn_id == run.turn_id
    ]
    return max((one.number for one in ended if one.outcome in GOES_ON and not one.grace), default=0)


GOES_ON = ("tool_calls", "compressed", "continued")


def told(run: hn.Run, until: int) -> tuple[hn.Message, ...]:
    """The history at the end of an iteration."""
    history: list[hn.Message] = []
    for event in run.events:
        if event.turn_id != run.turn_id:
            continue
        what = event.what
        if what.kind == "iteration" and what.number > until:
            break
        if what.kind == "interrupt" and what.status == "observed":
            break
        if event.what.kind == "message":
            history.append(event.what.message)
        elif event.what.kind == "history":
            history = list(event.what.messages)
    return tuple(history)
