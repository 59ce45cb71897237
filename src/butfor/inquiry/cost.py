"""What an inquiry costs, before it begins: its phases, each with a bound that holds and with what usually comes of it.

    timing ──▸ trial ──▸ ranking ──▸ search ⇄ confirmation ──▸ fresh seeds ──▸ shuffles ──▸ side effects

The bound counts trainings as if everyone came near the other decision and were found. How many really are is not known
before the search; what is expected goes by what audits of real tables usually come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from butfor.allowed import Allowed
from butfor.progress import Phase
from butfor.search import measured
from butfor.search.joint import JointSearch
from butfor.search.protocols import Protocol
from butfor.search.shrink import Shrink
from butfor.search.solid import CLAIMS, SCREEN, SolidSearch, halvings

NEAR, FOUND = 0.4, 0.25
"""Shares of people who usually come near the other decision, and who are found."""
SCORED = 3.0
"""Trainings that ranking all labels takes per member and block of people, as far as one can tell before."""

TIMING, TRIAL, RANKING, SEARCH, CONFIRMATION = "timing", "trial", "ranking", "search", "confirmation"
FRESH, SHUFFLES, AROUND = "fresh seeds", "shuffles", "side effects"


@dataclass(frozen=True)
class Question:
    """What costs depend on. `sizes`: labels that may be flipped, per person who is searched for; `settled`: people
    whose answer is proven and has only to be confirmed; `distinct`: different sets there are, where that is known."""

    protocol: Protocol
    budget: int
    sizes: Sequence[int]
    settled: int
    members: int
    width: int
    trial: int
    ranked: bool
    looks_again: bool
    measures: bool
    max_retrainings: int | None
    fresh_seeds: int
    alternatives: int
    shuffles: int
    others: bool
    confirms: bool
    distinct: int | None = None

    @property
    def asked(self) -> int:
        return len(self.sizes) + self.settled

    # --- at the most, in sets -----------------------------------------------------------------------

    def sets(self) -> int:
        """One search for everyone."""
        protocol, budget = self.protocol, self.budget
        if isinstance(protocol, SolidSearch):
            return protocol.sets_at_most(self.sizes, budget, self.width, self.looks_again, self.measures)
        tried = sum(protocol.most(size, budget) for size in self.sizes)
        tried = tried if self.distinct is None else min(tried, self.distinct)
        return tried + protocol.shrinks * sum(Shrink.most(min(size, budget)) for size in self.sizes)

    def claims(self, known: int) -> int:
        """Sets put to the definition; no more than the `known` ones that were trained."""
        if not self.confirms:
            return 0
        each = CLAIMS if isinstance(self.protocol, SolidSearch) else JointSearch.CLAIMS
        enumerates = any(self.protocol.enumerates(size, self.budget) for size in self.sizes)
        return known if enumerates else min(known, each * len(self.sizes))

    # --- usually, in sets ---------------------------------------------------------------------------

    def usual_sets(self) -> float:
        people, size = len(self.sizes), min(self.budget, max(self.sizes, default=0))
        if isinstance(self.protocol, SolidSearch):
            screened = SCREEN / self.members if self.members > 2 * SCREEN else 1.0
            sizes = (1 + self.looks_again + self.measures) * halvings(size) if size else 0
            return 1 + people * (screened + NEAR * (1 - screened + sizes + self.measures * measured.SETS))
        tried = sum(self.protocol.most(each, self.budget) for each in self.sizes)
        tried = tried if self.distinct is None else min(tried, self.distinct)
        one_by_one = min(size, Shrink.ONE_BY_ONE) + Shrink.OTHERS
        return tried + self.protocol.shrinks * FOUND * people * (one_by_one + halvings(size) if size > 1 else 0)

    # --- phases -------------------------------------------------------------------------------------

    def phases(self, each: float, by_definition: float, scored: float) -> list[Phase]:
        """In their order; `each`: seconds of a training by the engine, `by_definition` of one that confirms, `scored`
        of one that ranks."""
        k, people = self.members, len(self.sizes)
        trial, sets = self.trial, self.sets()
        limit = self.max_retrainings
        found, rounds, settled = FOUND * people + self.settled, self.alternatives, self.settled * k
        search = (1 + rounds) * sets * k + settled
        search = search if limit is None else min(search, max(0, limit - trial * k))
        claims = ((1 + rounds) * self.claims(trial + (1 + rounds) * sets) + self.settled * self.confirms) * k
        looked = people * self.ranked
        fresh = self.fresh_seeds * (1 + self.asked) if self.asked else 0
        everyone = [self.budget] * self.asked  # with the groups shuffled, other labels may be flipped
        shuffled = (self.shuffles + 1) * SolidSearch().sets_at_most(everyone, self.budget, self.width, False)
        aside = (self.asked + 1) * k if self.others and self.asked else 0
        asked_again = self.shuffles + 1 if self.shuffles else 0
        twice = 1 + self.protocol.shrinks
        return [
            Phase(TRIAL, trial * k, trial * k, each),
            Phase(RANKING, (1 + rounds + asked_again) * looked, looked, scored / max(1, people), "people"),
            Phase(SEARCH, search, (1 + FOUND * rounds) * self.usual_sets() * k + settled, each),
            Phase(CONFIRMATION, claims, (FOUND * people * twice + self.settled) * k * self.confirms, by_definition),
            Phase(FRESH, fresh, self.fresh_seeds * (1 + found), each),
            Phase(SHUFFLES, shuffled * k * (self.shuffles > 0), self._usual_shuffles(), each),
            Phase(AROUND, aside, (found + 1) * k, each),
        ]

    def _usual_shuffles(self) -> float:
        screened = SCREEN / self.members if self.members > 2 * SCREEN else 1.0
        each = screened + NEAR * (1 - screened + halvings(self.budget))
        return self.shuffles * self.asked * each * self.members


def distinct_sets(psi: Allowed, budget: int) -> int:
    """Different single labels and, with a budget of 2, pairs that somebody's ψ allows."""
    singles = psi.different[:, psi.different.any(axis=0)]
    count = singles.shape[1]
    if budget == 1:
        return count
    if count > 5000:
        return count * (count + 1) // 2
    allowed = singles.astype(np.float32)
    return count + int(np.triu(allowed.T @ allowed > 0, 1).sum())
