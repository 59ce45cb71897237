"""The seam between what is audited and how it is audited.

    Table      training rows and labels as given, validation rows and weights where there are some
    Learner    L with everything fixed: a table and labels by number in, a Model out
    Model      one trained f: raw people in, logits out, of more than two classes scores
    Training   which labels are flipped and, where it is not the learner's own, under which seed
    Engine     trains many of them for a learner it accepts
    Bound      an engine with its data in place, and what is known only then

A learner's own `fit` is the definition of L: it confirms every find, whatever an engine says. The user's pipeline is
a learner, our network is one, and so is anything derived from `Learner`. What some learners and models can do beyond
this is in `butfor.learn.capabilities`; nothing else knows what a network is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.labels import MOST_CLASSES
from butfor.errors import SettingError, TableError, listed
from butfor.learn.decision_split import DecisionSplit, decides_one
from butfor.learn.threshold import Cut

Floats = NDArray[np.float32]
Numbers = NDArray[np.floating[Any]]
FlipSet = tuple[int, ...]
"""Positions of training rows whose labels are turned, ascending, each once."""
Advance = Callable[[int], None]
"""Called with the number of trainings that just finished."""
C = TypeVar("C")
BIAS = "(bias)"


class Training(NamedTuple):
    """One training to be done. `seed=None` is the learner's own."""

    flips: FlipSet
    seed: int | None = None


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows `X` and their labels `y`, of two values or more, as given.

    `validation` rows and labels steer a learner that stops early; `weight [n]` goes to one that takes weights. Neither
    is ever flipped. `whole` is the table that was given, with the positions in it of the training rows, where rows
    were set aside; else X and y are all there is. With more than two labels `decision_split` says what a flip makes
    of them, and which of them count as 1. `cut`: where the line between two labels is drawn, where that is not one
    half."""

    X: pd.DataFrame
    y: pd.Series
    validation: tuple[pd.DataFrame, pd.Series] | None = None
    weight: NDArray[np.float64] | None = None
    whole: tuple[pd.DataFrame, pd.Series, NDArray[np.int64]] | None = None
    decision_split: DecisionSplit | None = None
    cut: Cut | None = None

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
        return self.numbers_of(self.y)

    @cached_property
    def validation_codes(self) -> NDArray[np.int64]:
        return self.numbers_of(self.validation[1]) if self.validation else np.empty(0, np.int64)

    @cached_property
    def zero_one(self) -> Floats:
        """The labels as 0 and 1, `[n]`; of more than two, 1 is what the split is towards."""
        return self.sides(self.codes).astype(np.float32)

    def answers(self, model: Model, people: pd.DataFrame) -> Floats:
        """All that a trained model says about people, in a row: the logits, before a cut, or, of more than two classes,
        the scores."""
        return model.scores(people).ravel() if self.multiclass else model.logits(people)

    def with_pool(self, people: pd.DataFrame) -> pd.DataFrame:
        """People whom a trained model must be asked about to know its decisions: these and, where places are limited,
        everyone who competes for them."""
        if self.cut is None or self.cut.pool is None:
            return people
        both = pd.concat([people, self.cut.pool])
        kinds = {name: dtype for name, dtype in self.X.dtypes.items() if isinstance(dtype, pd.CategoricalDtype)}
        return both.astype({name: dtype for name, dtype in kinds.items() if both[name].dtype != dtype})

    def sides(self, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which labels or decisions, given by number, count as 1."""
        if not self.multiclass:
            return np.asarray(codes == 1)
        if self.decision_split is None:
            raise SettingError("With more than two labels a DecisionSplit must say which count as the other decision.")
        return self.decision_split.towards[codes]

    def labels(self, flips: Sequence[int] = ()) -> Floats:
        """Labels by number with the given positions turned."""
        y, at = self.codes.astype(np.float32), list(flips)
        y[at] = self.new_codes[at]
        return y

    @cached_property
    def new_codes(self) -> NDArray[np.int64]:
        """What a flip makes of each label."""
        return self.decision_split.new if self.multiclass and self.decision_split else 1 - self.codes

    def margins(self, answers: Floats) -> Floats:
        """Logits `[… × people]` from what models say about people `with_pool`: of two classes that is the logit, before
        a cut, of more their scores, person by person `[… × people · classes]`."""
        if self.cut is not None:
            return self.cut.margins(answers)
        split = self.decision_split if self.multiclass else None
        return answers if split is None else split.margins(self._by_class(answers))

    def decisions(self, answers: Floats) -> NDArray[np.int64]:
        """The decisions, by number, from the same."""
        if not self.multiclass:
            return np.asarray(decides_one(self.margins(answers)), np.int64)
        return np.asarray(self._by_class(answers).argmax(-1), np.int64)

    def decided(self, model: Model, people: pd.DataFrame) -> NDArray[np.int64]:
        """The decisions of an audited model, whose logits are measured from the cut."""
        answers = self.answers(model, people)
        return self.decisions(answers) if self.multiclass else np.asarray(decides_one(answers), np.int64)

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

    def with_flips(self, positions: Sequence[int]) -> tuple[pd.DataFrame, pd.Series]:
        """D' = (X, y'): the whole table as given, the labels with the flips made."""
        X, y, kept = self.whole or (self.X, self.y, np.arange(self.n))
        y, at = y.copy(), list(positions)
        if at:
            y.iloc[kept[at]] = self.classes[self.new_codes[at]]
        return X, y

    def with_labels(self, positions: Sequence[int], labels: Sequence[int] | None = None) -> Table:
        """The same rows with these labels turned for good, or made what `labels` says by number; rows that were set
        aside stay so."""
        y, at = self.y.copy(), list(positions)
        if at:
            y.iloc[at] = self.classes[self.new_codes[at] if labels is None else list(labels)]
        return replace(self, y=y, whole=None)

    def numbers_of(self, y: pd.Series) -> NDArray[np.int64]:
        """Labels by their number in `classes`."""
        if not self.multiclass:
            return (y.to_numpy() == self.classes[1]).astype(np.int64)
        return np.searchsorted(self.classes, y.to_numpy().astype(self.classes.dtype))


class Model:
    """One trained f. Only `logits` must be there. What more a model can do is a small class of
    `butfor.learn.capabilities` that it derives from too, and that a ranking, a proof or a page asks for."""

    def logits(self, people: pd.DataFrame) -> Floats:
        """One number per raw person; class 1 is decided where it is above 0 or, before a cut is made, above the cut."""
        raise NotImplementedError

    def scores(self, people: pd.DataFrame) -> Floats:
        """Of more than two classes, `[people × classes]`: the class with the highest one is decided."""
        raise NotImplementedError

    def capability(self, kind: type[C]) -> C | None:
        """What can do for this model what `kind` says; None where nothing can."""
        return self if isinstance(self, kind) else None


class Learner:
    """L, everything fixed. `fit` twice on the same labels must give the same answers.

    A learner of one's own brings `name`, `fit` and `record`, and `seeded` and `reseeded` where it has a seed."""

    @property
    def name(self) -> str:
        """In a word or two, for sentences and records."""
        raise NotImplementedError

    @property
    def seeded(self) -> bool:
        """Whether another seed may make another model."""
        return False

    @property
    def own_seed(self) -> int:
        """The seed it has; other seeds are counted from there."""
        return 0

    def fit(self, table: Table, labels: Floats) -> Model:
        """f trained on the rows of the table with these labels: 0 and 1, of more than two their numbers."""
        raise NotImplementedError

    def reseeded(self, seed: int) -> Learner:
        """The same learner under another seed; itself where it has none."""
        return self

    def record(self) -> dict[str, Any]:
        """Settings as JSON knows them: the ledger's key, and what a replay rebuilds the learner from."""
        raise NotImplementedError


class MakesLearner:
    """Base of estimators that name their own learner's class, as "module:attribute"."""

    made_by: str


class Bound:
    """An engine with its data in place: what each trained model says about the people, `[trainings × people]`, of more
    than two classes `[trainings × people · classes]`. A training that diverged has no answer: NaN.

    `name`: what trains, and `device`: where. `by_definition`: by the model's own `fit`, so that its answers need no
    confirmation. `width`: how many trainings it likes to do side by side."""

    name: str
    by_definition = False
    device: Any = "cpu"
    width = 1

    def __init__(
        self, train: Callable[..., Floats], name: str, by_definition: bool = False, device: Any = "cpu", width: int = 1
    ) -> None:
        self.train, self.name = train, name
        self.by_definition, self.device, self.width = by_definition, device, width

    def __call__(self, trainings: Sequence[Training], advance: Advance | None = None) -> Floats:
        return self.train(trainings, advance)

    @property
    def at_once(self) -> int:
        """Trainings that are worth asking for in one call; what is found does not depend on it."""
        return self.width

    def expect(self, trainings: int) -> None:
        """So many are to come, in calls that each have few of them."""

    def pieces(
        self, trainings: Sequence[Training], advance: Advance | None = None, size: int = 64
    ) -> Iterator[tuple[range, Floats]]:
        """The same piece by piece: which of the trainings are done, and their answers."""
        for start in range(0, len(trainings), size):
            some = trainings[start : start + size]
            yield range(start, start + len(some)), self(some, advance)


class Engine:
    """Trains many flip sets of a learner: `name`, `accepts` and `bind` must be there."""

    name: str
    device: Any = "cpu"
    """Where it trains, and where rankings that train do so."""

    def accepts(self, learner: Learner) -> bool:
        raise NotImplementedError

    def bind(self, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
        """Data in place. An engine of one's own may give a plain function; the engine itself does not change."""
        raise NotImplementedError


def bind(engine: Engine, learner: Learner, table: Table, people: pd.DataFrame) -> Bound:
    """The engine with its data in place; a plain function that it gives is not taken for the definition."""
    given = engine.bind(learner, table, people)
    return given if isinstance(given, Bound) else Bound(given, engine.name, device=engine.device)


class TableCache:
    """What a learner makes of the rows it had last, whatever their labels: shared with the same learner under other
    seeds, and left behind when it travels to another process, which has the table itself."""

    def __init__(self) -> None:
        self._last: tuple[Table, Any] | None = None

    def get(self, table: Table, make: Callable[[], Any]) -> Any:
        last = self._last
        if last is None or last[0].X is not table.X or last[0].validation is not table.validation:
            self._last = last = table, make()
        return last[1]

    def __reduce__(self) -> tuple[Any, ...]:
        return TableCache, ()


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


def flip_direction(logits: NDArray[Any]) -> Floats:
    """The direction out of the present class: −1 where class 1 is decided, else +1."""
    return np.where(decides_one(logits), -1.0, 1.0).astype(np.float32)
