"""Cases beyond this process: a pool of processes, and Dask with workers that die."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import hermes_nb as hn
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


@pytest.mark.filterwarnings("default")
def test_dask_loses_a_worker_in_the_middle_and_every_case_counts_once(tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    with (
        Server(always(slow(0.05, says("The answer.")))) as server,
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        study = sweeping.sweep(server.url, str(tmp_path / "s.db"), 40, executor=client, parallel=8)
        server.wait_for(25, 80)
        victim = next(iter(cluster.workers.values())).pid
        os.kill(victim, signal.SIGKILL)
        assert study.wait(100)

    frame = study.turns_df()
    assert len(frame) == 80
    assert sorted(frame.case_id) == sorted(study.cases)
    assert frame.turn_id.notna().all(), frame.error.dropna().unique()
    assert frame.worker.nunique() >= 2
    assert study.attempts_df().case_id.nunique() == 80


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
