"""Raw table → numbers, fitted on the training rows alone.

Numeric columns are scaled; every other column (text, booleans, pandas categories) is categorical.
Each raw column becomes one block of encoded columns. Missing values and unknown categories get
their own place, or are refused on request. Numbers that are too large to scale are refused with
their column and row.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from butfor.support.checks import check_whole
from butfor.support.errors import (
    SettingError,
    TableError,
    listed,
    plural,
)
from butfor.table.columns import (
    LEAST_DIFFERENT,
    MOSTLY_DIFFERENT,
    as_table,
    is_numeric,
    numbers_in,
    own,
    refuse_missing,
    refuse_rows,
    same_columns,
)

OWN = "own"
REFUSE = "refuse"
"""How missing and unknown values are treated."""
CHOICES = {
    "categorical": ("onehot", "embed", "ordinal"),
    "numeric": ("standard", "minmax", "raw"),
    "dtype": ("float32", "float64"),
    "missing": (OWN, REFUSE),
    "unknown": (OWN, REFUSE),
}
MISSING = "missing"
OTHER = "other"
"""The categories for missing values and for all rare ones."""
MAX_SCALED = 1e15
"""In scaled units: beyond this a network's sums overflow."""
MAX_UNGROUPED = 100
"""Rare categories of a column with more than this are always grouped."""
MAX_CATEGORIES = 1000
"""More would fill the memory."""


@dataclass(frozen=True, eq=False)
class _Block:
    """The encoded columns of one raw column: where they are and how a value becomes numbers.

    Numeric: (value − shift) / scale, with `fill` for a missing value and, with two names, a second
    column that is 1 for missing values and 0 for others. Categorical: row `code` of `table [values
    + 1 × width]`, whose last row is for unknown values; `rare` values share the category `OTHER`.
    `all_differ`: nearly every training row has a value of its own, so that unknown and grouped ones
    say nothing new."""

    columns: slice
    names: tuple[str, ...]
    shift: float = 0.0
    scale: float = 1.0
    fill: float = 0.0
    codes: dict[Any, int] | None = None
    table: NDArray[Any] | None = None
    rare: int = 0
    all_differ: bool = False

    def codes_of(self, values: pd.Series) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Each value's code (NaN if it has none), and which values training did not contain."""
        codes = values.astype(object).map(self.codes or {}).to_numpy(dtype=np.float64, copy=True)
        return codes, np.isnan(codes) & values.notna().to_numpy()

    def encode(self, values: pd.Series, unknown: str) -> NDArray[Any]:
        """Numbers `[rows × width]`."""
        if self.codes is None or self.table is None:
            numbers = numbers_in(values)
            absent = np.isnan(numbers)
            with np.errstate(over="ignore"):
                numbers = (np.where(absent, self.fill, numbers) - self.shift) / self.scale
            what = "holds {value}, which is too far from the training rows for a model"
            refuse_rows(values, np.abs(numbers) > MAX_SCALED, what, "correct it or drop the row")
            return np.column_stack([numbers, absent][: len(self.names)])
        codes, strange = self.codes_of(values)
        if unknown == REFUSE:
            remedy = (
                f"known values are {listed(self.codes)}; group rare values, drop the row or drop "
                "the column"
            )
            refuse_rows(values, strange, "holds {value!r}, which no training row has", remedy)
        absent_code = self.codes.get(MISSING, len(self.table) - 1)
        codes[strange] = self.codes[OTHER] if self.rare else absent_code
        return self.table[np.where(np.isnan(codes), absent_code, codes).astype(np.int64)]


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turn a table into numbers for a model. A scikit-learn transformer.

    Parameters
    ----------
    categorical : {"onehot", "embed", "ordinal"}, default="onehot"
        "onehot": one 0/1 column per value. "embed": a fixed embedding of width (c + 1) // 2 for c
        values, drawn from a standard normal (the paper's input sizes). "ordinal": the value's place
        in sorted order, scaled like a number.
    numeric : {"standard", "minmax", "raw"}, default="standard"
        "standard": mean 0 and standard deviation 1 over the training rows. "minmax": from 0 to 1.
        "raw": unchanged.
    random_state : int, default=0
        Seed of the embeddings. A column's embedding depends on its name, not on its position.
    dtype : {"float32", "float64"}, default="float32"
        Type of the encoded numbers.
    missing : {"own", "refuse"}, default="own"
        "own": a missing category becomes the category "missing"; a missing number becomes the
        median of the training rows, marked by a 0/1 column beside it. If no training row misses a
        value, there is no such category or column: a person's missing number becomes the median,
        and a missing category counts as unknown.
    unknown : {"own", "refuse"}, default="own"
        "own": a category that no training row has counts as "other" if rare categories are grouped,
        or as "missing" if training rows miss some. If neither exists, it becomes all zeros
        (onehot), the mean embedding (embed) or the place after the last (ordinal).
    max_categories : int or None, default=None
        The most categories per column, "other" included and "missing" not: a column with more keeps
        the most frequent and groups the rest as "other". None groups only columns with more than
        100.

    Examples
    --------
    >>> import pandas as pd
    >>> from butfor import TableEncoder
    >>> table = pd.DataFrame({"income": [10, 20, 30], "town": ["A", "B", "A"]})
    >>> encoder = TableEncoder(numeric="minmax").fit(table)
    >>> encoder.get_feature_names_out().tolist()
    ['income', 'town=A', 'town=B']
    >>> encoder.transform(table).tolist()
    [[0.0, 1.0, 0.0], [0.5, 0.0, 1.0], [1.0, 1.0, 0.0]]
    """

    def __init__(
        self,
        categorical: str = "onehot",
        numeric: str = "standard",
        random_state: int = 0,
        dtype: str = "float32",
        missing: str = OWN,
        unknown: str = OWN,
        max_categories: int | None = None,
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.random_state = random_state
        self.dtype = dtype
        self.missing = missing
        self.unknown = unknown
        self.max_categories = max_categories

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn scales and categories from the training rows."""
        for name, values in CHOICES.items():
            if getattr(self, name) not in values:
                raise SettingError(
                    f"{name}='{getattr(self, name)}' is not one of {', '.join(values)}."
                )
        if self.max_categories is not None:
            check_whole("max_categories", self.max_categories, 2, MAX_CATEGORIES)
        frame = as_table(_as_frame(X))
        if self.missing == REFUSE:
            refuse_missing(frame)
        self.blocks_: dict[Hashable, _Block] = {}
        self.n_features_out_ = 0
        for column in frame.columns:
            fit_column = self._fit_numbers if is_numeric(frame[column]) else self._fit_categories
            self.blocks_[column] = fit_column(frame[column], self.n_features_out_)
            self.n_features_out_ = self.blocks_[column].columns.stop
        self.feature_names_in_ = np.array(list(map(str, frame.columns)), dtype=object)
        self.n_features_in_ = frame.shape[1]
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encoded rows, `[rows × n_features_out_]`."""
        check_is_fitted(self)
        frame = same_columns(_as_frame(X), list(self.blocks_))
        if self.missing == REFUSE:
            refuse_missing(frame)
        out = np.empty((len(frame), self.n_features_out_), self.dtype)
        for column, block in self.blocks_.items():
            out[:, block.columns] = block.encode(frame[column], self.unknown)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The names of the encoded columns: the raw name, followed by `=value` or `[k]` if one
        became several."""
        check_is_fitted(self)
        return np.array(
            [name for block in self.blocks_.values() for name in block.names], dtype=object
        )

    def by_column(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """Numbers per encoded column `[rows × n_features_out_]`, summed per raw column."""
        check_is_fitted(self)
        return np.stack(
            [encoded[:, block.columns].sum(axis=1) for block in self.blocks_.values()], axis=1
        )

    def remarks(self, X: Any) -> list[str]:
        """Sentences about missing values, unknown categories and grouped ones."""
        check_is_fitted(self)
        frame = same_columns(_as_frame(X), list(self.blocks_))
        coded = {c: b for c, b in self.blocks_.items() if b.codes is not None and not b.all_differ}
        strange = {c: b.codes_of(frame[c])[1].sum() for c, b in coded.items()}
        missing = _rows_by_column(frame.isna().sum())
        unknown = _rows_by_column(pd.Series(strange, dtype=object))
        said: dict[str, object] = {
            f"Missing values: {missing}. A missing category counts as its own category, a missing "
            "number as the median of the training rows, marked as missing; if no training row "
            "misses one, there is no mark and no such category.": missing,
            f"Values that no training row has: {unknown}. They count as '{OTHER}' or as missing "
            "if the training rows have these, otherwise as an unknown value.": unknown,
        }
        for column, block in coded.items():
            apart = (
                len(block.codes or ()) - block.rare - len({OTHER, MISSING} & set(block.codes or ()))
            )
            values = f"'{column}' has {apart + block.rare} different values"
            said[
                f"{values}: the {apart} most frequent are kept, the others count as '{OTHER}'."
            ] = block.rare
        return [sentence for sentence, counts in said.items() if counts]

    def _fit_numbers(self, values: pd.Series, at: int) -> _Block:
        name = str(values.name)
        numbers = numbers_in(values)
        absent = np.isnan(numbers)
        names = (name, f"{name}={MISSING}") if absent.any() else (name,)
        columns = slice(at, at + len(names))
        if absent.all():  # its scale is unknown: every value of a person counts as 0
            return _Block(columns, names, scale=np.inf)
        fill = float(np.median(numbers[~absent]))
        shift, scale = self._scaling(np.where(absent, fill, numbers))
        with np.errstate(all="ignore"):
            scaled = (numbers[~absent] - shift) / scale
        # One number may be so large that scaling makes most of the others equal.
        merged = 2 * len(np.unique(scaled)) < len(np.unique(numbers[~absent]))
        if merged or not (np.isfinite(scale) and scale > 0):
            distance = np.nan_to_num(np.abs(numbers - fill), nan=-1.0)
            what = (
                "holds {value}, which is too far from the other values, or too close to them, to "
                "compute with"
            )
            refuse_rows(
                values,
                distance == distance.max(),
                what,
                "correct it, use another unit, or drop the row",
            )
        return _Block(columns, names, shift, scale, fill)

    def _fit_categories(self, values: pd.Series, at: int) -> _Block:
        """The categories are in sorted order (of a pandas category, those of its dtype), `OTHER`
        and `MISSING` last."""
        name = str(values.name)
        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            raise TableError(
                f"Column '{name}' holds dates; turn them into numbers or drop the column."
            )
        declared = isinstance(values.dtype, pd.CategoricalDtype)
        shown = values.cat.categories if declared else pd.unique(values.dropna().astype(object))
        different = sorted(shown, key=lambda value: (type(value).__name__, value))
        most = self.max_categories or MAX_UNGROUPED
        rare: set[Any] = set()
        if len(different) > most:
            counts = values.astype(object).value_counts()
            rare = set(sorted(different, key=lambda value: -counts.get(value, 0))[most - 1 :])
        categories = [value for value in different if value not in rare]
        categories += [OTHER] if rare and OTHER not in categories else []
        categories += [MISSING] if values.isna().any() and MISSING not in categories else []
        codes = {value: k for k, value in enumerate(categories)}
        codes |= dict.fromkeys(rare, codes.get(OTHER, 0))

        count = len(categories)
        names: tuple[str, ...] = (name,)
        if self.categorical == "onehot":
            table = np.eye(count + 1, count, dtype=bool)
            names = tuple(f"{name}={category}" for category in categories)
        elif self.categorical == "embed":
            rng = np.random.default_rng([self.random_state, zlib.crc32(name.encode())])
            table = rng.standard_normal((count, (count + 1) // 2))
            table = np.vstack([table, table.mean(axis=0)])
            if table.shape[1] > 1:
                names = tuple(f"{name}[{k}]" for k in range(table.shape[1]))
        else:
            filled = values.astype(object).where(values.notna(), MISSING)
            shift, scale = self._scaling(filled.map(codes).to_numpy(dtype=np.float64))
            table = (np.arange(count + 1, dtype=np.float64)[:, None] - shift) / scale
        present = int(values.notna().sum())
        all_differ = present >= LEAST_DIFFERENT and len(different) >= MOSTLY_DIFFERENT * present
        return _Block(
            slice(at, at + table.shape[1]),
            names,
            codes=codes,
            table=table,
            rare=len(rare),
            all_differ=all_differ,
        )

    def _scaling(self, numbers: NDArray[np.float64]) -> tuple[float, float]:
        if self.numeric == "raw":
            return 0.0, 1.0
        # A constant column carries no information and becomes 0. Its computed deviation may be a
        # rounding error.
        if numbers.min() == numbers.max():
            return float(numbers[0]), 1.0
        with np.errstate(over="ignore", invalid="ignore"):
            if self.numeric == "minmax":
                return float(numbers.min()), float(np.ptp(numbers))
            return float(numbers.mean()), float(numbers.std())


def _rows_by_column(counts: pd.Series) -> str:
    """Columns and their numbers of rows in words, without those that have none."""
    return ", ".join(f"'{column}' in {plural(n, 'row')}" for column, n in counts.items() if n)


def _as_frame(X: Any) -> pd.DataFrame:
    """A table as it is; the columns of an array are x0, x1, …"""
    if isinstance(X, pd.DataFrame):
        return X
    array = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    return pd.DataFrame(array, columns=[f"x{k}" for k in range(array.shape[1])]).infer_objects()


class EncodedTable:
    """The training rows as numbers, and any validation rows; the encoder is fitted on the training
    rows."""

    def __init__(
        self, encoder: TableEncoder, rows: pd.DataFrame, validation: pd.DataFrame | None = None
    ) -> None:
        self.rows = own(rows)
        self.validation = own(validation)
        self.encoder: TableEncoder = clone(encoder).fit(rows)
        self.X: NDArray[Any] = self.encoder.transform(rows)
        self.X_val = None if validation is None else self.encoder.transform(validation)

    def encodes(self, rows: pd.DataFrame, validation: pd.DataFrame | None) -> bool:
        """Whether rows with these values are its rows."""
        if validation is None or self.validation is None:
            same = validation is None and self.validation is None
        else:
            same = self.validation.equals(validation)
        return same and self.rows.equals(rows)

    def people(self, people: pd.DataFrame) -> NDArray[Any]:
        """People as numbers. Nothing is remembered about a table that somebody else may change: see
        `Asked`."""
        for asked in Asked.now.get():
            for place, table in enumerate(asked.tables):
                if table is people:
                    if (self, place) not in asked.numbers:
                        asked.numbers[self, place] = self._numbers_of(people)
                    return asked.numbers[self, place]
        return self._numbers_of(people)

    def _numbers_of(self, people: pd.DataFrame) -> NDArray[Any]:
        return self.X if self.rows.equals(people) else self.encoder.transform(people)


class Asked:
    """Tables of people about whom one model after the other is asked, by somebody who holds them
    and does not change them: each encoder turns them into numbers once, not once per model."""

    now: ContextVar[tuple[Asked, ...]] = ContextVar("asked", default=())

    def __init__(self, *tables: pd.DataFrame) -> None:
        self.tables = tables
        self.numbers: dict[tuple[EncodedTable, int], NDArray[Any]] = {}

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Models that are asked within share the numbers."""
        before = Asked.now.set((*Asked.now.get(), self))
        try:
            yield
        finally:
            Asked.now.reset(before)
