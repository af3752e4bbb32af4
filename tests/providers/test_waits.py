"""How long to wait: every form in which servers say it."""

from __future__ import annotations

import json
import math
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.providers.failures import error_within, refused
from hermes_nb.providers.waits import limited_for, retry_after, seconds

NOW = 1_750_000_000.0


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("12", 12), ("0", 0), (" 1.5 ", 1.5), ("20s", 20), ("6ms", 0.006), ("1m30s", 90), ("1h2m3s", 3723),
        ("1m30.5s", 90.5), (formatdate(NOW + 30, usegmt=True), 30), (formatdate(NOW - 30, usegmt=True), 0),
        ("2025-06-15T15:16:40Z", 600), ("2025-06-15t15:16:40+00:00", 600), (str(int(NOW + 40)), 40),
        (str(int((NOW + 40) * 1000)), 40), ("-5", 0),
        ("2d", 172800), ("", None), ("soon", None), ("nan", None), ("inf", None), ("1e300", None), ("12 parsecs", None),
    ],
)  # fmt: skip
def test_a_wait_is_understood(value, wait):
    assert seconds(value, NOW) == wait


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": formatdate(NOW + 9, usegmt=True)}, 9),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30s"}, 90),
        ({"x-ratelimit-remaining-tokens": "-12", "x-ratelimit-reset-tokens": "6s"}, 6),
        ({"x-ratelimit-remaining-requests": "10", "x-ratelimit-reset-requests": "1m30s"}, None),
        ({"x-ratelimit-reset-requests": "20s"}, 20),
        (
            {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": "2025-06-15T15:16:40Z"},
            600,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int((NOW + 3600) * 1000))}, 3600),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "5"}, 5),
        ({}, None),
        ({"retry-after": "nonsense"}, None),
    ],
)
def test_headers_tell_the_wait(headers, wait):
    assert retry_after(headers, now=NOW) == wait


@pytest.mark.parametrize(
    ("text", "wait"),
    [
        ("Please try again in 6ms.", 0.006),
        ("Please try again in 1m30.5s. Visit", 90.5),
        ("Please retry in 42.1s.", 42.1),
        ("Please retry after 20 seconds.", 20),
        ("Try again in 5 minutes", 300),
        ("wait for 250 milliseconds", 0.25),
        ("retry after 3", 3),
        ("try again later", None),
    ],
)
def test_words_tell_the_wait(text, wait):
    assert retry_after({}, text) == wait


def test_a_body_tells_the_wait():
    for body in (
        {"error": {"message": "slow", "retry_after": 12}},
        {"error": {"message": "slow"}, "retry_after": "12"},
    ):
        assert refused(429, {}, json.dumps(body).encode()).retry_after == 12
    google = [{"error": {"code": 429, "message": "slow", "details": [{"retryDelay": "12s"}]}}]
    assert refused(429, {}, json.dumps(google).encode()).retry_after == 12
    assert error_within({"error": {"code": 429, "message": "Rate limit. Try again in 12s"}}).retry_after == 12


def test_a_503_tells_the_wait_too():
    assert refused(503, {"Retry-After": "1"}, b"").retry_after == 1


def test_headers_that_a_gateway_repeats_in_the_body_count():
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int((time.time() + 3600) * 1000))}
    body = {"error": {"message": "Rate limit exceeded", "code": 429, "metadata": {"headers": headers}}}
    failure = refused(429, {}, json.dumps(body).encode())
    assert failure.limited_for == pytest.approx(3600, abs=5)


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("366d", 31_622_400), ("31622401s", None), ("1000000000", None), ("1000000001", 0), ("100000000000", None),
        ("100000000001", 0), ("0.0004", 0), ("0.0006", 0.001), ("1.2345", 1.234),
    ],
)  # fmt: skip
def test_a_number_is_a_wait_of_a_year_at_most_or_a_time_since_the_epoch_in_seconds_or_in_milliseconds(value, wait):
    assert seconds(value, NOW) == wait


@pytest.mark.parametrize("field", ["retry_after", "retryDelay", "reset_at"])
def test_fields_of_a_body_tell_the_wait(field):
    body = {"error": {"message": "later", field: "7s"}}
    assert refused(429, {}, json.dumps(body).encode()).retry_after == 7


@pytest.mark.parametrize(
    ("left", "reset", "genuine"),
    [("0", "120s", 120), ("0", "60", 60), ("0", "59", None), ("400", "120s", None), ("", "120s", None)],
)
def test_a_quota_is_genuine_when_a_bucket_is_empty_for_a_minute(left, reset, genuine):
    headers = {"x-ratelimit-remaining-requests-1h": left, "x-ratelimit-reset-requests-1h": reset, "retry-after": "3"}
    assert limited_for(headers, NOW) == genuine
    assert refused(429, headers, b"").limited_for == genuine


def test_only_a_rate_limit_limits():
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "120"}
    assert refused(500, headers, b"").limited_for is None


@given(st.text(max_size=30))
def test_no_text_is_too_odd(value):
    wait = seconds(value, NOW)
    assert wait is None or (wait >= 0 and math.isfinite(wait))
