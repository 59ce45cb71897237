"""What a run of the published evaluation leaves behind: counts, cases, flip sets and times, as one
small JSON file per data set, so that results computed on one machine can be shown on another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from butfor.errors import ReplayError

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Setting:
    """What the paper leaves open or we recovered: everything that decides a set's counts but the
    seed."""

    batch_size: int | None
    numeric: str
    split_seed: int
    embedding_seed: int
    hidden: tuple[int, ...]
    max_epochs: int
    budget: int

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Setting:
        return cls(**record | {"hidden": tuple(record["hidden"])})


@dataclass(frozen=True)
class PersonResult:
    """One eligible person under one ranking. `attempt`: at which a counterfactual dataset was
    found."""

    case: int
    found: bool
    attempt: int | None
    positions: tuple[int, ...]
    logit: float
    counterfactual_logit: float | None

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> PersonResult:
        return cls(**record | {"positions": tuple(record["positions"])})


@dataclass(frozen=True)
class Times:
    """Seconds: the whole search, scoring alone, the engine alone; and how many networks that engine
    trained.

    `whole` has the confirmations by the reference and the bookkeeping in it; it is None where
    networks were recalled from a ledger, because then it says nothing about the work."""

    whole: float | None
    scoring: float
    training: float
    networks: int

    def per_person(self, people: int) -> float | None:
        return None if self.whole is None or not people else self.whole / people

    def per_retraining(self) -> float | None:
        return self.training / self.networks if self.networks else None

    def overhead(self, people: int) -> float | None:
        """Scoring, per person: what a ranking costs before anything is retrained."""
        return self.scoring / people if people else None


@dataclass(frozen=True)
class RankResult:
    """One ranking on one data set: every eligible person, in test order."""

    people: tuple[PersonResult, ...]
    times: Times
    retrainings: int
    confirmations: int

    @property
    def found(self) -> list[int]:
        return [p.case for p in self.people if p.found]

    @property
    def one_shot(self) -> list[int]:
        return [p.case for p in self.people if p.attempt == 1]

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> RankResult:
        people = tuple(PersonResult.from_dict(p) for p in record["people"])
        return cls(people, Times(**record["times"]), record["retrainings"], record["confirmations"])


@dataclass
class Run:
    """One data set with one model seed. `ground_truth`: the cases that have a counterfactual
    dataset at all, by trying every flippable label; None where that is out of reach (budgets above
    1)."""

    seed: int
    eligible: list[int]
    n_psi: tuple[int, int]
    accuracy: float
    plain_seconds: float
    """One training by the plain PyTorch loop, on the same machine."""
    ground_truth: list[int] | None = None
    rankings: dict[str, RankResult] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Run:
        fields = {
            key: value for key, value in record.items() if key != "pictured"
        }  # whole verdicts, in older files
        rankings = {name: RankResult.from_dict(r) for name, r in record["rankings"].items()}
        return cls(**fields | {"rankings": rankings, "n_psi": tuple(record["n_psi"])})


@dataclass
class Result:
    """One data set, all seeds. `sample`: people at the most where fewer than the published 200 were
    asked for, else None."""

    dataset: str
    setting: Setting
    protocol: str
    sample: int | None
    engine: str
    machine: str
    versions: dict[str, str]
    runs: list[Run] = field(default_factory=list)

    @property
    def first(self) -> Run:
        return self.runs[0]

    def rankings(self) -> list[str]:
        """Rankings that every seed has."""
        return [
            name for name in self.first.rankings if all(name in run.rankings for run in self.runs)
        ]

    def agrees_with(self, other: Result) -> bool:
        """Whether rankings of both may stand in one table."""
        return (self.dataset, self.setting, self.protocol, self.sample) == (
            other.dataset,
            other.setting,
            other.protocol,
            other.sample,
        )

    def to_dict(self) -> dict[str, Any]:
        return {"schema_version": SCHEMA_VERSION} | asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Result:
        fields = {key: value for key, value in record.items() if key != "schema_version"}
        fields |= {
            "setting": Setting.from_dict(record["setting"]),
            "runs": [Run.from_dict(run) for run in record["runs"]],
        }
        return cls(**fields)

    def write(self, directory: Path) -> Path:
        """`directory/<data set>.json`; written beside and moved, so that a killed run leaves no
        half file."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.dataset}.json"
        draft = path.with_suffix(".part")
        draft.write_text(json.dumps(self.to_dict(), ensure_ascii=False), encoding="utf-8")
        draft.replace(path)
        return path


@dataclass(frozen=True)
class Spread:
    """A number over model seeds."""

    mean: float
    low: float
    high: float
    digits: int = 1

    @classmethod
    def of(cls, values: Sequence[float | None], digits: int = 1) -> Spread | None:
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return cls(sum(known) / len(known), min(known), max(known), digits)

    @property
    def fixed(self) -> bool:
        return self.low == self.high

    def __str__(self) -> str:
        def number(value: float, digits: int) -> str:
            return f"{value:.0f}" if value == int(value) and digits <= 1 else f"{value:.{digits}f}"

        if self.fixed:
            return number(self.mean, self.digits)
        whole = 0 if self.digits <= 1 else self.digits
        return (
            f"{number(self.mean, self.digits)} "
            f"[{number(self.low, whole)}–{number(self.high, whole)}]"
        )


def read_result(path: Path) -> Result:
    """A result from its file, refused with a sentence where it is none."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["schema_version"] != SCHEMA_VERSION:
            raise ReplayError(
                f"'{path}' has schema_version {record['schema_version']}; this version of butfor "
                f"reads {SCHEMA_VERSION}. Run it again with this version."
            )
        return Result.from_dict(record)
    except (OSError, UnicodeError, json.JSONDecodeError) as error:
        raise ReplayError(
            f"'{path}' cannot be read ({error}); name a file of 'python -m evaluation runs'."
        ) from error
    except (KeyError, TypeError) as error:
        raise ReplayError(
            f"'{path}' is not a result of the published evaluation ({error}); name a file that "
            "'python -m evaluation runs' wrote."
        ) from error
