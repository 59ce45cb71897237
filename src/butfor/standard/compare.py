"""The comparison: a group's recorded labels beside those that the other groups' standard would have given.

For each group a model learns from the rows of all other groups, without the protected columns, and gives every row of
the group a probability of the favourable label. Their mean less the recorded share is the group's difference. The same
is computed with the protected attribute shuffled among the rows, to see what differences chance makes.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from butfor.data.sensitive import Cuts, Sensitive
from butfor.encode import TableEncoder
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.machine import available_cores, single_threaded
from butfor.progress import Progress
from butfor.standard.groups import BINS, Floats, GroupStandard, Mask, Standards
from butfor.stopping import Stop, in_worker, listen
from butfor.validate import as_labels, as_table, as_weights

LEAST_ROWS = 30
"""A smaller group, or fewer others, say too little."""
MANY_INPUTS = 1000
"""Beyond this the Hessian of a logistic regression costs more than it saves."""


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
    progress: Progress | None = None,
) -> Standards:
    """Are the labels of each group what the other groups' standard would have given?

    `adverse` is the label that people would rather not have, or several of them. `sensitive_features` names the
    protected column of X, or several, or holds a value per row; with several, every attribute is compared and their
    combinations too. `standard` is a scikit-learn classifier with `predict_proba`; None: the mean of a logistic
    regression and a histogram boosting.
    """
    X = as_table(X)
    y = as_labels(X, y)
    if not isinstance(shuffles, (int, np.integer)) or shuffles < 0:
        raise SettingError(f"shuffles={shuffles!r} must be a whole number from 0 up.")
    named = dict(enumerate(map(str, y.attrs.get("label_names", ()))))
    adverse = set(map(str, adverse if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]))
    labels = y.map(named if adverse <= set(named.values()) and set(y.unique()) <= set(named) else str)
    found = sorted(set(labels))
    others = [name for name in found if name not in adverse]
    if strange := sorted(adverse - set(found)):
        raise SettingError(f"adverse='{strange[0]}' is not a label; the labels are {listed(found)}.")
    if not others:
        raise TableError(
            f"A comparison of standards needs another label than the adverse; these rows have {listed(found)}."
        )
    return compare(
        X,
        labels.isin(others).to_numpy(),
        attributes_of(Sensitive.of(sensitive_features, X, sensitive_bands), X, sensitive_features),
        names=(" or ".join(sorted(adverse)), " or ".join(others)),
        standard=standard,
        shuffles=shuffles,
        weight=as_weights(X, sample_weight),
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
    )


def attributes_of(sensitive: Sensitive, X: pd.DataFrame, beside: Any = None) -> list[Sensitive]:
    """The attribute whose groups rows belong to, last; before it, where it joins several columns of X or of a table
    beside it, each of them."""
    named: dict[Any, Any] = {name: name for name in sensitive.columns}
    if sensitive.blind and isinstance(beside, pd.DataFrame):
        named = {name: beside[name] for name in beside.columns}
    if len(named) < 2:
        return [sensitive]
    cuts = {name: {cut: at for cut, at in sensitive.cuts.items() if cut == str(name)} for name in named}
    return [*(Sensitive.of(values, X, cuts[name]) for name, values in named.items()), sensitive]


@dataclass(frozen=True, eq=False)
class Standard:
    """A probability of the favourable label, learned from some rows and asked about others: the mean of some
    classifiers', each with all rows as it takes them. Encoding looks at no label."""

    name: str
    models: list[tuple[Any, Any]]

    @classmethod
    def of(cls, given: Any, X: pd.DataFrame) -> Standard:
        """A classifier of the user's own (a pipeline gets the table as it is, any other the encoded one), or None."""
        if given is not None and not (hasattr(given, "predict_proba") and hasattr(given, "fit")):
            raise SettingError(
                f"standard={type(given).__name__}: a standard is a classifier with fit and predict_proba, or a "
                "pipeline that ends in one."
            )
        if isinstance(given, Pipeline):
            return cls(type(given[-1]).__name__, [(given, X)])
        inputs = TableEncoder("onehot", dtype="float64").fit_transform(X)
        if given is not None:
            return cls(type(given).__name__, [(given, inputs)])
        places = TableEncoder("ordinal", "raw", dtype="float64").fit(X)
        categorical = np.zeros(places.n_features_out_, bool)
        for block in places.blocks_.values():
            categorical[block.columns] = block.codes is not None
        solver = "newton-cholesky" if inputs.shape[1] <= MANY_INPUTS else "lbfgs"
        linear = LogisticRegression(solver=solver, max_iter=1000)
        boosting = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=8, categorical_features=categorical, random_state=0
        )
        name = "the mean of a logistic regression and a histogram boosting"
        return cls(name, [(linear, inputs), (boosting, places.transform(X))])

    def probabilities(self, learn: Mask, ask: Mask, favourable: Mask, weight: Floats | None) -> Floats:
        """Of the favourable label, for the rows of one mask, learned from those of another."""
        weighted = {} if weight is None else {"sample_weight": weight[learn]}
        try:
            found = []
            for model, rows in self.models:
                fitted = clone(model).fit(rows[learn], favourable[learn], **weighted)
                found.append(fitted.predict_proba(rows[ask])[:, 1])
            mean: Floats = np.mean(found, axis=0, dtype=np.float64)
        except MemoryError:
            raise
        except Exception as error:  # the model may be the user's own
            raise LearnerError(f"The standard, {self.name}, cannot be trained: {error}") from error
        if not np.isfinite(mean).all():
            raise LearnerError(f"The standard, {self.name}, gives probabilities that are no numbers.")
        return mean


class _Group(NamedTuple):
    attribute: str
    value: str
    rows: Mask


class _Compared(NamedTuple):
    """A group once: shares of the favourable label, how often each doubt of an adverse label occurs, and the doubts."""

    recorded: float
    expected: float
    counts: list[int]
    doubt: Floats


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
    progress: Progress | None = None,
) -> Standards:
    """As `compare_standards`, of a table that was looked at before; rows belong to the groups of the last attribute.
    With `seconds` it ends after so long, with the shuffles that are done."""
    progress = progress or Progress()
    whole = attributes[-1]
    protected = [column for attribute in attributes for column in attribute.columns]
    inputs = X.drop(columns=list(dict.fromkeys(protected)))
    if not inputs.shape[1]:
        raise TableError("There is no column but the protected ones: no standard can be learned.")
    groups, left_out = _groups(attributes, favourable)
    if not groups:
        raise TableError(f"No group can be compared with the others. {' '.join(left_out)}")
    asked = Standard.of(standard, inputs)
    orders = [None, *(np.random.default_rng([random_state, k]).permutation(len(X)) for k in range(shuffles))]
    with progress:
        progress.phase("the others' standard", 1 + shuffles, "tables")
        parallel = Parallel(n_jobs=n_jobs or min(available_cores(), len(orders)), return_as="generator")
        given = (os.getpid(), _compared, asked, groups, favourable, weight)
        tasks = parallel(delayed(in_worker)(*given, order) for order in orders)
        runs, interrupted = _until_stopped(tasks, seconds, progress)
    doubt = np.full(len(X), np.nan)
    comparisons = []
    for group, first, *shuffled in zip(groups, *runs, strict=True):
        if group.attribute == whole.name:
            doubt[group.rows] = first.doubt
        comparisons.append(
            GroupStandard(
                group.attribute,
                group.value,
                int(group.rows.sum()),
                first.recorded,
                first.expected,
                tuple(run.expected - run.recorded for run in shuffled),
                tuple(first.counts),
                tuple(map(float, np.mean([run.counts for run in shuffled], axis=0))) if shuffled else (),
            )
        )
    return Standards(
        attribute=whole.name,
        adverse=names[0],
        favourable=names[1],
        model=asked.name,
        comparisons=tuple(comparisons),
        left_out=tuple(left_out),
        groups=whole.values,
        is_favourable=favourable,
        doubt=doubt,
        index=X.index,
        shuffles=len(runs) - 1,
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
            if reason := _too_little(rows, favourable):
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


def _compared(
    standard: Standard, groups: list[_Group], favourable: Mask, weight: Floats | None, order: NDArray[np.int64] | None
) -> list[_Compared]:
    """All groups; `order` says which row each row has its attribute from, where that is shuffled: doubts are then not
    kept."""
    found = []
    with single_threaded():
        for group in groups:
            rows = group.rows if order is None else group.rows[order]
            ours, others = favourable[rows], favourable[~rows]
            if others.all() or not others.any():  # a shuffle may take all of a rare label
                probability = np.full(len(ours), float(others[0]))
            else:
                probability = standard.probabilities(~rows, rows, favourable, weight)
            recorded, expected = (
                float(np.average(each, weights=None if weight is None else weight[rows]))
                for each in (ours, probability)
            )
            doubt = np.where(ours, 1 - probability, probability)
            counts = [int(count) for count in np.histogram(doubt[~ours], BINS)[0]]
            found.append(_Compared(recorded, expected, counts, doubt if order is None else doubt[:0]))
    return found


def _until_stopped(
    tasks: Generator[list[_Compared], None, None], seconds: float | None, progress: Progress
) -> tuple[list[list[_Compared]], bool]:
    """The table as it is, then shuffled. Ctrl-C ends it with the shuffles that are done, and it is said; so does the
    time, where it is limited."""
    runs: list[list[_Compared]] = []
    with listen(Stop(seconds)) as flag:
        try:
            for run in tasks:
                runs.append(run)
                progress.advance(1)
                if flag.requested:
                    break
        finally:
            with warnings.catch_warnings(action="ignore"):  # joblib tells what is thrown away
                tasks.close()
    return runs, flag.interrupted
