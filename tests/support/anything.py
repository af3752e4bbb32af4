"""Tools, deeds of a user, and failures for turns that hypothesis makes up."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.testing import fails
from hermes_nb.vocabulary.failures import FailureReason

if TYPE_CHECKING:
    from concurrent.futures import Future


@hn.tool
def count(number: int = 1) -> int:
    """Counts."""
    return number + 1


@hn.tool
def refuse() -> None:
    """Always fails."""
    raise LookupError("nothing here")


@hn.tool(free=True, parallel_safe=True)
def glance() -> str:
    """Free."""
    return "seen " * 50


@hn.tool(parallel_safe=True)
async def fetch(name: str = "x") -> dict:
    """Async."""
    return {"name": name, "at": time.monotonic()}


TOOLS = [count, refuse, glance, fetch]

ids = st.sampled_from(["", "call_0", "call_1"])
finishes = st.sampled_from(["stop", "length", "tool_calls", "content_filter", "unknown"])
failures = st.builds(
    fails, st.sampled_from(list(FailureReason)), retry_after=st.sampled_from([None, 0.0, 5.0, 9_999.0]),
    times=st.integers(1, 4), limit=st.sampled_from([None, 3_000, 100]),
)  # fmt: skip
deeds = st.lists(st.tuples(st.integers(0, 120), st.sampled_from(["steer", "interrupt", "boundary"])), max_size=3)


def outside(run: Future[hn.Run], deeds, told: list[hn.Event]):
    """A sink that steers and interrupts when the turn has come to certain events."""
    todo = dict(deeds)

    def sink(event: hn.Event) -> None:
        told.append(event)
        if deed := todo.pop(len(told), None):
            do(run.result(), deed, f"note {len(told)}")

    return sink


def do(run: hn.Run, deed: str, note: str) -> None:
    """Steer or interrupt a turn."""
    if deed == "steer":
        run.steer(note)
    else:
        run.interrupt(when="now" if deed == "interrupt" else "boundary")
