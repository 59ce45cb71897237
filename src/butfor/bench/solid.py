"""What holds whatever the seed: finds of several searches, judged on seeds that none of them has seen.

Per data set and search, on the same people, budget and ψ: how many have a flip set that turns the audited model, how
many of these are solid, leaning, seed-bound; how many labels it takes; and, counted more simply, for how many people at
least nine in ten of the fresh seeds decide otherwise with the flips and less than half without (`hold90`). `further`:
of those called solid, the share that holds in at least 85 % of as many *further* seeds, which judged nobody before.

The searches: the published question (one seed, the published protocol and the guided search); the top of a ranking
averaged over the members, the whole budget; and the solid search with several margins. φ is everyone and ψ the group's
rows labelled as the person is decided, but for the published protocol, which has its own rules. Trainings are the
engine's; `--confirm` lets the definition confirm each find, as an audit does, which takes long where it is slow.

    python -m butfor.bench.solid --datasets german --json
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from butfor.audit import LabelAudit
from butfor.bench.rows import print_rows
from butfor.data import Dataset, load_dataset
from butfor.encode import TableEncoder
from butfor.errors import SettingError
from butfor.learn.engines import choose_engine
from butfor.learn.ensemble import fresh_seeds, members_of
from butfor.mlp.learner import MLPLearner
from butfor.mlp.mlp import MLP
from butfor.result.fresh import LEANING, SEED_BOUND
from butfor.result.population import Population
from butfor.seam import Engine, FlipSet, Training
from butfor.search import GuidedSearch, SolidSearch
from butfor.search.guided import Leaders

BUDGETS = {"german": 0.05, "compas": 0.01, "adult": 0.001}
"""The share of labels each set is measured with; others with the usual 1 %."""
DATASETS = tuple(BUDGETS)
PSI = "same_group & labelled_as_predicted"
"""Which labels may be flipped; the published protocol has its own rules."""
PEOPLE, MEMBERS, FRESH = 200, 16, 59
ENOUGH = 0.85
"""The share of further seeds in which a solid find should hold."""

SIDE_BY_SIDE = 64
"""Flip sets judged in one call."""

TOP = SolidSearch(margin=math.inf, second=False, measure=False)
"""The whole budget from the top of a ranking, and nothing else."""
SEARCHES: dict[str, dict[str, Any]] = {
    "published": {"members": 1, "published": True},
    "guided, one seed": {"members": 1, "protocol": GuidedSearch()},
    "top of gradient": {"rank": "gradient", "protocol": TOP},
    "top of combined": {"rank": "combined", "protocol": TOP},
    "top of both": {"rank": "both", "protocol": TOP},
    "whole, unmeasured": {"protocol": SolidSearch(margin=math.inf, second=True, measure=False)},
    "whole, measured": {"protocol": SolidSearch(margin=math.inf, second=True, measure=True)},
    "solid, whole": {"protocol": SolidSearch(margin=math.inf, second=True)},
    "solid, margin 1.65": {"protocol": SolidSearch(margin=1.65, second=True)},
    "solid, margin 2": {"protocol": SolidSearch(margin=2.0, second=True)},
    "solid": {"protocol": SolidSearch()},
}
LONG = "whole, measured"
"""Left out unless named: where measuring is quick "solid, whole" does it too, and elsewhere it takes hours."""
USUAL = tuple(search for search in SEARCHES if search != LONG)


class Believed:
    """An engine whose word is taken for the definition's: finds are not confirmed."""

    by_definition = True

    def __init__(self, engine: Engine) -> None:
        self.name, self.width = engine.name, engine.width
        self.accepts, self.bind = engine.accepts, engine.bind
        self.device = getattr(engine, "device", "cpu")


class Scene:
    """One data set and its people; models are trained once per number of members."""

    def __init__(
        self, name: str, people: int, engine: str, device: str | None, confirm: bool, seed: int, fresh: int = FRESH
    ) -> None:
        self.fresh = fresh
        self.data: Dataset = load_dataset(name)
        self.cases = range(min(people, len(self.data.X_test)))
        setup = self.data.setup
        self.model = MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size, random_state=seed)
        trains = choose_engine(engine, MLPLearner(self.model), device)
        self.engine: Engine = trains if confirm else Believed(trains)
        self._fitted: dict[tuple[int, float, bool], LabelAudit] = {}

    def audit(self, members: int, budget: float, published: bool = False) -> LabelAudit:
        if (members, budget, published) not in self._fitted:
            data = self.data
            rules: dict[str, Any] = {} if published else {"phi": "everyone", "psi": PSI}
            audit = LabelAudit(
                self.model, encoder=TableEncoder("embed", data.setup.numeric), members=members, budget=budget,
                fresh_seeds=self.fresh, engine=self.engine, **rules,
            )  # fmt: skip
            validation = (data.X_val, data.y_val)
            audit.fit(data.X_train, data.y_train, sensitive_features=data.sensitive, validation=validation)
            self._fitted[members, budget, published] = audit
        return self._fitted[members, budget, published]

    def row(self, search: str, members: int, budget: float) -> dict[str, Any]:
        wanted = dict(SEARCHES[search])
        members = wanted.pop("members", members)
        published = wanted.pop("published", False)
        if published:
            budget = self.data.setup.budget
            wanted = {"rank": "combined", "protocol": "singles" if budget == 1 else "attempts"}
        audit = self.audit(members, budget, published)
        if wanted.get("rank") == "both":
            wanted["rank"] = Both(Leaders.of(audit.model_))
        started = time.perf_counter()
        population = audit.searching(**wanted).explain_all(self.data.X_test, cases=self.cases)
        seconds = time.perf_counter() - started
        found = population.found
        sizes, distances = [len(v.positions) for v in found], [v.distance for v in found if v.distance]
        margin = getattr(wanted.get("protocol"), "margin", math.inf)
        keeping = [v for v in found if v.fresh and (v.clearance or 0) >= margin]
        holding = [v for v in found if v.fresh and v.fresh.hold >= 0.9 and v.fresh.base < 0.5]
        further = self._further(audit, population)
        return {
            "dataset": self.data.name,
            "budget": audit.budget_,
            "members": members,
            "search": search,
            "people": len(population),
            "found": len(found),
            "solid": len(population.solid),
            "leaning": population.solidity[LEANING],
            "seed_bound": population.solidity[SEED_BOUND],
            "hold90": len(holding) if self.fresh else None,
            "mean_flips": round(float(np.mean(sizes)), 2) if sizes else None,
            "kept_margin": len(keeping),
            "kept_flips": round(float(np.mean([len(v.positions) for v in keeping])), 2) if keeping else None,
            "kept_hold90": round(float(np.mean([v.hold >= 0.9 for v in keeping if v.hold])), 3) if keeping else None,
            "kept": sorted((len(v.positions), round(v.hold or 0.0, 3)) for v in keeping),
            "median_distance": float(median(distances)) if distances else None,
            "further": round(float(np.mean([share >= ENOUGH for share in further])), 3) if further else None,
            "sets": round(sum(v.attempts for v in population) / max(1, len(population)), 2),
            "retrainings": population.run["retrainings"],
            "seconds": round(seconds, 1),
        }

    def _further(self, audit: LabelAudit, population: Population) -> list[float]:
        """For each solid find, the share of further seeds in which it holds."""
        solid, learner = population.solid, members_of(audit.learner_)[0]
        if not solid:
            return []
        people = self.data.X_test.iloc[list(self.cases)]
        seeds = fresh_seeds(learner, FRESH, skip=FRESH)
        sets = list(dict.fromkeys(v.positions for v in solid))
        train = self.engine.bind(learner, audit.table_, people)
        shares: dict[FlipSet, Any] = {}
        for first in range(0, len(sets), SIDE_BY_SIDE):
            some = sets[first : first + SIDE_BY_SIDE]
            logits = train([Training(flips, seed) for flips in some for seed in seeds])
            shares |= zip(some, logits.reshape(len(some), len(seeds), -1) > 0, strict=True)
        return [float((shares[v.positions][:, v.case] != (v.logit > 0)).mean()) for v in solid if v.case is not None]


class Both:
    """All leading rankings averaged, without a trial."""

    name = "both"

    def __init__(self, leaders: Leaders) -> None:
        self._leaders = leaders

    def train_on(self, device: str) -> None:
        self._leaders.train_on(device)

    def score(self, *asked: Any) -> Any:
        return self._leaders.score(*asked)


def solid(
    names: Sequence[str],
    *,
    searches: Sequence[str] = USUAL,
    people: int = PEOPLE,
    members: int = MEMBERS,
    budget: float | None = None,
    engine: str = "auto",
    device: str | None = None,
    confirm: bool = False,
    seed: int = 0,
    fresh: int = FRESH,
) -> Iterator[dict[str, Any]]:
    """One row per data set and search."""
    unknown = [search for search in searches if search not in SEARCHES]
    if unknown:
        raise SettingError(f"There is no search '{unknown[0]}'; choose among: {'; '.join(SEARCHES)}.")
    for name in names:
        scene = Scene(name, people, engine, device, confirm, seed, fresh)
        for search in searches:
            yield scene.row(search, members, budget or BUDGETS.get(name, 0.01))


HEADER = (
    f"{'dataset':8} {'budget':>6} {'members':>7} {'search':18} {'people':>6} {'found':>5} {'solid':>5} {'leaning':>7} "
    f"{'seed-bound':>10} {'hold ≥ .9':>9} {'flips':>5} {'kept margin':>20} {'distance':>8} {'further':>7} "
    f"{'trainings':>9} {'seconds':>7}"
)


def line(row: dict[str, Any]) -> str:
    def number(value: float | None, form: str) -> str:
        return "–" if value is None else format(value, form)

    kept = "–"
    if row["kept_margin"]:
        kept = f"{row['kept_margin']} × {row['kept_flips']:.1f}, {100 * row['kept_hold90']:.0f} % hold"
    return (
        f"{row['dataset']:8} {row['budget']:6} {row['members']:7} {row['search']:18} {row['people']:6} "
        f"{row['found']:5} {row['solid']:5} {row['leaning']:7} {row['seed_bound']:10} {number(row['hold90'], 'd'):>9} "
        f"{number(row['mean_flips'], '.1f'):>5} {kept:>20} {number(row['median_distance'], '.0f'):>8} "
        f"{number(row['further'], '.2f'):>7} {row['retrainings']:9} {row['seconds']:7.1f}"
    )


BARS = (("found", "#d8dde6", "found"), ("hold90", "#7aa6d8", "hold ≥ 0.9"), ("solid", "#1f4e86", "solid"))


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Per data set and search: people found, those of hold ≥ 0.9, and those that are solid."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(row["dataset"] for row in rows))
    most = max(sum(row["dataset"] == name for row in rows) for name in names)
    figure = Figure(figsize=(3.6 * len(names) + 1.5, 0.42 * most + 1.3), layout="constrained")
    for axes, name in zip(np.ravel(figure.subplots(1, len(names), squeeze=False)), names, strict=True):
        mine = [row for row in rows if row["dataset"] == name]
        at = np.arange(len(mine))
        for key, colour, label in BARS:
            axes.barh(at, [row[key] for row in mine], color=colour, label=label, height=0.72)
        axes.set_yticks(at, [row["search"] for row in mine])
        axes.set_ylim(most - 0.5, -0.5)  # the first on top, bars alike
        axes.set_title(f"{name}, at most {max(row['budget'] for row in mine)} labels", fontsize=10)
        axes.set_xlabel("people of 200" if mine[0]["people"] == 200 else "people")
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=130)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--searches", default=";".join(USUAL), help="names, separated by semicolons")
    parser.add_argument("--people", type=int, default=PEOPLE)
    parser.add_argument("--members", type=int, default=MEMBERS)
    parser.add_argument("--budget", type=float, help="a share or a count of labels")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--device")
    parser.add_argument("--seed", type=int, default=0, help="the first member's seed; all others are counted from it")
    parser.add_argument("--fresh", type=int, default=FRESH, help="seeds that judge; 0: nothing is judged")
    parser.add_argument("--confirm", action="store_true", help="let the definition confirm every find")
    parser.add_argument("--picture", type=Path, help="also draw the rows into this file")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rows = solid(
        given.datasets.split(","), searches=given.searches.split(";"), people=given.people, members=given.members,
        budget=given.budget, engine=given.engine, device=given.device, confirm=given.confirm, seed=given.seed,
        fresh=given.fresh,
    )  # fmt: skip
    done = print_rows(rows, HEADER, line, given.json)
    if given.picture:
        draw(done, given.picture)


if __name__ == "__main__":
    main()
