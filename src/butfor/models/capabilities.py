"""Further abilities of models, learners and engines, as small classes to derive from.

A ranking, a proof or a page asks `model.capability(Linear)`, since some models have an ability only with some settings.
For learners and engines `isinstance` is enough; the functions here give defaults for the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.decide import Decision
from butfor.errors import SettingError
from butfor.models.learner import Advance, C, Floats, Learner, Model, Numbers, Table

if TYPE_CHECKING:
    from butfor.encode import TableEncoder

MEMBERS = 16
"""The default number of members of an ensemble."""


# --- models -------------------------------------------------------------------------------------------


class Linear:
    """The effect of a flip is known to first order; if `exact`, effects of several flips add up."""

    @property
    def exact(self) -> bool:
        return False

    def flip_effects(self, table: Table, people: pd.DataFrame, contrast: Floats | None = None) -> NDArray[np.float64]:
        """The change of each person's margin if label i is flipped, `[people × n]`. With more than two classes the
        margin is the sum of scores weighted by `contrast [people × classes]`."""
        raise NotImplementedError


class Trees:
    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        """The leaf of each tree that a row falls into, `[rows × trees]`."""
        raise NotImplementedError


class Neighbours:
    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest rows and the weight of each vote, both `[people × k]`; independent of the labels."""
        raise NotImplementedError


class PartVotes:
    def part_votes(self, rows: pd.DataFrame, people: pd.DataFrame) -> tuple[Any, Any, Any]:
        """The fitted `PartitionEnsemble`, and both tables as it sees them."""
        raise NotImplementedError


class Differentiable:
    """Our network: its weights, the rows it was trained on, and people as it sees them."""

    network: Any
    rows: Any

    def encoded(self, people: pd.DataFrame) -> Floats:
        raise NotImplementedError


class Inputs:
    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        """Training rows `[n × d]` and people `[people × d]` as the model sees them; None if these are not numbers."""
        raise NotImplementedError


class Margin:
    """Its logits may have a unit of their own; those of other models are log-odds."""

    def gives_log_odds(self, people: pd.DataFrame) -> bool:
        """Whether these people's logits are the log-odds of its probabilities."""
        raise NotImplementedError


class Pulls:
    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """Per person, each column's share of the logit, or of the sum of scores weighted by `contrast [people ×
        classes]`, the bias last; None if it is not such a sum. A ReLU network is exactly linear around a person
        (section 2 of the paper)."""
        raise NotImplementedError


class Encoded:
    """A model behind our fitted encoder."""

    encoder: TableEncoder


class Members:
    """Models whose mean logit decides."""

    @property
    def members(self) -> Sequence[Model]:
        raise NotImplementedError


def require(model: Model, kind: type[C]) -> C:
    """`model.capability(kind)` of a model that is known to have it."""
    found = model.capability(kind)
    assert found is not None, f"{type(model).__name__} has no {kind.__name__}"
    return found


def members_of(model: Model) -> Sequence[Model]:
    """The models whose mean logit decides; a single model is its only member."""
    ensemble = model.capability(Members)
    return (model,) if ensemble is None else ensemble.members


def person_keys(model: Model, people: pd.DataFrame) -> list[int]:
    """A number per person that does not depend on the other people or their order."""
    network = members_of(model)[0].capability(Differentiable)
    if network is None:
        return [zlib.crc32(repr(row).encode()) for row in people.itertuples(index=False, name=None)]
    return [zlib.crc32(np.ascontiguousarray(x, dtype=np.float32).tobytes()) for x in network.encoded(people)]


# --- learners -----------------------------------------------------------------------------------------


class EarlyStopping:
    """A learner that stops early, by validation rows."""

    def split(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of training rows and of validation rows to set aside."""
        raise NotImplementedError


class Reproducible:
    """A learner known to train the same model twice and another one under another seed, without a trial."""

    def warm_up(self, table: Table) -> None:
        """Do one-time work of a process, so that it does not count as time of a training."""
        raise NotImplementedError

    def usual_members(self, rows: int) -> int:
        """The default number of members, by the size of the table."""
        raise NotImplementedError


class Portable:
    """A learner whose models travel between processes without the table."""

    def pack(self, model: Any) -> Any:
        raise NotImplementedError

    def unpack(self, packed: Any, table: Table) -> Model:
        raise NotImplementedError


class FastEngines:
    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that can train it, the fastest first."""
        raise NotImplementedError


class Rebuildable:
    def record_gaps(self) -> list[str]:
        """The parts that its record cannot restore, in words."""
        raise NotImplementedError


class Scored:
    """A learner that compares a score with a threshold. For other learners the logit is the log-odds and the threshold
    one half."""

    @property
    def has_probabilities(self) -> bool:
        raise NotImplementedError

    @property
    def has_threshold(self) -> bool:
        """Whether it has its own threshold, fixed or tuned."""
        raise NotImplementedError

    def own_cut(self, table: Table) -> Decision | None:
        """Its threshold, if it is fixed."""
        raise NotImplementedError


def set_rows_aside(learner: Learner, table: Table) -> Table:
    """The table with a share of its rows set aside for validation."""
    if not isinstance(learner, EarlyStopping):
        raise SettingError(f"{learner.name} takes no validation rows.")
    kept, aside = learner.split(table.codes)
    X, y, weight, cluster = table.X, table.y, table.weight, table.cluster
    return Table(
        X.iloc[kept],
        y.iloc[kept],
        (X.iloc[aside], y.iloc[aside]),
        weight=None if weight is None else weight[kept],
        cluster=None if cluster is None else cluster[kept],
        whole=(X, y, kept, aside, weight, cluster),
    )


def engines_of(learner: Learner) -> tuple[str, ...]:
    return learner.engines if isinstance(learner, FastEngines) else ("joblib",)


def usual_members(learner: Learner, rows: int, seconds: float) -> int:
    """The default number of members; fewer if a training is slow."""
    if isinstance(learner, Reproducible):
        return learner.usual_members(rows)
    return MEMBERS if seconds <= 0.1 else MEMBERS // 2 if seconds <= 1.0 else MEMBERS // 4


def pack(learner: Learner, model: Model) -> Any:
    return learner.pack(model) if isinstance(learner, Portable) else model


def unpack(learner: Learner, packed: Any, table: Table) -> Model:
    """The model that was packed."""
    model: Model = learner.unpack(packed, table) if isinstance(learner, Portable) else packed
    return model


# --- engines ------------------------------------------------------------------------------------------


class Cluster:
    """An engine whose workers can do other work too."""

    @property
    def own_fit(self) -> Any:
        """The engine for the learner's own `fit` on the same workers."""
        raise NotImplementedError

    def spread(self, function: Any, shared: Any, parts: Sequence[Any], advance: Advance | None = None) -> list[Any]:
        """`function(shared, part)` for each part, on the workers; `shared` is sent once."""
        raise NotImplementedError
