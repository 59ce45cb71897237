"""An audit of a made table, with ids and names, and the same people had the model a seed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.result.fresh import Collateral, FreshSeeds
from butfor.result.population import Population
from butfor.result.verdict import Verdict
from butfor.words.names import Names
from conftest import changed

NAMES = """
[people]
noun = "applicants"
[groups.race]
a = "Asian"
b = "Black"
[labels]
yes = "were approved"
no = "were refused"
[columns]
debts = "debt ratio"
"""
DOTS = tuple(tuple(0.1 * k + shift for k in range(5)) for shift in (-0.9, 0.3))
SEEDS = {
    "solid": FreshSeeds(59, 58, 1, 57, 0, DOTS),
    "leaning": FreshSeeds(59, 45, 3, 42, 0),
    "seed-bound": FreshSeeds(59, 30, 28, 5, 3),
    "undecided": FreshSeeds(10, 4, 1, 4, 1),
    "not checked": None,
}


def table(rows: int = 500) -> pd.DataFrame:
    """Loans that one group was refused more often than comparable people; no value looks like
    anything else."""
    rng = np.random.default_rng(1)
    race = rng.choice(["a", "b", "w"], rows, p=[0.15, 0.35, 0.5])
    income, debts = (
        rng.normal(60_000, 9_000, rows).round(2) + 0.013,
        rng.normal(0.4, 0.1, rows).round(4),
    )
    good = (
        (income - 60_000) / 9_000
        - 8 * (debts - 0.4)
        - 0.9 * (race == "b")
        + rng.normal(0.3, 1.2, rows)
    )
    return pd.DataFrame({
        "file": [f"APP-{k:05d}" for k in range(rows)], "race": race, "income": income, "debts": debts,
        "town": [f"Town-{k:05d}x" for k in rng.integers(0, 4, rows)], "approved": np.where(good > 0, "yes", "no"),
    })  # fmt: skip


QUESTION = [
    "--label",
    "approved",
    "--adverse",
    "no",
    "--sensitive",
    "race",
    "--model",
    "logistic",
    "--budget",
    "12",
]


@pytest.fixture(scope="session")
def loans(tmp_path_factory) -> Path:
    """The folder of an audit with ids and names."""
    folder = tmp_path_factory.mktemp("loans")
    table().to_csv(folder / "loans.csv", index=False)
    (folder / "names.toml").write_text(NAMES)
    named = ["--id", "file", "--names", str(folder / "names.toml"), "--cases", "0:30", "--quiet"]
    assert (
        main(
            ["audit", str(folder / "loans.csv"), *QUESTION, *named, "--out", str(folder / "report")]
        )
        == 0
    )
    return folder


@pytest.fixture(scope="session")
def audit(loans) -> Population:
    """As a reader on another day would find it: no path, version or command that differs between
    machines."""
    found = Population.from_json(loans / "report" / "audit.json")
    data = replace(found.run.data, table="../loans.csv", relative=True)
    return found.with_run(
        butfor="1",
        versions={"python": "3"},
        command="butfor audit ../loans.csv",
        seconds=1,
        data=data,
    )


@pytest.fixture(scope="session")
def seeded(audit) -> Population:
    """The same people, had the model a seed: a find for each word, and close calls."""
    run = replace(
        audit.run,
        seeded=True,
        members=16,
        fresh_seeds=59,
        names=Names(),
        one_standard=(),
        standard=None,
    )
    find, words, everyone = audit.found[0], iter(SEEDS), list[Verdict]()
    for v in audit.eligible:
        word, more = next(words, None), {}
        if word is not None:
            more = {"flip_set": find.flip_set, "counterfactual_logit": 0.4, "fresh": SEEDS[word]}
            more["collateral"] = Collateral(199, 26, 0.69, 0.715)
        everyone.append(
            changed(v, run=run, without_flips=9 * (len(everyone) % 2), **{"flip_set": ()} | more)
        )
    assert {v.solidity for v in everyone} == {*SEEDS, None}
    return Population(everyone, run, audit.labels)
