"""The estimate of tokens: fair to all scripts, to JSON and to numbers, and made once for each message."""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.policies import tokens
from hermes_nb.policies.tokens import TokenMeter, estimate
from hermes_nb.vocabulary.messages import Message, ToolCall, ToolSpec

SAMPLES = json.loads((pathlib.Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8"))["samples"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample["kind"])
def test_the_estimate_is_near_what_four_real_tokenizers_count(sample):
    counts = sample["tokens"].values()
    mean = sum(counts) / len(counts)
    assert 0.75 * mean <= estimate(sample["text"]) <= 1.25 * mean


@given(st.text(st.characters(exclude_categories=[])), st.text(st.characters(exclude_categories=[])))
def test_an_estimate_is_a_sum_over_characters(one, other):
    both = estimate(one + other)
    assert max(estimate(one), estimate(other)) <= both <= estimate(one) + estimate(other)
    assert both <= estimate(one) + estimate(other) <= both + 1
    assert estimate("") == 0


@pytest.mark.parametrize(
    ("kind", "thousand"),
    [
        ("azAZ", 240), ("0189", 840), (" ", 60), ("\n\t\r", 800), ("!,~", 480), ("\xa0éł", 1_840), ("\u0300λϿ", 960),
        ("Ѐдӿ", 470), ("Ԁաא", 1_000), ("\u0600عߏ", 770), ("\u0800ก", 1_170), ("ა☃⿰", 1_000), ("、か㐀", 780),
        ("䀀中鿿", 1_000), ("ꀀ한﹗", 980), ("𐀀😀", 2_660),
    ],
)  # fmt: skip
def test_a_thousand_characters_of_a_kind_count_as_they_were_fitted(kind, thousand):
    assert [estimate(character * 1_000) for character in kind] == [thousand] * len(kind)


def test_a_message_counts_its_text_calls_and_pictures():
    meter = TokenMeter()
    plain = Message("user", "hello there")
    parts = Message("user", ({"type": "text", "text": "hello there"}, {"type": "image_url", "image_url": {"url": "x"}}))
    calling = Message("assistant", "hello there", tool_calls=(ToolCall("1", "search", '{"q": "rivers"}'),))
    assert meter.message(parts) - meter.message(plain) == tokens.IMAGE
    arguments = estimate("search") + estimate('{"q": "rivers"}')
    assert meter.message(calling) - meter.message(plain) == tokens.PER_CALL + arguments


def test_each_message_and_tool_is_measured_once(monkeypatch):
    measured = []
    monkeypatch.setattr(tokens, "estimate", lambda text: measured.append(text) or len(text))
    meter = TokenMeter()
    history = [Message("user", f"message {n}") for n in range(50)]
    tools = [ToolSpec("f", "does", {"type": "object"})]
    for upto in range(1, 51):
        meter.messages(history[:upto])
    assert len(measured) == 50
    meter.overhead("system", tools)
    meter.overhead("system", [ToolSpec("f", "does", {"type": "object"})])
    assert measured.count("does") == 1


def test_equal_messages_are_not_taken_for_one_another_and_left_ones_are_forgotten():
    meter = TokenMeter()
    kept = Message("user", "kept")
    for n in range(100):
        meter.message(Message("user", "x" * n))
    meter.keep([kept])
    assert len(meter._messages) == 1
    assert meter.message(Message("user", "kept")) == meter.message(kept)
