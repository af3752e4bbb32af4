"""What the attributes of spans are called: ours, those of OpenTelemetry's GenAI conventions, and their older names.

Each field of the frames is found under the first of its names that a span carries, so that one table reads spans of
any age and of OpenInference too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

SPAN_TYPE: Final = "hermes.span.type"
TURN_ID: Final = "hermes.turn.id"
ITERATION: Final = "hermes.iteration.number"
CONVERSATION: Final = "gen_ai.conversation.id"
OPERATION: Final = "gen_ai.operation.name"
MESSAGE_EVENTS: Final = (
    "gen_ai.system.",
    "gen_ai.user.",
    "gen_ai.assistant.",
    "gen_ai.tool.",
    "gen_ai.choice",
    "gen_ai.content.",
    "gen_ai.client.inference.operation.details",
)
"""How the names of events begin that hold messages."""
PURPOSES: Final = ("main", "summary")
"""What the chats are for that belong to the conversation itself."""
PENDING: Final = "hermes.span.pending"
RUN_ID: Final = "hermes.run.id"
SERVICE: Final = "service.name"
OPENINFERENCE_KIND: Final = "openinference.span.kind"

CONVERSATIONS: Final = (CONVERSATION, "session.id", "gen_ai.session.id", "langfuse.session.id", "thread.id")
AGENTS: Final = ("gen_ai.agent.name", "agent.name", "gen_ai.workflow.name")
ERRORS: Final = ("error.type", "exception.type")

INPUT_TOKENS: Final = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
)
OUTPUT_TOKENS: Final = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
)
CACHE_READ_TOKENS: Final = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
CACHE_WRITE_TOKENS: Final = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "llm.token_count.prompt_details.cache_write",
)
REASONING_TOKENS: Final = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
)
COSTS: Final = ("hermes.cost_usd", "llm.cost.total", "operation.cost", "gen_ai.usage.cost", "gen_ai.usage.total_cost")
PROVIDERS: Final = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system")
REQUEST_MODELS: Final = ("gen_ai.request.model", "llm.request.model", "llm.model_name")
RESPONSE_MODELS: Final = ("gen_ai.response.model", "llm.response.model", "llm.model_name")
FIRST_CHUNK: Final = ("gen_ai.response.time_to_first_chunk", "gen_ai.server.time_to_first_token")
FINISH_REASONS: Final = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "llm.finish_reason",
    "llm.response.finish_reason",
)
TOOL_NAMES: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
TOOL_CALL_IDS: Final = ("gen_ai.tool.call.id", "tool.id", "tool_call.id")
TOOL_ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool.parameters", "input.value", "traceloop.entity.input")
TOOL_RESULTS: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")

SPAN_TYPES: Final = (
    "turn",
    "iteration",
    "chat",
    "attempt",
    "retry",
    "fallback",
    "compression",
    "refund",
    "tool",
    "http",
    "other",
)
"""The values of `span_type`; a grace call is an iteration."""

TYPE_OF_OPERATION: Final = {
    "invoke_agent": "turn",
    "create_agent": "other",
    "invoke_workflow": "turn",
    "execute_tool": "tool",
    "chat": "chat",
    "generate_content": "chat",
    "text_completion": "chat",
    "completion": "chat",
}
MODELS: Final = ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name", "llm.request.model")
"""A span that names a model, but no operation, is a chat."""

TYPE_OF_KIND: Final = {"AGENT": "turn", "LLM": "chat", "TOOL": "tool"}
"""OpenInference's span kinds."""

_CONTENT: Final = frozenset(
    {
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.prompt",
        "gen_ai.completion",
        "input.value",
        "output.value",
        "input",
        "output",
        "tool.parameters",
        "hermes.compression.summary",
        "hermes.steer.text",
    }
)
_CONTENT_PREFIXES: Final = (
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.tools.",
    "llm.prompts.",
    "gen_ai.prompt.",
    "gen_ai.completion.",
)
_NO_CONTENT: Final = frozenset({"gen_ai.prompt.name", "gen_ai.prompt.version"})


@lru_cache(maxsize=4096)
def is_content(key: str) -> bool:
    """Whether an attribute holds what was said rather than how it went."""
    return key in _CONTENT or (key.startswith(_CONTENT_PREFIXES) and key not in _NO_CONTENT)


def is_message(name: str | None) -> bool:
    """Whether an event of this name holds a message."""
    return name is not None and name.startswith(MESSAGE_EVENTS)


def span_type(attributes: Mapping[str, Any]) -> str:
    """What a span is: by our own mark, by its GenAI operation, by OpenInference's kind, else by what it carries."""
    own = attributes.get(SPAN_TYPE)
    if own is not None:
        return "iteration" if own == "grace_call" else str(own)
    operation = attributes.get(OPERATION)
    if operation is not None:
        return TYPE_OF_OPERATION.get(str(operation), "other")
    if (kind := attributes.get(OPENINFERENCE_KIND)) is not None:
        return TYPE_OF_KIND.get(str(kind).upper(), "other")
    if "http.request.method" in attributes or "http.method" in attributes:
        return "http"
    if any(key in attributes for key in MODELS):
        return "chat"
    return "other"
