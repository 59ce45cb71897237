"""Compare a group's labels with those that comparable people of other groups get.

The difference of a group is the share of favourable labels that people of other groups with the same columns get, less
the group's own share. The same is computed on tables whose labels are drawn by one standard for everybody: their mean
is the method's bias, which is subtracted, and their spread its error.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import as_numbers, clusters_in
from butfor.data.check import concerns_of
from butfor.data.labels import MOST_CLASSES, label_names, label_number, label_values
from butfor.data.sensitive import Cuts, Sensitive
from butfor.errors import Stopped, TableError, listed
from butfor.machine import (
    check_n_jobs,
    check_random_state,
    check_whole,
    give_back_memory,
    in_threads,
    single_threaded,
)
from butfor.progress import Progress, shown
from butfor.standard.explain import ColumnMove, column_moves, missing_values, strongest
from butfor.standard.groups import BINS, GroupStandard, Overlap, SecondOpinion, Standards
from butfor.standard.inference import FEW, REDRAWS, Drawn, at_once, disagree
from butfor.standard.inputs import LARGE, Floats, Mask, Rows
from butfor.standard.members import Group, groups_of
from butfor.standard.model import OwnModel, TwoModels
from butfor.standard.null import CommonStandard, seeds_of
from butfor.standard.second_opinion import EVERYBODY, Opinion, Part, folds_of
from butfor.standard.slices import Means, Slicing, in_order, slices_of
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
FIRST, NEAR, SECOND = 0, 1, -1
"""Of a group's shares: by the others' standard, of its comparable rows alone, and by AIPW; slices are between."""


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
        Any with `predict_proba`. None: the mean of a logistic regression and a gradient boosting.
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
    codes, classes = pd.factorize(y, sort=True)
    if len(classes) > MOST_CLASSES:
        label_values(np.asarray(classes))  # raises an error that says what to do
    known = dict(enumerate(map(str, y.attrs.get("label_names", ()))))
    coded = bool(known) and set(classes) <= set(known)
    named = tuple(known[label] for label in classes) if coded else label_names(classes, y.name)
    given = adverse if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]
    bad = sorted({label_number(each, named, classes) for each in given})
    good = [number for number in range(len(named)) if number not in bad]
    if not good:
        raise TableError(
            f"All labels are adverse ({listed(named)}): a comparison needs a favourable label too. Check adverse."
        )
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    concerns = concerns_of(X, y, sensitive)
    found = compare(
        X,
        np.isin(codes, good),
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
    for g in groups:
        if cluster is not None and len(set(cluster[g.others])) < LEAST_CLUSTERS:
            raise TableError(
                f"cluster: the people that {g.attribute} = {g.value} is compared with are all in fewer than "
                f"{LEAST_CLUSTERS} clusters, which says too little. Check that the column names people or households."
            )

    def shares(group: Group, labels: Floats | Mask, part: Part) -> tuple[Floats, Floats, Floats]:
        """On tables with these labels `[tables × all rows]`: the group's shares by the standard of a part of the
        others, `[shares × tables]`; of the first table its rows' probabilities, and the outcomes that AIPW expects."""
        learn = group.others[part.rows]
        known, theirs = part.labels(labels[:, learn], common.everybody[learn]), part.weight(weight, learn)
        by_row = model.predict(learn, group.rows, known, theirs)
        means, by_row = group.means.of_tables(by_row), by_row[0].copy()
        if len(X) > LARGE:
            give_back_memory()
        if group.opinion is None:
            return np.vstack([means, np.full(len(labels), np.nan)]), by_row, np.empty(0)
        outcomes = group.opinion.outcomes(encoded, known, part)
        return np.vstack([means, group.opinion.expected(outcomes, known, part)]), by_row, outcomes[0]

    def read_labels(group: Group) -> None:
        """The group's labels beside the others' standard and the second opinion."""
        comparable = np.ones(len(group.rows), bool)
        if explain:
            group.opinion = Opinion.of(encoded, group.rows, group.others, folds, weight)
            comparable = group.opinion.comparable
            if draws and isinstance(model, TwoModels):
                group.part = group.opinion.part(cluster)
        group.means = Means.of(slicing, group.rows, comparable, weights[group.rows])
        # Where models of drawn labels learn from a part of the others, what is left of the centre is how models of all
        # others read the expected labels: labels without noise.
        some = group.part is not EVERYBODY
        tables = np.array([labels, common.everybody] if some else [labels])
        recorded, group.probabilities, group.outcomes = shares(group, tables, EVERYBODY)
        group.recorded = recorded[:, 0]
        if some:
            group.apart = recorded[:, 1:] - shares(group, common.everybody[None], group.part)[0]

    def explain_gap(group: Group) -> None:
        """What moves the gap, and which of the group's labels are wrong."""
        if explain:
            group.moves = column_moves(group.rows, group.others, model, encoded, labels, weight, cluster)
        if group.attribute == whole.name:
            of_all = (encoded.inputs, labels, folds, weight)
            group.suspect = suspects(model, group.rows, group.others, group.probabilities, *of_all)

    def draw(seeds: list[tuple[int, int]]) -> list[Floats]:
        """Each group's shares on tables whose labels are drawn by one standard."""
        with single_threaded():
            drawn = common.labels(seeds)
            return [shares(group, drawn, group.part)[0] for group in groups]

    with progress, single_threaded(), warnings.catch_warnings():
        progress.phase("the other groups' standard", 2 * len(groups), "steps")
        encoded = TwoModels.of(inputs)
        model = encoded if standard is None else OwnModel(standard, inputs, encoded)
        common = CommonStandard.of(encoded, [codes_of(a) for a in attributes], labels, weight, cluster)
        folds = folds_of(len(X), cluster, random_state)
        slicing = Slicing.of(inputs if explain else inputs.iloc[:, :0])
        list(in_threads(read_labels, groups, jobs, progress.advance))
        if len(X) > LARGE:
            give_back_memory()
        warnings.simplefilter("ignore")  # an estimator that warns has done so by now; hundreds of fits follow
        list(in_threads(explain_gap, groups, jobs, progress.advance))

        # The draws come last: Ctrl-C ends them and keeps everything else, a time limit lets the first ones finish.
        learned = max(len(group.others[group.part.rows]) for group in groups)
        predicted = max(len(group.rows) for group in groups)
        size = int(np.clip(min(CELLS_AT_ONCE // learned, PREDICTED_AT_ONCE // predicted), *AT_ONCE))
        seeds, tables = seeds_of(random_state, draws), 0
        progress.phase("tables drawn by one standard", draws, "tables")
        done = in_threads(draw, [seeds[k : k + size] for k in range(0, draws, size)], jobs)
        with listen(Stop(seconds)) as flag, closing(done), suppress(Stopped):
            for drawn in done:
                for group, some in zip(groups, drawn, strict=True):
                    group.drawn.append(some + group.apart)
                tables += drawn[0].shape[1]
                progress.advance(drawn[0].shape[1])
                flag.check()

        # From shares to gaps.
        slices = []
        for place, group in enumerate(groups):
            group.figures = _figures(group, common, labels, tables, [random_state, 7, place])
            if tables > 1 and group.means.names:
                uniforms = common.uniforms_of(group.rows, random_state, tables)
                found = group.means, group.figures, group.probabilities, favourable[group.rows], uniforms
                slices.append(slices_of(group.attribute, group.value, *found))

    everyone = at_once([group.figures[FIRST] for group in groups])
    doubt, suspect = np.full(len(X), np.nan), np.full(len(X), np.nan)
    comparisons = []
    for group, among_all in zip(groups, everyone, strict=True):
        gap, near, second, opinion = *(group.figures[k] for k in (FIRST, NEAR, SECOND)), group.opinion
        own = favourable[group.rows]
        doubts = np.where(own, 1 - group.probabilities, group.probabilities)
        if group.attribute == whole.name:
            doubt[group.rows], suspect[group.rows] = doubts, group.suspect
        interval, bounds = gap.interval, among_all and among_all.bounds
        disagrees = opinion is not None and disagree(gap, second)
        if disagrees and interval and bounds and second.interval:  # it covers what both say
            interval = min(interval[0], second.interval[0]), max(interval[1], second.interval[1])
            bounds = min(bounds[0], interval[0]), max(bounds[1], interval[1])
        others_share = float(np.average(labels[group.others], weights=weights[group.others]))
        mover, move = strongest(group.moves, inputs.shape[1], gap.difference) or (None, None)
        second_look: dict[str, Any] = {}
        if opinion is not None:
            apart = opinion.poor and bool(opinion.comparable.any())
            second_look = {
                "overlap": Overlap(
                    comparable=int(opinion.comparable.sum()),
                    others=len(group.others),
                    effective_others=opinion.effective_others,
                    poor=opinion.poor,
                    difference=near.difference if apart else None,
                    interval=near.interval if apart else None,
                ),
                "second_opinion": SecondOpinion(second.difference, second.interval, disagrees),
                "robustness_value": opinion.robustness_value(gap.difference, group.outcomes, common.own, labels),
            }
        comparisons.append(
            GroupStandard(
                attribute=group.attribute,
                group=group.value,
                rows=len(group.rows),
                recorded=gap.recorded,
                expected=gap.recorded + gap.difference,
                difference=gap.difference,
                centre=gap.centre,
                interval=interval,
                bounds=bounds,
                error=gap.error if tables > 1 else None,
                p=among_all and among_all.p,
                p_adjusted=among_all and among_all.p_adjusted,
                raw_gap=others_share - gap.recorded,
                explained=others_share - gap.recorded - gap.difference,
                reference=group.reference,
                effective_rows=None if weight is None else _effective(weight[group.rows]),
                strongest_column=mover,
                strongest_move=move,
                missing_values=missing_values(inputs, group.rows, group.others),
                doubts=tuple(int(count) for count in np.histogram(doubts[~own], BINS)[0]),
                draws=tables,
                **second_look,
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
        draws=tables,
        moves=tuple(ColumnMove(group.attribute, group.value, *move) for group in groups for move in group.moves),
        parts=in_order(slices),
        not_sliced=slicing.skipped,
        clusters=None if cluster is None else int(cluster.max()) + 1,
        cluster=cluster,
        weight=weight,
        correlation=common.correlation,
        interrupted=flag.interrupted,
    )


def codes_of(attribute: Sensitive) -> Rows:
    """Each row's group as a number from 0."""
    return np.unique(attribute.values.astype(str), return_inverse=True)[1].astype(np.int64)


def _figures(group: Group, common: CommonStandard, labels: Floats, tables: int, seed: list[int]) -> list[Drawn]:
    """One per share, the second opinion last: what the group's rows have, on the recorded and on drawn tables."""
    rows, means = group.rows, group.means
    everybody, own = common.everybody[rows], common.own[rows]
    recorded, one_standard, expected = means.of_tables(np.array([labels[rows], everybody, own])).T
    few = min(len(rows) * float(expected[0]), len(rows) - len(rows) * float(expected[0])) < FEW
    clustered = bool(common.correlation)
    again = REDRAWS if few and not clustered else 1
    drawn, redrawn = [np.empty((means.count, 0))], [np.empty((means.count, 0))]
    for uniforms in common.uniforms_of(rows, seed[0], tables):
        drawn.append(means.of_tables((uniforms < everybody).astype(float)))
        if again == 1:
            redrawn.append(means.of_tables((uniforms < own).astype(float)))
    if again > 1:
        uniforms = np.random.default_rng(seed).random((tables * again, len(rows)))
        redrawn.append(means.of_tables((uniforms < own).astype(float)))
    own_draws = np.concatenate(drawn, axis=1)
    label_draws = np.concatenate(redrawn, axis=1) - expected[:, None]
    label_variance = means.of_tables(own * (1 - own), power=2)
    shares = np.concatenate([np.empty((means.count + 1, 0)), *group.drawn], axis=1)
    return [
        Drawn(
            expected=float(group.recorded[share]),
            recorded=float(recorded[k]),
            draws=shares[share],
            own_draws=own_draws[k],
            one_standard=float(one_standard[k]),
            label_variance=float(label_variance[k]),
            label_draws=label_draws[k].reshape(tables, again),
            few=few,
            clustered=clustered,
        )
        for share, k in enumerate([*range(means.count), 0])  # AIPW is about all of the group's rows
    ]


def _effective(weight: Floats) -> float:
    """How many rows of equal weight say as much."""
    return float(weight.sum() ** 2 / (weight**2).sum())
