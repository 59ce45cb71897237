"""The comparison: a group's recorded labels beside those that the other groups' standard would have given.

For each group a model learns from the rows of all other groups, without the protected columns, and gives every row of
the group a probability of the favourable label. Their mean less the recorded share is the group's difference. The same
is computed with the protected attribute shuffled among the rows, to see what differences chance makes.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
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
from butfor.standard.models import Floats, Mask, Standard, as_standard
from butfor.validate import as_labels, as_table, as_weights

LEAST_ROWS = 30
"""A smaller group, or fewer others, say too little."""
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

    @classmethod
    def of(cls, recorded: Mapping[str, Any]) -> GroupStandard:
        """As a record holds it."""
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in recorded.items()}
        return cls(**values)

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
        rows = [
            {
                "attribute": c.attribute,
                "group": c.group,
                "rows": c.rows,
                "recorded": c.recorded,
                "expected": c.expected,
                "difference": c.difference,
                "low": c.interval[0] if c.interval else None,
                "high": c.interval[1] if c.interval else None,
                "p": c.p,
                "missing": c.missing,
            }
            for c in self.comparisons
        ]
        return pd.DataFrame(rows).set_index(["attribute", "group"])

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
        return {
            "attribute": self.attribute,
            "adverse": self.adverse,
            "favourable": self.favourable,
            "model": self.model,
            "shuffles": self.shuffles,
            "left_out": list(self.left_out),
            "groups": [
                {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(c).items()}
                for c in self.comparisons
            ],
        }


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
    short = [f"{c.name} (by {100 * c.difference:.1f} points)" for c in comparisons if c.differs and c.missing]
    if short:
        return f"Labels fall short of the others' standard where {'; '.join(short)}."
    if not any(c.shuffled for c in comparisons):
        return "Without shuffles nothing says which differences are more than chance."
    return "No group's labels fall short of the others' standard by more than chance makes."


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

    `adverse` is the label that people would rather not have. `sensitive_features` names the protected column of X, or
    several, or holds a value per row; with several, every attribute is compared and their combinations too. `standard`
    is a scikit-learn classifier with `predict_proba`; None: the mean of a logistic regression and a histogram boosting.
    """
    X = as_table(X)
    y = as_labels(X, y)
    if not isinstance(shuffles, (int, np.integer)) or shuffles < 0:
        raise SettingError(f"shuffles={shuffles!r} must be a whole number from 0 up.")
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    attributes = attributes_of(sensitive, X)
    if sensitive.blind and isinstance(sensitive_features, pd.DataFrame) and sensitive_features.shape[1] > 1:
        alone = [Sensitive.of(sensitive_features[name], X, sensitive_bands) for name in sensitive_features]
        attributes = [*alone, sensitive]
    return compare(
        X,
        favourable_labels(y, adverse),
        attributes,
        names=label_names(y, adverse),
        standard=standard,
        shuffles=shuffles,
        weight=as_weights(X, sample_weight),
        n_jobs=n_jobs,
        random_state=random_state,
        watch=watch,
    )


def label_names(y: pd.Series, adverse: Any) -> tuple[str, str]:
    """The adverse and the favourable label in words; refused where labels are not two, or none is the adverse one."""
    found = list(pd.unique(y))
    if len(found) != 2:
        raise TableError(f"A comparison of standards needs two labels; these rows have {listed(found)}.")
    matching = [value for value in found if str(value) == str(adverse)]
    if not matching:
        raise SettingError(f"adverse='{adverse}' is not a label; the labels are {listed(found)}.")
    other = next(value for value in found if value is not matching[0])
    return str(matching[0]), str(other)


def favourable_labels(y: pd.Series, adverse: Any) -> Mask:
    return np.array([str(value) != str(adverse) for value in y], bool)


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
