"""Tables, rows, labels and groups as users hand them over in Python."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.errors import SettingError, TableError

RNG = np.random.default_rng(3)
PLAIN = pd.DataFrame({"age": RNG.integers(20, 60, 60), "own": RNG.random(60) < 0.5, "sex": RNG.choice(["f", "m"], 60)})
LABELS = pd.Series(RNG.integers(0, 2, 60), name="approved")


def fitted(X: pd.DataFrame = PLAIN, y=LABELS, sensitive="sex", **settings) -> butfor.LabelAudit:
    settings = {"budget": 3, "fresh_seeds": 0, "phi": "everyone"} | settings
    return butfor.LabelAudit(LogisticRegression(), **settings).fit(X, y, sensitive_features=sensitive)


def test_a_row_of_one_keeps_its_values():
    for audit in (fitted(), fitted(PLAIN.astype({"age": "int8"}))):
        for age, own in ((40.9, True), (300, False)):
            verdict = audit.explain(pd.Series({"age": age, "own": own, "sex": "f"}))
            assert verdict.values["age"] == age
            table = pd.DataFrame({"age": [age], "own": [own], "sex": ["f"]})
            assert verdict.logit == pytest.approx(audit.explain(table).logit)


def test_a_person_with_holes_and_cells_that_only_look_like_numbers():
    audit = fitted(PLAIN.assign(code=pd.Series([1, "1"] * 30, dtype=object)))
    assert all(butfor.replay(verdict).agrees for verdict in audit.explain_all(PLAIN.assign(code="1").iloc[:4]))
    for nothing in (None, np.nan):
        row = {"age": np.nan, "own": nothing, "sex": nothing, "code": nothing}
        verdict = audit.explain(pd.DataFrame([row]))
        assert verdict.group == "missing"
        assert audit.explain(pd.Series(row)).logit == verdict.logit


def test_rows_of_several_levels_stand_beside_the_person():
    X = PLAIN.set_axis(pd.MultiIndex.from_product([["a", "b"], range(30)]))
    audit = fitted(X, LABELS.set_axis(X.index), budget=20, psi="everything")
    found = audit.explain_all(X.iloc[:20]).found
    assert len(found[0].to_frame().columns) == 1 + len(found[0].positions)


def test_a_row_of_a_table_without_an_index_is_not_called_row_0():
    polars = pytest.importorskip("polars")
    audit = fitted()
    verdict = audit.explain(polars.from_pandas(PLAIN)[36])
    assert (verdict.row, verdict.who) == (None, "this person")
    assert verdict.logit == audit.explain(PLAIN.iloc[[36]]).logit
    assert audit.explain_all(polars.from_pandas(PLAIN), cases=[36])[0].row == 36


def test_labels_of_a_series_are_called_after_it():
    assert fitted(y=LABELS == 1).explain(PLAIN.iloc[[1]]).prediction.startswith("approved = ")
    assert fitted(y=(LABELS == 1).to_numpy()).explain(PLAIN.iloc[[1]]).prediction in ("True", "False")


def test_groups_may_stand_beside_the_table():
    beside, X = PLAIN["sex"], PLAIN.drop(columns="sex")
    audit = fitted(X, sensitive=beside)
    verdict = audit.explain(X.iloc[[0]], sensitive_features=beside.iloc[[0]])
    assert verdict.group == beside[0]
    assert fitted(X, sensitive=list(beside)).explain(X.iloc[[0]], sensitive_features=[beside[0]]).logit == verdict.logit
    for given, said in (
        (None, "pass sensitive_features=... with one value per person"), (["x"], "'x', which no training row has"),
    ):  # fmt: skip
        with pytest.raises((SettingError, TableError), match=said):
            audit.explain(X.iloc[[0]], sensitive_features=given)


SAME_NAME = PLAIN["sex"].str.upper()
ODD = pd.Series([0, "0"] * 30, dtype=object)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": PLAIN.rename(columns={"age": 0, "own": "0"})}, "Columns 0, '0' have the same name once written as text"),
        ({"X": PLAIN.rename(columns={"age": "(bias)"})}, "'(bias)'"),
        ({"X": PLAIN.rename(columns={"age": ("a", "b")})}, "has a tuple as its name|Column ('a', 'b')"),
        ({"X": PLAIN.assign(age=pd.Series([[1, 2]] * 60))}, "Column 'age' holds 'list' instead"),
        ({"X": PLAIN.assign(age=pd.Series([{"a": 1}] * 60))}, "Column 'age' holds 'dict' instead"),
        ({"X": PLAIN.assign(age=np.arange(60) * 1j)}, "Column 'age' has type complex128"),
        ({"y": ODD}, "mix types that cannot be compared ('int', 'str')"),
        ({"sensitive": "sexx"}, "X has no column 'sexx'. Did you mean 'sex'?"),
        ({"sensitive": [1] * 59}, "or hold one value for each of its 60 rows"),
        ({"sensitive": SAME_NAME}, "has the name 'sex' of a column of X but other values"),
        ({"sensitive": PLAIN["sex"].set_axis(range(1, 61)).rename("s")}, "index of sensitive_features does not match"),
        ({"rank": lambda model, table, people: np.full((len(people), table.n), "much")}, "scores that are no numbers"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_gets_a_sentence(change, said):
    with pytest.raises((SettingError, TableError)) as caught:
        fitted(**change).explain_all(PLAIN.iloc[:2])
    for words in said.split("|"):
        assert words in str(caught.value)
