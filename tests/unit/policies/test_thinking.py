"""Thinking in tags is told from the answer, however a stream cuts it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.policies.thinking import ThinkingFilter, split_thinking


@pytest.mark.parametrize(
    ("text", "answer", "thinking"),
    [
        ("an answer", "an answer", ""),
        ("<think>hm</think>\n\nan answer", "an answer", "hm"),
        ("\n<thinking>a < b</thinking>yes", "yes", "a < b"),
        ("<reasoning>hm</reasoning>yes", "yes", "hm"),
        ("<scratchpad>hm</scratchpad>yes", "yes", "hm"),
        ("<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD>yes", "yes", "hm"),
        ("<think>never closed", "", "never closed"),
        ("<thinker>is no tag", "<thinker>is no tag", ""),
        ("first <think>later</think>", "first <think>later</think>", ""),
    ],
)
def test_only_a_block_at_the_beginning_is_thinking(text, answer, thinking):
    assert split_thinking(text) == (answer, thinking)


pieces = st.sampled_from(
    ["<think>", "</think>", "<thi", "nk>", "</thi", " ", "\n", "word", "<", ">", "<scratchpad>", "</scratchpad>"]
)


@given(st.lists(pieces, max_size=12))
def test_a_stream_is_told_apart_as_the_whole_text_is(parts):
    filtered = ThinkingFilter()
    told = [told for piece in parts for told in filtered.feed(piece)]

    assert all(text for text, _ in told)
    answer = "".join(text for text, part in told if part == "text")
    thinking = "".join(text for text, part in told if part == "reasoning")
    whole_answer, whole_thinking = split_thinking("".join(parts))
    assert whole_answer.startswith(answer.lstrip()) or answer.strip() == whole_answer.strip()
    assert whole_thinking.startswith(thinking.strip())
    if not "".join(parts).lstrip().startswith("<") and "".join(parts).strip():
        assert answer == "".join(parts)


def test_thinking_is_told_as_it_comes_but_for_what_may_be_the_beginning_of_its_end():
    filtered = ThinkingFilter()
    pieces = ["<thi", "nk>let me see </think", " or not</think", "> yes", " </think>"]
    assert [list(filtered.feed(piece)) for piece in pieces] == [
        [],
        [("let me see ", "reasoning")],
        [("</think or not", "reasoning")],
        [("yes", "text")],
        [(" </think>", "text")],
    ]
