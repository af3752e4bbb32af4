"""The calls of one reply: order, barriers, limits, failures, and one answer for each, whatever happens."""

from __future__ import annotations

import asyncio
import contextvars
import json
import math
import threading
import time
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.tools import results
from hermes_nb.tools.context import ToolContext, ToolFailed
from hermes_nb.tools.definition import ToolOptions, tool
from hermes_nb.tools.toolbox import Toolbox
from hermes_nb.vocabulary.failures import ConfigurationError, ToolDefinitionError
from hermes_nb.vocabulary.messages import ToolCall, ToolSpec
from tests.support.batches import ask, run_batch

TIME_ENOUGH = 20.0


@tool
def echo(text: str = "") -> str:
    return text


@tool(parallel_safe=True)
def read(text: str = "") -> str:
    return text


# --------------------------------------------------------------------------------------------- the box


def test_a_toolbox_takes_functions_and_tools_in_their_order():
    def plain(a: int) -> int:
        """Plain."""
        return a

    box = Toolbox([echo, plain])
    assert [spec.name for spec in box.specs] == ["echo", "plain"]


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigurationError, match="'echo'"):
        Toolbox([echo, tool(name="echo")(lambda: 1)])


@pytest.mark.parametrize("thing", [3, "echo", object()])
def test_what_is_no_tool_is_refused(thing):
    with pytest.raises(ConfigurationError, match="no tool"):
        Toolbox([thing])


def test_an_unusable_function_is_refused_when_the_box_is_made():
    with pytest.raises(ToolDefinitionError):
        Toolbox([tool(name="f")(lambda: 1), lambda *a: a])


def test_a_method_without_an_object_is_refused():
    class Library:
        @tool
        def search(self, word: str) -> str:
            return word

    with pytest.raises(ConfigurationError, match="bound to an object"):
        Toolbox([Library.search])
    assert run_batch([Library().search], ask("search", word="x")).texts == ["x"]


def test_the_defaults_of_a_box():
    box = Toolbox()
    assert (box.workers, box.batch_timeout, box.result_limit, box.batch_limit) == (8, 420.0, 100_000, 200_000)


@pytest.mark.parametrize("limit", ["workers", "batch_timeout", "result_limit", "batch_limit"])
def test_limits_must_be_positive(limit):
    with pytest.raises(ConfigurationError, match=limit):
        Toolbox(**{limit: 0})


# --------------------------------------------------------------------------------------------- order


def test_results_come_in_the_order_of_the_calls_each_once():
    @tool(parallel_safe=True)
    def wait(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    batch = run_batch(
        [wait], ask("wait", "a", seconds=0.2), ask("wait", "b", seconds=0.0), ask("wait", "c", seconds=0.1)
    )
    assert [result.call.id for result in batch.results] == ["a", "b", "c"]
    assert [result.value for result in batch.results] == [0.2, 0.0, 0.1]


def test_parallel_safe_neighbours_run_at_the_same_time():
    meeting = threading.Barrier(3)

    @tool(parallel_safe=True)
    def meet() -> int:
        return meeting.wait(TIME_ENOUGH)

    batch = run_batch([meet], *[ask("meet", str(n)) for n in range(3)])
    assert batch.statuses == ["ok"] * 3
    assert all(what.parallel for what in batch.told("tool"))


def test_other_tools_run_alone_and_in_order():
    running, seen, lock = set(), [], threading.Lock()

    def body(name: str) -> str:
        with lock:
            running.add(name)
            seen.append(frozenset(running))
        time.sleep(0.05)
        with lock:
            running.discard(name)
        return name

    tools = [
        tool(name="safe", parallel_safe=True)(lambda n: body(f"safe{n}")),
        tool(name="alone")(lambda n: body(f"alone{n}")),
    ]
    order = ["safe", "safe", "alone", "alone", "safe", "safe"]
    batch = run_batch(tools, *[ask(name, str(n), n=n) for n, name in enumerate(order)])
    assert batch.texts == ["safe0", "safe1", "alone2", "alone3", "safe4", "safe5"]
    for together in seen:
        if any(name.startswith("alone") for name in together):
            assert len(together) == 1
    assert [what.parallel for what in batch.told("tool")] == [True, True, False, False, True, True]


def test_no_more_calls_run_at_once_than_there_are_workers():
    running, most, lock = 0, 0, threading.Lock()

    @tool(parallel_safe=True)
    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1

    batch = run_batch([work], *[ask("work", str(n)) for n in range(12)], workers=3)
    assert batch.statuses == ["ok"] * 12
    assert most == 3


def test_a_result_is_handed_over_before_the_next_call_ends():
    handed_over = threading.Event()

    @tool(parallel_safe=True)
    def first() -> str:
        return "first"

    @tool(parallel_safe=True)
    def second() -> bool:
        return handed_over.wait(TIME_ENOUGH)

    batch = run_batch([first, second], ask("first"), ask("second"), on_result=lambda _: handed_over.set())
    assert [result.value for result in batch.results] == ["first", True]


def test_equal_calls_are_run_each():
    times = []

    @tool
    def once(n: int) -> int:
        times.append(n)
        return len(times)

    batch = run_batch([once], ask("once", "a", n=1), ask("once", "b", n=1))
    assert [result.value for result in batch.results] == [1, 2]


def test_tools_see_the_context_variables_of_the_caller():
    setting = contextvars.ContextVar("setting", default="unset")

    @tool
    def in_thread() -> str:
        return setting.get()

    @tool
    async def in_loop() -> str:
        return setting.get()

    token = setting.set("from the cell")
    try:
        batch = run_batch([in_thread, in_loop], ask("in_thread"), ask("in_loop"))
    finally:
        setting.reset(token)
    assert batch.texts == ["from the cell"] * 2


def test_a_tool_knows_its_call_and_its_turn():
    @tool
    def who(context: ToolContext) -> list[object]:
        context.recorder.tell  # noqa: B018  is there
        return [context.call_id, context.agent_name, context.event.name, context.interrupted]

    batch = run_batch([who], ask("who", "the-call"))
    assert batch.results[0].value == ["the-call", "tester", "who", False]


# --------------------------------------------------------------------------------------------- wrong calls


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "null", "42", "{", '{"text": "cut off', "not json", "{}{}"])
def test_arguments_that_are_no_object_run_nothing(arguments):
    ran = []

    @tool
    def write(path: str = "a.txt", content: str = "") -> None:
        ran.append((path, content))

    batch = run_batch([write], ToolCall("1", "write", arguments))
    assert batch.statuses == ["error"]
    assert batch.results[0].error_type == "invalid_arguments"
    assert "nothing was run" in json.loads(batch.texts[0])["error"]
    assert not ran


@pytest.mark.parametrize("arguments", ["", "  ", "{}", "\n{}\n"])
def test_no_arguments_are_an_empty_object(arguments):
    batch = run_batch([echo], ToolCall("1", "echo", arguments))
    assert batch.statuses == ["ok"]


def test_arguments_nested_beyond_measure_are_refused():
    batch = run_batch([echo], ToolCall("1", "echo", '{"text":' + "[" * 100_000 + "]" * 100_000 + "}"))
    assert batch.statuses == ["error"]


def test_an_unknown_tool_is_answered_with_the_known_ones():
    batch = run_batch([echo, read], ask("no_such_tool"), ask("echo", text="good"))
    assert batch.statuses == ["error", "ok"]
    assert batch.results[0].error_type == "unknown_tool"
    assert json.loads(batch.texts[0])["error"] == "There is no tool 'no_such_tool'. Valid tools: echo, read."


def test_an_endless_name_is_cut_where_it_is_shown():
    batch = run_batch([echo], ToolCall("1", "x" * 100_000, "{}"))
    assert len(batch.texts[0]) < 300
    assert len(batch.told("tool")[0].name) <= 100


def test_a_name_of_a_hundred_characters_is_shown_whole():
    name = "n" * 99 + "o"
    batch = run_batch([echo], ToolCall("1", name, "{}"))
    assert name in batch.texts[0]
    assert batch.told("tool")[0].name == name


def test_wrong_parameters_are_answered_with_the_right_ones():
    batch = run_batch([echo], ask("echo", txt="x"))
    assert batch.results[0].error_type == "invalid_arguments"
    assert "Valid: text (string, optional)" in batch.texts[0]


def test_a_misspelt_name_is_understood_and_the_result_keeps_the_models_name():
    batch = run_batch([echo], ask("functions.Echo_tool", text="hi"))
    assert batch.texts == ["hi"]
    assert batch.results[0].as_message().name == "functions.Echo_tool"
    assert batch.told("tool")[0].name == "echo"


# --------------------------------------------------------------------------------------------- failures


def test_an_exception_becomes_a_short_result_without_locals():
    def inner(secret: str) -> None:
        password = f"hunter2-{secret}"  # noqa: F841  what must not be told
        msg = "no such city"
        raise KeyError(msg)

    @tool
    def fails(secret: str) -> None:
        inner(secret)

    batch = run_batch([fails], ask("fails", secret="swordfish"))
    told = json.loads(batch.texts[0])
    assert told["error"] == "[TOOL_ERROR] KeyError: 'no such city'"
    assert "test_toolbox.py" in told["traceback"]
    assert "in inner" in told["traceback"]
    assert "swordfish" not in batch.texts[0]
    assert "definition.py" not in batch.texts[0]
    assert batch.results[0].error_type == "KeyError"
    [event] = batch.told("tool")
    assert (event.status, event.error_type) == ("error", "KeyError")


def test_the_last_three_places_of_an_exception_are_told():
    def third() -> None:
        raise ValueError

    def second() -> None:
        third()

    @tool
    def fails() -> None:
        second()

    told = json.loads(run_batch([fails], ask("fails")).texts[0])["traceback"].splitlines()
    assert [line.split(" in ")[1].split(":")[0] for line in told] == ["fails", "second", "third"]


def test_an_endless_error_message_is_cut():
    @tool
    def fails() -> None:
        raise ValueError('\u00e9"\\' * 10_000)

    batch = run_batch([fails], ask("fails"))
    assert len(batch.texts[0]) <= 2_000
    assert json.loads(batch.texts[0])["error"].startswith("[TOOL_ERROR] ValueError: ")


def test_an_exception_that_cannot_be_shown_is_still_an_answer():
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    def fails() -> None:
        raise Broken

    batch = run_batch([fails], ask("fails"))
    assert "Broken" in batch.texts[0]


def test_a_failure_in_the_tools_own_words():
    @tool
    def fails() -> None:
        raise ToolFailed("closed on Mondays", "closed")

    batch = run_batch([fails], ask("fails"))
    assert (batch.texts, batch.results[0].error_type) == (["closed on Mondays"], "closed")


@pytest.mark.parametrize("content", [ValueError("closed"), 7, ["a", "b"], "lone \ud800 " * 30_000, None])
def test_a_failure_in_any_words_is_told_and_nothing_breaks(content, tmp_path):
    @tool
    def fails() -> None:
        raise ToolFailed(content)

    batch = run_batch([fails], ask("fails"), spill=tmp_path)
    assert batch.raised is None
    assert batch.statuses == ["error"]
    assert str(content)[:4] in batch.texts[0] or batch.texts == ['["a", "b"]']


class Unusual(BaseException):
    """Neither an exception nor an interrupt."""


@pytest.mark.parametrize(
    "kind", [asyncio.CancelledError, SystemExit, GeneratorExit, Unusual, StopIteration, StopAsyncIteration]
)
@pytest.mark.parametrize("where", ["thread", "loop"])
def test_whatever_a_tool_raises_is_its_result_and_the_batch_goes_on(kind, where):
    def fails() -> None:
        raise kind

    async def fails_later() -> None:
        await anyio.lowlevel.checkpoint()
        raise kind

    bad = tool(name="bad")(fails if where == "thread" else fails_later)
    batch = run_batch([bad, echo], ask("bad"), ask("echo", text="after"))
    assert batch.raised is None
    assert batch.statuses == ["error", "ok"]
    assert kind.__name__ in batch.texts[0]


def test_a_tool_that_cancels_itself_or_times_out_by_itself_is_an_error():
    @tool
    async def own_timeout() -> None:
        async with asyncio.timeout(0.01):
            await anyio.sleep(TIME_ENOUGH)

    @tool
    async def own_cancel() -> None:
        asyncio.current_task().cancel()
        await anyio.lowlevel.checkpoint()

    batch = run_batch([own_timeout, own_cancel, echo], ask("own_timeout"), ask("own_cancel"), ask("echo", text="after"))
    assert batch.statuses == ["error", "error", "ok"]
    assert [result.error_type for result in batch.results[:2]] == ["TimeoutError", "CancelledError"]


@pytest.mark.parametrize("where", ["thread", "loop"])
def test_a_keyboard_interrupt_answers_all_calls_then_stops_the_turn(where):
    def stops() -> None:
        raise KeyboardInterrupt

    async def stops_later() -> None:
        raise KeyboardInterrupt

    bad = tool(name="bad", parallel_safe=True)(stops if where == "thread" else stops_later)

    @tool(parallel_safe=True)
    async def long() -> None:
        await anyio.sleep(TIME_ENOUGH)

    batch = run_batch(
        [bad, long, echo, read], ask("read", text="done"), ask("echo"), ask("bad"), ask("long"), ask("echo")
    )
    assert isinstance(batch.raised, KeyboardInterrupt)
    assert batch.statuses == ["ok", "ok", "cancelled", "cancelled", "skipped"]


def test_a_bug_in_the_callers_callback_comes_out_as_it_is():
    def broken(result: object) -> None:
        raise LookupError(result)

    batch = run_batch([echo], ask("echo"), ask("echo"), on_result=broken)
    assert isinstance(batch.raised, LookupError)


# --------------------------------------------------------------------------------------------- time-outs


def test_a_call_that_takes_too_long_is_given_up():
    abandoned = threading.Event()

    @tool(timeout=0.05)
    def slow(context: ToolContext) -> None:
        while not context.interrupted:
            time.sleep(0.01)
        abandoned.set()

    @tool(timeout=0.05)
    async def slow_too() -> None:
        await anyio.sleep(TIME_ENOUGH)

    batch = run_batch([slow, slow_too, echo], ask("slow"), ask("slow_too"), ask("echo", text="after"))
    assert batch.statuses == ["timeout", "timeout", "ok"]
    assert "effect is unknown" in batch.texts[0]
    assert batch.told("tool")[0].error_type == "timeout"
    assert abandoned.wait(TIME_ENOUGH)
    assert [what.part for what in batch.told("degraded")] == ["tool"]


def test_the_batchs_time_binds_all_tools_without_a_timeout_of_their_own():
    ran = []

    @tool
    async def endless() -> None:
        await anyio.sleep(TIME_ENOUGH)

    @tool(timeout=math.inf)
    async def patient() -> str:
        await anyio.sleep(0.1)
        return "in its own time"

    @tool
    async def late() -> None:
        ran.append("late")

    batch = run_batch([endless, patient, late], ask("endless"), ask("late"), ask("patient"), batch_timeout=0.1)
    assert batch.statuses == ["timeout", "skipped", "ok"]
    assert "not started" in batch.texts[1]
    assert not ran


# --------------------------------------------------------------------------------------------- interrupts


def test_an_interrupt_tells_apart_what_finished_what_ran_and_what_never_began():
    began = threading.Event()

    @tool(parallel_safe=True)
    async def quick() -> str:
        return "the real result"

    @tool(parallel_safe=True)
    async def long() -> None:
        began.set()
        await anyio.sleep(TIME_ENOUGH)

    async def has_begun() -> None:
        await anyio.to_thread.run_sync(began.wait)

    batch = run_batch([quick, long, echo], ask("quick"), ask("long"), ask("echo"), cancel_when=has_begun)
    assert batch.cancelled
    assert batch.statuses == ["ok", "cancelled", "skipped"]
    assert batch.texts[0] == "the real result"
    assert "effect is unknown" in batch.texts[1]
    assert "not started" in batch.texts[2]
    assert "unknown" not in batch.texts[2]
    ended = [(event.what.status, event.interrupted, event.what.error_type) for event in batch.ended()]
    assert ended == [("ok", False, ""), ("cancelled", True, ""), ("skipped", False, "")]


def test_an_interrupt_does_not_wait_for_a_thread_that_cannot_be_stopped():
    release, seen = threading.Event(), []

    @tool
    def deaf(context: ToolContext) -> None:
        release.wait(TIME_ENOUGH)
        seen.append(context.interrupted)

    started = time.monotonic()
    batch = run_batch([deaf], ask("deaf"), cancel_after=0.1)
    assert time.monotonic() - started < TIME_ENOUGH / 2
    assert batch.statuses == ["cancelled"]
    assert "still runs" in batch.told("degraded")[0].detail
    thread = next(thread for thread in threading.enumerate() if thread.name == "tool deaf")
    assert thread.daemon
    release.set()
    thread.join(TIME_ENOUGH)
    assert seen == [True]


def test_calls_that_wait_for_a_worker_have_not_begun():
    @tool(parallel_safe=True)
    async def long() -> None:
        await anyio.sleep(TIME_ENOUGH)

    batch = run_batch([long], *[ask("long", str(n)) for n in range(4)], workers=2, cancel_after=0.05)
    assert batch.statuses == ["cancelled", "cancelled", "skipped", "skipped"]


def test_a_tool_that_finishes_in_spite_of_the_interrupt_gives_its_real_result():
    @tool
    async def stubborn() -> str:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.15)
        return "saved"

    batch = run_batch([stubborn, echo], ask("stubborn"), ask("echo"), cancel_after=0.05)
    assert batch.texts[0] == "saved"
    assert batch.statuses == ["ok", "skipped"]
    assert batch.cancelled


def test_a_task_cancelled_the_asyncio_way_is_answered_too():
    async def main() -> list[str]:
        statuses: list[str] = []

        @tool
        async def long() -> None:
            await anyio.sleep(TIME_ENOUGH)

        async def job() -> None:
            await Toolbox([long, echo]).run(
                [ask("long"), ask("echo")],
                context=ToolContext(),
                on_result=lambda result: statuses.append(result.status),
            )

        task = asyncio.create_task(job())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return statuses

    assert asyncio.run(main()) == ["cancelled", "skipped"]


@tool(name="quick", parallel_safe=True)
async def _quick() -> str:
    return "quick"


@tool(name="slow", parallel_safe=True)
async def _slow() -> None:
    await anyio.sleep(0.01)


@tool(name="thread", parallel_safe=True)
def _thread() -> None:
    time.sleep(0.005)


@tool(name="fails")
def _fails() -> None:
    raise ValueError


@tool(name="cancels")
async def _cancels() -> None:
    raise asyncio.CancelledError


@tool(name="exits", parallel_safe=True)
def _exits() -> None:
    raise SystemExit


@tool(name="limited", timeout=0.002, parallel_safe=True)
async def _limited() -> None:
    await anyio.sleep(1)


ZOO = [_quick, _slow, _thread, _fails, _cancels, _exits, _limited]
kinds = st.sampled_from(["quick", "slow", "thread", "fails", "cancels", "exits", "unknown", "broken", "limited"])


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(kinds, max_size=7), st.none() | st.floats(0, 0.03), st.integers(1, 3))
def test_every_call_is_answered_exactly_once_in_order_whenever_it_is_interrupted(names, cancel_after, workers):
    box = Toolbox(ZOO, workers=workers)
    calls = [ToolCall(f"c{n}", name, "[]" if name == "broken" else "{}") for n, name in enumerate(names)]
    batch = run_batch(box, *calls, cancel_after=cancel_after)

    assert [result.call.id for result in batch.results] == [call.id for call in calls]
    if cancel_after is None:
        assert not {"cancelled", "skipped"} & set(batch.statuses)
    for result in batch.results:
        assert result.content
        if result.status in ("cancelled", "skipped"):
            assert not result.error_type
    scopes = [event for event in batch.events if event.what.kind == "tool"]
    assert sorted(event.what.call_id for event in scopes) == sorted([call.id for call in calls] * 2)
    by_call = {event.what.call_id: event.what.status for event in batch.ended()}
    assert by_call == {result.call.id: result.status for result in batch.results}


# --------------------------------------------------------------------------------------------- sizes


def test_many_small_results_are_measured_a_few_times_each(monkeypatch):
    measured, size = [], results.size
    monkeypatch.setattr(results, "size", lambda content: measured.append(1) or size(content))
    batch = run_batch([tool(name="one")(lambda n=0: n)], *[ask("one", f"c{n}", n=n) for n in range(300)])
    assert batch.texts == [str(n) for n in range(300)]
    assert len(measured) < 300 * 10


def sized(**sizes: int):
    return [tool(name=name, parallel_safe=True)(lambda size=size: "x" * size) for name, size in sizes.items()]


def test_a_long_result_is_kept_whole_and_shown_by_its_ends(tmp_path):
    text = "begin" + "x" * 150_000 + "end"

    @tool
    def long() -> str:
        return text

    batch = run_batch([long], ask("long"), spill=tmp_path / "results")
    [result] = batch.results
    assert result.truncated
    assert len(result.content) < 2_000
    assert "begin" in result.content
    assert result.content.endswith("end")
    assert result.stored_at in result.content
    assert Path(result.stored_at).read_text(encoding="utf-8") == text
    assert result.value == text
    [event] = batch.told("tool")
    assert event.truncated


def test_a_long_result_survives_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    text = "x" * 150_000
    batch = run_batch(sized(long=150_000), ask("long"), spill=tmp_path / "file")
    [result] = batch.results
    assert (result.status, result.truncated, result.stored_at) == ("ok", True, "")
    assert result.value == text
    assert "could not be" in batch.told("degraded")[0].detail


def test_the_largest_results_of_a_batch_are_cut_first(tmp_path):
    sizes = {"a": 150_000, "b": 90_000, "c": 80_000, "d": 70_000}
    batch = run_batch(sized(**sizes), *map(ask, sizes), spill=tmp_path)
    assert [result.truncated for result in batch.results] == [True, True, False, False]
    assert sum(len(result.content) for result in batch.results) <= 200_000
    for result, size in zip(batch.results, sizes.values(), strict=True):
        assert len(result.value) == size


def test_small_results_are_not_held_back_for_the_batchs_limit():
    told = threading.Event()

    @tool(parallel_safe=True)
    def small() -> str:
        return "x" * 40_000

    @tool(parallel_safe=True)
    def waits() -> bool:
        return told.wait(TIME_ENOUGH)

    batch = run_batch([small, waits], ask("small"), ask("waits"), on_result=lambda _: told.set())
    assert batch.results[1].value is True


def test_a_result_held_back_is_given_when_the_batch_is_interrupted(tmp_path):
    @tool(parallel_safe=True)
    async def large() -> str:
        return "x" * 90_000

    @tool(parallel_safe=True)
    async def long() -> None:
        await anyio.sleep(TIME_ENOUGH)

    batch = run_batch([large, long], ask("large"), *[ask("long", str(n)) for n in range(3)], cancel_after=0.1)
    assert batch.statuses == ["ok", "cancelled", "cancelled", "cancelled"]
    assert len(batch.results[0].content) == 90_000


def test_a_tool_may_have_a_limit_of_its_own(tmp_path):
    @tool(result_limit=100)
    def brief() -> str:
        return "x" * 5_000

    batch = run_batch([brief], ask("brief"), spill=tmp_path)
    assert batch.results[0].truncated
    assert len(batch.results[0].content) < 500


def test_a_result_as_long_as_its_limit_is_read_whole():
    batch = run_batch(sized(exact=1_000, longer=1_001), ask("exact"), ask("longer"), result_limit=1_000)
    assert [result.truncated for result in batch.results] == [False, True]


def test_a_batch_as_long_as_its_limit_is_read_whole():
    batch = run_batch(sized(one=20_000, two=20_000), ask("one"), ask("two"), batch_limit=40_000)
    assert [result.truncated for result in batch.results] == [False, False]


@pytest.mark.parametrize(("size", "cut"), [(3_000, False), (3_001, True)])
def test_a_result_of_two_previews_is_too_short_to_be_cut_for_the_others(size, cut):
    batch = run_batch(sized(one=size, two=size), ask("one"), ask("two"), batch_limit=2_000)
    assert [result.truncated for result in batch.results] == [cut, cut]


def test_a_result_that_fits_whatever_the_others_bring_is_handed_over_while_they_run():
    handed_over = threading.Event()

    @tool(parallel_safe=True)
    def first() -> str:
        return "x" * 10

    @tool(parallel_safe=True)
    def second() -> str:
        return "in time" if handed_over.wait(5) else "too late"

    def take(result):
        handed_over.set()

    batch = run_batch([first, second], ask("first"), ask("second"), batch_limit=20, on_result=take)
    assert batch.texts[1] == "in time"


def test_a_call_that_runs_alone_is_not_told_to_be_parallel():
    @tool(parallel_safe=True)
    async def quick() -> str:
        return "ok"

    alone = run_batch([quick], ask("quick"))
    both = run_batch([quick], ask("quick", "1"), ask("quick", "2"))
    assert [event.parallel for event in alone.told("tool")] == [False]
    assert [event.parallel for event in both.told("tool")] == [True, True]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 30_000), min_size=1, max_size=6))
def test_a_batch_never_exceeds_its_limit(sizes):
    tools = sized(**{f"t{n}": size for n, size in enumerate(sizes)})
    batch = run_batch(tools, *[ask(f"t{n}") for n in range(len(sizes))], result_limit=20_000, batch_limit=40_000)
    assert sum(len(result.content) for result in batch.results) <= 40_000
    assert [len(result.value) for result in batch.results] == sizes


# --------------------------------------------------------------------------------------------- other tools


class Remote:
    """A tool that is no function."""

    spec = ToolSpec("remote", "Elsewhere.", {"type": "object", "properties": {}})
    options = ToolOptions(type="extension", delegate="helper", free=True)

    async def invoke(self, arguments, context):
        context.event.child_turn_id = "child"
        return dict(arguments)


def test_anything_with_a_spec_options_and_invoke_is_a_tool():
    batch = run_batch([Remote()], ask("remote", any_=1))
    assert json.loads(batch.texts[0]) == {"any_": 1}
    [event] = batch.told("tool")
    assert (event.type, event.delegate, event.child_turn_id) == ("extension", "helper", "child")


def test_an_iteration_is_free_when_all_its_tools_are():
    box = Toolbox([Remote(), echo])
    assert box.all_free([ask("remote")])
    assert not box.all_free([ask("remote"), ask("echo")])
    assert not box.all_free([ask("unknown")])
    assert not box.all_free([])
