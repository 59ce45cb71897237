"""All pairs of labels: whoever no single label turns, asked about every pair that their ψ allows.

Tens of thousands of trainings, each of which answers everyone whose ψ allows the pair, so everything here is done for a
block of pairs at a time: trained in one call, looked at as one matrix, and nothing of it kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from butfor.allowed import Allowed
from butfor.progress import Watcher
from butfor.seam import FlipSet, Floats
from butfor.search.joint import Pursuit
from butfor.search.trainer import Trainer

BLOCK = 4096
"""Pairs trained and looked at together."""

Pairs = NDArray[np.int64]


class PairSearch:
    """Goes on where a search through all single labels has ended. `psi` as ever; `orders` has each
    person's rows, best first: pairs that stand high with many people come first, and whoever is found needs no more."""

    def __init__(
        self,
        trainer: Trainer,
        psi: Allowed,
        orders: dict[int, NDArray[np.int64]],
        max_retrainings: int | None = None,
        watch: Watcher | None = None,
    ) -> None:
        self.trainer, self.psi, self.orders = trainer, psi, orders
        self.max_retrainings, self.watch = max_retrainings, watch or Watcher()
        self.interrupted = False

    def run(self, pursuits: Sequence[Pursuit]) -> None:
        """Until everyone is found, all pairs are tried, the retrainings are spent, or Ctrl-C."""
        open_ = [p for p in pursuits if p.found is None and p.complete]
        for pursuit in open_:
            pursuit.complete = False
        pairs = self._most_promising_first(open_)
        try:
            while open_ and (size := min(len(pairs), self._room())) > 0:
                block, pairs = pairs[:size], pairs[size:]
                self._look(block, open_)
                open_ = [p for p in open_ if p.found is None]
                pairs = pairs[self._allowed(pairs, open_).any(axis=0)] if open_ else pairs[:0]
                self.watch.people(len(pursuits) - len(open_), sum(p.found is not None for p in pursuits))
        except KeyboardInterrupt:
            self.interrupted = True
        for pursuit in open_:
            pursuit.complete = not len(pairs) and not self.interrupted

    def _room(self) -> int:
        if self.max_retrainings is None:
            return BLOCK
        return min(BLOCK, (self.max_retrainings - self.trainer.trained) // self.trainer.members)

    def _most_promising_first(self, open_: Sequence[Pursuit]) -> Pairs:
        """Every pair that somebody's ψ allows, once, `[pairs × 2]`."""
        n = self.psi.rows
        place = np.full((len(open_), n), np.nan)
        for k, pursuit in enumerate(open_):
            order = self.orders[pursuit.person]
            place[k, order] = np.arange(len(order))
        codes: list[Pairs] = []
        for allowed in self._theirs(open_).different:
            rows = np.flatnonzero(allowed)
            first, second = np.triu_indices(len(rows), 1)
            codes.append(rows[first] * n + rows[second])
        every = np.unique(np.concatenate(codes)) if codes else np.empty(0, np.int64)
        pairs = np.column_stack([every // n, every % n]).astype(np.int64)
        if len(pairs):
            used = ~np.isnan(place).all(axis=0)
            typical = np.full(n, float(n))
            typical[used] = np.nanmedian(place[:, used], axis=0)
            pairs = pairs[np.argsort(typical[pairs].sum(axis=1), kind="stable")]
        return pairs

    def _allowed(self, pairs: Pairs, open_: Sequence[Pursuit]) -> NDArray[np.bool_]:
        """`[people × pairs]`"""
        theirs = self._theirs(open_)
        return (theirs.masks[:, pairs[:, 0]] & theirs.masks[:, pairs[:, 1]])[theirs.kind]

    def _theirs(self, open_: Sequence[Pursuit]) -> Allowed:
        return self.psi.of_people(np.array([p.person for p in open_], np.int64))

    def _look(self, pairs: Pairs, open_: Sequence[Pursuit]) -> None:
        """Train a block of pairs, and put what works to the definition: each person's furthest first."""
        flips: list[FlipSet] = [(int(i), int(j)) for i, j in pairs]
        logits = self.trainer.look(flips, self.watch)
        allowed = self._allowed(pairs, open_)
        working = {}
        for k, pursuit in enumerate(open_):
            said: Floats = logits[:, pursuit.person]
            heard = allowed[k] & ~np.isnan(said)
            pursuit.spent += int(allowed[k].sum())
            pursuit.failed += int((allowed[k] & np.isnan(said)).sum())
            if heard.any():
                furthest = float(said[heard][np.argmax(said[heard] * pursuit.away)])
                if pursuit.closest is None or (furthest - pursuit.closest) * pursuit.away > 0:
                    pursuit.closest = furthest
            turned = np.flatnonzero(heard & ((said > 0) == (pursuit.away > 0)))
            working[pursuit.person] = [flips[c] for c in turned[np.argsort(-said[turned] * pursuit.away)]]
        claiming = [p for p in open_ if working[p.person]]
        while claiming:
            self.watch.phase("confirmation")
            self.trainer.confirm([working[p.person][0] for p in claiming], self.watch)
            self.watch.phase("search")
            for pursuit in claiming:
                pair = working[pursuit.person].pop(0)
                logit = float(self.trainer.confirmed_logits(pair)[pursuit.person])
                if pursuit.changed(logit):
                    pursuit.found, pursuit.found_logit, pursuit.first_size = pair, logit, 2
                    pursuit.minimal = pursuit.complete = True
                else:
                    pursuit.rejected.add(pair)
            claiming = [p for p in claiming if p.found is None and working[p.person]]
