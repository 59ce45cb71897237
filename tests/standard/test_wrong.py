"""How likely each label is wrong."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

from butfor import compare_standards
from butfor.errors import SettingError
from butfor.standard.wrong import with_sum


@pytest.fixture(scope="module")
def short():
    """A group `b` that lacks a third of its favourable labels, compared with `a`."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"x": rng.standard_normal(600), "group": np.where(np.arange(600) % 3 == 0, "b", "a")})
    y = (rng.random(600) < 1 / (1 + np.exp(-1 - 1.5 * X["x"]))) & ~((X["group"] == "b") & (rng.random(600) < 0.35))
    return X, y.astype(int), compare_standards(X, y.astype(int), sensitive_features="group", adverse=0, n_jobs=1)


def test_wrong_labels_sum_to_the_shortfall(short):
    X, y, found = short
    b = found.of_group("b")
    assert b.difference > 0.1
    assert b.error > 0
    ours = (X["group"] == "b").to_numpy()
    assert found.wrong[ours].sum() == pytest.approx(b.difference * ours.sum(), rel=1e-6)
    assert (found.wrong[~ours] == 0).all()
    assert (found.wrong[(y == 1).to_numpy()] == 0).all()
    assert ((found.wrong >= 0) & (found.wrong <= 1)).all()


def test_wrong_grows_with_the_difference(short):
    _, y, found = short
    steps = [found.wrong_at("b", difference) for difference in (-0.1, 0.0, 0.05, 0.1, 0.2, 0.9)]
    assert (np.diff(steps, axis=0) >= 0).all()
    assert not steps[0].any()
    assert not steps[1].any()
    adverse = (found.groups == "b") & (y == 0).to_numpy()
    assert (steps[-1] == adverse).all()  # more than there are
    with pytest.raises(SettingError, match="'c' was not compared"):
        found.wrong_at("c", 0.1)


def test_wrong_of_some_rows_goes_by_them(short):
    _, _, found = short
    rows = np.arange(0, 600, 2)
    part = found.of_rows(rows)
    assert part.wrong.sum() == pytest.approx(found.of_group("b").difference * (part.groups == "b").sum(), rel=1e-6)
    assert np.array_equal(np.argsort(part.wrong, kind="stable"), np.argsort(found.wrong[rows], kind="stable"))


@pytest.mark.parametrize("total", [-1, 0, 0.3, 2, 3.9, 4, 9])
def test_odds_are_scaled_to_a_sum(total):
    given = np.array([0.0, 0.2, 0.9, 1.0])
    scaled = with_sum(given, total)
    assert scaled.sum() == pytest.approx(np.clip(total, 0, 4), abs=1e-6)
    assert (np.diff(scaled) >= 0).all()
    assert with_sum(given[:0], total).shape == (0,)


def test_permuted_rows_have_permuted_probabilities(short):
    X, y, found = short
    order = np.random.default_rng(5).permutation(len(X))
    np.testing.assert_allclose(found.of_rows(order).wrong, found.wrong[order])
    again = compare_standards(X.iloc[order], y.iloc[order], sensitive_features="group", adverse=0, draws=0, n_jobs=1)
    before = found.wrong_at("b", 0.2)[order]  # folds are others, so the numbers are not quite the same
    assert np.corrcoef(again.wrong_at("b", 0.2), before)[0, 1] > 0.97


def test_labels_lost_where_a_column_says_so_are_the_most_likely_wrong():
    rng = np.random.default_rng(8)
    X = pd.DataFrame({"x": rng.standard_normal(1500), "office": rng.choice(["north", "south", "west"], 1500)})
    X["group"] = np.where(np.arange(1500) % 3 == 0, "b", "a")
    right = rng.random(1500) < 1 / (1 + np.exp(-1 - X["x"]))
    lost = right & (X["group"] == "b") & (X["office"] == "south") & (rng.random(1500) < 0.6)
    found = compare_standards(X, (right & ~lost).astype(int), sensitive_features="group", adverse=0, n_jobs=1)
    adverse = (found.groups == "b") & ~found.is_favourable
    south = adverse & (X["office"] == "south").to_numpy()
    assert found.wrong[south].mean() > 2 * found.wrong[adverse & ~south].mean()
    first = np.argsort(-found.wrong)[: int(lost.sum())]
    assert found.wrong[first].mean() == pytest.approx(lost[first].mean(), abs=0.12)


def test_a_standard_that_is_too_certain_is_read_as_less_certain():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.standard_normal((400, 12)), columns=[f"x{k}" for k in range(12)])
    X["group"] = np.where(np.arange(400) % 2 == 0, "b", "a")
    y = (rng.random(400) < 0.7).astype(int)  # nothing foretells it
    forest = RandomForestClassifier(20, min_samples_leaf=1, random_state=0)
    found = compare_standards(X, y, sensitive_features="group", adverse=0, draws=0, standard=forest, n_jobs=1)
    adverse = (found.groups == "b") & ~found.is_favourable
    assert found.doubt[adverse].std() > 0.05
    assert found.suspect[adverse].std() < 0.05
