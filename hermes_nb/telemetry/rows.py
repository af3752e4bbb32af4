"""Which field of which scope becomes which attribute: one row per kind of scope."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from hermes_nb.telemetry import semconv as s
from hermes_nb.telemetry.redaction import is_secret_name
from hermes_nb.telemetry.table import Attributes, Row, Table
from hermes_nb.telemetry.values import clean, clean_items
from hermes_nb.vocabulary import events

if TYPE_CHECKING:
    from hermes_nb.vocabulary.messages import Reply, Usage

# ---------------------------------------------------------------------------------------------- turn


def _settings(turn: events.Turn, out: Attributes) -> None:
    out[s.HERMES_MAX_ITERATIONS] = turn.budget_limit
    out.update(clean_items(turn.settings, f"{s.HERMES_SETTING}."))
    out.update(clean_items(turn.metadata, f"{s.HERMES_METADATA}."))


def _totals(turn: events.Turn, out: Attributes) -> None:
    out[s.HERMES_MAX_ITERATIONS] = turn.budget_limit  # a fork may have got another one
    if turn.usage is not None:
        _usage(turn.usage, out, "hermes.turn.usage")


def _turn_for_viewers(turn: events.Turn, out: Attributes) -> None:
    out[s.AGENT_NAME] = turn.agent
    if isinstance(user := turn.metadata.get("user_id"), str) and user:
        out[s.USER_ID] = user


def _usage(usage: Usage, out: Attributes, prefix: str) -> None:
    out[f"{prefix}.input_tokens"] = usage.input_tokens
    out[f"{prefix}.output_tokens"] = usage.output_tokens
    if usage.cache_read_tokens:
        out[f"{prefix}.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        out[f"{prefix}.cache_write.input_tokens"] = usage.cache_write_tokens
    if usage.reasoning_tokens:
        out[f"{prefix}.reasoning.output_tokens"] = usage.reasoning_tokens


_TURN = Row(
    Table(
        {
            "agent": s.GEN_AI_AGENT_NAME,
            "model": s.GEN_AI_REQUEST_MODEL,
            "provider": s.HERMES_TURN_PROVIDER,
            "number": s.HERMES_TURN_NUMBER,
            "budget_limit": s.HERMES_BUDGET_LIMIT,
            "attempts_max": s.HERMES_RETRY_MAX,
            "parent_turn_id": s.HERMES_PARENT_TURN_ID,
            "previous_turn_id": s.HERMES_PREVIOUS_TURN_ID,
            "replay_of": s.HERMES_TURN_REPLAY_OF,
            "replay_until": s.HERMES_TURN_REPLAY_UNTIL,
        },
        fixed={s.GEN_AI_OPERATION_NAME: "invoke_agent"},
        more=_settings,
    ),
    Table(
        {
            "budget_limit": s.HERMES_BUDGET_LIMIT,
            "exit_reason": s.HERMES_TURN_EXIT_REASON,
            "detail": s.HERMES_TURN_DETAIL,
            "completed": s.HERMES_TURN_COMPLETED,
            "failed": s.HERMES_TURN_FAILED,
            "interrupted": s.HERMES_TURN_INTERRUPTED,
            "iterations": s.HERMES_TURN_ITERATIONS,
            "graces": s.HERMES_TURN_GRACES,
            "api_calls": s.HERMES_TURN_API_CALLS,
            "attempts": s.HERMES_TURN_API_ATTEMPTS,
            "retries": s.HERMES_TURN_RETRIES,
            "fallbacks": s.HERMES_TURN_FALLBACKS,
            "compressions": s.HERMES_TURN_COMPRESSIONS,
            "refunds": s.HERMES_TURN_REFUNDS,
            "tool_calls": s.HERMES_TURN_TOOL_CALLS,
            "steers": s.HERMES_TURN_STEERS,
            "budget_used": s.HERMES_BUDGET_USED,
            "budget_remaining": s.HERMES_BUDGET_REMAINING,
            "cost_usd": s.HERMES_TURN_COST_USD,
            "error_type": s.ERROR_TYPE,
        },
        doubles=("cost_usd",),
        more=_totals,
    ),
    viewer_kind="AGENT",
    viewer=_turn_for_viewers,
)

_ITERATION = Row(
    Table(
        {
            "grace": s.HERMES_ITERATION_GRACE,
            "budget_limit": s.HERMES_BUDGET_LIMIT,
            "budget_remaining": s.HERMES_BUDGET_REMAINING,
        }
    ),
    Table({"outcome": s.HERMES_ITERATION_OUTCOME, "error_type": s.ERROR_TYPE}),
    interrupted=(s.HERMES_ITERATION_OUTCOME, "interrupted"),
)


# ---------------------------------------------------------------------------------------------- chat and attempts


def _whole(value: Any) -> int:
    number = int(value)
    if not -(2**63) <= number < 2**63:
        msg = f"{number} has more than 64 bits"
        raise ValueError(msg)
    return number


def _number(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        msg = f"{number} is no number"
        raise ValueError(msg)
    return number


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(str(item) for item in value)


def _output_type(value: Any) -> str:
    kind = value.get("type", "") if isinstance(value, Mapping) else str(value)
    return "json" if kind.startswith("json") else kind or "text"


_PARAMETERS: Final[dict[str, tuple[str, Callable[[Any], Any]]]] = {
    "max_tokens": (s.GEN_AI_REQUEST_MAX_TOKENS, _whole),
    "max_completion_tokens": (s.GEN_AI_REQUEST_MAX_TOKENS, _whole),
    "max_output_tokens": (s.GEN_AI_REQUEST_MAX_TOKENS, _whole),
    "temperature": (s.GEN_AI_REQUEST_TEMPERATURE, _number),
    "top_p": (s.GEN_AI_REQUEST_TOP_P, _number),
    "top_k": (s.GEN_AI_REQUEST_TOP_K, _whole),
    "frequency_penalty": (s.GEN_AI_REQUEST_FREQUENCY_PENALTY, _number),
    "presence_penalty": (s.GEN_AI_REQUEST_PRESENCE_PENALTY, _number),
    "stop": (s.GEN_AI_REQUEST_STOP_SEQUENCES, _texts),
    "stop_sequences": (s.GEN_AI_REQUEST_STOP_SEQUENCES, _texts),
    "seed": (s.GEN_AI_REQUEST_SEED, _whole),
    "n": (s.GEN_AI_REQUEST_CHOICE_COUNT, _whole),
    "reasoning_effort": (s.GEN_AI_REQUEST_REASONING_LEVEL, str),
    "response_format": (s.GEN_AI_OUTPUT_TYPE, _output_type),
}


def _request(chat: events.Chat, out: Attributes) -> None:
    out[s.HERMES_CHAT_MESSAGE_COUNT] = len(chat.messages)
    if chat.stream:
        out[s.GEN_AI_REQUEST_STREAM] = True
    if chat.compacted:
        out[s.GEN_AI_CONVERSATION_COMPACTED] = True
    others = {}
    for name, value in chat.parameters.items():
        if value is None or is_secret_name(name):
            continue
        try:
            key, convert = _PARAMETERS[name]
            out[key] = convert(value)
        except Exception:  # noqa: BLE001  not one of these, or a foreign object, which may raise anything
            others[name] = value
    if out.get(s.GEN_AI_REQUEST_CHOICE_COUNT) == 1:
        del out[s.GEN_AI_REQUEST_CHOICE_COUNT]
    if others and (shown := clean(others)) not in (None, "{}"):
        out[s.HERMES_CHAT_PARAMETERS] = shown


FINISH_REASONS: Final = {"tool_calls": "tool_call", "unknown": "error"}
"""Where the conventions' words for the end of a reply differ from ours."""


def _reply(chat: events.Chat, out: Attributes) -> None:
    reply = chat.reply
    if reply is None:
        return
    out[s.GEN_AI_RESPONSE_FINISH_REASONS] = (FINISH_REASONS.get(reply.finish_reason, reply.finish_reason),)
    if reply.model:
        out[s.GEN_AI_RESPONSE_MODEL] = reply.model
    if reply.response_id:
        out[s.GEN_AI_RESPONSE_ID] = reply.response_id
    if reply.time_to_first_chunk is not None:
        out[s.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK] = float(reply.time_to_first_chunk)
    if reply.partial:
        out[s.HERMES_CHAT_PARTIAL] = True
    if reply.usage is not None:
        _usage(reply.usage, out, "gen_ai.usage")


def _chat_for_viewers(chat: events.Chat, out: Attributes) -> None:
    if chat.cost_usd is not None:
        out[s.LLM_COST_TOTAL] = out[s.OPERATION_COST] = float(chat.cost_usd)
    reply: Reply | None = chat.reply
    if reply is None or reply.usage is None:
        return
    if written := reply.usage.cache_write_tokens:
        out[s.GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS] = written
        out[s.LLM_TOKEN_COUNT_PROMPT_DETAILS_CACHE_WRITE] = written
    if thought := reply.usage.reasoning_tokens:
        out[s.LLM_TOKEN_COUNT_COMPLETION_DETAILS_REASONING] = thought


_CHAT = Row(
    Table(
        {
            "provider": s.GEN_AI_PROVIDER_NAME,
            "model": s.GEN_AI_REQUEST_MODEL,
            "server_address": s.SERVER_ADDRESS,
            "server_port": s.SERVER_PORT,
            "purpose": s.HERMES_CHAT_PURPOSE,
            "fallback_index": s.HERMES_FALLBACK_INDEX,
        },
        fixed={s.GEN_AI_OPERATION_NAME: "chat"},
        more=_request,
    ),
    Table(
        {"attempts": s.HERMES_ATTEMPTS, "cost_usd": s.HERMES_COST_USD, "error_type": s.ERROR_TYPE},
        doubles=("cost_usd",),
        more=_reply,
    ),
    viewer_kind="LLM",
    viewer=_chat_for_viewers,
)


def _send(attempt: events.Attempt, out: Attributes) -> None:
    if attempt.server_address:
        out[s.HTTP_REQUEST_METHOD] = "POST"
        if attempt.number > 1:
            out[s.HTTP_REQUEST_RESEND_COUNT] = attempt.number - 1


_ATTEMPT = Row(
    Table(
        {
            "number": s.HERMES_ATTEMPT_NUMBER,
            "maximum": s.HERMES_ATTEMPT_MAX,
            "provider": s.HERMES_ATTEMPT_PROVIDER,
            "model": s.HERMES_ATTEMPT_MODEL,
            "backoff": s.HERMES_ATTEMPT_BACKOFF,
            "server_address": s.SERVER_ADDRESS,
            "server_port": s.SERVER_PORT,
        },
        doubles=("backoff",),
        more=_send,
    ),
    Table(
        {
            "outcome": s.HERMES_ATTEMPT_OUTCOME,
            "reason": s.HERMES_ATTEMPT_REASON,
            "status": s.HTTP_RESPONSE_STATUS_CODE,
            "retry_after": s.HERMES_ATTEMPT_RETRY_AFTER,
            "injected": s.HERMES_ATTEMPT_INJECTED,
            "error_type": s.ERROR_TYPE,
        },
        doubles=("retry_after",),
    ),
    interrupted=(s.HERMES_ATTEMPT_OUTCOME, "cancelled"),
)

_RETRY = Row(
    Table(
        {
            "number": s.HERMES_RETRY_NUMBER,
            "reason": s.HERMES_RETRY_REASON,
            "wait": s.HERMES_RETRY_WAIT,
            "retry_after": s.HERMES_RETRY_RETRY_AFTER,
            "source": s.HERMES_RETRY_SOURCE,
        },
        doubles=("wait", "retry_after"),
    ),
    Table(
        {"waited": s.HERMES_RETRY_WAITED, "outcome": s.HERMES_RETRY_OUTCOME, "error_type": s.ERROR_TYPE},
        doubles=("waited",),
    ),
    interrupted=(s.HERMES_RETRY_OUTCOME, "interrupted"),
)

_FALLBACK = Row(
    Table(
        {
            "index": s.HERMES_FALLBACK_INDEX,
            "reason": s.HERMES_FALLBACK_REASON,
            "from_provider": s.HERMES_FALLBACK_FROM_PROVIDER,
            "from_model": s.HERMES_FALLBACK_FROM_MODEL,
        }
    ),
    Table(
        {
            "to_provider": s.HERMES_FALLBACK_TO_PROVIDER,
            "to_model": s.HERMES_FALLBACK_TO_MODEL,
            "chain_left": s.HERMES_FALLBACK_CHAIN_LEFT,
            "outcome": s.HERMES_FALLBACK_OUTCOME,
            "error_type": s.ERROR_TYPE,
        }
    ),
)


# ---------------------------------------------------------------------------------------------- compression, refund


_COMPRESSION = Row(
    Table(
        {
            "trigger": s.HERMES_COMPRESSION_TRIGGER,
            "strategy": s.HERMES_COMPRESSION_STRATEGY,
            "messages_before": s.HERMES_COMPRESSION_MESSAGES_BEFORE,
            "tokens_before": s.HERMES_COMPRESSION_TOKENS_BEFORE,
        }
    ),
    Table(
        {
            "strategy": s.HERMES_COMPRESSION_STRATEGY,
            "messages_after": s.HERMES_COMPRESSION_MESSAGES_AFTER,
            "tokens_after": s.HERMES_COMPRESSION_TOKENS_AFTER,
            "refunded": s.HERMES_COMPRESSION_REFUNDED,
            "outcome": s.HERMES_COMPRESSION_OUTCOME,
            "error_type": s.ERROR_TYPE,
        }
    ),
)


def _before(refund: events.Refund, out: Attributes) -> None:
    out[s.HERMES_BUDGET_LIMIT] = refund.limit
    out[s.HERMES_BUDGET_USED] = refund.used
    out[s.HERMES_BUDGET_REMAINING] = refund.remaining


def _after(refund: events.Refund, out: Attributes) -> None:
    out[s.HERMES_BUDGET_USED] = refund.used_after
    out[s.HERMES_BUDGET_REMAINING] = refund.remaining_after


_REFUND = Row(
    Table(
        {
            "reason": s.HERMES_REFUND_REASON,
            "used": s.HERMES_REFUND_USED_BEFORE,
            "remaining": s.HERMES_REFUND_REMAINING_BEFORE,
        },
        more=_before,
    ),
    Table(
        {
            "used_after": s.HERMES_REFUND_USED_AFTER,
            "remaining_after": s.HERMES_REFUND_REMAINING_AFTER,
            "error_type": s.ERROR_TYPE,
        },
        more=_after,
    ),
)


# ---------------------------------------------------------------------------------------------- tools


def _call(tool: events.Tool, out: Attributes) -> None:
    if tool.delegate:
        out[s.GEN_AI_TRANSFER_MODE] = "return_to_caller"
        out[s.GEN_AI_TRANSFER_TARGET_NAME] = tool.delegate


def _result(tool: events.Tool, out: Attributes) -> None:
    if tool.status == "cancelled":
        out[s.HERMES_TOOL_CANCELLED] = True
    if tool.truncated:
        out[s.HERMES_TOOL_TRUNCATED] = True


_TOOL = Row(
    Table(
        {
            "name": s.GEN_AI_TOOL_NAME,
            "type": s.GEN_AI_TOOL_TYPE,
            "call_id": s.GEN_AI_TOOL_CALL_ID,
            "description": s.GEN_AI_TOOL_DESCRIPTION,
            "agent": s.GEN_AI_AGENT_NAME,
            "index": s.HERMES_TOOL_INDEX,
            "parallel": s.HERMES_TOOL_PARALLEL,
        },
        fixed={s.GEN_AI_OPERATION_NAME: "execute_tool"},
        more=_call,
    ),
    Table(
        {
            "status": s.HERMES_TOOL_STATUS,
            "result_chars": s.HERMES_TOOL_RESULT_CHARS,
            "child_turn_id": s.HERMES_TOOL_CHILD_TURN_ID,
            "error_type": s.ERROR_TYPE,
        },
        more=_result,
    ),
    viewer_kind="TOOL",
    interrupted=(s.HERMES_TOOL_CANCELLED, True),
)

ROWS: Final[dict[type, Row]] = {
    events.Turn: _TURN,
    events.Iteration: _ITERATION,
    events.Chat: _CHAT,
    events.Attempt: _ATTEMPT,
    events.Retry: _RETRY,
    events.Fallback: _FALLBACK,
    events.Compression: _COMPRESSION,
    events.Refund: _REFUND,
    events.Tool: _TOOL,
}
