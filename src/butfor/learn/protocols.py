"""The seam between what is audited and how it is audited.

    Table      training rows and labels as given, validation rows and weights where there are some
    Learner    L with everything fixed: a table and labels by number in, a Model out
    Model      one trained f: raw people in, logits out, of more than two classes scores
    DecisionSplit  of more than two classes: which decisions count as the other one (`butfor.learn.decision_split`)
    Training   which labels are turned and, where it is not the learner's own, under which seed
    Engine     trains many of them for a learner it accepts; the data travels once, when it is bound

A learner's own `fit` is the definition of L: it confirms every find, whatever an engine says. The user's pipeline is
a learner, our network is one, and so is anything derived from `Learner`; nothing else knows what a network is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.labels import MOST_CLASSES
from butfor.errors import SettingError, TableError, listed
from butfor.learn.decision_split import DecisionSplit, decides_one

Floats = NDArray[np.float32]
Numbers = NDArray[np.floating[Any]]
FlipSet = tuple[int, ...]
"""Positions of training rows whose labels are turned, ascending, each once."""
Advance = Callable[[int], None]
"""Called with the number of trainings that just finished."""
BIAS = "(bias)"
MEMBERS = 16
"""Members of an ensemble where nobody says how many."""


class Training(NamedTuple):
    """One training to be done. `seed=None` is the learner's own."""

    flips: FlipSet
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows `X` and their labels `y`, of two values or more, as given.

    `validation` rows and labels steer a learner that stops early; `weight [n]` goes to one that takes weights. Neither
    is ever flipped. `whole` is the table that was given, with the positions in it of the training rows, where rows
    were set aside; else X and y are all there is. With more than two labels `question` says what a flip makes of them,
    and which of them count as 1."""

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series] | None = None
    weight: NDArray[np.float64] | None = None
    whole: tuple[pd.DataFrame, pd.Series, NDArray[np.int64]] | None = None
    decision_split: DecisionSplit | None = None

    @property
    def n(self) -> int:
        return len(self.X)

    @property
    def set_aside(self) -> int:
        """Rows of the given table that are validation rows instead."""
        return 0 if self.whole is None else len(self.whole[0]) - self.n

    @cached_property
    def classes(self) -> NDArray[Any]:
        """The label values in sorted order; of two the second is class 1."""
        return label_values(self.y.to_numpy())

    @property
    def multiclass(self) -> bool:
        return len(self.classes) > 2

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The labels by their number in `classes`, `[n]`."""
        return self._coded(self.y)

    @cached_property
    def validation_codes(self) -> NDArray[np.int64]:
        return self._coded(self.validation[1]) if self.validation else np.empty(0, np.int64)

    @cached_property
    def zero_one(self) -> Floats:
        """The labels as 0 and 1, `[n]`; of more than two, 1 is what the question is towards."""
        return self.sides(self.codes).astype(np.float32)

    def sides(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels or decisions, given by number, count as 1."""
        if not self.multiclass:
            return np.asarray(codes == 1)
        if self.decision_split is None:
            raise SettingError("With more than two labels a question must say which count as the other decision.")
        return self.decision_split.towards[codes]

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """Labels by number with the given positions turned."""
        y, at = self.codes.astype(np.float32), list(flips)
        y[at] = self.turned[at]
        return y

    @cached_property
    def turned(self) -> NDArray[np.int64]:
        """What a flip makes of each label."""
        return self.decision_split.new if self.multiclass and self.decision_split else 1 - self.codes

    def margins(self, answers: Floats) -> Floats:
        """Logits `[… × people]` from what models say: of two classes that is the logit, of more their scores, person by
        person `[… × people · classes]`."""
        return (
            answers
            if not self.multiclass or self.decision_split is None
            else self.decision_split.margins(self._by_class(answers))
        )

    def decided(self, answers: Floats) -> NDArray[np.int64]:
        """The decisions, by number, from the same."""
        return np.asarray(self._by_class(answers).argmax(-1) if self.multiclass else decides_one(answers), np.int64)

    def _by_class(self, answers: Floats) -> Floats:
        return answers.reshape(*answers.shape[:-1], -1, len(self.classes))

    @property
    def outputs(self) -> int:
        """Numbers that a model says about a person."""
        return len(self.classes) if self.multiclass else 1

    def with_split(self, decision_split: DecisionSplit | None) -> Table:
        other = replace(self, decision_split=decision_split)
        other.__dict__.update({name: self.__dict__[name] for name in ("classes", "codes") if name in self.__dict__})
        return other

    def flipped(self, positions: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole table as given, the labels with the flips made."""
        X, y, kept = self.whole or (self.X, self.y, np.arange(self.n))
        y, at = y.copy(), list(positions)
        if at:
            y.iloc[kept[at]] = self.classes[self.turned[at]]
        return X, y

    def corrected(self, positions: Sequence[int], labels: Sequence[int] | None = None) -> Table:
        """The same rows with these labels turned for good, or made what `labels` says by number; rows that were set
        aside stay so."""
        y, at = self.y.copy(), list(positions)
        if at:
            y.iloc[at] = self.classes[self.turned[at] if labels is None else list(labels)]
        return replace(self, y=y, whole=None)

    def _coded(self, y: pd.Series) -> NDArray[np.int64]:
        if not self.multiclass:
            return (y.to_numpy() == self.classes[1]).astype(np.int64)
        return np.searchsorted(self.classes, y.to_numpy().astype(self.classes.dtype))


class Model:
    """One trained f. `logits` must be there, of more than two classes `scores`; everything else says what more it can
    do, for rankings, proofs and pages that need it."""

    encoder: Any = None
    """The fitted `TableEncoder` in front of it, where there is one."""
    linear = trees = False
    """Whether `flip_effects` and whether `leaves` is known."""
    proof: str | None = None
    """The kind of proof there is for its decisions: see `butfor.prove`."""
    network: Any = None
    rows: Any = None
    """Of our network: its weights, and what it was trained on."""

    def logits(self, people: pd.DataFrame) -> Floats:
        """One number per raw person; class 1 is decided where it is above 0."""
        raise NotImplementedError

    def scores(self, people: pd.DataFrame) -> Floats:
        """Of more than two classes, `[people × classes]`: the class with the highest one is decided."""
        raise NotImplementedError

    def answers(self, people: pd.DataFrame, multiclass: bool) -> Floats:
        """All that it says, in a row: the logits or, of `many` classes, the scores."""
        return self.scores(people).ravel() if multiclass else self.logits(people)

    @property
    def members(self) -> Sequence[Model]:
        """The models whose mean logit decides; one that is no ensemble is its only member."""
        return (self,)

    def person_keys(self, people: pd.DataFrame) -> list[int]:
        """A number that belongs to each person, whoever else is audited and in which order."""
        return [zlib.crc32(repr(row).encode()) for row in people.itertuples(index=False, name=None)]

    def numbers(self, table: Table, people: pd.DataFrame) -> tuple[Numbers, Numbers] | None:
        """Training rows `[n × d]` and people `[people × d]` as the model sees them; None where it does not say."""
        return None

    def pulls(self, people: pd.DataFrame, contrast: Floats | None = None) -> list[dict[str, float]] | None:
        """Per person, column → its share of the logit, or of the sum of scores that `contrast [people × classes]` says,
        the bias last; None where that is no such sum. A ReLU network is exactly linear around a person (section 2 of
        the paper)."""
        return None

    def flip_effects(
        self, table: Table, people: pd.DataFrame, weights: Numbers | None = None, contrast: Floats | None = None
    ) -> NDArray[np.float64]:
        """The change of each person's margin if label i were flipped, `[people × n]`; with `weights [sums × people]`,
        which add up to 1, of weighted means of their margins, `[sums × n]`."""
        raise NotImplementedError

    def leaves(self, rows: pd.DataFrame) -> NDArray[Any]:
        """Which leaf of each tree a row falls into, `[rows × trees]`."""
        raise NotImplementedError

    def neighbours(self, people: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Where the nearest rows vote: which they are and what each vote counts, both `[people × k]`."""
        raise NotImplementedError

    def parts(self, rows: pd.DataFrame, people: pd.DataFrame) -> tuple[Any, Any, Any]:
        """Of a `PartitionEnsemble`: the ensemble, and both tables as it sees them."""
        raise NotImplementedError


class Learner:
    """L, everything fixed. `fit` twice on the same labels must give the same answers.

    A learner of one's own brings `name`, `fit` and `record`, and `seeded` and `reseeded` where it has a seed."""

    kind = "own"
    """What a record calls this sort of learner."""
    own_seed = 0
    """The seed it has; other seeds are counted from there."""
    deterministic = False
    """Whether it is known to answer the same twice, and otherwise under another seed. Else both are tried."""
    takes_validation = False
    """Whether validation rows steer it, so that `split` sets some aside where none are given."""
    identified = True
    """Whether its record tells it from other learners, so that a ledger can rely on it."""
    margin = "decision_function"
    """Where logits come from, in words."""

    @property
    def name(self) -> str:
        """In a word or two, for sentences and records."""
        raise NotImplementedError

    @property
    def seeded(self) -> bool:
        """Whether another seed may make another model."""
        return False

    def fit(self, table: Table, labels: Floats) -> Model:
        """f trained on the rows of the table with these labels: 0 and 1, of more than two their numbers."""
        raise NotImplementedError

    def reseeded(self, seed: int) -> Learner:
        """The same learner under another seed; itself where it has none."""
        return self

    def record(self) -> dict[str, Any]:
        """Settings as JSON knows them: the ledger's key, and what a replay rebuilds the learner from."""
        raise NotImplementedError

    @property
    def single(self) -> Learner:
        """What is trained, once for each of `seeds`: an ensemble's learner, any other learner itself."""
        return self

    @property
    def seeds(self) -> tuple[int | None, ...]:
        """One per member; None is the learner as it is."""
        return (None,)

    @property
    def engines(self) -> tuple[str, ...]:
        """Names of the engines that train it, the fastest first."""
        return ("joblib",)

    def split(self, labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions of training rows, and of validation rows to set aside."""
        raise NotImplementedError

    def set_aside(self, table: Table) -> Table:
        """The table with a share of its rows set aside for validation."""
        X, y = table.X, table.y
        kept, aside = self.split(table.codes)
        return Table(X.iloc[kept], y.iloc[kept], (X.iloc[aside], y.iloc[aside]), whole=(X, y, kept))

    def warm_up(self, table: Table) -> None:
        """Do what a process does only once, so that it is not taken for the time of a training."""

    def light(self, model: Any) -> Any:
        """What a model needs to travel between processes that both have the table."""
        return model

    def restored(self, light: Any, table: Table) -> Any:
        """The model that `light` made light."""
        return light

    def remedy(self) -> str:
        """What to change where `fit` gives other answers each time."""
        return "Fix its seed."

    def gaps(self) -> list[str]:
        """The parts of it that its record cannot bring back, in words."""
        return [f"model: {self.name} is a learner of the user's own"]

    def usual_members(self, rows: int, seconds: float) -> int:
        """Members of an ensemble of it where nobody says: fewer where a training takes long."""
        return MEMBERS if seconds <= 0.1 else MEMBERS // 2 if seconds <= 1.0 else MEMBERS // 4


class MakesLearner:
    """Base of estimators that name their own learner's class, as "module:attribute"."""

    made_by: str


class Bound:
    """An engine with its data in place: what each trained model says about the people, `[trainings × people]`, of more
    than two classes `[trainings × people · classes]`. A training that diverged has no answer: NaN."""

    def __init__(self, function: Callable[..., Floats]) -> None:
        self.function = function

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        return self.function(trainings, advance)

    def expect(self, trainings: int) -> None:
        """So many are to come, in calls that each have few of them."""

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = 64
    ) -> Iterator[tuple[range, Floats]]:
        """The same piece by piece: which of the trainings are done, and their answers."""
        for start in range(0, len(trainings), size):
            some = trainings[start : start + size]
            yield range(start, start + len(some)), self(some, advance)


def as_bound(given: Callable[..., Floats]) -> Bound:
    return given if isinstance(given, Bound) else Bound(given)


class Engine:
    """Trains many flip sets of a learner. `width`: how many it likes to train side by side. `by_definition`: it
    calls the learner's own `fit`, so that its answers need no confirmation.

    An engine of one's own brings `name`, `accepts` and `bind`."""

    name: str
    by_definition = False
    device: Any = "cpu"
    """Where it trains."""
    definition: Engine | None = None
    """What has the learner's own `fit` do the work where this engine's workers are; None: this machine does it."""
    spreads = False
    """Whether `spread` has workers to spread over."""

    @property
    def width(self) -> int:
        return 1

    @property
    def at_once(self) -> int:
        """Trainings that are worth asking for in one call; what is found does not depend on it."""
        return self.width

    def accepts(self, learner: Learner) -> bool:
        return self.name in learner.engines

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        """Data in place. An engine of one's own may give a plain function."""
        raise NotImplementedError

    def spread(
        self, function: Callable[..., Any], shared: Any, parts: Sequence[Any], advance: Advance | None = None
    ) -> list[Any]:
        """`function(shared, part)` for each part, on the workers; what is shared travels once."""
        raise NotImplementedError


class Remembered:
    """What a learner makes of the rows it had last, whatever their labels: shared with the same learner under other
    seeds, and left behind when it travels to another process, which has the table itself."""

    def __init__(self) -> None:
        self._last: tuple[Table, Any] | None = None

    def of(self, table: Table, make: Callable[[], Any]) -> Any:
        last = self._last
        if last is None or last[0].X is not table.X or last[0].validation is not table.validation:
            self._last = last = table, make()
        return last[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return Remembered, ()


def named_pulls(terms: Numbers, bias: Numbers, columns: Sequence[object]) -> list[dict[str, float]]:
    """Column → pull for each person, from the terms `[people × columns]` of the logits."""
    names = [*map(str, columns), BIAS]
    return [dict(zip(names, row, strict=True)) for row in np.column_stack([terms, bias]).tolist()]


def label_values(y: NDArray[Any]) -> NDArray[Any]:
    """The label values in sorted order, or an error that says how many there are."""
    try:
        classes, counts = np.unique(y, return_counts=True)
    except TypeError as error:
        kinds = sorted({type(each).__name__ for each in y})
        raise TableError(
            f"The labels are of kinds that cannot be compared ({listed(kinds)}); make them alike."
        ) from error
    if len(classes) == 1:
        raise TableError(
            f"The labels hold one class only ('{classes[0]}'): there is nothing to decide. "
            "Check that the label column is the right one."
        )
    if len(classes) > MOST_CLASSES:
        raise TableError(
            f"The labels hold {len(classes)} values ({listed(classes)}), and at most {MOST_CLASSES} can be told apart: "
            "group them, or name another label."
        )
    if len(classes) > 2 and counts.min() == 1:
        raise TableError(
            f"The labels hold {len(classes)} values, and '{classes[counts.argmin()]}' stands in one row alone: correct "
            "it, or drop the row."
        )
    return classes


def away(logits: NDArray[Any]) -> Floats:
    """The direction out of the present class: −1 where class 1 is decided, else +1."""
    return np.where(decides_one(logits), -1.0, 1.0).astype(np.float32)
