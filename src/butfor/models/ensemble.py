"""Models made of others: an ensemble of seeds, and a model as an audit looks at it.

An ensemble is several trainings of one learner that differ only in the seed; their mean logit
decides. A single network's verdict is about its labels and its seed, the mean over seeds about the
labels. Code that trains many ensembles hands the members (`single_learner`, `member_seeds`) to the
engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.estimators import missing_parts
from butfor.models.seam import (
    BIAS,
    MEMBERS,
    Floats,
    Learner,
    Model,
    answers_about,
)
from butfor.support.errors import TableError
from butfor.table.decisions import Decision
from butfor.table.encoding import Asked
from butfor.table.sides import Sides
from butfor.table.table import Table

FRESH_FROM = 10_000
"""Fresh seeds start this far above the learner's own, beyond all members."""


class Ensemble(Learner):
    """`members` trainings of `learner`, with its own seed and the following ones."""

    kind = "ensemble"
    seeded = True

    def __init__(self, learner: Learner, members: int = MEMBERS) -> None:
        self.learner, self.members, self.own_seed = learner, members, learner.own_seed
        self.name = f"{members} × {learner.name}"
        self.seeds: tuple[int | None, ...] = (None, *(self.own_seed + k for k in range(1, members)))

    def fit(self, table: Table, labels: Floats) -> EnsembleModel:
        learners = (
            self.learner if seed is None else self.learner.reseeded(seed) for seed in self.seeds
        )
        return EnsembleModel(tuple(learner.fit(table, labels) for learner in learners))

    def reseeded(self, seed: int) -> Ensemble:
        return Ensemble(self.learner.reseeded(seed), self.members)

    def deciding(self, decision: Decision) -> Ensemble:
        return Ensemble(self.learner.deciding(decision), self.members)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "members": self.members, "learner": self.learner.record()}


def single_learner(learner: Learner) -> Learner:
    """The learner of an ensemble, to train once per seed of `member_seeds`; any other learner
    itself."""
    return learner.learner if isinstance(learner, Ensemble) else learner


def member_seeds(learner: Learner) -> tuple[int | None, ...]:
    """One seed per member; None is the learner's own."""
    return learner.seeds if isinstance(learner, Ensemble) else (None,)


def record_gaps(learner: Learner) -> list[str]:
    """The parts that its record cannot restore, in words."""
    single = single_learner(learner)
    if not single.kind:
        return [f"model: {single.name} is a learner of the user's own"]
    record = single.record()
    return [
        *missing_parts(record.get("estimator")),
        *missing_parts(record.get("encoder"), "encoder"),
    ]


def ledger_gaps(learner: Learner) -> list[str]:
    """The parts that its record does not identify, so that a ledger cannot rely on it. The record
    of a user's own learner is its author's responsibility."""
    return record_gaps(learner) if single_learner(learner).kind else []


class EnsembleModel(Model):
    """The trained members."""

    members: Sequence[Model] = ()

    def __init__(self, members: Sequence[Model]) -> None:
        self.members, first = members, members[0]
        self.table_encoder, self.encoded = first.table_encoder, first.encoded
        if all(member.pulls is not None for member in members):
            self.pulls = self._mean_pulls

    def logits(self, people: pd.DataFrame) -> Floats:
        with Asked(people).unchanged():
            return mean_answers(
                np.array([member.logits(people) for member in self.members], np.float32)
            )

    def scores(self, people: pd.DataFrame) -> Floats:
        with Asked(people).unchanged():
            return mean_answers(
                np.array([member.scores(people) for member in self.members], np.float32)
            )

    def _mean_pulls(
        self, people: pd.DataFrame, contrast: Floats | None = None
    ) -> list[dict[str, float]] | None:
        with Asked(people).unchanged():
            each = [member.pulls(people, contrast) for member in self.members]
        if None in each:
            return None
        return [
            {name: float(np.mean([pull[name] for pull in person])) for name in person[0]}
            for person in zip(*each, strict=True)
        ]


class Audited(Model):
    """A trained model as an audit looks at it: its logits are margins of the decision, measured
    from the model's cut or between two `sides` of more than two labels, and what it tells is about
    that margin. `at_cut`: the model's answer at its cut. With limited places a flip also moves the
    cut. Effects of flips ignore that: with it, a search found no more and no smaller sets."""

    def __init__(
        self, model: Model, decision: Decision, sides: Sides | None = None, at_cut: float = 0.0
    ) -> None:
        self.model = model
        self.decision = decision
        self.sides = sides
        self.at_cut = at_cut
        unchanged = (
            "exact leaves neighbours part_votes encoded as_network gives_log_odds table_encoder"
        )
        for name in unchanged.split():
            setattr(self, name, getattr(model, name))
        if sides is not None and self.as_network is not None:
            self.as_network = copy(self.as_network)
            self.as_network.rows = replace(
                self.as_network.rows, flipped=sides.new, towards=sides.ones
            )
        if model.flip_effects is not None:
            self.flip_effects = self._flip_effects
        if model.pulls is not None:
            self.pulls = self._pulls

    @property
    def members(self) -> Sequence[Model]:
        if len(self.model.members) == 1:
            return (self,)
        return tuple(
            Audited(member, self.decision, self.sides, self.at_cut) for member in self.model.members
        )

    def logits(self, people: pd.DataFrame) -> Floats:
        if self.sides is not None:
            return self.sides.margins(self.model.scores(people).ravel())
        return self.decision.margins(self.model.logits(people), self.at_cut)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.model.scores(people)

    def _flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        if contrast is None and self.sides is not None:
            contrast = self.sides.contrast(self.model.scores(people))
        effects: NDArray[np.float64] = self.model.flip_effects(table, people, contrast)
        return effects

    def _pulls(self, people: pd.DataFrame) -> list[dict[str, float]] | None:
        """Measured from the cut; None if they do not add up to the score, as with calibrated
        probabilities."""
        pulls: list[dict[str, float]] | None
        if self.sides is not None:
            if not len(people):
                return []
            pulls = self.model.pulls(people, self.sides.contrast(self.model.scores(people)))
            return pulls
        pulls, answers = self.model.pulls(people), self.model.logits(people)
        if pulls is None or not np.allclose(
            [sum(each.values()) for each in pulls], answers, rtol=1e-3, atol=1e-3
        ):
            return None
        return [each | {BIAS: each[BIAS] - self.at_cut} for each in pulls]


def audited(model: Model, table: Table, decision: Decision) -> Model:
    """The model as audited on a table: by this decision, if that is not the model's own, or between
    the table's two sides."""
    model = unaudited(model)
    if table.two_sides is not None:
        return Audited(model, decision, table.two_sides)
    if not decision.has_cut:
        return model
    pool = table.X.iloc[:0] if decision.pool is None else decision.pool
    at_cut = float(decision.answer_at_cut(answers_about(pool, model, table)))
    if not np.isfinite(at_cut):
        raise TableError(
            "The model's scores for the pool are infinite or not numbers: check the pool for "
            "outlying numbers."
        )
    return Audited(model, decision, at_cut=at_cut)


def unaudited(model: Model) -> Model:
    """The model itself, without a decision around it."""
    return model.model if isinstance(model, Audited) else model


def mean_answers(members: NDArray[np.floating[Any]]) -> Floats:
    """The ensemble's answers from its members', `[members × …]`; NaN if one diverged."""
    return np.asarray(np.mean(members, axis=0, dtype=np.float64), np.float32)


def fresh_seeds(learner: Learner, count: int) -> list[int]:
    """`count` seeds that no training of the learner has used."""
    return [learner.own_seed + FRESH_FROM + k for k in range(count)]
