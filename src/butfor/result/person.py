"""What was measured about one person: a record holds exactly this, and whatever follows from it is computed.

A new quantity is a field here; the schema of files is made from these classes. What cannot be is refused on the way in,
whether it comes from a file or from Python.
"""

from __future__ import annotations

from dataclasses import dataclass

from butfor.learn.decision_split import decides_one
from butfor.result.fresh import Collateral, FreshSeeds, check_counts

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

    def __post_init__(self) -> None:
        check_counts(self, "position")


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

    def __post_init__(self) -> None:
        check_counts(self, "attempts", "failed", "first_size")


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
    flippable: int
    """How many training labels ψ allows to flip for this person."""
    eligible: bool = True
    """Whether φ admits this person."""
    search: Search = Search()
    flip_set: tuple[Flip, ...] = ()
    counterfactual_logit: float | None = None
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
    turned_into: str | None = None
    """The decision after the flips, then."""
    pulls: dict[str, float] | None = None
    """How far each column pulls this person's logit, up or down, by the local linear model; None without one."""

    def __post_init__(self) -> None:
        check_counts(self, "case", "flippable", "without_flips", "at_least")
        positions = [flip.position for flip in self.flip_set]
        if len(set(positions)) < len(positions) or min(positions, default=0) < 0:
            raise ValueError("flip_set must hold training rows, each of them once")
        for one, other in (("counterfactual_logit", "flip_set"), ("new_label", "decision"), ("proof", "at_least")):
            if (getattr(self, one) is None) != (getattr(self, other) in (None, ())):
                raise ValueError(f"{one} must be there where {other} is, and only there")
        if self.counterfactual_logit is not None and decides_one(self.counterfactual_logit) == decides_one(self.logit):
            raise ValueError("counterfactual_logit must be on the other side of 0 than logit")
        if (self.turned_into is None) == bool(self.flip_set and self.decision is not None):
            raise ValueError("turned_into must be there where decision and flip_set are, and only there")
        if len(self.flip_set) > self.flippable:
            raise ValueError(f"flip_set must have at most {self.flippable} labels, those that may be flipped")
        if not self.eligible and (self.flip_set or self.search != Search() or self.proof):
            raise ValueError("eligible must be true where there is a search, a find or a proof")
        if self.flip_set and (self.at_least or 0) > len(self.flip_set):
            raise ValueError(f"at_least must be at most {len(self.flip_set)}, the labels that were found to do")
        if not self.flip_set and (self.fresh or self.collateral or self.minimal):
            raise ValueError("flip_set must not be empty where fresh, collateral or minimal speak of it")
