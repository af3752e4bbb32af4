"""What once broke the library: hostile replies, odd arguments, waits that were cancelled twice."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from contextlib import asynccontextmanager

import anyio
import pytest

import hermes_nb as hn
from hermes_nb.testing import call, fails, say, script
from hermes_nb.vocabulary.messages import Message, ToolCall
from tests.support.scripts import Speechless, Wrapped
from tests.support.server import Server, always, status


@hn.tool
def echo(x: int = 1) -> int:
    """The number."""
    return x


@hn.tool
def nap(seconds: float = 0.5) -> str:
    """Sleep."""
    time.sleep(seconds)
    return "slept"


def answering(*replies, fallback=()) -> hn.Agent:
    """An agent whose provider returns these, whatever they are; exceptions are raised."""
    left = iter(replies)

    async def provide(request, on_text):
        reply = next(left)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    return hn.Agent([hn.as_provider(provide, name="odd"), *fallback], tools=[echo, nap], retry=hn.Retry(attempts=1))


# ------------------------------------------------------------------------------------- waits


def test_a_wait_that_anyio_cancels_leaves_the_result_to_others():
    async def program():
        run = hn.Agent(script(call("nap"), say("done")), tools=[nap]).start("q", session=False)
        with anyio.move_on_after(0.1):
            await run
        return run

    run = anyio.run(program)
    assert run.result(10).exit_reason == "interrupted_by_user"


def test_a_wait_that_is_cancelled_twice_leaves_the_result_to_others():
    @hn.tool
    async def stubborn() -> str:
        """Do not stop at once."""
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.5)
        return "stopped at last"

    async def program():
        run = hn.Agent(script(call("stubborn"), say("done")), tools=[stubborn]).start("q", session=False)
        waiting = asyncio.ensure_future(asyncio.wait_for(run, 30))
        for _ in range(2):
            await asyncio.sleep(0.1)
            waiting.cancel()
        await asyncio.wait([waiting])
        return run

    run = asyncio.run(program())
    assert run.result(10).exit_reason == "interrupted_by_user"


# ------------------------------------------------------------------------------------- replies


def test_arguments_nested_without_end_are_answered_with_an_error():
    nested = '{"x": ' + "[" * 200_000 + "]" * 200_000 + "}"
    agent = answering(
        hn.Reply(Message("assistant", "", (ToolCall("1", "echo", nested),))), hn.Reply(Message("assistant", "sorry"))
    )
    result = agent.run("q", session=False)
    assert result.text == "sorry"
    assert "not valid JSON" in result.messages[2].text


@pytest.mark.parametrize(
    "odd",
    [
        None,
        "hello",
        {"content": "hello"},
        hn.Reply(Message("assistant", None)),
        hn.Reply(Message("assistant", [{"type": "text"}])),
        hn.Reply(Message("assistant", "x", None)),
        hn.Reply(Message("assistant", "", (ToolCall("1", "echo", {"x": 1}),))),
        hn.Reply(Message("assistant", "", ({"id": "1"},))),
        hn.Reply(Message("assistant", "x"), usage={"input_tokens": 1}),
        SystemExit(2),
        asyncio.CancelledError(),
        BaseExceptionGroup("odd", [SystemExit(1)]),
    ],
    ids=repr,
)
def test_a_provider_that_returns_no_reply_is_replaced_by_the_next_one(odd):
    run = answering(odd, fallback=[script(say("here"))]).start("q", session=False)
    result = run.result(10)
    assert (result.text, result.fallbacks) == ("here", 1)
    assert len(run.trace.fallbacks_df()) == 1


def test_a_reference_that_returns_no_reply_is_one_that_failed():
    async def provide(request, on_text):
        return None

    mixture = hn.Mixture([hn.as_provider(provide, name="odd"), script(say("advice"))], script(say("here"), name="acts"))
    result = hn.Agent([mixture, script(say("fallback"))]).run("q", session=False)
    assert (result.text, result.fallbacks) == ("here", 0)


def test_a_keyboard_interrupt_in_a_provider_ends_the_turn_in_order():
    result = answering(KeyboardInterrupt()).run("q", session=False)
    assert result.exit_reason == "interrupted_by_kernel"


@pytest.mark.parametrize("part", [{"type": "text"}, {"type": "text", "text": 5}, {"type": "image_url"}])
def test_a_tool_that_returns_broken_parts_gives_them_as_data(part):
    @hn.tool
    def broken() -> list:
        """Parts."""
        return [part]

    result = hn.Agent(script(call("broken"), say("seen")), tools=[broken]).run("q", session=False)
    assert result.text == "seen"
    assert '"type"' in result.messages[2].content


# ------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "odd",
    [
        {"budget": -1},
        {"budget": "3"},
        {"tools": echo},
        {"tools": None},
        {"instructions": 5},
        {"retry": 3},
        {"compression": True},
        {"guard": "shared"},
        {"ceiling": 1000},
        {"faults": 0.5},
        {"checkpoints": "."},
    ],
    ids=repr,
)
def test_an_agent_refuses_what_cannot_work_at_once(odd):
    with pytest.raises(hn.ConfigurationError, match=next(iter(odd))):
        hn.Agent(script(say("x")), **odd)


@pytest.mark.parametrize(
    "odd",
    [
        {"prompt": 5},
        {"prompt": b"bytes"},
        {"prompt": ["words"]},
        {"prompt": [{"type": "text"}]},
        {"history": [{"role": "user", "content": [{"type": "text"}]}]},
        {"sinks": print},
        {"sinks": [5]},
        {"metadata": 5},
        {"tracer_provider": 5},
    ],
    ids=repr,
)
def test_a_turn_refuses_what_cannot_work_and_leaves_its_session_free(odd, tmp_path):
    agent, session = hn.Agent(script(say("x"))), hn.Session(tmp_path / "log.db")
    with pytest.raises(hn.ConfigurationError, match=next(iter(odd))):
        agent.start(**({"prompt": "q", "session": session} | odd))
    assert agent.run("q", session=session).text == "x"


def test_a_run_refuses_odd_orders_and_goes_on():
    run = hn.Agent(script(say("x"))).start("q", session=False, paused=True)
    orders = [lambda: run.interrupt(when="later"), lambda: run.interrupt(source="me"), lambda: run.steer(5)]
    for order in orders:
        with pytest.raises(ValueError, match=r"interrupt when|needs some text"):
            order()
    run.resume()
    assert run.result(10).text == "x"


def test_a_page_leaves_no_pictures_open(tmp_path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    hn.Agent(script(say("x"))).run("q", session=False).trace.to_html(tmp_path / "turn.html")
    assert pyplot.get_fignums() == before


def test_a_tool_name_with_dollar_signs_is_no_formula(tmp_path):
    odd = "$\\frac$ \x1b[31m $"
    run = hn.Agent(script(call(odd), say("x"), name=odd), name=odd).start("q", session=False)
    run.result(10)
    run.trace.to_html(tmp_path / "turn.html")
    run.trace.to_otlp_json(tmp_path / "turn.jsonl")
    hn.load(tmp_path / "turn.jsonl").to_html(tmp_path / "turns.html")


def test_a_session_in_a_directory_asks_for_a_file(tmp_path):
    with pytest.raises(hn.TraceError, match="directory"):
        hn.Session(tmp_path)


# ------------------------------------------------------------------------------------- code of the user's


class Nothing(BaseException):
    """No Exception, and no word."""

    def __str__(self):
        raise ValueError("no words")


def refusing(kind):
    def refuse(*_):
        raise kind

    return refuse


@pytest.mark.parametrize("kind", [Speechless, SystemExit, GeneratorExit, Nothing])
def test_a_price_that_fails_in_whatever_way_is_no_price(kind):
    ceiling = hn.Ceiling(cost_usd=1.0, price=refusing(kind))
    run = hn.Agent(script(say("ok")), ceiling=ceiling).start("q", session=False)
    assert (run.result(10).text, run.result().cost_usd) == ("ok", None)
    assert [event.what.part for event in run.events if event.what.kind == "degraded"] == ["price"]


@pytest.mark.parametrize("kind", [Speechless, SystemExit, Nothing])
def test_a_guards_store_that_fails_in_whatever_way_is_ignored_visibly(kind):
    class Store:
        read = write = refusing(kind)

    run = hn.Agent(script(say("ok")), guard=hn.RateGuard(store=Store())).start("q", session=False)
    assert run.result(10).text == "ok"
    assert {event.what.part for event in run.events if event.what.kind == "degraded"} == {"guard"}


def test_a_provider_whose_exception_has_no_words_is_replaced_by_the_next_one():
    result = answering(Speechless(), fallback=[script(say("here"))]).run("q", session=False)
    assert (result.text, result.fallbacks) == ("here", 1)


def test_a_policy_whose_exception_has_no_words_still_leaves_a_whole_record():
    class Broken(hn.Refund):
        def allows(self, reason, refunds):
            raise Speechless

    agent = hn.Agent(
        script(call("free"), say("ok")), tools=[hn.tool(free=True, name="free")(lambda: 1)], refund=Broken()
    )
    run = agent.start("q", session=False)
    assert run.wait(10)
    assert run.events[-1].what.exit_reason == "internal_error"
    with pytest.raises(Speechless):
        run.result()


# ------------------------------------------------------------------------------------- values of tools


class Slow:
    """Takes its time to say what it is."""

    def __repr__(self):
        time.sleep(20)
        return "slow"


class Drawn:
    """Takes its time to be drawn."""

    def _repr_png_(self):
        time.sleep(20)
        return b"png"


def dripping():
    """Gives one thing, and nothing more for long."""
    yield 1
    time.sleep(20)


@pytest.mark.parametrize("make", [Slow, Drawn, dripping])
def test_a_value_that_takes_long_to_be_shown_does_not_hold_up_an_interrupt(make):
    shown = threading.Event()

    def slow():
        shown.set()
        return make()

    run = hn.Agent(script(call("slow"), say("never")), tools=[hn.tool(name="slow")(slow)]).start("q", session=False)
    assert shown.wait(10)
    time.sleep(0.1)
    run.interrupt()
    assert run.wait(10)
    assert run.result().exit_reason == "interrupted_by_user"
    assert "effect is unknown" in run.result().messages[2].text


def test_a_value_that_takes_long_to_be_shown_is_given_up_with_its_call():
    tool = hn.tool(name="slow", timeout=0.1)(lambda n=0: Slow())
    result = hn.Agent(script(call("slow"), say("on")), tools=[tool]).run("q", session=False)
    assert (result.text, result.messages[2].text[:25]) == ("on", "[The call was given up af")


def test_iterators_without_end_are_read_in_part():
    tools = [hn.tool(name="count")(lambda n=0: itertools.count(n))]
    result = hn.Agent(script(call("count"), say("enough")), tools=tools).run("q", session=False)
    assert result.text == "enough"
    assert "[0, 1, 2" in result.messages[2].text
    assert '999999, "…"]' in result.messages[2].text


def test_generators_give_what_they_yield_and_fail_as_what_they_raise():
    async def later():
        """Yields."""
        yield 1
        yield 2

    def breaking():
        """Yields, then breaks."""
        yield 1
        raise ValueError("no more")

    result = hn.Agent(script(call("later"), call("breaking"), say("ok")), tools=[later, breaking]).run(
        "q", session=False
    )
    assert result.messages[2].text == "[1, 2]"
    assert "ValueError: no more" in result.messages[4].text


ODD = [Speechless, SystemExit, GeneratorExit, asyncio.CancelledError, Nothing]


@pytest.mark.parametrize("kind", ODD)
def test_a_refresh_of_a_key_that_fails_in_whatever_way_is_a_key_that_was_refused(kind):
    with Server(always(status(401))) as server:
        keys = hn.CredentialPool(["old"], refresh=refusing(kind))
        provider = hn.OpenAIChat("m", base_url=server.url, api_key=keys)
        result = hn.Agent(provider).start("q", session=False).result(10)
    assert (result.exit_reason, result.failure.reason, len(server.requests)) == ("provider_failed", "auth", 1)


def test_control_c_in_a_refresh_of_a_key_ends_the_turn_in_order():
    with Server(always(status(401))) as server:
        keys = hn.CredentialPool(["old"], refresh=refusing(KeyboardInterrupt))
        provider = hn.OpenAIChat("m", base_url=server.url, api_key=keys)
        result = hn.Agent(provider).start("q", session=False).result(10)
    assert result.exit_reason == "interrupted_by_kernel"


@pytest.mark.parametrize("kind", ODD)
def test_a_provider_that_cannot_be_reached_in_whatever_way_is_replaced_by_the_next_one(kind):
    class Unreachable(Wrapped):
        @asynccontextmanager
        async def connect(self):
            raise kind
            yield

    result = hn.Agent([Unreachable(script()), script(say("here"), name="next")]).start("q", session=False).result(10)
    assert (result.text, result.fallbacks) == ("here", 1)


@pytest.mark.parametrize("kind", ODD)
def test_a_compressor_that_fails_in_whatever_way_is_a_compression_that_failed(kind):
    policy = hn.Compression(context_window=1_000, minimum=0, compressor=refusing(kind))
    run = hn.Agent(script(say("ok")), compression=policy).start("word " * 5_000, session=False)
    assert run.result(10).text == "ok"
    assert {event.what.part for event in run.events if event.what.kind == "degraded"} == {"compressor"}


@pytest.mark.parametrize("kind", ODD)
def test_a_provider_that_fails_to_renew_its_key_is_replaced_by_the_next_one(kind):
    class Keyed(Wrapped):
        @asynccontextmanager
        async def connect(self):
            async with self._inner.connect() as connection:
                yield Unrenewable(connection)

    class Unrenewable(Wrapped):
        async def renew(self, failure):
            raise kind

    result = hn.Agent([Keyed(script(fails("auth"))), script(say("here"), name="next")]).run("q", session=False)
    assert (result.text, result.fallbacks) == ("here", 1)
