"""The joint search: all people's attempts, trained together, until each has an answer.

Three facts make it fast. The attempts of one step are trained side by side. Equal flip sets are trained
once. And a network trained for one person can be asked about everyone whose ψ allows its flip set.
One rule makes it true: nothing counts as found until the reference trainer has confirmed it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from butfor.learn.recipe import FlipSet
from butfor.plans import Plan, Shrink
from butfor.progress import Watcher
from butfor.trainer import Trainer


@dataclass(eq=False)
class Pursuit:
    """One person's search: its plan, what was tried, what came of it."""

    person: int
    plan: Plan
    away: float
    """Which way the logit must go: −1 for a person now in class 1, +1 for class 0."""
    spent: int = 0
    course: list[tuple[int, float]] = field(default_factory=list)
    closest: float | None = None
    rejected: set[FlipSet] = field(default_factory=set)
    found: FlipSet | None = None
    found_logit: float | None = None
    shared: bool = False
    first_size: int = 0
    """Flips in the first set that worked, before shrinking."""
    shrinking: Shrink | None = None
    minimal: bool = False
    complete: bool = False

    def changed(self, logit: float) -> bool:
        """Whether this logit is another decision than the person's present one (class 1 is logit > 0)."""
        return logit > 0 if self.away > 0 else logit <= 0

    def saw(self, flips: FlipSet, logit: float) -> None:
        """Take note of what a network trained on an allowed flip set says about the person."""
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit
        (self.shrinking or self.plan).saw(flips, logit * self.away, self.changed(logit))

    @property
    def current(self) -> Plan:
        return self.shrinking or self.plan


class JointSearch:
    """Runs pursuits to their ends. `psi [people × rows]` says whose labels may be flipped for whom.

    `share`: ask every network about everyone. `shrink`: make a found flip set smaller while it still works."""

    def __init__(
        self,
        trainer: Trainer,
        psi: NDArray[np.bool_],
        budget: int,
        *,
        share: bool,
        shrink: bool = False,
        max_retrainings: int | None = None,
        watch: Watcher | None = None,
    ) -> None:
        self.trainer, self.psi, self.budget = trainer, psi, budget
        self.share, self.shrink, self.max_retrainings = share, shrink, max_retrainings
        self.watch = watch or Watcher()
        self.interrupted = False

    def run(self, pursuits: Sequence[Pursuit]) -> None:
        """Search until everyone is found or out of attempts, the retrainings are spent, or Ctrl-C."""
        open_ = list(pursuits)
        try:
            while open_ and not self._spent():
                tries = self._next_attempts(open_)
                new = self._untrained(tries)
                self.trainer.fit(new, self.watch)
                self._judge(open_, tries, new)
                self._finish(open_)
                open_ = [p for p in open_ if not p.complete]
                self.watch.people(len(pursuits) - len(open_), sum(p.found is not None for p in pursuits))
        except KeyboardInterrupt:
            self.interrupted = True
        for pursuit in open_:
            self._end_shrinking(pursuit)

    def _spent(self) -> bool:
        return self.max_retrainings is not None and self.trainer.trained >= self.max_retrainings

    def _next_attempts(self, open_: Sequence[Pursuit]) -> dict[int, list[FlipSet]]:
        """Each person's next attempts: one, and more while that keeps the engine busy."""
        tries: dict[int, list[FlipSet]] = {p.person: [] for p in open_}
        new: set[FlipSet] = set()
        room = math.inf if self.max_retrainings is None else self.max_retrainings - self.trainer.trained
        wanted = min(room, self.trainer.width)
        active = list(open_)
        while active and (not new or len(new) < wanted):
            waiting = []
            for pursuit in active:
                if len(new) >= room:
                    break
                flips = pursuit.current.next()
                if flips is None:
                    continue
                waiting.append(pursuit)
                tries[pursuit.person].append(flips)
                if not self.trainer.known(flips):
                    new.add(flips)
            active = waiting
        return tries

    def _untrained(self, tries: dict[int, list[FlipSet]]) -> list[FlipSet]:
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        return [flips for flips in wanted if not self.trainer.known(flips)]

    # --- judging ------------------------------------------------------------------------------------

    def _judge(self, open_: Sequence[Pursuit], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]) -> None:
        """Everyone's own attempts in their order; then, where sharing is on, the others' networks."""
        waiting = [p for p in open_ if p.found is None]
        queues = {p.person: list(tries[p.person]) for p in waiting}
        while waiting:
            waiting = self._settle([(p, self._own_success(p, queues[p.person])) for p in waiting], shared=False)
        for pursuit in open_:
            if pursuit.shrinking is not None:
                for flips in tries[pursuit.person]:
                    pursuit.saw(flips, float(self.trainer.logits(flips)[pursuit.person]))
        if self.share and new:
            self._ask_everyone(open_, tries, new)
        if self.shrink:
            for pursuit in open_:
                if pursuit.found is not None and pursuit.shrinking is None:
                    pursuit.shrinking = Shrink(pursuit.plan.strongest_first(pursuit.found))

    def _own_success(self, pursuit: Pursuit, queue: list[FlipSet]) -> FlipSet | None:
        while queue:
            flips = queue.pop(0)
            logit = float(self.trainer.logits(flips)[pursuit.person])
            pursuit.spent += 1
            pursuit.course.append((len(flips), logit))
            pursuit.saw(flips, logit)
            if pursuit.changed(logit) and flips not in pursuit.rejected:
                return flips
        return None

    def _ask_everyone(
        self, open_: Sequence[Pursuit], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]
    ) -> None:
        """Whoever's ψ allows the flip set of a network that was trained for somebody else may profit."""
        logits = np.array([self.trainer.logits(flips) for flips in new])
        allowed = np.array([len(f) <= self.budget and self.psi[:, list(f)].all(axis=1) for f in new])
        candidates = {}
        for pursuit in open_:
            own = set(tries[pursuit.person])
            column = [k for k in np.flatnonzero(allowed[:, pursuit.person]) if new[k] not in own]
            working = []
            for k in column:
                logit = float(logits[k, pursuit.person])
                pursuit.saw(new[k], logit)
                if pursuit.changed(logit) and new[k] not in pursuit.rejected:
                    working.append(new[k])
            if pursuit.found is None:
                candidates[pursuit.person] = sorted(working, key=len)
        waiting = [p for p in open_ if p.found is None]
        while waiting:
            offers = [(p, candidates[p.person].pop(0) if candidates[p.person] else None) for p in waiting]
            waiting = self._settle(offers, shared=True)

    def _settle(self, offers: Sequence[tuple[Pursuit, FlipSet | None]], shared: bool) -> list[Pursuit]:
        """Confirm what seems to work by the reference; return those whose offer did not hold."""
        candidates = [(pursuit, flips) for pursuit, flips in offers if flips is not None]
        self.trainer.confirm([flips for _, flips in candidates])
        refuted = []
        for pursuit, flips in candidates:
            logit = float(self.trainer.confirmed_logits(flips)[pursuit.person])
            if pursuit.changed(logit):
                pursuit.found, pursuit.found_logit, pursuit.shared = flips, logit, shared
                pursuit.first_size = len(flips)
            else:
                pursuit.rejected.add(flips)
                refuted.append(pursuit)
        return refuted

    # --- ending -------------------------------------------------------------------------------------

    def _finish(self, open_: Sequence[Pursuit]) -> None:
        for pursuit in open_:
            if pursuit.shrinking is not None:
                pursuit.complete = pursuit.shrinking.done
                if pursuit.complete:
                    self._end_shrinking(pursuit)
            else:
                pursuit.complete = pursuit.found is not None or pursuit.plan.done

    def _end_shrinking(self, pursuit: Pursuit) -> None:
        """Report the smallest set the reference confirms; the one found first is confirmed already."""
        if pursuit.shrinking is None:
            return
        for flips in pursuit.shrinking.smallest_first():
            if len(flips) >= len(pursuit.found or ()):
                break
            self.trainer.confirm([flips])
            logit = float(self.trainer.confirmed_logits(flips)[pursuit.person])
            if pursuit.changed(logit):
                pursuit.found, pursuit.found_logit = flips, logit
                break
        pursuit.minimal = pursuit.shrinking.done and pursuit.found == pursuit.shrinking.smallest
