"""Which labels are wrong: the probability that an adverse label of a group that falls short would
have been favourable.

Suppose that the others' standard made a label favourable with probability p, and that a share r of
those labels became adverse. Of the adverse labels with these p and r a share p·r / (1 − p + p·r) is
wrong. p is the others' standard, calibrated on their own labels. r depends on the columns, and is
fitted to the group's labels by penalised logistic regressions: the better one predicts labels that
it has not seen, the more it counts, so that r is much the same for all rows unless the labels show
that it is not. A group that lacks few labels cannot show it: r is then one rate. Both are
cross-fitted: no label takes part in judging itself. Folds go by position, so that another order of
the rows moves these probabilities slightly.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit

from butfor.standard.inputs import (
    MOST_LEARNED_ROWS,
    Floats,
    Inputs,
    Mask,
    Rows,
    beside,
    thin,
)
from butfor.standard.logistic import design_of, fit_logistic
from butfor.standard.model import Records
from butfor.standard.null import Group
from butfor.support import stopping

WRONG = (
    "Of labels marked 0.3, about 3 in 10 would have been favourable, if the recorded columns are "
    "all that matters, the others' labels are right, and errors only went against this group."
)
"""What a probability of being wrong means."""
IF_REAL = (
    "The same in groups whose gap may be chance, as if it were real. Where nothing is wrong, it "
    "is chance too."
)
"""What `wrong_if_real` means."""
MIN_PROBABILITY = 0.005
"""Probabilities stay this far from 0 and 1."""
FLAT_PENALTY = 1e6
"""A penalty on the squared coefficients of r that leaves one rate for all rows."""
PENALTIES = (FLAT_PENALTY, 512.0, 128.0, 32.0, 8.0, 2.0)
LIKELIHOOD_POWER = 0.1
"""The power to which the likelihood of unseen labels weighs a penalty: with 1 the best of them
counts alone, although the labels hardly tell it from the next."""
MIN_LACKED_LABELS = 30.0
"""A group that lacks fewer labels says too little about where they were lost. These three were
chosen on planted tables with seeds 2000 to 2007 (`benchmarks.planted`), by the wrong labels among
the first."""
PRIOR_INTERCEPT = -2.0
"""The intercept of r is drawn towards this."""
INTERCEPT_PENALTY = 0.1
"""How strongly: the penalty on its squared distance from there."""
MAX_STEPS = 60
"""The most steps of a fit of r."""


def suspects(group: Group, records: Records) -> Floats:
    """How likely the label of each of the group's rows is wrong if it is adverse `[rows of the
    group]`; their level follows from the group's shortfall (`with_sum`)."""
    rows = group.rows
    probabilities = group.probabilities
    labels = records.labels
    folds = records.folds
    # The probabilities, calibrated on labels of others that the standard has not seen; of many
    # others, on a part.
    others = group.others[thin(len(group.others), 2 * MOST_LEARNED_ROWS)]
    if len(set(folds[others])) > 1:
        theirs = labels[others]
        weight = records.weight[others]
        everybody = np.arange(len(others))
        unseen = records.model.cross_predict(others, theirs, folds[others], everybody, weight)
        level, slope = fit_logistic(design_of(_logits(unseen)[:, None]), theirs[None], weight)[0]
        probabilities = expit(level + slope * _logits(probabilities))
    p = np.clip(probabilities, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    inputs = records.encoded.inputs[rows]
    r = _lost(p, labels[rows] > 0.5, inputs, folds[rows], records.weight[rows])
    wrong: Floats = p * r / (1 - p + p * r)
    return wrong


def with_sum(probability: Floats, total: float, weight: Floats | None = None) -> Floats:
    """The probabilities with all their odds multiplied by the one number that makes them sum to
    `total`, each times its weight; 0 where that is not above 0, 1 where it is as much as all of
    them or more."""
    weight = np.ones(len(probability)) if weight is None else weight
    if total <= 0 or not len(probability):
        return np.zeros(len(probability))
    if total >= weight.sum():
        return np.ones(len(probability))
    logits = _logits(probability, 1e-9)
    reach = float(np.abs(logits).max() + abs(logit(total / weight.sum())) + 1)
    shift = brentq(lambda by: float(expit(logits + by) @ weight) - total, -reach, reach)
    scaled: Floats = expit(logits + shift)
    return scaled


def _logits(p: Floats, least: float = MIN_PROBABILITY) -> Floats:
    logits: Floats = logit(np.clip(p, least, 1 - least))
    return logits


def _lost(p: Floats, favourable: Mask, inputs: Inputs, folds: Rows, weight: Floats) -> Floats:
    """r: the share of favourable labels that became adverse, among rows like each `[rows]`: by
    logistic regressions of the columns, less their means, on labels that are favourable with
    probability p · (1 − r). The mean over penalties, weighted by the likelihood of the labels that
    a fit has not seen; one rate for all rows if few labels lack."""
    weight = weight / weight.mean()
    penalties: tuple[float, ...] = PENALTIES
    one_rate = float((p - favourable) @ weight) < MIN_LACKED_LABELS
    if one_rate:
        inputs = np.empty((len(p), 0))
        penalties = (FLAT_PENALTY,)
    means = np.append(0.0, np.asarray(inputs.mean(axis=0)))
    if isinstance(inputs, np.ndarray):
        inputs = inputs - means[1:]
        means = np.zeros_like(means)
    design = beside(np.ones((len(p), 1)), inputs)  # sparse, it is less its means below
    towards = np.append(PRIOR_INTERCEPT, np.zeros(inputs.shape[1]))
    rates = np.empty((len(penalties), len(p)))
    """r of each row by the fits with each penalty `[penalties × rows]`."""

    def loss(
        beta: Floats, rows: Inputs, p: Floats, favourable: Mask, weight: Floats, penalty: Floats
    ) -> tuple[float, Floats]:
        """The penalised negative log-likelihood, and its gradient."""
        stopping.check()
        r = expit(rows @ beta - means @ beta)
        chance = p * (1 - r)
        likelihood = np.log(np.where(favourable, np.maximum(chance, 1e-300), 1 - chance)) * weight
        slope = np.where(favourable, r, -p * r * (1 - r) / (1 - chance)) * weight
        off = beta - towards
        penalised = float(0.5 * penalty @ off**2 - likelihood.sum())
        gradient = slope @ rows - slope.sum() * means + penalty * off
        return penalised, gradient

    for fold in np.unique(folds):
        inside = folds == fold
        start = towards
        learned = (design[~inside], p[~inside], favourable[~inside], weight[~inside])
        for rate, on_columns in zip(rates, penalties, strict=True):
            penalty = np.append(INTERCEPT_PENALTY, np.full(inputs.shape[1], on_columns))
            options = {"maxiter": MAX_STEPS}
            fitted = minimize(
                loss, start, (*learned, penalty), jac=True, method="L-BFGS-B", options=options
            )
            start = fitted.x
            rate[inside] = expit(design[inside] @ start - means @ start)
    if one_rate:  # the rows' folds must not tell them apart
        return np.full(len(p), rates.mean())
    chance = np.clip(p * (1 - rates), 1e-9, 1 - 1e-9)
    unseen = np.log(np.where(favourable, chance, 1 - chance)) @ weight
    counts = np.exp(LIKELIHOOD_POWER * (unseen - unseen.max()))
    mean: Floats = counts @ rates / counts.sum()
    return mean
