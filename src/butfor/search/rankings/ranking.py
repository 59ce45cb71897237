"""What a ranking is; its scores checked, and averaged over the members of an ensemble."""

from __future__ import annotations

import inspect
import math
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.abilities import Inputs, ability_named
from butfor.models.seam import (
    Engine,
    Model,
    Numbers,
    flip_direction,
)
from butfor.support.errors import SettingError
from butfor.table.encoding import Asked
from butfor.table.table import Table

Scores = NDArray[np.floating[Any]]


class Ranking:
    """`name` and `score` are required. A user's own class need not derive from this one:
    `as_ranking` takes any object with `score`. What else a ranking can do are optional methods,
    None where there is none:

    `score_at(model, table, people, flips)`
        Scores after each person's own `flips`.
    `trial(retrain, model, table, people, psi, budget)`
        Learn from a few retrainings, at most `trial_sets(people)`; returns figures for the record.
        `retrain`: flip sets → logits of the people under the models trained on them, `[sets ×
        people]`.
    `predictions(model, table, people)`
        Each label's effect on each person in logits, `[people × n]`; None if it cannot be
        believed."""

    name: str
    needs = "any model"
    """The models it accepts, in words."""
    asks: type[Any] | str | None = None
    """What a model must be able to tell: a protocol of `butfor.models.abilities`, or the name of
    its method."""
    predicts = False
    """Scores are predictions in logits, which can be compared with retraining."""
    signed = False
    """Scores count away from the model's own decision."""
    is_random = False
    """Pure chance: attempts are independent draws, not prefixes of one order."""
    rebuildable = True
    """Whether a record can restore it from its name and parameters."""
    gain_limit = math.inf
    """How many times the gain of a person's best set by `predictions` another set may have, if
    known."""
    score_at: Any = None
    trial: Any = None
    trial_sets: Any = None
    predictions: Any = None

    def accepts(self, model: Model) -> bool:
        if self.asks is None:
            return True
        asked = ability_named(self.asks) if isinstance(self.asks, str) else self.asks
        return model.ability(asked) is not None

    def averages(self, model: Model) -> bool:
        """Whether the model is an ensemble of which it accepts only the members, one by one."""
        return len(model.members) > 1 and not self.accepts(model)

    def ranks(self, model: Model) -> bool:
        """Whether it accepts the model, or each of its members."""
        return all(map(self.accepts, model.members if self.averages(model) else [model]))

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        """`[people × training rows]`, higher = flip first."""
        raise NotImplementedError

    def train_on(self, engine: Engine) -> None:
        """Called before `score`: the engine on which a ranking that trains models should train."""


def checked_scores(ranking: Ranking, model: Model, table: Table, people: pd.DataFrame) -> Scores:
    """The scores; an error if they cannot be sorted. Of an ensemble whose members are ranked one by
    one, the mean: one member's scores depend on its seed, their mean is about the labels."""
    shape = len(people), table.n
    if not ranking.averages(model):
        scores = np.asarray(ranking.score(model, table, people))
    else:
        scores = np.zeros(shape)
        direction = flip_direction(model.logits(people))
        with Asked(people, table.X).unchanged():
            for member in model.members:
                by_member = checked_scores(ranking, member, table, people)
                # A member that disagrees with the ensemble counts the other way, so that all count
                # away from its decision.
                towards = flip_direction(member.logits(people)) * direction
                scores += by_member * towards[:, None] if ranking.signed else by_member
        scores /= len(model.members)
    problem = ""
    if scores.shape != shape:
        problem = (
            f"scores of shape {scores.shape}; expected one row per person and one column per "
            f"training row {shape}"
        )
    elif scores.dtype.kind not in "fiub":
        problem = f"scores that are no numbers ({scores.dtype})"
    elif not np.isfinite(scores).all():
        person, row = np.argwhere(~np.isfinite(scores))[0]
        problem = (
            f"{scores[person, row]} for person {person} and training row {row}; every score must "
            "be finite"
        )
    if problem:
        raise SettingError(f"Ranking '{ranking.name}' returned {problem}.")
    return scores


def percentile(scores: Scores) -> NDArray[np.float64]:
    """The share of rows with a lower score, `[people × n]`; equal scores share their mean rank."""
    from scipy.stats import rankdata

    return (rankdata(scores, axis=1) - 1) / max(1, scores.shape[1] - 1)


def numbers_of(model: Model, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """Training rows `[n × d]` and people `[people × d]` as the model sees them. If it does not say,
    the table is encoded here: numbers scaled, missing ones at the mean, categories one-hot, unseen
    ones all 0."""
    inputs = model.ability(Inputs)
    if inputs is not None:
        rows = inputs.encoded(table.X)
        asked = inputs.encoded(people)
        if rows is not None and asked is not None:
            return rows, asked
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [c for c in table.X.columns if pd.api.types.is_numeric_dtype(table.X[c].dtype)]
    others = [c for c in table.X.columns if c not in numeric]
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numeric),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), others),
    ).fit(table.X)
    rows = np.asarray(encoder.transform(table.X), np.float64)
    asked = np.asarray(encoder.transform(people), np.float64)
    return rows, asked


def check_above_zero(**given: Any) -> None:
    """Raise an error about a parameter that is no number above 0."""
    for name, value in given.items():
        if not isinstance(value, Real) or not 0 < float(value) < math.inf:
            raise SettingError(f"{name}={value!r} must be a number above 0.")


def parameters(ranking: Ranking) -> dict[str, Any]:
    """The constructor's arguments by name, for the record; other rankings among them by their
    own."""

    def recorded(value: Any) -> Any:
        if isinstance(value, Ranking):
            return {"name": value.name} | parameters(value)
        if isinstance(value, list):
            return list(map(recorded, value))
        if isinstance(value, dict):
            return {name: recorded(item) for name, item in value.items()}
        return value

    names = inspect.signature(type(ranking)).parameters
    return {name: recorded(getattr(ranking, name)) for name in names if hasattr(ranking, name)}
