"""How the command starts and ends, as a process of its own: it imports what it needs, and Ctrl-C always ends it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.system
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


def test_what_starts_soon_loads_little():
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("number", "where"), [("SIGINT", "butfor.cli.options"), ("SIGTERM", "pandas")])
def test_a_signal_before_anything_is_done_ends_the_command(number, where):
    script = ENDING.replace("WHERE", where).replace("SIGNAL", number)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr.lstrip()) == (130, "", "Stopped.\n")
