"""Rankings as identities: the same result reached two ways."""

import copy

import numpy as np
import pandas as pd
import pytest

from butfor import MLP, JoblibEngine, Table, TableEncoder
from butfor.errors import SettingError
from butfor.models.network import MLPLearner
from butfor.nets.recipe import Rows
from butfor.rank import NAMES, as_ranking, checked_scores, refuse_unaccepted
from butfor.rank.mix import RankingMix
from butfor.rank.named import Activation, Combined, Distance, Surrogate
from conftest import fitted


@pytest.fixture(scope="module")
def subject():
    """A trained network behind its encoder, its table, and some people."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 5)), columns=list("abcde"))
    people = pd.DataFrame(rng.normal(size=(7, 5)), columns=list("abcde"))
    y = pd.Series((X["a"] + rng.normal(size=120) > 0).astype(int))
    table = Table(X, y, (X[:30], y[:30]))
    learner = MLPLearner(MLP(hidden=(8, 6), max_epochs=5, batch_size=None), TableEncoder(numeric="raw"))
    return learner.fit(table, table.labels()), table, people


OURS = [name for name in NAMES if name not in ("influence", "leaves")]
"""Rankings that accept our network."""


@pytest.mark.parametrize("name", OURS)
def test_a_score_per_person_and_row_whoever_else_is_asked(name, subject):
    model, table, people = subject
    ranking = as_ranking(name)
    assert ranking.accepts(model)
    together = checked_scores(ranking, model, table, people)
    assert together.shape == (7, 120)
    alone = checked_scores(ranking, model, table, people.iloc[[3]])
    assert together[3] == pytest.approx(alone[0], rel=1e-5, abs=1e-6)
    assert ranking.name == name


@pytest.mark.parametrize("name", [n for n in OURS if n != "chance"])
def test_permuting_the_training_rows_permutes_the_scores(name, subject):
    model, table, people = subject
    order = np.random.default_rng(1).permutation(table.n)
    rows = model.rows
    shuffled = Table(table.X.iloc[order], table.y.iloc[order], table.validation)
    moved = copy.copy(model)
    moved.rows = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
    ranking = as_ranking(name)
    straight = ranking.score(model, table, people)[:, order]
    assert ranking.score(moved, shuffled, people) == pytest.approx(straight, rel=1e-4, abs=1e-6)


def test_the_surrogate_weights_are_the_ridge_prediction(subject):
    from sklearn.linear_model import Ridge

    _, table, people = subject
    X, asked = table.X.to_numpy(), people.to_numpy()
    z = Surrogate(ridge=2.5).weights(X, asked)
    ridge = Ridge(alpha=2.5, fit_intercept=False).fit(X, table.zero_one)
    assert z @ table.zero_one == pytest.approx(ridge.predict(asked), abs=1e-5)


def test_the_signed_surrogate_is_the_effect_of_the_flip(subject):
    from sklearn.linear_model import Ridge

    model, table, people = subject
    scores = Surrogate(signed=True).score(model, table, people)

    def ridge(y):
        return Ridge(alpha=1.0, fit_intercept=False).fit(table.X.to_numpy(), y).predict(people.to_numpy())

    for row in (0, 17, 99):
        change = ridge(table.labels((row,))) - ridge(table.zero_one)
        away = np.where(model.logits(people) > 0, -1, 1)
        assert scores[:, row] == pytest.approx(away * change, abs=1e-5)


def test_activation_similarity_counted_by_hand(subject):
    model, table, people = subject
    scores = Activation(decay=0.5).score(model, table, people)
    first, last, _ = model.network.layers(people.to_numpy()[:1])
    first_row, last_row, _ = model.network.layers(table.X.to_numpy()[4:5])
    differ = 0.5 * ((first > 0) != (first_row > 0)).sum() + ((last > 0) != (last_row > 0)).sum()
    assert scores[0, 4] == pytest.approx(1 - differ / (0.5 * 8 + 6), abs=1e-6)
    assert Activation().score(model, table, table.X[:3])[[0, 1, 2], [0, 1, 2]] == pytest.approx(1)


def test_distance_ranks_a_row_itself_first(subject):
    model, table, _ = subject
    assert list(Distance().score(model, table, table.X[:10]).argmax(axis=1)) == list(range(10))


def test_combined_is_the_mean_of_its_normalised_parts(subject):
    model, table, people = subject

    def scaled(scores):
        low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
        return (scores - low) / (high - low)

    parts = [Surrogate().score(model, table, people), Activation().score(model, table, people)]
    expected = (scaled(parts[0]) + scaled(parts[1])) / 2
    assert Combined().score(model, table, people) == pytest.approx(expected, abs=1e-6)


def test_chance_draws_by_seed_and_person(subject):
    model, table, people = subject
    one, other = as_ranking("chance", 1), as_ranking("chance", 2)
    scores = one.score(model, table, people)
    assert np.array_equal(scores, one.score(model, table, people))
    assert not np.array_equal(scores, other.score(model, table, people))
    assert not np.array_equal(scores[0], scores[1])


def test_a_function_is_a_ranking(subject):
    model, table, people = subject

    def oldest_first(model, table, people):
        return np.tile(-np.arange(table.n, dtype=float), (len(people), 1))

    ranking = as_ranking(oldest_first)
    assert ranking.name == "oldest_first"
    assert checked_scores(ranking, model, table, people)[0].argmax() == 0


def test_scores_that_cannot_be_sorted_are_refused(subject):
    model, table, people = subject
    with pytest.raises(SettingError, match=r"returned nan for person 0"):
        checked_scores(as_ranking(lambda *_: np.full((7, 120), np.nan)), model, table, people)
    with pytest.raises(SettingError, match=r"shape \(3,\)"):
        checked_scores(as_ranking(lambda *_: np.zeros(3)), model, table, people)
    with pytest.raises(SettingError, match="no ranking 'best'"):
        as_ranking("best")
    with pytest.raises(SettingError, match="neither"):
        as_ranking(3)
    with pytest.raises(SettingError, match="ridge"):
        Surrogate(ridge=0)
    with pytest.raises(SettingError, match="decay"):
        Activation(decay=2)


def test_a_model_that_a_ranking_does_not_accept_is_refused_in_a_sentence(subject):
    model, _, _ = subject
    with pytest.raises(SettingError, match=r"'leaves' needs a tree.*of MLP. Use one of gradient, combined"):
        refuse_unaccepted(as_ranking("leaves"), model, "MLP")
    refuse_unaccepted(as_ranking(lambda *_: None), model, "MLP")  # one that does not say accepts all


class Elsewhere(JoblibEngine):
    device = "elsewhere"


def test_an_audit_ranks_by_what_it_was_told_whatever_the_engines_device():
    audit, data = fitted("salary", strategy="singles", rank="combined", engine=Elsewhere(1))
    people = data.X_test[:6]
    told = audit.with_search("distance").explain_all(people)
    plain, _ = fitted("salary", strategy="singles", rank="distance", engine="joblib")
    assert told.run.rank == "distance"
    assert [v.course for v in told] == [v.course for v in plain.explain_all(people)]
    assert audit.explain_all(people).run.rank == "combined"


def test_rankings_that_train_do_so_where_the_engine_does(subject):
    model, table, people = subject
    ranking = RankingMix.of(model)
    ranking.train_on(Elsewhere(1))
    with pytest.raises(SettingError, match="elsewhere"):
        ranking.score(model, table, people)
