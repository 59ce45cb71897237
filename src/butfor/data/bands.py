"""A protected attribute that is a number, such as age, as a few named bands.

Bands reach from one cut point up to, not including, the next: 25 and 60 make "under 25", "25 to under 60" and "60 and
over". Where nobody gives cut points they are the thirds of the training rows, rounded: groups of about one size, whose
shares say most. What the law or a policy calls a band only the auditor knows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.encode import is_numeric
from butfor.errors import SettingError, listed

AS_THEY_ARE = 10
"""A number with at most so many different values is a group for each of them."""

Cuts = Sequence[float] | Mapping[Any, Sequence[float]]
"""Cut points of the one numeric attribute, or of several by their names."""


@dataclass(frozen=True)
class Bands:
    """Cut points of a number, smallest first, and the names of what lies between them."""

    cuts: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        shown = [f"{cut:.12g}" for cut in self.cuts]
        between = [f"{low} to under {high}" for low, high in pairwise(shown)]
        return (f"under {shown[0]}", *between, f"{shown[-1]} and over")

    def of(self, values: pd.Series) -> pd.Series:
        """Each value's band; missing where the value is."""
        names = np.array(self.names, dtype=object)[np.searchsorted(self.cuts, _numbers(values), side="right")]
        return pd.Series(names, values.index, dtype=object, name=values.name).where(values.notna())

    def typical(self, values: pd.Series) -> pd.Series:
        """For each value the median of those in its band, one of them."""
        own = self.of(values).fillna("")
        medians = {band: values[own == band].quantile(interpolation="lower") for band in own.unique() if band}
        return values.where(values.isna(), own.map(medians).astype(np.float64)).astype(values.dtype)

    def sentence(self, name: Hashable, values: pd.Series) -> str:
        counts = self.of(values).value_counts()
        parts = ", ".join(f"'{band}' ({int(counts.get(band, 0))} training rows)" for band in self.names)
        return (
            f"'{name}' is a number and is cut into bands: {parts}. A switch of it goes to the median of another band."
        )


def bands_of(frame: pd.DataFrame, given: Cuts | None, automatic: bool = True) -> dict[Hashable, Bands]:
    """The protected columns that are cut: as given, else in thirds where there are many different numbers."""
    cuts = _by_name(frame, given)
    found: dict[Hashable, Bands] = {}
    for name in frame.columns:
        if str(name) in cuts:
            found[name] = _checked(cuts[str(name)], frame[name])
        elif automatic and is_numeric(frame[name]) and frame[name].nunique() > AS_THEY_ARE:
            found[name] = _thirds(frame[name])
    return found


def banded(frame: pd.DataFrame, bands: Mapping[Hashable, Bands]) -> pd.DataFrame:
    """The frame with the names of bands where columns are cut."""
    return pd.DataFrame({name: bands[name].of(frame[name]) if name in bands else frame[name] for name in frame})


def in_order(groups: Iterable[Any], cuts: Mapping[str, Sequence[float]]) -> list[Any]:
    """The different groups, bands from low to high, others by name."""
    bands = [name for one in cuts.values() for name in Bands(tuple(one)).names]
    places = {name: place for place, name in enumerate(bands)}
    return sorted(set(groups), key=lambda group: (places.get(group, len(places)), type(group).__name__, group))


def _by_name(frame: pd.DataFrame, given: Cuts | None) -> dict[str, Sequence[float]]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        unknown = [name for name in given if str(name) not in map(str, frame.columns)]
        if unknown:
            raise SettingError(
                f"Bands are given for {listed(unknown)}, which is not a protected attribute; those are "
                f"{listed(frame.columns)}."
            )
        return {str(name): cuts for name, cuts in given.items()}
    numeric = [str(name) for name in frame.columns if is_numeric(frame[name])]
    if len(numeric) != 1:
        raise SettingError(
            f"Bands cut a protected attribute that is a number; of {listed(frame.columns)} {len(numeric)} hold numbers."
            " Leave them out, or name the column: --bands age=25,60, or sensitive_bands={'age': [25, 60]}."
        )
    return {numeric[0]: given}


def _checked(cuts: Sequence[float], values: pd.Series) -> Bands:
    if not is_numeric(values):
        raise SettingError(f"Bands are given for '{values.name}', which does not hold numbers; leave them out.")
    numbers = [float(cut) for cut in cuts]
    if not numbers or not np.isfinite(numbers).all() or any(np.diff(numbers) <= 0):
        raise SettingError(f"Bands of '{values.name}': give cut points from small to large, such as 25,60.")
    bands = Bands(tuple(numbers))
    empty = [band for band in bands.names if not (bands.of(values) == band).any()]
    if empty:
        raise SettingError(
            f"Bands of '{values.name}': no training row is in {listed(empty)}; its values go from "
            f"{values.min():.12g} to {values.max():.12g}."
        )
    return bands


def _thirds(values: pd.Series) -> Bands:
    """Cut points near the thirds, as round as they can be."""
    numbers = np.sort(_numbers(values.dropna()))
    least = numbers[0]
    cuts = []
    for third in (1 / 3, 2 / 3):
        exact = float(np.quantile(numbers, third, method="higher"))
        rounded = float(f"{exact:.2g}")
        cuts.append(rounded if least < rounded <= numbers[-1] else exact)
    above = sorted({cut for cut in cuts if cut > least})
    return Bands(tuple(above) or (float(numbers[numbers > least][0]),))


def _numbers(values: pd.Series) -> NDArray[np.float64]:
    return pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
