"""How the command starts and ends, as a process of its own: it imports what it needs, and Ctrl-C always ends it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system
IMPORTED = """
import sys
from butfor.cli import main
try:
    assert main(sys.argv[1:]) == 0
except SystemExit as ended:
    assert not ended.code
heavy = {name.split(".")[0] for name in sys.modules} & {"torch", "numba", "llvmlite", "distributed", "matplotlib"}
assert not heavy, heavy
"""
ENDING = """
import os, signal, sys, time
from butfor.__main__ import run

class Pressed:
    def find_spec(self, name, path=None, target=None):
        if name == "WHERE":
            os.kill(os.getpid(), signal.SIGNAL)
            time.sleep(60)

def swallowed(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGNAL)
        time.sleep(60)
    except BaseException:
        raise RuntimeError("what became of it") from None

if "WHERE" == "reading":
    import butfor.data.table
    butfor.data.table.load_table = swallowed
sys.meta_path.insert(0, Pressed())
sys.argv = ["butfor", "audit", "german", "--quiet"]
run()
"""


@pytest.mark.parametrize(
    "command",
    [["--help"], ["audit", "--help"], ["standard", "student", "--draws", "0", "--n-jobs", "1", "--quiet"]],
    ids=" ".join,
)
def test_without_the_network_torch_is_not_imported(command):
    done = subprocess.run([sys.executable, "-c", IMPORTED, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("where", ["butfor.cli.options", "pandas", "reading"])
def test_a_signal_before_anything_is_done_ends_the_command(where, number):
    script = ENDING.replace("WHERE", where).replace("SIGNAL", number)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr.lstrip()) == (130, "", "Stopped.\n")
