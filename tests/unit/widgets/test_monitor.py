"""The monitor: what a panel shows after each thing that can happen in a turn."""

from __future__ import annotations

import random
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb import Agent, Ceiling, Compression, tool
from hermes_nb.testing import call, calls, say, script
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.budget import BudgetView
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage
from hermes_nb.widgets import words
from hermes_nb.widgets.gauges import gauges, lane_totals
from hermes_nb.widgets.log import Log
from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.record import html
from hermes_nb.widgets.text import plain
from hermes_nb.widgets.wire import Pages, bar, draft, head, row
from tests.support.story import CHAIN, Story, everything

WHOLE = everything()
NANO = 1_000_000_000


@tool
def look(at: int) -> str:
    """Look."""
    return "seen"


def rows(snapshot, kind):
    return [row for row in snapshot.transcript if row.kind == kind]


def gauge(snapshot, name):
    return next(gauge for gauge in gauges(snapshot, snapshot.turn.started) if gauge.id == name)


def when(matches):
    """The snapshot right after the first event that matches."""
    snapshot = Snapshot()
    for event in WHOLE:
        snapshot = snapshot.after(event)
        if matches(event):
            return snapshot
    pytest.fail("no event matches")


def test_the_whole_story_is_told_in_order():
    snapshot = Snapshot().after_all(WHOLE)
    told = [(row.kind, row.title or row.text) for row in snapshot.transcript]
    assert told == [
        ("prompt", "Why?"),
        ("iteration", "Iteration 1"),
        ("note", "Rate limit: waited 12.0 s as the server asked, then asked again."),
        ("note", "openai:gpt-x gave up (billing); from here anthropic:claude-y answers."),
        ("assistant", "I `look` first."),
        ("tool", "look"),
        ("tool", "count"),
        ("iteration", "Iteration 2"),
        ("steer", "Look twice"),
        ("note", "History compressed: 9 to 3 messages, about 9k to 900 tokens; the iteration was given back."),
        ("iteration", "Iteration 3"),
        ("tool", "searcher"),
        ("note", "Going on without the price: KeyError: 'small'"),
        ("iteration", "Iteration 4"),
        ("assistant", "Again."),
        ("tool", "look"),
        ("iteration", "Grace call"),
        ("assistant", "It is the counter."),
        ("steer", "too late"),
        ("end", rows(snapshot, "end")[0].text),
    ]
    assert "The budget of 3 iterations is used up; the grace call gave the last answer." in told[-1][1]


def test_a_tool_call_and_its_result_are_one_row():
    first, second, *_ = rows(Snapshot().after_all(WHOLE), "tool")
    assert (first.title, first.detail, first.text, first.tone) == ("look", '{"path": "src/"}', "one\ntwo", "ok")
    assert first.seconds is not None
    assert (second.title, second.text, second.tone) == ("count", "no such file", "error")
    assert words.tool_state(second).startswith("failed, ")


def test_while_a_wait_lasts_the_phase_counts_down():
    snapshot = when(lambda event: event.what.kind == "retry" and event.phase == "started")
    phase = words.phase(snapshot)
    assert words.status(snapshot).word == "Waiting"
    assert phase.at(phase.until - 12 * NANO) == "12 s for rate limit, then attempt 2 of 3"
    assert phase.at(phase.until + NANO).startswith("0 s")


@pytest.mark.parametrize(
    ("kind", "phase", "said"),
    [
        ("compression", "started", "compressing the history, 1 of 3"),
        ("fallback", "started", "switching to the next provider (billing)"),
        ("attempt", "started", "asking gpt-x"),
        ("delta", "point", "claude-y is answering"),
        ("tool", "started", "running look"),
    ],
)
def test_the_phase_says_what_is_going_on(kind, phase, said):
    snapshot = when(lambda event: (event.what.kind, event.phase) == (kind, phase))
    assert words.phase(snapshot).text == said


def test_parallel_tools_and_sub_agents_are_counted_in_the_phase():
    story = Story()
    with story.turn(), story.iteration(1):
        calls = [events.Tool("look", f"c{number}", "{}") for number in range(3)]
        with story.recorder.scope(calls[0]), story.recorder.scope(calls[1]), story.recorder.scope(calls[2]):
            busy = Snapshot().after_all(story.events)
    assert words.phase(busy).text == "running 3 tools"
    inner = when(lambda event: event.turn_id == "turn-2" and event.what.kind == "iteration")
    assert words.phase(inner).text == "running searcher (sub-agent searcher, iteration 1 of 5)"


def test_a_fallback_is_seen_at_once_and_named():
    before = when(lambda event: event.what.kind == "fallback" and event.phase == "started")
    after = when(lambda event: event.what.kind == "chat" and getattr(event.what, "fallback_index", 0) == 1)
    assert words.answering(before) == ("openai:gpt-x", "")
    assert words.answering(after) == ("anthropic:claude-y", "fallback 1, instead of openai:gpt-x")


def test_a_model_that_answers_under_another_name_is_named_by_it():
    story = Story()
    with story.turn(), story.iteration(1), story.recorder.scope(events.Chat("openai", "gpt-x")) as chat:
        chat.reply = Reply(Message("assistant", "hi"), model="gpt-x-2026-01-01")
    assert words.answering(Snapshot().after_all(story.events))[1] == "answers as gpt-x-2026-01-01"


def test_the_budget_shows_refunds_and_the_grace_call():
    shown = gauge(Snapshot().after_all(WHOLE), "iterations")
    assert (shown.value, shown.of, shown.notes) == ("3", "of 3", ("1 given back", "grace call"))
    assert (shown.cells, shown.filled) == (3, (3, 1, True))
    assert next(r for r in Snapshot().after_all(WHOLE).transcript if r.key == "i2").detail == "given back: compression"


def test_a_look_at_the_budget_counts_only_if_it_is_newer():
    snapshot = Snapshot().after_all(WHOLE)
    newer = BudgetView(3, 2, 1, 2, snapshot.budget.sequence + 1)
    assert snapshot.with_budget(newer).budget.used == 2
    assert snapshot.with_budget(BudgetView(3, 0, 3, 0, 0)) is snapshot


def test_the_window_is_the_servers_count_until_something_is_added():
    story = Story()
    with story.turn(settings={"chain": CHAIN}), story.iteration(1):
        story.say("hello", ToolCall("c", "t"), tokens=240)
        counted = Snapshot().after_all(story.events)
        story.message(Message("tool", "x" * 400, tool_call_id="c"))
        grown = Snapshot().after_all(story.events)
    assert (gauge(counted, "context").value, gauge(counted, "context").fraction) == ("250", 0.25)
    assert (gauge(grown, "context").value, gauge(grown, "context").notes) == ("≈ 350", ("estimated",))


def test_a_fallback_brings_its_own_window():
    snapshot = Snapshot().after_all(WHOLE[:30])
    assert snapshot.model.provider == "anthropic"
    assert gauge(snapshot, "context").of == "of 2k"


def test_tokens_and_money_of_sub_agents_are_part_of_the_turns():
    spent = Snapshot().after_all(WHOLE).spent
    chats = [e.what for e in WHOLE if e.what.kind == "chat" and e.phase == "ended" and e.what.reply]
    assert spent.usage == sum((chat.reply.usage for chat in chats), Usage())
    assert spent.cost_usd == pytest.approx(0.03)


def test_ceilings_stand_beside_what_they_bound():
    """From the events of a real turn alone; the money already counts while the turn goes on."""
    ceiling = Ceiling(tokens=90_000, seconds=300, cost_usd=0.5, price=lambda *_: 0.02)
    model = script(calls(call("look", at=1)), say("done"), context_window=64_000)
    run = Agent(model, tools=[look], ceiling=ceiling, compression=Compression(context_window=32_000)).start(
        "Why?", session=False
    )
    run.result()
    second = next(n for n, e in enumerate(run.events) if e.what.kind == "iteration" and e.what.number == 2)
    snapshot = Snapshot().after_all(run.events[:second])
    assert not snapshot.ended
    assert gauge(snapshot, "tokens").of == "of 90k"
    assert (gauge(snapshot, "cost").value, gauge(snapshot, "cost").of) == ("$0.0200", "of $0.500")
    assert gauge(snapshot, "cost").fraction == pytest.approx(0.04)
    assert gauge(snapshot, "time").of == "of 5 min"
    assert gauge(snapshot, "context").of == "of 32k"


def test_a_steer_waits_then_has_a_receipt():
    queued = when(lambda event: event.what.kind == "steer")
    assert [(note.text, note.status) for note in queued.steers] == [("Look twice", "queued")]
    assert not rows(queued, "steer")
    delivered, undelivered = rows(Snapshot().after_all(WHOLE), "steer")
    assert delivered.detail == "delivered in iteration 2"
    assert undelivered.detail == "undelivered: the turn ended"


def test_a_retry_throws_the_half_streamed_reply_away():
    story = Story()
    with story.turn(), story.iteration(1), story.recorder.scope(events.Chat("openai", "gpt-x")):
        with story.recorder.scope(events.Attempt(1, 3, "openai", "gpt-x")):
            story.recorder.tell(events.Delta("half a sent"))
            half = Snapshot().after_all(story.events)
        with story.recorder.scope(events.Attempt(2, 3, "openai", "gpt-x")):
            again = Snapshot().after_all(story.events)
            story.recorder.tell(events.Delta("The whole"))
            whole = Snapshot().after_all(story.events)
    assert [s.draft.head for s in (half, again, whole)] == ["half a sent", "", "The whole"]
    assert words.phase(again).text == "asking gpt-x, attempt 2 of 3"


def test_thinking_and_calls_are_streamed_too():
    story = Story()
    scope = story.recorder.scope
    chat, attempt = scope(events.Chat("openai", "gpt-x")), scope(events.Attempt(1, 3, "openai", "gpt-x"))
    with story.turn(), story.iteration(1), chat, attempt:
        story.recorder.tell(events.Delta("hm", "reasoning"))
        thinking = Snapshot().after_all(story.events)
        story.recorder.tell(events.Delta('{"a"', "call"))
        calling = Snapshot().after_all(story.events)
    assert words.phase(thinking).text == "gpt-x is thinking"
    assert words.phase(calling).text == "gpt-x is writing a tool call"


def test_what_a_compression_streams_is_not_the_answer():
    story = Story()
    scope = story.recorder.scope
    compression = scope(events.Compression("overflow", "summary", 9, 900))
    chat = scope(events.Chat("openai", "small", purpose="compression"))
    attempt = scope(events.Attempt(1, 3, "openai", "small"))
    with story.turn(), story.iteration(1), compression, chat, attempt:
        story.recorder.tell(events.Delta("in short"))
        snapshot = Snapshot().after_all(story.events)
    assert snapshot.draft.head == ""
    assert not [bar for bar in snapshot.timeline if bar.lane == "model"]


@pytest.mark.parametrize(
    ("reason", "detail", "said"),
    [
        ("completed", "the model answered", "Completed. 1 iteration, "),
        ("interrupted_by_user", "", "Interrupted by you in iteration 1, while a tool was running. Everything up to"),
        ("interrupted_by_kernel", "", "Interrupted by the kernel's stop button in iteration 1, while a tool"),
        ("interrupted_by_parent", "", "Interrupted by the agent that had started it in iteration 1"),
        ("provider_failed", "openai: HTTP 500", "No provider gave an answer: openai: HTTP 500. 1 iteration"),
        ("ceiling_reached", "900 of 800 tokens used", "Stopped at the ceiling: 900 of 800 tokens used. "),
        ("internal_error", "KeyError: 'x'", "An error in the library or in a policy ended the turn: KeyError: 'x'."),
        ("something_new", "why not", "Something new: why not. "),
    ],
)
def test_the_end_is_one_sentence_with_the_reason(reason, detail, said):
    story = Story()
    with story.turn() as turn:
        with story.iteration(1):
            story.recorder.tell(events.Interrupt("user", "requested"))
            story.recorder.tell(events.Interrupt("user", "observed", "tool_call", 0.01))
        story.end(turn, reason, detail)
        turn.iterations = 1
    snapshot = Snapshot().after_all(story.events)
    assert rows(snapshot, "end")[0].text.startswith(said)
    assert words.phase(snapshot).text.startswith(said)


def test_what_was_running_at_the_end_has_stopped():
    story = Story()
    turn, iteration = story.turn(), story.iteration(1)
    turn.__enter__()
    iteration.__enter__()
    tool = story.recorder.scope(events.Tool("look", "c", "{}"))
    tool.__enter__()
    turn.__exit__(None, None, None)
    snapshot = Snapshot().after_all(story.events)
    assert [bar.tone for bar in snapshot.timeline] == ["stopped"]
    assert all(bar.end for bar in snapshot.timeline)
    assert not snapshot.open


def test_bars_lie_in_the_lane_of_what_they_stand_for():
    totals = {total.lane: total.bars for total in lane_totals(Snapshot().after_all(WHOLE), time.time_ns())}
    assert totals == {"model": 6, "tools": 4, "waits": 1, "compression": 1, "agents": 1}
    failed = [bar for bar in Snapshot().after_all(WHOLE).timeline if bar.tone == "failed"]
    assert [bar.label for bar in failed] == [
        "openai:gpt-x, attempt 1: rate limit",
        "openai:gpt-x, attempt 2: billing",
        "count",
    ]


def test_a_snapshot_never_changes():
    snapshot = Snapshot()
    history = [snapshot]
    for event in WHOLE:
        history.append(history[-1].after(event))
    lengths = [(len(s.rows), len(s.bars), s.iteration, s.budget.used) for s in history]
    again = [Snapshot().after_all(WHOLE[:number]) for number in range(len(history))]
    assert [(len(s.rows), len(s.bars), s.iteration, s.budget.used) for s in again] == lengths
    assert [s.transcript for s in again] == [s.transcript for s in history]


def test_two_futures_of_one_snapshot_do_not_meet():
    past = Log(["a"])
    one, other = past.plus("b"), past.plus("c", "d")
    assert (list(past), list(one), list(other)) == (["a"], ["a", "b"], ["a", "c", "d"])
    assert other[1:] == ["c", "d"]
    assert other[-1] == "d"


def views(snapshot):
    """Every view of a snapshot; none may raise."""
    now = time.time_ns()
    head(snapshot, pausing=True)
    draft(snapshot.draft)
    Pages(row).newest(snapshot.rows)
    Pages(bar).newest(snapshot.bars)
    return plain(snapshot, now) + html(snapshot, now)


@settings(max_examples=150, deadline=None)
@given(order=st.randoms(use_true_random=False), keep=st.floats(0.05, 1.0))
def test_no_order_and_no_loss_of_events_breaks_anything(order, keep):
    told = [event for event in WHOLE if order.random() < keep]
    order.shuffle(told)
    snapshot = Snapshot("turn-1")
    for event in told:
        snapshot = snapshot.after(event)
        words.phase(snapshot)
    assert views(snapshot)


@settings(max_examples=80, deadline=None)
@given(cut=st.integers(0, len(WHOLE)))
def test_every_moment_of_a_turn_can_be_shown(cut):
    assert views(Snapshot().after_all(WHOLE[:cut]))


def test_events_told_twice_show_each_row_once():
    doubled = [event for event in WHOLE for _ in range(2)]
    keys = [row.key for row in Snapshot().after_all(doubled).transcript]
    assert len(keys) == len(set(keys))


def long_turn(iterations):
    story = Story(budget=iterations)
    with story.turn():
        for number in range(1, iterations + 1):
            with story.iteration(number):
                call = ToolCall(f"c{number}", "look", "{}")
                story.say("Looking.", call)
                story.tool(call, "found")
    return story.events


def test_an_event_costs_as_much_late_as_early():
    """Counted in calls of Python functions, not in seconds: the machine may be busy."""
    told = long_turn(2_500)
    early, late = _calls(told, 0), _calls(told, len(told) - 2_000)
    assert late < early * 1.2


def _calls(told, start, number=1_500):
    snapshot, count = Snapshot().after_all(told[:start]), 0

    def tracer(frame, kind, arg):
        nonlocal count
        count += kind in ("call", "c_call")

    sys.setprofile(tracer)
    try:
        snapshot.after_all(told[start : start + number])
    finally:
        sys.setprofile(None)
    return count


def test_ten_thousand_rows_are_a_transcript_like_any_other():
    snapshot = Snapshot().after_all(long_turn(3_400))
    assert len(snapshot.transcript) > 10_000
    record = html(snapshot, time.time_ns())
    assert len(record) < 1_500_000
    assert "rows left out here; run.trace has them all." in record


def test_shuffled_twins_agree_on_what_is_absolute():
    told = [event for event in WHOLE if event.what.kind == "budget"]
    random.Random(3).shuffle(told)
    snapshot = Snapshot("turn-1").after_all(told)
    assert (snapshot.budget.limit, snapshot.budget.used) == (3, 3)
