"""What answers show: a reviewer who knows something is told from one who guesses, or who only follows the columns."""

import numpy as np
import pytest
from scipy.stats import fisher_exact
from sklearn.linear_model import LogisticRegression

from butfor import LabelAudit
from butfor.errors import TableError
from butfor.result.reviewed import Evidence, chance
from butfor.review.answers import Outcome
from butfor.review.tasks import CALIPER, likelihoods, matched, simulated_power
from recorded import LABELS, PLANTED, TABLE, key_with

NAMES = ("refused", "granted")


@pytest.fixture(scope="module")
def audit() -> LabelAudit:
    """A third of group b's granted loans were refused all the same."""
    audit = LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    return audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")


def evidence(labels=(9, 30), controls=(1, 30), errors=((0, 30),), **changes: object) -> Evidence:
    told = {"alone": (0, 0), "tasks": 90, "unsure": 0, "expected": 9.0, "most": 20.0} | changes
    told |= {"strata": ((labels, controls),)}
    return Evidence(group="sex = f", others="other groups", errors=errors, **told)


def reviews(pairs: int, wrong_share: float, answer, times: int, clear: int = 20) -> float:
    """The share of simulated reviews whose answers show something: refused labels, a share of them wrong, with
    controls, and clear cases of both labels. `answer`: from the truth to the answers of one reviewer or several."""
    kinds = ["label"] * pairs + ["control"] * pairs + ["clear case"] * clear
    labels = ["refused"] * 2 * pairs + [NAMES[k % 2] for k in range(clear)]
    controls = [pairs + k for k in range(pairs)] + [None] * (pairs + clear)
    key, shows = key_with(labels, NAMES, kind=kinds, control=controls), 0
    for seed in range(times):
        rng = np.random.default_rng(seed)
        truth = np.array([label == "granted" for label in labels])
        truth[:pairs] = rng.random(pairs) < wrong_share
        given = answer(truth, rng)
        answers = [{f"K-{k}": NAMES[int(a)] for k, a in enumerate(one)} for one in np.atleast_2d(given)]
        shows += not Outcome(key, tuple(answers)).evidence.shows_nothing
    return shows / times


def erring(share: float, reviewers: int = 1):
    return lambda truth, rng: truth ^ (rng.random((reviewers, len(truth))) < share)


REVIEWERS = {
    "at random": (0.3, lambda truth, rng: rng.random(len(truth)) < 0.5, 0.0, 0.05),
    "at random, mostly favourable": (0.3, lambda truth, rng: rng.random(len(truth)) < 0.8, 0.0, 0.05),
    "always favourable": (0.3, lambda truth, rng: np.ones(len(truth), bool), 0.0, 0.0),
    "always adverse": (0.3, lambda truth, rng: np.zeros(len(truth), bool), 0.0, 0.0),
    "careful, and nothing is wrong": (0.0, erring(0.1), 0.0, 0.06),
    "careful, and 30 % are wrong": (0.3, erring(0.1), 0.65, 1.0),
    "two, and 30 % are wrong": (0.3, erring(0.1, 2), 0.85, 1.0),
}
"""The share of labels that is wrong, the answers, and the least and most reviews to rely on. Careful: one error in
ten."""


@pytest.mark.parametrize("kind", REVIEWERS)
def test_careless_answers_show_nothing_and_careful_ones_do_where_labels_are_wrong(kind):
    wrong, answer, least, most = REVIEWERS[kind]
    assert least <= reviews(40, wrong, answer, times=100) <= most


@pytest.mark.parametrize("wrong", [0.1, 0.25])
def test_the_power_that_is_foretold_is_that_of_the_reviews(wrong):
    foretold = simulated_power(np.full(40, wrong), np.ones(40, bool), np.ones(40, bool), 20)
    assert foretold == pytest.approx(reviews(40, wrong, erring(0.1), times=300), abs=0.09)  # three standard errors


def test_the_test_is_fishers_one_sided_and_its_interval_agrees():
    for labels, controls in (((6, 10), (1, 10)), ((1, 10), (6, 10)), ((9, 29), (1, 29)), ((10, 30), (3, 30))):
        table = [[hit, n - hit] for hit, n in (labels, controls)]
        p, found = fisher_exact(table, alternative="greater")[1], evidence(labels, controls)
        assert found.p == pytest.approx(p)
        low, high = found.interval
        assert low < found.difference < high
        assert low > 0 or p > 0.05
        assert bool(found.shows_nothing) == (p > 0.05)
    assert evidence((0, 0), (0, 0)).p is None


def test_a_difference_must_be_there_among_those_alike_too():
    """The others' standard favours 20 labels and 5 controls. Who follows it changes these and nothing else."""
    follows = (((0, 10), (0, 25)), ((20, 20), (5, 5)))
    assert fisher_exact([[20, 10], [5, 25]], alternative="greater")[1] < 0.001
    assert chance(follows) == 1
    assert chance((((8, 10), (3, 25)), ((16, 20), (1, 5)))) < 0.001
    same = (((4, 10), (1, 10)), ((4, 10), (1, 10)))
    assert chance(same) == pytest.approx(fisher_exact([[8, 12], [2, 18]], alternative="greater")[1], rel=0.2)


def test_a_reviewer_who_guesses_on_clear_cases_is_refused():
    assert not evidence(errors=((9, 30),)).shows_nothing
    assert "the reviewer changed 10 of 30 clear cases (33 %)" in evidence(errors=((10, 30),)).shows_nothing
    assert "reviewer 2 changed 10 of 30" in evidence(errors=((9, 30), (10, 30))).shows_nothing
    assert not evidence(errors=((0, 0),)).shows_nothing
    assert "not known, since no clear case got a label" in " ".join(evidence(errors=((0, 0),)).lines)


def test_many_more_changes_than_expected_get_a_sentence():
    many, few = (evidence((hit, 30), (1, 30), alone=(2, 5)).lines[-1] for hit in (19, 18))
    assert few == "About 9 of the group's 35 labels were expected to be wrong."
    assert many.startswith(f"{few} Reviewers changed 21, far more than that")


def test_labels_and_controls_are_as_likely_to_be_favourable_and_each_control_is_used_once(audit):
    review = audit.review_tasks(labels=60)
    favourable, others = (LABELS == "yes").to_numpy(), (TABLE["group"] == "a").to_numpy()
    likely, _ = likelihoods(TABLE[["income", "debts"]], favourable, others)
    tasks = {task.position: task for task in review.tasks}
    pairs = [(t, tasks[t.control]) for t in review.tasks if t.kind == "label" and t.control is not None]
    assert len({control.position for _, control in pairs}) == len(pairs) > 8
    for task, control in pairs:
        assert np.abs(likely[task.position] - likely[control.position]).max() <= CALIPER
        assert (task.label, control.label, control.kind) == ("no", "no", "control")
        assert (TABLE["group"][task.position], TABLE["group"][control.position]) == ("b", "a")
    left = [t.position for t in review.tasks if t.kind == "label" and t.control is None]
    used = {control.position for _, control in pairs}
    free = [k for k in np.flatnonzero(others & ~favourable) if k not in used]
    for position in left:
        assert np.abs(likely[position] - likely[free]).max(axis=1).min() > CALIPER, "there was one"
    for task in review.tasks:
        if task.kind == "clear case":
            p = likely[task.position, 1]
            assert (p if task.label == "no" else 1 - p) <= 0.1


def test_the_nearest_pairs_come_first():
    likely = np.array([[0.5, 0.5], [0.52, 0.5], [0.53, 0.5], [0.5, 0.9], [0.9, 0.9]])
    assert matched(likely, [0, 1], [2]) == {1: 2}
    assert matched(likely, [0, 1, 3], [2, 4]) == {1: 2}, "both probabilities count"
    assert matched(likely, [0], []) == {}


def test_whoever_follows_the_columns_changes_both_alike_and_whoever_knows_the_truth_does_not(audit):
    """A rule of the columns finds most of group b's wrong labels, and just as many where nothing is known to be wrong:
    it shows nothing. With decoys in the place of controls it was relied on."""
    from butfor.standard.model import TwoModels

    review = audit.review_tasks(labels=60)
    X, others = TABLE[["income", "debts"]], np.flatnonzero(TABLE["group"] == "a")
    number = (LABELS == "yes").to_numpy().astype(float)
    standard = TwoModels.of(X).predict(others, np.arange(len(X)), number[None, others], None)[0] > 0.5
    regression = LogisticRegression().fit(X, LABELS).predict(X) == "yes"
    for rule in (regression, standard):
        follows = {t.id: "yes" if rule[t.position] else "no" for t in review.tasks}
        with pytest.raises(TableError, match=r"These answers show nothing: the reviewer changed .* may be chance"):
            audit.after_review(follows, TABLE[:50])
    knows = {t.id: "yes" if PLANTED[t.position] else t.label for t in review.tasks}
    reviewed, _ = audit.after_review(knows, TABLE[:50])
    assert not reviewed.evidence.shows_nothing
    assert "held to a stricter standard than labels of other groups" in "\n".join(reviewed.lines)
