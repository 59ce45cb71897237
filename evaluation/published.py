"""The published numbers, as data.

Kim, Mitchell, Wang: "Analyzing Fairness of Neural Network Prediction via Counterfactual Dataset
Generation", NLDL 2026 (PMLR 307), arXiv 2602.10457: the tables of the evaluation and of its
appendix. Rankings carry this package's names: "combined" is the paper's method, "chance" its random
sampling, "distance" its L2 baseline, "surrogate" and "activation" its ablations y_L and y_A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

SOURCE = (
    "Kim, Mitchell, Wang: Analyzing Fairness of Neural Network Prediction via Counterfactual "
    "Dataset Generation, NLDL 2026 (PMLR 307), arXiv 2602.10457"
)
HARDWARE = "Xeon W-2245, RTX A5000"

RANKS = ("combined", "chance", "distance", "surrogate", "activation")

TABLE = """
salary   10  8/9       3  3/1/3/3/1       3/1/3/3/1     0.35/0.31/0.32       0.35/0.31/0.32  0.04/0.00/0.01
student 121  23/197   24  20/13/10/18/15  9/1/3/8/5     4.19/4.35/4.52       0.32/0.31/0.32  0.07/0.02/0.03
german  182  48/267   38  38/17/15/38/34  20/4/0/20/18  2.33/2.56/2.62       0.16/0.15/0.16  0.08/0.02/0.04
compas  200  225/887   –  27/10/5         3/0/0         14.83/17.03/17.18    0.40/0.44/0.44  0.28/0.12/0.24
default 200  612/8219  –  18/5/8          1/1/1         133.82/134.34/122.55 0.80/0.76/0.73  2.91/1.52/4.32
bank    200  512/8951  –  24/9/11         4/3/2         123.53/143.85/142.38 0.73/0.79/0.82  3.22/1.72/5.04
adult   200  532/11505 –  44/15/15        7/3/4         195.81/206.90/206.32 0.96/0.79/1.00  5.73/3.26/9.35
"""
"""Data set, #φ, n_ψ, ground truth; then, in the order of RANKS, found and found at the first
attempt, seconds per person, per retraining and of overhead."""


@dataclass(frozen=True)
class Published:
    """One data set's row: counts and seconds by ranking."""

    eligible: int
    n_psi: tuple[int, int]
    ground_truth: int | None
    found: dict[str, int]
    one_shot: dict[str, int]
    per_person: dict[str, float]
    per_retraining: dict[str, float]
    overhead: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        return {
            "eligible": self.eligible,
            "n_psi": list(self.n_psi),
            "ground_truth": self.ground_truth,
            "found": named(self.found),
            "one_shot": named(self.one_shot),
        }


def named(by_rank: dict[str, Any]) -> dict[str, Any]:
    """The same under the names a reader of the paper expects: chance is its random sampling."""
    return {"random" if rank == "chance" else rank: value for rank, value in by_rank.items()}


def _row(eligible: str, n_psi: str, ground_truth: str, *by_rank: str) -> Published:
    low, high = (int(end) for end in n_psi.split("/"))
    found, one_shot = (
        {r: int(n) for r, n in zip(RANKS, cell.split("/"), strict=False)} for cell in by_rank[:2]
    )
    seconds = [
        {r: float(n) for r, n in zip(RANKS, cell.split("/"), strict=False)} for cell in by_rank[2:]
    ]
    truth = None if ground_truth == "–" else int(ground_truth)
    return Published(int(eligible), (low, high), truth, found, one_shot, *seconds)


PUBLISHED = {name: _row(*cells) for name, *cells in map(str.split, TABLE.strip().splitlines())}
