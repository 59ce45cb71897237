"""How good the audited model is where labels are known: against the commoner label, and per group (fairlearn)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import Concern
from butfor.result.record import percent, plain

ZeroOne = NDArray[np.integer[Any]]
Codes = NDArray[np.int64]
RATES = ["base_rate", "selection_rate", "error_rate", "false_positive_rate", "false_negative_rate"]


@dataclass(frozen=True, eq=False)
class Performance:
    """Of `people` with known labels: the share decided rightly, and that of the commoner training label alone.

    `rates`: per group the people, the share labelled and the share decided `positive`, the share decided wrongly, and
    of those labelled otherwise and labelled `positive` the share decided wrongly (missing where nobody is)."""

    people: int
    accuracy: float
    majority: float
    positive: str
    rates: pd.DataFrame

    @classmethod
    def of(
        cls,
        groups: pd.Series,
        truth: Codes,
        decided: Codes,
        commoner: int,
        sides: Callable[[Codes], NDArray[np.bool_]],
        positive: str | None,
        order: Sequence[Any],
    ) -> Performance:
        """From people's groups, their labels and decisions by number, and the commonest label of the training rows.
        `sides` says which of them count as `positive`; where that is None, none do. `order`: how the groups are
        listed."""
        rates = _rates(groups, *(sides(codes).astype(np.int64) for codes in (truth, decided)))
        rates["error_rate"] = pd.Series(truth != decided).groupby(groups.astype(str).to_numpy()).mean()
        if positive is None:
            rates[[name for name in RATES if name != "error_rate"]] = np.nan
        return cls(
            people=len(truth),
            accuracy=float((truth == decided).mean()),
            majority=float((truth == commoner).mean()),
            positive=positive or "",
            rates=rates.loc[list(map(str, order))].rename_axis(str(groups.name)),
        )

    @property
    def sentence(self) -> str:
        return (
            f"The model decides rightly about {percent(self.accuracy)} of {self.people} people whose label is known; "
            f"always the commoner label would about {percent(self.majority)}."
        )

    @property
    def concern(self) -> Concern | None:
        """That the model is no better than the commoner label, where it is not."""
        if self.accuracy > self.majority:
            return None
        return Concern(
            "majority",
            (),
            f"The model is right about {percent(self.accuracy)} of {self.people} people, no more than the commoner "
            f"label alone ({percent(self.majority)}): what turns its decisions says little about the labels.",
        )

    def to_dict(self) -> dict[str, Any]:
        rows = [
            {"group": plain(group)} | {column: plain(value) for column, value in row.items()}
            for group, row in self.rates.astype(object).iterrows()
        ]
        shares = {"people": self.people, "accuracy": self.accuracy, "majority": self.majority}
        return shares | {"positive": self.positive, "sensitive": str(self.rates.index.name), "by_group": rows}

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Performance:
        rates = pd.DataFrame(record["by_group"]).set_index("group").rename_axis(record["sensitive"])
        rates = rates.astype(dict.fromkeys(RATES, np.float64))
        return cls(record["people"], record["accuracy"], record["majority"], record["positive"], rates)


def _rates(groups: pd.Series, truth: ZeroOne, decided: ZeroOne) -> pd.DataFrame:
    from fairlearn.metrics import MetricFrame, false_negative_rate, false_positive_rate, selection_rate

    frame = MetricFrame(
        metrics={
            "people": lambda true, said: len(true),
            "base_rate": lambda true, said: np.mean(true),
            "selection_rate": selection_rate,
            "error_rate": lambda true, said: np.mean(np.asarray(true) != np.asarray(said)),
            "false_positive_rate": false_positive_rate,
            "false_negative_rate": false_negative_rate,
        },
        y_true=truth,
        y_pred=decided,
        sensitive_features=groups.astype(str),
    ).by_group
    # fairlearn calls the share of nobody 0.
    frame["false_positive_rate"] = frame["false_positive_rate"].where(frame["base_rate"] < 1)
    frame["false_negative_rate"] = frame["false_negative_rate"].where(frame["base_rate"] > 0)
    return frame.astype({"people": np.int64} | dict.fromkeys(RATES, np.float64))
