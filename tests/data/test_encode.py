"""The encoder: widths, scales, names, switching a value, and a sentence for every bad cell."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from butfor import MLP, TableEncoder, load_dataset
from butfor.errors import SettingError, TableError

EMBEDDED = {"salary": 5, "student": 36, "german": 36, "compas": 13, "default": 27, "adult": 28}


@pytest.fixture
def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "job": ["cook", "nurse", "cook", "judge"],
            "member": [True, False, True, True],
            "constant": [7.0, 7.0, 7.0, 7.0],
        },
        index=[11, 12, 13, 14],
    )


@pytest.mark.parametrize("name", EMBEDDED)
def test_embedding_gives_the_published_input_width(name):
    data = load_dataset(name)
    encoder = TableEncoder("embed").fit(data.X_train)
    assert encoder.transform(data.X_test).shape == (len(data.X_test), EMBEDDED[name])
    assert len(encoder.get_feature_names_out()) == EMBEDDED[name]


def test_numbers_are_scaled_on_the_training_rows_alone(people):
    standard = TableEncoder().fit(people[["age"]])
    assert standard.transform(people[["age"]]).mean() == pytest.approx(0, abs=1e-6)
    assert standard.transform(people[["age"]]).std() == pytest.approx(1, abs=1e-6)
    later = pd.DataFrame({"age": [35, 60]})
    assert standard.transform(later)[0, 0] == 0
    minmax = TableEncoder(numeric="minmax").fit(people[["age"]])
    assert minmax.transform(later)[:, 0] == pytest.approx([0.5, 4 / 3])


def test_a_constant_column_becomes_zeros(people):
    for numeric in ("standard", "minmax"):
        encoded = TableEncoder(numeric=numeric).fit_transform(people[["constant"]])
        assert (encoded == 0).all()
    tenth = pd.DataFrame({"x": [0.1] * 10})  # its computed deviation is not exactly 0
    assert (TableEncoder().fit_transform(tenth) == 0).all()


def test_feature_names_say_where_they_come_from(people):
    names = TableEncoder().fit(people).get_feature_names_out()
    assert list(names) == [
        "age", "job=cook", "job=judge", "job=nurse", "member=False", "member=True", "constant",
    ]  # fmt: skip
    assert list(TableEncoder("embed").fit(people[["job"]]).get_feature_names_out()) == ["job[0]", "job[1]"]


def test_ordinal_keeps_the_order_of_the_values(people):
    codes = TableEncoder("ordinal").fit_transform(people[["job"]])[:, 0]
    assert codes[0] == codes[2] < codes[3] < codes[1]


def test_an_embedding_depends_on_seed_and_name_not_on_position(people):
    one = TableEncoder("embed").fit_transform(people[["job", "age"]])[:, :2]
    other = TableEncoder("embed").fit_transform(people[["age", "job"]])[:, 1:]
    assert np.array_equal(one, other)
    assert not np.array_equal(one, TableEncoder("embed", random_state=1).fit_transform(people[["job"]]))


@pytest.mark.parametrize("categorical", ["onehot", "embed", "ordinal"])
def test_numbers_are_summed_by_the_column_they_belong_to(people, categorical):
    encoder = TableEncoder(categorical).fit(people)
    encoded = encoder.transform(people)
    alone = [TableEncoder(categorical).fit_transform(people[[column]]).sum(axis=1) for column in people.columns]
    assert encoder.by_column(encoded) == pytest.approx(np.column_stack(alone), abs=1e-5)


def test_doubles_where_they_are_asked_for(people):
    assert TableEncoder(dtype="float64").fit_transform(people).dtype == np.float64
    with pytest.raises(SettingError, match="float32, float64"):
        TableEncoder(dtype="int8").fit(people)


def test_columns_are_found_by_name(people):
    encoder = TableEncoder().fit(people)
    assert np.array_equal(encoder.transform(people), encoder.transform(people[people.columns[::-1]]))


def test_declared_categories_count_even_where_training_lacks_them():
    dtype = pd.CategoricalDtype([1, 2, 3])
    encoder = TableEncoder().fit(pd.DataFrame({"code": pd.Series([1, 2], dtype=dtype)}))
    assert encoder.transform(pd.DataFrame({"code": [3]})).tolist() == [[0, 0, 1]]


def test_works_as_a_scikit_learn_transformer(people):
    encoder = clone(TableEncoder("embed", random_state=3)).set_output(transform="pandas")
    frame = encoder.fit_transform(people)
    assert list(frame.columns) == list(encoder.get_feature_names_out())
    assert list(frame.index) == list(people.index)
    numbers = np.arange(40.0).reshape(20, 2)
    pipeline = make_pipeline(TableEncoder(), MLP(hidden=(4,), max_epochs=3)).fit(numbers, [0, 1] * 10)
    assert pipeline.predict(numbers).shape == (20,)


def test_an_object_array_is_a_table_too():
    encoded = TableEncoder().fit_transform(np.array([[1, "a"], [3, "b"]], dtype=object))
    assert encoded.tolist() == [[-1, 1, 0], [1, 0, 1]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.assign(job=["cook", None, "cook", "cook"]), ["'job'", "row 12", "missing"]),
        (lambda t: t.assign(age=[1, 2, np.nan, np.nan]), ["'age'", "row 13", "1 more row", "missing"]),
        (
            lambda t: t.assign(age=[1, 2, 3, np.nan], job=["cook", None, None, "cook"]),
            ["'age', row 14", "'job', row 12 (and 1 more row)"],
        ),
        (lambda t: t.assign(age=[1, 2, 3, np.inf]), ["'age'", "row 14", "infinite"]),
        (lambda t: t.assign(age=["1", "2", "x", "4"]), ["'age'", "row 13", "'x'", "not a number"]),
        (
            lambda t: t.assign(job=["cook", "cook", "cook", "pilot"]),
            ["'job'", "row 14", "'pilot'", "'nurse'"],
        ),
        (lambda t: t.drop(columns="job"), ["'job'", "missing"]),
        (lambda t: t.assign(extra=1), ["'extra'", "drop it"]),
        (lambda t: pd.concat([t, t[["age"]]], axis=1), ["'age'", "more than once"]),
    ],
)
def test_bad_cells_are_named(people, change, said):
    encoder = TableEncoder(missing="refuse", unknown="refuse").fit(people)
    with pytest.raises(TableError) as caught:
        encoder.transform(change(people))
    for words in said:
        assert words in str(caught.value)


def test_bad_training_tables_and_settings_are_refused(people):
    with pytest.raises(TableError, match="'age', row 11 is missing"):
        TableEncoder(missing="refuse").fit(people.assign(age=[np.nan, 1, 2, 3]))
    with pytest.raises(TableError, match="dates"):
        TableEncoder().fit(people.assign(born=pd.Timestamp("2000-01-01")))
    with pytest.raises(TableError, match="0 rows"):
        TableEncoder().fit(people.iloc[:0])
    with pytest.raises(SettingError, match="onehot, embed, ordinal"):
        TableEncoder("hash").fit(people)
    with pytest.raises(SettingError, match="standard, minmax, raw"):
        TableEncoder(numeric="log").fit(people)
    for name in ("missing", "unknown"):
        with pytest.raises(SettingError, match=f"{name}='guess' is not one of own, refuse"):
            TableEncoder(**{name: "guess"}).fit(people)
    for most in (1, 2.5):
        with pytest.raises(SettingError, match=f"max_categories={most} must be a whole number"):
            TableEncoder(max_categories=most).fit(people)


# --- missing, unknown and rare values --------------------------------------------------------------------


@pytest.fixture
def holed(people) -> pd.DataFrame:
    return people.assign(age=[20, np.nan, 40, 60], job=["cook", None, "cook", "judge"])


def test_a_missing_number_is_the_median_with_a_mark(holed):
    encoder = TableEncoder().fit(holed[["age"]])
    assert list(encoder.get_feature_names_out()) == ["age", "age=missing"]
    encoded = encoder.transform(holed[["age"]])
    assert encoded[:, 1].tolist() == [0, 1, 0, 0]
    assert encoded[1, 0] == encoded[2, 0]  # 40, the median of 20, 40 and 60
    assert encoder.transform(pd.DataFrame({"age": [None]})).tolist() == [encoded[1].tolist()]


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_a_missing_category_is_one_of_its_own(holed, nothing):
    encoder = TableEncoder().fit(holed[["job"]])
    assert list(encoder.get_feature_names_out()) == ["job=cook", "job=judge", "job=missing"]
    assert encoder.transform(holed[["job"]])[1].tolist() == [0, 0, 1]
    later = pd.DataFrame({"job": pd.Series([nothing, "missing", "pilot"], dtype=object)})
    assert encoder.transform(later).tolist() == [[0, 0, 1]] * 3


@pytest.mark.parametrize("categorical", ["onehot", "embed", "ordinal"])
def test_marks_and_missing_categories_belong_to_their_column(holed, categorical):
    encoder = TableEncoder(categorical).fit(holed)
    alone = [TableEncoder(categorical).fit_transform(holed[[column]]).sum(axis=1) for column in holed.columns]
    assert encoder.by_column(encoder.transform(holed)) == pytest.approx(np.column_stack(alone), abs=1e-5)


def test_what_no_training_row_is_missing_has_no_column_for_it(people):
    encoder = TableEncoder().fit(people)
    assert encoder.n_features_out_ == 7
    person = encoder.transform(people.iloc[[0]].assign(age=None, job=None, member=None))[0]
    assert person[0] == encoder.transform(people.iloc[[0]].assign(age=35))[0, 0]
    assert person[1:6].tolist() == [0] * 5


@pytest.mark.parametrize("values", [[np.nan] * 4, [None] * 4])
def test_a_column_without_any_value_says_nothing(values):
    encoder = TableEncoder().fit(pd.DataFrame({"empty": values}))
    encoded = encoder.transform(pd.DataFrame({"empty": [np.nan, 7.0]}, dtype=object))
    assert np.isfinite(encoded).all()
    assert np.abs(encoded).max() <= 1


def test_unknown_categories_have_a_place(people):
    later = pd.DataFrame({"job": ["pilot"]})
    assert TableEncoder().fit(people[["job"]]).transform(later).tolist() == [[0, 0, 0]]
    embedded = TableEncoder("embed", dtype="float64").fit(people[["job"]])
    known = embedded.transform(pd.DataFrame({"job": ["cook", "judge", "nurse"]}))
    assert embedded.transform(later)[0] == pytest.approx(known.mean(axis=0))
    ordinal = TableEncoder("ordinal", "raw").fit(people[["job"]])
    assert ordinal.transform(pd.DataFrame({"job": ["cook", "nurse", "pilot", None]}))[:, 0].tolist() == [0, 2, 3, 3]


def test_the_ordinal_code_of_missing_is_that_of_unknown_ones(holed):
    ordinal = TableEncoder("ordinal", "raw").fit(holed[["job"]])
    assert ordinal.transform(pd.DataFrame({"job": ["cook", "judge", None, "pilot"]}))[:, 0].tolist() == [0, 1, 2, 2]


def test_the_rarest_values_are_grouped_as_scikit_learn_does():
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(0)
    column = pd.DataFrame({"town": rng.choice(list("abcdefgh"), 200, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.03, 0.02])})
    ours = TableEncoder(max_categories=4).fit(column)
    theirs = OneHotEncoder(max_categories=4, sparse_output=False, handle_unknown="infrequent_if_exist").fit(column)
    later = pd.concat([column, pd.DataFrame({"town": ["z"]})])
    assert np.array_equal(ours.transform(later), theirs.transform(later))
    assert ours.get_feature_names_out()[-1] == "town=other"
    apart = TableEncoder().fit(column)
    assert not apart.transform(later)[-1].any()
    unknown = (
        "Values that no training row has: 'town' in 1 row. They count as 'other' or as missing if the training "
        "rows have these, otherwise as an unknown value."
    )
    assert apart.remarks(later) == [unknown]
    assert ours.remarks(later) == [
        unknown,
        "'town' has 8 different values: the 3 most frequent are kept, the others count as 'other'.",
    ]


def test_more_than_a_hundred_values_are_grouped_unasked():
    towns = pd.DataFrame({"town": [f"t{k % 150}" for k in range(400)]})
    encoder = TableEncoder().fit(towns)
    assert encoder.n_features_out_ == 100
    assert "'town' has 150 different values: the 99 most frequent" in encoder.remarks(towns)[0]
    assert TableEncoder(max_categories=150).fit(towns).n_features_out_ == 150
    assert TableEncoder().fit(towns[towns["town"].isin([f"t{k}" for k in range(100)])]).remarks(towns[:100]) == []


def test_remarks_name_columns_and_count_rows(people, holed):
    assert TableEncoder().fit(people).remarks(people) == []
    (said,) = TableEncoder().fit(holed).remarks(pd.concat([holed, holed.assign(job="cook")]))
    assert said.startswith("Missing values: 'age' in 2 rows, 'job' in 1 row. A missing category")
    (said,) = TableEncoder().fit(people).remarks(people.assign(job=None, age=[1, 2, 3, None]))
    assert "'age' in 1 row, 'job' in 4 rows" in said
    assert said.endswith("if no training row misses one, there is no mark and no such category.")
