"""The seam between what is audited and how it is audited.

    Table      training rows and labels, and perhaps validation rows and weights
    Learner    L with all settings fixed: turns a table and labels by number into a Model
    Model      one trained f: turns people into logits or, with more than two classes, into scores
    Training   the flipped labels and, if it is not the learner's own, the seed
    Engine     runs many trainings of a learner that it accepts
    Bound      an engine with its data in place, a function of trainings

A learner's own `fit` is the definition of L and confirms every find. The user's pipeline is a
learner, our network is one, and so is anything derived from `Learner`. What only some models can
tell, such as a tree's leaves, are abilities (`abilities.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models.abilities import AsNetwork
from butfor.nets.recipe import Advance as Advance
from butfor.nets.recipe import FlipSet as FlipSet
from butfor.nets.recipe import Floats as Floats
from butfor.support.errors import LearnerError
from butfor.table.decisions import Decision, decides_one
from butfor.table.encoding import EncodedTable, TableEncoder
from butfor.table.table import Table as Table

Numbers = NDArray[np.floating[Any]]
PIECE_TRAININGS = 64
"""Trainings between two looks at what is done: a stop or a crash loses no more."""
MEMBERS = 16
"""The default number of members of an ensemble."""
SHORT_MICROSECONDS = 1e5
"""A fit up to this long is repeated for all usual members of an ensemble, a longer one for half."""
UNKNOWN_MICROSECONDS = 1.5e6
"""A fit of which nothing is known is taken to be this long."""
BIAS = "(bias)"


class Training(NamedTuple):
    """One training: the positions of the flipped labels, and a seed; `seed=None` is the learner's
    own."""

    flips: FlipSet
    seed: int | None = None


Ability = TypeVar("Ability")


class Model:
    """One trained model f. Derive from it for your own models; only `logits` is required, and
    `scores` with more than two classes. What else a model can tell are optional methods. Define
    those that you have; rankings, proofs and pages ask for them by `ability`.

    `flip_effects(table, people, contrast=None)`
        The change of each person's margin if label i is flipped, to first order, `[people × n]`.
        With more than two classes the margin is the sum of scores weighted by `contrast [people ×
        classes]`. If `exact`, effects of several flips add up.
    `leaves(rows)`
        The leaf of each tree that a row falls into, `[rows × trees]`.
    `neighbours(people)`
        The nearest rows and the weight of each vote, both `[people × k]`, independent of the
        labels.
    `part_votes(rows, people)`
        The fitted `PartitionEnsemble`, and both tables as it sees them.
    `encoded(rows)`
        Rows as the model sees them, `[rows × inputs]`; None if these are not numbers.
    `pulls(people, contrast=None)`
        Per person, each column's share of the logit, or of the sum of scores weighted by
        `contrast`, the bias last; None if it is not such a sum. A ReLU network is exactly linear
        around a person (section 2 of the paper).
    `gives_log_odds(people)`
        Whether these people's logits are the log-odds of its probabilities; without it, logits are
        log-odds.
    `as_network`
        Our network's model: its `network`, the `rows` it was trained on, and `encoded`."""

    exact = False
    """Whether effects of several flips add up."""
    at_cut = 0.0
    """Its answer at its cut, if it has one."""
    table_encoder: TableEncoder | None = None
    """The fitted encoder in front of the model, if that is ours."""

    def ability(self, wanted: type[Ability]) -> Ability | None:
        """Whoever tells `wanted`, a protocol of `butfor.models.abilities`, about this model: itself
        if it has the methods. None if nobody does."""
        return self if isinstance(self, wanted) else None

    def needed(self, wanted: type[Ability]) -> Ability:
        """The same; an error if nobody does."""
        able = self.ability(wanted)
        if able is None:
            raise LearnerError(f"The model cannot tell {wanted.__name__}: {type(self).__name__}.")
        return able

    def logits(self, people: pd.DataFrame) -> Floats:
        """One number per person, `[people]`: the model decides class 1 if it is above 0 or, before
        a cut, above the cut."""
        raise NotImplementedError

    def scores(self, people: pd.DataFrame) -> Floats:
        """With more than two classes, `[people × classes]`: the model decides the class with the
        highest score."""
        raise NotImplementedError

    @property
    def members(self) -> Sequence[Model]:
        """The models whose mean logit decides; a single model is its only member."""
        return (self,)


class Learner:
    """The learning algorithm L with all settings fixed. Two fits on the same labels must give the
    same model.

    Derive from it for your own learner: `name`, `fit` and `record` are required, and `seeded` and
    `reseeded` if it has a seed. The rest has defaults that hold for any learner."""

    name: str
    """A short name for sentences and records."""
    kind = ""
    """Of butfor's own learners, the kind of their records; it says which engines may train them."""
    reproducible = False
    """Whether it is known to train the same model twice and another one under another seed, without
    a trial."""
    has_probabilities = True
    seeded = False
    """Whether another seed may give another model."""
    own_seed = 0
    """Its seed; other seeds are counted from it."""
    split: Callable[[NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]] | None = None
    """Of a learner that stops early: from labels by number, positions of training rows and of
    validation rows."""

    def fit(self, table: Table, labels: Floats) -> Model:
        """The model trained on the rows of the table with these labels by number, `[n]`."""
        raise NotImplementedError

    def reseeded(self, seed: int) -> Learner:
        """The same learner under another seed; itself if it has none."""
        return self

    def deciding(self, decision: Decision) -> Learner:
        """The same learner for models that are audited at this cut; itself if their answers, which
        are measured before the cut, do not depend on it."""
        return self

    def record(self) -> dict[str, Any]:
        """The settings as JSON: the key of a ledger, and what a replay rebuilds the learner
        from."""
        raise NotImplementedError

    def usual_members(self, table: Table) -> int:
        """The default number of members of an ensemble, the same on every machine."""
        return MEMBERS if self.work(table) <= SHORT_MICROSECONDS else MEMBERS // 2

    def work(self, table: Table) -> float:
        """Roughly the microseconds of one fit, which decide whether trainings go to processes; by
        default eight do."""
        return UNKNOWN_MICROSECONDS

    def pack(self, model: Any) -> Any:
        """A model as it travels between processes, without the table."""
        return model

    def unpack(self, packed: Any, table: Table) -> Model:
        """The model that was packed."""
        model: Model = packed
        return model


class MakesLearner:
    """Base of our network's estimator, which has a learner of its own."""


class Bound:
    """An engine with its data in place. Called with trainings, it gives each model's logits for the
    people, `[trainings × people]`, or scores with more than two classes, `[trainings × people ·
    classes]`. A training that diverged gives NaN.

    `name` and `device` say what trains and where. `by_definition`: the model's own `fit` trains, so
    that its answers need no confirmation. `width`: how many trainings it prefers to run side by
    side."""

    def __init__(
        self,
        train: Callable[..., Any],
        name: str,
        by_definition: bool = False,
        device: Any = "cpu",
        width: int = 1,
    ) -> None:
        self.train = train
        self.name = name
        self.by_definition = by_definition
        self.device = device
        self.width = width

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        return np.asarray(self.train(trainings, advance), np.float32)

    def pieces(
        self,
        trainings: Sequence[Training],
        advance: Advance | None = None,
        size: int = PIECE_TRAININGS,
    ) -> Iterator[tuple[range, Any]]:
        """The same as they are done, in any order: which trainings, and their answers."""
        for start in range(0, len(trainings), size):
            some = trainings[start : start + size]
            yield range(start, start + len(some)), self(some, advance)


class Engine:
    """Trains many flip sets of a learner. Derive from it for your own engine: `name` and `bind` are
    required."""

    name: str
    device: Any = "cpu"
    """Where it trains, and where rankings train."""
    workers: Any = None
    """Of a cluster: its workers, which also run the learner's own `fit`."""
    spread: Callable[..., list[Any]] | None = None
    """Of a cluster: `spread(function, shared, parts)` calls `function(shared, part)` for each part,
    on the workers."""

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Any:
        """A function of trainings with the data in place, or a `Bound`; None if the engine does not
        train this learner on this table, so that its own `fit` has to."""
        raise NotImplementedError


class TableCache:
    """A learner's encoding of the last rows, independent of their labels. Shared with the same
    learner under other seeds, and not sent to other processes. A table holds copies, so what was
    encoded of it stays right; tables that differ in labels or in the decision alone are found by
    the values of their rows."""

    def __init__(self) -> None:
        self._last: EncodedTable | None = None
        self._of: WeakKeyDictionary[Table, EncodedTable] = WeakKeyDictionary()

    def get(self, table: Table, encoder: Any) -> EncodedTable:
        encoded = self._of.get(table)
        if encoded is None:
            validation = None if table.validation is None else table.validation[0]
            if self._last is None or not self._last.encodes(table.X, validation):
                self._last = EncodedTable(encoder, table.X, validation)
            encoded = self._of[table] = self._last
        return encoded

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCache, ()


def named_pulls(terms: Numbers, bias: Numbers, columns: Sequence[object]) -> list[dict[str, float]]:
    """Each person's pulls by column, from the terms `[people × columns]` of the logits."""
    names = [*map(str, columns), BIAS]
    return [dict(zip(names, row, strict=True)) for row in np.column_stack([terms, bias]).tolist()]


def flip_direction(logits: NDArray[Any]) -> Floats:
    """The direction towards the other decision: −1 if the decision is class 1, else +1."""
    return np.where(decides_one(logits), -1.0, 1.0).astype(np.float32)


def person_keys(model: Model, people: pd.DataFrame) -> list[int]:
    """A number per person that does not depend on the other people or their order."""
    ours = model.members[0].ability(AsNetwork)
    if ours is None:
        return [zlib.crc32(repr(row).encode()) for row in people.itertuples(index=False, name=None)]
    encoded = np.ascontiguousarray(ours.as_network.encoded(people), dtype=np.float32)
    return [zlib.crc32(inputs.tobytes()) for inputs in encoded]


def answers_about(people: pd.DataFrame, model: Model, table: Table) -> Floats:
    """A model's logits (before a cut) or, with more than two classes, its scores in one row."""
    return model.scores(people).ravel() if table.multiclass else model.logits(people)


def decisions_about(people: pd.DataFrame, model: Model, table: Table) -> NDArray[np.int64]:
    """The decisions of an audited model, whose logits are measured from the cut."""
    if table.multiclass:
        return np.asarray(model.scores(people).argmax(axis=-1), np.int64)
    return np.asarray(decides_one(model.logits(people)), np.int64)
