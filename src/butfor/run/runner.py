"""Runs the audit of some people, step by step.

    proofs ──▸ trial ──▸ search ──▸ fresh seeds ──▸ side effects

Ctrl-C or a limit ends it at any point. What is done is kept; the rest is marked as unknown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import Stopped
from butfor.models.learner import FlipSet, flip_direction, person_keys
from butfor.progress import PEOPLE, Progress, announcement
from butfor.prove import Bracket, prove
from butfor.rank import checked_scores
from butfor.rank.mix import leader_words
from butfor.result.fresh import FIRST_LOOK
from butfor.rules import Allowed
from butfor.run.fitted import Fitted
from butfor.run.fresh_seeds import Find, changes_decision, check_finds, logits_without_flips, side_effects
from butfor.schedule import schedule
from butfor.search import FOUND, LEAST_FOR_SECOND, NEAR, Gains, Known, Person, witness
from butfor.situation import Situation
from butfor.stopping import StopFlag
from butfor.train import Trainer

BLOCK, SCORES = 256, 2**23
"""The most people scored at once, and the most scores: one per person and training row must fit in memory."""
SEARCH_SHARE = 2 / 3
"""The search's share of the time limit; the rest is for confirmations and fresh seeds."""
QUICK = 3.0
"""Seconds of a trial that may come before the announcement."""
RANKING_COST = 3.0
"""The cost of ranking all labels, in trainings per member, for a block of people or, at flipped labels, for one."""


@dataclass(eq=False)
class Runner:
    """Audits the people of a situation, who are at `cases` of the given table, and at `positions` of those asked about.
    `psi` says which labels may be flipped for whom, `eligible` who is audited."""

    fitted: Fitted
    situation: Situation
    positions: NDArray[np.int64]
    cases: Sequence[int]
    psi: Allowed
    eligible: NDArray[np.int64]
    trainer: Trainer
    everyone: int | None = None
    """How many people are audited in all, if this runner announces the time."""
    later: int = 0
    """Trainings that come after the search."""
    proven: dict[int, Bracket] = field(default_factory=dict)
    agreement: dict[str, Any] | None = None
    searches: list[Person] = field(default_factory=list)
    extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    """More fields of a person's verdict."""
    interrupted: bool = False
    trial_seconds: float | None = None
    """Seconds per training of the trial, with all that came with it."""

    def __post_init__(self) -> None:
        self.known = Known(flip_direction(self.situation.logits))

    def run(self, X: pd.DataFrame, labels: NDArray[np.int64] | None) -> None:
        """All steps, as far as the time allows; the people are rows of the table X."""
        steps = (self.prove, self.search, self.check_fresh_seeds, lambda: self.count_side_effects(X, labels))
        for step in steps:
            if not self.flag.interrupted:
                with suppress(Stopped):
                    step()
        self._leave_open()
        self.interrupted = self.flag.interrupted
        counted = any("collateral" in known for known in self.extra.values())
        if self._has_others(X) and not counted:
            self.progress.note(
                "Stopped before side effects on other people were counted; verdicts do not include them."
            )

    @property
    def progress(self) -> Progress:
        return self.trainer.progress

    @property
    def flag(self) -> StopFlag:
        return self.trainer.flag

    @property
    def out_of_time(self) -> bool:
        return self.flag.out_of_time

    @property
    def finds(self) -> list[Find]:
        decisions = self.situation.predictions
        return [Find(s.number, s.found, int(decisions[s.number])) for s in self.searches if s.found]

    def note(self, person: int, **known: Any) -> None:
        self.extra.setdefault(person, {}).update(known)

    def _leave_open(self) -> None:
        """Give everyone without a search an incomplete one."""
        begun = {search.number for search in self.searches}
        self.searches += [self._unranked(int(person)) for person in self.eligible if int(person) not in begun]

    # --- proofs and search --------------------------------------------------------------------------

    def prove(self) -> None:
        """Lower bounds for each person, if the model has proofs."""
        if len(self.eligible):
            brackets = prove(self.situation.of(self.eligible), self.psi.of_people(self.eligible))
            self.proven = dict(zip(map(int, self.eligible), brackets, strict=True)) if brackets else {}

    def search(self) -> None:
        """Search for every audited person, within the search's share of the time."""
        begun, seconds = time.monotonic(), self.flag.limits.seconds
        if seconds is not None:
            self.flag.set_deadline(begun + SEARCH_SHARE * seconds)
        with suppress(Stopped):  # while labels were ranked, before any search
            self._search()
        self._leave_open()
        if self.out_of_time:
            left = sum(not search.complete for search in self.searches)
            self.progress.note(f"The time is up: the search for {left} of {len(self.searches)} people is incomplete.")
        if seconds is not None:
            self.flag.set_deadline(begun + seconds)

    def _search(self) -> None:
        """Search for everyone, with a limit of time those closest to the other decision first. What is proven replaces
        a search."""
        strategy, proven = self.fitted.strategy, dict[Person, Any]()
        for number, bracket in self.proven.items() if strategy.proves else ():
            # No set within the budget, or none at all.
            beyond = bracket.at_least > min(self.fitted.budget, int(self.psi[number].sum()))
            if beyond or bracket.witness is not None:
                person = self._unranked(number)
                proven[person] = witness(person, None if beyond else bracket.witness)
        people = np.setdiff1d(self.eligible, [person.number for person in proven])
        if self._trial_is_quick(people):
            self._hold_trial(people)
            self._announce(people)
        else:
            self._announce(people)
            self._hold_trial(people)
        if self.flag.limits.seconds is not None:
            people = people[np.argsort(np.abs(self.situation.logits[people]), kind="stable")]
        ranked = self._ranked(people)
        self.searches = [*proven, *ranked]
        searches = proven | {person: strategy.search(person) for person in ranked}
        schedule(searches, strategy, self.known, self.trainer, self.psi, self._rank_again)

    def _unranked(self, number: int, order: NDArray[np.int64] | None = None, **more: Any) -> Person:
        """A person as a search sees them."""
        start = float(self.known.away[number]) * float(self.situation.logits[number])
        return Person(
            number=number,
            position=int(self.positions[number]),
            budget=self.fitted.budget,
            order=np.empty(0, np.int64) if order is None else order,
            flippable=int(self.psi[number].sum()),
            start=start,
            gains=Gains(self.known, number),
            known=self.known,
            members=self.trainer.members,
            **{"rng": np.random.default_rng(0)} | more,
        )

    def _ranked(self, people: NDArray[np.int64]) -> list[Person]:
        """People with the rows that ψ allows them, best first."""
        situation, ranking, strategy = self.situation, self.fitted.ranking, self.fitted.strategy
        keys = person_keys(situation.model, situation.people)
        ranked: list[Person] = []
        self.progress.phase("ranking", len(people), PEOPLE)
        size = max(1, min(BLOCK, SCORES // situation.table.n))
        for first in range(0, len(people), size):
            self.flag.check()
            block = people[first : first + size]
            asked = situation.people.iloc[block]
            scores = checked_scores(ranking, situation.model, situation.table, asked)
            predicted = ranking.predictions(situation.model, situation.table, asked)
            for k, (number, score) in enumerate(zip(block, scores, strict=True)):
                allowed = np.flatnonzero(self.psi[number])
                depth = None if ranking.is_random else strategy.depth(len(allowed), self.fitted.budget)
                order = allowed[np.argsort(-score[allowed], kind="stable")][:depth]
                ranked.append(
                    self._unranked(
                        int(number),
                        order,
                        rng=np.random.default_rng([self.fitted.settings.random_state, keys[number]]),
                        random_order=ranking.is_random,
                        ranks_again=ranking.scores_after_flips,
                        predicted=None if predicted is None else np.asarray(predicted[k][order], np.float64),
                        gain_limit=ranking.gain_limit,
                    )
                )
            self.progress.advance(len(block))
        return ranked

    def _rank_again(self, people: Sequence[Person], flips: Sequence[FlipSet]) -> NDArray[np.floating[Any]]:
        asked = self.situation.people.iloc[[person.number for person in people]]
        return self.fitted.ranking.score_at(self.situation.model, self.situation.table, asked, flips)

    def _hold_trial(self, people: NDArray[np.int64]) -> None:
        """Let the ranking learn from a few retrainings first, if it can and enough trainings and time remain for the
        search."""
        ranking, trainer, seconds = self.fitted.ranking, self.trainer, self.flag.limits.seconds
        sets = ranking.trial(len(people)) if len(people) else 0
        if not sets or 2 * sets * trainer.members > trainer.left:
            return
        if seconds is not None and sets * trainer.members * self._seconds_each() > SEARCH_SHARE * seconds / 4:
            return
        situation, trained, begun = self.situation, trainer.trained, time.perf_counter()
        self.progress.phase("trial", sets * trainer.members)
        self.agreement = figures = ranking.prepare(
            lambda flips: trainer.logits(flips)[:, people],
            situation.model,
            situation.table,
            situation.people.iloc[people],
            self.psi.of_people(people),
            self.fitted.budget,
        )
        self.trial_seconds = (time.perf_counter() - begun) / max(1, trainer.trained - trained)
        if figures["poor"]:
            leader = leader_words(figures["leader"], figures["gains"])
            self.progress.note(
                f"Training is noisy here: predicted and measured effects of a single flip agree poorly (rank "
                f"correlation {figures['spearman']:.2f}). The search uses {leader}, which moved decisions "
                "furthest in a trial."
            )

    # --- what a find is worth -----------------------------------------------------------------------

    def check_fresh_seeds(self) -> None:
        """Train under fresh seeds, with every find and without flips."""
        seeds = self.fitted.seeds
        if not seeds or not self.searches:
            return
        self.progress.phase("fresh seeds", len(seeds))
        try:
            without = logits_without_flips(self.trainer, seeds, [search.number for search in self.searches])
            for person, logits in without.items():
                decision = int(self.situation.predictions[person])
                self.note(person, without_flips=int(changes_decision(logits, decision).sum()))
            looks = seeds[:FIRST_LOOK], seeds[FIRST_LOOK:]
            for person, fresh in check_finds(self.trainer, looks, self.finds, without):
                self.note(person, fresh=fresh, without_flips=None)
        except Stopped:
            left = sum("fresh" not in self.extra.get(find.person, {}) for find in self.finds)
            if left:
                self.progress.note(f"Stopped before all finds were checked under fresh seeds; not checked: {left}.")

    def count_side_effects(self, X: pd.DataFrame, labels: NDArray[np.int64] | None) -> None:
        """The effect of each find on the other people of the given table."""
        if not self._has_others(X) or self.out_of_time:
            return
        trainer, finds = self.trainer, self.finds
        if list(self.cases) != list(range(len(X))):
            trainer = Trainer(
                trainer.engine, self.fitted.learner, trainer.table, X, progress=self.progress, flag=self.flag
            )
        self.progress.phase("side effects", trainer.members * (1 + len({find.flips for find in finds})))
        places = [self.cases[find.person] for find in finds]
        for find, effect in zip(finds, side_effects(trainer, labels, finds, places), strict=True):
            self.note(find.person, collateral=effect)

    def _has_others(self, X: pd.DataFrame) -> bool:
        return bool(self.fitted.settings.fresh_seeds and self.finds and len(X) > 1)

    # --- what it will cost --------------------------------------------------------------------------

    @property
    def _announces(self) -> bool:
        return self.progress.listens and self.everyone is not None

    def _trial_is_quick(self, people: NDArray[np.int64]) -> bool:
        """Whether the announcement can wait for the trial, which shows how long ranked flip sets take: some engines
        train a table without flips in no time."""
        if not self._announces or not len(people):
            return False
        self.progress.phase("timing one training")
        return self.fitted.ranking.trial(len(people)) * self.trainer.members * self._seconds_each() <= QUICK

    def _announce(self, people: NDArray[np.int64]) -> None:
        """Announce how long it will take, from the trial or from one timed training after compilation."""
        if not self._announces or self.everyone is None:
            return
        if not len(self.eligible):
            self.progress.note(announcement(0, 0.0))
            return
        fitted, strategy, trainer, limits = self.fitted, self.fitted.strategy, self.trainer, self.flag.limits
        budget, ranking = fitted.budget, fitted.ranking
        sizes = [int(size) for size in self.psi.of_people(people).counts]
        finds = FOUND * len(people) + len(self.eligible) - len(people)
        searched = sum(strategy.usual(size, budget, trainer.members) for size in sizes)
        sets = ranking.trial(len(people)) + searched + finds
        trainings = sets * trainer.members + len(fitted.seeds) + len(fitted.seeds[:FIRST_LOOK]) * finds
        if limits.retrainings is not None:
            trainings = min(trainings, limits.retrainings)
        again = (
            NEAR * len(people) * (strategy.name == "solid" and budget >= LEAST_FOR_SECOND) * ranking.scores_after_flips
        )
        rankings = trainer.members * (-(-len(people) // BLOCK) + again / trainer.n_jobs)
        by_definition = 0.0 if trainer.bound.by_definition else finds * trainer.members / trainer.n_jobs
        seconds = trainings * self._seconds_each() + (RANKING_COST * rankings + by_definition) * fitted.fit_seconds
        seconds = seconds if limits.seconds is None else min(seconds, limits.seconds)
        seconds = seconds * self.everyone / len(self.eligible) + self.later * self._seconds_each()
        self.progress.note(announcement(self.everyone, seconds))
        self.progress.expect(seconds)

    def _seconds_each(self) -> float:
        """Seconds of one training and of the search's own work for it."""
        if self.trial_seconds is not None:
            return self.trial_seconds
        return self.trainer.seconds_each(self.fitted.fit_seconds)
