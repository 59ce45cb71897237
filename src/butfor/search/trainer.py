"""Trainer: one learner, one table and a fixed group of people, behind an engine, the definition and a ledger.

The learner may be an ensemble of seeds: then every flip set is trained once per member, all of them side by side."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from butfor.learn.engines import definition_of
from butfor.learn.ensemble import members_of, together
from butfor.progress import Watcher
from butfor.seam import Bound, Engine, FlipSet, Floats, Learner, Progress, Table, Training
from butfor.search.ledger import Ledger, Page


class Trainer:
    """An engine on one training table, asked about a fixed group of people; counts what it trains.

    With a ledger, what was trained before is recalled instead, and what is trained is written down
    piece by piece, so that a killed run loses little. Confirmations are the learner's own `fit`, always trained here
    and now, side by side."""

    PATIENCE = 15.0
    """Seconds of a first training up to which a second one is done to tell how long they take."""
    PIECE = 64
    """With a ledger: trainings (or engine widths, where those are larger) between two writes."""

    def __init__(
        self,
        engine: Engine,
        learner: Learner,
        table: Table,
        people: pd.DataFrame,
        ledger: Ledger | None = None,
        jobs: int | None = None,
    ) -> None:
        self.engine, self.learner, self.table, self.people = engine, learner, table, people
        self.single, self.seeds = members_of(learner)
        self.train: Bound = engine.bind(self.single, table, people)
        self._definition = definition_of(engine, jobs)
        self._defined: Bound | None = self.train if engine.by_definition else None
        self.jobs: int = self._definition.jobs
        self._page: Page | None = ledger.page(self.single, table, people, engine) if ledger is not None else None
        self.trained = self.recalled = self.confirmations = 0
        self.timed = 0
        """Trainings that were done only to see how long they take."""
        self.glanced: list[int] = []
        """First and last of the seeds that only measured something."""
        self._seconds_each: float | None = None
        """What one training took at the best: the first ones may compile."""
        self._members: dict[FlipSet, Floats] = {}
        """What the members trained so far say about the people, `[members so far × people]`."""
        self._logits: dict[FlipSet, Floats] = {}
        self._recalled: set[FlipSet] = set()
        self._looked_at: set[FlipSet] = set()
        self._looked_through = 0
        self._confirmed: dict[FlipSet, Floats] = {}

    @property
    def members(self) -> int:
        """Trainings that one flip set takes."""
        return len(self.seeds)

    @property
    def width(self) -> int:
        """How many flip sets the engine likes to train side by side."""
        return max(1, self.engine.width // self.members)

    @property
    def at_once(self) -> int:
        """Trainings that are worth asking for in one call; what is found does not depend on it."""
        return int(getattr(self.engine, "at_once", self.engine.width))

    @property
    def remembers(self) -> bool:
        """Whether there is a ledger."""
        return self._page is not None

    def time_of_one(self, patience: float = PATIENCE) -> float:
        """Seconds per training, side by side: of those done so far or, before the first, of one that is done for it.
        And of another: the first may load, compile or start workers, which hardly counts where it takes long anyway."""
        while self._seconds_each is None:
            started = time.perf_counter()
            self.train([Training(())])
            seconds, self.timed = time.perf_counter() - started, self.timed + 1
            if self.timed == 2 or seconds > patience:
                self._seconds_each = seconds / min(self.at_once, self.jobs)
        return self._seconds_each

    def known(self, flips: FlipSet) -> bool:
        return flips in self._logits

    @property
    def all_known(self) -> list[FlipSet]:
        return list(self._logits)

    def fit(self, flip_sets: Sequence[FlipSet], watch: Watcher, members: int | None = None) -> None:
        """Train the flip sets, by the engine: all members, or the first so many for a first look."""
        members = members or self.members
        wanted = {flips: range(len(self._members.get(flips, ())), members) for flips in flip_sets}
        trainings = [Training(flips, self.seeds[k]) for flips, missing in wanted.items() for k in missing]
        answers, known = self._answers(trainings, watch.trained)
        self.trained += len(trainings)
        self.recalled += len(known)
        self._recalled.update(training.flips for training in known)
        for flips, missing in wanted.items():
            new = [answers[Training(flips, self.seeds[k])] for k in missing]
            if new:
                self._members[flips] = np.array([*self._members.get(flips, ()), *new], np.float32)
            if len(self._members[flips]) == self.members:
                self._logits[flips] = together(self._members[flips])

    def look(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> Floats:
        """What the models trained on the flip sets say, `[sets × people]`; nobody will ask again: nothing is kept."""
        trainings = [Training(flips, seed) for flips in flip_sets for seed in self.seeds]
        found, known = self._answers(trainings, watch.trained)
        answers = np.array(list(found.values()))
        self.trained += len(trainings)
        self.recalled += len(known)
        self._looked_through += len(trainings)
        by_set = answers.reshape(len(flip_sets), self.members, -1)
        return together(by_set.swapaxes(0, 1))

    def glance(self, trainings: Sequence[Training], watch: Watcher) -> Floats:
        """What single models say, `[trainings × people]`, by the engine; nothing is kept, in no ledger either."""
        answers = self.train(trainings, watch.trained)
        self.trained += len(trainings)
        self._looked_through += len(trainings)
        used = [training.seed for training in trainings if training.seed is not None] + self.glanced
        self.glanced = [min(used), max(used)] if used else []
        return answers

    def logits(self, flips: FlipSet) -> Floats:
        """What the model trained on a flip set says about each person."""
        self._looked_at.add(flips)
        return self._logits[flips]

    def member_logits(self, flips: FlipSet) -> Floats:
        """What each member trained so far says, `[members × people]`."""
        self._looked_at.add(flips)
        return self._members[flips]

    @property
    def needed(self) -> int:
        """Models whose answers were looked at; the others were trained ahead of time."""
        return self._looked_through + sum(len(self._members.get(flips, ())) for flips in self._looked_at)

    def holds(self, flips: FlipSet) -> bool:
        """Whether every member's answers are at hand."""
        return len(self._members.get(flips, ())) == self.members

    def release(self, flip_sets: Iterable[FlipSet], keep: Container[FlipSet]) -> None:
        """Forget what the members say, and what they say together but of those to `keep`: with many people, each with
        sets of their own, everybody's answers about everybody would fill the memory."""
        for flips in flip_sets:
            forgotten = self._members.pop(flips, ())
            if flips in self._looked_at:
                self._looked_at.remove(flips)
                self._looked_through += len(forgotten)
            if flips not in keep:
                self._logits.pop(flips, None)

    def retrain(self, flip_sets: Sequence[FlipSet], watch: Watcher | None = None) -> Floats:
        """What the models trained on the flip sets say, `[sets × people]`; each is trained once."""
        self.fit([flips for flips in dict.fromkeys(flip_sets) if not self.known(flips)], watch or Watcher())
        return np.array([self.logits(flips) for flips in flip_sets])

    def confirm(self, flip_sets: Sequence[FlipSet], watch: Watcher | None = None) -> None:
        """Train the flip sets by the definition, each once. What an engine trained here by definition stands."""
        for flips in flip_sets:
            if self.engine.by_definition and flips in self._logits and flips not in self._recalled:
                self._confirmed[flips] = self._logits[flips]
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if not missing:
            return
        trainings = [Training(flips, seed) for flips in missing for seed in self.seeds]
        answers = self._by_definition()(trainings, watch.trained if watch else None)
        by_set = answers.reshape(len(missing), self.members, -1)
        self._confirmed.update((flips, together(answer)) for flips, answer in zip(missing, by_set, strict=True))
        self.confirmations += len(trainings)

    def expect_confirmations(self, flip_sets: int) -> None:
        """Tell the definition how many sets it will be asked about, a few at a time: processes may pay for all of
        them where they would not for a few."""
        defined = self._by_definition()
        if hasattr(defined, "expect"):
            defined.expect(flip_sets * self.members)

    def _by_definition(self) -> Bound:
        if self._defined is None:
            self._defined = self._definition.bind(self.single, self.table, self.people)
        return self._defined

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self._confirmed[flips]

    def asked(self, trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
        """What single models under seeds of their own say, `[trainings × people]`, by the engine; recalled where the
        ledger knows them. They are counted over, and confirm nothing."""
        answers, _ = self._answers(trainings, progress or (lambda count: None))
        return np.array([answers[training] for training in trainings], np.float32).reshape(len(trainings), -1)

    def _answers(
        self, trainings: Sequence[Training], progress: Progress
    ) -> tuple[dict[Training, Floats], list[Training]]:
        """In the order asked for, whatever was recalled; and which were."""
        if self._page is None:
            return self._fitted(trainings, progress), []
        known = self._page.recall(trainings)
        progress(len(known))
        recalled = list(known)
        missing = [training for training in dict.fromkeys(trainings) if training not in known]
        for fitted in self._pieces(missing, progress):
            self._page.write(fitted)
            known |= fitted
        return {training: known[training] for training in trainings}, recalled

    def _pieces(self, trainings: Sequence[Training], progress: Progress) -> Iterator[dict[Training, Floats]]:
        """What is trained, piece by piece; from an engine that says so, as it comes."""
        stream = getattr(self.train, "as_they_come", None)
        if stream is None:
            size = max(self.PIECE, self.engine.width)
            for start in range(0, len(trainings), size):
                yield self._fitted(trainings[start : start + size], progress)
            return
        started = time.perf_counter()
        for chunk, answers in stream(trainings, progress):
            yield dict(zip(trainings[chunk.start : chunk.stop], answers, strict=True))
        self._took(len(trainings), started)

    def _took(self, trainings: int, started: float) -> None:
        if trainings:
            each = (time.perf_counter() - started) / trainings
            self._seconds_each = each if self._seconds_each is None else min(each, self._seconds_each)

    def _fitted(self, trainings: Sequence[Training], progress: Progress) -> dict[Training, Floats]:
        if not trainings:
            return {}
        started = time.perf_counter()
        answers = self.train(trainings, progress)
        self._took(len(trainings), started)
        return dict(zip(trainings, answers, strict=True))
