"""Numbers of any size: scaled, or refused with their row; never a zero, a NaN or a merged value in silence."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import TableEncoder
from butfor.errors import TableError
from hostile.harness import audit, people, saved

number = st.floats(allow_nan=False, allow_infinity=False, width=64)


@pytest.mark.parametrize("numeric", ["standard", "minmax"])
def test_a_column_of_any_magnitude_is_scaled_alike(numeric):
    numbers = np.random.default_rng(0).normal(size=50).round(2)
    for power in (-150, -30, 15, 150):
        frames = [pd.DataFrame({"x": numbers * scale}) for scale in (1, 10.0**power)]
        scaled = [TableEncoder(numeric=numeric, dtype="float64").fit_transform(frame) for frame in frames]
        assert np.allclose(*scaled, atol=1e-9)
        assert len(np.unique(scaled[1])) > 30


def in_row(row: int, value: object, **more: object) -> pd.DataFrame:
    table = people(**more).astype({"x": object})
    table.loc[row, "x"] = value
    return table


LARGEST = people()["x"].abs().max()
REFUSED = {
    "Column 'x', row ": [
        people().assign(x=lambda t, scale=scale: t["x"] / LARGEST * scale) for scale in (1e155, 1.7e308, 1e-200, 5e-324)
    ],
    "Column 'huge', row 0 (and 59 more rows) holds": [people().assign(huge=value) for value in (1.7e308, -1e200)],
    "'x', row 7 ": [in_row(7, value) for value in ("1e20", "1e155", "-1e308")],
    "2^53": [people().assign(account=range(first, first + 60)) for first in (2**53, -(2**62), 2**63 - 100)],
    "Column 'account', row 1": [
        people().assign(account=[value if k % 7 == 1 else k % 5 for k in range(60)])
        for value in (2**63, 2**64, 2**80, "9" * 400)
    ],
}


@pytest.mark.parametrize("words", REFUSED)
def test_numbers_that_cannot_be_computed_with_are_refused_with_their_place(tmp_path, words):
    for table in REFUSED[words]:
        ending = audit(saved(tmp_path, table), "--set", "split-seed=0", model="mlp")
        assert (ending.code, words in ending.err) == (2, True), ending.err
    if "account" in words:
        assert audit(saved(tmp_path, table), "--drop", "account").code == 0


def test_an_outlier_among_the_test_people_alone_is_refused_with_its_row(tmp_path):
    for value in ("1e20", "-1e308", "inf", "-Infinity"):
        new = saved(tmp_path, in_row(3, value, seed=1), "new.csv")
        ending = audit(saved(tmp_path), "--test", new, model="mlp")
        assert (ending.code, "row 3" in ending.err) == (2, True)


def test_whole_numbers_of_any_size_may_name_the_rows_or_stay_different(tmp_path):
    assert audit(saved(tmp_path, people().assign(account=range(0, 60 * 2**20, 2**20)))).code == 0
    assert audit(saved(tmp_path, people().assign(account=[f"n{2**80 + k}" for k in range(60)]))).code == 0
    named = people().assign(account=[f"{2**80 + k}" for k in range(60)])
    assert audit(saved(tmp_path, named), "--id", "account").code == 0
    table = people().set_axis(pd.Index([10**400 + k for k in range(60)], dtype=object))
    blind = butfor.LabelAudit(LogisticRegression(), budget=20)
    blind.fit(table[["x", "debts"]], table["granted"], sensitive_features=table["sex"])
    population = blind.explain_all(table[["x", "debts"]], sensitive_features=table["sex"], cases=range(20))
    found = butfor.Population.from_json(population.to_json()).found
    assert found
    assert butfor.replay(found[0], audit=blind).agrees


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(number, min_size=2, max_size=30))
def test_whatever_numbers_are_given_the_encoded_ones_are_finite_or_refused(numbers):
    try:
        encoded = TableEncoder(dtype="float64").fit_transform(pd.DataFrame({"x": numbers}))
    except TableError:
        different = np.unique(numbers)
        if np.abs(different).max() > 1e150 or np.ptp(different) < 1e-150:  # their squares cannot be computed
            return
        distance = np.sort(np.abs(different / 4 - np.median(different / 4)))
        assert distance[-1] / 1e13 > np.median(distance)
        return
    assert np.isfinite(encoded).all()
