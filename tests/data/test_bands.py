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
from butfor.result.population import Population

RNG = np.random.default_rng(0)
AGES, INCOME = RNG.integers(18, 80, 200), RNG.normal(50, 10, 200)
GOOD = 0.1 * (INCOME - 50) + 0.03 * (AGES - 45) + RNG.normal(0, 1, 200) > 0
X = pd.DataFrame({"age": AGES, "income": INCOME, "sex": RNG.choice(["f", "m"], 200)})
Y = pd.Series(np.where(GOOD, "yes", "no"), name="granted")
THREE = ("under 25", "25 to under 60", "60 and over")


def audited(rows: pd.DataFrame = X, sensitive="age", bands=None, of=Y) -> butfor.LabelAudit:
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), fresh_seeds=0, budget=2)
    return audit.fit(rows, of, sensitive_features=sensitive, sensitive_bands=bands)


def groups(*given, **how) -> set:
    return set(audited(*given, **how).fitted_.sensitive.values)


def test_bands_reach_up_to_the_next_cut_point_few_numbers_stay_and_several_attributes_are_joined():
    assert Bands((25.0, 60.0)).names == THREE
    of = Bands((25.0, 60.0)).of(pd.Series([18, 24.9, 25, 59, 60, np.nan])).fillna("none")
    assert of.tolist() == [THREE[0], THREE[0], THREE[1], THREE[1], THREE[2], "none"]
    few = X.assign(age=AGES % 10)
    assert groups(few) == set(range(10))
    assert groups(few, bands=[5]) == {"under 5", "5 and over"}
    assert groups(X.assign(sex=X["sex"].where(X.index > 5).replace("m", "missing")), "sex") == {"f", "missing"}
    joined = groups(sensitive=["sex", "age"], bands=[40])
    assert joined == {f"{sex} · {band}" for sex in "fm" for band in ("under 40", "40 and over")}


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
        assert (len(sizes), sizes.min() > 0.15 * len(frame)) == (3, True)


def test_a_switch_goes_to_the_median_of_the_other_bands_and_a_rule_names_one():
    audit = audited(bands=[25, 60])
    person = audit.fitted_.people(X)[0]
    bands = [person.groups == band for band in THREE]
    medians = {int(X["age"][of].quantile(interpolation="lower")): of for of in bands}
    switched = list(person.switched())
    assert len(switched) == 3
    for other in switched:
        (target,) = set(other["age"][other["age"] != X["age"]])
        assert (other["age"] == X["age"].where(medians.pop(target), target)).all()
        assert other["income"].equals(X["income"])
    audit.phi = "in_group(age, 'under 25')"
    assert eligible_cases(audit.with_search().fitted_, X) == list(np.flatnonzero(AGES < 25))


def test_the_attribute_beside_the_table():
    beside = X[["income", "sex"]]
    audit = audited(beside[:150], X["age"][:150], {"age": [25, 60]}, Y[:150])
    population = audit.explain_all(beside[150:], sensitive_features=X["age"][150:])
    assert tuple(population.by_group.index) == THREE
    with pytest.raises(TableError, match="Column 'age', row 0 holds 'old', which is not a number"):
        audit.explain_all(beside[:2], sensitive_features=pd.Series(["old", 30], name="age", dtype=object))


@pytest.mark.parametrize(
    ("sensitive", "bands", "said"),
    [
        ("age", [60, 25], "from small to large"),
        ("age", [], "from small to large"),
        ("age", [25, 200], "no training row is in '200 and over'; its values go from 18 to 79"),
        ("age", {"agee": [25]}, "'agee', which is no protected attribute with numbers. Did you mean 'age'?"),
        ("sex", [25], "of 'sex', 0 hold numbers"),
        ("sex", {"sex": [25]}, "'sex', which is no protected attribute with numbers"),
        (["age", "income"], [25], "2 hold numbers. Leave"),
    ],
)
def test_bands_that_cannot_be_are_refused(sensitive, bands, said):
    with pytest.raises(SettingError, match=said):
        audited(sensitive=sensitive, bands=bands)


@pytest.mark.parametrize("options", [(), ("--bands", "age=30", "--drop", "age")])
def test_from_the_command_line_and_again(capsys, tmp_path, options):
    X.assign(granted=Y, age=X["age"].where(X.index % 30 != 1)).to_csv(tmp_path / "t.csv", index=False)
    where, out = [str(tmp_path / "t.csv"), "--label", "granted", "--sensitive", "age", *options], tmp_path / "out"
    cheap = ["--model", "logistic", "--budget", "6", "--cases", "0:12", "--psi", "everything", "--out", str(out)]
    assert main(["audit", *where, *cheap]) == 0
    assert "'age' is a number, cut into bands: 'under " in " ".join(capsys.readouterr().err.split())
    record = json.loads((out / "audit.json").read_text())
    cuts = record["run"]["sensitive_bands"]["age"]
    assert len(cuts) == 2 or cuts == [30]
    population = Population.from_dict(record)
    assert population.found
    names = [*Bands(tuple(cuts)).names, "missing"]
    assert list(population.by_group.index) == [name for name in names if name in population.by_group.index]
    assert "is a number, cut into bands" in (out / "report.html").read_text()
    assert main(["replay", str(out / "audit.json")]) == 0
