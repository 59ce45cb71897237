"""How a run may end before its time: killed, told to stop, without space, memory, reader or a place
to write."""

import errno
import itertools
import json
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

import butfor
from butfor.support import files
from hostile.harness import QUICK, attempt, audit, people, run, saved

KILLS = int(os.environ.get("BUTFOR_KILLS", "1"))
"""How often a run is killed; BUTFOR_KILLS=50 for the long test."""
COLUMNS = ("--label", "granted", "--sensitive", "sex")
SEARCH = (*COLUMNS, "--members", 2, "--fresh-seeds", 4, "--cases", "0:5", "--set", "epochs=20")
system = pytest.mark.system


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "butfor", *map(str, arguments)]


def without_times(path: Path) -> dict:
    """The record without what differs from run to run: times, what was recalled, and the checksum
    over them."""
    record = json.loads(path.read_text())
    for name in ("seconds", "recalled"):
        record["run"].pop(name, None)
    record.pop("checksum", None)
    return record


@system
def test_killed_and_resumed_gives_the_file_of_an_uninterrupted_run(tmp_path):
    table, ledger = saved(tmp_path), tmp_path / "ledger.db"
    assert run("audit", table, *SEARCH, "--quiet", "--out", tmp_path / "whole").code == 0
    again = command(
        "audit",
        table,
        *SEARCH,
        "--set",
        f"ledger={ledger}",
        "--out",
        tmp_path / "resumed",
        "--overwrite",
    )
    rng = random.Random(0)
    for _ in range(KILLS):
        process = subprocess.Popen(
            again, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        next((line for line in process.stderr if "Ctrl-C keeps" in line), None)
        time.sleep(rng.uniform(0, 0.5))  # somewhere in its search, or at its end
        process.kill()
        process.communicate()
        if (tmp_path / "resumed" / "audit.json").exists():
            json.loads((tmp_path / "resumed" / "audit.json").read_text())
    assert run(*again[3:], "--quiet").code == 0
    assert without_times(tmp_path / "resumed" / "audit.json") == without_times(
        tmp_path / "whole" / "audit.json"
    )
    assert sqlite3.connect(ledger).execute("PRAGMA integrity_check").fetchone() == ("ok",)


@system
def test_told_to_stop_while_gradients_are_computed_it_ends_with_valid_files(tmp_path):
    out, table = tmp_path / "out", saved(tmp_path, people(1000))
    long = command(
        "audit", table, *COLUMNS, "--cases", "0:60", "--members", 4, "--budget", "5%", "--out", out
    )
    process = subprocess.Popen(long, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert any("Ctrl-C keeps" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in err
    record = json.loads((out / "audit.json").read_text())
    assert record["run"]["interrupted"] is True
    audited = [person for person in record["people"] if "left_out" not in person]
    ended = [
        person for person in audited if person.get("complete", True)
    ]  # far from the other decision: given up
    assert len(ended) < len(audited) / 2
    assert not any(person.get("flip_set") for person in ended)


def fill(monkeypatch, room: int) -> None:
    """A disk that takes no more: after `room` files every write fails."""
    full = itertools.repeat(OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(files.os, "fsync", Mock(side_effect=itertools.chain([None] * room, full)))


@pytest.mark.parametrize("room", [0, 3])
def test_a_full_disk_keeps_what_was_done_and_prints_the_answer(tmp_path, monkeypatch, room):
    table, out = saved(tmp_path), tmp_path / "out"
    fill(monkeypatch, room)
    ending = audit(table, "--out", out)
    assert (ending.code, "No space left" in ending.err) == (3, True)
    assert ending.record["people"]
    assert len(list(out.iterdir()) if out.exists() else []) == room


def test_a_failed_write_leaves_the_file_that_was_there(tmp_path, monkeypatch):
    path, link = tmp_path / "audit.json", tmp_path / "link"
    path.write_text("old")
    with monkeypatch.context() as patched:
        fill(patched, 0)
        with pytest.raises(files.OutputError):
            files.save("new", path)
    assert (path.read_text(), list(tmp_path.iterdir())) == ("old", [path])
    link.symlink_to(path)
    files.save("new", link)
    assert (link.is_symlink(), path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (
        True,
        "new",
        0o600,
    )
    with pytest.raises(files.OutputError):
        files.save("new", "/dev/null")  # a device is not replaced by a file


def in_own_mounts(script: str, *arguments: object) -> subprocess.CompletedProcess:
    """A shell script as root with mounts of its own, which end with it."""
    words = ["unshare", "--mount", "bash", "-ec"]
    if not shutil.which(words[0]) or subprocess.call(
        [*words, "mount -t tmpfs tmpfs /mnt"], stderr=subprocess.DEVNULL
    ):
        pytest.skip("mounts file systems, which takes root on Linux")
    words += [script, "-", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)


@system
def test_a_disk_that_is_really_full_is_a_sentence_before_anything_is_done(tmp_path):
    disk, table = tmp_path / "disk", saved(tmp_path)
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=1m tmpfs "$1"; head -c 1048576 /dev/zero > "$1/full"; shift; "$@"'
    )
    asked = command(
        "audit",
        table,
        *COLUMNS,
        "--model",
        "ridge",
        "--cases",
        "0:6",
        "--quiet",
        "--out",
        disk / "out",
    )
    done = in_own_mounts(script, disk, *asked)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
    assert "No space left on device" in done.stderr


@system
def test_where_home_and_install_are_really_read_only_it_works_all_the_same(tmp_path):
    home, code = tmp_path / "home", tmp_path / "code"
    for folder in (home, code):
        folder.mkdir()
    script = (
        'mount -t tmpfs tmpfs "$1"; cp -r "$3" "$1"; find "$1" -name __pycache__ -prune '
        "-exec rm -r {} +; "
    )
    script += (
        'mount -o remount,ro "$1"; mount -t tmpfs -o ro tmpfs "$2"; export HOME="$2" '
        'PYTHONPATH="$1"; shift 3; '
    )
    script += 'unset NUMBA_CACHE_DIR XDG_CACHE_HOME MPLCONFIGDIR; "$@"'
    # Nothing that is compiled: without a place to keep it, that takes half a minute.
    plain = (*QUICK["logistic"][:-1], "--engine", "joblib", "--set", "rank=distance")
    checked = (
        "import butfor.nets.compiled as c, butfor.__main__ as m; assert not "
        "c.OPTIONS['cache']; m.run()"
    )
    asked = (
        sys.executable,
        "-c",
        checked,
        "audit",
        saved(tmp_path),
        *COLUMNS,
        *plain,
        "--out",
        tmp_path / "out",
    )
    done = in_own_mounts(script, code, home, Path(butfor.__file__).parent, *asked)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((tmp_path / "out" / "audit.json").read_text())["people"]


def test_an_unwritable_place_is_noticed_before_anything_is_read(tmp_path):
    (tmp_path / "file").write_text("")
    for place in ("file/x", "file", "/proc/x", "/dev/null/x"):
        ending = attempt("audit", "/nowhere.csv", "--out", tmp_path / place, "--quiet")
        assert (ending.code, "nowhere" in ending.err) == (2, False), place


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:1] not enough memory")]
)
def test_memory_that_does_not_suffice_is_a_sentence(tmp_path, monkeypatch, error):
    monkeypatch.setattr("butfor.LabelAudit.fit", Mock(side_effect=error))
    ending = audit(saved(tmp_path))
    assert (ending.code, "memory" in ending.err) == (3, True)


@system
def test_a_reader_that_has_gone_is_no_failure_and_a_full_one_a_sentence():
    for stream, code in (("| true", 0), ("> /dev/full", 3)):
        line = f"set -o pipefail; {' '.join(command('datasets'))} {stream}"
        done = subprocess.run(
            ["bash", "-c", line], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, "Traceback" in done.stderr, "Error" in done.stderr) == (
            code,
            False,
            code != 0,
        )


def test_of_runs_into_one_new_folder_the_first_gets_it_and_a_refused_one_leaves_none(tmp_path):
    out, table = tmp_path / "new" / "out", saved(tmp_path)
    with files.claimed(out):  # as a run does before it begins
        ending = audit(table, "--out", out, "--overwrite")
        assert (ending.code, "Another run is writing into" in ending.err) == (2, True)
    assert not out.parent.exists()
    assert attempt("audit", "/nowhere.csv", "--out", out, "--quiet").code == 2
    assert not out.parent.exists()
    assert audit(table, "--out", out).code == 0
    assert audit(table, "--out", out).code == 2
    assert not list(out.glob(".*"))


@system
def test_of_two_processes_into_one_new_folder_one_writes(tmp_path):
    asked = command(
        "audit", saved(tmp_path), *COLUMNS, *QUICK["logistic"], "--out", tmp_path / "out"
    )
    both = [
        subprocess.Popen(asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    assert sorted(process.returncode for process in both) == [0, 2], said
