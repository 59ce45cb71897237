"""Compare a group's labels with those that comparable people of other groups get.

The difference of a group is the share of favourable labels that people of other groups with the same columns get, less
the group's own share. The same is computed on tables whose labels are drawn by one standard for everybody: their mean
is the method's bias, which is subtracted, and their spread its error.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import clusters_in
from butfor.data.check import concerns_of
from butfor.data.dates import as_numbers
from butfor.data.labels import MOST_CLASSES, label_names, label_number
from butfor.data.sensitive import Cuts, Sensitive
from butfor.errors import TableError, listed
from butfor.machine import check_n_jobs, check_random_state, check_whole, give_back_memory, single_threaded
from butfor.models.learner import label_values
from butfor.progress import Progress, shown
from butfor.standard.draws import FIRST, NEAR, SECOND, SLICES, Work, draw, figures, side_by_side
from butfor.standard.explain import ColumnMove, column_moves, strongest
from butfor.standard.groups import BINS, GroupStandard, Overlap, SecondOpinion, Standards
from butfor.standard.inference import Drawn, bounds, disagree, p_values
from butfor.standard.inputs import LARGE, Floats, Mask, Rows
from butfor.standard.members import codes_of, groups_of, missing_values
from butfor.standard.model import TwoModels, standard_of
from butfor.standard.null import OneStandard
from butfor.standard.second_opinion import EVERYBODY, Opinion, folds_of
from butfor.standard.slices import Slice, Slicing, in_order, slices_of
from butfor.standard.wrong import suspects
from butfor.validate import as_clusters, as_weights, labelled

LEAST_CLUSTERS = 10
"""With fewer, nobody can say how far clusters differ by chance."""


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
        names=(" or ".join(named[k] for k in bad), " or ".join(named[k] for k in good)),
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
    names: tuple[str, str],
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
    progress = progress or Progress()
    if weight is not None:  # only ratios matter: penalties would count for less where weights are large
        weight = weight / weight.mean()
    whole, labels = attributes[-1], favourable.astype(np.float64)
    clusters, protected = cluster, [column for attribute in attributes for column in attribute.columns]
    inputs = X.drop(columns=list(dict.fromkeys(protected)))
    if not inputs.shape[1]:
        raise TableError(
            "The table has only protected columns: there is nothing to learn a standard from. Add columns."
        )
    groups, left_out = groups_of(attributes, favourable, reference)
    if not groups:
        raise TableError(f"No group can be compared. {' '.join(left_out)}")
    for g in groups:
        if clusters is not None and len(set(clusters[g.others])) < LEAST_CLUSTERS:
            raise TableError(
                f"cluster: the people that {g.attribute} = {g.value} is compared with are all in fewer than "
                f"{LEAST_CLUSTERS} clusters, which says too little. Check that the column names people or households."
            )
    with progress, single_threaded(), warnings.catch_warnings():
        of_whole = [place for place, group in enumerate(groups) if group.attribute == whole.name]
        progress.phase("the other groups' standard", len(groups) * (1 + 2 * explain) + len(of_whole), "steps")
        encoded = TwoModels.of(inputs)
        folds = folds_of(len(X), clusters, random_state)
        opinions = [(encoded, g.rows, g.others, folds, weight) for g in groups if explain]
        slicing = Slicing.of(inputs) if explain else Slicing.nothing(len(X))
        slicings, not_sliced = [slicing.of_group(group.rows) for group in groups], slicing.skipped
        del slicing  # as large as all of the groups' together
        if len(X) > LARGE:
            give_back_memory()
        standard = standard_of(standard, inputs, encoded)
        compared = side_by_side(n_jobs, Opinion.of, opinions, progress)
        null = OneStandard.of(encoded, [codes_of(a) for a in attributes], labels, weight, clusters)
        parts = [EVERYBODY] * len(groups)
        if draws and explain and isinstance(standard, TwoModels):
            parts = [opinion.part(clusters) for opinion in compared]
        work = Work(standard, encoded, groups, compared, weight, null, parts, slicings)
        # Where models of drawn labels learn from a part of the others, all of them also learn from the expected labels.
        both = np.array([labels, null.everybody])
        asked = [(place, both[:1] if part is EVERYBODY else both) for place, part in enumerate(parts)]
        recorded, probabilities, outcomes = zip(*side_by_side(n_jobs, work.shares, asked, progress), strict=True)
        warnings.simplefilter("ignore")  # an estimator that warns has done so by now; hundreds of fits follow
        by_columns = (standard, encoded, labels, weight, clusters)
        moves = side_by_side(
            n_jobs, column_moves, [(g.rows, g.others, *by_columns) for g in groups if explain], progress
        )
        moves = moves or [[] for _ in groups]
        if len(X) > LARGE:
            give_back_memory()
        by_folds = (encoded.inputs, labels, folds, weight)
        rows = [(g.rows, g.others, p) for g, p in zip(groups, probabilities, strict=True)]
        theirs = [(standard, *rows[place], *by_folds) for place in of_whole]
        suspected = side_by_side(n_jobs, suspects, theirs, progress)
        # The draws come last: Ctrl-C ends them and keeps everything else.
        drawn, interrupted = draw(work, null, draws, n_jobs, random_state, seconds, progress)
        drawn = side_by_side(n_jobs, work.as_by_all, [(k, d, recorded[k][:, -1]) for k, d in enumerate(drawn)])
        found = [
            figures(work, null, place, recorded[place][:, 0], drawn[place], labels, random_state)
            for place in range(len(groups))
        ]
        slices = _slices(work, null, found, probabilities, favourable, random_state)
    doubt, suspect = np.full(len(X), np.nan), np.full(len(X), np.nan)
    for place, each in zip(of_whole, suspected, strict=True):
        suspect[groups[place].rows] = each
    comparisons = []
    of_all = [each[FIRST] for each in found]
    for place, (p, at_once) in enumerate(zip(p_values(of_all), bounds(of_all), strict=True)):
        group, own = groups[place], favourable[groups[place].rows]
        doubts = np.where(own, 1 - probabilities[place], probabilities[place])
        if group.attribute == whole.name:
            doubt[group.rows] = doubts
        figure, opinion = found[place][FIRST], found[place][SECOND]
        interval = figure.interval
        if explain and interval and opinion.interval and disagree(figure, opinion):  # it covers what both say
            interval = min(interval[0], opinion.interval[0]), max(interval[1], opinion.interval[1])
            at_once = at_once and (min(at_once[0], interval[0]), max(at_once[1], interval[1]))
        others_share = float(np.average(labels[group.others], weights=None if weight is None else weight[group.others]))
        strong = strongest(moves[place], inputs.shape[1], figure.difference)
        comparisons.append(
            GroupStandard(
                attribute=group.attribute,
                group=group.value,
                rows=len(group.rows),
                recorded=figure.recorded,
                expected=figure.recorded + figure.difference,
                difference=figure.difference,
                centre=figure.centre,
                interval=interval,
                bounds=at_once,
                error=figure.error if len(figure.draws) > 1 else None,
                p=None if p is None else p[0],
                p_adjusted=None if p is None else p[1],
                raw_gap=others_share - figure.recorded,
                explained=others_share - figure.recorded - figure.difference,
                reference=group.reference,
                effective_rows=None if weight is None else _effective(weight[group.rows]),
                strongest_column=strong and strong[0],
                strongest_move=strong and strong[1],
                missing_values=missing_values(inputs, group),
                draws=len(figure.draws),
                doubts=tuple(int(count) for count in np.histogram(doubts[~own], BINS)[0]),
                **(_opinion(work, place, found[place], outcomes[place], labels, null) if explain else {}),
            )
        )
    return Standards(
        attribute=whole.name,
        adverse=names[0],
        favourable=names[1],
        model=work.standard.name,
        comparisons=tuple(comparisons),
        left_out=tuple(left_out),
        groups=whole.values,
        is_favourable=favourable,
        doubt=doubt,
        suspect=suspect,
        index=X.index,
        draws=drawn[0].shape[1],
        moves=tuple(ColumnMove(g.attribute, g.value, *m) for g, each in zip(groups, moves, strict=True) for m in each),
        parts=slices,
        not_sliced=not_sliced,
        clusters=None if clusters is None else int(clusters.max()) + 1,
        cluster=clusters,
        weight=weight,
        correlation=null.correlation,
        interrupted=interrupted,
    )


def _slices(
    work: Work,
    null: OneStandard,
    found: list[list[Drawn]],
    probabilities: Sequence[Floats],
    favourable: Mask,
    random_state: int,
) -> tuple[Slice, ...]:
    """The slices of all groups, in order; none without draws."""
    tables = len(found[0][FIRST].draws)
    return in_order(
        slices_of(
            group,
            work.slicings[place],
            found[place][FIRST],
            found[place][SLICES:],
            probabilities[place],
            favourable[group.rows],
            work.weights(place),
            null.uniforms_of(group.rows, random_state, tables),
        )
        for place, group in enumerate(work.groups)
        if tables > 1 and work.slicings[place].names
    )


def _opinion(
    work: Work, place: int, found: list[Drawn], outcomes: Floats, labels: Floats, null: OneStandard
) -> dict[str, Any]:
    """Overlap, the second opinion, and the robustness value of one group."""
    opinion, near, second = work.opinions[place], found[NEAR], found[SECOND]
    apart = opinion.poor and bool(opinion.comparable.any())
    return {
        "overlap": Overlap(
            comparable=int(opinion.comparable.sum()),
            others=len(opinion.others),
            effective_others=opinion.effective_others,
            poor=opinion.poor,
            difference=near.difference if apart else None,
            interval=near.interval if apart else None,
        ),
        "second_opinion": SecondOpinion(second.difference, second.interval, disagree(found[FIRST], second)),
        "robustness_value": opinion.robustness_value(found[FIRST].difference, outcomes, null.own, labels),
    }


def _effective(weight: Floats) -> float:
    """How many rows of equal weight say as much."""
    return float(weight.sum() ** 2 / (weight**2).sum())
