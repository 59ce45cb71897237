"""Lower bounds: how many labels it takes *at least* to change a decision.

There is a prover for each kind of model that allows one. For each person it gives the bound and,
often, a set of that size. Only labels that ψ allows count. A set is retrained with the model's own
`fit`, like any other find.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import RidgeClassifier

from butfor.models.abilities import FlipEffects, Neighbours, PartVotes
from butfor.models.linear import adds_up, ridge_effects
from butfor.models.seam import FlipSet, Model, flip_direction
from butfor.search.rules import Allowed, Situation

MARGIN_TOLERANCE = 1e-6
"""Margins this close to 0 prove nothing: the estimator's own rounding decides."""
VOTE_TOLERANCE = 1e-9
"""The same for shares of votes."""

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Bracket:
    """No allowed flip set with fewer than `at_least` labels changes the decision. If `at_least`
    exceeds the number of allowed labels, no set does. `witness` is a set of that size that changes
    it, if one is known; `how` names the proof. With more than two labels this is about flips to
    `new_label`: flips to other labels are not ruled out."""

    at_least: int
    how: str
    witness: FlipSet | None = None
    new_label: str | None = None


def provable(model: Model) -> bool:
    """Whether there is a proof for the model."""
    if model.ability(Neighbours) is not None or model.ability(PartVotes) is not None:
        return True
    return exact_effects(model) is not None


def exact_effects(model: Model) -> FlipEffects | None:
    """The effects of flips, if those of several flips add up."""
    effects = model.ability(FlipEffects)
    return effects if effects is not None and effects.exact else None


def prove(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """A bracket per person of the situation, for the labels that `psi` allows; None if there is no
    proof for the model or for these labels."""
    model = situation.model
    if situation.decision.pool is not None:  # the cut moves with the flips
        return None
    parts = model.ability(PartVotes)
    if parts is not None:  # a cut through a share of the parts' votes has no proof
        return None if situation.decision.has_cut else _parts(situation, psi, parts)
    neighbours = model.ability(Neighbours)
    effects = exact_effects(model)
    if neighbours is None and effects is None:
        return None
    if situation.table.multiclass:
        return _moved(situation, psi, neighbours)
    if neighbours is not None:
        return _votes(situation, psi, neighbours)
    assert effects is not None
    return _sums(situation, psi, effects)


def _sums(situation: Situation, psi: Allowed, effects: FlipEffects) -> list[Bracket]:
    """Ridge classifiers and regressions on 0 and 1: the margin is Σ zᵢtᵢ, and z depends on the
    inputs alone. Flipping label i moves it by a fixed amount, independent of other flips, so the
    strongest labels are the fewest."""
    out = flip_direction(situation.logits)
    towards = effects.flip_effects(situation.table, situation.people) * out[:, None]
    starts = situation.logits.astype(np.float64) * out
    return [
        _strongest(start, moves, allowed)
        for start, moves, allowed in zip(starts, towards, psi, strict=True)
    ]


def _strongest(start: float, effects: Array, allowed: Mask) -> Bracket:
    """The fewest allowed labels that move a margin from `start` (at most 0) above 0."""
    rows = np.flatnonzero(allowed)
    rows = rows[np.argsort(-effects[rows], kind="stable")]
    margins = start + np.cumsum(np.maximum(effects[rows], 0.0))
    return _fewest(rows, margins, allowed, "linear")


def _fewest(
    rows: NDArray[np.int64],
    margins: Array,
    allowed: Mask,
    how: str,
    slack: float = MARGIN_TOLERANCE,
) -> Bracket:
    """From `rows`, strongest first, and the margin after each flip: the decision changes above
    0."""
    possible = np.flatnonzero(margins > -slack)
    sure = np.flatnonzero(margins > slack)
    at_least = int(possible[0]) + 1 if len(possible) else int(allowed.sum()) + 1
    witness = None
    if len(sure) and int(sure[0]) + 1 == at_least:
        witness = tuple(sorted(map(int, rows[:at_least])))
    return Bracket(at_least, how, witness)


def _votes(situation: Situation, psi: Allowed, neighbours: Neighbours) -> list[Bracket]:
    """k nearest neighbours, which do not depend on labels. Flipping a neighbour's label moves its
    weight to the other label; no other row counts (Jia, Liu, Cao, Gong: *Certified Robustness of
    Nearest Neighbors against Data Poisoning and Backdoor Attacks*, AAAI 2022, count votes in the
    same way)."""
    decision = situation.decision
    brackets = []
    # One label wins from a share of the votes on: the cut's or, at one half, the first of the two,
    # to which a tie goes.
    winner = decision.label if decision.has_cut else 0
    cut = decision.at if decision.has_cut else 0.5
    assert cut is not None
    how = "votes of the neighbours"
    near, weights = neighbours.neighbours(situation.people)
    labels = situation.table.zero_one[near]
    for decided, rows, weight, label, allowed in zip(
        situation.predictions, near, weights, labels, psi, strict=True
    ):
        heaviest = np.argsort(-weight, kind="stable")
        flippable = [k for k in heaviest if label[k] == decided and allowed[rows[k]]]
        towards = 1 if decided != winner else -1
        total = weight.sum()
        shares = (weight @ (label == winner) + towards * np.cumsum(weight[flippable])) / total
        margins = towards * (shares - cut)
        whole_votes = float(total).is_integer()
        if whole_votes:  # else weights were rounded, and what looks like a tie may be none
            margins = np.where((shares >= cut) == (towards == 1), 1.0, -1.0)
        elif towards == 1:
            margins = np.where(margins >= -VOTE_TOLERANCE, 1.0, -1.0)
        brackets.append(_fewest(rows[flippable], margins, allowed, how, VOTE_TOLERANCE))
    return brackets


def _moved(
    situation: Situation, psi: Allowed, neighbours: Neighbours | None
) -> list[Bracket] | None:
    """Ridge classifiers and neighbours with more than two classes. A flip moves a fixed weight from
    the score of the decided class to that of the new label, so the heaviest labels are the fewest.
    If ψ allows rows with other labels, nothing is proven, and nothing is proven of flips to further
    labels."""
    table = situation.table
    people = situation.people
    sides = table.two_sides
    if sides is None or sides.decided is None:
        return None
    decided = sides.decided
    new_code = sides.new[0]
    used_masks = psi.masks[np.unique(psi.kind)]
    if (used_masks & (table.codes != decided)).any():
        return None
    alike = False
    """Whether all weights are equal, so that a tie is one and goes to the first class."""
    if neighbours is not None:
        near, counted = neighbours.neighbours(people)
        alike = bool(np.ptp(counted) == 0)
        weights = np.zeros((len(near), table.n))
        scores = np.zeros((len(near), len(table.classes)))
        shares = counted / counted.sum(axis=1, keepdims=True)
        for person, (rows, weight) in enumerate(zip(near, shares, strict=True)):
            weights[person, rows] = weight
            np.add.at(scores[person], table.codes[rows], weight)
    else:
        new = np.eye(len(table.classes), dtype=np.float32)[np.full(len(people), new_code)]
        effects = situation.model.needed(FlipEffects)
        weights = effects.flip_effects(table, people, contrast=new)
        scores = situation.model.scores(people).astype(np.float64)
    brackets = []
    for weight, score, allowed in zip(weights, scores, psi, strict=True):
        rows = np.flatnonzero(allowed)
        rows = rows[np.argsort(-weight[rows], kind="stable")]
        moved = np.cumsum(np.maximum(weight[rows], 0.0))
        after = np.repeat(score[None], len(rows), axis=0)
        after[:, decided] -= moved
        after[:, new_code] += moved
        margins = after[:, sides.ones].max(axis=1) - after[:, ~sides.ones].max(axis=1)
        if alike:
            first = (after > after.max(axis=1, keepdims=True) - MARGIN_TOLERANCE).argmax(axis=1)
            margins = np.where(sides.ones[first], 1.0, -1.0)
        bracket = _fewest(rows, margins, allowed, "weight moved between classes")
        brackets.append(replace(bracket, new_label=situation.label_names[new_code]))
    return brackets


def _parts(situation: Situation, psi: Allowed, parts: PartVotes) -> list[Bracket]:
    """Partition ensembles: a flip touches one part and so at most one vote (Levine and Feizi, *Deep
    Partition Aggregation*, ICLR 2021). A number of votes must change for the decision to change.
    Only parts that vote for it and hold an allowed label can change theirs, and each takes at least
    one label: the bound is the sum of the lowest costs. For ridge copies, whose margins are sums
    over the labels, the exact cost of every part is known."""
    ensemble, X, people = parts.part_votes(situation.table.X, situation.people)
    votes = ensemble.votes(people)
    inside = [np.flatnonzero(ensemble.part_of_ == k) for k in range(ensemble.parts_)]
    blank: Any = ensemble.new_copy()
    ridge: list[tuple[Array, Array]] = []
    """Of each part: the margins `[people]` and how far each of its labels moves them, `[people ×
    labels]`."""
    sparse = hasattr(X, "toarray")
    is_ridge = type(blank) is RidgeClassifier and adds_up(blank) and blank.fit_intercept
    if is_ridge and not sparse:
        X = np.asarray(X, np.float64)
        asked = np.asarray(people, np.float64)
        y = situation.table.zero_one
        for copy, rows in zip(ensemble.copies_, inside, strict=True):
            # In a part with a single class, a ridge with an intercept predicts that class.
            if len(copy.classes_) == 1:
                margins = 2.0 * copy.predict(people) - 1
            else:
                margins = copy.decision_function(people)
            labels = y[rows].astype(float)
            effects = ridge_effects(blank, X[rows], asked, labels, np.ones(len(rows)))
            ridge.append((margins, effects))
    brackets = []
    for k, (decided, allowed) in enumerate(zip(situation.predictions, psi, strict=True)):
        out = -1.0 if decided else 1.0
        costs = []
        for part in np.flatnonzero(votes[k] == decided):
            free = allowed[inside[part]]
            cost = Bracket(1, "")
            if ridge:
                margins, effects = ridge[part]
                cost = _strongest(min(0.0, out * margins[k]), out * effects[k], free)
            if cost.at_least <= free.sum():
                flips = inside[part][list(cost.witness or ())]
                costs.append((cost.at_least, cost.witness is None, flips))
        needed = ensemble.votes_needed(votes[k], decided)
        cheapest = sorted(costs, key=lambda cost: cost[:2])[:needed]
        at_least = int(allowed.sum()) + 1
        if len(costs) >= needed:
            at_least = sum(cost for cost, _, _ in cheapest)
        united = sorted(int(row) for _, _, rows in cheapest for row in rows)
        witness = tuple(united) if len(united) == at_least else None
        brackets.append(Bracket(at_least, "votes of the parts", witness))
    return brackets
