"""The compiled boosting trains what scikit-learn's own `fit` trains, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from butfor import LabelAudit
from butfor.decide import Decision
from butfor.models import boosting as boosting_engine
from butfor.models.engines import Fastest, OwnFit
from butfor.models.learner import Table, Training
from butfor.models.sklearn import SklearnLearner

# One worker compiles for all tests of this file.
pytestmark = pytest.mark.xdist_group("boosting")

SMALL = {"max_iter": 8, "random_state": 0}
BOOSTING = Fastest("boosting", 1)


def made_table(rows: int = 300) -> Table:
    """A number of many values, one of few, towns, and a column twice, whose splits are ties."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.normal(3000, 900, rows).round(2), "children": rng.integers(0, 4, rows)})
    X["town"], X["again"] = rng.choice(["north", "east", "south"], rows), X["children"]
    odds = (X["income"] - 3000) / 600 - X["children"] + (X["town"] == "north")
    return Table(X, pd.Series(np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")))


def answers(engine, learner, table):
    people = table.X.iloc[:40].assign(income=lambda X: X["income"] + 37)
    rng = np.random.default_rng(1)
    sets = [tuple(sorted(rng.choice(table.n, size, replace=False).tolist())) for size in (0, 1, 2, 5, 12)]
    sets.append(tuple(np.flatnonzero(table.codes == 0).tolist()))  # one class alone
    bound = engine.bind(learner, table, people)
    return bound.name, bound([Training(flips) for flips in sets])


@pytest.mark.parametrize(
    "settings",
    [{}, {"max_depth": 2}, {"max_leaf_nodes": 5}, {"l2_regularization": 0.7, "min_samples_leaf": 5}, {"max_iter": 150}],
)
@pytest.mark.parametrize("cut", [Decision(), Decision(0.8, 1, 0.8), Decision(0.3, 0, 0.3)])
def test_answers_are_those_of_the_own_fit(settings, cut):
    table, learner = made_table(), SklearnLearner(HistGradientBoostingClassifier(**SMALL | settings))
    table = replace(table, decision=cut)
    (name, ours), (_, own) = (answers(engine, learner, table) for engine in (Fastest("boosting", 2), OwnFit(1)))
    assert name == "boosting"
    assert len(np.unique(own[:-1, 0])) > 1
    np.testing.assert_array_equal(ours, own)


@pytest.mark.parametrize("before", [[], [StandardScaler()]])
def test_a_table_of_numbers_and_a_pipeline_whose_steps_see_no_label(before):
    table = made_table()
    table = replace(table, X=table.X.drop(columns="town"))
    learner = SklearnLearner(make_pipeline(*before, HistGradientBoostingClassifier(**SMALL)))
    (name, ours), (_, own) = (answers(engine, learner, table) for engine in (BOOSTING, OwnFit(1)))
    assert name == "boosting"
    np.testing.assert_array_equal(ours, own)


@pytest.mark.parametrize(
    "settings",
    [{"max_features": 0.5}, {"class_weight": "balanced"}, {"monotonic_cst": {"income": 1}}, {"max_leaf_nodes": None}],
)
def test_other_settings_are_trained_by_their_own_fit(settings):
    learner = SklearnLearner(HistGradientBoostingClassifier(**SMALL | settings))
    assert BOOSTING.bind(learner, made_table(60), made_table(60).X).name == "joblib"


def test_other_tables_are_trained_by_their_own_fit():
    table = made_table(120)
    numbers = table.X[["income", "children"]]
    holes = replace(table, X=numbers.where(numbers["income"] < 4000))
    weighted = replace(table, weight=np.linspace(0.5, 2, table.n))
    three = replace(table, y=pd.Series(np.resize(["a", "b", "c"], table.n)))
    early = SklearnLearner(HistGradientBoostingClassifier(early_stopping=True, **SMALL))
    plain = SklearnLearner(HistGradientBoostingClassifier(**SMALL))
    assert Fastest("auto", 1).bind(plain, table, table.X).name == "boosting"
    for learner, given in ((plain, holes), (plain, weighted), (plain, three), (early, table)):
        assert BOOSTING.bind(learner, given, given.X.iloc[:5]).name == "joblib"


def test_where_scikit_learn_answers_differently_its_own_fit_trains(monkeypatch):
    table, learner = made_table(120), SklearnLearner(HistGradientBoostingClassifier(**SMALL))
    boost = boosting_engine.boost
    monkeypatch.setattr(boosting_engine, "boost", lambda *given: boost(*given) * (1 + 1e-15))
    assert BOOSTING.bind(learner, table, table.X.iloc[:5]).name == "joblib"


def test_verdicts_are_those_of_the_own_fit():
    table, found = made_table(), []
    for engine in ("boosting", "joblib"):
        audit = LabelAudit(HistGradientBoostingClassifier(**SMALL), budget=4, engine=engine, n_jobs=1, phi="everyone")
        audit.fit(table.X, table.y, sensitive_features="town")
        found.append(audit.explain_all(table.X.iloc[:3]))
    ours, own = found
    assert ours.run.engine == "boosting"
    assert [str(verdict) for verdict in ours] == [str(verdict) for verdict in own]
    assert [verdict.status for verdict in ours].count("found") >= 1
