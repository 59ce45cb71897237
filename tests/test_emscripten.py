"""In a browser's Python, which starts neither threads nor processes, standards are compared and decisions explained,
and what serves other work alone is not imported."""

import subprocess
import sys

import pytest

SCRIPT = """
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


@pytest.mark.system
def test_nothing_starts_a_thread_or_a_process_where_there_are_none():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
