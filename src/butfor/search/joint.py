"""The joint search: all people's attempts, trained together, until each has an answer.

Three facts make it fast. The attempts of one step are trained side by side. Equal flip sets are trained
once. And a model trained for one person can be asked about everyone whose ψ allows its flip set.
One rule makes it true: nothing counts as found until the learner's own `fit` has confirmed it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from butfor.allowed import Allowed
from butfor.progress import Deadline, Watcher
from butfor.seam import FlipSet
from butfor.search.grace import grace_after, tell_unconfirmed
from butfor.search.plans import Plan
from butfor.search.shrink import Shrink
from butfor.search.trainer import Trainer


class Stage(Enum):
    """Where a person's search stands.

        SEARCHING ──▸ CLAIMING ──▸ SHRINKING ⇄ CLAIMING ──▸ DONE
            └──▸ WAITING (out of own attempts) ──▸ CLAIMING, or DONE at the end

    A claim that the definition rejects leads back to where it came from."""

    SEARCHING = "own attempts are left"
    WAITING = "out of own attempts; somebody else's model may still bring an answer"
    CLAIMING = "a flip set works by the engine, and waits for the definition to confirm it"
    SHRINKING = "found, and being made smaller"
    DONE = "through"


@dataclass(frozen=True)
class Claim:
    """A flip set that, by the engine, turns the decision; not yet confirmed by the definition."""

    flips: FlipSet
    shared: bool = False
    shrunk: bool = False


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
    found: FlipSet | None = None
    found_logit: float | None = None
    shared: bool = False
    first_size: int = 0
    """Flips in the first set that worked, before shrinking."""
    shrinking: Shrink | None = None
    minimal: bool = False
    complete: bool = False
    claim: Claim | None = None
    queue: list[FlipSet] = field(default_factory=list)
    """Own attempts that are trained but not yet looked at."""
    offers: list[FlipSet] = field(default_factory=list)
    """Other people's flip sets that are allowed and seem to work."""
    rejected: set[FlipSet] = field(default_factory=set)
    failed: int = 0
    """Own attempts whose training failed or diverged."""
    clearance: float | None = None
    """The mean gain of an ensemble's members in standard deviations, where they were asked one by one."""
    claims: int = 0
    """Sets that were put to the definition."""
    refused: bool = False
    """Whether the definition has refused as many as it is asked about."""
    settled: bool = False
    """The plan holds a set that is proven to be the smallest, or is empty because none can do: nothing to shrink."""

    @property
    def stage(self) -> Stage:
        if self.complete:
            return Stage.DONE
        if self.claim is not None:
            return Stage.CLAIMING
        if self.shrinking is not None:
            return Stage.SHRINKING
        return Stage.WAITING if self.plan.done else Stage.SEARCHING

    def changed(self, logit: float) -> bool:
        """Whether this logit is another decision than the person's present one (class 1 is logit > 0)."""
        return logit > 0 if self.away > 0 else logit <= 0

    def saw(self, flips: FlipSet, logit: float) -> None:
        """Take note of what a model trained on an allowed flip set says about the person."""
        if math.isnan(logit):  # that training diverged: it says nothing
            if self.shrinking is not None:
                self.shrinking.saw(flips, -math.inf, False)
            return
        if self.closest is None or (logit - self.closest) * self.away > 0:
            self.closest = logit
        for plan in (self.plan, self.shrinking):
            if plan is not None:
                plan.saw(flips, logit * self.away, self.changed(logit))

    @property
    def current(self) -> Plan:
        return self.shrinking or self.plan


class JointSearch:
    """Runs pursuits to their ends. `psi` says which labels may be flipped for whom.

    `share`: ask every trained model about everyone. `shrink`: make a found flip set smaller while it still works.
    `pool`: attempts for all together, spent where they promise most; without it, everyone has their plan's.
    Whoever has a claim waits until enough have one, so that many are confirmed side by side."""

    FIRST_ROUND, ROUND = 1 / 4, 1 / 8
    """Share of the people who get an attempt of the pool in one round. Smaller rounds learn more from each other; the
    first attempts need no learning."""
    CLAIMS = 8
    """Sets of one person that are put to the definition, where the search does not promise to try everything. It hardly
    ever refuses one; whoever comes to so many is not searched for any longer, and called incomplete."""
    LEARNING = 8
    """Attempts made ahead at the most where the next ones depend on what these bring."""

    def __init__(
        self,
        trainer: Trainer,
        psi: Allowed,
        budget: int,
        *,
        share: bool,
        shrink: bool = False,
        max_retrainings: int | None = None,
        pool: int | None = None,
        claims: int | None = CLAIMS,
        watch: Watcher | None = None,
    ) -> None:
        self.trainer, self.psi, self.budget = trainer, psi, budget
        self.claims = claims
        self.share, self.shrink, self.max_retrainings = share, shrink, max_retrainings
        self.pool, self.attempts = pool, 0
        self.ahead = trainer.width if pool is None else min(trainer.width, self.LEARNING)
        """Attempts made side by side, several of one person where there are too few people."""
        self._underway: set[int] = set()
        """Whose attempts are handed out and not yet looked at."""
        self.watch = watch or Watcher()
        self.interrupted = False

    def run(self, pursuits: Sequence[Pursuit]) -> None:
        """Search until everyone is found or out of attempts, the retrainings are spent, or Ctrl-C."""
        stopped: KeyboardInterrupt | None = None
        try:
            self._ask_about_known(pursuits)
            while (open_ := [p for p in pursuits if p.stage is not Stage.DONE]) and not self._spent():
                active = self._active(open_)
                if active:
                    self._step(active, open_)
                elif not any(p.stage is Stage.CLAIMING for p in open_):
                    break
                self._confirm_when_worthwhile(open_)
                through = sum(p.complete or p.plan.done for p in pursuits)
                self.watch.people(through, sum(p.found is not None or p.claim is not None for p in pursuits))
        except KeyboardInterrupt as stop:
            self.interrupted, stopped = True, stop
        try:
            timeless = self.watch.watch if isinstance(self.watch, Deadline) else self.watch
            with grace_after(stopped, timeless) as (watch, brief):
                self._settle(pursuits, watch, one_by_one=brief)
        except KeyboardInterrupt:  # claims that nobody has confirmed are not reported
            self.interrupted = True
            tell_unconfirmed(self.watch, sum(p.found is None and p.claim is not None for p in pursuits))
        for pursuit in pursuits:
            shrink = pursuit.shrinking
            if shrink is not None and pursuit.found is not None:
                pursuit.minimal, pursuit.complete = shrink.minimal(pursuit.found), shrink.done
            elif pursuit.found is None:
                through = pursuit.plan.done and not pursuit.claim and pursuit.person not in self._underway
                pursuit.complete = through and not pursuit.refused

    def _settle(self, pursuits: Sequence[Pursuit], watch: Watcher, *, one_by_one: bool) -> None:
        """No more trainings: confirm what is claimed, each person's smallest set first; one by one where there is only
        a moment left for it."""
        while True:
            for pursuit in pursuits:
                if pursuit.stage is Stage.SHRINKING:
                    self._claim_smallest(pursuit)
                elif pursuit.stage in (Stage.SEARCHING, Stage.WAITING):
                    self._conclude(pursuit)
            claiming = [p for p in pursuits if p.stage is Stage.CLAIMING]
            if not claiming:
                return
            for some in [[p] for p in claiming] if one_by_one else [claiming]:
                self._confirm(some, watch)

    def _ask_about_known(self, pursuits: Sequence[Pursuit]) -> None:
        """Models that were trained before the search began may have answers already. What is somebody's own first
        attempt anyway is left to that."""
        known = [flips for flips in self.trainer.all_known if flips]
        if self.share and known:
            self._ask_everyone(pursuits, {p.person: p.plan.opening() for p in pursuits}, known)

    def _spent(self) -> bool:
        return self._room() < 1

    def _room(self) -> float:
        """Sets that may still be trained."""
        if self.max_retrainings is None:
            return math.inf
        return (self.max_retrainings - self.trainer.trained) // self.trainer.members

    def _pool_empty(self, kept_back: int = 0) -> bool:
        return self.pool is not None and self.attempts + kept_back >= self.pool

    def _active(self, open_: Sequence[Pursuit]) -> list[Pursuit]:
        """Whose attempts come next. Where retrainings are limited, finding comes before shrinking.

        Whoever is out of attempts stays open: the models of others may still bring an answer."""
        searching = self._searching(open_)
        shrinking = [p for p in open_ if p.stage is Stage.SHRINKING]
        if self.pool is not None:
            if self._pool_empty():
                for pursuit in searching:
                    pursuit.plan.done = True
            searching = self._most_promising([p for p in searching if not p.plan.done])
        return searching if searching and self.max_retrainings is not None else searching + shrinking

    @staticmethod
    def _searching(open_: Sequence[Pursuit]) -> list[Pursuit]:
        return [p for p in open_ if p.stage is Stage.SEARCHING]

    def _most_promising(self, searching: list[Pursuit]) -> list[Pursuit]:
        """Everyone once; from then on, in small rounds, those who seem nearest to another decision."""
        fresh = [p for p in searching if not p.spent]
        if fresh and self._pool_empty(kept_back=len(fresh)):
            return fresh  # what is left of the pool is theirs
        promise = {p.person: p.plan.promise() for p in fresh or searching}
        share = self.FIRST_ROUND if fresh else self.ROUND
        return sorted(fresh or searching, key=lambda p: -promise[p.person])[: math.ceil(len(searching) * share)]

    def _step(self, active: Sequence[Pursuit], open_: Sequence[Pursuit]) -> None:
        """Train the next attempts of the active, and look what they say."""
        tries = self._next_attempts(active, sum(not p.spent for p in self._searching(open_) if p not in active))
        self._underway = {person for person, attempts in tries.items() if attempts}
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        new = [flips for flips in wanted if not self.trainer.known(flips)]
        self.trainer.fit(new, self.watch)
        self._underway.clear()
        for pursuit in active:
            pursuit.queue += tries[pursuit.person]
            if pursuit.shrinking is not None:  # all answers at once: which of them matter is the plan's to say
                while pursuit.queue:
                    flips = pursuit.queue.pop(0)
                    pursuit.saw(flips, float(self.trainer.logits(flips)[pursuit.person]))
        for pursuit in active:
            if pursuit.found is None:
                pursuit.claim = self._own_claim(pursuit)
        if self.share and new:
            self._ask_everyone(open_, tries, new)
        for pursuit in open_:
            if pursuit.claim is None:
                self._conclude(pursuit)

    def _next_attempts(self, active: Sequence[Pursuit], kept_back: int) -> dict[int, list[FlipSet]]:
        """Each person's next attempts: one, and more while that keeps the engine busy. `kept_back`: attempts of the
        pool that belong to those who have had none."""
        tries: dict[int, list[FlipSet]] = {p.person: [] for p in active}
        new: set[FlipSet] = set()
        room = self._room()
        first = self.pool is not None and any(not p.spent for p in active if p.shrinking is None)
        wanted = min(room, 1 if first else self.ahead)  # nothing is known before the first one
        asking = list(active)
        while asking and (not new or len(new) < wanted):
            still = []
            for pursuit in asking:
                if len(new) >= room:
                    break
                if pursuit.shrinking is None and self._pool_empty(kept_back):
                    continue
                flips = pursuit.current.next()
                if flips is None:
                    continue
                still.append(pursuit)
                tries[pursuit.person].append(flips)
                self.attempts += pursuit.shrinking is None
                if not self.trainer.known(flips):
                    new.add(flips)
            asking = still
        return tries

    # --- what a model says --------------------------------------------------------------------------

    def _own_claim(self, pursuit: Pursuit) -> Claim | None:
        """The first of the person's own attempts, in their order, that seems to work."""
        while pursuit.queue:
            flips = pursuit.queue.pop(0)
            logit = float(self.trainer.logits(flips)[pursuit.person])
            pursuit.spent += 1
            pursuit.saw(flips, logit)
            if math.isnan(logit):
                pursuit.failed += 1
            else:
                pursuit.course.append((len(flips), logit))
            if pursuit.changed(logit) and flips not in pursuit.rejected and not pursuit.refused:
                return Claim(flips)
        return None

    def _ask_everyone(self, open_: Sequence[Pursuit], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]) -> None:
        """Whoever's ψ allows the flip set of a model that was trained for somebody else may profit."""
        logits = np.array([self.trainer.logits(flips) for flips in new])
        allowed = np.array([self.psi.permits(f) & (len(f) <= self.budget) for f in new])
        for pursuit in open_:
            own = set(tries.get(pursuit.person, ()))
            for k in map(int, np.flatnonzero(allowed[:, pursuit.person])):
                if new[k] in own:
                    continue
                logit = float(logits[k, pursuit.person])
                pursuit.saw(new[k], logit)
                if pursuit.found is None and pursuit.changed(logit):
                    pursuit.offers.append(new[k])
            pursuit.offers.sort(key=len)

    def _conclude(self, pursuit: Pursuit) -> None:
        """Where this leaves the person: with a claim, with more to try, or at the end."""
        if pursuit.shrinking is not None:
            if pursuit.shrinking.done:
                self._claim_smallest(pursuit)
            return
        if pursuit.claim is None and pursuit.found is None:
            pursuit.claim = self._own_claim(pursuit) or self._offered_claim(pursuit)
        if pursuit.claim is None and not self.share:
            pursuit.complete = pursuit.plan.done

    def _offered_claim(self, pursuit: Pursuit) -> Claim | None:
        while pursuit.offers:
            flips = pursuit.offers.pop(0)
            if flips not in pursuit.rejected and not pursuit.refused:
                return Claim(flips, shared=True)
        return None

    def _claim_smallest(self, pursuit: Pursuit) -> None:
        """Claim the smallest working set: one that is smaller than the confirmed one, or as small and, unlike it,
        known to be minimal. Where there is none, this is the end."""
        shrink, found = pursuit.shrinking, pursuit.found
        assert shrink is not None
        assert found is not None
        better = [
            flips
            for flips in shrink.smallest_first()
            if flips not in pursuit.rejected
            and not pursuit.refused
            and (
                len(flips) < len(found) or (len(flips) == len(found) and shrink.minimal(flips) > shrink.minimal(found))
            )
        ]
        if better:
            pursuit.claim = Claim(better[0], shrunk=True)
        else:
            pursuit.complete = True

    # --- what the definition says -------------------------------------------------------------------

    def _confirm_when_worthwhile(self, open_: Sequence[Pursuit]) -> None:
        claiming = [p for p in open_ if p.stage is Stage.CLAIMING]
        distinct = {p.claim.flips for p in claiming if p.claim}
        nobody_else = all(p.stage in (Stage.CLAIMING, Stage.DONE, Stage.WAITING) for p in open_)
        if claiming and (nobody_else or len(distinct) >= 4 * self.trainer.jobs):
            self._confirm(claiming)

    def _confirm(self, claiming: Sequence[Pursuit], watch: Watcher | None = None) -> None:
        """Nothing is found that the definition does not find too; whose claim fails goes on searching."""
        self.watch.phase("confirmation")
        self.trainer.confirm([p.claim.flips for p in claiming if p.claim], watch or self.watch)
        self.watch.phase("search")
        for pursuit in claiming:
            pursuit.claims += 1
            pursuit.refused = self.claims is not None and pursuit.claims >= self.claims
            claim, pursuit.claim = pursuit.claim, None
            assert claim is not None
            logit = float(self.trainer.confirmed_logits(claim.flips)[pursuit.person])
            if not pursuit.changed(logit):
                pursuit.rejected.add(claim.flips)
                if pursuit.shrinking is not None:
                    pursuit.shrinking.reject(claim.flips)
                elif pursuit.refused:
                    pursuit.plan.done = True
                self._conclude(pursuit)
                continue
            if not claim.shrunk:
                pursuit.first_size, pursuit.shared = len(claim.flips), claim.shared
            pursuit.found, pursuit.found_logit = claim.flips, logit
            if self.shrink and pursuit.shrinking is None and not pursuit.settled:
                gain = float(self.trainer.logits(claim.flips)[pursuit.person]) * pursuit.away
                order = pursuit.plan.strongest_first(claim.flips)
                pursuit.shrinking = Shrink(order, gain, pursuit.plan.of_size)
                pursuit.queue.clear()
            if pursuit.shrinking is None:
                pursuit.complete = True
            else:
                self._conclude(pursuit)
