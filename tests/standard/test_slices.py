"""Where a group falls short."""

import numpy as np
import pandas as pd
import pytest
from msgspec import convert

import butfor
from butfor.report.page import standard_page
from butfor.result.run import RecordedStandards
from butfor.standard.slices import MOST_KEPT, Means, Slice, Slicing, kept


def loans(rows=1200, seed=0):
    """Loans decided by income alone, in three offices."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "group": rng.choice(["a", "b"], rows),
            "income": rng.normal(size=rows),
            "office": rng.choice(["north", "<b>south</b>", "west"], rows),
            "children": rng.integers(0, 4, rows),
        }
    )
    granted = rng.random(rows) < 1 / (1 + np.exp(-0.5 - 1.5 * X["income"]))
    return X, granted.to_numpy().copy()


def refused_where(X, granted, where, share, seed=1):
    luck = np.random.default_rng(seed).random(len(X)) < share
    return np.where(granted & (X["group"] == "b") & where & luck, False, granted)


def compared(X, granted, **how):
    how = {"sensitive_features": "group", "adverse": "no", "draws": 60, "n_jobs": 1} | how
    return butfor.compare_standards(X, np.where(granted, "yes", "no"), **how)


@pytest.fixture(scope="module")
def in_one_office():
    X, granted = loans()
    return X, compared(X, refused_where(X, granted, X["office"] == "<b>south</b>", 0.6))


def test_the_office_that_refuses_is_found_and_called(in_one_office):
    X, found = in_one_office
    first = found.parts[0]
    assert (first.group, first.column, first.value) == ("b", "office", "<b>south</b>")
    assert first.called
    assert first.rows == ((X["group"] == "b") & (X["office"] == "<b>south</b>")).sum()
    assert first.low < first.difference < first.high
    assert first.difference > first.elsewhere + 0.2
    assert first.share > 0.5
    assert "Where office = <b>south</b>, the gap of group = b is" in str(found)
    assert first.sentence.endswith("over half of the shortfall is there.")


def test_the_sentence_compares_with_elsewhere_or_with_what_is_usual():
    shares = {"recorded": 0.1, "expected": 0.2, "difference": 0.1, "low": 0.05, "high": 0.15, "z": 4.0}
    few = Slice("g", "b", "race", "x", 50, **shares, elsewhere=0.1, excess=0.06, share=0.2, called=True)
    assert "is 10 points, 6 more than the group's own gap would make it; about 20 %" in few.sentence
    many = Slice("g", "b", "race", "x", 50, **shares, elsewhere=0.02, excess=0.06, share=0.95, called=True)
    assert "is 10 points, 8 more than elsewhere; almost all of the shortfall" in many.sentence


def test_slices_add_up_to_their_group(in_one_office):
    _, found = in_one_office
    b = found.of_group("b")
    frame = found.slices[(found.slices["group"] == "b") & (found.slices["column"] == "office")]
    assert frame["rows"].sum() == b.rows
    assert (frame["rows"] * frame["difference"]).sum() == pytest.approx(b.rows * b.difference)
    assert (frame["rows"] * frame["excess"]).sum() == pytest.approx(0, abs=1e-6)
    assert frame["share"].sum() == pytest.approx(1)
    rest = (b.rows * b.difference - frame["rows"] * frame["difference"]) / (b.rows - frame["rows"])
    np.testing.assert_allclose(frame["elsewhere"], rest)
    assert (frame["expected"] - frame["recorded"] - frame["difference"]).abs().max() < 1e-12


def test_quarters_of_numbers_and_values_of_few():
    X, _ = loans(200)
    X.loc[:39, "income"] = np.nan
    X["gain"] = np.where(np.arange(200) < 160, 0, np.arange(200))
    slicing = Slicing.of(X.drop(columns="group"))
    income = [value for column, value in slicing.names if column == "income"]
    assert len(income) == 5
    assert "missing" in income
    assert {value for column, value in slicing.names if column == "children"} == {"0", "1", "2", "3"}
    assert [value for column, value in slicing.names if column == "gain"] == ["160 and over", "under 160"]
    assert (np.bincount(slicing.places.ravel()) >= 30).all()
    near = np.arange(70) < 50
    everybody, comparable, *slices = Means.of(slicing, np.arange(70), near, np.ones(70)).sums(np.ones(70))
    assert (everybody, comparable) == (70, 50)
    assert slices
    assert all(30 <= count <= 40 for count in slices)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_shortfall_that_is_the_same_everywhere_calls_no_slice(share):
    X, granted = loans(seed=4)
    found = compared(X, refused_where(X, granted, True, share))
    assert found.of_group("b").differs == (share > 0)
    assert len(found.slices) > 10
    assert not found.slices["called"].any()


def test_labels_all_alike_in_a_slice_and_a_column_of_thousands_of_values():
    X, granted = loans()
    X["case"] = [f"case {k}" for k in range(len(X))]
    found = compared(X, refused_where(X, granted, X["office"] == "west", 1.0), draws=20)
    slice_ = next(s for s in found.parts if (s.group, s.value) == ("b", "west"))
    assert slice_.recorded == 0
    assert np.isfinite([slice_.low, slice_.high, slice_.z]).all()
    assert slice_.called
    assert "case" not in set(found.slices["column"])
    assert "No slices by 'case': more than 1000 different values." in found.notes()


def test_a_record_keeps_the_first_slices_of_each_group(in_one_office):
    _, found = in_one_office
    record = found.to_dict()["slices"]
    assert [convert(each, Slice) for each in record] == list(found.parts)
    assert RecordedStandards.of(found).parts == found.parts
    many = [Slice("g", group, "c", str(k), *[0.0] * 10) for k in range(60) for group in "ab"]
    assert [s.value for s in kept(many) if s.group == "b"] == [str(k) for k in range(MOST_KEPT)]


def test_the_page_shows_them_and_escapes_their_names(in_one_office):
    _, found = in_one_office
    page = standard_page(found)
    assert "Where is it?" in page
    assert "more than chance" in page
    assert "office = &lt;b&gt;south&lt;/b&gt;" in page.replace("\xa0", " ")
    assert "<b>south" not in page


def test_without_draws_there_are_none():
    X, granted = loans(300)
    found = compared(X, granted, draws=0)
    assert found.slices.empty
    assert list(found.slices.columns)[:4] == ["attribute", "group", "column", "value"]
