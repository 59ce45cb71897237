"""Comparisons of standards: what they compute, what they find, what they refuse."""

import signal
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec import convert
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

import recorded
from butfor.errors import LearnerError, SettingError, TableError
from butfor.nets.threads import Cancelled
from butfor.standard import GroupStandard, LeftOut, second_opinion
from butfor.standard.boosting import fit_boosting
from butfor.standard.compare import compare
from butfor.standard.logistic import design_of, fit_logistic
from butfor.standard.model import TwoModels
from butfor.standard.null import CommonStandard
from butfor.standard.settings import ComparisonSettings
from butfor.table.embedded import load_dataset
from butfor.table.groups import Sensitive
from conftest import press
from recorded import compared


def loans(rows=400, lost=0.0, seed=0):
    """Loans decided by income and debts alone, but for a share of group b's that were refused all
    the same."""
    X, y, wrong = recorded.wronged(rows, seed, 0.5, lost)
    X["town"] = np.random.default_rng(seed + 1).choice(["north", "south"], rows)
    return X, y, wrong


def shifted(rows=3000, seed=3):
    """Two groups that differ in their columns, and labels drawn by the columns alone."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(rows) < 0.3, "b", "a")
    income = rng.normal(size=rows) - 1.2 * (group == "b")
    town = np.where(rng.random(rows) < 0.3 + 0.4 * (group == "b"), "north", "south")
    p = 1 / (1 + np.exp(-(1.5 * income + (town == "north"))))
    return pd.DataFrame({"group": group, "income": income, "town": town}), rng.random(rows) < p


def quickly(X, y, cluster=None, **told):
    """The gaps and their draws alone, without the second opinion, columns and slices."""
    settings = ComparisonSettings(**{"draws": 20, "n_jobs": 1, "explain": False} | told)
    attributes = [Sensitive.of("group", X)]
    return compare(X, y, attributes, settings, sides=(("no",), ("yes",)), cluster=cluster)


def width(c):
    return c.interval[1] - c.interval[0]


class LeastSquares(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.array([False, True])
        self.beta_ = np.linalg.lstsq(
            np.column_stack([np.ones(len(X)), X]), y.astype(float), rcond=None
        )[0]
        return self

    def predict_proba(self, X):
        p = np.column_stack([np.ones(len(X)), X]) @ self.beta_
        return np.column_stack([1 - p, p])


@pytest.fixture(scope="module")
def wronged():
    """A table where 30 % of group b's favourable labels were lost, which ones, and its
    comparison."""
    X, y, wrong = loans(800, 0.3)
    return X, wrong, compared(X, y, draws=39)


@pytest.fixture(scope="module")
def fair():
    """A table with one standard for all, and its comparison by six draws."""
    X, y, _ = loans()
    return X, y, compared(X, y, draws=6)


def test_lost_labels_are_called_counted_and_listed_first(wronged):
    X, wrong, found = wronged
    b, ours = found.of_group("b"), (X["group"] == "b").to_numpy()
    assert b.differs
    assert b.p < 1 / 40  # by the normal tail
    assert 0 < b.interval[0] < wrong.sum() / ours.sum() < b.interval[1]
    assert abs(b.missing - wrong.sum()) < 0.5 * wrong.sum()
    assert found.of_group("a").missing == 0
    frame = found.to_frame().sort_values("rank")
    assert list(frame) == ["label", "group", "doubt", "wrong", "wrong_if_real", "rank"]
    assert wrong[frame.index[: b.missing]].mean() > 0.5
    listed = frame[frame["wrong"] > 0]
    assert (set(listed["group"]), set(listed["label"])) == ({"b"}, {"no"})
    assert frame.index[: len(listed)].equals(listed.index)
    assert listed["wrong"].is_monotonic_decreasing
    assert frame.loc[frame["group"] == "b", "wrong_if_real"].isna().all()
    later = frame.iloc[len(listed) :]
    for label in ("no", "yes"):  # the other group's adverse labels, then everything else
        assert later.loc[later["label"] == label, "doubt"].is_monotonic_decreasing
    assert later["label"].is_monotonic_increasing


def test_a_gap_that_may_be_chance_makes_no_label_wrong():
    X, y, _ = loans(lost=0.08, seed=13)
    found = compared(X, y, draws=6)
    frame, b = found.to_frame(), found.of_group("b")
    assert not any(c.differs for c in found.comparisons)
    assert 0 < b.missing < 30, "it lacks few labels"
    assert frame["wrong"].isna().all()
    ours = (frame["group"] == "b") & (frame["label"] == "no")
    assert frame.loc[ours, "wrong_if_real"].sum() == pytest.approx(b.rows * b.difference, rel=1e-6)
    assert (frame.loc[~ours, "wrong_if_real"] == 0).all()
    first = frame.sort_values("rank").iloc[: ours.sum()]
    assert (set(first["group"]), set(first["label"])) == ({"b"}, {"no"}), (
        "the group that lacks most labels comes first"
    )
    assert first["wrong_if_real"].is_monotonic_decreasing
    assert first["doubt"].is_monotonic_decreasing, (
        "few labels do not show where they were lost: one rate for all"
    )
    assert "Labels that are probably wrong" not in found.to_html()


def test_probabilities_of_being_wrong_add_up_to_the_gap_and_grow_with_it(wronged):
    X, _, found = wronged
    ours, gap = (X["group"] == "b").to_numpy(), found.of_group("b").difference
    assert found.wrong[ours].sum() == pytest.approx(gap * ours.sum(), rel=1e-6)
    steps = [found.wrong_at("b", difference) for difference in (-0.1, 0.0, 0.05, 0.1, 0.2, 0.9)]
    assert (np.diff(steps, axis=0) >= 0).all()
    assert not np.any(steps[:2])
    assert (steps[-1] == ours & ~found.is_favourable).all()  # more than there are
    with pytest.raises(SettingError, match="'c' was not compared"):
        found.wrong_at("c", 0.1)
    half = found.of_rows(np.arange(0, 800, 2))
    assert half.wrong.sum() == pytest.approx(gap * (half.groups == "b").sum(), rel=1e-6)


def test_frames_and_records_hold_what_objects_do(wronged):
    _, _, found = wronged
    assert list(found.by_group.index) == [("group", "a"), ("group", "b")]
    for (_, row), c in zip(found.by_group.iterrows(), found.comparisons, strict=True):
        assert (row["low"], row["high"]) == c.interval
        assert (row["missing"], row["p_adjusted"], row["explained"]) == (
            c.missing,
            c.p_adjusted,
            c.explained,
        )
    assert set(found.columns.index.get_level_values("column")) == {"income", "debts", "town"}
    assert found.columns.loc[("group", "b"), "move"].abs().is_monotonic_decreasing
    record = found.to_dict()
    assert [convert(each, GroupStandard) for each in record["groups"]] == list(found.comparisons)
    assert len(record["columns"]) == len(found.moves) == 6
    for text in (str(found), repr(found), found._repr_html_()):
        assert not any(odd in text for odd in ("GroupStandard(", "np.", "nan"))


def test_false_alarms_on_tables_drawn_by_one_standard_are_rare_though_groups_differ_in_their_columns():
    gaps = [c for seed in range(12) for c in quickly(*shifted(400, seed)).comparisons]
    assert np.mean([abs(c.raw_gap) for c in gaps]) > 0.15
    assert sum(c.differs for c in gaps) <= 2, "5 % of 24, which are nearly pairs"


def test_least_squares_give_the_twofold_decomposition():
    """Kitagawa–Oaxaca–Blinder with the others' coefficients: ȳ_o − ȳ_h = (x̄_o − x̄_h)·β_o +
    x̄_h·(β_o − β_h)."""
    X, y, _ = loans(lost=0.2)
    X = X.drop(columns="town")
    found, labels = (
        compared(X, y, standard=make_pipeline(LeastSquares())),
        (y == "yes").to_numpy(float),
    )
    design = np.column_stack([np.ones(len(X)), X[["income", "debts"]]])
    for value in "ab":
        ours = (X["group"] == value).to_numpy()
        own, theirs = (
            np.linalg.lstsq(design[rows], labels[rows], rcond=None)[0] for rows in (ours, ~ours)
        )
        c = found.of_group(value)
        assert c.raw_gap == pytest.approx(labels[~ours].mean() - labels[ours].mean())
        assert c.explained == pytest.approx(
            (design[~ours].mean(axis=0) - design[ours].mean(axis=0)) @ theirs
        )
        assert c.difference == pytest.approx(design[ours].mean(axis=0) @ (theirs - own))
        by_theirs = design[ours] @ theirs
        np.testing.assert_allclose(
            found.doubt[ours], np.where(labels[ours] == 1, 1 - by_theirs, by_theirs)
        )
    models, weight = (
        (LogisticRegression(), make_pipeline(LogisticRegression())),
        1 + np.arange(len(X)) % 3,
    )
    alone, inside = (
        compared(X, y, standard=model, sample_weight=weight).of_group("a") for model in models
    )
    assert alone.difference == inside.difference != found.of_group("a").difference
    fewer = compared(X.drop(columns="debts"), y, standard=LeastSquares())
    move = found.columns.loc[("group", "a", "debts"), "move"]
    assert move == pytest.approx(fewer.of_group("a").difference - found.of_group("a").difference)


def test_what_a_comparison_can_use_is_not_refused():
    X, y, _ = loans()
    third = compared(X, y.where(np.arange(len(X)) > 0, "withdrawn"))
    assert third.of_group("a").rows == compared(X, y).of_group("a").rows
    group = (
        X["group"].where(np.arange(len(X)) % 5 > 0).replace("b", "Missing")
    )  # and some are missing
    assert {c.group for c in compared(X.assign(group=group), y).comparisons} == {
        "a",
        "Missing",
        "missing",
    }
    data = load_dataset("german")
    for labels in (data.y_train.astype(float), data.y_train == 1):
        found = compared(data.X_train, labels, sensitive_features="sex", adverse="bad credit")
        assert found.sides == (("bad credit",), ("good credit",))


def test_the_centre_is_subtracted_and_the_rest_adds_up(fair):
    X, y, found = fair
    without = compared(X, y)
    for plain, c in zip(without.comparisons, found.comparisons, strict=True):
        assert c.centre != 0 == plain.centre
        assert c.difference == pytest.approx(plain.difference - c.centre)
        assert c.expected - c.recorded == pytest.approx(c.difference)
        assert plain.interval is plain.p is plain.bounds is None
        assert c.bounds[0] <= c.interval[0] < c.difference < c.interval[1] <= c.bounds[1]
    assert without.slices.empty
    assert len(found.slices)


def test_leaving_out_a_column_moves_the_difference_as_a_refit_does():
    X, favourable = shifted(900)
    y = favourable & ~((X["group"] == "b") & (np.arange(900) % 4 == 0)).to_numpy()
    found, without = compared(X, y), compared(X.drop(columns="income"), y)
    b = found.of_group("b")
    for value in "ab":
        move = found.columns.loc[("group", value, "income"), "move"]
        assert move == pytest.approx(
            without.of_group(value).difference - found.of_group(value).difference, abs=1e-6
        )
    assert b.strongest_column == "income"
    assert b.strongest_move == pytest.approx(
        without.of_group("b").difference - b.difference, abs=1e-6
    )
    assert b.times_strongest == pytest.approx(b.difference / b.strongest_move)
    only = compared(X[["group", "income"]], y)
    for c in only.comparisons:
        move = only.columns.loc[("group", c.group, "income"), "move"]
        assert c.difference + move == pytest.approx(c.raw_gap, abs=0.002), "without its only column"


def test_overlap_is_poor_where_groups_hardly_meet(fair):
    X, y, found = fair
    fine = found.of_group("b").overlap
    assert fine.comparable > 0.9 * (X["group"] == "b").sum()
    assert not fine.poor
    apart = X.assign(income=X["income"] - 3 * (X["group"] == "b"))
    poor = compared(apart, y, draws=5).of_group("b").overlap
    assert poor.poor
    assert poor.effective_others < fine.effective_others


def test_it_is_deterministic_whatever_the_number_of_jobs(fair):
    X, y, found = fair
    again = compared(X, y, draws=6, n_jobs=2)
    assert again.to_dict() == found.to_dict()
    pd.testing.assert_frame_equal(again.to_frame(), found.to_frame())
    assert found.of_group("b").error != compared(X, y, draws=6, random_state=1).of_group("b").error


def test_draws_do_not_follow_a_table_that_was_made_with_the_same_seed():
    """numpy's generator of (0, 0) is that of 0."""
    zero, other = (quickly(*shifted(3000, seed)).of_group("b") for seed in (0, 1))
    assert zero.error < 1.5 * other.error


def test_few_labels_of_one_kind_are_judged_by_quantiles():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"group": ["a"] * 500 + ["b"] * 40, "income": rng.normal(size=540)})
    b = quickly(X, rng.random(540) < 0.96, draws=40).of_group("b")
    low, high = b.interval
    assert low < b.difference < high
    assert (
        abs((high - b.difference) - (b.difference - low)) > 1e-3
    )  # not symmetric, as a normal interval is
    assert not b.differs


def test_an_estimator_that_warns_in_every_fit_warns_once_per_group(recwarn):
    X, y, _ = loans()
    compared(X.drop(columns="town"), y, standard=LogisticRegression(max_iter=1), draws=6)
    assert (
        len([warning for warning in recwarn if issubclass(warning.category, ConvergenceWarning)])
        == 2
    )


def test_several_attributes_are_compared_alone_and_together():
    X, y, _ = loans(240)
    found = compared(X, y, sensitive_features=["group", "town"], draws=2)
    names = [c.name for c in found.comparisons]
    assert names[:4] == ["group = a", "group = b", "town = north", "town = south"]
    assert names[4:] == [f"group × town = {a} · {b}" for a in "ab" for b in ("north", "south")]
    assert all(c.p <= c.p_adjusted <= 1 for c in found.comparisons)
    assert np.isfinite(found.doubt).all()
    beside = compared(X[["income", "debts"]], y, sensitive_features=X[["group", "town"]], draws=2)
    assert beside.to_dict() == found.to_dict()
    ages = X[["group"]].assign(age=np.arange(len(X)) % 50)
    banded = compared(
        X[["income", "debts"]], y, sensitive_features=ages, sensitive_bands={"age": [25]}
    )
    assert [c.name for c in banded.comparisons][2:4] == ["age = 25 and over", "age = under 25"]


def test_more_than_two_labels_are_two_sides(fair):
    X, y, _ = fair
    three = y.where(X["town"] == "north", y.replace("yes", "partly"))
    found = compared(X, three, adverse="no")
    assert found.favourable == "partly or yes"
    assert found.by_group.equals(compared(X, y).by_group)
    assert compared(X, three, adverse=["no", "partly"]).favourable == "yes"


def test_a_reference_group_is_what_others_are_compared_with():
    X, y, _ = loans(600)
    X["group"] = np.random.default_rng(9).choice(["a", "b", "c"], 600)
    y = y.mask((X["group"] == "c") & (np.arange(600) % 3 > 0), "no")
    found = compared(X, y, reference="a")
    assert [(c.group, c.reference) for c in found.comparisons] == [("b", "a"), ("c", "a")]
    kept = X["group"] != "c"
    pair = compared(X[kept], y[kept]).of_group("b")
    assert found.of_group("b").difference == pytest.approx(pair.difference, abs=0.01)
    assert (
        compared(X, y).of_group("b").difference < found.of_group("b").difference
    )  # c is among the others of b
    both = compared(
        X[:350], y[:350], sensitive_features=["group", "town"], reference=["a", "north"]
    )
    assert {c.reference for c in both.comparisons} == {"a", "north", "a · north"}


def test_a_combination_that_is_a_whole_group_takes_its_place_only_beside_the_same_others():
    X, y, _ = loans(360)
    X["group"] = np.random.default_rng(9).choice(["a", "b", "c"], 360)
    X["town"] = X["town"].where(X["group"] != "c", "north")
    both = {"X": X, "y": y, "sensitive_features": ["group", "town"]}
    names = [(c.name, c.reference) for c in compared(**both, reference={"group": "a"}).comparisons]
    assert ("group = c", "a") in names
    assert ("group × town = c · north", None) in names
    names = [c.name for c in compared(**both).comparisons]
    assert "group × town = c · north" in names
    assert "group = c" not in names


def test_small_groups_are_left_out_and_it_says_so():
    X, y, _ = loans()
    X.loc[:20, "group"] = "rare"
    found = compared(X, y)
    assert found.left_out == (LeftOut("group", "rare", "rows", 21),)
    assert np.isnan(found.doubt[:21]).all()
    assert found.to_frame()["rank"].isna().sum() == 21
    X["group"] = X["group"].replace("rare", "b")
    (alike,) = compared(X, y.where(X["group"] != "a", "yes")).left_out
    assert (
        alike.sentence
        == "group = b is not compared: the other groups together have the same label everywhere."
    )


def test_only_ratios_of_weights_matter_and_uneven_ones_widen_intervals(fair):
    X, y, plain = fair
    weight, ours, granted = (
        np.where(np.arange(400) % 4, 0.1, 4.0),
        (X["group"] == "a").to_numpy(),
        y == "yes",
    )
    weighted, shares, same = (
        compared(X, y, sample_weight=each, draws=6)
        for each in (weight, weight / weight.sum(), np.full(400, 7.0))
    )
    a = weighted.of_group("a")
    assert a.recorded == pytest.approx(np.average(granted[ours], weights=weight[ours]))
    assert a.effective_rows == pytest.approx(weight[ours].sum() ** 2 / (weight[ours] ** 2).sum())
    assert width(a) > 1.2 * width(plain.of_group("a"))
    for one, other in ((weighted, shares), (same, plain)):
        for c, d in zip(one.comparisons, other.comparisons, strict=True):
            assert (c.difference, c.p) == (pytest.approx(d.difference, abs=1e-6), d.p)
            assert c.interval == pytest.approx(d.interval, abs=1e-6)
    for group in "ab":
        inside = (X["group"] == group).to_numpy()
        at_ten = weighted.wrong_at(group, 0.1)
        assert at_ten[inside] @ weight[inside] == pytest.approx(0.1 * weight[inside].sum())


def test_rows_that_belong_together_widen_the_interval():
    X, y, _ = loans(150, seed=4)
    many, labels, advert = (
        pd.concat([X] * 6, ignore_index=True),
        pd.concat([y] * 6).to_numpy(),
        np.tile(range(150), 6),
    )
    many[["income", "debts"]] += 0.3 * np.random.default_rng(0).normal(size=(900, 2))
    together = compared(many.assign(advert=advert), labels, draws=20, cluster="advert")
    assert together.clusters == 150
    assert {m.column for m in together.moves} == {"income", "debts", "town"}, (
        "the column is no input"
    )
    alone, apart, same = (
        quickly(many, labels == "yes", draws=25, cluster=cluster)
        for cluster in (None, np.arange(900), advert)
    )
    assert width(same.of_group("b")) > 1.3 * width(alone.of_group("b"))
    assert width(together.of_group("b")) > 1.3 * width(alone.of_group("b"))
    assert apart.of_group("b").interval == pytest.approx(alone.of_group("b").interval, abs=0.03)


def test_missing_values_constant_and_wide_columns_are_taken(fair):
    X, y, _ = fair
    X = X.assign(constant=1.0, code=[f"c{k % 150}" for k in range(len(X))])
    X.loc[::7, "income"] = np.nan
    X.loc[(X["group"] == "b") & (np.arange(400) % 5 == 0), "town"] = None
    assert np.isfinite(compared(X, y).doubt).all()
    gap = compared(X[["group", "constant"]], y).of_group("b")
    assert gap.difference == pytest.approx(gap.raw_gap, abs=0.02)


def test_of_many_columns_the_ones_that_matter_are_left_out():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 63)), columns=[f"x{k}" for k in range(63)])
    groups, y = (X["x7"] + rng.normal(size=120) > 0 for _ in range(2))
    left_out = compared(
        X, y.to_numpy(), sensitive_features=np.where(groups, "a", "b")
    ).columns.reset_index()
    assert left_out["column"].value_counts().loc["x7"] == 2
    assert len(left_out) == 2 * 60


X, Y, _ = loans()
WIDE = X[:100].join(pd.DataFrame(np.arange(100)[:, None] * np.arange(1, 1002)).add_prefix("x"))
FEW = X.assign(group=np.where(np.arange(400) < 20, "few", X["group"]))


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"sensitive_features": ["a"] * 400}, SettingError, "has only one value"),
        ({"sensitive_features": "label"}, TableError, "determines every label"),
        ({"draws": -1}, SettingError, "draws=-1 must be"),
        ({"standard": GaussianNB(priors=[0.5])}, LearnerError, "GaussianNB, cannot be trained"),
        ({"reference": "z"}, SettingError, "reference: there is no group 'z'"),
        (
            {"reference": ["a", "b"]},
            SettingError,
            "reference names 'a' and 'b', both groups of 'group'",
        ),
        ({"reference": {"sex": "a"}}, SettingError, "reference: there is no attribute 'sex'"),
        (
            {"X": FEW, "reference": "few"},
            TableError,
            "group = few cannot be used: 20 rows, and a comparison needs 30",
        ),
        ({"cluster": "advert"}, (SettingError, TableError), "cluster: there is no column 'advert'"),
        (
            {"cluster": [1, 2]},
            (SettingError, TableError),
            "table has 400 rows but there are 2 values of cluster",
        ),
        ({"cluster": np.arange(400) % 9}, TableError, "in fewer than 10 clusters"),
        ({"y": Y.mask(Y != "no", "no")}, TableError, "only one class"),
        (
            {"y": [True, 0] * 200},
            TableError,
            "mix types that cannot be compared \\('bool', 'int'\\)",
        ),
        (
            {"y": Y.where(Y.index % 2 > 0, Y + " ")},
            TableError,
            "'no' and 'no ', which differ only in spaces or capi",
        ),
        (
            {"X": X.assign(group=X["group"].where(X.index % 2 > 0, "A"))},
            TableError,
            "'group' has the values 'A' and",
        ),
        ({"X": X[["group"]]}, TableError, "only protected columns"),
        (
            {"X": WIDE, "y": Y[:100]},
            TableError,
            r"make 100\d inputs .* at most 1000\. Drop columns",
        ),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(change, error, sentence):
    with pytest.raises(error, match=sentence):
        compared(**{"X": X.assign(label=Y), "y": Y} | change)


def bent(rows, seed, lost=0.0):
    """Labels depend on the size of a number, whatever its sign: no sum of columns says that, so
    that two honest methods differ. Group b loses a share of its favourable labels."""
    rng = np.random.default_rng(seed)
    group = rng.random(rows) < 0.4
    income, debts = rng.normal(size=rows) + 0.8 * group, rng.normal(size=rows)
    favourable = rng.random(rows) < 1 / (1 + np.exp(-(1.2 * np.abs(income) - 0.9 + 0.5 * debts)))
    favourable &= ~(group & (rng.random(rows) < lost))
    return pd.DataFrame(
        {"income": income, "debts": debts, "group": np.where(group, "b", "a")}
    ), favourable


def test_two_estimates_that_differ_in_size_alone_do_not_acquit_a_large_table():
    b = compared(*bent(12_000, 3, lost=0.1), reference="a", draws=14).of_group("b")
    second = b.second_opinion
    assert second.disagrees
    assert b.differs
    assert b.interval[0] <= min(b.difference, second.interval[0])
    assert b.interval[1] >= max(b.difference, second.interval[1])


def test_spreads_by_a_part_of_the_others_are_those_by_all(monkeypatch):
    table = bent(4000, 3)
    whole = compared(*table, reference="a", draws=30).of_group("b")
    monkeypatch.setattr(second_opinion, "PART_ROWS", 1000)
    part = compared(*table, reference="a", draws=30).of_group("b")
    assert part.difference != whole.difference  # its centre is estimated anew
    assert part.centre == pytest.approx(whole.centre, abs=0.5 * whole.error)
    assert part.error == pytest.approx(whole.error, rel=0.2)


def test_a_time_limit_keeps_the_draws_that_are_done():
    X, y = shifted(200)
    timed = quickly(X, y, draws=60, seconds=0.0)
    assert (timed.interrupted, timed.draws) == (False, 25)
    assert timed.comparisons == quickly(X, y, draws=25).comparisons
    assert timed.of_group("a").p >= 1 / 26


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_tables_in_hand_and_leaves_no_thread(monkeypatch, number):
    """Drawn tables after the first part never end by themselves here."""
    X, y, _ = loans(200)
    real, encoded = CommonStandard.uniforms, TwoModels.of(X[["income", "debts"]])
    labels = np.array([y == "yes", y == "no"])
    boosted, ended = fit_boosting(encoded.questions, encoded.inputs, labels), []

    def drawn(self, table):
        if table < 25:
            return real(self, table)
        press(number)
        for work in (
            lambda: [
                fit_boosting(encoded.questions, encoded.inputs, labels[:1]) for _ in range(2000)
            ],
            lambda: boosted.predict(encoded.inputs),
            lambda: fit_logistic(design_of(encoded.inputs), labels[:1]),
            lambda: fit_logistic(design_of(encoded.inputs), labels),
        ):
            with pytest.raises(Cancelled):
                work()
            ended.append(work)
        raise Cancelled

    monkeypatch.setattr(CommonStandard, "uniforms", drawn)
    before = signal.signal(number, signal.default_int_handler), threading.active_count()
    try:
        found = compared(X, y, draws=99)
    finally:
        signal.signal(number, before[0])
    assert (found.interrupted, found.draws, len(ended)) == (True, 25, 4)
    assert found.of_group("a").interval is not None
    assert found.to_frame()["rank"].notna().all()
    assert threading.active_count() == before[1]


# --- no figure hangs on the order of rows, and few on the seed ------------------------------------


def households(rows=360):
    """A table that nobody put in order: dates, numbers and text with holes, equal rows, and
    households by name."""
    X, y, _ = loans(rows, 0.25, seed=4)
    rng = np.random.default_rng(9)
    X["since"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(
        rng.integers(0, 400, rows), unit="D"
    )
    X["debts"] = X["debts"].round(0).where(rng.random(rows) > 0.1)
    X["town"] = X["town"].where(rng.random(rows) > 0.1)
    X.iloc[1::40] = X.iloc[::40].to_numpy()
    X = X.astype({"income": float, "debts": float})
    home = (
        pd.Series(rng.integers(0, rows // 3, rows))
        .map("home {}".format)
        .where(rng.random(rows) > 0.1)
    )
    return X, y, home.set_axis(X.index), pd.Series(rng.uniform(0.5, 2, rows), X.index)


def test_any_order_of_rows_and_columns_gives_the_same_figures_to_the_last_digit():
    X, y, home, weight = households()
    here = compared(X, y, cluster=home, sample_weight=weight, draws=6)
    order = np.random.default_rng(1).permutation(len(X))
    there = compared(
        X.iloc[order, ::-1],
        y.iloc[order],
        cluster=home.iloc[order],
        sample_weight=weight.iloc[order],
        draws=6,
    )
    assert here.to_dict() == there.to_dict()
    pd.testing.assert_frame_equal(
        here.to_frame()[["doubt"]].iloc[order], there.to_frame()[["doubt"]], rtol=0, atol=0
    )
    np.testing.assert_array_equal(
        here.cluster[order] == here.cluster[order][0], there.cluster == there.cluster[0]
    )


def test_rows_that_are_equal_in_everything_share_one_doubt():
    X, y, _ = loans(200)
    twice = pd.concat([X, X], ignore_index=True)
    found = compared(twice, pd.concat([y, y], ignore_index=True), draws=0).to_frame()
    for name in ("doubt", "wrong"):
        np.testing.assert_array_equal(found[name].iloc[:200], found[name].iloc[200:])


def test_draws_go_on_while_a_p_is_close_to_the_line_and_stop_where_a_given_number_does():
    X, y, _ = loans(400, 0.2, seed=9)
    found = quickly(X, (y == "yes").to_numpy(), draws=None)
    assert found.draws == 199, "a table whose p is close to 0.05 at first"
    assert found.to_dict() == quickly(X, (y == "yes").to_numpy(), draws=199).to_dict()
    first = quickly(X, (y == "yes").to_numpy(), draws=99)
    assert any(
        "± 0.0" in c.sentence("yes") and "close to the line" in c.sentence("yes")
        for c in first.comparisons
    )
    far, labels, _ = loans(400, 0.25, seed=7)
    assert quickly(far, (labels == "yes").to_numpy(), draws=None).draws == 99


def test_bounds_and_intervals_follow_the_verdict_at_zero():
    for seed in range(12):
        X, y, _ = loans(300, 0.12, seed)
        for c in quickly(X, (y == "yes").to_numpy(), draws=40).comparisons:
            low, high = c.bounds
            if c.p_adjusted < 0.05:
                assert low > 0 or high < 0
                assert c.interval[0] > 0 or c.interval[1] < 0
            else:
                assert low <= 0 <= high
    edge = replace(
        GroupStandard("sex", "f", 100, 0.4, 0.5, 0.1), interval=(0.0005, 0.2), p_adjusted=0.04
    )
    assert "95 % interval 0.1 to 20" in edge.sentence("yes")


def test_a_group_counts_for_as_many_rows_as_its_weights_say():
    X, y, _ = loans(300)
    weight = np.ones(300)
    weight[np.flatnonzero(X["group"] == "b")[-1]] = 999999
    with pytest.raises(
        TableError, match=r"No group can be compared.*rows that say as much as 1 of equal weight"
    ):
        compared(X, y, sample_weight=weight)
    X.loc[:150, "group"] = "c"
    found = compared(X, y, sample_weight=weight, draws=3, reference="a")
    (b,) = (each for each in found.left_out if each.group == "b")
    assert (b.reason, b.effective_rows < 30 < b.rows) == ("rows", True)
    assert "say as much as 1 of equal weight, and a comparison needs 30" in b.sentence
    assert any("999999 looks like a mark for an unknown weight" in line for line in found.proxies)
    some = np.where(X["town"] == "north", 1e-3, 1.0)
    some[np.flatnonzero((X["town"] == "north") & (X["group"] == "c"))[0]] = 5
    slices = compared(X, y, sample_weight=some, draws=3).slices
    assert set(slices.loc[slices["group"] == "c", "value"]).isdisjoint({"north", "south"}), (
        "too few effective rows"
    )


@pytest.mark.parametrize("heaviest", [100, 1000, 10_000])
def test_one_heavy_row_makes_no_gap_out_of_nothing(heaviest):
    called = 0
    for seed in range(4):
        X, y, _ = loans(300, seed=seed)
        weight = np.ones(300)
        weight[0] = heaviest
        try:
            found = compared(X, y, sample_weight=weight, draws=20)
        except TableError:  # neither group can be compared
            continue
        called += sum(c.differs for c in found.comparisons)
        for c in found.comparisons:
            ends = [*c.interval, *c.bounds, *c.second_opinion.interval, c.second_opinion.difference]
            assert all(-1e-12 <= c.recorded + end <= 1 + 1e-12 for end in ends)
            assert 0 <= c.expected <= 1
            assert c.difference == pytest.approx(c.expected - c.recorded)
            assert c.explained + c.difference == pytest.approx(c.raw_gap)
    assert called == 0


def matched(adverts=30, letters=12, seed=0, gap=0.0):
    """Every advert got several letters of each of two groups; its gap differs from other
    adverts'."""
    rng = np.random.default_rng(seed)
    advert = np.repeat(np.arange(adverts), 2 * letters)
    group = np.tile(["a", "b"], adverts * letters)
    quality = rng.normal(size=len(advert))
    level, own_gap = rng.normal(0, 0.3, adverts)[advert], rng.normal(gap, 4, adverts)[advert]
    p = 1 / (1 + np.exp(-(0.5 * quality + level - own_gap * (group == "b"))))
    return pd.DataFrame({"group": group, "quality": quality}), rng.random(len(advert)) < p, advert


def test_intervals_and_p_are_about_other_clusters_where_gaps_differ_between_them():
    X, y, advert = matched(gap=0.7)
    c = compared(X, y, cluster=advert, draws=30).of_group("b")
    by_advert = pd.Series(y).groupby([advert, X["group"]]).mean().unstack()
    error = (by_advert["a"] - by_advert["b"]).std() / np.sqrt(len(by_advert))
    assert width(c) / 2 > 1.8 * error, "at least as wide as the gaps of adverts say"
    assert c.p > 0.5 * 2 * stats.norm.sf(abs(c.difference) / error)
    opinion = c.second_opinion
    assert opinion.interval[1] - opinion.interval[0] > 3.6 * error
    assert c.bounds[0] <= c.interval[0] < c.difference < c.interval[1] <= c.bounds[1]
    assert "other clusters of this kind" in str(compared(X, y, cluster=advert))


def test_the_error_of_a_group_counts_how_much_the_labels_of_a_shorted_other_group_vary():
    """Labels of a group at 60 % vary more than the one standard for everybody, near 95 %, makes
    them."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"group": np.where(np.arange(900) < 120, "b", "a"), "x": rng.normal(size=900)})
    y = rng.random(900) < np.where(X["group"] == "a", 0.95, 0.6)
    usual = compared(X, y, draws=99, random_state=0).of_group("a")
    rates = {group: (y[X["group"] == group].mean(), (X["group"] == group).sum()) for group in "ab"}
    plain = np.sqrt(
        sum(rate * (1 - rate) / rows for rate, rows in rates.values())
    )  # of two shares, without columns
    assert plain <= usual.error <= 1.2 * plain
    assert usual.bounds[1] - usual.bounds[0] > 2 * 1.96 * plain
