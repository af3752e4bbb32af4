"""Our loop evaluated with the tasks and scorers of inspect_ai, where that is installed."""

from __future__ import annotations

import importlib.util

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, fails, say, script

HERE = importlib.util.find_spec("inspect_ai") is not None


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return {"Lyon": 522_000, "Lille": 236_000}[city]


@pytest.mark.skipif(HERE, reason="inspect_ai is installed")
def test_without_the_package_the_way_out_is_named():
    with pytest.raises(hn.ConfigurationError, match=r"pip install 'hermes-nb\[inspect\]'"):
        hn.to_inspect(hn.Agent(script(say("x"))))


@pytest.mark.skipif(not HERE, reason="inspect_ai is not installed")
@pytest.mark.filterwarnings("default")
def test_a_task_of_theirs_scores_our_turns(tmp_path):
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import includes

    def answer(request):
        asked = next(message.text for message in request.messages if message.role == "user")
        told = [message.text for message in request.messages if message.role == "tool"]
        if "fail" in asked:
            return fails("auth")
        return say(f"It has {told[0]}.") if told else call("population", city=asked)

    agent = hn.Agent(script(answer, answer, each_turn=True), tools=[population], guard=None, name="hermes")
    samples = [
        Sample(input="Lyon", target="522000"),
        Sample(input="Lille", target="1"),
        Sample(input="fail", target="x"),
    ]
    task = Task(dataset=samples, solver=hn.to_inspect(agent), scorer=includes())
    (log,) = evaluate(task, model="mockllm/model", log_dir=str(tmp_path), display="none")

    assert log.status == "success", log.error
    assert [sample.scores["includes"].value for sample in log.samples] == ["C", "I", "I"]
    assert [message.role for message in log.samples[0].messages] == ["user", "assistant", "tool", "assistant"]
    assert [sample.output.metadata["exit_reason"] for sample in log.samples] == [
        "completed",
        "completed",
        "provider_failed",
    ]
    assert log.samples[0].output.usage.input_tokens > 0


@pytest.mark.skipif(not HERE, reason="inspect_ai is not installed")
@pytest.mark.filterwarnings("default")
def test_a_sample_shows_all_that_was_said_also_where_the_history_was_compressed(tmp_path):
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample

    @hn.tool
    def read(page: int) -> str:
        """A page."""
        return f"page {page} " * 3_000

    def shorten(messages):
        return [messages[0], hn.Message("assistant", "In short: much was read.")]

    model = script(call("read", page=1), call("read", page=2), say("done"))
    compression = hn.Compression(compressor=shorten, context_window=6_000, minimum=500)
    task = Task(
        dataset=[Sample(input="Read.")], solver=hn.to_inspect(hn.Agent(model, tools=[read], compression=compression))
    )
    (log,) = evaluate(task, model="mockllm/model", log_dir=str(tmp_path), display="none")

    assert log.status == "success", log.error
    roles = [message.role for message in log.samples[0].messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]
