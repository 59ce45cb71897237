"""A protected attribute that is a number: cut into named bands, the same for rows, people, switches and replays."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.cli import main
from butfor.data.sensitive import Bands, bands_of
from butfor.errors import SettingError, TableError
from butfor.explain import eligible_cases
from butfor.measured import run_of
from butfor.result.population import Population

CHEAP = ("--model", "logistic", "--fresh-seeds", "0", "--budget", "6", "--cases", "0:12", "--psi", "everything")


def people(rows: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, rows)
    income = rng.normal(50, 10, rows)
    good = 0.1 * (income - 50) + 0.03 * (age - 45) + rng.normal(0, 1, rows) > 0
    sex = rng.choice(["f", "m"], rows)
    return pd.DataFrame({"age": age, "income": income, "sex": sex, "granted": np.where(good, "yes", "no")})


def audited(table: pd.DataFrame, **fit) -> butfor.LabelAudit:
    X, y = table.drop(columns="granted"), table["granted"]
    fit = {"sensitive_features": "age"} | fit
    return butfor.LabelAudit(LogisticRegression(max_iter=1000), fresh_seeds=0, budget=2).fit(X, y, **fit)


def test_bands_reach_up_to_the_next_cut_point():
    bands = Bands((25.0, 60.0))
    assert bands.names == ("under 25", "25 to under 60", "60 and over")
    of = bands.of(pd.Series([18, 24.9, 25, 59, 60, np.nan, 90]))
    assert of.tolist()[:5] == ["under 25", "under 25", "25 to under 60", "25 to under 60", "60 and over"]
    assert pd.isna(of[5])
    assert of[6] == "60 and over"
    assert Bands((0.5,)).names == ("under 0.5", "0.5 and over")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1000), np.random.default_rng(0).lognormal(10, 1, 500), np.r_[np.zeros(900), np.arange(1, 101)],
        -np.arange(50.0), np.r_[np.arange(12), np.full(500, 11)], np.linspace(1.001, 1.002, 40),
    ],
)  # fmt: skip
def test_thirds_leave_no_band_empty(values):
    frame = pd.DataFrame({"n": values})
    bands = bands_of(frame, None)["n"]
    sizes = bands.of(frame["n"]).value_counts()
    assert set(sizes.index) == set(bands.names)
    if frame["n"].nunique() > 0.9 * len(frame):
        assert len(sizes) == 3
        assert sizes.min() > 0.15 * len(frame)


def test_few_numbers_stay_as_they_are():
    table = people().assign(age=lambda t: t["age"] % 10)
    assert sorted(set(audited(table).fitted_.sensitive.values)) == list(range(10))
    assert run_of(audited(table).fitted_).sensitive_bands == {}
    cut = audited(table, sensitive_bands=[5])
    assert set(cut.fitted_.sensitive.values) == {"under 5", "5 and over"}


def test_a_switch_goes_to_the_median_of_the_other_bands():
    table = people()
    audit = audited(table, sensitive_bands=[25, 60])
    X = table.drop(columns="granted")
    situation = audit.fitted_.people(X)[0]
    switched = list(situation.switched())
    assert len(switched) == 3
    medians = {}
    for band in Bands((25.0, 60.0)).names:
        medians[band] = int(X["age"][situation.groups == band].quantile(interpolation="lower"))
    for other in switched:
        (target,) = set(other["age"][other["age"] != X["age"]])
        assert target in medians.values()
        stay = situation.groups == {m: band for band, m in medians.items()}[target]
        assert (other["age"][stay] == X["age"][stay]).all()
        assert (other["age"][~stay] == target).all()
        assert other["income"].equals(X["income"])


def test_the_attribute_beside_the_table_and_several_at_once():
    table = people()
    X, y = table[["income", "sex"]], table["granted"]
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=2)
    audit.fit(X[:150], y[:150], sensitive_features=table["age"][:150], sensitive_bands={"age": [25, 60]})
    population = audit.explain_all(X[150:], sensitive_features=table["age"][150:])
    assert list(population.by_group.index) == ["under 25", "25 to under 60", "60 and over"]
    both = audited(table, sensitive_features=["sex", "age"], sensitive_bands=[40])
    assert set(both.fitted_.sensitive.values) == {f"{s} · {b}" for s in "fm" for b in ("under 40", "40 and over")}


def test_people_whose_number_is_none_are_refused_with_their_row():
    table = people()
    X, y = table[["income", "sex"]], table["granted"]
    audit = butfor.LabelAudit(LogisticRegression(), fresh_seeds=0, budget=2).fit(X, y, sensitive_features=table["age"])
    with pytest.raises(TableError, match="Column 'age', row 0 holds 'old', which is not a number"):
        audit.explain_all(X[:2], sensitive_features=pd.Series(["old", 30], name="age", dtype=object))


def test_a_rule_names_a_band():
    table = people()
    X = table.drop(columns="granted")
    audit = audited(table, sensitive_bands=[25, 60])
    audit.phi = "in_group(age, 'under 25')"
    young = eligible_cases(audit.with_search().fitted_, X)
    assert young == list(np.flatnonzero(X["age"] < 25))


@pytest.mark.parametrize(
    ("fit", "said"),
    [
        ({"sensitive_bands": [60, 25]}, "from small to large"),
        ({"sensitive_bands": []}, "from small to large"),
        ({"sensitive_bands": [25, 200]}, "no training row is in '200 and over'; its values go from 18 to 79"),
        ({"sensitive_bands": {"agee": [25]}}, "'agee', which is not a protected attribute"),
        ({"sensitive_features": "sex", "sensitive_bands": [25]}, "of 'sex', 0 hold numbers"),
        ({"sensitive_features": "sex", "sensitive_bands": {"sex": [25]}}, "'sex', which does not hold numbers"),
        ({"sensitive_features": ["age", "income"], "sensitive_bands": [25]}, "2 hold numbers. Leave"),
    ],
)
def test_bands_that_cannot_be_are_refused(fit, said):
    with pytest.raises(SettingError, match=said):
        audited(people(), **fit)


@pytest.mark.parametrize("options", [(), ("--bands", "25,60"), ("--bands", "age=30", "--drop", "age")])
def test_from_the_command_line_and_again(capsys, tmp_path, options):
    table = people().assign(age=lambda t: t["age"].where(t.index % 30 != 1))
    table.to_csv(tmp_path / "t.csv", index=False)
    command = ["audit", str(tmp_path / "t.csv"), "--label", "granted", "--sensitive", "age", *CHEAP, *options]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr()
    assert "'age' is a number, cut into bands: 'under " in " ".join(printed.err.split())
    record = json.loads((tmp_path / "out" / "audit.json").read_text())
    cuts = record["run"]["sensitive_bands"]["age"]
    assert cuts == {0: cuts, 2: [25, 60], 4: [30]}[len(options)]
    groups = list(Population.from_dict(record).by_group.index)
    assert groups == [name for name in (*Bands(tuple(cuts)).names, "missing") if name in groups]
    assert "is a number, cut into bands" in (tmp_path / "out" / "report.html").read_text()
    assert Population.from_dict(record).found
    assert main(["replay", str(tmp_path / "out" / "audit.json")]) == 0
    capsys.readouterr()
    assert main(["audit", "--config", str(tmp_path / "out" / "audit.toml"), "--json", "--quiet"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert Population.from_dict(again).by_group.equals(Population.from_dict(record).by_group)


@pytest.mark.parametrize("text", ["young", "25;60", "age=", "age=25,x"])
def test_cut_points_that_are_no_numbers(capsys, tmp_path, text):
    people().to_csv(tmp_path / "t.csv", index=False)
    where = [str(tmp_path / "t.csv"), "--label", "granted", "--sensitive", "age", "--bands", text]
    assert main(["check-table", *where]) == 2
    assert f"--bands {text}: give cut points such as 25,60" in capsys.readouterr().err
