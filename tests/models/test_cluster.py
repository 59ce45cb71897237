"""Workers, by real processes on this machine: the same answers as without, whoever dies on the way;
none is left."""

import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

import butfor
from butfor.errors import EngineError, SettingError, Stopped
from butfor.models import engines, workers
from butfor.models.engines import (
    ClusterEngine,
    OwnFit,
    check_engine,
    open_cluster,
)
from butfor.models.making import as_learner
from butfor.models.seam import Training
from butfor.models.workers import Workers
from butfor.support.progress import Progress
from butfor.support.stopping import listen
from conftest import odd_table, press

TABLE = odd_table(120)
PEOPLE = odd_table(4, seed=1).drop(columns="granted")
TREE = ExtraTreeClassifier(max_depth=3, random_state=0)
"""Workers start with it in half the time: they load no torch."""


def small(engine, ledger=None) -> butfor.LabelAudit:
    """An audit in which everything travels: members, trainings, fresh seeds."""
    audit = butfor.LabelAudit(
        TREE, members=3, fresh_seeds=4, budget=5, engine=engine, ledger=ledger
    )
    return audit.fit(
        TABLE.drop(columns="granted"), TABLE["granted"], sensitive_features="protected group?"
    )


@pytest.fixture(scope="module")
def dask_cluster():
    import dask
    from distributed import LocalCluster

    # A worker that is away for 15 seconds is given up, with what would start it again: too soon on
    # a busy machine.
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "7 days"}),
        LocalCluster(
            2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as running,
    ):
        yield running
        open_cluster(running.scheduler_address).workers.client.close()


@pytest.fixture(params=["dask", "local"])
def name(request, dask_cluster, monkeypatch):
    """Of a Dask cluster, and of processes of this machine."""
    monkeypatch.setattr(workers, "WORKER_SECONDS", 180)
    return dask_cluster.scheduler_address if request.param == "dask" else "local:2"


def told(population: butfor.Population) -> dict:
    """An audit file without what a cluster and a ledger may change."""
    record = json.loads(population.to_json())
    del record["checksum"]
    for name in ("seconds", "engine", "recalled", "confirmations"):
        del record["run"][name]
    return record


@cache
def alone() -> dict:
    """The record of an audit without workers, in which somebody's decision flips."""
    record = told(small("auto").explain_all(PEOPLE))
    assert any("flip_set" in person for person in record["people"])
    return record


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


def pids(name) -> list[int]:
    """Of the worker processes."""
    if name.startswith("tcp"):
        return list(open_cluster(name).workers.client.run(os.getpid).values())
    from joblib.externals.loky import reusable_executor

    return [process.pid for process in reusable_executor._executor._processes.values()]


class Slow(DecisionTreeClassifier):
    """Takes its time, and writes down every training; without time it ends its process."""

    def __init__(self, log="", seconds=0.02, random_state=0):
        super().__init__(max_depth=3, random_state=random_state)
        self.log, self.seconds = log, seconds

    def fit(self, X, y, sample_weight=None):
        if self.seconds < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        with open(self.log, "a") as file:
            file.write(f"{os.getpid()}\n")
        return super().fit(X, y, sample_weight)


def square(shared, part):
    return shared * part**2


def bound(engine, log: Path, model=Slow, **given):
    learner = as_learner(model(str(log), **given), butfor.TableEncoder("onehot", dtype="float64"))
    return engine.bind(
        learner, butfor.Table(TABLE.drop(columns="granted"), TABLE["granted"]), PEOPLE
    )


@pytest.mark.system
def test_workers_that_started_before_get_the_module_of_the_users_model(tmp_path, monkeypatch):
    assert os.getpid() not in joblib.Parallel(2)(joblib.delayed(os.getpid)() for _ in range(4))
    needed = "import os, signal, time\nfrom sklearn.tree import DecisionTreeClassifier\n"
    (tmp_path / "own_model.py").write_text(needed + inspect.getsource(Slow))
    monkeypatch.syspath_prepend(tmp_path)
    own_model = importlib.import_module("own_model")
    trainings = [Training((k,)) for k in range(9)]
    far, here = (
        bound(OwnFit(jobs), tmp_path / f"log{jobs}", own_model.Slow)(trainings) for jobs in (2, 1)
    )
    np.testing.assert_array_equal(far, here)
    assert str(os.getpid()) not in (tmp_path / "log2").read_text().split()
    monkeypatch.delitem(sys.modules, "own_model")


@pytest.mark.system
def test_a_worker_killed_on_the_way_is_replaced_and_what_kills_all_or_is_another_version_ends_in_a_sentence(
    name, tmp_path, monkeypatch, dask_cluster
):
    killed = []

    def kill():
        killed.append(pids(name)[0])
        os.kill(killed[0], signal.SIGKILL)

    population = small(name).explain_all(PEOPLE, progress=When(20, kill))
    assert population.run.engine == "cluster"
    assert told(population) == alone()
    assert killed[0] not in pids(name)
    assert open_cluster(name).spread(square, 3, [1, 2, 4]) == [
        3,
        12,
        48,
    ]  # as gradients of networks are
    with monkeypatch.context() as patch:
        patch.setattr(workers, "versions_here", lambda: {"numpy": "1.99.0"})
        with pytest.raises(EngineError, match=r"has numpy .* where the audit has numpy 1\.99\.0"):
            bound(open_cluster(name), tmp_path / "log")([Training(())])
    monkeypatch.setattr(workers, "MAX_DEATHS", 1)
    monkeypatch.setattr(dask_cluster.scheduler, "allowed_failures", 0)
    with pytest.raises(EngineError, match="took several workers down"):
        bound(open_cluster(name), tmp_path / "log", seconds=-1)([Training((), k) for k in range(4)])


@pytest.mark.system
def test_ctrl_c_ends_a_training_and_joblibs_own_dask_backend_is_honoured(
    dask_cluster, tmp_path, monkeypatch
):
    engine = open_cluster(dask_cluster.scheduler_address)
    train = bound(engine, tmp_path / "log", seconds=8)
    threading.Timer(1.0, press).start()
    with listen(), pytest.raises(Stopped):  # in the midst of a training
        train([Training(())])
    assert not (tmp_path / "log").exists()  # the training would have written it at its end
    trainings = [Training((k,)) for k in range(9)]
    with joblib.parallel_config(backend="dask", client=engine.workers.client):
        answers = bound(OwnFit(), tmp_path / "far")(trainings)
        monkeypatch.setattr(dask_cluster.scheduler, "allowed_failures", 0)
        with pytest.raises(
            EngineError, match="took several workers down"
        ):  # joblib's would wait for ever
            bound(OwnFit(), tmp_path / "log", seconds=-1)(trainings)
    assert str(os.getpid()) not in (tmp_path / "far").read_text().split()
    np.testing.assert_array_equal(answers, bound(OwnFit(1), tmp_path / "far")(trainings))


# --- a scheduler elsewhere ------------------------------------------------------------------------


def environment() -> dict[str, str]:
    """In which a process finds what this one does, wherever it starts."""
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    }


@contextmanager
def process(*words: str):
    """A command of Dask's, ended with the test."""
    command = [
        sys.executable,
        "-m",
        "distributed.cli.dask_" + words[0],
        *words[1:],
        "--host",
        "127.0.0.1",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen([*command, "--no-dashboard"], env=environment(), **quiet)
    try:
        yield running
    finally:
        running.kill()
        running.wait()


@pytest.mark.system
def test_a_scheduler_without_workers_is_given_up_and_one_that_dies_loses_nothing(
    tmp_path, monkeypatch
):
    ledger, file = tmp_path / "l.db", tmp_path / "scheduler.json"
    with process("scheduler", "--port", "0", "--scheduler-file", str(file)) as scheduler:
        wait_until(lambda: file.exists() and file.read_text().strip())
        address = json.loads(file.read_text())["address"]
        far = open_cluster(address)
        monkeypatch.setattr(workers, "WORKER_SECONDS", 1)
        with pytest.raises(EngineError, match="has had no worker for 1 seconds; start some"):
            bound(far, tmp_path / "log")
        with process("worker", address, "--nthreads", "1", "--no-nanny"):
            monkeypatch.setattr(workers, "WORKER_SECONDS", 180)
            audit = small(address, ledger=ledger)
            assert open_cluster(address) is far
            with pytest.raises(EngineError, match=r"scheduler at .* is gone.*same ledger"):
                audit.explain_all(PEOPLE, progress=When(20, scheduler.kill))
    monkeypatch.setattr(engines, "CONNECT_SECONDS", 1.0)
    with pytest.raises(EngineError, match="no scheduler answers there"):  # not: the same, for ever
        open_cluster(address)
    population = small(ClusterEngine(1, Workers(1)), ledger=ledger).explain_all(PEOPLE)
    assert population.run.recalled >= 8
    assert told(population) == alone()


def test_without_dask_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(EngineError, match=r'pip install "butfor\[dask\]"'):
        open_cluster("tcp://127.0.0.1:9")


@pytest.mark.parametrize("address", ["tcp://x", "tls://x:", "http://x:8786"])
def test_an_address_without_a_port_is_refused_before_a_connection(address):
    with pytest.raises(SettingError, match="host and port"):
        check_engine(address)


# --- processes of this machine --------------------------------------------------------------------

TRAININGS = """
import os, time
import numpy as np, pandas as pd
from butfor.models.engines import OwnFit
from butfor.models.seam import Learner, Table, Training

class Slow(Learner):
    def work(self, table):
        return 2e6
    def fit(self, table, labels):
        time.sleep(0.1)
        with open("log", "a") as file:
            file.write(f"{os.getpid()}\\n")
        return self
    def logits(self, people):
        return np.zeros(len(people))

X = pd.DataFrame({"a": range(4)})
train = OwnFit(2).bind(Slow(), Table(X, pd.Series([0, 1, 0, 1])), X)
train([Training((), None)] * 100_000)
"""


@pytest.mark.system
def test_workers_end_with_an_audit_that_is_killed(tmp_path):
    psutil = pytest.importorskip("psutil")
    log, command = tmp_path / "log", [sys.executable, "-W", "ignore", "-c", TRAININGS]
    with subprocess.Popen(command, cwd=tmp_path, env=environment()) as audit:
        try:
            wait_until(lambda: log.exists() and len(set(log.read_text().split())) == 2)
            started = [psutil.Process(int(pid)) for pid in set(log.read_text().split())]
            assert audit.pid not in [worker.pid for worker in started]
        finally:
            audit.kill()
    # They look every second, when the machine lets them.
    wait_until(
        lambda: all(
            not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in started
        ),
        60,
    )
