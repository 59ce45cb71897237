"""What a strategy works with: the people, the ranking, the budget and the trainer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from butfor.errors import Stopped
from butfor.learn.capabilities import person_keys
from butfor.learn.protocols import flip_direction
from butfor.progress import PEOPLE
from butfor.rank import Ranking, checked_scores
from butfor.rules import Allowed
from butfor.search.state import RankedRows
from butfor.search.trainer import Trainer
from butfor.situation import Situation

BLOCK, SCORES = 256, 2**23
"""The most people scored at once, and the most scores: one per person and training row must fit in memory."""
RANKING, SEARCH, CONFIRMATION = "ranking", "search", "confirmation"
"""Phases of a search, as progress names them."""


@dataclass(eq=False)
class Task:
    """The people, what ranks and trains for them, and the budget in labels."""

    situation: Situation
    trainer: Trainer
    rank: Ranking
    budget: int
    random_state: int = 0

    def ranked(self, people: NDArray[np.int64], psi: Allowed, depth: Callable[[int, int], int]) -> list[RankedRows]:
        """The rows that ψ allows each person, best first, down to `depth(flippable, budget)`."""
        situation, rank = self.situation, self.rank
        keys, directions = person_keys(situation.model, situation.people), flip_direction(situation.logits)
        found: list[RankedRows] = []
        self.trainer.progress.phase(RANKING, len(people), PEOPLE)
        size = max(1, min(BLOCK, SCORES // situation.table.n))
        for first in range(0, len(people), size):
            self.trainer.flag.check()
            block = people[first : first + size]
            asked = situation.people.iloc[block]
            scores = checked_scores(rank, situation.model, situation.table, asked)
            predicted = rank.predictions(situation.model, situation.table, asked)
            for k, (person, score) in enumerate(zip(block, scores, strict=True)):
                allowed = np.flatnonzero(psi[person])
                reach = None if rank.is_random else depth(len(allowed), self.budget)
                order = allowed[np.argsort(-score[allowed], kind="stable")][:reach]
                rng = np.random.default_rng([self.random_state, keys[person]])
                direction = float(directions[person])
                start = direction * float(situation.logits[person])
                effects = None if predicted is None else np.asarray(predicted[k][order], np.float64)
                ways = (rank.is_random, start, effects, rank.gain_limit)
                found.append(RankedRows(int(person), direction, order, self.budget, rng, len(allowed), *ways))
            self.trainer.progress.advance(len(block))
        return found

    def run(self, explore: Callable[[], None], confirm: Callable[[bool], None], unconfirmed: Callable[[], int]) -> None:
        """Explore until done or stopped, then confirm the finds, one by one after Ctrl-C, while its grace period lasts.
        Finds that are not confirmed are not reported."""
        progress, flag = self.trainer.progress, self.trainer.flag
        progress.phase(SEARCH)
        with suppress(Stopped):
            explore()
        try:
            with flag.grace():
                confirm(flag.interrupted)
        except Stopped:
            finds = unconfirmed()
            if finds:
                sets = "1 set that changes a decision was" if finds == 1 else f"{finds} sets that change decisions were"
                progress.note(
                    f"Stopped before {sets} confirmed by retraining: not reported. With a ledger (--ledger) the next "
                    "run continues from here."
                )
