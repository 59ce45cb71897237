"""Flips many labels together, retrains, and reports whose decisions change; for reviews and for closing a gap."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError, TableError, listed
from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import FlipSet, Floats, Training
from butfor.progress import Progress
from butfor.result.fresh import FreshSeeds
from butfor.result.labels import ChangedDecision, ClosedGap
from butfor.result.population import SMALL_GROUP
from butfor.result.record import plain
from butfor.run.fitted import Fitted
from butfor.run.fresh_seeds import changes_decision
from butfor.situation import Situation
from butfor.standard.groups import Standards
from butfor.stopping import Stop
from butfor.train import Trainer

BY = ("selection", "true positive")
"""Rates of favourable decisions: among all people, or among those with a favourable label."""
DOUBTED = 0.5
"""Doubt above which a label may be flipped to close a gap."""


@dataclass(frozen=True, eq=False)
class FlipTrial:
    """Tries flip sets on people. `favourable` is the better decision; `truth` are their recorded labels by number, if
    known."""

    everyone: Situation
    truth: NDArray[np.int64] | None
    trainer: Trainer
    seeds: Sequence[int]
    seeded: bool
    favourable: int
    _fresh: dict[FlipSet, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, fitted: Fitted, everyone: Situation, truth: NDArray[np.int64] | None, trainer: Trainer) -> FlipTrial:
        return cls(everyone, truth, trainer, fitted.seeds, fitted.seeded, fitted.favourable)

    @classmethod
    def about(
        cls,
        fitted: Fitted,
        X: Any,
        y: Any,
        sensitive_features: Any,
        progress: Progress,
        new_labels: dict[int, int] | None = None,
    ) -> FlipTrial:
        """On the people X. With more than two labels, `new_labels` gives the label after a flip, by position."""
        everyone, truth = fitted.people(X, y, sensitive_features)
        table, split = fitted.table, fitted.table.decision_split
        if new_labels and split is not None:
            new = split.new.copy()
            new[list(new_labels)] = list(new_labels.values())
            table = table.with_split(replace(split, new=new))
        engine, n_jobs = fitted.chosen_engine(progress), fitted.settings.n_jobs
        trainer = Trainer(engine, fitted.learner, table, everyone.people, n_jobs=n_jobs, progress=progress)
        return cls.of(fitted, everyone, truth, trainer)

    def flip(self, flips: FlipSet) -> dict[str, Any]:
        """The fields of a `FlipOutcome`."""
        after = self.confirmed(flips)
        truth, before = self.truth, self.everyone.logits
        return {
            "flips": flips,
            "labels": self.everyone.table.n,
            "changed": self._changed(after, self.fresh(flips)),
            "rates": {group: (self.rate(before, ours), self.rate(after, ours)) for group, ours in self.groups.items()},
            "accuracy": None
            if truth is None
            else (
                float((self.everyone.decisions == truth).mean()),
                float((self.trainer.confirmed_decisions(flips) == truth).mean()),
            ),
            "seeded": self.seeded,
        }

    def confirmed(self, flips: FlipSet) -> Floats:
        self.trainer.confirm([flips])
        return self.trainer.confirmed_logits(flips)

    def fresh(self, flips: FlipSet) -> Floats | None:
        """Logits of single models under fresh seeds, `[seeds × people]`; each is trained once."""
        if self.seeds and flips not in self._fresh:
            self._fresh[flips] = self.trainer.seed_logits([Training(flips, seed) for seed in self.seeds])
        return self._fresh.get(flips)

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        named = self.everyone.groups.astype(str)
        return {group: named == group for group in sorted(set(named))}

    def rate(self, logits: Floats, people: NDArray[np.bool_]) -> float:
        """The share of favourable decisions about these people."""
        return float((decides_one(logits[people]) == bool(self.favourable)).mean()) if people.any() else float("nan")

    def _changed(self, after: Floats, fresh: Floats | None) -> tuple[ChangedDecision, ...]:
        everyone, found = self.everyone, []
        turned = np.isfinite(after) & (decides_one(after) != decides_one(everyone.logits))
        for k in map(int, np.flatnonzero(turned)):
            seeds = None
            if fresh is not None and (base := self.fresh(())) is not None:
                decision = int(everyone.predictions[k])
                without, with_ = (changes_decision(logits[:, k], decision) for logits in (base, fresh))
                seeds = FreshSeeds.of(without, with_)
            row, group = plain(everyone.people.index[k]), plain(everyone.groups[k])
            found.append(ChangedDecision(k, row, group, float(everyone.logits[k]), float(after[k]), seeds))
        return tuple(found)


def close_gap(
    order: NDArray[np.int64],
    standards: Standards,
    tried: FlipTrial,
    by: str = BY[0],
    groups: Sequence[Any] | None = None,
    within: float = 0.01,
    stop: Stop | None = None,
) -> ClosedGap:
    """The shortest prefix of the doubted labels of the group with the lower rate, in their `order`, that brings its
    rate within `within` of the other's, or beyond. Found by bisection, since more flips raise the rate further."""
    if isinstance(within, bool) or not isinstance(within, (int, float)) or not 0 <= within < 1:
        raise SettingError(f"within={within!r} must be a share from 0 up to 1, such as 0.01 for one point.")
    if stop is not None and stop.seconds is not None:
        tried.trainer.flag.set_deadline(time.monotonic() + stop.seconds)
    counted = _counted(tried, by)
    low, high = _two(tried, counted, groups)
    doubted = [int(at) for at in order if standards.doubt[at] > DOUBTED and str(standards.groups[at]) == low]

    def gap(logits: Floats) -> float:
        return tried.rate(logits, counted[high]) - tried.rate(logits, counted[low])

    def prefix(k: int) -> FlipSet:
        return tuple(sorted(doubted[:k]))

    def reaches(k: int) -> bool:
        return gap(tried.trainer.retrain([prefix(k)])[0]) <= within

    def closed(logits: Floats) -> bool:
        return abs(gap(logits)) <= within

    before = gap(tried.everyone.logits)
    steps = len(doubted).bit_length() + 2
    tried.trainer.progress.phase("closing the gap", (steps * tried.trainer.members + 2 * len(tried.seeds)))
    fewest = 0 if before <= within else len(doubted)
    if fewest and reaches(fewest):
        least = 0  # not enough
        while fewest - least > 1:
            middle = (least + fewest) // 2
            least, fewest = (least, middle) if reaches(middle) else (middle, fewest)
    flips = prefix(fewest)
    after = tried.confirmed(flips)
    members = tried.trainer.member_logits(flips) if tried.trainer.holds(flips) else after[None]
    fresh = tried.fresh(flips)
    return ClosedGap(
        by=by,
        groups=(low, high),
        within=within,
        gap=(before, gap(after)),
        closed=closed(after),
        doubted=len(doubted),
        members=(sum(map(closed, members)), len(members)),
        fresh=None if fresh is None else (sum(map(closed, fresh)), len(fresh)),
        **tried.flip(flips),
    )


def _counted(tried: FlipTrial, by: str) -> dict[str, NDArray[np.bool_]]:
    """Per group, the people whose decisions count."""
    if by not in BY:
        raise SettingError(f"by={by!r} must be one of {listed(BY)}.")
    if by == BY[0]:
        return tried.groups
    if tried.truth is None:
        raise SettingError("True positive rates need the people's recorded labels: give y.")
    deserving = tried.everyone.table.sides(tried.truth) == bool(tried.favourable)
    return {group: ours & deserving for group, ours in tried.groups.items()}


def _two(tried: FlipTrial, counted: dict[str, NDArray[np.bool_]], given: Sequence[Any] | None) -> tuple[str, str]:
    """The two groups, lower rate first: those named, or the two furthest apart."""
    large = [group for group, people in counted.items() if people.sum() >= SMALL_GROUP]
    if given is not None:
        named = list(dict.fromkeys(map(str, given)))
        if len(named) != 2 or not set(named) <= set(counted):
            raise SettingError(f"groups={listed(given)}: name two of {listed(counted)}.")
        large = named
    if len(large) < 2:
        raise TableError(f"There is no gap to close: two groups of at least {SMALL_GROUP} people are needed.")
    ranked = sorted(large, key=lambda group: tried.rate(tried.everyone.logits, counted[group]))
    return ranked[0], ranked[-1]
