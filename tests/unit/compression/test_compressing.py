"""One compression: what a model is asked, what stands in for it, and what is refused."""

from __future__ import annotations

import asyncio
import math
import re
import threading
import time
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_nb.policies.compression import Compression, CompressionState
from hermes_nb.policies.tokens import TokenMeter, estimate
from hermes_nb.turn import compressing, summarising
from hermes_nb.turn.asking import ModelUnavailable, Overflow
from hermes_nb.turn.compressing import Compressed, compress
from hermes_nb.turn.recorder import Recorder
from hermes_nb.turn.room import Room
from hermes_nb.vocabulary.failures import Failure, FailureReason
from hermes_nb.vocabulary.messages import Message
from tests.support.histories import assistant, fault_in_pairs, histories, round_of, steer, tool_loop, user

OVERHEAD = 200


@dataclass
class Bench:
    """A compressor with its surroundings; `answers` are texts, exceptions, or one of these for ever."""

    answers: object = "## Done\n1. read files"
    window: int | None = 64_000
    policy: Compression = field(default_factory=Compression)
    state: CompressionState = field(default_factory=CompressionState)
    meter: TokenMeter = field(default_factory=TokenMeter)
    asked: list[str] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)

    async def ask(self, messages: tuple[Message, ...]) -> str:
        [message] = messages
        assert (message.role, message.tool_calls) == ("user", ())
        self.asked.append(message.text)
        answer = self.answers.pop(0) if isinstance(self.answers, list) else self.answers
        answer = answer(message.text) if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def threshold(self) -> float:
        return self.policy.tokens(self.window)

    def size(self, history: list[Message] | tuple[Message, ...]) -> int:
        return OVERHEAD + self.meter.messages(history)

    def due(self, history: list[Message]) -> bool:
        return self.policy.due(self.state, self.size(history), self.threshold, now=time.monotonic())

    def compress(self, history: list[Message], *, overflow: bool = False) -> Compressed:
        goal = self.policy.goal(self.state, self.size(history), self.threshold, overflow=overflow)
        room = Room(self.window, self.threshold, OVERHEAD, goal)
        sinks = [lambda event: self.degraded.append(event.what.detail)]
        made = anyio.run(
            lambda: compress(
                self.policy,
                self.state,
                history,
                room=room,
                meter=self.meter,
                ask=self.ask,
                recorder=Recorder("turn", "conversation", sinks),
            )
        )
        if made.outcome != "compressed":
            assert made.messages == tuple(history)
        return made


def unavailable(reason: str = "server_error") -> ModelUnavailable:
    return ModelUnavailable(Failure(FailureReason(reason), "no", provider="p", model="m"))


def only_summary(messages: tuple[Message, ...]) -> str:
    [summary] = [message.text for message in messages if message.origin == "summary"]
    return summary


# --------------------------------------------------------------------------------------------- the summary


def test_one_request_makes_one_summary_message_and_the_rest_stays_word_for_word():
    bench, history = Bench(), [*tool_loop(60, 4_000), assistant("I have read them."), user("So what is it?")]
    made = bench.compress(history)
    assert (made.outcome, made.strategy, made.summary) == ("compressed", "summary", "## Done\n1. read files")
    assert only_summary(made.messages) == f"{summarising.PREFACE}\n\n## Done\n1. read files"
    assert made.messages[-1] is history[-1]
    assert made.tokens_before == bench.size(history)
    assert made.tokens_after == bench.size(made.messages) < bench.threshold
    assert len(bench.asked) == 1


def test_the_request_holds_the_turns_the_sections_and_the_length():
    bench = Bench()
    bench.compress([*tool_loop(60, 2_000, prompt="Find the deepest lake."), user("In metres, please.")])
    [text] = bench.asked
    assert "Find the deepest lake." in text
    assert '[CALL read] {"path": "file_0.txt"}' in text
    assert "[TOOL RESULT read] line 0 of the file" in text
    assert "Find the deepest lake.; In metres, please." in text
    for section in ("Task", "Goal", "Constraints", "Done", "Decisions", "Files", "Remaining work"):
        assert f"## {section}" in text
    assert "at most" in text


@pytest.mark.parametrize(
    ("window", "rounds", "tokens"),
    [
        (64_000, 15, 1_541),
        (64_000, 40, 4_271),
        (64_000, 120, 5_440),
        (4_096, 60, 307),
        (1_000, 60, 256),
        (2_000_000, 900, 10_000),
    ],
)
def test_a_summary_may_be_a_fifth_of_what_it_replaces_within_bounds(window, rounds, tokens):
    bench = Bench(window=window)
    bench.compress(tool_loop(rounds, 4_000))
    [told] = {int(re.search(r"Use at most (\d+) tokens", text).group(1)) for text in bench.asked}
    assert told == pytest.approx(tokens, rel=0.01)


def test_the_less_is_replaced_the_shorter_is_the_summary():
    bench = Bench(window=64_000, policy=Compression(tail_share=0.5, protect_last=0))
    history = tool_loop(40, 4_000)
    made = bench.compress(history)
    replaced = bench.meter.messages(history) - bench.meter.messages([m for m in made.messages if m.origin != "summary"])
    [told] = {int(re.search(r"Use at most (\d+) tokens", text).group(1)) for text in bench.asked}
    assert told == pytest.approx(replaced / 5, rel=0.01)


def test_a_request_for_a_summary_leaves_room_in_the_window():
    bench = Bench(answers="s" * 16_000)
    bench.compress([m for n in range(60) for m in (user(f"{n} " + "q " * 2_700), assistant("a " * 2_700))])
    assert len(bench.asked) > 1
    assert max(map(estimate, bench.asked)) <= 64_000 * 0.6


def test_long_turns_are_read_by_their_ends():
    long = "HEAD" + "x" * 20_000 + "TAIL"
    bench = Bench()
    call = round_of("r", arguments='{"a": "' + "y" * 4_000 + '"}')
    bench.compress([*tool_loop(2, 100), assistant("ok"), user(long), *call, assistant("ok"), *tool_loop(60, 4_000)])
    [text] = bench.asked
    assert "HEAD" in text
    assert "TAIL" in text
    assert "x" * 5_000 not in text
    assert "y" * 1_300 not in text


def test_the_models_thinking_is_no_part_of_the_summary():
    bench = Bench(answers="<think>let me see\n...</think>\n## Goal\nlakes")
    assert bench.compress(tool_loop(60, 4_000)).summary == "## Goal\nlakes"


def test_the_second_summary_is_the_first_brought_up_to_date():
    bench, history = Bench(answers=["first summary", "second summary"]), tool_loop(60, 4_000)
    first = bench.compress(history)
    grown = [*first.messages, *tool_loop(60, 4_000)[1:]]
    second = bench.compress(grown)
    assert "first summary" in bench.asked[1]
    assert "Bring it up to date" in bench.asked[1]
    assert "Bring it up to date" not in bench.asked[0]
    assert only_summary(second.messages).endswith("second summary")


def test_more_turns_than_a_request_can_hold_are_summed_up_in_portions():
    bench = Bench(answers=lambda text: f"summary after {text.count('[CALL')} calls", window=16_000)
    made = bench.compress([m for n in range(30) for m in (user(f"{n} " + "q" * 5_000), assistant("a" * 5_000))])
    assert made.outcome == "compressed"
    assert 1 < len(bench.asked) <= 8
    for text in bench.asked:
        assert estimate(text) < 16_000
    assert all("Summary so far" in text for text in bench.asked[1:])


def test_a_conversation_far_larger_than_the_window_costs_a_bounded_number_of_requests():
    bench = Bench(window=4_096)
    history = [m for n in range(300) for m in (user(f"question {n} " + "q" * 3_000), assistant("a" * 3_000))]
    made = bench.compress(history)
    assert made.outcome == "compressed"
    assert len(bench.asked) == 8
    assert "question 0 " not in bench.asked[0]
    assert "Last words" in bench.asked[0]  # what is older was summed up by rule
    for text in bench.asked:
        assert estimate(text) < 4_096


@pytest.mark.parametrize(
    ("window", "goal", "limit", "portion"),
    [(None, 200_000, 1_000, 97_300), (10_000, 50_000, 500, 4_300), (1_000, 600, 256, 500), (None, 2_000, 300, 700)],
)
def test_a_portion_leaves_room_for_instructions_and_for_two_summaries(window, goal, limit, portion):
    room = Room(window, goal, 0, goal)
    job = compressing._Job(Compression(), CompressionState(), (), room, TokenMeter(), None, None)
    assert job._portion(limit) == portion


# --------------------------------------------------------------------------------------------- weaknesses


def drive(bench: Bench, rounds: int, size: int, prompt: str = "Find it.") -> list[list[Message]]:
    """A tool loop of many rounds that compresses when it is due; returns the histories right after compressions."""
    history, after = [user(prompt)], []
    for number in range(rounds):
        if bench.due(history):
            bench.state.begin_turn()
            made = bench.compress(history)
            assert made.outcome == "compressed"
            history = list(made.messages)
            after.append(history)
        bench.state.observe(bench.size(history), bench.size(history), bench.threshold)
        body = (f"line {number} of the file; " * (size // 10))[:size]
        history = [*history, *round_of(body, arguments=f'{{"path": "file_{number}.txt"}}')]
        assert bench.size(history) < bench.window
    return after


def test_every_compression_of_a_long_tool_loop_shrinks_it_as_much_as_the_first():
    bench = Bench(answers=lambda text: f"summary up to {text.count('TOOL RESULT')}")
    after = drive(bench, 200, 8_000)
    assert len(after) >= 6
    sizes = [bench.size(history) for history in after]
    assert max(sizes) < 1.2 * min(sizes)
    assert max(map(len, after)) <= len(after[0]) + 2
    for history in after:
        assert sum(message.origin == "summary" for message in history) == 1
        assert [m.role for m in history[:3]] == ["user", "user", "assistant"]
        assert not fault_in_pairs(history)
    assert all("Summary so far" in text for text in bench.asked[1:])


def test_nothing_is_dropped_without_having_been_in_a_summarys_input():
    bench = Bench(answers=lambda text: text.split("# Turns")[0][-50:])
    history = tool_loop(60, 4_000)
    made = bench.compress(history)
    kept = {message.text for message in made.messages}
    for number, message in enumerate(m for m in history if m.role == "tool"):
        assert message.text in kept or f"line {number} of the file" in bench.asked[0]


def test_large_results_in_the_middle_of_a_turn_never_outgrow_the_window():
    bench = Bench()
    after = drive(bench, 120, 28_000)
    assert max(map(bench.size, after)) < bench.threshold / 2


def test_one_batch_larger_than_the_window_is_cut_without_asking_anyone():
    bench, history = Bench(), [user("Compare them."), *round_of(*[f"{n}" + "x" * 90_000 for n in range(5)])]
    made = bench.compress(history)
    assert (made.outcome, made.strategy) == ("compressed", "pruned")
    assert made.tokens_after < bench.threshold
    assert not bench.asked
    assert made.messages[0] is history[0]
    assert not fault_in_pairs(made.messages)
    assert all("left out to save room" in message.text for message in made.messages[2:])


def test_an_overflow_without_a_number_drops_more_with_each_pass():
    bench, history, sizes = Bench(window=None), tool_loop(40, 4_000), []
    for _ in range(3):
        made = bench.compress(history, overflow=True)
        assert made.outcome == "compressed"
        history = list(made.messages)
        sizes.append(made.tokens_after / made.tokens_before)
        assert history[1].text == "Find the answer."
    assert max(sizes) <= 0.6
    assert not bench.policy.may_after_overflow(bench.state)


def test_the_tail_is_never_replaced_by_notes_on_duplicates():
    same = "the same long result " * 100
    history = [*tool_loop(60, 4_000), *round_of(same), *round_of(same)]
    made = Bench().compress(history)
    assert [message.text for message in made.messages[-4:] if message.role == "tool"] == [same, same]


def test_japanese_is_compressed_when_it_fills_the_window_not_four_times_later():
    bench = Bench(window=64_000)
    history = [
        m for _ in range(36) for m in (user("日本語の文章です。" * 100), assistant("はい、わかりました。" * 100))
    ]
    assert bench.due(history)
    assert not bench.due([message for message in history for _ in (0,)][:20])


# --------------------------------------------------------------------------------------------- no progress


def test_a_summary_as_long_as_what_it_replaces_is_no_progress_and_leaves_the_history_alone():
    bench = Bench(answers=lambda text: text, window=4_096)
    history = [m for n in range(8) for m in (user(f"{n} " + "q" * 1_000), assistant("a" * 1_000))]
    made = bench.compress(history)
    assert (made.outcome, made.error_type) == ("skipped", "")
    assert made.tokens_after == made.tokens_before
    assert bench.state.ineffective == 1


def test_nothing_to_gain_asks_no_one():
    bench = Bench()
    made = bench.compress([user("short"), assistant("short"), user("question")])
    assert made.outcome == "skipped"
    assert not bench.asked


def test_a_prompt_larger_than_the_window_is_kept_and_said_not_to_shrink():
    bench = Bench(window=8_192)
    made = bench.compress([user("x" * 200_000)])
    assert made.outcome == "skipped"


# --------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize("reason", ["server_error", "timeout", "overloaded", "malformed_reply", "content_filter"])
def test_when_no_model_sums_up_it_is_done_by_rule_and_said(reason):
    bench = Bench(answers=unavailable(reason))
    history = [*tool_loop(60, 4_000, prompt="Find the deepest lake."), *round_of("Error: /data/lakes.csv not found")]
    made = bench.compress([*history, *tool_loop(20, 4_000)[1:]])
    assert (made.outcome, made.strategy) == ("compressed", "static")
    assert "## Task\n- Find the deepest lake." in made.summary
    assert 'read({"path": "file_59.txt"}) gave 4,000 characters' in made.summary
    assert "/data/lakes.csv" in made.summary
    assert "Error: /data/lakes.csv not found" in made.summary
    assert len(made.summary) <= summarising.STATIC_LIMIT
    assert made.summary.count("gave 4,000") <= 12
    [told] = bench.degraded
    assert reason in told


def test_a_summary_by_rule_keeps_the_summary_before_it():
    bench = Bench(answers=["THE FIRST SUMMARY", unavailable()])
    first = bench.compress(tool_loop(60, 4_000))
    second = bench.compress([*first.messages, *tool_loop(60, 4_000)[1:]])
    assert second.strategy == "static"
    assert "THE FIRST SUMMARY" in second.summary


@pytest.mark.parametrize("answer", ["", " \n ", "<think>nothing else</think>"])
def test_an_empty_summary_is_a_failure(answer):
    bench = Bench(answers=answer)
    assert bench.compress(tool_loop(60, 4_000)).strategy == "static"
    assert "empty" in bench.degraded[0]


@pytest.mark.parametrize("reason", ["auth", "billing", "connection", "rate_limit", "certificate"])
def test_failures_that_the_turn_will_meet_too_throw_nothing_away(reason):
    bench = Bench(answers=unavailable(reason))
    made = bench.compress(tool_loop(60, 4_000))
    assert (made.outcome, made.error_type) == ("failed", reason)
    assert reason in made.error
    assert bench.degraded
    assert not bench.due(tool_loop(60, 8_000))


def test_after_a_failure_no_model_is_asked_for_a_while():
    bench = Bench(answers=unavailable())
    first = bench.compress(tool_loop(60, 4_000))
    second = bench.compress([*first.messages, *tool_loop(60, 4_000)[1:]], overflow=True)
    assert second.strategy == "static"
    assert len(bench.asked) == 1
    bench.state.quiet_until, bench.answers = -math.inf, "well again"
    third = bench.compress([*second.messages, *tool_loop(60, 4_000)[1:]])
    assert third.strategy == "summary"


def test_a_summary_request_that_is_itself_too_large_is_answered_by_rule():
    bench = Bench(answers=Overflow(Failure(FailureReason.CONTEXT_OVERFLOW, "too long"), failed_chat=0))
    assert bench.compress(tool_loop(60, 4_000)).strategy == "static"


def test_an_interrupt_during_the_summary_leaves_everything_as_it_was():
    bench, history = Bench(), tool_loop(60, 4_000)

    async def main() -> None:
        async def ask(messages: object) -> str:
            await anyio.sleep(30)
            return "too late"

        room = Room(64_000, 54_400, OVERHEAD, 40_000)
        with anyio.move_on_after(0.05) as scope:
            await compress(
                bench.policy,
                bench.state,
                history,
                room=room,
                meter=bench.meter,
                ask=ask,
                recorder=Recorder("t", "c"),
            )
        assert scope.cancelled_caught

    anyio.run(main)
    assert bench.state == CompressionState()


@pytest.mark.parametrize("hostile", ["/" * 300_000, "a/" * 150_000, "error " * 50_000, "a.b-" * 75_000, "é" * 300_000])
def test_hostile_text_does_not_slow_a_summary_down(hostile):
    history = [user("q"), *round_of(hostile, arguments=f'{{"a": "{hostile}"}}'), *tool_loop(60, 4_000)[1:]]
    assert Bench(answers=unavailable()).compress(history).strategy == "static"
    assert not summarising.cleaned("<think>" * 40_000)


# --------------------------------------------------------------------------------------------- the user's own


def last_two(messages: tuple[Message, ...]) -> list[Message]:
    return [user("In short: 60 files."), *[m for m in messages if m.role == "user"][-1:]]


def custom(compressor) -> Bench:
    return Bench(policy=Compression(compressor=compressor))


def test_the_users_own_compressor_is_used_instead_of_the_models_summary():
    bench, history = custom(last_two), [*tool_loop(60, 4_000), assistant("ok"), user("And now?")]
    made = bench.compress(history)
    assert (made.outcome, made.strategy) == ("compressed", "custom")
    assert [message.text for message in made.messages] == ["In short: 60 files.", "And now?"]
    assert not bench.asked


def test_a_compressor_may_be_async_and_a_plain_one_does_not_block_the_loop():
    async def later(messages: tuple[Message, ...]) -> list[Message]:
        await asyncio.sleep(0)
        return last_two(messages)

    def in_thread(messages: tuple[Message, ...]) -> list[Message]:
        assert threading.current_thread() is not threading.main_thread()
        return last_two(messages)

    for compressor in (later, in_thread, lambda messages: later(tuple(messages))):
        assert custom(compressor).compress(tool_loop(60, 4_000)).strategy == "custom"


def _raises(messages: object) -> None:
    msg = "out of ideas"
    raise ValueError(msg)


call, answer = round_of("result")


@pytest.mark.parametrize(
    ("made", "complaint"),
    [
        (_raises, "ValueError: out of ideas"),
        (lambda _: None, "no list of messages"),
        (lambda _: "a summary", "no list of messages"),
        (lambda _: [{"role": "user", "content": "x"}], "no list of messages"),
        (lambda _: [], "does not begin with a message of the user"),
        (lambda m: [assistant("hi"), *last_two(m)], "does not begin with a message of the user"),
        (lambda m: [*last_two(m), Message("system", "obey")], "system message"),
        (lambda m: [*last_two(m), call], "stay together"),
        (lambda m: [*last_two(m), answer], "stay together"),
        (lambda m: [user("first"), *last_two(m)[:1]], "last message is no longer"),
        (lambda m: [*last_two(m), user("injected")], "last message is no longer"),
        (lambda m: [user(m[0].text + "!")], "last message is no longer"),
    ],
)
def test_what_a_compressor_returns_is_refused_when_it_is_no_history(made, complaint):
    bench = custom(made)
    got = bench.compress(tool_loop(60, 4_000))
    assert got.outcome == "failed"
    assert got.error_type
    assert complaint in got.error
    assert complaint in bench.degraded[0]
    assert not bench.asked


def test_a_compressor_that_does_not_shrink_is_no_progress():
    assert custom(list).compress(tool_loop(60, 4_000)).outcome == "skipped"


# --------------------------------------------------------------------------------------------- always


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    histories(),
    st.sampled_from([None, 1_000, 4_096, 64_000]),
    st.booleans(),
    st.sampled_from(["short summary", "", "s" * 20_000, "auth", "server_error"]),
)
def test_whatever_comes_out_is_a_history_that_the_next_request_may_use(history, window, overflow, answer):
    failed = answer in ("auth", "server_error")
    bench = Bench(answers=unavailable(answer) if failed else answer, window=window)
    for _ in range(3):
        made = bench.compress(history, overflow=overflow)
        assert not fault_in_pairs(made.messages)
        assert made.messages[0].role == "user"
        prompts = [[m for m in rows if m.role == "user" and not m.origin][-1] for rows in (made.messages, history)]
        assert prompts[0] is prompts[1]
        if made.outcome == "compressed":
            assert made.tokens_after <= 0.95 * made.tokens_before
            assert sum(m.origin == "summary" for m in made.messages) <= 1
        history = [*made.messages, *round_of("x" * 2_000), steer("on")]
    assert bench.state.passes == 3
