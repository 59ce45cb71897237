"""Engines train what the model's own `fit` trains: boosting to the last bit, linear models to the
minimum; and where they do not, or where it is little work, that `fit` trains in this process."""

import os
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor
from butfor.errors import EngineError
from butfor.models import engines
from butfor.models.by_name import inputs_of, model_named
from butfor.models.engines import Fastest, OwnFit, bind, choose_engine
from butfor.models.making import as_learner
from butfor.models.seam import Training
from butfor.support import optional
from butfor.table.decisions import ONE_HALF, Decision
from butfor.table.table import Table

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SMALL = {"max_iter": 8, "random_state": 0}
NEWTON = {"solver": "newton-cholesky", "tol": 1e-10}


def made_table(rows: int = 300) -> Table:
    """A number of many values, one of few, towns, and a column twice, whose splits are ties."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"income": rng.normal(3000, 900, rows).round(2), "children": rng.integers(0, 4, rows)}
    )
    X["town"], X["again"] = rng.choice(["north", "east", "south"], rows), X["children"]
    odds = (X["income"] - 3000) / 600 - X["children"] + (X["town"] == "north")
    return Table(X, pd.Series(np.where(rng.random(rows) < 1 / (1 + np.exp(-odds)), "yes", "no")))


TABLE = made_table()
NUMBERS = TABLE.X[["income", "children"]]


def boosting(**settings) -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(**SMALL | settings)


def answers(engine, model, table, sizes=(0, 1, 2, 5, 12), cut=ONE_HALF):
    people = table.X.iloc[:40].assign(**{table.X.columns[0]: lambda X: X.iloc[:, 0] + 0.37})
    rng = np.random.default_rng(1)
    sets = [tuple(sorted(rng.choice(table.n, size, replace=False).tolist())) for size in sizes]
    sets.append(tuple(np.flatnonzero(table.codes == 0).tolist()))  # one class alone
    bound = bind(engine, as_learner(model).deciding(cut), table, people)
    return bound.name, bound([Training(flips) for flips in sets])


def test_without_numba_boosting_trains_by_its_own_fit_and_the_extra_is_named(monkeypatch):
    for module in (engines, optional):
        monkeypatch.setattr(module, "find_spec", lambda package: None)
    notes = []
    for model in (boosting(), make_pipeline(StandardScaler(), boosting()), LogisticRegression()):
        engine = choose_engine("auto", as_learner(model), note=notes.append)
        bind(engine, as_learner(model), replace(TABLE, X=NUMBERS), NUMBERS)
    assert [note.endswith('pip install "butfor[fast]".') for note in notes] == [True, True]
    with pytest.raises(EngineError, match=r"needs numba.*butfor\[fast\]"):
        bind(Fastest("boosting"), as_learner(boosting()), TABLE, TABLE.X)


@pytest.mark.parametrize(
    ("model", "table", "cut"),
    [
        (boosting(max_depth=2), TABLE, ONE_HALF),
        (boosting(max_leaf_nodes=5), TABLE, Decision(0.8, 1, 0.8)),
        (boosting(l2_regularization=0.7, min_samples_leaf=5), TABLE, Decision(0.3, 0, 0.3)),
        (boosting(max_iter=150), TABLE, ONE_HALF),
        (make_pipeline(StandardScaler(), boosting()), replace(TABLE, X=NUMBERS), ONE_HALF),
    ],
)
def test_boosting_is_the_own_fit_to_the_last_bit(model, table, cut):
    (name, ours), (_, own) = (
        answers(engine, model, table, cut=cut) for engine in (Fastest("boosting", 2), OwnFit(1))
    )
    assert name == "boosting"
    assert len(np.unique(own[:-1, 0])) > 1
    np.testing.assert_array_equal(ours[:-1], own[:-1])
    assert (
        np.isnan(own[-1]).all() or ((ours[-1] > 0) == (own[-1] > 0)).all()
    )  # one class alone has no probabilities


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@pytest.mark.parametrize(
    ("C", "intercept", "wide"),
    [(0.1, True, False), (1, False, False), (100, True, False), (1, True, True), (1, False, True),
     (np.inf, True, False)],
)  # fmt: skip
def test_logistic_regression_is_at_the_minimum(C, intercept, wide):
    table = replace(TABLE, weight=np.linspace(0.2, 3, TABLE.n) if C == 1 else None)
    if wide:  # more inputs than rows
        rng = np.random.default_rng(0)
        table = Table(
            pd.DataFrame(rng.normal(size=(40, 90))).add_prefix("x"),
            pd.Series(np.resize([0, 1, 1], 40)),
        )
    model = LogisticRegression(C=C, fit_intercept=intercept, **NEWTON)
    (name, ours), (_, own) = (
        answers(engine, model, table, (0, 1, 5, 20)) for engine in (Fastest("auto", 1), OwnFit(1))
    )
    assert name == "linear"
    assert ours[:-1] == pytest.approx(own[:-1], abs=1e-4)


OTHERWISE = [
    *(("boosting", boosting(**each), TABLE) for each in (
        {"max_features": 0.5}, {"class_weight": "balanced"}, {"monotonic_cst": {"income": 1}},
        {"max_leaf_nodes": None}, {"early_stopping": True},
    )),
    ("boosting", boosting(), replace(TABLE, weight=np.linspace(0.5, 2, TABLE.n))),
    ("boosting", boosting(), replace(TABLE, X=NUMBERS.where(NUMBERS["income"] < 4000))),
    ("boosting", boosting(), replace(TABLE, y=pd.Series(np.resize(["a", "b", "c"], TABLE.n)))),
    ("linear", RidgeClassifier(), replace(TABLE, y=pd.Series(np.resize(["a", "b", "c"], TABLE.n)))),
    *(("linear", each, TABLE) for each in (
        LogisticRegression(solver="liblinear"), LogisticRegression(l1_ratio=1, solver="saga"), GaussianNB(),
        LogisticRegression(class_weight="balanced"), LogisticRegression(max_iter=2),
        make_pipeline(CalibratedClassifierCV(GaussianNB()), LogisticRegression()),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "model", "table"), OTHERWISE)
def test_other_settings_and_tables_are_trained_by_their_own_fit(name, model, table):
    if isinstance(model, type(make_pipeline(None))):
        table = replace(table, X=NUMBERS)
    assert bind(Fastest(name, 1), as_learner(model), table, table.X.iloc[:5]).name == "joblib"


def test_where_scikit_learn_answers_differently_its_own_fit_trains(monkeypatch):
    from butfor.models.boosting import boost

    table = made_table(120)
    assert bind(Fastest("auto", 1), as_learner(boosting()), table, table.X).name == "boosting"
    monkeypatch.setattr("butfor.models.boosting.boost", lambda *given: boost(*given) * (1 + 1e-15))
    assert bind(Fastest("auto", 1), as_learner(boosting()), table, table.X).name == "joblib"


def test_logistic_regression_of_many_inputs_needs_no_hessian():
    wide = (
        pd.DataFrame(np.zeros((2, 999))).add_prefix("x").assign(word=["a", "b"], other=["c", "d"])
    )
    assert inputs_of(wide) == 1003
    assert model_named("logistic", 0, inputs_of(wide)).solver == "lbfgs"
    assert model_named("logistic", 0, 1000).solver == "newton-cholesky"


# --- the learner's own fit ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["loky", "threading", "sequential"])
def test_joblibs_own_configuration_is_honoured(backend):
    learner, people = as_learner(RandomForestClassifier(4, random_state=0)), TABLE.X[:9]
    trainings = [Training((row,), seed) for row in range(6) for seed in (None, 5)]
    with joblib.parallel_config(backend=backend, n_jobs=1 if backend == "sequential" else 2):
        bound, done = OwnFit(1).bind(learner, TABLE, people), []
        assert bound.width == (1 if backend == "sequential" else 2)
        spread = bound(trainings, done.append)
    assert sum(done) == len(trainings)
    for training, logits in zip(trainings, spread, strict=True):
        own = learner if training.seed is None else learner.reseeded(training.seed)
        assert np.array_equal(own.fit(TABLE, TABLE.labels(training.flips)).logits(people), logits)


class Timed(butfor.Learner, butfor.Model):
    """A learner whose fit takes `micros`, or nobody knows how long."""

    name = "own"

    def __init__(self, micros):
        self.micros = micros

    def work(self, table):
        return super().work(table) if self.micros is None else self.micros

    def fit(self, table, labels):
        return self

    def logits(self, people):
        return np.full(len(people), os.getpid() % 2**20, np.float32)


@pytest.mark.parametrize(
    ("micros", "calls", "here"),
    [
        (None, [7], [True]),
        (None, [4, 3, 4], [True, True, False]),
        (1e4, [300], [True]),
        (2e6, [5, 1, 2], [True, True, False]),
    ],
)
def test_processes_are_used_by_the_count_and_the_kind_of_learner(micros, calls, here):
    bound = OwnFit(2).bind(Timed(micros), TABLE, TABLE.X[:1])
    in_this = [
        set(bound([Training((), None)] * size).ravel()) == {os.getpid() % 2**20} for size in calls
    ]
    assert in_this == here
