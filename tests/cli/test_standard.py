"""`butfor standard` as a user meets it, and what a table says about its rows: clusters, weights,
dates, labels made from a number, reference groups."""

import json
import re

import pandas as pd

from conftest import odd_table
from recorded import run

QUESTION = ("--label", "granted", "--sensitive", "protected group?", "--n-jobs", 1)
ROWS = ("--cluster", "home", "--weight", "w", "--label", "score >= 65", "--adverse", "score<65", "--sensitive", "black",
        "--drop", "copy,married,less", "--reference", "black=no")  # fmt: skip


def test_it_prints_a_line_per_group_and_writes_page_and_labels_or_json_and_nothing_else(
    capsys, tmp_path
):
    odd, out = tmp_path / "loans.csv", tmp_path / "out"
    odd_table(600).to_csv(odd, index=False)
    code, printed, _ = run(
        capsys, "standard", odd, *QUESTION, "--adverse", False, "--draws", 9, "--out", out
    )
    assert code == 0
    for group in ("αλφα", "b & c", "<none>"):
        line = next(
            line for line in printed.splitlines() if line.startswith(f"protected group? = {group} ")
        )
        assert re.search(r" [\d.]+ (less|more) \(−?[\d.]+ to −?[\d.]+\) ", line)
    labels = pd.read_csv(out / "labels.csv")
    assert list(labels) == ["row", "label", "group", "doubt", "wrong", "wrong_if_real", "rank"]
    assert (sorted(labels["row"]), sorted(labels["rank"])) == (
        list(range(600)),
        list(range(1, 601)),
    )
    page = (out / "standard.html").read_text()
    assert ("<svg" in page, "<none>" in page) == (True, False)
    record = json.loads((out / "standard.json").read_text())
    assert (record["draws"], [group["group"] for group in record["groups"]]) == (
        9,
        ["<none>", "b & c", "αλφα"],
    )
    # An embedded set knows its adverse label.
    code, printed, said = run(capsys, "standard", "german", "--draws", 0, "--n-jobs", 1, "--json")
    women = json.loads(printed)["groups"][0]
    assert (code, said, women["group"], women["rows"]) == (0, "", "female", 310)
    assert women["difference"] > 0.04


def test_an_audit_with_clusters_weights_and_dates_is_recorded_and_repeats(loans, tmp_path, capsys):
    out = tmp_path / "out"
    more = (
        "--cases",
        "0:8",
        "--budget",
        20,
        "--psi",
        "everything",
        "--phi",
        "everyone",
        "--model",
        "logistic",
    )
    assert run(capsys, "audit", loans, *ROWS, *more, "--out", out, "--quiet")[0] == 0
    record = json.loads((out / "audit.json").read_text())
    about = record["run"]
    kept = {
        name: about["data"][name]
        for name in ("cluster", "weight", "clustered", "weighted", "label")
    }
    assert kept == {
        "cluster": "home",
        "weight": "w",
        "clustered": True,
        "weighted": True,
        "label": "score >= 65",
    }
    assert about["reference"] == {"black": "no"}
    assert about["standard"]["clusters"] > 150
    assert (
        about["standard"]["comparisons"][0]["effective_rows"]
        < about["standard"]["comparisons"][0]["rows"]
    )
    rows = [
        *record["people"],
        *(flip for person in record["people"] for flip in person.get("flip_set", ())),
    ]
    assert all(row["values"]["applied"].startswith("2024-") for row in rows)
    assert not {"home", "w", "score", "copy"} & {name for row in rows for name in row["values"]}
    assert not re.findall(r"\b(?:19[789]|200)\d\d\b", (out / "report.html").read_text()), (
        "no day numbers"
    )
    again = json.loads(run(capsys, "audit", "--config", out / "audit.toml", "--json", "--quiet")[1])
    assert (again["people"], again["run"]["standard"]) == (record["people"], about["standard"])
