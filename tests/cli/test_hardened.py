"""Answers of other people's models that hold only where one looks closely: sparse inputs, ties, odd tables and rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import butfor
from benchmarks.proofs import confirmed
from butfor.cli import main
from butfor.data.check import check_people
from butfor.errors import SettingError, TableError
from butfor.learn.steps import linear_in_labels, solved_directly


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({
        "town": rng.integers(0, 30, n).astype(str), "job": rng.choice(list("abcdefghij"), n),
        "sex": rng.choice(["f", "m"], n), "income": rng.lognormal(10, 1, n).round(),
    })  # fmt: skip


def one_hot(sparse: bool) -> object:
    words = make_column_selector(dtype_exclude="number")
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=sparse)
    return make_column_transformer((encoder, words), remainder="passthrough")


def labels(n: int) -> pd.Series:
    return pd.Series(np.random.default_rng(1).integers(0, 2, n))


def test_no_proof_about_a_solver_that_stops_before_the_minimum():
    """Ridge on sparse inputs iterates: that labels add up is not true of it to the last digits."""
    X, asked, y = people(40), people(6, 2), labels(40)
    model = make_pipeline(one_hot(True), RidgeClassifier())
    audit = butfor.LabelAudit(model, budget=2, phi="everyone", psi="everything").fit(X, y, sensitive_features="sex")
    population = audit.explain_all(asked)
    before = clone(model).fit(X, y).predict(asked)
    for row in range(len(X)):
        flipped = y.copy()
        flipped.iloc[row] = 1 - flipped.iloc[row]
        for person in np.flatnonzero(clone(model).fit(X, flipped).predict(asked) != before):
            assert (population[person].at_least or 0) <= 1, (person, row)
    with pytest.raises(SettingError, match="Nothing can be proven"):
        audit.brackets(asked)
    dense = butfor.LabelAudit(make_pipeline(one_hot(False), RidgeClassifier()), phi="everyone", psi="everything")
    assert len(dense.fit(X, y, sensitive_features="sex").brackets(asked)) == 6


@pytest.mark.parametrize("regressor", [Ridge(), LinearRegression()])
def test_regressions_on_sparse_inputs_are_not_solved_directly(regressor):
    X, y = people(60), labels(60)
    for sparse in (True, False):
        model = make_pipeline(one_hot(sparse), butfor.ThresholdedRegressor(regressor))
        assert linear_in_labels(model)
        assert solved_directly(clone(model).fit(X, y)) is not sparse


def test_neighbours_decide_the_same_about_many_people_as_about_each():
    rng = np.random.default_rng(0)
    coarse = [pd.DataFrame({f"c{k}": rng.integers(0, 3, n).astype(str) for k in range(9)}) for n in (300, 1500)]
    X, asked = (frame.assign(sex=rng.choice(["f", "m"], len(frame))) for frame in coarse)
    audit = butfor.LabelAudit(KNeighborsClassifier(5), budget=2, phi="everyone", psi="everything")
    audit.fit(X, labels(300), sensitive_features="sex")
    together = audit.model_.logits(asked)
    alone = np.concatenate([audit.model_.logits(asked.iloc[[k]]) for k in range(200)])
    assert np.array_equal(together[:200], alone)
    brackets = audit.brackets(asked)
    assert brackets[:200] == audit.brackets(asked.iloc[:200])
    assert all(confirmed(audit, asked.iloc[:40], brackets[:40]))


def test_a_torch_model_may_stand_in_a_pipeline():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    as_floats = FunctionTransformer(np.asarray, kw_args={"dtype": np.float32})
    net = skorch.NeuralNetClassifier(torch.nn.Linear, module__in_features=1, module__out_features=2, max_epochs=1,
                                     criterion=torch.nn.CrossEntropyLoss)  # fmt: skip
    X = people(60)[["income"]]
    audit = butfor.LabelAudit(make_pipeline(StandardScaler(), as_floats, net), members=2, fresh_seeds=0)
    audit.fit(X, labels(60), sensitive_features=people(60)["sex"])
    assert audit.fitted_.members == 2


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
    with pytest.raises(TableError, match="Columns 0, '0' have the same name as text"):
        fitted(plain().rename(columns={"age": 0, "own": "0"}))
    with pytest.raises(TableError, match=r"'\(bias\)'.* has a name that verdicts use"):
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


def test_settings_files_may_hold_empty_lists_and_no_option_twice(tmp_path, capsys):
    file = tmp_path / "a.toml"
    given = ["audit", "salary", "--config", str(file), "--members", "1", "--cases", "1", "--json", "--quiet"]
    file.write_text("fresh-seeds = 0\ndrop = []\n", encoding="utf-8")
    assert main(given) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["people"][0]["case"] == 1
    file.write_text("fresh-seeds = 0\nfresh_seeds = 5\n", encoding="utf-8")
    assert main(given) == 2
    assert "the option 'fresh-seeds' occurs twice" in capsys.readouterr().err


def test_people_of_a_table_of_one_column_are_not_called_seen():
    one = pd.DataFrame({"sex": ["f", "m", "d"] * 20})
    assert check_people(one[:40], one[40:]) == []
    twins = plain()
    assert check_people(twins[:50], twins[:30])


def test_another_search_wants_a_model_first():
    with pytest.raises(SettingError, match="has no model yet"):
        butfor.LabelAudit(LogisticRegression()).with_search("distance")


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pd.Series([[1, 2]] * 60), "Column 'age' holds 'list' instead"),
        (pd.Series([{"a": 1}] * 60), "Column 'age' holds 'dict' instead"),
        (pd.Series(np.arange(60) * 1j), "Column 'age' is of type complex128"),
    ],
)
def test_cells_that_no_model_takes_get_a_sentence(column, told):
    with pytest.raises(TableError, match=told):
        fitted(plain().assign(age=column))


def test_labels_and_scores_of_odd_kinds_get_a_sentence():
    odd = pd.Series([0, "0"] * 30, dtype=object)
    with pytest.raises(TableError, match=r"kinds that cannot be compared \('int', 'str'\)"):
        butfor.LabelAudit(LogisticRegression()).fit(plain(), odd, sensitive_features="sex")

    def words(model, table, people):
        return np.full((len(people), table.n), "much")

    with pytest.raises(SettingError, match="returned scores that are no numbers"):
        fitted(plain(), rank=words).explain_all(plain().iloc[:2])
