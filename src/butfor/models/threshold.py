"""The decision by a user's threshold, for a learner."""

from __future__ import annotations

from typing import Any

import pandas as pd

from butfor.models.seam import Learner
from butfor.support.errors import SettingError
from butfor.table.decisions import USUAL, Decision, parse_threshold
from butfor.table.table import Table


def decision_of(
    threshold: Any, learner: Learner, table: Table, adverse: int | None, pool: pd.DataFrame | None
) -> Decision:
    """The decision by a user's threshold; at one half, the model's own. `adverse`: the label by
    number that people would rather not have; the other one is decided on and above the
    threshold."""
    probability, share = parse_threshold(threshold)
    setting: Any = probability
    if share is not None:
        setting = f"top {100 * share:g}%"
    named = f"threshold={setting!r}"
    if probability == USUAL:
        return Decision()
    if table.multiclass:
        raise SettingError(
            f"{named}: with {len(table.classes)} labels the one with the highest score wins; "
            "leave threshold out, or group the labels into two."
        )
    label = 1 if adverse is None else 1 - adverse
    if share is None and not learner.has_probabilities:
        raise SettingError(
            f"{named}: {learner.name} gives no probabilities. Give a share of people instead, "
            "such as threshold='top 20%', or wrap the model in "
            "sklearn.calibration.CalibratedClassifierCV."
        )
    if share is None:
        return Decision(setting, label, probability)
    if pool is None:
        raise SettingError(
            f"{named}: name the people who compete for the places, and whom the model is not "
            "trained on: fit(…, pool=X_test) or also_labelled=(X_test, y_test)."
        )
    decision = Decision(setting, label, None, learner.has_probabilities, share, pool)
    if decision.places in (0, len(pool)):
        who = "everybody" if decision.places else "nobody"
        raise SettingError(
            f"{named} of {len(pool)} people is {who}: give another share, or more people."
        )
    return decision
