"""`butfor standard` as a user meets it, and what a table says about its rows: clusters, weights, dates, labels made
from a number, reference groups."""

import json
import re

import pandas as pd

from butfor.cli import main
from conftest import odd_table
from recorded import run

QUESTION = ("--label", "granted", "--sensitive", "protected group?", "--n-jobs", 1)


ROWS = ("--cluster", "home", "--weight", "w", "--label", "score >= 65", "--adverse", "score<65")
AUDIT = (*ROWS, "--sensitive", "black", "--drop", "copy,married,less", "--reference", "black=no")


def test_it_prints_a_line_per_group_and_writes_page_and_labels(capsys, tmp_path):
    odd, out = tmp_path / "loans.csv", tmp_path / "out"
    odd_table(600).to_csv(odd, index=False)
    code, printed, _ = run(capsys, "standard", odd, *QUESTION, "--adverse", False, "--draws", 19, "--out", out)
    assert code == 0
    for group in ("αλφα", "b & c", "<none>"):
        line = next(line for line in printed.splitlines() if line.startswith(f"protected group? = {group} "))
        assert re.search(r" [\d.]+ (less|more) \(−?\d+ to −?\d+\) ", line)
    labels = pd.read_csv(out / "labels.csv")
    assert list(labels) == ["row", "label", "group", "doubt", "wrong", "rank"]
    assert sorted(labels["row"]) == list(range(600))
    assert sorted(labels["rank"]) == list(range(1, 601))
    page = (out / "standard.html").read_text()
    assert "<svg" in page
    assert "<none>" not in page
    record = json.loads((out / "standard.json").read_text())
    assert record["draws"] == 19
    assert [group["group"] for group in record["groups"]] == ["<none>", "b & c", "αλφα"]


def test_json_and_nothing_else_and_embedded_sets_know_their_adverse_label(capsys):
    code, printed, said = run(capsys, "standard", "student", "--draws", 0, "--n-jobs", 1, "--json")
    assert (code, said, json.loads(printed)["draws"]) == (0, "", 0)
    code, printed, _ = run(capsys, "standard", "german", "--draws", 0, "--n-jobs", 1, "--quiet")
    assert code == 0
    assert re.search(r"sex = female +310 +64.8 % +5.3 less", printed)


def test_an_audit_with_clusters_weights_and_dates_repeats_and_replays(loans, tmp_path, capsys):
    out = tmp_path / "out"
    more = ("--cases", "0:12", "--budget", "20", "--psi", "everything", "--phi", "everyone", "--model", "logistic")
    assert main(["audit", str(loans), *AUDIT, *more, "--out", str(out), "--quiet"]) == 0
    record = json.loads((out / "audit.json").read_text())
    about = record["run"]
    kept = {name: about["data"][name] for name in ("cluster", "weight", "clustered", "weighted", "label")}
    assert kept == {"cluster": "home", "weight": "w", "clustered": True, "weighted": True, "label": "score >= 65"}
    assert about["reference"] == {"black": "no"}
    assert about["standard"]["clusters"] > 150
    assert about["standard"]["comparisons"][0]["effective_rows"] < about["standard"]["comparisons"][0]["rows"]
    rows = [*record["people"], *(flip for person in record["people"] for flip in person.get("flip_set", ()))]
    assert all(row["values"]["applied"].startswith("2024-") for row in rows)
    assert not {"home", "w", "score", "copy"} & {name for row in rows for name in row["values"]}
    assert not re.findall(r"\b(?:19[789]|200)\d\d\b", (out / "report.html").read_text()), "no day numbers"
    code, said, _ = run(capsys, "replay", out / "audit.json")
    assert code == 0, said
    again = json.loads(run(capsys, "audit", "--config", out / "audit.toml", "--json", "--quiet")[1])
    assert (again["people"], again["run"]["standard"]) == (record["people"], about["standard"])


def test_our_network_uses_weights_for_the_comparison_alone(loans, capsys):
    model = ("--model", "mlp", "--members", "1", "--set", "hidden=4", "--set", "epochs=5", "--fresh-seeds", "0")
    code, out, said = run(capsys, "audit", loans, *AUDIT, *model, "--cases", "0:2", "--json")
    assert code == 0
    assert "takes no weights: they serve the comparison of groups alone" in " ".join(said.split())
    assert json.loads(out)["run"]["standard"]["comparisons"][0]["effective_rows"] is not None


def test_several_attributes_have_a_reference_each(loans, capsys):
    words = ("--label", "score>=65", "--sensitive", "black,married", "--drop", "home,w,copy,less", "--draws", 0)
    code, out, _ = run(
        capsys, "standard", loans, *words, "--adverse", "score<65", "--reference", "black=no,married=yes", "--json"
    )
    references = {group["attribute"]: group["reference"] for group in json.loads(out)["groups"]}
    assert (code, references) == (0, {"black": "no", "married": "yes", "black × married": "no · yes"})
