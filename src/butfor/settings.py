"""What an audit is told: the parameters of `LabelAudit`, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from butfor.support.settings import declared

MOST_LABELS = 2**62
"""More than any table has: without a table a count of labels is only checked for what it is."""
MODELS = (
    "mlp, logistic, ridge, linear, kernel-ridge, knn, forest, boosting, steady, lightgbm, "
    "xgboost; or your own, package.module:name. Default: mlp; for your own file without PyTorch, "
    "boosting."
)
ENGINES = (
    "auto, fused, stacked, linear, boosting, joblib; a device (cuda); processes on this machine "
    "(local:4); a Dask cluster (tcp://scheduler:8786)."
)
PHI = (
    "Who is audited: stable_under_switch, in_group, predicted, everyone. Default: "
    "stable_under_switch; with --adverse also predicted."
)
PSI = (
    "Which labels may be flipped: published, same_group, labelled_as_predicted, "
    "correctly_predicted, doubted, everything."
)


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditSettings:
    """The settings of an audit; the docstring of `LabelAudit` says what they mean in Python. The
    sentences are those of the command's options: of those with a group, and of `--set`."""

    model: Any = field(default=None, metadata=declared(MODELS, group="Model"))
    encoder: Any = None
    members: int | None = field(
        default=None,
        metadata=declared(
            "Number of models whose mean decides. Default: 16; 8 if training is slow.",
            kind=int,
            group="Model",
        ),
    )
    engine: Any = field(default="auto", metadata=declared(ENGINES, group="Model"))
    random_state: int = field(
        default=0, metadata=declared("Seed of the model and the search.", kind=int, group="Model")
    )
    budget: float = field(
        default=0.01,
        metadata=declared(
            "Most labels to flip: a share (0.1%) or a count (3). Default: 1%; 0.1% with --members "
            "1.",
            group="Question",
        ),
    )
    threshold: float | str = field(
        default=0.5,
        metadata=declared(
            "Probability from which people are accepted, or 'top 20%'.", group="Question"
        ),
    )
    phi: Any = field(default=None, metadata=declared(PHI, group="Question"))
    psi: Any = field(default="published", metadata=declared(PSI, group="Question"))
    fresh_seeds: int = field(
        default=59,
        metadata=declared(
            "Number of new seeds under which each find is tested.", kind=int, group="Question"
        ),
    )
    n_jobs: int | None = field(
        default=-1,
        metadata=declared("Models trained at a time on the CPU. Default: one per core.", kind=int),
    )
    ledger: str | Path | None = field(
        default=None,
        metadata=declared("A file that remembers trainings, to go on after a stop.", kind=Path),
    )
    rank: Any = field(
        default=None, metadata=declared("Which labels to flip first. Default: the strategy's own.")
    )
    strategy: Any = field(
        default=None,
        metadata=declared("How to search. Default: solid for an ensemble, guided for one model."),
    )

    def __post_init__(self) -> None:
        """Copy masks, which the user may change later, and raise an error about what cannot be
        before anything is trained."""
        from butfor.models.engines import check_engine
        from butfor.models.ensemble import FRESH_FROM
        from butfor.search.rankings import as_ranking
        from butfor.search.rules import as_rule
        from butfor.search.strategies import as_strategy, budget_in_labels
        from butfor.support.checks import check_random_state, check_whole
        from butfor.table.columns import own
        from butfor.table.decisions import parse_threshold

        for each in fields(self):
            object.__setattr__(self, each.name, own(getattr(self, each.name)))
        if self.strategy is not None:
            as_strategy(self.strategy)
        if self.rank is not None:
            as_ranking(self.rank)
        if self.phi is not None:
            as_rule(self.phi, "phi")
        as_rule(self.psi, "psi")
        parse_threshold(self.threshold)
        budget_in_labels(self.budget, MOST_LABELS)
        check_engine(self.engine, self.n_jobs)
        check_random_state(self.random_state)
        check_whole("fresh_seeds", self.fresh_seeds, 0, FRESH_FROM)
        if self.members is not None:
            check_whole("members", self.members, 1, FRESH_FROM)

    @classmethod
    def of(cls, audit: Any) -> AuditSettings:
        """The present settings of a `LabelAudit`."""
        return cls(**{each.name: getattr(audit, each.name) for each in fields(cls)})
