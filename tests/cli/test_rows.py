"""What a table says about its rows: clusters, weights, dates, labels made from a number, reference groups."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from butfor.cli import main
from butfor.data.table import load_table
from recorded import run


@pytest.fixture(scope="module")
def loans(tmp_path_factory):
    """Six hundred applications of two hundred households, with a copy of the label."""
    rng = np.random.default_rng(0)
    home = rng.integers(0, 200, 600)
    table = pd.DataFrame(
        {"home": home, "black": rng.choice(["no", "yes"], 600), "w": rng.uniform(0.5, 3, 600).round(2)}
    )
    table["married"] = rng.choice(["no", "yes"], 600)
    table["income"] = rng.normal(50, 10, 600).round(1)
    days = pd.to_timedelta(rng.integers(0, 300, 600), unit="D")
    table["applied"] = (pd.Timestamp("2024-01-01") + days).strftime("%Y-%m-%d")
    harm = 6 * (table["black"] == "yes") + 6 * rng.normal(size=200)[home]
    table["score"] = (table["income"] - harm + 20 + rng.normal(0, 3, 600)).round(1)
    path = tmp_path_factory.mktemp("loans") / "loans.csv"
    table.assign(copy=np.where(table["score"] >= 65, "a", "b")).to_csv(path, index=False)
    return path


ROWS = ("--cluster", "home", "--weight", "w", "--label", "score >= 65", "--adverse", "score<65")
AUDIT = (*ROWS, "--sensitive", "black", "--drop", "copy,married", "--model", "logistic", "--reference", "black=no")


@pytest.fixture(scope="module")
def audited(loans, tmp_path_factory):
    out = tmp_path_factory.mktemp("audited")
    more = ("--cases", "0:12", "--budget", "20", "--psi", "everything", "--phi", "everyone", "--fresh-seeds", "0")
    assert main(["audit", str(loans), *AUDIT, *more, "--out", str(out), "--quiet"]) == 0
    return out


def test_the_split_keeps_clusters_whole_and_learns_neither_column(loans):
    data = load_table(loans, label="score>=65", sensitive="black", cluster="home", weight="w")
    homes = [set(part) for part in data.cluster.values()]
    assert all(one.isdisjoint(other) for one in homes for other in homes if one is not other)
    assert sum(map(len, data.cluster.values())) == 600
    assert not {"home", "w", "score", "score>=65"} & set(data.X_train)
    assert data.label_names == ("score<65", "score>=65")


def test_the_record_of_rows_with_clusters_and_weights_repeats_and_replays(audited, capsys):
    record = json.loads((audited / "audit.json").read_text())
    about = record["run"]
    kept = {name: about["data"][name] for name in ("cluster", "weight", "clustered", "weighted", "label")}
    assert kept == {"cluster": "home", "weight": "w", "clustered": True, "weighted": True, "label": "score >= 65"}
    assert about["reference"] == {"black": "no"}
    assert [group["reference"] for group in about["standard"]["comparisons"]] == ["no"]
    assert about["standard"]["clusters"] > 150
    assert about["standard"]["comparisons"][0]["effective_rows"] < about["standard"]["comparisons"][0]["rows"]
    assert any("flip_set" in person for person in record["people"])
    code, out, _ = run(capsys, "replay", audited / "audit.json")
    assert code == 0, out
    code, out, _ = run(capsys, "audit", "--config", audited / "audit.toml", "--json", "--quiet")
    again = json.loads(out)
    assert (code, again["people"], again["run"]["standard"]) == (0, record["people"], about["standard"])


def test_a_table_with_other_clusters_is_not_that_of_the_record(audited, loans, tmp_path, capsys):
    pd.read_csv(loans).assign(home=lambda t: t["home"].map(lambda home: f"h{home}")).to_csv(
        tmp_path / "o.csv", index=False
    )
    code, _, said = run(capsys, "replay", audited / "audit.json", "--data", tmp_path / "o.csv")
    assert (code, "its training rows are different" in said) == (2, True)


def test_people_and_flipped_rows_show_dates(audited):
    record = json.loads((audited / "audit.json").read_text())
    rows = [*record["people"], *(flip for person in record["people"] for flip in person.get("flip_set", ()))]
    assert all(row["values"]["applied"].startswith("2024-") for row in rows)
    page = (audited / "report.html").read_text()
    assert page.count("2024-") > 5
    assert not re.findall(r"\b(?:19[789]|200)\d\d\b", page), "no day numbers, in slices neither"


def test_our_network_uses_weights_for_the_comparison_alone(loans, capsys):
    model = ("--model", "mlp", "--members", "1", "--hidden", "4", "--epochs", "5", "--fresh-seeds", "0")
    words = [word for word in AUDIT if word not in ("--model", "logistic")]
    code, out, said = run(capsys, "audit", loans, *words, *model, "--cases", "0:2", "--json")
    assert code == 0
    assert "takes no weights: they serve the comparison of groups alone" in " ".join(said.split())
    about = json.loads(out)["run"]
    assert about["standard"]["comparisons"][0]["effective_rows"] is not None


def test_standard_says_what_a_check_of_the_table_says(loans, capsys):
    words = ("--label", "score>=65", "--sensitive", "black,married", "--drop", "home,w")
    _, checked, _ = run(capsys, "check-table", loans, *words)
    told = next(line for line in checked.splitlines() if "'copy' is a copy of the label" in line)
    question = ("--adverse", "score<65", "--draws", 0, "--n-jobs", 1)
    code, out, _ = run(capsys, "standard", loans, *words, *question, "--reference", "black=no,married=yes")
    assert (code, told in out.splitlines()) == (0, True)
    code, out, _ = run(capsys, "standard", loans, *words, *question, "--reference", "black=no,married=yes", "--json")
    found = {group["attribute"]: group["reference"] for group in json.loads(out)["groups"]}
    assert found == {"black": "no", "married": "yes", "black × married": "no · yes"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("--reference", "no"),
            "--reference: 'no' is a group of 'black', 'married'; say of which: --reference black=no.",
        ),
        (("--reference", "black=no,black=yes"), "--reference black=no,black=yes: give one group per attribute."),
        (("--reference", "black=maybe"), "--reference: 'black' has no group 'maybe'."),
        (("--cluster", "black"), "--cluster 'black' is the label or the protected attribute; name another column."),
        (("--weight", "nothing"), "--weight: there is no column 'nothing'."),
        (("--weight", "applied"), "Column 'applied', row 0 (and 599 more rows) holds '"),
        (("--weight", "less"), "--weight must be finite numbers, at least 0"),
    ],
)
def test_bad_words_about_rows_get_a_sentence(loans, tmp_path, capsys, words, sentence):
    pd.read_csv(loans).assign(less=-1.0).to_csv(tmp_path / "t.csv", index=False)
    question = ("--label", "score>=65", "--sensitive", "black,married", "--adverse", "score<65", "--draws", 0)
    code, out, said = run(capsys, "standard", tmp_path / "t.csv", *question, *words, "--quiet")
    assert (code, out) == (2, "")
    assert sentence in said
    assert len(said.splitlines()) == 1


def test_a_number_as_label_says_how_to_make_two_labels_of_it(loans, capsys):
    code, _, said = run(capsys, "standard", loans, "--label", "score", "--sensitive", "black", "--quiet")
    assert (code, '--label "score>=' in said) == (2, True)
