"""The loop of most strategies: all people's attempts, trained together, until each has an answer.

Three facts make it fast. The attempts of one step are trained side by side. Equal flip sets are trained
once. And a model trained for one person can be asked about everyone whose ψ allows its flip set.
One rule makes it true: nothing counts as found until the learner's own `fit` has confirmed it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from butfor.learn.protocols import FlipSet
from butfor.rules import Allowed
from butfor.search.state import FixedPlan, PersonSearch, Plan, Shrink
from butfor.search.task import CONFIRMATION, SEARCH, Task


@dataclass(eq=False)
class AttemptSearch(PersonSearch):
    """One person's search through the flip sets that a plan proposes.

        own attempts ──▸ claim ──▸ shrinking ⇄ claim ──▸ complete
            └──▸ out of own attempts; somebody else's model may still bring an answer

    A claim that the definition rejects leads back to where it came from."""

    plan: Plan = field(default_factory=FixedPlan)
    shrinking: Shrink | None = None
    """Found, and being made smaller."""
    claim: FlipSet | None = None
    """Works by the engine, and waits for the definition to confirm it."""
    queue: list[FlipSet] = field(default_factory=list)
    """Own attempts that are trained but not yet looked at."""
    offers: list[FlipSet] = field(default_factory=list)
    """Other people's flip sets that are allowed and seem to work."""
    claims: int = 0
    """Sets that were put to the definition."""
    out_of_claims: bool = False
    """Whether the definition has refused as many as it is asked about."""
    proven: bool = False
    """The plan holds a set that is proven to be the smallest, or is empty because none can do: nothing to shrink."""

    @property
    def has_attempts(self) -> bool:
        """Own attempts are left."""
        return not (self.complete or self.claim or self.shrinking or self.plan.done)

    @property
    def is_shrinking(self) -> bool:
        """Shrinking, with nothing to be confirmed."""
        return not self.complete and self.claim is None and self.shrinking is not None

    def observe(self, sets: Sequence[FlipSet], logits: NDArray[np.float64]) -> None:
        """Take note of what models trained on allowed flip sets say about the person. What diverged says nothing."""
        if self.shrinking is None:
            ended = np.flatnonzero(~np.isnan(logits)).tolist()
            if ended:
                gains = logits[ended] * self.away
                self.record_closest(float(gains.max()) * self.away)
                self.plan.observe(
                    [sets[k] for k in ended], gains.tolist(), self.changes_decision(logits[ended]).tolist()
                )
            return
        for flips, logit in zip(sets, logits.tolist(), strict=True):
            if math.isnan(logit):
                self.shrinking.observe([flips], [-math.inf], [False])
                continue
            self.record_closest(logit)
            for plan in (self.plan, self.shrinking):
                plan.observe([flips], [logit * self.away], [self.changes_decision(logit)])


class Loop:
    """Propose → train → observe → confirm, for all people together. `psi` says which labels may be flipped for whom.

    `share`: ask every trained model about everyone. `shrink`: make a found flip set smaller while it still works.
    `pool`: attempts for all together, spent where they promise most; without it, everyone has their plan's. `claims`:
    sets of one person that are put to the definition."""

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
        self.task, self.trainer, self.psi, self.progress = task, task.trainer, psi, task.trainer.progress
        self.share, self.shrink, self.claims = share, shrink, claims
        self.pool, self.attempts = pool, 0
        self.ahead = self.trainer.width if pool is None else min(self.trainer.width, self.LEARNING)
        """Attempts made side by side, several of one person where there are too few people."""
        self._underway: set[int] = set()
        """Whose attempts are handed out and not yet looked at."""
        self._plans: list[Plan] = []

    def run(self, searches: Sequence[AttemptSearch]) -> None:
        self._plans = [search.plan for search in searches]
        self.task.run(
            lambda: self._explore(searches),
            lambda hurried: self._confirm_rest(searches, one_by_one=hurried),
            lambda: sum(not s.found and bool(s.claim) for s in searches),
        )
        for search in searches:
            if search.shrinking is not None and search.found is not None:
                search.minimal, search.complete = search.shrinking.minimal(search.found), search.shrinking.done
            elif search.found is None:
                through = search.plan.done and not search.claim and search.person not in self._underway
                search.complete, search.shared = through and not search.out_of_claims, False

    def _explore(self, searches: Sequence[AttemptSearch]) -> None:
        """Until everyone is found or out of attempts, or a limit is reached."""
        known = [flips for flips in self.trainer.known_sets if flips]
        if self.share and known:  # what is somebody's own first attempt anyway is left to that
            self._ask_everyone(searches, {p.person: p.plan.first_attempts() for p in searches}, known)
        while (open_ := [s for s in searches if not s.complete]) and self.trainer.room() >= 1:
            active = self._active(open_)
            if active:
                self._step(active, open_)
            elif not any(s.claim for s in open_):
                break
            claiming, others = [s for s in open_ if s.claim], any(s.has_attempts or s.is_shrinking for s in open_)
            # Whoever has a claim waits until enough have one, so that many are confirmed side by side.
            if claiming and (not others or len({s.claim for s in claiming}) >= 4 * self.trainer.n_jobs):
                self._confirm(claiming)
            self.progress.found(sum(s.found is not None or s.claim is not None for s in searches))

    def _confirm_rest(self, searches: Sequence[AttemptSearch], *, one_by_one: bool) -> None:
        """No more trainings: confirm what is claimed, each person's smallest set first; one by one where there is only
        a moment left for it."""
        while True:
            for search in searches:
                if search.is_shrinking:
                    self._claim_smallest(search)
                elif not search.complete and search.claim is None:
                    self._conclude(search)
            claiming = [p for p in searches if p.claim]
            if not claiming:
                return
            for some in [[p] for p in claiming] if one_by_one else [claiming]:
                self._confirm(some)

    def _pool_empty(self, kept_back: int = 0) -> bool:
        if self.pool is None:
            return False
        return self.attempts + kept_back >= self.pool - sum(plan.pool_returns for plan in self._plans)

    def _active(self, open_: Sequence[AttemptSearch]) -> list[AttemptSearch]:
        """Whose attempts come next. Where retrainings are limited, finding comes before shrinking.

        Whoever is out of attempts stays open: the models of others may still bring an answer."""
        searching, shrinking = [p for p in open_ if p.has_attempts], [p for p in open_ if p.is_shrinking]
        if self.pool is not None:
            if self._pool_empty():
                for search in searching:
                    search.plan.done = True
            searching = self._most_promising([p for p in searching if not p.plan.done])
        return searching if searching and self.trainer.room() < math.inf else searching + shrinking

    def _most_promising(self, searching: list[AttemptSearch]) -> list[AttemptSearch]:
        """Everyone once; from then on, in small rounds, those who seem nearest to another decision."""
        fresh = [p for p in searching if not p.spent]
        if fresh and self._pool_empty(kept_back=len(fresh)):
            return fresh  # what is left of the pool is theirs
        promise = {p.person: p.plan.promise() for p in fresh or searching}
        share = self.FIRST_ROUND if fresh else self.ROUND
        return sorted(fresh or searching, key=lambda p: -promise[p.person])[: math.ceil(len(searching) * share)]

    def _step(self, active: Sequence[AttemptSearch], open_: Sequence[AttemptSearch]) -> None:
        """Train the next attempts of the active, and look what they say."""
        tries = self._next_attempts(active, sum(not p.spent for p in open_ if p.has_attempts and p not in active))
        self._underway = {person for person, attempts in tries.items() if attempts}
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        new = [flips for flips in wanted if not self.trainer.known(flips)]
        self.trainer.fit(new)
        self._underway.clear()
        for search in active:
            search.queue += tries[search.person]
            if search.shrinking is not None and search.queue:  # all answers: which of them matter is the plan's to say
                search.observe(search.queue, self._logits(search.queue)[:, search.person])
                search.queue = []
        for search in active:
            if search.found is None:
                search.claim = self._own_claim(search)
        if self.share and new:
            self._ask_everyone(open_, tries, new)
        for search in open_:
            if search.claim is None:
                self._conclude(search)

    def _next_attempts(self, active: Sequence[AttemptSearch], kept_back: int) -> dict[int, list[FlipSet]]:
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
                flips = (search.shrinking or search.plan).next()
                if flips is None:
                    continue
                still.append(search)
                tries[search.person].append(flips)
                self.attempts += search.shrinking is None
                if not self.trainer.known(flips):
                    new.add(flips)
            asking = still
        return tries

    def _logits(self, sets: Sequence[FlipSet]) -> NDArray[np.float64]:
        """`[sets × people]`, by the engine."""
        return np.array([self.trainer.logits(flips) for flips in sets], np.float64)

    def _own_claim(self, search: AttemptSearch) -> FlipSet | None:
        """The first of the person's own attempts, in their order, that seems to work."""
        while search.queue:
            flips = search.queue.pop(0)
            logits = self._logits([flips])[:, search.person]
            logit = float(logits[0])
            search.spent += 1
            search.observe([flips], logits)
            if math.isnan(logit):
                search.failed += 1
            else:
                search.course.append((len(flips), logit))
            if search.changes_decision(logit) and flips not in search.rejected and not search.out_of_claims:
                return flips
        return None

    def _ask_everyone(
        self, open_: Sequence[AttemptSearch], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]
    ) -> None:
        """Whoever's ψ allows the flip set of a model that was trained for somebody else may profit."""
        logits = self._logits(new)
        allowed = np.array([self.psi.permits(f) & (len(f) <= self.task.budget) for f in new])
        for search in open_:
            own = set(tries.get(search.person, ()))
            heard = [k for k in np.flatnonzero(allowed[:, search.person]).tolist() if new[k] not in own]
            if not heard:
                continue
            said = logits[heard, search.person]
            search.observe([new[k] for k in heard], said)
            if search.found is None:
                search.offers += [new[heard[k]] for k in np.flatnonzero(search.changes_decision(said))]
                search.offers.sort(key=len)

    def _conclude(self, search: AttemptSearch) -> None:
        """Where this leaves the person: with a claim, with more to try, or at the end."""
        if search.shrinking is not None:
            if search.shrinking.done:
                self._claim_smallest(search)
            return
        if search.claim is None and search.found is None:
            search.claim = self._own_claim(search)
            while search.claim is None and search.offers:
                flips = search.offers.pop(0)
                if flips not in search.rejected and not search.out_of_claims:
                    search.claim, search.shared = flips, True
        if search.claim is None and not self.share:
            search.complete = search.plan.done

    def _claim_smallest(self, search: AttemptSearch) -> None:
        """Claim the smallest working set: one that is smaller than the confirmed one, or as small and, unlike it,
        known to be minimal. Where there is none, this is the end."""
        shrink, found = search.shrinking, search.found
        assert shrink is not None
        assert found is not None

        def size(flips: FlipSet) -> tuple[int, bool]:
            return len(flips), not shrink.minimal(flips)

        working = (flips for flips in shrink.smallest_first() if flips not in search.rejected)
        better = (flips for flips in working if size(flips) < size(found))
        search.claim = None if search.out_of_claims else next(better, None)
        search.complete = search.claim is None

    def _confirm(self, claiming: Sequence[AttemptSearch]) -> None:
        """Nothing is found that the definition does not find too; whose claim fails goes on searching."""
        self.progress.phase(CONFIRMATION)
        self.trainer.confirm([p.claim for p in claiming if p.claim])
        self.progress.phase(SEARCH)
        for search in claiming:
            search.claims += 1
            search.out_of_claims = self.claims is not None and search.claims >= self.claims
            claim, search.claim = search.claim, None
            assert claim is not None
            logit = float(self.trainer.confirmed_logits(claim)[search.person])
            if not search.changes_decision(logit):
                search.rejected.add(claim)
                if search.shrinking is not None:
                    search.shrinking.reject(claim)
                else:
                    search.shared = False
                    search.plan.done |= search.out_of_claims
                self._conclude(search)
                continue
            search.found, search.found_logit = claim, logit
            if search.shrinking is None:
                search.first_size = len(claim)
                if self.shrink and not search.proven:
                    gain = float(self.trainer.logits(claim)[search.person]) * search.away
                    search.shrinking = Shrink(search.plan.strongest_first(claim), gain, search.plan.propose_size)
                    search.queue.clear()
            if search.shrinking is None:
                search.complete = True
            else:
                self._conclude(search)
