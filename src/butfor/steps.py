"""The steps from a question to its answers. Each yields what it finds, person by person, so that
`Work.kept` can keep what is done before the work ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from butfor.fit import Fitted
from butfor.models.seam import FlipSet, Floats, Training, flip_direction, person_keys
from butfor.models.trainer import Trainer
from butfor.question import Inquiry, Question
from butfor.result.fresh import FIRST_LOOK_SEEDS, Collateral, FreshSeeds
from butfor.search.gains import GainTable
from butfor.search.person import Person, Search
from butfor.search.proofs import Bracket, prove
from butfor.search.published import in_turn
from butfor.search.rankings import Ranking, checked_scores
from butfor.search.rankings.mix import leader_words
from butfor.search.schedule import Find, Lab, Outcome, Scheduler
from butfor.support.progress import PEOPLE
from butfor.table.decisions import changes_decision

T = TypeVar("T")

SEARCH_SHARE = 2 / 3
"""The share of the time limit for the search; the rest is for confirmations and fresh seeds."""
TRIAL_SHARE = 1 / 4
"""The most of the search's time, and half of its trainings, that a trial may take."""
MAX_PEOPLE_AT_ONCE = 256
"""The most people that are ranked at once."""
MAX_SCORES = 2**23
"""The most scores at once: one per person and training row must fit in memory."""


# --- proofs ---------------------------------------------------------------------------------------


def proven(question: Question) -> Iterator[tuple[int, Bracket]]:
    """How many labels it takes at least, if there is a proof for the model."""
    numbers = question.audited
    if not numbers:
        return
    people = question.people.of(np.array(numbers))
    brackets = prove(people, question.allowed.of_people(numbers))
    if brackets is not None:
        yield from zip(numbers, brackets, strict=True)


def settles(bracket: Bracket | None, most: int) -> bool:
    """Whether a proof replaces the search: no set of up to `most` labels does, or one is known."""
    return bracket is not None and (bracket.at_least > most or bracket.witness is not None)


def to_search(fitted: Fitted, question: Question, proofs: Mapping[int, Bracket]) -> list[int]:
    """Who has labels to flip and no answer by proof."""
    counts = question.allowed.counts
    open_ = [number for number in question.audited if counts[number]]
    if not fitted.strategy.proves:
        return open_
    return [
        number
        for number in open_
        if not settles(proofs.get(number), min(fitted.budget, int(counts[number])))
    ]


# --- rankings -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Ranked:
    """A person's labels in the order of the ranking."""

    order: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))
    """The rows that ψ allows, best first."""
    predicted: NDArray[np.float64] | None = None
    """The effect of each in logits, if the ranking predicts it reliably."""


def after_trial(
    fitted: Fitted, question: Question, numbers: list[int], trainer: Trainer
) -> Iterator[tuple[Ranking, dict[str, Any] | None]]:
    """The ranking, once it has learned from a few retrainings, if it can and these cost little
    enough; and what they showed."""
    # What it learns holds for these people alone.
    ranking = copy(fitted.ranking)
    cost = 0
    if ranking.trial is not None and numbers:
        cost = ranking.trial_sets(len(numbers)) * trainer.members
    if not cost or not leaves_enough(cost, trainer, fitted.fit_seconds):
        yield ranking, None
        return
    people = question.people
    table = people.table
    trainer.progress.phase("trial", cost)
    figures = ranking.trial(
        lambda flips: trainer.margins(trainer.answers(flips))[:, numbers],
        people.model,
        table,
        people.people.iloc[numbers],
        question.allowed.of_people(numbers),
        fitted.budget,
    )
    if figures["poor"]:
        trainer.progress.note(
            "Training is noisy here: predicted and measured effects of a single flip "
            f"agree poorly (rank correlation {figures['spearman']:.2f}). The search uses "
            f"{leader_words(figures['leader'], figures['gains'])}, which moved decisions "
            "furthest in a trial."
        )
    yield ranking, figures


def leaves_enough(cost: int, trainer: Trainer, fit_seconds: float) -> bool:
    """Whether so many trainings leave enough of them and enough time for the search."""
    if 2 * cost > trainer.left:
        return False
    seconds = trainer.work.limits.seconds
    if seconds is None:
        return True
    return cost * trainer.seconds_each(fit_seconds) <= TRIAL_SHARE * SEARCH_SHARE * seconds


def ranked(
    ranking: Ranking, question: Question, numbers: list[int], trainer: Trainer
) -> Iterator[tuple[int, Ranked]]:
    """Everybody's labels in the order in which to flip them. With a limit of time, people closest
    to the other decision come first."""
    people = question.people
    if trainer.work.limits.seconds is not None:
        numbers = sorted(numbers, key=lambda number: abs(people.logits[number]))
    trainer.progress.phase("ranking", len(numbers), PEOPLE)
    for block in blocks(numbers, people.table.n):
        trainer.work.check()
        asked = (people.model, people.table, people.people.iloc[block])
        scores = checked_scores(ranking, *asked)
        effects = None if ranking.predictions is None else ranking.predictions(*asked)
        for k, number in enumerate(block):
            rows = np.flatnonzero(question.allowed[number])
            order = rows[np.argsort(-scores[k][rows], kind="stable")].astype(np.int32)
            predicted = None
            if effects is not None:
                predicted = np.asarray(effects[k][order], np.float64)
            yield number, Ranked(order, predicted)
        trainer.progress.advance(len(block))


def ranked_again(
    ranking: Ranking, question: Question, asked: Sequence[tuple[Person, FlipSet]]
) -> Iterator[NDArray[np.floating[Any]]]:
    """Each person's scores after their own flips."""
    people = question.people
    for block in blocks(asked, people.table.n):
        numbers = [person.number for person, _ in block]
        flips = [flips for _, flips in block]
        rows = people.people.iloc[numbers]
        yield from ranking.score_at(people.model, people.table, rows, flips)


def blocks(people: Sequence[T], rows: int) -> Iterator[list[T]]:
    """As many people at a time as may be ranked on so many training rows."""
    size = max(1, min(MAX_PEOPLE_AT_ONCE, MAX_SCORES // rows))
    for first in range(0, len(people), size):
        yield list(people[first : first + size])


# --- searches -------------------------------------------------------------------------------------


def searched(
    fitted: Fitted,
    question: Question,
    proofs: Mapping[int, Bracket],
    ranking: Ranking,
    orders: Mapping[int, Ranked],
    trainer: Trainer,
) -> Iterator[tuple[int, Outcome]]:
    """What each person's search came to. A proof is checked by retraining like any other find."""
    people = question.people
    away = flip_direction(people.logits)
    gains = GainTable(away)
    keys = person_keys(people.model, people.people)
    counts = question.allowed.counts
    settled = [number for number in question.audited if number not in orders]
    searches: dict[Person, Search] = {}
    for number in [*settled, *orders]:
        own = orders.get(number, Ranked())
        person = Person(
            number=number,
            position=int(question.positions[number]),
            budget=fitted.budget,
            flippable=int(counts[number]),
            start=float(away[number]) * float(people.logits[number]),
            gains=gains.people[number],
            order=own.order,
            predicted=own.predicted,
            gain_limit=ranking.gain_limit,
            random_order=ranking.is_random,
            ranks_again=ranking.score_at is not None,
            rng=np.random.default_rng([fitted.settings.random_state, keys[number]]),
            members=trainer.members,
        )
        if number not in orders and fitted.strategy.proves and number in proofs:
            searches[person] = check_proof(proofs[number], person)
        else:
            searches[person] = fitted.strategy.search(person)
    rank_again = partial(ranked_again, ranking, question)
    lab = Lab(trainer, gains, question.allowed, fitted.strategy.shares, fitted.budget)
    yield from Scheduler(fitted.strategy, lab, rank_again).run(searches)


def check_proof(bracket: Bracket, person: Person) -> Search:
    """A search that has the set of a proof confirmed, if there is one within the budget."""
    within = bracket.at_least <= min(person.budget, person.flippable)
    return in_turn([bracket.witness] if bracket.witness and within else [])


# --- fresh seeds ----------------------------------------------------------------------------------


def under_fresh_seeds(
    seeds: Sequence[int], numbers: Sequence[int], trainer: Trainer
) -> Iterator[tuple[int, Floats]]:
    """Each person's logits on the unchanged data, `[seeds]`."""
    if not seeds or not numbers:
        return
    trainer.progress.phase("fresh seeds", len(seeds))
    logits = trainer.seed_logits([Training((), seed) for seed in seeds])
    for number in numbers:
        yield number, logits[:, number]


def check_finds(
    all_seeds: Sequence[int],
    finds: Mapping[int, FlipSet],
    without: Mapping[int, Floats],
    decisions: NDArray[np.int64],
    trainer: Trainer,
    first_look: int = FIRST_LOOK_SEEDS,
) -> Iterator[tuple[int, FreshSeeds]]:
    """Every find under fresh seeds: all under those of the first look, under the others only finds
    that are still open. `without`: logits without flips, `[seeds]`, by person. The engine trains
    these models; the documentation measures how well it agrees with the definition."""
    logits_with = {person: np.empty(0, np.float32) for person in finds}
    for seeds in filter(len, (all_seeds[:first_look], all_seeds[first_look:])):
        sets = list(dict.fromkeys(finds.values()))
        still_open: dict[int, FlipSet] = {}
        size = max(1, 4 * trainer.bound.width // len(seeds))
        trainer.progress.phase("fresh seeds", len(seeds) * len(sets))
        for first in range(0, len(sets), size):
            block = sets[first : first + size]
            trainings = [Training(flips, seed) for flips in block for seed in seeds]
            logits = trainer.seed_logits(trainings).reshape(len(block), len(seeds), -1)
            for person, flips in finds.items():
                if flips not in block:
                    continue
                after = np.append(logits_with[person], logits[block.index(flips), :, person])
                before = without[person][: len(after)]
                fresh = FreshSeeds.of(
                    changes_decision(before, decisions[person]),
                    changes_decision(after, decisions[person]),
                    (before, after),
                )
                logits_with[person] = after
                if fresh.open_until(len(all_seeds)):
                    still_open[person] = flips
                yield person, fresh
        finds = still_open


# --- side effects ---------------------------------------------------------------------------------


def has_side_effects(fitted: Fitted, inquiry: Inquiry) -> bool:
    """Whether there are others to look at, and a user wants more than the finds."""
    return fitted.settings.fresh_seeds > 0 and len(inquiry.everyone.people) > 1


def side_effects(
    fitted: Fitted,
    question: Question,
    inquiry: Inquiry,
    finds: Mapping[int, Find],
    trainer: Trainer,
) -> Iterator[tuple[int, Collateral]]:
    """How flips for one person change decisions about the others."""
    if not finds or not has_side_effects(fitted, inquiry):
        return
    everyone = inquiry.everyone
    if question.cases == list(range(len(everyone.people))):
        # Known since the finds were confirmed.
        before = question.people.decisions
        answers = {find.flips: find.answers for find in finds.values()}
    else:
        others = trainer.on(everyone.people)
        tried = list(dict.fromkeys([(), *(find.flips for find in finds.values())]))
        trainer.progress.phase("side effects", trainer.members * len(tried))
        answers = dict(zip(tried, others.answers(tried), strict=True))
        before = trainer.decisions(answers[()])
    for number, find in finds.items():
        after = trainer.decisions(answers[find.flips])
        changed = after != before
        changed[question.cases[number]] = False
        accuracies: tuple[float | None, float | None] = (None, None)
        if inquiry.truth is not None:
            accuracies = (accuracy(before, inquiry.truth), accuracy(after, inquiry.truth))
        yield number, Collateral(len(before) - 1, int(changed.sum()), *accuracies)


def accuracy(decisions: NDArray[np.int64], truth: NDArray[np.int64]) -> float:
    return float((decisions == truth).mean())
