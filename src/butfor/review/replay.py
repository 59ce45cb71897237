"""Runs a record again: loads the table, trains the model by its own `fit`, asks again with the
recorded flip sets, and compares the two records field by field.

Machines differ in the order of sums, and engines sum in another order than `fit`. So logits need
only be close, and one seed or decision in twenty may differ.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.explain import explain_all, flippable_labels
from butfor.fit import (
    Fitted,
    fit,
    with_labels,
    with_settings,
)
from butfor.measured import run_of
from butfor.models.ensemble import member_seeds, single_learner
from butfor.models.making import learner_of
from butfor.models.validation_rows import set_rows_aside
from butfor.result.record import builtins_of, plain
from butfor.result.run import Run
from butfor.result.verdict import (
    ENUMERATION,
    ONE_LABEL,
    Person,
    Verdict,
)
from butfor.search.strategies import recorded
from butfor.settings import AuditSettings
from butfor.support.errors import (
    ReplayError,
    as_recorded,
    brief,
    listed,
    plural,
)
from butfor.support.progress import Progress
from butfor.table.decisions import USUAL
from butfor.table.embedded import Dataset
from butfor.table.handed_over import typed_like
from butfor.table.hashes import data_hash
from butfor.table.reading import load_table
from butfor.table.table import Table

BLOCK = 32
"""People who are checked together, before the next lines are printed."""
EXACT = 1e-9
CLOSE = 0.01
"""How far numbers may be apart, relative where they are above 1: values, and logits."""
AFTER = [f"counterfactual_{name}" for name in ("prediction", "logit", "score", "cut")]
NEAR = dict.fromkeys(("logit", "score", "cut", *AFTER, "decision"), CLOSE)
OF_RUN = (
    *("label_names", "sensitive", "sensitive_columns", "sensitive_bands", "blind"),
    *("budget", "members", "seeded", "decision"),
)
SEARCHED = {
    *("attempts", "complete", "shared", "first_size", "closest_logit", "course", "minimal"),
    *("clearance", "collateral", "only_with_flips", "only_without_flips", "logits", "case"),
}
"""Fields that only a search knows, or that depend on each seed alone."""
ABOUT_PEOPLE = {"people", "favoured", "pool", "accepted"}
"""Of the decision, what depends on who was asked about; with places, the pool does not."""
BY_ITSELF = "replay the Verdict that explain returned, or butfor.replay(record, audit=…)"


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `agrees`: everything that could be checked equals the record;
    `differs` lists the differences. `found`: whether a flip set was retrained."""

    case: int | None
    sentence: str
    logit: float | None
    counterfactual_logit: float | None
    differs: tuple[str, ...]
    found: bool

    @property
    def agrees(self) -> bool:
        return not self.differs

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.agrees


def replay(
    verdict: Verdict | dict[str, Any], model: Any = None, *, audit: Any = None, fresh: bool = False
) -> Replay:
    """Train a verdict's models again and compare the results with the record.

    Parameters
    ----------
    verdict : Verdict or dict
        A verdict, or its record.
    model : estimator, optional
        The model, if the record cannot restore it.
    audit : LabelAudit, optional
        The fitted audit, if the record cannot restore it; its model is not trained again, only
        those with flips are.
    fresh : bool, default=False
        Also train the fresh seeds again.

    Returns
    -------
    Replay
        True if everything agrees; `differs` lists the differences.
    """
    if not isinstance(verdict, Verdict):
        verdict = Verdict.from_dict(verdict)
    return next(replay_all([verdict], model, audit=audit, fresh=fresh))


def replay_all(
    verdicts: Sequence[Verdict], model: Any = None, *, audit: Any = None, fresh: bool = False
) -> Iterator[Replay]:
    """The same for all verdicts of a run, which share its data and first training."""
    if not verdicts:
        return
    with as_recorded("The record cannot be replayed"):
        run = verdicts[0].run
        asked = None
        if audit is not None:
            fitted: Fitted = audit.fitted_
        elif verdicts[0].fitted is not None:
            fitted = with_labels(verdicts[0].fitted, (), (), "", Progress())
        else:
            if beside := sorted({"phi", "psi"} & run.lost):
                raise ReplayError(
                    f"The record cannot restore {listed(beside)}, which is code of yours: "
                    f"{BY_ITSELF}."
                )
            fitted, data = fitted_again(run, model, Progress())
            asked = data if run.command else None  # the command asks about the table's test rows
        settings = replace(
            fitted.settings, engine="joblib", fresh_seeds=run.fresh_seeds if fresh else 0
        )
        fitted = with_settings(fitted, settings)

        about_people = ABOUT_PEOPLE - (
            set() if fitted.decision.pool is None else {"pool", "accepted"}
        )
        then, now = (
            builtins_of({name: getattr(each, name) for name in OF_RUN})
            for each in (run, run_of(fitted))
        )
        differs_in_run = tuple(_unlike("run", then, now, NEAR, about_people))
        doubted = any(flip.doubt is not None for verdict in verdicts for flip in verdict.flip_set)
        standards = fitted.undrawn if doubted else None
        for start in range(0, len(verdicts), BLOCK):
            block = verdicts[start : start + BLOCK]
            people, labels, groups = _people(block, fitted, asked)
            sets = recorded(
                {k: [tuple(sorted(v.positions))] for k, v in enumerate(block) if v.found}
            )
            again, _ = explain_all(
                with_settings(fitted, replace(settings, strategy=sets, rank=None)),
                people,
                labels,
                sensitive_features=groups,
                towards=run.towards,
                standards=standards,
            )
            allowed = flippable_labels(fitted, people, sensitive_features=groups)
            each = zip(block, again, allowed, strict=True)
            yield from [
                _compared(was, verdict, may, differs_in_run, fresh) for was, verdict, may in each
            ]


def _people(
    verdicts: Sequence[Verdict], fitted: Fitted, asked: Dataset | None
) -> tuple[pd.DataFrame, pd.Series | None, Any]:
    """Recorded people as a table: rows of `asked`, else as recorded; their labels, if known, and
    their groups, if these stand beside it."""
    blind = fitted.sensitive.blind
    table = fitted.table.X
    if asked is not None:
        cases = [verdict.case for verdict in verdicts]
        beside = asked.groups["test"].iloc[cases] if blind and asked.groups is not None else None
        return asked.X_test.iloc[cases], asked.y_test.iloc[cases], beside
    values = [[verdict.values[str(name)] for name in table.columns] for verdict in verdicts]
    rows = pd.DataFrame(values, [verdict.row for verdict in verdicts], table.columns, dtype=object)
    rows = rows.where(rows.notna(), np.nan)
    for name, column in table.select_dtypes(
        "category"
    ).items():  # a record holds an interval or a date as text
        categories = {str(category): category for category in column.cat.categories}
        rows[name] = pd.Series(
            [categories.get(value, value) for value in rows[name]], rows.index, object
        )
    known = {str(plain(value)): value for value in fitted.sensitive.values}
    groups = np.array(
        [known.get(str(verdict.group), verdict.group) for verdict in verdicts], dtype=object
    )
    return typed_like(rows, table), None, groups if blind else None


# --- compared -------------------------------------------------------------------------------------


def _unlike(
    path: str,
    recorded: Any,
    now: Any,
    near: Mapping[str, float],
    skip: Collection[str] = (),
    slack: float = EXACT,
) -> Iterator[str]:
    """The fields that differ, each with both values. `near`: how far the numbers of a field may be
    apart."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in (name for name in {**now, **recorded} if name not in skip):
            pair = recorded.get(name), now.get(name)
            yield from _unlike(
                f"{path}.{name}".lstrip("."), *pair, near, skip, near.get(name, slack)
            )
        return
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for place, pair in enumerate(zip(recorded, now, strict=True)):
            yield from _unlike(f"{path}[{place}]", *pair, near, skip, slack)
        return
    if {type(recorded), type(now)} <= {int, float}:
        differ = abs(recorded - now) > slack * (max(1.0, abs(now)) if isinstance(now, float) else 1)
    else:
        differ = recorded != now or type(recorded) is not type(now)
    if differ:
        yield f"{path} is {brief(recorded)}, but should be {brief(now)}"


def _compared(
    recorded: Verdict,
    now: Verdict,
    allowed: NDArray[np.bool_],
    differs_in_run: Sequence[str],
    fresh: bool,
) -> Replay:
    """What differs about one person. `allowed`: the labels that ψ lets flip."""
    run = recorded.run
    optional = ("fresh", "without_flips", "recorded_label")
    differs = list(differs_in_run)
    skip = SEARCHED | {
        name for name in optional if None in (getattr(recorded, name), getattr(now, name))
    }
    skip |= set() if fresh else {"fresh", "without_flips"}
    if recorded.found and not now.found:
        differs.append("retraining with these flips does not change the decision")
        skip |= {"flip_set", "fresh", "without_flips", "new_decision", *AFTER}
    if recorded.proof == ENUMERATION:  # only the search knows that it tried all sets
        skip |= {"at_least", "proof"}
    near = NEAR | dict.fromkeys(("with_flips", "without_flips"), 1 + run.fresh_seeds // 20)
    near["pulls"] = CLOSE * max([1.0, *map(abs, (now.pulls or {}).values())])
    names = ("prediction", "counterfactual_prediction", *(field.name for field in fields(Person)))
    then, again = (
        builtins_of({name: getattr(verdict, name) for name in names}) for verdict in (recorded, now)
    )
    differs += _unlike("", then, again, near, skip)
    forbidden = [position for position in recorded.positions if not allowed[position]]
    differs += [
        f"row at position {position} is flipped, but the rule ψ does not allow it"
        for position in forbidden
    ]

    said = run.names
    after = now.counterfactual_prediction
    course = [
        f"{said.label(now.prediction)}{'' if after is None else f' → {said.label(after)}'}",
        now.course_in_words,
    ]
    if recorded.found:
        course.append(f"{plural(len(recorded.flip_set), 'label')} flipped")
    if (
        recorded.proof is not None
        and now.at_least is not None
        and now.proof not in (None, ONE_LABEL, ENUMERATION)
    ):
        to = f" to {said.label(now.new_label)}" if now.new_label else ""
        course.append(f"proven: at least {plural(now.at_least, 'label')}{to}")
    if now.fresh:
        seeds = f"in {now.fresh.with_flips} of {now.fresh.seeds} fresh seeds"
        course.append(f"{seeds}, {now.fresh.without_flips} without the flips")
    who = (
        f"{said.one} {recorded.case}"
        if recorded.row is None
        else f"{run.row_word} {run.row_number(recorded.row)}"
    )
    sentence = "; ".join(
        [f"{who}: {'DISAGREE' if differs else 'agree'} ({'; '.join(course)})", *differs]
    )
    return Replay(
        recorded.case, sentence, now.logit, now.counterfactual_logit, tuple(differs), recorded.found
    )


# --- from a record back to its audit --------------------------------------------------------------


def load_rows(run: Run, beside: str | None = None) -> tuple[Table, Dataset]:
    """The training rows, and the whole data set, with a column `beside` that reviewers are
    shown."""
    if run.data.table is None:
        raise ReplayError(
            f"The record names no file or embedded data set, because {run.data.source}: give a "
            f"file with the same rows ('butfor replay --data'), or {BY_ITSELF}."
        )
    if lost := sorted({"sample_weight", "cluster"} & run.lost):
        raise ReplayError(f"The record does not include {listed(lost)}: {BY_ITSELF}.")
    for path in run.data.files.values():
        if not os.path.exists(path):
            raise ReplayError(
                f"There is no file '{path}', which the record names. If the table was moved, say "
                "where it is: 'butfor replay' and 'butfor review' take --data FILE."
            )
    data = load_table(run.data.table, beside=beside, **run.data.loading)
    weight, cluster = (
        None if each is None else each["train"].to_numpy() for each in (data.weight, data.cluster)
    )
    training = Table(data.X_train, data.y_train, weight=weight, cluster=cluster)
    if run.data.set_aside:
        training = set_rows_aside(single_learner(learner_of(run.learner)), training)
    elif run.data.validated:
        training = replace(training, validation=(data.X_val, data.y_val))
    if data_hash(training, run.data.hash_rule) != run.data.sha256:
        raise ReplayError(
            f"'{run.data.table}' is not the table of the record: its training rows are different."
        )
    if run.reviewed is not None:
        with as_recorded("Invalid record: run.reviewed.corrected does not fit the table"):
            labels = [run.label_names.index(name) for name in run.reviewed.corrected_to]
            training = training.with_labels(run.reviewed.corrected, labels or None)
    return training, data


def protected(run: Run, X: pd.DataFrame, data: Dataset) -> Any:
    """The protected columns of X or, if they stand beside it, their values."""
    names = set(map(str, run.sensitive_columns))
    if columns := [column for column in X.columns if str(column) in names]:
        return columns
    if data.groups is None:
        raise ReplayError(
            f"The record does not include the protected attribute, given in Python: {BY_ITSELF}."
        )
    return data.groups["train"].loc[X.index]


def fitted_again(run: Run, model: Any, progress: Progress, **rules: Any) -> tuple[Fitted, Dataset]:
    """The audit of a run, with the labels that a review corrected, and its data set. `model`
    replaces one that the record cannot restore, `rules` replace its φ and ψ."""
    training, data = load_rows(run)
    learner = learner_of(run.learner, model, run.random_state)
    threshold = None if run.threshold is None else run.threshold.given
    settings = AuditSettings(
        model=single_learner(learner),
        members=len(member_seeds(learner)),
        threshold=USUAL if threshold is None else threshold,
        budget=run.budget,
        fresh_seeds=run.fresh_seeds,
        random_state=run.random_state,
        **{"phi": run.phi, "psi": run.psi} | rules,
    )
    rows = training.as_handed_over
    # The other rows took part in the comparison of groups if so many rows did, and compete for
    # places.
    labelled = run.data.labelled == training.n + len(data.X_val) + len(data.X_test)
    fitted = fit(
        settings,
        run.comparison,
        rows.X,
        rows.y,
        data.roles,
        sensitive_features=protected(run, rows.X, data),
        sensitive_bands=run.sensitive_bands or None,
        sample_weight=rows.weight,
        cluster=rows.cluster,
        validation=None if training.whole else training.validation,
        adverse=run.adverse or None,
        also_labelled=data.rows_of("val", "test") if labelled else (),
        pool=None if run.threshold is None else data.X_test,
        label_names=run.label_names,
        progress=progress,
    )
    if run.reviewed is not None:
        fitted = replace(
            fitted, answered=frozenset(run.reviewed.answered), corrected=run.reviewed.corrected
        )
    return fitted, data
