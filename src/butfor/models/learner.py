"""The seam between what is audited and how it is audited.

    Table      training rows and labels, and perhaps validation rows and weights
    Learner    L with all settings fixed: turns a table and labels by number into a Model
    Model      one trained f: turns people into logits or, with more than two classes, into scores
    Training   the flipped labels and, if it is not the learner's own, the seed
    Engine     runs many trainings of a learner that it accepts
    Bound      an engine with its data in place, a function of trainings

A learner's own `fit` is the definition of L and confirms every find. The user's pipeline is a
learner, our network is one, and so is anything derived from `Learner`. What only some models can
tell, such as a tree's leaves, are optional methods of `Model`.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import own
from butfor.data.labels import label_values
from butfor.decide import ONE_HALF, Decision, decides_one
from butfor.encode import EncodedTable
from butfor.errors import SettingError
from butfor.nets.recipe import Advance as Advance
from butfor.nets.recipe import FlipSet as FlipSet
from butfor.nets.recipe import Floats as Floats

Numbers = NDArray[np.floating[Any]]
PIECE = 64
"""Trainings between two looks at what is done: a stop or a crash loses no more."""
MEMBERS = 16
"""The default number of members of an ensemble."""
SHORT, UNKNOWN = 1e5, 1.5e6
"""Microseconds of a fit that an ensemble repeats for all its members, and of one of which nothing
is known."""
BIAS = "(bias)"


class Training(NamedTuple):
    """One training: the positions of the flipped labels, and a seed; `seed=None` is the learner's
    own."""

    flips: FlipSet
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows and their labels: copies, so that a table never changes.

    Parameters
    ----------
    X : pandas.DataFrame
        The training rows.
    y : pandas.Series
        Their labels, with two or more values.
    validation : (X, y), optional
        Rows for a learner that stops early. Their labels are never flipped.
    weight : array of shape (n,), optional
        Weights, for a learner that takes them and for the comparison of groups.
    whole : (X, y, positions, positions, weight, cluster), optional
        If rows were set aside: the given table, the positions of the training rows in it and of
        those set aside, and the weights and clusters of all.
    decision : Decision, default=one half
        The threshold between two labels; with more than two, which count as 1 and what a flip
        gives.
    cluster : array of shape (n,), optional
        Rows with the same value are about one person or household. Only the comparison of groups
        uses it.
    """

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series] | None = None
    weight: NDArray[np.float64] | None = None
    whole: tuple[pd.DataFrame, pd.Series, NDArray[np.int64], NDArray[np.int64], Any, Any] | None = (
        None
    )
    decision: Decision = ONE_HALF
    cluster: NDArray[np.object_] | None = None

    def __post_init__(self) -> None:
        copies: dict[str, Any] = {
            name: own(getattr(self, name)) for name in ("X", "y", "weight", "cluster")
        }
        if self.validation is not None:
            copies["validation"] = tuple(map(own, self.validation))
        vars(self).update(copies)

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def set_aside(self) -> int:
        """The number of rows that were set aside for validation."""
        return 0 if self.whole is None else len(self.whole[0]) - self.n

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The label values in sorted order; the second of two is class 1."""
        return label_values(self.y.to_numpy())

    @property
    def multiclass(self) -> bool:
        return len(self.classes) > 2

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The labels by their number in `classes`, `[n]`."""
        return self.numbers_of(self.y)

    @cached_property
    def validation_codes(self) -> NDArray[np.int64]:
        return self.numbers_of(self.validation[1]) if self.validation else np.empty(0, np.int64)

    @cached_property
    def zero_one(self) -> Floats:
        """The labels as 0 and 1, `[n]`; with more than two, 1 is a label that the split counts as
        1."""
        return self.sides(self.codes).astype(np.float32)

    def answers(self, model: Model, people: pd.DataFrame) -> Floats:
        """A model's logits (before a cut) or, with more than two classes, its scores in one row."""
        return model.scores(people).ravel() if self.multiclass else model.logits(people)

    def with_pool(self, people: pd.DataFrame) -> pd.DataFrame:
        """These people and, if places are limited, everyone who competes for them."""
        if self.decision.pool is None:
            return people
        both = pd.concat([people, self.decision.pool])
        kinds = {
            name: dtype
            for name, dtype in self.X.dtypes.items()
            if isinstance(dtype, pd.CategoricalDtype)
        }
        return both.astype(kinds)

    def sides(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels or decisions, given by number, count as 1."""
        if not self.multiclass:
            return np.asarray(codes == 1)
        assert self.decision.towards is not None
        return self.decision.towards[codes]

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """Labels by number, flipped at the given positions."""
        y, at = self.codes.astype(np.float32), list(flips)
        y[at] = self.new_codes[at]
        return y

    @cached_property
    def new_codes(self) -> NDArray[np.int64]:
        """Each label after a flip, by number."""
        return 1 - self.codes if self.decision.new is None else self.decision.new

    def margins(self, answers: Floats) -> Floats:
        """Logits `[… × people]` from models' answers about people `with_pool`."""
        return self.decision.margins(answers)

    def decisions(self, answers: Floats) -> NDArray[np.int64]:
        """The decisions, by number, from the same answers."""
        if not self.multiclass:
            return np.asarray(decides_one(self.margins(answers)), np.int64)
        return np.asarray(
            answers.reshape(*answers.shape[:-1], -1, len(self.classes)).argmax(-1), np.int64
        )

    def decided(self, model: Model, people: pd.DataFrame) -> NDArray[np.int64]:
        """The decisions of an audited model, whose logits are measured from the cut."""
        answers = self.answers(model, people)
        return (
            self.decisions(answers)
            if self.multiclass
            else np.asarray(decides_one(answers), np.int64)
        )

    @property
    def outputs(self) -> int:
        """Numbers that a model gives per person."""
        return len(self.classes) if self.multiclass else 1

    def with_flips(self, positions: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole given table with these labels flipped."""
        X, y, kept, *_ = self.whole or (self.X, self.y, np.arange(self.n))
        y, at = y.copy(), list(positions)
        if at:
            y.iloc[kept[at]] = self.classes[self.new_codes[at]]
        return X, y

    def with_labels(self, positions: Sequence[int], labels: Sequence[int] | None = None) -> Table:
        """The same rows with these labels flipped for good, or replaced by `labels` by number; rows
        that were set aside stay aside."""
        y, at = self.y.copy(), list(positions)
        if at:
            y.iloc[at] = self.classes[self.new_codes[at] if labels is None else list(labels)]
        return replace(self, y=y, whole=None)

    def numbers_of(self, y: pd.Series) -> NDArray[np.int64]:
        """Labels by their number in `classes`."""
        return np.searchsorted(self.classes, y.to_numpy().astype(self.classes.dtype))


class Model:
    """One trained model f. Derive from it for your own models; only `logits` is required, and
    `scores` with more than two classes. What else a model can tell are optional methods, None where
    there is none: rankings, proofs and pages that need one ask for it.

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
        Our network's model: its `network`, the `rows` it was trained on, and `encoded`.
    `table_encoder`
        The fitted `TableEncoder` in front of the model."""

    exact = False
    at_cut = 0.0
    """Its answer at its cut, if it has one."""
    flip_effects: Any = None
    leaves: Any = None
    neighbours: Any = None
    part_votes: Any = None
    encoded: Any = None
    pulls: Any = None
    gives_log_odds: Any = None
    as_network: Any = None
    table_encoder: Any = None

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

    def record(self) -> dict[str, Any]:
        """The settings as JSON: the key of a ledger, and what a replay rebuilds the learner
        from."""
        raise NotImplementedError

    def usual_members(self, table: Table) -> int:
        """The default number of members of an ensemble, the same on every machine."""
        return MEMBERS if self.work(table) <= SHORT else MEMBERS // 2

    def work(self, table: Table) -> float:
        """Roughly the microseconds of one fit, which decide whether trainings go to processes; by
        default eight do."""
        return UNKNOWN

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
        self.train, self.name = train, name
        self.by_definition, self.device, self.width = by_definition, device, width

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        return np.asarray(self.train(trainings, advance), np.float32)

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = PIECE
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
    network = model.members[0].as_network
    if network is None:
        return [zlib.crc32(repr(row).encode()) for row in people.itertuples(index=False, name=None)]
    return [
        zlib.crc32(np.ascontiguousarray(x, dtype=np.float32).tobytes())
        for x in network.encoded(people)
    ]


def set_rows_aside(learner: Learner, table: Table) -> Table:
    """The table with a share of its rows set aside for validation."""
    if learner.split is None:
        raise SettingError(f"{learner.name} takes no validation rows.")
    kept, aside = learner.split(table.codes)
    X, y, whole = table.X, table.y, (table.X, table.y, kept, aside, table.weight, table.cluster)
    beside: list[Any] = [
        None if each is None else each[kept] for each in (table.weight, table.cluster)
    ]
    return Table(
        X.iloc[kept],
        y.iloc[kept],
        (X.iloc[aside], y.iloc[aside]),
        beside[0],
        whole,
        cluster=beside[1],
    )
