"""Tool calls in every form in which servers stream them."""

from __future__ import annotations

import pytest

from hermes_nb.vocabulary.failures import FailureReason as R
from tests.support.asking import chat, fail
from tests.support.chunks import END, asked, delta, made, part
from tests.support.server import Server, stream, text_chunks


def test_a_call_without_an_index():
    assert made(part(id="1", name="f"), part('{"a"'), part(":1}"), END) == [("f", '{"a":1}')]


def test_two_calls_without_an_index():
    assert made(part(id="1", name="f"), part('{"a":1}'), part(id="2", name="g"), part('{"b"'), part(":2}"), END) == [
        ("f", '{"a":1}'), ("g", '{"b":2}')]  # fmt: skip


def test_two_calls_side_by_side_without_an_index():
    both = [delta(tool_calls=[{"id": "1", "function": {"name": "f"}}, {"id": "2", "function": {"name": "g"}}])]
    both += [
        delta(tool_calls=[{"function": {"arguments": one}}, {"function": {"arguments": two}}])
        for one, two in (('{"a"', '{"b"'), (":1}", ":2}"))
    ]
    assert made(*both, END) == [("f", '{"a":1}'), ("g", '{"b":2}')]


def test_two_named_calls_in_one_chunk_without_index_or_id():
    assert made(delta(tool_calls=[{"function": {"name": "f"}}, {"function": {"name": "g"}}]), END) == [
        ("f", "{}"),
        ("g", "{}"),
    ]


def test_an_index_that_begins_at_one():
    assert made(part(index=1, id="1", name="f"), part('{"a":1}', index=1), END) == [("f", '{"a":1}')]


def test_an_index_that_goes_missing():
    assert made(part(index=0, id="1", name="f"), part('{"a":1}'), END) == [("f", '{"a":1}')]


def test_an_index_that_changes_under_way():
    assert made(part(index=0, id="1", name="f"), part('{"a":1}', index=1), END) == [("f", '{"a":1}')]


def test_one_index_for_several_calls():
    assert made(part('{"a":1}', index=0, id="1", name="f"), part('{"a":2}', index=0, id="2", name="f"), END) == [
        ("f", '{"a":1}'),
        ("f", '{"a":2}'),
    ]
    assert made(part('{"a":1}', index=0, name="f"), part('{"a":2}', index=0, name="f"), END) == [
        ("f", '{"a":1}'),
        ("f", '{"a":2}'),
    ]
    assert made(part(index=0, id="1", name="f"), part(index=0, id="2", name="g"), END) == [("f", "{}"), ("g", "{}")]


def test_one_id_for_several_calls():
    reply = asked(part('{"a":1}', index=0, id="x", name="f"), part('{"a":2}', index=1, id="x", name="f"), END)
    assert [c.arguments for c in reply.tool_calls] == ['{"a":1}', '{"a":2}']
    assert len({c.id for c in reply.tool_calls}) == 2


@pytest.mark.parametrize("identity", ["", None])
def test_calls_without_an_id_get_one(identity):
    reply = asked(part('{"a":1}', index=0, id=identity, name="f"), part('{"a":2}', index=1, id=identity, name="f"), END)
    ids = {c.id for c in reply.tool_calls}
    assert len(ids) == 2
    assert all(ids)


def test_an_id_that_is_new_in_each_piece():
    assert made(*(part(piece, index=0, id=str(i), name="f") for i, piece in enumerate(('{"a"', ":1", "}"))), END) == [
        ("f", '{"a":1}')
    ]
    assert made(part(id="1", name="f"), part('{"a"', id="2"), part(":1}", id="3"), END) == [("f", '{"a":1}')]


def test_a_name_that_is_repeated():
    assert made(
        part('{"a"', index=0, id="1", name="f"),
        part(":1", index=0, id="1", name="f"),
        part("}", index=0, id="1", name="f"),
        END,
    ) == [("f", '{"a":1}')]


def test_a_name_that_is_repeated_without_index_or_id():
    assert made(part('{"a"', name="f"), part(":1", name="f"), part("}", name="f"), END) == [("f", '{"a":1}')]


def test_a_name_in_pieces_and_a_name_that_grows():
    assert made(part(index=0, id="1", name="get_"), part(index=0, name="weather"), part("{}", index=0), END) == [
        ("get_weather", "{}")
    ]
    assert made(part(index=0, id="1", name="get_"), part(index=0, name="get_weather"), END) == [("get_weather", "{}")]


def test_a_whole_call_that_is_repeated_at_the_end_runs_once():
    again = part('{"a":1}', index=0, id="1", name="f")
    assert made(part('{"a"', index=0, id="1", name="f"), part(":1}", index=0), again, END) == [("f", '{"a":1}')]


def test_a_placeholder_before_the_arguments():
    assert made(part("{}", index=0, id="1", name="f"), part('{"a":', index=0), part("1}", index=0), END) == [
        ("f", '{"a":1}')
    ]


def test_arguments_as_an_object():
    assert made(part({"a": 1}, index=0, id="1", name="f"), END) == [("f", '{"a": 1}')]


def test_a_function_call_of_the_old_form():
    assert made(
        delta(function_call={"name": "f", "arguments": ""}), delta(function_call={"arguments": '{"a":1}'}), END
    ) == [("f", '{"a":1}')]


def test_one_call_that_is_no_list():
    assert made(delta(tool_calls={"id": "1", "function": {"name": "f", "arguments": '{"a":1}'}}), END) == [
        ("f", '{"a":1}')
    ]


def test_a_call_without_a_name_is_no_call():
    assert asked(part('{"a":1}', index=0, id="1"), *text_chunks("hi", finish="stop")).tool_calls == ()
    with Server(stream(part('{"a":1}', index=0, id="1"), part(index=1, id="2", name="  "), END)) as server:
        assert fail(chat(server)).reason == R.MALFORMED_REPLY


def test_broken_arguments_stay_broken():
    assert made(part('{"a": 1', index=0, id="1", name="f"), END) == [("f", '{"a": 1')]


def test_a_call_cut_off_by_the_cap_keeps_its_reason():
    reply = asked(part('{"a": "x', index=0, id="1", name="f"), {"choices": [{"delta": {}, "finish_reason": "length"}]})
    assert (reply.finish_reason, reply.tool_calls[0].arguments) == ("length", '{"a": "x')
