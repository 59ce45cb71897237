"""Makes learners from a user's model or from a record, and checks them in a first training."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from butfor.decide import USUAL, Decision, parse_threshold, places_of
from butfor.errors import LearnerError, ReplayError, SettingError, listed
from butfor.machine import load, single_threaded
from butfor.models import describe
from butfor.models.ensemble import Ensemble
from butfor.models.learner import Learner, MakesLearner, Model, Table
from butfor.models.sklearn import SklearnLearner, check_classifier, is_seed

KINDS = {"sklearn": "butfor.models.sklearn:SklearnLearner", "mlp": "butfor.models.network:MLPLearner"}
"""Kinds of learners that a record can restore, and their classes."""
OTHER_SEED = 40_961
"""A seed that users are unlikely to choose."""
SMALL = 2**18
"""The largest table, in values, for which threads do not speed up a training."""


def as_learner(model: Any, encoder: Any = None, random_state: int = 0) -> Learner:
    """A learner from our MLP or any scikit-learn classifier; a user's `Learner` unchanged. Every `random_state` that is
    None is set: see `seed_note`."""
    if isinstance(model, MakesLearner):
        made: Learner = load(model.made_by)(_with_seeds(model, random_state), encoder)
        return made
    if not isinstance(model, Learner):
        check_classifier(model)
        return SklearnLearner(_with_seeds(model, random_state), encoder)
    if encoder is not None:
        raise SettingError(f"{model.name} is a learner and does its own encoding; leave out encoder.")
    return model


def seed_note(model: Any, random_state: int) -> str | None:
    """A sentence if `as_learner` sets a seed, else None."""
    unset = [] if isinstance(model, Learner) else _unset_seeds(model)
    if not unset:
        return None
    set_to = f"{'are' if len(unset) > 1 else 'is'} set to {random_state}, the audit's random_state"
    return f"{type(model).__name__} came without a fixed seed, so {listed(unset)} {set_to}."


def _with_seeds(model: Any, random_state: int) -> Any:
    unset = _unset_seeds(model)
    return clone(model).set_params(**dict.fromkeys(unset, random_state)) if unset else model


def _unset_seeds(model: Any) -> list[str]:
    """Names of the parameters `random_state` that are None, in an estimator and its parts."""
    return [name for name, value in model.get_params().items() if is_seed(name) and value is None]


def learner_of(record: dict[str, Any]) -> Learner:
    """The learner that a record names."""
    kind = record.get("kind")
    if kind == Ensemble.kind:
        return Ensemble(learner_of(record["learner"]), int(record["members"]))
    if kind not in KINDS:
        raise ReplayError(
            f"The record's learner is of kind '{kind}', which a record cannot restore; replay it with the learner "
            "itself (in Python replay(..., model=...))."
        )
    learner: Learner = load(KINDS[kind]).from_record(record)
    return learner


def learner_for_replay(model: Any, record: dict[str, Any], random_state: int = 0) -> Learner:
    """A learner from a model given for a replay, with the record's encoder and seed. `random_state`: the audit's."""
    if record.get("kind") == Ensemble.kind:
        learner = learner_for_replay(model, record["learner"], random_state)
        return learner if isinstance(learner, Ensemble) else Ensemble(learner, int(record["members"]))
    if isinstance(model, (MakesLearner, Learner)) or record.get("kind") != SklearnLearner.kind:
        return as_learner(model, random_state=random_state)
    check_classifier(model)
    encoder = describe.rebuild(record["encoder"])
    return SklearnLearner(_with_seeds(model, random_state), encoder, record["torch_seed"])


def decision_of(
    threshold: Any, learner: Learner, table: Table, adverse: int | None, pool: pd.DataFrame | None
) -> Decision:
    """The decision by a user's threshold or, at one half, the model's own. `adverse`: the label by number that people
    would rather not have; the other one is decided on and above the threshold."""
    probability, share = parse_threshold(threshold)
    given = probability if share is None else f"top {100 * share:g}%"
    named = f"threshold={given!r}"
    if probability == USUAL:
        return learner.own_cut(table) or Decision()
    if learner.has_threshold:
        raise SettingError(f"{named}: the model has its own threshold; leave out one of them.")
    if table.multiclass:
        raise SettingError(
            f"{named}: with {len(table.classes)} labels the one with the highest score wins; leave threshold out, or "
            "group the labels into two."
        )
    label = 1 if adverse is None else 1 - adverse
    if share is not None:
        return Decision(given, label, None, learner.has_probabilities, places_of(share, named, pool), pool)
    if not learner.has_probabilities:
        raise SettingError(
            f"{named}: {learner.name} gives no probabilities. Give a share of people instead, such as "
            "threshold='top 20%', or wrap the model in sklearn.calibration.CalibratedClassifierCV."
        )
    return Decision(given, label, probability)


def few_threads(table: Table) -> AbstractContextManager[object]:
    """One thread for a small table: on a busy machine the threads of a small training wait for each other."""
    return single_threaded() if table.X.size <= SMALL else nullcontext()


def first_model(learner: Learner, table: Table) -> tuple[Model, float]:
    """f, and the seconds of its training. A learner that is not known to be reproducible is trained twice: if its
    answers differ, it cannot be audited."""
    if learner.reproducible:
        learner.warm_up(table)
    started = time.perf_counter()
    model = learner.fit(table, table.labels())
    if not isinstance(model, Model):
        raise LearnerError(
            f"The fit of {learner.name} returned a {type(model).__name__}; it must return a butfor.Model."
        )
    logits = table.answers(model, table.X)
    if np.shape(logits) != (table.n * table.outputs,):
        wanted = f"{table.outputs} scores for each" if table.multiclass else "a logit for each"
        raise LearnerError(f"{learner.name} gave answers of shape {np.shape(logits)} for {table.n} rows, not {wanted}.")
    if not np.isfinite(logits).all():
        raise LearnerError(f"Training of {learner.name} diverged: its logits are not finite numbers.")
    if learner.reproducible:
        return model, time.perf_counter() - started
    again = table.answers(learner.fit(table, table.labels()), table.X)
    if not np.array_equal(logits, again):
        raise LearnerError(
            f"{learner.name} gives different models when fitted twice on the same data, so the effect of a flip cannot "
            "be told from noise. Fix its seed (random_state=0) or other sources of randomness."
        )
    return model, (time.perf_counter() - started) / 2


def seed_matters(learner: Learner, table: Table, model: Model) -> bool:
    """Whether another seed gives another model. Many estimators have a random_state without effect."""
    if not learner.seeded or learner.reproducible:
        return learner.seeded
    other = learner.reseeded(OTHER_SEED).fit(table, table.labels())
    before, after = (table.answers(each, table.X) for each in (model, other))
    return not np.array_equal(before, after)
