"""The rows of the lab, 49 and 50: trajectories and batches."""

from __future__ import annotations

import json

import hermes_nb as hn
from tests.conformance.support import agent
from tests.support.server import Server, always, call, status
from tests.support.server import say as says


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_parts_49_trajectories(tmp_path):
    """One line per turn, with the history in its place, nothing lost to a compression, results paired by id."""
    history = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}]
    with Server(call("population", city="Lyon"), says("522,000")) as server:
        turn = agent(server).start("How many in Lyon?", history=history, session=tmp_path / "s.db")
        turn.result()
    assert hn.save_dataset(tmp_path / "s.db", tmp_path / "t.jsonl", form="sharegpt") == 1

    (line,) = lines(tmp_path / "t.jsonl")
    said = [(one["from"], one["value"]) for one in line["conversations"]]
    assert [who for who, _ in said] == ["system", "human", "gpt", "human", "gpt", "tool", "gpt"]
    assert [said[1][1], said[3][1]] == ["Hello.", "How many in Lyon?"]
    assert said[4][1].startswith("<think>\n")
    asked = json.loads(said[4][1].split("<tool_call>\n")[1].split("\n</tool_call>")[0])
    told = json.loads(said[5][1].removeprefix("<tool_response>\n").removesuffix("\n</tool_response>"))
    assert asked["arguments"] == {"city": "Lyon"}
    assert (told["tool_call_id"], told["content"]) == (asked["id"], 522_000)
    assert said[6][1].endswith("522,000")


def test_parts_49_trajectories_after_a_compression(tmp_path):
    """What a compression took out of the history is in the line, and its summary is not."""
    history = [
        {"role": role, "content": f"{role} {number}: " + "how is it with the town? " * 40}
        for number in range(14)
        for role in ("user", "assistant")
    ]

    def step(request):
        summary = len(request.messages) == 1 and "tools" not in request.body
        told = any(message["role"] == "tool" for message in request.messages)
        return says("Towns.") if summary else says("522,000") if told else call("population", city="Lyon")

    with Server(always(step)) as server:
        small = hn.Compression(context_window=4_000)
        turn = agent(server, compression=small).start("And now?", history=history, session=False)
        result = turn.result()
    assert result.compressions > 0
    assert len(result.messages) < 20
    assert hn.save_dataset(turn, tmp_path / "t.jsonl") == 1

    (line,) = lines(tmp_path / "t.jsonl")
    said = [message for message in line["messages"] if message["role"] != "system"]
    assert said[:28] == history
    assert [message["role"] for message in said[28:]] == ["user", "assistant", "tool", "assistant"]
    assert said[28]["content"] == "And now?"
    assert said[29]["tool_calls"][0]["id"] == said[30]["tool_call_id"]
    assert [tool["function"]["name"] for tool in line["tools"]] == ["population"]


def test_parts_50_batches(tmp_path):
    """Every case has its line, without reasoning, failed or not, with tokens, cost and seconds."""
    with Server(says("fine"), status(401), says("fine"), says("again")) as server:
        study = hn.sweep(agent(server, tools=[]), ["a", "b", "a"], parallel=1, path=tmp_path / "s.db", progress=False)
        assert study.wait(60)
        assert hn.save_dataset(study, tmp_path / "t.jsonl") == 3

    told = {line["turn_id"]: line for line in lines(tmp_path / "t.jsonl")}
    frame = study.turns_df().set_index("turn_id")
    assert told.keys() == set(frame.index)
    assert sorted(line["completed"] for line in told.values()) == [False, True, True]
    assert {line["exit_reason"] for line in told.values()} == {"completed", "provider_failed"}
    assert frame.case_id.is_unique, "the same prompt twice is two cases"
    for line in told.values():
        assert line["seconds"] > 0
        assert line["metadata"]["case_id"] == frame.case_id[line["turn_id"]]
        assert (line["input_tokens"] or 0) > 0 or not line["completed"]
