"""Who is asked about, and between which sides of the decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.fit import Fitted
from butfor.search.rules import Allowed, Situation
from butfor.search.strategies import RECORDED
from butfor.standard.groups import Standards
from butfor.support.errors import TableError
from butfor.table.checking import Concern, check_people
from butfor.table.handed_over import as_positions
from butfor.table.labels import label_number
from butfor.table.sides import Sides


@dataclass(frozen=True, eq=False)
class Inquiry:
    """What a user asks: about which rows of a table, and for which decision."""

    everyone: Situation
    """All rows of the given table."""
    truth: NDArray[np.int64] | None
    """Their recorded labels by number, if known."""
    cases: list[int]
    """The rows that are asked about."""
    towards: int | None
    """The decision to reach, by number; None for any other than the present one."""
    concerns: tuple[Concern, ...]
    """What is odd about the rows."""
    searches: bool
    """Whether flip sets are searched for; a replay only retrains those of a record."""

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        X: Any,
        y: Any,
        sensitive_features: Any,
        cases: Sequence[int] | None,
        towards: Any,
    ) -> Inquiry:
        """The question, checked."""
        table = fitted.table
        everyone, truth = fitted.people(X, y, sensitive_features)
        count = len(everyone.people)
        positions = list(range(count)) if cases is None else as_positions(cases, count)
        label = None
        if towards is not None:
            label = label_number(towards, fitted.label_names, table.classes, "towards")
        for case in positions:
            if not np.isfinite(everyone.logits[case]):
                raise TableError(
                    f"The model's score for person {case} is infinite or not a number: check that "
                    "row for numbers far outside the training rows."
                )
        concerns = tuple(check_people(table.X, everyone.people))
        searches = fitted.strategy.name != RECORDED
        return cls(everyone, truth, positions, label, concerns, searches)

    @property
    def several(self) -> bool:
        """Whether more than one person is asked about, so that groups and labels matter."""
        return len(self.cases) > 1

    def knowing(self, standards: Standards | None) -> Inquiry:
        """The same once groups were compared: ψ may ask which labels are in doubt."""
        if standards is None:
            return self
        doubt = standards.doubt
        return replace(self, everyone=replace(self.everyone, doubts=lambda: doubt))

    def people(self) -> Situation:
        """The people asked about."""
        return self.everyone.of(np.array(self.cases, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Question:
    """People on one side of a decision, who are searched for together. Each has a number there."""

    people: Situation
    positions: NDArray[np.int64]
    """Where they stand among all people asked about."""
    cases: list[int]
    """Which rows of the given table they are."""
    allowed: Allowed
    """ψ: the labels that may be flipped for each of them."""
    left_out: list[str | None]
    """φ: why a person is left out; None for the others."""

    @classmethod
    def about(
        cls, people: Situation, cases: list[int], left_out: list[str | None], allowed: Allowed
    ) -> Question:
        """About all people asked about."""
        return cls(people, np.arange(len(people.people)), cases, allowed, left_out)

    @property
    def audited(self) -> list[int]:
        """Whom φ admits, by number."""
        return [number for number, why in enumerate(self.left_out) if why is None]

    def some(self, at: NDArray[np.int64], sides: Sides, allowed: Allowed) -> Question:
        """The question about these of the people, between other sides."""
        return Question(
            people=self.people.of(at).with_sides(sides),
            positions=at,
            cases=[self.cases[number] for number in at],
            allowed=allowed,
            left_out=[self.left_out[number] for number in at],
        )


def by_sides(whole: Question, towards: int | None = None) -> list[Question]:
    """With two labels the question as it is. With more, one for each decision and the label that
    flips give: `towards`, or the label with the next score. Rows that have the new label already
    are not flipped."""
    people = whole.people
    table = people.table
    if not table.multiclass or not len(people.people):
        return [whole]
    decided = people.decisions
    next_best = people.model.scores(people.people).copy()
    next_best[np.arange(len(next_best)), decided] = -np.inf
    new = next_best.argmax(axis=1)
    # Who asks for one decision, not for any other.
    reaches_one = np.zeros(len(decided), bool)
    if towards is not None:
        reaches_one = decided != towards
        new[reaches_one] = towards
    questions = []
    for pair in sorted(set(zip(decided.tolist(), new.tolist(), strict=True))):
        at = np.flatnonzero((decided == pair[0]) & (new == pair[1]))
        only = bool(reaches_one[at[0]])
        sides = Sides.away_from(*pair, len(table.classes), table.n, only=only)
        allowed = whole.allowed.of_people(at)
        allowed = replace(allowed, masks=allowed.masks & (table.codes != pair[1]))
        questions.append(whole.some(at, sides, allowed))
    return questions
