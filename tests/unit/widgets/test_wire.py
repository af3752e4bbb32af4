"""What goes to the browser and what comes from it: little, in order, and only what is known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_nb.widgets import wire
from hermes_nb.widgets.commands import TEXT, Command, parse
from hermes_nb.widgets.log import Log
from hermes_nb.widgets.monitor import Snapshot
from hermes_nb.widgets.parts import Draft, Row, Stop
from tests.support.story import everything


class Browser:
    """Puts pages together as the panel does, and asks for what is missing."""

    def __init__(self):
        self.items = []

    def take(self, page):
        if page["from"] > len(self.items):
            return False
        self.items += page["items"][len(self.items) - page["from"] :]
        return True


def rows(number, size=10):
    return [Row(f"r{index}", "note", text="x" * size) for index in range(number)]


@given(steps=st.lists(st.integers(0, 40), max_size=40), lost=st.randoms(use_true_random=False))
def test_a_browser_that_misses_pages_has_everything_after_asking(steps, lost):
    pages, browser, log = wire.Pages(wire.row), Browser(), Log()
    for step in steps:
        log = log.plus(*rows(step))
        page = pages.newest(log)
        if lost.random() < 0.5 and not browser.take(page):
            while len(browser.items) < len(log):
                assert browser.take(pages.since(log, len(browser.items)))
    browser.take(pages.newest(log)) or browser.take(pages.since(log, len(browser.items)))
    while len(browser.items) < len(log):
        assert browser.take(pages.since(log, len(browser.items)))
    assert browser.items == [wire.row(row) for row in log]


def test_a_page_is_bounded_in_items_and_in_characters():
    pages, log, largest = wire.Pages(wire.row), Log(), 0
    for _ in range(100):
        log = log.plus(*rows(7, 4_000))
        page = pages.newest(log)
        largest = max(largest, sum(len(item["text"]) for item in page["items"]))
    assert largest <= wire.PAGE_CHARS + 7 * 4_000
    burst = wire.Pages(wire.row).newest(Log(rows(5_000)))
    assert (burst["from"], len(burst["items"])) == (5_000 - wire.BURST, wire.BURST)


def test_a_quiet_turn_sends_nothing():
    snapshot, pages = Snapshot().after_all(everything()), wire.Pages(wire.row)
    assert wire.head(snapshot) == wire.head(snapshot)
    assert pages.newest(snapshot.rows) == pages.newest(snapshot.rows)


def test_a_long_reply_is_sent_with_its_beginning_and_its_end():
    sent = wire.draft(Draft(1, "begin", "end", 5_008))
    assert sent["text"] == "begin\n… 5,000 characters left out …\nend"
    assert wire.draft(Draft(1, "begin", "end", 8))["text"] == "beginend"


def test_every_control_that_can_do_nothing_says_why():
    running = Snapshot().after_all(everything()[:6])
    assert set(wire.cannot(running, pausing=False)) == {"step", "resume"}
    assert set(wire.cannot(running, pausing=True)) == {"step", "pause"}
    paused = next(s for s in _moments() if s.paused)
    assert set(wire.cannot(paused, pausing=False)) == {"pause"}
    stopping = Snapshot(stop=Stop("user"))
    assert set(wire.cannot(stopping, pausing=False)) == {"steer", "boundary", "pause", "step", "resume"}
    over = wire.cannot(Snapshot().after_all(everything()), pausing=False)
    assert set(over) == {"steer", "interrupt", "boundary", "pause", "step", "resume"}
    assert all(why.endswith(".") for why in over.values())


def _moments():
    snapshot = Snapshot()
    for event in everything():
        snapshot = snapshot.after(event)
        yield snapshot


@pytest.mark.parametrize(
    ("message", "command"),
    [
        ({"kind": "steer", "id": 3, "text": "go <b>left</b>"}, Command("steer", 3, "go <b>left</b>")),
        ({"kind": "interrupt", "id": 1}, Command("interrupt", 1)),
        ({"kind": "fetch", "id": 1, "rows": 10, "bars": 0}, Command("fetch", 1, "", (10, 0))),
        ({"kind": "size", "height": 560}, Command("size", 0, "", (560,))),
        ({"kind": "ping", "id": 1, "more": [1, 2]}, Command("ping", 1)),
    ],
)
def test_known_messages_are_understood(message, command):
    assert parse(message) == command


@pytest.mark.parametrize(
    "message",
    [
        None, "interrupt", [], {}, {"kind": "explode"}, {"kind": ["steer"]}, {"kind": "steer"},
        {"kind": "steer", "text": " \n"}, {"kind": "steer", "text": "x" * (TEXT + 1)}, {"kind": "steer", "text": 3},
        {"kind": "interrupt", "id": "1"}, {"kind": "interrupt", "id": -1}, {"kind": "interrupt", "id": True},
        {"kind": "interrupt", "id": 2**31}, {"kind": "fetch", "rows": -1, "bars": 0}, {"kind": "fetch", "rows": 1},
        {"kind": "size", "height": 1.5}, {"kind": "ping"} | {str(n): n for n in range(9)},
        {"kind": "__class__"}, {"kind": "_do", "id": 1},
    ],
)  # fmt: skip
def test_everything_else_is_nothing(message):
    assert parse(message) is None


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | (
    st.dictionaries(st.sampled_from(["kind", "id", "text", "rows", "bars", "height"]) | st.text(), inner)
)))  # fmt: skip
def test_no_message_breaks_the_parser(message):
    command = parse(message)
    assert command is None or len(command.text) <= TEXT
