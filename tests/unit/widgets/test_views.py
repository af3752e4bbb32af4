"""Text from models, tools and users in every view: bounded, harmless, readable."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_nb.widgets import safe, wire, words
from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.record import HEIGHT, TINTS, html, prose
from hermes_nb.widgets.text import heading, plain
from tests.support.hostile import HOSTILE, poisoned
from tests.support.story import everything

ALLOWED = {
    "div",
    "span",
    "b",
    "table",
    "colgroup",
    "col",
    "tbody",
    "tr",
    "td",
    "details",
    "summary",
    "code",
    "samp",
    "i",
}


class Elements(HTMLParser):
    """The elements of a page and their attributes; and its text."""

    def __init__(self, page):
        super().__init__()
        self.found, self.text, self.depth = [], "", []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag != "col":
            self.depth.append(tag)

    def handle_endtag(self, tag):
        assert self.depth.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_stays_text_in_the_record(name):
    snapshot = Snapshot().after_all(poisoned(HOSTILE[name]))
    page = html(snapshot, time.time_ns())
    elements = Elements(page)
    assert not elements.depth
    assert {tag for tag, _ in elements.found} <= ALLOWED
    assert {key for _, attributes in elements.found for key in attributes} <= {
        "style", "title", "class", "dir", "open", "colspan", "width",
    }  # fmt: skip
    assert not safe._UNSEEN.search(page)
    assert len(page) < 1_000_000
    page.encode()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_bounded_and_harmless_in_a_terminal_and_on_the_wire(name):
    told = poisoned(HOSTILE[name])
    for number in range(len(told)):
        snapshot = Snapshot().after_all(told[: number + 1])
        text = plain(snapshot, time.time_ns())
        assert "\x1b" not in text
        assert not safe._UNSEEN.search(text)
    sent = json.dumps([wire.head(snapshot), *map(wire.row, snapshot.rows), *map(wire.bar, snapshot.bars)])
    assert len(sent) < 600_000
    assert not safe._UNSEEN.search(sent.encode().decode("unicode_escape", "surrogatepass"))


def test_what_was_taken_out_leaves_a_mark():
    assert safe.clean(HOSTILE["direction"]) == "user\ufffdgnp.exe\ufffd \ufffdisolated\ufffd"
    assert safe.clean("\x1b[1mbold\x1b[0m") == "bold"
    assert safe.clean("a\r\nb\rc\u2028d\te") == "a\nb\nc\nd\te"


def test_right_to_left_text_and_emoji_stay_as_they_are():
    text = "שלום, עולם 👩‍🔬 مرحبا"
    assert safe.clean(text) == text
    assert safe.clean("\u200f" + text) == "\u200f" + text


def test_a_long_text_keeps_its_beginning_and_its_end():
    text = safe.bounded("a" * 500 + "b" * 500, 100)
    assert text.startswith("a" * 75)
    assert text.endswith("b" * 25)
    assert "900 characters left out" in text


@settings(deadline=None)
@given(st.text(), st.integers(4, 200))
def test_cleaning_twice_changes_nothing_more(text, limit):
    cleaned = safe.clean(text, limit)
    assert not safe._UNSEEN.search(cleaned)
    assert safe.clean(cleaned, 10_000) == cleaned


@settings(deadline=None)
@given(st.text(alphabet="ab`<>&\"'\n$ ", max_size=200))
def test_prose_keeps_every_character_but_the_backticks(text):
    shown = Elements(prose(text)).text
    assert re.sub(r"[`\s]", "", shown) == re.sub(r"[`\s]", "", re.sub(r"```[^\n`]*\n", "", text))


def test_code_in_a_models_words_is_set_as_code():
    page = prose("Read `a < b`:\n```python\nif a < b:\n```\ndone")
    assert "<code>a &lt; b</code>" in page
    assert "if a &lt; b:" in page
    assert Elements(page).text == "Read a < b:\nif a < b:\n\ndone"


def test_the_record_reads_with_all_style_stripped():
    snapshot = Snapshot().after_all(everything())
    page = html(snapshot, time.time_ns())
    text = re.sub(r"\s+", " ", Elements(re.sub(r'style="[^"]*"', "", page)).text)
    assert "Budget used up" in text
    assert "Iterations 3 of 3 1 given back, grace call" in text
    assert "assistant It is the counter." in text
    assert 'tool look {"path": "src/"}' in text
    assert "model 6 in " in text


def test_the_record_needs_no_theme_and_no_style_sheet():
    page = html(Snapshot().after_all(everything()), time.time_ns(), 700)
    assert "var(" not in page
    assert "<style" not in page
    assert "height:700px" in page
    assert f"height:{HEIGHT}px" in html(Snapshot(), time.time_ns())


def luminance(colour):
    values = (int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5))
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("tint", TINTS.values())
@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_every_tint_stands_out_on_white_and_on_near_black(tint, ground):
    light, dark = sorted((luminance(tint), luminance(ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 3


def test_the_text_tells_status_gauges_and_the_last_entries():
    snapshot = Snapshot().after_all(everything())
    lines = plain(snapshot, time.time_ns()).splitlines()
    assert lines[0].startswith("reviewer (openai:gpt-x): The budget of 3 iterations is used up; the grace call gave")
    assert lines[1] == "Iterations  3 of 3 [####################]  1 given back, grace call"
    assert "(8 earlier entries)" in lines
    assert lines[-2] == "assistant   It is the counter."
    assert lines[-1] == "steer       too late (undelivered: the turn ended)"
    assert max(map(len, lines)) <= 160


def test_a_running_turn_says_so_in_its_first_line():
    snapshot = Snapshot().after_all(everything()[:8])
    assert heading(snapshot, time.time_ns()) == "reviewer (openai:gpt-x): Running: asking gpt-x"
    assert heading(Snapshot(), 0) == "turn: Starting: getting ready"


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (812, "812"), (1_000, "1k"), (24_870, "24.9k"), (99_960, "100k"), (128_000, "128k"),
     (999_600, "1M"), (1_250_000, "1.2M")],
)  # fmt: skip
def test_counts_are_short(number, text):
    assert words.count(number) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(-1, "0.0 s"), (0.44, "0.4 s"), (59.97, "1 min 00 s"), (125, "2 min 05 s"), (3_720, "1 h 02 min")],
)
def test_seconds_are_told_as_people_do(value, text):
    assert words.seconds(value) == text


def test_chosen_durations_are_round():
    assert [words.duration(value) for value in (30, 120, 90, 3_600)] == ["30 s", "2 min", "1 min 30 s", "1 h"]
