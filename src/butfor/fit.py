"""Turns settings and a table into a trained audit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.columns import ASIDE
from butfor.data.check import Concern, concerns_of
from butfor.data.dates import as_numbers
from butfor.data.labels import label_names, label_number
from butfor.data.sensitive import Cuts, Sensitive
from butfor.decide import Decision, decides_one
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.models.engines import own_fit_engine
from butfor.models.ensemble import Ensemble, audited, single_learner
from butfor.models.learner import BIAS, Floats, Learner, MakesLearner, Model, Table
from butfor.models.learners import as_learner, decision_of, few_threads, first_model, seed_matters, seed_note
from butfor.models.named import default_model
from butfor.models.steps import preprocesses
from butfor.progress import Progress
from butfor.prove import provable
from butfor.provenance import data_hash
from butfor.rank import Ranking, as_ranking, refuse_unaccepted
from butfor.result.record import AFTER, BEFORE, DOUBT
from butfor.rules import Rule, as_phi, as_psi, predicted, stable_under_switch
from butfor.run.fitted import Fitted, Labelled, Settings
from butfor.search import Strategy, as_strategy, budget_in_labels
from butfor.situation import Mask
from butfor.standard.members import references_of
from butfor.validate import as_clusters, as_table, as_weights, labelled, like_training, numbered, training_table


def fit(
    settings: Settings,
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
    settings.check()
    progress, notes = progress or Progress(), list[str]()
    beside = (sensitive_features, sample_weight, cluster)
    X, y, (sensitive_features, sample_weight, cluster) = labelled(X, y, *beside, note=notes.append)
    given = default_model(len(X)) if settings.model is None else settings.model
    whole, X = X, _without_dates(X, given, settings.encoder, notes)
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
        learner = as_learner(given, settings.encoder, settings.random_state)
        table, kept = training_table(learner, X, y, validation, weights, clusters, progress.note)
        names = _names(table, y, label_names)
        favours, sides, side = _sides(names, table.classes, adverse)
        budget = budget_in_labels(settings.budget, table.n)
        competing = pool if pool is not None else also_labelled[0] if len(also_labelled) else None
        competing = None if competing is None else like_training(as_table(competing), table.X)
        table = replace(table, decision=decision_of(settings.threshold, learner, table, side, competing))
        trained = _train(settings, learner, table, progress)
        if trained.seeded and (note := seed_note(given, settings.random_state)):
            progress.note(note)
        table, model, decisions, logits = _answers(table, trained.model, favours)
    if not np.isfinite(logits).all():
        raise LearnerError(
            f"The training of {trained.learner.name} diverged: its scores are infinite or not numbers. Scale the "
            "table's numbers, or lower the learning rate."
        )
    strategy, ranking = _search(settings, trained, model)
    return Fitted(
        settings=settings,
        table=table,
        learner=trained.learner,
        model=model,
        sensitive=replace(sensitive, values=sensitive.values[kept]),
        label_names=names,
        sides=sides,
        adverse=side,
        budget=budget,
        phi=_phi(settings, names, None if side is None else favours == bool(side)),
        psi=as_psi(settings.psi),
        ranking=ranking,
        strategy=strategy,
        members=trained.members,
        seeded=trained.seeded,
        fit_seconds=trained.seconds,
        training_decisions=decisions,
        training_logits=logits,
        concerns=tuple(concerns),
        origin=dict(X.attrs.get("origin") or {"table": None}),
        data_hash=data_hash(table),
        reference=references,
        also_labelled=labelled_rows(table, sensitive, also_labelled, progress.note),
        pool=competing,
    )


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


def with_settings(fitted: Fitted, settings: Settings) -> Fitted:
    """The same model with other settings of the search or run."""
    settings.check()
    trained = Trained(fitted.learner, fitted.model, fitted.members, fitted.seeded, fitted.fit_seconds)
    strategy, ranking = _search(settings, trained, fitted.model)
    phi = fitted.phi if settings.phi is None else as_phi(settings.phi)
    return replace(fitted, settings=settings, strategy=strategy, ranking=ranking, phi=phi, psi=as_psi(settings.psi))


def with_labels(
    fitted: Fitted, positions: Sequence[int], labels: Sequence[int], given: str, progress: Progress | None = None
) -> Fitted:
    """The same audit with these corrected labels, by number, and its model trained again. `given`: how the table came
    about."""
    progress, table = progress or Progress(), fitted.table.with_labels(positions, labels)
    with progress:
        again = replace(fitted.settings, members=fitted.members)
        trained = _train(again, single_learner(fitted.learner), table, progress)
        favours = fitted.table.sides(np.arange(len(fitted.classes)))
        table, model, decisions, logits = _answers(table, trained.model, favours)
    strategy, ranking = _search(again, trained, model)
    return replace(
        fitted,
        table=table,
        learner=trained.learner,
        model=model,
        strategy=strategy,
        ranking=ranking,
        training_decisions=decisions,
        training_logits=logits,
        origin={"table": None, "given": given},
        data_hash=data_hash(table),
        corrected=tuple(sorted({*fitted.corrected, *positions})),
    )


class Trained(NamedTuple):
    learner: Learner
    model: Model
    members: int
    seeded: bool
    seconds: float


def _train(settings: Settings, learner: Learner, table: Table, progress: Progress) -> Trained:
    """The model, its number of members, and the seconds of one training."""
    progress.phase("training the model")
    with few_threads(table):
        first, seconds = first_model(learner, table)
        seeded = seed_matters(learner, table, first)
    members = _choose_members(settings, learner, table, first, seeded, seconds)
    if members == 1:
        return Trained(learner, first, members, seeded, seconds)
    ensemble = Ensemble(learner, members)
    progress.phase("the other members", members - 1)
    started = time.perf_counter()
    trains = own_fit_engine(settings.engine, settings.n_jobs)
    model = ensemble.fit_beside(first, table, trains, progress.advance)
    each = (time.perf_counter() - started) / (members - 1)
    return Trained(ensemble, model, members, seeded, min(seconds, each))  # the first one may include imports


def _choose_members(
    settings: Settings, learner: Learner, table: Table, first: Model, seeded: bool, seconds: float
) -> int:
    """The number of members, given one of them and the seconds of its training. A model with proofs gets one member,
    since the proofs do not hold for a mean."""
    if isinstance(learner, Ensemble):
        raise SettingError(f"{learner.name} is an ensemble already: give its learner, and members={learner.members}.")
    if settings.members is not None:
        if settings.members > 1 and not seeded:
            raise SettingError(
                f"members={settings.members}: seeds do not change {learner.name} here, so all members would be the "
                "same model; leave members out."
            )
        return int(settings.members)
    if not seeded or provable(first):
        return 1
    return learner.usual_members(table.n, seconds)


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


def _sides(names: tuple[str, ...], classes: NDArray[Any], adverse: Any) -> tuple[Mask, tuple[str, str], int | None]:
    """Which labels count as 1 (the second of two; of more, those that are not adverse or, if none is named, all but the
    first), the names of the two sides, and which side is adverse."""
    given = list(adverse) if isinstance(adverse, (list, tuple, set, np.ndarray)) else [adverse]
    found = [] if adverse is None else sorted({label_number(each, names, classes) for each in given})
    texts = np.array(names, dtype=object)
    if len(found) == len(names):
        raise SettingError(f"adverse names all labels ({listed(names)}); leave out the favourable ones.")
    ours = np.isin(np.arange(len(names)), found if found and len(names) > 2 else [0])
    side = None if not found else found[0] if len(names) == 2 else 0
    return ~ours, (" or ".join(texts[ours]), " or ".join(texts[~ours])), side


def _answers(table: Table, model: Model, favours: Mask) -> tuple[Table, Model, NDArray[np.int64], Floats]:
    """The model's decisions and logits on the training rows, and table and model with the cut and, with more than two
    labels, with those that count as 1."""
    if not table.multiclass:
        model = audited(model, table)
        logits = model.logits(table.X)
        return table, model, decides_one(logits).astype(np.int64), logits
    answers = table.answers(model, table.X)
    between = Decision.between(favours, table.codes, answers.reshape(table.n, -1))
    decisions, table = table.decisions(answers), table.with_decision(between)
    return table, audited(model, table), decisions, table.margins(answers)


def _phi(settings: Settings, names: Sequence[str], adverse: Mask | None) -> Rule:
    """The given rule, or the published one, with an adverse label only for people who get it."""
    if settings.phi is not None:
        return as_phi(settings.phi)
    if adverse is None:
        return stable_under_switch()
    decided = (predicted(name) for name, bad in zip(names, adverse, strict=True) if bad)
    return stable_under_switch() & reduce(or_, decided)


def _search(settings: Settings, trained: Trained, model: Model) -> tuple[Strategy, Ranking]:
    """The strategy and the ranking; an error if the ranking does not accept the model."""
    usual = "solid" if trained.members > 1 else "guided"
    strategy = as_strategy(usual if settings.strategy is None else settings.strategy)
    strategy.check(trained.members)
    if settings.rank is None:
        return strategy, strategy.ranking(model)
    ranking = as_ranking(settings.rank, settings.random_state)
    refuse_unaccepted(ranking, model, trained.learner.name)
    return strategy, ranking


def note_concerns(concerns: list[Concern], progress: Progress) -> list[Concern]:
    for concern in concerns:
        progress.note(f"Note: {concern}")
    return concerns
