"""Decoys: labels that are hardly in doubt, mixed with those to review. A reviewer who changes one errs.

Two of three have the recorded label of the chosen label they belong to, the third has another, so that nobody gets all
decoys right by always giving the same label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

OTHER_LABEL = 3
"""One decoy in this many has another recorded label than its chosen label."""
UNDOUBTED = 0.1
"""Rows up to this doubt are drawn at random, so that decoys are not all extreme."""
LEAST_DOUBTED = 1 / 3
"""If these are too few, the least doubted rows of this share of their label follow."""


def choose_decoys(
    chosen: Sequence[int],
    may: NDArray[np.bool_],
    labels: NDArray[np.object_],
    groups: NDArray[np.object_],
    doubt: NDArray[np.float64],
    rng: np.random.Generator,
) -> list[int]:
    """Positions of decoys: one per chosen label from the rows that `may` be decoys, as long as there are any. It has
    the wanted label and the chosen one's group; if there is none, the wanted label; if there is none, the chosen
    label."""
    asked = [int(chosen[k]) for k in rng.permutation(len(chosen))]
    for name in set(labels):
        most = max(UNDOUBTED, np.nanquantile(doubt[labels == name], LEAST_DOUBTED))
        may = may & ((labels != name) | (doubt <= most))
    own = {at: str(labels[at]) for at in asked}
    wanted, names = dict(own), [name for name, _ in Counter(labels[may]).most_common()]
    for k, at in enumerate(asked[::OTHER_LABEL]):
        others = [name for name in names if name != own[at]]
        wanted[at] = others[k % len(others)] if others else own[at]
    left = np.flatnonzero(may)
    left = left[np.argsort(doubt[left], kind="stable")]
    found: dict[int, int] = {}
    for label_of, same_group in ((wanted, True), (wanted, False), (own, True), (own, False)):
        cells: dict[tuple[str, str], list[int]] = {}
        for at in asked:
            if at not in found:
                cells.setdefault((label_of[at], str(groups[at]) if same_group else ""), []).append(at)
        for (label, group), those in cells.items():
            alike = left[(labels[left] == label) & ((groups[left] == group) | (not same_group))]
            enough = max(len(those), np.sum(doubt[alike] <= UNDOUBTED))
            least = rng.permutation(alike[:enough])[: len(those)]
            found |= dict(zip(those, map(int, least), strict=False))
            left = left[~np.isin(left, least)]
    return list(found.values())
