"""Our network as a learner, which encodes the table and trains the MLP; and the base of its fast engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from butfor.encode import EncodedTable, TableEncoder
from butfor.errors import LearnerError, SettingError
from butfor.learn import capabilities as can
from butfor.learn.protocols import (
    Advance,
    Bound,
    Engine,
    FlipSet,
    Floats,
    Learner,
    Model,
    Table,
    TableCache,
    Training,
    named_pulls,
)
from butfor.mlp.mlp import MLP, split_off
from butfor.mlp.recipe import Fits, Job, Network, Recipe, Rows

LARGE = 20_000
"""With more training rows an ensemble has half the members."""


class MLPLearner(Learner, can.EarlyStopping, can.Reproducible, can.FastEngines, can.Portable, can.Rebuildable):
    """The encoder is fitted on the training rows without labels, so all flip sets share it."""

    kind = "mlp"
    name = "MLP"
    seeded = True
    engines = ("stacked", "fused", "joblib")

    def __init__(self, model: MLP, encoder: Any = None) -> None:
        if encoder is not None and not isinstance(encoder, TableEncoder):
            raise SettingError(f"encoder={encoder!r}: MLP needs a TableEncoder.")
        self.recipe = model.recipe()
        self.validation_fraction = model.validation_fraction
        self.encoder = clone(encoder) if encoder is not None else TableEncoder()
        self._cache = TableCache()

    def split(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return split_off(labels, self.validation_fraction, self.recipe.seed)

    def warm_up(self, table: Table) -> None:
        """Encode the table and train for an epoch, so that one-time work of a process does not count as training
        time."""
        from butfor.mlp.direct import train

        train(replace(self.recipe_for(table), max_epochs=1), self.rows(table))

    def fit(self, table: Table, labels: Floats) -> NetworkModel:
        """The reference's network, to the bit."""
        from butfor.mlp.direct import train

        rows = replace(self.rows(table), y=labels)
        network = train(self.recipe_for(table), rows)
        if not network.best_epoch:
            raise LearnerError(
                f"Training diverged: no epoch had a finite validation loss (learning_rate={self.recipe.learning_rate:g}"
                f", numeric='{self.encoder.numeric}'). Lower the learning rate, or scale the numeric columns."
            )
        return NetworkModel(network, rows, self.encoded(table))

    def work(self, table: Table) -> float:
        return 4.0 * table.n * self.recipe.max_epochs

    def pack(self, model: NetworkModel) -> Network:
        return model.network

    def unpack(self, packed: Network, table: Table) -> NetworkModel:
        return NetworkModel(packed, self.rows(table), self.encoded(table))

    @property
    def own_seed(self) -> int:
        return self.recipe.seed

    def record_gaps(self) -> list[str]:
        return []

    def usual_members(self, rows: int) -> int:
        return can.MEMBERS if rows <= LARGE else can.MEMBERS // 2

    def reseeded(self, seed: int) -> MLPLearner:
        other = object.__new__(MLPLearner)
        other.__dict__.update(self.__dict__, recipe=replace(self.recipe, seed=seed))
        return other

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "recipe": self.recipe.to_dict(),
            "encoder": self.encoder.get_params(),
            "validation_fraction": self.validation_fraction,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MLPLearner:
        fraction = record.get("validation_fraction", MLP().validation_fraction)
        learner = cls(MLP(validation_fraction=fraction), TableEncoder(**record["encoder"]))
        learner.recipe = Recipe.from_dict(record["recipe"])
        return learner

    def encoded(self, table: Table) -> _Encoded:
        """The table as numbers, encoded once."""
        encoded: _Encoded = self._cache.get(table, lambda: _Encoded(self.encoder, table))
        return encoded

    def rows(self, table: Table) -> Rows:
        """The encoded rows with their labels."""
        data = self.encoded(table)
        decision_split = table.decision_split if table.multiclass else None
        return Rows(data.X, table.labels(), data.X_val, table.validation_codes.astype(np.float32), decision_split)

    def recipe_for(self, table: Table) -> Recipe:
        return replace(self.recipe, outputs=table.outputs)


class _Encoded(EncodedTable):
    """An encoded table with its validation rows."""

    def __init__(self, encoder: TableEncoder, table: Table) -> None:
        if table.validation is None:
            raise SettingError(
                "An MLP needs validation rows to stop early: give some, or let the audit set rows aside."
            )
        super().__init__(encoder, table.X)
        self.X_val: Floats = self.encoder.transform(table.validation[0])


class NetworkModel(Model, can.Differentiable, can.Inputs, can.Pulls, can.Encoded):
    """A trained network with its encoder. `rows` has the labels it was trained on."""

    def __init__(self, network: Network, rows: Rows, data: _Encoded) -> None:
        self.network, self.rows, self._data = network, rows, data
        self.encoder = data.encoder

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.network.logits(self.encoded(people))

    def scores(self, people: pd.DataFrame) -> Floats:
        return self.logits(people)

    def encoded(self, people: pd.DataFrame) -> Floats:
        return self._data.people(people)

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Floats, Floats]:
        return self.rows.X, self.encoded(people)

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        if self.network.activation != "relu":
            return None
        encoded = self.encoded(people)
        theta, bias = self.network.local_linear_model(encoded, contrast)
        return named_pulls(self.encoder.by_column(theta * encoded), bias, list(people.columns))


class NetworkEngine(Engine):
    """Base of the engines for our network, which train the reference's networks up to the order of floating-point sums.
    `width`: the number of networks that it prefers to train side by side."""

    width: int

    def fit_many(
        self,
        recipe: Recipe,
        rows: Rows,
        flip_sets: Sequence[FlipSet],
        people: Floats,
        advance: Advance | None = None,
        seeds: Sequence[int] | None = None,
        weights: bool = True,
    ) -> Fits:
        """Train one network per flip set, with its own of the `seeds` or the recipe's. `weights`: whether to return the
        weights, which are slow to copy from a GPU."""
        people = np.ascontiguousarray(people, dtype=np.float32)
        check_work(rows, flip_sets, people)
        fits = Fits.empty(len(flip_sets), len(people) * recipe.outputs, recipe.parameters(rows.d) if weights else 0)
        seeds = [recipe.seed] * len(flip_sets) if seeds is None else seeds
        self.train(Job(recipe, rows, flip_sets, seeds, people, advance), fits)
        return fits

    def train(self, job: Job, fits: Fits) -> None:
        """Fill in `fits`; its weights only if it has room for them."""
        raise NotImplementedError

    def accepts(self, learner: Learner) -> bool:
        return isinstance(learner, MLPLearner)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        assert isinstance(learner, MLPLearner)
        recipe, rows = learner.recipe_for(table), learner.rows(table)
        asked = np.array(learner.encoded(table).people(people))

        def answers(trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
            flip_sets = [training.flips for training in trainings]
            seeds = [recipe.seed if training.seed is None else training.seed for training in trainings]
            return self.fit_many(recipe, rows, flip_sets, asked, advance, seeds, weights=False).answers

        return Bound(answers, self.name, device=self.device, width=self.width)


def check_work(rows: Rows, flip_sets: Sequence[FlipSet], people: Floats) -> None:
    """Compiled code does not check bounds, so shapes and positions are checked here."""
    for k, flips in enumerate(flip_sets):
        if bad := [position for position in flips if not 0 <= position < rows.n]:
            raise SettingError(f"Flip set {k} names training row {bad[0]}; the rows are numbered 0 to {rows.n - 1}.")
    if not rows.d == rows.X_val.shape[1] == people.shape[1]:
        raise SettingError(
            f"Training rows have {rows.d} columns, validation rows {rows.X_val.shape[1]} and "
            f"people {people.shape[1]}; encode all three alike."
        )
    if len(rows.y) != rows.n or len(rows.y_val) != len(rows.X_val):
        raise SettingError("There must be one label for every training row and every validation row.")
