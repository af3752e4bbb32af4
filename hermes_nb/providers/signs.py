"""The taxonomy of failed model calls, as one table: reasons, and how each is recognised.

What follows from a reason is the policies' business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_nb.vocabulary.failures import FailureReason as R

if TYPE_CHECKING:
    from hermes_nb.providers.error_bodies import ErrorBody


@dataclass(frozen=True, slots=True)
class Sign:
    """One way to recognise a reason: all that is given must fit.

    Attributes:
        reason: What it is a sign of.
        wording: Patterns, one of which is in the words of the error.
        codes: Patterns, one of which is a whole code or type in the body.
        status: HTTP statuses; empty for any. An error inside a 200 has the status that its body states, or 0.
        unless: A pattern that is not in the words.
    """

    reason: R
    wording: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    status: tuple[int, ...] | range = ()
    unless: str = ""

    def fits(self, status: int, body: ErrorBody) -> bool:
        """Whether an error shows this sign."""
        if self.status and status not in self.status:
            return False
        if self.wording and not _found(self.wording, body.text):
            return False
        if self.codes and not any(re.fullmatch("|".join(self.codes), code) for code in body.codes):
            return False
        return not (self.unless and _found((self.unless,), body.text))


def _found(patterns: tuple[str, ...], text: str) -> bool:
    return re.search("|".join(patterns), text, re.IGNORECASE) is not None


def reason_of(status: int, body: ErrorBody) -> R:
    """The reason of an error: that of the first sign that fits."""
    return next((sign.reason for sign in TABLE if sign.fits(status, body)), R.SERVER_ERROR)


_SOON = r"try again in|retry (?:in|after)|retry shortly"
_BAD = r"(?:incorrect|invalid|no|missing|expired|wrong|bad)"
_REFUSED = 300  # the first status that says that the request will not be done
_MAX = r"max_(?:completion_|output_|new_)?tokens"

TABLE = (
    # ------------------------------------------------------------ refused for what is said, whatever the status
    Sign(
        R.CONTENT_FILTER,
        codes=(
            r"content_filter|responsibleaipolicyviolation",  # Azure
            r"content_policy_violation|invalid_prompt",  # OpenAI
            r"datainspectionfailed|data_inspection_failed",  # DashScope
        ),
    ),
    Sign(
        R.CONTENT_FILTER,
        wording=(
            r"content management policy",  # Azure
            r"content[ _]filter",  # Anthropic ("blocked by content filtering policy"), Azure
            r"safety system|violat\w+ our usage polic",  # OpenAI
            r"input was flagged",  # OpenRouter
            r"contentpolicyviolation|content policy",  # LiteLLM
            r"inappropriate content",  # DashScope
        ),
    ),
    Sign(
        R.POLICY_BLOCKED,
        wording=(
            r"data policy|privacy settings|guardrail restrictions",  # OpenRouter
            r"(?:country|region|territory|location)[^.]{0,30} not supported",  # OpenAI, Gemini
        ),
    ),
    # ------------------------------------------------------------ streaming
    Sign(
        R.STREAM_UNSUPPORTED,
        wording=(
            r"\bstream\w*(?:\W?true)?\W{0,3}(?:is |are )?(?:not|n't|un) ?(?:yet )?(?:supported|available|enabled)",
            r"(?:not|n't) support\w* (?:\w+ ){0,3}\W?\bstream(?!_)",  # "does not support streaming"
            r"\bstream'? does not support|verified to stream",  # OpenAI
            r"stream must be false|only non-streaming|disable streaming",  # gateways
        ),
        unless=r"stream_options",
    ),
    # ------------------------------------------------------------ too much output asked for; before input overflow
    Sign(
        R.OUTPUT_CAP_EXCEEDED,
        wording=(
            rf"{_MAX}[^.;]{{0,80}}(?:too (?:large|high|big)|exceed|cannot be greater|> ?\d)",  # vLLM, OpenAI
            rf"{_MAX}[^.;]{{0,80}}(?:at most|<=|less than or equal|no more than|maximum|valid range)",  # Groq, DeepSeek
            rf"range of {_MAX}",  # DeepSeek, DashScope
            r"supports at most [\d,]+ (?:completion|output)",  # OpenAI
            r"maximum allowed number of output tokens",  # Anthropic
            r"fewer output tokens|available_tokens",  # vLLM, Hermes' gateway
            r"fewer max_tokens|can only afford [\d,]+",  # OpenRouter
        ),
        unless=r"unsupported parameter|not supported with this model",
    ),
    # ------------------------------------------------------------ money
    Sign(
        R.BILLING,
        codes=(
            r"insufficient_quota|billing_not_active|billing_hard_limit_reached",  # OpenAI
            r"billing_error",  # Anthropic
            r"insufficient_balance|exceeded_current_quota_error",  # DeepSeek, Moonshot
            r"budget_exceeded",  # LiteLLM
            r"arrearage|1113",  # DashScope, Zhipu
        ),
        unless=_SOON,
    ),
    Sign(
        R.BILLING,
        wording=(
            r"insufficient (?:\w+ )?(?:balance|credits?|funds|quota)",  # DeepSeek, OpenRouter
            r"credit balance is too low",  # Anthropic
            r"plan and billing",  # OpenAI
            r"more credits|out of credits|negative balance",  # OpenRouter
            r"budget has been exceeded|exceededbudget",  # LiteLLM
            r"used all available credits|spending limit",  # xAI
            r"account is in good standing|余额不足",  # DashScope, Zhipu
            r"payment required|billing (?:hard )?limit",
        ),
        unless=_SOON,
    ),
    # ------------------------------------------------------------ too much input
    Sign(
        R.PAYLOAD_TOO_LARGE,
        wording=(
            r"request too large",  # OpenAI, Groq: larger than a minute's tokens
            r"input or output tokens must be reduced",
            r"request (?:body|entity) (?:is )?too large|payload too large",  # proxies
        ),
        unless=r"max size: \d+ tokens",
    ),
    Sign(
        R.CONTEXT_OVERFLOW,
        codes=(
            r"context_length_exceeded|string_above_max_length",  # OpenAI, Groq
            r"exceed_context_size_error",  # llama.cpp
            r"model_max_prompt_tokens_exceeded|tokens_limit_reached",  # Copilot, GitHub Models
            r"contextwindowexceedederror",  # LiteLLM
            r"1261",  # Zhipu
        ),
    ),
    Sign(
        R.CONTEXT_OVERFLOW,
        wording=(
            r"maximum context length|context[ _]length",  # OpenAI, OpenRouter, vLLM, LM Studio, DeepSeek, Mistral
            r"context window|context limit|context size",  # OpenAI, Anthropic, MiniMax, llama.cpp
            r"maximum (?:model|prompt|input|sequence) length",  # vLLM, xAI
            r"(?:prompt|input)(?: is)? too long",  # Anthropic, Ollama, Bedrock
            r"too many (?:input )?tokens",
            r"input token count|number of tokens allowed",  # Gemini
            r"input tokens exceed|reduce the length of the (?:messages|input|prompt)",  # OpenAI
            r"exceeded model token limit",  # Moonshot
            r"prompt token count|max size: \d+ tokens",  # Copilot, GitHub Models
            r"range of input length",  # DashScope
            r"max_new_tokens` must be",  # TGI, Together
            r"exceeds? max length|long context requests",  # Zhipu, Anthropic
        ),
        unless=r"please wait|per (?:minute|day)|not supported",
    ),
    # ------------------------------------------------------------ keys
    Sign(
        R.AUTH,
        codes=(r"invalid_api_key|authentication_error|invalid_authentication\w*|unauthenticated|token_expired",),
    ),
    Sign(
        R.AUTH,
        wording=(
            r"api key (?:not valid|is invalid|expired)",  # Gemini
            rf"{_BAD} (?:\w+ )?(?:api|access|auth\w*|server)[ _-]?(?:key|token|credentials)",  # OpenAI, llama.cpp
            r"authentication ?(?:fails|error|failed)|user not found",  # DeepSeek, LiteLLM, OpenRouter
            r"organization has been (?:disabled|restricted)",  # Anthropic, Groq
        ),
    ),
    # ------------------------------------------------------------ the model
    Sign(
        R.MODEL_NOT_FOUND,
        codes=(
            r"model_not_found|model_not_available|model_decommissioned",  # OpenAI, Groq
            r"not_found_error|notfounderror|deploymentnotfound",  # Anthropic, vLLM, Azure
        ),
    ),
    Sign(
        R.MODEL_NOT_FOUND,
        wording=(
            r"model\b[^.]{0,120}(?:does not exist|not found|not exist|not a valid)",  # OpenAI, Ollama, DeepSeek
            r"model\b[^.]{0,120}(?:decommissioned|not available|no longer (?:available|supported))",  # Groq
            r"not a valid model|no endpoints found",  # OpenRouter
            r"invalid model|unknown model",  # LiteLLM, LM Studio
            r"no models? loaded|model unloaded|failed to load model",  # LM Studio
            r"access to (?:the )?model",  # OpenAI
        ),
        status=(0, 400, 403, 404, 410, 422, 500),
    ),
    # ------------------------------------------------------------ load and limits
    Sign(
        R.OVERLOADED,
        codes=(
            r"overloaded|overloaded_error|engine_overloaded_error",  # Anthropic, Moonshot
            r"unavailable|unavailable_error|service_unavailable|serviceunavailableerror",  # Gemini, llama.cpp, LiteLLM
        ),
    ),
    Sign(
        R.OVERLOADED,
        wording=(
            r"overloaded|slow down",  # OpenAI, Gemini
            r"loading model",  # llama.cpp
            r"server (?:is )?busy|maximum pending requests",  # Ollama, DeepSeek
            r"capacity exceeded|at capacity|high (?:demand|load)",  # Mistral, Groq
            r"no deployments available",  # LiteLLM
        ),
    ),
    Sign(
        R.RATE_LIMIT,
        codes=(
            r"rate_?limit\w*|requests|tokens",  # OpenAI, Anthropic
            r"resource_exhausted|throttling\w*|too_?many_?requests|1302",  # Gemini, AWS, Zhipu
        ),
    ),
    Sign(
        R.RATE_LIMIT,
        wording=(
            r"rate[ -]?limit|too many requests|throttl",
            r"quota (?:\w+ )?exceeded|exceeded (?:your |the )?(?:\w+ ){0,2}quota|usage limit",
            r"(?:requests|tokens) per (?:second|minute|min|hour|day)|please wait before",
        ),
    ),
    # ------------------------------------------------------------ replies and requests that are wrong
    Sign(R.MALFORMED_REPLY, codes=(r"tool_use_failed|json_validate_failed",)),  # Groq: the model's call was broken
    Sign(R.TIMEOUT, codes=(r"timeout\w*|request_timeout|deadline_exceeded",)),  # Anthropic, Gemini
    Sign(R.TIMEOUT, wording=(r"timed? ?out\b|deadline exceeded",), status=(0, 500, 502, 503)),
    Sign(
        R.BAD_REQUEST,  # said with a 500, although it will never work
        wording=(
            r"failed to parse (?:tools|tool call|grammar|messages)|image input is not supported",  # llama.cpp
            r"json\.exception|does not support tools|invalid (?:schema|parameter|value|request)",
        ),
        status=(0, 500),
    ),
    Sign(
        R.BAD_REQUEST,
        codes=(r"invalid_request_error|badrequesterror|bad_request|invalid_argument|unprocessable_entity",),
        status=(0,),
    ),
    # ------------------------------------------------------------ the status alone
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
    Sign(R.BAD_REQUEST, status=range(_REFUSED, 500)),
    Sign(R.MALFORMED_REPLY, status=range(100, _REFUSED)),
)
"""The first sign that fits decides; an error that fits none is a server's error."""
