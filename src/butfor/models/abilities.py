"""What only some models can tell: a protocol each.

`model.ability(FlipEffects)` is whoever tells the effects of flips about that model, or None if
nobody does. A class has an ability if it has the methods; it need not name the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.nets.recipe import Floats
from butfor.table.table import Table

if TYPE_CHECKING:
    from butfor.models.partition import PartitionEnsemble
    from butfor.nets import Network, Rows

Pull = dict[str, float]
"""Each column's share of one person's logit, by the column's name."""


@runtime_checkable
class FlipEffects(Protocol):
    """The effect of one flipped label on one person's decision."""

    @property
    def exact(self) -> bool:
        """Whether effects of several flips add up."""
        ...

    def flip_effects(
        self, table: Table, people: pd.DataFrame, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        """The change of each person's margin if label i is flipped, to first order, `[people ×
        n]`. With more than two classes the margin is the sum of scores weighted by `contrast
        [people × classes]`."""
        ...


@runtime_checkable
class Leaves(Protocol):
    """The leaves of trees."""

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        """The leaf of each tree that a row falls into, `[rows × trees]`."""
        ...


@runtime_checkable
class Neighbours(Protocol):
    """Votes of the nearest rows, which do not depend on labels."""

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest rows and the weight of each vote, both `[people × k]`."""
        ...


@runtime_checkable
class PartVotes(Protocol):
    """Votes of copies that learned one part of the rows each."""

    def part_votes(
        self, rows: pd.DataFrame, people: pd.DataFrame
    ) -> tuple[PartitionEnsemble, Any, Any]:
        """The fitted `PartitionEnsemble`, and both tables as it sees them."""
        ...


@runtime_checkable
class Inputs(Protocol):
    """Rows as the model sees them."""

    def encoded(self, rows: pd.DataFrame) -> NDArray[np.floating[Any]] | None:
        """`[rows × inputs]`; None if these are not numbers."""
        ...


@runtime_checkable
class Pulls(Protocol):
    """How much each column says about a person."""

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[Pull] | None:
        """Per person, each column's share of the logit, or of the sum of scores weighted by
        `contrast`, the bias last; None if it is not such a sum. A ReLU network is exactly linear
        around a person (section 2 of the paper)."""
        ...


@runtime_checkable
class LogOdds(Protocol):
    """Whether logits are log-odds; those of a model without this ability are."""

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        """Whether these people's logits are the log-odds of the model's probabilities."""
        ...


class TrainedNetwork(Protocol):
    """One of our networks, as trained."""

    network: Network
    rows: Rows
    """The rows it was trained on, with their labels."""

    def encoded(self, people: pd.DataFrame) -> Floats: ...


@runtime_checkable
class AsNetwork(Protocol):
    """Our network."""

    @property
    def as_network(self) -> TrainedNetwork: ...


ABILITIES = (FlipEffects, Leaves, Neighbours, PartVotes, Inputs, Pulls, LogOdds, AsNetwork)


def ability_named(method: str) -> type[Any]:
    """The ability to which a method belongs."""
    for ability in ABILITIES:
        if hasattr(ability, method):
            return ability
    raise ValueError(f"No ability of a model has the method '{method}'.")
