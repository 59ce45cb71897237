"""What is measured about people who are audited together, and its record."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor._version import __version__
from butfor.fit import Fitted
from butfor.models.abilities import Pulls
from butfor.models.ensemble import record_gaps
from butfor.models.seam import Floats, flip_direction
from butfor.question import Question
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
from butfor.search.proofs import Bracket
from butfor.search.rankings.ranking import Ranking, parameters
from butfor.search.rules import Situation
from butfor.search.schedule import Find, Outcome
from butfor.standard.groups import Standards
from butfor.support.versions import versions
from butfor.table.columns import date_of
from butfor.table.decisions import changes_decision
from butfor.table.groups import in_order
from butfor.table.hashes import TYPED

DECIMALS = 6
"""Decimals of pulls; a course has one fewer."""
NOBODY: NDArray[np.int64] = np.empty(0, np.int64)
LEFT_OUT = Outcome(complete=True)
"""Of people whom φ leaves out."""
NOT_BEGUN = Outcome(complete=False)
"""Of people whose search the end of the work came before."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What the steps found out about the people of a question, by number."""

    question: Question
    ranking: Ranking
    trial: dict[str, Any] | None
    """The figures of the trial from which the ranking learned, if there was one."""
    proofs: Mapping[int, Bracket]
    outcomes: Mapping[int, Outcome]
    without_flips: Mapping[int, Floats]
    """Logits on the unchanged data under fresh seeds, `[seeds]`."""
    fresh: Mapping[int, FreshSeeds]
    collateral: Mapping[int, Collateral]

    @property
    def finds(self) -> dict[int, Find]:
        """What was found, by person."""
        return {
            number: outcome.find
            for number, outcome in self.outcomes.items()
            if outcome.find is not None
        }

    def outcome(self, number: int) -> Outcome:
        if self.question.left_out[number] is not None:
            return LEFT_OUT
        return self.outcomes.get(number, NOT_BEGUN)

    def at_least(self, number: int) -> tuple[int | None, str | None]:
        """The fewest labels that change the decision, as far as it is proven, and the proof."""
        bracket = self.proofs.get(number)
        if bracket is not None:
            return bracket.at_least, bracket.how
        outcome = self.outcome(number)
        if outcome.find and len(outcome.find.flips) == 1:
            return 1, ONE_LABEL
        if outcome.all_tried:
            return 2, ENUMERATION
        return None, None

    def changed_without_flips(self, number: int) -> int | None:
        """Without a find: how many fresh seeds change the decision on the unchanged data."""
        if number in self.fresh or number not in self.without_flips:
            return None
        decision = self.question.people.predictions[number]
        return int(changes_decision(self.without_flips[number], decision).sum())


class Recorder:
    """Writes the records of people: one place, one line for each field."""

    def __init__(
        self,
        fitted: Fitted,
        answers: Answers,
        standards: Standards | None,
        truth: NDArray[np.int64] | None,
    ) -> None:
        self.fitted = fitted
        self.answers = answers
        self.truth = truth
        self.people = answers.question.people
        self.table = self.people.table
        self.decision = fitted.decision
        sides = self.table.two_sides
        self.line = self.decision if sides is None else sides
        self.away = flip_direction(self.people.logits)
        self.doubt = self._doubt(standards)
        by_model = self.people.model.ability(Pulls)
        self.pulls = None if by_model is None else by_model.pulls(self.people.people)
        self.values = cells(self.people.people, fitted.roles.dates)
        self._flips: dict[int, result.Flip] = {}

    def person(self, number: int) -> result.Person:
        answers = self.answers
        question = answers.question
        people = self.people
        case = question.cases[number]
        outcome = answers.outcome(number)
        logit = float(people.logits[number])
        score, cut = self._score_and_cut(logit, people.model.at_cut)
        decision, new_label = self._names(number)
        at_least, proof = answers.at_least(number)
        person = result.Person(
            case=int(case),
            row=plain(people.people.index[number]),
            group=plain(people.groups[number]),
            values=self.values[number],
            recorded_label=self._recorded_label(case),
            # The decision.
            logit=logit,
            score=score,
            cut=cut,
            decision=decision,
            new_label=new_label,
            switch_changes=self._switch_changes(number),
            pulls=self._pulls(number),
            # φ, ψ and proofs.
            left_out=question.left_out[number],
            flippable=int(question.allowed.counts[number]),
            at_least=at_least,
            proof=proof,
            # The search.
            attempts=len(outcome.asked),
            complete=outcome.complete,
            closest_logit=self._closest_logit(outcome, number),
            course=self._course(outcome, number),
            # Fresh seeds and side effects.
            fresh=answers.fresh.get(number),
            without_flips=answers.changed_without_flips(number),
            collateral=answers.collateral.get(number),
        )
        return person if outcome.find is None else self._with_find(person, outcome.find, number)

    def _with_find(self, person: result.Person, find: Find, number: int) -> result.Person:
        logit = float(self.line.margins(find.answers)[number])
        score: float | None = None
        cut: float | None = None
        if self.decision.has_cut:
            at_cut = float(self.decision.answer_at_cut(find.answers))
            score, cut = self._score_and_cut(logit, at_cut)
        new_decision = None
        if self.table.multiclass:
            new_decision = self.fitted.label_names[self.line.decisions(find.answers)[number]]
        return replace(
            person,
            flip_set=tuple(map(self._flip, find.flips)),
            first_size=find.first_size,
            shared=find.shared,
            minimal=find.minimal,
            clearance=None if find.clearance is None else plain(find.clearance),
            counterfactual_logit=logit,
            counterfactual_score=score,
            counterfactual_cut=cut,
            new_decision=new_decision,
        )

    # --- the person ---

    def _recorded_label(self, case: int) -> str | None:
        return None if self.truth is None else self.fitted.label_names[self.truth[case]]

    def _switch_changes(self, number: int) -> bool | None:
        changes = self.people.switch_changes
        return None if changes is None else bool(changes[number])

    def _pulls(self, number: int) -> dict[str, float] | None:
        if not self.pulls:
            return None
        return {name: round(pull, DECIMALS) for name, pull in self.pulls[number].items()}

    # --- the decision ---

    def _score_and_cut(self, logit: float, at_cut: float) -> tuple[float | None, float | None]:
        """With a threshold: the score of the favourable label, and the cut."""
        if not self.decision.has_cut:
            return None, None
        favourable = self.fitted.favourable
        score = self.decision.score(logit + at_cut, favourable)
        return score, self.decision.score(at_cut, favourable)

    def _names(self, number: int) -> tuple[str | None, str | None]:
        """With more than two labels: the decision, and the label that flips give."""
        sides = self.table.two_sides
        if sides is None:
            return None, None
        names = self.fitted.label_names
        return names[self.people.decisions[number]], names[sides.new[0]]

    # --- the search ---

    def _closest_logit(self, outcome: Outcome, number: int) -> float | None:
        if outcome.closest is None:
            return None
        return float(plain(outcome.closest * float(self.away[number])))

    def _course(self, outcome: Outcome, number: int) -> tuple[tuple[int, float], ...]:
        """How many labels each attempt flipped, and the logit, if the training did not fail."""
        away = float(self.away[number])
        finite = [(len(flips), gain) for flips, gain in outcome.asked if math.isfinite(gain)]
        return tuple((size, round(float(gain) * away, DECIMALS - 1)) for size, gain in finite)

    # --- the find ---

    def _flip(self, position: int) -> result.Flip:
        """A flipped label; people share them."""
        if position not in self._flips:
            self._flips[position] = result.Flip(
                position=int(position),
                row=plain(self.table.X.index[position]),
                label=self.fitted.label_names[self.table.codes[position]],
                values=cells(self.table.X.iloc[[position]], self.fitted.roles.dates)[0],
                doubt=self._doubt_about(position),
            )
        return self._flips[position]

    def _doubt(self, standards: Standards | None) -> NDArray[np.float64] | None:
        """The doubt about each training label. With more than two labels it is about two sides, and
        unknown for a flip within one side."""
        if standards is None or not self.table.multiclass:
            return None if standards is None else standards.doubt
        sides = self.fitted.table.sides
        crosses = sides(self.table.codes) != sides(self.table.new_codes)
        return np.where(crosses, standards.doubt, np.nan)

    def _doubt_about(self, position: int) -> float | None:
        if self.doubt is None or np.isnan(self.doubt[position]):
            return None
        return round(float(self.doubt[position]), 4)


def persons_of(
    fitted: Fitted,
    answers: Answers,
    standards: Standards | None,
    truth: NDArray[np.int64] | None = None,
) -> list[result.Person]:
    """The records of a question's people. `truth`: the labels of everyone, if known."""
    recorder = Recorder(fitted, answers, standards, truth)
    return [recorder.person(number) for number in range(len(answers.question.cases))]


def cells(rows: pd.DataFrame, dates: Collection[Hashable]) -> list[dict[str, Cell]]:
    """Each row by column; every value keeps its column's type, and days are dates again."""
    columns: dict[str, list[Cell]] = {}
    for place, name in enumerate(rows.columns):
        values = [plain(value) for value in rows.iloc[:, place].astype(object)]
        if name in dates:
            values = [None if value is None else date_of(value) for value in values]
        columns[str(name)] = values
    return [{name: values[place] for name, values in columns.items()} for place in range(len(rows))]


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
