"""The joint search: all people's attempts, trained together, until each has an answer.

Three facts make it fast. The attempts of one step are trained side by side. Equal flip sets are trained
once. And a network trained for one person can be asked about everyone whose ψ allows its flip set.
One rule makes it true: nothing counts as found until the reference trainer has confirmed it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import Engine, FlipSet, Floats, Recipe, Rows
from butfor.learn.reference import ReferenceEngine
from butfor.ledger import Ledger
from butfor.progress import Watcher


@dataclass(eq=False)
class Pursuit:
    """One person's search: what is still to try, what was tried, what came of it."""

    person: int
    attempts: Iterator[FlipSet]
    away: float
    """Which way the logit must go: −1 for a person now in class 1, +1 for class 0."""
    spent: int = 0
    course: list[tuple[int, float]] = field(default_factory=list)
    closest: float | None = None
    rejected: set[FlipSet] = field(default_factory=set)
    found: FlipSet | None = None
    found_logit: float | None = None
    shared: bool = False
    complete: bool = False

    def changed(self, logit: float) -> bool:
        """Whether this logit is another decision than the person's present one (class 1 is logit > 0)."""
        return logit > 0 if self.away > 0 else logit <= 0

    def saw(self, logit: float) -> None:
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit


class Trainer:
    """An engine on one training table, asked about a fixed group of people; counts what it trains.

    With a ledger, what was trained before is recalled instead, and what is trained is written down
    piece by piece, so that a killed run loses little."""

    PIECE = 64
    """With a ledger: networks (or engine widths, where those are larger) between two writes."""

    def __init__(
        self, engine: Engine, recipe: Recipe, rows: Rows, people: Floats, ledger: Ledger | None = None
    ) -> None:
        self.engine, self.recipe, self.rows, self.people = engine, recipe, rows, people
        self.ledger = ledger
        self.trained = self.recalled = self.confirmations = 0
        self._logits: dict[FlipSet, Floats] = {}
        self._confirmed: dict[FlipSet, Floats] = {}

    @property
    def width(self) -> int:
        """How many networks the engine likes to train side by side."""
        return self.engine.width

    def known(self, flips: FlipSet) -> bool:
        return flips in self._logits

    def fit(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> None:
        """Train the flip sets, by the engine."""
        self._logits.update(self._trained_by(self.engine, flip_sets, watch))
        self.trained += len(flip_sets)

    def logits(self, flips: FlipSet) -> Floats:
        """What the network trained on a flip set says about each person."""
        return self._logits[flips]

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets again with the reference, each once."""
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if isinstance(self.engine, ReferenceEngine):
            self._confirmed.update((flips, self._logits[flips]) for flips in missing)
        else:
            self._confirmed.update(self._trained_by(ReferenceEngine(), missing, Watcher()))
            self.confirmations += len(missing)

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self._confirmed[flips]

    def _trained_by(self, engine: Engine, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        if self.ledger is None:
            return self._fitted(engine, flip_sets, watch)
        page = self.ledger.page(self.recipe, self.rows, self.people, engine.name)
        known = page.recall(flip_sets)
        watch.trained(len(known))
        self.recalled += len(known)
        missing = [flips for flips in flip_sets if flips not in known]
        size = max(self.PIECE, engine.width)
        for piece in (missing[start : start + size] for start in range(0, len(missing), size)):
            fitted = self._fitted(engine, piece, watch)
            page.write(fitted)
            known |= fitted
        return known

    def _fitted(self, engine: Engine, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        if not flip_sets:
            return {}
        fits = engine.fit_many(self.recipe, self.rows, flip_sets, self.people, watch.trained)
        return dict(zip(flip_sets, fits.logits, strict=True))


class JointSearch:
    """Runs pursuits to their ends. `psi [people × rows]` says whose labels may be flipped for whom."""

    def __init__(
        self,
        trainer: Trainer,
        psi: NDArray[np.bool_],
        budget: int,
        *,
        share: bool,
        max_retrainings: int | None = None,
        watch: Watcher | None = None,
    ) -> None:
        self.trainer, self.psi, self.budget = trainer, psi, budget
        self.share, self.max_retrainings = share, max_retrainings
        self.watch = watch or Watcher()
        self.interrupted = False

    def run(self, pursuits: Sequence[Pursuit]) -> None:
        """Search until everyone is found or out of attempts, the retrainings are spent, or Ctrl-C."""
        open_ = list(pursuits)
        try:
            while open_ and not self._spent():
                tries, exhausted = self._next_attempts(open_)
                new = self._untrained(tries)
                self.trainer.fit(new, self.watch)
                self._judge(open_, tries, new)
                for pursuit in open_:
                    pursuit.complete = pursuit in exhausted or pursuit.found is not None
                open_ = [p for p in open_ if not p.complete]
                self.watch.people(len(pursuits) - len(open_), sum(p.found is not None for p in pursuits))
        except KeyboardInterrupt:
            self.interrupted = True

    def _spent(self) -> bool:
        return self.max_retrainings is not None and self.trainer.trained >= self.max_retrainings

    def _next_attempts(self, open_: Sequence[Pursuit]) -> tuple[dict[int, list[FlipSet]], set[Pursuit]]:
        """Each person's next attempt, and more of them while that keeps the engine's cores busy; and who
        has none left."""
        tries: dict[int, list[FlipSet]] = {p.person: [] for p in open_}
        exhausted: set[Pursuit] = set()
        new: set[FlipSet] = set()
        room = math.inf if self.max_retrainings is None else self.max_retrainings - self.trainer.trained
        wanted = min(room, self.trainer.width)
        while len(exhausted) < len(open_) and (not new or len(new) < wanted):
            for pursuit in open_:
                if pursuit in exhausted or len(new) >= room:
                    continue
                flips = next(pursuit.attempts, None)
                if flips is None:
                    exhausted.add(pursuit)
                    continue
                tries[pursuit.person].append(flips)
                if not self.trainer.known(flips):
                    new.add(flips)
        return tries, exhausted

    def _untrained(self, tries: dict[int, list[FlipSet]]) -> list[FlipSet]:
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        return [flips for flips in wanted if not self.trainer.known(flips)]

    def _judge(self, open_: Sequence[Pursuit], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]) -> None:
        """Everyone's own attempts in their order; then, where sharing is on, the others' networks."""
        queues = {p.person: iter(tries[p.person]) for p in open_}
        waiting = list(open_)
        while waiting:
            candidates = [(p, flips) for p in waiting if (flips := self._own_success(p, queues[p.person]))]
            waiting = self._settle(candidates, shared=False)
        if self.share:
            waiting = [p for p in open_ if p.found is None]
            while waiting:
                candidates = [(p, flips) for p in waiting if (flips := self._shared_success(p, new))]
                waiting = self._settle(candidates, shared=True)

    def _own_success(self, pursuit: Pursuit, queue: Iterator[FlipSet]) -> FlipSet | None:
        for flips in queue:
            logit = float(self.trainer.logits(flips)[pursuit.person])
            pursuit.spent += 1
            pursuit.course.append((len(flips), logit))
            pursuit.saw(logit)
            if pursuit.changed(logit) and flips not in pursuit.rejected:
                return flips
        return None

    def _shared_success(self, pursuit: Pursuit, new: Sequence[FlipSet]) -> FlipSet | None:
        """The smallest flip set among the step's networks that is allowed for this person and works."""
        best: FlipSet | None = None
        for flips in new:
            if len(flips) > self.budget or not self.psi[pursuit.person, list(flips)].all():
                continue
            logit = float(self.trainer.logits(flips)[pursuit.person])
            pursuit.saw(logit)
            works = pursuit.changed(logit) and flips not in pursuit.rejected
            if works and (best is None or len(flips) < len(best)):
                best = flips
        return best

    def _settle(self, candidates: Sequence[tuple[Pursuit, FlipSet]], shared: bool) -> list[Pursuit]:
        """Confirm candidates by the reference; return those whose candidate did not hold."""
        self.trainer.confirm([flips for _, flips in candidates])
        refuted = []
        for pursuit, flips in candidates:
            logit = float(self.trainer.confirmed_logits(flips)[pursuit.person])
            if pursuit.changed(logit):
                pursuit.found, pursuit.found_logit, pursuit.shared = flips, logit, shared
            else:
                pursuit.rejected.add(flips)
                refuted.append(pursuit)
        return refuted
