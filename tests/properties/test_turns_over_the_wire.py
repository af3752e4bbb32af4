"""Whatever model servers send, over real sockets: the turn ends, its history stays one that every server accepts.

Twenty times as much of it: `pytest tests/properties/test_turns_over_the_wire.py --hypothesis-profile=large`
"""

from __future__ import annotations

import json
import random
import tempfile
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

import hermes_nb as hn
from hermes_nb.testing import no_waiting
from hermes_nb.turn.prompting import Wire
from tests.support import answers as http
from tests.support.anything import TOOLS, deeds, outside
from tests.support.mangled import Mangled
from tests.support.pairing import problems
from tests.support.records import check_record
from tests.support.rubbish import ODD, Rubbish
from tests.support.server import Server
from tests.support.strict import refusals

PHASES = (Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink)
APIS = {"openai": hn.OpenAIChat, "anthropic": hn.Anthropic}


@hn.tool
def weigh(grams: float) -> str:
    """Any number will do, even none."""
    return f"{grams} g"


# ---------------------------------------------------------------------------------------- what servers send

LONG_NAME = "a_tool_with_a_name_that_is_longer_than_any_server_takes_in_a_request"
LONG = {"nested": "[" * 5_000, "digits": f'{{"number": {"1" * 5_000}}}', "text": f'{{"name": "{"x" * 5_000}"}}'}

names = st.sampled_from(
    ["count", "count", "refuse", "glance", "fetch", "weigh", "Count", "no such tool!", LONG_NAME, "日本"]
)
arguments = st.sampled_from([
    "{}", '{"number": 2}', '{"number": "3"}', '{"name": "y"}', '{"grams": NaN}', '{"grams": 1e999}', '{"grams": 1}',
    '{"name": "\\ud83d"}', '{"name": "日本"}', "[1]", '{"number": ', "", "null", *LONG,
]).map(lambda text: LONG.get(text, text))  # fmt: skip
ids = st.sampled_from([{}, {}, {"id": "call_0"}, {"id": ""}, {"id": "call 1: é"}])
said = st.builds(
    http.Said,
    text=st.sampled_from(["", "", " ", "an answer", "<think>hm</think>yes", "déjà 日本", "lone \ud800", "word " * 600]),
    calls=st.lists(
        st.builds(lambda name, raw, known: (name, {"raw": raw, **known}), names, arguments, ids), max_size=3
    ),
    reasoning=st.sampled_from(["", "", "hm", " "]),
    finish=st.sampled_from(["", "", "", "length", "content_filter", "stop", "tool_calls", "error", "odd"]),
    usage=st.sampled_from([(10, 5), None, (3_000, 7), (0, 0)]),
)
good = st.sampled_from([
    http.say("done"), http.call("count", number=2), http.calls(http.call("fetch"), http.call("glance")),
])  # fmt: skip

seeds, shares = st.integers(0, 2**32), st.sampled_from([0.0, 0.01, 0.05, 0.3])
mangled = st.builds(Mangled, said, seeds, shares, st.sampled_from([1.0, 1.0, 0.0, 0.3, 0.8, 0.97]))


def of_rubbish(seed: int, share: float, streamed: bool) -> http.Answer:
    made = Rubbish(random.Random(seed), share)
    body = made.stream() if streamed else json.dumps(made.reply("message")).encode()
    return http.whole(body, headers={"content-type": "text/event-stream" if streamed else "application/json"})


rubbish = st.builds(of_rubbish, seeds, shares, st.booleans())

errors = st.sampled_from([
    "This model's maximum context length is 3000 tokens", "Overloaded", "", "insufficient_quota",
    "max_tokens is too large: 9000. This model supports at most 4096 completion tokens",
    "Streaming is not supported for this model", "messages.1.content.0: Invalid `signature` in `thinking` block",
]).map(lambda text: {"error": {"message": text}})  # fmt: skip
bodies = errors | st.sampled_from([None, "", "<html>502</html>", *map(json.dumps, ODD)])
codes = st.sampled_from([
    200, 202, 204, 302, 400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529, 599, 999,
])  # fmt: skip
headers = st.sampled_from([
    ("retry-after", "0"), ("retry-after", "7"), ("retry-after", "1e9"), ("retry-after", "soon"), ("retry-after", "-1"),
    ("content-encoding", "gzip"), ("content-type", "text/event-stream; charset=utf-16"), ("x-odd", ""),
]).map(lambda pair: dict([pair]))  # fmt: skip
statuses = st.builds(http.status, codes, bodies, headers)
broken = st.sampled_from([
    http.reset(), http.stall(), http.Answer(moves=(http.CUT,)), http.stream({"choices": []}, http.STALL),
    http.Answer(bare=True, moves=(b"HTTP/9 what\r\n\r\n", http.CUT)),
    http.Answer(bare=True, moves=(b"\x16\x03\x01", http.CUT)),
    http.stream(*http.text_chunks("some ", "text"), http.RESET),
])  # fmt: skip
endless = st.builds(lambda: http.stream(b"data: " + b"x" * 100_000))
steps = st.lists(
    st.one_of(good, good, good, good, said, said, mangled, mangled, mangled, rubbish, statuses, broken, endless),
    max_size=12,
)
ends = st.sampled_from([[], [http.always(http.say("done"))], [http.always(http.call("count", number=1))]])
scripts = st.tuples(steps, ends).map(lambda parts: parts[0] + parts[1])


# ---------------------------------------------------------------------------------------- what holds


@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", APIS)
@settings(deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
@given(
    steps=scripts,
    fallback=st.sampled_from([None, "openai", "anthropic"]),
    budget=st.integers(0, 6),
    window=st.sampled_from([None, 2_000]),
    kept=st.booleans(),
    deeds=deeds,
)
def test_turns_end_with_a_history_that_every_server_accepts(api, stream, steps, fallback, budget, window, kept, deeds):
    with Server(*steps) as server, tempfile.TemporaryDirectory() as place, no_waiting():
        chain = [(api, stream), *([(fallback, not stream)] if fallback else [])]
        agent = hn.Agent(
            [provider(server, number, *entry, window=window) for number, entry in enumerate(chain)],
            tools=[*TOOLS, weigh], budget=budget, refund=hn.Refund(limit=4),
            compression=hn.Compression(minimum=500), guard=hn.RateGuard(shared=False),
        )  # fmt: skip
        session = hn.Session(Path(place) / "turns.db") if kept else False
        told: list[hn.Event] = []
        told_again: list[hn.Event] = []
        run = started(agent, session, deeds, told)
        again = run.reply("And then?", sinks=[told_again.append])
        assert again.wait(60)
        if kept:
            assert problems(Wire(session.messages).request("system")) == []

    check(run.result(), told, budget)
    check(again.result(), told_again, budget)
    assert [wrong for request in server.requests for wrong in refusals(request)] == []
    event(f"ended as {run.result().exit_reason}")


def provider(server: Server, number: int, api: str, stream: bool, *, window: int | None) -> hn.Provider:
    limits = hn.Timeouts(connect=5, first_token=0.2, idle=0.2, total=0.5)
    how = {"base_url": server.url, "api_key": "key", "stream": stream, "timeout": limits, "context_window": window}
    return APIS[api](f"m{number}", **how)


def started(agent: hn.Agent, session, deeds, told: list[hn.Event]) -> hn.Run:
    """A turn that has ended; somebody steered and interrupted it meanwhile."""
    ready: Future[hn.Run] = Future()
    run = agent.start("How many?", session=session, sinks=[outside(ready, deeds, told)], paused=True)
    ready.set_result(run)
    run.resume()
    assert run.wait(60)
    return run


def check(result: hn.TurnResult, told: list[hn.Event], budget: int) -> None:
    assert result.iterations <= budget + result.refunds + 1
    assert problems(Wire(result.messages).request("system")) == []
    asked = [call.id for message in result.messages for call in message.tool_calls]
    assert len(set(asked)) == len(asked)
    assert min(result.usage.input_tokens, result.usage.output_tokens) >= 0
    check_record(told)
    json.dumps(result.as_dict())
