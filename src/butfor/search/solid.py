"""The search for the fewest labels that change a decision under nearly every seed.

It looks at all members of an ensemble: a set works if the members' mean gain exceeds `margin` times their spread, so
that a model under nearly every other seed would decide this way. Averaged over seeds, a ranking's first set is nearly
as good as the result of a long search, so each person gets a few sets, not hundreds:

    opening    the top of the ranking, up to the cap: a few members first, all members if it comes near
    sizes      bisection for the shortest prefix that keeps the margin
    second     the ranking again at the person's own half-flipped labels, if the model has a gradient; sizes again

If no set reaches the margin, the nearest that changes the ensemble's decision is kept; fresh seeds, which take no part
here, show what it is worth. Every reported set was confirmed by the model's own `fit`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import FlipSet, Model
from butfor.rank import Ranking
from butfor.rank.mix import RankingMix
from butfor.rules import Allowed
from butfor.search.state import PersonSearch, flip_set
from butfor.search.strategy import Strategy
from butfor.search.task import CONFIRMATION, Task

MARGIN = 2.5
"""Standard deviations of the members that their mean gain must exceed."""
REACH = 3
"""Rows ranked for a person, as a multiple of the budget."""
SCREEN = 4
"""Members that screen a set first."""
CLAIMS = 3
"""The most sets of one person that go to confirmation, which rarely fails with many members."""
LEAST_FOR_SECOND = 8
"""The smallest cap for which a ranking at half of its labels adds information."""
FAR = 1.5
"""Standard deviations short of the other decision at which screening ends a search."""
LEAST_TO_GUESS = 16
"""The fewest remaining sizes for which interpolation beats bisection."""
TOWARDS_MIDDLE = 0.05
"""How far an interpolated size moves towards the middle, as a share of the remaining sizes."""
SLICE = 16
"""Sets trained between two checks of the clock; more if the engine is wider."""
NEAR = 0.4
"""The usual share of people who come near the other decision, for estimates of time."""


class SolidSearch(Strategy):
    """The smallest sets that change the decision of nearly all members of an ensemble. `second`: whether to rank again
    at half-flipped labels; None: if the cap is large enough for it to pay."""

    name = "solid"
    proves = True

    def __init__(self, margin: float = MARGIN, second: bool | None = None) -> None:
        super().__init__()
        if not margin >= 0:
            raise SettingError(f"margin={margin} must be a number from 0 up, in standard deviations of the members.")
        self.margin, self.second = margin, second

    def check(self, members: int) -> None:
        if members == 1:
            raise SettingError(
                "strategy 'solid' needs the members of an ensemble, and this is an audit of a single model. Use "
                "'guided', or members=2 or more with a model that has a seed."
            )

    def ranking(self, model: Model) -> Ranking:
        return RankingMix.of(model)

    def depth(self, flippable: int, budget: int) -> int:
        return min(flippable, REACH * budget)

    def search(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonSearch]:
        searches = self._new_searches(task, people, psi)
        PrefixSearch(task, psi, self).run(searches)
        return list(searches)

    def _new_searches(self, task: Task, people: NDArray[np.int64], psi: Allowed) -> list[PersonPrefixes]:
        ranked = task.ranked(people, psi, self.depth)
        return [PersonPrefixes(r.person, r.away, order=r.order, cap=min(r.budget, len(r.order))) for r in ranked]

    def ranks_again(self, budget: int) -> bool:
        return budget >= LEAST_FOR_SECOND if self.second is None else self.second

    def expected_sets(self, flippable: Sequence[int], budget: int, members: int) -> float:
        size = min(budget, max(flippable, default=0))
        screened = SCREEN / members if members > 2 * SCREEN else 1.0
        bisection = (size - 1).bit_length() if size else 0
        return 1 + len(flippable) * (screened + NEAR * (1 - screened + (1 + self.ranks_again(budget)) * bisection))

    def expected_rankings(self, people: int, budget: int) -> float:
        return NEAR * people * self.ranks_again(budget)


@dataclass(eq=False)
class PersonPrefixes(PersonSearch):
    """One person's search among prefixes of `order`, the flippable rows, best first."""

    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    cap: int = 0
    gains: dict[FlipSet, NDArray[np.float64]] = field(default_factory=dict)
    """For each set tried, the members' logits towards the other decision, `[members]`."""
    longest_failure: int = 0
    """The longest prefix of the present order known to miss the margin."""
    best: FlipSet | None = None
    """The smallest set that keeps the margin."""
    steps: int = 0
    """Steps left to bisect the sizes between the two."""

    @property
    def open_sizes(self) -> int:
        """The number of sizes between the longest prefix that fails and the smallest set that works."""
        return max(0, (len(self.best) if self.best else self.cap + 1) - self.longest_failure - 1)

    @property
    def full_set(self) -> FlipSet:
        return self.prefix(self.cap)

    def prefix(self, size: int) -> FlipSet:
        return flip_set(self.order[:size])

    def observe(self, flips: FlipSet, logits: NDArray[np.floating]) -> None:
        gains = np.asarray(logits, np.float64) * self.away
        if np.isfinite(gains).all():
            self.gains[flips] = gains
        else:
            self.failed += flips not in self.gains
            self.gains[flips] = np.full(len(gains), -np.inf)

    @property
    def spread(self) -> float:
        """The members' standard deviation, pooled over all sets tried: it barely depends on the flips, and one set
        gives a poor estimate."""
        known = [g for g in self.gains.values() if len(g) > 1 and np.isfinite(g).all()]
        return float(np.sqrt(np.mean([g.var(ddof=1) for g in known]))) if known else 0.0

    def mean(self, flips: FlipSet) -> float:
        return float(self.gains[flips].mean())

    def clearance_of(self, flips: FlipSet) -> float:
        """The mean gain in standard deviations of the members."""
        mean = self.mean(flips)
        return mean / self.spread if self.spread > 0 else float(np.sign(mean)) * np.inf

    @property
    def in_reach(self) -> bool:
        """Whether the whole cap was tried and came near the other decision."""
        return self.full_set in self.gains and self.clearance_of(self.full_set) > -FAR

    def claim(self, margin: float, members: int) -> FlipSet | None:
        """The set to report: the smallest that keeps the margin, or the nearest to it that changes the ensemble's
        decision."""

        def preference(flips: FlipSet) -> tuple[bool, float, float]:
            clear = self.clearance_of(flips)
            return (False, len(flips), -self.mean(flips)) if clear >= margin else (True, -clear, len(flips))

        working = [f for f, gains in self.gains.items() if f and len(gains) == members and gains.mean() > 0]
        return min((flips for flips in working if flips not in self.rejected), key=preference, default=None)

    def fill_in_results(self) -> None:
        """Fill in the fields that verdicts read."""
        tried = {flips: gains for flips, gains in self.gains.items() if flips}
        self.spent = len(tried)
        self.course = [
            (len(flips), float(gains.mean()) * self.away) for flips, gains in tried.items() if np.isfinite(gains).all()
        ]
        for _, logit in self.course:
            self.record_closest(logit)
        if self.found:
            self.clearance = self.clearance_of(self.found)
            self.first_size = min(self.cap, len(self.order))


class PrefixSearch:
    """Runs the searches of one task; the sets of all people in one step are trained in one call."""

    def __init__(self, task: Task, psi: Allowed, strategy: SolidSearch) -> None:
        self.task, self.trainer, self.progress, self.psi = task, task.trainer, task.trainer.progress, psi
        self.strategy, self.margin = strategy, strategy.margin
        self._cut_short = False
        """Whether sets were skipped because retrainings are limited."""

    def run(self, searches: Sequence[PersonPrefixes]) -> None:
        self.task.run(
            lambda: self._explore(searches),
            lambda hurried: self._confirm_all(searches, hurried),
            lambda: self._leave_open(searches),
        )
        for search in searches:
            search.fill_in_results()

    def _explore(self, searches: Sequence[PersonPrefixes]) -> None:
        near = self.open(searches)
        self._bisect([search for search in near if search.best])
        if self.task.rank.scores_after_flips and self.strategy.ranks_again(self.task.budget):
            self._rank_again(near)
        for search in searches:
            search.complete = not self._cut_short

    def open(self, searches: Sequence[PersonPrefixes]) -> list[PersonPrefixes]:
        """Try everyone's full set; returns the searches that come near the other decision."""
        asked = near = [search for search in searches if len(search.order)]
        self._try([(search, ()) for search in asked])
        if self.trainer.members > 2 * SCREEN:
            self._try([(search, search.full_set) for search in asked], SCREEN)
            near = [search for search in asked if search.in_reach]
            self.trainer.release({s.full_set for s in asked} - {s.full_set for s in near}, keep=())
        self._try([(search, search.full_set) for search in near])
        for search in near:
            self._accept(search, search.full_set)
        self._report(searches)
        return [search for search in near if search.in_reach]

    def _accept(self, search: PersonPrefixes, flips: FlipSet) -> None:
        """Keep a set that keeps the margin if it is smaller than the best so far."""
        if len(search.gains.get(flips, ())) < self.trainer.members:
            return
        smaller = search.best is None or len(flips) < len(search.best)
        if smaller and search.mean(flips) > 0 and search.clearance_of(flips) >= self.margin:
            search.best = flips

    def _bisect(self, searches: Sequence[PersonPrefixes]) -> None:
        """Find the shortest prefix of each order that keeps the margin; several at a time if the engine has room."""
        going = list(searches)
        for search in going:
            search.steps = search.open_sizes.bit_length()
        while going and not self._cut_short:
            room = max(1, self.trainer.width // len(going))
            asked = [(search, search.prefix(size)) for search in going for size in self._next_sizes(search, room)]
            self._try(asked)
            for search, flips in sorted(asked, key=lambda pair: len(pair[1])):
                before = search.best
                self._accept(search, flips)
                if search.best is before and (before is None or len(flips) < len(before)):
                    search.longest_failure = max(search.longest_failure, len(flips))
            for search in going:
                search.steps -= 1
            going = [search for search in going if search.open_sizes]
            self._report(searches)

    def _next_sizes(self, search: PersonPrefixes, room: int) -> list[int]:
        """The next sizes to try."""
        open_ = search.open_sizes
        if open_ < 1:
            return []
        if room == 1 and open_ >= LEAST_TO_GUESS:
            return [self._guess(search)]
        parts = min(room, open_) + 1
        return sorted({search.longest_failure + max(1, round(k * (open_ + 1) / parts)) for k in range(1, parts)})

    def _guess(self, search: PersonPrefixes) -> int:
        """The size at which the clearance reaches the margin by linear interpolation, moved a little towards the middle
        so that both ends come nearer, and close enough to it to need no more steps than bisection."""
        open_, high = search.open_sizes, search.longest_failure + search.open_sizes + 1
        place = middle = search.longest_failure + (open_ + 1) / 2
        shortest = search.prefix(search.longest_failure)
        if search.best is not None and shortest in search.gains:
            low, top = search.clearance_of(shortest), search.clearance_of(search.best)
            if np.isfinite([low, top]).all() and low < self.margin < top:
                place = search.longest_failure + (high - search.longest_failure) * (self.margin - low) / (top - low)
        place += np.sign(middle - place) * min(abs(middle - place), TOWARDS_MIDDLE * open_)
        reach = 2 ** (search.steps - 1) - 1
        low_end, high_end = (
            max(search.longest_failure + 1, high - 1 - reach),
            min(high - 1, search.longest_failure + 1 + reach),
        )
        return int(np.clip(round(place), low_end, high_end))

    def _rank_again(self, near: Sequence[PersonPrefixes]) -> None:
        """Keep the better half of each set, rank the other rows after these flips, and search sizes again."""
        again = [search for search in near if search.cap >= 2 and (search.best is None or len(search.best) > 1)]
        if not again or self._cut_short:
            return
        kept = [search.order[: max(1, len(search.best or search.full_set) // 2)] for search in again]
        people, situation = [search.person for search in again], self.task.situation
        asked, flips = situation.people.iloc[people], [flip_set(rows) for rows in kept]
        scores = self.task.rank.score_at(situation.model, situation.table, asked, flips)
        allowed = self.psi.of_people(people).whole()
        for search, rows, score, mask in zip(again, kept, scores, allowed, strict=True):
            others = np.setdiff1d(np.flatnonzero(mask & np.isfinite(score)), rows)
            best_first = others[np.argsort(-score[others], kind="stable")]
            search.order, search.longest_failure = np.concatenate([rows, best_first])[: REACH * search.cap], 0
        self._sizes_again(again)

    def _sizes_again(self, searches: Sequence[PersonPrefixes]) -> None:
        """With new orders: the full set of searches without one that keeps the margin, then sizes."""
        short = [search for search in searches if search.best is None]
        self._try([(search, search.full_set) for search in short])
        for search in short:
            self._accept(search, search.full_set)
        self._bisect([search for search in searches if search.best])

    def _try(self, asked: Sequence[tuple[PersonPrefixes, FlipSet]], members: int | None = None) -> None:
        """Train the sets, as many as the limit on retrainings allows, and pass the answers on."""
        enough = members or self.trainer.members
        asked = [(search, flips) for search, flips in asked if len(search.gains.get(flips, ())) < enough]
        wanted = list(dict.fromkeys(flips for _, flips in asked if not self.trainer.holds(flips)))
        room = self.trainer.room(enough)
        if room < len(wanted):
            self._cut_short, wanted = True, wanted[: int(room)]
        whose: dict[FlipSet, list[PersonPrefixes]] = {}
        for search, flips in asked:
            whose.setdefault(flips, []).append(search)
        self._observe({flips: searches for flips, searches in whose.items() if self.trainer.holds(flips)})
        size = max(SLICE, self.trainer.width)
        for first in range(0, len(wanted), size):  # finished slices count after a stop
            self.trainer.fit(wanted[first : first + size], members)
            self._observe({flips: whose[flips] for flips in wanted[first : first + size]})

    def _observe(self, whose: Mapping[FlipSet, Sequence[PersonPrefixes]]) -> None:
        """Pass each person the members' answers; answers about all people are kept only of sets that may be
        reported."""
        for flips, searches in whose.items():
            answers = self.trainer.member_logits(flips)
            for search in searches:
                search.observe(flips, answers[:, search.person])
        whole = [flips for flips in whose if flips and self.trainer.holds(flips)]
        working = {flips for flips in whole if any(search.mean(flips) > 0 for search in whose[flips])}
        self.trainer.release(whole, keep=working)

    def _confirm_all(self, searches: Sequence[PersonPrefixes], hurried: bool) -> None:
        size = 1 if hurried else max(4, self.trainer.n_jobs, self.trainer.width)
        claiming = [search for search in searches if self._claim(search) is not None]
        self.progress.phase(CONFIRMATION, len(claiming) * self.trainer.members)
        if not hurried:
            self.trainer.expect_confirmations(len(claiming))
        for first in range(0, len(claiming), size):  # finished groups count after Ctrl-C
            self._confirm(claiming[first : first + size])

    def _confirm(self, searches: Sequence[PersonPrefixes]) -> None:
        """Confirm the sets; a search whose set fails claims the next best one."""
        going = list(searches)
        for _ in range(CLAIMS):
            claims = [(search, claim) for search in going if (claim := self._claim(search)) is not None]
            self.trainer.confirm([flips for _, flips in claims])
            going = []
            for search, flips in claims:
                logit = float(self.trainer.confirmed_logits(flips)[search.person])
                if search.changes_decision(logit):
                    search.found, search.found_logit = flips, logit
                else:
                    search.rejected.add(flips)
                    going.append(search)
        for search in going:
            search.complete &= self._claim(search) is None

    def _claim(self, search: PersonPrefixes) -> FlipSet | None:
        return search.claim(self.margin, self.trainer.members)

    def _leave_open(self, searches: Sequence[PersonPrefixes]) -> int:
        """Mark searches with an unconfirmed set as incomplete; returns their number."""
        left = [search for search in searches if search.found is None and self._claim(search) is not None]
        for search in left:
            search.complete = False
        return len(left)

    def _report(self, searches: Sequence[PersonPrefixes]) -> None:
        self.progress.found(sum(self._claim(search) is not None for search in searches))
