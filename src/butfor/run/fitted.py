"""`Fitted`: an audit with a trained model. It never changes; every question is a function of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import clusters_in
from butfor.data.check import Concern
from butfor.data.labels import label_number
from butfor.data.sensitive import Sensitive
from butfor.decide import USUAL, DecisionFacts, decides_one, parse_threshold
from butfor.errors import SettingError, listed
from butfor.machine import check_random_state
from butfor.models.engines import check_engine, choose_engine
from butfor.models.ensemble import FRESH_FROM, at_cut_of, fresh_seeds, single_learner, unaudited
from butfor.models.learner import Engine, Floats, Learner, Model, Table
from butfor.progress import Progress
from butfor.rank import Ranking, as_ranking
from butfor.rules import Rule, as_phi, as_psi
from butfor.search import Strategy, as_strategy, budget_in_labels
from butfor.situation import Mask, Situation
from butfor.standard.compare import compare
from butfor.standard.groups import Standards
from butfor.standard.members import table_order
from butfor.validate import as_labels, as_table, like_training, numbered

DRAWS = 99
LOOKED_AT = 20
"""Training rows by which it is told whether logits are log-odds."""


@dataclass(frozen=True, eq=False)
class Settings:
    """The parameters of a `LabelAudit`; see its docstring."""

    model: Any = None
    encoder: Any = None
    members: int | None = None
    threshold: float | str = USUAL
    budget: float = 0.01
    rank: Any = None
    strategy: Any = None
    phi: Any = None
    psi: Any = "published"
    fresh_seeds: int = 59
    engine: Any = "auto"
    n_jobs: int | None = -1
    ledger: str | Path | None = None
    random_state: int = 0

    def check(self) -> None:
        """Raise an error about invalid settings before anything is trained."""
        if self.strategy is not None:
            as_strategy(self.strategy)
        if self.rank is not None:
            as_ranking(self.rank)
        if self.phi is not None:
            as_phi(self.phi)
        as_psi(self.psi)
        parse_threshold(self.threshold)
        budget_in_labels(self.budget, 2**62)
        check_engine(self.engine, self.n_jobs)
        check_random_state(self.random_state)
        limits = {"members": (1, FRESH_FROM), "fresh_seeds": (0, FRESH_FROM)}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
            if not (whole and least <= value <= most) and not (name == "members" and value is None):
                raise SettingError(f"{name}={value!r} must be a whole number from {least} to {most}.")


class Labelled(NamedTuple):
    """Labelled rows that the model was not trained on: labels by number, groups by name; clusters and weights where
    the training rows have them."""

    X: pd.DataFrame
    codes: NDArray[np.int64]
    groups: NDArray[np.object_]
    cluster: NDArray[np.object_] | None
    weight: NDArray[np.float64] | None
    steering: NDArray[np.int64]
    """Positions of the rows that decide when a network stops training."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """An audit whose model is trained.

    `adverse` is the side (0 or 1) that people would rather not be on, None if unknown; `sides` names both. The model is
    an ensemble of `members`; `seeded` says whether a seed changes it. `answered` and `corrected` are positions of
    labels that were reviewed and corrected."""

    settings: Settings
    table: Table
    learner: Learner
    model: Model
    sensitive: Sensitive
    label_names: tuple[str, ...]
    sides: tuple[str, str]
    adverse: int | None
    budget: int
    phi: Rule
    psi: Rule
    ranking: Ranking
    strategy: Strategy
    members: int
    seeded: bool
    fit_seconds: float
    training_decisions: NDArray[np.int64]
    training_logits: Floats
    concerns: tuple[Concern, ...]
    origin: dict[str, Any]
    data_hash: str
    reference: dict[str, str] = field(default_factory=dict)
    """By attribute the group that others are compared with; without one, with all others."""
    also_labelled: Labelled | None = None
    pool: pd.DataFrame | None = None
    """The rows that compete for places under a "top" threshold."""
    answered: frozenset[int] = frozenset()
    corrected: tuple[int, ...] = ()

    @property
    def classes(self) -> NDArray[Any]:
        return self.table.classes

    @property
    def seeds(self) -> list[int]:
        """The fresh seeds; none if seeds do not matter."""
        return fresh_seeds(self.learner, self.settings.fresh_seeds) if self.seeded else []

    @cached_property
    def doubt(self) -> NDArray[np.float64]:
        """Per training row, the probability of the other label by the standard of the other groups."""
        return self.compare(draws=0).doubt

    def decision_facts(self, decisions: NDArray[np.int64]) -> DecisionFacts | None:
        """Where the cut is, and how many of these decisions are favourable; None with more than two labels."""
        if self.table.multiclass:
            return None
        decision, pool, own = self.table.decision, self.pool, single_learner(self.learner)
        facts = DecisionFacts(
            given=decision.given,
            people=len(decisions),
            favoured=int((decisions == self.favourable).sum()),
            recorded=float((self.table.codes == self.favourable).mean()),
        )
        if not decision.has_cut:
            by_half = own.has_probabilities and not own.has_threshold
            return facts if by_half else replace(facts, given=None)
        at_cut = decision.score(at_cut_of(self.model), self.favourable)
        pool_logits = None if pool is None else self.model.logits(pool)
        return replace(
            facts,
            cut=True,
            probability=at_cut if decision.by_probability else None,
            share=parse_threshold(USUAL if decision.given is None else decision.given)[1],
            pool=0 if pool is None else len(pool),
            accepted=0 if pool_logits is None else int((decides_one(pool_logits) == self.favourable).sum()),
            ties=0 if decision.pool is None else int(decision.divide(unaudited(self.model).logits(decision.pool)).ties),
        )

    @cached_property
    def log_odds(self) -> bool:
        """Whether logits are log-odds, so that they can be shown as probabilities."""
        if self.table.multiclass or self.table.decision.has_cut:
            return not self.table.multiclass and self.table.decision.by_probability
        tells = self.model.members[0].gives_log_odds
        return tells is None or tells(self.table.X.iloc[:LOOKED_AT])

    @property
    def favourable(self) -> int:
        """The favourable of two labels, by number; without an adverse label, the second."""
        return 0 if self.adverse == 1 else 1

    def compare(self, draws: int = DRAWS, seconds: float | None = None, progress: Progress | None = None) -> Standards:
        """Compare each group with comparable people in other groups, on all labelled rows. Without an adverse label the
        first counts as adverse, which does not change the doubts. Without draws, only doubts and raw differences."""
        if draws or self.table.multiclass:
            self.require_adverse()
        adverse = self.adverse or 0
        return compare_labelled(
            self.table,
            self.sensitive,
            self.also_labelled,
            favourable=self.table.sides(np.arange(len(self.classes))) != bool(adverse),
            names=(self.sides[adverse], self.sides[1 - adverse]),
            reference=self.reference,
            draws=draws,
            n_jobs=self.settings.n_jobs,
            random_state=self.settings.random_state,
            seconds=seconds,
            progress=progress,
        )

    def require_adverse(self) -> None:
        if self.adverse is None:
            raise SettingError("Name the label that people would rather not have: fit(X, y, adverse=…).")

    def label_number(self, given: Any, option: str = "adverse") -> int:
        return label_number(given, self.label_names, self.classes, option)

    def chosen_engine(self, progress: Progress) -> Engine:
        return choose_engine(self.settings.engine, self.learner, self.settings.n_jobs, progress.note)

    def situation(self, people: pd.DataFrame, groups: NDArray[np.object_]) -> Situation:
        return Situation(
            model=self.model,
            table=self.table,
            people=people,
            sensitive=self.sensitive,
            groups=groups,
            label_names=self.label_names,
            training_decisions=self.training_decisions,
            doubts=lambda: self.doubt,
        )

    def people(
        self, X: Any, y: Any = None, sensitive_features: Any = None
    ) -> tuple[Situation, NDArray[np.int64] | None]:
        """The people of a table and their recorded labels by number, if known."""
        X = as_table(X)
        truth = None if y is None else numbered(self.table, as_labels(X, y), "these people")
        X = like_training(X, self.table.X)
        return self.situation(X, self.sensitive.of_people(X, sensitive_features)), truth

    def decide(self, X: Any) -> NDArray[np.int64]:
        """The decisions about the rows of X, by number."""
        people = like_training(as_table(X), self.table.X)
        return self.table.decided(self.model, people)

    def remarks(self, X: Any = None) -> list[str]:
        """Sentences about the protected attribute and about missing, unknown and rare values in the training rows and
        in X."""
        parts = [self.table.X, *([self.table.validation[0]] if self.table.validation else [])]
        rows = pd.concat([*parts, *([] if X is None else [like_training(as_table(X), self.table.X)])])
        if self.model.table_encoder is not None:
            return [*self.sensitive.remarks, *self.model.table_encoder.remarks(rows)]
        holes = rows.columns[rows.isna().any()]
        remark = [f"Missing values of {listed(holes)} go to {self.learner.name} unchanged."]
        return [*self.sensitive.remarks, *remark[: len(holes)]]


def compare_labelled(
    table: Table,
    sensitive: Sensitive,
    more: Labelled | None,
    *,
    favourable: Mask,
    draws: int,
    **how: Any,
) -> Standards:
    """Compare groups on all labelled rows, in the table's order. Doubts are those of the training rows and, if they
    took part, of the validation rows. `favourable [classes]`: which labels are favourable."""
    X, labels, training = table.X, favourable[table.codes], np.arange(table.n)
    cluster, weight, steering = table.cluster, table.weight, np.empty(0, np.int64)
    if more is not None:
        X = pd.concat([X, more.X])
        order = table_order(X)
        X.attrs = table.X.attrs
        X, labels = X.iloc[order], np.concatenate([labels, favourable[more.codes]])[order]
        values = np.concatenate([sensitive.values, more.groups])[order]
        sensitive = replace(sensitive, values=values, combinations=sensitive.combinations_of(X))
        cluster = None if cluster is None else np.concatenate([cluster, more.cluster])[order]
        weight = None if weight is None else np.concatenate([weight, more.weight])[order]
        places = np.argsort(order)
        training, steering = places[: table.n], places[table.n + more.steering]
    found = compare(
        X,
        labels,
        sensitive.each,
        draws=draws,
        cluster=None if cluster is None else clusters_in(cluster),
        weight=weight,
        explain=bool(draws),
        **how,
    )
    return replace(found.of_rows(training), validation=found.of_rows(steering) if len(steering) else None)
