"""Compare a group's labels with those that comparable people of other groups get.

The difference of a group is the share of favourable labels that people of other groups with the
same columns get, less the group's own share. The same is computed on tables whose labels are drawn
by one standard for everybody: their mean is the method's bias, which is subtracted, and their
spread its error.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import pandas as pd

from butfor.standard.explain import (
    ColumnMove,
    Slicing,
    column_moves,
    slices_of,
    strongest,
)
from butfor.standard.groups import (
    BINS,
    GroupStandard,
    LeftOut,
    Overlap,
    SecondOpinion,
    Standards,
)
from butfor.standard.inputs import Floats, Mask, Rows
from butfor.standard.model import OwnModel, Records, TwoModels
from butfor.standard.null import (
    BY_AIPW,
    BY_OTHERS,
    MIN_ROWS,
    CommonStandard,
    DrawnTables,
    Group,
    Means,
    Verdict,
    at_once,
    effective_rows_of,
    is_close,
)
from butfor.standard.order import OwnOrder, columns_by_name
from butfor.standard.second_opinion import (
    EVERYBODY,
    Opinion,
    Part,
    folds_of,
)
from butfor.standard.settings import ComparisonOptions, ComparisonSettings
from butfor.standard.wrong import suspects
from butfor.support.cores import check_n_jobs
from butfor.support.errors import (
    SettingError,
    Stopped,
    TableError,
    listed,
    nearest,
)
from butfor.support.progress import Progress, shown
from butfor.support.settings import signature_with
from butfor.support.stopping import Stop, listen
from butfor.support.threads import in_threads, single_threaded
from butfor.table.checking import concerns_of, undermining, weight_concerns
from butfor.table.columns import as_numbers, clusters_in, spelled
from butfor.table.groups import Cuts, Sensitive
from butfor.table.handed_over import as_clusters, as_weights, labelled
from butfor.table.labels import label_names, label_numbers, label_values
from butfor.table.notation import refuse_unread
from butfor.table.roles import Roles

MIN_CLUSTERS = 10
"""With fewer, nobody can say how far clusters differ by chance."""
FIRST_DRAWS = 99
"""Tables drawn at first."""
MORE_DRAWS = 100
"""Tables drawn more each time a p is close to the line."""
MOST_DRAWS = 999
"""Tables drawn at most."""
TABLES_AT_ONCE = (5, 25)
"""At least and at most this many drawn tables are fitted side by side; the same on any number of
cores, since figures depend on it."""
CELLS_AT_ONCE = 400_000
"""Learned rows of all tables that are fitted side by side."""
PREDICTIONS_AT_ONCE = 4_000_000
"""Predicted rows of these tables."""


@signature_with(ComparisonOptions, ComparisonSettings)
def compare_standards(
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    adverse: Any,
    cluster: Any = None,
    standard: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = -1,
    random_state: int = 0,
    sensitive_bands: Cuts | None = None,
    progress: Progress | bool | None = None,
    **comparison: Unpack[ComparisonOptions],
) -> Standards:
    """Compare each group's labels with those of comparable people in other groups.

    Parameters
    ----------
    X : table
        The recorded columns, one row per decision: pandas, polars or pyarrow.
    y : array
        The labels.
    sensitive_features : str, list of str or array
        The protected column of X, several of them, or a value per row. Of several, each is
        compared, and their combinations too.
    adverse : label or list of labels
        What people would rather not get.
    reference : group, list of groups or dict, optional
        The group to compare with, instead of all others; of several attributes, one group each. A
        value that several attributes have needs its attribute: {"black": "no", "married": "yes"}.
    cluster : str or array, optional
        A column, or a value per row: rows with the same value are decisions about one person,
        advert or household.
    standard : classifier, optional
        Any with `predict_proba`; it gets numbers, with text one-hot. None: the mean of a logistic
        regression and a gradient boosting.
    draws : int, optional
        Tables drawn under one standard for everybody, for intervals and p-values. None draws 99 and
        goes on, up to 999, while an adjusted p is so close to 0.05 that other draws may put it on
        the other side.
    sample_weight : array, optional
        One weight per row.
    progress : Progress or bool, optional
        Shows progress: by default in a terminal or notebook, never with False.

    Returns
    -------
    Standards
        `by_group`, `columns` and `slices` are frames, `to_frame()` has one row per label, `answer`
        is one sentence.

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
    settings = ComparisonSettings(
        **comparison, standard=standard, n_jobs=n_jobs, random_state=random_state
    )
    progress = shown(progress)
    roles = Roles.of_user(X, y)
    beside = (sensitive_features, cluster, sample_weight)
    X, y, (sensitive_features, cluster, sample_weight) = labelled(X, y, *beside, note=progress.note)
    X, cluster = as_clusters(X, cluster)
    classes = label_values(y.to_numpy(), twice=False)
    named = label_names(classes, y.name, roles.label_names)
    bad = label_numbers(adverse, named, classes)
    good = [number for number in range(len(named)) if number not in bad]
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands, roles.dates)
    weight = as_weights(X, sample_weight, sensitive)
    concerns = [*concerns_of(X, y, sensitive), *weight_concerns(weight, sensitive)]
    found = compare(
        X,
        ~y.isin(classes[bad]).to_numpy(),
        sensitive.each,
        settings,
        sides=(tuple(named[k] for k in bad), tuple(named[k] for k in good)),
        cluster=cluster,
        weight=weight,
        dates=roles.dates,
        progress=progress,
    )
    return replace(found, proxies=tuple(map(str, concerns)), undermined=undermining(concerns))


def compare(
    X: pd.DataFrame,
    favourable: Mask,
    attributes: Sequence[Sensitive],
    settings: ComparisonSettings,
    *,
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    cluster: Any = None,
    weight: Floats | None = None,
    dates: Collection[Hashable] = (),
    progress: Progress | None = None,
) -> Standards:
    """As `compare_standards`, of a checked table; rows belong to the groups of the last attribute.
    `dates` are columns of days since 1970-01-01.

    The comparison puts the rows in an order of its own, so that its figures do not hang on the
    table's."""
    progress = progress or Progress()
    whole = attributes[-1]
    rows = in_own_order(X, favourable, attributes, cluster, weight, dates, progress.note)
    found = _compare_in_order(rows, settings, sides, progress)
    order = rows.order
    return replace(
        found,
        doubt=order.shared(found.doubt)[order.places],
        suspect=order.shared(found.suspect)[order.places],
        groups=whole.values,
        is_favourable=favourable,
        index=X.index,
        places=order.places,
        cluster=None if found.cluster is None else found.cluster[order.places],
        weight=None if found.weight is None else found.weight[order.places],
    )


@dataclass(frozen=True, eq=False)
class OrderedRows:
    """Labelled rows in the comparison's own order, and that order."""

    order: OwnOrder
    inputs: pd.DataFrame
    """The columns that a standard learns from, by name."""
    dates: tuple[Hashable, ...]
    """Those that hold dates as days."""
    favourable: Mask
    attributes: list[Sensitive]
    cluster: Rows | None
    """Numbered from 0, in this order."""
    weight: Floats | None
    """1 on average: only ratios matter, and penalties would count for less where weights are large.
    """


def in_own_order(
    X: pd.DataFrame,
    favourable: Mask,
    attributes: Sequence[Sensitive],
    cluster: Any,
    weight: Floats | None,
    dates: Collection[Hashable],
    note: Callable[[str], None],
) -> OrderedRows:
    """The rows of a checked table as a comparison sees them: without protected columns, dates and
    decimals as numbers, in its own order."""
    protected = {column for attribute in attributes for column in attribute.columns}
    inputs = columns_by_name(X[[column for column in X.columns if column not in protected]])
    if not inputs.shape[1]:
        raise TableError(
            "The table has only protected columns: there is nothing to learn a standard from. Add "
            "columns."
        )
    inputs, turned = as_numbers(inputs, inputs.columns, note)
    weights = np.ones(len(X)) if weight is None else weight
    order = OwnOrder.of(inputs, attributes[-1].values, cluster, weights, favourable)
    rows = order.rows
    ordered = inputs.iloc[rows].reset_index(drop=True)
    return OrderedRows(
        order,
        ordered,
        (*dates, *turned),
        favourable[rows],
        [replace(attribute, values=attribute.values[rows]) for attribute in attributes],
        None if cluster is None else clusters_in(np.asarray(cluster, object)[rows]),
        None if weight is None else weight[rows] / weight[rows].mean(),
    )


def _compare_in_order(
    rows: OrderedRows,
    settings: ComparisonSettings,
    sides: tuple[tuple[str, ...], tuple[str, ...]],
    progress: Progress,
) -> Standards:
    """The comparison of rows that stand in its own order."""
    standard = settings.standard
    draws = settings.draws
    explain = settings.explain
    jobs = check_n_jobs(settings.n_jobs)
    inputs = rows.inputs
    favourable = rows.favourable
    cluster = rows.cluster
    weight = rows.weight
    weights = np.ones(len(inputs)) if weight is None else weight
    whole = rows.attributes[-1]
    labels = favourable.astype(np.float64)
    refuse_unread(inputs)
    groups, left_out = groups_of(rows.attributes, favourable, weight, settings)
    for group in groups:
        if cluster is not None and len(set(cluster[group.others])) < MIN_CLUSTERS:
            raise TableError(
                f"cluster: the people that {group.attribute} = {group.value} is compared with are "
                f"all in fewer than {MIN_CLUSTERS} clusters, which says too little. Check that "
                "the column names people or households."
            )

    def shares(group: Group, tables: Floats | Mask, part: Part) -> tuple[Floats, Floats, Floats]:
        """With these labels `[tables × all rows]`: the group's shares by the standard of a part of
        the others, `[shares × tables]`; of the first table its rows' probabilities, and the
        outcomes that AIPW expects."""
        learn = group.others[part.rows]
        learned_labels = tables[:, learn].astype(np.float64)
        learned_weights = weights[learn]
        if part.taken is not None:
            # Rows that are taken rarely stand for more; the noise of their labels is smaller, so
            # that models move as far as by all rows.
            expected = common.everybody[learn]
            learned_labels = expected + np.sqrt(part.taken) * (learned_labels - expected)
            learned_weights = learned_weights / part.taken
        by_table = records.model.predict(learn, group.rows, learned_labels, learned_weights)
        means = group.means.of_tables(by_table)
        by_row = by_table[0].copy()
        if group.opinion is None:
            return np.vstack([means, np.full(len(tables), np.nan)]), by_row, np.empty(0)
        aipw, outcomes = group.opinion.shares(learned_labels, learned_weights, part)
        return np.vstack([means, aipw]), by_row, outcomes[0]

    def read_labels(group: Group) -> None:
        """The group's labels beside the others' standard and the second opinion."""
        if explain:
            group.opinion = Opinion(records, group.rows, group.others)
            if draws != 0 and standard is None:
                group.part = group.opinion.part()
        group.means = Means(slicing.names, slicing.places[group.rows], weights[group.rows])
        # Where models of drawn labels learn from a part of the others, what is left of the centre
        # is how models of all others read the expected labels: labels without noise.
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

    def draw(tables: range) -> list[DrawnTables]:
        """What tables whose labels are drawn by one standard say about each group."""
        with single_threaded():
            uniforms = np.array([common.uniforms(table) for table in tables])
            labels = uniforms < common.everybody
            drawn = []
            for number, group in enumerate(groups):
                expected = shares(group, labels, group.part)[0] + group.apart
                drawn.append(group.drawn(tables, expected, uniforms[:, group.rows], common, number))
            return drawn

    with progress, single_threaded(), warnings.catch_warnings():
        progress.phase("the other groups' standard", 2 * len(groups), "steps")
        encoded = TwoModels.of(inputs)
        folds = folds_of(len(inputs), cluster, settings.random_state)
        model = encoded if standard is None else OwnModel(standard, encoded.inputs)
        records = Records(encoded, model, labels, weights, cluster, folds)
        values = [attribute.values.astype(str) for attribute in rows.attributes]
        codes = [np.unique(each, return_inverse=True)[1].astype(np.int64) for each in values]
        common = CommonStandard(records, codes, settings.random_state)
        slicing = Slicing(inputs if explain else inputs.iloc[:, :0], rows.dates)
        list(in_threads(read_labels, groups, jobs, progress.advance))
        # An estimator that warns has done so by now; hundreds of fits follow.
        warnings.simplefilter("ignore")
        moves = list(in_threads(explain_gap, groups, jobs, progress.advance))

        # The draws come last: Ctrl-C ends them and keeps everything else, a time limit lets the
        # first ones finish.
        learned = max(len(group.others[group.part.rows]) for group in groups)
        predicted = max(len(group.rows) for group in groups)
        fitting = min(CELLS_AT_ONCE // learned, PREDICTIONS_AT_ONCE // predicted)
        size = int(np.clip(fitting, *TABLES_AT_ONCE))
        drawn = [[_no_tables(group, common)] for group in groups]
        begin = 0
        with listen(Stop(settings.seconds)) as flag, suppress(Stopped):
            for end in block_ends(draws):
                progress.phase("tables drawn by one standard", end - begin, "tables")
                runs = [range(k, min(k + size, end)) for k in range(begin, end, size)]
                with closing(in_threads(draw, runs, jobs)) as done:
                    for tables, some in zip(runs, done, strict=True):
                        for parts, part in zip(drawn, some, strict=True):
                            parts.append(part)
                        progress.advance(len(tables))
                        flag.check()
                begin = end
                if draws is None:
                    for group, parts in zip(groups, drawn, strict=True):
                        group.measure(DrawnTables.joined(parts), common)
                    adjusted = [verdict.p_adjusted for verdict in at_once(groups)]
                    if not any(p is not None and is_close(p, end) for p in adjusted):
                        break
        for group, parts in zip(groups, drawn, strict=True):
            group.measure(DrawnTables.joined(parts), common)
        slices = slices_of(groups, common)

    doubt = np.full(len(inputs), np.nan)
    suspect = np.full(len(inputs), np.nan)
    comparisons = []
    for group, own_moves, verdict in zip(groups, moves, at_once(groups), strict=True):
        if group.attribute == whole.name:
            doubt[group.rows] = _doubts(group, labels)
            suspect[group.rows] = group.suspect
        comparisons.append(_figures(group, own_moves, verdict, common, weight is not None))
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
        index=inputs.index,
        places=np.arange(len(inputs)),
        draws=comparisons[0].draws,
        moves=tuple(itertools.chain(*moves)),
        parts=slices,
        not_sliced=tuple(slicing.skipped),
        clusters=None if cluster is None else int(cluster.max()) + 1,
        cluster=cluster,
        weight=weight,
        correlation=common.correlation,
        interrupted=flag.interrupted,
        cut_short=groups[0].draws.shape[1] < least_draws(draws),
    )


def _doubts(group: Group, labels: Floats) -> Floats:
    """The probability of the label that each of the group's rows does not have, by the others'
    standard."""
    favoured = labels[group.rows] == 1
    return np.where(favoured, 1 - group.probabilities, group.probabilities)


def _figures(
    group: Group,
    moves: Sequence[ColumnMove],
    verdict: Verdict,
    common: CommonStandard,
    weighted: bool,
) -> GroupStandard:
    """What was measured of one group, as users get it."""
    labels = common.records.labels
    weights = common.records.weight
    opinion = group.opinion
    recorded = float(group.recorded[BY_OTHERS])
    difference = float(group.difference[BY_OTHERS])
    raw_gap = float(np.average(labels[group.others], weights=weights[group.others])) - recorded
    interval = verdict.interval
    bounds = verdict.bounds
    overlap = None
    second = None
    robustness = None
    if opinion is not None:
        robustness = opinion.robustness_value(difference, group.outcomes, common.own)
        second = SecondOpinion(
            float(group.difference[BY_AIPW]), group.interval(BY_AIPW), group.disagrees
        )
        overlap = overlap_of(opinion)
        if second.disagrees and interval and bounds and second.interval:
            # The interval covers what both say.
            low = min(interval[0], second.interval[0])
            high = max(interval[1], second.interval[1])
            interval = (low, high)
            bounds = (min(bounds[0], low), max(bounds[1], high))
    mover = strongest(moves, difference)
    adverse_doubts = _doubts(group, labels)[labels[group.rows] != 1]
    return GroupStandard(
        attribute=group.attribute,
        group=group.value,
        rows=len(group.rows),
        recorded=recorded,
        expected=recorded + difference,
        difference=difference,
        centre=float(group.centre[BY_OTHERS]),
        interval=interval,
        bounds=bounds,
        error=float(group.error[BY_OTHERS]) if interval else None,
        p=verdict.p,
        p_adjusted=verdict.p_adjusted,
        raw_gap=raw_gap,
        explained=raw_gap - difference,
        reference=group.reference,
        effective_rows=effective_rows_of(weights[group.rows]) if weighted else None,
        overlap=overlap,
        second_opinion=second,
        robustness_value=robustness,
        strongest_column=mover.column if mover else None,
        strongest_move=mover.move if mover else None,
        doubts=tuple(np.histogram(adverse_doubts, BINS)[0].tolist()),
        draws=group.draws.shape[1],
    )


def block_ends(draws: int | None) -> list[int]:
    """How many tables are drawn after each block of them, as many blocks as `draws` (or, if None,
    the most) asks for. Blocks end at the same numbers whatever was asked, so that a comparison that
    went on until 299 and one that was told to draw 299 are equal: tables are fitted side by side,
    and figures depend on which."""
    most = MOST_DRAWS if draws is None else draws
    return [*range(FIRST_DRAWS, most, MORE_DRAWS), most] if most else []


def least_draws(draws: int | None) -> int:
    """How many tables a comparison draws at least, unless it is stopped."""
    return FIRST_DRAWS if draws is None else draws


def _no_tables(group: Group, common: CommonStandard) -> DrawnTables:
    """What is drawn before anything is drawn, so that a comparison without tables has figures
    too."""
    nothing = np.empty((len(group.by_others), 0))
    return DrawnTables(nothing, nothing[0], np.empty((len(nothing), 0, group.redraws(common))))


def overlap_of(opinion: Opinion) -> Overlap:
    """How far a group's others resemble it."""
    comparable = int(opinion.comparable.sum())
    return Overlap(comparable, len(opinion.others), opinion.effective_others, opinion.poor)


def overlaps(
    X: pd.DataFrame,
    favourable: Mask,
    attributes: Sequence[Sensitive],
    *,
    cluster: Any = None,
    weight: Floats | None = None,
) -> dict[Group, Overlap]:
    """The overlap of each group with all others as `compare` computes it, and nothing else of a
    comparison."""
    rows = in_own_order(X, favourable, attributes, cluster, weight, (), lambda line: None)
    weights = np.ones(len(X)) if rows.weight is None else rows.weight
    settings = ComparisonSettings()
    groups, _ = groups_of(rows.attributes, rows.favourable, rows.weight, settings)
    encoded = TwoModels.of(rows.inputs)
    folds = folds_of(len(X), rows.cluster, settings.random_state)
    labels = rows.favourable.astype(np.float64)
    records = Records(encoded, encoded, labels, weights, rows.cluster, folds)
    with single_threaded():
        return {group: overlap_of(Opinion(records, group.rows, group.others)) for group in groups}


# --- who is compared with whom --------------------------------------------------------------------


def groups_of(
    attributes: Sequence[Sensitive],
    favourable: Mask,
    weight: Floats | None,
    settings: ComparisonSettings,
) -> tuple[list[Group], list[LeftOut]]:
    """The groups that can be compared, and those that cannot."""
    references = references_of(settings.reference, attributes)
    groups = list[Group]()
    left_out = list[LeftOut]()
    for attribute in attributes:
        name = attribute.name
        values = attribute.values.astype(str)
        compared_with = references.get(attribute.name)
        distinct = sorted(set(values.tolist()))
        if len(distinct) == 1:
            raise SettingError(
                f"'{name}' has only one value, '{distinct[0]}': there is nobody to compare with."
            )
        if all(len(set(favourable[values == value])) == 1 for value in distinct):
            raise TableError(
                f"'{name}' determines every label: it is the label, or made from it. Name another "
                "attribute."
            )
        for value in distinct:
            rows = np.flatnonzero(values == value)
            others = np.flatnonzero(values == compared_with)
            if compared_with is None:
                others = np.flatnonzero(values != value)
            left = None
            rows_count = None if weight is None else effective_rows_of(weight[rows])
            others_count = None if weight is None else effective_rows_of(weight[others])
            if (len(rows) if rows_count is None else rows_count) < MIN_ROWS:
                left = LeftOut(name, value, "rows", len(rows), rows_count)
            elif (len(others) if others_count is None else others_count) < MIN_ROWS:
                left = LeftOut(name, value, "others", len(others), others_count)
            elif len(set(favourable[others])) == 1:
                left = LeftOut(name, value, "alike", len(others))
            if value == compared_with:  # it is its own others here
                if left:
                    raise TableError(
                        f"The reference group {name} = {value} cannot be used: "
                        f"{left.why(others='')}."
                    )
            elif left:
                left_out.append(left)
            else:
                # A combination that is all of a group, beside the same others, says what the group
                # would.
                new = Group(name, value, rows, others, compared_with)
                groups = [group for group in groups if not new.repeats(group)]
                groups.append(new)
    if not groups:
        raise TableError(
            f"No group can be compared. {' '.join(each.sentence for each in left_out)}"
        )
    return groups, left_out


def references_of(given: Any, attributes: Sequence[Sensitive]) -> dict[str, str]:
    """Attribute to reference group. `given`: a group, several, or a mapping from attribute to
    group. Combinations are compared with the combination of all attributes' references."""
    by_spelling: dict[str, dict[str, str]] = {}
    """For each attribute its groups, by how they are compared."""
    for sensitive in attributes:
        names = sorted(set(map(str, sensitive.values)))
        by_spelling[sensitive.name] = {spelled(name): name for name in names}
    pairs: list[tuple[Any, Any]] = []
    if isinstance(given, Mapping):
        pairs = list(given.items())
    elif isinstance(given, (list, tuple, set)):
        pairs = [(None, group) for group in given]
    elif given is not None:
        pairs = [(None, given)]
    references: dict[str, str] = {}
    for attribute, group in pairs:
        if attribute is not None and str(attribute) not in by_spelling:
            raise SettingError(
                f"reference: there is no attribute '{attribute}'. "
                f"{nearest(attribute, by_spelling, 'The attributes are')}"
            )
        possible = list(by_spelling) if attribute is None else [str(attribute)]
        names = [name for name in possible if spelled(group) in by_spelling[name]]
        if not names:
            where = "there is" if attribute is None else f"'{attribute}' has"
            groups = sorted(set().union(*(by_spelling[name].values() for name in possible)))
            raise SettingError(
                f"reference: {where} no group '{group}'. {nearest(group, groups, 'The groups are')}"
            )
        if len(names) > 1:
            raise SettingError(
                f"reference: '{group}' is a group of {listed(names)}; say of which: "
                f"reference={{'{names[0]}': '{group}'}}."
            )
        name = names[0]
        reference = by_spelling[name][spelled(group)]
        if references.setdefault(name, reference) != reference:
            raise SettingError(
                f"reference names '{references[name]}' and '{reference}', both groups of "
                f"'{name}'; name one of them."
            )
    whole = attributes[-1].name
    single = [attribute.name for attribute in attributes[:-1]]
    if single and whole not in references and all(name in references for name in single):
        joint = Sensitive.JOINT.join(references[name] for name in single)
        if joint in by_spelling[whole].values():
            references[whole] = joint
    return references
