"""The encoder: widths, scales, names, what is missing, unknown or rare, and a sentence for every
bad cell."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from butfor import TableEncoder

PEOPLE = pd.DataFrame(
    {"age": [20, 30, 40, 50], "job": ["cook", "nurse", "cook", "judge"], "member": [True, False, True, True],
     "constant": 7.0}, index=[11, 12, 13, 14],
)  # fmt: skip
HOLED = PEOPLE.assign(age=[20, np.nan, 40, 90], job=["cook", None, "cook", "judge"])


def test_numbers_are_scaled_on_the_training_rows_alone():
    standard = TableEncoder().fit(PEOPLE[["age"]])
    encoded, later = standard.transform(PEOPLE[["age"]]), pd.DataFrame({"age": [35, 60]})
    assert (encoded.mean(), encoded.std()) == pytest.approx((0, 1), abs=1e-6)
    assert standard.transform(later)[0, 0] == 0
    assert TableEncoder(numeric="minmax").fit(PEOPLE[["age"]]).transform(later)[
        :, 0
    ] == pytest.approx([0.5, 4 / 3])
    assert TableEncoder(numeric="raw", dtype="float64").fit(PEOPLE).transform(PEOPLE)[
        :, 0
    ].tolist() == [20, 30, 40, 50]
    tenth = pd.DataFrame({"x": [0.1] * 10})  # its computed deviation is not exactly 0
    for numeric in ("standard", "minmax"):
        assert not TableEncoder(numeric=numeric).fit_transform(PEOPLE[["constant"]]).any()
        assert not TableEncoder(numeric=numeric).fit_transform(tenth).any()


def test_columns_are_named_and_found_by_name_codes_keep_an_order_and_an_embedding_its_seed():
    encoder = TableEncoder().fit(PEOPLE)
    names = ["age", "job=cook", "job=judge", "job=nurse", "member=False", "member=True", "constant"]
    assert list(encoder.get_feature_names_out()) == names
    assert list(TableEncoder("embed").fit(PEOPLE[["job"]]).get_feature_names_out()) == [
        "job[0]",
        "job[1]",
    ]
    assert np.array_equal(
        encoder.transform(PEOPLE), encoder.transform(PEOPLE[PEOPLE.columns[::-1]])
    )
    codes = TableEncoder("ordinal").fit_transform(PEOPLE[["job"]])[:, 0]
    assert codes[0] == codes[2] < codes[3] < codes[1]
    for table, later, places in (
        (PEOPLE, ["cook", "nurse", "pilot", None], [0, 2, 3, 3]),
        (HOLED, ["cook", "judge", None, "pilot"], [0, 1, 2, 2]),
    ):
        ordinal = TableEncoder("ordinal", "raw").fit(table[["job"]])
        assert ordinal.transform(pd.DataFrame({"job": later}))[:, 0].tolist() == places
    one = TableEncoder("embed").fit_transform(PEOPLE[["job", "age"]])[:, :2]
    assert np.array_equal(one, TableEncoder("embed").fit_transform(PEOPLE[["age", "job"]])[:, 1:])
    assert not np.array_equal(
        one, TableEncoder("embed", random_state=1).fit_transform(PEOPLE[["job"]])
    )


def test_numbers_are_summed_by_the_column_they_belong_to():
    for categorical in ("onehot", "embed", "ordinal"):
        encoder = TableEncoder(categorical).fit(HOLED)
        alone = [
            TableEncoder(categorical).fit_transform(HOLED[[column]]).sum(axis=1)
            for column in HOLED.columns
        ]
        assert encoder.by_column(encoder.transform(HOLED)) == pytest.approx(
            np.column_stack(alone), abs=1e-5
        )


def test_works_as_a_scikit_learn_transformer_and_takes_arrays():
    encoder = clone(TableEncoder("embed", random_state=3)).set_output(transform="pandas")
    frame = encoder.fit_transform(PEOPLE)
    assert list(frame.columns) == list(encoder.get_feature_names_out())
    assert list(frame.index) == list(PEOPLE.index)
    numbers = np.arange(40.0).reshape(20, 2)
    pipeline = make_pipeline(TableEncoder(dtype="float64"), LogisticRegression()).fit(
        numbers, [0, 1] * 10
    )
    assert pipeline[0].transform(numbers).dtype == np.float64
    assert pipeline.predict(numbers).shape == (20,)
    encoded = TableEncoder().fit_transform(np.array([[1, "a"], [3, "b"]], dtype=object))
    assert encoded.tolist() == [[-1, 1, 0], [1, 0, 1]]


# --- missing, unknown and rare values -------------------------------------------------------------


def test_a_missing_number_is_the_median_with_a_mark_and_a_missing_category_one_of_its_own():
    encoder = TableEncoder().fit(HOLED[["age", "job"]])
    assert list(encoder.get_feature_names_out()) == [
        "age",
        "age=missing",
        "job=cook",
        "job=judge",
        "job=missing",
    ]
    encoded = encoder.transform(HOLED[["age", "job"]])
    assert encoded[:, 1].tolist() == [0, 1, 0, 0]
    assert encoded[1, 0] == encoded[2, 0]  # 40, the median of 20, 40 and 90
    nothing = pd.Series([None, np.nan, pd.NA, "missing", "pilot"], dtype=object)
    later = encoder.transform(pd.DataFrame({"age": [None] * 5, "job": nothing}))
    assert later.tolist() == [encoded[1].tolist()] * 5
    assert encoded[1, 2:].tolist() == [0, 0, 1]
    for values in ([np.nan] * 4, [None] * 4):  # nothing is known of its scale
        empty = TableEncoder().fit(pd.DataFrame({"empty": values}))
        assert (
            np.abs(empty.transform(pd.DataFrame({"empty": [np.nan, 7.0]}, dtype=object))).max() <= 1
        )


def test_what_no_training_row_is_missing_or_has_becomes_nothing():
    encoder, first = TableEncoder().fit(PEOPLE), PEOPLE.iloc[[0]]
    person = encoder.transform(first.assign(age=None, job=None, member=None))[0]
    assert person[0] == encoder.transform(first.assign(age=35))[0, 0]
    assert not person[1:6].any()
    assert not encoder.transform(first.assign(job="pilot"))[0, 1:4].any()
    embedded = TableEncoder("embed", dtype="float64").fit(PEOPLE[["job"]])
    known = embedded.transform(pd.DataFrame({"job": ["cook", "judge", "nurse"]}))
    assert embedded.transform(pd.DataFrame({"job": ["pilot"]}))[0] == pytest.approx(
        known.mean(axis=0)
    )
    declared = pd.DataFrame({"code": pd.Series([1, 2], dtype=pd.CategoricalDtype([1, 2, 3]))})
    assert TableEncoder().fit(declared).transform(pd.DataFrame({"code": [3]})).tolist() == [
        [0, 0, 1]
    ]


def test_the_rarest_values_are_grouped_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    column = pd.DataFrame(
        {"town": rng.choice(list("abcdefgh"), 200, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])}
    )
    later = pd.concat([column, pd.DataFrame({"town": ["z"]})])
    ours = TableEncoder(max_categories=4).fit(column)
    theirs = OneHotEncoder(
        max_categories=4, sparse_output=False, handle_unknown="infrequent_if_exist"
    ).fit(column)
    assert np.array_equal(ours.transform(later), theirs.transform(later))
    assert ours.get_feature_names_out()[-1] == "town=other"
    unknown, grouped = ours.remarks(later)
    assert unknown.startswith("Values that no training row has: 'town' in 1 row.")
    assert "'town' has 8 different values: the 3 most frequent are kept" in grouped
    assert TableEncoder().fit(column).remarks(later) == [unknown]
    (said,) = TableEncoder().fit(HOLED).remarks(pd.concat([HOLED, HOLED.assign(job="cook")]))
    assert said.startswith("Missing values: 'age' in 2 rows, 'job' in 1 row. A missing category")
    assert TableEncoder().fit(PEOPLE).remarks(PEOPLE) == []
    towns = pd.DataFrame({"town": [f"t{k % 150}" for k in range(400)]})
    assert TableEncoder().fit(towns).n_features_out_ == 100
    assert TableEncoder(max_categories=150).fit(towns).n_features_out_ == 150


@pytest.mark.parametrize(
    ("settings", "change", "said"),
    [
        ({}, lambda t: t.assign(age=[1, 2, 3, None], job=None), "'age', row 14|'job', row 11 (and "
                                                                "3 more rows)"),
        ({}, lambda t: t.assign(age=[1, 2, 3, np.inf]), "'age'|row 14|infinite"),
        ({}, lambda t: pd.concat([t, t[["age"]]], axis=1), "'age'|needs a name of its own"),
        ({}, lambda t: t["age"].to_numpy(), "Expected 2D array"),
        ({"transform": True}, lambda t: t.assign(age=["1", "2", "x", "4"]), "'age'|row 13|'x'|not "
                                                                            "a number"),
        ({"transform": True}, lambda t: t.assign(age=[1, 2, 3, 1e20]), "'age'|row 14|too far from "
                                                                       "the training rows"),
        ({"transform": True}, lambda t: t.assign(job=["cook", "cook", "cook", "pilot"]), "row 14|'pilot'|'nurse'"),
        ({"transform": True}, lambda t: t.drop(columns="job"), "lacks 'job'"),
        ({"transform": True}, lambda t: t.assign(extra=1), "'extra'|drop it"),
        ({}, lambda t: t.assign(born=pd.Timestamp("2000-01-01")), "dates"),
        ({}, lambda t: t.iloc[:0], "has no rows"),
        ({}, lambda t: pd.concat([t, t]).assign(age=[*range(7), 1e30]), "'age', row 14 holds "
                                                                        "1e+30, which is too far"),
        ({}, lambda t: t.assign(age=[0, 1e-200, 2e-200, 3e-200]), "or too close to them"),
        ({}, lambda t: t.assign(age=[1, 2, 3, 1e200]), "'age', row 14 holds 1e+200, too large to "
                                                       "compute with"),
        ({}, lambda t: t.assign(age=[2**62, 2**62 + 1, 1, 2]), "beyond 2^53 cannot be told apart"),
        ({"categorical": "hash"}, lambda t: t, "onehot, embed, ordinal"),
        ({"missing": "guess"}, lambda t: t, "missing='guess' is not one of own, refuse"),
        ({"max_categories": 1}, lambda t: t, "max_categories=1 must be a whole number"),
    ],
)  # fmt: skip
def test_bad_cells_tables_and_settings_are_refused_with_their_place(settings, change, said):
    given = {"missing": "refuse", "unknown": "refuse"} | settings
    transforms, encoder = given.pop("transform", False), TableEncoder(**given)
    with pytest.raises(ValueError) as caught:
        encoder.fit(PEOPLE).transform(change(PEOPLE)) if transforms else encoder.fit(change(PEOPLE))
    for words in said.split("|"):
        assert words in str(caught.value)
