"""How the command starts and ends, as a process of its own."""

import os
import subprocess
import sys

import pytest


@pytest.mark.system
def test_processes_that_trained_are_gone_soon_after_the_answer(tmp_path):
    script = (
        "import time\n"
        "from joblib import Parallel, delayed\n"
        "from butfor.cli import end_processes\n"
        "end_processes()\n"  # nobody was started: nothing to end
        "Parallel(n_jobs=2)(delayed(abs)(k) for k in range(4))\n"
        "from joblib.externals.loky import reusable_executor\n"
        "workers = list(reusable_executor._executor._processes.values())\n"
        "assert workers and all(worker.is_alive() for worker in workers)\n"
        "end_processes()\n"
        "assert not any(worker.is_alive() for worker in workers)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.system
def test_a_command_says_everything_and_tells_everyone_before_it_ends_at_once():
    script = (
        "import atexit, sys, time\n"
        "from butfor import cli\n"
        "class Slow:\n"
        "    def __del__(self): print('taken apart', flush=True)\n"
        "kept = Slow()\n"
        "atexit.register(print, 'told')\n"
        "def main():\n"
        "    print('said')\n"
        "    return 3\n"
        "cli.main = main\n"
        "cli.run()\n"
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=buffered, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (3, ["said", "told"], "")


@pytest.mark.system
def test_ctrl_c_while_the_command_still_loads_ends_it_as_later():
    script = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'butfor.cli.commands': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from butfor.__main__ import run\n"
        "run()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


@pytest.mark.system
@pytest.mark.parametrize("lost", ["Held()", "swallow()", "change()"])
def test_ctrl_c_that_is_swallowed_below_is_not_lost(lost):
    script = f"""
import os, signal, time
from butfor.__main__ import run
import butfor.cli.assemble as assemble

class Held:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001)  # here Python hears it, and can only drop it

def swallow():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except BaseException:
        pass

def change():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1)
    except BaseException:
        raise RuntimeError from None

def load(*_):
    {lost}
    time.sleep(600)

assemble.load = load
import sys
sys.argv = ["butfor", "audit", "german", "--quiet"]
run()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.endswith("Stopped.\n")
