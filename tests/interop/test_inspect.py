"""Logs of inspect_ai, read through inspect_ai; skipped where that is not installed."""

from __future__ import annotations

import warnings
from pathlib import Path

import pandas as pd
import pytest

from hermes_nb.traces import load

DATA = Path(__file__).parent.parent / "data" / "traces" / "inspect"
POPULARITY = DATA / "2025-05-12T20-28-13-04-00_popularity.json"

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module", autouse=True)
def _inspect_ai():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports warn
        pytest.importorskip("inspect_ai")


def test_a_sample_is_a_turn_and_a_model_event_a_chat():
    traces = load(POPULARITY, content=True)
    turns, chats = traces.turns_df(), traces.chats_df()

    assert dict(traces.report.files[0].rows) == {"spans": 18, "events": 12}
    assert turns["agent_name"].tolist() == ["popularity"] * 3
    assert turns["completed"].all()
    assert turns["final_response"].isin(["Yes", "No"]).all()
    assert chats["provider"].tolist() == ["openai"] * 3
    assert chats["input_tokens"].iloc[0] == 64
    assert turns["input_tokens"].sum() == chats["input_tokens"].sum()
    assert chats["start_time"].iloc[0] == pd.Timestamp("2025-05-13T00:28:13.301227Z")
    assert traces.messages_df().query("role == 'user'")["content"].str.contains("statement").all()


def test_spans_of_a_sample_nest():
    spans = load(POPULARITY).spans_df()

    assert spans["depth"].max() >= 2
    assert not spans["missing_parent"].any()
    assert not spans["is_running"].any()


def test_an_older_log_without_events_keeps_its_messages():
    traces = load(DATA / "log_tool_call_error.json")

    assert len(traces.turns_df()) == 1
    assert len(traces.messages_df()) == 11
    assert set(traces.messages_df()["part_type"]) == {"tool_call_response"}
