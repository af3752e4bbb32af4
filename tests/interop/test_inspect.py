"""Logs of inspect_ai, read through inspect_ai, in an environment that has both it and us."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pandas as pd
import pytest

from hermes_nb.traces import load
from tests.support.foreign import ask, python

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "traces" / "inspect"
POPULARITY = DATA / "2025-05-12T20-28-13-04-00_popularity.json"

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

LOAD = """
import json, sys, warnings
warnings.simplefilter("ignore")
import inspect_ai
sys.path += sys.argv[3:]  # behind its own packages
import hermes_nb as hn
traces = hn.load(sys.argv[1], content=True)
traces.to_parquet(sys.argv[2], content=True)
(file,) = traces.report.files
print(json.dumps({"rows": dict(file.rows), "format": file.format, "skipped": dict(file.skipped)}))
"""

MAKE = """
import os, sys
os.environ["INSPECT_DISPLAY"] = "none"
import inspect_ai
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import tool

@tool
def population():
    async def execute(city: str) -> int:
        '''Inhabitants of a city.

        Args:
            city: The city.
        '''
        return 522_000
    return execute

def replies():
    while True:
        for output in (
            ModelOutput.for_tool_call("mockllm/model", "population", {"city": "Lyon"}),
            ModelOutput.from_content("mockllm/model", "522,000 people live in Lyon."),
        ):
            output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
            yield output

samples = [Sample(input=f"How many people live in Lyon? ({number})", target="522,000", id=number) for number in (1, 2)]
task = inspect_ai.Task(name="cities", dataset=samples, solver=[use_tools(population()), generate()], scorer=includes())
model = get_model("mockllm/model", custom_outputs=replies())
(log,) = inspect_ai.eval(task, model=model, log_dir=sys.argv[1], log_format="eval", display="none", max_samples=1)
import json
print(json.dumps(log.location))
"""


@pytest.fixture(scope="module")
def interpreter():
    return python("inspect", "inspect_ai==0.3.285")


@pytest.fixture
def read(interpreter, tmp_path):
    """Loads a log there, and gives what was told of it and the traces, which come here as Parquet."""

    def read(path):
        told = ask(interpreter, LOAD, str(path), str(tmp_path / "turns"), str(ROOT), sysconfig.get_path("purelib"))
        return told, load(tmp_path / "turns", content=True)

    return read


def test_a_sample_is_a_turn_and_a_model_event_a_chat(read):
    told, traces = read(POPULARITY)
    turns, chats, messages = traces.turns_df(), traces.chats_df(), traces.messages_df()

    assert told["rows"] == {"spans": 18, "events": 12}
    assert turns["agent_name"].tolist() == ["popularity"] * 3
    assert turns["completed"].all()
    assert turns["final_response"].isin(["Yes", "No"]).all()
    assert chats["provider"].tolist() == ["openai"] * 3
    assert chats["input_tokens"].iloc[0] == 64
    assert turns["input_tokens"].sum() == chats["input_tokens"].sum()
    assert chats["start_time"].iloc[0] == pd.Timestamp("2025-05-13T00:28:13.301227Z")
    assert messages.query("role == 'user'")["content"].str.contains("statement").all()


def test_spans_of_a_sample_nest(read):
    spans = read(POPULARITY)[1].spans_df()

    assert spans["depth"].max() >= 2
    assert not spans["missing_parent"].any()
    assert not spans["is_running"].any()


def test_an_older_log_without_events_keeps_its_messages(read):
    _, traces = read(DATA / "log_tool_call_error.json")

    assert len(traces.turns_df()) == 1
    assert len(traces.messages_df()) == 11
    assert set(traces.messages_df()["part_type"]) == {"tool_call_response"}


def test_a_zipped_log_that_inspect_has_just_written_is_read_sample_by_sample(interpreter, read, tmp_path):
    path = Path(ask(interpreter, MAKE, str(tmp_path)))
    told, traces = read(path)
    turns, chats, tools = traces.turns_df(), traces.chats_df(), traces.tool_calls_df()

    assert path.suffix == ".eval"
    assert path.read_bytes().startswith(b"PK")
    assert (told["format"], told["skipped"]) == ("inspect log", {})
    assert turns["agent_name"].tolist() == ["cities"] * 2
    assert turns["completed"].all()
    assert turns["final_response"].tolist() == ["522,000 people live in Lyon."] * 2
    assert turns["input_tokens"].tolist() == [200, 200]
    assert chats["output_tokens"].tolist() == [10] * 4
    assert tools["tool_name"].tolist() == ["population"] * 2
    assert tools["result"].tolist() == ["522000"] * 2
