"""Trainer: trains flip sets of one learner and table with an engine, confirms finds, and uses a ledger."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.engines import own_fit_engine
from butfor.learn.ensemble import mean_answers, member_seeds, single_learner
from butfor.learn.protocols import Bound, Engine, FlipSet, Floats, Learner, Table, Training, bind
from butfor.progress import Progress
from butfor.search.ledger import Ledger, Page
from butfor.stopping import StopFlag

PATIENCE = 15.0
"""A first training that takes longer, in seconds, is not repeated to measure its time."""
COMPILED = 10
"""A first training that takes this many times as long as the model's own `fit` was mostly compiling."""
PIECE = 64
"""Trainings between two writes to the ledger; more if the engine is wider."""


class Trainer:
    """Trains flip sets, caches the models' answers about the people, and counts trainings. For an ensemble every flip
    set is trained once per member, side by side.

    With a ledger, known answers are read from it and new ones are written piece by piece, so that a killed run loses
    little. Confirmations always retrain with the model's own `fit`."""

    def __init__(
        self,
        engine: Engine,
        learner: Learner,
        table: Table,
        people: pd.DataFrame,
        *,
        ledger: Ledger | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
        flag: StopFlag | None = None,
    ) -> None:
        self.engine, self.table, self.people = engine, table, people
        self.progress, self.flag = progress or Progress(), flag or StopFlag()
        self.single, self.seeds = single_learner(learner), member_seeds(learner)
        self.members = len(self.seeds)
        """Trainings per flip set."""
        self._asked = table.with_pool(people)
        self.bound: Bound = bind(engine, self.single, table, self._asked)
        self._own_fit = own_fit_engine(engine, n_jobs)
        self.n_jobs: int = self._own_fit.n_jobs
        self._page: Page | None = (
            ledger.page(self.single, table, self._asked, self.bound) if ledger is not None else None
        )
        self.trained = self.recalled = self.confirmations = 0
        self._seconds_each: float | None = None
        self._members: dict[FlipSet, Floats] = {}
        """The answers of the members trained so far, `[members × answers]`."""
        self._means: dict[FlipSet, Floats] = {}
        """The mean answers of all members, `[answers]`, from which the table computes logits and decisions."""
        self._recalled: set[FlipSet] = set()
        self._confirmed: dict[FlipSet, Floats] = {}

    def on(self, table: Table) -> Trainer:
        """A single member of the learner on another table, without a ledger."""
        if table is self.table:
            return self
        how: dict[str, Any] = {"n_jobs": self.n_jobs, "progress": self.progress, "flag": self.flag}
        return Trainer(self.engine, self.single, table, self.people, **how)

    @property
    def width(self) -> int:
        """The number of flip sets that the engine prefers to train side by side."""
        return max(1, self.bound.width // self.members)

    def room(self, members: int | None = None) -> float:
        """The number of flip sets that may still be trained."""
        return self.flag.room(self.trained, members or self.members)

    def seconds_each(self, by_definition: float) -> float:
        """Seconds per training, side by side, once everything is loaded and compiled; measured on up to two trainings.
        `by_definition`: seconds of the model's own `fit`."""
        if self._seconds_each is None:
            times: list[float] = []
            # Far longer than the model's own `fit`: that was compiling, not training.
            while len(times) < 2 and (sum(times) <= PATIENCE or sum(times) > COMPILED * by_definition):
                started = time.perf_counter()
                self.bound([Training(())])
                times.append(time.perf_counter() - started)
            # A second process may still have been cold: no engine is slower than the model's own `fit`.
            each = min(times[-1], by_definition or times[-1])
            self._seconds_each = each / min(self.bound.at_once, self.n_jobs)
        return self._seconds_each

    def fit(self, flip_sets: Sequence[FlipSet], members: int | None = None) -> None:
        """Train the flip sets with the engine: all members, or the first `members`."""
        members = members or self.members
        wanted = {flips: range(len(self._members.get(flips, ())), members) for flips in flip_sets}
        trainings = [Training(flips, self.seeds[k]) for flips, missing in wanted.items() for k in missing]
        answers, known = self._answers(trainings)
        self.trained += len(trainings)
        self.recalled += len(known)
        self._recalled.update(training.flips for training in known)
        for flips, missing in wanted.items():
            new = [answers[Training(flips, self.seeds[k])] for k in missing]
            if new:
                self._members[flips] = np.array([*self._members.get(flips, ()), *new], np.float32)
            if len(self._members[flips]) == self.members:
                self._means[flips] = mean_answers(self._members[flips])

    def retrain(self, flip_sets: Sequence[FlipSet]) -> Floats:
        """The logits of models trained on the flip sets, `[sets × people]`; each set is trained once."""
        return self.table.margins(self._retrained(flip_sets))

    def decided(self, flip_sets: Sequence[FlipSet]) -> NDArray[np.int64]:
        """Their decisions, by number, `[sets × people]`."""
        return self.table.decisions(self._retrained(flip_sets))

    def _retrained(self, flip_sets: Sequence[FlipSet]) -> Floats:
        self.fit([flips for flips in dict.fromkeys(flip_sets) if not self.known(flips)])
        return np.array([self._means[flips] for flips in flip_sets])

    def known(self, flips: FlipSet) -> bool:
        return flips in self._means

    @property
    def known_sets(self) -> list[FlipSet]:
        return list(self._means)

    def logits(self, flips: FlipSet) -> Floats:
        """Each person's logit under the model trained on a flip set."""
        return self.table.margins(self._means[flips])

    def member_logits(self, flips: FlipSet) -> Floats:
        """The logits of each member trained so far, `[members × people]`."""
        return self.table.margins(self._members[flips])

    def holds(self, flips: FlipSet) -> bool:
        """Whether the answers of every member are cached."""
        return len(self._members.get(flips, ())) == self.members

    def release(self, flip_sets: Iterable[FlipSet], keep: Container[FlipSet]) -> None:
        """Drop the members' answers, and their mean except for sets in `keep`: answers to many sets about many people
        would fill the memory."""
        for flips in flip_sets:
            self._members.pop(flips, None)
            if flips not in keep:
                self._means.pop(flips, None)

    def seed_logits(self, trainings: Sequence[Training]) -> Floats:
        """The logits of single models, each with its own seed, `[trainings × people]`, by the engine. They are counted,
        and confirm nothing."""
        answers, _ = self._answers(trainings)
        said = np.array([answers[training] for training in trainings], np.float32).reshape(len(trainings), -1)
        return self.table.margins(said)

    def ensemble_answers(self, ensembles: Sequence[Sequence[Training]]) -> Floats:
        """The mean answers of each ensemble, `[ensembles × answers]`, by the engine."""
        answers, _ = self._answers(list(dict.fromkeys(training for each in ensembles for training in each)))
        return np.array([mean_answers(np.array([answers[training] for training in each])) for each in ensembles])

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets with the model's own `fit`, each once. If the engine used it in this run, its answers
        stand."""
        for flips in flip_sets:
            if self.bound.by_definition and flips in self._means and flips not in self._recalled:
                self._confirmed[flips] = self._means[flips]
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if not missing:
            return
        self.flag.check()
        trainings = [Training(flips, seed) for flips in missing for seed in self.seeds]
        answers = self._by_definition(trainings, self._progress)
        by_set = answers.reshape(len(missing), self.members, -1)
        self._confirmed.update((flips, mean_answers(answer)) for flips, answer in zip(missing, by_set, strict=True))
        self.confirmations += len(trainings)

    def expect_confirmations(self, flip_sets: int) -> None:
        """Announce the number of sets to confirm, a few at a time: starting processes may pay for all of them but not
        for a few."""
        self._by_definition.expect(flip_sets * self.members)

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self.table.margins(self._confirmed[flips])

    def confirmed_cut(self, flips: FlipSet) -> float:
        """The confirmed model's answer at its cut."""
        assert self.table.cut is not None
        return float(self.table.cut.answer_at_cut(self._confirmed[flips][len(self.people) :]))

    def confirmed_decisions(self, flips: FlipSet) -> NDArray[np.int64]:
        """The confirmed decisions, by number."""
        return self.table.decisions(self._confirmed[flips])

    @cached_property
    def _by_definition(self) -> Bound:
        by_engine = self.bound.by_definition
        return self.bound if by_engine else bind(self._own_fit, self.single, self.table, self._asked)

    def _progress(self, count: int) -> None:
        self.progress.advance(count)
        self.flag.check()

    def _answers(self, trainings: Sequence[Training]) -> tuple[dict[Training, Floats], list[Training]]:
        """Answers in the given order, and the trainings that were read from the ledger. New ones are written to it
        piece by piece."""
        if not trainings:
            return {}, []
        self.flag.check()
        if self._page is None:
            return dict(zip(trainings, self.bound(trainings, self._progress), strict=True)), []
        known = self._page.recall(trainings)
        self._progress(len(known))
        recalled = list(known)
        missing = [training for training in dict.fromkeys(trainings) if training not in known]
        for chunk, answers in self.bound.pieces(missing, self._progress, max(PIECE, self.bound.width)):
            fitted = dict(zip(missing[chunk.start : chunk.stop], answers, strict=True))
            self._page.write(fitted)
            known |= fitted
        return {training: known[training] for training in trainings}, recalled
