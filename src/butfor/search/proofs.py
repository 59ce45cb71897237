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

from butfor.models.estimators import linear_in_labels
from butfor.models.linear import ridge_effects
from butfor.models.seam import FlipSet, Model, flip_direction
from butfor.search.rules import Allowed, Situation

SLACK, TIE = 1e-6, 1e-9
"""Margins and votes this close to 0 prove nothing: the estimator's own rounding decides."""

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
    if model.flip_effects is not None:
        return model.exact
    return model.neighbours is not None or model.part_votes is not None


def prove(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """A bracket per person of the situation, for the labels that `psi` allows; None if there is no
    proof for the model or for these labels."""
    model, table = situation.model, situation.table
    decision = table.decision
    if (
        not provable(model)
        or decision.pool is not None
        or (decision.has_cut and model.part_votes is not None)
    ):
        # also none for a cut that moves with the flips, or one through a share of the parts' votes
        return None
    if model.flip_effects is None and model.neighbours is None:
        return _parts(situation, psi)
    if table.multiclass:
        return _moved(situation, psi)
    if not model.exact:
        return _votes(situation, psi)
    # Ridge classifiers and regressions on 0 and 1: the margin is Σ zᵢtᵢ, and z depends on the
    # inputs alone. Flipping label i moves it by a fixed amount, independent of other flips, so the
    # strongest labels are the fewest.
    out = flip_direction(situation.logits)
    effects = model.flip_effects(table, situation.people) * out[:, None]
    starts = situation.logits.astype(np.float64) * out
    return [_strongest(*each) for each in zip(starts, effects, psi, strict=True)]


def _strongest(start: float, effects: Array, allowed: Mask) -> Bracket:
    """The fewest allowed labels that move a margin from `start` (at most 0) above 0."""
    rows = np.flatnonzero(allowed)
    rows = rows[np.argsort(-effects[rows], kind="stable")]
    return _fewest(rows, start + np.cumsum(np.maximum(effects[rows], 0.0)), allowed, "linear")


def _fewest(
    rows: NDArray[np.int64], margins: Array, allowed: Mask, how: str, slack: float = SLACK
) -> Bracket:
    """From `rows`, strongest first, and the margin after each flip: the decision changes above
    0."""
    possible, sure = np.flatnonzero(margins > -slack), np.flatnonzero(margins > slack)
    at_least = int(possible[0]) + 1 if len(possible) else int(allowed.sum()) + 1
    met = len(sure) and int(sure[0]) + 1 == at_least
    return Bracket(at_least, how, tuple(sorted(map(int, rows[:at_least]))) if met else None)


def _votes(situation: Situation, psi: Allowed) -> list[Bracket]:
    """k nearest neighbours, which do not depend on labels. Flipping a neighbour's label moves its
    weight to the other label; no other row counts (Jia, Liu, Cao, Gong: *Certified Robustness of
    Nearest Neighbors against Data Poisoning and Backdoor Attacks*, AAAI 2022, count votes in the
    same way)."""
    decision, brackets = situation.table.decision, []
    # One label wins from a share of the votes on: the cut's or, at one half, the first of the two,
    # to which a tie goes.
    winner, at = (decision.label, decision.at) if decision.has_cut else (0, 0.5)
    near, weights = situation.model.neighbours(situation.people)
    labels = situation.table.zero_one[near]
    for decided, rows, weight, label, allowed in zip(
        situation.predictions, near, weights, labels, psi, strict=True
    ):
        own = [
            k
            for k in np.argsort(-weight, kind="stable")
            if label[k] == decided and allowed[rows[k]]
        ]
        towards, total = 1 if decided != winner else -1, weight.sum()
        shares = (weight @ (label == winner) + towards * np.cumsum(weight[own])) / total
        margins = towards * (shares - at)
        if float(
            total
        ).is_integer():  # else weights were rounded, and what looks like a tie may be none
            margins = np.where((shares >= at) == (towards == 1), 1.0, -1.0)
        elif towards == 1:
            margins = np.where(margins >= -TIE, 1.0, -1.0)
        brackets.append(_fewest(rows[own], margins, allowed, "votes of the neighbours", TIE))
    return brackets


def _moved(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """Ridge classifiers and neighbours with more than two classes. A flip moves a fixed weight from
    the score of the decided class to that of the new label, so the heaviest labels are the fewest.
    If ψ allows rows with other labels, nothing is proven, and nothing is proven of flips to further
    labels."""
    table, people = situation.table, situation.people
    decided, towards, new_code = table.decision.decided, table.decision.towards, table.new_codes[0]
    if (
        decided is None
        or towards is None
        or (psi.masks[np.unique(psi.kind)] & (table.codes != decided)).any()
    ):
        return None
    alike = False  # whether all weights are equal, so that a tie is one and goes to the first class
    if situation.model.neighbours is not None:
        near, counted = situation.model.neighbours(people)
        alike = bool(np.ptp(counted) == 0)
        weights, scores = np.zeros((len(near), table.n)), np.zeros((len(near), len(table.classes)))
        for person, (rows, weight) in enumerate(
            zip(near, counted / counted.sum(axis=1, keepdims=True), strict=True)
        ):
            weights[person, rows] = weight
            np.add.at(scores[person], table.codes[rows], weight)
    else:
        new = np.eye(len(table.classes), dtype=np.float32)[np.full(len(people), new_code)]
        weights = situation.model.flip_effects(table, people, contrast=new)
        scores = situation.model.scores(people).astype(np.float64)
    brackets = []
    for weight, score, allowed in zip(weights, scores, psi, strict=True):
        rows = np.flatnonzero(allowed)
        rows = rows[np.argsort(-weight[rows], kind="stable")]
        moved = np.cumsum(np.maximum(weight[rows], 0.0))
        after = np.repeat(score[None], len(rows), axis=0)
        after[:, decided] -= moved
        after[:, new_code] += moved
        margins = after[:, towards].max(axis=1) - after[:, ~towards].max(axis=1)
        if alike:
            first = (after > after.max(axis=1, keepdims=True) - SLACK).argmax(axis=1)
            margins = np.where(towards[first], 1.0, -1.0)
        bracket = _fewest(rows, margins, allowed, "weight moved between classes")
        brackets.append(replace(bracket, new_label=situation.label_names[new_code]))
    return brackets


def _parts(situation: Situation, psi: Allowed) -> list[Bracket]:
    """Partition ensembles: a flip touches one part and so at most one vote (Levine and Feizi, *Deep
    Partition Aggregation*, ICLR 2021). A number of votes must change for the decision to change.
    Only parts that vote for it and hold an allowed label can change theirs, and each takes at least
    one label: the bound is the sum of the lowest costs. For ridge copies, whose margins are sums
    over the labels, the exact cost of every part is known."""
    ensemble, X, people = situation.model.part_votes(situation.table.X, situation.people)
    votes, inside = (
        ensemble.votes(people),
        [np.flatnonzero(ensemble.part_of_ == k) for k in range(ensemble.parts_)],
    )
    blank: Any = ensemble.new_copy()
    ridge: list[tuple[Array, Array]] = []
    """Of each part: the margins `[people]` and how far each of its labels moves them, `[people ×
    labels]`."""
    named_ridge = type(blank).__name__ == "RidgeClassifier" and not hasattr(X, "toarray")
    if named_ridge and linear_in_labels(blank) and blank.fit_intercept:
        X, asked, y = (
            np.asarray(X, np.float64),
            np.asarray(people, np.float64),
            situation.table.zero_one,
        )
        for copy, rows in zip(ensemble.copies_, inside, strict=True):
            # In a part with a single class, a ridge with an intercept predicts that class.
            alone = len(copy.classes_) == 1
            margins = 2.0 * copy.predict(people) - 1 if alone else copy.decision_function(people)
            ridge.append(
                (
                    margins,
                    ridge_effects(blank, X[rows], asked, y[rows].astype(float), np.ones(len(rows))),
                )
            )
    brackets = []
    for k, (decided, allowed) in enumerate(zip(situation.predictions, psi, strict=True)):
        out, costs = -1.0 if decided else 1.0, []
        for part in np.flatnonzero(votes[k] == decided):
            free, cost = allowed[inside[part]], Bracket(1, "")
            if ridge:
                margins, effects = ridge[part]
                cost = _strongest(min(0.0, out * margins[k]), out * effects[k], free)
            if cost.at_least <= free.sum():
                costs.append(
                    (cost.at_least, cost.witness is None, inside[part][list(cost.witness or ())])
                )
        needed = ensemble.votes_needed(votes[k], decided)
        cheapest = sorted(costs, key=lambda cost: cost[:2])[:needed]
        at_least = (
            sum(cost for cost, _, _ in cheapest) if len(costs) >= needed else int(allowed.sum()) + 1
        )
        known = sorted(int(row) for _, _, rows in cheapest for row in rows)
        brackets.append(
            Bracket(
                at_least, "votes of the parts", tuple(known) if len(known) == at_least else None
            )
        )
    return brackets
