"""Models made of others: an ensemble of seeds, and a model as an audit looks at it.

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

from butfor.decide import Decision
from butfor.errors import SettingError, TableError
from butfor.models import capabilities as can
from butfor.models.capabilities import MEMBERS, members_of, require, unpack
from butfor.models.learner import BIAS, Advance, C, Floats, Learner, Model, Numbers, Table

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


class Audited(Model, can.Linear, can.Pulls, can.Members):
    """A trained model as an audit looks at it: its logits are margins of the decision, measured from the model's cut or
    between two sides of more than two classes; its abilities are about that margin. `at_cut`: the model's answer at its
    cut. With limited places a flip also moves the cut. Effects of flips ignore that: with it, a search found no more
    and no smaller sets."""

    def __init__(self, model: Model, decision: Decision, at_cut: float = 0.0) -> None:
        self.model, self.decision, self.at_cut = model, decision, at_cut

    def capability(self, kind: type[C]) -> C | None:
        inner = self.model.capability(kind)
        if kind is can.Differentiable and isinstance(inner, can.Differentiable) and self._sided:
            network = copy(inner)
            network.rows = replace(inner.rows, flipped=self.decision.new, towards=self.decision.towards)
            return network
        return inner if inner is None else super().capability(kind) or inner

    @property
    def _sided(self) -> bool:
        return self.decision.towards is not None

    def logits(self, people: pd.DataFrame) -> Floats:
        answers = self.model.scores(people).ravel() if self._sided else self.model.logits(people)
        return self.decision.margins(answers, self.at_cut)

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.model.scores(people)

    @property
    def members(self) -> Sequence[Model]:
        return tuple(Audited(member, self.decision, self.at_cut) for member in members_of(self.model))

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """Measured from the cut; None if they do not add up to the score, as with calibrated probabilities."""
        if self._sided:
            return pulls_of(self.model, people, self._contrast(people)) if len(people) else []
        pulled, answers = pulls_of(self.model, people), self.model.logits(people)
        if pulled is None or not np.allclose([sum(each.values()) for each in pulled], answers, rtol=1e-3, atol=1e-3):
            return None
        return [each | {BIAS: each[BIAS] - self.at_cut} for each in pulled]

    @property
    def exact(self) -> bool:
        return require(self.model, can.Linear).exact

    def flip_effects(self, table: Table, people: pd.DataFrame, contrast: Floats | None = None) -> NDArray[np.float64]:
        contrast = self._contrast(people) if contrast is None and self._sided else contrast
        return require(self.model, can.Linear).flip_effects(table, people, contrast)

    def _contrast(self, people: pd.DataFrame) -> Floats:
        return self.decision.contrast(self.model.scores(people))


def audited(model: Model, table: Table) -> Model:
    """The model as audited on a table: by the table's decision, if that is not the model's own."""
    model, decision = unaudited(model), table.decision
    if not decision.has_cut:
        return model if decision.towards is None else Audited(model, decision)
    pool = table.X.iloc[:0] if decision.pool is None else decision.pool
    at_cut = float(decision.answer_at_cut(table.answers(model, pool)))
    if not np.isfinite(at_cut):
        raise TableError(
            "The model's scores for the pool are infinite or not numbers: check the pool for outlying numbers."
        )
    return Audited(model, decision, at_cut)


def unaudited(model: Model) -> Model:
    """The model itself, without a decision around it."""
    return model.model if isinstance(model, Audited) else model


def at_cut_of(model: Model) -> float:
    """A model's answer at its cut, 0 without one."""
    return model.at_cut if isinstance(model, Audited) else 0.0


def pulls_of(model: Model, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
    """`Pulls.pulls`; None if the model has none."""
    able = model.capability(can.Pulls)
    return None if able is None else able.pulls(people, contrast)


def mean_answers(members: NDArray[np.floating[Any]]) -> Floats:
    """The ensemble's answers from its members', `[members × …]`; NaN if one diverged."""
    return np.asarray(np.mean(members, axis=0, dtype=np.float64), np.float32)


def fresh_seeds(learner: Learner, count: int, skip: int = 0) -> list[int]:
    """`count` seeds that no training of the learner has used, after the first `skip`."""
    return [learner.own_seed + FRESH_FROM + skip + k for k in range(count)]
