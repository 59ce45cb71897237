"""A situation is what rules, rankings and verdicts look at: the model, the table, the people and their groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.sensitive import Sensitive, group_names, group_values
from butfor.decide import Decision, decides_one
from butfor.errors import SettingError, nearest
from butfor.models.ensemble import audited
from butfor.models.learner import Floats, Model, Table

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Situation:
    """`people` are audited; `groups [people]` is their protected attribute."""

    model: Model
    table: Table
    people: pd.DataFrame
    sensitive: Sensitive
    groups: NDArray[np.object_]
    label_names: tuple[str, ...]
    training_decisions: NDArray[np.int64] = field(repr=False)
    """The class decided about each training row, by number."""
    doubts: Callable[[], NDArray[np.float64]] | None = field(default=None, repr=False)
    """Computes the doubt about each training label, for rules that need it."""

    def of(self, people: NDArray[np.int64]) -> Situation:
        """The same for some of the people."""
        some = replace(self, people=self.people.iloc[people], groups=self.groups[people])
        for name in ("logits", "decisions"):  # what is known of them need not be asked again
            some.__dict__[name] = getattr(self, name)[people]
        return some

    def with_decision(self, decision: Decision) -> Situation:
        """The same, asked about other sides of the decisions."""
        table = self.table.with_decision(decision)
        other = replace(self, model=audited(self.model, table), table=table)
        other.__dict__["decisions"] = self.decisions
        return other

    @cached_property
    def logits(self) -> Floats:
        """f of each person."""
        return self.model.logits(self.people)

    @cached_property
    def predictions(self) -> NDArray[np.int64]:
        """1 if the logit is above 0: class 1 or, with more than two, one of the decisions to reach."""
        return decides_one(self.logits).astype(np.int64)

    @cached_property
    def decisions(self) -> NDArray[np.int64]:
        """The class decided about each person, by number."""
        return self.predictions if not self.table.multiclass else self.decided(self.people)

    def decided(self, people: pd.DataFrame) -> NDArray[np.int64]:
        """The class decided about other people, by number."""
        return self.table.decided(self.model, people)

    def column(self, name: Hashable) -> Hashable:
        """A column named by a rule; an error if the table does not have it."""
        if name not in self.table.X.columns:
            known = nearest(name, self.table.X.columns, "The table has")
            raise SettingError(f"A rule names column '{name}', which the table does not have. {known}")
        return name

    def switched(self, column: Hashable | None = None) -> Iterator[pd.DataFrame]:
        """The people with the protected attribute (or `column`) switched to each of its values in turn, or to the
        median of each other band; nothing if the model does not see it."""
        columns = self.sensitive.columns if column is None else (self.column(column),)
        if not columns:
            return
        bands = {name: cut for name, cut in self.sensitive.bands.items() if name in columns}
        typical = {name: cut.typical(self.table.X[name]) for name, cut in bands.items()}
        values = pd.DataFrame({name: typical.get(name, self.table.X[name]) for name in columns}).drop_duplicates()
        group_values(group_names(values), " × ".join(map(str, columns)))
        for combination in values.itertuples(index=False, name=None):
            people = self.people.copy()
            for name, value in zip(columns, combination, strict=True):
                switched = pd.Series([value] * len(people), index=people.index, dtype=self.table.X[name].dtype)
                if name in bands:
                    own = bands[name].of(people[name])
                    switched = switched.where(own != bands[name].of(switched), people[name])
                people[name] = switched
            yield people


def changed_by_switch(situation: Situation) -> Mask | None:
    """Whose decision changes when the protected attribute alone is switched to any other value; None if the model does
    not see it."""
    if situation.sensitive.blind:
        return None
    changed = np.zeros(len(situation.people), bool)
    for people in situation.switched():
        changed |= situation.decided(people) != situation.decisions
    return changed
