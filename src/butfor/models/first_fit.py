"""The first training of a learner, which checks it."""

from __future__ import annotations

import time
from contextlib import nullcontext

import numpy as np

from butfor.models.seam import Learner, Model, answers_about
from butfor.support.errors import LearnerError
from butfor.support.threads import single_threaded
from butfor.table.table import Table

OTHER_SEED = 40_961
"""A seed that users are unlikely to choose."""
MAX_VALUES_ON_ONE_THREAD = 2**18
"""The largest table, in values, for which threads do not speed up a training: on a busy machine
they wait for each other."""


def first_model(learner: Learner, table: Table) -> tuple[Model, float, bool]:
    """f, the seconds of its training, and whether another seed gives another model: many estimators
    have a random_state without effect. A learner that is not known to be reproducible is trained
    twice: if its answers differ, it cannot be audited."""
    with single_threaded() if table.X.size <= MAX_VALUES_ON_ONE_THREAD else nullcontext():
        started = time.perf_counter()
        model = learner.fit(table, table.labels())
        if not isinstance(model, Model):
            raise LearnerError(
                f"The fit of {learner.name} returned a {type(model).__name__}; it must return a "
                "butfor.Model."
            )
        asked = "scores" if table.multiclass else "logits"
        if getattr(getattr(model, asked), "__func__", None) is getattr(Model, asked):
            labels = f"{len(table.classes)} labels"
            raise LearnerError(
                f"With {labels} the model of {learner.name} needs the method {asked}(people)."
            )
        answers = answers_about(table.X, model, table)
        if not isinstance(answers, np.ndarray) or answers.shape != (table.n * table.outputs,):
            wanted = f"{table.outputs} scores for each" if table.multiclass else "a logit for each"
            shape = f"{type(answers).__name__} of shape {np.shape(answers)}"
            raise LearnerError(
                f"{learner.name} gave answers as {shape} for {table.n} rows, not an array of "
                f"{wanted}."
            )
        if not np.isfinite(answers).all():
            raise LearnerError(
                f"Training of {learner.name} diverged: its logits are not finite numbers."
            )
        seconds = time.perf_counter() - started
        if learner.reproducible:
            return model, seconds, learner.seeded

        def differs(other: Learner) -> bool:
            again = other.fit(table, table.labels())
            return not np.array_equal(answers, answers_about(table.X, again, table))

        if differs(learner):
            raise LearnerError(
                f"{learner.name} gives different models when fitted twice on the same data, so "
                "the effect of a flip cannot be told from noise. Fix its seed (random_state=0) or "
                "other sources of randomness."
            )
        seconds = (time.perf_counter() - started) / 2
        return model, seconds, learner.seeded and differs(learner.reseeded(OTHER_SEED))
