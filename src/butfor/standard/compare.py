"""Compare a group's labels with those that comparable people of other groups get.

The difference of a group is the share of favourable labels that people of other groups with the same columns get, less
the group's own share. The same is computed on tables whose labels are drawn by one standard for everybody: their mean
is the method's bias, which is subtracted, and their spread its error.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import as_numbers, clusters_in
from butfor.data.check import concerns_of
from butfor.data.labels import label_names, label_numbers, label_values
from butfor.data.sensitive import Cuts, Sensitive
from butfor.errors import SettingError, Stopped, TableError, listed, nearest
from butfor.machine import (
    check_n_jobs,
    check_random_state,
    check_whole,
    in_threads,
    single_threaded,
)
from butfor.progress import Progress, shown
from butfor.standard.explain import ColumnMove, Slicing, column_moves, slices_of, strongest
from butfor.standard.groups import BINS, GroupStandard, LeftOut, Overlap, SecondOpinion, Standards
from butfor.standard.inputs import Floats, Mask, Rows
from butfor.standard.model import OwnModel, Records, TwoModels
from butfor.standard.null import FIRST, LEAST_ROWS, SECOND, CommonStandard, Group, Means, at_once
from butfor.standard.second_opinion import EVERYBODY, Opinion, Part, folds_of
from butfor.standard.wrong import suspects
from butfor.stopping import Stop, listen
from butfor.validate import as_clusters, as_weights, labelled

LEAST_CLUSTERS = 10
"""With fewer, nobody can say how far clusters differ by chance."""
AT_ONCE = (5, 25)
"""At least and at most this many drawn tables are fitted side by side; the same on any number of cores, since figures
depend on it."""
CELLS_AT_ONCE, PREDICTED_AT_ONCE = 400_000, 4_000_000
"""Learned rows, and predicted ones, of the tables that are fitted side by side."""


def compare_standards(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    adverse: Any,
    reference: Any = None,
    cluster: Any = None,
    standard: Any = None,
    draws: int = 99,
    sample_weight: Any = None,
    n_jobs: int | None = -1,
    random_state: int = 0,
    sensitive_bands: Cuts | None = None,
    progress: Progress | bool | None = None,
) -> Standards:
    """Compare each group's labels with those of comparable people in other groups.

    Parameters
    ----------
    X : table
        The recorded columns, one row per decision: pandas, polars or pyarrow.
    y : array
        The labels.
    sensitive_features : str, list of str or array
        The protected column of X, several of them, or a value per row. Of several, each is compared, and their
        combinations too.
    adverse : label or list of labels
        What people would rather not get.
    reference : group, list of groups or dict, optional
        The group to compare with, instead of all others; of several attributes, one group each. A value that several
        attributes have needs its attribute: {"black": "no", "married": "yes"}.
    cluster : str or array, optional
        A column, or a value per row: rows with the same value are decisions about one person, advert or household.
    standard : classifier, optional
        Any with `predict_proba`; it gets numbers, with text one-hot. None: the mean of a logistic regression and a
        gradient boosting.
    draws : int, default=99
        Tables drawn under one standard for everybody, for intervals and p-values.
    sample_weight : array, optional
        One weight per row.
    progress : Progress or bool, optional
        Shows progress: by default in a terminal or notebook, never with False.

    Returns
    -------
    Standards
        `by_group`, `columns` and `slices` are frames, `to_frame()` has one row per label, `answer` is one sentence.

    Examples
    --------
    >>> import butfor
    >>> data = butfor.load_dataset("german")
    >>> found = butfor.compare_standards(
    ...     data.X_train, data.y_train, sensitive_features="sex", adverse=0, draws=0
    ... )
    >>> list(found.by_group.index.get_level_values("group"))
    ['female', 'male']
    """
    check_n_jobs(n_jobs)
    check_random_state(random_state)
    progress, beside = shown(progress), (sensitive_features, cluster, sample_weight)
    X, y, (sensitive_features, cluster, sample_weight) = labelled(X, y, *beside, note=progress.note)
    X, cluster = as_clusters(as_numbers(X, X.columns, progress.note), cluster)
    check_whole("draws", draws, 0)
    classes = label_values(y.to_numpy(), twice=False)
    named = label_names(classes, y.name, y.attrs.get("label_names", ()))
    bad = label_numbers(adverse, named, classes)
    good = [number for number in range(len(named)) if number not in bad]
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    concerns = concerns_of(X, y, sensitive)
    found = compare(
        X,
        ~y.isin(classes[bad]).to_numpy(),
        sensitive.each,
        sides=(tuple(named[k] for k in bad), tuple(named[k] for k in good)),
        reference=reference,
        cluster=None if cluster is None else clusters_in(cluster),
        standard=standard,
        draws=int(draws),
        weight=as_weights(X, sample_weight, sensitive),
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
    )
    return replace(found, proxies=tuple(map(str, concerns)))


def compare(
    X: pd.DataFrame,
    favourable: Mask,
    attributes: Sequence[Sensitive],
    *,
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    reference: Any = None,
    cluster: Rows | None = None,
    standard: Any = None,
    draws: int = 99,
    weight: Floats | None = None,
    n_jobs: int | None = -1,
    random_state: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
    explain: bool = True,
) -> Standards:
    """As `compare_standards`, of a checked table; rows belong to the groups of the last attribute. It stops drawing
    after `seconds`. Without `explain` it leaves out columns, overlap, slices and the second opinion."""
    progress, jobs = progress or Progress(), check_n_jobs(n_jobs)
    if weight is not None:  # only ratios matter: penalties would count for less where weights are large
        weight = weight / weight.mean()
    weights = np.ones(len(X)) if weight is None else weight
    whole, labels = attributes[-1], favourable.astype(np.float64)
    inputs = X.drop(columns=list({column: None for attribute in attributes for column in attribute.columns}))
    if not inputs.shape[1]:
        raise TableError(
            "The table has only protected columns: there is nothing to learn a standard from. Add columns."
        )
    groups, left_out = groups_of(attributes, favourable, reference)
    for group in groups:
        if cluster is not None and len(set(cluster[group.others])) < LEAST_CLUSTERS:
            raise TableError(
                f"cluster: the people that {group.attribute} = {group.value} is compared with are all in fewer than "
                f"{LEAST_CLUSTERS} clusters, which says too little. Check that the column names people or households."
            )

    def shares(group: Group, tables: Floats | Mask, part: Part) -> tuple[Floats, Floats, Floats]:
        """With these labels `[tables × all rows]`: the group's shares by the standard of a part of the others,
        `[shares × tables]`; of the first table its rows' probabilities, and the outcomes that AIPW expects."""
        learn = group.others[part.rows]
        known, theirs = tables[:, learn].astype(np.float64), weights[learn]
        if part.taken is not None:
            # Rows that are taken rarely stand for more; the noise of their labels is smaller, so that models move as
            # far as by all rows.
            expected = common.everybody[learn]
            known = expected + np.sqrt(part.taken) * (known - expected)
            theirs = theirs / part.taken
        by_row = records.model.predict(learn, group.rows, known, theirs)
        means, by_row = group.means.of_tables(by_row), by_row[0].copy()
        if group.opinion is None:
            return np.vstack([means, np.full(len(tables), np.nan)]), by_row, np.empty(0)
        aipw, outcomes = group.opinion.shares(known, theirs, part)
        return np.vstack([means, aipw]), by_row, outcomes[0]

    def read_labels(group: Group) -> None:
        """The group's labels beside the others' standard and the second opinion."""
        if explain:
            group.opinion = Opinion(records, group.rows, group.others)
            if draws and standard is None:
                group.part = group.opinion.part()
        group.means = Means(slicing.names, slicing.places[group.rows], weights[group.rows])
        # Where models of drawn labels learn from a part of the others, what is left of the centre is how models of all
        # others read the expected labels: labels without noise.
        some = group.part is not EVERYBODY
        tables = np.array([labels, common.everybody] if some else [labels])
        read, group.probabilities, group.outcomes = shares(group, tables, EVERYBODY)
        group.by_others = read[:, 0]
        if some:
            group.apart = read[:, 1:] - shares(group, common.everybody[None], group.part)[0]

    def explain_gap(group: Group) -> list[ColumnMove]:
        """What moves the gap, and which of the group's labels are wrong."""
        if group.attribute == whole.name:
            group.suspect = suspects(group, records)
        return column_moves(group, records) if explain else []

    def draw(tables: range) -> list[Floats]:
        """Each group's shares on tables whose labels are drawn by one standard."""
        with single_threaded():
            drawn = common.labels(tables)
            return [shares(group, drawn, group.part)[0] + group.apart for group in groups]

    with progress, single_threaded(), warnings.catch_warnings():
        progress.phase("the other groups' standard", 2 * len(groups), "steps")
        encoded, folds = TwoModels.of(inputs), folds_of(len(X), cluster, random_state)
        model = encoded if standard is None else OwnModel(standard, encoded.inputs)
        records = Records(encoded, model, labels, weights, cluster, folds)
        codes = [np.unique(a.values.astype(str), return_inverse=True)[1].astype(np.int64) for a in attributes]
        common = CommonStandard(records, codes, random_state)
        slicing = Slicing(inputs if explain else inputs.iloc[:, :0])
        list(in_threads(read_labels, groups, jobs, progress.advance))
        warnings.simplefilter("ignore")  # an estimator that warns has done so by now; hundreds of fits follow
        moves = list(in_threads(explain_gap, groups, jobs, progress.advance))

        # The draws come last: Ctrl-C ends them and keeps everything else, a time limit lets the first ones finish.
        learned = max(len(group.others[group.part.rows]) for group in groups)
        predicted = max(len(group.rows) for group in groups)
        size = int(np.clip(min(CELLS_AT_ONCE // learned, PREDICTED_AT_ONCE // predicted), *AT_ONCE))
        progress.phase("tables drawn by one standard", draws, "tables")
        done = in_threads(draw, [range(k, min(k + size, draws)) for k in range(0, draws, size)], jobs)
        drawn = [[np.empty((len(group.by_others), 0)) for group in groups]]
        with listen(Stop(seconds)) as flag, closing(done), suppress(Stopped):
            for some in done:
                drawn.append(some)
                progress.advance(some[0].shape[1])
                flag.check()
        for place, (group, *parts) in enumerate(zip(groups, *drawn, strict=True)):
            group.measure(np.concatenate(parts, axis=1), common, place)
        slices = slices_of(groups, common)

    doubt, suspect = np.full(len(X), np.nan), np.full(len(X), np.nan)
    comparisons = []
    for group, own_moves, (p, p_adjusted, bounds) in zip(groups, moves, at_once(groups), strict=True):
        own, opinion, favoured = weights[group.rows], group.opinion, favourable[group.rows]
        recorded, difference = float(group.recorded[FIRST]), float(group.difference[FIRST])
        raw_gap = float(np.average(labels[group.others], weights=weights[group.others])) - recorded
        doubts = np.where(favoured, 1 - group.probabilities, group.probabilities)
        if group.attribute == whole.name:
            doubt[group.rows], suspect[group.rows] = doubts, group.suspect
        interval, overlap, second, robustness = group.interval(FIRST), None, None, None
        if opinion is not None:
            robustness = opinion.robustness_value(difference, group.outcomes, common.own)
            second = SecondOpinion(float(group.difference[SECOND]), group.interval(SECOND), group.disagrees)
            overlap = Overlap(int(opinion.comparable.sum()), len(group.others), opinion.effective_others, opinion.poor)
            if second.disagrees and interval and bounds and second.interval:  # it covers what both say
                interval = min(interval[0], second.interval[0]), max(interval[1], second.interval[1])
                bounds = min(bounds[0], interval[0]), max(bounds[1], interval[1])
        mover = strongest(own_moves, difference)
        comparisons.append(
            GroupStandard(
                attribute=group.attribute,
                group=group.value,
                rows=len(group.rows),
                recorded=recorded,
                expected=recorded + difference,
                difference=difference,
                centre=float(group.centre[FIRST]),
                interval=interval,
                bounds=bounds,
                error=float(group.error[FIRST]) if interval else None,
                p=p,
                p_adjusted=p_adjusted,
                raw_gap=raw_gap,
                explained=raw_gap - difference,
                reference=group.reference,
                effective_rows=None if weight is None else float(own.sum() ** 2 / (own**2).sum()),
                overlap=overlap,
                second_opinion=second,
                robustness_value=robustness,
                strongest_column=mover.column if mover else None,
                strongest_move=mover.move if mover else None,
                doubts=tuple(np.histogram(doubts[~favoured], BINS)[0].tolist()),
                draws=group.draws.shape[1],
            )
        )
    return Standards(
        attribute=whole.name,
        sides=sides,
        model=model.name,
        comparisons=tuple(comparisons),
        left_out=tuple(left_out),
        groups=whole.values,
        is_favourable=favourable,
        doubt=doubt,
        suspect=suspect,
        index=X.index,
        draws=comparisons[0].draws,
        moves=tuple(itertools.chain(*moves)),
        parts=slices,
        not_sliced=tuple(slicing.skipped),
        clusters=None if cluster is None else int(cluster.max()) + 1,
        cluster=cluster,
        weight=weight,
        correlation=common.correlation,
        interrupted=flag.interrupted,
        cut_short=groups[0].draws.shape[1] < draws,
    )


# --- who is compared with whom ------------------------------------------------------------------------


def groups_of(attributes: Sequence[Sensitive], favourable: Mask, reference: Any) -> tuple[list[Group], list[LeftOut]]:
    """The groups that can be compared, and those that cannot."""
    references = references_of(reference, attributes)
    groups, left_out = list[Group](), list[LeftOut]()
    for attribute in attributes:
        name, values, compared_with = attribute.name, attribute.values.astype(str), references.get(attribute.name)
        distinct = sorted(set(values.tolist()))
        if len(distinct) == 1:
            raise SettingError(f"'{name}' has only one value, '{distinct[0]}': there is nobody to compare with.")
        if all(len(set(favourable[values == value])) == 1 for value in distinct):
            raise TableError(
                f"'{name}' determines every label: it is the label, or made from it. Name another attribute."
            )
        for value in distinct:
            rows = np.flatnonzero(values == value)
            others = np.flatnonzero(values != value if compared_with is None else values == compared_with)
            why = None
            if len(rows) < LEAST_ROWS:
                why = LeftOut(name, value, "rows", len(rows))
            elif len(others) < LEAST_ROWS:
                why = LeftOut(name, value, "others", len(others))
            elif len(set(favourable[others])) == 1:
                why = LeftOut(name, value, "alike", len(others))
            if value == compared_with:  # it is its own others here
                if why:
                    raise TableError(f"The reference group {name} = {value} cannot be used: {why.why(others='')}.")
            elif why:
                left_out.append(why)
            else:  # a combination that is all of a group says what the group would
                groups = [group for group in groups if not np.array_equal(group.rows, rows)]
                groups.append(Group(name, value, rows, others, compared_with))
    if not groups:
        raise TableError(f"No group can be compared. {' '.join(each.sentence for each in left_out)}")
    return groups, left_out


def references_of(given: Any, attributes: Sequence[Sensitive]) -> dict[str, str]:
    """Attribute to reference group. `given`: a group, several, or a mapping from attribute to group. Combinations are
    compared with the combination of all attributes' references."""
    known = {attribute.name: sorted(set(map(str, attribute.values))) for attribute in attributes}
    if isinstance(given, Mapping):
        pairs: list[tuple[Any, Any]] = list(given.items())
    else:
        pairs = [(None, group) for group in (given if isinstance(given, (list, tuple, set)) else [given])]
    found: dict[str, str] = {}
    for attribute, group in pairs if given is not None else ():
        if attribute is not None and str(attribute) not in known:
            raise SettingError(
                f"reference: there is no attribute '{attribute}'. {nearest(attribute, known, 'The attributes are')}"
            )
        possible = list(known) if attribute is None else [str(attribute)]
        names = [name for name in possible if str(group) in known[name]]
        if not names:
            where = "there is" if attribute is None else f"'{attribute}' has"
            groups = sorted(set().union(*(known[name] for name in possible)))
            raise SettingError(f"reference: {where} no group '{group}'. {nearest(group, groups, 'The groups are')}")
        if len(names) > 1:
            raise SettingError(
                f"reference: '{group}' is a group of {listed(names)}; say of which: "
                f"reference={{'{names[0]}': '{group}'}}."
            )
        if found.setdefault(names[0], str(group)) != str(group):
            raise SettingError(
                f"reference names '{found[names[0]]}' and '{group}', both groups of '{names[0]}'; name one of them."
            )
    whole, single = attributes[-1].name, [attribute.name for attribute in attributes[:-1]]
    if single and whole not in found and all(name in found for name in single):
        joint = Sensitive.JOINT.join(found[name] for name in single)
        found |= {whole: joint} if joint in known[whole] else {}
    return found


def table_order(X: pd.DataFrame) -> Rows:
    """The order of a table whose rows are numbered, however it was split; draws go by it."""
    numbered = X.index.is_unique and X.index.inferred_type == "integer"
    return np.asarray(X.index.argsort() if numbered else np.arange(len(X)), np.int64)
