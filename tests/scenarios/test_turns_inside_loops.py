"""Turns that are started where an event loop runs already."""

from __future__ import annotations

import anyio
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, say, script

pytest.importorskip("sniffio")  # with it anyio keeps in a context variable which library runs


def test_a_turn_is_started_and_awaited_inside_anyio():
    async def main() -> hn.TurnResult:
        return await hn.Agent(script(say("fine"))).start("q", session=False)

    assert anyio.run(main).text == "fine"


def test_a_tool_may_run_a_turn_of_another_agent():
    @hn.tool
    def ask(question: str) -> str:
        """Asks a colleague."""
        return hn.Agent(script(say("42"))).run(question, session=False).text

    result = hn.Agent(script(call("ask", question="6 times 7"), say("done")), tools=[ask]).run("q", session=False)

    assert [message.text for message in result.messages if message.role == "tool"] == ["42"]
