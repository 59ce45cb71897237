"""Ensembles of seeds: what they are, how they are trained and ranked for, and the search among
their members."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import butfor
from butfor.errors import SettingError
from butfor.models.ensemble import fresh_seeds, member_seeds, single_learner
from butfor.models.network import MLPLearner, NetworkEngine
from butfor.models.seam import Training
from butfor.search.solid import MARGIN_DEVIATIONS
from conftest import fitted

MEMBERS, FRESH = 5, 31


@pytest.fixture(scope="module")
def german():
    """An ensemble audit of a few people with a generous budget, so that something is solid."""
    audit, data = fitted(
        "german", 300, members=MEMBERS, fresh_seeds=FRESH, budget=30, phi="everyone"
    )
    return audit, data, audit.explain_all(data.X_test, data.y_test, cases=range(8))


def test_the_model_and_every_find_are_the_mean_of_members_by_the_definition(german):
    audit, data, population = german
    single, table = audit.learner_.learner, audit.table_

    def mean(flips, people):
        each = [
            single.reseeded(seed).fit(table, table.labels(flips)).logits(people)
            for seed in range(MEMBERS)
        ]
        return np.mean(each, axis=0)

    logits = mean((), data.X_test)
    assert audit.fitted_.members == MEMBERS
    assert audit.model_.logits(data.X_test) == pytest.approx(logits, abs=1e-6)
    assert [v.logit for v in population] == pytest.approx(logits[:8], abs=1e-6)
    refitted = audit.learner_.fit(table, table.labels())
    assert np.array_equal(refitted.logits(data.X_test), audit.model_.logits(data.X_test))
    assert population.found
    for verdict in population.found[:2]:
        logit = mean(verdict.positions, data.X_test.iloc[[verdict.case]])[0]
        assert verdict.counterfactual_logit == pytest.approx(logit, abs=1e-6)
        assert (logit > 0) != (verdict.logit > 0)
        assert f"mean of {MEMBERS} models" in verdict.sentence
    assert butfor.replay(population.found[0]).agrees  # rebuilt from the record alone


def test_fresh_seeds_took_no_part_and_single_networks_of_further_seeds_hold_what_is_solid(german):
    audit, data, population = german
    own = audit.learner_.own_seed
    members = {own if seed is None else seed for seed in member_seeds(audit.learner_)}
    seeds = fresh_seeds(audit.learner_, FRESH + 20)
    fresh, further = seeds[:FRESH], seeds[FRESH:]
    assert len(members | set(fresh) | set(further)) == MEMBERS + FRESH + 20
    assert population.run.seed_ranges == {
        "members": (0, MEMBERS - 1),
        "fresh": (10_000, 10_000 + FRESH - 1),
    }
    assert all(v.fresh.seeds in (30, FRESH) for v in population.found)
    assert population.solid
    assert "any seed" in population.sentence
    train = NetworkEngine().bind(audit.learner_.learner, audit.table_, data.X_test.iloc[:8])
    for verdict in population.solid:
        answers = train([Training(verdict.positions, seed) for seed in further])[:, verdict.case]
        assert ((answers > 0) != (verdict.logit > 0)).mean() >= 0.8
        assert verdict.distance == len(verdict.positions)
        assert verdict.hold >= 0.9


def test_the_margin_is_kept_within_the_budget(german):
    audit, _, population = german
    assert audit.fitted_.strategy.name == "solid"
    assert any(
        v.clearance >= MARGIN_DEVIATIONS and len(v.positions) < v.run.budget
        for v in population.found
    )
    assert all(len(v.positions) <= v.run.budget for v in population.found)


def test_members_are_as_many_as_make_sense():
    data, newton = butfor.load_dataset("german"), LogisticRegression(solver="newton-cholesky")
    X, people = data.X_train[:200].select_dtypes("number"), data.X_test.select_dtypes("number")
    y, groups, others = data.y_train[:200], data.X_train["sex"][:200], data.X_test["sex"]
    for model, settings, said in (
        (newton, {"members": 4}, "seeds do not change LogisticRegression"),
        (KNeighborsClassifier(), {"strategy": "solid"}, "needs the members of an ensemble"),
    ):
        with pytest.raises(SettingError, match=said):
            butfor.LabelAudit(model, **settings).fit(X, y, sensitive_features=groups)
    plain = butfor.LabelAudit(newton, budget=20, phi="everyone", n_jobs=1).fit(
        X, y, sensitive_features=groups
    )
    assert (plain.fitted_.members, plain.fitted_.strategy.name) == (1, "guided")
    population = plain.explain_all(people, sensitive_features=others, cases=range(5))
    assert population.solidity["solid"] == len(population.found) > 0
    assert all("no seed" in v.belief for v in population.found)
    assert population.checked
    assert "any seed" not in population.sentence
    steady = butfor.LabelAudit(
        butfor.PartitionEnsemble(RandomForestClassifier(3, random_state=0), 3)
    )
    assert (
        steady.fit(X, y, sensitive_features=groups).fitted_.members == 1
    )  # its proofs would not hold for a mean
    forest = butfor.LabelAudit(
        RandomForestClassifier(3, random_state=5), members=3, budget=2, fresh_seeds=2, n_jobs=1
    )
    forest.fit(X, y, sensitive_features=groups)
    assert forest.learner_.name == "3 × RandomForestClassifier"
    population = forest.explain_all(people, sensitive_features=others, cases=range(1))
    assert population.run.seed_ranges["members"] == (5, 7)
    # By the kind of model and the table, not by the clock: the same on every machine.
    assert MLPLearner(butfor.MLP()).usual_members(forest.table_) == 16
    assert single_learner(forest.learner_).usual_members(forest.table_) == 8
