"""Sweeps, told as stories: many turns, failures among them, a kernel that dies, a study that goes on."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hermes_nb as hn
from hermes_nb.logbook import Logbook
from hermes_nb.run import Run
from hermes_nb.testing import call, no_waiting, say, script
from tests.support import server as http
from tests.support import sweeping
from tests.support.server import Server, always
from tests.support.server import say as says

ROOT = Path(__file__).parents[2]


@hn.tool
def population(city: str) -> int:
    """Inhabitants of a city."""
    return 522_000


def agent(*steps, **settings) -> hn.Agent:
    steps = steps or (call("population", city="Lyon"), say("522,000"))
    return hn.Agent(script(*steps, each_turn=True), tools=[population], **({"guard": None} | settings))


def swept(*args, **options) -> hn.Study:
    with no_waiting():
        study = hn.sweep(*args, **({"progress": False} | options))
    assert study.wait(100)
    return study


def ended(path: Path) -> list[str]:
    """The cases of which a turn ended, once for each such turn."""
    with Logbook(path) as logbook:
        turns = logbook.turns()
    return [turn.conversation_id.rpartition("-")[0] for turn in turns if turn.ended_at is not None]


def test_a_grid_has_one_row_for_each_case(tmp_path):
    study = swept(agent(), ["a", "b"], vary={"budget": [1, 4]}, repeats=2, path=tmp_path / "s.db")

    frame = study.turns_df()
    assert len(frame) == 8
    assert frame.case_id.is_unique
    assert set(zip(frame.prompt, frame.budget, frame.repeat, strict=True)) == {
        (prompt, budget, repeat) for prompt in "ab" for budget in (1, 4) for repeat in (1, 2)
    }
    assert frame.groupby("budget").completed.all().to_dict() == {1: False, 4: True}
    assert (frame[frame.budget == 4].total_tokens > 0).all()
    assert study.done
    assert study.progress["exit_reasons"].keys() == set(frame.exit_reason)


def test_models_of_a_grid_can_be_grouped_as_in_the_documentation(tmp_path):
    small, large = (script(say(name), model=name, each_turn=True) for name in ("small", "large"))
    study = swept(hn.Agent(small), ["q"], vary={"budget": [4, 8], "models": [small, large]}, path=tmp_path / "s.db")

    table = study.turns_df().groupby(["budget", "model"]).agg(done=("completed", "mean"), cost=("cost_usd", "mean"))
    assert list(table.index) == [(4, "large"), (4, "small"), (8, "large"), (8, "small")]
    assert (table.done == 1).all()
    assert set(study.turns_df().models) == {"script:small", "script:large"}


def test_frames_over_all_turns_carry_the_settings(tmp_path):
    study = swept(agent(faults=hn.Faults(timeout={1})), ["a", "b"], vary={"budget": [2, 4]}, path=tmp_path / "s.db")

    iterations, attempts = study.iterations_df(), study.attempts_df()
    assert iterations.groupby("budget").size().to_dict() == {2: 4, 4: 4}
    assert (attempts.groupby("case_id").injected.count() == 1).all()
    assert set(study.tool_calls_df().tool_name) == {"population"}
    assert len(study.traces) == 4


def test_failures_are_rows_and_so_are_bugs(tmp_path):
    def broken(request):
        msg = "a bug"
        raise ZeroDivisionError(msg)

    agents = {
        "works": agent(),
        "refused": agent(faults=hn.Faults(auth=1.0)),
        "buggy": hn.Agent(script(broken, each_turn=True), guard=None),
    }
    frame = swept(agents, ["q"], path=tmp_path / "s.db").turns_df().set_index("agent")

    assert frame.completed.to_dict() == {"works": True, "refused": False, "buggy": False}
    assert frame.exit_reason["refused"] == "provider_failed"
    assert "refused" in frame.error["refused"]
    assert "a bug" in frame.error["buggy"]


def test_what_cannot_work_is_said_before_anything_runs(tmp_path):
    for wrong in (
        {"prompts": [" "]},
        {"prompts": []},
        {"prompts": ["q"], "parallel": 0},
        {"prompts": ["q"], "parallel": 2.5},
        {"prompts": ["q"], "concurrency": {"a": 0}},
        {"prompts": ["q"], "vary": {"budgget": [1]}},
    ):
        with pytest.raises(hn.ConfigurationError):
            hn.sweep(agent(), **wrong, path=tmp_path / "s.db")
    for taken in ("score", "case_id", "repeat", "seed"):
        with pytest.raises(hn.ConfigurationError, match="rename"):
            hn.sweep(agent(), [{"prompt": "q", taken: 1}], path=tmp_path / "s.db")
    assert list(tmp_path.iterdir()) == []


def test_cases_come_from_a_frame_with_settings_and_labels(tmp_path):
    cases = pd.DataFrame({"prompt": ["a", "b"], "budget": [1, 4], "expected": ["x", "522,000"]})
    study = swept(
        agent(), cases, path=tmp_path / "s.db", score=lambda result, case: result.text == case.labels["expected"]
    )

    frame = study.turns_df()
    assert list(frame.budget_limit) == [1, 4]
    assert list(frame.score) == [0, 1]
    assert list(frame.expected) == ["x", "522,000"]


def test_pairs_of_agent_and_prompt(tmp_path):
    pairs = [(agent(name="one"), "a"), (agent(name="two"), "b")]
    frame = swept(pairs, path=tmp_path / "s.db").turns_df()

    assert list(zip(frame.agent, frame.prompt, strict=True)) == [("one", "a"), ("two", "b")]


def test_an_agent_is_the_judge_and_a_judge_without_a_number_is_told_of(tmp_path):
    good = swept(agent(), ["q"], path=tmp_path / "a.db", score=hn.Agent(script(say("I give 0.75."), each_turn=True)))
    bad = swept(agent(), ["q"], path=tmp_path / "b.db", score=hn.Agent(script(say("Fine!"), each_turn=True)))

    assert list(good.turns_df().score) == [0.75]
    assert "no number" in bad.turns_df().score_error[0]
    assert bad.turns_df().completed.all()


@pytest.mark.parametrize("value", [[1, 2], object(), {"a": [1]}], ids=["a list", "an object", "a list in a dict"])
def test_a_score_that_is_no_number_is_told_of_and_the_turn_counts(tmp_path, value):
    study = swept(agent(), ["q"], path=tmp_path / "s.db", score=lambda result: value)

    assert study.turns_df().completed.all()
    assert "float" in study.turns_df().score_error[0]
    again = swept(agent(), ["q"], path=tmp_path / "s.db", score=lambda result: value)
    assert again.progress["resumed"] == 1


def test_labels_and_texts_of_any_kind_are_kept(tmp_path):
    """Arrays, dates that are missing, and lone halves of letters, which no column of text can hold."""
    cases = [{"prompt": "\ud800 a", "numbers": np.array([1, 2]), "when": pd.NaT}]
    study = swept(agent(say("\udfff b")), cases, path=tmp_path / "s.db")

    frame = study.turns_df()
    assert (frame.prompt[0], frame.text[0]) == ("? a", "? b")
    assert frame.numbers[0] == [1, 2]
    assert ended(tmp_path / "s.db") == study.cases


def test_partial_results_can_be_looked_at_and_stop_ends_all(tmp_path):
    go_on = threading.Event()

    @hn.tool
    def wait() -> str:
        """Waits."""
        go_on.wait(30)
        return "over"

    quick_then_slow = [f"{number}" for number in range(12)]
    started = hn.Agent(
        script(lambda r: call("wait") if int(r.messages[-1].content) > 3 else say("quick"), say("x"), each_turn=True),
        tools=[wait],
        guard=None,
    )
    study = hn.sweep(started, quick_then_slow, parallel=3, path=tmp_path / "s.db", progress=False)
    until(lambda: len(study.turns_df()) == 4)
    assert not study.done
    assert study.turns_df().completed.all()
    study.stop()
    assert study.wait(30)
    go_on.set()

    frame = study.turns_df()
    assert frame.exit_reason.value_counts().to_dict() == {"completed": 4, "interrupted_by_user": 3}
    assert "stopped" in repr(study)

    again = hn.sweep(agent(say("now")), quick_then_slow, path=tmp_path / "s.db", if_changed="keep", progress=False)
    assert again.wait(60)
    assert again.progress["resumed"] == 4
    assert again.turns_df().text.value_counts().to_dict() == {"now": 8, "quick": 4}


def until(happened, timeout: float = 30.0) -> None:
    end = time.monotonic() + timeout
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_script_sees_a_bar(tmp_path, capsys):
    assert hn.sweep(agent(), ["q"], path=tmp_path / "s.db").wait(60)
    assert "1/1" in capsys.readouterr().err


def test_a_second_sweep_at_the_same_place_is_refused_while_the_first_runs(tmp_path):
    slow = hn.Agent(script(say("x", seconds=20), each_turn=True))
    study = hn.sweep(slow, ["q"], path=tmp_path / "s.db", progress=False)
    with pytest.raises(hn.ConfigurationError, match="another sweep"):
        hn.sweep(slow, ["q"], path=tmp_path / "s.db", progress=False)
    study.stop()
    assert study.wait(30)


def test_finished_cases_are_not_run_again_and_new_ones_are(tmp_path):
    first = swept(agent(), ["a", "b"], path=tmp_path / "s.db")
    second = swept(agent(say("other")), ["a", "b", "c"], path=tmp_path / "s.db", if_changed="keep")

    assert second.progress["resumed"] == 2
    assert list(second.turns_df().text) == ["522,000", "522,000", "other"]
    assert set(first.cases) < set(second.cases)
    assert sorted(ended(tmp_path / "s.db")) == sorted(second.cases)


def test_an_agent_that_has_changed_is_told_of_before_anything_runs(tmp_path):
    path = tmp_path / "s.db"
    long = "Be exact. " * 30
    provider = script(say("one"), each_turn=True)
    swept(hn.Agent(provider, tools=[population], guard=None, instructions=f"{long}Count twice."), ["a", "b"], path=path)

    @hn.tool(name="population")
    def other(city: str) -> int:
        """Inhabitants of a city."""
        return 523_000

    changed = hn.Agent(
        provider, tools=[other], guard=None, instructions=f"{long}Count once.", retry=hn.Retry(attempts=9)
    )
    with pytest.raises(hn.ConfigurationError) as told:
        hn.sweep(changed, ["a", "b", "c"], path=path, progress=False)
    words = str(told.value)
    assert f"2 of the 2 finished cases of {path} were run by another agent" in words
    assert "retry.attempts was 3, is 9" in words
    assert "Count twice." in words
    assert "Count once." in words
    assert "tools.population.function was 'population (code" in words
    assert "if_changed='rerun'" in words
    assert len(words) < 1_200
    assert len(ended(path)) == 2, "nothing was run"

    kept = swept(changed, ["a", "b", "c"], path=path, if_changed="keep")
    assert kept.progress["resumed"] == 2
    assert len(set(kept.turns_df().fingerprint)) == 2
    rerun = swept(changed, ["a", "b", "c"], path=path, if_changed="rerun")
    assert rerun.progress["resumed"] == 1
    assert len(set(rerun.turns_df().fingerprint)) == 1
    assert len(rerun.iterations_df()) == 3
    again = swept(changed, ["a", "b", "c"], path=path)
    assert again.progress["resumed"] == 3
    with pytest.raises(hn.ConfigurationError, match="'ask'"):
        hn.sweep(changed, ["a"], path=path, if_changed="ask")


def test_a_changed_agent_is_noticed_in_the_logbook_when_the_rows_are_lost(tmp_path):
    path = tmp_path / "s.db"
    swept(agent(), ["a"], path=path)
    (tmp_path / "s.db.rows.jsonl").unlink()

    with pytest.raises(hn.ConfigurationError, match=r"1 of the 1 .*what it was is not known any more"):
        hn.sweep(agent(instructions="Be brief."), ["a"], path=path, progress=False)
    assert swept(agent(), ["a"], path=path).progress["resumed"] == 1


def test_the_value_behind_a_label_has_changed(tmp_path):
    path = tmp_path / "s.db"
    swept(agent(), ["a"], vary={"instructions": {"short": "Be brief.", "long": "Be exact."}}, path=path)

    with pytest.raises(hn.ConfigurationError, match=r"1 of the 2 .*instructions was 'Be brief.', is 'Be quick.'"):
        swept(agent(), ["a"], vary={"instructions": {"short": "Be quick.", "long": "Be exact."}}, path=path)


def test_a_study_that_was_begun_before_there_were_fingerprints_goes_on(tmp_path):
    path, rows = tmp_path / "s.db", tmp_path / "s.db.rows.jsonl"
    swept(agent(), ["a"], path=path)
    lines = [json.loads(line) for line in rows.read_text().splitlines()]
    old = [{name: line[name] for name in line if name != "fingerprint"} for line in lines if "case_id" in line]
    rows.write_text("".join(f"{json.dumps(line)}\n" for line in old))

    assert swept(agent(instructions="Be brief."), ["a"], path=path).progress["resumed"] == 1


def test_a_row_that_was_torn_or_lost_is_made_again_from_the_logbook(tmp_path):
    study = swept(agent(), ["a", "b", "c"], path=tmp_path / "s.db", score=lambda result: len(result.text))
    before = study.turns_df()
    rows = tmp_path / "s.db.rows.jsonl"
    rows.write_bytes(rows.read_bytes()[:-40])

    after = swept(agent(), ["a", "b", "c"], path=tmp_path / "s.db", score=lambda result: len(result.text))
    same = ["case_id", "turn_id", "text", "exit_reason", "iterations", "tool_calls", "total_tokens", "budget_used"]
    same += ["score", "model", "provider"]
    pd.testing.assert_frame_equal(before[same], after.turns_df()[same])
    assert after.progress["resumed"] == 3


def test_the_same_seed_meets_the_same_faults_in_all_settings(tmp_path):
    faulty = agent(*[call("population", city="Lyon")] * 3, say("x"), faults=hn.Faults(rate_limit=0.3, timeout=0.2))
    study = swept(faulty, [f"q{n}" for n in range(10)], vary={"budget": [5, 9]}, seed=1, path=tmp_path / "s.db")

    frame = study.turns_df()
    retries = frame.pivot_table(index="prompt", columns="budget", values="retries")
    assert (retries[5] == retries[9]).all()
    assert len(set(retries[5])) > 1


def test_memory_holds_no_run_that_is_over(tmp_path):
    study = swept(agent(), [f"q{n}" for n in range(40)], parallel=4, path=tmp_path / "s.db")

    gc.collect()
    assert (
        sum(isinstance(thing, Run) and thing.turn_id in set(study.turns_df().turn_id) for thing in gc.get_objects())
        == 0
    )


def test_never_more_than_parallel_turns_run_at_a_time(tmp_path):
    with Server(always(says("ok"))) as server:
        model = hn.OpenAIChat("m", base_url=server.url, api_key="k")
        swept(hn.Agent(model, guard=None), [f"q{n}" for n in range(30)], parallel=3, path=tmp_path / "s.db")

        assert len(server.requests) == 30
        assert server.busiest <= 3


def test_never_more_requests_than_allowed_are_under_way_at_a_provider(tmp_path):
    with Server(always(http.slow(0.05, says("ok")))) as few, Server(always(http.slow(0.05, says("ok")))) as many:
        narrow = hn.OpenAIChat("m", base_url=few.url, api_key="k", name="narrow")
        wide = hn.OpenAIChat("m", base_url=many.url, api_key="k", name="wide")
        agents = {"narrow": hn.Agent(narrow, guard=None), "wide": hn.Agent(wide, guard=None)}
        prompts = [f"q{n}" for n in range(12)]
        study = swept(agents, prompts, parallel=12, concurrency={"narrow": 2}, path=tmp_path / "s.db")

        assert study.turns_df().completed.all()
        assert few.busiest == 2
        assert many.busiest > 2
    assert not (tmp_path / "s.db.slots").exists()


def test_a_sweep_killed_in_the_middle_is_resumed_with_every_case_exactly_once(tmp_path):
    """Some hundred turns over real sockets, with faults; the process is killed twice by SIGKILL."""
    path, count = tmp_path / "s.db", 120
    with Server(always(says("The answer is here."))) as server:
        for killed_at in (40, 130):
            command = [sys.executable, "-m", "tests.support.sweeping", server.url, str(path), str(count)]
            process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stdout=subprocess.DEVNULL)
            server.wait_for(killed_at, 60)
            process.send_signal(signal.SIGKILL)
            process.wait(30)
        study = sweeping.sweep(server.url, str(path), count)
        assert study.wait(110)

    frame = study.turns_df()
    assert sorted(frame.case_id) == sorted(study.cases)
    assert len(frame) == 2 * count
    assert sorted(ended(path)) == sorted(study.cases), "no case ended twice"
    assert 20 < study.progress["resumed"] < 2 * count
    assert frame.score.notna().all()


def test_a_disk_that_takes_no_rows_loses_none(tmp_path):
    (tmp_path / "s.db.rows.jsonl").mkdir()
    study = swept(agent(), ["a", "b"], path=tmp_path / "s.db")

    assert study.turns_df().completed.sum() == 2


def test_it_shows_how_far_it_is_and_escapes_what_it_shows(tmp_path):
    study = swept(agent(), ["q"], path=tmp_path / "<b>.db")

    assert "1 of 1" in repr(study)
    assert "<b>" not in study._repr_html_()
    assert "1 of 1" in study._repr_html_()


UNDER_WAY = """
import sys
import time
import hermes_nb as hn
from hermes_nb.logbook import Logbook
from hermes_nb.testing import say, script
study = hn.sweep(hn.Agent(script(say("x", seconds=60), each_turn=True)), ["a", "b"], path=sys.argv[1], progress=False)
while len(Logbook(sys.argv[1]).turns()) < 2:
    time.sleep(0.05)
"""
STOPPED = """
print("started", flush=True)
try:
    study.wait()
except KeyboardInterrupt:
    print(list(study.turns_df().exit_reason), study.progress["state"])
"""


@pytest.mark.parametrize("inherited", [signal.SIG_DFL, signal.SIG_IGN], ids=["", "with signals ignored"])
def test_the_stop_button_interrupts_all_turns_and_the_sweep_ends_in_order(tmp_path, inherited):
    """Also in a process that was started in the background, where shells let it ignore the signal."""
    command = [sys.executable, "-c", UNDER_WAY + STOPPED, str(tmp_path / "s.db")]
    ours = signal.signal(signal.SIGINT, inherited)
    try:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    finally:
        signal.signal(signal.SIGINT, ours)
    try:
        assert process.stdout.readline() == "started\n"
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=40)
    finally:
        process.kill()
        process.communicate()

    assert told == "['interrupted_by_user', 'interrupted_by_user'] stopped\n"


def test_a_program_that_ends_does_not_wait_for_its_sweep_and_leaves_nothing_half_done(tmp_path):
    command = [sys.executable, "-c", f"{UNDER_WAY}raise SystemExit(3)", str(tmp_path / "s.db")]
    done = subprocess.run(command, cwd=ROOT, timeout=40, check=False)

    with Logbook(tmp_path / "s.db") as logbook:
        assert {turn.exit_reason for turn in logbook.turns()} == {"interrupted_by_user"}
    assert done.returncode == 3
