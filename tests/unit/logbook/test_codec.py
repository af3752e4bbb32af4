"""What is written can be read back, whatever it is."""

from __future__ import annotations

import copy
import json
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.logbook import Logbook
from hermes_nb.logbook.codec import KINDS, LONG, Encoder, build, dumps, loads
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, ToolSpec, Usage

texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "日本語", "a\0b", "lone \ud800 surrogate", '{"$text": "x"}', "x" * (LONG + 1), "\ud800" * LONG]
    ),
)
jsons = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.integers(2**64, 2**90), texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    texts.map(lambda text: {"type": "image_url", "image_url": {"url": text}}),
)
contents = st.one_of(texts, st.lists(parts, min_size=1, max_size=3).map(tuple))
calls = st.builds(ToolCall, texts, texts, texts)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool"]),
    contents,
    st.lists(calls, max_size=3).map(tuple),
    st.one_of(st.none(), texts),
    st.one_of(st.none(), texts),
    texts,
    st.sampled_from(["", "steer", "summary", "continuation", "closing"]),
    st.dictionaries(texts, jsons, max_size=2),
)
usages = st.builds(Usage, *[st.integers(0, 10**9)] * 5)
specs = st.builds(ToolSpec, texts, texts, st.dictionaries(texts, jsons, max_size=2))
replies = st.builds(
    Reply, messages, st.sampled_from(["stop", "length", "unknown"]), st.one_of(st.none(), usages), texts, texts,
    others=st.lists(st.tuples(texts, texts, usages), max_size=2).map(tuple),
)  # fmt: skip
failures = st.builds(
    Failure, st.sampled_from(FailureReason), texts, texts, texts, st.one_of(st.none(), st.integers(100, 599)),
    limit=st.one_of(st.none(), st.integers(1, 10**6)), partial=st.one_of(st.none(), messages),
)  # fmt: skip
histories = st.lists(messages, max_size=4).map(tuple)
scopes = st.one_of(
    st.builds(events.Chat, texts, texts, messages=histories, tools=st.lists(specs, max_size=2).map(tuple)),
    st.builds(events.Attempt, st.integers(1, 9), st.integers(1, 9), texts, texts, st.floats(0, 60)),
    st.builds(events.Tool, texts, texts, texts),
    st.builds(events.Compression, st.just("manual"), texts, st.integers(0, 9), st.integers(0, 9)),
)
whole_turns = st.builds(events.Turn, texts, texts, texts, contents, settings=st.dictionaries(texts, jsons, max_size=2))
points = st.one_of(
    st.builds(events.MessageAdded, messages, st.integers(0, 9), st.booleans()),
    st.builds(events.HistoryReplaced, histories),
    st.builds(events.SystemPrompt, texts),
    st.builds(events.Steered, st.integers(1, 9), texts, st.just("queued"), texts),
    st.builds(events.Degraded, st.just("guard"), texts),
    st.builds(events.Forked, st.integers(0, 9), texts, settings=st.dictionaries(texts, jsons, max_size=2)),
)
_ends = {
    "reply": replies, "refused": replies, "failure": failures, "result": contents, "error": texts, "usage": usages,
}  # fmt: skip
ends = st.fixed_dictionaries({}, optional=_ends)


def tell(recorder: Recorder, plan) -> None:
    for what, end in plan:
        if not isinstance(what, get_args(events.Scoped)):
            recorder.tell(what)
            continue
        with recorder.scope(what):
            for name, value in end.items():
                if hasattr(what, name):
                    setattr(what, name, value)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(turn=whole_turns, plan=st.lists(st.tuples(st.one_of(scopes, points), ends), max_size=6))
def test_every_event_comes_back_as_it_was_told(turn, plan):
    told: list[events.Event] = []
    with tempfile.TemporaryDirectory() as place, Logbook(Path(place) / "logbook.db") as logbook:
        sink = logbook.sink(told.append)
        recorder = Recorder("turn", "talk", [sink, lambda event: told.append(copy.deepcopy(event))])
        with recorder.scope(copy.deepcopy(turn)):
            tell(recorder, copy.deepcopy(plan))

        assert list(logbook.events("turn")) == told


class Unsayable:
    """An object of a user's that breaks whoever wants to write it down."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


def test_what_json_cannot_hold_becomes_a_text():
    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    hostile = [circle, deep, object(), float("nan"), b"\xff", {5: {1, 2}}, {(1, 2): 3}, "\ud800", len]
    hostile += [{"when": pd.NaT}, Unsayable()]

    kept = [json.loads(dumps([value]), parse_constant=pytest.fail) for value in hostile]

    assert all(isinstance(one, list) for one in kept)
    assert kept[7] == ["\ud800"]


def test_a_long_text_is_kept_once():
    encoder = Encoder()
    long = "x" * LONG

    kept = [encoder.plain(Message("user", long)), encoder.plain(Message("tool", long, tool_call_id="1"))]

    assert list(encoder.texts.values()) == [long]
    assert long not in dumps(kept)
    assert [build(Message, loads(dumps(one), encoder.texts.get)).content for one in kept] == [long, long]


def test_fields_and_kinds_of_a_newer_version_are_left_out():
    assert build(Message, {"role": "user", "content": "hi", "mood": "good"}) == Message("user", "hi")


def test_every_kind_of_event_can_be_read():
    assert set(KINDS.values()) == set(get_args(events.What))
    assert all(fields(cls) for cls in KINDS.values())
