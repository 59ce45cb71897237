"""The hunt for solid sets, as `butfor.search.solid` describes it: everybody's sets of a step in one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from butfor.progress import Watcher
from butfor.seam import FlipSet
from butfor.search import measured
from butfor.search.grace import grace_after, tell_unconfirmed
from butfor.search.joint import Pursuit
from butfor.search.measured import Effects
from butfor.search.plans import Listed, flip_set
from butfor.search.solid import CLAIMS, MARGIN, SCREEN, left_at_most
from butfor.search.trainer import Trainer

FAR = 1.5
"""Standard deviations short of turning at which a first look is the last."""
LEAST_TO_GUESS = 16
"""Sizes left from which on a guess tells more than halving them."""
TOWARDS_MIDDLE = 0.05
"""Of the sizes left, by how many a guess is taken nearer to their middle."""
MOST_ANSWERS = 2**26
"""Answers about people that are held at a time while effects are measured."""
SLICE = 16
"""Sets, or engine widths where those are larger, trained between two looks at the clock."""

Second = Callable[[Sequence[int], Sequence[FlipSet]], NDArray[np.float64]]
"""People and a flip set each → scores of all rows once those flips are made, `[people × rows]`."""


@dataclass(eq=False)
class Hunt:
    """One person's search. `order`: rows that may be flipped, best first; `out`: which way the logit must go."""

    person: int
    order: NDArray[np.int64]
    out: float
    cap: int
    gains: dict[FlipSet, NDArray[np.float64]] = field(default_factory=dict)
    """Per set tried, the members' logits counted towards the other decision, `[members]`."""
    fails: int = 0
    """The longest prefix of the present order that is known not to keep the margin."""
    best: FlipSet | None = None
    """The smallest set that keeps the margin."""
    steps: int = 0
    """In which the sizes between the two are to be told apart."""
    rejected: set[FlipSet] = field(default_factory=set)
    found: FlipSet | None = None
    found_logit: float | None = None
    complete: bool = False
    failed: int = 0

    @property
    def open_sizes(self) -> int:
        """Sizes between the longest prefix that fails and the shortest set that does not."""
        return max(0, (len(self.best) if self.best else self.cap + 1) - self.fails - 1)

    def prefix(self, size: int) -> FlipSet:
        return flip_set(self.order[:size])

    def saw(self, flips: FlipSet, logits: NDArray[np.floating]) -> None:
        gains = np.asarray(logits, np.float64) * self.out
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

    def clearance(self, flips: FlipSet) -> float:
        """The mean gain in standard deviations of the members."""
        mean = self.mean(flips)
        return mean / self.spread if self.spread > 0 else float(np.sign(mean)) * np.inf

    def candidates(self, margin: float, whole_members: int) -> list[FlipSet]:
        """Sets to report, the one to prefer first: the smallest that keeps the margin; else what comes nearest to it of
        those that turn the ensemble."""
        tried = [
            f
            for f, g in self.gains.items()
            if f and len(g) == whole_members and g.mean() > 0 and f not in self.rejected
        ]
        keeping = [f for f in tried if self.clearance(f) >= margin]
        short = [f for f in tried if f not in keeping]
        return [
            *sorted(keeping, key=lambda f: (len(f), -self.mean(f))),
            *sorted(short, key=lambda f: (-self.clearance(f), len(f))),
        ]

    def pursuit(self) -> Pursuit:
        """The search as verdicts read it."""
        done = Pursuit(self.person, Listed(iter(())), self.out)
        means = [(len(f), float(g.mean()) * self.out) for f, g in self.gains.items() if f and np.isfinite(g).all()]
        done.course, done.spent, done.failed = means, sum(bool(f) for f in self.gains), self.failed
        done.closest = max((logit for _, logit in means), key=lambda logit: logit * self.out, default=None)
        done.found, done.found_logit, done.complete = self.found, self.found_logit, self.complete
        done.clearance = self.clearance(self.found) if self.found else None
        done.first_size = min(self.cap, len(self.order)) if self.found else 0
        return done


class SizeSearch:
    """Runs hunts to their ends, all people's sets of a step in one call. `second` ranks again, where the model can."""

    def __init__(
        self,
        trainer: Trainer,
        margin: float = MARGIN,
        *,
        second: Second | None = None,
        measures: bool = False,
        max_retrainings: int | None = None,
        watch: Watcher | None = None,
    ) -> None:
        self.trainer, self.margin, self.second, self.measures = trainer, margin, second, measures
        self.max_retrainings, self.watch = max_retrainings, watch or Watcher()
        self.interrupted = False
        self._cut_short = False
        """Whether sets were left out because retrainings are limited."""

    def run(self, hunts: Sequence[Hunt]) -> None:
        """Search, then confirm. Ctrl-C ends the search; of what was found until then is confirmed what a moment
        suffices for."""
        stopped: KeyboardInterrupt | None = None
        try:
            near = self.open(hunts)
            self._narrow(near)
            self._bisect([hunt for hunt in near if hunt.best])
            if self.second is not None and near:
                self._look_again(near)
            if self.measures:
                self._measure_effects(near)
            for hunt in hunts:
                hunt.complete = not self._cut_short
        except KeyboardInterrupt as stop:
            self.interrupted, stopped = True, stop
        try:
            with grace_after(stopped, self.watch) as (watch, brief):
                size = 1 if brief else max(4, self.trainer.jobs, self.trainer.width)
                claiming = [hunt for hunt in hunts if self._claim(hunt) is not None]
                self.watch.phase("confirmation")
                possible = [len(hunt.candidates(self.margin, self.trainer.members)) for hunt in claiming]
                self.watch.left(sum(min(CLAIMS, sets) for sets in possible) * self.trainer.members)
                if not brief:
                    self.trainer.expect_confirmations(len(claiming))
                for first in range(0, len(claiming), size):  # what is confirmed before Ctrl-C counts
                    self._confirm(claiming[first : first + size], watch)
        except KeyboardInterrupt:  # what nobody has confirmed is not reported
            self.interrupted = True
            left = [hunt for hunt in hunts if hunt.found is None and self._claim(hunt) is not None]
            for hunt in left:
                hunt.complete = False
            tell_unconfirmed(self.watch, len(left))

    def open(self, hunts: Sequence[Hunt]) -> list[Hunt]:
        """The whole cap of everyone; returns those who come near the other decision."""
        members = self.trainer.members
        asked = [hunt for hunt in hunts if len(hunt.order)]
        self._try([(hunt, ()) for hunt in asked])
        near = asked
        if members > 2 * SCREEN:
            self._try([(hunt, hunt.prefix(hunt.cap)) for hunt in asked], SCREEN)
            near = [hunt for hunt in asked if self._in_reach(hunt, hunt.prefix(hunt.cap))]
            self.trainer.release({hunt.prefix(hunt.cap) for hunt in asked} - {h.prefix(h.cap) for h in near}, keep=())
        self._try([(hunt, hunt.prefix(hunt.cap)) for hunt in near])
        for hunt in near:
            self._settle(hunt, hunt.prefix(hunt.cap))
        self._report(hunts)
        return [hunt for hunt in near if self._in_reach(hunt, hunt.prefix(hunt.cap))]

    def _narrow(self, near: Sequence[Hunt]) -> None:
        """Say what is left at the most, now that it is known who comes near."""
        caps = [hunt.cap for hunt in near]
        left = left_at_most(caps, self.trainer.width, self.second is not None, self.measures)
        if self.max_retrainings is not None:
            left = min(left, max(0, self.max_retrainings - self.trainer.trained) // self.trainer.members)
        self.watch.left(left * self.trainer.members)

    def first_sizes(self, hunts: Sequence[Hunt]) -> None:
        """How many labels it takes by the first ranking alone, in `best`; nothing is looked for again or confirmed."""
        self._bisect([hunt for hunt in self.open(hunts) if hunt.best])

    def _in_reach(self, hunt: Hunt, flips: FlipSet) -> bool:
        return flips in hunt.gains and hunt.clearance(flips) > -FAR

    def _settle(self, hunt: Hunt, flips: FlipSet) -> None:
        """Take a set that keeps the margin, if it is smaller than what there is."""
        if flips not in hunt.gains or len(hunt.gains[flips]) < self.trainer.members:
            return
        if (
            hunt.mean(flips) > 0
            and hunt.clearance(flips) >= self.margin
            and (hunt.best is None or len(flips) < len(hunt.best))
        ):
            hunt.best = flips

    def _bisect(self, hunts: Sequence[Hunt]) -> None:
        """The shortest prefix of each order that keeps the margin; several at a time where the engine has room."""
        going = list(hunts)
        for hunt in going:
            hunt.steps = hunt.open_sizes.bit_length()
        while going and not self._cut_short:
            room = max(1, self.trainer.width // len(going))
            asked = [(hunt, hunt.prefix(size)) for hunt in going for size in self._between(hunt, room)]
            self._try(asked)
            for hunt, flips in sorted(asked, key=lambda pair: len(pair[1])):
                before = hunt.best
                self._settle(hunt, flips)
                if hunt.best is before:
                    hunt.fails = max(hunt.fails, len(flips)) if self._below_best(hunt, flips) else hunt.fails
            for hunt in going:
                hunt.steps -= 1
            going = [hunt for hunt in going if hunt.open_sizes]
            self._report(hunts)

    @staticmethod
    def _below_best(hunt: Hunt, flips: FlipSet) -> bool:
        return hunt.best is None or len(flips) < len(hunt.best)

    def _between(self, hunt: Hunt, room: int) -> list[int]:
        """Sizes between the longest that fails and the shortest that does not."""
        open_ = hunt.open_sizes
        if open_ < 1:
            return []
        if room == 1 and open_ >= LEAST_TO_GUESS:
            return [self._guess(hunt)]
        parts = min(room, open_) + 1
        return sorted({hunt.fails + max(1, round(k * (open_ + 1) / parts)) for k in range(1, parts)})

    def _guess(self, hunt: Hunt) -> int:
        """The size at which the clearance reaches the margin if it grows evenly, taken a little towards the middle: so
        both ends come nearer. And never so far from the middle that more steps would be needed than by halving."""
        open_, high = hunt.open_sizes, hunt.fails + hunt.open_sizes + 1
        middle = hunt.fails + (open_ + 1) / 2
        place = middle
        shortest = hunt.prefix(hunt.fails)
        if hunt.best is not None and shortest in hunt.gains:
            low, top = hunt.clearance(shortest), hunt.clearance(hunt.best)
            if np.isfinite([low, top]).all() and low < self.margin < top:
                place = hunt.fails + (high - hunt.fails) * (self.margin - low) / (top - low)
        place += np.sign(middle - place) * min(abs(middle - place), TOWARDS_MIDDLE * open_)
        reach = 2 ** (hunt.steps - 1) - 1
        return int(np.clip(round(place), max(hunt.fails + 1, high - 1 - reach), min(high - 1, hunt.fails + 1 + reach)))

    def _look_again(self, near: Sequence[Hunt]) -> None:
        """Keep the better half of each set, rank the others anew with those flips made, and look for sizes again."""
        assert self.second is not None
        again = [hunt for hunt in near if hunt.cap >= 2 and (hunt.best is None or len(hunt.best) > 1)]
        if not again or self._cut_short:
            return
        halves = [max(1, (len(hunt.best) if hunt.best else hunt.cap) // 2) for hunt in again]
        kept = [hunt.order[:half] for hunt, half in zip(again, halves, strict=True)]
        scores = self.second([hunt.person for hunt in again], [flip_set(rows) for rows in kept])
        for hunt, rows, score in zip(again, kept, scores, strict=True):
            others = np.setdiff1d(np.flatnonzero(np.isfinite(score)), rows)
            best_first = others[np.argsort(-score[others], kind="stable")]
            hunt.order, hunt.fails = np.concatenate([rows, best_first])[: measured.REACH * hunt.cap], 0
        self._sizes_again(again)

    def _measure_effects(self, near: Sequence[Hunt]) -> None:
        """Rank each person's candidates by what they bring among each other, and look for sizes again."""
        trainer = self.trainer
        again = [
            hunt for hunt in near
            if measured.LEAST <= hunt.cap < len(hunt.order) and (hunt.best is None or len(hunt.best) > 1)
        ]  # fmt: skip
        if self.max_retrainings is not None:
            room = max(0, self.max_retrainings - trainer.trained) // (measured.SETS * trainer.members)
            self._cut_short |= room < len(again)
            again = again[:room]
        effects = [Effects(hunt.order[: measured.REACH * hunt.cap], hunt.cap) for hunt in again]
        each = measured.SETS_A_ROUND * trainer.members
        at_once = max(1, MOST_ANSWERS // (each * len(trainer.people)))
        for round_ in range(measured.ROUNDS):
            seeds = measured.seeds_of_round(trainer.single, trainer.members, round_)
            for first in range(0, len(again), at_once):
                some = slice(first, first + at_once)
                answers = trainer.glance([t for one in effects[some] for t in one.trainings(seeds)], self.watch)
                gains = answers.reshape(-1, each, len(trainer.people))
                for hunt, one, gain in zip(again[some], effects[some], gains, strict=True):
                    one.learn(gain[:, hunt.person] * hunt.out)
        for hunt, one in zip(again, effects, strict=True):
            hunt.order, hunt.fails = one.best_first, 0
        self._sizes_again(again)

    def _sizes_again(self, hunts: Sequence[Hunt]) -> None:
        """With new orders: the whole cap of those who had no set that keeps the margin, then sizes."""
        short = [hunt for hunt in hunts if hunt.best is None]
        self._try([(hunt, hunt.prefix(hunt.cap)) for hunt in short])
        for hunt in short:
            self._settle(hunt, hunt.prefix(hunt.cap))
        self._bisect([hunt for hunt in hunts if hunt.best])

    # --- training -----------------------------------------------------------------------------------

    def _try(self, asked: Sequence[tuple[Hunt, FlipSet]], members: int | None = None) -> None:
        """Train the sets and tell whose they are; where retrainings are limited, as many as there is room for."""
        enough = members or self.trainer.members
        asked = [(hunt, flips) for hunt, flips in asked if len(hunt.gains.get(flips, ())) < enough]
        wanted = list(dict.fromkeys(flips for _, flips in asked if not self.trainer.holds(flips)))
        if self.max_retrainings is not None:
            room = max(0, self.max_retrainings - self.trainer.trained) // enough
            self._cut_short |= room < len(wanted)
            wanted = wanted[:room]
        whose: dict[FlipSet, list[Hunt]] = {}
        for hunt, flips in asked:
            whose.setdefault(flips, []).append(hunt)
        self._tell({flips: hunts for flips, hunts in whose.items() if self.trainer.holds(flips)})
        size = max(SLICE, self.trainer.width)
        for first in range(0, len(wanted), size):  # what was trained before a stop counts
            self.trainer.fit(wanted[first : first + size], self.watch, members)
            self._tell({flips: whose[flips] for flips in wanted[first : first + size]})

    def _tell(self, whose: Mapping[FlipSet, Sequence[Hunt]]) -> None:
        """Hand everyone the members' answers about them; nobody else's are kept, but of sets that may be reported."""
        for flips, hunts in whose.items():
            answers = self.trainer.member_logits(flips)
            for hunt in hunts:
                hunt.saw(flips, answers[:, hunt.person])
        whole = [flips for flips in whose if flips and self.trainer.holds(flips)]
        turning = {flips for flips in whole if any(hunt.mean(flips) > 0 for hunt in whose[flips])}
        self.trainer.release(whole, keep=turning)

    def _confirm(self, hunts: Sequence[Hunt], watch: Watcher) -> None:
        """The definition has the last word; whose set it does not turn gets the next best one."""
        going = list(hunts)
        for _ in range(CLAIMS):
            claims = [(hunt, claim) for hunt in going if (claim := self._claim(hunt)) is not None]
            self.trainer.confirm([flips for _, flips in claims], watch)
            going = []
            for hunt, flips in claims:
                logit = float(self.trainer.confirmed_logits(flips)[hunt.person])
                if logit * hunt.out > 0 or (logit == 0 and hunt.out < 0):
                    hunt.found, hunt.found_logit = flips, logit
                else:
                    hunt.rejected.add(flips)
                    going.append(hunt)
        for hunt in going:
            hunt.complete &= self._claim(hunt) is None

    def _claim(self, hunt: Hunt) -> FlipSet | None:
        return next(iter(hunt.candidates(self.margin, self.trainer.members)), None)

    def _report(self, hunts: Sequence[Hunt]) -> None:
        turned = sum(bool(hunt.candidates(self.margin, self.trainer.members)) for hunt in hunts)
        self.watch.people(sum(hunt.best is not None for hunt in hunts), turned)
