"""What holds whatever the seed: finds of several searches, judged on seeds that none of them has
seen.

Per data set and search, on the same people, budget and ψ: how many have a flip set that turns the
audited model, how many of these are solid, leaning, seed-bound; how many labels it takes; and,
counted more simply, for how many people at least nine in ten of the fresh seeds decide otherwise
with the flips and less than half without (`hold90`). `further`: how many are called solid, and of
these the share that holds in at least 90 % of 200 *further* seeds, which judged nobody before; once
as an audit looks at fresh seeds (30, then 59), once with 59 for every find.

The searches: the published question (one seed, the published protocol and the guided search); the
top of a ranking averaged over the members, the whole budget; and the solid search with several
margins. φ is everyone and ψ the group's rows labelled as the person is decided, but for the
published protocol, which has its own rules. Trainings are the engine's; `--confirm` lets the
definition confirm each find, as an audit does, which takes long where it is slow.

    python -m benchmarks.solid --datasets german --json
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np

from benchmarks.rows import Columns, Row, names, options, parse, run, show
from benchmarks.work import WrappedEngine, explain, fit, mean, network
from butfor.audit import LabelAudit
from butfor.errors import SettingError
from butfor.models.engines import choose_engine
from butfor.models.ensemble import fresh_seeds, single_learner
from butfor.models.network import MLPLearner
from butfor.models.seam import Engine, FlipSet, Training
from butfor.result.fresh import (
    LEANING,
    SEED_BOUND,
    SOLID,
    SOLID_SHARE,
    FreshSeeds,
)
from butfor.result.population import Population
from butfor.search.rankings import Ranking
from butfor.search.rankings.mix import RankingMix
from butfor.search.solid import MARGIN_DEVIATIONS
from butfor.search.solid import solid as solid_search
from butfor.table.embedded import Dataset, load_dataset
from butfor.table.encoding import TableEncoder

BUDGETS = {"german": 0.05, "compas": 0.01, "adult": 0.001}
"""The share of labels each set is measured with; others with the usual 1 %."""
DATASETS = tuple(BUDGETS)
PSI = "same_group & labelled_as_predicted"
"""Which labels may be flipped; the published protocol has its own rules."""
FRESH = 59
FURTHER = 200
"""Seeds that judge the word solid itself."""

SIDE_BY_SIDE = 64
"""Flip sets judged in one call."""

TOP = partial(solid_search, margin=math.inf, second=False)
"""The whole budget from the top of a ranking, and nothing else."""
SEARCHES: dict[str, dict[str, Any]] = {
    "published": {"members": 1, "published": True},
    "guided, one seed": {"members": 1, "strategy": "guided"},
    "top of gradient": {"rank": "gradient", "strategy": TOP},
    "top of combined": {"rank": "combined", "strategy": TOP},
    "top of both": {"rank": "both", "strategy": TOP},
    "solid, whole": {"strategy": partial(solid_search, margin=math.inf, second=True)},
    "solid, margin 1.65": {"strategy": partial(solid_search, margin=1.65, second=True)},
    "solid, margin 2": {"strategy": partial(solid_search, margin=2.0, second=True)},
    "solid": {"strategy": "solid"},
}


def margin_of(strategy: Any) -> float:
    """The margin that a search keeps; infinite if it has none."""
    return (
        MARGIN_DEVIATIONS
        if strategy == "solid"
        else float(getattr(strategy, "keywords", {}).get("margin", math.inf))
    )


class Believed(WrappedEngine):
    """An engine whose word is taken for the definition's: finds are not confirmed."""

    facts: ClassVar = {"by_definition": True}


class Scene:
    """One data set and its people; models are trained once per number of members."""

    def __init__(
        self,
        name: str,
        people: int,
        engine: str,
        device: str | None,
        confirm: bool,
        seed: int,
        fresh: int,
    ) -> None:
        self.fresh = fresh
        self.data: Dataset = load_dataset(name)
        self.cases = range(min(people, len(self.data.X_test)))
        self.model = network(self.data.setup, seed)
        trains = choose_engine(device or engine, MLPLearner(self.model))
        self.engine: Engine = trains if confirm else Believed(trains)
        self._fitted: dict[tuple[int, float, bool], LabelAudit] = {}

    def audit(self, members: int, budget: float, published: bool = False) -> LabelAudit:
        if (members, budget, published) not in self._fitted:
            data = self.data
            rules: dict[str, Any] = {} if published else {"phi": "everyone", "psi": PSI}
            audit = LabelAudit(
                self.model,
                encoder=TableEncoder("embed", data.setup.numeric),
                members=members,
                budget=budget,
                fresh_seeds=self.fresh,
                engine=self.engine,
                **rules,
            )
            self._fitted[members, budget, published] = fit(audit, data)
        return self._fitted[members, budget, published]

    def row(self, search: str, members: int, budget: float) -> Row:
        wanted = dict(SEARCHES[search])
        members = wanted.pop("members", members)
        published = wanted.pop("published", False)
        if published:
            budget = self.data.setup.budget
            wanted = {"rank": "combined", "strategy": "singles" if budget == 1 else "attempts"}
        audit = self.audit(members, budget, published)
        if wanted.get("rank") == "both":
            wanted["rank"] = Both(RankingMix.of(audit.model_))
        started = time.perf_counter()
        population = explain(audit.with_search(**wanted), self.data.X_test, cases=self.cases)
        seconds = time.perf_counter() - started
        found = population.found
        sizes, distances = (
            [len(v.positions) for v in found],
            [v.distance for v in found if v.distance],
        )
        margin = margin_of(wanted.get("strategy"))
        keeping = [v for v in found if v.fresh and (v.clearance or 0) >= margin]
        holding = [v for v in found if v.fresh and v.fresh.hold >= 0.9 and v.fresh.base < 0.5]
        twice, once = self._further(audit, population)
        return {
            "dataset": self.data.name,
            "budget": audit.fitted_.budget,
            "members": members,
            "search": search,
            "people": len(population),
            "found": len(found),
            "solid": len(population.solid),
            "solid_cases": [v.case for v in population.solid],
            "leaning": population.solidity[LEANING],
            "seed_bound": population.solidity[SEED_BOUND],
            "hold90": len(holding) if self.fresh else None,
            "mean_flips": mean(sizes),
            "kept_margin": len(keeping),
            "kept_flips": mean(len(v.positions) for v in keeping),
            "kept_hold90": mean((v.hold >= 0.9 for v in keeping if v.hold), 3),
            "kept": sorted((len(v.positions), round(v.hold or 0.0, 3)) for v in keeping),
            "median_distance": float(median(distances)) if distances else None,
            "further": mean((share >= SOLID_SHARE for share in twice), 3),
            "one_look": len(once),
            "one_look_further": mean((share >= SOLID_SHARE for share in once), 3),
            "sets": round(sum(v.attempts for v in population) / max(1, len(population)), 2),
            "retrainings": population.run.retrainings,
            "seconds": round(seconds, 1),
        }

    def _further(
        self, audit: LabelAudit, population: Population
    ) -> tuple[list[float], list[float]]:
        """The share of further seeds in which each solid find holds: of finds solid in two looks,
        and in one."""
        found, learner = population.found if self.fresh else [], single_learner(audit.learner_)
        seeds = fresh_seeds(learner, self.fresh + FURTHER)
        sets = list(dict.fromkeys([(), *(v.positions for v in found)]))
        train = self.engine.bind(learner, audit.table_, self.data.X_test.iloc[list(self.cases)])
        decided: dict[FlipSet, Any] = {}
        for first in range(0, len(sets), SIDE_BY_SIDE):
            some = sets[first : first + SIDE_BY_SIDE]
            logits = train([Training(flips, seed) for flips in some for seed in seeds])
            decided |= zip(some, logits.reshape(len(some), len(seeds), -1) > 0, strict=True)
        twice, once = list[float](), list[float]()
        for verdict in found:
            sides = ((), verdict.positions)
            before, after = (
                decided[flips][:, verdict.case] != (verdict.logit > 0) for flips in sides
            )
            share = float(after[self.fresh :].mean())
            twice += [share] * (verdict.solidity == SOLID)
            once += [share] * (
                FreshSeeds.of(before[: self.fresh], after[: self.fresh]).word == SOLID
            )
        return twice, once


class Both(Ranking):
    """All leading rankings averaged, without a trial."""

    name = "both"

    def __init__(self, leaders: RankingMix) -> None:
        self._leaders = leaders

    def train_on(self, engine: Engine) -> None:
        self._leaders.train_on(engine)

    def score(self, *asked: Any) -> Any:
        return self._leaders.score(*asked)


def solid(
    datasets: Sequence[str],
    searches: Sequence[str],
    members: int,
    budget: float | None,
    **scene: Any,
) -> Iterator[Row]:
    """One row per data set and search; `scene` as a `Scene` takes it."""
    unknown = [search for search in searches if search not in SEARCHES]
    if unknown:
        raise SettingError(
            f"There is no search '{unknown[0]}'; choose among: {'; '.join(SEARCHES)}."
        )
    for name in datasets:
        one = Scene(name, **scene)
        for search in searches:
            yield one.row(search, members, budget or BUDGETS.get(name, 0.01))


def _kept(row: Row) -> str:
    if not row["kept_margin"]:
        return "–"
    return f"{row['kept_margin']} × {row['kept_flips']:.1f}, {100 * row['kept_hold90']:.0f} % hold"


COLUMNS: Columns = {
    "dataset ": "{dataset}",
    "budget": "{budget}",
    "members": "{members}",
    "search            ": "{search}",
    "people": "{people}",
    "found": "{found}",
    "solid": "{solid}",
    "leaning": "{leaning}",
    "seed-bound": "{seed_bound}",
    "hold ≥ .9": "{hold90}",
    "flips": "{mean_flips:.1f}",
    "         kept margin": _kept,
    "distance": "{median_distance:.0f}",
    "further": "{further:.2f}",
    "one look": "{one_look}",
    "its further": "{one_look_further:.2f}",
    "trainings": "{retrainings}",
    "seconds": "{seconds:.1f}",
}

BARS = (
    ("found", "#d8dde6", "found"),
    ("hold90", "#7aa6d8", "hold ≥ 0.9"),
    ("solid", "#1f4e86", "solid"),
)


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Per data set and search: people found, those of hold ≥ 0.9, and those that are solid."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["dataset"] for row in rows))
    most = max(sum(row["dataset"] == name for row in rows) for name in names)
    figure = Figure(figsize=(3.6 * len(names) + 1.5, 0.42 * most + 1.3), layout="constrained")
    for axes, name in zip(
        np.ravel(figure.subplots(1, len(names), squeeze=False)), names, strict=True
    ):
        mine = [row for row in rows if row["dataset"] == name]
        at = np.arange(len(mine))
        for key, colour, label in BARS:
            axes.barh(at, [row[key] or 0 for row in mine], color=colour, label=label, height=0.72)
        axes.set_yticks(at, [row["search"] for row in mine])
        axes.set_ylim(most - 0.5, -0.5)  # the first on top, bars alike
        axes.set_title(f"{name}, at most {max(row['budget'] for row in mine)} labels", fontsize=10)
        axes.set_xlabel("people of 200" if mine[0]["people"] == 200 else "people")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--datasets", type=names, default=DATASETS)
    parser.add_argument(
        "--searches",
        type=lambda text: text.split(";"),
        default=tuple(SEARCHES),
        help="separated by semicolons",
    )
    parser.add_argument("--people", type=int, default=200)
    parser.add_argument("--members", type=int, default=16)
    parser.add_argument("--budget", type=float, help="a share or a count of labels")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device")
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        help="the first member's seed; all others are counted from it",
    )
    parser.add_argument(
        "--fresh", type=int, default=FRESH, help="seeds that judge; 0: nothing is judged"
    )
    parser.add_argument(
        "--confirm", action="store_true", help="let the definition confirm every find"
    )
    parser.add_argument("--picture", type=Path, help="also draw the rows into this file")
    as_json, given = parse(parser, arguments)
    picture = given.pop("picture")
    done = show(solid(**given), COLUMNS, as_json)
    if picture:
        draw(done, picture)


if __name__ == "__main__":
    run(main)
