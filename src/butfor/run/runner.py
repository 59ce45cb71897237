"""From the people asked about to what is known of each, before it is put into words.

    proofs ──▸ trial ──▸ search ──▸ fresh seeds ──▸ side effects

Ctrl-C or a limit ends it at any point; what was known by then is kept, and what was not is said to be unknown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import flip_direction
from butfor.progress import Progress, announcement
from butfor.prove import Bracket, prove
from butfor.rank.mix import leader_words
from butfor.rules import Allowed
from butfor.run.fitted import Fitted
from butfor.run.fresh_seeds import Found, base_logits, collaterals, decides_otherwise, judge
from butfor.search.loop import Attempts
from butfor.search.state import Listed, PersonSearch
from butfor.search.strategy import FOUND, Strategy
from butfor.search.task import BLOCK, Task
from butfor.search.trainer import Trainer
from butfor.situation import Situation
from butfor.stopping import TimeIsUp

SEARCH_SHARE = 2 / 3
"""Of the time that is given, for the search; the rest is for confirmations and fresh seeds."""
RANKING_COST = 3.0
"""Trainings that ranking all labels costs, per member, for a block of people or, at flipped labels, for one."""


@dataclass(eq=False)
class Runner:
    """About the people of a situation, who stand at `cases` of the table that was given; `psi` says which labels may be
    flipped for whom, `eligible` who is asked about."""

    audit: Fitted
    strategy: Strategy
    situation: Situation
    cases: Sequence[int]
    psi: Allowed
    eligible: NDArray[np.int64]
    trainer: Trainer
    everyone: int | None = None
    """How many people are asked about in all, where it is this runner's to say what that will cost."""
    agreement: dict[str, Any] | None = None
    searches: list[PersonSearch] = field(default_factory=list)
    extra: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What else is known of a person, by the names that verdicts have for it."""
    interrupted: bool = False
    out_of_time: bool = False

    def __post_init__(self) -> None:
        """What is proven needs no search."""
        audit, asked = self.audit, self.situation.of(self.eligible)
        brackets = prove(asked, self.psi.of_people(self.eligible)) if len(self.eligible) else None
        self.proven: dict[int, Bracket] = dict(zip(map(int, self.eligible), brackets, strict=True)) if brackets else {}
        self.task = Task(self.situation, self.trainer, audit.ranking, audit.budget, audit.settings.random_state)

    def run(self, X: pd.DataFrame, labels: NDArray[np.int64] | None) -> None:
        """Everything about the people, who are some of the table X. Ctrl-C ends it with what there is."""
        steps = {
            "the search": self.search,
            "the fresh seeds": self.judge,
            "side effects on others": lambda: self.look_around(X, labels),
        }
        done: list[str] = []
        try:
            for name, step in steps.items():
                if self.interrupted or (self.out_of_time and name not in ("the search", "the fresh seeds")):
                    break
                step()
                done.append(name)
        except KeyboardInterrupt as stop:
            self._stopped(stop)
        self._leave_open()
        if self._has_others(X) and "side effects on others" not in done:
            self.progress.note("Left out because the audit was stopped: side effects on others.")

    @property
    def progress(self) -> Progress:
        return self.trainer.progress

    @property
    def found(self) -> list[Found]:
        decisions = self.situation.predictions
        return [Found(s.person, s.found, int(decisions[s.person])) for s in self.searches if s.found]

    def note(self, person: int, **known: Any) -> None:
        self.extra.setdefault(person, {}).update(known)

    def _stopped(self, stop: KeyboardInterrupt) -> None:
        """By Ctrl-C, or because the time given is up: not the same thing."""
        if isinstance(stop, TimeIsUp):
            self.out_of_time = True
        else:
            self.interrupted = True

    def _leave_open(self) -> None:
        """Whoever has no search yet has one that is incomplete."""
        begun, directions = {search.person for search in self.searches}, flip_direction(self.situation.logits)
        left = [int(person) for person in self.eligible if int(person) not in begun]
        self.searches += [PersonSearch(person, float(directions[person])) for person in left]

    # --- the search ---------------------------------------------------------------------------------

    def search(self) -> None:
        """Search for everyone who is asked about, those nearest to the other decision first where time is limited."""
        stopper, seconds = self.trainer.stopper, self.trainer.stopper.stop.seconds
        settled = [search for person, bracket in self.proven.items() if (search := self._settled(person, bracket))]
        people = np.setdiff1d(self.eligible, [search.person for search in settled])
        begun = time.monotonic()
        if seconds is not None:
            stopper.set(begun + SEARCH_SHARE * seconds)
        try:
            self._announce(people)
            self._hold_trial(people)
            if settled:
                self.searches = self.strategy.confirm(self.task, self.psi, settled)
            if seconds is not None:
                people = people[np.argsort(np.abs(self.situation.logits[people]), kind="stable")]
            self.searches += self.strategy.search(self.task, people, self.psi)
        except KeyboardInterrupt as stop:  # while labels were ranked: nobody's search had begun
            self._stopped(stop)
            self._leave_open()
        self.interrupted |= self.task.interrupted
        if seconds is not None:
            if stopper.passed:
                self.interrupted, self.out_of_time = False, True
                left = sum(not search.complete for search in self.searches)
                self.progress.note(
                    f"The time is up: the search for {left} of {len(self.searches)} people is incomplete."
                )
            stopper.set(begun + seconds)

    def _settled(self, person: int, bracket: Bracket) -> Attempts | None:
        """A search that need not search: its only attempt is what was proven to be the smallest set, or there is none
        because the proof goes beyond the budget or beyond all labels that may be flipped."""
        beyond = bracket.at_least > min(self.audit.budget, int(self.psi[person].sum()))
        if not self.strategy.proves or (bracket.witness is None and not beyond):
            return None
        attempts = [] if beyond or bracket.witness is None else [bracket.witness]
        direction = -1.0 if self.situation.predictions[person] else 1.0
        return Attempts(person, direction, plan=Listed(attempts), settled=True)

    def _hold_trial(self, people: NDArray[np.int64]) -> None:
        """Let the ranking look at a few real retrainings first, where it wants to and enough of them or of the time
        would be left to search with."""
        rank, trainer, seconds = self.audit.ranking, self.trainer, self.trainer.stopper.stop.seconds
        sets = rank.trial(len(people)) if len(people) else 0
        if not sets or 2 * sets > trainer.room():
            return
        if seconds is not None and sets * trainer.members * self._seconds_each() > SEARCH_SHARE * seconds / 4:
            return
        situation = self.situation
        self.progress.phase("trial", sets * trainer.members)
        self.agreement = figures = rank.prepare(
            lambda flips: trainer.retrain(flips)[:, people],
            situation.model,
            situation.table,
            situation.people.iloc[people],
            self.psi.of_people(people),
            self.audit.budget,
        )
        if figures["poor"]:
            self.progress.note(
                f"Training is rough here: predicted and real effects of a single flip agree poorly (rank correlation "
                f"{figures['spearman']:.2f}). The search goes by {leader_words(figures)}, which moved "
                "decisions furthest in a trial."
            )

    # --- what a find is worth -----------------------------------------------------------------------

    def judge(self) -> None:
        """Put every find to fresh seeds, and everyone's present decision; by the engine."""
        seeds = self.audit.seeds
        if not seeds or not self.searches:
            return
        self.progress.phase("fresh seeds", len(seeds) * (1 + len({find.flips for find in self.found})))
        try:
            base = base_logits(self.trainer, seeds, [search.person for search in self.searches])
            for person, logits in base.items():
                decision = int(self.situation.predictions[person])
                self.note(person, without_flips=int(decides_otherwise(logits, decision).sum()))
            for person, fresh in judge(self.trainer, seeds, self.found, base):
                self.note(person, fresh=fresh, without_flips=None)
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            left = sum("fresh" not in self.extra.get(find.person, {}) for find in self.found)
            if left:
                self.progress.note(f"Stopped before fresh seeds were through; finds not checked: {left}.")

    def look_around(self, X: pd.DataFrame, labels: NDArray[np.int64] | None) -> None:
        """What each find does to everybody else of the table that was asked about."""
        if not self._has_others(X):
            return
        trainer = self.trainer
        try:
            if list(self.cases) != list(range(len(X))):
                trainer = Trainer(trainer.engine, self.audit.learner, self.situation.table, X, progress=self.progress)
            self.progress.phase("side effects", trainer.members * (1 + len({find.flips for find in self.found})))
            places = [self.cases[find.person] for find in self.found]
            for find, side in zip(self.found, collaterals(trainer, labels, self.found, places), strict=True):
                self.note(find.person, collateral=side)
        except KeyboardInterrupt as stop:
            self._stopped(stop)
            self.progress.note("Stopped before side effects were counted: the verdicts stand without them.")

    def _has_others(self, X: pd.DataFrame) -> bool:
        return bool(self.audit.settings.fresh_seeds and self.found and len(X) > 1)

    # --- what it will cost --------------------------------------------------------------------------

    def _announce(self, people: NDArray[np.int64]) -> None:
        """Say how long it will take, by the time that a training takes here once everything is compiled."""
        if not self.progress.listens or self.everyone is None:
            return
        if not len(self.eligible):
            self.progress.note(announcement(0, 0.0))
            return
        self.progress.phase("timing one training")
        audit, trainer, strategy = self.audit, self.trainer, self.strategy
        sizes = [int(size) for size in self.psi.of_people(people).counts]
        finds = FOUND * len(people) + len(self.eligible) - len(people)
        searched = strategy.expected_sets(sizes, audit.budget, trainer.members) if sizes else 0
        sets = audit.ranking.trial(len(people)) + searched + finds
        trainings = sets * trainer.members + len(audit.seeds) * (1 + finds)
        if trainer.stopper.stop.retrainings is not None:
            trainings = min(trainings, trainer.stopper.stop.retrainings)
        again = strategy.expected_rankings(len(people), audit.budget) * audit.ranking.scores_after_flips
        rankings = trainer.members * (-(-len(people) // BLOCK) + again / trainer.n_jobs)
        by_definition = 0.0 if trainer.bound.by_definition else finds * trainer.members / trainer.n_jobs
        seconds = trainings * self._seconds_each() + (RANKING_COST * rankings + by_definition) * audit.fit_seconds
        limit = trainer.stopper.stop.seconds
        seconds = seconds if limit is None else min(seconds, limit)
        self.progress.note(announcement(self.everyone, seconds * self.everyone / len(self.eligible)))

    def _seconds_each(self) -> float:
        return self.trainer.seconds_each(self.audit.fit_seconds)
