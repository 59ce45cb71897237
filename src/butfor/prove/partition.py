"""Partition ensembles: a flip touches one part, hence at most one vote (Levine and Feizi, *Deep Partition Aggregation*,
ICLR 2021).

So many votes must change sides for the decision to turn; no fewer labels than that can do it. ψ makes it stronger: only
parts that vote for the decision and hold a label that may be flipped can lose their vote. And parts do not know of each
other, so the fewest labels are those of the parts that are turned most cheaply. Where each label is flipped alone and
its part trained again, it is known which parts one label turns; all others take two at least. If as many parts can be
turned that cheaply, by one label or by a pair that is tried, the minimum is exact.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from butfor.allowed import Allowed
from butfor.learn.partition import PartitionEnsemble, decisions
from butfor.learn.sklearn import SklearnModel
from butfor.prove.bracket import Bracket
from butfor.seam import Learner, Model
from butfor.situation import Situation

HOW = "votes of the parts"
MOST_TRAININGS = 5000
"""Labels up to which each is flipped alone in its part."""
STRONGEST = 4
"""Labels of a part among which pairs are tried."""


def accepts(learner: Learner, model: Model) -> bool:
    """The ensemble itself; what stands before it must not see labels, which an encoder of ours does not."""
    return isinstance(model, SklearnModel) and type(model.estimator) is PartitionEnsemble


def brackets(situation: Situation, psi: Allowed) -> list[Bracket]:
    vote = _Vote(situation)
    return [vote.bracket(k, psi[k]) for k in range(len(situation.people))]


class _Vote:
    """One ensemble and the people it votes about."""

    def __init__(self, situation: Situation) -> None:
        assert isinstance(situation.model, SklearnModel)
        self.ensemble: PartitionEnsemble = situation.model.estimator
        self.X, self.people = (situation.model.step_inputs(rows) for rows in (situation.table.X, situation.people))
        self.y, self.decided = situation.table.zero_one, situation.predictions
        self.votes = self.ensemble.votes(self.people)
        self._pairs: dict[tuple[int, int], NDArray[np.int64]] = {}

    @cached_property
    def singles(self) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        return self.ensemble.single_flips(self.X, self.y, self.people)

    def bracket(self, k: int, allowed: NDArray[np.bool_]) -> Bracket:
        decided = int(self.decided[k])
        needed = self.ensemble.votes_to_turn(self.votes[k], decided)
        rows = {
            part: inside
            for part in range(self.ensemble.parts_)
            if self.votes[k, part] == decided
            and len(inside := np.flatnonzero(allowed & (self.ensemble.part_of_ == part)))
        }
        if len(rows) < needed:
            return Bracket(int(allowed.sum()) + 1, HOW)
        if len(self.y) > MOST_TRAININGS:
            return Bracket(needed, HOW)
        turns, _ = self.singles
        cheap = {part: turning[0] for part, inside in rows.items() if len(turning := inside[turns[inside, k]])}
        dear = [part for part, inside in rows.items() if part not in cheap and len(inside) > 1]
        if len(cheap) + len(dear) < needed:
            return Bracket(int(allowed.sum()) + 1, HOW)
        witness = [int(row) for row in list(cheap.values())[:needed]]
        missing = needed - len(witness)
        at_least = needed + missing
        turned: set[int] = set()
        for pair in self._promising_pairs(k, decided, [rows[part] for part in dear]) if missing else []:
            part = int(self.ensemble.part_of_[pair[0]])
            if part not in turned and self._turned_by(pair, k):
                turned.add(part)
                witness += pair
                missing -= 1
            if not missing:
                break
        return Bracket(at_least, HOW, None if missing else tuple(sorted(witness)))

    def _promising_pairs(self, k: int, decided: int, parts: list[NDArray[np.int64]]) -> list[tuple[int, int]]:
        """Pairs of the few labels in each part that alone move it furthest, the most promising first."""
        _, margins = self.singles
        away = -1.0 if decided else 1.0
        pairs = []
        for inside in parts:
            strongest = inside[np.argsort(-away * margins[inside, k], kind="stable")[:STRONGEST]]
            for one, other in combinations(sorted(map(int, strongest)), 2):
                pairs.append((away * float(margins[one, k] + margins[other, k]), (one, other)))
        return [pair for _, pair in sorted(pairs, reverse=True)]

    def _turned_by(self, pair: tuple[int, int], k: int) -> bool:
        if pair not in self._pairs:
            self._pairs[pair] = decisions(self.ensemble.retrained(self.X, self.y, pair), self.people)
        return bool(self._pairs[pair][k] != self.votes[k, self.ensemble.part_of_[pair[0]]])
