"""Cases beyond this process: a pool of processes, and Dask with workers that die."""

from __future__ import annotations

import os
import signal
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pandas as pd
import pytest

import hermes_nb as hn
from hermes_nb.lab.cases import cases_of
from hermes_nb.lab.casework import Place, Work, run_case
from hermes_nb.logbook import Logbook
from tests.support import sweeping
from tests.support.server import Server, always, slow
from tests.support.server import say as says


def test_a_pool_of_processes_keeps_its_own_logbooks(tmp_path):
    with (
        Server(always(says("The answer."))) as server,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 15, executor=pool, parallel=4)
        assert study.wait(100)

    frame = study.turns_df()
    assert sorted(frame.case_id) == sorted(study.cases)
    assert frame.turn_id.notna().all()
    assert str(os.getpid()) not in {worker.rpartition("-")[2] for worker in frame.worker}
    assert len(list((tmp_path / "s.db.parts").glob("*.db"))) == frame.worker.nunique()
    assert len(study.traces) == 30
    assert study.iterations_df().case_id.nunique() == 30


def test_processes_share_the_places_at_a_provider(tmp_path):
    with (
        Server(always(slow(0.05, says("The answer.")))) as server,
        ProcessPoolExecutor(3, mp_context=get_context("spawn")) as pool,
    ):
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 10, executor=pool, parallel=3, concurrency=1)
        assert study.wait(100)

        assert server.busiest == 1
    assert len(set(study.turns_df().worker)) > 1


def test_stop_reaches_the_workers(tmp_path):
    with (
        Server(always(slow(30, says("too late")))) as server,
        ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool,
    ):
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 5, executor=pool, parallel=2)
        server.wait_for(1, 60)
        study.stop()
        assert study.wait(25)

    assert set(study.turns_df().exit_reason.dropna()) <= {"interrupted_by_user", "provider_failed"}
    assert len(study.turns_df()) <= 2


def ended(study: hn.Study) -> list[str]:
    """The cases of which a turn ended, once for each such turn, in all logbooks."""
    turns = []
    for path in study.logbooks:
        with Logbook(path) as logbook:
            turns += logbook.turns()
    return sorted(turn.conversation_id.rpartition("-")[0] for turn in turns if turn.ended_at is not None)


@pytest.fixture
def dask_client(tmp_path, monkeypatch):
    """A client of two worker processes."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.filterwarnings("default")
def test_dask_loses_a_worker_in_the_middle_and_every_case_counts_once(tmp_path, dask_client):
    """What comes back can be had as Dask frames, read by the workers, and as Parquet."""
    with Server(always(slow(0.05, says("The answer.")))) as server:
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 40, executor=dask_client, parallel=8)
        server.wait_for(25, 80)
        os.kill(next(iter(dask_client.cluster.workers.values())).pid, signal.SIGKILL)
        assert study.wait(100)

        frame = study.turns_df()
        assert len(frame) == 80
        assert sorted(frame.case_id) == sorted(study.cases)
        assert frame.turn_id.notna().all(), frame.error.dropna().unique()
        assert frame.worker.nunique() >= 2
        assert ended(study) == sorted(study.cases), "a case whose turn had ended was not run again"
        assert study.attempts_df().case_id.nunique() == 80

        attempts = study.to_dask("attempts")
        assert attempts.npartitions == len(study.logbooks) >= 2
        assert attempts.groupby("budget").size().compute().to_dict() == (
            study.attempts_df().groupby("budget").size().to_dict()
        )
        whole = attempts.compute().sort_values("start_time").reset_index(drop=True)
        here = study.attempts_df().sort_values("start_time").reset_index(drop=True)
        assert list(whole.columns) == list(here.columns)
        keys = ["case_id", "turn_id", "budget"]
        assert whole[keys].to_dict("list") == here[keys].to_dict("list")
        assert study.to_dask().completed.sum().compute() == frame.completed.sum()

    study.to_parquet(tmp_path / "kept")
    cases = pd.read_parquet(tmp_path / "kept" / "cases")
    assert cases.case_id.tolist() == frame.case_id.tolist()
    assert set(frame.turn_id) <= set(hn.load(tmp_path / "kept").turns_df().turn_id)


@pytest.mark.filterwarnings("default")
def test_stop_reaches_the_workers_of_dask(tmp_path, dask_client):
    with Server(always(slow(60, says("too late")))) as server:
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 40, executor=dask_client, parallel=4)
        server.wait_for(2, 60)
        study.stop()
        assert study.wait(40)

    assert study.progress["state"] == "stopped"
    assert set(study.turns_df().exit_reason.dropna()) <= {"interrupted_by_user", "provider_failed"}
    assert len(study.turns_df()) <= 4


@pytest.mark.filterwarnings("default")
def test_ray_runs_the_cases_by_the_same_protocol(tmp_path):
    ray = pytest.importorskip("ray")

    class OnRay:
        def submit(self, function, /, *arguments):
            return ray.remote(function).remote(*arguments).future()

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=tempfile.mkdtemp(prefix="ray"))
    try:
        with Server(always(says("The answer."))) as server:
            study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 15, executor=OnRay(), parallel=4)
            assert study.wait(100)
    finally:
        ray.shutdown()

    frame = study.turns_df()
    assert sorted(frame.case_id) == sorted(study.cases)
    assert frame.turn_id.notna().all(), frame.error.dropna().unique()
    assert str(os.getpid()) not in {worker.rpartition("-")[2] for worker in frame.worker}


def test_a_case_that_had_ended_when_its_worker_was_lost_is_not_run_again(tmp_path):
    """Executors run it again, for they have lost its result."""
    with Server(always(says("The answer."))) as server:
        (case,) = cases_of(sweeping.agent(server.url).with_(faults=None), "q", {}, 1, None)
        work = Work(case, Place(tmp_path / "s.db", owner="another process"), sweeping.score)
        first, second = run_case(work), run_case(work)

        assert first == second | {"seconds": first["seconds"]}
        assert len(server.requests) == 1
        with Logbook(work.place.logbook) as logbook:
            assert len(logbook.turns()) == 1


def test_after_the_death_of_the_owner_the_parts_of_the_workers_count(tmp_path):
    """The rows are gone, as if the kernel had died before it heard of its workers' last cases."""
    with (
        Server(always(says("The answer."))) as server,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
    ):
        first = sweeping.sweep(server.url, str(tmp_path / "s.db"), 6, executor=pool, parallel=2)
        assert first.wait(100)
        asked = len(server.requests)
        (tmp_path / "s.db.rows.jsonl").unlink()
        second = sweeping.sweep(server.url, str(tmp_path / "s.db"), 6)
        assert second.wait(60)

    assert second.progress["resumed"] == 12
    assert len(server.requests) == asked
    assert set(second.turns_df().turn_id) == set(first.turns_df().turn_id)


def test_an_executor_that_breaks_leaves_rows_and_the_cases_run_again_later(tmp_path):
    class Broken:
        def submit(self, function, /, *args):
            raise OSError("no workers")

    with Server(always(says("The answer."))) as server:
        broken = sweeping.sweep(server.url, str(tmp_path / "s.db"), 2, executor=Broken())
        assert broken.wait(30)
        healed = sweeping.sweep(server.url, str(tmp_path / "s.db"), 2)
        assert healed.wait(30)

    assert list(broken._journal.rows())
    assert healed.progress["resumed"] == 0
    assert healed.turns_df().turn_id.notna().all()


def test_what_is_no_executor_is_refused(tmp_path):
    agent = sweeping.agent("http://127.0.0.1:1/v1")
    with pytest.raises(hn.ConfigurationError, match="submit"):
        hn.sweep(agent, ["q"], executor=object(), path=tmp_path / "s.db", progress=False)
    assert not Logbook(tmp_path / "s.db").turns()
