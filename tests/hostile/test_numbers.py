"""Numbers of any size: scaled, or refused with their row; never a zero, a NaN or a merged value in silence."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import TableEncoder
from butfor.errors import SettingError, TableError
from hostile.harness import attempt, audit, people, saved

LAST = 2**53


@pytest.mark.parametrize("power", [-150, -30, 0, 15, 30, 100, 150])
@pytest.mark.parametrize("numeric", ["standard", "minmax"])
def test_a_column_of_any_magnitude_is_scaled_alike(power, numeric):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=50).round(2)
    huge = pd.DataFrame({"x": numbers * 10.0**power, "word": "a"})
    plain = pd.DataFrame({"x": numbers, "word": "a"})
    expected = TableEncoder(numeric=numeric, dtype="float64").fit_transform(plain)
    given = TableEncoder(numeric=numeric, dtype="float64").fit_transform(huge)
    assert np.allclose(given, expected, atol=1e-9)
    assert len(np.unique(given[:, 0])) > 30


@pytest.mark.parametrize("value", ["1e155", "1e200", "-1e300", "1e308", "-1.7e308", "1e-200", "5e-324"])
def test_an_audit_of_such_columns_works_or_names_the_row(tmp_path, value):
    table = people()
    table["x"] = table["x"] / table["x"].abs().max() * float(value)
    ending = audit(saved(tmp_path, table))
    assert ending.code == 0 or "Column 'x', row" in ending.err


@pytest.mark.parametrize("value", [1.7e308, -1e200])
def test_a_constant_column_that_is_too_large_to_compute_with_is_refused_with_its_row(tmp_path, value):
    ending = audit(saved(tmp_path, people().assign(huge=value)))
    assert ending.code == 2
    assert "Column 'huge', row 0 (and 59 more rows) holds" in ending.err
    with pytest.raises(TableError, match="too large to compute with"):
        TableEncoder().fit(pd.DataFrame({"x": [value, value]}))


@pytest.mark.parametrize("value", ["1e20", "1e155", "-1e200", "1e308", "-1e308"])
def test_one_number_that_hides_the_others_is_refused_with_its_row(tmp_path, value):
    table = people()
    table["x"] = table["x"].astype(object)
    table.loc[7, "x"] = value
    ending = audit(saved(tmp_path, table), "--set", "split-seed=0")
    assert ending.code == 2
    assert "row 7" in ending.err
    assert "'x'" in ending.err


@pytest.mark.parametrize("value", ["1e20", "1e155", "1e308", "-1e308", "inf", "-inf", "Infinity"])
def test_an_outlier_among_the_test_people_alone_is_refused_with_its_row(tmp_path, value):
    new = people(seed=1).astype({"x": object})
    new.loc[3, "x"] = value
    ending = audit(saved(tmp_path), "--test", saved(tmp_path, new, "new.csv"))
    assert ending.code == 2
    assert "row 3" in ending.err


@pytest.mark.parametrize("first", [LAST, -(2**62), 2**63 - 100])
@pytest.mark.parametrize("model", ["mlp", "logistic"])
def test_whole_numbers_that_would_merge_are_refused(tmp_path, first, model):
    table = people().assign(account=[first + k for k in range(60)])
    few = [] if model == "mlp" else ["--model", model]
    arguments = ("--label", "granted", "--sensitive", "sex", "--members", 1, "--fresh-seeds", 0, "--quiet", "--json")
    ending = attempt("audit", saved(tmp_path, table), *arguments, *few)
    assert ending.code == 2
    assert "'account'" in ending.err
    assert "2^53" in ending.err


@pytest.mark.parametrize("step", [1, 2, 2**20])
def test_whole_numbers_that_stay_different_work(tmp_path, step):
    table = people().assign(account=[k * step for k in range(60)])
    assert audit(saved(tmp_path, table)).code == 0


@pytest.mark.parametrize("word", ["nan", "NaN", "NA", "", "null", "-nan"])
def test_missing_numbers_have_a_place_of_their_own(tmp_path, word):
    table = people().astype({"x": object})
    table.loc[::5, "x"] = word
    assert audit(saved(tmp_path, table)).code in (0, 2)


@pytest.mark.parametrize("encoding", ["onehot", "embed"])
def test_many_categories_are_grouped_and_more_than_fit_are_refused(encoding):
    table = pd.DataFrame({"name": [f"n{k}" for k in range(30_000)]})
    with pytest.raises(SettingError, match="max_categories=30000 must be a whole number from 2 to 1000"):
        TableEncoder(encoding, max_categories=30_000).fit(table)
    assert TableEncoder(encoding).fit_transform(table).shape[1] <= 100


def test_an_identifier_of_thirty_thousand_values_is_grouped(tmp_path):
    table = pd.concat([people(3000)], ignore_index=True).assign(name=[f"n{k}" for k in range(3000)])
    assert audit(saved(tmp_path, table), "--cases", "0:1").code == 0


number = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(number, min_size=2, max_size=30))
def test_whatever_numbers_are_given_the_encoded_ones_are_finite_or_refused(numbers):
    table = pd.DataFrame({"x": numbers})
    encoder = TableEncoder(dtype="float64")
    try:
        given = encoder.fit_transform(table)
    except TableError:
        different = np.unique(numbers)
        if np.abs(different).max() > 1e150 or np.ptp(different) < 1e-150:  # their squares cannot be computed
            return
        distance = np.sort(np.abs(different / 4 - np.median(different / 4)))
        assert distance[-1] / 1e13 > np.median(distance)
        return
    assert np.isfinite(given).all()


@pytest.mark.parametrize("value", [2**63, 2**64, -(2**70), 2**80, "9" * 400])
@pytest.mark.parametrize("every", [2, 7])
def test_whole_numbers_beyond_64_bits_are_refused_with_their_row(tmp_path, value, every):
    table = people().assign(account=[value if k % every == 1 else k % 5 for k in range(60)])
    ending = audit(saved(tmp_path, table))
    assert ending.code == 2
    assert "Column 'account', row 1" in ending.err
    assert audit(saved(tmp_path, table), "--drop", "account").code == 0
    named = people().assign(account=[f"{2**80 + k}" for k in range(60)])
    assert audit(saved(tmp_path, named), "--id", "account").code == 0


def test_an_audit_that_is_given_replays_groups_beside_the_table_and_rows_of_any_name():
    table = people().set_axis(pd.Index([10**400 + k for k in range(60)], dtype=object))
    blind = butfor.LabelAudit(LogisticRegression(), budget=20)
    blind.fit(table[["x", "debts"]], table["granted"], sensitive_features=table["sex"])
    population = blind.explain_all(table[["x", "debts"]], sensitive_features=table["sex"])
    found = butfor.Population.from_json(population.to_json()).found
    assert found
    assert butfor.replay(found[0], audit=blind).agrees
