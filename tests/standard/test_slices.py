"""Where a group falls short, and which of its labels are wrong where a column tells."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec import convert
from sklearn.ensemble import RandomForestClassifier

from butfor.standard.explain import MOST_KEPT_SLICES, Slice, Slicing
from recorded import compared


def loans(rows=1200, seed=0):
    """Loans decided by income alone, in three offices."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "group": rng.choice(["a", "b"], rows),
            "income": rng.normal(size=rows),
            "office": rng.choice(["north", "<b>south</b>", "west"], rows),
            "children": rng.integers(0, 4, rows),
            "case": [f"case {k}" for k in range(rows)],
        }
    )
    granted = rng.random(rows) < 1 / (1 + np.exp(-0.5 - 1.5 * X["income"]))
    return X, granted.to_numpy().copy()


def refused_where(X, granted, where, share, seed=1):
    luck = np.random.default_rng(seed).random(len(X)) < share
    return np.where(granted & (X["group"] == "b") & where & luck, False, granted)


@pytest.fixture(scope="module")
def in_one_office():
    X, granted = loans()
    labels = refused_where(X, granted, X["office"] == "<b>south</b>", 0.6)
    return X, granted & ~labels, compared(X, labels, draws=40)


def test_the_office_that_refuses_is_found_and_called(in_one_office):
    X, _, found = in_one_office
    first = found.parts[0]
    assert (first.group, first.column, first.value) == ("b", "office", "<b>south</b>")
    assert first.called
    assert first.rows == ((X["group"] == "b") & (X["office"] == "<b>south</b>")).sum()
    assert first.low < first.difference < first.high
    assert first.difference > first.elsewhere + 0.2
    assert "Where office = <b>south</b>, the gap of people with group = b is" in str(found)
    assert "<b>south" not in found.to_html()
    assert "case" not in set(found.slices["column"])
    assert "No slices by 'case': more than 1000 different values." in found.notes()


def test_slices_add_up_to_their_group(in_one_office):
    _, _, found = in_one_office
    b, frame = found.of_group("b"), found.slices
    frame = frame[(frame["group"] == "b") & (frame["column"] == "office")]
    assert frame["rows"].sum() == b.rows
    assert (frame["rows"] * frame["difference"]).sum() == pytest.approx(b.rows * b.difference)
    assert (frame["rows"] * frame["excess"]).sum() == pytest.approx(0, abs=1e-6)
    assert frame["share"].sum() == pytest.approx(1)
    rest = (b.rows * b.difference - frame["rows"] * frame["difference"]) / (b.rows - frame["rows"])
    np.testing.assert_allclose(frame["elsewhere"], rest)


def test_labels_lost_where_a_column_says_so_are_the_most_likely_wrong(in_one_office):
    X, lost, found = in_one_office
    adverse, south = (
        (found.groups == "b") & ~found.is_favourable,
        (X["office"] == "<b>south</b>").to_numpy(),
    )
    assert found.wrong[adverse & south].mean() > 2 * found.wrong[adverse & ~south].mean()
    first = np.argsort(-found.wrong)[: int(lost.sum())]
    assert found.wrong[first].mean() == pytest.approx(lost[first].mean(), abs=0.12)
    order = np.random.default_rng(5).permutation(len(X))
    np.testing.assert_allclose(found.of_rows(order).wrong, found.wrong[order])


def test_the_share_wrong_follows_from_the_share_lost_by_bayes():
    """Of labels that are favourable with probability p, half are lost: of the adverse ones p·r / (1
    − p + p·r)."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(
        {"group": rng.choice(["a", "b"], 4000), "office": rng.choice(["north", "south"], 4000)}
    )
    granted = rng.random(4000) < np.where(X["office"] == "north", 0.9, 0.3)
    found = compared(X, refused_where(X, granted, True, 0.5))
    for office, p in {"north": 0.9, "south": 0.3}.items():
        adverse = ((X["group"] == "b") & (X["office"] == office)).to_numpy() & ~found.is_favourable
        for probability in (
            found.wrong_if_real,
            found.suspect,
        ):  # with the group's shortfall, and before it
            np.testing.assert_allclose(probability[adverse], p * 0.5 / (1 - p + p * 0.5), atol=0.05)


def test_a_standard_that_is_too_certain_is_read_as_less_certain():
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.standard_normal((400, 12)), columns=[f"x{k}" for k in range(12)])
    X["group"] = np.where(np.arange(400) % 2 == 0, "b", "a")
    forest = RandomForestClassifier(20, min_samples_leaf=1, random_state=0)
    found = compared(X, rng.random(400) < 0.7, standard=forest)  # nothing foretells these labels
    adverse = (found.groups == "b") & ~found.is_favourable
    assert found.doubt[adverse].std() > 0.05
    assert found.suspect[adverse].std() < 0.05


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_shortfall_that_is_the_same_everywhere_calls_no_slice(share):
    X, granted = loans(seed=4)
    found = compared(X, refused_where(X, granted, True, share), draws=40)
    assert found.of_group("b").differs == (share > 0)
    assert len(found.slices) > 10
    assert not found.slices["called"].any()


def test_labels_that_are_all_alike_in_a_slice():
    X, granted = loans()
    found = compared(X, refused_where(X, granted, X["office"] == "west", 1.0), draws=20)
    west = next(s for s in found.parts if (s.group, s.value) == ("b", "west"))
    assert (west.recorded, west.called) == (0, True)
    assert np.isfinite([west.low, west.high, west.z]).all()


def test_quarters_of_numbers_and_values_of_few():
    X, _ = loans(200)
    X.loc[:39, "income"] = np.nan
    X["gain"] = np.where(np.arange(200) < 160, 0, np.arange(200))
    slicing = Slicing(X.drop(columns="group"))
    income = [value for column, value in slicing.names if column == "income"]
    assert len(income) == 5
    assert "missing" in income
    assert {value for column, value in slicing.names if column == "children"} == {
        "0",
        "1",
        "2",
        "3",
    }
    assert [value for column, value in slicing.names if column == "gain"] == [
        "160 and over",
        "under 160",
    ]
    assert (np.bincount(slicing.places.ravel()) >= 30).all()


def test_a_record_keeps_the_first_slices(in_one_office):
    _, _, found = in_one_office
    assert [convert(each, Slice) for each in found.to_dict()["slices"]] == list(found.parts)
    many = replace(
        found,
        parts=tuple(Slice("g", "b", "c", str(k), *[0.0] * 10) for k in range(MOST_KEPT_SLICES + 9)),
    )
    assert [s["value"] for s in many.to_dict()["slices"]] == [
        str(k) for k in range(MOST_KEPT_SLICES)
    ]
