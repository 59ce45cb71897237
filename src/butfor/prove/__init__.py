"""Proofs from the other side: no set of fewer labels turns this decision, whatever anybody tries.

A prover knows a kind of model so well that it can say for each person how many labels it takes *at least* and, often,
which so many do it. Proofs respect ψ: only labels that may be flipped count. What a prover names as enough is retrained
by the learner's own `fit` like any other find.
"""

from __future__ import annotations

from typing import Any

from butfor.learn.protocols import Model
from butfor.prove import classes, linear, neighbours, partition
from butfor.prove.bracket import Bracket
from butfor.rules import Allowed
from butfor.situation import Situation

__all__ = ["Bracket", "provable", "prove"]

PROVERS: dict[str, Any] = {
    "sum of the labels": linear,
    "neighbours": neighbours,
    "parts": partition,
    "moved sums": classes,
    "moved votes": classes,
}
"""By what a model calls its `proof`."""


def provable(model: Model) -> bool:
    """Whether a prover knows this model."""
    return model.proof is not None


def prove(situation: Situation, psi: Allowed) -> list[Bracket] | None:
    """What is proven about each person of the situation; None where no prover knows the model or
    what `psi` allows.

    `psi`: the labels that may be flipped for each."""
    proof = situation.model.proof
    found: list[Bracket] | None = None if proof is None else PROVERS[proof].brackets(situation, psi)
    return found
