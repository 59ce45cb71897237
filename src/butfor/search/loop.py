"""The loop of most strategies: the attempts of all people, trained together until each person has an answer.

It is fast because the attempts of one step are trained side by side, equal flip sets are trained once, and a model
trained for one person also counts for everyone whose ψ allows its flip set. It is correct because nothing is reported
until the model's own `fit` has confirmed it.
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
            └──▸ no attempts left; a model trained for someone else may still change the decision

    A claim that is not confirmed leads back to the state before it."""

    plan: Plan = field(default_factory=FixedPlan)
    shrinking: Shrink | None = None
    """A set was found and is being shrunk."""
    claim: FlipSet | None = None
    """A set that works by the engine and waits for confirmation."""
    queue: list[FlipSet] = field(default_factory=list)
    """Own attempts that are trained but not yet checked."""
    offers: list[FlipSet] = field(default_factory=list)
    """Other people's flip sets that ψ allows and that seem to work."""
    claims: int = 0
    """Sets that went to confirmation."""
    out_of_claims: bool = False
    """Whether no further set goes to confirmation."""
    proven: bool = False
    """The plan has a set that is proven smallest, or is empty because none exists: nothing to shrink."""

    @property
    def has_attempts(self) -> bool:
        """Whether own attempts are left."""
        return not (self.complete or self.claim or self.shrinking or self.plan.done)

    @property
    def is_shrinking(self) -> bool:
        """Whether it is shrinking and no claim waits."""
        return not self.complete and self.claim is None and self.shrinking is not None

    def observe(self, sets: Sequence[FlipSet], logits: NDArray[np.float64]) -> None:
        """Learn from the person's logits under models trained on allowed flip sets; NaN if a training diverged."""
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
    """Propose → train → observe → confirm, for all people together. `psi`: the labels that each person may flip.

    `share`: every trained model counts for everyone. `shrink`: a found flip set is shrunk while it still works. `pool`:
    attempts for all people together, spent on the most promising; None: each person has those of their plan. `claims`:
    the most sets of one person that go to confirmation."""

    FIRST_ROUND, ROUND = 1 / 4, 1 / 8
    """The share of people who get an attempt of the pool in one round. People in later rounds learn from earlier ones;
    first attempts do not depend on others."""
    CLAIMS = 8
    """The default of `claims`. Confirmation rarely fails; after this many failures a person's search ends as
    incomplete."""
    LEARNING = 8
    """The most attempts made ahead if the next ones depend on their results."""
    MEASURED, NEAR = 8, 10
    """Sets on which the engine's distance from the model's own `fit` is measured, and how many times that distance a
    gain must be below 0 for "no set changes the decision" to be said without that `fit`."""

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
        """Attempts made side by side, several per person if there are few people."""
        self._underway: set[int] = set()
        """People whose attempts are in training."""
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
        """Search until everyone has a set or no attempts left, or a limit is reached."""
        known = [flips for flips in self.trainer.known_sets if flips]
        if self.share and known:  # except for people whose own first attempt it is
            self._offer_to_everyone(searches, {p.person: p.plan.first_attempts() for p in searches}, known)
        while (open_ := [s for s in searches if not s.complete]) and self.trainer.room() >= 1:
            active = self._active(open_)
            if active:
                self._step(active, open_)
            elif not any(s.claim for s in open_):
                break
            claiming, others = [s for s in open_ if s.claim], any(s.has_attempts or s.is_shrinking for s in open_)
            # Claims wait until there are enough to confirm side by side.
            if claiming and (not others or len({s.claim for s in claiming}) >= 4 * self.trainer.n_jobs):
                self._confirm(claiming)
            self.progress.found(sum(s.found is not None or s.claim is not None for s in searches))
        if self.claims is None and not self.trainer.bound.by_definition:
            self._rule_out([s for s in searches if s.found is None and s.plan.done and not (s.claim or s.proven)])

    def _rule_out(self, searches: Sequence[AttemptSearch]) -> None:
        """Before "no set changes the decision" is said: sets that come close by the engine are trained by the model's
        own `fit`. Its distance from the engine is measured for each person, first on the sets nearest to anybody's
        other decision. Searches stay incomplete until all near sets are trained."""
        sets = [flips for flips in self.trainer.known_sets if 0 < len(flips) <= self.task.budget]
        if not searches or not sets:
            return
        for search in searches:
            search.out_of_claims = True
        people, away = [s.person for s in searches], np.array([s.away for s in searches])
        logits = self._logits(sets)[:, people]
        allowed = np.array([self.psi.permits(flips)[people] for flips in sets]) & ~np.isnan(logits)
        gains = np.where(allowed, logits * away, -np.inf)
        closest = np.argsort(-gains.max(axis=0), kind="stable")
        new = list(dict.fromkeys(gains.argmax(axis=0)[closest].tolist()))[: self.MEASURED]
        trained: list[int] = []
        self.progress.phase(CONFIRMATION)
        while new:
            self.trainer.confirm([sets[k] for k in new])
            trained += new
            fitted = np.array([self.trainer.confirmed_logits(sets[k])[people] for k in trained], np.float64)
            distance = np.fmax.reduce(np.abs(fitted - logits[trained]))  # of sets that could be trained
            near = allowed & (gains >= -self.NEAR * np.nan_to_num(distance, nan=np.inf))
            new = np.setdiff1d(np.flatnonzero(near.any(axis=1)), trained).tolist()
        for k, search in enumerate(searches):
            turned = np.flatnonzero(allowed[trained, k] & search.changes_decision(fitted[:, k]))
            if len(turned):
                best = turned[(fitted[turned, k] * search.away).argmax()]
                search.found, search.found_logit, search.complete = sets[trained[best]], float(fitted[best, k]), True
                search.first_size = len(search.found)
            search.out_of_claims = bool(np.isnan(fitted[near[trained, k], k]).any())

    def _confirm_rest(self, searches: Sequence[AttemptSearch], *, one_by_one: bool) -> None:
        """Train no more attempts; confirm each person's smallest claim first, one by one if time is short."""
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
        """The people whose attempts come next. If retrainings are limited, finding comes before shrinking. A search
        without attempts stays open: a model trained for someone else may still change the decision."""
        searching, shrinking = [p for p in open_ if p.has_attempts], [p for p in open_ if p.is_shrinking]
        if self.pool is not None:
            if self._pool_empty():
                for search in searching:
                    search.plan.done = True
            searching = self._most_promising([p for p in searching if not p.plan.done])
        return searching if searching and self.trainer.room() < math.inf else searching + shrinking

    def _most_promising(self, searching: list[AttemptSearch]) -> list[AttemptSearch]:
        """Everyone once; then, in small rounds, those who seem nearest to the other decision."""
        fresh = [p for p in searching if not p.spent]
        if fresh and self._pool_empty(kept_back=len(fresh)):
            return fresh  # the rest of the pool is theirs
        promise = {p.person: p.plan.promise() for p in fresh or searching}
        share = self.FIRST_ROUND if fresh else self.ROUND
        return sorted(fresh or searching, key=lambda p: -promise[p.person])[: math.ceil(len(searching) * share)]

    def _step(self, active: Sequence[AttemptSearch], open_: Sequence[AttemptSearch]) -> None:
        """Train the next attempts of active people and check the results."""
        tries = self._next_attempts(active, sum(not p.spent for p in open_ if p.has_attempts and p not in active))
        self._underway = {person for person, attempts in tries.items() if attempts}
        wanted = dict.fromkeys(flips for attempts in tries.values() for flips in attempts)
        new = [flips for flips in wanted if not self.trainer.known(flips)]
        self.trainer.fit(new)
        self._underway.clear()
        for search in active:
            search.queue += tries[search.person]
            if search.shrinking is not None and search.queue:
                search.observe(search.queue, self._logits(search.queue)[:, search.person])
                search.queue = []
        for search in active:
            if search.found is None:
                search.claim = self._own_claim(search)
        if self.share and new:
            self._offer_to_everyone(open_, tries, new)
        for search in open_:
            if search.claim is None:
                self._conclude(search)

    def _next_attempts(self, active: Sequence[AttemptSearch], kept_back: int) -> dict[int, list[FlipSet]]:
        """Each person's next attempts: one, and more if the engine has room. `kept_back`: attempts of the pool reserved
        for people who have had none."""
        tries: dict[int, list[FlipSet]] = {p.person: [] for p in active}
        new: set[FlipSet] = set()
        room = self.trainer.room()
        first = self.pool is not None and any(not p.spent for p in active if p.shrinking is None)
        wanted = min(room, 1 if first else self.ahead)
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
        """The engine's logits, `[sets × people]`."""
        return np.array([self.trainer.logits(flips) for flips in sets], np.float64)

    def _own_claim(self, search: AttemptSearch) -> FlipSet | None:
        """The person's first own attempt that seems to work."""
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

    def _offer_to_everyone(
        self, open_: Sequence[AttemptSearch], tries: dict[int, list[FlipSet]], new: Sequence[FlipSet]
    ) -> None:
        """Offer each new flip set to all other people whose ψ allows it."""
        logits = self._logits(new)
        allowed = np.array([self.psi.permits(f) & (len(f) <= self.task.budget) for f in new])
        for search in open_:
            own = set(tries.get(search.person, ()))
            others = [k for k in np.flatnonzero(allowed[:, search.person]).tolist() if new[k] not in own]
            if not others:
                continue
            theirs = logits[others, search.person]
            search.observe([new[k] for k in others], theirs)
            if search.found is None:
                search.offers += [new[others[k]] for k in np.flatnonzero(search.changes_decision(theirs))]
                search.offers.sort(key=len)

    def _conclude(self, search: AttemptSearch) -> None:
        """Move the search on: to a claim, to more attempts, or to its end."""
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
        """Claim the smallest working set if it is smaller than the confirmed one, or as small and, unlike it, known to
        be minimal; if there is none, end the search."""
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
        """Retrain claims with the model's own `fit`; a search whose claim fails goes on."""
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
