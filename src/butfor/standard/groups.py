"""What a comparison of standards found: per group, per column, and per label."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, listed
from butfor.standard.explain import ColumnMove
from butfor.standard.group import BINS as BINS
from butfor.standard.group import GroupStandard as GroupStandard
from butfor.standard.group import Overlap as Overlap
from butfor.standard.group import SecondOpinion as SecondOpinion
from butfor.standard.group import answer_of as answer_of
from butfor.standard.group import if_real as if_real
from butfor.standard.group import where as where
from butfor.standard.inputs import LARGE, SAMPLE, Floats, Mask
from butfor.standard.sentences import ASSUMPTION as ASSUMPTION
from butfor.standard.sentences import ON_COLUMNS as ON_COLUMNS
from butfor.standard.sentences import interval_in_words as interval_in_words
from butfor.standard.sentences import number as number
from butfor.standard.sentences import points as points
from butfor.standard.sentences import share as share
from butfor.standard.slices import MOST_VALUES, Slice, kept
from butfor.standard.wrong import with_sum


@dataclass(frozen=True, eq=False, repr=False)
class Standards:
    """Every group of a table beside comparable people of the others.

    `doubt [rows]` is the probability of the label that a row does not have, by the standard of the other groups; no
    number where the row's group was not compared. `suspect [rows]`: how likely an adverse label is to be wrong, before
    the group's shortfall says how many are."""

    attribute: str
    adverse: str
    favourable: str
    model: str
    comparisons: tuple[GroupStandard, ...]
    left_out: tuple[str, ...]
    groups: NDArray[np.object_]
    is_favourable: Mask
    doubt: Floats
    suspect: Floats
    index: pd.Index
    draws: int
    moves: tuple[ColumnMove, ...] = ()
    parts: tuple[Slice, ...] = ()
    """Slices of the groups, those first where a group most likely falls short."""
    not_sliced: tuple[str, ...] = ()
    """Columns with too many values for slices."""
    clusters: int | None = None
    proxies: tuple[str, ...] = ()
    """A sentence on columns that determine a group."""
    interrupted: bool = False
    cluster: NDArray[np.int64] | None = None
    """Each row's cluster, as a number from 0."""
    correlation: float = 0.0
    """Of the labels' latent scores within a cluster."""
    validation: Standards | None = None
    """The same with the doubts of the rows that steer a network's early stopping, where they were compared too."""

    @cached_property
    def by_group(self) -> pd.DataFrame:
        """One row per group: rows, recorded and expected share, difference, its interval, p-values, missing labels,
        raw gap and what explains it, robustness value."""
        names = [
            *("attribute", "group", "rows", "recorded", "expected", "difference", "p", "p_adjusted", "missing"),
            *("raw_gap", "explained", "robustness_value", "strongest_column", "times_strongest"),
        ]
        frame = pd.DataFrame([[getattr(c, name) for name in names] for c in self.comparisons], columns=names)
        for place, end in enumerate(("low", "high")):
            frame.insert(6 + place, end, [c.interval[place] if c.interval else np.nan for c in self.comparisons])
        return frame.set_index(["attribute", "group"])

    @cached_property
    def columns(self) -> pd.DataFrame:
        """Per group and column, or block of correlated columns: how the difference moves when it is left out, and the
        standard error of that move; the largest first."""
        names = ["attribute", "group", "column", "move", "error"]
        frame = pd.DataFrame([[getattr(m, name) for name in names] for m in self.moves], columns=names)
        order = frame["move"].abs().sort_values(ascending=False, kind="stable").index
        return (
            frame.loc[order]
            .set_index(["attribute", "group", "column"])
            .sort_index(level=[0, 1], sort_remaining=False, kind="stable")
        )

    @cached_property
    def slices(self) -> pd.DataFrame:
        """Per group and value of a column, or quarter of a number: rows, recorded and expected share, difference with
        its interval, difference elsewhere, excess over what the group's own shortfall makes there, its z, whether it
        is called, and the share of the missing labels that is there. First where a group most likely falls short."""
        names = [each.name for each in fields(Slice)]
        return pd.DataFrame([[getattr(s, name) for name in names] for s in self.parts], columns=names)

    def of_group(self, group: Any) -> GroupStandard | None:
        """The comparison of one group of rows; None where it was left out."""
        found = [c for c in self.comparisons if c.attribute == self.attribute and c.group == str(group)]
        return found[0] if found else None

    def of_rows(self, rows: NDArray[np.int64]) -> Standards:
        """The same comparison with the doubts of these rows alone; what is scaled to rows goes by them from now on."""
        names = ("groups", "is_favourable", "doubt", "suspect", "index")
        cluster = None if self.cluster is None else self.cluster[rows]
        return replace(self, cluster=cluster, **{name: getattr(self, name)[rows] for name in names})

    @cached_property
    def wrong(self) -> Floats:
        """How likely each label is wrong `[rows]`: above 0 only for adverse labels of groups that fall short; no number
        where the row's group was not compared. See `WRONG`. Folds go by position, so that another order of the rows
        moves these probabilities slightly."""
        found = np.where(np.isnan(self.doubt), np.nan, 0.0)
        for c in self.comparisons:
            if c.attribute == self.attribute:
                found = np.where(self.groups.astype(str) == c.group, self.wrong_at(c.group, c.difference), found)
        return found

    def wrong_at(self, group: Any, difference: float) -> Floats:
        """How likely each label would be wrong `[rows]` were the group's difference this large: 0 for the labels of
        other groups. The sum is `difference` times the group's rows, as far as its adverse labels allow."""
        comparison = self.of_group(group)
        if comparison is None:
            raise SettingError(f"'{group}' was not compared; {listed(c.name for c in self.comparisons)} were.")
        inside = self.groups.astype(str) == comparison.group
        found = np.zeros(len(inside))
        adverse = inside & ~self.is_favourable
        found[adverse] = with_sum(self.suspect[adverse], difference * int(inside.sum()))
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row per label: the label, the group, its doubt, how likely it is wrong, and its rank: the most likely
        wrong first, then by doubt."""
        names = np.where(self.is_favourable, self.favourable, self.adverse)
        columns = {"label": names, "group": self.groups, "doubt": self.doubt, "wrong": self.wrong}
        frame = pd.DataFrame(columns, index=self.index)
        rank = pd.array([pd.NA] * len(frame), dtype="Int64")
        order = np.lexsort((-self.doubt, -self.wrong))
        order = order[~np.isnan(self.doubt[order])]
        rank[order] = range(1, len(order) + 1)
        return frame.assign(rank=rank)

    def notes(self) -> list[str]:
        """What to know when reading it."""
        said = [*self.proxies, ASSUMPTION]
        if self.clusters is None:
            said.append(
                "Every row counts as a decision of its own. If several are about one person or household, name the "
                "column that joins them (--cluster; in Python cluster=)."
            )
        else:
            said.append(f"The rows form {self.clusters} clusters, whose labels may go together.")
        if len(self.doubt) > LARGE:
            said.append(f"With more than {LARGE} rows, the boosting learns from a random sample of {SAMPLE}.")
        if self.not_sliced:
            said.append(f"No slices by {listed(self.not_sliced)}: more than {MOST_VALUES} different values.")
        values = [c for c in self.comparisons if c.attribute == self.attribute]
        if len(values) > 2 and any(c.differs and c.reference is None for c in values):
            said.append(
                "Each group is compared with all others together, and some of those differ too. To compare with one "
                "group alone, name it as the reference."
            )
        if any(c.p is not None and c.p < 1 / (1 + self.draws) for c in self.comparisons):
            said.append(f"p-values below {1 / (1 + self.draws):.2g} in a record come from the normal approximation.")
        return said

    @property
    def answer(self) -> str:
        return answer_of(self.comparisons, self.favourable)

    def __str__(self) -> str:
        lines = []
        for c in self.comparisons:
            lines += [c.sentence(self.favourable), *(f"  {line}" for line in [*c.details(), *where(self.parts, c)])]
        return "\n".join([*lines, *self.left_out, *self.notes()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(sentence)}</p>" for sentence in [self.answer, *self.left_out])
        notes = "".join(f"<p><small>{escape(note)}</small></p>" for note in self.notes())
        return said + self.by_group.to_html(float_format="{:.3f}".format, na_rep="–") + notes

    def to_dict(self) -> dict[str, Any]:
        """For a record; doubts per row are in `to_frame`."""
        names = ("attribute", "adverse", "favourable", "model", "draws", "clusters")
        return {name: getattr(self, name) for name in names} | {
            "left_out": list(self.left_out),
            "groups": [asdict(c) for c in self.comparisons],
            "columns": [asdict(m) for m in self.moves],
            "slices": [asdict(s) for s in kept(self.parts)],
            "notes": self.notes(),
        }
