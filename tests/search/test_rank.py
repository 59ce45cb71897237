"""Rankings as identities: the same result reached two ways."""

import copy
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

from benchmarks.work import encoded, network
from butfor import MLP, Table, TableEncoder
from butfor.errors import SettingError
from butfor.models.network import MLPLearner, NetworkEngine, NetworkModel
from butfor.nets import train_one
from butfor.nets.recipe import Rows
from butfor.search.rankings import NAMES, as_ranking, checked_scores
from butfor.search.rankings.mix import RankingMix, agreement
from butfor.search.rankings.named import (
    Activation,
    Chance,
    Combined,
    Gradient,
    Surrogate,
)


@pytest.fixture(scope="module")
def subject():
    """A trained network behind its encoder, its table, and some people."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 5)), columns=list("abcde"))
    people = pd.DataFrame(rng.normal(size=(7, 5)), columns=list("abcde"))
    y = pd.Series((X["a"] + rng.normal(size=120) > 0).astype(int))
    table = Table(X, y, (X[:30], y[:30]))
    learner = MLPLearner(
        MLP(hidden=(8, 6), max_epochs=5, batch_size=None), TableEncoder(numeric="raw")
    )
    return learner.fit(table, table.labels()), table, people


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("influence", "leaves")])
def test_a_persons_scores_depend_neither_on_others_nor_on_the_order_of_the_rows(name, subject):
    model, table, people = subject
    ranking = as_ranking(name)
    together = checked_scores(ranking, model, table, people)
    alone = checked_scores(ranking, model, table, people.iloc[[3]])
    assert together[3] == pytest.approx(alone[0], rel=1e-5, abs=1e-6)
    assert ranking.name == name
    if name == "distance":
        assert list(ranking.score(model, table, table.X[:10]).argmax(axis=1)) == list(range(10))
    if name == "chance":
        assert not np.array_equal(together[0], together[1])
        assert not np.array_equal(together, as_ranking("chance", 2).score(model, table, people))
        return
    order, rows, moved = np.random.default_rng(1).permutation(table.n), model.rows, copy.copy(model)
    moved.rows = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
    shuffled = Table(table.X.iloc[order], table.y.iloc[order], table.validation)
    assert ranking.score(moved, shuffled, people) == pytest.approx(
        together[:, order], rel=1e-4, abs=1e-6
    )


def test_the_surrogate_is_ridge_regression_and_signed_the_effect_of_a_flip_on_it(subject):
    model, table, people = subject
    X, asked, y = table.X.to_numpy(), people.to_numpy(), table.zero_one

    def ridge(labels, alpha=1.0):
        return Ridge(alpha=alpha, fit_intercept=False).fit(X, labels).predict(asked)

    assert Surrogate(ridge=2.5).weights(X, asked) @ y == pytest.approx(ridge(y, 2.5), abs=1e-5)
    scores, away = (
        Surrogate(signed=True).score(model, table, people),
        np.where(model.logits(people) > 0, -1, 1),
    )
    for row in (0, 17, 99):
        assert scores[:, row] == pytest.approx(
            away * (ridge(table.labels((row,))) - ridge(y)), abs=1e-5
        )


def test_on_german_the_gradient_predicts_retrainings_and_better_so_where_epochs_may_change():
    german, people, setup = encoded("german")
    recipe, people = network(setup).recipe(), people[:10]
    model = NetworkModel(
        train_one(recipe, german), german, SimpleNamespace(encoder=None, people=lambda X: X)
    )

    def agreed(epochs):
        scores = Gradient(epochs=epochs).score(model, None, people)
        return agreement(
            lambda sets: NetworkEngine().fit_many(recipe, german, sets, people).logits, scores, 40
        )[0]

    assert 0.4 < agreed(1) < agreed(8)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (lambda s: checked_scores(as_ranking(lambda *_: np.full((7, 120), np.nan)), *s), "returned nan for person 0"),
        (lambda s: checked_scores(as_ranking(lambda *_: np.zeros(3)), *s), r"shape \(3,\)"),
        (lambda s: as_ranking(3), "neither"),
        (lambda s: as_ranking(Surrogate), r"give an instance, Surrogate\(\)"),
        (lambda s: Surrogate(ridge=0), "ridge=0 must be a number above 0"),
        (lambda s: Activation("half"), "decay='half' must be a number above 0"),
        (lambda s: Combined(["surrogate", "nobody"]), "no ranking 'nobody'"),
        (lambda s: Chance(-1), "seed=-1 must be a whole number from 0 up"),
        (lambda s: Gradient(epochs=0.5), "epochs=0.5 must be a whole number from 1 up"),
        (lambda s: Gradient(tolerance=np.nan), "tolerance=nan must be a number above 0"),
    ],
)  # fmt: skip
def test_what_cannot_rank_is_refused(asked, said, subject):
    with pytest.raises(SettingError, match=said):
        asked(subject)


def test_an_audit_ranks_by_what_it_was_told_and_trains_rankings_where_the_engine_trains(
    subject, salary
):
    def mine(model, table, people):
        return as_ranking("distance").score(model, table, people)

    audit, data = salary
    first, second, other = (
        audit.with_search(rank, "singles").explain_all(data.X_test[:6])
        for rank in (mine, "distance", "chance")
    )
    assert (first.run.rank, second.run.rank) == ("mine", "distance")
    assert [v.course for v in first] == [v.course for v in second] != [v.course for v in other]
    ranking = RankingMix.of(subject[0])
    ranking.train_on(SimpleNamespace(device="elsewhere", spread=None))
    with pytest.raises(SettingError, match="elsewhere"):
        ranking.score(*subject)
