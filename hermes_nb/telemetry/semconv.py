"""Names of attributes, events and metrics; generated from the registry, do not edit."""

# ruff: noqa: S105  names that speak of tokens are no passwords

from __future__ import annotations

from typing import Final, NamedTuple

GENAI_RELEASE: Final = "0.1.0"

# attributes

AGENT_NAME: Final = "agent.name"
ERROR_TYPE: Final = "error.type"
EXCEPTION_MESSAGE: Final = "exception.message"
EXCEPTION_TYPE: Final = "exception.type"
GEN_AI_AGENT_NAME: Final = "gen_ai.agent.name"
GEN_AI_CONVERSATION_COMPACTED: Final = "gen_ai.conversation.compacted"
GEN_AI_CONVERSATION_ID: Final = "gen_ai.conversation.id"
GEN_AI_INPUT_MESSAGES: Final = "gen_ai.input.messages"
GEN_AI_OPERATION_NAME: Final = "gen_ai.operation.name"
GEN_AI_OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
GEN_AI_OUTPUT_TYPE: Final = "gen_ai.output.type"
GEN_AI_PROVIDER_NAME: Final = "gen_ai.provider.name"
GEN_AI_REQUEST_CHOICE_COUNT: Final = "gen_ai.request.choice.count"
GEN_AI_REQUEST_FREQUENCY_PENALTY: Final = "gen_ai.request.frequency_penalty"
GEN_AI_REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
GEN_AI_REQUEST_MODEL: Final = "gen_ai.request.model"
GEN_AI_REQUEST_PRESENCE_PENALTY: Final = "gen_ai.request.presence_penalty"
GEN_AI_REQUEST_REASONING_LEVEL: Final = "gen_ai.request.reasoning.level"
GEN_AI_REQUEST_SEED: Final = "gen_ai.request.seed"
GEN_AI_REQUEST_STOP_SEQUENCES: Final = "gen_ai.request.stop_sequences"
GEN_AI_REQUEST_STREAM: Final = "gen_ai.request.stream"
GEN_AI_REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
GEN_AI_REQUEST_TOP_K: Final = "gen_ai.request.top_k"
GEN_AI_REQUEST_TOP_P: Final = "gen_ai.request.top_p"
GEN_AI_RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
GEN_AI_RESPONSE_ID: Final = "gen_ai.response.id"
GEN_AI_RESPONSE_MODEL: Final = "gen_ai.response.model"
GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
GEN_AI_SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
GEN_AI_TOKEN_MODALITY: Final = "gen_ai.token.modality"
GEN_AI_TOKEN_TYPE: Final = "gen_ai.token.type"
GEN_AI_TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
GEN_AI_TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
GEN_AI_TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
GEN_AI_TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
GEN_AI_TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
GEN_AI_TOOL_NAME: Final = "gen_ai.tool.name"
GEN_AI_TOOL_TYPE: Final = "gen_ai.tool.type"
GEN_AI_TRANSFER_MODE: Final = "gen_ai.transfer.mode"
GEN_AI_TRANSFER_TARGET_NAME: Final = "gen_ai.transfer.target.name"
GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS: Final = "gen_ai.usage.cache_write.input_tokens"
GEN_AI_USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
GEN_AI_USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
GEN_AI_USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
HERMES_ATTEMPT_BACKOFF: Final = "hermes.attempt.backoff"
HERMES_ATTEMPT_INJECTED: Final = "hermes.attempt.injected"
HERMES_ATTEMPT_MAX: Final = "hermes.attempt.max"
HERMES_ATTEMPT_MODEL: Final = "hermes.attempt.model"
HERMES_ATTEMPT_NUMBER: Final = "hermes.attempt.number"
HERMES_ATTEMPT_OUTCOME: Final = "hermes.attempt.outcome"
HERMES_ATTEMPT_PROVIDER: Final = "hermes.attempt.provider"
HERMES_ATTEMPT_REASON: Final = "hermes.attempt.reason"
HERMES_ATTEMPT_RETRY_AFTER: Final = "hermes.attempt.retry_after"
HERMES_ATTEMPTS: Final = "hermes.attempts"
HERMES_BUDGET_ACTOR: Final = "hermes.budget.actor"
HERMES_BUDGET_DELTA: Final = "hermes.budget.delta"
HERMES_BUDGET_LIMIT: Final = "hermes.budget.limit"
HERMES_BUDGET_REASON: Final = "hermes.budget.reason"
HERMES_BUDGET_REMAINING: Final = "hermes.budget.remaining"
HERMES_BUDGET_SEQUENCE: Final = "hermes.budget.sequence"
HERMES_BUDGET_USED: Final = "hermes.budget.used"
HERMES_CHAT_MESSAGE_COUNT: Final = "hermes.chat.message_count"
HERMES_CHAT_PARAMETERS: Final = "hermes.chat.parameters"
HERMES_CHAT_PARTIAL: Final = "hermes.chat.partial"
HERMES_CHAT_PURPOSE: Final = "hermes.chat.purpose"
HERMES_CHECKPOINT_DIRECTORY: Final = "hermes.checkpoint.directory"
HERMES_CHECKPOINT_SNAPSHOT: Final = "hermes.checkpoint.snapshot"
HERMES_COMPRESSION_MESSAGES_AFTER: Final = "hermes.compression.messages.after"
HERMES_COMPRESSION_MESSAGES_BEFORE: Final = "hermes.compression.messages.before"
HERMES_COMPRESSION_OUTCOME: Final = "hermes.compression.outcome"
HERMES_COMPRESSION_REFUNDED: Final = "hermes.compression.refunded"
HERMES_COMPRESSION_STRATEGY: Final = "hermes.compression.strategy"
HERMES_COMPRESSION_SUMMARY: Final = "hermes.compression.summary"
HERMES_COMPRESSION_TOKENS_AFTER: Final = "hermes.compression.tokens.after"
HERMES_COMPRESSION_TOKENS_BEFORE: Final = "hermes.compression.tokens.before"
HERMES_COMPRESSION_TRIGGER: Final = "hermes.compression.trigger"
HERMES_COST_USD: Final = "hermes.cost_usd"
HERMES_DEGRADED_DETAIL: Final = "hermes.degraded.detail"
HERMES_DEGRADED_PART: Final = "hermes.degraded.part"
HERMES_FALLBACK_CHAIN_LEFT: Final = "hermes.fallback.chain_left"
HERMES_FALLBACK_FROM_MODEL: Final = "hermes.fallback.from.model"
HERMES_FALLBACK_FROM_PROVIDER: Final = "hermes.fallback.from.provider"
HERMES_FALLBACK_INDEX: Final = "hermes.fallback.index"
HERMES_FALLBACK_OUTCOME: Final = "hermes.fallback.outcome"
HERMES_FALLBACK_REASON: Final = "hermes.fallback.reason"
HERMES_FALLBACK_TO_MODEL: Final = "hermes.fallback.to.model"
HERMES_FALLBACK_TO_PROVIDER: Final = "hermes.fallback.to.provider"
HERMES_INTERRUPT_DURING: Final = "hermes.interrupt.during"
HERMES_INTERRUPT_LATENCY: Final = "hermes.interrupt.latency"
HERMES_INTERRUPT_SOURCE: Final = "hermes.interrupt.source"
HERMES_ITERATION_GRACE: Final = "hermes.iteration.grace"
HERMES_ITERATION_NUMBER: Final = "hermes.iteration.number"
HERMES_ITERATION_OUTCOME: Final = "hermes.iteration.outcome"
HERMES_LINK_TYPE: Final = "hermes.link.type"
HERMES_MAX_ITERATIONS: Final = "hermes.max_iterations"
HERMES_MESSAGES_OFFSET: Final = "hermes.messages.offset"
HERMES_METADATA: Final = "hermes.metadata"
HERMES_PARENT_TURN_ID: Final = "hermes.parent_turn.id"
HERMES_PREVIOUS_TURN_ID: Final = "hermes.previous_turn.id"
HERMES_REFUND_REASON: Final = "hermes.refund.reason"
HERMES_REFUND_REMAINING_AFTER: Final = "hermes.refund.remaining.after"
HERMES_REFUND_REMAINING_BEFORE: Final = "hermes.refund.remaining.before"
HERMES_REFUND_USED_AFTER: Final = "hermes.refund.used.after"
HERMES_REFUND_USED_BEFORE: Final = "hermes.refund.used.before"
HERMES_RETRY_MAX: Final = "hermes.retry.max"
HERMES_RETRY_NUMBER: Final = "hermes.retry.number"
HERMES_RETRY_OUTCOME: Final = "hermes.retry.outcome"
HERMES_RETRY_REASON: Final = "hermes.retry.reason"
HERMES_RETRY_RETRY_AFTER: Final = "hermes.retry.retry_after"
HERMES_RETRY_SOURCE: Final = "hermes.retry.source"
HERMES_RETRY_WAIT: Final = "hermes.retry.wait"
HERMES_RETRY_WAITED: Final = "hermes.retry.waited"
HERMES_RUN_ID: Final = "hermes.run.id"
HERMES_SEMCONV_GENAI: Final = "hermes.semconv.genai"
HERMES_SETTING: Final = "hermes.setting"
HERMES_SPAN_TYPE: Final = "hermes.span.type"
HERMES_STEER_CHARS: Final = "hermes.steer.chars"
HERMES_STEER_COUNT: Final = "hermes.steer.count"
HERMES_STEER_ID: Final = "hermes.steer.id"
HERMES_STEER_REASON: Final = "hermes.steer.reason"
HERMES_STEER_TEXT: Final = "hermes.steer.text"
HERMES_TOOL_CANCELLED: Final = "hermes.tool.cancelled"
HERMES_TOOL_CHILD_TURN_ID: Final = "hermes.tool.child_turn.id"
HERMES_TOOL_INDEX: Final = "hermes.tool.index"
HERMES_TOOL_PARALLEL: Final = "hermes.tool.parallel"
HERMES_TOOL_RESULT_CHARS: Final = "hermes.tool.result_chars"
HERMES_TOOL_STATUS: Final = "hermes.tool.status"
HERMES_TOOL_TRUNCATED: Final = "hermes.tool.truncated"
HERMES_TURN_API_ATTEMPTS: Final = "hermes.turn.api_attempts"
HERMES_TURN_API_CALLS: Final = "hermes.turn.api_calls"
HERMES_TURN_COMPLETED: Final = "hermes.turn.completed"
HERMES_TURN_COMPRESSIONS: Final = "hermes.turn.compressions"
HERMES_TURN_COST_USD: Final = "hermes.turn.cost_usd"
HERMES_TURN_DETAIL: Final = "hermes.turn.detail"
HERMES_TURN_EXIT_REASON: Final = "hermes.turn.exit_reason"
HERMES_TURN_FAILED: Final = "hermes.turn.failed"
HERMES_TURN_FALLBACKS: Final = "hermes.turn.fallbacks"
HERMES_TURN_GRACES: Final = "hermes.turn.graces"
HERMES_TURN_ID: Final = "hermes.turn.id"
HERMES_TURN_INTERRUPTED: Final = "hermes.turn.interrupted"
HERMES_TURN_ITERATIONS: Final = "hermes.turn.iterations"
HERMES_TURN_NUMBER: Final = "hermes.turn.number"
HERMES_TURN_PROVIDER: Final = "hermes.turn.provider"
HERMES_TURN_REFUNDS: Final = "hermes.turn.refunds"
HERMES_TURN_REPLAY_OF: Final = "hermes.turn.replay_of"
HERMES_TURN_REPLAY_UNTIL: Final = "hermes.turn.replay_until"
HERMES_TURN_RETRIES: Final = "hermes.turn.retries"
HERMES_TURN_STEERS: Final = "hermes.turn.steers"
HERMES_TURN_TOOL_CALLS: Final = "hermes.turn.tool_calls"
HERMES_TURN_USAGE_CACHE_READ_INPUT_TOKENS: Final = "hermes.turn.usage.cache_read.input_tokens"
HERMES_TURN_USAGE_CACHE_WRITE_INPUT_TOKENS: Final = "hermes.turn.usage.cache_write.input_tokens"
HERMES_TURN_USAGE_INPUT_TOKENS: Final = "hermes.turn.usage.input_tokens"
HERMES_TURN_USAGE_OUTPUT_TOKENS: Final = "hermes.turn.usage.output_tokens"
HERMES_TURN_USAGE_REASONING_OUTPUT_TOKENS: Final = "hermes.turn.usage.reasoning.output_tokens"
HTTP_REQUEST_METHOD: Final = "http.request.method"
HTTP_REQUEST_RESEND_COUNT: Final = "http.request.resend_count"
HTTP_RESPONSE_STATUS_CODE: Final = "http.response.status_code"
INPUT_MIME_TYPE: Final = "input.mime_type"
INPUT_VALUE: Final = "input.value"
LLM_COST_TOTAL: Final = "llm.cost.total"
LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING: Final = "llm.token_count.completion_details.reasoning"
LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE: Final = "llm.token_count.prompt_details.cache_write"
OPENINFERENCE_PROJECT_NAME: Final = "openinference.project.name"
OPENINFERENCE_SPAN_KIND: Final = "openinference.span.kind"
OPERATION_COST: Final = "operation.cost"
OUTPUT_MIME_TYPE: Final = "output.mime_type"
OUTPUT_VALUE: Final = "output.value"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
SERVICE_NAME: Final = "service.name"
SERVICE_VERSION: Final = "service.version"
SESSION_ID: Final = "session.id"
USER_ID: Final = "user.id"

DECLARED: Final = frozenset(
    {
        AGENT_NAME,
        ERROR_TYPE,
        EXCEPTION_MESSAGE,
        EXCEPTION_TYPE,
        GEN_AI_AGENT_NAME,
        GEN_AI_CONVERSATION_COMPACTED,
        GEN_AI_CONVERSATION_ID,
        GEN_AI_INPUT_MESSAGES,
        GEN_AI_OPERATION_NAME,
        GEN_AI_OUTPUT_MESSAGES,
        GEN_AI_OUTPUT_TYPE,
        GEN_AI_PROVIDER_NAME,
        GEN_AI_REQUEST_CHOICE_COUNT,
        GEN_AI_REQUEST_FREQUENCY_PENALTY,
        GEN_AI_REQUEST_MAX_TOKENS,
        GEN_AI_REQUEST_MODEL,
        GEN_AI_REQUEST_PRESENCE_PENALTY,
        GEN_AI_REQUEST_REASONING_LEVEL,
        GEN_AI_REQUEST_SEED,
        GEN_AI_REQUEST_STOP_SEQUENCES,
        GEN_AI_REQUEST_STREAM,
        GEN_AI_REQUEST_TEMPERATURE,
        GEN_AI_REQUEST_TOP_K,
        GEN_AI_REQUEST_TOP_P,
        GEN_AI_RESPONSE_FINISH_REASONS,
        GEN_AI_RESPONSE_ID,
        GEN_AI_RESPONSE_MODEL,
        GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK,
        GEN_AI_SYSTEM_INSTRUCTIONS,
        GEN_AI_TOKEN_MODALITY,
        GEN_AI_TOKEN_TYPE,
        GEN_AI_TOOL_CALL_ARGUMENTS,
        GEN_AI_TOOL_CALL_ID,
        GEN_AI_TOOL_CALL_RESULT,
        GEN_AI_TOOL_DEFINITIONS,
        GEN_AI_TOOL_DESCRIPTION,
        GEN_AI_TOOL_NAME,
        GEN_AI_TOOL_TYPE,
        GEN_AI_TRANSFER_MODE,
        GEN_AI_TRANSFER_TARGET_NAME,
        GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS,
        GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS,
        GEN_AI_USAGE_CACHE_WRITE_INPUT_TOKENS,
        GEN_AI_USAGE_INPUT_TOKENS,
        GEN_AI_USAGE_OUTPUT_TOKENS,
        GEN_AI_USAGE_REASONING_OUTPUT_TOKENS,
        HERMES_ATTEMPTS,
        HERMES_ATTEMPT_BACKOFF,
        HERMES_ATTEMPT_INJECTED,
        HERMES_ATTEMPT_MAX,
        HERMES_ATTEMPT_MODEL,
        HERMES_ATTEMPT_NUMBER,
        HERMES_ATTEMPT_OUTCOME,
        HERMES_ATTEMPT_PROVIDER,
        HERMES_ATTEMPT_REASON,
        HERMES_ATTEMPT_RETRY_AFTER,
        HERMES_BUDGET_ACTOR,
        HERMES_BUDGET_DELTA,
        HERMES_BUDGET_LIMIT,
        HERMES_BUDGET_REASON,
        HERMES_BUDGET_REMAINING,
        HERMES_BUDGET_SEQUENCE,
        HERMES_BUDGET_USED,
        HERMES_CHAT_MESSAGE_COUNT,
        HERMES_CHAT_PARAMETERS,
        HERMES_CHAT_PARTIAL,
        HERMES_CHAT_PURPOSE,
        HERMES_CHECKPOINT_DIRECTORY,
        HERMES_CHECKPOINT_SNAPSHOT,
        HERMES_COMPRESSION_MESSAGES_AFTER,
        HERMES_COMPRESSION_MESSAGES_BEFORE,
        HERMES_COMPRESSION_OUTCOME,
        HERMES_COMPRESSION_REFUNDED,
        HERMES_COMPRESSION_STRATEGY,
        HERMES_COMPRESSION_SUMMARY,
        HERMES_COMPRESSION_TOKENS_AFTER,
        HERMES_COMPRESSION_TOKENS_BEFORE,
        HERMES_COMPRESSION_TRIGGER,
        HERMES_COST_USD,
        HERMES_DEGRADED_DETAIL,
        HERMES_DEGRADED_PART,
        HERMES_FALLBACK_CHAIN_LEFT,
        HERMES_FALLBACK_FROM_MODEL,
        HERMES_FALLBACK_FROM_PROVIDER,
        HERMES_FALLBACK_INDEX,
        HERMES_FALLBACK_OUTCOME,
        HERMES_FALLBACK_REASON,
        HERMES_FALLBACK_TO_MODEL,
        HERMES_FALLBACK_TO_PROVIDER,
        HERMES_INTERRUPT_DURING,
        HERMES_INTERRUPT_LATENCY,
        HERMES_INTERRUPT_SOURCE,
        HERMES_ITERATION_GRACE,
        HERMES_ITERATION_NUMBER,
        HERMES_ITERATION_OUTCOME,
        HERMES_LINK_TYPE,
        HERMES_MAX_ITERATIONS,
        HERMES_MESSAGES_OFFSET,
        HERMES_METADATA,
        HERMES_PARENT_TURN_ID,
        HERMES_PREVIOUS_TURN_ID,
        HERMES_REFUND_REASON,
        HERMES_REFUND_REMAINING_AFTER,
        HERMES_REFUND_REMAINING_BEFORE,
        HERMES_REFUND_USED_AFTER,
        HERMES_REFUND_USED_BEFORE,
        HERMES_RETRY_MAX,
        HERMES_RETRY_NUMBER,
        HERMES_RETRY_OUTCOME,
        HERMES_RETRY_REASON,
        HERMES_RETRY_RETRY_AFTER,
        HERMES_RETRY_SOURCE,
        HERMES_RETRY_WAIT,
        HERMES_RETRY_WAITED,
        HERMES_RUN_ID,
        HERMES_SEMCONV_GENAI,
        HERMES_SETTING,
        HERMES_SPAN_TYPE,
        HERMES_STEER_CHARS,
        HERMES_STEER_COUNT,
        HERMES_STEER_ID,
        HERMES_STEER_REASON,
        HERMES_STEER_TEXT,
        HERMES_TOOL_CANCELLED,
        HERMES_TOOL_CHILD_TURN_ID,
        HERMES_TOOL_INDEX,
        HERMES_TOOL_PARALLEL,
        HERMES_TOOL_RESULT_CHARS,
        HERMES_TOOL_STATUS,
        HERMES_TOOL_TRUNCATED,
        HERMES_TURN_API_ATTEMPTS,
        HERMES_TURN_API_CALLS,
        HERMES_TURN_COMPLETED,
        HERMES_TURN_COMPRESSIONS,
        HERMES_TURN_COST_USD,
        HERMES_TURN_DETAIL,
        HERMES_TURN_EXIT_REASON,
        HERMES_TURN_FAILED,
        HERMES_TURN_FALLBACKS,
        HERMES_TURN_GRACES,
        HERMES_TURN_ID,
        HERMES_TURN_INTERRUPTED,
        HERMES_TURN_ITERATIONS,
        HERMES_TURN_NUMBER,
        HERMES_TURN_PROVIDER,
        HERMES_TURN_REFUNDS,
        HERMES_TURN_REPLAY_OF,
        HERMES_TURN_REPLAY_UNTIL,
        HERMES_TURN_RETRIES,
        HERMES_TURN_STEERS,
        HERMES_TURN_TOOL_CALLS,
        HERMES_TURN_USAGE_CACHE_READ_INPUT_TOKENS,
        HERMES_TURN_USAGE_CACHE_WRITE_INPUT_TOKENS,
        HERMES_TURN_USAGE_INPUT_TOKENS,
        HERMES_TURN_USAGE_OUTPUT_TOKENS,
        HERMES_TURN_USAGE_REASONING_OUTPUT_TOKENS,
        HTTP_REQUEST_METHOD,
        HTTP_REQUEST_RESEND_COUNT,
        HTTP_RESPONSE_STATUS_CODE,
        INPUT_MIME_TYPE,
        INPUT_VALUE,
        LLM_COST_TOTAL,
        LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING,
        LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE,
        OPENINFERENCE_PROJECT_NAME,
        OPENINFERENCE_SPAN_KIND,
        OPERATION_COST,
        OUTPUT_MIME_TYPE,
        OUTPUT_VALUE,
        SERVER_ADDRESS,
        SERVER_PORT,
        SERVICE_NAME,
        SERVICE_VERSION,
        SESSION_ID,
        USER_ID,
    }
)
"""All of them; templates under their own name."""

CONTENT: Final = frozenset(
    {
        GEN_AI_INPUT_MESSAGES,
        GEN_AI_OUTPUT_MESSAGES,
        GEN_AI_SYSTEM_INSTRUCTIONS,
        GEN_AI_TOOL_CALL_ARGUMENTS,
        GEN_AI_TOOL_CALL_RESULT,
        GEN_AI_TOOL_DEFINITIONS,
        HERMES_COMPRESSION_SUMMARY,
        HERMES_STEER_TEXT,
        INPUT_MIME_TYPE,
        INPUT_VALUE,
        OUTPUT_MIME_TYPE,
        OUTPUT_VALUE,
    }
)
"""Written only when content is captured."""

FREE_TEXT: Final = frozenset(
    {
        EXCEPTION_MESSAGE,
        GEN_AI_TOOL_DESCRIPTION,
        HERMES_CHAT_PARAMETERS,
        HERMES_CHECKPOINT_DIRECTORY,
        HERMES_DEGRADED_DETAIL,
        HERMES_METADATA,
        HERMES_SETTING,
        HERMES_STEER_REASON,
        HERMES_TURN_DETAIL,
    }
)
"""Searched for keys before it is written."""

VIEWER: Final = frozenset(
    {
        AGENT_NAME,
        INPUT_MIME_TYPE,
        INPUT_VALUE,
        LLM_COST_TOTAL,
        LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING,
        LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE,
        OPENINFERENCE_PROJECT_NAME,
        OPENINFERENCE_SPAN_KIND,
        OPERATION_COST,
        OUTPUT_MIME_TYPE,
        OUTPUT_VALUE,
        SESSION_ID,
        USER_ID,
    }
)
"""Written for viewers; left out with `openinference=False`."""

# events

EVENT_EXCEPTION: Final = "exception"
EVENT_GEN_AI_CLIENT_INFERENCE_OPERATION_DETAILS: Final = "gen_ai.client.inference.operation.details"
EVENT_GEN_AI_CLIENT_OPERATION_EXCEPTION: Final = "gen_ai.client.operation.exception"
EVENT_GEN_AI_EXECUTE_TOOL_EXCEPTION: Final = "gen_ai.execute_tool.exception"
EVENT_HERMES_BUDGET_CONSUME: Final = "hermes.budget.consume"
EVENT_HERMES_BUDGET_EXHAUSTED: Final = "hermes.budget.exhausted"
EVENT_HERMES_BUDGET_GRACE_GRANTED: Final = "hermes.budget.grace_granted"
EVENT_HERMES_BUDGET_GRACE_USED: Final = "hermes.budget.grace_used"
EVENT_HERMES_BUDGET_GRANT: Final = "hermes.budget.grant"
EVENT_HERMES_BUDGET_REFUND: Final = "hermes.budget.refund"
EVENT_HERMES_CHECKPOINT: Final = "hermes.checkpoint"
EVENT_HERMES_DEGRADED: Final = "hermes.degraded"
EVENT_HERMES_FORKED: Final = "hermes.forked"
EVENT_HERMES_GUARD_DEGRADED: Final = "hermes.guard.degraded"
EVENT_HERMES_INTERRUPT_OBSERVED: Final = "hermes.interrupt.observed"
EVENT_HERMES_INTERRUPT_REQUESTED: Final = "hermes.interrupt.requested"
EVENT_HERMES_PAUSED: Final = "hermes.paused"
EVENT_HERMES_RESUMED: Final = "hermes.resumed"
EVENT_HERMES_STEER_APPLIED: Final = "hermes.steer.applied"
EVENT_HERMES_STEER_QUEUED: Final = "hermes.steer.queued"
EVENT_HERMES_STEER_UNDELIVERED: Final = "hermes.steer.undelivered"

# metrics

METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: Final = "gen_ai.client.inference.duration"
METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK: Final = "gen_ai.client.inference.time_per_output_chunk"
METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.inference.time_to_first_chunk"
METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS: Final = (
    "gen_ai.client.inference.usage.cache_read.input_tokens"
)
METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS: Final = (
    "gen_ai.client.inference.usage.cache_write.input_tokens"
)
METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS: Final = "gen_ai.client.inference.usage.input_tokens"
METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS: Final = "gen_ai.client.inference.usage.output_tokens"
METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS: Final = (
    "gen_ai.client.inference.usage.reasoning.output_tokens"
)
METRIC_GEN_AI_CLIENT_OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
METRIC_GEN_AI_CLIENT_TOKEN_USAGE: Final = "gen_ai.client.token.usage"
METRIC_GEN_AI_EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
METRIC_GEN_AI_INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS: Final = "gen_ai.invoke_agent.inference_calls"
METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS: Final = "gen_ai.invoke_agent.tool_calls"
METRIC_HERMES_API_ATTEMPTS: Final = "hermes.api.attempts"
METRIC_HERMES_API_BACKOFF: Final = "hermes.api.backoff"
METRIC_HERMES_BUDGET_REFUNDS: Final = "hermes.budget.refunds"
METRIC_HERMES_BUDGET_REMAINING: Final = "hermes.budget.remaining"
METRIC_HERMES_COMPRESSION_TOKENS_SAVED: Final = "hermes.compression.tokens_saved"
METRIC_HERMES_COMPRESSIONS: Final = "hermes.compressions"
METRIC_HERMES_FALLBACKS: Final = "hermes.fallbacks"
METRIC_HERMES_GRACE_CALLS: Final = "hermes.grace_calls"
METRIC_HERMES_INTERRUPTS: Final = "hermes.interrupts"
METRIC_HERMES_ITERATIONS: Final = "hermes.iterations"
METRIC_HERMES_TURNS: Final = "hermes.turns"


class Instrument(NamedTuple):
    """A metric's instrument; `release` names the older conventions that alone have it."""

    kind: str
    unit: str
    description: str
    boundaries: tuple[float, ...] = ()
    release: str = ""


METRICS: Final[dict[str, Instrument]] = {
    METRIC_GEN_AI_CLIENT_INFERENCE_DURATION: Instrument(
        kind="histogram",
        unit="s",
        description="Duration of a model call with all its retries.",
        boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_TIME_TO_FIRST_CHUNK: Instrument(
        kind="histogram",
        unit="s",
        description="Time to the first streamed piece.",
        boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_TIME_PER_OUTPUT_CHUNK: Instrument(
        kind="histogram",
        unit="s",
        description="Time between two streamed pieces.",
        boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_INPUT_TOKENS: Instrument(
        kind="counter", unit="{token}", description="Input tokens, cached ones included."
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_OUTPUT_TOKENS: Instrument(
        kind="counter", unit="{token}", description="Output tokens, reasoning included."
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_READ_INPUT_TOKENS: Instrument(
        kind="counter", unit="{token}", description="Input tokens read from a cache."
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_CACHE_WRITE_INPUT_TOKENS: Instrument(
        kind="counter", unit="{token}", description="Input tokens written to a cache."
    ),
    METRIC_GEN_AI_CLIENT_INFERENCE_USAGE_REASONING_OUTPUT_TOKENS: Instrument(
        kind="counter", unit="{token}", description="Output tokens that were reasoning."
    ),
    METRIC_GEN_AI_CLIENT_OPERATION_DURATION: Instrument(
        kind="histogram",
        unit="s",
        description="Duration of a model call, under its name of semantic conventions 1.37.",
        boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
        release="1.37",
    ),
    METRIC_GEN_AI_CLIENT_TOKEN_USAGE: Instrument(
        kind="histogram",
        unit="{token}",
        description="Tokens of a model call, under the name of semantic conventions 1.37.",
        boundaries=(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
        release="1.37",
    ),
    METRIC_GEN_AI_INVOKE_AGENT_DURATION: Instrument(
        kind="histogram",
        unit="s",
        description="Duration of a turn.",
        boundaries=(0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6),
    ),
    METRIC_GEN_AI_INVOKE_AGENT_INFERENCE_CALLS: Instrument(
        kind="histogram",
        unit="{inference_call}",
        description="Model calls of a turn, failed ones included.",
        boundaries=(1, 2, 4, 8, 16, 32, 64, 128),
    ),
    METRIC_GEN_AI_INVOKE_AGENT_TOOL_CALLS: Instrument(
        kind="histogram",
        unit="{tool_call}",
        description="Tool calls of a turn, failed ones included.",
        boundaries=(1, 2, 4, 8, 16, 32, 64, 128),
    ),
    METRIC_GEN_AI_EXECUTE_TOOL_DURATION: Instrument(
        kind="histogram",
        unit="s",
        description="Duration of a tool call.",
        boundaries=(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92),
    ),
    METRIC_HERMES_TURNS: Instrument(kind="counter", unit="{turn}", description="Turns ended."),
    METRIC_HERMES_ITERATIONS: Instrument(kind="counter", unit="{iteration}", description="Passes of the loop."),
    METRIC_HERMES_API_ATTEMPTS: Instrument(kind="counter", unit="{attempt}", description="Requests to model servers."),
    METRIC_HERMES_API_BACKOFF: Instrument(
        kind="histogram",
        unit="s",
        description="Time waited before a retry.",
        boundaries=(0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6),
    ),
    METRIC_HERMES_FALLBACKS: Instrument(kind="counter", unit="{switch}", description="Switches to another provider."),
    METRIC_HERMES_COMPRESSIONS: Instrument(
        kind="counter", unit="{compression}", description="Compressions of the history."
    ),
    METRIC_HERMES_COMPRESSION_TOKENS_SAVED: Instrument(
        kind="histogram",
        unit="{token}",
        description="Tokens that a compression saved.",
        boundaries=(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864),
    ),
    METRIC_HERMES_BUDGET_REFUNDS: Instrument(kind="counter", unit="{iteration}", description="Iterations given back."),
    METRIC_HERMES_BUDGET_REMAINING: Instrument(kind="gauge", unit="{iteration}", description="Iterations left."),
    METRIC_HERMES_GRACE_CALLS: Instrument(kind="counter", unit="{call}", description="Grace calls."),
    METRIC_HERMES_INTERRUPTS: Instrument(
        kind="counter", unit="{interrupt}", description="Interrupts that took effect."
    ),
}
