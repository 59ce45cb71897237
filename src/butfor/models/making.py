"""Makes learners: of a user's model, and of a record."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from butfor.models.as_json import rebuild
from butfor.models.ensemble import Ensemble
from butfor.models.estimator_learner import SklearnLearner, check_classifier, is_seed
from butfor.models.seam import Learner, MakesLearner
from butfor.support.errors import LearnerError, ReplayError, SettingError, listed
from butfor.support.optional import load

KINDS = {
    "sklearn": "butfor.models.estimator_learner:SklearnLearner",
    "mlp": "butfor.models.network:MLPLearner",
}
"""Kinds of learners that a record can restore, and their classes."""


def as_learner(
    model: Any, encoder: Any = None, random_state: int = 0, torch_seed: int | None = None
) -> Learner:
    """A learner from our MLP or any scikit-learn classifier; a user's `Learner` unchanged. Every
    `random_state` that is None is set: see `seed_note`."""
    if isinstance(model, Learner):
        lacks = [
            part
            for part in ("fit", "record")
            if getattr(getattr(model, part), "__func__", 0) is getattr(Learner, part)
        ]
        if not hasattr(model, "name"):
            lacks.append("name")
        if lacks:
            raise LearnerError(
                f"{type(model).__name__} lacks {listed(lacks)}: every learner has name, fit and "
                "record."
            )
        if encoder is not None:
            raise SettingError(
                f"{model.name} is a learner and does its own encoding; leave out encoder."
            )
        return model
    if not isinstance(model, MakesLearner):
        check_classifier(model)
    unset = _unset_seeds(model)
    if unset:
        model = clone(model).set_params(**dict.fromkeys(unset, random_state))
    if isinstance(model, MakesLearner):
        made: Learner = load(KINDS["mlp"])(model, encoder)
        return made
    return SklearnLearner(model, encoder, torch_seed)


def seed_note(model: Any, random_state: int) -> str | None:
    """A sentence if `as_learner` sets a seed, else None."""
    unset = [] if isinstance(model, Learner) else _unset_seeds(model)
    if not unset:
        return None
    are = "are" if len(unset) > 1 else "is"
    return (
        f"{type(model).__name__} came without a fixed seed, so {listed(unset)} {are} set to "
        f"{random_state}, the audit's random_state."
    )


def _unset_seeds(model: Any) -> list[str]:
    """Names of the parameters `random_state` that are None, in an estimator and its parts."""
    return [name for name, value in model.get_params().items() if is_seed(name) and value is None]


def learner_of(record: dict[str, Any], model: Any = None, random_state: int = 0) -> Learner:
    """The learner that a record names, or that of a `model` given for a replay, with the record's
    encoder and seed. `random_state`: the audit's."""
    kind = record.get("kind")
    if kind == Ensemble.kind:
        learner = learner_of(record["learner"], model, random_state)
        if isinstance(learner, Ensemble):
            return learner
        return Ensemble(learner, int(record["members"]))
    if model is not None:
        if isinstance(model, (MakesLearner, Learner)) or kind != SklearnLearner.kind:
            return as_learner(model, random_state=random_state)
        return as_learner(model, rebuild(record["encoder"]), random_state, record["torch_seed"])
    if kind not in KINDS:
        raise ReplayError(
            f"The record's learner is of kind '{kind}', which a record cannot restore; replay it "
            "with the learner itself (in Python replay(..., model=...))."
        )
    restored: Learner = load(KINDS[kind]).from_record(record)
    return restored
