"""What would mislead an audit is named with its column; ordinary tables pass in silence."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from applicants import applicants
from butfor import check_table
from butfor.cli.printing import print_standards
from butfor.errors import TableError
from butfor.review.gate import UNKNOWN, check_gaps
from butfor.table.checking import check_groups
from butfor.table.groups import Sensitive
from butfor.table.reading import load_table
from recorded import run


def kinds(X, y, X_test=None) -> list[tuple[str, tuple[str, ...]]]:
    return [(concern.kind, concern.columns) for concern in check_table(X, y, X_test)]


def told(X, sensitive="group"):
    return [concern.columns for concern in check_groups(X, Sensitive.of(sensitive, X))]


def test_the_published_tables_raise_no_alarm():
    for name in ("salary", "student", "german", "compas", "default", "adult"):
        data = butfor.load_dataset(name)
        assert check_table(data.X_train, data.y_train, data.X_test) == [], name
        assert told(data.X_train, data.sensitive) == [], name


K, RNG = np.arange(200), np.random.default_rng(0)
X = applicants(200).assign(debts=K * 7 % 12)
Y, REF = X.pop("granted"), X.pop("ref")
GRANTED = (Y == "yes").to_numpy()
RARELY = K % 50 == 1
ODD = {
    "copy": [np.where(GRANTED, "repaid", "default")],
    "telling": [
        np.where(K == 3, "open", np.where(GRANTED, "repaid", "default")),
        np.where(GRANTED, 100.0, 50.0) + K / 10,
    ],
    "identifier": [np.array([f"person {max(k, 3)}" for k in K], dtype=object), K * 7919 % 200],
    "constant": [np.full(200, "x", dtype=object), np.full(200, np.nan)],
    "sentinel": [np.where(RARELY, 999999.4, K % 30 + 0.5), np.where(RARELY, 99, K % 7), np.where(RARELY, -1, K % 30)],
    "text numbers": [np.where(RARELY, "?", (K % 30).astype(str)).astype(object)],
    "written": [
        np.array([text(k) for k in K], dtype=object)
        for text in (
            lambda k: f"{k % 90},5" if k % 9 else f"{k}", lambda k: f"{k},{7 * k % 1000:03},000",
            lambda k: f"{k / 8} %", lambda k: f"$ {k}.040,50", lambda k: f"{k % 28 + 1}.02.2024",
            lambda k: f"2/{k % 28 + 1}/2024",
        )
    ],
    None: [
        np.array([f"{k % 70:05}" for k in K], dtype=object),  # codes
        np.array([f"12.{k % 30}-{k % 3}" for k in K], dtype=object),
        np.array([f"2024-0{k % 9 + 1}-1{k % 10}" for k in K], dtype=object),
        np.array([f"1.0.{k % 40 + 10}" for k in K], dtype=object),  # versions
        np.array([f"0{k % 30 + 10} 000" for k in K], dtype=object),
        np.where(RARELY, 99, 18 + K % 72),  # an age of 99 beside one of 89
        np.where(RARELY, 99999, K * 300),  # a top code not far from the rest
        K % 40 - 10,  # many are negative
        RNG.normal(30_000, 9000, 200).round(),  # all but a few different
        RNG.normal(0, 1, 200),  # all different, but measured
        GRANTED.astype(int) ^ (K % 8 == 0),  # tells most, not all
        np.where(K == 0, "x", "y").astype(object),  # all but constant
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD)
def test_each_oddity_is_named_with_its_column_and_what_is_normal_is_not(kind):
    for values in ODD[kind]:
        odd = X.assign(odd=values)
        expected = [] if kind is None else [(kind, ("odd",))]
        assert kinds(odd, Y) == expected, values
        assert all("'odd'" in str(concern) for concern in check_table(odd, Y))
        shuffled = odd.sample(frac=1, random_state=1)
        assert kinds(shuffled, Y.loc[shuffled.index]) == expected, values


def test_a_mark_among_numbers_and_one_among_labels_are_said_once(tmp_path):
    """Beside many numbers a mark is a concern, beside words a note."""
    odd = X.assign(
        code=np.where(RARELY, "?", (K % 30).astype(str)), town=np.where(RARELY, "?", "n"), granted=Y
    )
    notes = []
    odd.assign(granted=Y.where(K > 2, "?")).to_csv(tmp_path / "t.csv", index=False)
    load_table(tmp_path / "t.csv", label="granted", sensitive="sex", note=notes.append)
    assert [note.partition(": ")[0] for note in notes] == [
        "'?' in 3 cells of 'granted'; '?' in 4 cells of 'town'"
    ]


def test_people_who_are_training_rows():
    people = pd.concat([X[150:], X[:5]])
    assert kinds(X[:150], Y[:150], people) == [("duplicates", ())]
    assert "5 of the 55 test people" in str(check_table(X[:150], Y[:150], people)[0])
    for coarse in (
        X[["debts", "job", "sex"]],
        X[["sex"]],
    ):  # nearly everyone has a twin, by coincidence
        assert kinds(coarse[:150], Y[:150], coarse[150:]) == []
    with pytest.raises(TableError, match="200 rows and there are 199 labels"):
        check_table(X, Y[1:])


def test_columns_that_tell_the_groups_apart():
    rng = np.random.default_rng(0)
    group = rng.choice(["a", "b"], 600, p=[0.7, 0.3])
    X = pd.DataFrame(
        {
            "group": group,
            "income": rng.normal(size=600).round(2),
            "town": rng.choice(["n", "s"], 600),
        }
    )
    names = [
        rng.choice(["Anne", "Greg", "Emily"] if one == "a" else ["Aisha", "Jamal"]) for one in group
    ]
    dummy = (X["group"] == "b").astype(int)
    assert told(X.assign(b=dummy, first=names)) == [("b", "first")]
    assert told(X.assign(b=dummy.where(dummy.index > 1, 1 - dummy))) == [
        ("b",)
    ]  # two slips of the pen
    assert told(X.assign(b=dummy.where(dummy.index > 30, 1 - dummy))) == []
    assert told(X.assign(ref=[f"A{k}" for k in range(600)], score=X["income"] + 100 * dummy)) == []
    race = rng.choice(["white", "black", "hispanic"], 900, p=[0.8, 0.12, 0.08])
    X = pd.DataFrame({name: (race == name).astype(int) for name in ("white", "black", "hispanic")})
    X["income"] = np.arange(900) % 17
    assert told(X, "black") == [("white", "hispanic")]
    assert told(X, ["black", "hispanic"]) == [("white",)]


def test_every_command_says_it_and_writes_it_down(capsys, tmp_path):
    ref = "Column 'ref' has a different value in every row"
    member = "Column 'member' tells the groups of 'sex' apart"
    odd = X.assign(ref=REF, debts=X["debts"].where(K % 40 != 1, 999), granted=Y)
    odd.assign(member=np.where(X["sex"] == "f", "yes", "no")).to_csv(
        tmp_path / "t.csv", index=False
    )
    asked = (tmp_path / "t.csv", "--label", "granted", "--adverse", "no", "--sensitive", "sex")

    code, out, _ = run(capsys, "check-table", *asked)
    assert code == 0
    for words in (
        "120 training, 40 validation and 40 test rows",
        ref,
        "'debts' holds 999 in",
        member,
        "4 things to",
    ):
        assert words in out
    code, out, _ = run(capsys, "check-table", *asked, "--strict", "--json")
    assert code == 2
    expected = [("identifier", ["ref"]), ("sentinel", ["debts"]), ("proxy", ["member"])]
    assert [(concern["kind"], concern["columns"]) for concern in json.loads(out)] == [
        ("overlap", []),
        *expected,
    ]
    code, out, _ = run(capsys, "check-table", *asked, "--drop", "ref,member,debts", "--strict")
    assert (code, "Nothing to look at." in out) == (0, True)

    cheap = ("--model", "logistic", "--fresh-seeds", 0, "--budget", 1, "--cases", "0:3")
    said = " ".join(run(capsys, "audit", *asked, *cheap, "--out", tmp_path / "a")[2].split())
    assert said.startswith(f"Note: {ref}")
    assert said.count(f"Note: {member}") == 1
    record = json.loads((tmp_path / "a" / "audit.json").read_text())["run"]
    assert [(concern["kind"], concern["columns"]) for concern in record["concerns"]] == expected
    assert ref in (tmp_path / "a" / "report.html").read_text().replace("&#39;", "'")
    out = run(capsys, "standard", *asked, "--draws", 0, "--n-jobs", 1, "--out", tmp_path / "s")[1]
    page = (tmp_path / "s" / "standard.html").read_text().replace("&#39;", "'")
    assert (out.count(member), page.count(member)) == (1, 1)
    assert out.startswith(member)
    assert record["standard"]["undermined"][0].startswith(member)

    chance = odd.assign(granted=np.random.default_rng(3).choice(["yes", "no"], 200, p=[0.8, 0.2]))
    chance.drop(columns=["ref", "debts"]).to_csv(tmp_path / "t.csv", index=False)
    said = " ".join(run(capsys, "audit", *asked[:3], *asked[5:], *cheap)[1].split())
    assert said.index("Accuracy: ") < said.index("The model is no more accurate"), (
        "concerns come after"
    )


def test_probabilities_of_groups_are_named_and_dummies_and_other_shares_are_not():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([1, 1, 1], 200)
    columns = ["p_white", "p_black", "p_asian"]
    for digits in (2, 16):
        odd = X.assign(
            load=rng.random(200),
            **pd.DataFrame(shares.round(digits), columns=columns),
            rest=rng.random(200),
        )
        (concern,) = check_table(odd, Y)
        assert (concern.kind, concern.columns) == ("probabilities", tuple(columns))
        assert concern.sentence.endswith("--drop p_white,p_black,p_asian.")
    assert check_table(odd.drop(columns="p_white"), Y) == []
    holed = odd.assign(p_black=odd["p_black"].where(K % 9 > 0))
    assert [concern.kind for concern in check_table(holed, Y)] == ["probabilities"]
    dummies = pd.get_dummies(pd.Series(shares.argmax(axis=1)), prefix="most", dtype=float)
    assert check_table(X.join(dummies), Y) == []


def apart(rows=600):
    """Loans of groups a and b, and of c, of whom few have incomes as those of others."""
    rng = np.random.default_rng(1)
    group = rng.choice(["a", "b", "c"], rows, p=[0.4, 0.3, 0.3])
    far = (group == "c") & (rng.random(rows) < 0.85)
    income = rng.normal(size=rows) + 8 * far
    granted = np.where(income - 4 * far + rng.normal(size=rows) > 0, "yes", "no")
    return pd.DataFrame(
        {"group": group, "income": income, "debts": rng.normal(size=rows), "granted": granted}
    )


def test_a_group_without_comparable_people_is_said_first_and_fails_a_strict_check(capsys, tmp_path):
    table = apart()
    table.to_csv(tmp_path / "t.csv", index=False)
    asked = (tmp_path / "t.csv", "--label", "granted", "--adverse", "no", "--sensitive", "group")
    found = butfor.compare_standards(
        table.drop(columns="granted"),
        table["granted"],
        sensitive_features="group",
        adverse="no",
        draws=3,
        n_jobs=1,
    )
    c = found.of_group("c")
    assert c.overlap.comparable < c.rows / 2
    assert not c.differs
    assert not c.disputed
    first = (
        f"Not comparable: group = c ({c.overlap.comparable} of {c.rows} rows have comparable "
        "people; the"
    )
    assert found.answer.startswith(first)
    assert "No other group was labelled granted = yes less often" in found.answer
    assert np.isnan(found.wrong[table["group"] == "c"]).all()
    (check,) = (check for check in check_gaps(found, 0.9) if check.group == "group = c")
    assert check.code == UNKNOWN
    code, out, _ = run(capsys, "check-table", *asked, "--strict")
    assert (code, first in out) == (2, True)
    print_standards(found)
    out = capsys.readouterr().out
    assert out.startswith(first.partition(" (")[0])
    assert re.search(r"group = c .* not comparable +–\n", out)
    assert ">not comparable<" in found.to_html()


def test_little_overlap_is_said_and_fails_no_strict_check(capsys, tmp_path):
    table = apart(900)
    table["income"] = np.where(table.index % 4 < 3, table["income"] % 3, table["income"])
    table.to_csv(tmp_path / "t.csv", index=False)
    asked = (tmp_path / "t.csv", "--label", "granted", "--adverse", "no", "--sensitive", "group")
    code, out, _ = run(capsys, "check-table", *asked, "--strict")
    assert (code, "Little overlap: group = c (" in out, "1 thing to look at" in out) == (
        0,
        True,
        True,
    )


def test_a_column_that_tells_the_label_is_said_before_the_verdict():
    told = X.assign(repaid=np.where(K == 3, "open", np.where(GRANTED, "repaid", "default")))
    found = butfor.compare_standards(
        told, Y, sensitive_features="sex", adverse="no", draws=2, n_jobs=1
    )
    assert found.answer.startswith(
        "Column 'repaid' alone predicts the label of 100.0 % of the rows"
    )
    assert "As the table stands: " in found.answer
    assert not any("repaid" in note for note in found.notes())
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=1)
    audit.fit(told, Y, sensitive_features="sex", adverse="no", draws=20)
    assert audit.standards().answer.startswith("Column 'repaid' alone predicts the label")


def test_python_callers_hear_of_it_too_and_rates_per_group_are_what_counting_gives():
    X = applicants(400)
    X["income"], y = X["income"].where(X.index % 20 != 1), X.pop("granted")
    X.loc[X.index[300:305], "sex"] = np.nan
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=1)
    audit.fit(X[:300], y[:300], sensitive_features="sex")
    population = audit.explain_all(X[300:], y[300:], cases=[0])
    assert [concern.kind for concern in population.run.concerns] == ["identifier"]
    assert any("Missing values: 'income' in 20 rows" in line for line in population.run.remarks)
    rates = butfor.Population.from_json(population.to_json()).performance
    decided, truth = audit.model_.logits(X[300:]) > 0, (y[300:] == "yes").to_numpy()
    assert (rates.people, list(rates.rates.index)) == (100, ["f", "m", "missing"])
    assert rates.accuracy == pytest.approx((decided == truth).mean())
    assert rates.majority == pytest.approx((truth == ((y[:300] == "yes").mean() > 0.5)).mean())
    for group, row in rates.rates.iterrows():
        of = X["sex"][300:].fillna("missing").to_numpy() == group
        wrong = truth != decided
        expected = [of.sum(), *(values[of].mean() for values in (truth, decided, wrong))]
        expected += [
            wrong[those].mean() if those.any() else np.nan for those in (of & ~truth, of & truth)
        ]
        columns = [
            "people",
            "base_rate",
            "selection_rate",
            "error_rate",
            "false_positive_rate",
            "false_negative_rate",
        ]
        assert row[columns].tolist() == pytest.approx(expected, nan_ok=True), group
