"""The span sink, driven by a recorder: parents, ends, status, events and links."""

from __future__ import annotations

import contextvars
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from hermes_nb.telemetry import mapping, observe
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from tests.support.contract import CONTRACT
from tests.support.telling import told


def parent_name(turn, span) -> str | None:
    names = {kept.span.context.span_id: kept.span.name for kept in turn.spans()}
    return None if span.parent is None else names.get(span.parent.span_id)


def consume(number: int) -> events.BudgetChanged:
    return events.BudgetChanged("consume", -1, 4, number, 4 - number, number)


# ------------------------------------------------------------------------------------------ parents


def test_each_scope_is_a_span_below_the_one_around_it():
    with told() as turn, turn.iteration():
        turn.chat()
        turn.tool()

    shown = [(kept.span.name, parent_name(turn, kept.span)) for kept in turn.spans()]
    assert shown == [
        ("invoke_agent agent", None),
        ("hermes.iteration", "invoke_agent agent"),
        ("chat gpt-x", "hermes.iteration"),
        ("hermes.attempt", "chat gpt-x"),
        ("execute_tool population", "hermes.iteration"),
    ]


def test_a_span_that_the_user_opens_in_a_tool_is_below_it():
    mine = TracerProvider(shutdown_on_exit=False).get_tracer("mine")

    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
        with mine.start_as_current_span("query") as query:
            pass
        tool.status = "ok"

    assert query.parent.span_id == turn.named("execute_tool t").context.span_id
    assert query.context.trace_id == turn.named("invoke_agent agent").context.trace_id


def test_tools_in_worker_threads_are_siblings():
    def work(turn, number):
        with turn.recorder.scope(events.Tool(f"t{number}", "c", "{}", parallel=True)) as tool:
            tool.status = "ok"

    with told() as turn, turn.iteration(), ThreadPoolExecutor(3) as pool:
        for number in range(3):
            pool.submit(contextvars.copy_context().run, work, turn, number)

    assert [parent_name(turn, turn.named(f"execute_tool t{n}")) for n in range(3)] == ["hermes.iteration"] * 3


def test_a_scope_whose_context_was_lost_is_below_the_turn():
    def work(turn):
        with turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
            tool.status = "ok"

    with told() as turn, turn.iteration():
        thread = threading.Thread(target=work, args=(turn,))
        thread.start()
        thread.join()

    assert parent_name(turn, turn.named("execute_tool t")) == "invoke_agent agent"


def test_a_scope_is_below_its_own_turn_also_where_the_user_put_another_context():
    with told() as turn, turn.iteration():
        token = otel.attach(otel.Context())
        try:
            turn.tool()
        finally:
            otel.detach(token)

    assert parent_name(turn, turn.named("execute_tool population")) == "hermes.iteration"


def test_a_span_around_the_turn_is_its_parent_and_current_again_afterwards():
    mine = TracerProvider(shutdown_on_exit=False).get_tracer("mine")

    with mine.start_as_current_span("cell") as cell:
        with told() as turn, turn.iteration():
            turn.chat()
        assert trace.get_current_span() is cell

    assert turn.named("invoke_agent agent").parent.span_id == cell.get_span_context().span_id
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_span_around_the_turn_that_was_not_sampled_does_not_take_the_turn_away():
    unsampled = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False).get_tracer("mine")

    with unsampled.start_as_current_span("cell"), told() as turn, turn.iteration():
        turn.chat()

    assert len(turn.spans()) == 4


def test_a_sub_agents_turn_is_below_the_tool_that_started_it_and_in_the_same_store():
    with told() as turn, turn.iteration():
        child = turn.recorder.child(str(uuid.uuid4()))
        with turn.recorder.scope(events.Tool("ask", "c", "{}", delegate="searcher")) as tool:
            tool.child_turn_id, tool.status = child.turn_id, "ok"
            started = events.Turn("searcher", "p", "m", "q", parent_turn_id=turn.recorder.turn_id)
            with child.scope(started) as inner, child.scope(events.Iteration(1)) as iteration:
                inner.exit_reason, iteration.outcome = "completed", "final_response"

    inner = turn.named("invoke_agent searcher")
    assert parent_name(turn, inner) == "execute_tool ask"
    assert "hermes.iteration.number" not in inner.attributes
    assert inner.attributes["hermes.turn.id"] == child.turn_id
    assert inner.links == ()
    assert turn.named("execute_tool ask").attributes["gen_ai.transfer.target.name"] == "searcher"
    assert [kept.span.name for kept in turn.store.spans(child.turn_id)] == ["invoke_agent searcher", "hermes.iteration"]


def test_a_run_started_inside_of_a_tool_shares_the_store():
    with told() as outer, outer.iteration(), outer.recorder.scope(events.Tool("t", "c", "{}")) as tool:
        with told() as inner, inner.iteration():
            inner.chat()
        tool.status = "ok"

    assert inner.store is outer.store
    assert parent_name(outer, inner.spans()[0].span) == "execute_tool t"


def test_a_sub_agent_that_lost_its_context_points_at_the_tool_that_delegated_to_it():
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("ask", "c", "{}", delegate="agent")) as tool:
        tool.status = "ok"
        inner = []

        def alone():
            with told(parent_turn_id=turn.recorder.turn_id) as lost:
                inner.append(lost)

        thread = threading.Thread(target=alone)
        thread.start()
        thread.join()

    root = inner[0].spans()[0].span
    assert root.parent is None
    assert [(dict(link.attributes), link.context.span_id) for link in root.links] == [
        ({"hermes.link.type": "delegated_by"}, turn.named("execute_tool ask").context.span_id)
    ]


# ------------------------------------------------------------------------------------------ ends and status


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_spans_end_whatever_leaves_the_turn(error):
    seen = []

    def fail():
        with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("t", "c", "{}")):
            seen.append(turn)
            turn.turn.exit_reason = "internal_error"
            raise error

    with pytest.raises(error):
        fail()

    spans = [kept.span for kept in seen[0].spans()]
    assert all(span.end_time is not None for span in spans)
    root, *inner = spans
    assert all(root.start_time <= s.start_time <= s.end_time <= root.end_time for s in inner)


def test_open_spans_are_there_while_they_are_open():
    with told() as turn, turn.iteration():
        names = {kept.span.name: kept.span.end_time for kept in turn.spans()}

        assert names == {"invoke_agent agent": None, "hermes.iteration": None}
        assert "2 open" in repr(turn.store)


def test_times_are_those_of_the_events():
    seen = []
    observed = observe()
    recorder = Recorder("t", "c", [seen.append, observed.sink])

    with recorder.scope(events.Turn("a", "p", "m", "q")) as turn:
        turn.exit_reason = "completed"

    (kept,) = observed.store.spans()
    assert (kept.span.start_time, kept.span.end_time) == (seen[0].at, seen[1].at)


def test_only_the_scope_that_failed_is_an_error():
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Chat("openai", "gpt-x")) as chat:
        with turn.recorder.scope(events.Attempt(1, 3, "openai", "gpt-x")) as attempt:
            attempt.outcome, attempt.status = "retry", 503
            attempt.error_type, attempt.error, attempt.reason = "503", "try again, sk-test-SECRET123", "server_error"
        with turn.recorder.scope(events.Retry(1, "server_error", 0.1)) as retry:
            retry.outcome = "waited"
        with turn.recorder.scope(events.Attempt(2, 3, "openai", "gpt-x")) as again:
            again.outcome = "success"
        chat.attempts = 2

    statuses = [(kept.span.name, kept.span.status.status_code.name) for kept in turn.spans()]
    assert [name for name, status in statuses if status == "ERROR"] == ["hermes.attempt"]
    assert {status for _, status in statuses} == {"ERROR", "UNSET"}
    failed = turn.named("hermes.attempt")
    assert failed.status.description == "try again, [redacted]"
    assert failed.events == ()  # a status code is no exception


def test_an_exception_is_an_event_of_the_innermost_span_alone():
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
        tool.status, tool.error_type, tool.error = "error", "ValueError", "no such city"

    found = [
        (kept.span.name, event.name, dict(event.attributes)) for kept in turn.spans() for event in kept.span.events
    ]
    exception = {"exception.type": "ValueError", "exception.message": "no such city"}
    assert found == [("execute_tool t", "exception", exception)]


def test_an_interrupted_scope_is_no_error_and_says_so():
    seen = []

    def stop():
        with told() as turn, turn.iteration(), turn.recorder.scope(events.Chat("openai", "gpt-x")):
            seen.append(turn)
            turn.turn.exit_reason, turn.turn.interrupted = "interrupted_by_user", True
            with turn.recorder.scope(events.Attempt(1, 3, "openai", "gpt-x")):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()

    (turn,) = seen
    assert {kept.span.status.status_code.name for kept in turn.spans()} == {"UNSET"}
    assert turn.named("hermes.attempt").attributes["hermes.attempt.outcome"] == "cancelled"
    assert turn.named("hermes.iteration").attributes["hermes.iteration.outcome"] == "interrupted"


def test_a_sink_that_is_dropped_in_the_middle_leaves_no_span_open():
    observed = observe()
    broken = False

    def sink(event):
        if broken and event.phase == "ended":
            raise RuntimeError
        return observed.sink(event)

    recorder = Recorder("t", "c", [sink])
    with recorder.scope(events.Turn("a", "p", "m", "q")):
        broken = True

    assert [kept.span.end_time is None for kept in observed.store.spans()] == [False]
    CONTRACT.problems()  # it ended without what is told at the end, of course


# ------------------------------------------------------------------------------------------ events


def test_the_budget_is_told_on_the_iteration_that_it_pays_for():
    with told() as turn:
        turn.recorder.tell(events.BudgetChanged("grant", 4, 4, 0, 4, 0))
        for number in (1, 2):
            turn.recorder.tell(consume(number))
            with turn.iteration(number):
                pass
        turn.recorder.tell(events.BudgetChanged("exhausted", 0, 4, 4, 0, 3))
        turn.recorder.tell(events.BudgetChanged("grace_granted", 1, 4, 4, 0, 4))
        with turn.iteration(3, grace=True):
            turn.recorder.tell(events.BudgetChanged("grace_used", -1, 4, 4, 0, 5))

    found = [
        (kept.span.name, event.name.removeprefix("hermes.budget."), event.attributes["hermes.budget.sequence"])
        for kept in turn.spans()
        for event in kept.span.events
    ]
    assert found == [
        ("invoke_agent agent", "grant", 0),
        ("invoke_agent agent", "exhausted", 3),
        ("hermes.iteration", "consume", 1),
        ("hermes.iteration", "consume", 2),
        ("hermes.grace_call", "grace_granted", 4),
        ("hermes.grace_call", "grace_used", 5),
    ]


def test_an_iteration_that_never_came_leaves_its_budget_event_to_the_turn():
    with told() as turn:
        turn.recorder.tell(consume(1))

    assert [event.name for event in turn.named("invoke_agent agent").events] == ["hermes.budget.consume"]


def test_steers_interrupts_and_troubles_are_events_of_the_iteration():
    with told() as turn, turn.iteration(), turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
        turn.recorder.tell(events.Steered(1, "Metropolitan areas.", "delivered"))
        turn.recorder.tell(events.Interrupt("api", "observed", "tool_call", 0.004))
        turn.recorder.tell(events.Degraded("guard", "no lock, password=correct-horse"))
        turn.recorder.tell(events.Degraded("price", "no price"))
        turn.recorder.tell(events.Checkpointed("project", "3f2a"))
        tool.status = "ok"

    told_of = {event.name: dict(event.attributes) for event in turn.named("hermes.iteration").events}
    assert told_of["hermes.steer.applied"] == {"hermes.steer.id": 1, "hermes.steer.count": 1, "hermes.steer.chars": 19}
    assert told_of["hermes.interrupt.observed"]["hermes.interrupt.latency"] == 0.004
    assert told_of["hermes.guard.degraded"]["hermes.degraded.detail"] == "no lock, password=[redacted]"
    assert {"hermes.degraded", "hermes.checkpoint"} <= set(told_of)


def test_a_point_told_from_elsewhere_is_an_event_of_the_turn():
    with told() as turn, turn.iteration():
        steer = events.Steered(1, "x", "queued")
        thread = threading.Thread(target=turn.recorder.tell, args=(steer,))
        thread.start()
        thread.join()

    assert [event.name for event in turn.named("invoke_agent agent").events] == ["hermes.steer.queued"]


def test_neither_many_attributes_nor_many_events_push_others_out():
    with told(metadata={f"k{n}": n for n in range(300)}) as turn:
        for number in range(200):
            turn.recorder.tell(events.BudgetChanged("grant", 1, 4, 0, 4, number))

    root = turn.named("invoke_agent agent")
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert sum(key.startswith("hermes.metadata.k") for key in root.attributes) == 300
    assert len(root.events) == 200
    assert root.dropped_attributes == root.dropped_events == 0


# ------------------------------------------------------------------------------------------ links and ids


def test_a_fallback_points_at_the_chat_that_failed():
    with told() as turn, turn.iteration():
        seen = []
        turn.recorder._sinks.append(seen.append)
        turn.chat()
        failed = next(event.scope for event in seen if isinstance(event.what, events.Chat))
        with turn.recorder.scope(events.Fallback(1, "auth", "openai", "gpt-x", failed_chat=failed)) as fallback:
            fallback.outcome = "activated"

    (link,) = turn.named("hermes.fallback").links
    assert dict(link.attributes) == {"hermes.link.type": "failed_chat"}
    assert link.context.span_id == turn.named("chat gpt-x").context.span_id


def test_a_turn_points_at_the_one_before_it_also_from_another_kernel():
    with told() as first:
        pass
    with told(previous_turn_id=first.recorder.turn_id) as second:
        pass
    elsewhere = str(uuid.uuid4())
    with told(previous_turn_id=elsewhere) as third:
        pass

    (link,) = second.named("invoke_agent agent").links
    assert link.context.span_id == first.named("invoke_agent agent").context.span_id
    assert dict(link.attributes) == {"hermes.link.type": "previous_turn", "hermes.turn.id": first.recorder.turn_id}
    (far,) = third.named("invoke_agent agent").links
    assert (far.context.trace_id, far.context.span_id) == (uuid.UUID(elsewhere).int, mapping.span_id(elsewhere, 1))


def test_ids_follow_from_the_turn():
    with told() as turn, turn.iteration():
        pass

    root, iteration = (kept.span.context for kept in turn.spans())
    assert root.trace_id == iteration.trace_id == uuid.UUID(turn.recorder.turn_id).int
    assert [root.span_id, iteration.span_id] == [mapping.span_id(turn.recorder.turn_id, scope) for scope in (1, 2)]


def test_a_turn_id_that_is_no_uuid_has_a_trace_too():
    assert 0 < mapping.trace_id("turn-1") < 2**128
    assert mapping.trace_id("turn-1") != mapping.trace_id("turn-2")


# ------------------------------------------------------------------------------------------ providers


def user_provider() -> tuple[TracerProvider, InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider, exporter


def test_a_providers_of_the_users_gets_the_spans_and_the_store_keeps_them():
    provider, exporter = user_provider()

    for _ in range(2):
        with told(provider) as turn, turn.iteration():
            turn.chat()

    assert len(turn.spans()) == 4
    assert len(exporter.get_finished_spans()) == 8
    assert turn.named("chat gpt-x").attributes["openinference.span.kind"] == "LLM"
    assert "gen_ai.input.messages" not in turn.named("chat gpt-x").attributes


def test_content_on_the_users_provider_follows_the_environment(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    provider, exporter = user_provider()

    with told(provider) as turn, turn.iteration():
        turn.recorder.tell(events.Steered(1, "Metropolitan areas.", "delivered"))
        turn.chat()
        turn.tool(result="the key is sk-test-SECRET123")

    chat = next(span for span in exporter.get_finished_spans() if span.name == "chat gpt-x")
    assert "Which is larger?" in chat.attributes["gen_ai.input.messages"]
    assert turn.named("hermes.iteration").events[0].attributes["hermes.steer.text"] == "Metropolitan areas."
    result = turn.named("execute_tool population").attributes["gen_ai.tool.call.result"]
    assert result == "the key is [redacted]"


def test_spans_of_the_users_provider_outside_of_turns_are_not_kept():
    provider, _ = user_provider()
    with told(provider) as turn, provider.get_tracer("mine").start_as_current_span("inside"):
        pass
    with provider.get_tracer("mine").start_as_current_span("outside"):
        pass

    assert [kept.span.name for kept in turn.store.spans()] == ["invoke_agent agent", "inside"]


def test_a_provider_that_cannot_be_hashed_gets_one_processor():
    class Odd(TracerProvider):
        __hash__ = None

    provider = Odd(shutdown_on_exit=False)
    for _ in range(2):
        with told(provider) as turn, turn.iteration():
            pass

    assert len(turn.spans()) == 2
    assert len(provider._active_span_processor._span_processors) == 1


def test_a_provider_that_takes_no_processor_is_used_and_the_store_says_why_it_is_empty():
    with told(trace.NoOpTracerProvider()) as turn, turn.iteration():
        turn.chat()

    assert turn.store.spans() == []
    assert turn.store.notes == ["no spans here: NoOpTracerProvider takes no span processor"]


def test_with_the_sdk_disabled_turns_work_and_the_store_says_why_it_is_empty(monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")

    with told(TracerProvider(shutdown_on_exit=False)) as turn, turn.iteration():
        turn.chat()

    assert turn.store.spans() == []
    assert turn.store.notes == ["no spans: OTEL_SDK_DISABLED is set"]


def test_the_global_provider_is_not_touched():
    before = trace._TRACER_PROVIDER
    with told() as turn, turn.iteration():
        turn.chat()

    assert trace._TRACER_PROVIDER is before is None


def test_a_tool_that_outlives_its_turn_ends_with_it():
    outlived = threading.Event()

    def work(turn):
        with turn.recorder.scope(events.Tool("t", "c", "{}")) as tool:
            started.set()
            outlived.wait(10)
            tool.status = "ok"

    started = threading.Event()
    with told() as turn, turn.iteration():
        thread = threading.Thread(target=contextvars.copy_context().run, args=(work, turn))
        thread.start()
        started.wait(10)
    ended = turn.named("execute_tool t").end_time
    outlived.set()
    thread.join()

    assert ended == turn.named("invoke_agent agent").end_time
    assert turn.named("execute_tool t").end_time == ended
    CONTRACT.problems()  # it ended without what is told at the end
