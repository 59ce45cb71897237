"""A cluster, by real processes on this machine: the same answers as without one, whoever dies on the way."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor import ledger as ledgers
from butfor.errors import EngineError, SettingError, Stopped
from butfor.models import joblib_engine, workers
from butfor.models.cluster_engine import calls, open_cluster
from butfor.models.engines import local_workers
from butfor.models.ensemble import fresh_seeds
from butfor.models.learner import Training
from butfor.models.learners import as_learner
from butfor.models.workers import Pace, run_chunk, versions_here
from butfor.progress import Progress
from butfor.stopping import listen
from conftest import odd_table, press

TABLE = odd_table(120)
PEOPLE = odd_table(8, seed=1).drop(columns="granted")


def small(engine, ledger=None) -> butfor.LabelAudit:
    """An audit in which everything travels: members, gradients, trainings, confirmations, fresh seeds."""
    model = butfor.MLP(hidden=(4,), max_epochs=6, batch_size=64)
    audit = butfor.LabelAudit(model, members=4, fresh_seeds=7, budget=4, engine=engine, ledger=ledger)
    return audit.fit(TABLE.drop(columns="granted"), TABLE["granted"], sensitive_features="protected group?")


@pytest.fixture(scope="module")
def client():
    import dask
    from distributed import Client, LocalCluster

    # A worker that is away for 15 seconds is given up, with what would start it again: too soon on a busy machine.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "7 days"}),
        LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def engine(client):
    return butfor.DaskEngine(client, patience=180)


@pytest.fixture(params=["dask", "local"])
def either(request, client):
    """A Dask cluster, and processes of this machine."""
    return butfor.DaskEngine(client, patience=180) if request.param == "dask" else open_cluster("local:2")


def told(population: butfor.Population) -> dict:
    """An audit file without what a cluster may change."""
    record = json.loads(population.to_json())
    del record["checksum"]
    for run in (record["run"],):
        for name in ("seconds", "engine", "recalled"):
            del run[name]
    return record


@pytest.fixture(scope="module")
def alone() -> dict:
    audit = small("fused")
    return told(audit.explain_all(PEOPLE))


class When(Progress):
    """Does something once, after `trained` trainings."""

    def __init__(self, trained, do):
        self.to_come, self.do = trained, do

    def advance(self, count):
        self.to_come -= count
        if self.to_come <= 0 and self.do:
            do, self.do = self.do, None
            do()


def wait_until(condition, seconds=180):
    """Long enough for a busy machine."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def pids(engine) -> list[int]:
    """Of the worker processes."""
    if isinstance(engine, butfor.DaskEngine):
        return list(engine.client.run(os.getpid).values())
    from joblib.externals.loky import reusable_executor

    return [process.pid for process in reusable_executor._executor._processes.values()]


@pytest.mark.system
def test_the_file_is_the_same_as_without_a_cluster(either, alone):
    population = small(either).explain_all(PEOPLE)
    assert population.run.engine == "cluster"
    assert told(population) == alone
    assert any("flip_set" in person for person in alone["people"])


@pytest.mark.system
def test_a_worker_killed_on_the_way_changes_nothing(either, alone):
    killed = []

    def kill():
        killed.append(pids(either)[0])
        os.kill(killed[0], signal.SIGKILL)

    assert told(small(either).explain_all(PEOPLE, progress=When(20, kill))) == alone
    assert killed
    assert killed[0] not in pids(either)


class Counted(DecisionTreeClassifier):
    """Takes its time, and writes down every training: a word of whose process it was."""

    def __init__(self, log="", seconds=0.02, deadly=False, random_state=0):
        super().__init__(max_depth=3, random_state=random_state)
        self.log, self.seconds, self.deadly = log, seconds, deadly

    def fit(self, X, y, sample_weight=None):
        if self.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().fit(X, y, sample_weight)


def counted(log: Path, **given):
    learner = as_learner(Counted(str(log), **given), butfor.TableEncoder("onehot", dtype="float64"))
    return learner, butfor.Table(TABLE.drop(columns="granted"), TABLE["granted"]), PEOPLE


@pytest.mark.system
def test_any_learner_and_only_what_the_dead_worker_held_is_trained_again(engine, tmp_path):
    log = tmp_path / "trainings"
    trainings = [Training((k,), k) for k in range(80)]
    expected = butfor.JoblibEngine(1).bind(*counted(log))(trainings)
    engine.client.wait_for_workers(2, timeout=180)
    bound = engine.bind(*counted(log))
    bound(trainings[:8])  # one was started a moment ago
    log.unlink()
    victim = pids(engine)[0]
    progress = When(30, lambda: os.kill(victim, signal.SIGKILL))
    assert bound.by_definition
    chunks = list(bound.pieces(trainings, progress.advance))
    for chunk, logits in chunks:
        np.testing.assert_array_equal(logits, expected[chunk.start : chunk.stop])
    assert sorted(k for chunk, _ in chunks for k in chunk) == list(range(80))
    assert progress.do is None
    by_process = log.read_text().split()
    assert len(set(by_process)) > 1
    assert 80 <= len(by_process) <= 80 + 2 * max(len(chunk) for chunk, _ in chunks)
    for pid in pids(engine):  # and with them die all copies of the table
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(bound(trainings[:4]), expected[:4])
    engine.client.wait_for_workers(2, timeout=180)


@pytest.mark.system
def test_what_takes_its_workers_down_ends_in_a_sentence(either, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "MOST_DEATHS", 1)
    monkeypatch.setattr(joblib_engine.WorkersBound, "_always", True)  # not in this process
    if isinstance(either, butfor.DaskEngine):
        monkeypatch.setattr(either.client.cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(EngineError, match="took several workers down"):
        either.own_fit.bind(*counted(tmp_path / "log", deadly=True))([Training((), k) for k in range(4)])


@pytest.mark.system
def test_joblibs_dask_backend_is_taken_where_it_is_set(engine, tmp_path):
    log, trainings = tmp_path / "log", [Training((k,)) for k in range(6)]
    with joblib.parallel_config(backend="dask", client=engine.client):
        answers = butfor.JoblibEngine().bind(*counted(log))(trainings)
    assert {int(pid) for pid in log.read_text().split()} <= set(pids(engine))
    np.testing.assert_array_equal(answers, butfor.JoblibEngine(1).bind(*counted(log))(trainings))


@pytest.mark.system
def test_ctrl_c_keeps_what_is_done_and_the_cluster_goes_on(engine, tmp_path):
    population = small(engine).explain_all(PEOPLE, progress=When(1, press))
    wait_until(lambda: not any(engine.client.processing().values()))
    assert population.interrupted
    bound = engine.bind(*counted(tmp_path / "log", seconds=20))
    threading.Timer(1.0, press).start()
    with listen(), pytest.raises(Stopped):  # in the midst of a training
        bound([Training(())])
    assert not (tmp_path / "log").exists()  # the training would have written it at its end
    assert len(pids(engine)) == 2


# --- a scheduler elsewhere ----------------------------------------------------------------------------


@contextmanager
def process(*words: str, path: str | None = None):
    """A command of Dask's, ended with the test."""
    paths = [p for p in (path, *sys.path) if p]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    running = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@contextmanager
def scheduler_of(folder: Path):
    """A scheduler and its address."""
    file = folder / "scheduler.json"
    with process(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    ) as it:
        wait_until(lambda: file.exists() and file.read_text().strip())
        yield it, json.loads(file.read_text())["address"]


def worker(address: str, path: str | None = None):
    return process(
        "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1", path=path
    )


OLD = """
import importlib.metadata as metadata
real = metadata.version
metadata.version = lambda name: "1.99.0" if name == "numpy" else real(name)
"""


@pytest.mark.system
def test_other_versions_are_refused_and_a_scheduler_that_dies_loses_nothing(tmp_path, alone):
    ledger = tmp_path / "l.db"
    (tmp_path / "sitecustomize.py").write_text(OLD)
    with scheduler_of(tmp_path) as (scheduler, address), worker(address):
        far = open_cluster(address)
        assert open_cluster(address) is far
        audit = small(far, ledger)
        single, table = audit.learner_.learner, audit.table_
        bound = far.bind(single, table, PEOPLE)
        trainings = [Training((), seed) for seed in fresh_seeds(single, 8)]
        expected = bound(trainings)
        np.testing.assert_array_equal(bound(trainings), expected)
        with worker(address, path=str(tmp_path)):
            far.client.wait_for_workers(2, timeout=180)
            with pytest.raises(EngineError, match=rf"process \d+, has numpy 1.99.0 where .* {np.__version__}"):
                far.bind(single, table, PEOPLE)(trainings)
        wait_until(lambda: len(far.client.nthreads()) == 1)
        with pytest.raises(EngineError, match=r"scheduler at .* is gone.*same ledger"):
            audit.explain_all(PEOPLE, progress=When(20, scheduler.kill))
    done = sqlite3.connect(ledger).execute(f"SELECT count(*) FROM {ledgers.TABLE}").fetchone()[0]
    assert done >= 16
    with pytest.raises(EngineError, match="is gone"):
        bound(trainings)
    with pytest.raises(EngineError, match="no scheduler answers there"):  # not: the same, for ever
        open_cluster(address)
    population = small(open_cluster("local:2"), ledger).explain_all(PEOPLE)
    assert population.run.recalled == done
    assert told(population) == alone


# --- what cannot be ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", ["local:0", "local:x", "local:-1", "local:²", "local", "local:99999999999", "nowhere", "tcp://here", ""]
)
def test_a_cluster_that_cannot_be_is_refused_in_a_sentence(given):
    with pytest.raises(SettingError, match="--engine"):
        local_workers(given)


def test_where_no_scheduler_is_one_is_told_so_soon(monkeypatch):
    monkeypatch.setattr("butfor.models.cluster_engine.CONNECT", 1.0)
    import distributed  # noqa: F401, which takes seconds of its own

    started = time.monotonic()
    with pytest.raises(EngineError, match="no scheduler answers there"):
        open_cluster("tcp://127.0.0.1:9")
    assert time.monotonic() - started < 25  # Dask alone would try for 30


@pytest.mark.system
def test_without_workers_one_is_told_so(tmp_path):
    with scheduler_of(tmp_path) as (_, address):
        engine = butfor.DaskEngine(open_cluster(address).client, patience=1)
        with pytest.raises(EngineError, match="has had no worker for 1 seconds; start some"):
            engine.bind(*counted(tmp_path / "log"))
        engine.client.close()


def test_without_dask_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r'pip install "butfor\[dask\]"'):
        open_cluster("tcp://127.0.0.1:9")


def test_what_is_no_client_is_refused_in_a_sentence():
    with pytest.raises(SettingError, match=r"give a distributed\.Client"):
        butfor.DaskEngine("tcp://127.0.0.1:9")
    with pytest.raises(SettingError, match="name the workers' engine"):
        butfor.ClusterEngine("fast")


@pytest.mark.system
def test_an_audit_on_a_cluster_can_be_cloned(engine):
    assert clone(butfor.LabelAudit(engine=engine)).engine is engine


def test_builds_of_one_version_are_the_same_and_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr(workers, "version", lambda package: "2.13.0+cu126")
    here = versions_here.__wrapped__()
    assert here["torch"] == "2.13.0"
    monkeypatch.setattr(workers, "versions_here", dict)
    with pytest.raises(EngineError, match=r"has no numpy where the audit has numpy 2\.13\.0"):
        run_chunk((os.getpid(), {"numpy": here["numpy"]}), calls, [], 0, b"")


def sizes(pace: Pace, items: int, count: int) -> list[int]:
    """The sizes of all chunks of a list, each of which takes as long as the pace says."""
    found = []
    while items:
        found.append(pace.size(items, count))
        items -= found[-1]
    return found


def test_chunks_shrink_towards_the_end_so_that_workers_end_together():
    pace = Pace()
    assert pace.size(1000, 4) == 1  # before anybody knows how long one takes
    pace.observe(4, 0.04)
    assert pace.size(10**6, 4) == 200  # two seconds
    cut = sizes(pace, 4000, 4)
    assert cut == sorted(cut, reverse=True)
    assert 10 >= cut[-1] >= 1  # a tenth of a second at the most
    pace.observe(1, 1000.0)
    assert pace.size(1000, 4) == 1
    assert sizes(Pace(np.inf), 3, 2) == [1, 1, 1]


def test_chunks_are_as_large_as_a_gpu_is_wide():
    pace = Pace()
    pace.observe(4, 0.4, 1024)
    assert pace.size(10**6, 1) == 1024  # by what four of them took, twenty would do
    pace.observe(1024, 0.5, 1024)
    assert pace.each == pytest.approx(0.5 / 1024)  # what a few took is forgotten
    assert pace.size(10**6, 1) == 4096  # two seconds
    assert pace.size(600, 2) == 300
