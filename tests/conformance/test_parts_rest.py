"""The rows around the loop, 39 to 48: mixtures, sub-agents, usage, keys, prompts."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hermes_nb as hn
from hermes_nb.testing import span_tree
from tests.conformance.support import agent, population, provider, run, texts, tree
from tests.support.server import Server, always, call, calls, say, slow, status

LYON = call("population", city="Lyon")


def mixture(references: list[Server], acting: Server, **settings) -> hn.Mixture:
    advisers = [provider(server, model=f"adviser{number}") for number, server in enumerate(references)]
    return hn.Mixture(references=advisers, aggregator=provider(acting, model="acting"), **settings)


def test_parts_39_a_mixture_of_agents():
    """References at the same time, a failed one left out visibly; the aggregator acts, with the advice at the end."""
    with (
        Server(always(slow(0.4, say("Lyon is large.")))) as one,
        Server(always(slow(0.4, say("Ask the census.")))) as two,
        Server(always(status(401))) as three,
        Server(LYON, say("522,000")) as acting,
    ):
        result = run(hn.Agent(mixture([one, two, three], acting), tools=[population]))

    assert result.text == "522,000"
    first, second = one.requests[0], two.requests[0]
    assert max(first.at, second.at) < min(first.answered, second.answered), "they were asked at the same time"
    assert "tools" in acting.requests[0].body
    assert "tools" not in first.body
    _, prompt = acting.requests[0].messages
    assert prompt["content"].startswith("How many people live in Lyon?\n\n")
    advice = prompt["content"].partition("\n\n")[2]
    assert "Lyon is large." in advice
    assert "Ask the census." in advice
    assert "chat adviser2 ERROR 401" in tree(result)


def test_parts_40_a_mixture_that_is_asked_again_in_the_same_state():
    """References are not asked again for a retry."""
    with Server(always(say("advice"))) as one, Server(status(503), status(503), say("ok")) as acting:
        result = run(hn.Agent(mixture([one], acting)))

    assert result.completed
    assert (len(one.requests), len(acting.requests)) == (1, 3)


def test_parts_41_tokens_of_a_mixture():
    """Counted per model, and only the acting prompt is the prompt's size."""
    with Server(always(say("advice", usage=(5_000, 10)))) as one, Server(say("ok", usage=(200, 5))) as acting:
        made = mixture([one], acting)
        one_name = made.references[0].name
        turn = hn.Agent(made).start("q", session=False)
        result = turn.result()

    assert result.usage.input_tokens == 5_200
    assert result.usage_by_model[f"{one_name}:adviser0"].input_tokens == 5_000
    assert turn.trace.chats_df().input_tokens.sum() == 5_200
    assert result.budget.used == 1


def test_parts_42_a_mixture_once_a_turn():
    """One round of references for each prompt of the user."""
    with Server(always(say("advice"))) as one, Server(LYON, LYON, say("ok"), say("ok")) as acting:
        made = hn.Agent(mixture([one], acting, fanout="per_turn"), tools=[population])
        turn = made.start("q", session=False)
        turn.result()
        assert len(one.requests) == 1
        turn.reply("And?").result()

    assert len(one.requests) == 2


def test_parts_43_a_sub_agent():
    """Runs in the call; the parent's model reads status, summary and tokens as JSON."""
    with (
        Server(LYON, say("522,000", usage=(40, 2))) as inner,
        Server(call("helper", task="Lyon?"), say("done")) as outer,
    ):
        helper = agent(inner, name="helper")
        result = run(agent(outer, tools=[helper.as_tool()]))

    told = outer.requests[1].messages[-1]["content"]
    assert '"status": "completed"' in told
    assert '"summary": "522,000"' in told
    assert '"tokens"' in told
    assert result.usage.input_tokens == 10 + 40 + 10 + 10, "all requests of both agents"


def test_parts_44_a_sub_agent_that_fails():
    """A failed call, with the reason."""
    with Server(always(status(401))) as inner, Server(call("helper", task="Lyon?"), say("no luck")) as outer:
        result = run(agent(outer, tools=[agent(inner, name="helper").as_tool()]))

    assert "provider_failed" in outer.requests[1].messages[-1]["content"]
    assert result.trace.tool_calls_df().status.tolist() == ["ERROR"]
    assert result.completed


def test_parts_45_limits_of_sub_agents():
    """Three at a time, the others wait; all together never use more than the parent's budget."""
    with (
        Server(always(slow(0.05, LYON))) as inner,
        Server(calls(*[call("helper", task=f"{n}") for n in range(5)]), always(say("ok"))) as outer,
    ):
        helper = agent(inner, name="helper", budget=50)
        result = run(agent(outer, tools=[helper.as_tool(budget=3)], budget=6))

    assert inner.busiest <= 3
    assert result.budget.used <= 6
    turns = result.trace.turns_df()
    assert (turns[turns.agent_name == "helper"].iterations <= 4).all()


def test_parts_46_usage():
    """Per turn and per model on the result, per call on the spans; sessions can be summed from the frames."""
    with Server(say("one", usage=(10, 1)), say("two", usage=(20, 2))) as server:
        made = agent(server)
        results = [run(made), run(made)]

    assert [result.usage.input_tokens for result in results] == [10, 20]
    assert [result.trace.chats_df().input_tokens.sum() for result in results] == [10, 20]


def test_parts_47_keys_in_the_output_of_tools(tmp_path):
    """Not in events, spans, frames, files or texts of the library."""
    secret, told = "sk-conformance-0001", []

    @hn.tool
    def leak() -> str:
        """Gives the key away."""
        return f"key={secret}"

    session = hn.Session(tmp_path / "log.db", id="c")
    with Server(call("leak"), say(f"it is {secret}")) as server:
        made = agent(server, tools=[leak])
        result = run(made, session=session, sinks=[told.append])

    assert secret not in repr(told) + repr(made) + span_tree(result.trace)
    assert secret not in result.trace.spans_df().to_csv() + result.trace.messages_df().to_csv()
    del session
    assert all(secret.encode() not in path.read_bytes() for path in tmp_path.glob("log.db*"))


RESUME = """
import sys
import hermes_nb as hn
from tests.conformance.support import population
model = hn.OpenAIChat("m0", base_url=sys.argv[1], api_key="sk-conformance-0001")
agent = hn.Agent(model, tools=[population], instructions="  Be brief. ", budget=8)
print(hn.Session(sys.argv[2], id="c").resume(agent, "And?").text)
"""


@pytest.mark.parametrize("kernel", ["the same", "another"])
def test_parts_48_the_system_prompt_after_a_resume(tmp_path, kernel):
    """The same bytes, and the same beginning of the request, in this kernel and in another."""
    place = tmp_path / "log.db"
    with Server(LYON, say("522,000"), say("ok")) as server:
        made = agent(server, instructions="  Be brief. ")
        session = hn.Session(place, id="c")
        session.resume(made, " Lyon? ")
        if kernel == "the same":
            assert session.resume(made, "And?").text == "ok"
        else:
            command = [sys.executable, "-c", RESUME, server.url, str(place)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            assert done.stdout == "ok\n", done.stderr

    before, after = server.requests[1].raw, server.requests[2].raw
    assert after.startswith(before.removesuffix(b"]}"))
    assert texts(server.requests[2])[-1] == "And?"
