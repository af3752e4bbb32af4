"""The summary by rule, and the turns as a summariser reads them: what is in, and how much of it."""

from __future__ import annotations

import pytest

from hermes_nb.policies import tokens
from hermes_nb.policies.tokens import TokenMeter, estimate
from hermes_nb.turn.summarising import as_text, cleaned, cost, focus, portions, without_model
from hermes_nb.vocabulary.messages import Message
from tests.support.histories import assistant, round_of, steer, user


def section(summary: str, name: str) -> list[str]:
    """The lines below a heading."""
    text = summary.split(f"## {name}\n", 1)[1].split("\n\n## ", 1)[0]
    return text.removeprefix("- ").split("\n- ")


def test_the_last_twelve_calls_are_listed():
    rounds = [message for n in range(14) for message in round_of(f"result {n}")]
    done = section(without_model("", [user("q"), *rounds]), "Done")
    assert len(done) == 12
    assert done[0].endswith("beginning: result 2]")
    assert done[-1].endswith("beginning: result 13]")


def test_the_last_request_is_quoted_up_to_1400_characters():
    [task] = section(without_model("", [user("old"), user("x" * 3_000)]), "Task")
    assert task == "x" * 1_400


def test_a_steer_is_a_request_of_the_user_too():
    assert section(without_model("", [user("q"), *round_of("r"), steer("only the north")]), "Task") == [
        "only the north"
    ]


def test_the_last_twelve_files_and_five_errors_are_listed_each_once():
    rounds = [
        message for n in range(15) for message in round_of(f"wrote /data/out_{n}.csv\nError {n}: no\nError again")
    ]
    summary = without_model("", [user("q"), *rounds, *rounds])
    assert section(summary, "Files") == [f"/data/out_{n}.csv" for n in range(3, 15)]
    assert section(summary, "Errors") == [f"Error {n}: no" for n in range(10, 15)]


def test_files_named_in_arguments_count_and_urls_and_prose_do_not_break_it():
    rounds = round_of("ok", arguments='{"path": "src/main.py", "other": ["notes.md"]}')
    assert section(without_model("", rounds), "Files") == ["src/main.py", "notes.md"]


def test_the_last_eight_words_are_quoted_up_to_700_characters_each():
    said = [message for n in range(6) for message in (user(f"u{n} " + "x" * 900), assistant(f"a{n}"))]
    lines = section(without_model("", said), "Last words")
    assert [line.split()[1] for line in lines] == ["u2", "a2", "u3", "a3", "u4", "a4", "u5", "a5"]
    assert len(lines[0]) == len("user: ") + 700


def test_errors_and_files_are_looked_for_in_the_beginning_of_a_long_text():
    near, far = "x " * 4_000 + "\nError: near.csv", "x " * 6_000 + "\nError: far.csv"
    summary = without_model("", [*round_of(near), *round_of(far)])
    assert section(summary, "Errors") == ["Error: near.csv"]
    assert section(summary, "Files") == ["near.csv"]


def test_a_summary_by_rule_has_at_most_8000_characters():
    rounds = [message for n in range(20) for message in round_of("r", arguments=f'{{"a": "{"x" * 80}"}}')]
    said = [message for n in range(9) for message in (user("y" * 2_000), assistant("z" * 900))]
    assert len(without_model("b" * 9_000, [*rounds, *said])) == 8_000


def test_the_focus_is_the_last_three_things_that_the_user_said():
    said = [
        user("one"),
        user("two"),
        steer("three " + "x" * 400),
        user("summary"),
        Message("user", "s", origin="summary"),
    ]
    assert focus(said) == f"two; {('three ' + 'x' * 400)[:260]}; summary"
    assert len(focus([user("y" * 300)] * 3)) == 700


@pytest.mark.parametrize(("length", "shown"), [(1_500, 1_500), (1_501, 1_200)])
def test_arguments_are_read_up_to_their_bound(length, shown):
    text = as_text(round_of("r", arguments="a" * length))
    assert ("a" * shown in text, "a" * (shown + 1) in text) == (True, False)


@pytest.mark.parametrize(("length", "left_out"), [(6_000, None), (6_001, "501")])
def test_a_long_message_is_read_by_its_ends(length, left_out):
    text = as_text([user("b" * length)])
    assert ("left out" in text) == (left_out is not None)
    if left_out:
        assert f"[… {left_out} characters left out …]" in text
        assert "b" * 4_000 in text
        assert "b" * 4_001 not in text


def test_pictures_have_a_label():
    picture = Message("user", ({"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:"}}))
    assert as_text([picture]) == "[USER] look\n[picture]"


def test_the_fixed_costs_of_messages_calls_and_pictures():
    meter = TokenMeter()
    assert meter.message(user("")) == 4
    call = round_of("", arguments="{}")[0]
    assert meter.message(call) == 4 + 10 + estimate("read") + estimate("{}")
    assert tokens.IMAGE == 1_500


@pytest.mark.parametrize("tag", ["think", "thinking", "reasoning"])
def test_thinking_in_any_of_its_tags_is_no_part_of_a_summary(tag):
    assert cleaned(f"<{tag}>hm</{tag}>\n## Done <{tag}>or not</{tag}>1. read") == "## Done 1. read"
    assert cleaned(f"so far <{tag}>never closed") == "so far"


@pytest.mark.parametrize("line", ["Error: no", "an exception came", "it failed", "Traceback (most recent call last)"])
def test_a_line_that_speaks_of_an_error_is_listed(line):
    assert section(without_model("", round_of(f"fine\n{line}\nfine")), "Errors") == [line]


def test_messages_that_just_fit_are_one_portion():
    messages = [user("one two three"), assistant("four five six")]
    together = sum(map(cost, messages))
    assert [len(portion) for portion in portions(messages, together)] == [2]
    assert [len(portion) for portion in portions(messages, together - 1)] == [1, 1]


@pytest.mark.parametrize(("before", "found"), [(9_994, True), (9_995, False)])
def test_ten_thousand_characters_of_a_result_are_searched_for_errors(before, found):
    summary = without_model("", round_of("x" * before + "\nerror"))
    assert ("## Errors" in summary) == found


@pytest.mark.parametrize(("length", "listed"), [(200, True), (201, False)])
def test_a_path_of_two_hundred_characters_is_a_file(length, listed):
    path = "/" + "d" * (length - len("/.csv")) + ".csv"
    assert ("## Files" in without_model("", [user(f"see {path}")])) == listed
