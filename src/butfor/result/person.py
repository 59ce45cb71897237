"""What was measured about one person. A record holds exactly this; everything else is computed from it.

To record a new quantity, add a field here: files are decoded into these classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from butfor.result.fresh import Collateral, FreshSeeds

Cell = str | int | float | bool | None
"""A value of a table, as JSON knows it."""


@dataclass(frozen=True)
class Flip:
    """A training row whose label is flipped: position, name in the index, label before, values and, if groups were
    compared, the probability of the other label by the other groups' standard."""

    position: int
    row: Cell
    label: str
    values: dict[str, Cell]
    doubt: float | None = None


@dataclass(frozen=True, kw_only=True)
class Person:
    """The measurements of one person."""

    case: int | None
    """The person's position in the given table; None for a person given alone."""
    row: Cell
    """The person's name in the index; in the embedded sets, the position in the source file."""
    group: Cell
    values: dict[str, Cell]
    logit: float
    score: float | None = None
    """With a threshold: the probability of the favourable label or, without probabilities, the decision function."""
    cut: float | None = None
    """With a threshold: the lowest score with a favourable decision. The logit is measured from here."""
    flippable: int
    """The number of training labels that ψ allows to flip for this person."""
    eligible: bool = True
    """Whether φ admits this person."""
    left_out: str | None = None
    """Why φ does not: the "decision" is not the audited one, a "switch" of the protected attribute changes it, or the
    "rule" says so."""
    attempts: int = 0
    """Flip sets tried for this person, up to the success."""
    failed: int = 0
    """Attempts whose training failed or diverged."""
    complete: bool = True
    """False if the search was stopped before its strategy was through."""
    shared: bool = False
    """Found with a model that was trained for somebody else."""
    first_size: int = 0
    """Flips in the first set that worked, before it was shrunk."""
    closest_logit: float | None = None
    """The logit nearest to the other decision that any tried model gave."""
    course: tuple[tuple[int, float], ...] = ()
    """Per attempt: how many labels were flipped, and the person's logit."""
    flip_set: tuple[Flip, ...] = ()
    counterfactual_logit: float | None = None
    counterfactual_score: float | None = None
    counterfactual_cut: float | None = None
    """If places are limited, flips may move the score, the cut, or both."""
    minimal: bool = False
    """Whether no flip can be left out: every set with one flip fewer was trained and does not change the decision."""
    fresh: FreshSeeds | None = None
    """The find under fresh seeds; None if it was not tested, or if seeds change nothing."""
    without_flips: int | None = None
    """Without a find: how many fresh seeds change the decision on the unchanged data."""
    clearance: float | None = None
    """How far the flips move the members of an ensemble: their mean gain, in standard deviations of one member."""
    collateral: Collateral | None = None
    """The flips' effect on the other test people."""
    at_least: int | None = None
    """Proven, by `proof`: no allowed set of fewer labels changes the decision. Above `flippable`: no set does."""
    proof: str | None = None
    switch_changes: bool | None = None
    """Whether the decision changes when the protected attribute alone is switched; None if unknown."""
    decision: str | None = None
    """With more than two labels: the decision. The logit is the margin of another decision over it."""
    new_label: str | None = None
    """With more than two labels: the label that flips give."""
    new_decision: str | None = None
    """With more than two labels: the decision after the flips."""
    pulls: dict[str, float] | None = None
    """Each column's pull on this person's logit, by the local linear model; None without one."""
