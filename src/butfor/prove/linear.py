"""Ridge classifiers and regressions on 0 and 1: the margin is a sum over the labels, so sorting gives the minimum.

The margin is Σ zᵢtᵢ with z that depends on inputs alone (`butfor.learn.linear`). Flipping label i moves it by a fixed
amount, whatever else is flipped; so the fewest labels that turn the decision are the strongest, as many as it takes.
"""

from __future__ import annotations

import numpy as np

from butfor.allowed import Allowed
from butfor.learn.linear import adds_up, flip_effects, solved_directly
from butfor.learn.sklearn import SklearnLearner, SklearnModel
from butfor.prove.bracket import Bracket
from butfor.seam import Learner, Model, away
from butfor.situation import Situation

HOW = "linear"
SLACK = 1e-6
"""Margins this near to 0 are left open: the estimator's own arithmetic decides there."""


def accepts(learner: Learner, model: Model) -> bool:
    """A margin that adds up to the last digits, behind preprocessing that sees no label."""
    if not isinstance(model, SklearnModel) or not isinstance(learner, SklearnLearner):
        return False
    return adds_up(learner.estimator) and solved_directly(model.estimator)


def brackets(situation: Situation, psi: Allowed) -> list[Bracket]:
    out = away(situation.logits)
    effects = flip_effects(situation.model, situation.table, situation.people) * out[:, None]
    starts = situation.logits.astype(np.float64) * out
    return [_one(start, row, allowed) for start, row, allowed in zip(starts, effects, psi, strict=True)]


def _one(start: float, effects: np.ndarray, allowed: np.ndarray) -> Bracket:
    rows = np.flatnonzero(allowed)
    strongest = rows[np.argsort(-effects[rows], kind="stable")]
    gains = start + np.cumsum(np.maximum(effects[strongest], 0.0))
    possible = np.flatnonzero(gains > -SLACK)
    sure = np.flatnonzero(gains > SLACK)
    at_least = int(possible[0]) + 1 if len(possible) else len(rows) + 1
    met = len(sure) and int(sure[0]) + 1 == at_least
    return Bracket(at_least, HOW, tuple(sorted(map(int, strongest[:at_least]))) if met else None)
