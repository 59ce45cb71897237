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


def test_a_person_as_a_row_a_table_or_of_another_library():
    polars = pytest.importorskip("polars")
    for audit in (fitted(), fitted(PLAIN.astype({"age": "int8"}))):
        for age, own in ((40.9, True), (300, False)):
            verdict = audit.explain(pd.Series({"age": age, "own": own, "sex": "f"}))
            assert verdict.values["age"] == age
            table = pd.DataFrame({"age": [age], "own": [own], "sex": ["f"]})
            assert verdict.logit == pytest.approx(audit.explain(table).logit)
    verdict = audit.explain(polars.from_pandas(PLAIN)[36])
    assert (verdict.row, verdict.who) == (None, "this person")
    assert verdict.logit == audit.explain(PLAIN.iloc[[36]]).logit
    assert audit.explain_all(polars.from_pandas(PLAIN), cases=[36])[0].row == 36


def test_a_person_with_holes_and_cells_that_only_look_like_numbers():
    audit = fitted(PLAIN.assign(code=pd.Series([1, "1"] * 30, dtype=object)))
    assert all(butfor.replay(verdict).agrees for verdict in audit.explain_all(PLAIN.assign(code="1").iloc[:2]))
    for nothing in (None, np.nan):
        row = {"age": np.nan, "own": nothing, "sex": nothing, "code": nothing}
        verdict = audit.explain(pd.DataFrame([row]))
        assert verdict.group == "missing"
        assert audit.explain(pd.Series(row)).logit == verdict.logit


def test_rows_of_several_levels_and_labels_that_are_called_after_their_series():
    X = PLAIN.set_axis(pd.MultiIndex.from_product([["a", "b"], range(30)]))
    audit = fitted(X, (LABELS == 1).set_axis(X.index), budget=20, psi="everything")
    found = audit.explain_all(X.iloc[:5]).found
    assert len(found[0].to_frame().columns) == 1 + len(found[0].positions)
    assert found[0].prediction.startswith("approved = ")
    assert fitted(y=(LABELS == 1).to_numpy()).explain(PLAIN.iloc[[1]]).prediction in ("True", "False")


def test_groups_may_stand_beside_the_table():
    beside, X = PLAIN["sex"], PLAIN.drop(columns="sex")
    audit = fitted(X, sensitive=beside)
    verdict = audit.explain(X.iloc[[0]], sensitive_features=beside.iloc[[0]])
    assert verdict.group == beside[0]
    assert fitted(X, sensitive=list(beside)).explain(X.iloc[[0]], sensitive_features=[beside[0]]).logit == verdict.logit
    with pytest.raises(SettingError, match="with one value per person"):
        audit.explain(X.iloc[[0]])
    with pytest.raises(TableError, match="'x', which no training row has"):
        audit.explain(X.iloc[[0]], sensitive_features=["x"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"X": PLAIN.rename(columns={"age": 0, "own": "0"})}, "Column 0, '0' needs a name of its own"),
        ({"X": PLAIN.rename(columns={"age": "(bias)"})}, "'(bias)'"),
        ({"X": PLAIN.rename(columns={"age": ("a", "b")})}, "Column ('a', 'b') needs a name of its own"),
        ({"X": PLAIN.assign(age=pd.Series([[1, 2]] * 60))}, "Column 'age' holds 'list' instead"),
        ({"X": PLAIN.assign(age=np.arange(60) * 1j)}, "Column 'age' has type complex128"),
        ({"X": "loans.csv"}, "a pyarrow Table), not 'loans.csv'"),
        ({"y": pd.Series([0, "0"] * 30, dtype=object)}, "mix types that cannot be compared ('int', 'str')"),
        ({"sensitive": "sexx"}, "X has no column 'sexx'. Did you mean 'sex'?"),
        ({"sensitive": [1] * 59}, "or hold one value for each of its 60 rows"),
        ({"sensitive": PLAIN["sex"].str.upper()}, "has the name 'sex' of a column of X but other values"),
        ({"sensitive": PLAIN["sex"].set_axis(range(1, 61)).rename("s")}, "index of sensitive_features does not match"),
        ({"rank": lambda model, table, people: np.full((len(people), table.n), "much")}, "scores that are no numbers"),
    ],
)
def test_what_cannot_be_used_gets_a_sentence(change, said):
    with pytest.raises((SettingError, TableError)) as caught:
        fitted(**change).explain_all(PLAIN.iloc[:2])
    assert said in str(caught.value)
