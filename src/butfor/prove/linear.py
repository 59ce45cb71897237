"""Ridge classifiers and regressions on 0 and 1: the margin is a sum over the labels, so sorting gives the minimum.

The margin is Σ zᵢtᵢ with z that depends on inputs alone (`Model.flip_effects`). Flipping label i moves it by a fixed
amount, whatever else is flipped; so the fewest labels that turn the decision are the strongest, as many as it takes.
"""

from __future__ import annotations

import numpy as np

from butfor.learn.protocols import away
from butfor.prove.bracket import Bracket
from butfor.rules import Allowed
from butfor.situation import Situation

HOW = "linear"
SLACK = 1e-6
"""Margins this near to 0 are left open: the estimator's own arithmetic decides there."""


def brackets(situation: Situation, psi: Allowed) -> list[Bracket]:
    out = away(situation.logits)
    effects = situation.model.flip_effects(situation.table, situation.people) * out[:, None]
    starts = situation.logits.astype(np.float64) * out
    return [fewest(start, row, allowed) for start, row, allowed in zip(starts, effects, psi, strict=True)]


def fewest(start: float, effects: np.ndarray, allowed: np.ndarray) -> Bracket:
    """The fewest of the allowed labels that take a margin from `start`, at most 0, above 0."""
    rows = np.flatnonzero(allowed)
    strongest = rows[np.argsort(-effects[rows], kind="stable")]
    gains = start + np.cumsum(np.maximum(effects[strongest], 0.0))
    possible = np.flatnonzero(gains > -SLACK)
    sure = np.flatnonzero(gains > SLACK)
    at_least = int(possible[0]) + 1 if len(possible) else len(rows) + 1
    met = len(sure) and int(sure[0]) + 1 == at_least
    return Bracket(at_least, HOW, tuple(sorted(map(int, strongest[:at_least]))) if met else None)
