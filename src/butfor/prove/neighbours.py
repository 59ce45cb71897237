"""k nearest neighbours: only the neighbours' labels count, and each flip moves as much weight as its row has.

The person's neighbours do not depend on any label. The decision is class 1 where the neighbours labelled 1 outweigh the
others (Jia, Liu, Cao, Gong: *Certified Robustness of Nearest Neighbors against Data Poisoning and Backdoor Attacks*,
AAAI 2022, count votes in the same way). Turning a label moves the difference by twice its weight; the heaviest that may
be flipped first is the fewest.
"""

from __future__ import annotations

import numpy as np

from butfor.prove.bracket import Bracket
from butfor.rules import Allowed
from butfor.situation import Situation

HOW = "votes of the neighbours"
SLACK = 1e-9


def brackets(situation: Situation, psi: Allowed) -> list[Bracket]:
    neighbours, weights = situation.model.neighbours(situation.people)
    labels = situation.table.zero_one[neighbours]
    return [_one(*each) for each in zip(situation.predictions, neighbours, weights, labels, psi, strict=True)]


def _one(decided: int, rows: np.ndarray, weights: np.ndarray, labels: np.ndarray, allowed: np.ndarray) -> Bracket:
    lead = float(weights @ np.where(labels == decided, 1.0, -1.0))
    own = [k for k in np.argsort(-weights, kind="stable") if labels[k] == decided and allowed[rows[k]]]
    left = lead
    for count, k in enumerate(own, start=1):
        left -= 2 * weights[k]
        # A tie goes to class 0, the first of the two.
        turned = left < -SLACK if decided == 0 else left <= SLACK
        if turned:
            clear = left < -SLACK or (decided == 1 and abs(left) <= SLACK)
            return Bracket(count, HOW, tuple(sorted(int(rows[j]) for j in own[:count])) if clear else None)
        if abs(left) <= SLACK and decided == 0 and not float(weights.sum()).is_integer():
            return Bracket(count, HOW)  # too close to call by weights that were rounded
    return Bracket(int(allowed.sum()) + 1, HOW)
