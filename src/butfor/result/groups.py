"""How good the model is, for each group and for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import Concern
from butfor.words import percent

MAJORITY = "majority"
Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class GroupRates:
    """Of a group's people, the share labelled `positive`, the share decided so, and error rates: of all, of those
    labelled negative, of those labelled positive. None if there are no such people, or no label is `positive`."""

    group: str
    people: int
    base_rate: float | None
    selection_rate: float | None
    error_rate: float | None
    false_positive_rate: float | None
    false_negative_rate: float | None


@dataclass(frozen=True)
class Performance:
    """Accuracy on the `people` whose labels are known, the accuracy of always predicting the `commonest` training
    label, and each group's rates."""

    people: int
    accuracy: float
    majority: float
    positive: str
    sensitive: str
    by_group: tuple[GroupRates, ...]
    commonest: str = ""

    @classmethod
    def of(
        cls,
        groups: pd.Series,
        truth: Codes,
        decided: Codes,
        commonest: int,
        names: Sequence[str],
        sides: Callable[[Codes], Mask],
        positive: str | None,
        order: Sequence[Any],
    ) -> Performance:
        """From people's groups, their labels and decisions by number, the commonest training label and the labels'
        names. `sides` says which labels count as `positive`, if any. `order`: the order of the groups."""

        def share(hits: Mask) -> float | None:
            return float(hits.mean()) if len(hits) else None

        rates = []
        for group in map(str, order):
            ours = (groups.astype(str) == group).to_numpy()
            label, said, wrong = sides(truth)[ours], sides(decided)[ours], (truth != decided)[ours]
            errors = share(wrong), share(said[~label]), share(~said[label])
            known = (
                (share(label), share(said), *errors) if positive is not None else (None, None, errors[0], None, None)
            )
            rates.append(GroupRates(group, int(ours.sum()), *known))
        return cls(
            people=len(truth),
            accuracy=float((truth == decided).mean()),
            majority=float((truth == commonest).mean()),
            positive=positive or "",
            sensitive=str(groups.name),
            by_group=tuple(rates),
            commonest=names[commonest],
        )

    @property
    def rates(self) -> pd.DataFrame:
        """One row per group."""
        return (
            pd.DataFrame([asdict(each) for each in self.by_group])
            .set_index("group")
            .rename_axis(self.sensitive)
            .astype(float)
            .astype({"people": int})
        )

    @property
    def sentence(self) -> str:
        return (
            f"Accuracy: {percent(self.accuracy)} on {self.people} test people (always predicting '{self.commonest}': "
            f"{percent(self.majority)})."
        )

    @property
    def concern(self) -> Concern | None:
        """A warning if the model is no better than the commonest label."""
        if self.accuracy > self.majority:
            return None
        return Concern(
            MAJORITY,
            (),
            f"The model is no more accurate ({percent(self.accuracy)}) than always predicting '{self.commonest}' "
            f"({percent(self.majority)}), so what changes its decisions says little about the labels.",
        )
