"""Processes of their own: the command loads what it needs and Ctrl-C always ends it; without torch,
and where no thread or process can be started, everything else works."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system


def ended(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300
    )


IMPORTED = """
import sys
def loaded(*names):
    return {name.split(".")[0] for name in sys.modules} & set(names)
import butfor
assert not loaded("click", "rich", "numpy")
from butfor.cli import main
for command in ([], ["audit"]):
    assert main([*command, "--help"]) == 0
assert not loaded("torch", "numba", "sklearn", "scipy", "pandas", "numpy", "matplotlib")
"""


def test_what_starts_soon_loads_little():
    done = ended(IMPORTED)
    assert done.returncode == 0, done.stderr


ENDING = """
import os, signal, sys, time
from butfor.__main__ import run

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "WHERE":
            os.kill(os.getpid(), signal.SIGNAL)
            time.sleep(60)

sys.meta_path.insert(0, Pressed())
sys.argv = ["butfor", "audit", "german", "--quiet"]
run()
"""


@pytest.mark.parametrize(
    ("number", "where"), [("SIGINT", "butfor.cli.options"), ("SIGTERM", "pandas")]
)
def test_a_signal_before_anything_is_done_ends_the_command(number, where):
    done = ended(ENDING.replace("WHERE", where).replace("SIGNAL", number))
    assert (done.returncode, done.stdout, done.stderr.lstrip()) == (130, "", "Stopped.\n")


WITHOUT_TORCH = """
import sys
from importlib.machinery import PathFinder
class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, *where):
        return None if name in ("torch", "numba", "llvmlite") else super().find_spec(name, *where)
sys.meta_path[sys.meta_path.index(PathFinder)] = Others
import tempfile, warnings
import butfor
from butfor.cli import main
asked = ["audit", "salary", "--cases", "0:3", "--set", "strategy=exhaustive", "--budget", "1", "--quiet"]
assert main([*asked, "--model", "logistic"]) == 0
assert main(asked) == 2
from sklearn.linear_model import LogisticRegression
data = butfor.load_dataset("salary")
try:
    butfor.MLP
except butfor.errors.EngineError as error:
    assert 'pip install "butfor[net]"' in str(error), error
else:
    raise AssertionError("there is a network")
with warnings.catch_warnings(record=True) as said:
    audit = butfor.LabelAudit().fit(data.X_train, data.y_train, sensitive_features="Sex")
assert audit.learner_.name == "HistGradientBoostingClassifier", audit.learner_.name
assert [str(each.message)[:22] for each in said] == ["The model is boosting:"], said
with tempfile.NamedTemporaryFile(suffix=".csv") as own:
    data.X_train.assign(paid=data.y_train.to_numpy()).to_csv(own.name, index=False)
    assert main(["audit", own.name, "--label", "paid", "--sensitive", "Sex", "--cases", "0"]) == 0
audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), budget=2)
audit.fit(data.X_train, data.y_train, sensitive_features="Sex")
assert audit.explain_all(data.X_test, cases=range(2)).run.engine == "linear"
"""


def test_without_torch_all_but_the_network_works():
    done = ended(WITHOUT_TORCH)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if 'pip install "butfor[net]"' in line]
    assert [line[:20] for line in lines] == ["Error: The network n", "The model is boostin"]
    assert done.stderr.count('pip install "butfor[fast]"') == 1


IN_A_BROWSER = """
import os, subprocess, sys, threading
import sklearn.linear_model, scipy.stats  # what asks for the platform at import
def no(*given, **named):
    raise RuntimeError("can't start new thread")
sys.platform, threading.Thread.start, subprocess.Popen.__init__, os.fork = "emscripten", no, no, no
import butfor
data = butfor.load_dataset("german")
given = (data.X_train.iloc[:200], data.y_train.iloc[:200])
found = butfor.compare_standards(*given, sensitive_features="sex", adverse=0, draws=3)
assert found.draws == 3
again = butfor.compare_standards(*given, sensitive_features="sex", adverse=0, draws=3, n_jobs=2)
assert again.comparisons == found.comparisons
audit = butfor.LabelAudit(sklearn.linear_model.LogisticRegression(max_iter=1000), budget=3, fresh_seeds=0)
assert audit.fit(*given, sensitive_features="sex").explain_all(data.X_test, cases=range(3)).found
assert not {"torch", "numba", "llvmlite", "distributed", "matplotlib"} & set(sys.modules)
"""


def test_in_a_browsers_python_nothing_starts_a_thread_or_a_process_or_loads_what_serves_other_work():
    done = ended(IN_A_BROWSER)
    assert done.returncode == 0, done.stderr
