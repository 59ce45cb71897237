"""Decisions at another threshold than one half: what plain scikit-learn decides, before and after
every find."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor.errors import LearnerError, SettingError
from butfor.search.rankings import as_ranking
from butfor.table.decisions import TIE_TOLERANCE, Decision, log_odds

ROWS, ASKED, PLACES = 120, 60, 12


# Rows, labels and people, most of them of one label.
RNG = np.random.default_rng(7)
ALL = pd.DataFrame(RNG.normal(size=(ROWS + ASKED, 4)), columns=list("abcd"))
ALL["sex"] = RNG.integers(0, 2, len(ALL))
GOOD = np.where(ALL["a"] + 0.5 * ALL["b"] + RNG.normal(0, 1, len(ALL)) > -1, "yes", "no")
X, PEOPLE, Y, TRUTH = (
    ALL[:ROWS],
    ALL[ROWS:],
    pd.Series(GOOD[:ROWS]),
    pd.Series(GOOD[ROWS:], index=ALL.index[ROWS:]),
)


def audited(model, threshold=0.5, adverse="no", pool=PEOPLE, y=Y, **more):
    usual = {"fresh_seeds": 0, "members": 1, "budget": 4, "phi": "everyone"}
    audit = butfor.LabelAudit(model, threshold=threshold, **usual | more)
    return audit.fit(X, y, sensitive_features="sex", adverse=adverse, pool=pool, draws=0)


def flipped(y, positions):
    """Labels of which some are the other one."""
    one, other = sorted(y.unique())
    return y.where(~np.isin(np.arange(len(y)), positions), y.map({one: other, other: one}))


def nearest_to_the_cut(audit, count):
    return sorted(map(int, np.argsort(np.abs(audit.model_.logits(PEOPLE)))[:count]))


def test_who_has_exactly_one_half_is_decided_as_the_model_decides():
    rows = pd.DataFrame({"a": np.repeat([0.0, 1.0], 20), "sex": ["f", "m"] * 20})
    labels = np.where(
        (np.arange(40) < 10) | (np.arange(40) >= 22), "yes", "no"
    )  # half of those with a = 0
    audit = butfor.LabelAudit(
        DecisionTreeClassifier(max_depth=1), budget=1, phi="everyone", fresh_seeds=0
    )
    population = audit.fit(rows[["a"]], labels, sensitive_features=rows["sex"]).explain_all(
        rows[["a"]], sensitive_features=rows["sex"]
    )
    own = DecisionTreeClassifier(max_depth=1).fit(rows[["a"]], labels)
    assert own.predict_proba(rows[["a"]])[0, 1] == 0.5
    assert [v.prediction for v in population] == own.predict(rows[["a"]]).tolist()


# --- what is asked for ----------------------------------------------------------------------------

LOGISTIC = LogisticRegression()
THREE = {"y": pd.Series(np.arange(ROWS) % 3, index=X.index), "adverse": None}


@pytest.mark.parametrize(
    ("model", "threshold", "more", "said"),
    [
        *((LOGISTIC, threshold, {}, said) for threshold, said in (
            (0, "above 0 and below 1"), (1, "above 0 and below 1"), (1.5, "write 'top 1.5%'"),
            ("20", "write 'top 20%'"), ("top 0%", "above 0 %"), ("top 100%", "below 100 %"),
            ("top 1.2.3%", "above 0 %"), ("top 0.5%", r"'top 0\.5%' of 60 people is nobody"),
            ("top 99.9%", "everybody"), *((odd, "not a threshold") for odd in (math.nan, True, None, [0.8], "top")),
        )),
        (RidgeClassifier(), 0.8, {}, "gives no probabilities"),
        (butfor.ThresholdedRegressor(), 0.8, {}, "gives no probabilities"),
        (FixedThresholdClassifier(LOGISTIC, threshold=0.3), 0.5, {}, "audit the classifier inside "
                                                                     "it"),
        (make_pipeline(StandardScaler(), TunedThresholdClassifierCV(LOGISTIC)), 0.5, {}, "best_threshold_ of a"),
        (LOGISTIC, "top 20%", {"pool": None}, "people who compete for the places"),
        (LOGISTIC, 0.8, THREE, "with 3 labels"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_gets_a_sentence(model, threshold, more, said):
    with pytest.raises((LearnerError, SettingError), match=said):
        audited(model, threshold, **more)


# --- what is decided, and every find --------------------------------------------------------------


def favoured(model, threshold, y, good, X=X, people=PEOPLE):
    """Who gets a label by plain scikit-learn: at a probability, by the model itself, or with a
    place, halfway between the last score with one and the first without."""
    fitted = clone(model).fit(X, y)
    column, places = list(fitted.classes_).index(good), PLACES
    if threshold != "top 20%":
        return fitted.predict_proba(people)[:, column] >= threshold
    if hasattr(fitted, "predict_proba"):
        scores = log_odds(fitted.predict_proba(people)[:, column])
    else:
        scores = (1 if column else -1) * fitted.decision_function(people)
    best = np.sort(scores)[::-1]
    while places < len(best) and best[places - 1] - best[places] <= TIE_TOLERANCE:
        places += 1
    return scores >= (best[places - 1] + best[places]) / 2


KNN, SCALED = KNeighborsClassifier(5), StandardScaler()
BOOSTING = HistGradientBoostingClassifier(max_iter=12, min_samples_leaf=5, random_state=0)
DECIDED = {
    "logistic": (LOGISTIC, 0.4, "yes"),
    "knn": (KNN, 0.4, "yes"),
    "not the sigmoid": (SVC(probability=True, random_state=0), 0.8, "no"),
    "pipeline": (make_pipeline(SCALED, LOGISTIC), 0.8, "no"),
    "places": (LOGISTIC, "top 20%", "no"),
    "places by boosting": (BOOSTING, "top 20%", "no"),
    "places by neighbours": (KNN, "top 20%", "yes"),
    "places without probabilities": (RidgeClassifier(), "top 20%", "yes"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The `probability` parameter")
@pytest.mark.parametrize("name", DECIDED)
def test_every_find_is_what_plain_scikit_learn_decides(name):
    model, threshold, adverse = DECIDED[name]
    good = "yes" if adverse == "no" else "no"
    audit = audited(model, threshold, adverse)
    before = favoured(model, threshold, Y, good)
    assert np.array_equal(audit.predict(PEOPLE) == good, before)
    facts = audit.fitted_.decision_facts(audit.fitted_.people(PEOPLE)[0].decisions)
    assert (facts.given, facts.pool, facts.accepted) == (threshold, ASKED, before.sum())
    assert bool(facts.ties) == (name == "places by neighbours")
    slow = name in ("places by boosting", "not the sigmoid")
    population = audit.explain_all(PEOPLE, TRUTH, cases=nearest_to_the_cut(audit, 1 if slow else 5))
    assert population.run.threshold == facts
    assert population.found or slow or name.startswith("places ")
    for verdict in population:
        assert (
            (verdict.prediction == good) == (verdict.score >= verdict.cut) == before[verdict.case]
        )
    for verdict in population.found:
        after = favoured(model, threshold, flipped(Y, verdict.positions), good)[verdict.case]
        assert after != before[verdict.case]
        assert (verdict.counterfactual_prediction == good) == after
        assert (verdict.counterfactual_score >= verdict.counterfactual_cut) == after
    if threshold == "top 20%":
        assert facts.share == 0.2
        assert (facts.accepted > PLACES) == bool(facts.ties)
        assert (facts.probability is None) == (not hasattr(model, "predict_proba"))
        assert all(v.proof in (None, "one label is the fewest") for v in population)
        assert all(v.counterfactual_cut != v.cut or model is KNN for v in population.found)
    else:
        assert (facts.probability, facts.share) == (pytest.approx(threshold), None)
        shares = clone(model).fit(X, Y).predict_proba(PEOPLE)[:, ["no", "yes"].index(good)]
        assert [v.score for v in population] == pytest.approx(
            [shares[v.case] for v in population], abs=1e-6
        )
        assert butfor.replay(population.found[0]).agrees or slow


def test_logits_are_log_odds_from_the_cut_and_the_ledger_holds_answers_before_it(tmp_path):
    ledger = tmp_path / "ledger"
    usual, moved, other = (
        audited(LOGISTIC, t, a) for t, a in ((0.5, "no"), (0.8, "no"), (0.8, "yes"))
    )
    log_odds_of = usual.model_.logits(PEOPLE)
    assert log_odds_of - moved.model_.logits(PEOPLE) == pytest.approx(math.log(4), abs=1e-5)
    assert log_odds_of - other.model_.logits(PEOPLE) == pytest.approx(-math.log(4), abs=1e-5)
    first, again, lower = (
        audited(LOGISTIC, t, ledger=ledger).explain_all(PEOPLE, cases=range(5))
        for t in (0.8, 0.8, 0.7)
    )
    assert all(
        sum(verdict.pulls.values()) == pytest.approx(verdict.logit, abs=1e-4) for verdict in first
    )
    assert first.run.recalled == 0
    assert again.run.recalled == again.run.retrainings == first.run.retrainings
    assert lower.run.recalled == 0, "answers of another cut"


@given(
    st.floats(1e-6, 1 - 1e-6), st.integers(0, 1), st.lists(st.floats(0, 1), min_size=1, max_size=9)
)
def test_answers_are_on_the_side_that_a_comparison_says(at, label, shares):
    cut, near = Decision(at, label, at), [math.nextafter(at, 0), at, math.nextafter(at, 1)]
    scores = np.array([*shares, *near])
    margins = cut.margins(cut.agreeing(cut.sign * log_odds(scores), scores >= at))
    assert np.array_equal(margins > 0, (scores >= at) == (label == 1))
    exactly = cut.fixed_answer + cut.sign * np.array([-1e-3, 0.0, 1e-3])
    assert ((cut.margins(exactly) > 0) == (label == 1)).tolist() == [False, True, True]


def test_places_do_not_depend_on_who_is_asked_about():
    audit = audited(LOGISTIC, "top 20%")
    nearest = nearest_to_the_cut(audit, 2)
    for case, verdict in zip(nearest, audit.explain_all(PEOPLE, cases=nearest), strict=True):
        alone = audit.explain_all(PEOPLE, cases=[case])[0]
        assert (alone.logit, alone.score, alone.cut) == (verdict.logit, verdict.score, verdict.cut)
        assert len(alone.flip_set) == len(verdict.flip_set)


def test_ties_for_the_last_place_are_counted():
    pool = pd.DataFrame({"x": range(6)})
    scores = np.array(
        [[5.0, 4, 4, 4, 2, 1], [6, 5, 4, 3, 2, 1], [1, 1, 1, 1, 1, 1], [5, 4, np.nan, 3, 2, 1]]
    )
    found = [Decision("top 30%", share=0.3, pool=pool).last_place(each) for each in scores]
    np.testing.assert_array_equal(found, [(3.0, 3), (4.5, 0), (0.0, 6), (np.nan, 0)])
    lowest = Decision("top 30%", 0, share=0.3, pool=pool)
    assert list(lowest.margins(np.hstack([[[0.0, 9.0]], -scores[1:2]]))[0] > 0) == [True, True]
    assert list(lowest.margins(np.hstack([[[-5.0, -4.4]], -scores[1:2]]))[0] > 0) == [False, True]


@settings(max_examples=3, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.3, 0.6, 2 / 3, 0.75]),
    st.sampled_from(["uniform", "distance"]),
    st.sampled_from([0, 1]),
)
def test_proofs_under_a_threshold_survive_brute_force(seed, threshold, weights, adverse):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        rng.integers(0, 4, (8, 2)) * 1.0 + rng.normal(0, 0.01, (8, 2)), columns=["a", "b"]
    )
    y, groups = pd.Series(rng.integers(0, 2, 8)), rng.integers(0, 2, 8)
    y.iloc[:2] = [0, 1]
    asked = pd.DataFrame(rng.normal(1.5, 1, (3, 2)), columns=["a", "b"])
    model, turning = KNeighborsClassifier(4, weights=weights), {}
    audit = butfor.LabelAudit(
        model, threshold=threshold, psi="everything", phi="everyone", budget=2, fresh_seeds=0
    )
    audit.fit(rows, y, sensitive_features=groups, adverse=adverse, draws=0)
    before = favoured(model, threshold, y, 1 - adverse, rows, asked)
    assert np.array_equal(before, audit.predict(asked) == 1 - adverse)
    for size in (1, 2):
        labels = [
            each
            for flips in combinations(range(8), size)
            if (each := flipped(y, flips)).nunique() == 2
        ]
        after = [favoured(model, threshold, each, 1 - adverse, rows, asked) for each in labels]
        turning[size] = np.any(after != before, axis=0)
    for k, verdict in enumerate(audit.explain_all(asked, sensitive_features=np.zeros(3, int))):
        fewest = next((size for size, turned in turning.items() if turned[k]), None)
        assert verdict.at_least is not None
        assert verdict.at_least <= (fewest or 9)
        assert (verdict.status == "found") == (fewest is not None) or not verdict.exact
        assert not verdict.found or len(verdict.flip_set) >= fewest


@pytest.mark.parametrize("threshold", [0.7, "top 20%"])
def test_an_ensemble_of_networks_has_the_cut_of_its_mean(threshold):
    pytest.importorskip("torch")
    model = butfor.MLP(hidden=(4,), max_epochs=6, learning_rate=0.05)
    audit = audited(model, threshold, members=3, fresh_seeds=4, budget=12)
    fitted, table = audit.fitted_, audit.table_

    def answers(flips, seeds):
        learners = [fitted.learner.learner.reseeded(seed) for seed in seeds]
        return np.array(
            [learner.fit(table, table.labels(flips)).logits(PEOPLE) for learner in learners], float
        )

    def cut(answers):
        best = np.sort(answers)[::-1]
        return math.log(7 / 3) if threshold == 0.7 else (best[11] + best[12]) / 2

    mean = answers((), range(3)).mean(axis=0)
    assert audit.model_.logits(PEOPLE) == pytest.approx(mean - cut(mean), abs=1e-5)
    population = audit.explain_all(PEOPLE, TRUTH, cases=nearest_to_the_cut(audit, 5))
    verdict = population.found[0]
    after = answers(verdict.positions, range(3)).mean(axis=0)
    assert verdict.counterfactual_logit == pytest.approx(after[verdict.case] - cut(after), abs=1e-4)
    fresh = answers(verdict.positions, fitted.seeds)
    turned = sum((each[verdict.case] > cut(each)) != (verdict.logit > 0) for each in fresh)
    assert verdict.fresh.with_flips == turned
    assert butfor.replay(verdict).agrees


def test_gradients_count_away_from_the_decision_at_the_cut():
    pytest.importorskip("torch")
    usual, moved = (audited(butfor.MLP(hidden=(4,), max_epochs=4), t) for t in (0.5, 0.8))
    turned = PEOPLE[(usual.model_.logits(PEOPLE) > 0) & ~(moved.model_.logits(PEOPLE) > 0)]
    assert len(turned)
    scores = [
        as_ranking("gradient").score(each.model_, each.table_, turned) for each in (usual, moved)
    ]
    assert np.array_equal(scores[0], -scores[1])
