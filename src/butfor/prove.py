"""Proofs from the other side: no set of fewer labels turns this decision, whatever anybody tries.

A prover knows a kind of model so well that it can say for each person how many labels it takes *at least* and, often,
which so many do it. Proofs respect ψ: only labels that may be flipped count. What a prover names as enough is retrained
by the learner's own `fit` like any other find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.learn.capabilities import Linear, Neighbours, PartVotes, require
from butfor.learn.linear import ridge_effects
from butfor.learn.protocols import FlipSet, Model, flip_direction
from butfor.learn.steps import linear_in_labels
from butfor.learn.threshold import Cut
from butfor.rules import Allowed
from butfor.situation import Situation

SLACK, TIE = 1e-6, 1e-9
"""Margins and votes this near to 0 are left open: the estimator's own arithmetic decides there."""

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Bracket:
    """No allowed flip set of fewer than `at_least` labels turns the decision; more than all that may be flipped means
    that none does. `witness`: a set of that very size which does, where the prover knows one. `how` names the proof."""

    at_least: int
    how: str
    witness: FlipSet | None = None


def prove(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """What is proven about each person of the situation, of whose labels `psi` may be flipped; None where no prover
    knows the model or what `psi` allows."""
    kind, cut = _proven_by(situation.model), situation.table.cut
    if cut is not None and (not cut.fixed or kind is PartVotes):
        return None  # a cut that moves with the flips, or one through a share of the parts' votes
    return None if kind is None else PROVERS[kind](situation, psi)


def provable(model: Model) -> bool:
    """Whether a prover knows the model."""
    return _proven_by(model) is not None


def _proven_by(model: Model) -> type | None:
    """What of the model a prover goes by."""
    linear = model.capability(Linear)
    if linear is not None:
        return Linear if linear.exact else None
    return next((kind for kind in (Neighbours, PartVotes) if model.capability(kind) is not None), None)


def _fewest(rows: NDArray[np.int64], margins: Array, allowed: Mask, how: str, slack: float = SLACK) -> Bracket:
    """`rows` in the order in which they turn the decision soonest, and the margin after each: it turns above 0."""
    possible, sure = np.flatnonzero(margins > -slack), np.flatnonzero(margins > slack)
    at_least = int(possible[0]) + 1 if len(possible) else int(allowed.sum()) + 1
    met = len(sure) and int(sure[0]) + 1 == at_least
    return Bracket(at_least, how, tuple(sorted(map(int, rows[:at_least]))) if met else None)


def _heaviest(weights: Array, allowed: Mask) -> NDArray[np.int64]:
    rows = np.flatnonzero(allowed)
    return rows[np.argsort(-weights[rows], kind="stable")]


# --- two classes ------------------------------------------------------------------------------------


def _sums(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """Ridge classifiers and regressions on 0 and 1: the margin is Σ zᵢtᵢ with z that depends on inputs alone. Flipping
    label i moves it by a fixed amount, whatever else is flipped; so the strongest are the fewest."""
    if situation.table.multiclass:
        return _moved(situation, psi)
    out = flip_direction(situation.logits)
    effects = require(situation.model, Linear).flip_effects(situation.table, situation.people) * out[:, None]
    starts = situation.logits.astype(np.float64) * out
    return [_strongest(*each) for each in zip(starts, effects, psi, strict=True)]


def _strongest(start: float, effects: Array, allowed: Mask) -> Bracket:
    """The fewest of the allowed labels that take a margin from `start`, at most 0, above 0."""
    rows = _heaviest(effects, allowed)
    return _fewest(rows, start + np.cumsum(np.maximum(effects[rows], 0.0)), allowed, "linear")


def _votes(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """k nearest neighbours, which no label has a say in. Turning a label moves the lead by twice its weight; no other
    label counts at all (Jia, Liu, Cao, Gong: *Certified Robustness of Nearest Neighbors against Data Poisoning and
    Backdoor Attacks*, AAAI 2022, count votes in the same way)."""
    if situation.table.multiclass:
        return _moved(situation, psi)
    near, weights = require(situation.model, Neighbours).neighbours(situation.people)
    labels, cut = situation.table.zero_one[near], situation.table.cut
    asked = zip(situation.predictions, near, weights, labels, psi, strict=True)
    return [_vote(*each) if cut is None else _vote_share(cut, *each) for each in asked]


def _vote(decided: int, near: NDArray[np.int64], weights: Array, labels: Array, allowed: Mask) -> Bracket:
    lead = weights @ np.where(labels == decided, 1.0, -1.0)
    own = [k for k in np.argsort(-weights, kind="stable") if labels[k] == decided and allowed[near[k]]]
    margins = 2 * np.cumsum(weights[own]) - lead
    if decided == 1:  # a tie goes to class 0, the first of the two
        margins = np.where(margins >= -TIE, 1.0, -1.0)
    elif float(weights.sum()).is_integer():  # else they were rounded, and what looks like a tie may be none
        margins = np.where(margins > TIE, 1.0, -1.0)
    return _fewest(near[own], margins, allowed, "votes of the neighbours", TIE)


def _vote_share(
    cut: Cut, decided: int, near: NDArray[np.int64], weights: Array, labels: Array, allowed: Mask
) -> Bracket:
    """The label of the cut is decided from a share of the votes on."""
    own = [k for k in np.argsort(-weights, kind="stable") if labels[k] == decided and allowed[near[k]]]
    moved, total = np.cumsum(weights[own]), weights.sum()
    votes, towards = weights @ (labels == cut.label), 1 if decided != cut.label else -1
    shares = (votes + towards * moved) / total
    margins = towards * (shares - cut.at)
    if float(total).is_integer():  # else they were rounded, and what looks like a tie may be none
        margins = np.where((shares >= cut.at) == (towards == 1), 1.0, -1.0)
    return _fewest(near[own], margins, allowed, "votes of the neighbours", TIE)


# --- more classes -----------------------------------------------------------------------------------


def _moved(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """The same models with more than two classes. A row labelled as the person is decided becomes the label in view,
    which takes a fixed weight from the score of the one class and adds it to the other's: the heaviest are the fewest.
    Rows of other labels, where ψ allows them, would take from other classes: then nothing is proven."""
    table, decision_split = situation.table, situation.table.decision_split
    assert decision_split is not None
    if decision_split.decided is None or (psi.masks & (table.codes != decision_split.decided)).any():
        return None
    alike = False  # whether all weights are equal, so that a tie is one and goes to the first class
    voting = situation.model.capability(Neighbours)
    if voting is not None:
        near, counted = voting.neighbours(situation.people)
        alike = bool(np.ptp(counted) == 0)
        weights, scores = np.zeros((len(near), table.n)), np.zeros((len(near), len(table.classes)))
        for person, (rows, weight) in enumerate(zip(near, counted / counted.sum(axis=1, keepdims=True), strict=True)):
            weights[person, rows] = weight
            np.add.at(scores[person], table.codes[rows], weight)
    else:
        new = np.eye(len(table.classes), dtype=np.float32)[table.new_codes[:1].repeat(len(situation.people))]
        weights = require(situation.model, Linear).flip_effects(table, situation.people, contrast=new)
        scores = situation.model.scores(situation.people).astype(np.float64)
    found = []
    for weight, score, allowed in zip(weights, scores, psi, strict=True):
        rows = _heaviest(weight, allowed)
        moved = np.cumsum(np.maximum(weight[rows], 0.0))
        after = np.repeat(score[None], len(rows), axis=0)
        after[:, decision_split.decided] -= moved
        after[:, decision_split.new[0]] += moved
        margins = after[:, decision_split.towards].max(axis=1) - after[:, ~decision_split.towards].max(axis=1)
        if alike:
            first = (after > after.max(axis=1, keepdims=True) - SLACK).argmax(axis=1)
            margins = np.where(decision_split.towards[first], 1.0, -1.0)
        found.append(_fewest(rows, margins, allowed, "weight moved between classes"))
    return found


# --- partition ensembles ----------------------------------------------------------------------------


def _parts(situation: Situation, psi: Allowed) -> list[Bracket]:
    """A flip touches one part, hence at most one vote (Levine and Feizi, *Deep Partition Aggregation*, ICLR 2021).

    So many votes must change sides for the decision to turn, and only parts that vote for it and hold a label that may
    be flipped can lose theirs: at least one label each. Of ridge copies the exact cost of every part is known, and the
    fewest labels are the sum of the lowest costs."""
    ensemble, X, people = require(situation.model, PartVotes).part_votes(situation.table.X, situation.people)
    votes, inside = ensemble.votes(people), [np.flatnonzero(ensemble.part_of_ == k) for k in range(ensemble.parts_)]
    ridge = _ridge_parts(ensemble, X, people, situation.table.zero_one.astype(np.float64), inside)
    found = []
    for k, (decided, allowed) in enumerate(zip(situation.predictions, psi, strict=True)):
        out, costs = -1.0 if decided else 1.0, []
        for part in np.flatnonzero(votes[k] == decided):
            free, cost = allowed[inside[part]], Bracket(1, "")
            if ridge:
                margins, effects = ridge[part]
                cost = _strongest(min(0.0, out * margins[k]), out * effects[k], free)
            if cost.at_least <= free.sum():
                costs.append((cost.at_least, cost.witness is None, inside[part][list(cost.witness or ())]))
        needed = ensemble.votes_needed(votes[k], decided)
        cheapest = sorted(costs, key=lambda cost: cost[:2])[:needed]
        at_least = sum(cost for cost, _, _ in cheapest) if len(costs) >= needed else int(allowed.sum()) + 1
        known = sorted(int(row) for _, _, rows in cheapest for row in rows)
        found.append(Bracket(at_least, "votes of the parts", tuple(known) if len(known) == at_least else None))
    return found


def _ridge_parts(
    ensemble: Any, X: Any, people: Any, y: Array, inside: list[NDArray[np.int64]]
) -> list[tuple[Array, Array]]:
    """Each copy's margins `[people]`, and what each label of its part moves them by, `[people × labels]`; nothing where
    they are no sums over the labels."""
    blank = ensemble.new_copy()
    dense = not hasattr(X, "toarray")
    if not (dense and type(blank).__name__ == "RidgeClassifier" and linear_in_labels(blank) and blank.fit_intercept):
        return []
    X, asked = np.asarray(X, np.float64), np.asarray(people, np.float64)
    found = []
    for copy, rows in zip(ensemble.copies_, inside, strict=True):
        # In a part with one class a ridge with an intercept would say what that class is.
        alone = len(copy.classes_) == 1
        margins = 2.0 * copy.predict(people) - 1 if alone else copy.decision_function(people)
        found.append((margins, ridge_effects(blank, X[rows], asked, y[rows], np.ones(len(rows)))))
    return found


PROVERS: dict[type, Callable[[Situation, Allowed], list[Bracket] | None]] = {
    Linear: _sums,
    Neighbours: _votes,
    PartVotes: _parts,
}
"""By what a model can do."""
