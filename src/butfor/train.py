"""The trainer: trains flip sets on one table, remembers the answers, confirms by the model's own `fit`."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterator, Sequence
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.ledger import Ledger
from butfor.models.engines import bind, own_fit_engine
from butfor.models.ensemble import mean_answers, member_seeds, single_learner
from butfor.models.learner import PIECE, Bound, Engine, FlipSet, Floats, Learner, Table, Training
from butfor.progress import Progress
from butfor.stopping import StopFlag

PATIENCE = 15.0
"""A first training that takes longer, in seconds, is not repeated to measure its time."""


class Trainer:
    """Trains flip sets with an engine, remembers the models' answers about the people, and counts trainings. For an
    ensemble every flip set is trained once per member, side by side.

    With a ledger, known answers are read from it and new ones written. Confirmations always retrain with the model's
    own `fit`."""

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
        self._ledger = ledger
        self._page = b"" if ledger is None else ledger.page(self.single, table, self._asked, self.bound)
        self.trained = self.recalled = self.confirmations = 0
        self._members: dict[FlipSet, dict[int | None, Floats]] = {}
        """The answers of single members, by seed."""
        self._means: dict[FlipSet, Floats] = {}
        """The mean answers of all members, from which the table computes logits and decisions."""
        self._from_ledger: set[Training] = set()
        self._counted: set[Training] = set()
        """What was trained or recalled: what is forgotten and asked for again counts once."""
        self._confirmed: dict[FlipSet, Floats] = {}

    def on(self, table: Table) -> Trainer:
        """A single member of the learner on another table, without a ledger."""
        if table is self.table:
            return self
        return Trainer(
            self.engine, self.single, table, self.people, n_jobs=self.n_jobs, progress=self.progress, flag=self.flag
        )

    # --- flip sets ------------------------------------------------------------------------------------

    @property
    def left(self) -> float:
        """How many more trainings the limit allows."""
        most = self.flag.limits.retrainings
        return math.inf if most is None else max(0, most - self.trained)

    def missing(self, flips: FlipSet, members: int | None = None) -> list[Training]:
        """The trainings that it takes until the first `members` of a set are known; None: the mean of all."""
        if members is None and flips in self._means:
            return []
        known = self._members.get(flips, ())
        return [Training(flips, seed) for seed in self.seeds[:members] if seed not in known]

    def fit(self, flip_sets: Sequence[FlipSet], members: int | None = None) -> None:
        """Train the flip sets with the engine: all members, or the first `members`. What was trained before a stop is
        kept."""
        wanted = [training for flips in dict.fromkeys(flip_sets) for training in self.missing(flips, members)]
        for answers in self._pieces(wanted):
            self.trained += len(answers)
            self.recalled += sum(t in self._from_ledger and t not in self._counted for t in answers)
            self._counted.update(answers)
            for (flips, seed), answer in answers.items():
                self._members.setdefault(flips, {})[seed] = answer
                if len(self._members[flips]) == self.members:
                    self._means[flips] = mean_answers(self._of_members(flips))

    @property
    def known_sets(self) -> list[FlipSet]:
        """The sets of which the mean of all members is known."""
        return list(self._means)

    def logits(self, flip_sets: Sequence[FlipSet]) -> Floats:
        """The logits of models trained on the flip sets, `[sets × people]`; each set is trained once."""
        self.fit(flip_sets)
        return self.table.margins(np.array([self._means[flips] for flips in flip_sets]))

    def decisions(self, flip_sets: Sequence[FlipSet]) -> NDArray[np.int64]:
        """Their decisions, by number, `[sets × people]`."""
        self.fit(flip_sets)
        return self.table.decisions(np.array([self._means[flips] for flips in flip_sets]))

    def member_logits(self, flips: FlipSet) -> Floats:
        """The logits of each member trained so far, `[members × people]`."""
        return self.table.margins(self._of_members(flips))

    def _of_members(self, flips: FlipSet) -> Floats:
        answers = self._members.get(flips, {})
        return np.array([answers[seed] for seed in self.seeds if seed in answers], np.float32)

    def release(self, keep: Container[FlipSet], again: Container[FlipSet] = ()) -> None:
        """Forget the members' answers except of sets in `again`, which may be asked for, and the mean except of sets in
        `keep`: answers to many sets about many people would fill the memory."""
        self._members = {flips: answers for flips, answers in self._members.items() if flips in again}
        self._means = {flips: mean for flips, mean in self._means.items() if flips in keep or flips in again}

    # --- other seeds: by the engine, they confirm nothing ---------------------------------------------

    def seed_logits(self, trainings: Sequence[Training]) -> Floats:
        """The logits of single models, each with its own seed, `[trainings × people]`."""
        answers = self._answers(trainings)
        return self.table.margins(np.array([answers[training] for training in trainings], np.float32))

    def ensemble_answers(self, ensembles: Sequence[Sequence[Training]]) -> Floats:
        """The mean answers of each ensemble, `[ensembles × answers]`."""
        answers = self._answers([training for each in ensembles for training in each])
        return np.array([mean_answers(np.array([answers[training] for training in each])) for each in ensembles])

    # --- confirmation ---------------------------------------------------------------------------------

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets with the model's own `fit`, each once, all members of all sets side by side. If the
        engine used it in this run, its answers stand."""
        for flips in flip_sets:
            recalled = any(Training(flips, seed) in self._from_ledger for seed in self.seeds)
            if self.bound.by_definition and flips in self._means and not recalled:
                self._confirmed[flips] = self._means[flips]
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if not missing:
            return
        self.flag.check()
        trainings = [Training(flips, seed) for flips in missing for seed in self.seeds]
        by_set = self._by_definition(trainings, self._advance).reshape(len(missing), self.members, -1)
        self._confirmed.update((flips, mean_answers(answers)) for flips, answers in zip(missing, by_set, strict=True))
        self.confirmations += len(trainings)

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self.table.margins(self._confirmed[flips])

    def confirmed_cut(self, flips: FlipSet) -> float:
        """The confirmed model's answer at its cut."""
        return float(self.table.decision.answer_at_cut(self._confirmed[flips]))

    def confirmed_decisions(self, flips: FlipSet) -> NDArray[np.int64]:
        """The confirmed decisions, by number."""
        return self.table.decisions(self._confirmed[flips])

    @cached_property
    def _by_definition(self) -> Bound:
        by_engine = self.bound.by_definition
        return self.bound if by_engine else bind(self._own_fit, self.single, self.table, self._asked)

    # --- trainings ------------------------------------------------------------------------------------

    def seconds_each(self, by_definition: float) -> float:
        """Seconds per training, side by side, once everything is loaded and compiled; measured on up to two trainings.
        `by_definition`: seconds of the model's own `fit`."""
        if self._seconds is None:
            for _ in range(2):  # the first one may load and compile
                started = time.perf_counter()
                self.bound([Training(())])
                each = time.perf_counter() - started
                if each > PATIENCE:
                    break
            # It may have been compiling, or a second process cold: no engine is slower than the model's own `fit`.
            self._seconds = min(each, by_definition or each) / min(self.bound.width, self.n_jobs)
        return self._seconds

    _seconds: float | None = None

    def _answers(self, trainings: Sequence[Training]) -> dict[Training, Floats]:
        return {training: answer for answers in self._pieces(trainings) for training, answer in answers.items()}

    def _pieces(self, trainings: Sequence[Training]) -> Iterator[dict[Training, Floats]]:
        """The models' answers as they come: those of the ledger, then piece by piece what is trained."""
        if not trainings:
            return
        self.flag.check()
        trainings = list(dict.fromkeys(trainings))
        recalled = {} if self._ledger is None else self._ledger.recall(self._page, trainings)
        if recalled:
            self._from_ledger.update(recalled)
            self._advance(len(recalled))
            yield recalled
        missing = [training for training in trainings if training not in recalled]
        size = max(PIECE, self.bound.width)
        for chunk, logits in self.bound.pieces(missing, self._advance, size) if missing else ():
            answers = dict(zip(missing[chunk.start : chunk.stop], logits, strict=True))
            if self._ledger is not None:
                self._ledger.write(self._page, answers)
            yield answers

    def _advance(self, count: int) -> None:
        self.progress.advance(count)
        self.flag.check()
