"""Raw table → numbers, fitted on the training rows alone.

Numeric columns are scaled; every other column (text, booleans, pandas categories) is categorical.
Each raw column becomes one block of encoded columns, so that a single value of a person can be
switched in place ("the same person, other sex"). Nothing is guessed: a value that training did
not show, a missing one or an infinite one is an error that names its column and row.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from butfor.errors import SettingError, TableError, listed

CATEGORICAL = ("onehot", "embed", "ordinal")
NUMERIC = ("standard", "minmax", "raw")
DTYPES = ("float32", "float64")


@dataclass(frozen=True, eq=False)
class _Block:
    """One raw column's share of the encoded row: where it stands and how a value becomes numbers.

    Numeric: (value − shift) / scale. Categorical: row `code` of `table [values × width]`."""

    columns: slice
    names: tuple[str, ...]
    shift: float = 0.0
    scale: float = 1.0
    codes: dict[Any, int] | None = None
    table: NDArray[np.float64] | None = None


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encode a table for a network.

    Parameters
    ----------
    categorical : "onehot", one 0/1 column per value; "embed", a fixed embedding of width (c + 1) // 2
        for c values, drawn from a standard normal (the paper's input sizes); "ordinal", the value's
        place in sorted order, scaled like a number.
    numeric : "standard", mean 0 and standard deviation 1 over the training rows; "minmax", from 0 to 1;
        "raw", as they are.
    random_state : seed of the embeddings. Each column's depends on its name, not on its position.
    dtype : "float32", as networks have it, or "float64".
    """

    def __init__(
        self, categorical: str = "onehot", numeric: str = "standard", random_state: int = 0, dtype: str = "float32"
    ) -> None:
        self.categorical = categorical
        self.numeric = numeric
        self.random_state = random_state
        self.dtype = dtype

    def fit(self, X: Any, y: Any = None) -> TableEncoder:
        """Learn scales and categories from the training rows."""
        if self.categorical not in CATEGORICAL:
            raise SettingError(f"categorical='{self.categorical}' is not one of {', '.join(CATEGORICAL)}.")
        if self.numeric not in NUMERIC:
            raise SettingError(f"numeric='{self.numeric}' is not one of {', '.join(NUMERIC)}.")
        if self.dtype not in DTYPES:
            raise SettingError(f"dtype='{self.dtype}' is not one of {', '.join(DTYPES)}.")
        frame = _as_frame(X)
        if frame.shape[0] == 0 or frame.shape[1] == 0:
            raise TableError(f"The table has {frame.shape[0]} rows and {frame.shape[1]} columns: nothing to fit.")
        self.blocks_: dict[Hashable, _Block] = {}
        at = 0
        for column in frame.columns:
            block = self._fit_column(frame[column], at)
            self.blocks_[column] = block
            at = block.columns.stop
        self.feature_names_in_ = np.array([str(c) for c in frame.columns], dtype=object)
        self.n_features_in_ = frame.shape[1]
        self.n_features_out_ = at
        return self

    def transform(self, X: Any) -> NDArray[Any]:
        """Encoded rows, `[rows × n_features_out_]`."""
        check_is_fitted(self)
        frame = self._aligned(_as_frame(X))
        out = np.empty((len(frame), self.n_features_out_), self.dtype)
        for column, block in self.blocks_.items():
            out[:, block.columns] = _encode(frame[column], block)
        return out

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The encoded columns' names: the raw name, with `=value` or `[k]` where one became several."""
        check_is_fitted(self)
        return np.array([name for block in self.blocks_.values() for name in block.names], dtype=object)

    def by_column(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """Numbers per encoded column `[rows × n_features_out_]`, summed over those that a raw column became."""
        check_is_fitted(self)
        return np.stack([encoded[:, block.columns].sum(axis=1) for block in self.blocks_.values()], axis=1)

    def _fit_column(self, values: pd.Series, at: int) -> _Block:
        name = str(values.name)
        _refuse_missing(values)
        if _is_numeric(values):
            shift, scale = self._scaling(_numbers(values))
            return _Block(slice(at, at + 1), (name,), shift, scale)
        if pd.api.types.is_datetime64_any_dtype(values.dtype):
            raise TableError(f"Column '{name}' holds dates; turn them into numbers or drop the column.")
        categories = _categories(values)
        table = self._table(name, len(categories))
        width = table.shape[1]
        if self.categorical == "onehot":
            names = tuple(f"{name}={category}" for category in categories)
        else:
            names = (name,) if width == 1 else tuple(f"{name}[{k}]" for k in range(width))
        if self.categorical == "ordinal":
            codes = pd.Series(values.astype(object)).map({c: k for k, c in enumerate(categories)})
            shift, scale = self._scaling(codes.to_numpy(dtype=np.float64))
            table = (table - shift) / scale
        return _Block(slice(at, at + width), names, codes={c: k for k, c in enumerate(categories)}, table=table)

    def _scaling(self, numbers: NDArray[np.float64]) -> tuple[float, float]:
        if self.numeric == "raw":
            return 0.0, 1.0
        if self.numeric == "standard":
            shift, scale = numbers.mean(), numbers.std()
        else:
            shift, scale = numbers.min(), np.ptp(numbers)
        # A constant column carries nothing: it becomes 0 everywhere it is unchanged. Its computed
        # deviation may be a rounding residue instead of an exact 0.
        constant = numbers.min() == numbers.max()
        return (float(numbers[0]), 1.0) if constant else (float(shift), float(scale))

    def _table(self, name: str, count: int) -> NDArray[np.float64]:
        if self.categorical == "onehot":
            return np.eye(count)
        if self.categorical == "ordinal":
            return np.arange(count, dtype=np.float64)[:, None]
        rng = np.random.default_rng([self.random_state, zlib.crc32(name.encode())])
        return rng.standard_normal((count, (count + 1) // 2))

    def _aligned(self, frame: pd.DataFrame) -> pd.DataFrame:
        missing = [c for c in self.blocks_ if c not in frame.columns]
        if missing:
            raise TableError(f"Column {listed(missing)} is missing from the table; it was there in training.")
        extra = [c for c in frame.columns if c not in self.blocks_]
        if extra:
            raise TableError(f"Column {listed(extra)} was not there in training; drop it.")
        return frame[list(self.blocks_)]


def _as_frame(X: Any) -> pd.DataFrame:
    if isinstance(X, pd.DataFrame):
        frame = X
    else:
        array = np.asarray(X)
        if array.ndim != 2:
            raise TableError(f"Expected a table of rows and columns; got an array of {array.ndim} dimension(s).")
        frame = pd.DataFrame(array, columns=[f"x{k}" for k in range(array.shape[1])]).infer_objects()
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise TableError(f"Column {listed(twice.unique())} occurs more than once; rename or drop one.")
    return frame


def _is_numeric(values: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(values.dtype) and not pd.api.types.is_bool_dtype(values.dtype)


def _refuse_missing(values: pd.Series) -> None:
    missing = values.isna().to_numpy()
    if missing.any():
        _refuse(values, missing, "is missing a value", "fill it in or drop the row")


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    numbers = pd.to_numeric(values.astype(object), errors="coerce").to_numpy(dtype=np.float64)
    if np.isnan(numbers).any():
        _refuse(values, np.isnan(numbers), "holds {value!r}, which is not a number", "correct it or drop the row")
    if np.isinf(numbers).any():
        _refuse(values, np.isinf(numbers), "holds an infinite value", "replace it or drop the row")
    return numbers


def _categories(values: pd.Series) -> list[Any]:
    """The column's vocabulary in sorted order; a pandas category's is what its dtype declares."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        found = list(values.cat.categories)
    else:
        found = list(pd.unique(values.astype(object)))
    return sorted(found, key=lambda value: (type(value).__name__, value))


def _encode(values: pd.Series, block: _Block) -> NDArray[np.float64]:
    """Numbers `[rows × width]` for one raw column."""
    _refuse_missing(values)
    if block.codes is None or block.table is None:
        return ((_numbers(values) - block.shift) / block.scale)[:, None]
    codes = values.astype(object).map(block.codes).to_numpy(dtype=np.float64)
    if np.isnan(codes).any():
        known = listed(block.codes)
        _refuse(
            values, np.isnan(codes), "holds {value!r}, which no training row has",
            f"known are {known}; group rare values, drop the row or drop the column",
        )  # fmt: skip
    return block.table[codes.astype(np.int64)]


def _refuse(values: pd.Series, bad: NDArray[np.bool_], what: str, remedy: str) -> None:
    at = int(np.flatnonzero(bad)[0])
    more = int(bad.sum()) - 1
    also = f" (and {more} more row{'s' * (more > 1)})" if more else ""
    problem = what.format(value=values.iloc[at])
    raise TableError(f"Column '{values.name}', row {values.index[at]}{also} {problem}: {remedy}.")
