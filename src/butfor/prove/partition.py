"""Partition ensembles: a flip touches one part, hence at most one vote (Levine and Feizi, *Deep Partition Aggregation*,
ICLR 2021).

So many votes must change sides for the decision to turn; no fewer labels than that can do it. ψ makes it stronger: only
parts that vote for the decision and hold a label that may be flipped can lose their vote. And parts do not know of each
other, so the fewest labels are those of the parts that are turned most cheaply. Where each label is flipped alone and
its part trained again, it is known which parts one label turns; all others take two at least. If as many parts can be
turned that cheaply, by one label or by a pair that is tried, the minimum is exact. Of ridge copies the exact cost of
every part is known, and the fewest labels are the sum of the lowest costs.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from butfor.learn.linear import ridge_effects
from butfor.learn.partition import copy_margins, decisions
from butfor.learn.steps import adds_up
from butfor.prove.bracket import Bracket
from butfor.prove.linear import fewest
from butfor.rules import Allowed
from butfor.situation import Situation

HOW = "votes of the parts"
MOST_TRAININGS = 5000
"""Labels up to which each is flipped alone in its part."""
STRONGEST = 4
"""Labels of a part among which pairs are tried."""


def brackets(situation: Situation, psi: Allowed) -> list[Bracket]:
    vote = _Vote(situation)
    return [vote.bracket(k, psi[k]) for k in range(len(situation.people))]


class _Vote:
    """One ensemble and the people it votes about."""

    def __init__(self, situation: Situation) -> None:
        self.ensemble, self.X, self.people = situation.model.parts(situation.table.X, situation.people)
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
        if self.ridge:
            return self._cheapest(k, decided, needed, rows, allowed)
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

    @cached_property
    def ridge(self) -> bool:
        """Whether the copies' margins are sums over the labels of their part; also those of a part with one class,
        where a ridge with an intercept says what that class is."""
        blank = self.ensemble.blank()
        dense = not hasattr(self.X, "toarray")
        return dense and type(blank).__name__ == "RidgeClassifier" and adds_up(blank) and blank.fit_intercept

    @cached_property
    def costs(self) -> dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Per part: the copy's margins about the people, and what each of its labels moves them by."""
        found, blank = {}, self.ensemble.blank()
        X, people = np.asarray(self.X, np.float64), np.asarray(self.people, np.float64)
        for part, copy in enumerate(self.ensemble.copies_):
            inside = np.flatnonzero(self.ensemble.part_of_ == part)
            labels = self.y[inside].astype(np.float64)
            found[part] = (
                copy_margins(copy, self.people),
                ridge_effects(blank, X[inside], people, labels, np.ones(len(inside))),
            )
        return found

    def _cheapest(
        self, k: int, decided: int, needed: int, rows: dict[int, NDArray[np.int64]], allowed: NDArray[np.bool_]
    ) -> Bracket:
        """The lowest exact costs of as many votes as must change."""
        away, costs = -1.0 if decided else 1.0, []
        for part in rows:
            inside = np.flatnonzero(self.ensemble.part_of_ == part)
            before, effects = self.costs[part]
            one = fewest(min(0.0, away * before[k]), away * effects[k], allowed[inside])
            if one.at_least <= allowed[inside].sum():
                witness = None if one.witness is None else [int(inside[row]) for row in one.witness]
                costs.append((one.at_least, witness))
        if len(costs) < needed:
            return Bracket(int(allowed.sum()) + 1, HOW)
        cheapest = sorted(costs, key=lambda cost: (cost[0], cost[1] is None))[:needed]
        known = [row for _, witness in cheapest for row in witness or ()]
        at_least = sum(cost for cost, _ in cheapest)
        return Bracket(at_least, HOW, tuple(sorted(known)) if len(known) == at_least else None)

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
