"""Tables, rows and labels as users hand them over in Python."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.data.check import check_people
from butfor.errors import SettingError, TableError


def labels(n: int) -> pd.Series:
    return pd.Series(np.random.default_rng(1).integers(0, 2, n))


def fitted(X: pd.DataFrame, **settings: object) -> butfor.LabelAudit:
    audit = butfor.LabelAudit(LogisticRegression(), budget=3, fresh_seeds=0, phi="everyone", **settings)
    return audit.fit(X, labels(len(X)), sensitive_features="sex")


def plain(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"age": rng.integers(20, 60, n), "own": rng.random(n) < 0.5, "sex": rng.choice(["f", "m"], n)})


def test_a_row_of_one_keeps_its_values():
    audit = fitted(plain())
    for age, own in ((40.9, True), (300, False)):
        row = pd.Series({"age": age, "own": own, "sex": "f"})
        verdict = audit.explain(row)
        assert verdict.person["age"] == age
        table = pd.DataFrame({"age": [age], "own": [own], "sex": ["f"]})
        assert verdict.logit == pytest.approx(audit.explain(table).logit)
    small = fitted(plain().astype({"age": "int8"}))
    assert small.explain(pd.Series({"age": 300, "own": True, "sex": "f"})).person["age"] == 300


def test_columns_that_are_the_same_as_text_are_refused():
    with pytest.raises(TableError, match="Columns 0, '0' have the same name once written as text"):
        fitted(plain().rename(columns={"age": 0, "own": "0"}))
    with pytest.raises(TableError, match=r"'\(bias\)'.* has a name that results use"):
        fitted(plain().rename(columns={"age": "(bias)"}))


def test_look_alikes_of_numbers_are_replayed_as_they_are():
    X = plain().assign(c=pd.Series([1, "1"] * 30, dtype=object))
    verdicts = fitted(X).explain_all(X.iloc[:4])
    assert all(butfor.replay(v).agrees for v in verdicts)


def test_rows_of_several_levels_stand_beside_the_person():
    X = plain().set_axis(pd.MultiIndex.from_product([["a", "b"], range(30)]))
    audit = butfor.LabelAudit(LogisticRegression(), budget=20, fresh_seeds=0, phi="everyone", psi="everything")
    audit.fit(X, labels(60).set_axis(X.index), sensitive_features="sex")
    found = audit.explain_all(X.iloc[:20]).found
    assert found
    assert len(found[0].to_frame().columns) == 1 + len(found[0].positions)


def test_people_of_a_table_of_one_column_are_not_called_seen():
    one = pd.DataFrame({"sex": ["f", "m", "d"] * 20})
    assert check_people(one[:40], one[40:]) == []
    twins = plain()
    assert check_people(twins[:50], twins[:30])


def test_another_search_wants_a_model_first():
    with pytest.raises(SettingError, match="is not fitted yet"):
        butfor.LabelAudit(LogisticRegression()).with_search("distance")


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.Series([[1, 2]] * 60), "Column 'age' holds 'list' instead"),
        (pd.Series([{"a": 1}] * 60), "Column 'age' holds 'dict' instead"),
        (pd.Series(np.arange(60) * 1j), "Column 'age' has type complex128"),
    ],
)
def test_cells_that_no_model_takes_get_a_sentence(column, told):
    with pytest.raises(TableError, match=told):
        fitted(plain().assign(age=column))


def test_labels_and_scores_of_odd_kinds_get_a_sentence():
    odd = pd.Series([0, "0"] * 30, dtype=object)
    with pytest.raises(TableError, match=r"mix types that cannot be compared \('int', 'str'\)"):
        butfor.LabelAudit(LogisticRegression()).fit(plain(), odd, sensitive_features="sex")

    def words(model, table, people):
        return np.full((len(people), table.n), "much")

    with pytest.raises(SettingError, match="returned scores that are no numbers"):
        fitted(plain(), rank=words).explain_all(plain().iloc[:2])


def test_a_row_of_a_table_without_an_index_is_not_called_row_0():
    polars = pytest.importorskip("polars")
    audit = fitted(plain())
    verdict = audit.explain(polars.from_pandas(plain())[36])
    assert verdict.row is None
    assert verdict.who == "this person"
    assert verdict.logit == audit.explain(plain().iloc[[36]]).logit
    assert audit.explain_all(polars.from_pandas(plain()), cases=[36])[0].row == 36
