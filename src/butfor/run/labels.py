"""Labels, not people: which are worth a review, and who is decided otherwise once many are flipped together.

A label's value is doubt² × effect. Doubt is the probability of the other label by the standard of the other groups. The
effect is what flipping the label does to the people of its group who are decided as it says: the mean change of their
logits towards the other decision, those nearer to the boundary counting more. Where an adverse label is named, only
adverse labels have a value, and groups that fall short of the others' standard come first; else labels of either kind
have one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, TableError, listed
from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import FlipSet, Floats, Model, Table, Training
from butfor.rank import Ranking, Scores, as_ranking, summed_scores
from butfor.result.fresh import FreshSeeds
from butfor.result.labels import ClosedGap, OneStandard, Turned
from butfor.result.population import SMALL_GROUP
from butfor.result.record import plain
from butfor.run.fresh_seeds import changes_decision
from butfor.search.trainer import Trainer
from butfor.situation import Situation
from butfor.standard.groups import Standards

KNOWING = ("gradient", "influence", "leaves", "distance")
"""Rankings by how much they know of a model; the last one ranks for all."""
DOUBTFUL = 2
"""The power of doubt in a value."""
NEAR = 0.5
"""How fast people count less: at this share of their median distance from the boundary, 1/e."""
BY = ("selection", "true positive")
"""Rates whose gap can be closed: of favourable decisions, and of those about people whose label is favourable."""
DOUBTED = 0.5
"""Doubt above which a label may be flipped to close a gap."""


# --- the value of a review -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Values:
    """Of all training labels. `effect` and `value [n]`; `order`: the positions of those that may be reviewed, the most
    valuable first; `wrong [n]`: how likely each is wrong, if the group's shortfall is spread evenly over its favourable
    labels, None where no adverse label is named."""

    effect: Scores
    value: Scores
    order: NDArray[np.int64]
    wrong: Scores | None


def best_ranking(model: Model) -> Ranking:
    """The ranking that knows most of the model."""
    return next(ranking for ranking in map(as_ranking, KNOWING) if ranking.ranks(model))


def review_values(standards: Standards, table: Table, effect: Scores, adverse: int | None) -> Values:
    """Doubts and effects put together."""
    value = np.nan_to_num(standards.doubt**DOUBTFUL * effect)
    may = ~np.isnan(standards.doubt) & (adverse is None or table.zero_one == adverse)
    wrong = None if adverse is None else wrongness(standards)
    later = np.zeros(table.n) if wrong is None else ~np.isin(standards.groups.astype(str), _short(standards))
    order = np.lexsort((-np.nan_to_num(standards.doubt), -value, later))
    return Values(effect, value, order[may[order]], wrong)


def wrongness(standards: Standards) -> Scores:
    """How likely each adverse label is wrong: 0 where the group does not fall short.

    If a share r of the labels that the others' standard would have made favourable became adverse, then of the adverse
    labels with doubt d a share d·r / (1 − d + d·r) did; r follows from the group's shortfall."""
    found = np.zeros(len(standards.doubt))
    for name in _short(standards):
        comparison = standards.of_group(name)
        assert comparison is not None
        ours = (standards.groups.astype(str) == name) & ~standards.is_favourable
        made = standards.doubt[ours] * comparison.difference / comparison.expected
        found[ours] = made / (1 - standards.doubt[ours] + made)
    return found


def _short(standards: Standards) -> list[str]:
    """The groups that fall short."""
    return [c.group for c in standards.comparisons if c.attribute == standards.attribute and c.missing]


def effects(
    model: Model,
    table: Table,
    row_groups: NDArray[np.object_],
    people: pd.DataFrame,
    groups: NDArray[np.object_],
    adverse: int | None,
    ranking: Ranking | None = None,
) -> Scores:
    """Per label, the mean change that flipping it makes to the logits of its group's people who are decided as it says,
    towards the other decision; 0 where it makes none, or one in the wrong direction. In one pass over all people."""
    ranking, logits = ranking or best_ranking(model), model.logits(people)
    found = np.zeros(table.n)
    for decision in (0, 1) if adverse is None else (adverse,):
        decided = np.isfinite(logits) & (decides_one(logits) == bool(decision))
        names = sorted(set(map(str, groups[decided])))
        if not names:
            continue
        weights = np.array([_nearness(logits[decided], groups[decided].astype(str) == name) for name in names])
        sums = summed_scores(ranking, model, table, people[decided], weights, 1 - 2 * decision)
        for name, total in zip(names, sums, strict=True):
            labels = (row_groups.astype(str) == name) & (table.zero_one == decision)
            found[labels] = np.maximum(0, total[labels])
    return found


def _nearness(logits: Floats, inside: NDArray[np.bool_]) -> Scores:
    """How much each of these people counts: less the further from the boundary."""
    margins = np.abs(logits).astype(np.float64)
    scale = max(NEAR * float(np.median(margins[inside])), 1e-9)
    weights = np.where(inside, np.exp((margins[inside].min() - margins) / scale), 0)
    return np.asarray(weights / weights.sum())


# --- flipped together ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FlipTrial:
    """What flip sets are tried on. `trainer` asks about everyone; `favourable` is the decision that people would rather
    have; `truth`: their own labels by number, where they are known."""

    everyone: Situation
    truth: NDArray[np.int64] | None
    trainer: Trainer
    seeds: Sequence[int]
    seeded: bool
    favourable: int
    _fresh: dict[FlipSet, Floats] = field(default_factory=dict)

    def flip(self, flips: FlipSet) -> dict[str, Any]:
        """What a `Flipped` holds."""
        after = self.confirmed(flips)
        truth, before = self.truth, self.everyone.logits
        return {
            "flips": flips,
            "labels": self.everyone.table.n,
            "turned": self._turned(after, self.fresh(flips)),
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
        """What single models say under fresh seeds, `[seeds × people]`; each is trained once."""
        if self.seeds and flips not in self._fresh:
            self._fresh[flips] = self.trainer.ask([Training(flips, seed) for seed in self.seeds])
        return self._fresh.get(flips)

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        named = self.everyone.groups.astype(str)
        return {group: named == group for group in sorted(set(named))}

    def rate(self, logits: Floats, people: NDArray[np.bool_]) -> float:
        """The share of favourable decisions about these people."""
        return float((decides_one(logits[people]) == bool(self.favourable)).mean()) if people.any() else float("nan")

    def _turned(self, after: Floats, fresh: Floats | None) -> tuple[Turned, ...]:
        everyone, found = self.everyone, []
        turned = np.isfinite(after) & (decides_one(after) != decides_one(everyone.logits))
        for k in map(int, np.flatnonzero(turned)):
            seeds = None
            if fresh is not None and (base := self.fresh(())) is not None:
                decision = int(everyone.predictions[k])
                without, with_ = (changes_decision(logits[:, k], decision) for logits in (base, fresh))
                seeds = FreshSeeds.of(without, with_)
            row, group = plain(everyone.people.index[k]), plain(everyone.groups[k])
            found.append(Turned(k, row, group, float(everyone.logits[k]), float(after[k]), seeds))
        return tuple(found)


def one_standard(standards: Standards, tried: FlipTrial) -> list[OneStandard]:
    """For every group that falls short by more than chance: its missing labels flipped."""
    short = [c for c in standards.comparisons if c.attribute == standards.attribute and c.missing and c.differs]
    sets = {c.group: tuple(sorted(map(int, standards.missing_labels(c.group)))) for c in short}
    seeds = len(tried.seeds)
    tried.trainer.progress.phase(
        "one standard for all", len(sets) * (tried.trainer.members + seeds) + seeds * bool(sets)
    )
    return [
        OneStandard(
            attribute=standards.attribute,
            group=group,
            people=int(tried.groups[group].sum()) if group in tried.groups else 0,
            **tried.flip(flips),
        )
        for group, flips in sets.items()
    ]


def close_gap(
    order: Sequence[int], standards: Standards, tried: FlipTrial, by: str, groups: Sequence[Any] | None, within: float
) -> ClosedGap:
    """The shortest prefix of the doubted labels of the group with the lower rate, in their `order`, that brings its
    rate within so much of the other's: by bisection, since more such flips raise it further."""
    counted = _counted(tried, by)
    low, high = _two(tried, counted, groups)
    doubted = [int(at) for at in order if standards.doubt[at] > DOUBTED and str(standards.groups[at]) == low]

    def gap(logits: Floats) -> float:
        return tried.rate(logits, counted[high]) - tried.rate(logits, counted[low])

    def prefix(k: int) -> FlipSet:
        return tuple(sorted(doubted[:k]))

    def closed(k: int) -> bool:
        return gap(tried.trainer.retrain([prefix(k)])[0]) <= within

    before = gap(tried.everyone.logits)
    steps = len(doubted).bit_length() + 2
    tried.trainer.progress.phase("closing the gap", (steps * tried.trainer.members + 2 * len(tried.seeds)))
    fewest = 0 if before <= within else len(doubted)
    found = before <= within or (bool(doubted) and closed(fewest))
    if found and fewest:
        least = 0  # not enough
        while fewest - least > 1:
            middle = (least + fewest) // 2
            least, fewest = (least, middle) if closed(middle) else (middle, fewest)
    flips = prefix(fewest)
    after = tried.confirmed(flips)
    members = tried.trainer.member_logits(flips) if tried.trainer.holds(flips) else after[None]
    fresh = tried.fresh(flips)
    return ClosedGap(
        by=by,
        groups=(low, high),
        within=within,
        gap=(before, gap(after)),
        closed=found and gap(after) <= within,
        doubted=len(doubted),
        members=(sum(gap(each) <= within for each in members), len(members)),
        fresh=None if fresh is None else (sum(gap(each) <= within for each in fresh), len(fresh)),
        **tried.flip(flips),
    )


def _counted(tried: FlipTrial, by: str) -> dict[str, NDArray[np.bool_]]:
    """Per group, the people whose decisions count."""
    if by not in BY:
        raise SettingError(f"by={by!r}: a gap is closed between {' or '.join(BY)} rates.")
    if by == BY[0]:
        return tried.groups
    if tried.truth is None:
        raise SettingError("True positive rates need the people's own labels: give y.")
    deserving = tried.everyone.table.sides(tried.truth) == bool(tried.favourable)
    return {group: ours & deserving for group, ours in tried.groups.items()}


def _two(tried: FlipTrial, counted: dict[str, NDArray[np.bool_]], given: Sequence[Any] | None) -> tuple[str, str]:
    """The two groups, that with the lower rate first: those named, else the furthest apart."""
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
