"""From what a user gives to a learner; a record back to one; and the first training, in which everything is checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.data.table import default_setup
from butfor.encode import TableEncoder
from butfor.errors import LearnerError, ReplayError, SettingError
from butfor.learn import blueprint
from butfor.learn.ensemble import Ensemble, members_of
from butfor.learn.sklearn import SklearnLearner
from butfor.mlp.learner import MLPLearner
from butfor.mlp.mlp import MLP
from butfor.seam import Learner, Model, Table

KINDS: dict[str, Any] = {kind.kind: kind for kind in (MLPLearner, SklearnLearner)}


def as_learner(model: Any, encoder: Any = None) -> Learner:
    """A learner from our MLP, from any scikit-learn classifier, or as it is."""
    if isinstance(model, MLP):
        if encoder is not None and not isinstance(encoder, TableEncoder):
            raise SettingError(f"encoder={encoder!r} does not go with MLP, which needs a TableEncoder.")
        return MLPLearner(model, encoder)
    if isinstance(model, Learner):
        if encoder is not None:
            raise SettingError(f"{model.name} is a learner, which encodes for itself; leave encoder out.")
        return model
    return SklearnLearner(model, encoder)


def suited_mlp(n: int, seed: int = 0) -> MLP:
    """The network for a table of n training rows where nobody names one: the published one for that size."""
    setup = default_setup(n)
    return MLP(setup.hidden, max_epochs=setup.max_epochs, batch_size=setup.batch_size, random_state=seed)


def learner_of(record: dict[str, Any]) -> Learner:
    """The learner that a record names."""
    kind = record.get("kind")
    if kind == Ensemble.kind:
        return Ensemble(learner_of(record["learner"]), int(record["members"]))
    if kind not in KINDS:
        raise ReplayError(
            f"The record's learner is of kind '{kind}', which a record alone cannot bring back; replay it with the "
            "learner itself (in Python replay(..., model=...))."
        )
    learner: Learner = KINDS[kind].from_record(record)
    return learner


def given_learner(model: Any, record: dict[str, Any]) -> Learner:
    """A model handed over for a replay, behind the encoder and under the seed that the record names."""
    if isinstance(model, Ensemble):
        return model
    if record.get("kind") == Ensemble.kind:
        return Ensemble(given_learner(model, record["learner"]), int(record["members"]))
    if isinstance(model, (MLP, Learner)) or record.get("kind") != SklearnLearner.kind:
        return as_learner(model)
    encoder = record["encoder"]
    return SklearnLearner(
        model, blueprint.rebuild(encoder) if isinstance(encoder, dict) else encoder, record["torch_seed"]
    )


def set_aside(table: Table, learner: Learner) -> tuple[Table, NDArray[np.int64]]:
    """The table with a share of its rows set aside for validation, and the positions of those that remain."""
    X, y = table.X, table.y
    kept, aside = learner.split(table.zero_one)  # type: ignore[attr-defined]
    return Table(X.iloc[kept], y.iloc[kept], (X.iloc[aside], y.iloc[aside]), whole=(X, y, kept)), kept


def gaps(learner: Learner) -> list[str]:
    """The parts of a learner that its record cannot bring back, in words."""
    learner, _ = members_of(learner)
    if isinstance(learner, MLPLearner):
        return []
    if isinstance(learner, SklearnLearner):
        record = learner.record()
        return [*blueprint.gaps(record["estimator"]), *blueprint.gaps(record["encoder"], "encoder")]
    return [f"model: {learner.name} is a learner of the user's own"]


def first_model(learner: Learner, table: Table) -> Model:
    """f. A learner of somebody else's is trained twice: whoever answers otherwise the second time cannot be audited."""
    model = learner.fit(table, table.labels())
    logits = model.logits(table.X)
    if np.shape(logits) != (table.n,):
        raise LearnerError(f"{learner.name} gave logits of shape {np.shape(logits)} for {table.n} rows.")
    if not np.isfinite(logits).all():
        raise LearnerError(f"Training of {learner.name} diverged: it gives logits that are not finite numbers.")
    if not isinstance(learner, MLPLearner):  # ours is tested for it
        again = learner.fit(table, table.labels()).logits(table.X)
        if not np.array_equal(logits, again):
            remedy = learner.remedy() if isinstance(learner, SklearnLearner) else "Fix its seed."
            raise LearnerError(
                f"{learner.name} gives other answers when fitted twice on the same data, so that no flip could be "
                f"told from its noise. {remedy}"
            )
    return model


def seed_matters(learner: Learner, table: Table, model: Model) -> bool:
    """Whether another seed makes another model. Many estimators have a random_state that changes nothing."""
    if not learner.seeded or isinstance(learner, MLPLearner):
        return learner.seeded
    other = learner.reseeded(OTHER_SEED).fit(table, table.labels())
    return not np.array_equal(model.logits(table.X), other.logits(table.X))


OTHER_SEED = 40_961
"""A seed that nobody is likely to have chosen."""
