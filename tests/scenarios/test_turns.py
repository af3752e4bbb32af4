"""One turn for each mechanism of the loop, told by its span tree."""

from __future__ import annotations

import re
import textwrap
import threading
import time

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, calls, fails, no_waiting, say, script, span_tree
from tests.support.waiting import wait_for

PEOPLE = {"Lyon": 522_000, "Lille": 236_000}


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return PEOPLE[city]


def agent(*steps, **settings) -> hn.Agent:
    return hn.Agent(script(*steps), **({"tools": [population], "budget": 8} | settings))


def chain(*scripts, **settings) -> hn.Agent:
    models = [script(*steps, name=name, model="m") for name, steps in zip("abc", scripts, strict=False)]
    return hn.Agent(models, **({"tools": [population], "budget": 8} | settings))


def run(agent: hn.Agent, prompt: str = "How many people live in Lyon?", **options) -> hn.TurnResult:
    with no_waiting():
        return agent.run(prompt, **({"session": False} | options))


def tree(result: hn.TurnResult) -> str:
    return "\n" + span_tree(result.trace) + "\n"


def expected(text: str) -> str:
    return textwrap.dedent(text)


# ---------------------------------------------------------------------------------------- answers and tools


def test_a_plain_answer_is_one_iteration():
    result = run(agent(say("522,000")))

    assert result.text == "522,000"
    assert result.exit_reason is hn.ExitReason.COMPLETED
    assert [message.role for message in result.messages] == ["user", "assistant"]
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
        """)


def test_a_tool_round_takes_two_iterations_and_gives_the_model_the_result():
    result = run(agent(call("population", city="Lyon"), say("522,000")))

    assert result.messages[2].text == "522000"
    assert result.messages[2].tool_call_id == result.messages[1].tool_calls[0].id
    assert (result.iterations, result.budget.used, result.tool_calls) == (2, 2, 1)
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool population
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """)


def test_a_tool_that_raises_is_the_models_business_and_no_failure_of_the_turn():
    result = run(agent(call("population", city="Nowhere"), say("I do not know.")))

    assert result.completed
    assert "KeyError" in result.messages[2].text
    assert "execute_tool population ERROR KeyError" in tree(result)
    assert "invoke_agent agent\n" in tree(result)


# ---------------------------------------------------------------------------------------- retry and fallback


def test_a_failing_server_is_asked_again_within_the_same_iteration():
    result = run(agent(fails("overloaded", times=2), say("522,000")))

    assert result.completed
    assert (result.budget.used, result.retries) == (1, 2)
    assert [row.wait.total_seconds() for row in result.trace.retries_df().itertuples()] == pytest.approx(
        [2.5, 5], rel=0.2
    )
    assert [line.strip() for line in tree(result).splitlines()[4:9]] == [
        "hermes.attempt 1 retry 503",
        "hermes.retry backoff",
        "hermes.attempt 2 retry 503",
        "hermes.retry backoff",
        "hermes.attempt 3 success",
    ]


def test_a_retry_waits_as_long_as_the_server_asked():
    began = time.monotonic()
    result = agent(fails("rate_limit", retry_after=0.3), say("ok")).run("q", session=False)

    assert result.completed
    assert time.monotonic() - began >= 0.3
    assert tree(result) == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script
              hermes.attempt 1 retry 429
              hermes.retry wait=0.3s retry_after
              hermes.attempt 2 success
        """)


def test_a_provider_that_is_used_up_is_followed_by_the_next_one_with_its_own_attempts():
    result = run(chain([fails("server_error", times=3)], [fails("server_error", times=2), say("from b")]))

    assert result.text == "from b"
    assert (result.provider, result.fallbacks, result.budget.used) == ("b", 1, 1)
    text = tree(result)
    assert text.count("hermes.attempt") == 6
    assert "    hermes.fallback a:m -> b:m" in text
    assert text.index("chat m ERROR 500") < text.index("hermes.fallback") < text.rindex("chat m\n")


def test_the_fallback_model_is_told_who_it_is():
    seen = []

    def look(request):
        seen.append(request.messages[0].text)
        return say("ok")

    run(chain([fails("model_not_found")], [look]))

    assert "Provider: b" in seen[0]
    assert "Provider: a" not in seen[0]


def test_every_turn_starts_with_the_first_provider_again():
    both = chain([fails("server_error", times=3), say("from a")], [say("from b")])

    assert run(both).text == "from b"
    assert run(both).text == "from a"


def test_when_the_whole_chain_fails_the_turn_is_a_structured_failure():
    result = run(chain([fails("auth")], [fails("bad_request", message="no such field")]))

    assert result.exit_reason is hn.ExitReason.PROVIDER_FAILED
    assert result.failure.status == 400
    assert "no such field" in result.text
    assert [message.role for message in result.messages] == ["user"]
    with pytest.raises(hn.TurnFailed, match="no such field"):
        result.raise_for_failure()
    assert tree(result) == expected("""
        invoke_agent agent provider_failed ERROR 400
          hermes.iteration 1 ERROR 400
            chat m ERROR 401
              hermes.attempt 1 fallback 401
            hermes.fallback a:m -> b:m
            chat m ERROR 400
              hermes.attempt 1 give_up 400
            hermes.fallback b:m -> none_left ERROR 400
        """)


# ---------------------------------------------------------------------------------------- budget and grace


def test_the_grace_call_comes_once_without_tools_after_the_budget_is_gone():
    offered = []

    def look(request):
        offered.append(request.tool_choice)
        return call("population", city="Lyon") if len(offered) < 3 else say("about half a million")

    result = run(hn.Agent(script(look, look, look), tools=[population], budget=2))

    assert offered == ["auto", "auto", "none"]
    assert result.text == "about half a million"
    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert (result.budget.used, result.graces, result.iterations) == (2, 1, 3)
    assert not result.failed
    assert tree(result).count("hermes.grace_call") == 1


def test_calls_in_the_grace_call_are_not_run_and_a_summary_is_asked_for():
    result = run(
        agent(call("population", city="Lyon"), call("population", city="Lille"), say("So far: Lyon."), budget=1)
    )

    assert result.text == "So far: Lyon."
    assert result.tool_calls == 1
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert tree(result) == expected("""
        invoke_agent agent budget_exhausted
          hermes.iteration 1
            chat script
              hermes.attempt 1 success
            execute_tool population
          hermes.grace_call
            chat script
              hermes.attempt 1 success
            chat script
              hermes.attempt 1 success
        """)


def test_if_no_text_comes_at_all_a_plain_sentence_says_so():
    wants = call("population", city="Lyon")
    result = run(agent(wants, wants, wants, budget=1))

    assert result.text == "There is no answer: the budget of 1 iteration is used up."
    assert result.messages[-1].origin == "closing"


def test_a_budget_of_zero_still_has_its_grace_call():
    result = run(agent(say("a guess"), budget=0))

    assert result.text == "a guess"
    assert (result.budget.used, result.graces) == (0, 1)
    assert result.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED


def test_an_answer_on_the_last_iteration_is_a_success():
    result = run(agent(call("population", city="Lyon"), say("522,000"), budget=2))

    assert result.completed
    assert result.budget.remaining == 0


def test_a_budget_given_by_the_user_is_the_one_that_is_used():
    budget = hn.IterationBudget(3)
    result = run(agent(call("population", city="Lyon"), say("522,000"), budget=budget))

    assert result.completed
    assert budget.view().used == 2


def test_two_turns_in_two_threads_never_spend_more_than_their_shared_budget():
    budget = hn.IterationBudget(5)
    wants = [call("population", city="Lyon")] * 9
    runs = [agent(*wants, budget=budget).start("q", session=False) for _ in range(2)]
    results = [one.result() for one in runs]

    assert budget.view().used == 5
    assert sum(result.iterations - result.graces for result in results) == 5
    assert [result.graces for result in results] == [1, 1]


# ---------------------------------------------------------------------------------------- refunds


def long_history(rounds: int = 12) -> list[dict]:
    rows = []
    for number in range(rounds):
        rows.append({"role": "user", "content": f"Question {number}: " + "how is it with the town? " * 40})
        rows.append({"role": "assistant", "content": f"Answer {number}: " + "it is as it was before. " * 40})
    return rows


def summarising(*steps):
    """A model that answers from the steps, and sums up whenever it is asked to."""
    left = list(steps)
    return lambda request: say("Towns were discussed.") if request.purpose == "compression" else left.pop(0)


def without_summaries(text: str) -> str:
    """The tree without the requests for a summary, of which there may be several, and without numbers."""
    lines = [re.sub(r"(hermes.compression \w+).*", r"\1", line) for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith(" " * 6 + "chat") and " " * 8 + "herm" not in line)


def test_a_compression_at_the_threshold_gives_its_iteration_back():
    models = script(*[summarising(say("522,000"))] * 9, context_window=4_000)
    result = run(hn.Agent(models, budget=3), history=long_history())

    assert result.text == "522,000"
    assert (result.iterations, result.refunds, result.budget.used) == (2, 1, 1)
    assert result.messages[-2].text == "How many people live in Lyon?"
    assert len(result.messages) < 24
    assert "Towns were discussed." in next(m.text for m in result.messages if m.origin == "summary")
    assert (
        without_summaries(tree(result)).strip()
        == expected("""
        invoke_agent agent
          hermes.iteration 1
            hermes.compression preflight
              hermes.refund compression
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """).strip()
    )


def test_a_compression_after_an_overflow_gives_its_iteration_back_too():
    answers = summarising(fails("context_overflow", limit=4_000), say("522,000"))
    result = run(hn.Agent(script(*[answers] * 9), budget=3), history=long_history())

    assert result.text == "522,000"
    assert (result.iterations, result.refunds, result.budget.used) == (2, 1, 1)
    assert (
        without_summaries(tree(result)).strip()
        == expected("""
        invoke_agent agent
          hermes.iteration 1
            chat script ERROR 400
              hermes.attempt 1 compress 400
            hermes.compression overflow
              hermes.refund overflow
          hermes.iteration 2
            chat script
              hermes.attempt 1 success
        """).strip()
    )


def test_a_server_that_always_overflows_ends_the_turn_by_name_with_its_history():
    result = run(hn.Agent(script(*[fails("context_overflow")] * 30), budget=9), history=long_history())

    assert result.exit_reason is hn.ExitReason.COMPRESSION_EXHAUSTED
    assert result.compressions <= 3
    assert result.messages[-1].text == "How many people live in Lyon?"


def test_iterations_of_free_tools_are_given_back_up_to_a_limit():
    @hn.tool(free=True)
    def look() -> str:
        """Looks."""
        return "nothing"

    result = run(agent(*[call("look")] * 5, say("done"), tools=[look], budget=3))
    assert result.completed
    assert (result.iterations, result.refunds, result.budget.used) == (6, 5, 1)

    endless = run(agent(*[call("look")] * 20, tools=[look], budget=3, refund=hn.Refund(limit=2)))
    assert endless.exit_reason is hn.ExitReason.BUDGET_EXHAUSTED
    assert (endless.iterations, endless.refunds, endless.graces) == (6, 2, 1)


# ---------------------------------------------------------------------------------------- interrupt


def test_an_interrupt_while_the_model_is_asked_ends_the_turn_at_once():
    run = agent(say("too late", seconds=30)).start("q", session=False)
    time.sleep(0.1)
    began = time.monotonic()
    assert run.interrupt()
    result = run.result()

    assert time.monotonic() - began < 5
    assert result.exit_reason is hn.ExitReason.INTERRUPTED_BY_USER
    assert tree(result) == expected("""
        invoke_agent agent interrupted_by_user
          hermes.iteration 1 interrupted
            chat script
              hermes.attempt 1 cancelled
        """)
    assert not run.interrupt()


def test_an_interrupt_during_a_wait_ends_the_wait_and_sends_nothing_more():
    run = agent(fails("rate_limit", retry_after=60), say("never")).start("q", session=False)
    time.sleep(0.2)
    run.interrupt()
    result = run.result()

    assert result.interrupted
    retries = result.trace.retries_df()
    assert retries.outcome.tolist() == ["interrupted"]
    assert tree(result).count("hermes.attempt") == 1
    assert "ERROR" not in tree(result)


def test_an_interrupt_during_tools_answers_every_call_honestly():
    begun = threading.Event()

    def slow() -> str:
        """Takes long."""
        begun.set()
        time.sleep(1.5)
        return "done"

    steps = calls(call("population", city="Lyon"), call("slow"), call("population", city="Lille"))
    run = agent(steps, tools=[population, slow]).start("q", session=False)
    assert begun.wait(5)
    run.interrupt()
    result = run.result()

    first, second, third = (message.text for message in result.messages if message.role == "tool")
    assert first == "522000"
    assert "effect is unknown" in second
    assert "not started" in third
    assert result.messages[-1].role == "assistant"


def test_an_interrupt_at_the_boundary_lets_the_iteration_finish():
    begun = threading.Event()

    def slow() -> str:
        """Takes a moment."""
        begun.set()
        time.sleep(0.2)
        return "done"

    run = agent(call("slow"), say("never"), tools=[slow]).start("q", session=False)
    assert begun.wait(5)
    run.interrupt(when="boundary")
    result = run.result()

    assert [m.text for m in result.messages if m.role == "tool"] == ["done"]
    assert result.interrupted
    assert result.iterations == 1


def test_an_interrupted_stream_keeps_the_text_that_had_come():
    def speak(request):
        return say("never comes", seconds=0)

    async def halting(request, on_text):
        import anyio

        on_text("Half an ans")
        await anyio.sleep(30)

    run = hn.Agent(hn.as_provider(halting, name="halting")).start("q", session=False)
    time.sleep(0.2)
    run.interrupt()
    result = run.result()

    assert result.text == "Half an ans"
    assert result.messages[-1].text == "Half an ans"


# ---------------------------------------------------------------------------------------- steer


def test_a_steer_reaches_the_model_after_the_next_tool_result_exactly_once():
    seen, begun, go_on = [], threading.Event(), threading.Event()

    def wait() -> str:
        """Waits for the test."""
        begun.set()
        go_on.wait(5)
        return "done"

    def look(request):
        seen.append(request.messages[-1].text)
        return say("ok")

    run = agent(call("wait"), look, tools=[wait]).start("q", session=False)
    assert begun.wait(5)
    note = run.steer("Use <b>metropolitan</b> areas.")
    assert note.status == "queued"
    go_on.set()
    result = run.result()

    assert seen[0].count("Use <b>metropolitan</b> areas.") == 1
    assert seen[0].startswith("done")
    assert (note.status, note.iteration) == ("delivered", 2)
    assert result.pending_steer is None
    assert [message.origin for message in result.messages] == ["", "", "", "steer", ""]


def test_a_steer_that_comes_too_late_is_given_back():
    run = agent(say("ok", seconds=0.3)).start("q", session=False)
    note = run.steer("Also Lille.")
    result = run.result()

    assert result.pending_steer == "Also Lille."
    assert note.status == "undelivered"
    assert "completed" in note.reason
    late = run.steer("And Nice.")
    assert late.status == "undelivered"


# ---------------------------------------------------------------------------------------- pause


def test_a_paused_turn_runs_one_iteration_for_each_step():
    run = agent(call("population", city="Lyon"), say("ok")).start("q", session=False, paused=True)
    assert wait_for(lambda: run.state == "paused")
    assert run.budget.view().used == 0
    run.step()
    assert wait_for(lambda: run.state == "paused" and run.budget.view().used == 1)
    run.resume()

    assert run.result().completed


# ---------------------------------------------------------------------------------------- replies that are cut or empty


def test_an_answer_that_was_cut_is_continued_and_comes_back_whole():
    result = run(agent(say("Hello, ", finish_reason="length"), say("world")))

    assert result.text == "Hello, world"
    assert [message.text for message in result.messages][1:] == ["Hello, world"]
    assert result.iterations == 2


def test_an_answer_that_is_always_cut_ends_as_output_truncated_with_its_text():
    result = run(agent(*[say("x", finish_reason="length")] * 9))

    assert result.exit_reason is hn.ExitReason.OUTPUT_TRUNCATED
    assert result.text == "xxxx"


def test_empty_answers_are_asked_again_then_fall_back_then_fail_by_name():
    saved = run(chain([say("")] * 4, [say("from b")]))
    assert saved.text == "from b"

    lost = run(agent(*[say("")] * 9))
    assert lost.exit_reason is hn.ExitReason.EMPTY_RESPONSE
    assert lost.failed
    assert [message.role for message in lost.messages] == ["user"]


def test_ids_that_a_server_uses_twice_are_made_unique_on_both_sides():
    from hermes_nb.providers.scripted import Say, tool_call

    same = Say(calls=(tool_call("population", {"city": "Lyon"}, "call_0"),))
    result = run(agent(same, same, say("ok")))

    ids = [c.id for message in result.messages for c in message.tool_calls]
    answered = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert len(set(ids)) == 2
    assert ids == answered


# ---------------------------------------------------------------------------------------- bugs and bad input


def test_a_bug_in_a_policy_ends_the_turn_with_a_complete_record_and_is_raised():
    class Broken(hn.Retry):
        def allows(self, *_, **__):
            raise ZeroDivisionError("in the policy")

    run = agent(fails("overloaded"), retry=Broken()).start("q", session=False)
    with pytest.raises(ZeroDivisionError) as caught:
        run.result()

    assert run.turn_id in str(caught.value.__notes__)
    turns = run.trace.turns_df()
    assert turns.exit_reason.tolist() == ["internal_error"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: hn.Agent([]), "at least one model"),
        (lambda: hn.Agent(script(), budget=-1), "-1"),
        (lambda: agent(say("x")).run("  ", session=False), "not blank"),
        (lambda: agent(say("x")).with_(bugdet=3), "bugdet"),
        (lambda: agent(say("x")).run("q", history=[{"role": "robot"}], session=False), "robot"),
        (lambda: hn.Agent(script(), tools=[population, population]), "population"),
        (lambda: fails("nonsense"), "nonsense"),
    ],
)
def test_bad_input_is_named_at_once(build, words):
    with pytest.raises((hn.ConfigurationError, ValueError), match=words):
        build()


def test_the_dictionary_of_the_hermes_documents():
    pieces = []
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    before = [dict(row) for row in history]
    answer = agent(say("522,000 people")).run_conversation("q", "Be brief.", history, "task-1", pieces.append)

    assert history == before
    assert answer["final_response"] == "522,000 people"
    assert (answer["completed"], answer["failed"], answer["api_calls"]) == (True, False, 1)
    assert answer["turn_exit_reason"] == "completed"
    assert [row["role"] for row in answer["messages"]] == ["user", "assistant", "user", "assistant"]
    assert "".join(pieces) == "522,000 people"


# ---------------------------------------------------------------------------------------- conversations


def test_a_reply_goes_on_with_the_conversation_and_sends_the_same_beginning():
    seen = []

    def look(request):
        seen.append(request.messages)
        return say(f"answer {len(seen)}")

    first = agent(look, look).start("Lyon?", session=False)
    first.result()
    second = first.reply("And Lille?")
    result = second.result()

    assert [message.text for message in result.messages] == ["Lyon?", "answer 1", "And Lille?", "answer 2"]
    assert seen[1][: len(seen[0])] == seen[0]
    assert second.conversation_id == first.conversation_id
    assert (second.request.number, second.request.previous_turn_id) == (2, first.turn_id)


def test_a_failed_turns_question_is_not_put_to_the_model_again():
    seen = []

    def look(request):
        seen.append([message.text for message in request.messages][1:])
        return say("ok")

    first = agent(fails("auth"), look).start("Lyon?", session=False)
    assert first.result().failed
    first.reply("And Lille?").result()

    assert seen == [["And Lille?"]]


def test_a_reply_to_a_turn_that_is_not_over_is_refused():
    run = agent(say("late", seconds=5)).start("q", session=False)
    with pytest.raises(hn.RunInProgress):
        run.reply("And?")
    run.interrupt()


# ---------------------------------------------------------------------------------------- ceilings and notices


def test_a_ceiling_on_tokens_lands_softly():
    wants = call("population", city="Lyon")
    result = run(agent(wants, wants, say("so far: Lyon"), ceiling=hn.Ceiling(tokens=150), budget=50))

    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.text == "so far: Lyon"
    assert "tokens used" in result.detail
    assert result.graces == 1


def test_a_ceiling_on_money_uses_the_price_function_and_a_broken_one_does_not_break_the_turn():
    wants = call("population", city="Lyon")
    dear = hn.Ceiling(cost_usd=1.0, price=lambda provider, model, usage: 0.6)
    result = run(agent(wants, wants, say("done"), ceiling=dear))
    assert result.exit_reason is hn.ExitReason.CEILING_REACHED
    assert result.cost_usd == pytest.approx(1.8)

    broken = hn.Ceiling(cost_usd=1.0, price=lambda *_: 1 / 0)
    assert run(agent(say("done"), ceiling=broken)).completed


def test_the_list_prices_of_known_models():
    from hermes_nb import price

    assert price("openai", "gpt-4o", hn.Usage(1_000_000, 0)) == pytest.approx(2.5, rel=0.9)
    assert price("openai", "no-such-model", hn.Usage(1, 1)) is None


def test_a_budget_notice_is_told_once_at_the_end_of_a_request_and_is_not_kept():
    seen = []

    def look(request):
        seen.append(request.messages[-1].text)
        return call("population", city="Lyon") if len(seen) < 4 else say("done")

    notice = hn.BudgetNotice(share=0.5, text="[{remaining} left]")
    result = run(agent(look, look, look, look, budget=4, budget_notice=notice))

    assert [text.endswith("left]") for text in seen] == [False, True, False, False]
    assert seen[1].endswith("[2 left]")
    assert not any("left]" in message.text for message in result.messages)


# ---------------------------------------------------------------------------------------- keys


def test_a_key_that_a_tool_gives_away_is_told_to_nobody():
    secret = "sk-test-SECRET-0123456789"
    told = []

    @hn.tool
    def leak() -> str:
        """Gives a key away."""
        return f"the key is {secret}"

    provider = script(call("leak"), say(f"it is {secret}"))
    keyed = hn.Agent([_Keyed(provider, secret)], tools=[leak])
    result = keyed.run(f"q {secret}", session=False, sinks=[told.append])

    assert result.completed
    assert secret not in repr(told)
    assert secret not in repr(result.trace.spans_df().to_dict())


class _Keyed:
    """A provider that has a key."""

    def __init__(self, provider, secret):
        for name in ("name", "model", "identity", "context_window", "address", "parameters", "stream", "connect"):
            setattr(self, name, getattr(provider, name))
        self.secrets = (secret,)


# ---------------------------------------------------------------------------------------- the system prompt


def test_the_system_prompt_tells_who_answers_the_day_the_instructions_and_the_context_file(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Use metric units.")
    (tmp_path / "CLAUDE.md").write_text("Not read.")
    seen = []

    def look(request):
        seen.append(request.messages[0].text)
        return say("ok")

    run(agent(look, instructions="Be brief.", context_files=tmp_path))

    parts = seen[0].split("\n\n")
    assert parts[0] == "Model: script\nProvider: script"
    assert parts[1].startswith("Date: 20")
    assert parts[2] == "Be brief."
    assert "Use metric units." in seen[0]
    assert "Not read." not in seen[0]


def test_a_long_context_file_keeps_its_beginning_and_its_end(tmp_path):
    (tmp_path / "AGENTS.md").write_text("begin" + "x" * 50_000 + "end")
    made = agent(context_files=tmp_path)

    assert len(made.context) < 21_000
    assert "begin" in made.context
    assert made.context.endswith("end")
    with pytest.raises(hn.ConfigurationError, match="no directory"):
        agent(context_files=tmp_path / "nowhere")


# ---------------------------------------------------------------------------------------- checkpoints


def test_files_are_saved_before_a_tool_changes_them_and_can_be_brought_back(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("as it was")

    @hn.tool(writes=True)
    def overwrite(text: str) -> str:
        """Overwrites the notes."""
        (work / "notes.txt").write_text(text)
        return "written"

    steps = [call("overwrite", text="first"), call("overwrite", text="second"), say("done")]
    run = agent(*steps, tools=[overwrite], checkpoints=hn.Checkpoints(work)).start("q", session=False)
    assert run.result().completed
    run.restore(2)
    assert (work / "notes.txt").read_text() == "first"
    run.restore(1)
    assert (work / "notes.txt").read_text() == "as it was"
    with pytest.raises(hn.ConfigurationError, match="no checkpoints"):
        agent(say("x")).start("q", session=False).restore(1)


# ---------------------------------------------------------------------------------------- sinks


def test_a_sink_that_raises_is_dropped_and_the_turn_goes_on(caplog):
    told = []

    def broken(event):
        raise OSError("no space left")

    result = run(agent(call("population", city="Lyon"), say("ok")), sinks=[broken, told.append])

    assert result.completed
    assert [event.seq for event in told] == list(range(1, len(told) + 1))
    degraded = [event.what for event in told if event.what.kind == "degraded"]
    assert [what.part for what in degraded] == ["sink"]
    assert "no space left" in degraded[0].detail
    assert caplog.text.count("is not told any more") == 1


def test_a_watcher_that_raises_costs_no_other_watcher_and_no_event(caplog):
    run = agent(call("population", city="Lyon"), say("ok", seconds=0.1)).start("q", session=False, paused=True)
    told = []

    def broken(event):
        raise OSError("the front end is gone")

    run.subscribe(broken)
    before = run.subscribe(told.append)
    run.resume()
    assert run.result().completed

    assert [event.seq for event in (*before, *told)] == list(range(1, len(before) + len(told) + 1))
    assert caplog.text.count("is told nothing more") == 1


# ---------------------------------------------------------------------------------------- where mechanisms meet


def test_an_answer_that_is_being_continued_is_not_compressed_away_from_its_question():
    parts = [say("part " * 60, finish_reason="length")] * 3
    models = script(*parts, say("the end"), *[say("A summary.")] * 9, context_window=1_500)
    result = run(hn.Agent(models, compression=hn.Compression(minimum=256)), prompt="my very own question")

    assert [message.text for message in result.messages if message.role == "user"] == ["my very own question"]
    assert result.text == "part " * 180 + "the end"


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), -1.0, "x"])
def test_a_price_that_is_no_money_is_left_out_visibly(nonsense):
    told = []
    ceiling = hn.Ceiling(cost_usd=1.0, price=lambda *_: nonsense)
    result = run(agent(say("ok"), ceiling=ceiling), sinks=[told.append])

    assert result.completed
    assert result.cost_usd is None
    assert [event.what.part for event in told if event.what.kind == "degraded"] == ["price"]


def test_a_provider_that_has_given_up_is_not_asked_again_further_down_the_chain():
    first, second = script(fails("auth"), say("never"), name="a"), script(fails("auth"), name="b")
    result = run(hn.Agent([first, second, first]))

    assert result.exit_reason is hn.ExitReason.PROVIDER_FAILED
    assert result.trace.fallbacks_df().outcome.tolist() == ["activated", "skipped", "none_left"]


def test_what_had_come_before_the_last_failure_is_kept():
    from hermes_nb.vocabulary.failures import Failure, FailureReason, ProviderError
    from hermes_nb.vocabulary.messages import Message

    async def breaking(request, on_text):
        partial = Message("assistant", "Half an ans")
        raise ProviderError(Failure(FailureReason.BAD_REQUEST, "the server broke", partial=partial))

    result = run(hn.Agent(hn.as_provider(breaking, name="breaking")))
    assert result.exit_reason is hn.ExitReason.PROVIDER_FAILED
    assert result.text == "Half an ans"
    assert result.messages[-1].text == "Half an ans"


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a session"])
def test_a_reply_keeps_the_labels_and_takes_watchers(kept, tmp_path):
    session = hn.Session(tmp_path / "log.db", id="c") if kept else False
    first = agent(say("one"), say("two"), say("three")).start("q", session=session, metadata={"study": "7"})
    first.result()
    told = []
    second = first.reply("And?", sinks=[told.append])
    second.result()
    third = second.reply("And?", metadata={"study": "8"})
    third.result()

    assert [run.request.metadata["study"] for run in (first, second, third)] == ["7", "7", "8"]
    assert told
    assert third.request.number == 3


def test_a_conversation_goes_on_after_a_turn_that_met_a_bug():
    class Broken(hn.Guardrails):
        def judge(self, state, result):
            raise ZeroDivisionError

    first = agent(call("population", city="Lyon"), say("back"), guardrails=Broken()).start("q", session=False)
    with pytest.raises(ZeroDivisionError):
        first.result()
    assert first.reply("And?").result().text == "back"


def test_a_result_can_be_pickled_and_says_where_its_trace_is():
    import pickle

    result = run(agent(say("ok")))
    copied = pickle.loads(pickle.dumps(result))

    assert copied == result
    with pytest.raises(hn.TraceError, match="logbook"):
        _ = copied.trace


def test_a_turn_that_waits_for_itself_is_told_so():
    runs = []

    @hn.tool
    async def wait_for_myself() -> str:
        """Waits for its own turn."""
        return runs[0].result().text

    run = agent(call("wait_for_myself"), say("ok"), tools=[wait_for_myself]).start("q", session=False, paused=True)
    runs.append(run)
    run.resume()
    assert "cannot wait for its own end" in run.result(timeout=20).messages[2].text
