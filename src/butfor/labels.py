"""The order in which to review labels.

With an adverse label, adverse labels are reviewed: first those of the groups under review, then the
others, each in the order of `Standards.order`. Without one, all labels are, by doubt.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.fit import Fitted
from butfor.result.record import plain
from butfor.result.reviewed import MOST_RECORDED_LABELS, TrainingLabel, under_review
from butfor.standard.groups import Standards


def review_order(fitted: Fitted, standards: Standards) -> NDArray[np.int64]:
    """The positions of the labels that may be reviewed, in order."""
    if fitted.adverse is None:
        order = np.argsort(-standards.doubt, kind="stable")
        return order[~np.isnan(standards.doubt[order])]
    comparable = ~(np.isnan(standards.wrong) & np.isnan(standards.wrong_if_real))
    reviewed = comparable & (fitted.table.zero_one == fitted.adverse)
    order = standards.order[reviewed[standards.order]]
    first = list(under_review(standards, standards.attribute))
    under = np.isin(standards.groups[order].astype(str), first)
    return np.concatenate([order[under], order[~under]])


def labels_to_review(fitted: Fitted, standards: Standards) -> tuple[TrainingLabel, ...]:
    """The first labels of that order, without those reviewed already."""
    left = [at for at in review_order(fitted, standards).tolist() if at not in fitted.answered][
        :MOST_RECORDED_LABELS
    ]
    frame = labels_frame(fitted, standards, {}).iloc[left]
    columns = [frame[name] for name in ("group", "label", "doubt", "wrong", "wrong_if_real")]
    return tuple(
        TrainingLabel(*map(plain, row)) for row in zip(left, frame.index, *columns, strict=True)
    )


def labels_frame(fitted: Fitted, standards: Standards, people: Mapping[int, int]) -> pd.DataFrame:
    """One row per training row: label, group, doubt, probability of being wrong (of called groups)
    and of being wrong if the gap is real (of the others), rank in a review, and the number of
    people whose flip set includes it."""
    order = review_order(fitted, standards)
    rank = pd.array([pd.NA] * fitted.table.n, dtype="Int64")
    rank[order] = range(1, len(order) + 1)
    columns = {
        "label": [fitted.label_names[label] for label in fitted.table.codes],
        "group": fitted.sensitive.values,
        "doubt": standards.doubt.round(4),
        "wrong": np.nan if fitted.adverse is None else standards.wrong.round(4),
        "wrong_if_real": np.nan if fitted.adverse is None else standards.wrong_if_real.round(4),
        "rank": rank,
        "people": [people.get(at, 0) for at in range(fitted.table.n)],
    }
    return pd.DataFrame(columns, index=fitted.table.X.index)
