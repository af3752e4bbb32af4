"""What a model reads of a value, and where the rest of it is."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import os
import pathlib
import uuid

import numpy as np
import pandas as pd
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.tools import results
from hermes_nb.tools.context import ToolContext
from hermes_nb.tools.definition import tool
from hermes_nb.tools.stored import result_reader
from hermes_nb.tools.toolbox import Toolbox
from tests.support.batches import ask, run_batch


class City(pydantic.BaseModel):
    name: str
    founded: dt.date


@dataclasses.dataclass
class Pair:
    a: int
    b: list[int]


class Colour(enum.Enum):
    RED = "red"


class Drawing:
    def _repr_png_(self) -> bytes:
        return b"\x89PNG"


class Broken:
    def __repr__(self) -> str:
        msg = "broken repr"
        raise RuntimeError(msg)

    def _repr_png_(self) -> bytes:
        msg = "broken picture"
        raise RuntimeError(msg)


class Opaque:
    def __repr__(self) -> str:
        return "<opaque>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "(no result)"),
        (True, "true"),
        (12345678901234567890123, "12345678901234567890123"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        ([1, "é", None], '[1, "é", null]'),
        ({"a": (1, 2), 3: {4}}, '{"a": [1, 2], "3": [4]}'),
        (City(name="Lyon", founded=dt.date(1, 1, 1)), '{"name": "Lyon", "founded": "0001-01-01"}'),
        (Pair(1, [2]), '{"a": 1, "b": [2]}'),
        (Colour.RED, "red"),
        (pathlib.PurePosixPath("/data"), "/data"),
        (uuid.UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        (decimal.Decimal("1.10"), "1.10"),
        (b"bytes", "bytes"),
        (b"\xff\x00", "b'\\xff\\x00'"),
        (Opaque(), "<opaque>"),
        ([Opaque()], '["<opaque>"]'),
        (Broken(), "<Broken that cannot be shown: RuntimeError>"),
        (np.int64(7), "7"),
        ([], "[]"),
        ("\ud800", "?"),
    ],
)
def test_values_become_text(value, text):
    shown = results.readable(value)
    assert shown == text
    shown.encode()


def test_data_frames_and_arrays_are_shown_by_their_short_repr():
    frame = pd.DataFrame({"n": range(100_000)})
    shown = results.readable(frame)
    assert "[100000 rows x 1 columns]" in shown
    assert len(shown) < 2_000
    assert len(results.readable(np.arange(1_000_000))) < 200
    assert "rows x" in json.loads(results.readable({"frame": frame}))["frame"]


def test_a_value_that_holds_itself_is_shown_somehow():
    ring: list = []
    ring.append(ring)
    assert results.readable(ring) == "[[...]]"


def test_content_parts_stay_parts_and_pictures_become_one():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    assert results.readable(parts) == tuple(parts)
    assert results.readable([{"type": "other"}]) == '[{"type": "other"}]'
    [picture] = results.readable(Drawing())
    assert picture["image_url"]["url"] == "data:image/png;base64,iVBORw=="


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.binary()
        | st.dates()
        | st.complex_numbers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
        max_leaves=10,
    )
)
def test_any_value_becomes_text_that_can_be_sent(value):
    shown = results.readable(value)
    if isinstance(shown, str):
        shown.encode("utf-8")


@pytest.mark.parametrize(
    ("window", "limits"),
    [
        (None, (100_000, 200_000)),
        (1_000_000, (100_000, 200_000)),
        (100_000, (60_000, 120_000)),
        (8_192, (8_000, 16_000)),
    ],
)
def test_limits_follow_the_window(window, limits):
    assert results.limits_for(window) == limits


def test_a_box_is_fitted_to_a_window_but_never_above_its_own_limits(tmp_path):
    box = Toolbox([tool(name="f")(lambda: 1)], result_limit=50_000, workers=3).fitted(100_000, tmp_path)
    assert (box.result_limit, box.batch_limit, box.workers, box.spill) == (50_000, 120_000, 3, tmp_path)


def test_long_parts_are_cut_and_keep_their_pictures(tmp_path):
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    short = results.shorten(({"type": "text", "text": "x" * 9_000}, picture), tmp_path)
    assert short.content[1] == picture
    assert len(short.content[0]["text"]) < 2_000


def test_a_long_result_shows_a_thousand_characters_of_its_beginning_and_half_of_that_of_its_end(tmp_path):
    cut = results.shorten("a" * 5_000 + "b" * 5_000, tmp_path).content
    assert (cut.count("a" * 1_000), cut.count("a" * 1_001)) == (1, 0)
    assert cut.endswith("\n" + "b" * 500)
    assert "the first 1,000 and the last 500." in cut
    assert "8,500 characters left out" in cut


def test_an_error_is_told_in_at_most_2000_characters_and_uses_them():
    alone = results.error_text("x" * 10_000)
    with_place = results.error_text("x" * 10_000, details="y" * 10_000)
    assert len(alone) <= 2_000
    assert alone.count("x") > 1_900
    assert len(with_place) <= 2_000
    assert with_place.count("x") == 999
    assert with_place.count("y") > 900


def test_an_exception_names_the_three_places_next_to_it():
    def level(depth):
        if depth == 0:
            raise LookupError("deep")
        level(depth - 1)

    try:
        level(9)
    except LookupError as error:
        told = json.loads(results.exception_text(error))

    assert told["error"] == "[TOOL_ERROR] LookupError: deep"
    places = told["traceback"].splitlines()
    assert len(places) == 3
    assert 'raise LookupError("deep")' in places[-1]


def test_equal_texts_share_one_file_and_no_part_file_is_left(tmp_path):
    first, second = results.store("text\r\n", tmp_path)[0], results.store("text\r\n", tmp_path)[0]
    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == [pathlib.Path(first).name]
    assert pathlib.Path(first).read_bytes() == b"text\r\n"


def test_the_model_reads_the_rest_of_a_long_result_piece_by_piece(tmp_path):
    text = "".join(f"{n:08}\n" for n in range(20_000))
    box = Toolbox([tool(name="long")(lambda: text)], spill=tmp_path)
    assert [spec.name for spec in box.offered(shortened=False)] == ["long"]
    assert [spec.name for spec in box.offered(shortened=True)] == ["long", "read_result"]
    [cut] = run_batch(box, ask("long")).results
    [piece] = run_batch(box, ask("read_result", file=cut.stored_at, start=9_000, characters=18)).results
    assert piece.content == "[Characters 9,000 to 9,018 of 180,000.]\n00001000\n00001001\n"


@pytest.mark.parametrize("around", ["{}", "`{}`;", "file {}.", "./elsewhere/{}", '"{}"'])
def test_the_name_of_a_stored_result_may_be_given_in_any_way(tmp_path, around):
    name = pathlib.Path(results.store("the whole text", tmp_path)[0]).name
    read = result_reader()
    assert read(ToolContext(directory=tmp_path), around.format(name), 4, 5) == "[Characters 4 to 9 of 14.]\nwhole"


def test_the_model_reads_eight_thousand_characters_from_the_beginning_if_it_does_not_say_more(tmp_path):
    text = "".join(map(str, range(10_000)))
    path, _ = results.store(text, tmp_path)
    told = result_reader()(ToolContext(directory=tmp_path), path)
    assert told == f"[Characters 0 to 8,000 of {len(text):,}.]\n{text[:8_000]}"
    assert result_reader().options.result_limit == 21_000


def test_at_most_20000_characters_are_read_at_once(tmp_path):
    stored = results.store("x" * 50_000, tmp_path)[0]
    read = result_reader()
    assert read(ToolContext(directory=tmp_path), stored, 0, 10**9).startswith("[Characters 0 to 20,000 of 50,000.]")


@pytest.mark.parametrize(
    "file", ["../secret.txt", "/etc/passwd", "secret.txt", "", "0" * 20 + ".txt", "a" * 20 + ".txt/../../secret.txt"]
)
def test_the_model_reads_nothing_else(tmp_path, file):
    (tmp_path / "secret.txt").write_text("swordfish")
    box = Toolbox([tool(name="long")(lambda: 1)], spill=tmp_path / "results")
    [result] = run_batch(box, ask("read_result", file=file)).results
    assert (result.status, result.error_type) == ("error", "not_found")
    assert "swordfish" not in result.content


def test_a_tool_of_the_users_own_keeps_its_name(tmp_path):
    box = Toolbox([tool(name="read_result")(lambda: "mine")], spill=tmp_path)
    assert run_batch(box, ask("read_result")).texts == ["mine"]


# --------------------------------------------------------------------------------------------- how many are kept


@pytest.fixture
def small_store(tmp_path, monkeypatch):
    """A store with room for four results of 100,000 characters."""
    monkeypatch.setattr(results, "STORE_LIMIT", 420_000)
    return tmp_path / "results"


def long_result(store: pathlib.Path, conversation: str, letter: str):
    """A batch of one call in this conversation, whose result is too long."""
    long = tool(name="long", result_limit=1_000)(lambda: letter * 100_000)
    return run_batch([long], ask("long"), spill=store / conversation)


def used(stored_at: str, day: int) -> None:
    """Make it look as if the file was used for the last time on this day."""
    os.utime(stored_at, (day * 86_400, day * 86_400))


def test_the_store_stays_within_its_bound_and_says_what_was_deleted(small_store):
    stored = {}
    for day, letter in enumerate("abcd", 1):
        stored[letter] = long_result(small_store, f"conversation {letter}", letter).results[0].stored_at
        used(stored[letter], day)
    context = ToolContext(directory=small_store / "conversation a")
    assert result_reader()(context, stored["a"], 0, 5).endswith("aaaaa")  # used again: it is not the oldest any more

    batch = long_result(small_store, "conversation e", "e")
    assert not pathlib.Path(stored["b"]).parent.exists()
    assert all(pathlib.Path(stored[letter]).exists() for letter in "acd")
    assert pathlib.Path(batch.results[0].stored_at).exists()
    assert "1 stored results of other conversations were deleted" in batch.told("degraded")[0].detail


def test_a_result_that_was_deleted_is_said_to_be(small_store):
    first = long_result(small_store, "first", "a").results[0].stored_at
    used(first, 1)
    for letter in "bcde":
        long_result(small_store, "second", letter)

    box = Toolbox([tool(name="long")(lambda: 1)], spill=small_store / "first")
    [result] = run_batch(box, ask("read_result", file=first)).results
    assert (result.status, result.error_type) == ("error", "not_found")
    assert "deleted to make room" in result.content


def test_a_conversation_keeps_its_own_results_and_says_when_no_more_fit(small_store):
    batches = [long_result(small_store, "one", letter) for letter in "abcde"]
    stored = [batch.results[0].stored_at for batch in batches]

    assert all(pathlib.Path(path).exists() for path in stored[:4])
    assert stored[4] == ""
    assert "could not be kept" in batches[4].texts[0]
    assert [what.part for what in batches[4].told("degraded")] == ["tool"]


def test_nothing_but_stored_results_is_ever_deleted(small_store):
    (small_store / "one").mkdir(parents=True)
    for name in ("notes.txt", "a" * 20 + ".csv", "b" * 19 + ".txt"):
        (small_store / "one" / name).write_text("x" * 500_000)
        used(small_store / "one" / name, 1)
    long_result(small_store, "two", "a")

    assert len(list((small_store / "one").iterdir())) == 3


def test_the_store_may_be_as_full_as_its_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "STORE_LIMIT", 100)
    mine, other = tmp_path / "mine", tmp_path / "other"
    other.mkdir()
    (other / f"{'a' * 20}.txt").write_bytes(b"x" * 60)
    assert results.make_room(mine, 40) == 0
    assert results.make_room(mine, 41) == 1
    mine.mkdir()
    (mine / f"{'b' * 20}.txt").write_bytes(b"x" * 60)
    assert results.make_room(mine, 40) == 0
    with pytest.raises(OSError, match="fill the 100 bytes"):
        results.make_room(mine, 41)


def test_an_error_of_two_hundred_characters_is_told_whole_on_a_span():
    assert results.in_short("x" * 200) == "x" * 200
    assert results.in_short("x" * 201) == "x" * 199 + "…"
