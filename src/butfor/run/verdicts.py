"""Turns finished searches into verdicts and into the record of the run, from which it can be run again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor._version import __version__
from butfor.columns import DATES
from butfor.data.dates import date_of
from butfor.models.ensemble import at_cut_of
from butfor.models.learner import FlipSet
from butfor.provenance import versions
from butfor.rank.ranking import parameters
from butfor.result.person import Cell, Flip, Person
from butfor.result.record import builtins_of, plain
from butfor.result.run import Data, Run, SeedRanges, agreement_of
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Verdict
from butfor.run.fitted import Fitted
from butfor.run.runner import Runner
from butfor.search import Person as Searched
from butfor.situation import changed_by_switch

DECIMALS = 6
"""Decimals of pulls; a course has one fewer."""


NOBODY = np.empty(0, np.int64)


def verdicts_of(runner: Runner, run: Run, doubt: NDArray[np.float64] | None = None) -> list[Verdict]:
    """One verdict per person, in their order; a person without a search is not eligible. `doubt`: of each label."""
    situation, table = runner.situation, runner.situation.table
    searches = {search.number: search for search in runner.searches}
    dates = table.X.attrs.get(DATES, ())
    pulls, switched = situation.model.pulls, changed_by_switch(situation)
    pulled = None if pulls is None else pulls(situation.people)

    @cache
    def flip(position: int) -> Flip:
        known = None if doubt is None or np.isnan(doubt[position]) else round(float(doubt[position]), 4)
        label = situation.label_names[table.codes[position]]
        return Flip(int(position), plain(table.X.index[position]), label, _cells(table.X, position, dates), known)

    found = []
    for k, case in enumerate(runner.cases):
        search = searches.get(k)
        positions = search.found if search is not None and search.found is not None else ()
        at_least, proof = _at_least(runner, k, search)
        person = Person(
            case=int(case),
            row=plain(situation.people.index[k]),
            group=plain(situation.groups[k]),
            values=_cells(situation.people, k, dates),
            logit=float(situation.logits[k]),
            flippable=int(runner.psi.counts[k]),
            eligible=search is not None,
            flip_set=tuple(map(flip, positions)),
            counterfactual_logit=search.found_logit if search and positions else None,
            minimal=bool(positions and search and _minimal(runner, search)),
            clearance=_clearance(search) if search and positions else None,
            at_least=at_least,
            proof=proof,
            pulls={name: round(pull, DECIMALS) for name, pull in pulled[k].items()} if pulled else None,
            switch_changes=None if switched is None else bool(switched[k]),
            **(_course(runner, search) if search else {}),
            **_classes(runner, k, positions),
            **_scores(runner, k, positions, run.label_names.index(run.favourable) if run.threshold else 1),
            **runner.extra.get(k, {}),
        )
        found.append(Verdict.of(person, run, table))
    return found


def _scores(runner: Runner, k: int, positions: FlipSet, favourable: int) -> dict[str, Any]:
    """With a threshold other than one half: the score and the cut, before and after the flips."""
    trainer, decision = runner.trainer, runner.situation.table.decision
    if not decision.has_cut:
        return {}

    def read(logit: float, at_cut: float) -> tuple[float, float]:
        return decision.score(logit + at_cut, favourable), decision.score(at_cut, favourable)

    score, cut = read(float(runner.situation.logits[k]), at_cut_of(runner.situation.model))
    if not positions:
        return {"score": score, "cut": cut}
    after = read(float(trainer.confirmed_logits(positions)[k]), trainer.confirmed_cut(positions))
    return {"score": score, "cut": cut, "counterfactual_score": after[0], "counterfactual_cut": after[1]}


def _classes(runner: Runner, k: int, positions: FlipSet) -> dict[str, Any]:
    """With more than two labels: the decision, the label that flips give, and the decision after them."""
    new, names = runner.situation.table.decision.new, runner.situation.label_names
    if new is None:
        return {}
    known = {"decision": names[runner.situation.decisions[k]], "new_label": names[new[0]]}
    if positions:
        known["new_decision"] = names[runner.trainer.confirmed_decisions(positions)[k]]
    return known


def _at_least(runner: Runner, k: int, search: Searched | None) -> tuple[int | None, str | None]:
    """How many labels it takes at least, and the name of the proof. After a failed training an enumeration is not
    complete."""
    if search is None:
        return None, None
    if k in runner.proven:
        return runner.proven[k].at_least, runner.proven[k].how
    if search.found is not None and len(search.found) == 1:
        return 1, ONE_LABEL
    singles = [(int(row),) for row in np.flatnonzero(runner.psi[k])]
    tries_all = runner.fitted.strategy.enumerates and runner.fitted.budget == 1 and bool(singles)
    if tries_all and search.complete and search.found is None:
        through = all(math.isfinite(search.gains.get(flips, math.nan)) for flips in singles)
        return (2, ENUMERATION) if through else (None, None)
    return None, None


def _minimal(runner: Runner, search: Searched) -> bool:
    """Whether every set with one flip fewer was tried and does not change the decision."""
    flips = search.found or ()
    if len(flips) == 1 or not runner.fitted.strategy.shares:
        return len(flips) == 1
    fewer = [tuple(row for row in flips if row != out) for out in flips]
    return all(each in search.gains and not search.works(each) for each in fewer)


def _clearance(search: Searched) -> float | None:
    """The members' mean gain in standard deviations."""
    if search.spread is None or search.found is None:
        return None
    gain = search.gains[search.found]
    return plain(gain / search.spread if search.spread else float(np.sign(gain)) * math.inf)


def _course(runner: Runner, search: Searched) -> dict[str, Any]:
    """How the search went, up to the first set that worked; where members were looked at one by one, to its end."""
    own = [flips for flips, _ in search.asked]
    asked = search.asked if search.spread is not None else search.asked[: search.tried if search.first else None]
    if search.first in own and search.spread is None:
        asked = search.asked[: own.index(search.first) + 1]
    known = [(len(flips), gain * search.away) for flips, gain in asked if math.isfinite(gain)]
    gains = [logit * search.away for _, logit in known]
    if runner.fitted.strategy.shares and np.isfinite(runner.known.closest[search.number]):
        gains.append(float(runner.known.closest[search.number]))
    return {
        "attempts": len(asked),
        "failed": len(asked) - len(known),
        "complete": search.complete,
        "shared": search.found is not None and search.first not in own,
        "first_size": len(search.first or ()) if search.found else 0,
        "closest_logit": plain(max(gains) * search.away) if gains else None,
        "course": tuple((int(k), round(float(logit), DECIMALS - 1)) for k, logit in known),
    }


def _cells(table: pd.DataFrame, position: int, dates: Sequence[Any]) -> dict[str, Cell]:
    """A row; every value keeps its column's type, and days are dates again."""
    row = table.iloc[[position]].astype(object).iloc[0]
    return {str(k): date_of(v) if k in dates and not pd.isna(v) else plain(v) for k, v in row.items()}


# --- the run ------------------------------------------------------------------------------------------


def run_of(fitted: Fitted, runners: Sequence[Runner] = (), decisions: NDArray[np.int64] = NOBODY, **more: Any) -> Run:
    """Everything needed to run an audit again, and the totals of its runners; `more`: further fields."""
    table, sensitive = fitted.table, fitted.sensitive
    trainers = [runner.trainer for runner in runners]
    if runners:
        more |= {
            "engine": trainers[0].bound.name,
            "retrainings": sum(trainer.trained for trainer in trainers),
            "recalled": sum(trainer.recalled for trainer in trainers),
            "confirmations": sum(trainer.confirmations for trainer in trainers),
            "agreement": agreement_of(runners[0].agreement),
            "interrupted": runners[-1].interrupted,
            "out_of_time": any(runner.out_of_time for runner in runners),
        }
    labelled = table.n + (0 if fitted.also_labelled is None else len(fitted.also_labelled.X))
    data = Data.of(
        fitted.origin,
        sha256=fitted.data_hash,
        training_rows=table.n,
        labelled=labelled,
        set_aside=table.set_aside,
        validated=table.validation is not None,
        weighted=table.weight is not None,
        clustered=table.cluster is not None,
    )
    return Run(
        butfor=__version__,
        versions=versions(),
        data=data,
        sensitive=sensitive.name,
        attributes=sensitive.attributes,
        sensitive_columns=tuple(map(plain, sensitive.columns)),
        sensitive_bands={name: tuple(cuts) for name, cuts in sensitive.cuts.items()},
        blind=sensitive.blind,
        label_names=tuple(fitted.label_names),
        adverse=adverse_labels(fitted),
        reference=fitted.reference,
        learner=builtins_of(fitted.learner.record()),
        learner_name=fitted.learner.name,
        seeded=fitted.seeded,
        budget=fitted.budget,
        rank=fitted.ranking.name,
        rank_parameters=builtins_of(parameters(fitted.ranking)),
        strategy=fitted.strategy.name,
        strategy_parameters=builtins_of(dict(fitted.strategy.parameters)),
        phi=fitted.phi.text,
        psi=fitted.psi.text,
        members=fitted.members,
        fresh_seeds=fitted.settings.fresh_seeds,
        seed_ranges=_seed_ranges(fitted),
        random_state=fitted.settings.random_state,
        decision=fitted.decision_facts(decisions),
        log_odds=fitted.log_odds,
        not_rebuildable=tuple(_not_rebuildable(fitted, data)),
        **more,
    )


def adverse_labels(fitted: Fitted) -> tuple[str, ...]:
    """The labels that people would rather not have."""
    if fitted.adverse is None:
        return ()
    sides = fitted.table.sides(np.arange(len(fitted.label_names)))
    return tuple(name for name, side in zip(fitted.label_names, sides, strict=True) if side == bool(fitted.adverse))


def _seed_ranges(fitted: Fitted) -> SeedRanges | None:
    if not fitted.seeded:
        return None
    own, fresh = fitted.learner.own_seed, fitted.seeds
    return SeedRanges((own, own + fitted.members - 1), (fresh[0], fresh[-1]) if fresh else None)


def _not_rebuildable(fitted: Fitted, data: Data) -> list[str]:
    lost = fitted.learner.record_gaps()
    if data.table is None:
        lost.append(f"data: {data.source}")
    for name, known, column in (
        ("sample_weight", data.weighted, data.weight),
        ("cluster", data.clustered, data.cluster),
    ):
        if known and column is None:
            lost.append(f"{name}: given in Python")
    for name, rule in (("phi", fitted.phi), ("psi", fitted.psi)):
        if not rule.rebuildable:
            lost.append(f"{name}: {rule.text}, which is a function or a mask")
    ranking, strategy = fitted.ranking, fitted.strategy
    if not ranking.rebuildable or type(ranking).__module__.split(".")[0] != "butfor":
        lost.append(f"rank: {ranking.name}, which is the user's own code")
    if strategy.own:
        lost.append(f"strategy: {strategy.name}, which is the user's own code")
    return lost
