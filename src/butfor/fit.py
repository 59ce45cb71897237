"""Turns parameters and a table into a trained audit: `Fitted`, which never changes; every question is a function of
it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import or_
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import ASIDE, clusters_in
from butfor.data.check import Concern, concerns_of
from butfor.data.dates import as_numbers
from butfor.data.labels import label_names, label_number
from butfor.data.sensitive import Cuts, Sensitive
from butfor.decide import USUAL, Decision, DecisionFacts, decides_one, parse_threshold
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.machine import check_random_state, check_whole
from butfor.models.engines import check_engine, choose_engine, fit_ensemble, own_fit_engine
from butfor.models.ensemble import (
    FRESH_FROM,
    Ensemble,
    at_cut_of,
    audited,
    fresh_seeds,
    member_seeds,
    single_learner,
    unaudited,
)
from butfor.models.estimators import preprocesses
from butfor.models.learner import BIAS, Engine, Floats, Learner, MakesLearner, Model, Table
from butfor.models.learners import (
    as_learner,
    decision_of,
    default_model,
    few_threads,
    first_model,
    seed_matters,
    seed_note,
)
from butfor.progress import Progress
from butfor.prove import provable
from butfor.provenance import data_hash
from butfor.rank import Ranking, as_ranking, refuse_unaccepted
from butfor.result.verdict import AFTER, BEFORE, DOUBT
from butfor.rules import Mask, Rule, Situation, as_phi, as_psi, predicted, stable_under_switch
from butfor.search import Strategy, as_strategy, budget_in_labels
from butfor.standard.compare import compare
from butfor.standard.groups import Standards
from butfor.standard.members import references_of, table_order
from butfor.validate import (
    as_clusters,
    as_labels,
    as_table,
    as_weights,
    labelled,
    like_training,
    numbered,
    training_table,
)

DRAWS = 99
LOOKED_AT = 20
"""Training rows by which it is told whether logits are log-odds."""


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

    `adverse` is the side (0 or 1) that people would rather not be on, None if unknown; `sides` names the labels of
    both. The model is an ensemble of `members`; `seeded` says whether a seed changes it. `answered` and `corrected` are
    positions of labels that were reviewed and corrected."""

    params: SimpleNamespace
    """The parameters of the `LabelAudit`."""
    table: Table
    learner: Learner
    model: Model
    sensitive: Sensitive
    label_names: tuple[str, ...]
    sides: tuple[tuple[str, ...], tuple[str, ...]]
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
        return fresh_seeds(self.learner, self.params.fresh_seeds) if self.seeded else []

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
        """Compare each group with comparable people in other groups, on all labelled rows; doubts are those
        of the training rows and, if they took part, of the validation rows. Without an adverse label the first counts
        as adverse, which does not change the doubts. Without draws, only doubts and raw differences."""
        if draws or self.table.multiclass:
            self.require_adverse()
        table, sensitive, more, adverse = self.table, self.sensitive, self.also_labelled, self.adverse or 0
        favourable = table.sides(np.arange(len(self.classes))) != bool(adverse)
        X, labels, training, steering = table.X, favourable[table.codes], np.arange(table.n), np.empty(0, np.int64)
        cluster, weight = table.cluster, table.weight
        if more is not None:  # all labelled rows, in the table's order
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
            sides=(self.sides[adverse], self.sides[1 - adverse]),
            reference=self.reference,
            n_jobs=self.params.n_jobs,
            random_state=self.params.random_state,
            seconds=seconds,
            progress=progress,
        )
        return replace(found.of_rows(training), validation=found.of_rows(steering) if len(steering) else None)

    @property
    def adverse_names(self) -> tuple[str, ...]:
        """The labels that people would rather not have."""
        return () if self.adverse is None else self.sides[self.adverse]

    def require_adverse(self) -> None:
        if self.adverse is None:
            raise SettingError("Name the label that people would rather not have: fit(X, y, adverse=…).")

    def label_number(self, given: Any, option: str = "adverse") -> int:
        return label_number(given, self.label_names, self.classes, option)

    def chosen_engine(self, progress: Progress) -> Engine:
        return choose_engine(self.params.engine, self.learner, self.params.n_jobs, progress.note)

    def people(
        self, X: Any, y: Any = None, sensitive_features: Any = None
    ) -> tuple[Situation, NDArray[np.int64] | None]:
        """The people of a table and their recorded labels by number, if known."""
        X = as_table(X)
        truth = None if y is None else numbered(self.table, as_labels(X, y), "these people")
        X = like_training(X, self.table.X)
        people = Situation(
            model=self.model,
            table=self.table,
            people=X,
            sensitive=self.sensitive,
            groups=self.sensitive.of_people(X, sensitive_features),
            label_names=self.label_names,
            training_decisions=self.training_decisions,
            doubts=lambda: self.doubt,
        )
        return people, truth

    def decide(self, X: Any) -> NDArray[np.int64]:
        """The decisions about the rows of X, by number."""
        people = like_training(as_table(X), self.table.X)
        return self.table.decided(self.model, people)

    def remarks(self, X: Any = None) -> list[str]:
        """Sentences about the protected attribute and about missing, unknown and rare values in the training rows and
        in X."""
        parts = [self.table.X, *([self.table.validation[0]] if self.table.validation else [])]
        rows = pd.concat(
            [*parts, *([] if X is None else [like_training(as_table(X), self.table.X)])], ignore_index=True
        )
        if self.model.table_encoder is not None:
            return [*self.sensitive.remarks, *self.model.table_encoder.remarks(rows)]
        holes = rows.columns[rows.isna().any()]
        remark = [f"Missing values of {listed(holes)} go to {self.learner.name} unchanged."]
        return [*self.sensitive.remarks, *remark[: len(holes)]]


def check(params: SimpleNamespace) -> None:
    """Raise an error about invalid parameters before anything is trained."""
    if params.strategy is not None:
        as_strategy(params.strategy)
    if params.rank is not None:
        as_ranking(params.rank)
    if params.phi is not None:
        as_phi(params.phi)
    as_psi(params.psi)
    parse_threshold(params.threshold)
    budget_in_labels(params.budget, 2**62)
    check_engine(params.engine, params.n_jobs)
    check_random_state(params.random_state)
    check_whole("fresh_seeds", params.fresh_seeds, 0, FRESH_FROM)
    if params.members is not None:
        check_whole("members", params.members, 1, FRESH_FROM)


def fit(
    params: SimpleNamespace,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sensitive_bands: Cuts | None = None,
    sample_weight: Any = None,
    cluster: Any = None,
    validation: tuple[Any, Any] | None = None,
    adverse: Any = None,
    reference: Any = None,
    also_labelled: Sequence[Any] = (),
    pool: Any = None,
    label_names: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Check the table, train the model, choose the search."""
    check(params)
    progress, notes = progress or Progress(), list[str]()
    beside = (sensitive_features, sample_weight, cluster)
    X, y, (sensitive_features, sample_weight, cluster) = labelled(X, y, *beside, note=notes.append)
    given = default_model(len(X)) if params.model is None else params.model
    whole, X = X, _without_dates(X, given, params.encoder, notes)
    X, clusters = as_clusters(X, cluster)
    X.attrs[ASIDE] = tuple(column for column in whole.columns if column not in X.columns)
    taken = [name for name in (BEFORE, AFTER, DOUBT, BIAS) if name in X.columns]
    if taken:
        raise TableError(f"Column {listed(taken)} has a name that results use themselves; rename it.")
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    references = references_of(reference, sensitive.each)
    weights = as_weights(X, sample_weight, sensitive)
    with progress:
        progress.phase("checking the table")
        for line in notes:
            progress.note(line)
        concerns = note_concerns(concerns_of(X, y, sensitive), progress)
        learner = as_learner(given, params.encoder, params.random_state)
        table, kept = training_table(learner, X, y, validation, weights, clusters, progress.note)
        names = _names(table, y, label_names)
        favours, sides, side = _sides(names, table.classes, adverse)
        budget = budget_in_labels(params.budget, table.n)
        competing = pool if pool is not None else also_labelled[0] if len(also_labelled) else None
        competing = None if competing is None else like_training(as_table(competing), table.X)
        table = replace(table, decision=decision_of(params.threshold, learner, table, side, competing))
        trained = _trained(params, learner, table, favours, progress)
        if trained["seeded"] and (note := seed_note(given, params.random_state)):
            progress.note(note)
    phi = params.phi
    if phi is None:  # the published one, with an adverse label only for people who get it
        phi = stable_under_switch()
        if side is not None:
            phi &= reduce(or_, (predicted(names[k]) for k in np.flatnonzero(favours == bool(side))))
    return Fitted(
        params=params,
        sensitive=replace(sensitive, values=sensitive.values[kept]),
        label_names=names,
        sides=sides,
        adverse=side,
        budget=budget,
        phi=as_phi(phi),
        psi=as_psi(params.psi),
        concerns=tuple(concerns),
        origin=dict(X.attrs.get("origin") or {"table": None}),
        data_hash=data_hash(trained["table"]),
        reference=references,
        also_labelled=labelled_rows(table, sensitive, also_labelled, progress.note),
        pool=competing,
        **trained,
    )


def _trained(
    params: SimpleNamespace, learner: Learner, table: Table, favours: Mask, progress: Progress
) -> dict[str, Any]:
    """The model with its number of members and the seconds of one training, its decisions and logits on the training
    rows, and its search: fields of `Fitted`. With more than two labels, `favours` are those that count as 1."""
    if isinstance(learner, Ensemble):
        raise SettingError(f"{learner.name} is an ensemble already: give its learner, and members={learner.members}.")
    progress.phase("training the model")
    with few_threads(table):
        model, seconds = first_model(learner, table)
        seeded = seed_matters(learner, table, model)
    if params.members is not None and params.members > 1 and not seeded:
        raise SettingError(
            f"members={params.members}: seeds do not change {learner.name} here, so all members would be the "
            "same model; leave members out."
        )
    # A model with proofs gets one member, since the proofs do not hold for a mean.
    usual = 1 if not seeded or provable(model) else learner.usual_members(table.n, seconds)
    members = usual if params.members is None else int(params.members)
    if members > 1:
        learner, started = Ensemble(learner, members), time.perf_counter()
        progress.phase("the other members", members - 1)
        trains = own_fit_engine(params.engine, params.n_jobs)
        model = fit_ensemble(learner, model, table, trains, progress.advance)
        seconds = min(seconds, (time.perf_counter() - started) / (members - 1))  # the first one may include imports
    if table.multiclass:
        answers = table.answers(model, table.X)
        decisions = table.decisions(answers)
        table = table.with_decision(Decision.between(favours, table.codes, answers.reshape(table.n, -1)))
        model, logits = audited(model, table), table.margins(answers)
    else:
        model = audited(model, table)
        logits = model.logits(table.X)
        decisions = decides_one(logits).astype(np.int64)
    if not np.isfinite(logits).all():
        raise LearnerError(
            f"The training of {learner.name} diverged: its scores are infinite or not numbers. Scale the table's "
            "numbers, or lower the learning rate."
        )
    return {
        "table": table,
        "learner": learner,
        "model": model,
        "members": members,
        "seeded": seeded,
        "fit_seconds": seconds,
        "training_decisions": decisions,
        "training_logits": logits,
        **_search(params, learner, model),
    }


def _search(params: SimpleNamespace, learner: Learner, model: Model) -> dict[str, Any]:
    """The strategy and the ranking; an error if the ranking does not accept the model."""
    members = len(member_seeds(learner))
    strategy = as_strategy(params.strategy or ("solid" if members > 1 else "guided"))
    strategy.check(members)
    if params.rank is None:
        return {"strategy": strategy, "ranking": strategy.ranking(model)}
    ranking = as_ranking(params.rank, params.random_state)
    refuse_unaccepted(ranking, model, learner.name)
    return {"strategy": strategy, "ranking": ranking}


def _without_dates(X: pd.DataFrame, model: Any, encoder: Any, notes: list[str]) -> pd.DataFrame:
    """The table with dates and decimals as numbers, unless the model does its own preprocessing."""
    raw = isinstance(model, Learner) or isinstance(encoder, str) or not hasattr(model, "get_params")
    raw = raw or isinstance(model, type)  # refused later, with a sentence
    if raw or (encoder is None and not isinstance(model, MakesLearner) and preprocesses(model)):
        return X.copy(deep=False)
    return as_numbers(X, X.columns, notes.append)


def labelled_rows(
    table: Table,
    sensitive: Sensitive,
    given: Sequence[Any],
    note: Callable[[str], None] = lambda line: None,
) -> Labelled | None:
    """More labelled rows: those set aside; those `given` as (X, y, protected attribute, clusters, weights), of which
    the last three may be left out; and the validation rows, unless they are among these or something about them stands
    beside the table."""
    parts: list[Labelled] = []
    steering = np.empty(0, np.int64)

    def add(X: pd.DataFrame, y: pd.Series, groups: Any = None, cluster: Any = None, weight: Any = None) -> None:
        codes = numbered(table, y, "also_labelled")
        parts.append(Labelled(X, codes, sensitive.of_people(X, groups), cluster, weight, steering))

    if table.whole is not None:
        X, y, _, aside, weight, cluster = table.whole
        beside = (sensitive.values if sensitive.blind else None, cluster, weight)
        add(X.iloc[aside], y.iloc[aside], *(None if each is None else each[aside] for each in beside))
        steering = np.arange(len(aside))
    if len(given):
        beside = (*given[2:], None, None, None)[:3]
        X, y, (groups, cluster, weight) = labelled(*given[:2], *beside, note=note, what="labels of also_labelled")
        column = [name for name in table.X.attrs.get(ASIDE, ()) if name in X.columns]
        X, cluster = as_clusters(X, column[0] if column else cluster)
        for name, own, theirs in (("cluster", table.cluster, cluster), ("sample_weight", table.weight, weight)):
            if own is not None and theirs is None:
                raise SettingError(
                    f"The training rows have {name}, so also_labelled needs it too: (X, y, sensitive_features, "
                    "cluster, sample_weight), with None for what there is not."
                )
        add(like_training(X, table.X), y, groups, cluster, as_weights(X, weight))
    if table.validation is not None and table.whole is None:
        X, y = table.validation
        places = [] if not parts else _places_of(X, table.validation_codes, parts[0])
        if places:
            steering = places[0]
        elif not sensitive.blind and table.weight is None and table.cluster is None:
            add(X, y)
            parts, steering = parts[::-1], np.arange(len(X))
    if not parts:
        return None

    def joined(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    cluster = None if table.cluster is None else joined("cluster")
    weight = None if table.weight is None else joined("weight")
    return Labelled(pd.concat([part.X for part in parts]), joined("codes"), joined("groups"), cluster, weight, steering)


def _places_of(X: pd.DataFrame, codes: NDArray[np.int64], part: Labelled) -> list[NDArray[np.int64]]:
    """Where these rows are among others: the first or last of them, or those of the same index, if they are equal."""
    first, index = np.arange(len(X)), part.X.index
    tried = [first, first + len(part.X) - len(X), *([index.get_indexer(X.index)] if index.is_unique else [])]
    inside = [at for at in tried if len(X) <= len(part.X) and (at >= 0).all()]
    return [at for at in inside if part.X.iloc[at].equals(X) and np.array_equal(part.codes[at], codes)]


def with_params(fitted: Fitted, **changed: Any) -> Fitted:
    """The same model with other parameters of the search or run."""
    params = SimpleNamespace(**vars(fitted.params) | changed)
    check(params)
    phi = fitted.phi if params.phi is None else as_phi(params.phi)
    return replace(
        fitted, params=params, phi=phi, psi=as_psi(params.psi), **_search(params, fitted.learner, fitted.model)
    )


def with_labels(
    fitted: Fitted, positions: Sequence[int], labels: Sequence[int], given: str, progress: Progress | None = None
) -> Fitted:
    """The same audit with these corrected labels, by number, and its model trained again. `given`: how the table came
    about."""
    progress, table = progress or Progress(), fitted.table.with_labels(positions, labels)
    favours = fitted.table.sides(np.arange(len(fitted.classes)))
    again = SimpleNamespace(**vars(fitted.params) | {"members": fitted.members})
    with progress:
        trained = _trained(again, single_learner(fitted.learner), table, favours, progress)
    return replace(
        fitted,
        origin={"table": None, "given": given},
        data_hash=data_hash(trained["table"]),
        corrected=tuple(sorted({*fitted.corrected, *positions})),
        **trained,
    )


def _names(table: Table, y: pd.Series, given: Sequence[str] | None) -> tuple[str, ...]:
    """The labels' names: as given, as the data set names them, or their values, which follow the column's name if they
    are booleans."""
    known = dict(enumerate(y.attrs.get("label_names", ())))
    coded = [known[c] for c in table.classes] if set(table.classes) <= set(known) else None
    column = y.name if table.classes.dtype == bool else None
    names = tuple(map(str, given or coded or label_names(table.classes, column)))
    if len(names) != len(table.classes):
        raise SettingError(f"label_names has {len(names)} names for {len(table.classes)} labels.")
    return names


def _sides(
    names: tuple[str, ...], classes: NDArray[Any], adverse: Any
) -> tuple[Mask, tuple[tuple[str, ...], tuple[str, ...]], int | None]:
    """Which labels count as 1 (the second of two; of more, those that are not adverse or, if none is named, all but the
    first), the names of the two sides, and which side is adverse."""
    given = list(adverse) if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]
    found = [] if adverse is None else sorted({label_number(each, names, classes) for each in given})
    texts = np.array(names, dtype=object)
    if len(found) == len(names):
        raise SettingError(f"adverse names all labels ({listed(names)}); leave out the favourable ones.")
    ours = np.isin(np.arange(len(names)), found if found and len(names) > 2 else [0])
    side = None if not found else found[0] if len(names) == 2 else 0
    return ~ours, (tuple(texts[ours]), tuple(texts[~ours])), side


def note_concerns(concerns: list[Concern], progress: Progress) -> list[Concern]:
    for concern in concerns:
        progress.note(f"Note: {concern}")
    return concerns
