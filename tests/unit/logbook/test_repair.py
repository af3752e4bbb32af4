"""Histories as the next request may carry them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.logbook.records import Row
from hermes_nb.logbook.repair import CUT_OFF, NOT_STARTED, UNFINISHED, sendable
from hermes_nb.logbook.schema import TURN
from hermes_nb.turn.prompting import Wire
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.pairing import problems

U, A = Message("user", "u"), Message("assistant", "a")


def rows(*turns: list[Message]) -> list[Row]:
    return [
        Row(turn << TURN | number, number, message)
        for turn, messages in enumerate(turns, 1)
        for number, message in enumerate(messages, 1)
    ]


def asking(*ids: str) -> Message:
    return Message("assistant", "", tuple(ToolCall(one, "tool") for one in ids))


def result(one: str, text: str = "ok") -> Message:
    return Message("tool", text, tool_call_id=one, name="tool")


def test_a_killed_batch_is_answered_in_order_and_honestly():
    stored = rows([U, asking("1", "2", "3"), result("1")])

    messages = sendable(stored, {1: "cut off"}, {"1", "2"})

    assert [(m.tool_call_id, m.text) for m in messages if m.role == "tool"] == [
        ("1", "ok"), ("2", UNFINISHED), ("3", NOT_STARTED),
    ]  # fmt: skip
    assert messages[-1] == Message("assistant", CUT_OFF, origin="closing")


def test_results_that_came_out_of_order_are_put_in_order():
    messages = sendable(rows([U, asking("1", "2"), result("2"), result("1"), A]), {}, ())

    assert [m.tool_call_id for m in messages] == [None, None, "1", "2", None]


def test_a_failed_turns_prompt_is_left_out_and_an_interrupted_ones_is_not():
    stored = rows([U, A], [Message("user", "failed")], [Message("user", "interrupted")])

    assert [m.text for m in sendable(stored, {2: "failed"}, ())] == ["u", "a", "interrupted"]


def test_a_killed_turns_prompt_stays_with_a_word_that_closes_it():
    assert [m.text for m in sendable(rows([U]), {1: "cut off"}, ())] == ["u", CUT_OFF]


def test_what_a_failed_turn_has_done_stays():
    stored = rows([U, asking("1"), result("1")])

    assert [m.role for m in sendable(stored, {1: "failed"}, ())] == ["user", "assistant", "tool", "assistant"]


def test_a_given_history_is_not_the_turns_own_prompt():
    given_, own = Message("user", "a document"), Message("user", "the prompt")
    stored = [Row(1 << TURN | 1, 0, given_), Row(1 << TURN | 2, 3, own)]

    assert sendable(stored, {1: "failed"}, ()) == (given_,)


def test_a_request_to_go_on_without_an_answer_is_left_out():
    go_on = Message("user", "Go on.", origin="continuation")

    assert sendable(rows([U, A, go_on]), {1: "cut off"}, ()) == (U, A)


@st.composite
def turns(draw) -> list[Message]:
    """A turn that stopped anywhere."""
    number = draw(st.integers(0, 10**9))
    messages = [Message("user", draw(st.sampled_from(["one", "two"])))]
    for index in range(draw(st.integers(0, 3))):
        ids = [f"{number}-{index}-{one}" for one in range(draw(st.integers(1, 3)))]
        messages += [asking(*ids), *map(result, ids)]
        if draw(st.booleans()):
            messages.append(Message("user", "note", origin="steer"))
    messages.append(A)
    return messages[: draw(st.integers(1, len(messages)))]


@given(st.lists(st.tuples(turns(), st.sampled_from(["failed", "cut off"])), max_size=4), st.booleans())
def test_a_history_cut_anywhere_is_valid_with_the_next_prompt(stopped, begun):
    stored = rows(*(messages for messages, _ in stopped))
    fates = {number: fate for number, (_, fate) in enumerate(stopped, 1)}
    ids = {call.id for row in stored for call in row.message.tool_calls} if begun else set()

    messages = sendable(stored, fates, ids)
    wire = Wire((*messages, U)).request("You.")

    assert problems(wire) == []
    assert sendable(rows([*messages]), {}, ()) == messages, "a repaired history needs no repair"
    assert wire[-1].text == "u", "the next prompt stands alone"
