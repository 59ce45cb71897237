"""The loop of most strategies: all people's attempts, trained together, until each has an answer.

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
from numpy.typing import NDArray

from butfor.learn.protocols import FlipSet
from butfor.rules import Allowed
from butfor.search.shrink import Shrink
from butfor.search.state import Listed, PersonSearch, Plan
from butfor.search.task import CONFIRMATION, SEARCH, Task


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
class Attempts(PersonSearch):
    """One person's search through the flip sets that a plan proposes."""

    plan: Plan = field(default_factory=Listed)
    shrinking: Shrink | None = None
    claim: Claim | None = None
    queue: list[FlipSet] = field(default_factory=list)
    """Own attempts that are trained but not yet looked at."""
    offers: list[FlipSet] = field(default_factory=list)
    """Other people's flip sets that are allowed and seem to work."""
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

    def saw(self, flips: FlipSet, logit: float) -> None:
        """Take note of what a model trained on an allowed flip set says about the person."""
        if math.isnan(logit):  # that training diverged: it says nothing
            if self.shrinking is not None:
                self.shrinking.saw(flips, -math.inf, False)
            return
        self.came_close(logit)
        for plan in (self.plan, self.shrinking):
            if plan is not None:
                plan.saw(flips, logit * self.away, self.turned(logit))

    def saw_all(self, sets: Sequence[FlipSet], logits: NDArray[np.float64]) -> None:
        """The same of several models."""
        if self.shrinking is not None or np.isnan(logits).any():
            for flips, logit in zip(sets, logits.tolist(), strict=True):
                self.saw(flips, logit)
            return
        gains = logits * self.away
        self.came_close(float(gains.max()) * self.away)
        self.plan.saw_all(sets, gains.tolist(), self.turned(logits).tolist())

    @property
    def current(self) -> Plan:
        return self.shrinking or self.plan


class Loop:
    """Propose → train → observe → confirm, for all people together. `psi` says which labels may be flipped for whom.

    `share`: ask every trained model about everyone. `shrink`: make a found flip set smaller while it still works.
    `pool`: attempts for all together, spent where they promise most; without it, everyone has their plan's. `claims`:
    sets of one person that are put to the definition. Whoever has a claim waits until enough have one, so that many are
    confirmed side by side."""

    FIRST_ROUND, ROUND = 1 / 4, 1 / 8
    """Share of the people who get an attempt of the pool in one round. Smaller rounds learn more from each other; the
    first attempts need no learning."""
    CLAIMS = 8
    """Where the search does not promise to try everything. The definition hardly ever refuses a set; whoever comes to
    so many is not searched for any longer, and called incomplete."""
    LEARNING = 8
    """Attempts made ahead at the most where the next ones depend on what these bring."""

    def __init__(
        self,
        task: Task,
        psi: Allowed,
        *,
        share: bool,
        shrink: bool = False,
        pool: int | None = None,
        claims: int | None = CLAIMS,
    ) -> None:
        self.task, self.trainer, self.psi, self.watch = task, task.trainer, psi, task.watch
        self.share, self.shrink, self.claims = share, shrink, claims
        self.pool, self.attempts = pool, 0
        self.ahead = self.trainer.width if pool is None else min(self.trainer.width, self.LEARNING)
        """Attempts made side by side, several of one person where there are too few people."""
        self._underway: set[int] = set()
        """Whose attempts are handed out and not yet looked at."""
        self._plans: list[Plan] = []

    def run(self, searches: Sequence[Attempts]) -> None:
        """Search until everyone is found or out of attempts, a limit is reached, or Ctrl-C."""
        self.watch.phase(SEARCH)
        self._plans = [search.plan for search in searches]
        ended_by: KeyboardInterrupt | None = None
        try:
            self._ask_about_known(searches)
            while (open_ := [s for s in searches if s.stage is not Stage.DONE]) and self.trainer.room() >= 1:
                active = self._active(open_)
                if active:
                    self._step(active, open_)
                elif not any(s.stage is Stage.CLAIMING for s in open_):
                    break
                self._confirm_when_worthwhile(open_)
                self.watch.found(sum(s.found is not None or s.claim is not None for s in searches))
        except KeyboardInterrupt as stop:
            ended_by = stop
        unconfirmed = lambda: sum(s.found is None and s.claim is not None for s in searches)  # noqa: E731
        with self.task.settling(ended_by, unconfirmed) as hurried:
            self._settle(searches, one_by_one=hurried)
        for search in searches:
            shrink = search.shrinking
            if shrink is not None and search.found is not None:
                search.minimal, search.complete = shrink.minimal(search.found), shrink.done
            elif search.found is None:
                through = search.plan.done and not search.claim and search.person not in self._underway
                search.complete = through and not search.refused

    def _settle(self, searches: Sequence[Attempts], *, one_by_one: bool) -> None:
        """No more trainings: confirm what is claimed, each person's smallest set first; one by one where there is only
        a moment left for it."""
        while True:
            for search in searches:
                if search.stage is Stage.SHRINKING:
                    self._claim_smallest(search)
                elif search.stage in (Stage.SEARCHING, Stage.WAITING):
                    self._conclude(search)
            claiming = [p for p in searches if p.stage is Stage.CLAIMING]
            if not claiming:
                return
            for some in [[p] for p in claiming] if one_by_one else [claiming]:
                self._confirm(some)

    def _ask_about_known(self, searches: Sequence[Attempts]) -> None:
        """Models that were trained before the search began may have answers already. What is somebody's own first
        attempt anyway is left to that."""
        known = [flips for flips in self.trainer.known_sets if flips]
        if self.share and known:
            self._ask_everyone(searches, {p.person: p.plan.opening() for p in searches}, known)

    def _pool_empty(self, kept_back: int = 0) -> bool:
        if self.pool is None:
            return False
        return self.attempts + kept_back >= self.pool - sum(plan.given_back for plan in self._plans)

    def _active(self, open_: Sequence[Attempts]) -> list[Attempts]:
        """Whose attempts come next. Where retrainings are limited, finding comes before shrinking.

        Whoever is out of attempts stays open: the models of others may still bring an answer."""
        searching = self._searching(open_)
        shrinking = [p for p in open_ if p.stage is Stage.SHRINKING]
        if self.pool is not None:
            if self._pool_empty():
                for search in searching:
                    search.plan.done = True
            searching = self._most_promising([p for p in searching if not p.plan.done])
        return searching if searching and self.trainer.room() < math.inf else searching + shrinking

    @staticmethod
    def _searching(open_: Sequence[Attempts]) -> list[Attempts]:
        return [p for p in open_ if p.stage is Stage.SEARCHING]

    def _most_promising(self, searching: list[Attempts]) -> list[Attempts]:
        """Everyone once; from then on, in small rounds, those who seem nearest to another decision."""
        fresh = [p for p in searching if not p.spent]
        if fresh and self._pool_empty(kept_back=len(fresh)):
            return fresh  # what is left of the pool is theirs
        promise = {p.person: p.plan.promise() for p in fresh or searching}
        share = self.FIRST_ROUND if fresh else self.ROUND
        return sorted(fresh or searching, key=lambda p: -promise[p.person])[: math.ceil(len(searching) * share)]

    def _step(self, active: Sequence[Attempts], open_: Sequence[Attempts]) -> None:
        """Train the next attempts of the active, and look what they say."""
        tries = self._next_attempts(active, sum(not p.spent for p in self._searching(open_) if p not in active))
        self._underway = {person for person, attempts in tries.items() if attempts}
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        new = [flips for flips in wanted if not self.trainer.known(flips)]
        self.trainer.fit(new)
        self._underway.clear()
        for search in active:
            search.queue += tries[search.person]
            if search.shrinking is not None:  # all answers at once: which of them matter is the plan's to say
                while search.queue:
                    flips = search.queue.pop(0)
                    search.saw(flips, float(self.trainer.logits(flips)[search.person]))
        for search in active:
            if search.found is None:
                search.claim = self._own_claim(search)
        if self.share and new:
            self._ask_everyone(open_, tries, new)
        for search in open_:
            if search.claim is None:
                self._conclude(search)

    def _next_attempts(self, active: Sequence[Attempts], kept_back: int) -> dict[int, list[FlipSet]]:
        """Each person's next attempts: one, and more while that keeps the engine busy. `kept_back`: attempts of the
        pool that belong to those who have had none."""
        tries: dict[int, list[FlipSet]] = {p.person: [] for p in active}
        new: set[FlipSet] = set()
        room = self.trainer.room()
        first = self.pool is not None and any(not p.spent for p in active if p.shrinking is None)
        wanted = min(room, 1 if first else self.ahead)  # nothing is known before the first one
        asking = list(active)
        while asking and (not new or len(new) < wanted):
            still = []
            for search in asking:
                if len(new) >= room:
                    break
                if search.shrinking is None and self._pool_empty(kept_back):
                    continue
                flips = search.current.next()
                if flips is None:
                    continue
                still.append(search)
                tries[search.person].append(flips)
                self.attempts += search.shrinking is None
                if not self.trainer.known(flips):
                    new.add(flips)
            asking = still
        return tries

    # --- what a model says --------------------------------------------------------------------------

    def _own_claim(self, search: Attempts) -> Claim | None:
        """The first of the person's own attempts, in their order, that seems to work."""
        while search.queue:
            flips = search.queue.pop(0)
            logit = float(self.trainer.logits(flips)[search.person])
            search.spent += 1
            search.saw(flips, logit)
            if math.isnan(logit):
                search.failed += 1
            else:
                search.course.append((len(flips), logit))
            if search.turned(logit) and flips not in search.rejected and not search.refused:
                return Claim(flips)
        return None

    def _ask_everyone(self, open_: Sequence[Attempts], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]) -> None:
        """Whoever's ψ allows the flip set of a model that was trained for somebody else may profit."""
        logits = np.array([self.trainer.logits(flips) for flips in new], np.float64)
        allowed = np.array([self.psi.permits(f) & (len(f) <= self.task.budget) for f in new])
        for search in open_:
            own = set(tries.get(search.person, ()))
            heard = [k for k in np.flatnonzero(allowed[:, search.person]).tolist() if new[k] not in own]
            if not heard:
                continue
            said = logits[heard, search.person]
            search.saw_all([new[k] for k in heard], said)
            if search.found is None:
                search.offers += [new[heard[k]] for k in np.flatnonzero(search.turned(said))]
                search.offers.sort(key=len)

    def _conclude(self, search: Attempts) -> None:
        """Where this leaves the person: with a claim, with more to try, or at the end."""
        if search.shrinking is not None:
            if search.shrinking.done:
                self._claim_smallest(search)
            return
        if search.claim is None and search.found is None:
            search.claim = self._own_claim(search) or self._offered_claim(search)
        if search.claim is None and not self.share:
            search.complete = search.plan.done

    def _offered_claim(self, search: Attempts) -> Claim | None:
        while search.offers:
            flips = search.offers.pop(0)
            if flips not in search.rejected and not search.refused:
                return Claim(flips, shared=True)
        return None

    def _claim_smallest(self, search: Attempts) -> None:
        """Claim the smallest working set: one that is smaller than the confirmed one, or as small and, unlike it,
        known to be minimal. Where there is none, this is the end."""
        shrink, found = search.shrinking, search.found
        assert shrink is not None
        assert found is not None
        better = [
            flips
            for flips in shrink.smallest_first()
            if flips not in search.rejected
            and not search.refused
            and (
                len(flips) < len(found) or (len(flips) == len(found) and shrink.minimal(flips) > shrink.minimal(found))
            )
        ]
        if better:
            search.claim = Claim(better[0], shrunk=True)
        else:
            search.complete = True

    # --- what the definition says -------------------------------------------------------------------

    def _confirm_when_worthwhile(self, open_: Sequence[Attempts]) -> None:
        claiming = [p for p in open_ if p.stage is Stage.CLAIMING]
        distinct = {p.claim.flips for p in claiming if p.claim}
        nobody_else = all(p.stage in (Stage.CLAIMING, Stage.DONE, Stage.WAITING) for p in open_)
        if claiming and (nobody_else or len(distinct) >= 4 * self.trainer.n_jobs):
            self._confirm(claiming)

    def _confirm(self, claiming: Sequence[Attempts]) -> None:
        """Nothing is found that the definition does not find too; whose claim fails goes on searching."""
        self.watch.phase(CONFIRMATION)
        self.trainer.confirm([p.claim.flips for p in claiming if p.claim])
        self.watch.phase(SEARCH)
        for search in claiming:
            search.claims += 1
            search.refused = self.claims is not None and search.claims >= self.claims
            claim, search.claim = search.claim, None
            assert claim is not None
            logit = float(self.trainer.confirmed_logits(claim.flips)[search.person])
            if not search.turned(logit):
                search.rejected.add(claim.flips)
                if search.shrinking is not None:
                    search.shrinking.reject(claim.flips)
                elif search.refused:
                    search.plan.done = True
                self._conclude(search)
                continue
            if not claim.shrunk:
                search.first_size, search.shared = len(claim.flips), claim.shared
            search.found, search.found_logit = claim.flips, logit
            if self.shrink and search.shrinking is None and not search.settled:
                gain = float(self.trainer.logits(claim.flips)[search.person]) * search.away
                order = search.plan.strongest_first(claim.flips)
                search.shrinking = Shrink(order, gain, search.plan.of_size)
                search.queue.clear()
            if search.shrinking is None:
                search.complete = True
            else:
                self._conclude(search)
