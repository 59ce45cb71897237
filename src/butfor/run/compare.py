"""Today's model beside ridge, whose decisions have exact proofs: what would it cost, and whom would it protect?

For the same people: how often each is right, whose decision would be another one, and how many are proven to stand
against one flipped label and against the whole budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.encode import TableEncoder
from butfor.learn.decision_split import decides_one
from butfor.learn.named import model_named
from butfor.learn.protocols import Table
from butfor.learn.sklearn import SklearnLearner
from butfor.prove import prove
from butfor.result.population import ALL, beside_all
from butfor.rules import Rule, flippable
from butfor.situation import Situation

MOST_ROWS = 5000
"""Training rows up to which kernel ridge is tried: its work grows with their cube."""
FOLDS = 3


def beside_ridge(situation: Situation, psi: Rule, budget: int, truth: NDArray[np.bool_] | None) -> dict[str, Any]:
    """The comparison, for the record. `truth [people]`: the people's own labels, where they are known."""
    table = replace(situation.table, validation=None)
    name, chosen = _chosen(situation.table)
    learner = _learner(name)
    model = learner.fit(table, table.labels())
    other = replace(situation, model=model, table=table, training_decisions=table.decided(model.logits(table.X)))
    brackets = prove(other, flippable(psi, other)) or []
    changed = other.predictions != situation.predictions
    known = {beside_all(group): situation.groups == group for group in sorted(set(situation.groups), key=str)}
    at_least = np.array([bracket.at_least for bracket in brackets])
    return {
        "model": name,
        "chosen": chosen,
        "budget": budget,
        "right": _right(situation.predictions, other.predictions, truth),
        "groups": [
            {
                "group": group,
                "people": int(inside.sum()),
                "changed": int(changed[inside].sum()),
                "stand_against_one": int((at_least[inside] > 1).sum()),
                "stand_against_budget": int((at_least[inside] > budget).sum()),
                "median_at_least": float(np.median(at_least[inside])) if inside.any() else None,
            }
            for group, inside in ({ALL: np.ones(len(changed), bool)} | known).items()
        ],
    }


def _chosen(table: Table) -> tuple[str, str]:
    """Ridge or kernel ridge, whichever is right more often about rows that neither was trained on and that nobody asks
    about; and how that was seen."""
    if table.n > MOST_ROWS:
        return "ridge", f"kernel ridge is not tried with more than {MOST_ROWS} training rows"
    right = {name: _right_elsewhere(name, table) for name in ("ridge", "kernel-ridge")}
    where = "the validation rows" if table.validation else f"training rows left out in {FOLDS} folds"
    told = " and ".join(f"{name} {100 * share:.1f} %" for name, share in right.items())
    return max(right, key=lambda name: right[name]), f"right about {where}: {told}"


def _right_elsewhere(name: str, table: Table) -> float:
    """The share of validation rows, else of training rows left out, that it is right about."""
    from sklearn.model_selection import StratifiedKFold

    def right(some: Table, X: pd.DataFrame, is_one: NDArray[np.bool_]) -> int:
        model = _learner(name).fit(some, some.labels())
        return int((decides_one(model.logits(X)) == is_one).sum())

    if table.validation:
        codes = table.validation_codes
        return right(replace(table, validation=None), table.validation[0], codes > 0) / len(codes)
    folds = min(FOLDS, int(min(table.zero_one.sum(), table.n - table.zero_one.sum())))
    if folds < 2:
        return 0.0
    found = 0
    for kept, out in StratifiedKFold(folds, shuffle=True, random_state=0).split(table.X, table.zero_one):
        weight = None if table.weight is None else table.weight[kept]
        some = Table(table.X.iloc[kept], table.y.iloc[kept], weight=weight)
        found += right(some, table.X.iloc[out], table.zero_one[out] > 0)
    return found / table.n


def _learner(name: str) -> SklearnLearner:
    return SklearnLearner(model_named(name), TableEncoder(dtype="float64"))


def _right(
    today: NDArray[np.int64], ridge: NDArray[np.int64], truth: NDArray[np.bool_] | None
) -> dict[str, dict[str, float | None]] | None:
    """Accuracy and balanced accuracy of both, and of always saying the larger class."""
    from sklearn.metrics import balanced_accuracy_score

    if truth is None or not len(truth):
        return None
    both = truth.any() and not truth.all()
    majority = np.full(len(truth), truth.mean() > 0.5)
    each = {"today": today > 0, "ridge": ridge > 0, "majority": majority}
    return {
        name: {
            "accuracy": float((said == truth).mean()),
            "balanced": float(balanced_accuracy_score(truth, said)) if both else None,
        }
        for name, said in each.items()
    }
