"""Proofs from the other side: no set of fewer labels turns this decision, whatever anybody tries.

A prover knows a kind of model so well that it can say for each person how many labels it takes *at least* and, often,
which so many do it. Proofs respect ψ: only labels that may be flipped count. What a prover names as enough is retrained
by the learner's own `fit` like any other find.
"""

from __future__ import annotations

from butfor.allowed import Allowed
from butfor.prove import linear, neighbours, partition
from butfor.prove.bracket import Bracket
from butfor.seam import Learner, Model
from butfor.situation import Situation

__all__ = ["Bracket", "provable", "prove"]

PROVERS = (linear, neighbours, partition)


def provable(learner: Learner, model: Model) -> bool:
    """Whether a prover knows this model."""
    return any(prover.accepts(learner, model) for prover in PROVERS)


def prove(learner: Learner, situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """What is proven about each person of the situation; None where no prover knows the model.

    `psi`: the labels that may be flipped for each."""
    for prover in PROVERS:
        if prover.accepts(learner, situation.model):
            return prover.brackets(situation, psi)
    return None
