"""The same calls through OpenTelemetry's own `opentelemetry-util-genai` and through us: the same spans.

What differs on purpose is listed here, and nowhere else.
"""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import (
    FunctionToolDefinition,
    InputMessage,
    OutputMessage,
    Text,
    ToolCallRequest,
    ToolCallResponse,
)

import hermes_nb as hn
from hermes_nb.telemetry import semconv as s
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolSpec, Usage
from tests.support.telling import told

SYSTEM, USER = Message("system", "Be brief."), Message("user", "Which is larger?")
ASKED = Message("assistant", "", (ToolCall("c1", "population", '{"city": "Lyon"}'),))
RESULT = Message("tool", "522000", tool_call_id="c1")
TOOL = ToolSpec("population", "Inhabitants.", {"type": "object"})
PARAMETERS = {
    "temperature": 0.2, "top_p": 0.9, "max_tokens": 100, "seed": 7, "stop": ["END"], "frequency_penalty": 0.1,
    "presence_penalty": 0.2, "n": 2, "reasoning_effort": "low", "response_format": {"type": "json_object"},
}  # fmt: skip

OURS_ALONE = {"hermes.", "openinference.", "session.id", "agent.name", "llm.", "input.", "output.", "operation.cost"}
"""Beside the conventions: our own names, and what viewers want."""

CHAT_DIFFERENCES = {
    s.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: "ours alone: viewers still read the older name",
}
TURN_DIFFERENCES = {
    "gen_ai.usage.input_tokens": "theirs alone: tokens stand on chats only, so that nothing is counted twice",
    "gen_ai.usage.output_tokens": "theirs alone: the same",
}
TOOL_DIFFERENCES = {
    s.GEN_AI_CONVERSATION_ID: "ours alone: every span of a turn names its conversation",
}


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    exporter = InMemorySpanExporter()
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(SimpleSpanProcessor(exporter))
    made.finished = exporter.get_finished_spans
    return made


@pytest.fixture
def handler(provider):
    return TelemetryHandler(tracer_provider=provider, instrumentation_scope_name="oracle")


def pair(provider, name):
    """Our span and theirs of one name."""
    both = {span.instrumentation_scope.name: span for span in provider.finished() if span.name == name}
    return both["hermes_nb"], both["oracle"]


def shared(span):
    """A span's attributes without those that are ours alone."""
    return {k: v for k, v in span.attributes.items() if not any(k.startswith(own) for own in OURS_ALONE)}


def differing(ours, theirs):
    return set(shared(ours)) ^ set(shared(theirs))


def without_nothing(value):
    """JSON without the fields that are null: theirs writes them, ours does not."""
    if isinstance(value, dict):
        return {k: without_nothing(v) for k, v in value.items() if v is not None}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value


def ask(handler):
    """The chat as their handler tells it."""
    call = handler.inference(
        "openai", request_model="gpt-x", server_address="api.example", server_port=443, conversation_id="conversation"
    )
    call.temperature, call.top_p, call.max_tokens, call.seed = 0.2, 0.9, 100, 7
    call.stop_sequences, call.frequency_penalty, call.presence_penalty = ["END"], 0.1, 0.2
    call.request_choice_count, call.reasoning_level, call.output_type = 2, "low", "json"
    call.request_stream, call.conversation_compacted, call.ttfc_seconds = True, True, 0.4
    call.system_instruction = [Text("Be brief.")]
    call.input_messages = [
        InputMessage("user", [Text("Which is larger?")]),
        InputMessage("assistant", [ToolCallRequest(arguments={"city": "Lyon"}, name="population", id="c1")]),
        InputMessage("tool", [ToolCallResponse("522000", "c1")]),
    ]
    call.tool_definitions = [FunctionToolDefinition("population", "Inhabitants.", {"type": "object"})]
    call.output_messages = [OutputMessage("assistant", [Text("Lyon.")], "stop")]
    call.response_id, call.response_model_name, call.finish_reasons = "r1", "gpt-x-2026", ["stop"]
    call.input_tokens, call.output_tokens, call.thinking_tokens = 100, 20, 7
    call.cache_read_input_tokens, call.cache_write_input_tokens = 60, 5
    call.stop()


def test_a_chat_is_told_alike(provider, handler):
    reply = Reply(
        Message("assistant", "Lyon."), "stop", Usage(100, 20, 60, 5, 7), "gpt-x-2026", "r1", time_to_first_chunk=0.4
    )
    with told(provider) as turn, turn.iteration():
        asked = events.Chat(
            "openai", "gpt-x", stream=True, server_address="api.example", server_port=443, parameters=PARAMETERS,
            messages=(SYSTEM, USER, ASKED, RESULT), tools=(TOOL,), compacted=True,
        )  # fmt: skip
        with turn.recorder.scope(asked) as chat:
            chat.reply, chat.attempts = reply, 1
    ask(handler)

    ours, theirs = pair(provider, "chat gpt-x")
    assert ours.kind == theirs.kind
    assert differing(ours, theirs) == set(CHAT_DIFFERENCES)
    for key in shared(ours).keys() & shared(theirs).keys():
        one, other = ours.attributes[key], theirs.attributes[key]
        if key in s.CONTENT:
            assert json.loads(one) == without_nothing(json.loads(other)), key
        else:
            assert one == other, key


def test_a_failed_chat_is_told_alike(provider, handler):
    with told(provider) as turn, turn.iteration(), turn.recorder.scope(events.Chat("openai", "gpt-x")) as chat:
        chat.error_type, chat.error = "ValueError", "no"
    call = handler.inference("openai", request_model="gpt-x", conversation_id="conversation")
    call.fail(ValueError("no"))

    ours, theirs = pair(provider, "chat gpt-x")
    assert ours.status.status_code == theirs.status.status_code
    assert ours.status.description == theirs.status.description
    assert ours.attributes["error.type"] == theirs.attributes["error.type"]
    assert differing(ours, theirs) <= {s.GEN_AI_INPUT_MESSAGES}  # theirs leaves an empty list out


def test_a_tool_call_is_told_alike(provider, handler):
    with told(provider) as turn, turn.iteration():
        turn.tool(description="Inhabitants.", agent="agent")
    call = handler.tool("population", tool_type="function", agent_name="agent")
    call.tool_call_id, call.tool_description = "call_1", "Inhabitants."
    call.arguments, call.tool_result = {"city": "Lyon"}, "522000"
    call.stop()

    ours, theirs = pair(provider, "execute_tool population")
    assert ours.kind == theirs.kind
    assert differing(ours, theirs) == set(TOOL_DIFFERENCES)
    assert ours.attributes["gen_ai.tool.call.result"] == theirs.attributes["gen_ai.tool.call.result"]


def test_a_turn_is_told_alike(provider, handler):
    with told(provider) as turn:
        turn.recorder.tell(events.SystemPrompt("Be brief."))
    call = handler.invoke_local_agent(request_model="gpt-x", agent_name="agent", conversation_id="conversation")
    call.system_instruction = [Text("Be brief.")]
    call.input_messages = [InputMessage("user", [Text("Which is larger?")])]
    call.output_messages = [OutputMessage("assistant", [Text("Lyon.")], "stop")]
    call.input_tokens, call.output_tokens = 10, 2
    call.stop()

    ours, theirs = pair(provider, "invoke_agent agent")
    assert ours.kind == theirs.kind
    assert differing(ours, theirs) == set(TURN_DIFFERENCES)


def test_an_instrumentation_below_a_chat_stays_silent(provider, handler):
    async def model(request: hn.ModelRequest, on_text) -> Reply:
        handler.inference("openai", request_model="gpt-x").stop()  # what an instrumented client would do
        return Reply(Message("assistant", "Lyon."))

    hn.Agent(hn.as_provider(model, name="mine")).run("q", session=False, tracer_provider=provider)

    assert "chat gpt-x" not in [span.name for span in provider.finished()]
    assert "chat mine" in [span.name for span in provider.finished()]
