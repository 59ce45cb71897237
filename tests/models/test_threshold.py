"""Decisions at another threshold than one half: what plain scikit-learn decides, before and after every find."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import butfor
from butfor.decide import NEAR, Decision, log_odds
from butfor.errors import LearnerError, SettingError

ROWS, PEOPLE = 120, 60
USUAL = {"fresh_seeds": 0, "members": 1, "budget": 4, "phi": "everyone"}


@pytest.fixture(autouse=True)
def no_draws(monkeypatch):
    """Groups' standards are not what this is about."""
    monkeypatch.setattr("butfor.explain.DRAWS", 0)


@pytest.fixture(scope="module")
def credit():
    """Rows, labels and people, most of them of one label."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(ROWS + PEOPLE, 4)), columns=list("abcd"))
    X["sex"] = rng.integers(0, 2, len(X))
    good = X["a"] + 0.5 * X["b"] + rng.normal(0, 1, len(X)) > -1
    y = pd.Series(np.where(good, "yes", "no"), index=X.index)
    return X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]


def audited(credit, model, threshold=0.5, adverse="no", pool=True, **more):
    X, y, people, _ = credit
    audit = butfor.LabelAudit(model, threshold=threshold, **USUAL | more)
    return audit.fit(X, y, sensitive_features="sex", adverse=adverse, pool=people if pool else None)


def flipped(y, positions):
    """Labels of which some are the other one."""
    one, other = sorted(y.unique())
    return y.where(~np.isin(np.arange(len(y)), positions), y.map({one: other, other: one}))


def nearest_to_the_cut(audit, people, count=6):
    return sorted(map(int, np.argsort(np.abs(audit.model_.logits(people)))[:count]))


# --- what is asked for ----------------------------------------------------------------------------------


OWN = "has its own threshold"
REFUSED = [
    *((LogisticRegression(), given, said) for given, said in (
        (0, "above 0 and below 1"), (1, "above 0 and below 1"), (1.5, "write 'top 1.5%'"), ("20", "write 'top 20%'"),
        (-0.1, "above 0 and below 1"), ("top 0%", "above 0 %"), ("top 100%", "below 100 %"),
        ("top 120%", "below 100 %"), ("top 1.2.3%", "above 0 %"), ("top 1.6%", r"'top 1\.6%' of 60 people is nobody"),
        ("top 99.9%", "everybody"), *((odd, "not a threshold") for odd in (math.nan, math.inf, True, None, [0.8])),
        ("", "not a threshold"), ("top", "not a threshold"),
    )),
    *((model, 0.8, "gives no probabilities") for model in (RidgeClassifier(), butfor.ThresholdedRegressor())),
    (FixedThresholdClassifier(LogisticRegression(), threshold=0.3), 0.8, OWN),
]  # fmt: skip


@pytest.mark.parametrize(("model", "threshold", "sentence"), REFUSED)
def test_what_cannot_be_compared_gets_a_sentence(model, threshold, sentence, credit):
    with pytest.raises(SettingError, match=sentence):
        audited(credit, model, threshold)


def test_a_threshold_needs_two_labels_and_places_need_people(credit):
    with pytest.raises(LearnerError, match="Tune it once"):
        audited(credit, TunedThresholdClassifierCV(LogisticRegression()))
    with pytest.raises(SettingError, match="people who compete for the places"):
        audited(credit, LogisticRegression(), "top 20%", pool=False)
    three = (credit[0], pd.Series(np.arange(ROWS) % 3, index=credit[0].index), credit[2], None)
    for model, threshold, said in (
        (LogisticRegression(), 0.8, "with 3 labels"),
        (FixedThresholdClassifier(LogisticRegression()), 0.5, "needs two labels"),
    ):
        with pytest.raises(SettingError, match=said):
            audited(three, model, threshold, adverse=None)


# --- what is decided, and every find --------------------------------------------------------------------


def own(model, threshold, label="yes", **more):
    return FixedThresholdClassifier(model, threshold=threshold, pos_label=label, **more)


MODELS = {
    "logistic": LogisticRegression(),
    "boosting": HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=5, random_state=0),
    "knn": KNeighborsClassifier(5),
    "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
    "calibrated": CalibratedClassifierCV(LinearSVC(random_state=0), cv=2),
    "not the sigmoid": SVC(probability=True, random_state=0),
}
PLACED = {name: MODELS[name] for name in ("logistic", "boosting", "knn")} | {
    "ridge": RidgeClassifier(),
}
WRAPPED = {
    "probabilities": own(LogisticRegression(), 0.8),
    "the other label": own(LogisticRegression(), 0.3, "no"),
    "decision function": own(LogisticRegression(), 0.9, response_method="decision_function"),
    "of no": own(RidgeClassifier(), -0.4, "no"),
    "around a pipeline": own(make_pipeline(StandardScaler(), LogisticRegression()), 0.8),
    "last step": make_pipeline(StandardScaler(), own(LogisticRegression(), 0.8)),
}
PLACES = 12


def favoured(model, threshold, X, y, people, good):
    """Who gets a label by plain scikit-learn: at a probability, by the model itself, or with a place, halfway between
    the last score with one and the first without."""
    fitted = clone(model).fit(X, y)
    column, places = list(fitted.classes_).index(good), PLACES
    if threshold is None:
        return fitted.predict(people) == good
    if threshold != "top 20%":
        return fitted.predict_proba(people)[:, column] >= threshold
    if hasattr(fitted, "predict_proba"):
        scores = log_odds(fitted.predict_proba(people)[:, column])
    else:
        scores = (1 if column else -1) * fitted.decision_function(people)
    best = np.sort(scores)[::-1]
    while places < len(best) and best[places - 1] - best[places] <= NEAR:
        places += 1
    return scores >= (best[places - 1] + best[places]) / 2


@pytest.mark.filterwarnings("ignore:The `probability` parameter")
@pytest.mark.parametrize(
    ("name", "threshold", "adverse"),
    [
        *((name, 0.8, "no") for name in MODELS if name != "logistic"),
        *((name, 0.4, "yes") for name in ("logistic", "knn")),
        *((name, None, "no") for name in WRAPPED),
        *((name, "top 20%", "yes" if name in ("knn", "ridge") else "no") for name in PLACED),
    ],
)
def test_every_find_is_what_plain_scikit_learn_decides(name, threshold, adverse, credit):
    model, (X, y, people, labels) = (MODELS | PLACED | WRAPPED)[name], credit
    good = "yes" if adverse == "no" else "no"
    audit = audited(credit, model, threshold or 0.5, adverse)
    before = favoured(model, threshold, X, y, people, good)
    assert np.array_equal(audit.predict(people) == good, before)
    facts = audit.fitted_.decision_facts(audit.fitted_.people(people)[0].decisions)
    assert (facts.given, facts.pool, facts.accepted) == (threshold, PEOPLE, before.sum())
    assert bool(facts.ties) == (threshold == "top 20%" and name == "knn")
    slow = name in ("boosting", "calibrated", "not the sigmoid")
    population = audit.explain_all(people, labels, cases=nearest_to_the_cut(audit, people, 1 if slow else 6))
    assert population.run.threshold == facts
    for verdict in population:
        assert (verdict.prediction == good) == (verdict.score >= verdict.cut) == before[verdict.case]
    for verdict in population.found:
        after = favoured(model, threshold, X, flipped(y, verdict.positions), people, good)[verdict.case]
        assert after != before[verdict.case]
        assert (verdict.counterfactual_prediction == good) == after
        assert (verdict.counterfactual_score >= verdict.counterfactual_cut) == after
    if threshold == "top 20%":
        assert facts.share == 0.2
        assert (facts.accepted > PLACES) == bool(facts.ties)
        assert (facts.probability is None) == (not hasattr(model, "predict_proba"))
        assert all(v.proof in (None, "one label is the fewest") for v in population)
        assert all(v.counterfactual_cut != v.cut or name == "knn" for v in population.found)
    elif threshold:
        assert (facts.probability, facts.share) == (pytest.approx(threshold), None)
        shares = clone(model).fit(X, y).predict_proba(people)[:, ["no", "yes"].index(good)]
        assert [v.score for v in population] == pytest.approx([shares[v.case] for v in population], abs=1e-6)
    else:
        assert population.run.engine == "linear"
        assert all(verdict.exact for verdict in population.found) or name != "of no"
        assert butfor.replay(population.found[0]).agrees
    assert population.found or slow or (threshold == "top 20%" and name != "logistic")


def test_logits_are_log_odds_from_the_cut(credit):
    X, y, people, _ = credit
    usual, moved = (audited(credit, LogisticRegression(), t) for t in (0.5, 0.8))
    shift = usual.model_.logits(people) - moved.model_.logits(people)
    assert shift == pytest.approx(np.full(PEOPLE, math.log(4)), abs=1e-5)
    pulls = moved.explain_all(people, cases=range(3))
    for verdict in pulls:
        assert sum(verdict.pulls.values()) == pytest.approx(verdict.logit, abs=1e-4)
    other = audited(credit, LogisticRegression(), 0.8, adverse="yes")
    assert (usual.model_.logits(people) - other.model_.logits(people))[0] == pytest.approx(-math.log(4), abs=1e-5)
    assert np.array_equal(other.predict(people) == "no", favoured(LogisticRegression(), 0.8, X, y, people, "no"))


@given(st.floats(1e-6, 1 - 1e-6), st.integers(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_answers_are_on_the_side_that_a_comparison_says(at, label, shares):
    cut, near = Decision(at, label, at), [math.nextafter(at, 0), at, math.nextafter(at, 1)]
    scores = np.array([*shares, *near])
    margins = cut.margins(cut.agreeing(cut.sign * log_odds(scores), scores >= at))
    assert np.array_equal(margins > 0, (scores >= at) == (label == 1))


# --- places ---------------------------------------------------------------------------------------------


def test_places_do_not_depend_on_who_is_asked_about(credit):
    _, _, people, _ = credit
    audit = audited(credit, LogisticRegression(), "top 20%")
    nearest = nearest_to_the_cut(audit, people, 2)
    together = audit.explain_all(people, cases=nearest)
    for case, verdict in zip(nearest, together, strict=True):
        alone = audit.explain_all(people, cases=[case])[0]
        assert (alone.logit, alone.score, alone.cut) == (verdict.logit, verdict.score, verdict.cut)
        assert len(alone.flip_set) == len(verdict.flip_set)


def test_ties_for_the_last_place_are_counted():
    pool = pd.DataFrame({"x": range(6)})
    scores = np.array([[5.0, 4, 4, 4, 2, 1], [6, 5, 4, 3, 2, 1], [1, 1, 1, 1, 1, 1], [5, 4, np.nan, 3, 2, 1]])
    found = Decision("top 30%", 1, places=2, pool=pool).divide(scores)
    assert list(found.cut[:3]) == [3.0, 4.5, 0.0]
    assert np.isnan(found.cut[3])
    assert list(found.accepted[:3]) == [4, 2, 6]
    assert list(found.ties[:3]) == [3, 0, 6]
    lowest = Decision("top 30%", 0, places=2, pool=pool)
    assert list(lowest.margins(np.hstack([[[0.0, 9.0]], -scores[1:2]]))[0] > 0) == [True, True]
    assert list(lowest.margins(np.hstack([[[-5.0, -4.4]], -scores[1:2]]))[0] > 0) == [False, True]


def test_the_ledger_holds_answers_before_the_cut(credit, tmp_path):
    people = credit[2]
    audits = [audited(credit, LogisticRegression(), t, ledger=tmp_path / "ledger") for t in (0.8, 0.8, 0.7)]
    runs = [audit.explain_all(people, cases=range(5)).run for audit in audits]
    assert runs[0].recalled == 0
    assert runs[1].recalled == runs[1].retrainings == runs[0].retrainings
    assert 0 < runs[2].recalled < runs[2].retrainings


# --- proofs ---------------------------------------------------------------------------------------------


@settings(max_examples=5, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 0.6, 2 / 3, 0.75]),
    st.sampled_from(["uniform", "distance"]),
    st.sampled_from([0, 1]),
)
def test_proofs_under_a_threshold_survive_brute_force(seed, threshold, weights, adverse):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 4, (8, 2)) * 1.0 + rng.normal(0, 0.01, (8, 2)), columns=["a", "b"])
    y, groups = pd.Series(rng.integers(0, 2, 8)), rng.integers(0, 2, 8)
    y.iloc[:2] = [0, 1]
    asked = pd.DataFrame(rng.normal(1.5, 1, (3, 2)), columns=["a", "b"])
    ridge = FixedThresholdClassifier(RidgeClassifier(), threshold=2 * threshold - 1, pos_label=adverse)
    knn = KNeighborsClassifier(4, weights=weights)
    for model, at in ((knn, threshold), (ridge, None)):
        audit = butfor.LabelAudit(model, threshold=at or 0.5, psi="everything", phi="everyone", budget=2, fresh_seeds=0)
        audit.fit(X, y, sensitive_features=groups, adverse=adverse)

        def decided(flips, model=model, at=at):
            return favoured(model, at, X, flipped(y, flips), asked, 1 - adverse)

        def sets(size):
            return [flips for flips in combinations(range(8), size) if flipped(y, flips).nunique() == 2]

        before = decided(())
        assert np.array_equal(before, audit.predict(asked) == 1 - adverse)
        turning = {size: np.any([decided(flips) != before for flips in sets(size)], axis=0) for size in (1, 2)}
        for k, verdict in enumerate(audit.explain_all(asked, sensitive_features=np.zeros(3, int))):
            fewest = next((size for size, turned in turning.items() if turned[k]), None)
            assert verdict.at_least is not None
            assert verdict.at_least <= (fewest or 9)
            assert (verdict.status == "found") == (fewest is not None) or not verdict.exact
            if verdict.found:
                assert len(verdict.flip_set) >= fewest


# --- networks and ensembles -----------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.7, "top 20%"])
def test_an_ensemble_of_networks_has_the_cut_of_its_mean(threshold, credit):
    pytest.importorskip("torch")
    people, labels = credit[2:]
    model = butfor.MLP(hidden=(4,), max_epochs=6, learning_rate=0.05)
    audit = audited(credit, model, threshold, members=3, fresh_seeds=4, budget=12)
    fitted, table = audit.fitted_, audit.table_

    def answers(flips, seeds):
        learners = [fitted.learner.learner.reseeded(seed) for seed in seeds]
        return np.array([learner.fit(table, table.labels(flips)).logits(people) for learner in learners], float)

    def cut(answers):
        best = np.sort(answers)[::-1]
        return math.log(7 / 3) if threshold == 0.7 else (best[11] + best[12]) / 2

    seeds = [0, 1, 2]
    mean = answers((), seeds).mean(axis=0)
    assert audit.model_.logits(people) == pytest.approx(mean - cut(mean), abs=1e-5)
    population = audit.explain_all(people, labels, cases=nearest_to_the_cut(audit, people, 5))
    assert population.found
    verdict = population.found[0]
    after = answers(verdict.positions, seeds).mean(axis=0)
    assert verdict.counterfactual_logit == pytest.approx(after[verdict.case] - cut(after), abs=1e-4)
    fresh = answers(verdict.positions, fitted.seeds)
    turned = sum((each[verdict.case] > cut(each)) != (verdict.logit > 0) for each in fresh)
    assert verdict.fresh.with_flips == turned
    assert butfor.replay(verdict).agrees


def test_gradients_count_away_from_the_decision_at_the_cut(credit):
    pytest.importorskip("torch")
    from butfor.rank import as_ranking

    _, _, people, _ = credit
    audits = [audited(credit, butfor.MLP(hidden=(4,), max_epochs=4), t) for t in (0.5, 0.8)]
    between = [a.model_.logits(people) > 0 for a in audits]
    turned = between[0] & ~between[1]
    assert turned.any()
    usual, moved = (as_ranking("gradient").score(a.model_, a.table_, people[turned]) for a in audits)
    assert np.array_equal(usual, -moved)
