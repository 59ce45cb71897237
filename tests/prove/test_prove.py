"""Proofs against brute force: every exact claim is what trying all flip sets gives."""

from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Lasso, LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import butfor
from butfor.errors import SettingError, TableError
from butfor.models.engines import OwnFit
from butfor.models.learner import Training
from butfor.models.robust import PartitionEnsemble, part_of
from butfor.result.population import Population
from conftest import odd_table


def made(seed, rows=9, people=3, columns=3, whole=False):
    """A small table; `whole` numbers give many equal distances."""
    rng = np.random.default_rng(seed)
    draw = (lambda *shape: rng.integers(0, 3, shape)) if whole else (lambda *shape: rng.normal(size=shape))
    names = [f"x{k}" for k in range(columns)]
    X, asked = (pd.DataFrame(draw(n, columns).astype(float), columns=names) for n in (rows, people))
    y = pd.Series((X["x0"] + rng.normal(0, 1, rows) > X["x0"].mean()).astype(int))
    y.iloc[:2] = [0, 1]
    groups = rng.choice(["a", "b"], rows + people)
    return X, y, asked, groups[:rows], groups[rows:]


def retrainings(audit, asked):
    """The logits of everyone asked once these labels are flipped, each set trained once; None: not trainable."""

    @cache
    def logits(flips):
        try:
            return audit.learner_.fit(audit.table_, audit.table_.labels(flips)).logits(asked)
        except (butfor.errors.LearnerError, TableError):
            return None  # one class is left: nothing was trained

    return logits


def fewest(logits, case, allowed, most):
    """By retraining every allowed set of up to `most` labels: the size of the smallest that turns the decision."""
    before = logits(())[case] > 0
    for size in range(1, most + 1):
        for flips in combinations(np.flatnonzero(allowed).tolist(), size):
            after = logits(flips)
            if after is not None and (after[case] > 0) != before:
                return size
    return None


def check(model, seed, most=3, psi="same_group", **table):
    X, y, asked, groups, theirs = made(seed, **table)
    audit = butfor.LabelAudit(model, budget=most, phi="everyone", psi=psi, members=1, fresh_seeds=0)
    audit.fit(X, y, sensitive_features=groups)
    population = audit.explain_all(asked, sensitive_features=theirs)
    logits = retrainings(audit, asked)
    for verdict in population:
        allowed = groups == verdict.group if psi == "same_group" else np.ones(len(X), bool)
        real = fewest(logits, verdict.case, allowed, most)
        assert verdict.status in ("found", "proven_none", "not_found")
        assert verdict.at_least is not None
        if real is None:
            assert verdict.status != "found"
            assert verdict.at_least > min(most, allowed.sum()) or verdict.status == "not_found"
        else:
            assert verdict.at_least <= real
            if verdict.exact:
                assert verdict.at_most == real
            assert verdict.status != "proven_none"
    return population


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["same_group", "everything"]))
@example(10_059, "same_group")  # the proof goes beyond the two labels that may be flipped, not beyond the budget
def test_ridge_minima_are_what_brute_force_finds(seed, psi):
    population = check(RidgeClassifier(alpha=1.0), seed, psi=psi)
    assert all(v.exact or v.status == "proven_none" for v in population)
    check(make_pipeline(StandardScaler(), RidgeClassifier(alpha=0.3, fit_intercept=False)), seed, psi=psi)


REGRESSORS = [
    LinearRegression(), make_pipeline(StandardScaler(), Ridge(0.5)), KernelRidge(kernel="rbf", gamma=0.3),
    KNeighborsRegressor(3),
]  # fmt: skip


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(REGRESSORS), st.sampled_from([0.4, 0.5]))
def test_minima_of_regressions_on_0_and_1_are_what_brute_force_finds(seed, regressor, threshold):
    check(butfor.ThresholdedRegressor(regressor, threshold), seed, psi="everything")


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4, 5]), st.booleans())
def test_neighbours_are_counted_as_brute_force_counts(seed, k, whole):
    population = check(KNeighborsClassifier(k), seed, whole=whole)
    assert all(v.exact or v.status == "proven_none" for v in population)
    check(KNeighborsClassifier(k, weights="distance"), seed, whole=whole)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4]))
def test_no_flip_set_refutes_a_partition_ensemble(seed, parts):
    check(PartitionEnsemble(GaussianNB(), parts), seed, most=2, rows=14)
    population = check(PartitionEnsemble(None, parts), seed, most=2, rows=14)  # of ridge parts the costs are known
    assert all(v.exact or v.status == "proven_none" for v in population)


ROWS, ASKED = 250, range(20)


@pytest.fixture(scope="module")
def german():
    """Audits of the first rows of German, each by a model that something can be proven about, and what they answer."""
    data = butfor.load_dataset("german")
    models = {"ridge": RidgeClassifier(), "knn": KNeighborsClassifier(), "steady": PartitionEnsemble()}
    audits = {
        name: butfor.LabelAudit(model, budget=6, members=1, fresh_seeds=0).fit(
            data.X_train.iloc[:ROWS], data.y_train.iloc[:ROWS], sensitive_features="sex"
        )
        for name, model in models.items()
    }
    return audits, {name: audit.explain_all(data.X_test, cases=ASKED) for name, audit in audits.items()}, data


@pytest.mark.parametrize("name", ["ridge", "knn", "steady"])
def test_no_certificate_is_refuted_by_a_search_that_does_not_know_it(name, german):
    audits, populations, data = german
    population = populations[name]
    assert all(v.proof for v in population.eligible)
    share = sum(v.exact or v.status == "proven_none" for v in population.eligible) / len(population.eligible)
    assert share > 0.99
    searched = audits[name].with_search("distance", "algorithm1").explain_all(data.X_test, cases=ASKED)
    for ours, theirs in zip(population, searched, strict=True):
        assert ours.at_least == theirs.at_least  # a proof does not depend on the search
        assert theirs.at_most is None or theirs.at_most >= ours.at_least


def test_votes_certify_and_parts_do_not_depend_on_labels():
    table = odd_table(400)
    X, y = butfor.TableEncoder(dtype="float64").fit_transform(table.drop(columns="granted")), table["granted"]
    steady = PartitionEnsemble(parts=7).fit(X, y)
    assert np.array_equal(steady.part_of_, PartitionEnsemble(parts=7).fit(X, ~y).part_of_)
    assert np.array_equal(part_of(X[::-1], 7), part_of(X, 7)[::-1])
    votes = steady.votes(X[:50])
    ones = votes.sum(axis=1)
    assert np.array_equal(steady.predict(X[:50]), ones > 3.5)
    assert np.array_equal(steady.certify(X[:50]), np.where(ones > 3.5, ones - 4, 3 - ones))
    for row in (0, 5, 77):  # a flip touches the votes of its own part alone
        changed = PartitionEnsemble(parts=7).fit(X, y.where(y.index != row, ~y)).votes(X) != steady.votes(X)
        assert set(np.flatnonzero(changed.any(axis=0))) <= {steady.part_of_[row]}
    assert len(np.unique(part_of(table.drop(columns="granted"), 7))) == 7
    with pytest.raises(TableError, match="Use fewer parts"):
        PartitionEnsemble(parts=300).fit(X, y)
    with pytest.raises(SettingError, match="parts=0"):
        PartitionEnsemble(parts=0).fit(X, y)


def test_brackets_are_told_and_survive_the_record(german, tmp_path):
    population = german[1]["ridge"]
    several = next(v for v in population.found if len(v.positions) > 1)
    assert "No smaller set does: that is proven." in several.sentence
    none = next(v for v in population if v.status == "proven_none")
    assert none.sentence.startswith("Proven: flipping up to 6 of the ")
    assert "does not show that the decision is fair" in none.sentence
    again = Population.from_json(population.to_json(tmp_path / "p.json"))
    assert [(v.at_least, v.at_most, v.proof, v.status) for v in again] == [
        (v.at_least, v.at_most, v.proof, v.status) for v in population
    ]
    assert "Proven: " in population.proven
    page = population.to_html()
    assert population.proven in page
    assert "it takes at least" in none.to_html() or "no larger set would" in none.to_html()
    frame = population.to_frame()
    assert (frame["at_least"][frame["status"] == "proven_none"] > 6).all()


@pytest.mark.parametrize("name", ["ridge", "knn", "steady"])
def test_proofs_are_checked_again_from_the_record_alone(name, german):
    population = german[1][name]
    for status in ("found", "proven_none"):
        verdict = next(v for v in population if v.status == status)
        assert butfor.replay(verdict).agrees
        record = verdict.to_dict()
        record["people"][0]["at_least"] -= 1
        outcome = butfor.replay(record, audit=german[0][name])
        assert not outcome.agrees
        assert "at least" in outcome.sentence


def test_one_label_by_enumeration_is_a_proof_too(salary_population):
    for verdict in salary_population.eligible:
        if verdict.found:
            assert verdict.exact
        else:
            assert (verdict.status, verdict.at_least, verdict.proof) == ("proven_none", 2, "enumeration")


def one_label(model, X, y, asked, groups, theirs):
    """An audit of all single labels, and for whom one of them changes the decision by the model's own `fit`."""
    audit = butfor.LabelAudit(
        model, budget=1, strategy="exhaustive", phi="everyone", psi="everything", members=1, fresh_seeds=0
    ).fit(X, y, sensitive_features=groups)
    before = model.fit(X, y).predict(asked)
    turned = np.zeros(len(asked), bool)
    for row in range(len(X)):
        turned |= model.fit(X, y.where(y.index != row, 1 - y)).predict(asked) != before
    return audit.explain_all(asked, sensitive_features=theirs), np.flatnonzero(turned).tolist()


@pytest.mark.parametrize(("seed", "C"), [(29, 1.0), (32, 0.3)])
def test_none_by_enumeration_is_proven_by_the_models_own_fit(seed, C):
    """A solver that stops early is not where the engine expects it: some margins are off by 0.3 logits."""
    table = made(seed, rows=40, people=30, columns=2, whole=True)
    population, turned = one_label(LogisticRegression(C=C, tol=1e-2), *table)
    assert [v.case for v in population if v.status == "found"] == turned
    assert {v.proof for v in population if v.status == "proven_none"} == {"enumeration"}


@pytest.mark.parametrize("wrong", [4, 5])
def test_separable_labels_without_a_penalty_are_trained_by_the_models_own_fit(wrong):
    """Rows 0 to 5 say no and the others yes, but for one: separable at once, or once that label is flipped."""
    X = pd.DataFrame({"x": np.arange(12.0)})
    y, groups = pd.Series(np.arange(12) >= 6).astype(int), np.array(["a", "b"] * 6)
    y.iloc[wrong] = 1
    population, turned = one_label(LogisticRegression(C=np.inf), X, y, X, groups, groups)
    assert [v.case for v in population if v.status == "found"] == turned


def test_models_without_a_prover_claim_nothing():
    X, y, asked, groups, theirs = made(3, rows=40)
    lasso = butfor.ThresholdedRegressor(Lasso(0.05))  # not linear in the labels
    for model in (LogisticRegression(), RidgeClassifier(class_weight="balanced"), GaussianNB(), lasso):
        audit = butfor.LabelAudit(model, budget=2, phi="everyone", psi="everything", members=1, fresh_seeds=0)
        population = audit.fit(X, y, sensitive_features=groups).explain_all(asked, sensitive_features=theirs)
        assert all(v.at_least in (None, 1) and v.status != "proven_none" for v in population)
        with pytest.raises(SettingError, match="There is no proof for"):
            audit.brackets(asked, sensitive_features=theirs)
    with pytest.raises(butfor.errors.LearnerError, match=r"use butfor.ThresholdedRegressor\(LinearRegression"):
        butfor.LabelAudit(LinearRegression()).fit(X, y, sensitive_features=groups)


def test_a_training_on_one_class_alone_is_no_answer_and_no_error():
    X, y, asked, groups, _ = made(1)
    audit = butfor.LabelAudit(butfor.ThresholdedRegressor(Ridge()), budget=2).fit(X, y, sensitive_features=groups)
    rarer = tuple(map(int, np.flatnonzero(y == y.value_counts().idxmin())))
    answers = OwnFit(1).bind(audit.learner_, audit.table_, asked)([Training((), None), Training(rarer, None)])
    assert np.isfinite(answers[0]).all()
    assert np.isnan(answers[1]).all()
