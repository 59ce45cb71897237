"""From a finished search to a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.protocols import FlipSet
from butfor.result.person import Cell, Flip, Person, Search
from butfor.result.record import Run, plain
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Verdict
from butfor.run.runner import Runner
from butfor.search.state import PersonSearch
from butfor.situation import changed_by_switch

DECIMALS = 6
"""Of pulls; those of the course have one fewer."""


class Conclusions:
    """The verdicts of one runner."""

    def __init__(self, runner: Runner, run: Mapping[str, Any], doubt: NDArray[np.float64] | None = None) -> None:
        self.doubt = doubt
        self.runner, self.situation, self.settings = runner, runner.situation, runner.settings
        self.run = Run(run)
        self._flip = lru_cache(maxsize=None)(self._flip_at)

    def verdicts(self, cases: Sequence[int]) -> list[Verdict]:
        """One per person, in their order; no search means that φ left the person out."""
        by_person = {p.person: p for p in self.runner.searches}
        pulled = self.situation.model.pulls(self.situation.people)
        switched = changed_by_switch(self.situation)
        found = []
        for k, case in enumerate(cases):
            person = self._person(
                k,
                by_person.get(k),
                case=int(case),
                pulls={name: round(pull, DECIMALS) for name, pull in pulled[k].items()} if pulled else None,
                switch_changes=None if switched is None else bool(switched[k]),
            )
            found.append(Verdict.of(person, self.run, self.situation.table))
        return found

    def _person(self, k: int, search: PersonSearch | None, **more: Any) -> Person:
        situation, allowed = self.situation, int(self.runner.psi.counts[k])
        at_least, proof = self._at_least(k, search, allowed)
        positions = search.found if search is not None and search.found is not None else ()
        return Person(
            row=plain(situation.people.index[k]),
            group=plain(situation.groups[k]),
            values=_cells(situation.people, k),
            logit=float(situation.logits[k]),
            flippable=allowed,
            eligible=search is not None,
            search=_search(search) if search else Search(),
            flip_set=tuple(map(self._flip, positions)),
            counterfactual_logit=search.found_logit if search and positions else None,
            minimal=len(positions) == 1 or bool(positions and search and search.minimal),
            clearance=plain(search.clearance) if search and positions else None,
            at_least=at_least,
            proof=proof,
            **more,
            **self._classes(k, positions),
            **self.runner.extra.get(k, {}),
        )

    def _classes(self, k: int, positions: FlipSet) -> dict[str, Any]:
        """With more than two labels: the decision, the label that flips give, and the decision after them."""
        question, names = self.situation.table.question, self.situation.label_names
        if question is None:
            return {}
        known = {"decision": names[self.situation.decisions[k]], "new_label": names[question.new[0]]}
        if positions:
            known["turned_into"] = names[self.runner.trainer.confirmed_decisions(positions)[k]]
        return known

    def _at_least(self, k: int, search: PersonSearch | None, allowed: int) -> tuple[int | None, str | None]:
        """How many labels it takes at least, and how that is known. A training that failed says nothing about its
        labels: where there was one, not everything was tried."""
        if search is None:
            return None, None
        if k in self.runner.proven:
            return self.runner.proven[k].at_least, self.runner.proven[k].how
        enumerated = self.settings.strategy.enumerates(allowed, self.settings.budget) and not search.failed
        if search.found is not None:
            if len(search.found) == 1:
                return 1, ONE_LABEL
            return (len(search.found), ENUMERATION) if enumerated else (None, None)
        if search.complete and allowed and enumerated:
            return self.settings.budget + 1, ENUMERATION
        return None, None

    def _flip_at(self, position: int) -> Flip:
        table = self.situation.table
        label = self.situation.label_names[table.codes[position]]
        doubt = None if self.doubt is None or np.isnan(self.doubt[position]) else round(float(self.doubt[position]), 4)
        return Flip(int(position), plain(table.X.index[position]), label, _cells(table.X, position), doubt)


def _search(search: PersonSearch) -> Search:
    return Search(
        attempts=search.spent,
        failed=search.failed,
        complete=search.complete,
        shared=search.shared,
        first_size=search.first_size,
        closest_logit=plain(search.closest),
        course=tuple((int(k), round(float(logit), DECIMALS - 1)) for k, logit in search.course),
    )


def _cells(table: pd.DataFrame, position: int) -> dict[str, Cell]:
    """A row, every value of its column's own type."""
    row = table.iloc[[position]].astype(object).iloc[0]
    return {str(name): plain(value) for name, value in row.items()}
