"""A cluster, by real processes on this machine: the same answers as without one, whoever dies on the way."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor.errors import EngineError, SettingError
from butfor.learn.dask_engine import Pace, cluster_engine
from butfor.learn.dask_worker import version_difference, versions_here
from butfor.learn.engines import local_workers
from butfor.learn.ensemble import fresh_seeds
from butfor.learn.learners import as_learner
from butfor.learn.protocols import Training
from butfor.progress import Progress
from butfor.search.ledger import Ledger
from conftest import odd_table, press

TABLE = odd_table(120)
PEOPLE = odd_table(8, seed=1).drop(columns="granted")


def small(engine, ledger=None) -> butfor.LabelAudit:
    """An audit in which everything travels: members, gradients, trainings, confirmations, fresh seeds."""
    model = butfor.MLP(hidden=(4,), max_epochs=6, batch_size=64)
    audit = butfor.LabelAudit(model, members=4, fresh_seeds=7, budget=4, engine=engine, ledger=ledger)
    return audit.fit(TABLE.drop(columns="granted"), TABLE["granted"], sensitive_features="protected group?")


@pytest.fixture(scope="module")
def engine():
    import dask

    # Dask gives up a worker that is away for 15 seconds, with what would start it again. Ours are not to be given up;
    # this way one that was is missed at once.
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "100ms"}), cluster_engine("local:2") as engine:
        yield engine


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
    """Does something once, after so many trainings."""

    def __init__(self, trained, do):
        self.to_come, self.do = trained, do

    def advance(self, count):
        self.to_come -= count
        if self.to_come <= 0 and self.do:
            do, self.do = self.do, None
            do()


def pids(engine) -> dict[str, int]:
    return engine.client.run(os.getpid)


@pytest.mark.system
def test_the_file_is_the_same_as_without_a_cluster(engine, alone):
    audit = small(engine)
    population = audit.explain_all(PEOPLE)
    assert population.run.engine == "dask"
    assert told(population) == alone
    assert any("flip_set" in person for person in alone["people"])


@pytest.mark.system
def test_a_worker_killed_on_the_way_changes_nothing(engine, alone):
    victim = next(iter(pids(engine).values()))
    killing = When(20, lambda: os.kill(victim, signal.SIGKILL))
    population = small(engine).explain_all(PEOPLE, progress=killing)
    assert killing.do is None
    assert told(population) == alone
    engine.client.wait_for_workers(2, timeout=180)
    assert victim not in pids(engine).values()


class Counted(DecisionTreeClassifier):
    """Takes its time, and writes down every training: a word of whose process it was."""

    def __init__(self, log="", seconds=0.02, random_state=0):
        super().__init__(max_depth=3, random_state=random_state)
        self.log, self.seconds = log, seconds

    def fit(self, X, y, sample_weight=None):
        time.sleep(self.seconds)
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().fit(X, y, sample_weight)


@pytest.mark.system
def test_any_learner_and_only_what_the_dead_worker_held_is_trained_again(engine, tmp_path):
    log = tmp_path / "trainings"
    learner = as_learner(Counted(str(log)), butfor.TableEncoder("onehot", dtype="float64"))
    table = butfor.Table(TABLE.drop(columns="granted"), TABLE["granted"])
    trainings = [Training((k % table.n,), k) for k in range(80)]
    expected = butfor.JoblibEngine(1).bind(learner, table, PEOPLE)(trainings)
    log.unlink()
    engine.client.run(exec, "import butfor.learn.dask_worker, sklearn.tree")  # one was started a moment ago
    victim = next(iter(pids(engine).values()))
    progress = When(30, lambda: os.kill(victim, signal.SIGKILL))
    bound = engine.own_fit.bind(learner, table, PEOPLE)
    assert bound.by_definition
    largest = 0
    chunks = []
    for chunk, logits in bound.pieces(trainings, progress.advance):
        np.testing.assert_array_equal(logits, expected[chunk.start : chunk.stop])
        chunks.append(chunk)
        largest = max(largest, len(chunk))
    assert sorted(k for chunk in chunks for k in chunk) == list(range(80))
    assert progress.do is None
    by_process = log.read_text().split()
    assert len(set(by_process)) > 1
    assert 80 <= len(by_process) <= 80 + 2 * largest
    for pid in pids(engine).values():  # and with them die all copies of what was scattered
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    np.testing.assert_array_equal(bound(trainings[:4]), expected[:4])
    engine.client.wait_for_workers(2, timeout=180)


@pytest.mark.system
def test_ctrl_c_keeps_what_is_done_and_the_cluster_goes_on(engine, tmp_path):
    audit = small(engine)
    population = audit.explain_all(PEOPLE, progress=When(1, press))
    deadline = time.monotonic() + 5
    while any(engine.client.processing().values()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert population.interrupted
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
def with_moved_files(folder: Path):
    """A scheduler and its address."""
    file = folder / "scheduler.json"
    with process(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)
    ) as it:
        deadline = time.monotonic() + 60
        while not file.exists() or not file.read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.1)
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
def test_other_versions_are_refused_and_a_scheduler_that_dies_loses_nothing(tmp_path, engine, alone):
    ledger = tmp_path / "l.db"
    (tmp_path / "sitecustomize.py").write_text(OLD)
    with with_moved_files(tmp_path) as (scheduler, address), worker(address), cluster_engine(address) as far:
        audit = small(far, ledger)
        single, table = audit.learner_.learner, audit.table_
        bound = far.bind(single, table, PEOPLE)
        trainings = [Training((), seed) for seed in fresh_seeds(single, 8)]
        expected = bound(trainings)
        np.testing.assert_array_equal(bound(trainings), expected)
        with worker(address, path=str(tmp_path)):
            far.client.wait_for_workers(2, timeout=180)
            with pytest.raises(
                EngineError, match=rf"Worker tcp://127.0.0.1:\d+ has numpy 1.99.0 where .* {np.__version__}"
            ):
                far.bind(single, table, PEOPLE)
        while len(far.client.nthreads()) > 1:
            time.sleep(0.1)
        with pytest.raises(EngineError, match=r"scheduler at .* is gone.*--ledger"):
            audit.explain_all(PEOPLE, progress=When(20, scheduler.kill))
    done = len(Ledger(ledger).select("SELECT flips FROM networks", []))
    assert done >= 16
    population = small(engine, ledger).explain_all(PEOPLE)
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
    monkeypatch.setattr("butfor.learn.dask_engine.CONNECT", 1.0)
    started = time.monotonic()
    with pytest.raises(EngineError, match="no scheduler answers there"), cluster_engine("tcp://127.0.0.1:9"):
        pass
    assert time.monotonic() - started < 20


def test_without_dask_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r'pip install "butfor\[dask\]"'), cluster_engine("local:2"):
        pass


@pytest.mark.system
def test_an_audit_on_a_cluster_can_be_cloned(engine):
    assert clone(butfor.LabelAudit(engine=engine)).engine is engine


def test_builds_of_one_version_are_the_same_and_what_is_missing_is_said(monkeypatch):
    monkeypatch.setattr("butfor.learn.dask_worker.version", lambda package: "2.13.0+cu126")
    assert version_difference("w", {"torch": "2.13.0"}, versions_here()) is None
    assert "no torch" in version_difference("w", {"torch": "2.13.0"}, {})


def sizes(pace: Pace, items: int, threads: int) -> list[int]:
    """The sizes of all chunks of a list, each of which takes as long as the pace says."""
    found = []
    while items:
        found.append(pace.size(items, threads))
        items -= found[-1]
    return found


def test_chunks_shrink_towards_the_end_so_that_workers_end_together():
    pace = Pace()
    assert pace.size(1000, 4) <= 4  # before anybody knows how long one takes
    pace.observe(4, 0.04)
    assert pace.size(10**6, 4) == 500  # five seconds
    cut = sizes(pace, 4000, 4)
    assert cut == sorted(cut, reverse=True)
    assert 25 >= cut[-1] >= 1  # a quarter of a second at the most
    pace.observe(1, 1000.0)
    assert pace.size(1000, 4) == 1
    assert sizes(Pace(most=1), 3, 2) == [1, 1, 1]


def test_chunks_are_as_large_as_a_gpu_is_wide():
    pace = Pace()
    pace.observe(4, 0.4, 1024)
    assert pace.size(10**6, 1) == 1024  # by what four of them took, fifty would do
    pace.observe(1024, 0.5, 1024)
    assert pace.each == pytest.approx(0.5 / 1024)  # what a few took is forgotten
    assert pace.size(10**6, 1) == 10_240  # five seconds
    assert pace.size(600, 2) == 300
