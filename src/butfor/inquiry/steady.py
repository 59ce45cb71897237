"""Today's model beside one that is provably steady: what would it cost, and whom would it protect?

The steady model is a `PartitionEnsemble` trained on the same table. For the same people: how often each is right, whose
decision would be another one, and how many are proven to stand against one flipped label and against the whole budget.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.encode import TableEncoder
from butfor.errors import SettingError
from butfor.learn.partition import PartitionEnsemble
from butfor.learn.sklearn import SklearnLearner
from butfor.prove import Bracket, prove
from butfor.result.population import ALL, beside_all
from butfor.rules import Rule, flippable
from butfor.situation import Situation

AUTO = "auto"


def as_steady(given: Any) -> PartitionEnsemble | None:
    """The model to compare with: as it is, by its number of parts, or the usual one."""
    if given is None or isinstance(given, PartitionEnsemble):
        return given
    if given == AUTO or given is True:
        return PartitionEnsemble(parts=None)
    if isinstance(given, (int, np.integer)) and not isinstance(given, bool) and given >= 1:
        return PartitionEnsemble(parts=int(given))
    raise SettingError(f"steady={given!r} is neither a number of parts, nor '{AUTO}', nor a PartitionEnsemble.")


def beside_steady(
    steady: PartitionEnsemble, situation: Situation, psi: Rule, budget: int, truth: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """The comparison, for the record. `truth [people]`: the people's own labels, where they are known."""
    learner = SklearnLearner(steady, TableEncoder(dtype="float64"))
    table = replace(situation.table, validation=None)
    model = learner.fit(table, table.labels())
    other = replace(situation, model=model, table=table, training_logits=model.logits(table.X))
    brackets = prove(learner, other, flippable(psi, other))
    assert brackets is not None
    changed = other.predictions != situation.predictions
    everyone = np.ones(len(changed), bool)
    groups = {ALL: everyone} | {
        beside_all(group): situation.groups == group for group in sorted(set(situation.groups), key=str)
    }
    return {
        "parts": model.final.parts_,
        "copy": model.final.copy_name_,
        "budget": budget,
        "right": _right(situation.predictions, other.predictions, truth),
        "groups": [
            {"group": name, "people": int(inside.sum()), "changed": int(changed[inside].sum())}
            | _proven([b for b, counts in zip(brackets, inside, strict=True) if counts], budget)
            for name, inside in groups.items()
        ],
    }


def _proven(brackets: list[Bracket], budget: int) -> dict[str, Any]:
    return {
        "stand_against_one": sum(b.at_least > 1 for b in brackets),
        "stand_against_budget": sum(b.at_least > budget for b in brackets),
        "median_at_least": float(np.median([b.at_least for b in brackets])) if brackets else None,
    }


def _right(
    today: NDArray[np.int64], steady: NDArray[np.int64], truth: NDArray[np.bool_] | None
) -> dict[str, dict[str, float | None]] | None:
    """Accuracy and balanced accuracy of both, and of always saying the larger class."""
    if truth is None or not len(truth):
        return None
    majority = np.full(len(truth), truth.mean() > 0.5)
    each = {"today": today > 0, "steady": steady > 0, "majority": majority}
    return {
        name: {"accuracy": float((said == truth).mean()), "balanced": _balanced(said, truth)}
        for name, said in each.items()
    }


def _balanced(said: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float | None:
    """The mean of the shares of each class that are recognised; None where the people have one class only."""
    if truth.all() or not truth.any():
        return None
    return float(((said == truth)[truth].mean() + (said == truth)[~truth].mean()) / 2)
