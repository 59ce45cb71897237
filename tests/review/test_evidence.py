"""What answers show: a careful reviewer is told from one who guesses."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from butfor.result.fresh import exact_interval
from butfor.result.reviewed import Evidence, Tally
from butfor.review.answers import Outcome
from butfor.review.tasks import Task

LABELS = ("refused", "granted")
REVIEWS = 200


def made(chosen: int, wrong_share: float, seed: int) -> tuple[tuple[Task, ...], dict[str, str]]:
    """Refused labels, of which a share is wrong, and as many decoys, two in three of them refused; and the truth."""
    rng = np.random.default_rng(seed)
    recorded = [0] * chosen + [int(k % 3 == 0) for k in range(chosen)]
    tasks = tuple(Task(f"X-{k}", k, k, LABELS[label], k >= chosen, 0, 0.5, 0.5) for k, label in enumerate(recorded))
    wrong = rng.random(chosen) < wrong_share
    return tasks, {t.id: LABELS[1] if not t.decoy and wrong[t.position] else t.label for t in tasks}


def erring(truth: dict[str, str], share: float, rng: np.random.Generator) -> dict[str, str]:
    return {task: LABELS[LABELS.index(label) ^ int(rng.random() < share)] for task, label in truth.items()}


def accepted(chosen: int, wrong_share: float, answer) -> float:
    """The share of simulated reviews whose answers show something."""
    shows = 0
    for seed in range(REVIEWS):
        tasks, truth = made(chosen, wrong_share, seed)
        given = answer(truth, np.random.default_rng(10_000 + seed))
        shows += not Outcome(tasks, tuple(given) if isinstance(given, list) else (given,)).evidence.shows_nothing
    return shows / REVIEWS


def guess(share: float):
    return lambda truth, rng: {task: LABELS[int(rng.random() < share)] for task in truth}


def careful(truth, rng):
    return erring(truth, 0.1, rng)


@pytest.mark.parametrize(
    ("answer", "most"),
    [
        (guess(0.5), 0.01),  # at random
        (guess(0.8), 0.01),  # at random, mostly "granted"
        (guess(0.2), 0.03),  # at random, mostly "refused"
        (guess(1.0), 0.0),  # always "granted"
        (guess(0.0), 0.0),  # always "refused"
        (lambda truth, rng: {task: LABELS[k % 2] for k, task in enumerate(truth)}, 0.0),  # in turn
        (lambda truth, rng: [guess(0.5)(truth, rng), guess(0.5)(truth, rng)], 0.01),  # two who guess
        (lambda truth, rng: [careful(truth, rng), guess(0.5)(truth, rng)], 0.01),  # one of two guesses
    ],
)
def test_careless_answers_are_hardly_ever_accepted(answer, most):
    assert accepted(50, 0.0, answer) <= most


@pytest.mark.parametrize(
    ("chosen", "wrong", "answer", "least", "most"),
    [
        (50, 0.0, careful, 0.0, 0.05),  # there is nothing to find: the test's level
        (50, 0.2, careful, 0.4, 0.6),
        (50, 0.4, careful, 0.9, 1.0),
        (100, 0.2, careful, 0.75, 0.9),
        (100, 0.4, careful, 0.99, 1.0),
        (50, 0.4, lambda truth, rng: [careful(truth, rng), careful(truth, rng)], 0.95, 1.0),
    ],
)
def test_a_careful_reviewer_who_errs_one_time_in_ten_is_accepted_where_labels_are_wrong(
    chosen, wrong, answer, least, most
):
    assert least <= accepted(chosen, wrong, answer) <= most


def evidence(*tallies: Tally, errors=((0, 30),)) -> Evidence:
    return Evidence(tallies=tallies, errors=errors, tasks=60, unsure=0, expected=(9.0, True))


def test_the_test_is_fishers_one_sided_and_goes_by_recorded_label():
    for chosen, decoys in (((6, 10), (1, 10)), ((1, 10), (6, 10)), ((9, 29), (1, 20))):
        table = [[hit, n - hit] for hit, n in (chosen, decoys)]
        p = fisher_exact(table, alternative="greater")[1]
        assert evidence(Tally("no", chosen, decoys)).p == pytest.approx(p)
    # Both labels are changed as often among the chosen as among decoys; pooled, the chosen would be changed more often.
    apart = evidence(Tally("no", (40, 50), (8, 10)), Tally("yes", (1, 10), (5, 50)))
    assert apart.p > 0.4
    assert fisher_exact([[41, 19], [13, 47]], alternative="greater")[1] < 1e-6
    assert evidence(Tally("no", (0, 0), (1, 2))).p is None


def test_many_errors_on_decoys_are_no_better_than_guessing():
    tally = Tally("no", (25, 30), (8, 20))
    assert not evidence(tally, errors=((9, 30),)).shows_nothing
    assert exact_interval(10, 30)[1] > 0.5
    assert "the reviewer changed 10 of 30 decoys (33 %)" in evidence(tally, errors=((10, 30),)).shows_nothing
    assert "reviewer 2 changed 10 of 30" in evidence(tally, errors=((9, 30), (10, 30))).shows_nothing


def test_mistakes_are_what_the_error_on_decoys_makes_of_right_labels():
    # 100 labels, 30 of them wrong and changed; of the 70 right ones a tenth is changed too.
    assert evidence(Tally("no", (37, 100), (5, 50))).mistakes == pytest.approx(7)
