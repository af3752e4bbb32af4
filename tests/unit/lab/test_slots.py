"""Places at a provider, and what happens where they cannot be kept."""

from __future__ import annotations

import anyio

import hermes_nb as hn
from hermes_nb.lab.slots import Slots
from hermes_nb.testing import call, say, script


def test_a_place_is_given_back_and_another_provider_has_its_own(tmp_path):
    order: list[str] = []

    async def hold(provider: str, slots: Slots) -> None:
        async with slots.one(provider):
            order.append(f"{provider} in")
            await anyio.sleep(0.05)
            order.append(f"{provider} out")

    async def all_of_them() -> None:
        async with anyio.create_task_group() as group:
            for provider in ("a", "a", "b"):
                group.start_soon(hold, provider, Slots(tmp_path, 1))

    anyio.run(all_of_them)
    assert [step for step in order if step.startswith("a")] == ["a in", "a out", "a in", "a out"]
    assert order.index("b in") < order.index("a out")


def test_where_no_place_can_be_kept_nobody_waits(tmp_path):
    (tmp_path / "file").touch()
    slots = Slots(tmp_path / "file", 1)

    assert slots(hn.Agent(script(say("there")))).run("q", session=False).text == "there"


def test_a_lead_that_waits_for_its_sub_agent_holds_no_place(tmp_path):
    """With one place for both it would wait for ever."""
    helper = hn.Agent(script(say("helped")), name="helper")
    lead = hn.Agent(script(call("helper", task="help"), say("done")), tools=[helper.as_tool()])

    result = Slots(tmp_path, 1)(lead).run("q", session=False)
    assert result.text == "done"
    assert "helped" in result.messages[2].text
