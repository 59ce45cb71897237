"""The comparison: a group's recorded labels beside those that the other groups' standard would have given.

For each group a model learns from the rows of all other groups, without the protected columns, and gives every row of
the group a probability of the favourable label. Their mean less the recorded share is the group's difference. The same
is computed with the protected attribute shuffled among the rows, to see what differences chance makes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray

from butfor.data.bands import Cuts
from butfor.data.sensitive import Sensitive
from butfor.errors import SettingError, TableError, listed
from butfor.machine import available_cores, single_threaded
from butfor.progress import Watcher
from butfor.standard.groups import BINS, Floats, GroupStandard, Mask, Standards
from butfor.standard.models import Standard, as_standard
from butfor.validate import as_labels, as_table, as_weights

LEAST_ROWS = 30
"""A smaller group, or fewer others, say too little."""


def compare_standards(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    adverse: Any,
    sensitive_bands: Cuts | None = None,
    standard: Any = None,
    shuffles: int = 99,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    watch: Watcher | None = None,
) -> Standards:
    """Are the labels of each group what the other groups' standard would have given?

    `adverse` is the label that people would rather not have, or several of them. `sensitive_features` names the
    protected column of X, or several, or holds a value per row; with several, every attribute is compared and their
    combinations too. `standard` is a scikit-learn classifier with `predict_proba`; None: the mean of a logistic
    regression and a histogram boosting.
    """
    X = as_table(X)
    y = as_labels(X, y)
    named = dict(enumerate(y.attrs.get("label_names", ())))
    adverse = list(adverse) if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]
    if {str(each) for each in adverse} <= set(map(str, named.values())) and set(y.unique()) <= set(named):
        y = y.map(named)
    if not isinstance(shuffles, (int, np.integer)) or shuffles < 0:
        raise SettingError(f"shuffles={shuffles!r} must be a whole number from 0 up.")
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    attributes = attributes_of(sensitive, X)
    if sensitive.blind and isinstance(sensitive_features, pd.DataFrame) and sensitive_features.shape[1] > 1:
        alone = [Sensitive.of(sensitive_features[name], X, sensitive_bands) for name in sensitive_features]
        attributes = [*alone, sensitive]
    return compare(
        X,
        np.array([str(value) not in map(str, adverse) for value in y], bool),
        attributes,
        names=label_names(y, adverse),
        standard=standard,
        shuffles=shuffles,
        weight=as_weights(X, sample_weight),
        n_jobs=n_jobs,
        random_state=random_state,
        watch=watch,
    )


def label_names(y: pd.Series, adverse: Sequence[Any]) -> tuple[str, str]:
    """The adverse and the favourable labels in words; refused where one is no label, or nothing is left."""
    found = sorted(map(str, pd.unique(y)))
    strange = [each for each in adverse if str(each) not in found]
    if strange:
        raise SettingError(f"adverse='{strange[0]}' is not a label; the labels are {listed(found)}.")
    others = [name for name in found if name not in map(str, adverse)]
    if not others:
        raise TableError(
            f"A comparison of standards needs another label than the adverse; these rows have {listed(found)}."
        )
    return " or ".join(name for name in found if name not in others), " or ".join(others)


def attributes_of(sensitive: Sensitive, X: pd.DataFrame) -> list[Sensitive]:
    """The attribute whose groups rows belong to, last; before it, where it joins several columns, each of them."""
    if len(sensitive.columns) < 2:
        return [sensitive]
    cuts = {str(name): bands.cuts for name, bands in sensitive.bands.items()}
    alone = [Sensitive.of(c, X, {str(c): cuts[str(c)]} if str(c) in cuts else None) for c in sensitive.columns]
    return [*alone, sensitive]


@dataclass(frozen=True, eq=False)
class _Group:
    attribute: str
    value: str
    rows: Mask


@dataclass(eq=False)
class _Run:
    """All groups compared once: shares of the favourable label, how often each doubt of an adverse label occurs and,
    with the attribute as it is, the doubt of every row of a group."""

    recorded: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    counts: list[list[int]] = field(default_factory=list)
    doubt: list[Floats] = field(default_factory=list)


def compare(
    X: pd.DataFrame,
    favourable: Mask,
    attributes: Sequence[Sensitive],
    *,
    names: tuple[str, str],
    standard: Any = None,
    shuffles: int = 99,
    weight: Floats | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    seconds: float | None = None,
    watch: Watcher | None = None,
) -> Standards:
    """As `compare_standards`, of a table that was looked at before; rows belong to the groups of the last attribute.
    With `seconds` it ends after so long, with the shuffles that are done."""
    watch = watch or Watcher()
    whole = attributes[-1]
    protected = [column for attribute in attributes for column in attribute.columns]
    inputs = X.drop(columns=list(dict.fromkeys(protected)))
    if not inputs.shape[1]:
        raise TableError("There is no column but the protected ones: no standard can be learned.")
    groups, left_out = _groups(attributes, favourable)
    if not groups:
        raise TableError(f"No group can be compared with the others. {' '.join(left_out)}")
    asked = as_standard(standard, inputs)
    with watch:
        watch.phase("the others' standard", 1 + shuffles, "tables")
        task = _Task(asked, groups, favourable, weight)
        runs, interrupted = _run(task, shuffles, n_jobs, random_state, seconds, watch)
    first, rest = runs[0], runs[1:]
    doubt = np.full(len(X), np.nan)
    for group, found in zip(groups, first.doubt, strict=True):
        if group.attribute == whole.name:
            doubt[group.rows] = found
    comparisons = tuple(
        GroupStandard(
            group.attribute,
            group.value,
            int(group.rows.sum()),
            first.recorded[k],
            first.expected[k],
            tuple(run.expected[k] - run.recorded[k] for run in rest),
            tuple(first.counts[k]),
            tuple(map(float, np.mean([run.counts[k] for run in rest], axis=0))) if rest else (),
        )
        for k, group in enumerate(groups)
    )
    return Standards(
        attribute=whole.name,
        adverse=names[0],
        favourable=names[1],
        model=asked.name,
        comparisons=comparisons,
        left_out=tuple(left_out),
        groups=whole.values,
        is_favourable=favourable,
        doubt=doubt,
        index=X.index,
        shuffles=len(rest),
        interrupted=interrupted,
    )


def _groups(attributes: Sequence[Sensitive], favourable: Mask) -> tuple[list[_Group], list[str]]:
    """The groups that can be compared, and a sentence on each that cannot."""
    groups: list[_Group] = []
    left_out = []
    for attribute in attributes:
        values = attribute.values.astype(str)
        found = sorted(set(values))
        if len(found) == 1:
            raise SettingError(f"'{attribute.name}' has one value only, '{found[0]}': there is nobody to compare with.")
        if all(len(set(favourable[values == value])) == 1 for value in found):
            raise TableError(f"'{attribute.name}' tells every label: it is the label, or made from it. Name another.")
        for value in map(str, found):
            rows = values == value
            reason = _too_little(rows, favourable)
            if reason:
                left_out.append(f"{attribute.name} = {value} is left out: {reason}.")
            else:  # a combination that is all of a group says what the group would
                groups = [group for group in groups if not np.array_equal(group.rows, rows)]
                groups.append(_Group(attribute.name, value, rows))
    return groups, left_out


def _too_little(rows: Mask, favourable: Mask) -> str:
    if rows.sum() < LEAST_ROWS:
        return f"{rows.sum()} rows, and {LEAST_ROWS} are needed"
    if (~rows).sum() < LEAST_ROWS:
        return f"the other groups have {(~rows).sum()} rows together, and {LEAST_ROWS} are needed"
    return "" if len(set(favourable[~rows])) == 2 else "the other groups' labels are all alike"


@dataclass(frozen=True, eq=False)
class _Task:
    """What is computed once with the attribute as it is, and once for each shuffle of it."""

    standard: Standard
    groups: list[_Group]
    favourable: Mask
    weight: Floats | None

    def __call__(self, order: NDArray[np.int64] | None) -> _Run:
        """All groups compared; `order` says which row each row has its attribute from."""
        run = _Run()
        with single_threaded():
            for group in self.groups:
                rows = group.rows if order is None else group.rows[order]
                probability = self._probabilities(rows)
                favourable = self.favourable[rows]
                weight = None if self.weight is None else self.weight[rows]
                doubt = np.where(favourable, 1 - probability, probability)
                run.recorded.append(float(np.average(favourable, weights=weight)))
                run.expected.append(float(np.average(probability, weights=weight)))
                run.counts.append([int(count) for count in np.histogram(doubt[~favourable], BINS)[0]])
                if order is None:
                    run.doubt.append(doubt)
        return run

    def _probabilities(self, rows: Mask) -> Floats:
        """Of the favourable label, for these rows, by the standard of all others."""
        others = self.favourable[~rows]
        if others.all() or not others.any():  # a shuffle may take all of a rare label
            return np.full(int(rows.sum()), float(others[0]))
        return self.standard.probabilities(~rows, rows, self.favourable, self.weight)


def _run(
    task: _Task, shuffles: int, n_jobs: int | None, random_state: int, seconds: float | None, watch: Watcher
) -> tuple[list[_Run], bool]:
    """The table as it is, then with the attribute shuffled. Ctrl-C ends it with the shuffles that are done, and it is
    said; so does the time, where it is limited."""
    rows, begun = len(task.favourable), time.monotonic()
    orders = [None, *(np.random.default_rng([random_state, k]).permutation(rows) for k in range(shuffles))]
    parallel = Parallel(n_jobs=n_jobs or min(available_cores(), len(orders)), return_as="generator")
    found = parallel(delayed(task)(order) for order in orders)
    runs: list[_Run] = []
    try:
        for run in found:
            runs.append(run)
            watch.advance(1)
            if seconds is not None and time.monotonic() - begun > seconds:
                break
    except KeyboardInterrupt:
        if not runs:
            raise
        return runs, True
    finally:
        with warnings.catch_warnings(action="ignore"):  # joblib tells what is thrown away
            found.close()
    return runs, False
