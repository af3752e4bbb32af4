"""Making messages smaller without a model."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.policies.pruning import DUPLICATE, cut_results, groups, prune
from hermes_nb.policies.tokens import TokenMeter
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.histories import assistant, fault_in_pairs, histories, round_of, steer, user


def size(message: Message) -> int:
    return len(message.text) + sum(len(call.arguments) for call in message.tool_calls)


def test_a_call_and_all_its_results_are_one_group_steers_included():
    history = [user("q"), *round_of("a", "b", "c"), steer("hurry"), assistant("done"), user("more"), *round_of("d")]
    assert [len(group) for group in groups(history)] == [1, 5, 1, 1, 2]


def test_an_old_result_becomes_one_line_that_tells_its_call():
    text = "Population of Lyon: 522250\n" + "more\n" * 200
    history = round_of(text, name="read_file", arguments='{"path": "lyon.txt"}')
    [_, result] = prune(history, size=size, room=0)
    assert result.content == (
        '[read_file({"path": "lyon.txt"}) gave 1,027 characters, beginning: Population of Lyon: 522250]'
    )
    assert (result.tool_call_id, result.name) == (history[1].tool_call_id, "read_file")


def test_one_line_shows_80_characters_of_the_arguments_and_of_the_result():
    history = round_of("b" * 300, arguments=json.dumps({"a": "a" * 200}))
    [_, result] = prune(history, size=size, room=0)
    assert result.content == f'[read({{"a": "{"a" * 73}…) gave 300 characters, beginning: {"b" * 80}]'
    exact = round_of("b" * 300, arguments=f'{{"a": "{"a" * 71}"}}')
    assert "…" not in prune(exact, size=size, room=0)[1].content


def test_messages_that_just_fit_are_left_alone():
    history = round_of("x" * 1_000)
    assert prune(history, size=size, room=sum(map(size, history))) == history
    assert cut_results(history, size=size, room=sum(map(size, history))) == history


def test_texts_of_200_characters_in_arguments_are_left_alone():
    arguments = json.dumps({"short": "x" * 200, "long": "y" * 201, "much": "z" * 500})
    [call, _] = prune(round_of("ok", arguments=arguments), size=size, room=0)
    cut = json.loads(call.tool_calls[0].arguments)
    assert cut["short"] == "x" * 200
    assert cut["long"] == "y" * 200 + "… (1 more characters)"


def test_short_results_are_left_alone():
    history = round_of("x" * 200, "y" * 201)
    [_, short, long] = prune(history, size=size, room=0)
    assert short is history[1]
    assert long.content.startswith("[read(")


def test_the_newest_of_equal_results_stays_and_the_older_say_so():
    same = "the same text " * 30
    history = [*round_of(same), *round_of(same), *round_of(same)]
    pruned = prune(history, size=size, room=sum(map(size, history)) - 300)
    assert [message.content for message in pruned if message.role == "tool"] == [DUPLICATE, same, same]


@pytest.mark.parametrize(("length", "told"), [(199, False), (200, True)])
def test_equal_results_of_200_characters_are_told_to_be_equal(length, told):
    first, second = round_of("x" * length), round_of("x" * length)
    [_, older, *_] = prune([*first, *second], size=size, room=0)
    assert (older.content == DUPLICATE) == told


def test_protected_messages_are_not_touched_not_even_duplicates():
    same = "the same text " * 30
    history = [*round_of(same), *round_of(same), *round_of(same)]
    pruned = prune(history, size=size, room=0, protect=4)
    assert pruned[2:] == history[2:]
    assert pruned[1].content == DUPLICATE


def test_long_arguments_are_cut_and_still_valid_json():
    arguments = json.dumps({"path": "a.py", "content": "line\n" * 500, "nested": [{"text": "é" * 900}], "n": 3})
    [call, _] = prune(round_of("ok", arguments=arguments), size=size, room=0)
    cut = json.loads(call.tool_calls[0].arguments)
    assert (cut["path"], cut["n"]) == ("a.py", 3)
    assert cut["content"] == "line\n" * 40 + "… (2,300 more characters)"
    assert cut["nested"][0]["text"] == "é" * 200 + "… (700 more characters)"


@pytest.mark.parametrize(("length", "cut"), [(500, False), (501, True)])
def test_arguments_are_cut_when_they_have_more_than_500_characters(length, cut):
    arguments = json.dumps({"content": "x" * (length - len('{"content": ""}'))})
    assert len(arguments) == length
    [call, _] = prune(round_of("ok", arguments=arguments), size=size, room=0)
    assert (call.tool_calls[0].arguments != arguments) == cut


def test_arguments_that_are_no_json_are_left_alone():
    message = Message("assistant", tool_calls=(ToolCall("1", "write", '{"content": "' + "x" * 900),))
    assert prune([message], size=size, room=0) == [message]


def test_nothing_more_is_replaced_than_must_be():
    history = [message for n in range(10) for message in round_of(f"{n} " + "x" * 1_000)]
    total = sum(map(size, history))
    pruned = prune(history, size=size, room=total - 1_500)
    digests = [message.role == "tool" and message.content.startswith("[") for message in pruned]
    assert digests == [False, True, False, True] + [False] * 16


def test_pictures_of_old_results_go_too():
    picture = ({"type": "text", "text": "a plot"}, {"type": "image_url", "image_url": {"url": "data:,"}})
    call, result = round_of("placeholder")
    pruned = prune([call, Message("tool", picture, tool_call_id=result.tool_call_id, name="plot")], size=size, room=-1)
    assert pruned[1].content == "[plot({}) gave 6 characters, beginning: a plot]"


def test_unread_results_are_cut_to_their_ends_the_largest_most():
    history = round_of("A" + "a" * 20_000 + "Z", "b" * 1_000)
    cut = cut_results(history, size=size, room=6_000)
    assert sum(map(size, cut)) <= 6_000
    assert cut[1].text.startswith("A")
    assert cut[1].text.endswith("Z")
    assert "left out" in cut[1].text
    assert cut[2] is history[2]


def test_two_thirds_of_what_is_left_are_the_beginning():
    [_, cut] = cut_results(round_of("a" * 500 + "z" * 500), size=size, room=900)
    assert cut.text == "a" * 500 + "\n[… 250 characters left out to save room …]\n" + "z" * 250


def test_a_result_that_is_200_characters_longer_than_the_others_may_be_stays_whole():
    history = round_of("a" * 1_000, "b" * 950)
    cut = cut_results(history, size=size, room=sum(map(size, history)) - 100)
    assert cut[1] is not history[1]
    assert cut[2] is history[2]


def test_unread_results_are_cut_by_a_quarter_at_a_time():
    history = round_of("a" * 10_000)
    assert 7_500 <= len(cut_results(history, size=size, room=9_000)[1].text) < 7_600
    assert 5_625 <= len(cut_results(history, size=size, room=7_000)[1].text) < 5_700


def test_results_that_have_twice_200_characters_are_short_enough_for_any_room():
    history = round_of("a" * 634, "b" * 360)  # the limits are 475, 356, 267 and 200
    cut = cut_results(history, size=size, room=0)
    assert len(cut[1].text) <= 400
    assert cut[2] is history[2]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(histories(), st.integers(0, 3_000), st.integers(0, 10))
def test_pruned_histories_keep_their_shape(history, room, protect):
    meter = TokenMeter()
    pruned = prune(history, size=meter.message, room=room, protect=protect)
    assert [m.role for m in pruned] == [m.role for m in history]
    assert not fault_in_pairs(pruned)
    assert meter.messages(pruned) <= meter.messages(history)
    assert pruned[len(pruned) - protect :] == history[len(history) - protect :]
    for message in pruned:
        for call in message.tool_calls:
            json.loads(call.arguments)
