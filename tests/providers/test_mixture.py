"""Mixture-of-Agents: references advise, the aggregator acts, one bad reference sinks nothing."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import anyio
import pytest

import hermes_nb as hn
from hermes_nb.providers.advice import HEAD, LONGEST_RESULT, NEXT, ROLE, Advice, advised, advisory_view
from hermes_nb.providers.base import Provider, as_provider
from hermes_nb.providers.credentials import CredentialPool
from hermes_nb.providers.mixture import Mixture
from hermes_nb.turn.recorder import Recorder
from hermes_nb.vocabulary import events
from hermes_nb.vocabulary.failures import ConfigurationError, ProviderError
from hermes_nb.vocabulary.failures import FailureReason as R
from hermes_nb.vocabulary.messages import Message, Reply, ToolCall, Usage
from tests.support.asking import ADD, Heard, ask, ask_all, chat, request
from tests.support.scripts import Speechless, Wrapped
from tests.support.server import Server, always, call, say, slow, stall, status


def advisor(text, **how):
    return always(say(text, usage=(100, 10), **how))


def recorded(mixture, *requests):
    """The answers, and the scopes that were told, as (what, parent's what)."""
    seen = []
    recorder = Recorder("turn", "talk", [seen.append])
    answers = ask_all(mixture, [r.__class__(**{**_fields(r), "recorder": recorder}) for r in requests])
    return answers, [event.what for event in seen if event.phase == "ended"]


def _fields(asked):
    return {name: getattr(asked, name) for name in ("messages", "tools", "tool_choice", "purpose")}


def guidance(server, number=0):
    return server.requests[number].messages[-1]["content"]


def test_references_advise_and_the_aggregator_acts():
    with Server(advisor("Add them.")) as a, Server(advisor("Use the tool.")) as b, Server(call("add", a=1)) as acting:
        mixture = Mixture([chat(a, "ma"), chat(b, "mb")], chat(acting, "mc"))
        assert isinstance(mixture, Provider)
        heard = Heard()
        reply = ask(mixture, Message("system", "s"), "What is 1 + 2?", tools=(ADD,), on_text=heard)
        assert reply.tool_calls[0].name == "add"
        assert heard.call
        sent = acting.requests[0].body
        assert [message["role"] for message in sent["messages"]] == ["system", "user"]
        assert (
            guidance(acting) == f"What is 1 + 2?\n\n{HEAD}\n\n1. openai:ma:\nAdd them.\n\n2. openai:mb:\nUse the tool."
        )
        assert sent["tools"]
        for reference in (a, b):
            asked = reference.requests[0].body
            assert "tools" not in asked
            assert "max_tokens" not in asked
            assert asked["messages"] == [
                {"role": "system", "content": ROLE},
                {"role": "user", "content": "What is 1 + 2?"},
            ]


def test_tokens_of_all_models_count_and_only_the_acting_prompt_is_the_prompt():
    with Server(advisor("x")) as a, Server(advisor("y")) as b, Server(say("z", usage=(50, 5))) as acting:
        reply = ask(Mixture([chat(a), chat(b)], chat(acting)))
    assert reply.usage == Usage(50, 5)
    assert [usage for _, _, usage in reply.others] == [Usage(100, 10), Usage(100, 10)]


def test_a_retry_of_the_same_state_reuses_the_advice_and_counts_it_once():
    with Server(advisor("x")) as a, Server(status(503), say("z", usage=(50, 5)), say("again", usage=(50, 5))) as acting:
        failure, first, second = ask_all(Mixture([chat(a)], chat(acting)), [request()] * 3)
        assert len(a.requests) == 1
    assert failure.reason is R.OVERLOADED
    assert [usage for _, _, usage in first.others] == [Usage(100, 10)]
    assert second.others == ()


def history(results):
    out = [Message("user", "q")]
    for number in range(results):
        out += [
            Message("assistant", "", (ToolCall(f"c{number}", "add"),)),
            Message("tool", "1", tool_call_id=f"c{number}"),
        ]
    return request(*out)


@pytest.mark.parametrize(("fanout", "times"), [("per_iteration", 3), ("per_turn", 1)])
def test_advice_is_asked_for_in_each_iteration_or_once(fanout, times):
    with Server(advisor("x")) as a, Server(always(say("z"))) as acting:
        ask_all(Mixture([chat(a)], chat(acting), fanout=fanout), [history(n) for n in range(3)])
        assert len(a.requests) == times
        assert all(HEAD in guidance(acting, n) for n in range(3))
        assert acting.requests[2].messages[-1]["role"] == "user"
        assert acting.requests[2].messages[:-1] == [
            *acting.requests[1].messages[:-1],
            *acting.requests[2].messages[-3:-1],
        ]


def test_a_reference_that_fails_is_left_out_and_seen():
    broken = as_provider(_raises, name="mine")
    with (
        Server(always(status(500))) as bad,
        Server(stall()) as late,
        Server(advisor("Good advice.")) as good,
        Server(say("done")) as acting,
    ):
        mixture = Mixture(
            [chat(bad, "bad"), chat(late, "late"), broken, chat(good, "good")], chat(acting), reference_timeout=0.5
        )
        (reply,), told = recorded(mixture, request())
        assert reply.text == "done"
        assert "1. openai:bad:\n[no advice: server_error]" in guidance(acting)
        assert "2. openai:late:\n[no advice: timeout]" in guidance(acting)
        assert "4. openai:good:\nGood advice." in guidance(acting)
        assert late.requests[0].wait().disconnected
        assert len(bad.requests) == 1
    chats = {what.model: what for what in told if isinstance(what, events.Chat)}
    attempts = {what.model: what for what in told if isinstance(what, events.Attempt)}
    assert {model: what.error_type for model, what in chats.items()} == {
        "bad": "500", "late": "timeout", "mine": "ZeroDivisionError", "good": ""}  # fmt: skip
    assert {what.purpose for what in chats.values()} == {"reference"}
    assert {model: what.outcome for model, what in attempts.items()} == {
        "bad": "give_up", "late": "cancelled", "mine": "give_up", "good": "success"}  # fmt: skip
    assert chats["good"].reply.usage == Usage(100, 10)
    assert attempts["bad"].status == 500


async def _raises(asked, on_text):
    return 1 / 0


def test_when_all_references_fail_the_aggregator_acts_alone():
    with Server(always(status(401))) as a, Server(always(say("  "))) as b, Server(say("done")) as acting:
        assert ask(Mixture([chat(a), chat(b)], chat(acting)), "q").text == "done"
        assert acting.requests[0].messages == [{"role": "user", "content": "q"}]


@pytest.mark.parametrize(
    "odd", [Speechless, OSError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, BaseException]
)
@pytest.mark.parametrize("moment", ["ask", "renew"])
def test_a_reference_that_breaks_in_whatever_way_is_left_out(odd, moment):
    class Odd(Wrapped):
        @asynccontextmanager
        async def connect(self):
            async with self._inner.connect() as connection:
                yield Breaking(connection)

    class Breaking(Wrapped):
        async def ask(self, request, on_text):
            if moment == "ask":
                raise odd
            return await self._inner.ask(request, on_text)

        async def renew(self, failure):
            raise odd

    refused = always(status(401))
    with Server(refused) as a, Server(advisor("Add them.")) as b, Server(say("3")) as acting:
        result = hn.Agent(Mixture([Odd(chat(a, "ma")), chat(b, "mb")], chat(acting))).run("1 + 2?", session=False)
        assert result.text == "3"
        assert "Add them." in guidance(acting)


def test_a_reference_with_another_key_uses_it():
    with Server(always(lambda r: say("advice") if r.key == "b" else status(401))) as a, Server(say("done")) as acting:
        (_,), told = recorded(Mixture([chat(a, api_key=CredentialPool(["a", "b"]))], chat(acting)), request())
        assert "advice" in guidance(acting)
    assert [what.outcome for what in told if isinstance(what, events.Attempt)] == ["give_up", "success"]


def test_an_aggregator_that_fails_is_a_failure_of_the_request():
    with Server(advisor("x")) as a, Server(status(429, headers={"retry-after": "3"})) as acting:
        mixture = Mixture([chat(a)], chat(acting, "mc"))
        with pytest.raises(ProviderError) as caught:
            ask(mixture)
    assert (caught.value.failure.reason, caught.value.failure.retry_after, caught.value.failure.model) == (
        R.RATE_LIMIT,
        3,
        "mc",
    )


def test_references_are_asked_at_once_or_one_by_one():
    for parallel, busiest in ((8, 3), (2, 2), (1, 1)):
        with Server(*[slow(0.5, say("x"))] * 3) as shared, Server(say("done")) as acting:
            ask(Mixture([chat(shared)] * 3, chat(acting), parallel=parallel))
            assert shared.busiest == busiest


def test_an_interrupt_while_references_run_closes_their_connections():
    with Server(stall(), stall()) as shared, Server() as acting:

        async def main():
            async with (
                Mixture([chat(shared)] * 2, chat(acting)).connect() as connection,
                anyio.create_task_group() as group,
            ):
                group.start_soon(connection.ask, request(), Heard())
                await anyio.to_thread.run_sync(shared.wait_for, 2)
                group.cancel_scope.cancel()

        begun = time.monotonic()
        anyio.run(main)
        assert all(received.wait().disconnected for received in shared.requests)
        assert time.monotonic() - begun < 5
        assert acting.requests == []


def test_other_requests_go_to_the_aggregator_alone():
    with Server() as a, Server(say("a summary")) as acting:
        assert ask(Mixture([chat(a)], chat(acting)), "sum up", purpose="compression").text == "a summary"
        assert acting.requests[0].messages == [{"role": "user", "content": "sum up"}]


def test_credentials_of_the_aggregator_are_renewed():
    with Server(advisor("x")) as a, Server(always(lambda r: say("ok") if r.key == "b" else status(401))) as acting:

        async def main():
            async with Mixture([chat(a)], chat(acting, api_key=CredentialPool(["a", "b"]))).connect() as connection:
                with pytest.raises(ProviderError) as caught:
                    await connection.ask(request(), Heard())
                assert await connection.renew(caught.value.failure) == "rotated"
                return await connection.ask(request(), Heard())

        assert anyio.run(main).text == "ok"


# ------------------------------------------------------------------------------------------------ configuration


def test_it_looks_like_its_aggregator_and_keeps_all_secrets():
    with Server() as one, Server() as two:
        acting = chat(two, "mc", api_key="key-two", context_window=9, temperature=0.5)
        mixture = Mixture(["ollama:qwen", chat(one, api_key="key-one")], acting)
    shown = (mixture.name, mixture.model, mixture.context_window, mixture.parameters, mixture.address, mixture.identity)
    assert shown == ("mixture", "mc", 9, {"temperature": 0.5}, acting.address, acting.identity)
    assert set(mixture.secrets) == {"key-one", "key-two"}
    assert mixture.references[0].name == "ollama"
    assert "key-" not in repr(mixture)


@pytest.mark.parametrize(
    "how",
    [{"references": []}, {"fanout": "sometimes"}, {"parallel": 0}, {"reference_timeout": 0}, {"references": ["qwen"]},
     {"aggregator": 7}],
    ids=str,
)  # fmt: skip
def test_what_cannot_work_is_refused_at_once(how):
    with pytest.raises(ConfigurationError):
        Mixture(**{"references": ["ollama:a"], "aggregator": "ollama:b", **how})


def test_a_mixture_in_a_mixture_is_refused():
    inner = Mixture(["ollama:a"], "ollama:b")
    for how in ({"references": [inner], "aggregator": "ollama:b"}, {"references": ["ollama:a"], "aggregator": inner}):
        with pytest.raises(ConfigurationError, match="mixture"):
            Mixture(**how)


# ------------------------------------------------------------------------------------------------ the view


def test_references_read_text_that_alternates_and_ends_with_the_user():
    view = advisory_view([
        Message("system", "secret instructions"), Message("user", "one"), Message("user", "two", origin="steer"),
        Message("assistant", "Let me add.", (ToolCall("c", "add", '{"a": 1}'),)),
        Message("tool", "x" * 9000, tool_call_id="c", name="add"), Message("assistant", "Hm."), Message("user", " "),
    ], whole=True)  # fmt: skip
    half = "x" * (LONGEST_RESULT // 2)
    result = f"[add returned: {half}\n[... 5000 characters left out ...]\n{half}]"
    assert view == (
        Message("system", ROLE),
        Message("user", "one\n\ntwo"),
        Message("assistant", f'Let me add.\n[calls add({{"a": 1}})]\n\n{result}\n\nHm.'),
        Message("user", NEXT),
    )


def test_a_picture_is_named():
    picture = ({"type": "image_url", "image_url": {"url": "data:,x"}},)
    assert advisory_view([Message("user", picture)], whole=True)[1].content == "[a picture]"
    assert advised((Message("user", picture),), [Advice("m", "t")])[-1].content[-1]["text"].startswith(HEAD)


def test_a_reply_without_usage_stays_without():
    async def silent(asked, on_text):
        return Reply(Message("assistant", "ok"))

    with Server(advisor("x")) as a:
        assert ask(Mixture([chat(a)], as_provider(silent, name="mine"))).usage is None


def test_references_read_four_thousand_characters_of_a_result_whole():
    result = Message("tool", "x" * 4_000, tool_call_id="c", name="add")
    assert advisory_view([result], whole=True)[1].content == f"[add returned: {'x' * 4_000}]"
