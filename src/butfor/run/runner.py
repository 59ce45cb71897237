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
from butfor.learn.protocols import flip_direction
from butfor.progress import Progress, announcement
from butfor.prove import Bracket, prove
from butfor.rank.mix import leader_words
from butfor.result.fresh import FIRST_LOOK
from butfor.rules import Allowed
from butfor.run.fitted import Fitted
from butfor.run.fresh_seeds import Find, changes_decision, check_finds, logits_without_flips, side_effects
from butfor.search.loop import AttemptSearch
from butfor.search.state import FixedPlan, PersonSearch
from butfor.search.strategy import FOUND, Strategy
from butfor.search.task import BLOCK, Task
from butfor.search.trainer import Trainer
from butfor.situation import Situation
from butfor.stopping import StopFlag

SEARCH_SHARE = 2 / 3
"""The search's share of the time limit; the rest is for confirmations and fresh seeds."""
QUICK = 3.0
"""Seconds of a trial that may come before the announcement."""
RANKING_COST = 3.0
"""The cost of ranking all labels, in trainings per member, for a block of people or, at flipped labels, for one."""


@dataclass(eq=False)
class Runner:
    """Audits the people of a situation, who are at `cases` of the given table. `strategy` is the audit's own for these
    people, `psi` says which labels may be flipped for whom, `eligible` who is audited."""

    fitted: Fitted
    strategy: Strategy
    situation: Situation
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
    searches: list[PersonSearch] = field(default_factory=list)
    extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    """More fields of a person's verdict."""
    interrupted: bool = False
    trial_seconds: float | None = None
    """Seconds per training of the trial, with all that came with it."""

    def __post_init__(self) -> None:
        audit = self.fitted
        self.task = Task(self.situation, self.trainer, audit.ranking, audit.budget, audit.settings.random_state)

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
        return [Find(s.person, s.found, int(decisions[s.person])) for s in self.searches if s.found]

    def note(self, person: int, **known: Any) -> None:
        self.extra.setdefault(person, {}).update(known)

    def _leave_open(self) -> None:
        """Give everyone without a search an incomplete one."""
        begun, directions = {search.person for search in self.searches}, flip_direction(self.situation.logits)
        left = [int(person) for person in self.eligible if int(person) not in begun]
        self.searches += [PersonSearch(person, float(directions[person])) for person in left]

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
        """Confirm proven sets and search for the other people; with a time limit, those closest to the other decision
        first."""
        proven = [search for person, bracket in self.proven.items() if (search := self._proven(person, bracket))]
        people = np.setdiff1d(self.eligible, [search.person for search in proven])
        if self._trial_is_quick(people):
            self._hold_trial(people)
            self._announce(people)
        else:
            self._announce(people)
            self._hold_trial(people)
        if proven:
            self.searches = self.strategy.confirm(self.task, self.psi, proven)
        if self.flag.limits.seconds is not None:
            people = people[np.argsort(np.abs(self.situation.logits[people]), kind="stable")]
        self.searches += self.strategy.search(self.task, people, self.psi)

    def _proven(self, person: int, bracket: Bracket) -> AttemptSearch | None:
        """A search with one attempt, the set proven to be smallest, or with none if the bound exceeds the budget or the
        number of allowed labels."""
        beyond = bracket.at_least > min(self.fitted.budget, int(self.psi[person].sum()))
        if not self.strategy.proves or (bracket.witness is None and not beyond):
            return None
        attempts = [] if beyond or bracket.witness is None else [bracket.witness]
        direction = -1.0 if self.situation.predictions[person] else 1.0
        return AttemptSearch(person, direction, plan=FixedPlan(attempts), proven=True)

    def _hold_trial(self, people: NDArray[np.int64]) -> None:
        """Let the ranking learn from a few retrainings first, if it can and enough trainings and time remain for the
        search."""
        ranking, trainer, seconds = self.fitted.ranking, self.trainer, self.flag.limits.seconds
        sets = ranking.trial(len(people)) if len(people) else 0
        if not sets or 2 * sets > trainer.room():
            return
        if seconds is not None and sets * trainer.members * self._seconds_each() > SEARCH_SHARE * seconds / 4:
            return
        situation, trained, begun = self.situation, trainer.trained, time.perf_counter()
        self.progress.phase("trial", sets * trainer.members)
        self.agreement = figures = ranking.prepare(
            lambda flips: trainer.retrain(flips)[:, people],
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
            without = logits_without_flips(self.trainer, seeds, [search.person for search in self.searches])
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
        fitted, strategy, trainer, limits = self.fitted, self.strategy, self.trainer, self.flag.limits
        budget, ranking = fitted.budget, fitted.ranking
        sizes = [int(size) for size in self.psi.of_people(people).counts]
        finds = FOUND * len(people) + len(self.eligible) - len(people)
        searched = strategy.expected_sets(sizes, budget, trainer.members) if sizes else 0
        sets = ranking.trial(len(people)) + searched + finds
        trainings = sets * trainer.members + len(fitted.seeds) + len(fitted.seeds[:FIRST_LOOK]) * finds
        if limits.retrainings is not None:
            trainings = min(trainings, limits.retrainings)
        again = strategy.expected_rankings(len(people), budget) * ranking.scores_after_flips
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
