"""Trainer: one training table and a fixed group of people, behind an engine, the reference and a ledger."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from butfor.learn.recipe import Engine, FlipSet, Floats, Recipe, Rows
from butfor.learn.reference import ReferenceEngine, available_cores
from butfor.ledger import Ledger
from butfor.progress import Watcher


class Trainer:
    """An engine on one training table, asked about a fixed group of people; counts what it trains.

    With a ledger, what was trained before is recalled instead, and what is trained is written down
    piece by piece, so that a killed run loses little."""

    PIECE = 64
    """With a ledger: networks (or engine widths, where those are larger) between two writes."""

    def __init__(
        self,
        engine: Engine,
        recipe: Recipe,
        rows: Rows,
        people: Floats,
        ledger: Ledger | None = None,
        jobs: int | None = None,
    ) -> None:
        self.engine, self.recipe, self.rows, self.people = engine, recipe, rows, people
        self.ledger = ledger
        self.jobs = jobs or available_cores()
        self.trained = self.recalled = self.confirmations = 0
        self._logits: dict[FlipSet, Floats] = {}
        self._looked_at: set[FlipSet] = set()
        self._confirmed: dict[FlipSet, Floats] = {}

    @property
    def width(self) -> int:
        """How many networks the engine likes to train side by side."""
        return self.engine.width

    def known(self, flips: FlipSet) -> bool:
        return flips in self._logits

    @property
    def all_known(self) -> list[FlipSet]:
        return list(self._logits)

    def fit(self, flip_sets: Sequence[FlipSet], watch: Watcher) -> None:
        """Train the flip sets, by the engine."""
        self._logits.update(self._trained_by(self.engine, flip_sets, watch))
        self.trained += len(flip_sets)

    def logits(self, flips: FlipSet) -> Floats:
        """What the network trained on a flip set says about each person."""
        self._looked_at.add(flips)
        return self._logits[flips]

    @property
    def needed(self) -> int:
        """Networks whose answers were looked at; the others were trained ahead of time."""
        return len(self._looked_at)

    def retrain(self, flip_sets: Sequence[FlipSet]) -> Floats:
        """What the networks trained on the flip sets say, `[sets × people]`; each is trained once."""
        self.fit([flips for flips in dict.fromkeys(flip_sets) if not self.known(flips)], Watcher())
        return np.array([self.logits(flips) for flips in flip_sets])

    def confirm(self, flip_sets: Sequence[FlipSet]) -> None:
        """Train the flip sets again with the reference, each once."""
        missing = [flips for flips in dict.fromkeys(flip_sets) if flips not in self._confirmed]
        if isinstance(self.engine, ReferenceEngine):
            self._confirmed.update((flips, self._logits[flips]) for flips in missing)
        else:
            self._confirmed.update(self._trained_by(ReferenceEngine(self.jobs), missing, Watcher()))
            self.confirmations += len(missing)

    def confirmed_logits(self, flips: FlipSet) -> Floats:
        return self._confirmed[flips]

    def _trained_by(self, engine: Engine, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        if self.ledger is None:
            return self._fitted(engine, flip_sets, watch)
        page = self.ledger.page(self.recipe, self.rows, self.people, engine.name)
        known = page.recall(flip_sets)
        watch.trained(len(known))
        self.recalled += len(known)
        missing = [flips for flips in flip_sets if flips not in known]
        size = max(self.PIECE, engine.width)
        for piece in (missing[start : start + size] for start in range(0, len(missing), size)):
            fitted = self._fitted(engine, piece, watch)
            page.write(fitted)
            known |= fitted
        return known

    def _fitted(self, engine: Engine, flip_sets: Sequence[FlipSet], watch: Watcher) -> dict[FlipSet, Floats]:
        if not flip_sets:
            return {}
        fits = engine.fit_many(self.recipe, self.rows, flip_sets, self.people, watch.trained)
        return dict(zip(flip_sets, fits.logits, strict=True))
