"""What an audit says: `Verdict` about one person, `Population` about many.

Found, not found and not eligible are three different results. "Not found" never means fair: it means
that this search, with this budget, found nothing.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from butfor.errors import ReplayError, SettingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from butfor.replay import Replay

SCHEMA_VERSION = 1
BEFORE, AFTER = "label before", "label after"


@dataclass(frozen=True, eq=False)
class Training:
    """The training rows as given, kept with a verdict so that D' can be handed out."""

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series]


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer about one person. Printing it gives the answer in one sentence."""

    status: str
    """"found", "not_found" or "not_eligible"."""
    case: int | None
    """The person's position in the table that was asked about; None for a person given alone."""
    row: Any
    """The person's index label, for the published sets its position in the source file."""
    person: pd.Series
    group: Any
    sensitive: str
    prediction: str
    logit: float
    counterfactual_prediction: str | None
    counterfactual_logit: float | None
    flips: pd.DataFrame
    """The training rows to flip, as given, after their label before and after."""
    positions: tuple[int, ...]
    """The positions of `flips` among the training rows."""
    training_rows: int
    budget: int
    flippable: int
    """How many training labels ψ allows to flip for this person."""
    attempts: int
    """Flip sets tried for this person, up to the success."""
    shared: bool
    """Found with a network that was trained for somebody else."""
    complete: bool
    """False where the search was stopped before its protocol was through."""
    confirmed: bool
    rank: str
    protocol: str
    closest_logit: float | None
    """The logit nearest to the other decision that any tried network gave."""
    course: tuple[tuple[int, float], ...]
    """Per attempt: how many labels were flipped, and the person's logit."""
    reason: str
    run: dict[str, Any]
    training: Training | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return self.sentence

    @property
    def found(self) -> bool:
        return self.status == "found"

    @property
    def who(self) -> str:
        """The person in words."""
        return f"person {self.case}" if self.case is not None else f"the person of row {self.row}"

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        who = self.who
        if self.status == "found":
            k = len(self.positions)
            return (
                f"Flipping {k} of {self.training_rows} training labels ({_percent(k / self.training_rows)}) turns "
                f"'{self.prediction}' into '{self.counterfactual_prediction}' for {who} (logit "
                f"{signed(self.logit)} → {signed(self.counterfactual_logit or 0.0)}, confirmed by retraining)."
            )
        if self.status == "not_eligible":
            return f"{who[0].upper()}{who[1:]} was not audited: {self.reason}"
        closest = "" if self.closest_logit is None else f", the closest logit being {signed(self.closest_logit)}"
        return (
            f"No counterfactual dataset found for {who}: still '{self.prediction}' (logit {signed(self.logit)}) "
            f"after {self.attempts} attempt{'s' * (self.attempts != 1)} at flipping up to {self.budget} of "
            f"{self.training_rows} training labels{closest}. {self.reason}"
        ).strip()

    def dataset(self) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the training rows as given and the labels with the flips made."""
        training = self.training or self._reloaded()
        X, y = training.X, training.y.copy()
        if self.positions:
            values = list(pd.unique(y.astype(object)))
            before = y.iloc[list(self.positions)]
            y.iloc[list(self.positions)] = [values[0] if v == values[1] else values[1] for v in before]
        return X, y

    def replay(self) -> Replay:
        """Train again from the record alone, with the reference, and compare."""
        from butfor.replay import replay

        return replay(self.to_dict(), training=self.training)

    def to_dict(self) -> dict[str, Any]:
        """The record: everything needed to read the verdict and to run it again."""
        return {
            "schema_version": SCHEMA_VERSION,
            "table": self.run.get("data", {}).get("table"),
            "case": self.case,
            "row": plain(self.row),
            "status": self.status,
            "prediction": self.prediction,
            "counterfactual_prediction": self.counterfactual_prediction,
            "logit": self.logit,
            "counterfactual_logit": self.counterfactual_logit,
            "flips": [
                {
                    "row": plain(label),
                    "position": position,
                    "label_before": plain(values[BEFORE]),
                    "label_after": plain(values[AFTER]),
                    "values": {str(k): plain(v) for k, v in values.items() if k not in (BEFORE, AFTER)},
                }
                for (label, values), position in zip(self.flips.iterrows(), self.positions, strict=True)
            ],
            "budget": self.budget,
            "attempts": self.attempts,
            "confirmed": self.confirmed,
            "rank": self.rank,
            "protocol": self.protocol,
            "closest_logit": self.closest_logit,
            "flippable": self.flippable,
            "training_rows": self.training_rows,
            "shared": self.shared,
            "complete": self.complete,
            "reason": self.reason,
            "sensitive": self.sensitive,
            "group": plain(self.group),
            "person": {str(k): plain(v) for k, v in self.person.items()},
            "course": [[k, round(logit, 5)] for k, logit in self.course],
            "run": self.run,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The record as JSON text, also written to `path` where one is given."""
        return _written(json.dumps(self.to_dict(), indent=2, ensure_ascii=False), path)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Verdict:
        check_schema(record)
        rows = [{BEFORE: f["label_before"], AFTER: f["label_after"]} | f["values"] for f in record["flips"]]
        columns = [BEFORE, AFTER, *record["person"]]
        return cls(
            status=record["status"],
            case=record["case"],
            row=record["row"],
            person=pd.Series(record["person"], dtype=object),
            group=record["group"],
            sensitive=record["sensitive"],
            prediction=record["prediction"],
            logit=record["logit"],
            counterfactual_prediction=record["counterfactual_prediction"],
            counterfactual_logit=record["counterfactual_logit"],
            flips=pd.DataFrame(rows, index=[f["row"] for f in record["flips"]], columns=columns),
            positions=tuple(f["position"] for f in record["flips"]),
            training_rows=record["training_rows"],
            budget=record["budget"],
            flippable=record["flippable"],
            attempts=record["attempts"],
            shared=record["shared"],
            complete=record["complete"],
            confirmed=record["confirmed"],
            rank=record["rank"],
            protocol=record["protocol"],
            closest_logit=record["closest_logit"],
            course=tuple((k, logit) for k, logit in record["course"]),
            reason=record["reason"],
            run=record["run"],
        )

    @classmethod
    def from_json(cls, text: str | Path) -> Verdict:
        """A verdict from its JSON text, or from the file that a path names."""
        return cls.from_dict(read_record(text))

    def plot(self) -> Figure:
        """Parallel coordinates: the person beside the flipped rows."""
        from butfor.report.charts import parallel_coordinates

        return parallel_coordinates(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The self-contained report page, also written to `path` where one is given."""
        from butfor.report.page import person_page

        return _written(person_page(self), path)

    def _repr_html_(self) -> str:
        from butfor.report.page import person_fragment

        return person_fragment(self)

    def _reloaded(self) -> Training:
        from butfor.replay import training_of

        return training_of(self.run)


class Population:
    """The verdicts about many people, and what they say together."""

    def __init__(self, verdicts: Sequence[Verdict], run: dict[str, Any], interrupted: bool = False) -> None:
        self.verdicts = tuple(verdicts)
        self.run = run
        self.interrupted = interrupted

    def __len__(self) -> int:
        return len(self.verdicts)

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __getitem__(self, case: int) -> Verdict:
        """The verdict about the person at position `case` of the rows that were asked about."""
        for verdict in self.verdicts:
            if verdict.case == case:
                return verdict
        raise SettingError(f"There is no verdict about person {case} among these {len(self)}.")

    def __repr__(self) -> str:
        return self.sentence

    @property
    def eligible(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.status != "not_eligible"]

    @property
    def found(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.found]

    @property
    def one_shot(self) -> int:
        """How many were found at their own first attempt."""
        return sum(v.attempts == 1 and not v.shared for v in self.found)

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if not self.eligible:
            return f"None of the {len(self)} people asked about is eligible (φ: {self.run['phi']})."
        share = _percent(len(self.found) / len(self.eligible))
        return (
            f"{len(self.found)} of {len(self.eligible)} eligible people ({share}) have a counterfactual dataset of at "
            f"most {self.verdicts[0].budget} of {self.verdicts[0].training_rows} training labels."
        )

    @property
    def details(self) -> str:
        """What it took, in one sentence."""
        sizes = [v.flippable for v in self.eligible] or [0]
        return (
            f"{len(self)} people asked about; {min(sizes)} to {max(sizes)} flippable labels each; {self.one_shot} found "
            f"at the first attempt, {sum(v.shared for v in self.found)} with a network trained for somebody else; "
            f"{self.run.get('retrainings', 0)} retrainings."
        )

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
                "flipped_rows": " ".join(str(label) for label in v.flips.index),
                "attempts": v.attempts,
                "flippable": v.flippable,
                "closest_logit": v.closest_logit,
                "confirmed": v.confirmed,
                "shared": v.shared,
                "complete": v.complete,
            }
            for v in self.verdicts
        ]
        return pd.DataFrame(rows).astype({"flips": "Int64"})

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """Per protected group: people, eligible, found, the share found, and its 95 % (Wilson) interval."""
        rows = {}
        for group in sorted({v.group for v in self.verdicts}, key=lambda g: (type(g).__name__, g)):
            members = [v for v in self.verdicts if v.group == group]
            eligible = [v for v in members if v.status != "not_eligible"]
            found = sum(v.found for v in eligible)
            low, high = wilson(found, len(eligible))
            share = found / len(eligible) if eligible else float("nan")
            rows[group] = {
                "people": len(members), "eligible": len(eligible), "found": found,
                "share": share, "low": low, "high": high,
            }  # fmt: skip
        columns = ["people", "eligible", "found", "share", "low", "high"]
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns if not rows else None)
        return frame.rename_axis(self.verdicts[0].sensitive if self.verdicts else "group")

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
        counts: dict[Any, list[int | None]] = {}
        rows: dict[Any, pd.Series] = {}
        for verdict in self.found:
            for label, values in verdict.flips.iterrows():
                counts.setdefault(label, []).append(verdict.case)
                rows[label] = values
        if not rows:
            columns = ["people", "cases", *(self.verdicts[0].flips.columns if self.verdicts else [])]
            return pd.DataFrame(columns=columns).rename_axis("row")
        frame = pd.DataFrame(rows).T
        frame.insert(0, "people", [len(counts[label]) for label in frame.index])
        frame.insert(1, "cases", [" ".join(map(str, counts[label])) for label in frame.index])
        return frame.sort_values("people", ascending=False, kind="stable").rename_axis("row")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION,
            "sentence": self.sentence,
            "asked": len(self),
            "eligible": len(self.eligible),
            "found": len(self.found),
            "one_shot": self.one_shot,
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
        return _written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

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

        return _written(population_page(self), path)

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.sentence)}</p>{self.by_group.to_html(float_format='{:.3f}'.format)}"


def read_record(text: str | Path) -> dict[str, Any]:
    """A record from JSON text or from the file that a path names; refused with a sentence otherwise."""
    where = "The text"
    if isinstance(text, Path) or not text.lstrip().startswith(("{", "[")):
        where = f"'{text}'"
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise ReplayError(f"{where} cannot be read ({error}); name a JSON file that butfor wrote.") from error
    try:
        record = json.loads(text)
    except json.JSONDecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}); name a JSON file that butfor wrote.") from error
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ReplayError(f"{where} is not a verdict: it has no schema_version. Name a JSON file that butfor wrote.")
    return record


def check_schema(record: dict[str, Any]) -> None:
    if record.get("schema_version") != SCHEMA_VERSION:
        raise ReplayError(
            f"The record has schema_version {record.get('schema_version')}; this version of butfor reads "
            f"{SCHEMA_VERSION}. Install the version named in its run block."
        )


def wilson(found: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; everything is possible where n is 0."""
    if n == 0:
        return 0.0, 1.0
    share, z2 = found / n, z * z
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def signed(logit: float) -> str:
    """A logit with its sign, to two decimals, more where it is very close to 0."""
    digits = 2 if abs(logit) >= 0.01 else 4
    return f"{logit:+.{digits}f}".replace("-", "−")


def plain(value: Any) -> Any:
    """A value as JSON knows it; a number that is not one becomes null."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def _written(text: str, path: str | Path | None) -> str:
    if path is not None:
        Path(path).write_text(text, encoding="utf-8")
    return text
