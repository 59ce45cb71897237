"""Ensembles of seeds: what they are, how they are trained and ranked for, and the search among their members."""

from functools import partial

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import butfor
from butfor.errors import SettingError
from butfor.models.ensemble import fresh_seeds, member_seeds, single_learner
from butfor.models.learner import Training, flip_direction
from butfor.models.network import FusedEngine, MLPLearner
from butfor.rank import as_ranking, checked_scores
from butfor.rank.mix import RankingMix
from butfor.rank.ranking import percentile
from butfor.result.run import SeedRanges
from butfor.search import MARGIN, solid
from conftest import fitted

MEMBERS, FRESH = 5, 31


@pytest.fixture(scope="module")
def german():
    """An ensemble audit of a few people with a generous budget, so that something is solid."""
    audit, data = fitted("german", 300, members=MEMBERS, fresh_seeds=FRESH, budget=30, phi="everyone")
    return audit, data, audit.explain_all(data.X_test, data.y_test, cases=range(12))


@pytest.fixture(scope="module")
def numbers():
    """The same table's numbers: rows, labels and groups; people and their groups."""
    data = butfor.load_dataset("german")
    X, people = data.X_train[:200].select_dtypes("number"), data.X_test.select_dtypes("number")
    return X, data.y_train[:200], data.X_train["sex"][:200], people, data.X_test["sex"]


def test_the_audited_model_is_the_mean_of_its_members(german):
    audit, data, population = german
    assert audit.fitted_.members == MEMBERS
    single = audit.learner_.learner
    alone = [single.reseeded(seed).fit(audit.table_, audit.table_.labels()) for seed in range(MEMBERS)]
    logits = np.mean([model.logits(data.X_test) for model in alone], axis=0)
    assert audit.model_.logits(data.X_test) == pytest.approx(logits, abs=1e-6)
    assert [v.logit for v in population] == pytest.approx(logits[:12], abs=1e-6)
    refitted = audit.learner_.fit(audit.table_, audit.table_.labels())
    assert np.array_equal(refitted.logits(data.X_test), audit.model_.logits(data.X_test))


def test_every_find_turns_the_mean_of_all_members_by_the_definition(german):
    audit, data, population = german
    assert population.found
    for verdict in population.found[:3]:
        labels = audit.table_.labels(verdict.positions)
        models = [audit.learner_.learner.reseeded(seed).fit(audit.table_, labels) for seed in range(MEMBERS)]
        logit = np.mean([model.logits(data.X_test.iloc[[verdict.case]])[0] for model in models])
        assert verdict.counterfactual_logit == pytest.approx(logit, abs=1e-6)
        assert (logit > 0) != (verdict.logit > 0)
        assert f"mean of {MEMBERS} models" in verdict.sentence
    assert butfor.replay(population.found[0]).agrees  # rebuilt from the record alone


def test_fresh_seeds_took_no_part(german):
    audit, _, population = german
    own = audit.learner_.own_seed
    members = {own if seed is None else seed for seed in member_seeds(audit.learner_)}
    fresh = set(fresh_seeds(audit.learner_, FRESH))
    assert not members & fresh
    assert not fresh & set(fresh_seeds(audit.learner_, FRESH, skip=FRESH))
    assert population.run.seed_ranges == SeedRanges((0, MEMBERS - 1), (10_000, 10_000 + FRESH - 1))
    assert all(v.fresh.seeds in (30, FRESH) for v in population.found)


def test_solid_means_that_single_networks_hold(german):
    audit, data, population = german
    solid = population.solid
    assert solid
    train = FusedEngine().bind(audit.learner_.learner, audit.table_, data.X_test.iloc[:12])
    for verdict in solid:
        seeds = fresh_seeds(audit.learner_, 20, skip=FRESH)  # further seeds: nobody chose by them
        otherwise = (train([Training(verdict.positions, s) for s in seeds])[:, verdict.case] > 0) != (verdict.logit > 0)
        assert otherwise.mean() >= 0.8
        assert verdict.distance == len(verdict.positions)
        assert verdict.hold >= 0.9
        assert "any seed" in population.sentence


def test_the_margin_is_kept_by_no_shorter_prefix(german):
    audit, data, population = german
    assert audit.fitted_.strategy.name == "solid"
    kept = [v for v in population.found if v.clearance >= MARGIN]
    assert kept
    assert any(len(v.positions) < v.run.budget for v in kept)
    assert all(len(v.positions) <= v.run.budget for v in population.found)
    cases = [v.case for v in kept[:3]]
    loose = audit.with_search(strategy=partial(solid, margin=1.0)).explain_all(data.X_test, cases=cases)
    for wide, narrow in zip(loose, kept[:3], strict=True):
        assert wide.found
        assert len(wide.positions) <= len(narrow.positions)


def test_scores_count_away_from_the_ensembles_decision(german):
    audit, data, _ = german
    people, model = data.X_test.iloc[:8], audit.model_
    members = model.members[:4]  # as many as the CPU averages over
    out = flip_direction(model.logits(people))
    turned = [
        as_ranking("gradient").score(m, audit.table_, people) * (flip_direction(m.logits(people)) * out)[:, None]
        for m in members
    ]
    averaged = checked_scores(as_ranking("gradient"), model, audit.table_, people)
    assert averaged == pytest.approx(np.median(turned, axis=0), abs=1e-4)
    means = np.mean([as_ranking("combined").score(m, audit.table_, people) for m in model.members], axis=0)
    assert checked_scores(as_ranking("combined"), model, audit.table_, people) == pytest.approx(means)
    assert as_ranking("combined").averages(model)
    assert not as_ranking("distance").averages(model)


def equal_but_for_ties(scores, expected):
    """Sweeps differ in their last bits from call to call, so a few rows that nearly tie may change places."""
    assert np.isclose(scores, expected, rtol=1e-6).mean() > 0.99
    assert scores == pytest.approx(expected, abs=0.01)


def test_the_published_score_counts_half_beside_an_ensembles_gradient(german):
    audit, data, _ = german
    people, model, table = data.X_test.iloc[:3], audit.model_, audit.table_
    leaders = RankingMix.of(model)
    gradient, published = (percentile(checked_scores(part, model, table, people)) for part in leaders.parts.values())
    equal_but_for_ties(leaders.score(model, table, people), (gradient + published / 2) / 1.5)
    alone = RankingMix.of(model.members[0])
    both = [percentile(part.score(model.members[0], table, people)) for part in alone.parts.values()]
    assert alone.score(model.members[0], table, people) == pytest.approx(np.mean(both, axis=0))


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (LogisticRegression(solver="newton-cholesky"), {"members": 4}, "seeds do not change LogisticRegression"),
        (KNeighborsClassifier(), {"strategy": "solid"}, "needs the members of an ensemble"),
        (None, {"members": -1}, "members=-1"),
    ],
)
def test_members_that_make_no_sense_are_refused(numbers, model, settings, said):
    with pytest.raises(SettingError, match=said):
        butfor.LabelAudit(model, **settings).fit(*numbers[:2], sensitive_features=numbers[2])


def test_members_are_as_many_as_make_sense(numbers):
    X, y, groups, people, others = numbers
    plain = butfor.LabelAudit(LogisticRegression(solver="newton-cholesky"), budget=20, phi="everyone", n_jobs=1)
    plain.fit(X, y, sensitive_features=groups)
    assert (plain.fitted_.members, plain.fitted_.strategy.name) == (1, "guided")
    population = plain.explain_all(people, sensitive_features=others, cases=range(5))
    assert population.solidity["solid"] == len(population.found) > 0
    assert all("no seed" in v.belief for v in population.found)
    assert population.checked
    assert "any seed" not in population.sentence
    steady = butfor.LabelAudit(butfor.PartitionEnsemble(RandomForestClassifier(3, random_state=0), 3))
    assert steady.fit(X, y, sensitive_features=groups).fitted_.members == 1  # its proofs would not hold for a mean
    forest = butfor.LabelAudit(RandomForestClassifier(3, random_state=5), members=3, budget=6, fresh_seeds=4, n_jobs=1)
    forest.fit(X, y, sensitive_features=groups)
    assert forest.learner_.name == "3 × RandomForestClassifier"
    population = forest.explain_all(people, sensitive_features=others, cases=range(3))
    assert population.run.seed_ranges.members == (5, 7)
    assert MLPLearner(butfor.MLP()).usual_members(forest.table_.n, 100.0) == 16
    assert single_learner(forest.learner_).usual_members(forest.table_.n, 5.0) == 4
