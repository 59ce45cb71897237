"""Published ways to find wrong labels, for `benchmarks.rivals`: what is theirs, and what is ours.

Every way gets a `Table`: the inputs without the protected column, which labels are favourable, and
everybody's group. It returns `Suspicion`: a score per label, the higher, the sooner a reviewer
should look at it; and which adverse labels the method itself would change. The methods decide which
labels to change; that their scores order *all* adverse labels is ours.

Every way learns by one of `LEARNERS`: scikit-learn's logistic regression, or the two models of our
standard.
"""

from __future__ import annotations

import importlib
import logging
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from butfor.errors import SettingError
from butfor.standard.boosting import Questions
from butfor.standard.model import TwoModels

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

FOLDS = 5
"""Of cross-validated probabilities."""
BAGS = 50
"""Models in Fair-OBNC's ensemble; its own default is 10, whose votes leave many labels in a tie."""
DOWNLOAD = "pip download --no-deps aequitas==1.1.0"


# --- what every way is given, and what it returns -------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Labelled rows without the protected column. Rows are given by position."""

    inputs: Floats
    """Numbers scaled, categories one-hot `[rows × inputs]`."""
    favourable: Mask
    groups: NDArray[np.str_]

    @cached_property
    def two_models(self) -> TwoModels:
        return two_models_of(self.inputs)

    @property
    def adverse(self) -> Mask:
        return ~self.favourable

    def lower_groups(self) -> list[str]:
        """The groups whose recorded favourable rate is lower than that of all others together."""
        found = []
        for group in np.unique(self.groups):
            inside = self.groups == group
            if self.favourable[inside].mean() < self.favourable[~inside].mean():
                found.append(str(group))
        return found


@dataclass(frozen=True, eq=False)
class Suspicion:
    """What a way says of each label `[rows]`."""

    score: Floats
    """The higher, the sooner it is looked at; only adverse labels are compared."""
    changed: Mask
    """The adverse labels that the method itself would change."""


Learner = Callable[[Table, Rows, Rows], Floats]
"""Of a table, the rows to learn from and the rows to predict: their probabilities of a favourable
label."""
Way = Callable[[Table, str], Suspicion]


# --- learners -------------------------------------------------------------------------------------


def by_logistic(table: Table, learn: Rows, ask: Rows) -> Floats:
    """scikit-learn's logistic regression with its own settings."""
    labels = table.favourable[learn]
    if labels.all() or not labels.any():
        return np.full(len(ask), float(labels.mean()))
    model = LogisticRegression(max_iter=2000).fit(table.inputs[learn], labels)
    return np.asarray(model.predict_proba(table.inputs[ask])[:, 1], np.float64)


def by_standard(table: Table, learn: Rows, ask: Rows) -> Floats:
    """The two models of our standard: the mean of a logistic regression and a boosting of small
    trees."""
    labels = table.favourable[learn].astype(np.float64)
    return table.two_models.predict(learn, ask, labels[None])[0]


LEARNERS: dict[str, Learner] = {"logistic": by_logistic, "standard": by_standard}


def two_models_of(inputs: Floats) -> TwoModels:
    return TwoModels(inputs, Questions.of(inputs), {})


def cross_validated(table: Table, rows: Rows, learner: Learner) -> Floats:
    """The probability of a favourable label of each of these rows, by models that have not seen
    it."""
    labels, found = table.favourable[rows], np.empty(len(rows))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    for learn, ask in folds.split(np.zeros(len(rows)), labels):
        found[ask] = learner(table, rows[learn], rows[ask])
    return found


# --- the ways -------------------------------------------------------------------------------------


def fair_label(table: Table, learner: str) -> Suspicion:
    """FairLabel (Sengamedu and Pham 2023, arXiv 2311.00638).

    Theirs: a model that learned from the other groups predicts the labels of a group with a lower
    favourable rate, and adverse labels are changed where it predicts the favourable one. Ours:
    written from abstract and descriptions, not from code; a group is one with a lower rate than all
    others together; the threshold is one half; the model's probability orders the labels.
    """
    score = np.zeros(len(table.groups))
    for group in table.lower_groups():
        inside = table.groups == group
        score[inside] = LEARNERS[learner](table, np.flatnonzero(~inside), np.flatnonzero(inside))
    return Suspicion(score, table.adverse & (score >= 0.5))


def massaging(table: Table, learner: str) -> Suspicion:
    """Massaging (Kamiran and Calders, *Knowledge and Information Systems* 33, 2012).

    Theirs: a model of all rows ranks them; of the group with the lower rate the adverse labels that
    it ranks highest are changed, as many as make the rates equal when as many favourable labels of
    the others are changed. Ours: the model does not see the protected column (theirs may); with
    several groups those with a lower rate than all others together count as one; only the changes
    of adverse labels are counted.
    """
    everybody = np.arange(len(table.groups))
    probability = LEARNERS[learner](table, everybody, everybody)
    lower = np.isin(table.groups, table.lower_groups())
    rates = table.favourable[lower].mean(), table.favourable[~lower].mean()
    count = math.ceil((rates[1] - rates[0]) * lower.sum() * (~lower).sum() / len(lower))
    score = np.where(lower, probability, probability - 2)
    return Suspicion(score, _highest(score, lower & table.adverse, count))


def decole(table: Table, learner: str) -> Suspicion:
    """DeCoLe (Li, De-Arteaga and Saar-Tsechansky 2025, arXiv 2507.07216).

    Theirs: confident learning within each group. A model of the group's rows alone gives each label
    a cross-validated probability of being the other one; a label is called wrong if that is at
    least the mean probability of those who have the other label. Ours: written from the abstract
    and descriptions; the probability less that threshold orders the labels.
    """
    score = np.full(len(table.groups), -1.0)
    changed = np.zeros(len(table.groups), bool)
    for group in np.unique(table.groups):
        rows = np.flatnonzero(table.groups == group)
        labels = table.favourable[rows]
        if min(labels.sum(), (~labels).sum()) < FOLDS:
            continue
        probability = cross_validated(table, rows, LEARNERS[learner])
        score[rows] = probability - probability[labels].mean()
        changed[rows] = _confidently_favourable(probability, labels)
    return Suspicion(score, changed)


def self_confidence(table: Table, learner: str) -> Suspicion:
    """cleanlab (Northcutt, Jiang and Chuang, *JAIR* 70, 2021).

    Theirs: self-confidence, the cross-validated probability of the recorded label; the lower, the
    sooner a label is looked at. With two labels all scores of `cleanlab.rank` order the labels of
    one class alike. Labels are changed by `filter_by="confident_learning"`. Ours: both are computed
    here (a test compares them with cleanlab's); cross- validation by five stratified folds.
    """
    probability = cross_validated(table, np.arange(len(table.groups)), LEARNERS[learner])
    return Suspicion(probability, _confidently_favourable(probability, table.favourable))


def _confidently_favourable(probability: Floats, favourable: Mask) -> Mask:
    """Adverse labels that confident learning counts as favourable: the probability is at least the
    mean of those who have that label and, where both labels reach their means, the larger of the
    two."""
    reached = probability >= probability[favourable].mean()
    adverse_reached = 1 - probability >= (1 - probability)[~favourable].mean()
    return ~favourable & reached & (~adverse_reached | (probability > 0.5))


def fair_obnc(table: Table, learner: str, folder: Path, ordering: str) -> Suspicion:
    """Fair-OBNC (Oliveira e Silva, Jesus, Ferreira and others, ECAI 2024, arXiv 2410.06214) by its
    released code, `LabelFlipping` of aequitas 1.1.0.

    Theirs: the ensemble on random halves of the rows, its margins or residuals, the groups whose
    favourable rate is too low and by how many labels, at most a tenth of all labels changed. Ours:
    the protected column is withheld by its own option; labels are ordered by its scores within the
    groups it would raise, since its `transform` returns other rows than it says; those of other
    groups come after them; 50 models instead of 10, so that fewer votes are ties.
    """
    flipping = released_label_flipping(folder)
    names = [f"input {k}" for k in range(table.inputs.shape[1])]
    X = pd.DataFrame(table.inputs, columns=names)
    y = pd.Series(table.favourable.astype(int))
    groups = pd.Series(table.groups, name="group").astype("category")
    method = flipping(
        bagging_base_estimator=BASE_ESTIMATORS[learner],
        bagging_n_estimators=BAGS,
        ordering_method=ordering,
        unawareness_features=True,
        max_iter=2000,
    )
    method.fit(X, y, groups)
    scores = method._score_instances(X, y).to_numpy(np.float64)
    against = -scores if ordering == "ensemble_margin" else scores
    flips = method._calculate_group_flips(y, groups)
    raised = np.isin(table.groups, [group for group, count in flips.items() if count > 0])
    score = np.where(raised, against, against - 4)

    changed = np.zeros(len(score), bool)
    doubted = against >= 0 if ordering == "ensemble_margin" else np.ones(len(score), bool)
    for group, count in flips.items():
        if count > 0:
            candidates = table.adverse & doubted & (table.groups == group)
            changed |= _highest(score, candidates, int(count))
    most = int(method.max_flip_rate * len(y))
    return Suspicion(score, _highest(score, changed, most))


def _highest(score: Floats, candidates: Mask, count: int) -> Mask:
    """The candidates with the highest scores, at most so many."""
    rows = np.flatnonzero(candidates)
    first = rows[np.argsort(-score[rows], kind="stable")][: max(count, 0)]
    found = np.zeros(len(score), bool)
    found[first] = True
    return found


# --- the released code of Fair-OBNC ---------------------------------------------------------------


class TwoModelsClassifier(ClassifierMixin, BaseEstimator):
    """The two models of our standard as a scikit-learn classifier, for the ensemble of
    Fair-OBNC."""

    def __init__(self, max_iter: int = 0) -> None:
        # not used: aequitas passes the logistic regression's setting to every estimator
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any) -> TwoModelsClassifier:
        inputs = np.asarray(X, np.float64)
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        share = codes.astype(np.float64)
        self.predict_share_ = two_models_of(inputs).fit(np.arange(len(inputs)), share[None], None)
        return self

    def predict_proba(self, X: Any) -> Floats:
        inputs = np.asarray(X, np.float64)
        if len(self.classes_) < 2:
            return np.ones((len(inputs), 1))
        probability = self.predict_share_(inputs)[0]
        return np.column_stack([1 - probability, probability])

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


BASE_ESTIMATORS = {
    "logistic": "sklearn.linear_model.LogisticRegression",
    "standard": f"{__name__}.TwoModelsClassifier",
    "tree": "sklearn.tree.DecisionTreeClassifier",
}
"""What Fair-OBNC's ensemble is made of; the tree is its own default."""
ORDERINGS = ("ensemble_margin", "residuals")
"""Of Fair-OBNC: by votes, or by probabilities."""


@lru_cache(maxsize=1)
def released_label_flipping(folder: Path) -> Any:
    """The class of aequitas 1.1.0, from a folder that the wheel was unzipped into. Its packages
    import torch and more, which this class does not need: they are registered as empty packages, so
    that their own `__init__` does not run."""
    source = folder / "aequitas" / "flow" / "methods" / "preprocessing" / "label_flipping.py"
    if not source.is_file():
        raise SettingError(
            f"--aequitas {folder}: there is no {source.relative_to(folder)}. {DOWNLOAD}; unzip "
            "the wheel."
        )
    for name in ("", ".flow", ".flow.utils", ".flow.methods", ".flow.methods.preprocessing"):
        package = ModuleType(f"aequitas{name}")
        package.__path__ = [str(folder / f"aequitas{name}".replace(".", "/"))]
        sys.modules[package.__name__] = package
    vars(sys.modules["aequitas.flow.utils"])["create_logger"] = logging.getLogger
    return importlib.import_module(
        "aequitas.flow.methods.preprocessing.label_flipping"
    ).LabelFlipping


WAYS: dict[str, Way] = {
    "FairLabel": fair_label,
    "Massaging": massaging,
    "DeCoLe": decole,
    "cleanlab": self_confidence,
}
"""Those that need nothing but scikit-learn."""
