"""Controls: beside each label to review, an adverse label of another group that is as likely to be favourable.

Likely by two models at once, so that a reviewer who only follows the columns changes both alike. Both models are asked
about rows that they have not learned from, and they are the same for labels and controls.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from butfor.standard.inputs import Floats, Mask, design_of
from butfor.standard.logistic import fit_logistic, predict_logistic
from butfor.standard.model import TwoModels
from butfor.standard.second_opinion import FOLDS, folds_of

CALIPER = 0.05
"""A label and its control differ by at most this in each of the two probabilities."""


def likelihoods(X: pd.DataFrame, favourable: Mask, others: Mask, seed: int = 0) -> tuple[Floats, Mask]:
    """Each row's probability of the favourable label `[rows × 2]`: by a logistic regression of all rows, and by the
    standard of the rows `others`. And whom that standard favours when it has learned from all of them: a reviewer who
    follows it agrees with the controls' labels more often than with others. X has no protected column."""
    model, folds, labels = TwoModels.of(X), folds_of(len(X), None, seed), favourable.astype(np.float64)
    found = np.empty((len(X), 2))
    for fold in range(FOLDS):
        ask, learn = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        fitted = fit_logistic(design_of(model.inputs, learn), labels[None, learn])
        found[ask, 0] = predict_logistic(model.inputs[ask], fitted)[0]
        learn = learn[others[learn]]
        found[ask, 1] = model.predict(learn, ask, labels[None, learn], None)[0]
    learn = np.flatnonzero(others)
    return found, model.predict(learn, np.arange(len(X)), labels[None, learn], None)[0] > 0.5


def matched(likely: Floats, labels: Sequence[int], candidates: Sequence[int]) -> dict[int, int]:
    """Label to control, by position; the nearest pairs first, and each control used once. A label without one is left
    out."""
    controls: dict[int, int] = {}
    nearest = np.arange(1, min(len(labels), len(candidates)) + 1)
    if not len(nearest):
        return controls
    tree = cKDTree(likely[candidates])
    distance, place = tree.query(likely[labels], nearest, p=np.inf, distance_upper_bound=CALIPER)
    used = set[int]()
    for pair in np.argsort(distance, axis=None, kind="stable")[: np.isfinite(distance).sum()]:
        label, control = labels[pair // len(nearest)], int(candidates[place.flat[pair]])
        if label not in controls and control not in used:
            controls[label] = control
            used.add(control)
    return controls
