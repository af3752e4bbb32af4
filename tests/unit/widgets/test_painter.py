"""The painter: every display up to date, none in the way of another, no thread left behind."""

from __future__ import annotations

import logging
import threading
import time

from hermes_nb.widgets.painter import EACH, PERIOD, Painter


class Display:
    """Wants to be painted a number of times; notes when, and by which thread."""

    def __init__(self, times):
        self.left = times
        self.painted = []
        self.over = threading.Event()

    def paint(self):
        self.painted.append((time.monotonic(), threading.current_thread().name))
        self.left -= 1
        if self.left <= 0:
            self.over.set()
        return self.left > 0

    def stop(self):
        self.left = 0


def gone(painter):
    """The painter's thread ends when nothing is left to paint."""
    deadline = time.monotonic() + 10
    while painter._thread is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return painter._thread is None


def test_displays_are_painted_until_they_are_finished_by_one_thread_that_ends_then():
    painter, displays = Painter(), [Display(3), Display(5)]
    for display in displays:
        painter.add(display)
    assert all(display.over.wait(10) for display in displays)
    assert gone(painter)
    assert painter.idle
    assert [len(display.painted) for display in displays] == [3, 5]
    assert {name for display in displays for _, name in display.painted} == {"hermes_nb painter"}


def test_a_painter_without_work_begins_again():
    painter = Painter()
    for _ in range(3):
        display = Display(1)
        painter.add(display)
        assert display.over.wait(10)
        assert gone(painter)


def test_looks_are_apart_and_hurry_brings_the_next_one_forward():
    painter, display = Painter(), Display(4)
    painter.add(display)
    assert display.over.wait(10)
    times = [at for at, _ in display.painted]
    assert times[-1] - times[1] > PERIOD
    hurried = Display(2)
    painter.add(hurried)
    while not hurried.painted:
        time.sleep(0.001)
    painter.hurry()
    assert hurried.over.wait(10)


def test_many_displays_are_painted_less_often_so_that_their_messages_stay_few():
    painter, displays = Painter(), [Display(2) for _ in range(100)]
    for display in displays:
        painter.add(display)
    assert all(display.over.wait(10) for display in displays)
    first, second = (moment for moment, _ in displays[-1].painted)
    assert second - first > 0.9 * 100 * EACH
    assert gone(painter)


def test_a_display_that_breaks_is_logged_once_and_the_others_go_on(caplog):
    class Broken(Display):
        def paint(self):
            super().paint()
            raise ValueError("no paint left")

    painter, broken, sound = Painter(), Broken(9), Display(4)
    with caplog.at_level(logging.ERROR, logger="hermes_nb"):
        painter.add(broken)
        painter.add(sound)
        assert sound.over.wait(10)
        assert gone(painter)
    assert len(broken.painted) == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_the_last_state_can_be_painted_by_whoever_cannot_wait():
    painter, display = Painter(), Display(2)
    painter.add(display)
    while not display.painted:
        time.sleep(0.001)
    painter.finish()
    assert display.over.is_set()
    assert gone(painter)
