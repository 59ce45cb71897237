"""Runs of the command that many tests look at, made once."""

import fcntl
import io
import os
import pty
import struct
import sys
import termios
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from conftest import odd_table

ODD = ("--label", "granted", "--sensitive", "protected group?", "--members", "2", "--fresh-seeds", "3",
       "--budget", "2%", "--set", "epochs=10", "--id", "member", "--cases", "0:15")  # fmt: skip


@contextmanager
def terminal(columns: int):
    """Standard output and error are a terminal of this width; gives a function that afterwards says
    what it showed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    written = bytearray()

    def listen() -> None:
        try:
            while part := os.read(master, 4096):
                written.extend(part)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=listen)
    reader.start()
    kept = sys.stdout, sys.stderr
    stream = io.TextIOWrapper(io.FileIO(slave, "w"), "utf-8", write_through=True)
    sys.stdout = sys.stderr = stream
    try:
        yield lambda: written.decode().replace("\r\n", "\n")
    finally:
        sys.stdout, sys.stderr = kept
        stream.close()
        reader.join()
        os.close(master)


@pytest.fixture(scope="session")
def german(tmp_path_factory) -> SimpleNamespace:
    """An audit of thirty people on a terminal of 80 columns: its folder, and the lines that stay on
    the terminal."""
    out = tmp_path_factory.mktemp("german") / "out"
    with terminal(80) as text:
        code = main(
            [
                "audit",
                "german",
                "--model",
                "logistic",
                "--cases",
                "0:30",
                "--budget",
                "2",
                "--out",
                str(out),
            ]
        )
    return SimpleNamespace(
        code=code, out=out, lines=[line.rpartition("\x1b[2K")[2] for line in text().split("\n")]
    )


@pytest.fixture(scope="session")
def odd(tmp_path_factory) -> Path:
    """The folder of an audit of a network on a table that nobody tidied."""
    folder = tmp_path_factory.mktemp("odd & more")
    table, out = folder / "loans, all.csv", folder / "new" / "out"
    odd_table(600).assign(member=[f"=1+{k}" for k in range(600)]).to_csv(table, index=False)
    assert main(["audit", str(table), *ODD, "--out", str(out), "--quiet"]) == 0
    return out


@pytest.fixture(scope="session")
def loans(tmp_path_factory) -> Path:
    """Six hundred applications of two hundred households, with a copy of the label."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 200, 600)
    table = pd.DataFrame(
        {
            "home": home,
            "black": rng.choice(["no", "yes"], 600),
            "w": rng.uniform(0.5, 3, 600).round(2),
        }
    )
    table["married"] = rng.choice(["no", "yes"], 600)
    table["income"] = rng.normal(50, 10, 600).round(1)
    days = pd.to_timedelta(rng.integers(0, 300, 600), unit="D")
    table["applied"] = (pd.Timestamp("2024-01-01") + days).strftime("%Y-%m-%d")
    harm = 6 * (table["black"] == "yes") + 6 * rng.normal(size=200)[home]
    table["score"] = (table["income"] - harm + 20 + rng.normal(0, 3, 600)).round(1)
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    table.assign(copy=np.where(table["score"] >= 65, "a", "b"), less=-1.0).to_csv(path, index=False)
    return path
