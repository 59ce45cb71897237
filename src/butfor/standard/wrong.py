"""Which labels are wrong: the probability that an adverse label of a group that falls short would have been favourable.

Suppose that the others' standard made a label favourable with probability p, and that a share r of those labels became
adverse. Of the adverse labels with these p and r a share p·r / (1 − p + p·r) is wrong. p is the others'
standard, calibrated on their own labels. r depends on the columns and on p, and is fitted to the group's labels by
penalised logistic regressions: the better one predicts labels that it has not seen, the more it counts, so that r is
much the same for all rows unless the labels show that it is not. Both are cross-fitted: no label takes part in judging
itself. Folds go by position, so that another order of the rows moves these probabilities slightly.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from butfor import stopping
from butfor.standard.inputs import MOST_LEARNED, Floats, Inputs, Mask, Rows, thin
from butfor.standard.logistic import Dense, design_of, fit_logistic
from butfor.standard.model import Standard

WRONG = (
    "Of labels marked 0.3, about 3 in 10 would have been favourable, if the recorded columns are all that matters, the "
    "others' labels are right, and errors only went against this group."
)
"""What a probability of being wrong means."""
LEAST = 0.005
"""Probabilities stay this far from 0 and 1."""
PENALTIES, ON_STANDARD = (32.0, 8.0, 2.0), 1.0
"""On the squared coefficients of r: of the columns, and of the others' standard. Chosen on drawn tables, so that the
predicted and the real share of wrong labels agree."""
USUAL, AROUND = -2.0, 0.1
"""The intercept of r is drawn towards the first, as weakly as the second says."""
STEPS = 60


def suspects(
    standard: Standard,
    group: Rows,
    others: Rows,
    probabilities: Floats,
    inputs: Inputs,
    labels: Floats,
    folds: Rows,
    weight: Floats | None,
) -> Floats:
    """How likely the label of each of the group's rows is wrong if it is adverse `[rows of the group]`; their level
    follows from the group's shortfall (`with_sum`). `probabilities`: theirs by the others' standard; `inputs`,
    `labels`, `folds` and `weight` of all rows."""
    p = _as_others_read(standard, others, probabilities, labels, folds, weight)
    known = None if weight is None else weight[group] / weight[group].mean()
    r = _lost(p, labels[group] > 0.5, inputs, group, folds[group], known)
    found: Floats = p * r / (1 - p + p * r)
    return found


def with_sum(probability: Floats, total: float, weight: Floats | None = None) -> Floats:
    """The probabilities with all their odds multiplied by the one number that makes them sum to `total`, each times its
    weight; 0 where that is not above 0, 1 where it is as much as all of them or more."""
    weight = np.ones(len(probability)) if weight is None else weight
    if total <= 0 or not len(probability):
        return np.zeros(len(probability))
    if total >= weight.sum():
        return np.ones(len(probability))
    logits = _logits(probability, 1e-9)
    reach = float(np.abs(logits).max() + abs(logit(total / weight.sum())) + 1)
    shift = brentq(lambda by: float(expit(logits + by) @ weight) - total, -reach, reach)
    found: Floats = expit(logits + shift)
    return found


def _logits(p: Floats, least: float = LEAST) -> Floats:
    found: Floats = logit(np.clip(p, least, 1 - least))
    return found


def _as_others_read(
    standard: Standard, others: Rows, probabilities: Floats, labels: Floats, folds: Rows, weight: Floats | None
) -> Floats:
    """The probabilities, calibrated on labels of others that the standard has not seen; of many others, on a part."""
    others = others[thin(len(others), 2 * MOST_LEARNED)]
    known = None if weight is None else weight[others]
    if len(set(folds[others])) < 2:
        return np.clip(probabilities, LEAST, 1 - LEAST)
    unseen = standard.cross_predict(others, labels[others], folds[others], np.arange(len(others)), known)
    level, slope = fit_logistic(design_of(_logits(unseen)[:, None]), labels[None, others], known)[0]
    found: Floats = expit(level + slope * _logits(probabilities))
    return np.clip(found, LEAST, 1 - LEAST)


def _lost(p: Floats, favourable: Mask, inputs: Inputs, rows: Rows, folds: Rows, weight: Floats | None) -> Floats:
    """r: the share of favourable labels that became adverse, among rows like each `[rows]`. The mean over penalties,
    weighted by the likelihood of the labels that a fit has not seen."""
    by_standard = _logits(p)
    by_standard = (by_standard - by_standard.mean()) / max(float(by_standard.std()), 0.1)
    design = design_of(inputs, rows, further=by_standard, centred=True)
    towards = np.append(USUAL, np.zeros(1 + inputs.shape[1]))
    found = np.empty((len(PENALTIES), len(p)))
    for fold in np.unique(folds):
        inside, start = folds == fold, towards
        learned = None if weight is None else weight[~inside]
        own, others = design.rows(inside), design.rows(~inside)
        for lost, on_columns in zip(found, PENALTIES, strict=True):
            penalty = np.append([AROUND, ON_STANDARD], np.full(inputs.shape[1], on_columns))
            start = _fit(others, p[~inside], favourable[~inside], learned, penalty, towards, start)
            lost[inside] = expit(own.logits(start))
        del own, others  # before the next fold's are made
    chance = np.clip(p * (1 - found), 1e-9, 1 - 1e-9)
    unseen = np.log(np.where(favourable, chance, 1 - chance)) @ (np.ones(len(p)) if weight is None else weight)
    counts = np.exp(unseen - unseen.max())
    mean: Floats = counts @ found / counts.sum()
    return mean


def _fit(
    design: Dense, p: Floats, favourable: Mask, weight: Floats | None, penalty: Floats, towards: Floats, start: Floats
) -> Floats:
    """Coefficients of r by penalised maximum likelihood: a label is favourable with probability p · (1 − r)."""

    def loss(beta: Floats) -> tuple[float, Floats]:
        stopping.check()
        r = expit(design.logits(beta))
        chance = p * (1 - r)
        likelihood = np.log(np.where(favourable, np.maximum(chance, 1e-300), 1 - chance))
        slope = np.where(favourable, r, -p * r * (1 - r) / (1 - chance))
        if weight is not None:
            likelihood, slope = likelihood * weight, slope * weight
        off = beta - towards
        return float(0.5 * penalty @ off**2 - likelihood.sum()), design.sums(slope) + penalty * off

    found: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    return found
