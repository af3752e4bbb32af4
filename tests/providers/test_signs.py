"""One sign is enough to know why a call failed: a code, a few words, a status."""

from __future__ import annotations

import json

import pytest

from hermes_nb.providers.failures import error_within, refused
from hermes_nb.vocabulary.failures import FailureReason as R

CODES = {
    R.CONTENT_FILTER: "content_filter responsibleaipolicyviolation content_policy_violation invalid_prompt "
    "datainspectionfailed data_inspection_failed",
    R.BILLING: "insufficient_quota billing_not_active billing_hard_limit_reached billing_error insufficient_balance "
    "exceeded_current_quota_error budget_exceeded arrearage 1113",
    R.CONTEXT_OVERFLOW: "context_length_exceeded string_above_max_length exceed_context_size_error "
    "model_max_prompt_tokens_exceeded tokens_limit_reached contextwindowexceedederror 1261",
    R.AUTH: "invalid_api_key authentication_error invalid_authentication unauthenticated token_expired",
    R.MODEL_NOT_FOUND: "model_not_found model_not_available model_decommissioned not_found_error notfounderror "
    "deploymentnotfound",
    R.OVERLOADED: "overloaded overloaded_error engine_overloaded_error unavailable unavailable_error "
    "service_unavailable serviceunavailableerror",
    R.RATE_LIMIT: "rate_limit_exceeded ratelimit requests tokens resource_exhausted throttling too_many_requests 1302",
    R.MALFORMED_REPLY: "tool_use_failed json_validate_failed",
    R.TIMEOUT: "timeout_error request_timeout deadline_exceeded",
}
WORDS = {
    R.CONTENT_FILTER: [
        "it triggered the content management policy", "blocked by content filtering", "rejected by our safety system",
        "your input was flagged", "ContentPolicyViolation", "it contains inappropriate content",
    ],
    R.POLICY_BLOCKED: ["change your privacy settings", "your country is not supported"],
    R.STREAM_UNSUPPORTED: [
        "streaming is not available", "it does not support streaming", "you must be verified to stream",
        "stream must be false",
    ],
    R.OUTPUT_CAP_EXCEEDED: [
        "max_tokens is too large", "max_tokens is 5 at most, no more than", "the range of max_tokens is wrong",
        "it supports at most 9 output tokens", "above the maximum allowed number of output tokens",
        "ask for fewer output tokens", "you can only afford 9",
    ],
    R.BILLING: [
        "insufficient funds", "your credit balance is too low", "check your plan and billing", "you are out of credits",
        "the budget has been exceeded", "you have reached your spending limit",
        "see whether your account is in good standing", "payment required",
    ],
    R.PAYLOAD_TOO_LARGE: ["request too large", "the input or output tokens must be reduced", "payload too large"],
    R.CONTEXT_OVERFLOW: [
        "above the context length", "it does not fit the context window", "above the maximum prompt length",
        "the prompt is too long", "too many tokens", "the input token count is high",
        "please reduce the length of the messages", "you exceeded model token limit", "the prompt token count is high",
        "the range of input length is wrong", "`inputs` and `max_new_tokens` must be small", "it exceeds max length",
    ],
    R.AUTH: [
        "api key not valid", "an incorrect access token", "authentication failed", "the organization has been disabled",
    ],
    R.MODEL_NOT_FOUND: [
        "the model x does not exist", "the model x is no longer supported", "no endpoints found", "unknown model",
        "no model loaded", "you have no access to the model",
    ],
    R.OVERLOADED: ["please slow down", "loading model", "the server is busy", "we are at capacity",
                   "no deployments available"],
    R.RATE_LIMIT: ["too many requests", "you have hit your usage limit", "100 tokens per minute"],
}  # fmt: skip


def refusal(status: int, message: str, code: str = "") -> R:
    return refused(status, {}, json.dumps({"error": {"message": message, "code": code}}).encode()).reason


@pytest.mark.parametrize(("reason", "code"), [(reason, code) for reason in CODES for code in CODES[reason].split()])
def test_a_code_is_enough(reason, code):
    assert refusal(400, "It did not work.", code) == reason


@pytest.mark.parametrize(("reason", "words"), [(reason, words) for reason in WORDS for words in WORDS[reason]])
def test_a_few_words_are_enough(reason, words):
    assert refusal(400, words) == reason


@pytest.mark.parametrize(
    "code", ["invalid_request_error", "badrequesterror", "bad_request", "invalid_argument", "unprocessable_entity"]
)
def test_a_code_inside_a_success_says_that_the_request_is_wrong(code):
    assert error_within({"error": {"message": "It did not work.", "type": code}}).reason == R.BAD_REQUEST


@pytest.mark.parametrize("status", [400, 403, 404, 410, 422, 500])
def test_a_model_that_is_not_there_is_told_from_a_server_that_has_no_time(status):
    assert refusal(status, "unknown model, or at capacity") == R.MODEL_NOT_FOUND
    assert refusal(503, "unknown model, or at capacity") == R.OVERLOADED
    assert error_within({"error": "unknown model, or at capacity"}).reason == R.MODEL_NOT_FOUND


@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_server_that_waited_in_vain_says_so(status):
    assert refusal(status, "the upstream timed out") == R.TIMEOUT
    assert refusal(400, "the upstream timed out") == R.BAD_REQUEST
    assert error_within({"error": "the upstream timed out"}).reason == R.TIMEOUT


@pytest.mark.parametrize("words", ["failed to parse grammar", "it does not support tools"])
def test_what_will_never_work_is_no_trouble_of_the_servers(words):
    assert refusal(500, words) == R.BAD_REQUEST
    assert refusal(502, words) == R.SERVER_ERROR
    assert error_within({"error": words}).reason == R.BAD_REQUEST
