"""Turns settings and a table into a trained audit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import Concern, check_table
from butfor.data.labels import label_names, label_number
from butfor.data.proxies import check_groups
from butfor.data.sensitive import Cuts, Sensitive
from butfor.errors import LearnerError, SettingError, TableError, listed
from butfor.learn.capabilities import usual_members
from butfor.learn.decision_split import DecisionSplit, decides_one
from butfor.learn.engines import own_fit_engine
from butfor.learn.ensemble import Ensemble, single_learner, with_cut, with_split
from butfor.learn.learners import as_learner, few_threads, first_model, seed_matters, seed_note
from butfor.learn.named import default_model
from butfor.learn.protocols import BIAS, Floats, Learner, Model, Table
from butfor.learn.threshold import parse_threshold
from butfor.progress import Progress
from butfor.prove import provable
from butfor.provenance import data_hash
from butfor.rank import Ranking, as_ranking, refuse_unaccepted
from butfor.result.record import AFTER, BEFORE, DOUBT
from butfor.rules import Rule, as_phi, as_psi, predicted, stable_under_switch
from butfor.run.cut import cut_of, pool_of
from butfor.run.fitted import Fitted, Labelled, Settings
from butfor.search import Strategy, as_strategy, budget_in_labels
from butfor.situation import Mask
from butfor.validate import as_labels, as_table, as_weights, like_training, training_table


def fit(
    settings: Settings,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sensitive_bands: Cuts | None = None,
    sample_weight: Any = None,
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
    X = as_table(X)
    y = as_labels(X, y)
    taken = [name for name in (BEFORE, AFTER, DOUBT, BIAS) if name in X.columns]
    if taken:
        raise TableError(f"Column {listed(taken)} has a name that results use themselves; rename it.")
    sensitive = Sensitive.of(sensitive_features, X, sensitive_bands)
    progress = progress or Progress()
    with progress:
        progress.phase("checking the table")
        concerns = note_concerns([*check_table(X, y), *check_groups(X, sensitive)], progress)
        given = default_model(len(X)) if settings.model is None else settings.model
        learner = as_learner(given, settings.encoder, settings.random_state)
        table, kept = training_table(learner, X, y, validation, as_weights(X, sample_weight))
        names = _names(table, y, label_names)
        favours, sides, side = _sides(names, table.classes, adverse)
        budget = budget_in_labels(settings.budget, table.n)
        competing = pool_of(table, pool, also_labelled)
        table = replace(table, cut=cut_of(parse_threshold(settings.threshold), learner, table, side, competing))
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
        reference=reference,
        also_labelled=labelled_rows(table, sensitive, also_labelled),
        pool=competing,
    )


def labelled_rows(table: Table, sensitive: Sensitive, given: Sequence[Any]) -> Labelled | None:
    """More labelled rows: those set aside and those given as (X, y) or (X, y, protected attribute); if none are given,
    the validation rows."""
    parts: list[tuple[pd.DataFrame, pd.Series, Any]] = []
    if table.whole is not None:
        X, y, kept = table.whole
        aside = np.setdiff1d(np.arange(len(X)), kept)
        parts.append((X.iloc[aside], y.iloc[aside], sensitive.values[aside] if sensitive.blind else None))
    elif table.validation is not None and not sensitive.blind and not given:
        parts.append((*table.validation, None))
    if given:
        X = as_table(given[0])
        parts.append((X, as_labels(X, given[1]), given[2] if len(given) > 2 else None))
    if not parts:
        return None
    rows = [like_training(X, table.X) for X, _, _ in parts]
    codes = [table.numbers_of(y) for _, y, _ in parts]
    groups = [sensitive.of_people(X, beside) for X, (_, _, beside) in zip(rows, parts, strict=True)]
    return Labelled(pd.concat(rows), np.concatenate(codes), np.concatenate(groups))


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
    return usual_members(learner, table.n, seconds)


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
        model = with_cut(model, table)
        logits = model.logits(table.X)
        return table, model, decides_one(logits).astype(np.int64), logits
    answers = table.answers(model, table.X)
    split = DecisionSplit.between(favours, table.codes, answers.reshape(table.n, -1))
    decisions, table = table.decisions(answers), table.with_split(split)
    return table, with_split(model, split), decisions, table.margins(answers)


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
