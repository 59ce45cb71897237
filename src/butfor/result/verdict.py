"""Verdict: what an audit says about one person, in words and as a record.

Found, not found, proven none and not eligible are four different results. "Not found" never means fair: it means
that this search, with this budget, found nothing. "Proven none" does not mean fair either: it means that no set of so
few labels would do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from butfor.errors import ReplayError, SettingError
from butfor.result.control import Collateral
from butfor.result.fresh import SOLID, FreshSeeds, close_call, standing
from butfor.result.record import (
    AFTER,
    BEFORE,
    SCHEMA_VERSION,
    as_json,
    check_person,
    percent,
    plain,
    read_record,
    signed,
    written,
)
from butfor.seam import Learner, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from butfor.result.replay import Replay


@dataclass(frozen=True, eq=False)
class Verdict:
    """The answer about one person. Printing it gives the answer in one sentence."""

    status: str
    """"found", "not_found", "proven_none" or "not_eligible"."""
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
    minimal: bool = False
    """No single flip can be left out: every set with one flip fewer was trained and does not turn the decision."""
    first_size: int = 0
    """Flips in the first set that worked, before it was shrunk."""
    alternatives: tuple[tuple[int, ...], ...] = ()
    """Further flip sets that work, which share no row with `positions` or with each other."""
    fresh: FreshSeeds | None = None
    """How the find stands under fresh seeds; None where that was not asked for or makes no sense."""
    clearance: float | None = None
    """How far the flips turn the members of an ensemble: their mean gain in standard deviations of one member."""
    base: float | None = None
    """The share of fresh seeds that decide otherwise on the unchanged data, with or without a find."""
    collateral: Collateral | None = None
    """What the flips do to the other people of the test table."""
    at_least: int | None = None
    """No allowed set of fewer labels turns the decision: proven, by `proof`. Beyond `flippable`: none does at all."""
    proof: str | None = None
    switch_changes: bool | None = None
    """Whether the decision changes when the protected attribute alone is switched; None where the model is blind to it
    or that was not asked."""
    pulls: dict[str, float] | None = None
    """How far each column pulls this person's logit, up or down, by the local linear model; None without one."""
    training: Table | None = field(default=None, repr=False)
    learner: Learner | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return " ".join(part for part in (self.sentence, self.belief) if part)

    @property
    def found(self) -> bool:
        return self.status == "found"

    @property
    def at_most(self) -> int | None:
        """How many labels it takes at most: those found, by retraining."""
        return len(self.positions) if self.found else None

    @property
    def exact(self) -> bool:
        """Whether no fewer labels than those found can do it: proven."""
        return self.found and self.at_least == len(self.positions)

    @property
    def solidity(self) -> str | None:
        """How a find stands over seeds: solid, leaning, seed-bound, undecided or not checked. None without a find."""
        return standing(self.fresh, self.run.get("seeded")) if self.found else None

    @property
    def hold(self) -> float | None:
        """The share of fresh seeds under which a single model decides otherwise with the flips made."""
        return self.fresh.hold if self.fresh else None

    @property
    def distance(self) -> int | None:
        """How many labels it takes: the size of the smallest solid set that was found. None where none was."""
        return len(self.positions) if self.solidity == SOLID else None

    @property
    def close_call(self) -> bool | None:
        """Whether more than one fresh seed in ten decides otherwise without any flip; None where that is not known."""
        return None if self.base is None else close_call(self.base)

    @property
    def belief(self) -> str:
        """What fresh seeds say of the person and of a find, in a sentence; also where they say nothing."""
        return " ".join(part for part in (self._standing, self._closeness) if part)

    @property
    def _standing(self) -> str:
        if not self.found:
            return ""
        if self.fresh:
            return self.fresh.sentence
        if self.run.get("seeded") is False:
            return "Solid: this learner has no seed noise, the same labels always give the same model."
        return "Not checked under fresh seeds."

    @property
    def _closeness(self) -> str:
        if not self.close_call or self.base is None:
            return ""
        seeds = self.fresh.seeds if self.fresh else self.run.get("fresh_seeds", 0)
        return (
            f"A close call: {round(self.base * seeds)} of {seeds} fresh seeds decide otherwise on the unchanged data."
        )

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
            aside = self.run.get("data", {}).get("set_aside")
            rest = f"; {aside} more rows were set aside to stop training early" if aside else ""
            fewest = " No fewer will do: that is proven." if self.exact and k > 1 else ""
            return (
                f"Flipping {k} of {self.training_rows} training labels ({percent(k / self.training_rows)}{rest}) turns "
                f"'{self.prediction}' into '{self.counterfactual_prediction}' for {who} (logit "
                f"{signed(self.logit)} → {signed(self.counterfactual_logit or 0.0)}{self._of_members}, confirmed by "
                f"retraining).{fewest}"
            )
        if self.status == "not_eligible":
            return f"{who[0].upper()}{who[1:]} was not audited: {self.reason}"
        if self.status == "proven_none":
            return self._proven_none()
        closest = "" if self.closest_logit is None else f", the closest logit being {signed(self.closest_logit)}"
        return (
            f"No counterfactual dataset found for {who}: still '{self.prediction}' (logit {signed(self.logit)}) "
            f"after {self.attempts} attempt{'s' * (self.attempts != 1)} at flipping up to {self.budget} of "
            f"{self.training_rows} training labels{closest}. {self.reason}"
        ).strip()

    @property
    def _of_members(self) -> str:
        members = self.run.get("members", 1)
        return f", the mean of {members} models" if members > 1 else ""

    def _proven_none(self) -> str:
        assert self.at_least is not None
        takes = "none does at all" if self.at_least > self.flippable else f"it takes at least {self.at_least}"
        return (
            f"Proven: no set of up to {self.budget} of the {self.flippable} labels that may be flipped turns "
            f"'{self.prediction}' for {self.who} (logit {signed(self.logit)}); {takes} ({self.proof}). "
            "This does not show that the decision is fair."
        )

    def dataset(self) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole table as given and its labels with the flips made."""
        return (self.training or self._reloaded()).flipped(self.positions)

    def to_frame(self) -> pd.DataFrame:
        """The person beside the flipped training rows, a column each, in the table's own units, after the rows' labels
        before and after."""
        name = f"person {self.case}" if self.case is not None else "person"
        beside = self.flips.T.set_axis([f"training row {row}" for row in self.flips.index], axis=1)
        return self.person.to_frame(name).join(beside, how="right") if self.found else self.person.to_frame(name)

    def local_weights(self) -> pd.DataFrame:
        """What pulls this decision which way: per column the person's value and its pull on the logit, the strongest
        first. With the row "(bias)" the pulls add up to the logit. For our network they are those of the linear
        model that it is, exactly, around this person (ReLU), for logistic regression and ridge their own."""
        if self.pulls is None:
            raise SettingError(
                "There is no local linear model of this decision: networks with ReLU, logistic regression and ridge "
                "classifiers have one."
            )
        frame = pd.DataFrame(
            {"value": [self.person.get(c) for c in self.pulls], "pull": list(self.pulls.values())},
            index=pd.Index(list(self.pulls), name="column"),
        )
        return frame.sort_values("pull", key=abs, ascending=False, kind="stable")

    def replay(self) -> Replay:
        """Train again with the learner's own fit, and compare: from the record, and from the table and the learner
        where this verdict still has them."""
        from butfor.result.replay import replay

        return replay(self.to_dict(), training=self.training, model=self.learner)

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
                for (label, values), position in (
                    zip(self.flips.iterrows(), self.positions, strict=True) if self.positions else ()
                )
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
            "minimal": self.minimal,
            "first_size": self.first_size,
            "alternatives": [list(positions) for positions in self.alternatives],
            "solidity": self.solidity,
            "distance": self.distance,
            "base": self.base,
            "close_call": self.close_call,
            "clearance": plain(self.clearance),
            "fresh": self.fresh.to_dict() if self.fresh else None,
            "collateral": self.collateral.to_dict() if self.collateral else None,
            "at_least": self.at_least,
            "at_most": self.at_most,
            "exact": self.exact,
            "proof": self.proof,
            "switch_changes": self.switch_changes,
            "pulls": self.pulls,
            "sensitive": self.sensitive,
            "group": plain(self.group),
            "person": {str(k): plain(v) for k, v in self.person.items()},
            "course": [[k, round(logit, 5)] for k, logit in self.course],
            "run": self.run,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The record as JSON text, also written to `path` where one is given."""
        return written(as_json(self.to_dict(), indent=2), path)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Verdict:
        """A verdict from its record; one that lacks or bends a field is refused with a sentence that names it."""
        check_person(record)
        seeds = record.get("fresh") or record.get("control")
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
            minimal=record["minimal"],
            first_size=record["first_size"],
            alternatives=tuple(tuple(positions) for positions in record["alternatives"]),
            fresh=FreshSeeds.from_dict(seeds) if seeds else None,
            base=record.get("base", seeds["without_flips"] / seeds["seeds"] if seeds else None),
            clearance=record.get("clearance"),
            collateral=Collateral.from_dict(record["collateral"]) if record["collateral"] else None,
            at_least=record.get("at_least"),
            proof=record.get("proof"),
            switch_changes=record.get("switch_changes"),
            pulls=record.get("pulls"),
        )

    @classmethod
    def from_json(cls, text: str | Path) -> Verdict:
        """A verdict from its JSON text, or from the file that a path names; refused where that was changed since."""
        record = read_record(text)
        if "people" in record:
            raise ReplayError("This is the record of many people; read it with Population.from_json.")
        return cls.from_dict(record)

    def plot(self) -> Figure:
        """Parallel coordinates: the person beside the flipped rows."""
        from butfor.report.charts import parallel_coordinates

        return parallel_coordinates(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """The self-contained report page, also written to `path` where one is given."""
        from butfor.report.page import person_page

        return written(person_page(self), path)

    def _repr_html_(self) -> str:
        from butfor.report.page import person_fragment

        return person_fragment(self)

    def _reloaded(self) -> Table:
        from butfor.result.reload import training_of

        return training_of(self.run)
