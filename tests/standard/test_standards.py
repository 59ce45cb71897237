"""Comparisons of standards: what they compute, what they find, what they refuse."""

import numpy as np
import pandas as pd
import pytest
from msgspec import convert
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor
from butfor.data.sensitive import Sensitive
from butfor.errors import LearnerError, SettingError, TableError
from butfor.progress import Progress
from butfor.standard.compare import compare
from butfor.standard.groups import GroupStandard, _spread
from conftest import press


def loans(rows=400, wronged=0.0, seed=0):
    """Loans decided by income and debts alone, but for a share of group b's that were refused all the same."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "group": rng.choice(["a", "b"], rows),
            "income": rng.normal(size=rows),
            "debts": rng.normal(size=rows),
            "town": rng.choice(["north", "south"], rows),
        }
    )
    granted = X["income"] - X["debts"] + 0.5 * rng.normal(size=rows) > 0
    wrong = granted & (X["group"] == "b") & (rng.random(rows) < wronged)
    return X, pd.Series(np.where(granted & ~wrong, "yes", "no")), wrong.to_numpy()


def compared(X, y, **how):
    how = {"sensitive_features": "group", "adverse": "no", "shuffles": 0, "n_jobs": 1} | how
    return butfor.compare_standards(X, y, **how)


def test_probabilities_come_from_a_model_of_the_other_rows_without_the_attribute():
    X, y, _ = loans()
    numbers, ours = X[["income", "debts"]], (X["group"] == "b").to_numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    found = compared(X.drop(columns="town"), y, standard=model)
    by_hand = model.fit(numbers[~ours], y[~ours] == "yes").predict_proba(numbers[ours])[:, 1]
    granted = (y[ours] == "yes").to_numpy()
    np.testing.assert_allclose(found.doubt[ours], np.where(granted, 1 - by_hand, by_hand))
    b = found.of_group("b")
    assert b.difference == pytest.approx(by_hand.mean() - granted.mean())
    assert b.missing == max(0, round((by_hand - granted).sum()))


def test_wronged_labels_are_found_counted_and_doubted_most():
    X, y, wrong = loans(800, wronged=0.3)
    found = compared(X, y, shuffles=39)
    b = found.of_group("b")
    assert b.p == 1 / 40
    assert b.differs
    assert b.interval[0] > 0 > b.by_chance[0]
    assert abs(b.missing - wrong.sum()) < 0.5 * wrong.sum()
    flips = found.missing_labels("b")
    assert len(flips) == b.missing
    assert wrong[flips].mean() > 0.5
    assert (found.groups[flips] == "b").all()
    assert not found.is_favourable[flips].any()
    assert "group = b" in found.answer
    assert "labels short" in b.sentence("yes")
    assert found.of_group("a").missing == 0
    with pytest.raises(SettingError, match="no comparison of 'c'"):
        found.missing_labels("c")


def test_without_bias_nothing_is_found():
    X, y, _ = loans()
    found = compared(X, y, shuffles=39)
    assert not any(c.differs for c in found.comparisons)
    assert found.answer.startswith("No group's labels fall short")


def test_it_is_deterministic_whatever_the_number_of_jobs():
    X, y, _ = loans(200)
    once, again = (compared(X, y, shuffles=3, n_jobs=jobs) for jobs in (1, 2))
    assert once.to_dict() == again.to_dict()
    np.testing.assert_array_equal(once.doubt, again.doubt)
    assert once.to_dict() != compared(X, y, shuffles=3, random_state=1).to_dict()


def test_several_attributes_are_compared_alone_and_together():
    X, y, _ = loans(600)
    found = compared(X, y, sensitive_features=["group", "town"])
    names = [c.name for c in found.comparisons]
    assert names[:4] == ["group = a", "group = b", "town = north", "town = south"]
    assert names[4:] == [f"group × town = {a} · {b}" for a in "ab" for b in ("north", "south")]
    assert found.of_group("a · north").rows == ((X["group"] == "a") & (X["town"] == "north")).sum()
    assert np.isfinite(found.doubt).all()
    beside = compared(X[["income", "debts"]], y, sensitive_features=X[["group", "town"]])
    assert beside.to_dict() == found.to_dict()
    ages = X[["group"]].assign(age=np.arange(len(X)) % 50)
    banded = compared(X[["income", "debts"]], y, sensitive_features=ages, sensitive_bands={"age": [25]})
    assert [c.name for c in banded.comparisons][2:4] == ["age = 25 and over", "age = under 25"]


def test_small_groups_are_left_out_and_it_says_so():
    X, y, _ = loans()
    X.loc[:20, "group"] = "rare"
    found = compared(X, y)
    assert found.left_out == ("group = rare is left out: 21 rows, and 30 are needed.",)
    assert np.isnan(found.doubt[:21]).all()
    assert found.to_frame()["rank"].isna().sum() == 21
    alike = y.where(X["group"] != "a", "yes")
    X["group"] = X["group"].replace("rare", "b")
    assert compared(X, alike).left_out == ("group = b is left out: the other groups' labels are all alike.",)


def test_weights_missing_values_and_wide_categories_are_taken():
    X, y, _ = loans()
    X.loc[::7, "income"] = np.nan
    X.loc[::5, "town"] = None
    X["code"] = [f"c{k % 150}" for k in range(len(X))]
    weight = np.where(y == "yes", 2.0, 1.0)
    found = compared(X, y, sample_weight=weight)
    ours = (X["group"] == "a").to_numpy()
    granted = (y == "yes").to_numpy()
    assert found.of_group("a").recorded == pytest.approx(np.average(granted[ours], weights=weight[ours]))
    assert np.isfinite(found.doubt).all()


def test_a_frame_per_group_and_the_labels_by_rank():
    X, y, _ = loans()
    found = compared(X, y)
    assert list(found.by_group.index) == [("group", "a"), ("group", "b")]
    frame = found.to_frame()
    short = [c.group for c in found.comparisons if c.missing]
    first = frame[frame["group"].isin(short)] if short else frame
    assert first["doubt"].idxmax() == frame["rank"].idxmin()
    assert convert(found.to_dict()["groups"][0], GroupStandard) == found.comparisons[0]


def test_labels_of_groups_that_fall_short_come_first_the_more_doubted_the_sooner():
    X, y, _ = loans(300, wronged=0.4)
    found = compared(X, y, standard=LogisticRegression())
    assert found.of_group("b").missing > 0 == found.of_group("a").missing
    ranked = found.to_frame().sort_values("rank")
    assert ranked["group"].tolist() == ["b"] * found.of_group("b").rows + ["a"] * found.of_group("a").rows
    for _, doubt in ranked.groupby("group")["doubt"]:
        assert doubt.is_monotonic_decreasing


@pytest.mark.parametrize("expected", [0.4, 0.6])
def test_p_counts_differences_as_large_in_either_direction(expected):
    shuffled = (0.2, -0.2, 0.05, 0.0)
    group = GroupStandard("sex", "f", 100, 0.5, expected, shuffled, doubts=(), shuffled_doubts=())
    assert group.p == 3 / 5


class Impatient(Progress):
    """Presses Ctrl-C after three tables."""

    left = 3

    def advance(self, count):
        self.left -= count
        if self.left == 0:
            press()


def test_ctrl_c_keeps_the_shuffles_that_are_done():
    X, y, _ = loans(200)
    found = compared(X, y, shuffles=20, progress=Impatient())
    assert found.interrupted
    assert found.shuffles == 2
    assert found.of_group("a").p >= 1 / 3


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"adverse": "maybe"}, SettingError, "adverse='maybe' is not a label; the labels are"),
        ({"sensitive_features": ["a"] * 400}, SettingError, "has one value only"),
        ({"sensitive_features": "label"}, TableError, "tells every label"),
        ({"shuffles": -1}, SettingError, "shuffles=-1 must be"),
        ({"standard": StandardScaler()}, SettingError, "fit and predict_proba"),
        ({"standard": make_pipeline(GaussianNB())}, LearnerError, "GaussianNB, cannot be trained"),
    ],
)
def test_what_cannot_be_compared_gets_a_sentence(change, error, sentence):
    X, y, _ = loans()
    X["label"] = y
    with pytest.raises(error, match=sentence):
        compared(X, y, **change)


def test_labels_that_are_all_alike_and_tables_of_nothing_else():
    X, y, _ = loans()
    with pytest.raises(TableError, match="needs another label"):
        compared(X, y.mask(y != "no", "no"))
    with pytest.raises(TableError, match="no column but the protected"):
        compared(X[["group"]], y)


@pytest.mark.parametrize("count", [0, 1, 7, 29, 30, 31])
def test_labels_are_spread_in_proportion_and_exactly_as_many(count):
    weight = np.sort(np.random.default_rng(0).random(30))[::-1] ** 3
    taken = _spread(weight, count)
    assert taken.sum() == min(count, 30)
    if 1 < count < 30:
        assert weight[taken].mean() > weight[~taken].mean()


def test_limited_time_ends_the_shuffles():
    X, y, _ = loans(200)
    favourable = (y == "yes").to_numpy()
    sensitive = Sensitive.of("group", X)
    found = compare(X, favourable, [sensitive], names=("no", "yes"), shuffles=50, n_jobs=2, seconds=0.0)
    assert found.shuffles == 0
    assert not found.interrupted
    assert np.isfinite(found.doubt).all()


def test_embedded_sets_are_spoken_of_by_their_labels_names():
    data = butfor.load_dataset("german")
    for adverse in ("bad credit", 0):
        found = butfor.compare_standards(
            data.X_train, data.y_train, sensitive_features="sex", adverse=adverse, shuffles=0, n_jobs=1
        )
        assert found.of_group("female").recorded == pytest.approx(
            (data.y_train[data.X_train["sex"] == "female"] == 1).mean()
        )
        assert found.favourable == ("good credit" if adverse else "1")
