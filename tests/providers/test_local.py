"""The embedded model as a provider: what needs no weights, and what the real engine does with them."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import anyio
import httpx
import pytest

import hermes_nb as hn
from hermes_nb.providers import _local_engine
from hermes_nb.providers._local_calls import HeldBack, call_in_text
from hermes_nb.providers.base import ModelRequest
from hermes_nb.testing import say, script
from hermes_nb.vocabulary.messages import Message, Reply, ToolSpec

PLANETS = Path(__file__).parent.parent.parent / "notebooks" / "data" / "planets.csv"

MEAN = ToolSpec(
    "csv_column_mean",
    "Compute the mean of a numeric column of a CSV file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "column": {"type": "string"}},
        "required": ["path", "column"],
    },
)


def request(prompt, **how):
    return ModelRequest((Message("user", prompt),), **how)


def ask(provider, prompt, on_text=lambda *_: None, **how):
    """One request in an event loop of its own."""

    async def main():
        async with provider.connect() as connection:
            return await connection.ask(request(prompt, **how), on_text)

    return anyio.run(main)


def failure_of(provider, prompt="hello"):
    with pytest.raises(hn.ProviderError) as caught:
        ask(provider, prompt)
    return caught.value.failure


def is_gone(pid, seconds=20.0):
    """Whether a process ends within some time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


# ------------------------------------------------------------------------------------------ without engine and weights


def test_making_one_is_cheap_and_starts_nothing():
    local = hn.Local()
    assert (local.name, local.model) == ("local", "qwen2.5-coder-0.5b-instruct")
    assert local.engine.pid is None
    assert isinstance(local, hn.Provider)
    assert local.parameters == {"temperature": 0, "max_tokens": 512}
    assert local.address == ("127.0.0.1", None)
    assert local.context_window == 8192


def test_its_key_is_a_secret_that_nothing_shows():
    local = hn.Local()
    (key,) = local.secrets
    assert len(key) > 20
    assert repr(local) == "Local()"
    assert key not in f"{local!r}{local.identity}{local.parameters}{vars(local)}"


def test_equal_settings_share_one_engine():
    local = hn.Local()
    assert hn.Local().engine is local.engine
    assert hn.Local() == local
    assert hash(hn.Local()) == hash(local)
    assert hn.Local(context_window=1024).engine is not local.engine
    assert hn.Local(temperature=1) != local


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda local: pickle.loads(pickle.dumps(local))])
def test_a_copy_uses_the_same_engine(copied):
    local = hn.Local(context_window=1024, max_tokens=16)
    assert copied(local) == local
    assert copied(local).engine is local.engine


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"path": "/no/such/model.gguf"}, "there is no file /no/such/model.gguf"),
        ({"path": __file__}, "is no GGUF file"),
        ({"context_window": 0}, "context_window is a whole number above 0, not 0"),
        ({"threads": -1}, "threads is a whole number above 0, not -1"),
        ({"max_tokens": None}, "max_tokens is a whole number above 0, not None"),
        ({"timeout": 0}, "a timeout is a number of seconds above 0"),
        ({"messages": []}, "'messages'"),
    ],
)
def test_what_cannot_work_is_said_at_once(arguments, message):
    with pytest.raises(hn.ConfigurationError, match=message):
        hn.Local(**arguments)


def test_without_the_engine_the_failure_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(_local_engine.importlib.util, "find_spec", lambda _name: None)
    failure = failure_of(hn.Local(context_window=1000))
    assert failure.reason is hn.FailureReason.MODEL_NOT_FOUND
    assert "pip install 'hermes-nb[local]'" in failure.message


def test_it_is_not_ready_without_weights_or_engine(monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setenv("HERMES_NB_CACHE", str(tmp_path))
        assert not hn.Local.ready()
    monkeypatch.setattr(_local_engine.importlib.util, "find_spec", lambda _name: None)
    assert not hn.Local.ready()


def test_where_there_can_be_no_engine_another_way_is_named(monkeypatch):
    monkeypatch.setattr(_local_engine.importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(sysconfig, "get_config_var", lambda _name: "cpython-312-x86_64-linux-musl")
    failure = failure_of(hn.Local(context_window=1000))
    assert "no engine for musl (Alpine) Linux; use a model server: hn.OpenAIChat" in failure.message


def test_without_weights_the_failure_says_so_and_the_chain_goes_on(monkeypatch, tmp_path):
    pytest.importorskip("xllamacpp")
    (tmp_path / "cache").write_text("in the way")
    monkeypatch.setenv("HERMES_NB_CACHE", str(tmp_path / "cache"))
    result = hn.Agent([hn.Local(context_window=1000), script(say("backup"))]).run("hello", session=False)
    assert result.text == "backup"
    assert len(result.trace.fallbacks_df()) == 1


def test_a_file_that_the_engine_cannot_read_is_a_failure_with_the_engines_words(tmp_path):
    pytest.importorskip("xllamacpp")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    failure = failure_of(hn.Local(tmp_path / "broken.gguf"))
    assert failure.reason is hn.FailureReason.CONNECTION
    assert "the engine of the embedded model did not start" in failure.message
    assert failure.model == "broken"


# ------------------------------------------------------------------------------------------ calls in the text

CALL = '{"name": "csv_column_mean", "arguments": {"path": "a.csv", "column": "b"}}'


@pytest.mark.parametrize("text", [CALL, f"\n{CALL}\n", f"```json\n{CALL}\n```", f" ```json {CALL}```"])
def test_a_text_that_is_a_call_becomes_one(text):
    call = call_in_text(Reply(Message("assistant", text)), (MEAN,))
    assert call.name == "csv_column_mean"
    assert json.loads(call.arguments) == {"path": "a.csv", "column": "b"}


@pytest.mark.parametrize(
    "text",
    ["", "Rome", f"I call {CALL}", CALL.replace("csv_column_mean", "other"), '{"name": "csv_column_mean"}', "[1]", "{",
     '{"name": "csv_column_mean", "arguments": "a.csv"}', '{"name": ["csv_column_mean"], "arguments": {}}'],
)  # fmt: skip
def test_any_other_text_stays_text(text):
    assert call_in_text(Reply(Message("assistant", text)), (MEAN,)) is None


def test_a_cut_text_is_no_call():
    assert call_in_text(Reply(Message("assistant", CALL), finish_reason="length"), (MEAN,)) is None


@pytest.mark.parametrize(
    "text", ["Rome.", "```python\nprint()\n```", "``", "", '{"a": 1}', CALL, f"```json\n{CALL}\n```"]
)
@pytest.mark.parametrize("part", ["text", "call"])
def test_held_back_text_comes_whole_and_in_order(text, part):
    told = []
    held = HeldBack(lambda piece, kind="text": told.append((piece, kind)))
    for letter in text:
        held(letter)
    before = len(told)
    held.release(part)
    assert "".join(piece for piece, _ in told) == text
    assert {kind for _, kind in told[:before]} <= {"text"}
    assert {kind for _, kind in told[before:]} <= {part}


def test_what_may_be_a_call_is_held_until_it_is_known():
    told = []
    held = HeldBack(lambda *piece: told.append(piece))
    held('{"name"')
    assert told == []
    held.release("call")
    assert told == [('{"name"', "call")]


# ------------------------------------------------------------------------------------------ the real engine

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def local():
    """One engine for all tests that do not stop it."""
    return hn.Local()


@pytest.mark.local_model
class TestTheRealEngine:
    def test_it_answers_a_plain_question_with_text_and_usage(self, local):
        reply = ask(local, "What is the capital of Italy?")
        assert reply.text.strip()
        assert reply.finish_reason == "stop"
        assert reply.model == "qwen2.5-coder-0.5b-instruct"
        assert reply.usage.input_tokens > 0
        assert reply.usage.output_tokens > 0

    def test_it_is_ready(self):
        assert hn.Local.ready()

    def test_it_streams_the_answer_in_pieces(self, local):
        pieces = []
        reply = ask(local, "Name three planets.", lambda piece, *_: pieces.append(piece))
        assert len(pieces) > 1
        assert "".join(pieces) == reply.text
        assert reply.time_to_first_chunk > 0

    def test_it_answers_whole_too(self, local):
        reply = ask(local, "Name three planets.", stream=False)
        assert reply.text.strip()
        assert reply.time_to_first_chunk is None

    def test_it_calls_the_right_tool_with_the_right_arguments(self, local):
        pieces = []
        prompt = "What is the mean of the column diameter_km in data/planets.csv?"
        reply = ask(local, prompt, lambda *piece: pieces.append(piece), tools=(MEAN,))
        (call,) = reply.tool_calls
        assert reply.finish_reason == "tool_calls"
        assert call.name == "csv_column_mean"
        assert json.loads(call.arguments) == {"path": "data/planets.csv", "column": "diameter_km"}
        assert pieces
        assert all(part == ["call"] for _, *part in pieces)

    def test_it_answers_in_the_shape_of_a_schema(self):
        schema = {
            "type": "object",
            "properties": {"city": {"type": "string"}, "country": {"type": "string"}},
            "required": ["city", "country"],
            "additionalProperties": False,
        }
        shape = {"type": "json_schema", "json_schema": {"name": "place", "schema": schema}}
        reply = ask(hn.Local(response_format=shape, max_tokens=100), "Paris is the capital of France.")
        assert json.loads(reply.text).keys() == {"city", "country"}

    def test_no_request_gets_more_tokens_than_the_provider_allows(self):
        reply = ask(hn.Local(max_tokens=5), "Count from 1 to 100.", max_tokens=400)
        assert reply.finish_reason == "length"
        assert reply.usage.output_tokens <= 5

    def test_a_turn_asks_the_tool_about_a_real_file(self, local):
        @hn.tool
        def csv_column_mean(path: str, column: str) -> float:
            """Compute the mean of a numeric column of a CSV file.

            Args:
                path: Path of the CSV file.
                column: Name of the column.
            """
            asked.append((path, column))
            rows = [line.split(",") for line in PLANETS.read_text().splitlines()]
            place = rows[0].index(column)
            return sum(float(row[place]) for row in rows[1:]) / len(rows[1:])

        asked = []
        prompt = "What is the mean of the column diameter_km in data/planets.csv?"
        result = hn.Agent(local, tools=[csv_column_mean], budget=4).run(prompt, session=False)
        assert result.exit_reason is hn.ExitReason.COMPLETED
        assert asked[0] == ("data/planets.csv", "diameter_km")
        assert [m.role for m in result.messages][:4] == ["user", "assistant", "tool", "assistant"]
        assert "50087" in result.messages[2].text

    def test_a_prompt_that_is_too_long_is_an_overflow_with_the_window(self):
        failure = failure_of(hn.Local(context_window=512), "word " * 2000)
        assert failure.reason is hn.FailureReason.CONTEXT_OVERFLOW
        assert failure.limit == 512

    def test_two_at_once_are_both_answered_by_one_process(self, local):
        replies = []

        async def one(connection, prompt):
            replies.append(await connection.ask(request(prompt, max_tokens=20), lambda *_: None))

        async def main():
            async with local.connect() as first, local.connect() as second, anyio.create_task_group() as tasks:
                tasks.start_soon(one, first, "Say yes.")
                tasks.start_soon(one, second, "Say no.")

        anyio.run(main)
        assert len(replies) == 2
        assert all(reply.usage.output_tokens for reply in replies)

    def test_an_interrupted_answer_frees_the_engine(self):
        """The whole answer would take minutes; the next question does not wait for it."""
        local = hn.Local(max_tokens=7000)

        async def main():
            async with local.connect() as connection:
                with anyio.CancelScope() as scope:
                    prompt = "Count from 1 to 3000, one number per line."
                    await connection.ask(request(prompt), lambda *_: scope.cancel())
                assert scope.cancelled_caught
                with anyio.fail_after(90):
                    return await connection.ask(request("Say yes.", max_tokens=5), lambda *_: None)

        assert anyio.run(main).usage.output_tokens

    def test_it_asks_for_its_key(self, local):
        ask(local, "Say yes.", max_tokens=2)
        url = local.engine.url(_local_engine.threading.Event())
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
        assert httpx.post(f"{url}/chat/completions", json=body).status_code == 401
        assert url.startswith("http://127.0.0.1:")

    def test_a_proxy_of_the_environment_is_not_for_it(self, local, monkeypatch):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert ask(local, "Say yes.", max_tokens=2).usage.output_tokens


@pytest.mark.local_model
class TestTheProcess:
    def test_after_a_crash_the_next_request_starts_it_again(self):
        local = hn.Local(context_window=1024)
        ask(local, "Say yes.", max_tokens=2)
        first = local.engine.pid
        os.kill(first, signal.SIGKILL)
        assert has_died(local)
        assert ask(local, "Say yes.", max_tokens=2).usage.output_tokens
        assert local.engine.pid not in (None, first)

    def test_a_request_right_after_a_crash_does_not_meet_the_dying_process(self):
        local = hn.Local(context_window=1024)
        ask(local, "Say yes.", max_tokens=2)
        for end in (signal.SIGKILL, signal.SIGABRT, signal.SIGKILL):
            first = local.engine.pid
            os.kill(first, end)  # and nobody waits until it has ended
            assert ask(local, "Say yes.", max_tokens=2).usage.output_tokens
            assert local.engine.pid not in (None, first)

    def test_a_crash_in_the_middle_is_a_failure_or_a_part_and_the_turn_goes_on(self):
        local = hn.Local(context_window=1024)

        def kill_once(*_):
            if not killed:
                killed.append(local.engine.pid)
                os.kill(local.engine.pid, signal.SIGKILL)

        killed = []
        with contextlib.suppress(hn.ProviderError):
            reply = ask(local, "Count from 1 to 1000.", kill_once)
            assert reply.partial
        assert killed
        assert hn.Agent(local).run("Say yes.", session=False).completed  # perhaps by a retry

    def test_it_ends_with_the_last_provider_that_uses_it(self):
        local = hn.Local(context_window=1024)
        ask(local, "Say yes.", max_tokens=2)
        pid = local.engine.pid
        del local
        gc.collect()
        assert is_gone(pid)

    def test_a_start_that_is_given_up_leaves_nothing_half_started(self):
        local = hn.Local(context_window=1536)

        async def main():
            async with local.connect() as connection:
                with anyio.move_on_after(0.3) as scope:
                    await connection.ask(request("hello"), lambda *_: None)
                return scope.cancelled_caught

        assert anyio.run(main)
        assert local.engine.pid is None
        assert ask(local, "Say yes.", max_tokens=2).usage.output_tokens

    @pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "sys.exit(0)", "os._exit(1)"])
    def test_it_ends_with_its_parent_however_that_ends(self, end):
        pid = int(run_python(STARTED + end).stdout.split()[0])
        assert is_gone(pid)

    def test_an_interrupt_of_the_whole_process_group_does_not_reach_it(self):
        """As the Stop button of Jupyter does it."""
        program = STARTED + (
            "try:\n    os.killpg(os.getpgrp(), signal.SIGINT); time.sleep(60)\n"
            "except KeyboardInterrupt:\n    pass\n"
            "print(local.engine.pid, ask().usage.output_tokens)\n"
        )
        before, after, tokens = run_python(program, start_new_session=True).stdout.split()
        assert before == after
        assert int(tokens) > 0

    def test_files_beside_the_notebook_do_not_shadow_its_modules(self, tmp_path):
        (tmp_path / "json.py").write_text("raise SystemExit('shadowed')")
        (tmp_path / "signal.py").write_text("raise SystemExit('shadowed')")
        program = STARTED.replace("import os", "import sys; sys.path.remove(''); import os")
        assert run_python(program, cwd=tmp_path).stdout.split()[0].isdigit()


STARTED = """
import os, signal, sys, time, anyio
import hermes_nb as hn
from hermes_nb.providers.base import ModelRequest
local = hn.Local(context_window=1024, max_tokens=2)
async def main():
    async with local.connect() as connection:
        return await connection.ask(ModelRequest((hn.Message("user", "Say yes."),)), lambda *_: None)
def ask():
    return anyio.run(main)
ask()
print(local.engine.pid, flush=True)
"""


def run_python(program, **how):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **how)


def has_died(local):
    deadline = time.monotonic() + 20
    while local.engine.pid is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    return local.engine.pid is None
