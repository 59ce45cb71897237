"""Models made of others: an ensemble of seeds, a model of more than two classes with a split, one with a cut.

An ensemble is several trainings of one learner that differ only in the seed; their mean logit decides. A single
network's verdict is about its labels and its seed, the mean over seeds about the labels. Code that trains many
ensembles hands the members (`single_learner`, `member_seeds`) to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, TableError
from butfor.models import capabilities as can
from butfor.models.capabilities import MEMBERS, members_of, require, unpack
from butfor.models.decision_split import DecisionSplit
from butfor.models.learner import BIAS, Advance, C, Floats, Learner, Model, Numbers, Table
from butfor.models.threshold import Cut

if TYPE_CHECKING:
    from butfor.models.joblib_engine import JoblibEngine

FRESH_FROM = 10_000
"""Fresh seeds start this far above the learner's own, beyond all members."""


class Ensemble(Learner):
    """`members` trainings of `learner`, with its own seed and the following ones."""

    kind = "ensemble"
    seeded = True

    def __init__(self, learner: Learner, members: int = MEMBERS) -> None:
        if members < 2:
            raise SettingError(f"members={members}: an ensemble needs at least 2.")
        if isinstance(learner, Ensemble):
            raise SettingError(f"{learner.name} is an ensemble already; set its members instead.")
        if not learner.seeded:
            raise SettingError(f"{learner.name} has no seed, so all members would be the same model.")
        self.learner, self.members = learner, members

    @property
    def name(self) -> str:
        return f"{self.members} × {self.learner.name}"

    @property
    def own_seed(self) -> int:
        return self.learner.own_seed

    @property
    def seeds(self) -> tuple[int | None, ...]:
        return (None, *(self.own_seed + k for k in range(1, self.members)))

    def fit(self, table: Table, labels: Floats) -> EnsembleModel:
        """Train every member with the learner's own `fit`."""
        learners = (self.learner if seed is None else self.learner.reseeded(seed) for seed in self.seeds)
        return EnsembleModel(tuple(learner.fit(table, labels) for learner in learners))

    def fit_beside(
        self, first: Model, table: Table, engine: JoblibEngine, advance: Advance | None = None
    ) -> EnsembleModel:
        """The ensemble without flips, given its first member; `engine` trains the others."""
        others = engine.fit_models(self.learner, table, self.seeds[1:], advance)
        return EnsembleModel((first, *(unpack(self.learner, packed, table) for packed in others)))

    def reseeded(self, seed: int) -> Ensemble:
        return Ensemble(self.learner.reseeded(seed), self.members)

    def record(self) -> dict[str, Any]:
        return {"kind": self.kind, "members": self.members, "learner": self.learner.record()}


def single_learner(learner: Learner) -> Learner:
    """The learner of an ensemble, to train once per seed of `member_seeds`; any other learner itself."""
    return learner.learner if isinstance(learner, Ensemble) else learner


def member_seeds(learner: Learner) -> tuple[int | None, ...]:
    """One seed per member; None is the learner's own."""
    return learner.seeds if isinstance(learner, Ensemble) else (None,)


def record_gaps(learner: Learner) -> list[str]:
    """The parts of a learner that its record cannot restore, in words."""
    single = single_learner(learner)
    if isinstance(single, can.Rebuildable):
        return single.record_gaps()
    return [f"model: {single.name} is a learner of the user's own"]


def ledger_gaps(learner: Learner) -> list[str]:
    """The parts that its record does not identify, so that a ledger cannot rely on it. The record of a user's own
    learner is its author's responsibility."""
    return record_gaps(learner) if isinstance(single_learner(learner), can.Rebuildable) else []


class EnsembleModel(Model, can.Members, can.Inputs, can.Pulls):
    """The trained members."""

    def __init__(self, models: Sequence[Model]) -> None:
        self._members = tuple(models)

    @property
    def members(self) -> Sequence[Model]:
        return self._members

    def capability(self, kind: type[C]) -> C | None:
        if kind is can.Encoded:
            return self.members[0].capability(kind)
        return super().capability(kind)

    def logits(self, people: pd.DataFrame) -> Floats:
        return mean_answers(self.member_logits(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return mean_answers(np.array([member.scores(people) for member in self.members], np.float32))

    def member_logits(self, people: pd.DataFrame) -> NDArray[np.float32]:
        """`[members × people]`."""
        return np.array([member.logits(people) for member in self.members], np.float32)

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        inputs = self.members[0].capability(can.Inputs)
        return None if inputs is None else inputs.numbers(table, people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """The mean of the members' pulls."""
        each = [pulls for member in self.members if (pulls := pulls_of(member, people, contrast)) is not None]
        if len(each) < len(self.members):
            return None
        return [
            {name: float(np.mean([pull[name] for pull in person])) for name in person[0]}
            for person in zip(*each, strict=True)
        ]


class MarginModel(Model, can.Linear, can.Pulls, can.Members):
    """A model of more than two classes whose logit is the margin of a decision split; its abilities are about that
    margin."""

    def __init__(self, model: Model, decision_split: DecisionSplit) -> None:
        self.model, self.decision_split = model, decision_split

    def capability(self, kind: type[C]) -> C | None:
        inner = self.model.capability(kind)
        if kind is can.Differentiable and isinstance(inner, can.Differentiable):
            network = copy(inner)
            network.rows = replace(inner.rows, flipped=self.decision_split.new, towards=self.decision_split.towards)
            return network
        return inner if inner is None else super().capability(kind) or inner

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.decision_split.margins(self.model.scores(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.model.scores(people)

    @property
    def members(self) -> Sequence[Model]:
        return tuple(MarginModel(member, self.decision_split) for member in members_of(self.model))

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        return pulls_of(self.model, people, self._contrast(people)) if len(people) else []

    @property
    def exact(self) -> bool:
        return require(self.model, can.Linear).exact

    def flip_effects(self, table: Table, people: pd.DataFrame, contrast: Floats | None = None) -> NDArray[np.float64]:
        contrast = self._contrast(people) if contrast is None else contrast
        return require(self.model, can.Linear).flip_effects(table, people, contrast)

    def _contrast(self, people: pd.DataFrame) -> Floats:
        return self.decision_split.contrast(self.model.scores(people))


class CutModel(Model, can.Pulls, can.Members):
    """A model whose logits are measured from a cut; `at_cut` is its answer there. With limited places a flip also moves
    the cut. Effects of flips ignore that: with it, a search found no more and no smaller sets."""

    def __init__(self, model: Model, cut: Cut, at_cut: float) -> None:
        self.model, self.cut, self.at_cut = model, cut, at_cut

    def at_cut_probability(self, label: int) -> float | None:
        """The probability of a label at the cut."""
        return self.cut.score(self.at_cut, label) if self.cut.by_probability else None

    def capability(self, kind: type[C]) -> C | None:
        inner = self.model.capability(kind)
        return inner if inner is None else super().capability(kind) or inner

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.cut.from_cut(self.model.logits(people), self.at_cut)

    @property
    def members(self) -> Sequence[Model]:
        return tuple(CutModel(member, self.cut, self.at_cut) for member in members_of(self.model))

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """Measured from the cut; None if they do not add up to the score, as with calibrated probabilities."""
        pulled, answers = pulls_of(self.model, people), self.model.logits(people)
        if pulled is None or not np.allclose([sum(each.values()) for each in pulled], answers, rtol=1e-3, atol=1e-3):
            return None
        return [each | {BIAS: each[BIAS] - self.at_cut} for each in pulled]


def pulls_of(model: Model, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
    """`Pulls.pulls`; None if the model has none."""
    able = model.capability(can.Pulls)
    return None if able is None else able.pulls(people, contrast)


def with_split(model: Model, decision_split: DecisionSplit | None) -> Model:
    """The model with a split of its decisions; a model of two classes is unchanged."""
    inside = model.model if isinstance(model, MarginModel) else model
    return inside if decision_split is None else MarginModel(inside, decision_split)


def with_cut(model: Model, table: Table) -> Model:
    """The model as audited: measured from the table's cut, if there is one."""
    if table.cut is None:
        return model
    pool = table.X.iloc[:0] if table.cut.pool is None else table.cut.pool
    at_cut = float(table.cut.answer_at_cut(table.answers(model, pool)))
    if not np.isfinite(at_cut):
        raise TableError(
            "The model's scores for the pool are infinite or not numbers: check the pool for outlying numbers."
        )
    return CutModel(model, table.cut, at_cut)


def mean_answers(members: NDArray[np.floating[Any]]) -> Floats:
    """The ensemble's answers from its members', `[members × …]`; NaN if one diverged."""
    return np.asarray(np.mean(members, axis=0, dtype=np.float64), np.float32)


def fresh_seeds(learner: Learner, count: int, skip: int = 0) -> list[int]:
    """`count` seeds that no training of the learner has used, after the first `skip`."""
    return [learner.own_seed + FRESH_FROM + skip + k for k in range(count)]
