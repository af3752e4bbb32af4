"""The Stop button while a turn is waited for: it ends in order, the kernel lives, and the next turn works."""

from __future__ import annotations

import time

import pytest

from tests.support.jupyter import Kernel

pytestmark = pytest.mark.kernel

SETUP = """
import asyncio, threading, time
import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, say, script

@hn.tool
def nap(seconds: float) -> str:
    "Sleep in small pieces."
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(0.02)
    return "slept"

@hn.tool
def sleep(seconds: float) -> str:
    "Sleep in one piece, which nobody can stop."
    time.sleep(seconds)
    return "slept"

@hn.tool
def count(rounds: int) -> int:
    "Keep the processor busy."
    total = 0
    for number in range(rounds):
        total += number
    return total

def start(*steps, **more):
    agent = hn.Agent(script(*steps), tools=[nap, sleep, count], budget=8, guard=None, **more)
    return agent.start("Go", session=False)
"""
STEPS = {
    "a tool in small pieces": "call('nap', seconds=60)",
    "a tool in one piece": "call('sleep', seconds=8)",
    "a tool that computes": "call('count', rounds=10**10)",
    "a request": "say('late', seconds=60)",
    "a wait before a retry": "fails('rate_limit', retry_after=60)",
}


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        kernel.run(SETUP)
        yield kernel


def press(kernel, code, after=0.6, times=1, apart=0.2):
    """Run a cell and press Stop while it runs; returns what the cell printed and how long it took from there."""
    cell = kernel.send(code)
    time.sleep(after)
    pressed = time.monotonic()
    for number in range(times):
        time.sleep(apart if number else 0)
        kernel.interrupt()
    return kernel.wait(cell, 40), time.monotonic() - pressed


def next_turn_works(kernel):
    assert kernel.alive
    assert kernel.run("print(start(say('fine')).result().text)") == "fine"


@pytest.mark.parametrize("name", STEPS)
def test_stop_in_a_cell_that_waits_gives_the_partial_result(kernel, name):
    told, took = press(kernel, f"run = start({STEPS[name]}); print(run.result().exit_reason)")
    assert told == "interrupted_by_kernel"
    assert took < 5
    assert kernel.run("print(run.result().messages[0].text)") == "Go"
    next_turn_works(kernel)


@pytest.mark.parametrize("name", ["a tool in small pieces", "a request", "a wait before a retry"])
def test_stop_in_a_cell_that_awaits_gives_the_partial_result(kernel, name):
    told, took = press(kernel, f"run = start({STEPS[name]}); print((await run).exit_reason)")
    assert told == "interrupted_by_kernel"
    assert took < 5
    next_turn_works(kernel)


STUBBORN = """
class Stubborn:
    "A run whose turn takes its time to end."
    def __init__(self):
        import concurrent.futures
        self.future, self.asked = concurrent.futures.Future(), []
        self.future.set_running_or_notify_cancel()
    def stop(self):
        self.asked.append("stop")
        threading.Timer(20, lambda: self.future.set_result(None)).start()

from hermes_nb.interrupts import stop_button
"""


def test_a_second_press_gives_up_a_wait_that_blocks(kernel):
    kernel.run(STUBBORN)
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        press(kernel, "run = Stubborn()\nwith stop_button(run.stop):\n    run.future.result()", times=2)
    assert kernel.run("print(run.asked)") == "['stop']"
    next_turn_works(kernel)


def test_a_second_press_gives_up_a_wait_that_awaits(kernel):
    kernel.run(STUBBORN)
    code = """
run = Stubborn()
with stop_button(run.stop, asyncio.current_task()):
    await asyncio.shield(asyncio.wrap_future(run.future))
"""
    with pytest.raises(RuntimeError, match="CancelledError"):
        press(kernel, code, times=2)
    assert kernel.run("print(run.asked)") == "['stop']"
    next_turn_works(kernel)


def test_stop_is_given_back_after_the_wait(kernel):
    kernel.run("import signal; print(signal.getsignal(signal.SIGINT))")
    assert kernel.run("_ = start(say('x')).result(); print(signal.getsignal(signal.SIGINT))") == (
        kernel.run("print(signal.getsignal(signal.SIGINT))")
    )
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        press(kernel, "_ = start(say('x')).result(); time.sleep(30)")
    next_turn_works(kernel)


def test_stop_in_another_cell_leaves_the_turn_alone(kernel):
    kernel.run("run = start(call('nap', seconds=1.5), say('done'))")
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        press(kernel, "time.sleep(30)")
    assert kernel.run("print(run.result().exit_reason)") == "completed"


def replies(kernel, cells, seconds=20):
    """How the kernel answers some cells: `ok`, `error` or `aborted`."""
    found = {}
    deadline = time.monotonic() + seconds
    while set(cells) - set(found) and time.monotonic() < deadline:
        message = kernel.client.get_shell_msg(timeout=seconds)
        found[message["parent_header"].get("msg_id")] = message["content"]["status"]
    return [found.get(cell) for cell in cells]


@pytest.mark.parametrize("wait", ["run.result()", "await run"])
def test_the_cells_behind_a_stopped_one_are_not_run(kernel, wait):
    """As Run All sends them. The stopped cell itself goes on with what there is, and shows no traceback."""
    kernel.run("later = []")
    first = f"run = start(call('nap', seconds=60)); result = {wait}; later.append(str(result.exit_reason))"
    cells = [kernel.send(code) for code in (first, "later.append('second')", "later.append('third')")]
    time.sleep(0.6)
    kernel.interrupt()
    assert replies(kernel, cells) == ["error", "aborted", "aborted"]
    assert kernel.run("print(later)") == "['interrupted_by_kernel']"
    kernel.drain()
    errors = [m for m in kernel.messages if m["msg_type"] == "error" and m["parent_header"]["msg_id"] == cells[0]]
    assert errors == []
    next_turn_works(kernel)


def test_the_cells_behind_a_turn_that_nobody_stopped_are_run(kernel):
    cells = [kernel.send("_ = start(call('nap', seconds=0.3), say('done')).result()"), kernel.send("second = 1")]
    assert replies(kernel, cells) == ["ok", "ok"]
    kernel.drain()


def test_stop_while_no_cell_runs_ends_the_turns_whose_panels_are_live(kernel):
    kernel.run("one = start(call('nap', seconds=60))\none")
    kernel.run("two = start(call('nap', seconds=60))\ntwo")
    kernel.run("hidden = start(call('nap', seconds=2), say('done'))")
    time.sleep(0.6)
    kernel.interrupt()
    assert kernel.run("print(one.result().exit_reason, two.result().exit_reason)") == (
        "interrupted_by_kernel interrupted_by_kernel"
    )
    assert kernel.run("print(hidden.result().exit_reason)") == "completed"
    next_turn_works(kernel)


def test_a_second_press_that_comes_after_the_stopped_cell_is_not_for_the_turn_in_the_background(kernel):
    kernel.run("run = start(call('nap', seconds=60))\nrun")
    with pytest.raises(RuntimeError, match="KeyboardInterrupt"):
        press(kernel, "time.sleep(30)")
    kernel.interrupt()
    time.sleep(0.2)
    assert kernel.run("print(run.state)") == "running"
    time.sleep(1.2)
    kernel.interrupt()
    assert kernel.run("print(run.result().exit_reason)") == "interrupted_by_kernel"


def test_stop_while_the_kernel_is_idle_does_no_harm(kernel):
    kernel.run("run = start(call('nap', seconds=1), say('done'))")
    kernel.interrupt()
    time.sleep(0.2)
    kernel.interrupt()
    assert kernel.run("print(run.result().exit_reason)") == "completed"
    kernel.run("run = start(say('done'))\nrun")
    kernel.run("_ = run.result()")
    for _ in range(3):
        time.sleep(0.3)
        kernel.interrupt()
    next_turn_works(kernel)


def test_stop_reaches_every_turn_that_is_awaited(kernel):
    code = """
one, two = start(call('nap', seconds=60)), start(say('late', seconds=60))
print(*[result.exit_reason for result in await asyncio.gather(one, two)])
"""
    told, _ = press(kernel, code)
    assert told == "interrupted_by_kernel interrupted_by_kernel"
    next_turn_works(kernel)


def test_a_wait_in_a_background_task_does_not_leave_its_handler_behind(kernel):
    """The cell is over long before the task; an idle kernel that raises KeyboardInterrupt would be dead."""
    kernel.run("run = start(call('nap', seconds=0.8), say('done'))\n"
               "async def later():\n    return (await run).text\n"
               "task = asyncio.create_task(later()); await asyncio.sleep(0.1)")  # fmt: skip
    time.sleep(1.5)
    for _ in range(3):
        kernel.interrupt()
        time.sleep(0.1)
    assert kernel.run("print(await task)") == "done"
    next_turn_works(kernel)


def test_a_turn_can_be_waited_for_in_every_way_a_notebook_has(kernel):
    kernel.run("agent = hn.Agent(script(say('hi'), each_turn=True))\ngo = lambda: agent.start('x', session=False)")
    assert kernel.run("print(agent.run('x', session=False).text)") == "hi"
    assert kernel.run("print((await go()).text)") == "hi"
    assert kernel.run("print([r.text for r in await asyncio.gather(go(), go())])") == "['hi', 'hi']"
    assert kernel.run("async def f():\n    return (await go()).text\nprint(await f())") == "hi"
    in_thread = "out = []\nt = threading.Thread(target=lambda: out.append(go().result().text)); t.start(); t.join()"
    assert kernel.run(f"{in_thread}\nprint(out)") == "['hi']"
    assert kernel.run("import sys; print('nest_asyncio' in sys.modules)") == "False"


def test_awaiting_leaves_the_kernels_loop_free(kernel):
    code = """
beats = []
async def heart():
    while True:
        beats.append(time.monotonic()); await asyncio.sleep(0.05)
task = asyncio.create_task(heart())
await start(call('nap', seconds=1), say('done'))
task.cancel()
print(max(b - a for a, b in zip(beats, beats[1:])) < 0.5, len(beats) > 8)
"""
    assert kernel.run(code) == "True True"


def test_a_cell_that_is_cancelled_twice_leaves_the_run_whole(kernel):
    code = """
run = start(call('sleep', seconds=1.5))
task = asyncio.ensure_future(run._awaited())
await asyncio.sleep(0.2)
task.cancel(); await asyncio.sleep(0.1); task.cancel()
try:
    await task
except asyncio.CancelledError:
    print("cancelled")
print(run.result().exit_reason)
"""
    assert kernel.run(code) == "cancelled\ninterrupted_by_user"
