"""What a comparison of groups is told. Groups, clusters and weights stand beside the rows and are
handed over with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from butfor.support.checks import check_random_state, check_whole
from butfor.support.cores import check_n_jobs
from butfor.support.settings import declared


class ComparisonOptions(TypedDict, total=False):
    """The settings that an audit and a comparison of their own both take as arguments; what they
    mean is declared in `ComparisonSettings`."""

    reference: Any
    draws: int | None


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings:
    """The settings of a comparison, checked when they are made. A further one is declared here and
    read where it is used; the command's options are made from these declarations."""

    reference: Any = field(
        default=None,
        metadata=declared(
            "The group to compare with: white, or race=white,sex=m. Default: all other groups.",
            several=True,
            group="Question",
            recorded=True,
        ),
    )
    """A group, several, or a group by attribute."""
    draws: int | None = field(
        default=None,
        metadata=declared(
            "Tables to draw under one standard for all, for intervals and p. Default: 99, up to "
            "999 while a p is close to 0.05.",
            kind=int,
            group="Question",
        ),
    )
    """0 draws none: there are no intervals then."""
    standard: Any = field(
        default=None,
        metadata=declared(
            "Your own classifier as the standard, package.module:name. Default: the mean of two."
        ),
    )
    """A classifier; None for the mean of a logistic regression and a gradient boosting."""
    n_jobs: int | None = field(
        default=-1, metadata=declared("Threads. Default: one per core.", kind=int)
    )
    random_state: int = field(
        default=0, metadata=declared("Seed of the draws.", kind=int, recorded=True)
    )
    seconds: float | None = None
    """After these many seconds no more tables are drawn."""
    explain: bool = True
    """Whether to compute columns, overlap, slices and the second opinion."""

    def __post_init__(self) -> None:
        check_n_jobs(self.n_jobs)
        check_random_state(self.random_state)
        if self.draws is not None:
            check_whole("draws", self.draws, 0)

    @property
    def undrawn(self) -> ComparisonSettings:
        """The same without drawn tables."""
        return replace(self, draws=0)
