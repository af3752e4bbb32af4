"""The taxonomy of failed model calls, as one table; and the translation of every kind of error into a `Failure`.

Pure: status, headers and body in, a `Failure` out. What follows from a reason is the policies' business.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hermes_nb.providers.error_bodies import LONGEST_MESSAGE, ErrorBody, merged, plain, read_error
from hermes_nb.providers.limits import stated
from hermes_nb.providers.waits import limited_for, retry_after
from hermes_nb.vocabulary.failures import Failure, FailureReason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermes_nb.providers.sse import Json

R = FailureReason


@dataclass(frozen=True, slots=True)
class Sign:
    """One way to recognise a reason; all that is given must fit.

    Attributes:
        reason: What it is a sign of.
        wording: A pattern found in the words of the error.
        code: A pattern that a code or type of the body equals.
        status: HTTP statuses; empty for any, and for none.
        unless: A pattern that must not be in the words.
        seen: Where.
    """

    reason: FailureReason
    wording: str = ""
    code: str = ""
    status: tuple[int, ...] = ()
    unless: str = ""
    seen: str = ""

    def fits(self, status: int | None, body: ErrorBody) -> bool:
        """Whether an error shows this sign."""
        if self.status and status not in self.status:
            return False
        text = body.text
        if self.wording and not re.search(self.wording, text, re.IGNORECASE):
            return False
        if self.code and not any(re.fullmatch(self.code, code) for code in body.codes):
            return False
        return not (self.unless and re.search(self.unless, text, re.IGNORECASE))


_MAX = r"max_(?:completion_|output_|new_)?tokens"
_SOON = r"try again in|retry (?:in|after)|retry shortly|per (?:second|minute|min|hour|day)\b"

TABLE = (
    # ---- what is refused for what it says: first, whatever the status
    Sign(R.CONTENT_FILTER, code=r"content_filter|content_policy_violation|responsibleaipolicyviolation|"
         r"datainspectionfailed|data_inspection_failed|invalid_prompt", seen="OpenAI, Azure, DashScope"),
    Sign(R.CONTENT_FILTER, r"content management policy|content[ _]filter(?:ing)?|safety system|input was flagged|"
         r"violat\w+ our usage polic|inappropriate content|contentpolicyviolation|content policy",
         seen="OpenAI, Azure, Anthropic, OpenRouter, LiteLLM"),
    Sign(R.POLICY_BLOCKED, r"data policy|privacy settings|guardrail restrictions|"
         r"(?:country|region|territory|location)[^.]{0,30} not supported|unsupported_country",
         seen="OpenRouter, OpenAI, Gemini"),
    # ---- streaming
    Sign(R.STREAM_UNSUPPORTED, r"stream\w*\W{0,3} (?:is |are )?(?:not|n't|un)\s?(?:yet )?"
         r"(?:supported|available|allowed|enabled|implemented)|(?:not|n't) support\w* (?:\w+ ){0,3}\W?stream(?!_)|"
         r"stream\W{1,3} does not support|verified to stream|stream must be false|only non-streaming|disable streaming",
         unless=r"stream_options", seen="OpenAI, gateways"),
    # ---- output caps, before input overflow
    Sign(R.OUTPUT_CAP_EXCEEDED, rf"{_MAX}[^.;]{{0,80}}(?:too (?:large|high|big)|exceed|cannot be greater|at most|<=|"
         rf"less than or equal|no more than|maximum|> ?\d+|valid range)|(?:valid )?range of {_MAX}|"
         r"supports at most [\d,]+ (?:completion|output)|maximum allowed number of output tokens|"
         r"available_tokens|fewer output tokens", unless=r"unsupported parameter|not supported with this model",
         seen="OpenAI, Anthropic, vLLM, Groq, DeepSeek"),
    Sign(R.OUTPUT_CAP_EXCEEDED, r"fewer max_tokens|can only afford [\d,]+", seen="OpenRouter"),
    # ---- money
    Sign(R.BILLING, code=r"insufficient_quota|insufficient_balance|billing_error|billing_not_active|arrearage|"
         r"budget_exceeded|exceeded_current_quota_error|1113|billing_hard_limit_reached", unless=_SOON,
         seen="OpenAI, Anthropic, LiteLLM, DashScope, Moonshot, Zhipu"),
    Sign(R.BILLING, r"insufficient (?:\w+ )?(?:balance|credits?|funds|quota)|credit balance is too low|more credits|"
         r"plan and billing|budget has been exceeded|exceededbudget|余额不足|payment required|spending limit|"
         r"account is in good standing|used all available credits|billing (?:hard )?limit|negative balance|out of credits",
         unless=_SOON, seen="OpenAI, Anthropic, OpenRouter, DeepSeek, xAI, LiteLLM"),
    # ---- too large
    Sign(R.PAYLOAD_TOO_LARGE, r"request too large|request (?:body|entity) (?:is )?too large|payload too large|"
         r"input or output tokens must be reduced", unless=r"max size: \d+ tokens", seen="OpenAI and Groq per minute, nginx"),
    Sign(R.CONTEXT_OVERFLOW, code=r"context_length_exceeded|exceed_context_size_error|model_max_prompt_tokens_exceeded|"
         r"tokens_limit_reached|contextwindowexceedederror|string_above_max_length|1261",
         seen="OpenAI, llama.cpp, Copilot, GitHub Models, Zhipu"),
    Sign(R.CONTEXT_OVERFLOW, r"maximum context length|context[ _]length|context window|context limit|context size|"
         r"maximum (?:model|prompt|input|sequence) length|(?:prompt|input)(?: is)? too long|exceeds? max length|"
         r"too many (?:input )?tokens|input token count|input tokens exceed|exceeded model token limit|"
         r"prompt token count|number of tokens allowed|range of input length|max_new_tokens` must be|"
         r"max size: \d+ tokens|reduce the length of the (?:messages|input|prompt)|long context requests",
         unless=r"please wait|per minute|per day|not supported", seen="all"),
    # ---- keys
    Sign(R.AUTH, r"api key (?:not valid|is invalid|expired)|(?:incorrect|invalid|no|missing|expired|wrong|bad) (?:x-)?"
         r"(?:api|proxy|access|auth\w*)[ _-]?(?:server )?(?:key|token|credentials)|authentication ?(?:fails|error|failed)|"
         r"organization has been (?:disabled|restricted)|user not found", unless=r"rate limit", seen="all"),
    Sign(R.AUTH, code=r"invalid_api_key|authentication_error|invalid_authentication|unauthenticated|token_expired", seen="all"),
    # ---- the model
    Sign(R.MODEL_NOT_FOUND, code=r"model_not_found|model_decommissioned|deploymentnotfound|not_found_error|"
         r"notfounderror|model_not_available", seen="OpenAI, Groq, Azure, Anthropic, vLLM"),
    Sign(R.MODEL_NOT_FOUND, r"model\b[^.]{0,120}(?:does not exist|not found|not exist|decommissioned|not available|"
         r"no longer (?:available|supported)|not a valid)|not a valid model|invalid model|no models? loaded|"
         r"no endpoints found|failed to load model|access to (?:the )?model|unknown model|model unloaded",
         status=(400, 403, 404, 410, 422, 500), seen="all"),
    # ---- limits and load
    Sign(R.OVERLOADED, code=r"overloaded_error|overloaded|engine_overloaded_error|unavailable_error|unavailable|"
         r"service_unavailable|serviceunavailableerror", seen="Anthropic, Moonshot, llama.cpp, Gemini"),
    Sign(R.OVERLOADED, r"overloaded|loading model|server (?:is )?busy|at capacity|capacity exceeded|slow down|"
         r"maximum pending requests|try again later due to load|no deployments available|high (?:demand|load)",
         seen="OpenAI, Ollama, llama.cpp, Mistral, LiteLLM"),
    Sign(R.RATE_LIMIT, code=r"rate_limit\w*|rate_limit_exceeded|ratelimit\w*|resource_exhausted|throttling\w*|"
         r"too_many_requests|toomanyrequests|1302|requests|tokens", seen="OpenAI, Anthropic, Gemini, AWS",
         unless=r"invalid"),
    Sign(R.RATE_LIMIT, r"rate[ -]?limit|too many requests|quota (?:\w+ )?exceeded|exceeded (?:your |the )?(?:\w+ ){0,2}quota|"
         r"usage limit|throttl|requests per (?:second|minute|min|hour|day)|tokens per (?:minute|min|day)|please wait before",
         unless=r"unsupported", seen="all"),
    # ---- replies and requests that are wrong
    Sign(R.MALFORMED_REPLY, code=r"tool_use_failed|json_validate_failed", seen="Groq: the model's call could not be read"),
    Sign(R.TIMEOUT, code=r"timeout\w*|request_timeout|deadline_exceeded", seen="Anthropic, Gemini"),
    Sign(R.TIMEOUT, r"timed? ?out\b|deadline exceeded", status=(0, 408, 500, 502, 503, 504), seen="LiteLLM, gateways"),
    Sign(R.BAD_REQUEST, r"failed to parse (?:tools|tool call|grammar|messages)|image input is not supported|"
         r"json\.exception|does not support tools|invalid (?:schema|parameter|value|request)", status=(500, 501),
         seen="llama.cpp, Ollama: they say 500 for what will never work"),
    Sign(R.BAD_REQUEST, code=r"invalid_request_error|badrequesterror|bad_request|invalid_argument|unprocessable_entity",
         status=(0, 500), seen="inside a stream"),
    # ---- the status alone
    Sign(R.BILLING, status=(402,)),
    Sign(R.AUTH, status=(401, 403, 407)),
    Sign(R.MODEL_NOT_FOUND, status=(404, 410)),
    Sign(R.TIMEOUT, status=(408, 504, 522, 524)),
    Sign(R.SERVER_ERROR, status=(409, 425)),
    Sign(R.PAYLOAD_TOO_LARGE, status=(413,)),
    Sign(R.RATE_LIMIT, status=(429,)),
    Sign(R.POLICY_BLOCKED, status=(451,)),
    Sign(R.OVERLOADED, status=(498, 503, 529)),
    Sign(R.BAD_REQUEST, status=(501, 505)),
    Sign(R.BAD_REQUEST, status=tuple(range(300, 500))),
    Sign(R.SERVER_ERROR, status=tuple(range(500, 600))),
    Sign(R.MALFORMED_REPLY, status=tuple(range(100, 300))),
)  # fmt: skip
"""The first sign that fits decides. An error inside a 200 has the status that its body states, or 0."""


def refused(status: int, headers: Mapping[str, str], raw: bytes) -> Failure:
    """The failure that an HTTP response with an error status means.

    Args:
        status: Of the response.
        headers: Of the response.
        raw: The body, or the first part of it.
    """
    text = raw.decode("utf-8", "replace")
    try:
        body = read_error(json.loads(text))
    except (ValueError, RecursionError):
        body = read_error(text)
    if not body.messages:
        body.messages.append(_described(status, headers, text))
    return _failure(status, headers, body, error_type=str(status))


def error_within(data: dict[str, Json], event: str = "") -> Failure | None:
    """The failure that an object inside a successful response or stream means; None if it is no error."""
    error = data.get("error")
    if not error and not _is_error(data, event):
        choices = data.get("choices")
        inner = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        error = inner.get("error")
        if not error:
            return None
    body = read_error({"error": error} if error else data)
    if not body.messages:
        body.messages.append("the server reported an error without a message")
    code = next((code for code in body.codes if re.fullmatch(r"[a-z0-9_.]{1,40}", code)), "error")
    return _failure(body.status or 0, {}, body, error_type=code)


def _is_error(data: dict[str, Json], event: str) -> bool:
    if event == "error" or data.get("object") == "error" or data.get("type") == "error":
        return True
    if data.get("choices"):
        return False
    told = data.get("base_resp")
    if isinstance(told, dict) and told.get("status_code"):
        return True
    return bool(data.get("detail")) or ("message" in data and "code" in data)


def _failure(status: int, headers: Mapping[str, str], body: ErrorBody, error_type: str) -> Failure:
    reason = next((sign.reason for sign in TABLE if sign.fits(status, body)), R.SERVER_ERROR)
    known = merged(headers, body)
    numbers = stated(body.text)
    limit = None
    if reason in (R.CONTEXT_OVERFLOW, R.OUTPUT_CAP_EXCEEDED):
        window = numbers.window or _window_field(body)
        if numbers.cap is None and numbers.input_fits:
            reason = R.OUTPUT_CAP_EXCEEDED
        elif numbers.cap is None and window is not None and numbers.input is not None:
            reason = R.CONTEXT_OVERFLOW
        limit = window if reason is R.CONTEXT_OVERFLOW else numbers.free or window
    return Failure(
        reason,
        plain(body.text, LONGEST_MESSAGE),
        status=status or None,
        retry_after=retry_after(known, body.text if reason in (R.RATE_LIMIT, R.OVERLOADED) else ""),
        limit=limit,
        error_type=error_type,
        limited_for=limited_for(known) if reason is R.RATE_LIMIT else None,
    )


def _window_field(body: ErrorBody) -> int | None:
    """llama.cpp states its window in a field of its own."""
    window = body.fields.get("n_ctx")
    return int(window) if window else None


def _described(status: int, headers: Mapping[str, str], text: str) -> str:
    if text.strip():
        return plain(text)
    where = {name.lower(): value for name, value in headers.items()}.get("location")
    return f"HTTP {status} that leads to {plain(where, 200)}" if where else f"HTTP {status} with an empty body"


def with_names(failure: Failure, provider: str, model: str) -> Failure:
    """The failure with the names of who failed."""
    return replace(failure, provider=failure.provider or provider, model=failure.model or model)
