"""What was measured about one person: a record holds exactly this, and whatever follows from it is computed.

A new quantity is a field here; files are decoded into these classes.
"""

from __future__ import annotations

from dataclasses import dataclass

from butfor.result.fresh import Collateral, FreshSeeds

Cell = str | int | float | bool | None
"""A value of a table, as JSON knows it."""


@dataclass(frozen=True)
class Flip:
    """A training row whose label is flipped: its position among them, its index label, its label before, its values;
    and the probability of the other label by the other groups' standard, where standards were compared."""

    position: int
    row: Cell
    label: str
    values: dict[str, Cell]
    doubt: float | None = None


@dataclass(frozen=True)
class Search:
    """How the search for one person went."""

    attempts: int = 0
    """Flip sets tried for this person, up to the success."""
    failed: int = 0
    """Attempts whose training failed or diverged."""
    complete: bool = True
    """False where the search was stopped before its strategy was through."""
    shared: bool = False
    """Found with a model that was trained for somebody else."""
    first_size: int = 0
    """Flips in the first set that worked, before it was shrunk."""
    closest_logit: float | None = None
    """The logit nearest to the other decision that any tried model gave."""
    course: tuple[tuple[int, float], ...] = ()
    """Per attempt: how many labels were flipped, and the person's logit."""


@dataclass(frozen=True, kw_only=True)
class Person:
    """The measurements of one person."""

    case: int | None
    """The person's position in the table that was asked about; None for a person given alone."""
    row: Cell
    """The person's index label, for the published sets its position in the source file."""
    group: Cell
    values: dict[str, Cell]
    logit: float
    score: float | None = None
    """With a threshold: the probability of the favourable label or, of a model without probabilities, the decision
    function towards it."""
    cut: float | None = None
    """The score from which on the decision is favourable, then: the logit is measured from there."""
    flippable: int
    """How many training labels ψ allows to flip for this person."""
    eligible: bool = True
    """Whether φ admits this person."""
    search: Search = Search()
    flip_set: tuple[Flip, ...] = ()
    counterfactual_logit: float | None = None
    counterfactual_score: float | None = None
    counterfactual_cut: float | None = None
    """Where places are limited the flips may move the score, the cut, or both."""
    minimal: bool = False
    """No single flip can be left out: every set with one flip fewer was trained and does not turn the decision."""
    fresh: FreshSeeds | None = None
    """How the find stands under fresh seeds; None where that was not asked for or makes no sense."""
    without_flips: int | None = None
    """Fresh seeds that decide otherwise on the unchanged data, of a person without a find."""
    clearance: float | None = None
    """How far the flips turn the members of an ensemble: their mean gain in standard deviations of one member."""
    collateral: Collateral | None = None
    """What the flips do to the other people of the test table."""
    at_least: int | None = None
    """No allowed set of fewer labels turns the decision: proven, by `proof`. Beyond `flippable`: none does at all."""
    proof: str | None = None
    switch_changes: bool | None = None
    """Whether the decision changes when the protected attribute alone is switched; None where the model is blind to it
    or that was not asked."""
    decision: str | None = None
    """With more than two labels, the one decided: the logit is the margin of another decision over it."""
    new_label: str | None = None
    """The label that the flips give, then."""
    new_decision: str | None = None
    """The decision after the flips, then."""
    pulls: dict[str, float] | None = None
    """How far each column pulls this person's logit, up or down, by the local linear model; None without one."""
