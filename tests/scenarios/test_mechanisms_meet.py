"""Where two mechanisms of the loop meet."""

from __future__ import annotations

import pytest

import hermes_nb as hn
from hermes_nb.testing import call, fails, say, script
from tests.support.scripts import agent, run


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
