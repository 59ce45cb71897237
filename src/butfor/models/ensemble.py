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
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.abilities import (
    AsNetwork,
    FlipEffects,
    Inputs,
    Leaves,
    LogOdds,
    Neighbours,
    PartVotes,
    Pull,
    Pulls,
    TrainedNetwork,
)
from butfor.models.as_json import missing_parts
from butfor.models.partition import PartitionEnsemble
from butfor.models.seam import (
    BIAS,
    MEMBERS,
    Ability,
    Floats,
    Learner,
    Model,
    Numbers,
    answers_about,
)
from butfor.support.errors import TableError
from butfor.table.decisions import Decision
from butfor.table.encoding import Asked
from butfor.table.sides import Sides
from butfor.table.table import Table

SUM_SHARE = 1e-3
SUM_LOGITS = 1e-3
"""Pulls add up to a logit if their sum differs from it by no more than these, together."""
FRESH_FROM = 10_000
"""Fresh seeds start this far above the learner's own, beyond all members."""


class Ensemble(Learner):
    """`members` trainings of `learner`, with its own seed and the following ones."""

    kind = "ensemble"
    seeded = True

    def __init__(self, learner: Learner, members: int = MEMBERS) -> None:
        self.learner = learner
        self.members = members
        self.own_seed = learner.own_seed
        self.name = f"{members} × {learner.name}"
        self.seeds: tuple[int | None, ...] = (None, *(self.own_seed + k for k in range(1, members)))

    def fit(self, table: Table, labels: Floats) -> EnsembleModel:
        learners = [
            self.learner if seed is None else self.learner.reseeded(seed) for seed in self.seeds
        ]
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
    """The trained members. It tells what the members tell: the encoder, which they share, and the
    mean of their pulls."""

    members: Sequence[Model] = ()

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = members
        self.table_encoder = members[0].table_encoder

    def ability(self, wanted: type[Ability]) -> Ability | None:
        if any(member.ability(wanted) is None for member in self.members):
            return None
        return super().ability(wanted)

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

    def encoded(self, rows: pd.DataFrame) -> Numbers | None:
        return self.members[0].needed(Inputs).encoded(rows)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[Pull] | None:
        of_members: list[list[Pull]] = []
        with Asked(people).unchanged():
            for member in self.members:
                pulls = member.needed(Pulls).pulls(people, contrast)
                if pulls is None:
                    return None
                of_members.append(pulls)
        return [
            {name: float(np.mean([pull[name] for pull in person])) for name in person[0]}
            for person in zip(*of_members, strict=True)
        ]


class Audited(Model):
    """A trained model as an audit looks at it: its logits are margins of the decision, measured
    from the model's cut or between two `sides` of more than two labels, and what it tells is about
    that margin. It has the abilities of the model, no more. `at_cut`: the model's answer at its
    cut. With limited places a flip also moves the cut. Effects of flips ignore that: with it, a
    search found no more and no smaller sets."""

    def __init__(
        self, model: Model, decision: Decision, sides: Sides | None = None, at_cut: float = 0.0
    ) -> None:
        self.model = model
        self.decision = decision
        self.sides = sides
        self.at_cut = at_cut
        self.exact = model.exact
        self.table_encoder = model.table_encoder

    def ability(self, wanted: type[Ability]) -> Ability | None:
        by_model = self.model.ability(wanted)
        return None if by_model is None else super().ability(wanted) or by_model

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

    # --- told about the margin ---

    def flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        if contrast is None and self.sides is not None:
            contrast = self.sides.contrast(self.model.scores(people))
        return self.model.needed(FlipEffects).flip_effects(table, people, contrast)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[Pull] | None:
        """Measured from the cut; None if they do not add up to the score, as with calibrated
        probabilities."""
        if not len(people):
            return []
        by_model = self.model.needed(Pulls)
        if self.sides is not None:
            if contrast is None:
                contrast = self.sides.contrast(self.model.scores(people))
            return by_model.pulls(people, contrast)
        pulls = by_model.pulls(people)
        if pulls is None:
            return None
        sums = [sum(pull.values()) for pull in pulls]
        if not np.allclose(sums, self.model.logits(people), rtol=SUM_SHARE, atol=SUM_LOGITS):
            return None
        return [pull | {BIAS: pull[BIAS] - self.at_cut} for pull in pulls]

    @cached_property
    def as_network(self) -> TrainedNetwork:
        network = self.model.needed(AsNetwork).as_network
        if self.sides is None:
            return network
        sided = copy(network)
        sided.rows = replace(network.rows, flipped=self.sides.new, towards=self.sides.ones)
        return sided

    # --- told by the model ---

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        return self.model.needed(Leaves).leaves(rows)

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        return self.model.needed(Neighbours).neighbours(people)

    def part_votes(
        self, rows: pd.DataFrame, people: pd.DataFrame
    ) -> tuple[PartitionEnsemble, Any, Any]:
        return self.model.needed(PartVotes).part_votes(rows, people)

    def encoded(self, rows: pd.DataFrame) -> Numbers | None:
        return self.model.needed(Inputs).encoded(rows)

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        return self.model.needed(LogOdds).gives_log_odds(people)


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
