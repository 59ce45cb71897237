"""Turns parameters and a table into a trained audit: `Fitted`, which never changes; every question
is a function of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models import ensemble
from butfor.models.abilities import LogOdds
from butfor.models.by_name import default_model
from butfor.models.engines import fit_ensemble
from butfor.models.first_fit import first_model
from butfor.models.making import as_learner, seed_note
from butfor.models.seam import (
    BIAS,
    Learner,
    MakesLearner,
    Model,
)
from butfor.models.steps import preprocesses
from butfor.models.threshold import decision_of
from butfor.models.validation_rows import training_table
from butfor.result.verdict import AFTER, BEFORE, DOUBT
from butfor.search.proofs import provable
from butfor.search.rankings import NAMES, Ranking, as_ranking
from butfor.search.rankings.mix import RankingMix
from butfor.search.rules import (
    Mask,
    Rule,
    Situation,
    as_rule,
    predicted,
    stable_under_switch,
)
from butfor.search.strategies import Strategy, as_strategy, budget_in_labels
from butfor.settings import AuditSettings
from butfor.standard.compare import compare, references_of
from butfor.standard.groups import Standards
from butfor.standard.settings import ComparisonSettings
from butfor.support.errors import (
    LearnerError,
    SettingError,
    TableError,
    brief,
    listed,
)
from butfor.support.progress import Progress
from butfor.table import handed_over
from butfor.table.checking import (
    Concern,
    concerns_of,
    undermining,
    weight_concerns,
)
from butfor.table.columns import (
    as_numbers,
    as_table,
)
from butfor.table.decisions import (
    Decision,
    DecisionFacts,
    decides_one,
)
from butfor.table.groups import Cuts, Sensitive
from butfor.table.hashes import data_hash
from butfor.table.labels import label_names as usual_names
from butfor.table.labels import label_numbers
from butfor.table.roles import Roles
from butfor.table.sides import Sides
from butfor.table.table import Table

LOG_ODDS_ROWS = 20
"""Training rows by which it is told whether logits are log-odds."""
PUBLISHED_RANKINGS = ("combined", "influence", "leaves", "surrogate-signed")
"""Default rankings of published searches: the first that accepts the model. The last accepts every
model."""
NO_ADVERSE = "Name the label that people would rather not have: fit(X, y, adverse=…)."


class Labelled(NamedTuple):
    """All rows whose labels are known, in the order of the table: labels by number, groups by name.
    Clusters and weights are None where the training rows have none."""

    X: pd.DataFrame
    codes: NDArray[np.int64]
    groups: NDArray[np.object_]
    cluster: NDArray[np.object_] | None
    weight: NDArray[np.float64] | None
    training: NDArray[np.int64]
    """Positions of the training rows."""
    steering: NDArray[np.int64]
    """Positions of the rows that decide when a network stops training."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """An audit whose model is trained.

    `adverse` is the side (0 or 1) that people would rather not be on, None if unknown; `sides`
    names the labels of both. The model is an ensemble of `members`; `seeded` says whether a seed
    changes it. `pool`: the rows that compete for places under a "top" threshold. `answered` and
    `corrected` are positions of labels that were reviewed and corrected."""

    settings: AuditSettings
    comparison: ComparisonSettings
    """Its `reference` is a group by attribute, for the attributes that have one."""
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
    labelled: Labelled
    concerns: tuple[Concern, ...]
    roles: Roles
    """What the columns of the table are for, and where it came from."""
    decision: Decision
    """The line between two decisions; with more than two labels the table's two sides decide."""
    data_hash: str
    pool: pd.DataFrame | None = None
    answered: frozenset[int] = frozenset()
    corrected: tuple[int, ...] = ()

    @property
    def seeds(self) -> list[int]:
        """The fresh seeds; none if seeds do not matter."""
        return ensemble.fresh_seeds(self.learner, self.settings.fresh_seeds) if self.seeded else []

    @property
    def favourable(self) -> int:
        """The favourable of two labels, by number; without an adverse label, the second."""
        return 0 if self.adverse == 1 else 1

    @property
    def adverse_names(self) -> tuple[str, ...]:
        """The labels that people would rather not have."""
        return () if self.adverse is None else self.sides[self.adverse]

    def like_training(self, X: Any) -> pd.DataFrame:
        """A table of people with the columns and values of the training rows."""
        return handed_over.like_training(as_table(X), self.table.X, self.sensitive, self.roles)

    def people(
        self, X: Any, y: Any = None, sensitive_features: Any = None
    ) -> tuple[Situation, NDArray[np.int64] | None]:
        """The people of a table and their recorded labels by number, if known."""
        X = as_table(X)
        truth = None
        if y is not None:
            truth = handed_over.numbered(self.table, handed_over.as_labels(X, y), "these people")
        X = self.like_training(X)
        people = Situation(
            model=self.model,
            table=self.table,
            people=X,
            sensitive=self.sensitive,
            groups=self.sensitive.of_people(X, sensitive_features),
            label_names=self.label_names,
            training_decisions=self.training_decisions,
            doubts=lambda: self.doubt,
            decision=self.decision,
        )
        return people, truth

    def compare(self, settings: ComparisonSettings, progress: Progress | None = None) -> Standards:
        """Compare each group with comparable people in other groups, on all labelled rows; doubts
        are those of the training rows and, if they took part, of the validation rows. Without an
        adverse label the first counts as adverse, which does not change the doubts. Without draws,
        only doubts and raw differences."""
        if self.adverse is None and (settings.draws != 0 or self.table.multiclass):
            raise SettingError(NO_ADVERSE)
        rows = self.labelled
        adverse = self.adverse or 0
        favourable = self.table.sides(np.arange(len(self.table.classes))) != bool(adverse)
        codes = rows.codes.copy()
        codes[rows.training] = self.table.codes  # which a review may have corrected
        combinations = self.sensitive.combinations_of(rows.X)
        # The number of jobs may have changed since `fit`.
        settings = replace(settings, n_jobs=self.settings.n_jobs, explain=settings.draws != 0)
        standards = compare(
            rows.X,
            favourable[codes],
            replace(self.sensitive, values=rows.groups, combinations=combinations).each,
            settings,
            sides=(self.sides[adverse], self.sides[1 - adverse]),
            cluster=rows.cluster,
            weight=rows.weight,
            dates=self.roles.dates,
            progress=progress,
        )
        steering = standards.of_rows(rows.steering) if len(rows.steering) else None
        undermined = undermining(self.concerns)
        return replace(standards.of_rows(rows.training), validation=steering, undermined=undermined)

    @cached_property
    def undrawn(self) -> Standards:
        """The comparison of groups without draws: doubts and raw differences."""
        return self.compare(self.comparison.undrawn)

    @property
    def doubt(self) -> NDArray[np.float64]:
        """Per training row, the probability of the other label by the standard of the other
        groups."""
        return self.undrawn.doubt

    @cached_property
    def log_odds(self) -> bool:
        """Whether logits are log-odds, so that they can be shown as probabilities."""
        if self.table.multiclass or self.decision.has_cut:
            return not self.table.multiclass and self.decision.by_probability
        tells = self.model.members[0].ability(LogOdds)
        return tells is None or tells.gives_log_odds(self.table.X.iloc[:LOG_ODDS_ROWS])

    def decision_facts(self, decisions: NDArray[np.int64]) -> DecisionFacts | None:
        """Where the cut is, and how many of these decisions are favourable; None with more than two
        labels."""
        if self.table.multiclass:
            return None
        decision = self.decision
        pool = self.pool
        cut = dict[str, Any]()
        own_half = (
            not decision.has_cut and not ensemble.single_learner(self.learner).has_probabilities
        )
        if decision.has_cut:
            at_cut = decision.score(self.model.at_cut, self.favourable)
            cut = {
                "cut": True,
                "probability": at_cut if decision.by_probability else None,
                "share": decision.share,
            }
            if pool is not None:
                accepted = decides_one(self.model.logits(pool)) == self.favourable
                cut |= {"pool": len(pool), "accepted": int(accepted.sum())}
            if decision.pool is not None:
                cut["ties"] = decision.last_place(
                    ensemble.unaudited(self.model).logits(decision.pool)
                )[1]
        return DecisionFacts(
            given=None if own_half else decision.given,
            people=len(decisions),
            favoured=int((decisions == self.favourable).sum()),
            recorded=float((self.table.codes == self.favourable).mean()),
            **cut,
        )

    def remarks(self, X: Any) -> list[str]:
        """Sentences about the protected attribute and about missing, unknown and rare values in the
        training rows and in X."""
        people = self.like_training(X)
        rows = pd.concat(
            [self.table.X, *(self.table.validation or ())[:1], people], ignore_index=True
        )
        holes = rows.columns[rows.isna().any()]
        encoder = self.model.table_encoder
        if encoder is not None:
            return [*self.sensitive.remarks, *encoder.remarks(rows)]
        remark = f"Missing values of {listed(holes)} go to {self.learner.name} unchanged."
        return [*self.sensitive.remarks, *([remark] if len(holes) else [])]


def fit(
    settings: AuditSettings,
    comparison: ComparisonSettings,
    X: Any,
    y: Any,
    roles: Roles,
    *,
    sensitive_features: Any,
    sensitive_bands: Cuts | None,
    sample_weight: Any,
    cluster: Any,
    validation: tuple[Any, Any] | None,
    adverse: Any,
    also_labelled: Sequence[Any],
    pool: Any,
    label_names: Sequence[str] | None,
    progress: Progress,
) -> Fitted:
    """Check the table, train the model, choose the search. `roles`: what is known about the table
    besides its cells."""
    if not isinstance(also_labelled, (tuple, list)) or len(also_labelled) not in (0, 2, 3, 4, 5):
        raise SettingError(
            f"also_labelled={brief(also_labelled)}: give (X, y) or (X, y, sensitive_features, "
            "cluster, sample_weight)."
        )
    notes = list[str]()

    # The rows that have a label, and what stands beside them. Dates and decimals become numbers,
    # unless the model does its own preprocessing.
    beside = (sensitive_features, sample_weight, cluster)
    X, y, (sensitive_features, sample_weight, cluster) = handed_over.labelled(
        X, y, *beside, note=notes.append
    )
    model = settings.model
    if model is None:
        model = default_model(len(X))
    columns = X.columns
    encoder = settings.encoder
    raw = (
        isinstance(model, (Learner, type))
        or isinstance(encoder, str)
        or not hasattr(model, "get_params")
    )
    raw = raw or (encoder is None and not isinstance(model, MakesLearner) and preprocesses(model))
    if not raw:
        X, dates = as_numbers(X, columns, notes.append)
        roles = replace(roles, dates=(*roles.dates, *dates))
    X, clusters = handed_over.as_clusters(X, cluster)
    if taken := [name for name in (BEFORE, AFTER, DOUBT, BIAS) if name in X.columns]:
        raise TableError(
            f"Column {listed(taken)} has a name that results use themselves; rename it."
        )
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands, roles.dates)
    roles = replace(
        roles,
        inputs=tuple(X.columns),
        protected=sensitive.columns,
        label=y.name,
        cluster=next((column for column in columns if column not in X.columns), None),
    )
    references = references_of(comparison.reference, sensitive.each)
    given_weights = handed_over.as_weights(X, sample_weight, sensitive)
    # Only ratios matter, and a model's penalties mean what they say where the mean is 1.
    weights = None if given_weights is None else given_weights / given_weights.mean()
    with progress:
        progress.phase("checking the table")
        concerns = [*concerns_of(X, y, sensitive), *weight_concerns(given_weights, sensitive)]
        for line in (*notes, *(f"Note: {concern}" for concern in concerns)):
            progress.note(line)
        learner = as_learner(model, encoder, settings.random_state)
        table, kept = training_table(
            learner, X, y, validation, weights, clusters, sensitive, roles, progress.note
        )

        # The labels' names: as given, as the data set names them, or their values.
        values = tuple(map(str, table.classes))
        usual = usual_names(table.classes, y.name, roles.label_names)
        names = tuple(map(str, label_names or usual))
        if len(names) != len(table.classes):
            raise SettingError(
                f"label_names has {len(names)} names for {len(table.classes)} labels."
            )
        swapped = any(names != right and set(names) == set(right) for right in (values, usual))
        if isinstance(label_names, (str, Mapping, Set)) or len(set(names)) < len(names) or swapped:
            raise SettingError(
                f"label_names={brief(label_names)}: list one name for each label, all different, "
                f"in the sorted order of the labels ({listed(values)})."
            )

        # The two sides: which labels count as 1 (the second of two; of more, those that are not
        # adverse or, if none is named, all but the first), and which side is adverse.
        numbers = [] if adverse is None else label_numbers(adverse, names, table.classes)
        zeros = np.isin(np.arange(len(names)), numbers if numbers and len(names) > 2 else [0])
        side = None if not numbers else numbers[0] if len(names) == 2 else 0
        texts = np.array(names, dtype=object)

        # The line between them, and the model.
        budget = budget_in_labels(settings.budget, table.n)
        competing = pool
        if pool is None and len(also_labelled):
            competing = also_labelled[0]
        if competing is not None:
            competing = handed_over.like_training(as_table(competing), table.X, sensitive, roles)
        decision = decision_of(settings.threshold, learner, table, side, competing)
        learner = learner.deciding(decision)
        trained = train_model(settings, learner, table, decision, ~zeros, progress)
        if trained["seeded"]:
            note = seed_note(model, settings.random_state)
            if note:
                progress.note(note)

    sides = tuple(texts[zeros]), tuple(texts[~zeros])
    return Fitted(
        settings=settings,
        comparison=replace(comparison, reference=references),
        sensitive=replace(sensitive, values=sensitive.values[kept]),
        label_names=names,
        sides=sides,
        adverse=side,
        budget=budget,
        phi=phi_of(settings, () if side is None else sides[side]),
        psi=as_rule(settings.psi, "psi"),
        concerns=tuple(concerns),
        roles=replace(roles, label_names=names),
        decision=decision,
        data_hash=data_hash(
            replace(trained["table"], weight=None if given_weights is None else given_weights[kept])
        ),
        labelled=labelled_rows(
            table, sensitive, roles, kept, given_weights, also_labelled, progress.note
        ),
        pool=competing,
        **trained,
    )


def phi_of(settings: AuditSettings, adverse: Sequence[str]) -> Rule:
    """φ as given, or the published one; with `adverse` labels that only for people who get one of
    them."""
    if settings.phi is not None:
        return as_rule(settings.phi, "phi")
    if not adverse:
        return stable_under_switch()
    return stable_under_switch() & reduce(or_, map(predicted, adverse))


def train_model(
    settings: AuditSettings,
    learner: Learner,
    table: Table,
    decision: Decision,
    favours: Mask,
    progress: Progress,
) -> dict[str, Any]:
    """The model with its number of members and the seconds of one training, its decisions on the
    training rows, and its search: fields of `Fitted`. With more than two labels, `favours` are
    those that count as 1."""
    progress.phase("training the model")
    model, seconds, seeded = first_model(learner, table)
    if settings.members is not None and settings.members > 1 and not seeded:
        raise SettingError(
            f"members={settings.members}: seeds do not change {learner.name} here, so all members "
            "would be the same model; leave members out."
        )
    # A model with proofs gets one member, since the proofs do not hold for a mean.
    if settings.members is not None:
        members = int(settings.members)
    elif not seeded or provable(model):
        members = 1
    else:
        members = learner.usual_members(table)
    if members > 1:
        learner = ensemble.Ensemble(learner, members)
        started = time.perf_counter()
        progress.phase("the other members", members - 1)
        model = fit_ensemble(
            learner, model, table, settings.engine, settings.n_jobs, progress.advance
        )
        seconds_each = (time.perf_counter() - started) / (members - 1)
        seconds = min(seconds, seconds_each)  # the first one may include imports
    if table.multiclass:
        scores = model.scores(table.X)
        sides = Sides.between(favours, table.codes, scores)
        table = replace(table, two_sides=sides)
        model = ensemble.audited(model, table, decision)
        logits = sides.margins(scores.ravel())
        decisions = scores.argmax(axis=1)
    else:
        model = ensemble.audited(model, table, decision)
        logits = model.logits(table.X)
        decisions = decides_one(logits).astype(np.int64)
    if not np.isfinite(logits).all():
        raise LearnerError(
            f"The training of {learner.name} diverged: its scores are infinite or not numbers. "
            "Scale the table's numbers, or lower the learning rate."
        )
    return {
        "table": table,
        "learner": learner,
        "model": model,
        "members": members,
        "seeded": seeded,
        "fit_seconds": seconds,
        "training_decisions": decisions,
        **choose_search(settings, learner, model, members),
    }


def choose_search(
    settings: AuditSettings, learner: Learner, model: Model, members: int
) -> dict[str, Any]:
    """The strategy and the ranking; an error if one of them does not accept the model."""
    strategy = as_strategy(settings.strategy or ("solid" if members > 1 else "guided"))
    if strategy.name == "solid" and members == 1:
        raise SettingError(
            "strategy 'solid' needs the members of an ensemble, and this is an audit of a single "
            "model. Use 'guided', or members=2 or more with a model that has a seed."
        )
    if settings.rank is not None:
        ranking = as_ranking(settings.rank, settings.random_state)
        if not ranking.ranks(model):
            possible = ", ".join(name for name in NAMES if as_ranking(name).ranks(model))
            raise SettingError(
                f"Ranking '{ranking.name}' needs {ranking.needs}, and this is an audit of "
                f"{learner.name}. Use one of {possible}."
            )
    elif strategy.proves:
        ranking = RankingMix.of(model)  # a trial chooses
    else:  # the published ranking or the nearest to it that accepts the model
        ranking = next(
            ranking for ranking in map(as_ranking, PUBLISHED_RANKINGS) if ranking.ranks(model)
        )
    return {"strategy": strategy, "ranking": ranking}


def labelled_rows(
    table: Table,
    sensitive: Sensitive,
    roles: Roles,
    kept: NDArray[np.int64],
    weight: NDArray[np.float64] | None,
    given: Sequence[Any],
    note: Callable[[str], None],
) -> Labelled:
    """The training rows, which are `kept` of the rows in `sensitive`; those set aside; those
    `given` as (X, y, protected attribute, clusters, weights), of which the last three may be left
    out; and the validation rows, unless they are among these or something about them stands beside
    the table. `weight` is that of the rows in `sensitive`, as it was given: the comparison of
    groups scales all weights alike."""
    of_training = None if weight is None else weight[kept]
    parts: list[tuple[Any, ...]] = [
        (table.X, table.codes, sensitive.values[kept], table.cluster, of_training)
    ]
    steering = np.empty(0, np.int64)
    if table.whole is not None:
        aside = table.whole.aside
        codes = handed_over.numbered(table, table.whole.y.iloc[aside], "also_labelled")
        beside = [
            None if values is None else values[aside] for values in (table.whole.cluster, weight)
        ]
        parts.append((table.whole.X.iloc[aside], codes, sensitive.values[aside], *beside))
        steering = table.n + np.arange(len(aside))
    if len(given):
        beside = [*given[2:], None, None, None][:3]
        X, y, beside = handed_over.labelled(
            *given[:2], *beside, note=note, what="labels of also_labelled"
        )
        groups, cluster, own_weight = beside
        is_column = roles.cluster is not None and roles.cluster in X.columns
        X, cluster = handed_over.as_clusters(X, roles.cluster if is_column else cluster)
        for name, own, theirs in (
            ("cluster", table.cluster, cluster),
            ("sample_weight", weight, own_weight),
        ):
            if own is not None and theirs is None:
                raise SettingError(
                    f"The training rows have {name}, so also_labelled needs it too: (X, y, "
                    "sensitive_features, cluster, sample_weight), with None for what there is not."
                )
        X = handed_over.like_training(X, table.X, sensitive, roles)
        codes = handed_over.numbered(table, y, "also_labelled")
        parts.append(
            (
                X,
                codes,
                sensitive.of_people(X, groups),
                cluster,
                handed_over.as_weights(X, own_weight),
            )
        )
    if table.validation is not None and table.whole is None:
        X = table.validation[0]
        codes = table.validation_codes
        places = list[NDArray[np.int64]]()
        for more, numbers, *_ in parts[
            1:
        ]:  # the first or last of the given rows, or those of the same index
            first = np.arange(len(X))
            places = [first, first + len(more) - len(X)]
            places += [more.index.get_indexer(X.index)] if more.index.is_unique else []
            places = [at for at in places if len(X) <= len(more) and (at >= 0).all()]
            places = [
                at
                for at in places
                if more.iloc[at].equals(X) and np.array_equal(numbers[at], codes)
            ]
        if places:
            steering = table.n + places[0]
        elif not sensitive.blind and table.weight is None and table.cluster is None:
            parts.insert(1, (X, codes, sensitive.of_people(X, None), None, None))
            steering = table.n + np.arange(len(X))
    tables, codes_of, groups_of, clusters, weights_of = zip(*parts, strict=True)
    X = pd.concat(tables)
    return Labelled(
        X,
        np.concatenate(codes_of),
        np.concatenate(groups_of),
        None if table.cluster is None else np.concatenate(clusters),
        None if weight is None else np.concatenate(weights_of),
        training=np.arange(table.n),
        steering=steering,
    )


def with_settings(fitted: Fitted, settings: AuditSettings) -> Fitted:
    """The same model with other settings of the search or run."""
    phi = phi_of(settings, fitted.adverse_names)
    psi = as_rule(settings.psi, "psi")
    search = choose_search(settings, fitted.learner, fitted.model, fitted.members)
    return replace(fitted, settings=settings, phi=phi, psi=psi, **search)


def with_labels(
    fitted: Fitted, positions: Sequence[int], labels: Sequence[int], given: str, progress: Progress
) -> Fitted:
    """The same audit with these corrected labels, by number, and its model trained again. `given`:
    how the table came about."""
    table = fitted.table.with_labels(positions, labels)
    favours = fitted.table.sides(np.arange(len(table.classes)))
    again = replace(fitted.settings, members=fitted.members)
    with progress:
        trained = train_model(
            again,
            ensemble.single_learner(fitted.learner),
            table,
            fitted.decision,
            favours,
            progress,
        )
    return replace(
        fitted,
        roles=replace(fitted.roles, origin={"table": None, "given": given}),
        data_hash=data_hash(trained["table"]),
        corrected=tuple(sorted({*fitted.corrected, *positions})),
        **trained,
    )
