"""Agents that call agents: one trace, one budget, one ceiling, one Stop button; so deep and so many, and no more."""

from __future__ import annotations

import threading

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, say, script, span_tree
from tests.support.scripts import agent, expected, population, run, tree
from tests.support.server import Server, always, slow
from tests.support.server import call as called
from tests.support.server import calls as called_at_once
from tests.support.server import say as said
from tests.support.waiting import wait_for


def over(server: Server, **settings) -> hn.Agent:
    return hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key="sk-sub-0001"), **({"budget": 8} | settings))


def nested(levels: int, **lead) -> hn.Agent:
    """An agent above so many levels of sub-agents, each of which hands its task on; the last one answers."""
    below = hn.Agent(script(say("522,000")), name=f"level {levels}")
    for level in range(levels - 1, -1, -1):
        steps = call("next", task="Lyon?"), say(f"level {level} has read it")
        below = hn.Agent(script(*steps), tools=[below.as_tool(name="next")], name=f"level {level}")
    return below.with_(**lead)


# ---------------------------------------------------------------------------------------- together


@pytest.mark.parametrize("levels", [1, 2])
def test_keys_of_sub_agents_are_told_to_nobody(home, levels):
    """Servers repeat what they were sent, keys too."""

    def echo(request):
        return said(f"you sent {request.headers['authorization']}")

    with Server(always(echo)) as server:
        below = over(server, name="below")
        for level in range(levels):
            below = agent(call("next", task="t"), say("ok"), tools=[below.as_tool(name="next")], name=f"level {level}")
        turn = below.start("q")
        result = turn.result()

    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert "you sent" in repr(turn.events)
    assert "sk-sub-0001" not in repr((turn.events, result, turn.trace.spans_df().to_dict()))
    assert b"you sent" in kept
    assert b"sk-sub-0001" not in kept


def test_a_sub_agent_works_under_the_same_trace_and_on_the_same_budget():
    helper = hn.Agent(script(call("population", city="Lyon"), say("522,000")), tools=[population], name="searcher")
    lead = agent(call("searcher", task="Lyon?"), say("Lyon has 522,000."), tools=[helper.as_tool(budget=5)])
    result = run(lead)

    assert result.completed
    assert result.budget.used == 4
    assert '"status": "completed"' in result.messages[2].text
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool searcher
              invoke_agent searcher
                hermes.iteration 1
                  chat script
                    hermes.attempt 1 success
                  execute_tool population
                hermes.iteration 2
                  chat script
                    hermes.attempt 1 success
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """)


def test_a_sub_agent_that_fails_is_a_failed_call():
    helper = hn.Agent(script(fails("auth")), name="searcher")
    result = run(agent(call("searcher", task="Lyon?"), say("No luck."), tools=[helper.as_tool()]))

    assert result.completed
    assert "provider_failed" in result.messages[2].text


def test_an_interrupt_reaches_the_sub_agent_and_says_who_stopped_it():
    helper = hn.Agent(script(say("late", seconds=30)), name="searcher")
    run = agent(call("searcher", task="Lyon?"), tools=[helper.as_tool()]).start("q", session=False)
    assert wait_for(lambda: "invoke_agent searcher" in span_tree(run.trace))
    run.interrupt()
    result = run.result()

    turns = result.trace.turns_df().set_index("agent_name").exit_reason
    assert turns["agent"] == "interrupted_by_user"
    assert turns["searcher"] == "interrupted_by_parent"


def test_parallel_sub_agents_stay_below_the_ceiling_together():
    wants = calls(*[call("helper", task=f"{number}") for number in range(6)])
    endless = script(*[call("population", city="Lyon")] * 200, name="inner")
    helper = hn.Agent(endless, tools=[population], name="helper", budget=30)
    lead = agent(wants, say("done"), tools=[helper.as_tool(budget=30)], ceiling=hn.Ceiling(tokens=2_000), budget=200)
    result = run(lead)

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.usage.total_tokens < 6_000


# ---------------------------------------------------------------------------------------- how deep, how many


def test_sub_agents_may_have_sub_agents_three_levels_deep():
    result = run(nested(3))

    assert result.text == "level 0 has read it"
    assert result.budget.used == 7
    assert result.trace.turns_df().agent_name.tolist() == ["level 0", "level 1", "level 2", "level 3"]


def test_a_level_too_deep_is_a_failed_call_and_the_turns_above_go_on():
    result = run(nested(4))

    assert result.completed
    assert result.trace.turns_df().agent_name.tolist() == ["level 0", "level 1", "level 2", "level 3"]
    errors = result.trace.tool_calls_df().error_type
    assert errors.dropna().tolist() == ["delegation_depth"]


def test_the_lead_decides_how_deep_whatever_its_sub_agents_say():
    shallow = nested(2, delegation=hn.Delegation(depth=1))
    assert run(shallow).trace.turns_df().agent_name.tolist() == ["level 0", "level 1"]
    assert run(nested(5, delegation=hn.Delegation(depth=9))).trace.turns_df().shape[0] == 5  # three below level 1

    none = agent(call("helper", task="t"), say("alone"), tools=[nested(0).as_tool(name="helper")],
                 delegation=hn.Delegation(depth=0))  # fmt: skip
    result = run(none)
    assert "may start no sub-agents" in result.messages[2].text
    assert result.text == "alone"


@pytest.mark.parametrize("how", ["as a tool", "by itself", "by itself, async"])
def test_an_agent_that_makes_itself_anew_for_ever_comes_to_an_end(how):
    made = []

    def make() -> hn.Agent:
        made.append(how)
        return hn.Agent(script(call("again"), say("enough")), tools=[tools[how]], name=f"number {len(made)}")

    @hn.tool(name="again")
    async def as_a_tool(context: hn.ToolContext) -> object:
        """Hands the task on to a new agent."""
        return await make().as_tool().invoke({"task": "go on"}, context)

    @hn.tool(name="again")
    def by_itself() -> str:
        """Runs a new agent."""
        return make().run("go on", session=False).text

    @hn.tool(name="again")
    async def by_itself_async() -> str:
        """Runs a new agent."""
        return (await make().start("go on", session=False)).text

    tools = {"as a tool": as_a_tool, "by itself": by_itself, "by itself, async": by_itself_async}
    result = run(make())

    assert result.text == "enough"
    assert len(made) == 5  # the last one is made, and may not begin


def test_no_more_than_three_sub_agents_work_at_the_same_time_and_all_of_them_answer():
    wanted = called_at_once(*[called("helper", task=f"{number}") for number in range(7)])
    with Server(always(slow(0.1, said("done")))) as inner, Server(wanted, said("all done")) as outer:
        result = run(over(outer, tools=[over(inner, name="helper").as_tool(budget=1)], budget=20))

    assert result.text == "all done"
    assert len(inner.requests) == 7
    assert inner.busiest == 3


@pytest.mark.parametrize("at_once", [1, 2])
def test_how_many_sub_agents_work_at_the_same_time_can_be_set(at_once):
    wanted = called_at_once(*[called("helper", task=f"{number}") for number in range(4)])
    with Server(always(slow(0.05, said("done")))) as inner, Server(wanted, said("all done")) as outer:
        helper = over(inner, name="helper").as_tool(budget=1)
        result = run(over(outer, tools=[helper], budget=20, delegation=hn.Delegation(at_once=at_once)))

    assert result.text == "all done"
    assert (len(inner.requests), inner.busiest) == (4, at_once)


def test_parallel_sub_agents_on_two_levels_do_not_wait_for_each_other_for_ever():
    leaf = hn.Agent(script(say("leaf", seconds=0.01), each_turn=True), name="leaf")
    wants = calls(*[call("leaf", task=f"{number}") for number in range(3)])
    middle = hn.Agent(script(wants, say("middle"), each_turn=True), tools=[leaf.as_tool()], name="middle")
    wants = calls(*[call("middle", task=f"{number}") for number in range(3)])
    lead = agent(wants, say("done"), tools=[middle.as_tool()], budget=40, delegation=hn.Delegation(at_once=1))

    result = run(lead)
    assert result.text == "done"
    assert result.trace.turns_df().agent_name.value_counts().to_dict() == {"leaf": 9, "middle": 3, "agent": 1}


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"depth": 1.5}, {"at_once": 0}, {"at_once": True}])
def test_bounds_that_cannot_work_are_refused_at_once(wrong):
    with pytest.raises(hn.ConfigurationError, match=next(iter(wrong))):
        hn.Delegation(**wrong)


# ---------------------------------------------------------------------------------------- all the way down


def test_budget_and_usage_are_shared_over_all_levels():
    endless = hn.Agent(script(*[call("population", city="Lyon")] * 50, each_turn=True), tools=[population], name="leaf")
    middle = hn.Agent(script(*[call("leaf", task="t")] * 50), tools=[endless.as_tool(budget=4)], name="middle")
    result = run(agent(*[call("middle", task="t")] * 9, tools=[middle.as_tool(budget=30)], budget=12))

    turns = result.trace.turns_df()
    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert result.budget.used == 12
    assert (turns[turns.agent_name == "leaf"].iterations <= 5).all()  # its four, and a grace call
    assert result.usage.total_tokens == result.trace.chats_df()[["input_tokens", "output_tokens"]].sum().sum()


def test_a_ceiling_ends_a_turn_two_levels_below():
    endless = hn.Agent(script(*[call("population", city="Lyon")] * 200), tools=[population], name="leaf", budget=200)
    middle = hn.Agent(script(call("leaf", task="t"), say("middle")), tools=[endless.as_tool(budget=200)], name="middle")
    lead = agent(call("middle", task="t"), say("lead"), tools=[middle.as_tool(budget=200)],
                 ceiling=hn.Ceiling(tokens=3_000), budget=300)  # fmt: skip
    result = run(lead)

    reasons = result.trace.turns_df().set_index("agent_name").exit_reason
    assert reasons["leaf"] == "ceiling_reached"
    assert result.usage.total_tokens < 6_000


@pytest.mark.parametrize("how", ["as a tool", "by itself"])
def test_an_interrupt_ends_everything_below_and_nothing_more_is_asked(how):
    with Server(always(slow(0.05, called("population", city="Lyon")))) as inner:
        leaf = over(inner, name="leaf", tools=[population], budget=200)
        inside = []

        @hn.tool
        def ask() -> str:
            """Runs an agent by itself."""
            inside.append(leaf.start("go", session=False))
            return inside[0].result().text

        middle = hn.Agent(script(call("leaf", task="t")), tools=[leaf.as_tool()], name="middle")
        how_to = {"as a tool": (call("middle", task="t"), middle.as_tool()), "by itself": (call("ask"), ask)}
        step, helper = how_to[how]
        lead = agent(step, tools=[helper], budget=300).start("q", session=False)
        inner.wait_for(2)
        lead.interrupt()
        result = lead.result()

        assert wait_for(lambda: not inner.busy)
        asked = len(inner.requests)
        if inside:
            assert inside[0].result().exit_reason is hn.ExitReason.INTERRUPTED_BY_PARENT
        else:
            reasons = result.trace.turns_df().set_index("agent_name").exit_reason
            assert (reasons["middle"], reasons["leaf"]) == ("interrupted_by_parent", "interrupted_by_parent")
        assert len(inner.requests) == asked
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER


def test_a_turn_that_a_tool_started_ends_when_the_tool_is_given_up():
    begun, inside = threading.Event(), []
    slowly = hn.Agent(script(say("late", seconds=30)), name="slow")

    @hn.tool(timeout=0.2)
    def ask() -> str:
        """Runs an agent by itself."""
        inside.append(slowly.start("go", session=False))
        begun.set()
        return inside[0].result().text

    result = run(agent(call("ask"), say("no answer in time"), tools=[ask]))
    assert begun.wait(5)
    assert inside[0].result(5).exit_reason is hn.ExitReason.INTERRUPTED_BY_PARENT
    assert result.text == "no answer in time"


def test_a_turn_that_outlives_its_tool_is_left_alone():
    inside = []

    @hn.tool
    def begin() -> str:
        """Starts an agent, and does not wait for it."""
        inside.append(hn.Agent(script(say("later", seconds=0.3))).start("go", session=False))
        return "started"

    result = run(agent(call("begin"), say("done"), tools=[begin]))
    assert result.text == "done"
    assert inside[0].result().text == "later"


# ---------------------------------------------------------------------------------------- files


def test_what_a_sub_agent_did_to_files_comes_back_with_the_iteration_of_its_parent(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    notes = work / "notes.txt"
    notes.write_text("as it was")

    @hn.tool(writes=True)
    def overwrite(text: str) -> str:
        """Overwrites the notes."""
        notes.write_text(text)
        return "written"

    steps = [call("overwrite", text="by the helper"), call("overwrite", text="by the helper again"), say("ok")]
    helper = hn.Agent(script(*steps), tools=[overwrite], name="helper")
    lead = agent(
        call("overwrite", text="by the lead"),
        call("helper", task="t"),
        call("overwrite", text="at last"),
        say("done"),
        tools=[overwrite, helper.as_tool()],
        checkpoints=hn.Checkpoints(work),
    ).start("q", session=False)
    assert lead.result().completed
    assert [snapshot.iteration for snapshot in hn.Checkpoints(work).snapshots()] == [1, 2, 3]

    for iteration, found in [(3, "by the helper again"), (2, "by the lead"), (1, "as it was")]:
        lead.restore(iteration)
        assert notes.read_text() == found


def test_parallel_sub_agents_share_the_snapshot_of_their_iteration(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "0.txt").write_text("as it was")

    @hn.tool(writes=True)
    def write(number: int) -> str:
        """Writes a file."""
        (work / f"{number}.txt").write_text("changed")
        return "written"

    helpers = [
        hn.Agent(script(call("write", number=number), say("ok")), tools=[write], name=f"helper{number}").as_tool()
        for number in range(3)
    ]
    wants = calls(*[call(f"helper{number}", task="t") for number in range(3)])
    lead = agent(wants, say("done"), tools=helpers, checkpoints=hn.Checkpoints(work), budget=20)
    lead = lead.start("q", session=False)
    assert lead.result().completed
    assert len(hn.Checkpoints(work).snapshots()) == 1

    lead.restore(1)
    assert {path.name: path.read_text() for path in work.iterdir()} == {"0.txt": "as it was"}
