"""Faults at places where one would not look for them: a summary, a sink, the guard, the disk."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
from filelock import FileLock

import hermes_nb as hn
from hermes_nb.testing import no_waiting
from tests.support.server import Server, always, call, say, stall, status

LIMIT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "90s"}


def agent(server: Server, **settings) -> hn.Agent:
    limits = hn.Timeouts(first_token=settings.pop("patience", 30.0))
    return hn.Agent(hn.OpenAIChat("m", base_url=server.url, api_key="k", timeout=limits), **settings)


def talk() -> list[dict]:
    rows = []
    for number in range(14):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 40})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 40})
    return rows


def told_of(told: list[hn.Event], part: str) -> list[str]:
    return [event.what.detail for event in told if event.what.kind == "degraded" and event.what.part == part]


def test_a_summary_that_never_comes_is_made_by_rule():
    policy = hn.Compression(context_window=4_000)
    with Server(always(lambda request: stall() if len(request.messages) == 1 else say("ok"))) as server, no_waiting():
        made = agent(server, patience=0.3, compression=policy)
        result = made.run("How many?", history=talk(), session=False)

    assert result.text == "ok"
    assert result.trace.compressions_df().strategy.tolist() == ["static"]
    assert set(result.trace.retries_df().reason) == {"timeout"}


def test_a_slow_sink_loses_nothing_and_what_it_returns_is_nobodys_business():
    told, other = [], []

    def slow(event: hn.Event) -> str:
        time.sleep(0.002)
        told.append(event)
        return "thank you"

    with Server(say("one two three four five")) as server:
        result = agent(server).run("q", session=False, sinks=[slow, other.append])

    assert result.completed
    assert told == other
    assert [event.seq for event in told] == list(range(1, len(told) + 1))


def test_a_guards_file_that_another_kernel_holds_is_told_of_and_this_kernel_remembers(home):
    told = []
    home.mkdir(exist_ok=True)
    with (
        Server(always(status(429, headers=LIMIT))) as limited,
        Server(always(say("ok"))) as backup,
        FileLock(f"{home / 'rate_limits.json'}.lock"),
        no_waiting(),
    ):
        models = [hn.OpenAIChat("m", base_url=server.url, api_key="k") for server in (limited, backup)]
        made = hn.Agent(models)
        results = [made.run("q", session=False, sinks=[told.append]) for _ in range(2)]

    assert [result.text for result in results] == ["ok", "ok"]
    assert len(limited.requests) == 1
    assert any("lock" in detail for detail in told_of(told, "guard"))


class Nonsense:
    """A store that is none."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def read(self) -> object:
        return self.answer

    def write(self, identity: str, until: float | None) -> None:
        raise OSError("no space left")


@pytest.mark.parametrize("answer", [None, "soon", 7, {"anybody": "soon"}], ids=repr)
def test_a_guards_store_that_answers_nonsense_is_told_of_and_not_believed(answer):
    told = []

    class Mapping(dict):
        def get(self, *_):
            return "soon"

    store = Nonsense(Mapping() if isinstance(answer, dict) else answer)
    with Server(say("ok")) as server:
        result = agent(server, guard=hn.RateGuard(store=store)).run("q", session=False, sinks=[told.append])

    assert result.text == "ok"
    assert told_of(told, "guard")


def test_an_interrupt_while_the_disk_is_busy_ends_the_turn_and_what_waited_is_written_later(tmp_path):
    place, begun = tmp_path / "log.db", threading.Event()

    @hn.tool
    def nap(context: hn.ToolContext) -> str:
        """Waits until nobody waits for it."""
        begun.set()
        while not context.interrupted:
            time.sleep(0.01)
        return "awake"

    session = hn.Session(place, id="c")
    with Server(say("first"), call("nap"), say("third")) as server:
        made = agent(server, tools=[nap])
        session.resume(made, "One")
        with sqlite3.connect(place, isolation_level=None) as other:
            other.execute("BEGIN IMMEDIATE")
            turn = session.start(made, "Two")
            begun.wait(20)
            turn.interrupt()
            result = turn.result(30)
            other.execute("ROLLBACK")
        other.close()
        assert session.resume(made, "Three").text == "third"

    assert result.interrupted
    kept = hn.Session(place, id="c")
    assert [turn.exit_reason for turn in kept.turns] == ["completed", "interrupted_by_user", "completed"]
    assert [message.text for message in kept.messages if message.role == "user"] == ["One", "Two", "Three"]
