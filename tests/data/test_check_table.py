"""A look at the table before training: each oddity is named with its column, and ordinary tables pass in silence."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import butfor
from butfor import check_table
from butfor.cli import main
from butfor.errors import TableError


def plain(rows: int = 200, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {"income": rng.normal(50, 10, rows), "debts": rng.integers(0, 12, rows), "job": rng.choice(["a", "b"], rows),
         "sex": rng.choice(["f", "m"], rows)}
    )  # fmt: skip
    return X, pd.Series(np.where(X["income"] + rng.normal(0, 8, rows) > 50, "yes", "no"), name="granted")


def kinds(X, y, X_test=None) -> list[tuple[str, tuple[str, ...]]]:
    return [(concern.kind, concern.columns) for concern in check_table(X, y, X_test)]


@pytest.mark.parametrize("name", ["salary", "student", "german", "compas", "default", "adult"])
def test_the_published_tables_raise_no_alarm(name):
    data = butfor.load_dataset(name)
    assert check_table(data.X_train, data.y_train, data.X_test) == []


def test_an_ordinary_table_raises_no_alarm():
    for seed in range(8):
        X, y = plain(seed=seed)
        assert kinds(X[:150], y[:150], X[150:]) == []


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (lambda y, k: np.where(y == "yes", 2, 7), "copy"),
        (lambda y, k: np.where(y == "yes", "repaid", "default"), "copy"),
        (lambda y, k: np.where(k == 3, "open", np.where(y == "yes", "repaid", "default")), "telling"),
        (lambda y, k: np.where(y == "yes", 100.0, 50.0) + k / 10, "telling"),
        (lambda y, k: np.where(y == "yes", k % 25 + 50, k % 50 + 100 * (k % 2)) + k / 1000, "telling"),
        (lambda y, k: np.array([f"person {i}" for i in k], dtype=object), "identifier"),
        (lambda y, k: np.array([f"person {max(i, 3)}" for i in k], dtype=object), "identifier"),
        (lambda y, k: 10_000 + k, "identifier"),
        (lambda y, k: (k * 7919) % 200, "identifier"),
        (lambda y, k: np.full(len(k), "x", dtype=object), "constant"),
        (lambda y, k: np.full(len(k), np.nan), "constant"),
        (lambda y, k: np.where(k % 50 == 1, 999999, k % 30), "sentinel"),
        (lambda y, k: np.where(k % 50 == 1, 999999.4, k % 30 + 0.5), "sentinel"),
        (lambda y, k: np.where(k % 50 == 1, 99, k % 7), "sentinel"),
        (lambda y, k: np.where(k % 50 == 1, -1, k % 30), "sentinel"),
        (lambda y, k: np.where(k % 50 == 1, 666, k % 2), "sentinel"),
        (lambda y, k: np.where(k % 50 == 1, "?", (k % 30).astype(str)).astype(object), "text numbers"),
    ],
)  # fmt: skip
def test_each_oddity_is_named_with_its_column(column, kind):
    X, y = plain()
    odd = X.assign(odd=column(y.to_numpy(), np.arange(len(X))))
    assert kinds(odd, y) == [(kind, ("odd",))]
    assert "'odd'" in str(check_table(odd, y)[0])
    shuffled = odd.sample(frac=1, random_state=1)
    assert kinds(shuffled, y.loc[shuffled.index]) == [(kind, ("odd",))]


@pytest.mark.parametrize(
    "column",
    [
        lambda y, k: np.where(k % 50 == 1, 99, 18 + k % 72),  # an age of 99 beside one of 89
        lambda y, k: np.where(k % 50 == 1, 99999, k * 300),  # a top code not far from the rest
        lambda y, k: k % 3 - 1,  # −1, 0, 1
        lambda y, k: k % 40 - 10,  # many are negative
        lambda y, k: np.random.default_rng(0).normal(30_000, 9000, len(k)).round(),  # all but a few different
        lambda y, k: np.random.default_rng(0).normal(0, 1, len(k)),  # all different, but measured
        lambda y, k: np.where(y == "yes", 1, 0) ^ (k % 8 == 0),  # tells most, not all
        lambda y, k: np.where(k == 0, "x", "y").astype(object),  # all but constant
    ],
)
def test_what_is_normal_raises_no_alarm(column):
    X, y = plain()
    assert kinds(X.assign(fine=column(y.to_numpy(), np.arange(len(X)))), y) == []


def test_people_who_are_training_rows():
    X, y = plain()
    assert kinds(X[:150], y[:150], pd.concat([X[150:], X[:5]])) == [("duplicates", ())]
    assert "5 of the 55 test people" in str(check_table(X[:150], y[:150], pd.concat([X[150:], X[:5]]))[0])
    coarse = X[["debts", "job", "sex"]]  # nearly everyone has a twin, by coincidence
    assert kinds(coarse[:150], y[:150], coarse[150:]) == []


def test_labels_that_do_not_fit_the_table_are_refused():
    X, y = plain()
    with pytest.raises(TableError, match="200 rows and there are 199 labels"):
        check_table(X, y[1:])


# --- in an audit -----------------------------------------------------------------------------------------


def odd_file(path):
    X, y = plain()
    table = X.assign(ref=[f"A{k}" for k in range(len(X))], debts=X["debts"].where(X.index % 40 != 1, 999), granted=y)
    table.to_csv(path, index=False)
    return str(path)


COLUMNS = ("--label", "granted", "--sensitive", "sex")
CHEAP = ("--model", "logistic", "--fresh-seeds", "0", "--budget", "1", "--cases", "0:3")


def test_check_table_from_the_command_line(capsys, tmp_path):
    path = odd_file(tmp_path / "t.csv")
    assert main(["check-table", path, *COLUMNS]) == 0
    out = capsys.readouterr().out
    assert "120 training, 40 validation and 40 test rows" in out
    assert "Column 'ref' has a different value in every row" in out
    assert "Column 'debts' holds 999 in" in out
    assert "2 things to look at." in out
    assert main(["check-table", path, *COLUMNS, "--strict", "--json"]) == 2
    assert [c["kind"] for c in json.loads(capsys.readouterr().out)] == ["identifier", "sentinel"]
    assert main(["check-table", "german", "--strict"]) == 0
    out = capsys.readouterr().out
    assert "In the source, 'sex' is wrong for 92 of the 1000 people" in out
    assert "Nothing to look at." in out


def test_an_audit_says_it_first_and_writes_it_down(capsys, tmp_path):
    path = odd_file(tmp_path / "t.csv")
    assert main(["audit", path, *COLUMNS, *CHEAP, "--out", str(tmp_path / "out")]) == 0
    err = " ".join(capsys.readouterr().err.split())
    assert err.startswith("Note: Column 'ref' has a different value")
    run = json.loads((tmp_path / "out" / "audit.json").read_text())["run"]
    assert [(c["kind"], c["columns"]) for c in run["concerns"]] == [("identifier", ["ref"]), ("sentinel", ["debts"])]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Column &#39;ref&#39; has a different value in every row" in page
    assert "always " in page
    assert main(["audit", path, *COLUMNS, *CHEAP, "--set", "strict=true"]) == 2
    assert "--strict refuses this: Column 'ref' has" in capsys.readouterr().err


def test_a_model_no_better_than_the_commonest_label(capsys, tmp_path):
    X, _ = plain()
    rng = np.random.default_rng(3)
    X.assign(granted=rng.choice(["yes", "no"], len(X), p=[0.8, 0.2])).to_csv(tmp_path / "t.csv", index=False)
    assert main(["audit", str(tmp_path / "t.csv"), *COLUMNS, *CHEAP, "--json"]) == 0
    assert [c["kind"] for c in json.loads(capsys.readouterr().out)["run"]["concerns"]] == ["majority"]
    assert main(["audit", str(tmp_path / "t.csv"), *COLUMNS, *CHEAP]) == 0
    said = capsys.readouterr().out.splitlines()
    (place,) = (k for k, line in enumerate(said) if "than always predicting 'granted = yes'" in line)
    assert place > said.index(next(line for line in said if line.startswith("Accuracy: "))), "concerns come after"
    assert main(["audit", str(tmp_path / "t.csv"), *COLUMNS, *CHEAP, "--set", "strict=true", "--quiet"]) == 2
    assert "The model is no more accurate" in capsys.readouterr().err


def test_python_callers_hear_of_it_too():
    X, y = plain()
    X = X.assign(ref=[f"A{k}" for k in range(len(X))], income=X["income"].where(X.index % 20 != 1))
    from sklearn.linear_model import LogisticRegression

    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=1).fit(
        X[:150], y[:150], sensitive_features="sex"
    )
    assert [c.kind for c in audit.fitted_.concerns] == ["identifier"]
    assert any("Missing values: 'income' in 8 rows" in line for line in audit.fitted_.remarks())
    population = audit.explain_all(X[150:], y[150:], cases=[0, 1])
    assert population.concerns == [str(audit.fitted_.concerns[0])]
    assert any("Missing values: 'income' in 10 rows" in line for line in population.run.remarks)


# --- accuracy and rates ----------------------------------------------------------------------------------


def test_rates_per_group_are_what_counting_gives():
    from sklearn.linear_model import LogisticRegression

    X, y = plain(400)
    X.loc[X.index[300:305], "sex"] = np.nan
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=1)
    audit.fit(X[:300], y[:300], sensitive_features="sex")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        population = audit.explain_all(X[300:], y[300:], cases=[0])
    told = butfor.Population.from_json(population.to_json()).performance
    decided = audit.model_.logits(X[300:]) > 0
    truth = (y[300:] == "yes").to_numpy()
    assert told.people == 100
    assert told.accuracy == pytest.approx((decided == truth).mean())
    assert told.majority == pytest.approx((truth == ((y[:300] == "yes").mean() > 0.5)).mean())
    assert told.positive == "yes"
    assert list(told.rates.index) == ["f", "m", "missing"]
    for group, rates in told.rates.iterrows():
        of = X["sex"][300:].fillna("missing").to_numpy() == group
        assert rates["people"] == of.sum()
        assert rates["base_rate"] == pytest.approx(truth[of].mean())
        assert rates["selection_rate"] == pytest.approx(decided[of].mean())
        assert rates["error_rate"] == pytest.approx((truth != decided)[of].mean())
        for name, those in (("false_positive_rate", of & ~truth), ("false_negative_rate", of & truth)):
            if those.any():
                assert rates[name] == pytest.approx((truth != decided)[those].mean())
            else:
                assert np.isnan(rates[name])
