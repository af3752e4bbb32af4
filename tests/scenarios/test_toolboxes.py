"""An agent's tools with limits of their own, over a real turn."""

from __future__ import annotations

import threading
import time

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, calls, say, script
from tests.support.scripts import run


class Busiest:
    """A tool that knows how many of its calls ran at the same time."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()
        self.tool = hn.tool(name="work", parallel_safe=True)(self._work)

    def _work(self, number: int) -> str:
        """Works for a moment."""
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self._lock:
            self.now -= 1
        return f"{number} done"


def test_the_workers_of_a_toolbox_are_the_agents_and_its_variants():
    busiest = Busiest()
    wants = calls(*[call("work", number=number) for number in range(6)])
    box = hn.Toolbox([busiest.tool], workers=2)
    made = hn.Agent(script(wants, say("ok"), each_turn=True), tools=box)

    assert run(made).text == "ok"
    assert busiest.most == 2
    varied = made.with_(budget=5, faults=hn.Faults(tool_error={99}))
    assert run(varied).text == "ok"
    assert busiest.most == 2
    assert made.with_(tools=[busiest.tool]).toolbox.workers == 8


def test_the_limits_of_a_toolbox_are_those_of_the_turn():
    @hn.tool
    def long() -> str:
        """Says much."""
        return "x" * 5_000

    @hn.tool
    def slow() -> str:
        """Takes its time."""
        time.sleep(0.5)
        return "late"

    box = hn.Toolbox([long, slow], result_limit=2_000, batch_timeout=0.2)
    result = run(hn.Agent(script(call("long"), call("slow"), say("ok")), tools=box))

    assert len(result.messages[2].text) < 2_200
    assert "given up" in result.messages[4].text


@pytest.mark.parametrize(
    ("answer", "offered"), [("read_result reads results", []), ("page " * 100_000, ["read_result"])]
)
def test_the_reader_of_results_is_offered_in_the_next_turn_only_where_one_was_shortened(tmp_path, answer, offered):
    """Another list of tools costs what a server has kept of the prompt."""

    @hn.tool
    def look() -> str:
        """Looks."""
        return answer

    seen = []

    def last(request):
        seen.append([tool.name for tool in request.tools])
        return say("ok")

    session = hn.Session(tmp_path / "turns.db")
    made = hn.Agent(script(call("look"), say("ok"), last), tools=[look])
    made.run("q", session=session)
    made.run("again", session=session)

    assert seen == [["look", *offered]]
