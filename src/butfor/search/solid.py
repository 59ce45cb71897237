"""The search for labels that turn a decision whatever the seed, and for how few of them do.

It asks an ensemble, and it asks all members together: a set counts where the mean gain of the members exceeds `margin`
times their spread, so that nearly every other seed would decide so too. Averaged over seeds, a ranking's first set is
nearly as good as anything a long search finds; so each person gets a few sets, not hundreds:

    opening    the top of the ranking, as many labels as the cap allows: a few members first, all where it comes near
    sizes      bisection for the shortest prefix that keeps the margin
    second     the ranking again at the person's own half-flipped labels, where the model has a gradient; sizes again

Whoever does not reach the margin keeps the set that comes nearest, if it turns the ensemble at all; fresh seeds, which
have no part in this, decide what it is worth. Every set that is reported was trained by the definition.
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
"""Standard deviations of the members by which their mean gain must exceed 0."""
REACH = 3
"""Rows ranked for a person, as a multiple of the labels that may be flipped."""
SCREEN = 4
"""Members that take the first look."""
CLAIMS = 3
"""Sets of one person that are put to the definition. It hardly ever refuses one of many members."""
LEAST_FOR_SECOND = 8
"""Labels of a cap from which on half of them say anything new about the rest."""
FAR = 1.5
"""Standard deviations short of turning at which a first look is the last."""
LEAST_TO_GUESS = 16
"""Sizes left from which on a guess tells more than halving them."""
TOWARDS_MIDDLE = 0.05
"""Of the sizes left, by how many a guess is taken nearer to their middle."""
SLICE = 16
"""Sets, or engine widths where those are larger, trained between two looks at the clock."""
NEAR = 0.4
"""The share of people who usually come near the other decision, for estimates of how long it takes."""


class SolidSearch(Strategy):
    """Sets that turn nearly all members of an ensemble, and the smallest of them. `second`: rank again at half-flipped
    labels; None where the cap is large enough for it to pay."""

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
                "strategy 'solid' asks the members of an ensemble, and this is an audit of a single model; use "
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
    """One person's search among prefixes of `order`, the rows that may be flipped, best first."""

    order: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    cap: int = 0
    gains: dict[FlipSet, NDArray[np.float64]] = field(default_factory=dict)
    """Per set tried, the members' logits counted towards the other decision, `[members]`."""
    longest_failure: int = 0
    """The longest prefix of the present order that is known not to keep the margin."""
    best: FlipSet | None = None
    """The smallest set that keeps the margin."""
    steps: int = 0
    """In which the sizes between the two are to be told apart."""

    @property
    def open_sizes(self) -> int:
        """Sizes between the longest prefix that fails and the shortest set that does not."""
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
        """The members' standard deviation, from all sets tried: it hardly changes with the flips, and one set alone
        would tell it poorly."""
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
        """The set to report: the smallest that keeps the margin; else, of those that turn the ensemble, what comes
        nearest to it."""

        def preference(flips: FlipSet) -> tuple[bool, float, float]:
            clear = self.clearance_of(flips)
            return (False, len(flips), -self.mean(flips)) if clear >= margin else (True, -clear, len(flips))

        turning = [f for f, gains in self.gains.items() if f and len(gains) == members and gains.mean() > 0]
        return min((flips for flips in turning if flips not in self.rejected), key=preference, default=None)

    def fill_in_results(self) -> None:
        """Fill in what verdicts read."""
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
    """Runs the searches of one task to their ends, all people's sets of a step in one call."""

    def __init__(self, task: Task, psi: Allowed, strategy: SolidSearch) -> None:
        self.task, self.trainer, self.progress, self.psi = task, task.trainer, task.trainer.progress, psi
        self.strategy, self.margin = strategy, strategy.margin
        self._cut_short = False
        """Whether sets were left out because retrainings are limited."""

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
        """The whole cap of everyone; returns those who come near the other decision."""
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
        """Take a set that keeps the margin, if it is smaller than what there is."""
        if len(search.gains.get(flips, ())) < self.trainer.members:
            return
        smaller = search.best is None or len(flips) < len(search.best)
        if smaller and search.mean(flips) > 0 and search.clearance_of(flips) >= self.margin:
            search.best = flips

    def _bisect(self, searches: Sequence[PersonPrefixes]) -> None:
        """The shortest prefix of each order that keeps the margin; several at a time where the engine has room."""
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
        """Sizes between the longest that fails and the shortest that does not."""
        open_ = search.open_sizes
        if open_ < 1:
            return []
        if room == 1 and open_ >= LEAST_TO_GUESS:
            return [self._guess(search)]
        parts = min(room, open_) + 1
        return sorted({search.longest_failure + max(1, round(k * (open_ + 1) / parts)) for k in range(1, parts)})

    def _guess(self, search: PersonPrefixes) -> int:
        """The size at which the clearance reaches the margin if it grows evenly, taken a little towards the middle: so
        both ends come nearer. And never so far from the middle that more steps would be needed than by halving."""
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
        """Keep the better half of each set, rank the others anew with those flips made, and look for sizes again."""
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
        """With new orders: the whole cap of those who had no set that keeps the margin, then sizes."""
        short = [search for search in searches if search.best is None]
        self._try([(search, search.full_set) for search in short])
        for search in short:
            self._accept(search, search.full_set)
        self._bisect([search for search in searches if search.best])

    def _try(self, asked: Sequence[tuple[PersonPrefixes, FlipSet]], members: int | None = None) -> None:
        """Train the sets and tell whose they are; where retrainings are limited, as many as there is room for."""
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
        for first in range(0, len(wanted), size):  # what was trained before a stop counts
            self.trainer.fit(wanted[first : first + size], members)
            self._observe({flips: whose[flips] for flips in wanted[first : first + size]})

    def _observe(self, whose: Mapping[FlipSet, Sequence[PersonPrefixes]]) -> None:
        """Hand everyone the members' answers about them; nobody else's are kept, but of sets that may be reported."""
        for flips, searches in whose.items():
            answers = self.trainer.member_logits(flips)
            for search in searches:
                search.observe(flips, answers[:, search.person])
        whole = [flips for flips in whose if flips and self.trainer.holds(flips)]
        turning = {flips for flips in whole if any(search.mean(flips) > 0 for search in whose[flips])}
        self.trainer.release(whole, keep=turning)

    def _confirm_all(self, searches: Sequence[PersonPrefixes], hurried: bool) -> None:
        size = 1 if hurried else max(4, self.trainer.n_jobs, self.trainer.width)
        claiming = [search for search in searches if self._claim(search) is not None]
        self.progress.phase(CONFIRMATION, len(claiming) * self.trainer.members)
        if not hurried:
            self.trainer.expect_confirmations(len(claiming))
        for first in range(0, len(claiming), size):  # what is confirmed before Ctrl-C counts
            self._confirm(claiming[first : first + size])

    def _confirm(self, searches: Sequence[PersonPrefixes]) -> None:
        """The definition has the last word; whose set it does not turn gets the next best one."""
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
        """How many have a set that nobody has confirmed: their searches are incomplete."""
        left = [search for search in searches if search.found is None and self._claim(search) is not None]
        for search in left:
            search.complete = False
        return len(left)

    def _report(self, searches: Sequence[PersonPrefixes]) -> None:
        self.progress.found(sum(self._claim(search) is not None for search in searches))
