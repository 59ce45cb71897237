"""Turns a threshold into the cut of a table: a score from which a label is decided, or a number of places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from butfor.errors import SettingError
from butfor.models.capabilities import Scored
from butfor.models.learner import Learner, Table
from butfor.models.threshold import Cut, Threshold
from butfor.validate import as_table, like_training


def pool_of(table: Table, given: Any, also_labelled: Sequence[Any]) -> pd.DataFrame | None:
    """The rows that compete for places, or whose acceptance is reported: as given, else `also_labelled`."""
    found = given if given is not None else also_labelled[0] if len(also_labelled) else None
    return None if found is None else like_training(as_table(found), table.X)


def cut_of(
    threshold: Threshold, learner: Learner, table: Table, adverse: int | None, pool: pd.DataFrame | None
) -> Cut | None:
    """The cut: the user's or, at one half, the model's own."""
    own, given = learner if isinstance(learner, Scored) else None, f"threshold={threshold.given!r}"
    if threshold.usual:
        return None if own is None else own.cut(table)
    if own is not None and own.has_threshold:
        raise SettingError(f"{given}: the model has its own threshold; leave out one of them.")
    if table.multiclass:
        raise SettingError(
            f"{given}: with {len(table.classes)} labels the one with the highest score wins; leave threshold out, or "
            "group the labels into two."
        )
    by_probability = own is None or own.has_probabilities
    label = 1 if adverse is None else 1 - adverse
    if threshold.share is not None:
        return Cut(label, by_probability=by_probability, places=_places(threshold.share, given, pool), pool=pool)
    if not by_probability:
        raise SettingError(
            f"{given}: {learner.name} gives no probabilities. Give a share of people instead, such as "
            "threshold='top 20%', or wrap the model in sklearn.calibration.CalibratedClassifierCV."
        )
    assert threshold.probability is not None
    return Cut(label, threshold.probability)


def _places(share: float, given: str, pool: pd.DataFrame | None) -> int:
    """The number of places in the pool."""
    if pool is None:
        raise SettingError(
            f"{given}: name the people who compete for the places, and whom the model is not trained on: "
            "fit(…, pool=X_test) or also_labelled=(X_test, y_test)."
        )
    people = share * len(pool) + 1e-9  # a share is seldom an exact float
    places = math.floor(people + 0.5)
    if people < 1 or places == len(pool):
        who = "nobody" if people < 1 else "everybody"
        raise SettingError(f"{given} of {len(pool)} people is {who}: give another share, or more people.")
    return places
