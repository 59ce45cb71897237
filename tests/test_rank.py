"""Rankings as identities: the same result reached two ways."""

import numpy as np
import pytest

from butfor.errors import SettingError
from butfor.learn.recipe import Recipe, Rows
from butfor.learn.reference import train
from butfor.rank import NAMES, as_ranking, checked_scores
from butfor.rank.activation import Activation
from butfor.rank.combined import Combined
from butfor.rank.distance import Distance
from butfor.rank.surrogate import Surrogate
from conftest import fitted


@pytest.fixture(scope="module")
def subject():
    rng = np.random.default_rng(0)
    X, people = rng.normal(size=(120, 5)), rng.normal(size=(7, 5)).astype(np.float32)
    y = (X[:, 0] + rng.normal(size=120) > 0).astype(np.float32)
    rows = Rows(X, y, X[:30], y[:30])
    return train(Recipe(hidden=(8, 6), max_epochs=5, batch_size=None), rows), rows, people


@pytest.mark.parametrize("name", NAMES)
def test_a_score_per_person_and_row_whoever_else_is_asked(name, subject):
    network, rows, people = subject
    ranking = as_ranking(name)
    together = checked_scores(ranking, network, rows, people)
    assert together.shape == (7, 120)
    alone = checked_scores(ranking, network, rows, people[3:4])
    assert together[3] == pytest.approx(alone[0], rel=1e-5, abs=1e-6)
    assert ranking.name == name


@pytest.mark.parametrize("name", [n for n in NAMES if n != "chance"])
def test_permuting_the_training_rows_permutes_the_scores(name, subject):
    network, rows, people = subject
    order = np.random.default_rng(1).permutation(rows.n)
    shuffled = Rows(rows.X[order], rows.y[order], rows.X_val, rows.y_val)
    ranking = as_ranking(name)
    straight = ranking.score(network, rows, people)[:, order]
    assert ranking.score(network, shuffled, people) == pytest.approx(straight, rel=1e-4, abs=1e-6)


def test_the_surrogate_weights_are_the_ridge_prediction(subject):
    from sklearn.linear_model import Ridge

    _, rows, people = subject
    z = Surrogate(ridge=2.5).weights(rows, people)
    ridge = Ridge(alpha=2.5, fit_intercept=False).fit(rows.X, rows.y)
    assert z @ rows.y == pytest.approx(ridge.predict(people), abs=1e-5)


def test_the_signed_surrogate_is_the_effect_of_the_flip(subject):
    from sklearn.linear_model import Ridge

    network, rows, people = subject
    scores = Surrogate(signed=True).score(network, rows, people)

    def ridge(y):
        return Ridge(alpha=1.0, fit_intercept=False).fit(rows.X.astype(float), y).predict(people.astype(float))

    for row in (0, 17, 99):
        change = ridge(rows.labels((row,))) - ridge(rows.y)
        away = np.where(network.predict(people) == 1, -1, 1)
        assert scores[:, row] == pytest.approx(away * change, abs=1e-5)


def test_activation_similarity_counted_by_hand(subject):
    network, rows, people = subject
    scores = Activation(decay=0.5).score(network, rows, people)
    first, last = network.hidden_layers(people[:1])
    first_row, last_row = network.hidden_layers(rows.X[4:5])
    differ = 0.5 * ((first > 0) != (first_row > 0)).sum() + ((last > 0) != (last_row > 0)).sum()
    assert scores[0, 4] == pytest.approx(1 - differ / (0.5 * 8 + 6), abs=1e-6)
    assert Activation().score(network, rows, rows.X[:3])[[0, 1, 2], [0, 1, 2]] == pytest.approx(1)


def test_distance_ranks_a_row_itself_first(subject):
    network, rows, _ = subject
    assert list(Distance().score(network, rows, rows.X[:10]).argmax(axis=1)) == list(range(10))


def test_combined_is_the_mean_of_its_normalised_parts(subject):
    network, rows, people = subject

    def scaled(scores):
        low, high = scores.min(axis=1, keepdims=True), scores.max(axis=1, keepdims=True)
        return (scores - low) / (high - low)

    parts = [Surrogate().score(network, rows, people), Activation().score(network, rows, people)]
    expected = (scaled(parts[0]) + scaled(parts[1])) / 2
    assert Combined().score(network, rows, people) == pytest.approx(expected, abs=1e-6)


def test_chance_draws_by_seed_and_person(subject):
    network, rows, people = subject
    one, other = as_ranking("chance", 1), as_ranking("chance", 2)
    scores = one.score(network, rows, people)
    assert np.array_equal(scores, one.score(network, rows, people))
    assert not np.array_equal(scores, other.score(network, rows, people))
    assert not np.array_equal(scores[0], scores[1])


def test_a_function_is_a_ranking(subject):
    network, rows, people = subject

    def oldest_first(network, rows, people):
        return np.tile(-np.arange(rows.n, dtype=float), (len(people), 1))

    ranking = as_ranking(oldest_first)
    assert ranking.name == "oldest_first"
    assert checked_scores(ranking, network, rows, people)[0].argmax() == 0


def test_scores_that_cannot_be_sorted_are_refused(subject):
    network, rows, people = subject
    with pytest.raises(SettingError, match=r"returned nan for person 0"):
        checked_scores(as_ranking(lambda *_: np.full((7, 120), np.nan)), network, rows, people)
    with pytest.raises(SettingError, match=r"shape \(3,\)"):
        checked_scores(as_ranking(lambda *_: np.zeros(3)), network, rows, people)
    with pytest.raises(SettingError, match="no ranking 'best'"):
        as_ranking("best")
    with pytest.raises(SettingError, match="neither"):
        as_ranking(3)
    with pytest.raises(SettingError, match="ridge"):
        Surrogate(ridge=0)
    with pytest.raises(SettingError, match="decay"):
        Activation(decay=2)


def test_an_audit_ranks_by_what_it_was_told_whatever_the_engines_device():
    from butfor.learn.reference import ReferenceEngine

    audit, data = fitted("salary", protocol="singles", rank="combined", share=False)
    audit.engine = ReferenceEngine(1)
    audit.engine.device = "elsewhere"
    for name in ("distance", "chance", "surrogate"):
        told = audit.searching(name, "singles", share=False).explain_all(data.X_test)
        plain, _ = fitted("salary", protocol="singles", rank=name, share=False, engine="reference")
        alone = plain.explain_all(data.X_test)
        assert told.run["rank"] == name
        assert [v.course for v in told] == [v.course for v in alone]
    assert audit.explain_all(data.X_test).run["rank"] == "combined"


def test_rankings_that_train_do_so_where_the_engine_does(subject):
    from butfor.rank.gradient import Gradient

    ranking = as_ranking("guided")
    ranking.train_on("elsewhere")
    network, rows, people = subject
    with pytest.raises(RuntimeError, match="elsewhere"):
        ranking.score(network, rows, people)
    told = Gradient(device="cpu")
    told.train_on("elsewhere")
    assert told.score(network, rows, people).shape == (len(people), rows.n)
