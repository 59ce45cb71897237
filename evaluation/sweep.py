"""What the paper leaves open, tried out: batch size, scaling, embedding seed and split seed.

The rule, stated before any method is looked at: of all settings in the grid take the one whose
number of eligible people, range of flippable labels and ground truth lie nearest to the published
row (`distance`). No ranking takes part in the choice; their counts are reported at the chosen
setting.

The ground truth is the dear part: one retraining per training label. The distance only grows when
it is added, so settings are taken in the order of the distance without it, and the search ends
where that alone exceeds the best whole distance: the nearest setting is found without enumerating
them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from butfor.errors import ReplayError
from butfor.models.engines import choose_engine
from butfor.models.network import MLP, MLPLearner
from butfor.search.rankings.named import Activation, Combined, Surrogate
from butfor.support.progress import Progress
from butfor.table.embedded import Dataset, load_dataset
from evaluation.published import PUBLISHED, Published
from evaluation.results import Setting
from evaluation.runs import Evaluation, Machinery
from evaluation.settings import published_setting
from evaluation.stopwatch import TimedEngine

SETS = ("salary", "student", "german")
"""Sets with a budget of one label: only they have a ground truth to be near to."""
BATCH_SIZES: tuple[int | None, ...] = (None, 8, 32, 128)
NUMERIC = ("standard", "minmax", "raw")
EMBEDDING_SEEDS = tuple(range(5))
SPLIT_SEEDS = (*range(10), 42)
"""What people write: the small numbers and 42. Salary's split seed is known well enough to be kept.
"""
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Outcome:
    """What a setting gives: #φ, the range of n_ψ and, where it was enumerated, the ground truth."""

    setting: Setting
    eligible: int
    n_psi: tuple[int, int]
    ground_truth: int | None = None

    def distance(self, published: Published) -> float:
        """|Δ#φ|/#φ + ½(|Δlow|/low + |Δhigh|/high) + |ΔGT|/GT, each relative to the published
        number; without the last term where there is no ground truth yet."""

        def off(ours: int, theirs: int) -> float:
            return abs(ours - theirs) / theirs

        ends = [off(ours, theirs) for ours, theirs in zip(self.n_psi, published.n_psi, strict=True)]
        total = off(self.eligible, published.eligible) + sum(ends) / 2
        if self.ground_truth is not None and published.ground_truth is not None:
            total += off(self.ground_truth, published.ground_truth)
        return total


@dataclass(frozen=True)
class Sweep:
    """One data set's grid: every setting's outcome, the chosen one, and its neighbours with one
    thing changed."""

    dataset: str
    outcomes: list[Outcome]
    chosen: Outcome
    neighbours: list[Outcome]

    @property
    def enumerated(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.ground_truth is not None]

    def to_frame(self) -> pd.DataFrame:
        """One row per setting, nearest first; settings whose ground truth is known before the
        others."""
        published = PUBLISHED[self.dataset]
        rows = [_row(self.dataset, outcome, published) for outcome in self.outcomes]
        frame = pd.DataFrame(rows).astype({"ground_truth": "Int64"})
        known = frame["ground_truth"].notna()
        return (
            frame.assign(known=~known)
            .sort_values(["known", "distance"], kind="stable")
            .drop(columns="known")
        )

    def around(self) -> pd.DataFrame:
        """The chosen setting first, then each with one thing changed: how far the counts move."""
        published = PUBLISHED[self.dataset]
        rows = [
            {"changed": f"chosen: {_settings(self.chosen.setting)}"}
            | _row(self.dataset, self.chosen, published)
        ]
        for outcome in self.neighbours:
            rows.append(
                {"changed": _change(self.chosen.setting, outcome.setting)}
                | _row(self.dataset, outcome, published)
            )
        return pd.DataFrame(rows).astype({"ground_truth": "Int64"})


@dataclass(frozen=True)
class SweepTables:
    """What sweeps leave for readers: per data set the neighbourhood of the chosen setting, the
    published score's counts by λ, how many settings were tried, and the chosen ones; `grid` has
    every setting."""

    around: pd.DataFrame
    ridge: pd.DataFrame
    tried: dict[str, int]
    chosen: dict[str, Setting]
    grid: pd.DataFrame

    FILE: ClassVar[str] = "sweep.json"

    @classmethod
    def empty(cls) -> SweepTables:
        return cls(pd.DataFrame(), pd.DataFrame(), {}, {}, pd.DataFrame())

    def joined(self, other: SweepTables) -> SweepTables:
        """Both together, one set below the other."""
        frames = [
            pd.concat([a, b], ignore_index=True) if len(a) else b
            for a, b in (
                (self.around, other.around),
                (self.ridge, other.ridge),
                (self.grid, other.grid),
            )
        ]
        return SweepTables(
            frames[0], frames[1], self.tried | other.tried, self.chosen | other.chosen, frames[2]
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it; the whole grid is left to CSV."""
        return {
            "around": json.loads(self.around.to_json(orient="records")),
            "ridge": json.loads(self.ridge.to_json(orient="records")),
            "tried": self.tried,
            "chosen": {name: asdict(setting) for name, setting in self.chosen.items()},
        }

    def write(self, directory: Path) -> None:
        text = json.dumps(self.to_dict(), ensure_ascii=False, indent=1)
        (directory / self.FILE).write_text(text, encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> SweepTables | None:
        """The sweep in a directory; None where there is none."""
        path = directory / cls.FILE
        if not path.exists():
            return None
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            chosen = {
                name: Setting.from_dict(setting) for name, setting in record["chosen"].items()
            }
            around, ridge = pd.DataFrame(record["around"]), pd.DataFrame(record["ridge"])
            return cls(around, ridge, record["tried"], chosen, pd.DataFrame())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReplayError(
                f"'{path}' is not what 'python -m evaluation sweep' writes ({error})."
            ) from error


def swept(
    name: str, machinery: Machinery | None = None, tell: Callable[[str], None] = lambda line: None
) -> SweepTables:
    """One data set's sweep, as tables."""
    sweeper = Sweeper(name, machinery)
    sweep = sweeper.sweep(tell)
    tell(f"{name}: λ of the surrogate at the chosen setting …")
    ridge = sweeper.found_by_ridge(sweep.chosen.setting)
    ridge.insert(0, "dataset", name)
    settings = {name: sweep.chosen.setting}
    return SweepTables(
        sweep.around(), ridge, {name: len(sweep.outcomes)}, settings, sweep.to_frame()
    )


class Sweeper:
    """Tries settings of one data set; nothing is tried twice."""

    def __init__(self, name: str, machinery: Machinery | None = None) -> None:
        self.name = name
        self.machinery = machinery = machinery or Machinery()
        self.engine = TimedEngine(
            choose_engine(machinery.device or machinery.engine, MLPLearner(MLP()), machinery.jobs)
        )
        self.data: Callable[[int], Dataset] = cache(
            lambda seed: load_dataset(name, seed, data_home=machinery.data_home)
        )
        self._known: dict[Setting, Outcome] = {}

    def counts(self, setting: Setting) -> Outcome:
        """#φ and n_ψ: one training."""
        if setting not in self._known:
            one = self._evaluation(setting)
            self._known[setting] = Outcome(setting, len(one.cases), one.n_psi())
        return self._known[setting]

    def with_ground_truth(self, setting: Setting) -> Outcome:
        """The same with the ground truth: one training per flippable label."""
        outcome = self.counts(setting)
        if outcome.ground_truth is None:
            cases = self._evaluation(setting).ground_truth(Progress())
            self._known[setting] = replace(outcome, ground_truth=len(cases))
        return self._known[setting]

    def nearest(self, settings: Sequence[Setting], tell: Callable[[str], None]) -> Outcome:
        """The setting nearest to the published row, by the rule of this module; ties go to the
        first."""
        published = PUBLISHED[self.name]
        tell(f"{self.name}: {len(settings)} settings, one training each, for #φ and n_ψ …")
        ordered = sorted((self.counts(s) for s in settings), key=lambda o: o.distance(published))
        best: Outcome | None = None
        for outcome in ordered:
            if best is not None and outcome.distance(published) >= best.distance(published):
                break
            whole = self.with_ground_truth(outcome.setting)
            if best is None or whole.distance(published) < best.distance(published):
                best = whole
                tell(f"{self.name}: {_words(whole)}, distance {whole.distance(published):.2f}")
        assert best is not None
        return best

    def sweep(self, tell: Callable[[str], None] = lambda line: None) -> Sweep:
        settings = list(grid(self.name))
        chosen = self.nearest(settings, tell)
        beside = list(one_changed(chosen.setting, settings))
        tell(f"{self.name}: ground truth of {len(beside)} neighbours of the chosen setting …")
        neighbours = [self.with_ground_truth(setting) for setting in beside]
        return Sweep(self.name, [self._known[s] for s in settings], chosen, neighbours)

    def found_by_ridge(self, setting: Setting, ridges: Sequence[float] = RIDGES) -> pd.DataFrame:
        """How many the published score finds at each λ: it moves no count that the choice is made
        by."""
        one = self._evaluation(setting)
        run = one.begin()
        rows = []
        for ridge in ridges:
            one.search(run, Combined([Surrogate(ridge), Activation()]), Progress())
            result = run.rankings["combined"]
            rows.append(
                {"ridge": ridge, "found": len(result.found), "one_shot": len(result.one_shot)}
            )
        return pd.DataFrame(rows)

    def _evaluation(self, setting: Setting) -> Evaluation:
        data = self.data(setting.split_seed)
        return Evaluation(data, setting, 0, self.engine, self.machinery)


def grid(name: str) -> Iterator[Setting]:
    """The plausible settings of a set. Salary has numbers only, so no embeddings, and its split is
    known."""
    base = published_setting(name)
    salary = name == "salary"
    # A batch of 32 or more is Salary's whole table.
    batches = BATCH_SIZES[:2] if salary else BATCH_SIZES
    embeddings = (0,) if salary else EMBEDDING_SEEDS
    splits = (base.split_seed,) if salary else SPLIT_SEEDS
    for split, batch, numeric, embedding in product(splits, batches, NUMERIC, embeddings):
        yield replace(
            base, split_seed=split, batch_size=batch, numeric=numeric, embedding_seed=embedding
        )


def one_changed(chosen: Setting, settings: Sequence[Setting]) -> Iterator[Setting]:
    """Settings of the grid that differ from the chosen one in one thing."""
    for setting in settings:
        if len(_differences(chosen, setting)) == 1:
            yield setting


OPEN = ("batch_size", "numeric", "embedding_seed", "split_seed")


def _differences(one: Setting, other: Setting) -> list[str]:
    return [name for name in OPEN if getattr(one, name) != getattr(other, name)]


def _change(chosen: Setting, setting: Setting) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {_shown(getattr(setting, name))}"
        for name in _differences(chosen, setting)
    )


def _row(name: str, outcome: Outcome, published: Published) -> dict[str, object]:
    setting = outcome.setting
    return {
        "dataset": name,
        **{key: _shown(getattr(setting, key)) for key in OPEN},
        "eligible": outcome.eligible,
        "n_psi": f"{outcome.n_psi[0]}–{outcome.n_psi[1]}",
        "ground_truth": outcome.ground_truth,
        "distance": round(outcome.distance(published), 3),
    }


def _settings(setting: Setting) -> str:
    return ", ".join(f"{_spaced(name)} {_shown(getattr(setting, name))}" for name in OPEN)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _shown(value: object) -> str:
    return "full" if value is None else str(value)


def _words(outcome: Outcome) -> str:
    low, high = outcome.n_psi
    return (
        f"{_settings(outcome.setting)}: #φ {outcome.eligible}, n_ψ {low}–{high}, ground truth "
        f"{outcome.ground_truth}"
    )
