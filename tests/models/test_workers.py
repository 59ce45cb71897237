"""Worker processes: they know the user's model, and none is left behind."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAININGS = """
import butfor, numpy as np
from sklearn.tree import DecisionTreeClassifier
from butfor.models.engines import OwnFit
from butfor.models.learners import as_learner
from butfor.models.learner import Training

class Slow(DecisionTreeClassifier):
    def fit(self, X, y):
        import time
        time.sleep(0.2)
        return super().fit(X, y)

data = butfor.load_dataset("salary")
table = butfor.Table(data.X_train, data.y_train)
bound = OwnFit(2).bind(as_learner(Slow(random_state=0)), table, data.X_test)
bound([Training((), seed) for seed in range(20)], lambda count: print(count, flush=True))
bound([Training((), seed) for seed in range(100_000)])
"""


@pytest.mark.system
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes where Linux has them")
def test_workers_end_with_an_audit_that_is_killed():
    command = [sys.executable, "-W", "ignore", "-c", TRAININGS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as audit:
        try:
            assert audit.stdout is not None
            for _ in range(3):
                assert audit.stdout.readline().strip()
            workers = children(audit.pid)
            assert len(workers) >= 2
        finally:
            audit.kill()
    until = time.monotonic() + 60  # they look every second, when the machine lets them
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.2)
    assert [pid for pid in workers if alive(pid)] == []


HERE = """
import os, sys
import joblib, numpy as np, pandas as pd
import butfor

def elsewhere():
    return os.getcwd()

if __name__ == "__main__":
    assert set(joblib.Parallel(2)(joblib.delayed(elsewhere)() for _ in range(4))) == {os.getcwd()}
    sys.path.insert(0, sys.argv[1])
    from own_model import Halves
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    y, groups = pd.Series((X["a"] > 0).astype(int)), np.array(["p", "q"] * 30)
    audit = butfor.LabelAudit(
        Halves(), budget=1, strategy="exhaustive", phi="everyone", psi="everything", members=1, fresh_seeds=0, n_jobs=2
    ).fit(X, y, sensitive_features=groups)
    print([v.status for v in audit.explain_all(X[:3], sensitive_features=groups[:3])])
"""

OWN_MODEL = """
import time
from sklearn.naive_bayes import GaussianNB

WAIT = 0.1

class Halves(GaussianNB):
    def fit(self, X, y, sample_weight=None):
        time.sleep(WAIT)
        return super().fit(X, y)
"""


@pytest.mark.system
def test_workers_that_started_elsewhere_get_the_module_of_the_users_model(tmp_path):
    """Processes begin in another folder, before the one with the model's module is known."""
    for name, text in {"own/own_model.py": OWN_MODEL, "work/here.py": HERE}.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-W", "ignore", "here.py", str(tmp_path / "own")]
    done = subprocess.run(command, cwd=tmp_path / "work", capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "['found', 'proven_none', 'proven_none']", done.stderr[-800:]


def children(parent: int) -> list[int]:
    """Its worker processes; not the one that only sweeps up after them."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_text()
        except OSError:
            continue
        if int(fields[1]) == parent and "popen_loky" in command:
            found.append(int(folder.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
