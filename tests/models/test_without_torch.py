"""Without torch everything but the network works, and asking for the network names the remedy."""

import subprocess
import sys

import pytest

SCRIPT = """
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


@pytest.mark.system
def test_without_torch_all_but_the_network_works():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stderr.splitlines() if 'pip install "butfor[net]"' in line]
    assert [line[:20] for line in lines] == ["Error: The network n", "The model is boostin"]
