"""Keys are taken out; ordinary text stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.telemetry.redaction import DROPPED, is_secret_name, redacting, safe_attributes, without_keys
from hermes_nb.vocabulary.texts import REDACTED

KEYS = [
    "sk-test-SECRET123",
    "sk-ant-api03-abcdefghijklmnop1234",
    "sk-or-v1-0123456789abcdef0123456789abcdef",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz",
    "glpat-abcdefghij0123456789",
    "xoxb-123456789012-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefghijklmnopqrstuvwxyz",
    "gsk_abcdefghijklmnopqrstuvwxyz",
    "sk_live_abcdefghijklmnop1234",
    "123456789:AAabcdefghijklmnopqrstuvwxyz0123456",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
]
HIDDEN = [
    ("Authorization: Bearer abcdef0123456789", "Bearer", "abcdef0123456789"),
    ('{"authorization": "Basic dXNlcjpwYXNzd29yZA=="}', "Basic", "dXNlcjpwYXNzd29yZA"),
    ("https://user:hunter2@host/path", "https://user:", "hunter2"),
    ("https://host/v1?key=abcdef123456&x=1", "x=1", "abcdef123456"),
    ("OPENAI_API_KEY=abcdef123456", "OPENAI_API_KEY=", "abcdef123456"),
    ('{"password": "correct-horse"}', '"password": "', "correct-horse"),
    ("db_password: correct-horse", "db_password", "correct-horse"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "", "MIIE"),
    ("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "", "MIIE"),
]
ORDINARY = [
    "MAX_TOKENS=100000",
    "max_tokens: 4096",
    "total_tokens = 5",
    "The task-2024-report is done; ask-anything-2 follows.",
    "A tokenizer splits text into tokens.",
    "see https://example.org/a?code=1&page=2",
    "https://host:8080/v1/traces",
    "the key is under the mat",
    "basic assumptions, bearer bonds",
    "scikit-learn, sk-learn-contrib",
]


@pytest.mark.parametrize("key", KEYS)
def test_a_vendors_key_is_taken_out_wherever_it_stands(key):
    for text in (key, f"failed with {key}.", f'{{"x": "{key}"}}', f"a\n{key}\nb"):
        assert key not in without_keys(text)
        assert REDACTED in without_keys(text)


@pytest.mark.parametrize(("text", "stays", "goes"), HIDDEN)
def test_a_secret_is_taken_out_of_its_place_and_the_place_stays(text, stays, goes):
    out = without_keys(text)

    assert goes not in out
    assert stays in out


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays_as_it_is(text):
    assert without_keys(text) == text


@pytest.mark.parametrize("broken", [lambda text: 1 / 0, lambda text: None, lambda text: text.encode()])
def test_a_redactor_that_fails_drops_the_text(broken):
    assert redacting(broken)("my diary") == DROPPED


def test_the_users_redactor_comes_on_top():
    redactor = redacting(lambda text: text.replace("Lyon", "***"))

    assert redactor("Lyon sk-test-SECRET123") == f"*** {REDACTED}"


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_searched(text):
    assert isinstance(without_keys(text), str)
    assert without_keys(without_keys(text)) == without_keys(text) or REDACTED in without_keys(text)


@settings(deadline=None)
@given(st.text(st.characters(codec=None)))
def test_no_attribute_holds_what_cannot_be_encoded(text):
    safe_attributes({"x": text})["x"].encode("utf-8")


@pytest.mark.parametrize(
    "name", ["api_key", "OPENAI_API_KEY", "password", "client_secret", "X-Api-Key", "Authorization"]
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["max_tokens", "tokens", "keyboard", "authors", "secretary", 5])
def test_other_names_are_not(name):
    assert not is_secret_name(name)


def test_searching_takes_time_in_proportion_to_the_text():
    for text in ("a" * 200_000 + "key", "://" * 50_000, "sk-" * 50_000, "password: " * 20_000, "=" * 100_000 + "token"):
        without_keys(text)  # the test's own time limit is the bound
