"""Population: the verdicts about many people, and what they say together."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, overload

import pandas as pd

from butfor.errors import ReplayError
from butfor.result.record import SCHEMA_VERSION, check_schema, percent, plain, read_record, written
from butfor.result.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL_GROUP = 10
GROUP_COLUMNS = ["people", "eligible", "found", "share", "low", "high", "share_robust", "median_margin"]


class Population(Sequence[Verdict]):
    """The verdicts about many people, in the order asked for, and what they say together.

    A sequence: `population[3]` is the fourth verdict. The verdict about the person at position 182 of the table is
    `population.about(182)`."""

    def __init__(self, verdicts: Sequence[Verdict], run: dict[str, Any], interrupted: bool = False) -> None:
        self.verdicts = tuple(verdicts)
        self.run = run
        self.interrupted = interrupted

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    @overload
    def __getitem__(self, place: int) -> Verdict: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Verdict]: ...

    def __getitem__(self, place: int | slice) -> Verdict | Sequence[Verdict]:
        if isinstance(place, int) and not -len(self) <= place < len(self):
            raise IndexError(f"There is no verdict {place}: there are {len(self)}, numbered from 0.")
        return self.verdicts[place]

    def about(self, case: int) -> Verdict:
        """The verdict about the person at position `case` of the table."""
        for verdict in self.verdicts:
            if verdict.case == case:
                return verdict
        raise KeyError(f"There is no verdict about person {case} among these {len(self)}.")

    def __repr__(self) -> str:
        return self.sentence

    @property
    def eligible(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.status != "not_eligible"]

    @property
    def found(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.found]

    @property
    def robust(self) -> list[Verdict]:
        """Those found whose effect is larger than seed noise (or was not put to that test)."""
        return [v for v in self.found if not v.fragile]

    @property
    def one_shot(self) -> int:
        """How many were found at their own first attempt."""
        return sum(v.attempts == 1 and not v.shared for v in self.found)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.eligible:
            return f"None of the {len(self)} people asked about is eligible (φ: {self.run['phi']})."
        share = percent(len(self.found) / len(self.eligible))
        return (
            f"{len(self.found)} of {len(self.eligible)} eligible people ({share}) have a counterfactual dataset of at "
            f"most {self.verdicts[0].budget} of {self.verdicts[0].training_rows} training labels."
        )

    @property
    def details(self) -> str:
        """What it took, in one sentence."""
        sizes = [v.flippable for v in self.eligible] or [0]
        return (
            f"{len(self)} people asked about; {min(sizes)} to {max(sizes)} flippable labels each; {self.one_shot} "
            f"found at the first attempt, {sum(v.shared for v in self.found)} with a model trained for another; "
            f"{self.run.get('retrainings', 0)} retrainings.{self._noise}"
        )

    @property
    def proven(self) -> str:
        """What is proven from the other side, in a sentence; empty where nothing is."""
        known = [v for v in self.eligible if v.proof and v.at_least is not None]
        if not known:
            return ""
        exact, none = sum(v.exact for v in known), sum(v.status == "proven_none" for v in known)
        smallest = f"{exact} of the sets found are the smallest there are"
        return f"Proven: {smallest}; for {none} people there is none within the budget."

    @property
    def _noise(self) -> str:
        controlled = [v for v in self.found if v.control]
        if not controlled:
            return ""
        fragile = sum(bool(v.fragile) for v in controlled)
        return f" {fragile} of the {len(controlled)} found are fragile: no larger than the noise of other seeds."

    def to_frame(self) -> pd.DataFrame:
        """One row per person."""
        rows = [
            {
                "case": v.case,
                "row": v.row,
                "group": v.group,
                "status": v.status,
                "prediction": v.prediction,
                "logit": v.logit,
                "counterfactual_prediction": v.counterfactual_prediction,
                "counterfactual_logit": v.counterfactual_logit,
                "flips": len(v.positions) if v.found else None,
                "at_least": v.at_least,
                "proof": v.proof,
                "flipped_rows": " ".join(str(label) for label in v.flips.index),
                "minimal": v.minimal,
                "fragile": v.fragile,
                "attempts": v.attempts,
                "flippable": v.flippable,
                "closest_logit": v.closest_logit,
                "confirmed": v.confirmed,
                "shared": v.shared,
                "complete": v.complete,
            }
            for v in self.verdicts
        ]
        return pd.DataFrame(rows).astype({"flips": "Int64", "at_least": "Int64"})

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """Per protected group: people, eligible, found, the share found and its 95 % (Wilson) interval, the share
        without the fragile ones, and the median distance of eligible people from the decision boundary."""
        rows = {}
        for group in sorted({v.group for v in self.verdicts}, key=lambda g: (type(g).__name__, g)):
            members = [v for v in self.verdicts if v.group == group]
            eligible = [v for v in members if v.status != "not_eligible"]
            found = [v for v in eligible if v.found]
            low, high = wilson(len(found), len(eligible))
            n = len(eligible) or math.nan
            rows[group] = {
                "people": len(members),
                "eligible": len(eligible),
                "found": len(found),
                "share": len(found) / n,
                "low": low,
                "high": high,
                "share_robust": sum(not v.fragile for v in found) / n,
                "median_margin": median(abs(v.logit) for v in eligible) if eligible else math.nan,
            }
        frame = pd.DataFrame.from_dict(rows, orient="index") if rows else pd.DataFrame(columns=GROUP_COLUMNS)
        return frame.rename_axis(self.verdicts[0].sensitive if self.verdicts else "group")

    @property
    def warnings(self) -> list[str]:
        """What to keep in mind when groups are compared."""
        small = [str(group) for group, row in self.by_group.iterrows() if row["eligible"] < SMALL_GROUP]
        few = f"has fewer than {SMALL_GROUP} eligible people: its share says very little."
        return [f"Group '{group}' {few}" for group in small]

    def difference(self) -> float:
        """The largest difference between two groups' shares."""
        return float(self.by_group["share"].max() - self.by_group["share"].min())

    def ratio(self) -> float:
        """The smallest group share divided by the largest; 1 where all are equal."""
        low, high = self.by_group["share"].min(), self.by_group["share"].max()
        return 1.0 if low == high else float(low / high)

    @cached_property
    def keystones(self) -> pd.DataFrame:
        """Training rows by how many people's flip sets they are in: the labels to review first."""
        people: dict[int, list[int | None]] = {}
        rows: dict[int, tuple[Any, pd.Series]] = {}
        for verdict in self.found:
            for position, (label, values) in zip(verdict.positions, verdict.flips.iterrows(), strict=True):
                people.setdefault(position, []).append(verdict.case)
                rows[position] = (label, values)
        if not rows:
            columns = ["people", "cases", *(self.verdicts[0].flips.columns if self.verdicts else [])]
            return pd.DataFrame(columns=columns).rename_axis("row")
        frame = pd.DataFrame([values for _, values in rows.values()], index=[label for label, _ in rows.values()])
        frame.insert(0, "people", [len(cases) for cases in people.values()])
        frame.insert(1, "cases", [" ".join(map(str, cases)) for cases in people.values()])
        return frame.sort_values("people", ascending=False, kind="stable").rename_axis("row")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "sentence": self.sentence,
            "asked": len(self),
            "eligible": len(self.eligible),
            "found": len(self.found),
            "one_shot": self.one_shot,
            "robust": len(self.robust),
            "warnings": self.warnings,
            "interrupted": self.interrupted,
            "by_group": [
                {"group": plain(group)} | {k: plain(v) for k, v in values.items()}
                for group, values in self.by_group.iterrows()
            ],
            "people": [v.to_dict() for v in self.verdicts],
            "run": self.run,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """All records as one JSON text, also written to `path` where one is given."""
        return written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    @classmethod
    def from_json(cls, text: str | Path) -> Population:
        """A population from its JSON text, or from the file that a path names."""
        record = read_record(text)
        check_schema(record)
        if "people" not in record:
            raise ReplayError("This is the record of one person; read it with Verdict.from_json.")
        return cls([Verdict.from_dict(p) for p in record["people"]], record["run"], record["interrupted"])

    def plot(self) -> Figure:
        """The share found per group, with intervals."""
        from butfor.report.charts import group_shares

        return group_shares(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The self-contained report page, also written to `path` where one is given."""
        from butfor.report.page import population_page

        return written(population_page(self), path)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.sentence)}</p>{self.by_group.to_html(float_format='{:.3f}'.format)}"


def wilson(found: int, n: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; everything is possible where n is 0."""
    if n == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest

    interval = binomtest(found, n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
