"""Without torch everything but the network works, and asking for the network names the remedy."""

import subprocess
import sys

SCRIPT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "numba", "llvmlite"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import butfor
from butfor.cli import main
asked = ["audit", "salary", "--cases", "0:3", "--strategy", "exhaustive", "--budget", "1", "--quiet"]
assert main([*asked, "--model", "logistic"]) == 0
assert main(asked) == 2
assert main(["standard", "student", "--shuffles", "0", "--n-jobs", "1", "--quiet"]) == 0
from sklearn.linear_model import LogisticRegression
data = butfor.load_dataset("salary")
for settings in ({}, {"model": LogisticRegression(), "engine": "stacked"}):
    try:
        audit = butfor.LabelAudit(**settings).fit(data.X_train, data.y_train, sensitive_features="Sex")
        audit.explain_all(data.X_test)
    except butfor.errors.EngineError as error:
        assert 'pip install "butfor[net]"' in str(error), error
    else:
        raise AssertionError(settings)
audit = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), budget=2)
audit.fit(data.X_train, data.y_train, sensitive_features="Sex")
assert audit.explain_all(data.X_test, cases=range(2)).run["engine"] == "linear"
"""


def test_without_torch_all_but_the_network_works():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 'pip install "butfor[net]"' in done.stderr
