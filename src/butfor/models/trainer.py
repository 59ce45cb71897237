"""The trainer: trains flip sets on one table, remembers the answers, confirms by the model's own
`fit`."""

from __future__ import annotations

import math
import time
from collections.abc import Container, Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.ensemble import mean_answers, member_seeds, single_learner
from butfor.models.ledger import Ledger
from butfor.models.own_fit import OwnFit, bind
from butfor.models.seam import (
    PIECE_TRAININGS,
    Bound,
    Engine,
    FlipSet,
    Floats,
    Learner,
    Training,
)
from butfor.support.progress import Progress
from butfor.support.stopping import Work
from butfor.table.decisions import ONE_HALF, Decision
from butfor.table.table import Table

MAX_REPEATED_SECONDS = 15.0
"""A first training that takes longer, in seconds, is not repeated to measure its time."""


class Trainer:
    """Trains flip sets with an engine, remembers the models' answers about the people, and counts
    trainings. For an ensemble every flip set is trained once per member, side by side.

    Answers are what a model gives about each person; `margins` and `decisions` are computed from
    them, by the `decision` or, with more than two labels, between the table's two sides. With a
    ledger, known answers are read from it and new ones written. Confirmations are trained now, by
    the model's own `fit`."""

    def __init__(
        self,
        engine: Engine,
        learner: Learner,
        table: Table,
        people: pd.DataFrame,
        *,
        decision: Decision = ONE_HALF,
        ledger: Ledger | None = None,
        n_jobs: int | None = None,
        progress: Progress | None = None,
        work: Work | None = None,
    ) -> None:
        self.engine = engine
        self.learner = learner
        self.table = table
        self.people = people
        self.progress = progress or Progress()
        self.work = work or Work()
        self.single = single_learner(learner)
        self.seeds = member_seeds(learner)
        self.members = len(self.seeds)
        """Trainings per flip set."""
        self.decision = decision
        self._asked = decision.with_pool(people, table.X)
        self.bound: Bound = bind(engine, self.single, table, self._asked, n_jobs)
        own_fit = OwnFit(n_jobs, engine.workers)
        self._by_definition = self.bound
        if not self.bound.by_definition:
            self._by_definition = own_fit.bind(self.single, table, self._asked)
        self.n_jobs: int = own_fit.n_jobs
        self._ledger = ledger
        self._page = (
            b""
            if ledger is None
            else ledger.page(self.single, table, decision, self._asked, self.bound)
        )
        self.trained = 0
        self.recalled = 0
        self.confirmations = 0
        self._members: dict[FlipSet, dict[int | None, Floats]] = {}
        """The answers of single members, by seed."""
        self.means: dict[FlipSet, Floats] = {}
        """The mean answers of all members."""
        self.confirmed: dict[FlipSet, Floats] = {}
        """The same by the model's own `fit`."""
        self._from_ledger: set[Training] = set()
        self._counted: set[Training] = set()
        """What was trained or recalled: what is forgotten and asked for again is recalled once."""
        self._seconds: float | None = None

    def on(self, people: pd.DataFrame) -> Trainer:
        """A trainer of the same models that asks them about other people, without the ledger."""
        return Trainer(
            self.engine,
            self.learner,
            self.table,
            people,
            decision=self.decision,
            n_jobs=self.n_jobs,
            progress=self.progress,
            work=self.work,
        )

    def margins(self, answers: Floats) -> Floats:
        """Logits `[… × people]` from models' answers."""
        sides = self.table.two_sides
        return self.decision.margins(answers) if sides is None else sides.margins(answers)

    def decisions(self, answers: Floats) -> NDArray[np.int64]:
        """The decisions, by number, from the same answers."""
        sides = self.table.two_sides
        return self.decision.decisions(answers) if sides is None else sides.decisions(answers)

    @property
    def left(self) -> float:
        """How many more trainings the limit allows."""
        most = self.work.limits.retrainings
        return math.inf if most is None else max(0, most - self.trained)

    def missing(self, flips: FlipSet, members: int | None = None) -> list[Training]:
        """The trainings that it takes until the first `members` of a set are known; None: the mean
        of all."""
        if members is None and flips in self.means:
            return []
        trained = self._members.get(flips, ())
        return [Training(flips, seed) for seed in self.seeds[:members] if seed not in trained]

    def fit(self, trainings: Sequence[Training]) -> None:
        """Train these with the engine, each once. What was trained before a stop is kept."""
        for answers in self._pieces(trainings):
            self.trained += len(answers)
            self.recalled += sum(t in self._from_ledger and t not in self._counted for t in answers)
            self._counted.update(answers)
            for (flips, seed), answer in answers.items():
                self._members.setdefault(flips, {})[seed] = answer
                if len(self._members[flips]) == self.members:
                    self.means[flips] = mean_answers(self.member_answers(flips))

    def answers(self, flip_sets: Sequence[FlipSet]) -> Floats:
        """The mean answers of models trained on the flip sets, `[sets × answers]`; each set is
        trained once."""
        self.fit([training for flips in flip_sets for training in self.missing(flips)])
        return np.array([self.means[flips] for flips in flip_sets])

    def member_answers(self, flips: FlipSet) -> Floats:
        """The answers of each member trained so far, `[members × answers]`."""
        answers = self._members.get(flips, {})
        return np.array([answers[seed] for seed in self.seeds if seed in answers], np.float32)

    def release(self, keep: Container[FlipSet], again: Container[FlipSet] = ()) -> None:
        """Forget the members' answers except of sets in `again`, which may be asked for, and the
        mean except of sets in `keep`: answers to many sets about many people would fill the
        memory."""
        self._members = {
            flips: answers for flips, answers in self._members.items() if flips in again
        }
        self.means = {
            flips: mean for flips, mean in self.means.items() if flips in keep or flips in again
        }

    # --- other seeds: by the engine, they confirm nothing -----------------------------------------

    def seed_logits(self, trainings: Sequence[Training]) -> Floats:
        """The logits of single models, each with its own seed, `[trainings × people]`."""
        return self.margins(self.ensemble_answers([[training] for training in trainings]))

    def ensemble_answers(self, ensembles: Sequence[Sequence[Training]]) -> Floats:
        """The mean answers of each ensemble, `[ensembles × answers]`."""
        answers: dict[Training, Floats] = {}
        for piece in self._pieces([training for members in ensembles for training in members]):
            answers |= piece
        means = [
            mean_answers(np.array([answers[training] for training in members]))
            for members in ensembles
        ]
        return np.array(means)

    # --- confirmation -----------------------------------------------------------------------------

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets with the model's own `fit`, each once, all members of all sets side
        by side. After a stop those that are done are kept. If the engine used it in this run, its
        answers stand."""
        for flips in flip_sets:
            recalled = any(Training(flips, seed) in self._from_ledger for seed in self.seeds)
            if self.bound.by_definition and flips in self.means and not recalled:
                self.confirmed[flips] = self.means[flips]
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self.confirmed]
        if not missing:
            return
        self.work.check()
        trainings = [Training(flips, seed) for flips in missing for seed in self.seeds]
        answers: dict[Training, Floats] = {}
        size = max(1, self._by_definition.width)
        for chunk, some in self._by_definition.pieces(trainings, None, size):
            answers.update(zip(trainings[chunk.start : chunk.stop], some, strict=True))
            self.confirmations += len(chunk)
            done = trainings[chunk.start : chunk.stop]
            for flips in dict.fromkeys(training.flips for training in done):
                members = [answers.get(Training(flips, seed)) for seed in self.seeds]
                if all(member is not None for member in members):
                    self.confirmed[flips] = mean_answers(np.array(members))
            self._advance(len(chunk))

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self.margins(self.confirmed[flips])

    # --- trainings --------------------------------------------------------------------------------

    def seconds_each(self, by_definition: float) -> float:
        """Seconds per training, side by side, once everything is loaded and compiled; measured on
        up to two trainings. `by_definition`: seconds of the model's own `fit`."""
        if self._seconds is None:
            for _ in range(2):  # the first one may load and compile
                started = time.perf_counter()
                self.bound([Training(())])
                seconds = time.perf_counter() - started
                if seconds > MAX_REPEATED_SECONDS:
                    break
            # It may have been compiling, or a second process cold: no engine is slower than the
            # model's own `fit`.
            seconds = min(seconds, by_definition or seconds)
            self._seconds = seconds / min(self.bound.width, self.n_jobs)
        return self._seconds

    def _pieces(self, trainings: Sequence[Training]) -> Iterator[dict[Training, Floats]]:
        """The models' answers as they come: those of the ledger, then piece by piece what is
        trained."""
        if not trainings:
            return
        self.work.check()
        trainings = list(dict.fromkeys(trainings))
        recalled = {} if self._ledger is None else self._ledger.recall(self._page, trainings)
        if recalled:
            self._from_ledger.update(recalled)
            self._advance(len(recalled))
            yield recalled
        missing = [training for training in trainings if training not in recalled]
        for chunk, answers in self.bound.pieces(
            missing, self._advance, max(PIECE_TRAININGS, self.bound.width)
        ):
            piece = dict(zip(missing[chunk.start : chunk.stop], answers, strict=True))
            if self._ledger is not None:
                self._ledger.write(self._page, piece)
            yield piece

    def _advance(self, count: int) -> None:
        self.progress.advance(count)
        self.work.check()
