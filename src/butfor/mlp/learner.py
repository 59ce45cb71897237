"""Our network as a learner: encode the table, then train the MLP. And the base of the engines that train it fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from butfor.encode import TableEncoder
from butfor.encoded import EncodedTable
from butfor.errors import LearnerError, SettingError
from butfor.mlp.mlp import MLP, split_off_validation
from butfor.mlp.recipe import Fits, Network, Recipe, Rows
from butfor.seam import Bound, FlipSet, Floats, Learner, Progress, Table, Training


class MLPLearner:
    """The encoder is fitted on the training rows alone; labels play no part in it, so that all flip sets share it."""

    name = "MLP"
    seeded = True
    kind = "mlp"

    def __init__(self, model: MLP, encoder: TableEncoder | None = None) -> None:
        self.recipe = model.recipe()
        self.validation_fraction = model.validation_fraction
        self.encoder = clone(encoder) if encoder is not None else TableEncoder()
        self._data: _Encoded | None = None

    def split(self, labels: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of training rows and of those, a stratified share, that steer early stopping in their stead."""
        at = np.arange(len(labels), dtype=np.float32)[:, None]
        parts = split_off_validation(at, labels, None, None, fraction=self.validation_fraction, seed=self.recipe.seed)
        return parts.X[:, 0].astype(np.int64), parts.X_val[:, 0].astype(np.int64)

    def warm_up(self, table: Table) -> None:
        """Encode the table and train for an epoch: what a process does only once is not to be taken for the time of a
        training."""
        from butfor.mlp.direct import train

        train(replace(self.recipe, max_epochs=1), self.encoded(table).rows)

    def fit(self, table: Table, labels: Floats) -> NetworkModel:
        """The reference's network, to the bit."""
        from butfor.mlp.direct import train

        data = self.encoded(table)
        rows = replace(data.rows, y=labels)
        network = train(self.recipe, rows)
        if not network.best_epoch:
            raise LearnerError(
                f"Training diverged: no epoch had a finite validation loss (learning_rate={self.recipe.learning_rate:g}"
                f", numeric='{self.encoder.numeric}'). Lower the learning rate, or scale the numeric columns."
            )
        return NetworkModel(network, rows, data)

    @staticmethod
    def light(model: NetworkModel) -> Network:
        """What a model needs to travel between processes that both have the table."""
        return model.network

    def restored(self, network: Network, table: Table) -> NetworkModel:
        data = self.encoded(table)
        return NetworkModel(network, data.rows, data)

    @property
    def own_seed(self) -> int:
        return self.recipe.seed

    def reseeded(self, seed: int) -> MLPLearner:
        other = object.__new__(MLPLearner)
        other.__dict__.update(self.__dict__, recipe=replace(self.recipe, seed=seed))
        return other

    def record(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "recipe": self.recipe.to_dict(), "encoder": self.encoder.get_params(),
            "validation_fraction": self.validation_fraction,
        }  # fmt: skip

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> MLPLearner:
        fraction = record.get("validation_fraction", MLP().validation_fraction)
        learner = cls(MLP(validation_fraction=fraction), TableEncoder(**record["encoder"]))
        learner.recipe = Recipe.from_dict(record["recipe"])
        return learner

    def encoded(self, table: Table) -> _Encoded:
        """The table as numbers, encoded once."""
        if self._data is None or self._data.table is not table:
            self._data = _Encoded(self.encoder, table)
        return self._data


class _Encoded(EncodedTable):
    """With the validation rows, as the network takes them."""

    def __init__(self, encoder: TableEncoder, table: Table) -> None:
        if table.validation is None:
            raise SettingError("An MLP stops early by validation rows; give some, or let the audit set rows aside.")
        super().__init__(encoder, table)
        X_val = self.encoder.transform(table.validation[0])
        self.rows = Rows(self.X, table.zero_one, X_val, table.validation_zero_one)


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """A trained network behind its encoder. `rows` holds the labels it was trained on."""

    network: Network
    rows: Rows
    data: _Encoded

    @property
    def encoder(self) -> TableEncoder:
        return self.data.encoder

    def encoded(self, people: pd.DataFrame) -> Floats:
        """People as the network sees them, `[people × inputs]`."""
        return self.data.people(people)

    def logits(self, people: pd.DataFrame) -> Floats:
        return self.network.logits(self.encoded(people))


class NetworkEngine:
    """Base of the engines for our network. Each brings ``fit_many(recipe, rows, flip_sets, people)``: networks that are
    the reference's up to the order of floating-point sums. `seeds` names one for each flip set; else it is the
    recipe's."""

    name: str
    by_definition = False
    device: Any = "cpu"

    @property
    def width(self) -> int:
        raise NotImplementedError

    def fit_many(
        self, recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats,
        progress: Progress | None = None, seeds: Sequence[int] | None = None,
    ) -> Fits:  # fmt: skip
        raise NotImplementedError

    def answer_many(
        self, recipe: Recipe, rows: Rows, flip_sets: Sequence[FlipSet], people: Floats,
        progress: Progress | None = None, seeds: Sequence[int] | None = None,
    ) -> Floats:  # fmt: skip
        """What these networks say, `[K × people]`; nobody asks for the networks themselves."""
        return self.fit_many(recipe, rows, flip_sets, people, progress, seeds).answers

    def accepts(self, learner: Learner) -> bool:
        return isinstance(learner, MLPLearner)

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        assert isinstance(learner, MLPLearner)
        data = learner.encoded(table)
        encoded = np.array(data.people(people))

        def answers(trainings: Sequence[Training], progress: Progress | None = None) -> Floats:
            own = learner.recipe.seed
            flip_sets, seeds = [t.flips for t in trainings], [own if t.seed is None else t.seed for t in trainings]
            return self.answer_many(learner.recipe, data.rows, flip_sets, encoded, progress, seeds)

        return answers
