"""What a run keeps of its events for those who come later."""

from __future__ import annotations

from hermes_nb.turn.memory import Memory
from hermes_nb.vocabulary import events


def told(memory: Memory, turn: str, phase: str, what) -> None:
    seq = len(memory.events) + 1
    memory(events.Event(seq, phase, seq, turn, "conversation", 1, 1, 0, what))


def pieces(memory: Memory) -> list[str]:
    return [event.what.text for event in memory.events if isinstance(event.what, events.Delta)]


def test_pieces_of_a_reply_are_kept_until_it_is_complete():
    memory = Memory()
    told(memory, "a", "started", events.Chat("p", "m"))
    for text in ("one ", "two"):
        told(memory, "a", "point", events.Delta(text))
    assert pieces(memory) == ["one ", "two"]
    told(memory, "a", "ended", events.Chat("p", "m"))

    assert pieces(memory) == []
    assert [event.what.kind for event in memory.events] == ["chat", "chat"]


def test_the_end_of_one_agents_reply_leaves_the_pieces_of_anothers():
    memory = Memory()
    for turn in "ab":
        told(memory, turn, "started", events.Chat("p", "m"))
    for text in ("one ", "two"):
        for turn in "ab":
            told(memory, turn, "point", events.Delta(f"{turn}: {text}"))
    told(memory, "a", "ended", events.Chat("p", "m"))
    assert pieces(memory) == ["b: one ", "b: two"]
    told(memory, "b", "point", events.Delta("b: three"))
    told(memory, "b", "ended", events.Chat("p", "m"))

    assert pieces(memory) == []
    assert len(memory.events) == 4
