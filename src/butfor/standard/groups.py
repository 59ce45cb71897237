"""What a comparison of standards found: per group, and per label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, listed

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
SPREAD = 3
"""How much denser the more doubted labels are flipped: in proportion to doubt to this power."""
BINS = np.linspace(0, 1, 21)
"""Of the doubts that are counted for charts."""
ASSUMPTION = (
    "This assumes that people of different groups with the same recorded columns should have got the same label; a "
    "legitimate reason that is no column, or a column that itself carries the bias, misleads it."
)


@dataclass(frozen=True)
class GroupStandard:
    """One group beside the others' standard; shares are of the favourable label."""

    attribute: str
    group: str
    rows: int
    recorded: float
    expected: float
    shuffled: tuple[float, ...] = field(repr=False)
    """The differences with the attribute shuffled."""
    doubts: tuple[int, ...] = field(repr=False)
    """How many of its adverse labels have a doubt in each of `BINS`."""
    shuffled_doubts: tuple[float, ...] = field(repr=False)
    """The same in the mean over shuffles."""

    @property
    def difference(self) -> float:
        """By the others' standard less recorded: above 0, the group falls short."""
        return self.expected - self.recorded

    @property
    def p(self) -> float | None:
        """How often a shuffled attribute makes a difference as large, in either direction."""
        if not self.shuffled:
            return None
        as_large = sum(abs(other) >= abs(self.difference) for other in self.shuffled)
        return (1 + as_large) / (1 + len(self.shuffled))

    @property
    def differs(self) -> bool:
        return self.p is not None and self.p < 0.05

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the difference, 95 %, from its spread over shuffles."""
        if len(self.shuffled) < 2:
            return None
        margin = 1.96 * float(np.std(self.shuffled, ddof=1))
        return self.difference - margin, self.difference + margin

    @property
    def by_chance(self) -> tuple[float, float] | None:
        """The middle 95 % of the shuffled differences."""
        if not self.shuffled:
            return None
        low, high = np.quantile(self.shuffled, [0.025, 0.975])
        return float(low), float(high)

    @property
    def missing(self) -> int:
        """M: by how many favourable labels the group falls short of the standard."""
        return max(0, round(self.rows * self.difference))

    @property
    def name(self) -> str:
        return f"{self.attribute} = {self.group}"

    def sentence(self, favourable: str) -> str:
        """ "afam = yes: 71.7 % 'no'; by the standard of the others 80.1 % (+8.4 points, …): 28 labels short." """
        details = [f"{100 * self.difference:+.1f} points".replace("-", "−")]
        if self.interval and self.by_chance:
            details[0] += f", {_points(*self.interval)}"
            details.append(f"with the attribute shuffled {_points(*self.by_chance)}, p = {self.p:.2f}")
        short = "1 label short" if self.missing == 1 else f"{self.missing} labels short"
        return (
            f"{self.name}: {100 * self.recorded:.1f} % '{favourable}'; by the standard of the others "
            f"{100 * self.expected:.1f} % ({'; '.join(details)})" + (f": {short}." if self.missing else ".")
        )


def _points(low: float, high: float) -> str:
    return f"{100 * low:.0f} to {100 * high:.0f}".replace("-", "−")


@dataclass(frozen=True, eq=False)
class Standards:
    """The others' standard applied to every group of a table.

    `doubt [rows]` is the probability of the label that a row does not have, by the standard of the other groups; no
    number where the row's group was left out."""

    attribute: str
    adverse: str
    favourable: str
    model: str
    comparisons: tuple[GroupStandard, ...]
    left_out: tuple[str, ...]
    groups: NDArray[np.object_]
    is_favourable: Mask
    doubt: Floats
    index: pd.Index
    shuffles: int
    interrupted: bool = False

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """One row per group: rows, recorded and expected share, difference, its interval, p, missing labels."""
        columns = ["attribute", "group", "rows", "recorded", "expected", "difference", "p", "missing"]
        frame = pd.DataFrame([[getattr(c, name) for name in columns] for c in self.comparisons], columns=columns)
        for place, end in enumerate(("low", "high")):
            frame.insert(6 + place, end, [c.interval[place] if c.interval else None for c in self.comparisons])
        return frame.set_index(["attribute", "group"])

    def of_group(self, group: Any) -> GroupStandard | None:
        """The comparison of one group of rows; None where it was left out."""
        found = [c for c in self.comparisons if c.attribute == self.attribute and c.group == str(group)]
        return found[0] if found else None

    def missing_labels(self, group: Any) -> NDArray[np.int64]:
        """The positions of the M adverse labels of the group that one standard flips: spread over all of them, the more
        doubted the denser (`SPREAD`). The M most doubted alone would leave those near the boundary as they are, and
        with them many of the people whom they hurt."""
        comparison = self.of_group(group)
        if comparison is None:
            raise SettingError(f"There is no comparison of '{group}'; {listed(c.name for c in self.comparisons)} are.")
        adverse = np.flatnonzero((self.groups.astype(str) == str(group)) & ~self.is_favourable)
        order = adverse[np.argsort(-self.doubt[adverse], kind="stable")]
        return order[_spread(self.doubt[order] ** SPREAD, comparison.missing)]

    def to_frame(self) -> pd.DataFrame:
        """One row per label: the label, the group, its doubt, and its rank: by doubt, groups that fall short first."""
        names = np.where(self.is_favourable, self.favourable, self.adverse)
        frame = pd.DataFrame({"label": names, "group": self.groups, "doubt": self.doubt}, index=self.index)
        short = [c.group for c in self.comparisons if c.attribute == self.attribute and c.missing]
        first = frame["doubt"] + frame["group"].astype(str).isin(short)
        frame["rank"] = first.rank(ascending=False, method="first").astype("Int64")
        return frame

    def sentences(self) -> list[str]:
        """One per group, and one on each group that was left out."""
        return [c.sentence(self.favourable) for c in self.comparisons] + list(self.left_out)

    @property
    def answer(self) -> str:
        return answer_of(self.comparisons)

    def __str__(self) -> str:
        return "\n".join([*self.sentences(), ASSUMPTION])

    def to_dict(self) -> dict[str, Any]:
        """For a record; doubts per row are in `to_frame`."""
        names = ("attribute", "adverse", "favourable", "model", "shuffles")
        groups = [
            {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(c).items()} for c in self.comparisons
        ]
        return {name: getattr(self, name) for name in names} | {"left_out": list(self.left_out), "groups": groups}


def _spread(weight: Floats, count: int) -> Mask:
    """`count` of the rows, evenly along their order, each as likely as its weight says but never more than once."""
    if count >= len(weight):
        return np.ones(len(weight), bool)
    share, left = np.zeros(len(weight)), count
    open_ = np.ones(len(weight), bool)
    while left > 0:
        share[open_] = weight[open_] * left / weight[open_].sum()
        sure = open_ & (share >= 1)
        if not sure.any():
            break
        share[sure], open_ = 1, open_ & ~sure
        left = count - int((~open_).sum())
    share[open_ & (left <= 0)] = 0
    reached = np.floor(np.cumsum(share) + 0.5)
    return np.diff(reached, prepend=0) > 0


def answer_of(comparisons: Sequence[GroupStandard]) -> str:
    """In one sentence: who is held to another standard."""
    short = [(c.name, f"{100 * c.difference:.1f} points") for c in comparisons if c.differs and c.missing]
    if len(short) == 1:
        return f"Labels of {short[0][0]} fall {short[0][1]} short of the other groups' standard."
    if short:
        return f"Labels fall short of the other groups' standard: {', '.join(f'{n} by {by}' for n, by in short)}."
    if not any(c.shuffled for c in comparisons):
        return "Without shuffles nothing says which differences are more than chance."
    return "No group's labels fall short of the other groups' standard by more than chance."
