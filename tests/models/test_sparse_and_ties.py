"""Models whose answers hold only where one looks closely: sparse inputs, ties of neighbours, torch in a pipeline."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LinearRegression, Ridge, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import butfor
from benchmarks.proofs import confirmed
from butfor.errors import SettingError


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


@pytest.mark.parametrize("model", [RidgeClassifier(), *map(butfor.ThresholdedRegressor, (Ridge(), LinearRegression()))])
def test_proofs_are_for_dense_inputs_alone(model):
    audits = [
        butfor.LabelAudit(make_pipeline(one_hot(sparse), model), phi="everyone", psi="everything", fresh_seeds=0)
        for sparse in (True, False)
    ]
    sparse, dense = (audit.fit(people(60), labels(60), sensitive_features="sex") for audit in audits)
    with pytest.raises(SettingError, match="There is no proof for"):
        sparse.brackets(people(6, 2))
    assert len(dense.brackets(people(6, 2))) == 6


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
