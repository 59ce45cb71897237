"""A small table of applicants, with and without holes, and the ways in which tests read it."""

import json

import numpy as np
import pandas as pd

from butfor.table.reading import load_table
from recorded import run

COLUMNS = ("--label", "granted", "--sensitive", "sex")
CHEAP = ("--members", 1, "--fresh-seeds", 0, "--budget", 6, "--cases", "0:6", "--psi", "everything")
LOGISTIC = (*CHEAP, "--model", "logistic")
NETWORK = (*CHEAP, "--set", "hidden=4", "--set", "epochs=5", "--set", "batch-size=8")


def applicants(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    income = rng.normal(50, 10, rows).round(1)
    job, sex = rng.choice(["cook", "nurse", "judge"], rows), rng.choice(["f", "m"], rows)
    granted = np.where(
        0.1 * (income - 50) + (job == "judge") + rng.normal(0, 0.7, rows) > 0.3, "yes", "no"
    )
    return pd.DataFrame(
        {
            "ref": [f"A{k}" for k in range(rows)],
            "income": income,
            "job": job,
            "sex": sex,
            "granted": granted,
        }
    )


def holed(rows: int = 120) -> pd.DataFrame:
    """Values missing in every column that is learned from."""
    table, rng = applicants(rows), np.random.default_rng(1)
    for column in ("income", "job", "sex"):
        table[column] = table[column].where(rng.random(rows) > 0.1)
    return table


def saved(table: pd.DataFrame, path, **how):
    table.to_csv(path, index=False, **how)
    return path


def loaded(path, **how):
    return load_table(path, **{"label": "granted", "sensitive": "sex"} | how)


def audited(capsys, path, *options, columns=COLUMNS) -> tuple[dict, str]:
    """The record of an audit, and what was said on the way."""
    code, out, err = run(capsys, "audit", path, *columns, *options, "--json")
    assert code == 0, err
    return json.loads(out), " ".join(err.split())
