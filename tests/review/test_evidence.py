"""What answers show: a careful reviewer is told from one who guesses."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from butfor.result.fresh import exact_interval
from butfor.result.reviewed import Evidence, Tally
from butfor.review.answers import Outcome
from butfor.review.tasks import Task

LABELS = ("refused", "granted")


def made(chosen: int, wrong_share: float, seed: int) -> tuple[tuple[Task, ...], dict[str, str]]:
    """Refused labels, of which a share is wrong, and as many decoys, two in three of them refused; and the truth."""
    rng = np.random.default_rng(seed)
    recorded = [0] * chosen + [int(k % 3 == 0) for k in range(chosen)]
    tasks = tuple(Task(f"X-{k}", k, k, LABELS[label], k >= chosen, 0, 0.5, 0.5) for k, label in enumerate(recorded))
    wrong = rng.random(chosen) < wrong_share
    return tasks, {t.id: LABELS[1] if not t.decoy and wrong[t.position] else t.label for t in tasks}


def erring(truth: dict[str, str], share: float, rng: np.random.Generator) -> dict[str, str]:
    return {task: LABELS[LABELS.index(label) ^ int(rng.random() < share)] for task, label in truth.items()}


def accepted(chosen: int, wrong_share: float, answer, reviews: int) -> float:
    """The share of simulated reviews whose answers show something."""
    shows = 0
    for seed in range(reviews):
        tasks, truth = made(chosen, wrong_share, seed)
        given = answer(truth, np.random.default_rng(10_000 + seed))
        shows += not Outcome(tasks, tuple(given) if isinstance(given, list) else (given,)).evidence.shows_nothing
    return shows / reviews


def guess(share: float):
    return lambda truth, rng: {task: LABELS[int(rng.random() < share)] for task in truth}


def in_turn(truth, rng):
    return {task: LABELS[k % 2] for k, task in enumerate(truth)}


def careful(truth, rng):
    return erring(truth, 0.1, rng)


def two(one, other):
    return lambda truth, rng: [one(truth, rng), other(truth, rng)]


REVIEWERS = {
    "at random": (50, 0.0, guess(0.5), 0.0, 0.01),
    "at random, eight of ten favourable": (50, 0.0, guess(0.8), 0.0, 0.01),
    "at random, eight of ten adverse": (50, 0.0, guess(0.2), 0.0, 0.03),
    "always the favourable label": (50, 0.0, guess(1.0), 0.0, 0.0),
    "always the adverse label": (50, 0.0, guess(0.0), 0.0, 0.0),
    "in turn": (50, 0.0, in_turn, 0.0, 0.0),
    "two at random": (50, 0.0, two(guess(0.5), guess(0.5)), 0.0, 0.01),
    "one careful, one at random": (50, 0.0, two(careful, guess(0.5)), 0.0, 0.01),
    "careful, none wrong": (50, 0.0, careful, 0.0, 0.05),
    "careful, 20 % wrong": (50, 0.2, careful, 0.4, 0.65),
    "careful, 40 % wrong": (50, 0.4, careful, 0.9, 1.0),
    "two careful, 20 % wrong": (50, 0.2, two(careful, careful), 0.65, 0.85),
    "careful, 20 % of 100 wrong": (100, 0.2, careful, 0.7, 0.9),
}
"""Labels to review, the share of them that is wrong, the answers, and the least and most reviews to accept. Careful:
the truth, but for one answer in ten."""


@pytest.mark.parametrize("kind", REVIEWERS)
def test_careless_answers_show_nothing_and_careful_ones_do_where_labels_are_wrong(kind):
    chosen, wrong, answer, least, most = REVIEWERS[kind]
    assert least <= accepted(chosen, wrong, answer, reviews=200) <= most


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


if __name__ == "__main__":  # the table of docs/review.md
    for name, (chosen, wrong, answer, *_) in REVIEWERS.items():
        print(f"{name}: {100 * accepted(chosen, wrong, answer, reviews=1000):.1f} %")
