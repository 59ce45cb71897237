"""Tables with planted bias: a share of one group's favourable labels is made adverse, and we know
which.

Labels are planted in all labelled rows: those for training, validation and test. Kinds: `uniform`;
`hard` (nearer to the boundary, more often); `region` (on one side of a random direction of the
inputs); `labeller` (one value of one categorical column, which at most half of the group's
favourable rows have); `nothing`. Labels before planting are those that were `recorded`, or `drawn`
by one standard: from a model without the protected attribute, so that what is planted is all that
is wrong. Families of that model take turns: logistic, boosting, forest, interactions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks.coverage import FAMILIES, probabilities
from benchmarks.work import network
from butfor.models.by_name import model_named
from butfor.models.engines import choose_engine
from butfor.models.making import as_learner
from butfor.models.own_fit import bind
from butfor.models.seam import Learner, Training
from butfor.standard.compare import compare
from butfor.standard.groups import Standards
from butfor.standard.settings import ComparisonSettings
from butfor.table.columns import is_numeric
from butfor.table.embedded import Dataset, load_dataset
from butfor.table.encoding import TableEncoder
from butfor.table.groups import Sensitive
from butfor.table.table import Table

Rows = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

GROUPS = {
    "german": "female",
    "compas": "non-White",
    "adult": "Female",
    "default": "2",
    "student": "M",
}
"""The group whose labels are made adverse."""
KINDS = ("nothing", "uniform", "hard", "region", "labeller")
BASES = ("recorded", "drawn")
MOST_ROWS = 4000
"""Of larger sets so many rows, others with every seed."""
MEMBERS = 8
"""Of a network's ensemble."""


@dataclass(frozen=True)
class Planted:
    """One table, and what is known of it. Positions are of all labelled rows: training, validation,
    test."""

    name: str
    kind: str
    base: str
    seed: int
    share: float = 0.2
    draws: int = 99

    @property
    def blind(self) -> bool:
        """Whether the audited model is kept from seeing the attribute: with odd seeds."""
        return self.seed % 2 == 1

    @cached_property
    def data(self) -> Dataset:
        return _loaded(self.name, self.seed)

    @cached_property
    def parts(self) -> tuple[slice, slice, slice]:
        """Training, validation and test rows."""
        sizes = np.array(
            [len(part) for part in (self.data.X_train, self.data.X_val, self.data.X_test)]
        )
        first, second, third = (
            np.cumsum(sizes * min(1.0, MOST_ROWS / sizes.sum())).astype(int).tolist()
        )
        return slice(0, first), slice(first, second), slice(second, third)

    @cached_property
    def X(self) -> pd.DataFrame:
        parts = zip((self.data.X_train, self.data.X_val, self.data.X_test), self.parts, strict=True)
        rows = pd.concat([X.iloc[: part.stop - part.start] for X, part in parts])
        return rows.assign(**{self.attribute: rows[self.attribute].astype(str)})

    @property
    def attribute(self) -> str:
        """The protected column."""
        return str(self.data.sensitive)

    @property
    def group(self) -> str:
        return GROUPS[self.name]

    @cached_property
    def inside(self) -> Mask:
        """The rows of the group."""
        return (self.X[self.attribute] == self.group).to_numpy()

    @cached_property
    def favourable(self) -> int:
        """The label's number."""
        return 1 - self.data.label_names.index(str(self.data.adverse))

    @cached_property
    def inputs(self) -> Floats:
        """All columns but the attribute, as numbers."""
        return TableEncoder("onehot", dtype="float64").fit_transform(
            self.X.drop(columns=self.attribute)
        )

    @cached_property
    def truth(self) -> Floats | None:
        """The probabilities that labels are drawn from; None where they are the recorded ones."""
        if self.base == "recorded":
            return None
        family = FAMILIES[self.seed // 2 % 4]
        return probabilities(
            family, self.X.drop(columns=self.attribute), self._recorded, self._rng(1)
        )

    @cached_property
    def _recorded(self) -> Mask:
        parts = zip((self.data.y_train, self.data.y_val, self.data.y_test), self.parts, strict=True)
        labels = np.concatenate([y.to_numpy()[: part.stop - part.start] for y, part in parts])
        return np.asarray(labels == self.favourable)

    def _rng(self, purpose: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, KINDS.index(self.kind) if purpose else 9, purpose])

    @cached_property
    def clean(self) -> Mask:
        """Which labels are favourable before planting."""
        return (
            self._recorded if self.truth is None else self._rng(2).random(len(self.X)) < self.truth
        )

    @cached_property
    def _where(self) -> tuple[Rows, tuple[str, str] | None]:
        """The rows whose labels are made adverse, and the slice that they are in."""
        rng, candidates = self._rng(3), np.flatnonzero(self.inside & self.clean)
        count, weight = round(self.share * len(candidates)), np.ones(len(candidates))
        place: tuple[str, str] | None = None
        if self.kind == "nothing":
            count = 0
        elif self.kind == "hard":
            model = LogisticRegression(max_iter=1000).fit(self.inputs, self.clean)
            weight = np.exp(-np.abs(model.decision_function(self.inputs[candidates])))
        elif self.kind == "region":
            along = self.inputs[candidates] @ rng.standard_normal(self.inputs.shape[1])
            weight = (along >= np.sort(along)[-max(count, len(along) // 3)]).astype(float)
        elif self.kind == "labeller":
            slices = self._slices(candidates, count)
            column, value, weight = slices[rng.integers(len(slices))]
            place = column, value
        return np.sort(rng.choice(candidates, count, replace=False, p=weight / weight.sum())), place

    def _slices(self, candidates: Rows, count: int) -> list[tuple[str, str, Floats]]:
        """Column, value, and which candidates have it: at least `count` and at most half of
        them."""
        found = []
        for column in self.X.columns:
            if column != self.attribute and not is_numeric(self.X[column]):
                values = self.X[column].astype(str).to_numpy()[candidates]
                for value, rows in zip(*np.unique(values, return_counts=True), strict=True):
                    if count <= rows <= len(candidates) / 2:
                        found.append((str(column), str(value), (values == value).astype(float)))
        return found

    @property
    def rows(self) -> Rows:
        return self._where[0]

    @property
    def planted_slice(self) -> tuple[str, str] | None:
        """Of the kind `labeller`, column and value."""
        return self._where[1]

    @cached_property
    def training_rows(self) -> Rows:
        """The planted ones among the training rows."""
        return self.rows[self.rows < self.parts[0].stop]

    @cached_property
    def labels(self) -> Mask:
        """Which labels are favourable, after planting."""
        found = self.clean.copy()
        found[self.rows] = False
        return found

    @property
    def true_difference(self) -> float | None:
        """Between standards, as a share of the group's labels; not known of recorded labels."""
        return None if self.truth is None else float(len(self.rows) / self.inside.sum())

    # --- what is asked ----------------------------------------------------------------------------

    @cached_property
    def standards(self) -> Standards:
        """Of all labelled rows, as an audit compares them."""
        return self._compare(len(self.X), explain=True)

    @cached_property
    def standards_without_test(self) -> Standards:
        """What is known without the test people."""
        return self._compare(self.parts[2].start, explain=False)

    def _compare(self, rows: int, explain: bool) -> Standards:
        X = self.X.iloc[:rows]
        protected = Sensitive.of(self.attribute, X)
        settings = ComparisonSettings(draws=self.draws, n_jobs=1, explain=explain)
        sides = (("adverse",), ("favourable",))
        return compare(X, self.labels[:rows], [protected], settings, sides=sides)

    def seen(self, rows: slice) -> pd.DataFrame:
        """What the audited model sees of these rows."""
        X = self.X.iloc[rows]
        return X.drop(columns=self.attribute) if self.blind else X

    def numbers(self, labels: Mask, rows: slice) -> pd.Series:
        """Labels by number."""
        return pd.Series(
            np.where(labels[rows], self.favourable, 1 - self.favourable),
            self.X.index[rows],
            name="label",
        )

    def table(self, model: str, labels: Mask) -> Table:
        """The training rows and, for a network, the validation rows."""
        train, val, _ = self.parts
        validation = (self.seen(val), self.numbers(labels, val)) if model == "mlp" else None
        return Table(self.seen(train), self.numbers(labels, train), validation)

    def learner(self, model: str) -> Learner:
        if model == "mlp":
            return as_learner(
                network(self.data.setup), TableEncoder("embed", self.data.setup.numeric)
            )
        return as_learner(model_named(model), None)

    def accepted(
        self, model: str, work: Sequence[Sequence[Training]], labels: Mask | None = None
    ) -> Mask:
        """Whom of the test people those models accept that decide by the mean of these trainings:
        `[work × people]`. Labels are those after planting, unless others are given."""
        table, people = (
            self.table(model, self.labels if labels is None else labels),
            self.seen(self.parts[2]),
        )
        learner = self.learner(model)
        single = list(dict.fromkeys(training for together in work for training in together))
        answers = bind(choose_engine("cpu", learner, 1), learner, table, people)(single)
        logits = dict(zip(single, np.asarray(answers, np.float64), strict=True))
        means = np.array(
            [np.mean([logits[training] for training in together], axis=0) for together in work]
        )
        return (means > 0) == bool(self.favourable)

    def trainings(self, model: str, flips: Sequence[int] | Rows) -> list[Training]:
        """The audited model with these labels flipped: of a network, `MEMBERS` seeds."""
        flipped = tuple(sorted(map(int, flips)))
        return [Training(flipped, seed) for seed in (range(MEMBERS) if model == "mlp" else [None])]


@lru_cache(maxsize=2)
def _loaded(name: str, seed: int) -> Dataset:
    return load_dataset(name, random_state=seed)
