"""Flips many labels together, retrains, and reports whose decisions change; for reviews and worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.decide import decides_one
from butfor.models.learner import FlipSet, Floats, Training
from butfor.progress import Progress
from butfor.result.fresh import FreshSeeds
from butfor.result.labels import ChangedDecision
from butfor.result.record import plain
from butfor.run.fitted import Fitted
from butfor.run.fresh_seeds import changes_decision
from butfor.situation import Situation
from butfor.train import Trainer


@dataclass(frozen=True, eq=False)
class FlipTrial:
    """Tries flip sets on people. `favourable` is the better decision; `truth` are their recorded labels by number, if
    known."""

    everyone: Situation
    truth: NDArray[np.int64] | None
    trainer: Trainer
    seeds: Sequence[int]
    seeded: bool
    favourable: int
    _fresh: dict[FlipSet, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, fitted: Fitted, everyone: Situation, truth: NDArray[np.int64] | None, trainer: Trainer) -> FlipTrial:
        return cls(everyone, truth, trainer, fitted.seeds, fitted.seeded, fitted.favourable)

    @classmethod
    def about(
        cls,
        fitted: Fitted,
        X: Any,
        y: Any,
        sensitive_features: Any,
        progress: Progress,
        new_labels: dict[int, int] | None = None,
    ) -> FlipTrial:
        """On the people X. With more than two labels, `new_labels` gives the label after a flip, by position."""
        everyone, truth = fitted.people(X, y, sensitive_features)
        table, decision = fitted.table, fitted.table.decision
        if new_labels and decision.new is not None:
            new = decision.new.copy()
            new[list(new_labels)] = list(new_labels.values())
            table = table.with_decision(replace(decision, new=new))
        engine, n_jobs = fitted.chosen_engine(progress), fitted.settings.n_jobs
        trainer = Trainer(engine, fitted.learner, table, everyone.people, n_jobs=n_jobs, progress=progress)
        return cls.of(fitted, everyone, truth, trainer)

    def flip(self, flips: FlipSet) -> dict[str, Any]:
        """The fields of a `FlipOutcome`."""
        after = self.confirmed(flips)
        truth, before = self.truth, self.everyone.logits
        return {
            "flips": flips,
            "labels": self.everyone.table.n,
            "changed": self._changed(after, self.fresh(flips)),
            "rates": {group: (self.rate(before, ours), self.rate(after, ours)) for group, ours in self.groups.items()},
            "accuracy": None
            if truth is None
            else (
                float((self.everyone.decisions == truth).mean()),
                float((self.trainer.confirmed_decisions(flips) == truth).mean()),
            ),
            "seeded": self.seeded,
        }

    def confirmed(self, flips: FlipSet) -> Floats:
        self.trainer.confirm([flips])
        return self.trainer.confirmed_logits(flips)

    def fresh(self, flips: FlipSet) -> Floats | None:
        """Logits of single models under fresh seeds, `[seeds × people]`; each is trained once."""
        if self.seeds and flips not in self._fresh:
            self._fresh[flips] = self.trainer.seed_logits([Training(flips, seed) for seed in self.seeds])
        return self._fresh.get(flips)

    @cached_property
    def groups(self) -> dict[str, NDArray[np.bool_]]:
        named = self.everyone.groups.astype(str)
        return {group: named == group for group in sorted(set(named))}

    def rate(self, logits: Floats, people: NDArray[np.bool_]) -> float:
        """The share of favourable decisions about these people."""
        return float((decides_one(logits[people]) == bool(self.favourable)).mean()) if people.any() else float("nan")

    def _changed(self, after: Floats, fresh: Floats | None) -> tuple[ChangedDecision, ...]:
        everyone, found = self.everyone, []
        turned = np.isfinite(after) & (decides_one(after) != decides_one(everyone.logits))
        for k in map(int, np.flatnonzero(turned)):
            seeds = None
            if fresh is not None and (base := self.fresh(())) is not None:
                decision = int(everyone.predictions[k])
                without, with_ = (changes_decision(logits[:, k], decision) for logits in (base, fresh))
                seeds = FreshSeeds.of(without, with_)
            row, group = plain(everyone.people.index[k]), plain(everyone.groups[k])
            found.append(ChangedDecision(k, row, group, float(everyone.logits[k]), float(after[k]), seeds))
        return tuple(found)
