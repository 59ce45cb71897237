"""People who are asked about together: everyone or, with more than two labels, those who share a decision and the other
decision that is in view for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from butfor.learn.question import Question
from butfor.rules import Allowed
from butfor.situation import Situation


@dataclass(frozen=True, eq=False)
class Part:
    """`people`: positions among those who are asked about. `question`: with more than two labels, what is asked."""

    people: NDArray[np.int64]
    question: Question | None = None

    def of(self, situation: Situation) -> Situation:
        return situation if self.question is None else situation.of(self.people).under(self.question)

    def allowed(self, psi: Allowed, situation: Situation) -> Allowed:
        """Of what `psi` allows for everyone, what it allows for these people: no row that has the new label already."""
        if self.question is None:
            return psi
        theirs = psi.of_people(self.people)
        return replace(theirs, masks=theirs.masks & (self.question.new != situation.table.codes))


def parts_of(situation: Situation, towards: int | None = None) -> list[Part]:
    """All of them together or, with more than two labels, by their decision and the label that flips give for them: the
    one asked for, `towards`, else the one whose score comes next."""
    if not situation.table.many:
        return [Part(np.arange(len(situation.people)))]
    scores, decided = situation.model.scores(situation.people), situation.decisions
    others = scores.copy()
    others[np.arange(len(others)), decided] = -np.inf
    new = others.argmax(axis=1)
    classes, rows = len(situation.table.classes), situation.table.n
    asked = np.full(len(decided), False) if towards is None else decided != towards
    new[asked] = towards if towards is not None else 0
    found = []
    for pair in sorted(set(zip(decided.tolist(), new.tolist(), strict=True))):
        people = np.flatnonzero((decided == pair[0]) & (new == pair[1]))
        make = Question.of if asked[people[0]] else Question.away_from
        found.append(Part(people, make(*pair, classes, rows)))
    return found or [Part(np.arange(0))]
