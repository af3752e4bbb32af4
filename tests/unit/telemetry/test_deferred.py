"""Spans that are written when somebody looks: nobody can tell that they were not written before."""

from __future__ import annotations

import gc
import weakref

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import Tracer, TracerProvider

import hermes_nb as hn
from hermes_nb.telemetry import mapping
from hermes_nb.telemetry.deferred import Deferred
from hermes_nb.telemetry.hub import HUB
from hermes_nb.testing import call, calls, fails, no_waiting, say, script
from hermes_nb.vocabulary import events
from tests.support.records import AtOnce, check_spans
from tests.support.telling import told


@pytest.fixture(autouse=True)
def nobody_listens(monkeypatch):
    """No destination wants the spans: not even the comparison with the registry."""
    monkeypatch.setattr(HUB, "outlets", ())


@pytest.fixture
def begun(monkeypatch):
    """The names of the spans that our own tracer has begun."""
    names = []
    begin = Tracer.start_span

    def start_span(self, name, *args, **kwargs):
        names.append(name)
        return begin(self, name, *args, **kwargs)

    monkeypatch.setattr(Tracer, "start_span", start_span)
    return names


def test_no_span_is_written_of_a_turn_that_nobody_looks_at(begun):
    with told() as turn, turn.iteration():
        turn.chat()
        turn.tool()

    assert repr(turn.store) == "<LiveStore 5 spans, 0 open>"
    assert begun == []


def test_the_span_of_a_turn_with_labels_is_written_as_they_are_when_it_starts(begun):
    labels = {"topic": "cities"}
    with told(metadata=labels) as turn, turn.iteration():
        labels["topic"] = "rivers"

    assert begun == ["invoke_agent agent"]
    assert turn.named("invoke_agent agent").attributes["hermes.metadata.topic"] == "cities"


def test_a_look_writes_each_span_once(begun):
    with told() as turn, turn.iteration():
        turn.chat()

    first, second = ([kept.span for kept in turn.spans()] for _ in range(2))

    assert begun == ["invoke_agent agent", "hermes.iteration", "chat gpt-x", "hermes.attempt"]
    assert list(map(id, first)) == list(map(id, second))
    assert all(span.end_time for span in first)


def test_a_look_at_an_open_span_shows_it_open_and_what_comes_later_is_written_at_once():
    with told() as turn:
        with turn.iteration():
            looked = turn.named("hermes.iteration")
            assert looked.end_time is None
            assert "hermes.iteration.outcome" not in looked.attributes
            turn.recorder.tell(events.Degraded("guard", "the disk is full"))
            assert [event.name for event in looked.events] == ["hermes.guard.degraded"]
        assert looked.end_time is not None
        assert looked.attributes["hermes.iteration.outcome"] == "tool_calls"


def test_what_a_tool_writes_onto_the_span_around_it_is_there():
    others = TracerProvider(shutdown_on_exit=False).get_tracer("others")
    elsewhere = others.start_span("elsewhere")
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("query", "c", "{}")) as tool:
        span = trace.get_current_span()
        assert span.is_recording()
        span.set_attribute("mine", 1)
        span.set_attributes({"rows": [1, 2]})
        span.add_event("read", {"bytes": 10})
        span.add_link(elsewhere.get_span_context(), {"why": "test"})
        span.record_exception(ValueError("mine"))
        span.update_name("execute_tool query the table")
        span.set_status(trace.StatusCode.OK)
        tool.status = "ok"

    kept = turn.named("execute_tool query the table")
    assert kept.attributes["mine"] == 1
    assert kept.attributes["rows"] == (1, 2)
    assert kept.attributes["hermes.tool.status"] == "ok"
    assert [event.name for event in kept.events] == ["read", "exception"]
    assert [link.attributes["why"] for link in kept.links] == ["test"]
    assert kept.status.status_code is trace.StatusCode.OK
    assert kept.get_span_context() == span.get_span_context()
    assert not span.is_recording()


def test_a_span_that_a_tool_ends_stays_as_it_was_then():
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("query", "c", "{}")) as tool:
        trace.get_current_span().end(10**18)
        trace.get_current_span().end(10**18 + 1)
        tool.status = "ok"

    kept = turn.named("execute_tool query")
    assert kept.end_time == 10**18
    assert "hermes.tool.status" not in kept.attributes


def test_spans_of_a_tool_are_below_the_span_that_has_yet_to_be_written(begun):
    mine = TracerProvider(shutdown_on_exit=False).get_tracer("mine")
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("query", "c", "{}")) as tool:
        with mine.start_as_current_span("select") as select:
            pass
        tool.status = "ok"

    assert begun == ["select"]
    assert select.parent == turn.named("execute_tool query").get_span_context()


def test_a_destination_gets_each_span_as_it_ends_also_where_somebody_has_looked(tmp_path):
    file = tmp_path / "turns.jsonl"
    with hn.capture(file), told() as turn:
        with turn.iteration():
            turn.chat()
            assert len(file.read_text().splitlines()) == 2
            turn.spans()[0].span.is_recording()
        assert len(file.read_text().splitlines()) == 3

    assert sorted(hn.load(file).spans_df().name) == sorted(kept.span.name for kept in turn.spans())


def test_a_destination_that_comes_later_gets_nothing_of_what_has_ended(tmp_path):
    with told() as turn:
        turn.chat()
        with hn.capture(tmp_path / "turns.jsonl"):
            turn.spans()[0].span.is_recording()
            assert {kept.span.name for kept in turn.spans()} >= {"chat gpt-x"}
            turn.tool()

    assert list(hn.load(tmp_path / "turns.jsonl").spans_df().name) == ["execute_tool population"]


def test_labels_stay_as_they_were_when_the_turn_began():
    seen = ["nothing"]
    with told(metadata={"seen": seen}) as turn:
        seen.append("Lyon")

    assert turn.named("invoke_agent agent").attributes["hermes.metadata.seen"] == ("nothing",)


def test_the_ids_are_those_of_the_turn_or_of_the_trace_around_it():
    mine = TracerProvider(shutdown_on_exit=False).get_tracer("mine")
    with told() as alone:
        alone.chat()
    with mine.start_as_current_span("cell") as cell, told() as within:
        within.chat()

    assert {kept.span.context.trace_id for kept in alone.spans()} == {mapping.trace_id(alone.recorder.turn_id)}
    assert {kept.span.context.trace_id for kept in within.spans()} == {cell.get_span_context().trace_id}
    for kept in (*alone.spans(), *within.spans()):
        assert kept.span.get_span_context() == kept.source.get_span_context()
        assert kept.span.parent == kept.source.parent
        assert kept.span.end_time == kept.source.end_time


def test_nothing_is_left_for_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        with told() as turn, turn.iteration():
            turn.chat()
            turn.tool()
        parts = [weakref.ref(kept.source) for kept in turn.spans() if isinstance(kept.source, Deferred)]
        assert [part() is not None for part in parts] == [True] * 5
        del turn
        assert not any(part() for part in parts)
    finally:
        gc.enable()


def test_a_turn_in_which_much_goes_wrong_is_told_as_if_it_had_been_written_at_once():
    @hn.tool
    def lookup(city: str) -> str:
        """Looks a city up."""
        trace.get_current_span().set_attribute("city", city)
        raise LookupError(city)

    helper = hn.Agent(script(calls(call("lookup", city="Lille")), say("nobody knows")), tools=[lookup], name="helper")
    first = script(
        fails("rate_limit", retry_after=1), calls(call("lookup", city="Lyon")), fails("server_error", times=3)
    )
    second = script(calls(call("helper", prompt="ask")), calls(call("nothing")), say("unknown"), name="second")
    agent = hn.Agent([first, second], tools=[lookup, helper.as_tool(name="helper", description="Asks.")], budget=6)
    at_once = AtOnce()
    with no_waiting():
        result = agent.run("Which is larger?", session=False, sinks=[at_once])

    assert result.exit_reason == "completed"
    assert result.fallbacks == 1
    check_spans(result, at_once)
