"""One data set under its published protocol and setup: who is found, by which ranking, at what
cost.

Needs nothing but torch, numpy, pandas and scikit-learn.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.work import explain, fit
from butfor import __version__
from butfor.audit import LabelAudit
from butfor.errors import SettingError
from butfor.explain import eligible_cases, flippable_labels
from butfor.models.engines import choose_engine
from butfor.models.network import MLP, MLPLearner
from butfor.models.seam import Training
from butfor.result.record import plain
from butfor.search.rankings import Ranking, as_ranking
from butfor.support.progress import Progress
from butfor.support.versions import versions
from butfor.table.embedded import Dataset, load_dataset
from butfor.table.encoding import TableEncoder
from evaluation.results import PersonResult, RankResult, Result, Run, Setting, Times
from evaluation.settings import published_setting
from evaluation.stopwatch import TimedEngine, TimedRanking, machine_in_words

if TYPE_CHECKING:
    from butfor import Verdict

PEOPLE = 200
"""The paper audits the first 200 people of the test split that φ admits."""
RANKS = ("combined", "chance", "distance")
"""The rankings of table 1: the method, random sampling, L2."""
ABLATIONS = ("surrogate", "activation")
PICTURED = {"salary": (4, 6), "adult": (36,), "compas": (2,)}
"""Cases that the paper draws as parallel coordinates."""


@dataclass(frozen=True)
class Machinery:
    """What trains, and where it remembers."""

    engine: str = "auto"
    device: str | None = None
    jobs: int | None = None
    ledger: Path | None = None
    data_home: Path | None = None


def protocol_of(budget: int) -> str:
    """Section 3 of the paper: single labels where the budget is one, else ten attempts per size."""
    return "singles" if budget == 1 else "attempts"


def run_dataset(
    name: str,
    ranks: Sequence[str | Ranking] = RANKS,
    *,
    setting: Setting | None = None,
    sample: int | None = None,
    seeds: int = 1,
    machinery: Machinery | None = None,
    progress_kind: Callable[[str], Progress] | None = None,
    known: Result | None = None,
    save: Callable[[Result], object] | None = None,
) -> Result:
    """Run `name` for every ranking and model seed.

    `sample`: fewer people than the published 200. `known`: a result to add to; its rankings are not
    run again. `save` is handed the result after each ranking. `progress_kind` makes a progress_kind
    from a heading. Ctrl-C is passed on: a ranking that was interrupted is not in the result."""
    if seeds < 1 or (sample is not None and sample < 1):
        raise SettingError(f"seeds={seeds} and the number of cases ({sample}) must be at least 1.")
    for given in ranks:
        as_ranking(given)  # refuses an unknown name now, not after an hour
    machinery = machinery or Machinery()
    setting = setting or published_setting(name)
    data = load_dataset(name, setting.split_seed, data_home=machinery.data_home)
    machine = machine_in_words(machinery.engine, machinery.device)
    result = Result(
        name,
        setting,
        protocol_of(setting.budget),
        sample,
        "",
        machine,
        {"butfor": __version__} | versions(),
    )
    if known is not None and known.agrees_with(result):
        result.runs = known.runs
    progress_kind = progress_kind or (lambda heading: Progress())
    engine = TimedEngine(
        choose_engine(machinery.device or machinery.engine, MLPLearner(MLP()), machinery.jobs)
    )
    for seed in range(seeds):
        one = Evaluation(data, setting, seed, engine, machinery, sample)
        if seed == len(result.runs):
            result.runs.append(one.begin())
        run = result.runs[seed]
        result.engine = engine.name
        tag = f"{name}" + (f", seed {seed}" if seeds > 1 else "")
        if setting.budget == 1 and run.ground_truth is None:
            run.ground_truth = one.ground_truth(
                progress_kind(f"{tag}: every flippable label (ground truth)")
            )
        for given in ranks:
            ranking = as_ranking(given, seed)
            if ranking.name not in run.rankings:
                one.search(run, ranking, progress_kind(f"{tag}: ranking '{ranking.name}'"))
            if save is not None:
                save(result)
    return result


class Evaluation:
    """One data set under one setting and model seed, and the people it is about."""

    def __init__(
        self,
        data: Dataset,
        setting: Setting,
        seed: int,
        engine: TimedEngine,
        machinery: Machinery,
        sample: int | None = None,
    ) -> None:
        self.data, self.setting, self.seed, self.engine, self.machinery = (
            data,
            setting,
            seed,
            engine,
            machinery,
        )
        self.base = self._fitted()
        self.cases = eligible_cases(
            self.base.fitted_, data.X_test, most=min(PEOPLE, sample or PEOPLE)
        )

    def begin(self) -> Run:
        """The run before any ranking: what depends on the network f alone."""
        base, X = self.base, self.data.X_test
        started = time.perf_counter()
        base.learner_.fit(base.table_, base.table_.labels())
        plain_seconds = time.perf_counter() - started  # the second training: `fit` did the first
        accuracy = float(((base.model_.logits(X) > 0) == self.data.y_test.to_numpy()).mean())
        # Whatever the engine compiles on first use is compiled now, off the clock.
        self.engine.bind(base.learner_, base.table_, X.iloc[:1])([Training(())])
        return Run(self.seed, self.cases, self.n_psi(), accuracy, plain_seconds)

    def ground_truth(self, progress: Progress) -> list[int]:
        """Who has a counterfactual dataset of one label at all: every flippable label is tried."""
        audit = self.base.with_search("combined", "exhaustive")
        return [
            int(v.case or 0)
            for v in explain(audit, self.data.X_test, cases=self.cases, progress=progress).found
        ]

    def search(self, run: Run, ranking: Ranking, progress: Progress) -> None:
        """Run one ranking and enter it into `run`."""
        timed = TimedRanking(ranking)
        audit = self.base.with_search(timed)
        self.engine.reset()
        population = explain(audit, self.data.X_test, cases=self.cases, progress=progress)
        counts = population.run
        times = Times(
            whole=None if counts.recalled else counts.seconds,
            scoring=round(timed.seconds, 4),
            training=round(self.engine.seconds, 4),
            networks=self.engine.networks,
        )
        people = tuple(_person(v) for v in population)
        run.rankings[ranking.name] = RankResult(
            people, times, counts.retrainings, counts.confirmations
        )

    def _fitted(self) -> LabelAudit:
        data, setting = self.data, self.setting
        model = MLP(
            setting.hidden,
            max_epochs=setting.max_epochs,
            batch_size=setting.batch_size,
            random_state=self.seed,
        )
        audit = LabelAudit(
            model,
            encoder=TableEncoder("embed", setting.numeric, setting.embedding_seed),
            budget=setting.budget,
            strategy=protocol_of(setting.budget),
            members=1,
            fresh_seeds=0,
            engine=self.engine,
            n_jobs=self.machinery.jobs,
            ledger=self.machinery.ledger,
            random_state=self.seed,
        )
        return fit(audit, data)

    def n_psi(self) -> tuple[int, int]:
        """The fewest and the most labels that ψ allows to flip for one of the people."""
        X = self.data.X_test.iloc[self.cases]
        sizes = (
            [int(count) for count in flippable_labels(self.base.fitted_, X).counts]
            if len(X)
            else []
        )
        return (min(sizes), max(sizes)) if sizes else (0, 0)


def _person(verdict: Verdict) -> PersonResult:
    return PersonResult(
        case=int(verdict.case or 0),
        found=verdict.found,
        attempt=verdict.attempts if verdict.found else None,
        positions=verdict.positions,
        logit=round(verdict.logit, 6),
        counterfactual_logit=plain(verdict.counterfactual_logit),
    )
