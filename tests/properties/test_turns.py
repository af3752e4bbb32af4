"""Whatever a model, its tools and its user do: the turn ends, in order, with a history that can be used."""

from __future__ import annotations

import json
from concurrent.futures import Future

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.providers.scripted import Say
from hermes_nb.testing import calls, no_waiting, say, script
from hermes_nb.turn.prompting import Wire
from hermes_nb.vocabulary.messages import ToolCall
from tests.support.anything import TOOLS, deeds, failures, finishes, ids, outside
from tests.support.pairing import problems
from tests.support.records import AtOnce, check_record, check_spans, check_trace

names = st.sampled_from(["count", "refuse", "glance", "fetch", "Count", "no_such_tool", ""])
arguments = st.sampled_from(
    ["{}", '{"number": 2}', '{"number": "3"}', '{"name": "y"}', "[1]", '{"number": ', "", "null"]
)
tool_calls = st.builds(ToolCall, ids, names, arguments)
texts = st.sampled_from(["", " ", "an answer", "déjà 日本 \ud800", "x" * 3_000])
replies = st.builds(Say, texts, st.lists(tool_calls, max_size=3).map(tuple), finish_reason=finishes, reasoning=texts)
good = st.sampled_from([say("done"), calls(Say(calls=(ToolCall("", "count", "{}"),)))])
scripts = st.lists(st.one_of(good, replies, failures), max_size=12)


@pytest.mark.timeout(600)
@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(chain=st.lists(scripts, min_size=1, max_size=3), budget=st.integers(0, 6), deeds=deeds, window=st.booleans())
def test_every_turn_ends_within_its_bound_with_a_valid_history_and_a_complete_record(chain, budget, deeds, window):
    models = [script(*steps, name=f"p{i}", context_window=2_000 if window else None) for i, steps in enumerate(chain)]
    agent = hn.Agent(models, tools=TOOLS, budget=budget, refund=hn.Refund(limit=4))
    told: list[hn.Event] = []
    started: Future[hn.Run] = Future()
    at_once = AtOnce()
    with no_waiting():
        started.set_result(agent.start("q", session=False, sinks=[at_once, outside(started, deeds, told)]))
    result = started.result().result(timeout=60)

    assert result.iterations <= budget + result.refunds + 1
    assert result.iterations - result.refunds - result.graces == result.budget.used
    assert problems(Wire(result.messages).request("system")) == []
    assert len({c.id for m in result.messages for c in m.tool_calls}) == sum(len(m.tool_calls) for m in result.messages)
    check_record(told)
    check_trace(result)
    check_spans(result, at_once)
    notes = [e.what for e in told if e.what.kind == "steer"]
    delivered = {n.id for n in notes if n.status == "delivered"}
    undelivered = {n.id for n in notes if n.status == "undelivered"}
    assert delivered.isdisjoint(undelivered)
    assert {n.id for n in notes if n.status == "queued"} == delivered | undelivered
    assert json.dumps(result.as_dict())
