"""Every kind of error is told apart, by status, code and wording, as deep as it is wrapped."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.providers.error_bodies import LONGEST_MESSAGE, read_error, redacted
from hermes_nb.providers.failures import error_within, refused
from hermes_nb.providers.limits import CAP, INPUT, WINDOW, Stated, stated
from hermes_nb.providers.signs import TABLE
from hermes_nb.vocabulary.failures import FailureReason as R
from tests.providers.wordings import WORDINGS


def raw(body) -> bytes:
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def named(wording):
    return f"{wording.server}-{wording.status}-{wording.reason}"


@pytest.mark.parametrize("wording", WORDINGS, ids=named)
def test_what_servers_say_is_understood(wording):
    failure = refused(wording.status, {}, raw(wording.body))
    assert (failure.reason, failure.limit) == (wording.reason, wording.limit), failure.message
    assert failure.error_type == str(failure.status) == str(wording.status)


@pytest.mark.parametrize("wording", [w for w in WORDINGS if isinstance(w.body, dict) and "error" in w.body], ids=named)
def test_the_same_error_inside_a_success_means_the_same(wording):
    error = wording.body["error"]
    error = {"message": error} if isinstance(error, str) else error
    failure = error_within({"error": error | {"status": wording.status}})
    assert (failure.reason, failure.limit) == (wording.reason, wording.limit)


@pytest.mark.parametrize("wording", [w for w in WORDINGS if w.body], ids=named)
def test_an_error_wrapped_by_gateways_means_the_same(wording):
    inner = raw(wording.body).decode()
    for wrapped in (
        {"detail": wording.body},
        {"error": {"message": f"Upstream said: {inner}"}},
        {"detail": {"error": inner}},
    ):
        assert refused(wording.status, {}, raw(wrapped)).reason == wording.reason, wrapped


def test_every_sign_of_the_table_decides_somewhere():
    deciding = {
        next((i for i, sign in enumerate(TABLE) if sign.fits(wording.status, read_error(wording.body))), None)
        for wording in WORDINGS
    }
    unseen = [sign for i, sign in enumerate(TABLE) if i not in deciding and (sign.wording or sign.codes)]
    assert [sign.status for sign in unseen] == [(0, 500, 502, 503), (0,)]  # tested with the signs


@pytest.mark.parametrize("pattern", [p for sign in TABLE for p in sign.wording] + [*WINDOW, *INPUT, *CAP])
def test_no_pattern_is_without_a_wording(pattern):
    assert any(re.search(pattern, read_error(w.body).text, re.IGNORECASE) for w in WORDINGS), pattern


@pytest.mark.parametrize(
    ("status", "reason"),
    [(400, R.BAD_REQUEST), (401, R.AUTH), (402, R.BILLING), (403, R.AUTH), (404, R.MODEL_NOT_FOUND),
     (405, R.BAD_REQUEST), (408, R.TIMEOUT), (409, R.SERVER_ERROR), (413, R.PAYLOAD_TOO_LARGE), (422, R.BAD_REQUEST),
     (425, R.SERVER_ERROR),
     (429, R.RATE_LIMIT), (451, R.POLICY_BLOCKED), (499, R.BAD_REQUEST), (500, R.SERVER_ERROR), (502, R.SERVER_ERROR),
     (503, R.OVERLOADED), (504, R.TIMEOUT), (529, R.OVERLOADED), (599, R.SERVER_ERROR), (204, R.MALFORMED_REPLY),
     (407, R.AUTH), (410, R.MODEL_NOT_FOUND), (498, R.OVERLOADED), (501, R.BAD_REQUEST), (505, R.BAD_REQUEST),
     (522, R.TIMEOUT), (524, R.TIMEOUT), (99, R.SERVER_ERROR), (100, R.MALFORMED_REPLY), (299, R.MALFORMED_REPLY),
     (300, R.BAD_REQUEST)],
)  # fmt: skip
def test_a_bare_status_has_a_reason(status, reason):
    failure = refused(status, {}, b"")
    assert (failure.reason, failure.message) == (reason, f"HTTP {status} with an empty body")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"message": "Rate limit", "code": 429}}, R.RATE_LIMIT),
        ({"error": {"message": "quota exceeded", "code": 429}}, R.RATE_LIMIT),
        ({"choices": None, "error": "insufficient balance"}, R.BILLING),
        ({"error": {"message": "context length exceeded"}}, R.CONTEXT_OVERFLOW),
        ({"error": "something broke"}, R.SERVER_ERROR),
        ({"error": {"message": "Rate limit exceeded"}}, R.RATE_LIMIT),
        ({"error": {"message": "bad tools", "type": "invalid_request_error"}}, R.BAD_REQUEST),
        ({"object": "error", "message": "x", "code": 503}, R.OVERLOADED),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, R.OVERLOADED),
        ({"choices": [{"error": {"code": 502, "message": "x"}, "finish_reason": "error"}]}, R.SERVER_ERROR),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, R.BILLING),
        ({"detail": "Not authenticated: missing api key"}, R.AUTH),
        ({"error": True}, R.SERVER_ERROR),
    ],
)
def test_an_error_inside_a_success_is_an_error(body, reason):
    failure = error_within(body)
    assert failure.reason == reason
    assert failure.message


@pytest.mark.parametrize(
    "body",
    [{"choices": []}, {"error": None, "choices": [{}]}, {"error": {}, "choices": []}, {"usage": {}}, {"id": "x"},
     {"base_resp": {"status_code": 0}, "choices": [{}]}, {"choices": [{"message": {}}], "message": "hi", "code": 0}],
)  # fmt: skip
def test_what_is_no_error_is_none(body):
    assert error_within(body) is None


def test_a_number_is_a_window_only_where_the_words_say_so():
    texts = ("context length exceeded (error 4096)", "context window exceeds limit (2013)", "too many tokens: 9000")
    for text in (*texts, "prompt too long by 5000"):
        assert refused(400, {}, raw({"error": {"message": text}})).limit is None


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("maximum context length 8,192", (8_192, None, None)),
        ("context size (8192 tokens)", (8_192, None, None)),
        ("max_model_len=4096", (4_096, None, None)),
        ("the prompt token count exceeds the limit of 32768", (32_768, None, None)),
        ("your messages resulted in 5000 tokens", (None, 5_000, None)),
        ("the prompt contains 5000 tokens", (None, 5_000, None)),
        ("it supports at most 4096 completion tokens", (None, None, 4_096)),
        ("max_tokens cannot be greater than max_model_len 4096", (None, None, 4_096)),
    ],
)
def test_one_wording_is_enough_to_know_a_number(text, numbers):
    found = stated(text)
    assert (found.window, found.input, found.cap) == numbers


@pytest.mark.parametrize(("number", "believed"), [(127, False), (128, True), (100_000_000, True), (100_000_001, False)])
def test_a_number_that_no_window_has_is_not_believed(number, believed):
    assert stated(f"context length is {number}").window == (number if believed else None)


@pytest.mark.parametrize(
    ("window", "given", "fits"),
    [(100_000, 98_976, True), (100_000, 98_977, False), (4_000, 3_500, True), (4_000, 3_501, False), (9, 8, True)],
)
def test_an_input_fits_when_an_eighth_of_the_window_or_1024_tokens_are_left(window, given, fits):
    assert Stated(window, given, None).input_fits == fits


def test_a_megabyte_of_html_becomes_its_title():
    page = "<!doctype html><html><title>Internal &lt;b&gt;oops</title><body>" + "<p>x</p>" * 150_000
    failure = refused(500, {}, page.encode())
    assert failure.message == "Internal <b>oops"


def test_a_message_is_short_and_one_line():
    failure = refused(500, {}, raw({"error": {"message": "a\n\tb\x00\x1b[31mc " + "x" * 10_000}}))
    assert failure.message.startswith("a b [31mc xxx")
    assert len(failure.message) == LONGEST_MESSAGE == 500
    assert len(read_error({"message": "x" * 3_000}).messages[0]) == 2_000
    assert read_error({"message": "x" * 2_000}).messages[0] == "x" * 2_000


@pytest.mark.parametrize(
    "name",
    ["message", "msg", "error", "errors", "detail", "details", "title", "description", "error_description", "reason",
     "raw", "status_msg", "error_message", "metadata", "body", "response", "innererror", "inner_error", "base_resp",
     "cause"],
)  # fmt: skip
def test_words_are_found_under_every_name_that_servers_use(name):
    assert read_error({name: {"message": "the credit is gone"}}).text == "the credit is gone"
    assert read_error({name: "the credit is gone"}).text == "the credit is gone"


@pytest.mark.parametrize("name", ["code", "type", "status", "status_code", "error_code", "reason", "param"])
def test_codes_are_found_under_every_name_that_servers_use(name):
    assert read_error({name: "Insufficient_Quota"}).codes == ["insufficient_quota"]


def test_an_error_is_followed_sixteen_levels_deep():
    def nested(levels: int):
        return {"error": nested(levels - 1)} if levels else "here"

    assert read_error(nested(16)).text == "here"
    assert read_error(nested(17)).text == ""


def test_two_hundred_values_of_an_error_are_looked_at():
    lists = [[f"number {10 * row + 1_000 + 100 * column}" for column in range(20)] for row in range(10)]
    looked_at = 200 - 2 - 10  # besides the object, the list of lists, and the lists
    assert len(read_error({"errors": lists}).messages) == looked_at


def test_fastapi_tells_where():
    failure = refused(
        422, {}, raw({"detail": [{"loc": ["body", "n"], "msg": "too small"}, {"loc": ["x"], "msg": "bad"}]})
    )
    assert failure.message == "body.n: too small: x: bad"


def test_a_redirect_says_where_to():
    assert "https://elsewhere/" in refused(301, {"Location": "https://elsewhere/"}, b"").message


def test_keys_are_taken_out():
    text = "Incorrect API key: sk-proj-abcdef123456 (Bearer abcdefghij) mine-is-short"
    assert redacted(text, ["mine-is-short", ""]) == "Incorrect API key: *** (Bearer ***) ***"


NAMES = ["error", "message", "code", "type", "detail", "metadata", "raw", "loc", "msg", "headers", "status",
         "retry_after", "base_resp", "choices"]  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(NAMES) | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.integers(100, 599), st.binary(max_size=200) | json_values.map(lambda v: json.dumps(v).encode()),
       st.dictionaries(st.sampled_from(["retry-after", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"]),
                       st.text(max_size=12)))  # fmt: skip
def test_no_body_and_no_header_is_too_odd(status, body, headers):
    failure = refused(status, headers, body)
    assert failure.message
    assert len(failure.message) <= LONGEST_MESSAGE
    assert failure.retry_after is None or failure.retry_after >= 0


@given(st.dictionaries(st.sampled_from([*NAMES, "type", "object"]), json_values))
def test_no_object_is_too_odd(data):
    failure = error_within(data)
    assert failure is None or failure.message
