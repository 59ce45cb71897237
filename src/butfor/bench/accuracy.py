"""Test accuracy of each data set's published network: is what we audit a sensible model at all?"""

from __future__ import annotations

import pandas as pd

from butfor.data import load_dataset
from butfor.encode import TableEncoder
from butfor.mlp.mlp import MLP


def accuracies(catalogue: pd.DataFrame) -> list[float | None]:
    """One accuracy per row of the catalogue; None where the set is not at hand."""
    at_hand = [balance is not None for balance in catalogue["label_balance"]]
    return [accuracy_of(name) if here else None for name, here in zip(catalogue["name"], at_hand, strict=True)]


def accuracy_of(name: str, encoder: TableEncoder | None = None) -> float:
    """Published split, layers, batch size and, unless another encoder is given, encoding; seed 0."""
    data = load_dataset(name)
    encoder = (encoder or TableEncoder("embed", data.setup.numeric)).fit(data.X_train)
    model = MLP(data.setup.hidden, max_epochs=data.setup.max_epochs, batch_size=data.setup.batch_size)
    validation = (encoder.transform(data.X_val), data.y_val)
    model.fit(encoder.transform(data.X_train), data.y_train, validation=validation)
    return float(model.score(encoder.transform(data.X_test), data.y_test))
