"""Runs a record again: loads the table, trains the model by its own `fit`, asks again with the recorded flip sets and
worlds, and compares the two records field by field.

Machines differ in the order of sums, and engines sum in another order than `fit`. So logits need only be close, and one
seed or decision in twenty may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.columns import DATES, days_in
from butfor.data import Dataset
from butfor.errors import ReplayError, as_recorded, plural
from butfor.explain import explain_all, flippable_labels
from butfor.fit import Fitted, with_params
from butfor.machine import single_threaded
from butfor.measured import run_of
from butfor.progress import Progress
from butfor.result.record import brief, builtins_of, plain
from butfor.result.run import Run
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Person, Verdict
from butfor.review.rebuild import GROUPS, fitted_again, load_rows, lost_of
from butfor.search import recorded
from butfor.words import told_apart
from butfor.worlds import FlipTrial, in_worlds

BLOCK = 32
"""People who are checked together, before the next lines are printed."""
EXACT, CLOSE, SHARE = 1e-9, 0.01, 0.05
"""How far numbers may be apart, relative where they are above 1: values, logits, and mean rates over worlds."""
AFTER = ("counterfactual_prediction", "counterfactual_logit", "counterfactual_score", "counterfactual_cut")
NEAR = dict.fromkeys(("logit", "score", "cut", *AFTER[1:], "decision"), CLOSE)
COMPARED = ("prediction", AFTER[0], *(field.name for field in fields(Person)))
OF_RUN = (
    *("label_names", "sensitive", "sensitive_columns", "sensitive_bands", "blind"),
    *("budget", "members", "seeded", "decision"),
)
SEARCHED = {
    *("attempts", "failed", "complete", "shared", "first_size", "closest_logit", "course", "minimal"),
    *("clearance", "collateral", "only_with_flips", "only_without_flips", "logits", "case"),
}
"""Fields that only a search knows, or that depend on each seed alone."""
LOST = {
    "phi": {"eligible", "left_out"},
    "psi": {"flippable", "at_least", "proof"},
}
LOST[GROUPS] = LOST["phi"] | LOST["psi"] | {"group", "switch_changes", "doubt", *OF_RUN[1:5]}
"""Fields that depend on what a record may not be able to restore."""


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `agrees`: everything that could be checked equals the record; `differs` lists the
    differences. `found`: whether a flip set was retrained; None for worlds."""

    case: int | None
    sentence: str
    logit: float | None = None
    counterfactual_logit: float | None = None
    differs: tuple[str, ...] = ()
    found: bool | None = None

    @property
    def agrees(self) -> bool:
        return not self.differs

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.agrees


def replay(verdict: Verdict | dict[str, Any], model: Any = None, *, audit: Any = None, fresh: bool = False) -> Replay:
    """Train a verdict's models again and compare the results with the record.

    Parameters
    ----------
    verdict : Verdict or dict
        A verdict, or its record.
    model : estimator, optional
        The model, if the record cannot restore it.
    audit : LabelAudit, optional
        The fitted audit, if the record cannot restore it; its model is not trained again, only those with flips are.
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
    verdicts: Sequence[Verdict], model: Any = None, *, audit: Any = None, fresh: bool = False, worlds: bool = False
) -> Iterator[Replay]:
    """The same for all verdicts of a run, which share its data and first training; with `worlds`, also for the worlds
    of each group."""
    if not verdicts:
        return
    run, training, data, lost = verdicts[0].run, verdicts[0].training, None, set[str]()
    if audit is not None:
        fitted: Fitted = audit.fitted_
    else:
        if training is None:
            training, data = load_rows(run)
        lost = lost_of(run, data)
        fitted = fitted_again(run, training, data, model, fresh_seeds=run.fresh_seeds if fresh else 0, engine="joblib")
    asked = data if run.command else None  # the command asks about the table's test rows
    skip = SEARCHED.union(*(names for what, names in LOST.items() if what in lost))
    skip |= set() if fresh else {"fresh", "without_flips"}
    now = run_of(fitted)
    asked_about = {"people", "favoured"} | (set() if now.decision and now.decision.pool else {"pool", "accepted"})
    differs_in_run = list(_unlike("run", _facts(run, OF_RUN), _facts(now, OF_RUN), NEAR, skip | asked_about))
    doubted = "doubt" not in skip and any(flip.doubt is not None for v in verdicts for flip in v.flip_set)
    standards = fitted.compare(draws=0) if doubted else None
    for start in range(0, len(verdicts), BLOCK):
        block = verdicts[start : start + BLOCK]
        people, labels, groups = _people(block, fitted, asked, lost)
        with as_recorded("run.learner cannot be asked again"):
            sets = recorded({k: [tuple(sorted(v.positions))] for k, v in enumerate(block) if v.found})
            again = explain_all(
                with_params(fitted, strategy=sets),
                people,
                labels,
                sensitive_features=groups,
                towards=run.towards,
                standards=standards,
            )[0]
            allowed = flippable_labels(fitted, people, sensitive_features=groups)
            outcomes = []
            for then, verdict, may in zip(block, again, allowed, strict=True):
                differs = [*differs_in_run, *_verdict_differs(then, verdict, skip)]
                if "flippable" not in skip:
                    differs += [
                        f"row at position {position} is flipped, but the rule ψ does not allow it"
                        for position in then.positions
                        if not may[position]
                    ]
                outcomes.append(_outcome(then, verdict, tuple(differs)))
        yield from outcomes
    if worlds and run.one_standard:
        yield from _replay_worlds(fitted, run, asked)


# --- asked again ----------------------------------------------------------------------------------------


def _people(
    verdicts: Sequence[Verdict], fitted: Fitted, asked: Dataset | None, lost: set[str]
) -> tuple[pd.DataFrame, pd.Series | None, Any]:
    """Recorded people as a table: rows of `asked`, else as recorded; their labels, if known, and their groups, if these
    stand beside it."""
    labels = None
    if asked is None:
        rows = pd.concat([_as_recorded(verdict, fitted.table.X) for verdict in verdicts])
    else:
        cases, n = [int(verdict.case or 0) for verdict in verdicts], len(asked.X_test)
        if max(cases) >= n:
            raise ReplayError(f"Invalid record: case is {max(cases)}, but the table's test rows are 0 to {n - 1}.")
        rows, labels = asked.X_test.iloc[cases], asked.y_test.iloc[cases]
    if not fitted.sensitive.blind:
        return rows, labels, None
    if GROUPS in lost:
        return rows, labels, np.zeros(len(rows))
    if asked is not None and asked.groups is not None:
        return rows, labels, asked.groups["test"].iloc[cases]
    known = {str(plain(value)): value for value in fitted.sensitive.values}
    return rows, labels, np.array([known.get(str(verdict.group), verdict.group) for verdict in verdicts], dtype=object)


def _as_recorded(verdict: Verdict, table: pd.DataFrame) -> pd.DataFrame:
    """The recorded person as a table of one row with the types of the training columns."""
    columns = {}
    for name, column in table.items():
        if str(name) not in verdict.values:
            raise ReplayError(f"The record of {verdict.who} lacks column '{name}'.")
        value: Any = verdict.values[str(name)]
        if name in table.attrs.get(DATES, ()) and isinstance(value, str):
            value = days_in(pd.Series([value], name=name))[0]
        if isinstance(column.dtype, pd.CategoricalDtype):
            value = {str(category): category for category in column.cat.categories}.get(str(value), value)
        cell = pd.Series([np.nan if value is None else value], index=[verdict.row])
        try:
            columns[name] = cell if value is None and column.dtype.kind in "iub" else cell.astype(column.dtype)
        except (ValueError, TypeError, OverflowError):
            raise ReplayError(
                f"Invalid record: values.{name} is {brief(value)}, but the table's column holds {column.dtype}."
            ) from None
    return pd.DataFrame(columns, columns=table.columns)


def _replay_worlds(fitted: Fitted, run: Run, asked: Dataset | None) -> Iterator[Replay]:
    """The worlds of the recorded seeds, for all test rows. Gaps and their errors are the recorded ones; the tables that
    they come from are not drawn again."""
    if asked is None:
        yield Replay(None, "One standard: not trained again, since the record does not include all people.")
        return
    groups = None if asked.groups is None else asked.groups["test"]
    with single_threaded():
        tried = FlipTrial.about(fitted, asked.X_test, asked.y_test, groups, Progress())
    doubts = fitted.compare(draws=0)
    for one in run.one_standard:
        about = f"one standard for {one.attribute} = {one.group}"
        compared = run.standard.comparisons if run.standard else ()
        gap = next((c for c in compared if (c.attribute, c.group) == (one.attribute, one.group)), None)
        if gap is None:
            raise ReplayError(
                f"Invalid record: run.one_standard is about {brief(one.group)}, which run.standard does not compare."
            )
        with as_recorded(f"Invalid record: the worlds of {about} cannot be made again"), single_threaded():
            now = in_worlds(replace(doubts, comparisons=compared), gap, tried, [world.seed for world in one.worlds])
            # Single decisions may differ, so rates and accuracy are compared on average.
            cases = dict.fromkeys((person.case for each in (one, now) for person in each.changed), 0)
            was, real = (
                _facts(each, ("labels", "asked", "people", "refused", "adverse_now", "worlds"))
                | {"mean_rates": {group: mean for group, (mean, *_) in each.rates_in_worlds.items()}}
                | {"mean_accuracy": each.accuracy_in_worlds and each.accuracy_in_worlds[0]}
                | {"worlds_by_person": cases | {person.case: person.worlds for person in each.changed}}
                for each in (one, now)
            )
            near = {"mean_rates": SHARE, "mean_accuracy": SHARE}
            near |= {"turned": 1 + one.refused // 20, "worlds_by_person": 1 + len(now.worlds) // 20}
            differs = tuple(_unlike("", was, real, near, {"rates", "accuracy"}))
        course = f"{len(now.worlds)} worlds, on average {now.expected_in_words} decisions change"
        said = f"{about}: {'DISAGREE' if differs else 'agree'} ({course})"
        yield Replay(None, "; ".join([said, *differs]), differs=differs)


# --- compared -------------------------------------------------------------------------------------------


def _facts(thing: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: builtins_of(getattr(thing, name)) for name in names}


def _unlike(
    path: str, recorded: Any, now: Any, near: Mapping[str, float], skip: Collection[str] = (), slack: float = EXACT
) -> Iterator[str]:
    """The fields that differ, each with both values. `near`: how far the numbers of a field may be apart."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for name in (name for name in {**now, **recorded} if name not in skip):
            here = f"{path}.{name}".lstrip(".")
            yield from _unlike(here, recorded.get(name), now.get(name), near, skip, near.get(name, slack))
    elif isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        for place, (was, real) in enumerate(zip(recorded, now, strict=True)):
            yield from _unlike(f"{path}[{place}]", was, real, near, skip, slack)
    elif {type(recorded), type(now)} <= {int, float}:
        if abs(recorded - now) > slack * (max(1.0, abs(now)) if isinstance(now, float) else 1):
            yield f"{path} is {brief(recorded)}, but should be {brief(now)}"
    elif recorded != now or type(recorded) is not type(now):
        yield f"{path} is {brief(recorded)}, but should be {brief(now)}"


def _verdict_differs(recorded: Verdict, now: Verdict, skip: set[str]) -> Iterator[str]:
    either = ("fresh", "without_flips", "recorded_label")
    skip = skip | {name for name in either if None in (getattr(recorded, name), getattr(now, name))}
    if recorded.found and not now.found:
        yield "retraining with these flips does not change the decision"
        skip |= {"flip_set", "fresh", "without_flips", "new_decision", *AFTER}
    if recorded.proof == ENUMERATION:  # only the search knows that it tried all sets
        skip |= {"at_least", "proof"}
    seeds = 1 + recorded.run.fresh_seeds // 20
    pulls = CLOSE * max([1.0, *map(abs, (now.pulls or {}).values())])
    near = NEAR | {"with_flips": seeds, "without_flips": seeds, "pulls": pulls}
    yield from _unlike("", _facts(recorded, COMPARED), _facts(now, COMPARED), near, skip)


def _outcome(recorded: Verdict, now: Verdict, differs: tuple[str, ...]) -> Replay:
    """The result in a sentence."""
    run, after = now.run, now.counterfactual_logit
    before = run.measured(now.logit) if now.score is None else told_apart(now.score, now.cut)[0]
    course = f"'{now.prediction}' at {run.measure} {before}"
    if recorded.found:
        known = after is not None or not run.cut_moves  # else each model tried had its own cut
        after = now.closest_logit if after is None else after
        reached = f" at {run.measured(after)}" if known and after is not None else ""
        if now.counterfactual_score is not None:
            reached = f" at {told_apart(now.counterfactual_score, now.counterfactual_cut)[0]}"
        decision = now.counterfactual_prediction or now.prediction
        course += f" → '{decision}'{reached} with {plural(len(recorded.flip_set), 'label')} flipped"
    if recorded.proof is not None and now.at_least is not None and now.proof not in (None, ONE_LABEL, ENUMERATION):
        course += f"; proven: at least {plural(now.at_least, 'label')}"
    if now.fresh:
        course += f"; in {now.fresh.with_flips} of {now.fresh.seeds} fresh seeds, "
        course += f"{now.fresh.without_flips} without the flips"
    who = f"row {recorded.row}" if recorded.case is None else f"person {recorded.case}"
    sentence = "; ".join([f"{who}: {'DISAGREE' if differs else 'agree'} ({course})", *differs])
    return Replay(recorded.case, sentence, now.logit, after, differs, recorded.found)
