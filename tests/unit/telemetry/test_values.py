"""Whatever people put into metadata and parameters becomes something that every exporter can write."""

from __future__ import annotations

import datetime as dt
import json
import logging
import math
from decimal import Decimal

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from hermes_nb.telemetry.values import clean, clean_items

STRANGE = {
    "a": None,
    "b": {"c": 1},
    "d": [1, "x", None],
    "e": Decimal("1.2"),
    "f": np.float32(1),
    "g": dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC),
    "h": float("nan"),
    "i": 2**70,
    "j": b"\xff",
    "": 1,
    5: 6,
}
"""What people were seen to put there."""

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals() | st.datetimes(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=12,
)


def test_strange_metadata_becomes_plain_attributes():
    assert clean_items(STRANGE, "m.") == {
        "m.b": '{"c":1}',
        "m.d": '[1,"x",null]',
        "m.e": "1.2",
        "m.f": 1.0,
        "m.g": "2026-11-30 12:00:00+00:00",
        "m.h": "nan",
        "m.i": str(2**70),
        "m.j": "\\xff",
    }


def test_bad_keys_are_left_out_with_one_note(caplog):
    caplog.set_level(logging.INFO, "hermes_nb")

    clean_items(STRANGE)

    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "['', 5]" in caplog.text


def test_numpys_scalars_become_numbers():
    assert [type(clean(value)) for value in (np.int8(3), np.float64(2), np.bool_(True), np.str_("x"))] == [
        int, float, bool, np.str_,
    ]  # fmt: skip
    assert clean([np.int64(1), np.int64(2)]) == (1, 2)


def test_a_list_of_one_kind_stays_a_list():
    assert clean(["a", "b"]) == ("a", "b")
    assert clean([True, False]) == (True, False)
    assert clean([]) == ()


def test_what_contains_itself_ends():
    ring: dict = {}
    ring["again"] = ring

    assert "again" in clean(ring)


def test_an_object_that_cannot_be_shown_is_named():
    class Mute:
        def __str__(self):
            raise RuntimeError

    assert "Mute" in clean(Mute())


def test_an_object_that_answers_nothing_is_named_wherever_it_stands():
    class Stubborn:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __bool__(self):
            raise RuntimeError

        __str__ = __bool__

    shown = clean_items({"label": Stubborn(), "list": [Stubborn()], "nested": {"x": Stubborn()}, "api_key": Stubborn()})

    assert len(shown) == 4
    assert all("Stubborn" in text or text in ("<list>", "<dict>") for text in shown.values())


@settings(deadline=None)
@given(st.dictionaries(st.text() | st.integers() | st.none(), anything))
def test_any_value_survives_the_sdk_without_a_word_and_strict_json(values):
    heard = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = heard.append
    logging.getLogger("opentelemetry").addHandler(handler)
    try:
        span = TracerProvider(shutdown_on_exit=False).get_tracer("t").start_span("s", attributes=clean_items(values))
        span.end()
    finally:
        logging.getLogger("opentelemetry").removeHandler(handler)

    shown = dict(span.attributes)
    assert heard == []
    assert shown == clean_items(values)
    for value in shown.values():
        assert not isinstance(value, float) or math.isfinite(value)
        assert isinstance(value, bool) or not isinstance(value, int) or -(2**63) <= value < 2**63
    json.dumps(shown, allow_nan=False)


def test_what_is_called_a_key_is_not_shown():
    given = {"api_key": "abc", "nested": {"password": "abc", "max_tokens": 5}, "tokens": "abc"}

    assert clean_items(given) == {
        "api_key": "[redacted]",
        "nested": '{"password":"[redacted]","max_tokens":5}',
        "tokens": "abc",
    }
