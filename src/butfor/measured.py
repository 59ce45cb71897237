"""What is measured about people who are audited together, and its record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor._version import __version__
from butfor.fit import Fitted
from butfor.models.abilities import Pulls
from butfor.models.ensemble import record_gaps
from butfor.models.seam import FlipSet
from butfor.models.trainer import Trainer
from butfor.result import verdict as result
from butfor.result.fresh import Collateral, FreshSeeds
from butfor.result.record import Cell, plain
from butfor.result.run import (
    Data,
    GroupRates,
    Performance,
    Run,
    recorded_comparison,
)
from butfor.result.verdict import ENUMERATION, ONE_LABEL
from butfor.search.gains import GainTable
from butfor.search.proofs import Bracket
from butfor.search.rankings.ranking import Ranking, parameters
from butfor.search.rules import Allowed, Situation
from butfor.search.schedule import Find, Outcome
from butfor.standard.groups import Standards
from butfor.support.versions import versions
from butfor.table.columns import date_of
from butfor.table.groups import in_order
from butfor.table.hashes import TYPED

DECIMALS = 6
"""Decimals of pulls; a course has one fewer."""
NOBODY: NDArray[np.int64] = np.empty(0, np.int64)


@dataclass(eq=False)
class Together:
    """People who are audited together: everyone or, with more than two labels, those who share a
    decision and the label that flips give. They are at `positions` of those asked about, and at
    `cases` of the given table."""

    people: Situation
    positions: NDArray[np.int64]
    cases: list[int]
    psi: Allowed
    left_out: list[str | None]
    """Why φ leaves a person out; None for the others."""
    trainer: Trainer
    gains: GainTable
    ranking: Ranking
    """What a trial teaches it holds for these people alone."""
    proven: dict[int, Bracket] = field(default_factory=dict)
    agreement: dict[str, Any] | None = None
    """What a trial of rankings showed."""
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    """What the search for a person came to."""
    without_flips: dict[int, int] = field(default_factory=dict)
    """How many fresh seeds change the decision on the unchanged data."""
    fresh: dict[int, FreshSeeds] = field(default_factory=dict)
    collateral: dict[int, Collateral] = field(default_factory=dict)

    @property
    def audited(self) -> NDArray[np.int64]:
        return np.array([k for k, why in enumerate(self.left_out) if why is None], np.int64)

    @property
    def finds(self) -> dict[int, Find]:
        """What was found, by person."""
        return {
            number: outcome.find
            for number, outcome in self.outcomes.items()
            if outcome.find is not None
        }


def persons_of(
    fitted: Fitted,
    part: Together,
    standards: Standards | None,
    truth: NDArray[np.int64] | None = None,
) -> list[result.Person]:
    """What was measured about each person, in their order. `truth`: the labels of everyone."""
    people = part.people
    names = fitted.label_names
    table = people.table
    decision = fitted.decision
    two_sides = table.two_sides
    dates = fitted.roles.dates
    doubt = None if standards is None else standards.doubt
    if (
        doubt is not None and table.multiclass
    ):  # it is about two sides, and unknown for a flip within one side
        sides = fitted.table.sides
        doubt = np.where(sides(table.codes) != sides(table.new_codes), doubt, np.nan)
    by_model = people.model.ability(Pulls)
    pulled = None if by_model is None else by_model.pulls(people.people)

    def cells(rows: pd.DataFrame) -> list[dict[str, Cell]]:
        """Each row; every value keeps its column's type, and days are dates again."""
        values = []
        for k, column in enumerate(rows.columns):
            own = [plain(value) for value in rows.iloc[:, k].astype(object)]
            days = column in dates
            values.append(
                [date_of(value) if days and value is not None else value for value in own]
            )
        names = list(map(str, rows.columns))
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)] or [
            {} for _ in rows.index
        ]

    @cache
    def flip(position: int) -> result.Flip:
        known = (
            None if doubt is None or np.isnan(doubt[position]) else round(float(doubt[position]), 4)
        )
        row = plain(table.X.index[position])
        label = names[table.codes[position]]
        return result.Flip(int(position), row, label, cells(table.X.iloc[[position]])[0], known)

    def scores(logit: float, at_cut: float) -> tuple[float, float]:
        """With a threshold: the score of the favourable label, and the cut."""
        return decision.score(logit + at_cut, fitted.favourable), decision.score(
            at_cut, fitted.favourable
        )

    persons = []
    values_of = cells(people.people)
    flippable = part.psi.counts.tolist()
    for k, case in enumerate(part.cases):
        outcome = part.outcomes.get(k, Outcome()) if part.left_out[k] is None else None
        find = None if outcome is None else outcome.find
        away = float(part.gains.away[k])
        more = dict[str, Any]()
        flips: FlipSet = () if find is None else find.flips
        if decision.has_cut:
            more["score"], more["cut"] = scores(float(people.logits[k]), people.model.at_cut)
        if two_sides is not None:
            more |= {"decision": names[people.decisions[k]], "new_label": names[two_sides.new[0]]}
        if outcome is not None:
            course = [(len(tried), gain) for tried, gain in outcome.asked if math.isfinite(gain)]
            if bracket := part.proven.get(k):
                more |= {"at_least": bracket.at_least, "proof": bracket.how}
            elif len(flips) == 1:
                more |= {"at_least": 1, "proof": ONE_LABEL}
            elif outcome.all_tried:
                more |= {"at_least": 2, "proof": ENUMERATION}
            more |= {
                "attempts": len(outcome.asked),
                "complete": outcome.complete,
                "shared": find is not None and find.shared,
                "first_size": 0 if find is None else find.first_size,
                "closest_logit": None if outcome.closest is None else plain(outcome.closest * away),
                "course": tuple(
                    (size, round(float(gain) * away, DECIMALS - 1)) for size, gain in course
                ),
                "without_flips": None if k in part.fresh else part.without_flips.get(k),
            }
        if find is not None:
            more |= {
                "counterfactual_logit": float(part.trainer.margins(find.answers)[k]),
                "minimal": find.minimal,
                "fresh": part.fresh.get(k),
                "collateral": part.collateral.get(k),
            }
            if find.clearance is not None:
                more["clearance"] = plain(find.clearance)
            if decision.has_cut:
                logit = float(part.trainer.margins(find.answers)[k])
                after = scores(logit, float(decision.answer_at_cut(find.answers)))
                more["counterfactual_score"], more["counterfactual_cut"] = after
            if table.multiclass:
                more["new_decision"] = names[part.trainer.decisions(find.answers)[k]]
        persons.append(
            result.Person(
                case=int(case),
                row=plain(people.people.index[k]),
                group=plain(people.groups[k]),
                values=values_of[k],
                recorded_label=None if truth is None else names[truth[case]],
                logit=float(people.logits[k]),
                flippable=flippable[k],
                left_out=part.left_out[k],
                flip_set=tuple(map(flip, flips)),
                pulls={name: round(pull, DECIMALS) for name, pull in pulled[k].items()}
                if pulled
                else None,
                switch_changes=None
                if people.switch_changes is None
                else bool(people.switch_changes[k]),
                **more,
            )
        )
    return persons


def performance_of(fitted: Fitted, everyone: Situation, truth: NDArray[np.int64]) -> Performance:
    """How good the model is for these people, whose labels are the classes `truth`, and for each
    group of them."""
    table = fitted.table
    decided = everyone.decisions
    commonest = int(np.bincount(table.codes).argmax())  # the first of equally common ones
    sided = not table.multiclass or fitted.adverse is not None
    groups = pd.Series(everyone.groups).astype(str).to_numpy()
    label = table.sides(truth)
    said = table.sides(decided)
    rates = []
    for group in map(str, in_order(everyone.groups, fitted.sensitive.cuts)):
        ours = groups == group
        sides = (
            (label[ours], said[ours], said[ours & ~label], ~said[ours & label])
            if sided
            else ((),) * 4
        )
        base, selected, false_positive, false_negative, error = (
            float(np.mean(hits)) if len(hits) else None
            for hits in (*sides, (truth != decided)[ours])
        )
        rates.append(
            GroupRates(
                group, int(ours.sum()), base, selected, error, false_positive, false_negative
            )
        )
    return Performance(
        people=len(truth),
        accuracy=float((truth == decided).mean()),
        majority=float((truth == commonest).mean()),
        by_group=tuple(rates),
        commonest=fitted.label_names[commonest],
    )


def run_of(fitted: Fitted, decisions: NDArray[np.int64] = NOBODY, **more: Any) -> Run:
    """Everything needed to run an audit again. `decisions` about the people asked about; `more`:
    further fields."""
    table = fitted.table
    sensitive = fitted.sensitive
    own = fitted.learner.own_seed
    seeds = fitted.seeds
    origin: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in fitted.roles.origin.items()
    }
    data = Data(
        **origin,
        sha256=fitted.data_hash,
        hash_rule=TYPED,
        training_rows=table.n,
        labelled=len(fitted.labelled.X),
        set_aside=table.set_aside,
        validated=table.validation is not None,
        weighted=table.weight is not None,
        clustered=table.cluster is not None,
    )
    ranking = fitted.ranking
    strategy = fitted.strategy
    phi = fitted.phi
    psi = fitted.psi
    lost = {
        f"data: {data.source}": data.table is None,
        "sample_weight: given in Python": data.weighted and data.weight is None,
        "cluster: given in Python": data.clustered and data.cluster is None,
        f"phi: {phi.text}, which is a function or a mask": not phi.rebuildable,
        f"psi: {psi.text}, which is a function or a mask": not psi.rebuildable,
        f"rank: {ranking.name}, which is the user's own code": not ranking.rebuildable
        or type(ranking).__module__.split(".")[0] != "butfor",
        f"strategy: {strategy.name}, which is the user's own code": strategy.own,
    }
    return Run(
        butfor=__version__,
        versions=versions(),
        data=data,
        sensitive=sensitive.name,
        attributes=sensitive.attributes,
        sensitive_columns=tuple(map(plain, sensitive.columns)),
        sensitive_bands=sensitive.cuts,
        blind=sensitive.blind,
        label_names=tuple(fitted.label_names),
        adverse=fitted.adverse_names,
        learner=plain(fitted.learner.record()),
        learner_name=fitted.learner.name,
        seeded=fitted.seeded,
        budget=fitted.budget,
        rank=ranking.name,
        rank_parameters=plain(parameters(ranking)),
        strategy=strategy.name,
        strategy_parameters=plain(strategy.parameters),
        phi=phi.text,
        psi=psi.text,
        members=fitted.members,
        fresh_seeds=fitted.settings.fresh_seeds,
        seed_ranges={
            "members": (own, own + fitted.members - 1),
            "fresh": (seeds[0], seeds[-1]) if seeds else None,
        }
        if fitted.seeded
        else None,
        **recorded_comparison(fitted.comparison),
        decision=fitted.decision_facts(decisions),
        log_odds=fitted.log_odds,
        not_rebuildable=(
            *record_gaps(fitted.learner),
            *(what for what, applies in lost.items() if applies),
        ),
        **more,
    )
