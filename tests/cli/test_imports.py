"""What a command does not need it does not import."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from butfor.cli import main
try:
    assert main(sys.argv[1:]) == 0
except SystemExit as ended:
    assert not ended.code
heavy = {name.split(".")[0] for name in sys.modules} & {"torch", "numba", "llvmlite", "distributed", "matplotlib"}
assert not heavy, heavy
"""


@pytest.mark.system
@pytest.mark.parametrize(
    "command",
    [["--help"], ["audit", "--help"], ["standard", "student", "--draws", "0", "--n-jobs", "1", "--quiet"]],
    ids=" ".join,
)
def test_without_the_network_torch_is_not_imported(command):
    done = subprocess.run([sys.executable, "-c", SCRIPT, *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
