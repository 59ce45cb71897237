"""The order in which to review labels.

Where an adverse label is named, adverse labels are reviewed, those first that are most likely wrong (`Standards.wrong`);
ties, and with them all labels of groups that do not fall short, go by doubt. Else labels of either kind are, by doubt
alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.learn.decision_split import decides_one
from butfor.learn.protocols import Floats, Model, Table
from butfor.rank import Ranking, Scores, as_ranking, summed_scores
from butfor.result.labels import MOST_RECORDED, LabelValue
from butfor.result.record import plain
from butfor.run.fitted import Fitted
from butfor.standard.groups import Standards


def review_order(fitted: Fitted, standards: Standards) -> NDArray[np.int64]:
    """The positions of the labels that may be reviewed, in order."""
    known = ~np.isnan(standards.doubt)
    if fitted.adverse is None:
        order = np.argsort(-standards.doubt, kind="stable")
    else:
        known &= fitted.table.zero_one == fitted.adverse
        order = np.lexsort((-standards.doubt, -np.nan_to_num(standards.wrong)))
    return order[known[order]]


def labels_to_review(fitted: Fitted, standards: Standards) -> tuple[LabelValue, ...]:
    """The first of them, without those that were reviewed already."""
    left = [int(at) for at in review_order(fitted, standards) if int(at) not in fitted.answered][:MOST_RECORDED]
    return tuple(
        LabelValue(
            position=at,
            row=plain(fitted.table.X.index[at]),
            group=plain(fitted.sensitive.values[at]),
            label=fitted.label_names[fitted.table.codes[at]],
            doubt=round(float(standards.doubt[at]), 4),
            wrong=None if fitted.adverse is None else round(float(standards.wrong[at]), 4),
        )
        for at in left
    )


def labels_frame(fitted: Fitted, standards: Standards, people: Mapping[int, int]) -> pd.DataFrame:
    """One row per training row: its label and group, its doubt, how likely it is wrong, its rank among those to review,
    and in how many people's flip sets it is."""
    order = review_order(fitted, standards)
    rank = pd.array([pd.NA] * fitted.table.n, dtype="Int64")
    rank[order] = range(1, len(order) + 1)
    columns = {
        "label": [fitted.label_names[label] for label in fitted.table.codes],
        "group": fitted.sensitive.values,
        "doubt": standards.doubt.round(4),
        "wrong": np.nan if fitted.adverse is None else standards.wrong.round(4),
        "rank": rank,
        "people": [people.get(at, 0) for at in range(fitted.table.n)],
    }
    return pd.DataFrame(columns, index=fitted.table.X.index)


# --- effects ------------------------------------------------------------------------------------------

BY_KNOWLEDGE = ("gradient", "influence", "leaves", "distance")
"""Rankings by how much they know of a model; the last one ranks for all."""
DOUBTFUL = 2
"""The power of doubt in a value."""
NEAR = 0.5
"""How fast people count less: at this share of their median distance from the boundary, 1/e."""


@dataclass(frozen=True, eq=False)
class Values:
    """Of all training labels. `doubt`, `effect` and `value [n]`; `order`: the positions of those that may be reviewed,
    the most valuable first; `wrong [n]`: how likely each is wrong, if the group's shortfall is spread evenly over its
    favourable labels, None where no adverse label is named."""

    doubt: Scores
    effect: Scores
    value: Scores
    order: NDArray[np.int64]
    wrong: Scores | None


def best_ranking(model: Model) -> Ranking:
    """The ranking that knows most of the model."""
    return next(ranking for ranking in map(as_ranking, BY_KNOWLEDGE) if ranking.ranks(model))


def combine(standards: Standards, table: Table, effect: Scores, adverse: int | None) -> Values:
    """Doubts and effects put together."""
    value = np.nan_to_num(standards.doubt**DOUBTFUL * effect)
    may = ~np.isnan(standards.doubt) & (adverse is None or table.zero_one == adverse)
    wrong = None if adverse is None else wrongness(standards)
    later = np.zeros(table.n) if wrong is None else ~np.isin(standards.groups.astype(str), _short(standards))
    order = np.lexsort((-np.nan_to_num(standards.doubt), -value, later))
    return Values(standards.doubt, effect, value, order[may[order]], wrong)


def wrongness(standards: Standards) -> Scores:
    """How likely each adverse label is wrong: 0 where the group does not fall short.

    If a share r of the labels that the others' standard would have made favourable became adverse, then of the adverse
    labels with doubt d a share d·r / (1 − d + d·r) did; r follows from the group's shortfall."""
    found = np.zeros(len(standards.doubt))
    for name in _short(standards):
        comparison = standards.of_group(name)
        assert comparison is not None
        ours = (standards.groups.astype(str) == name) & ~standards.is_favourable
        made = standards.doubt[ours] * comparison.difference / comparison.expected
        found[ours] = made / (1 - standards.doubt[ours] + made)
    return found


def _short(standards: Standards) -> list[str]:
    """The groups that fall short."""
    return [c.group for c in standards.comparisons if c.attribute == standards.attribute and c.missing]


def effects(
    model: Model,
    table: Table,
    row_groups: NDArray[np.object_],
    people: pd.DataFrame,
    groups: NDArray[np.object_],
    adverse: int | None,
    ranking: Ranking | None = None,
) -> Scores:
    """Per label, the mean change that flipping it makes to the logits of its group's people who are decided as it says,
    towards the other decision; 0 where it makes none, or one in the wrong direction. In one pass over all people."""
    ranking, logits = ranking or best_ranking(model), model.logits(people)
    found = np.zeros(table.n)
    for decision in (0, 1) if adverse is None else (adverse,):
        decided = np.isfinite(logits) & (decides_one(logits) == bool(decision))
        names = sorted(set(map(str, groups[decided])))
        if not names:
            continue
        weights = np.array([_nearness(logits[decided], groups[decided].astype(str) == name) for name in names])
        sums = summed_scores(ranking, model, table, people[decided], weights, 1 - 2 * decision)
        for name, total in zip(names, sums, strict=True):
            labels = (row_groups.astype(str) == name) & (table.zero_one == decision)
            found[labels] = np.maximum(0, total[labels])
    return found


def _nearness(logits: Floats, inside: NDArray[np.bool_]) -> Scores:
    """How much each of these people counts: less the further from the boundary."""
    margins = np.abs(logits).astype(np.float64)
    scale = max(NEAR * float(np.median(margins[inside])), 1e-9)
    weights = np.where(inside, np.exp((margins[inside].min() - margins) / scale), 0)
    return np.asarray(weights / weights.sum())
