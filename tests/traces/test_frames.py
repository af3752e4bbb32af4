"""What the frames tell of turns."""

from __future__ import annotations

import threading

import pandas as pd
import pytest
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import hermes_nb as hn
from hermes_nb.testing import call, say, script
from hermes_nb.traces import Traces, concat
from tests.support.journeys import compressed, eventful, given_up, plain_trace, population, steered


@pytest.fixture(scope="module")
def trace():
    return eventful().trace


def exported(make) -> list:
    """Spans as an exporter gets them."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=4))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    make(provider.get_tracer("elsewhere"))
    return list(exporter.get_finished_spans())


# ---------------------------------------------------------------------------------------- turns and iterations


def test_a_turn_is_one_row_with_its_question_and_its_answer():
    turn = plain_trace("How many people live in Lyon?").turns_df().iloc[0]

    assert turn["user_message"] == "How many people live in Lyon?"
    assert turn["final_response"] == "522,000"
    assert (turn["exit_reason"], turn["completed"], turn["is_running"]) == ("completed", True, False)
    assert (turn["iterations"], turn["tool_calls"], turn["api_calls"]) == (2, 1, 2)


def test_a_sub_agents_turn_is_a_row_of_its_own_below_the_tool_that_started_it(trace):
    lead, helper = trace.turns_df().itertuples()
    tool = trace.tool_calls_df().query("tool_name == 'searcher'").iloc[0]

    assert (helper.agent_name, helper.parent_turn_id) == ("searcher", lead.turn_id)
    assert tool["child_turn_id"] == helper.turn_id
    assert trace.spans_df().set_index("span_id").loc[helper.span_id, "parent_span_id"] == tool["span_id"]
    assert helper.trace_id == lead.trace_id
    assert lead.providers_used == "first,second"


def test_the_grace_call_is_an_iteration_that_is_marked(trace):
    iterations = trace.iterations_df().query("turn_id == @trace.turn_id")

    assert iterations["grace"].tolist() == [False, False, False, False, True]
    assert iterations["budget_before"].iloc[0] == 6
    assert trace.turns_df()["grace_used"].tolist() == [True, False]


def test_a_retry_and_a_fallback_stand_where_they_happened(trace):
    retry, fallback = trace.retries_df().iloc[0], trace.fallbacks_df().iloc[0]

    assert (retry["reason"], retry["source"], retry["outcome"]) == ("overloaded", "backoff", "waited")
    assert retry["wait"] > pd.Timedelta(1, "s")
    assert (fallback["from_provider"], fallback["to_provider"]) == ("first", "second")
    failed = trace.chats_df().set_index("chat_span_id").loc[fallback["failed_chat_span_id"]]
    assert (failed["provider"], failed["status"]) == ("first", "ERROR")


def test_a_tool_call_names_the_chat_that_asked_for_it(trace):
    chats = trace.chats_df().set_index("chat_span_id")
    for tool in trace.tool_calls_df().itertuples():
        asked = chats.loc[tool.chat_span_id]
        assert (asked["turn_id"], asked["iteration"]) == (tool.turn_id, tool.iteration)
        assert asked["finish_reason"] == "tool_calls"


def test_a_tool_that_raised_is_an_error_and_its_turn_is_none(trace):
    failed = trace.tool_calls_df().query("status == 'ERROR'").iloc[0]

    assert (failed["error_type"], failed["outcome"]) == ("KeyError", "error")
    assert failed["arguments_json"] == '{"city":"Nowhere"}'
    assert trace.turns_df()["tool_errors"].tolist() == [1, 0]
    assert not trace.turns_df()["failed"].any()


def test_a_compression_tells_what_it_made_of_the_history():
    trace = compressed().trace
    compression, first = trace.compressions_df().iloc[0], trace.iterations_df().iloc[0]

    assert (compression["trigger"], compression["outcome"]) == ("preflight", "compressed")
    assert compression["messages_after"] < compression["messages_before"]
    assert compression["tokens_after"] < compression["tokens_before"]
    assert (first["outcome"], first["refunded"], first["n_chats"]) == ("compressed", 1, len(trace.chats_df()) - 1)
    assert set(trace.chats_df()["purpose"].iloc[:-1]) == {"compression"}


def test_a_turn_that_no_model_answered_names_the_failure():
    turn = given_up().trace.turns_df().iloc[0]

    assert (turn["failed"], turn["exit_reason"]) == (True, "provider_failed")
    assert pd.notna(turn["error_type"])
    assert turn["output_tokens"] == 0


# ---------------------------------------------------------------------------------------- running turns


def test_a_running_turn_shows_its_open_spans_and_how_long_they_have_lasted():
    reached, go = threading.Event(), threading.Event()

    @hn.tool
    def wait() -> str:
        """Waits."""
        reached.set()
        go.wait(20)
        return "done"

    run = hn.Agent(script(call("wait"), say("ok")), tools=[wait]).start("q", session=False)
    try:
        assert reached.wait(20)
        turn = run.trace.turns_df().iloc[0]
        spans = run.trace.spans_df()
        tool = run.trace.tool_calls_df().iloc[0]
        tree = run.trace.text_tree()
    finally:
        go.set()
    result = run.result()

    assert (turn["is_running"], turn["exit_reason"] is pd.NA or pd.isna(turn["exit_reason"])) == (True, True)
    assert turn["api_attempts"] == 1
    assert pd.isna(turn["end_time"])
    assert turn["duration"] > pd.Timedelta(0)
    assert spans.set_index("span_type").loc["tool", "is_running"]
    assert pd.isna(tool["result"])
    assert "execute_tool wait open" in tree
    assert not result.trace.spans_df()["is_running"].any()
    assert result.trace.turns_df()["completed"].all()


def test_a_trace_without_spans_gives_empty_frames_and_says_so():
    from hermes_nb.telemetry.store import LiveStore
    from hermes_nb.traces import Trace

    trace = Trace.live(LiveStore(), "turn-1")

    assert trace.turns_df().empty
    assert repr(trace) == "<Trace of turn 'turn-1', no spans yet>"
    assert trace._repr_html_() == "<p>no spans yet</p>"

    store = LiveStore()
    store.notes.append("no spans: OTEL_SDK_DISABLED is set")
    assert repr(Trace.live(store, "turn-1")) == "<Trace of turn 'turn-1', no spans: OTEL_SDK_DISABLED is set>"


# ---------------------------------------------------------------------------------------- messages


def test_every_message_stands_once_though_each_call_repeats_the_history():
    trace = plain_trace("How many?")
    messages = trace.messages_df().query("direction != 'system'")

    assert messages["role"].tolist() == ["user", "assistant", "tool", "assistant"]
    assert messages["part_type"].tolist() == ["text", "tool_call", "tool_call_response", "text"]
    assert messages["message_index"].tolist() == [0, 1, 2, 3]
    assert messages["content"].tolist() == ["How many?", '{"city":"Lyon"}', "522000", "522,000"]
    assert messages["tool_name"].tolist()[1] == "population"
    assert messages["chars"].tolist() == [9, 15, 6, 7]
    assert messages["iteration"].tolist() == [1, 1, 2, 2]


def test_a_steer_is_a_message_of_its_own_not_a_part_of_the_tools_result():
    messages = steered().trace.messages_df()
    steer = messages[messages["origin"] == "steer"]

    assert steer["content"].tolist() == ["Metropolitan area, please."]
    assert steer["role"].tolist() == ["user"]
    assert messages.query("part_type == 'tool_call_response'")["content"].tolist() == ["522000"]


def test_a_result_that_no_model_read_any_more_is_kept():
    def explode(request):
        raise hn.ProviderError(hn.Failure(hn.FailureReason.BILLING, "no money"))

    trace = hn.Agent(script(call("population", city="Lyon"), explode), tools=[population]).run("q", session=False).trace
    results = trace.messages_df().query("part_type == 'tool_call_response'")

    assert results["content"].tolist() == ["522000"]


# ---------------------------------------------------------------------------------------- attributes of any kind


def test_attributes_of_other_tools_are_kept_and_can_be_pulled_out():
    def make(tracer):
        with tracer.start_as_current_span("a", attributes={"x.count": 1, "x.name": "n", "x.flag": True}):
            pass
        with tracer.start_as_current_span("b", attributes={"x.count": 2.5, "x.list": ["p", "q"]}):
            pass

    traces = Traces.from_spans(exported(make))

    assert traces.attribute("x.count").tolist() == [1, 2.5]
    assert str(traces.attribute("x.count").dtype) == "Float64"
    assert str(traces.attribute("x.flag").dtype) == "boolean"
    assert traces.attribute("x.list").tolist() == ['["p","q"]']
    assert traces.attribute("x.none").empty
    rows = traces.attributes_df().set_index("key")
    assert rows.loc["x.flag", "type"] == "boolean"
    assert rows.loc["x.count", "value_num"].tolist() == [1.0, 2.5]


def test_mixed_types_under_one_name_break_nothing():
    def make(tracer):
        for value in (1, "a", 2.5, [True], "ü" * 3):
            with tracer.start_as_current_span("call", attributes={"id": value}):
                pass

    traces = Traces.from_spans(exported(make))

    assert traces.attribute("id").tolist() == ["1", "a", "2.5", "[true]", "üüü"]
    assert len(traces.spans_df()) == 5


def test_hundreds_of_names_make_no_column_more():
    def make(tracer):
        for number in range(500):
            with tracer.start_as_current_span("call", attributes={f"argument.{number}": number}):
                pass

    traces = Traces.from_spans(exported(make))

    assert list(traces.spans_df()) == list(plain_trace().spans_df())
    assert traces.attributes_df()["key"].nunique() == 500


def test_spans_of_an_sdk_that_keeps_its_fields_elsewhere_give_the_same_frames():
    class Elsewhere:
        """A span with the public names only."""

        def __init__(self, span):
            self.span = span

        def __getattr__(self, name):
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self.span, name)

    def make(tracer):
        with tracer.start_as_current_span("a", attributes={"x": 1, "gen_ai.conversation.id": "c"}) as span:
            span.add_event("e", {"k": "v"})
            with tracer.start_as_current_span("b"):
                pass

    spans = exported(make)
    ours, theirs = Traces.from_spans(spans), Traces.from_spans([Elsewhere(span) for span in spans])

    pd.testing.assert_frame_equal(ours.spans_df(), theirs.spans_df())
    pd.testing.assert_frame_equal(ours.events_df(), theirs.events_df())


def test_spans_that_are_still_open_are_taken_as_they_are_now():
    tracer = TracerProvider().get_tracer("t")
    with tracer.start_as_current_span("open", attributes={"a": 1}) as span:
        traces = Traces.from_spans([span])
        span.set_attribute("b", 2)

    assert traces.spans_df()["is_running"].tolist() == [True]
    assert traces.spans_df()["attributes_json"].tolist() == ['{"a":1}']


def test_spans_of_one_name_are_all_there():
    def make(tracer):
        for _ in range(3):
            with tracer.start_as_current_span("same"):
                pass

    assert len(Traces.from_spans(exported(make)).spans_df()) == 3


def test_what_a_limit_dropped_is_counted_and_reported():
    def make(tracer):
        with tracer.start_as_current_span("a", attributes={f"k{number}": number for number in range(10)}):
            pass

    traces = Traces.from_spans(exported(make))

    assert traces.spans_df()["dropped_attributes"].tolist() == [6]
    assert "6 attributes were dropped by a limit of the exporter" in str(traces.report)


def test_frames_keep_what_was_said_apart(trace):
    quiet, full = trace.spans_df(), trace.spans_df(content=True)

    assert not quiet["attributes_json"].str.contains("Lyon or Lille").any()
    assert full["attributes_json"].str.contains("Lyon or Lille").any()


def test_spans_that_a_user_opens_in_a_tool_belong_to_the_turn():
    provider = TracerProvider()

    @hn.tool
    def look() -> str:
        """Looks."""
        with provider.get_tracer("mine").start_as_current_span("reading a file"):
            return "seen"

    agent = hn.Agent(script(call("look"), say("ok")), tools=[look])
    result = agent.run("q", session=False, tracer_provider=provider)
    spans = result.trace.spans_df().set_index("name")

    assert spans.loc["reading a file", "turn_id"] == result.turn_id
    assert spans.loc["reading a file", "iteration"] == 1
    assert spans.loc["reading a file", "span_type"] == "other"
    assert spans.loc["reading a file", "parent_span_id"] == spans.loc["execute_tool look", "span_id"]


def test_traces_know_their_turns_and_give_each_of_them(trace):
    traces = concat([trace, plain_trace("again")])
    first, second = traces.turn_ids

    assert len(traces) == 2
    assert first == trace.turn_id
    assert traces.trace(first).text_tree().splitlines()[0].startswith("invoke_agent agent budget_exhausted")
    assert traces.trace(second).turns_df()["user_message"].tolist() == ["again"]
    pd.testing.assert_frame_equal(traces.trace(first).iterations_df(), trace.iterations_df())
    with pytest.raises(ValueError, match="no turn 'x'"):
        traces.trace("x")
    assert "3 turns" in repr(traces)


def test_the_same_trace_twice_is_counted_once(trace):
    twice = concat([trace, trace])

    assert len(twice.spans_df()) == len(trace.spans_df())
    assert twice.turns_df()["input_tokens"].tolist() == trace.turns_df()["input_tokens"].tolist()
    assert len(twice.events_df()) == len(trace.events_df())
    assert "there twice" in str(twice.report)
