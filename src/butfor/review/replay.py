"""Runs a record again: loads the table, trains the model by its own `fit`, asks again with the recorded flip sets and
worlds, and compares the two records field by field.

Machines differ in the order of sums, and engines sum in another order than `fit`. So logits need only be close, and one
seed or decision in twenty may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data import Dataset
from butfor.errors import ReplayError, SettingError, as_recorded
from butfor.explain import brackets, explain_all, flippable_labels
from butfor.fit import Fitted, with_params
from butfor.machine import single_threaded
from butfor.measured import run_of
from butfor.models.learner import FlipSet, Table
from butfor.progress import Progress
from butfor.result.person import Person
from butfor.result.record import brief, builtins_of, plain
from butfor.result.run import Run
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Verdict
from butfor.result.worlds import OneStandard
from butfor.review.rebuild import fitted_again, load_rows, recorded_person, without_groups
from butfor.search import as_strategy, recorded
from butfor.words import signed
from butfor.worlds import FlipTrial, in_worlds

BLOCK = 32
"""People who are checked together, before the next lines are printed."""
EXACT, CLOSE, SHARE = 1e-9, 0.01, 0.05
"""How far numbers may be apart, relative where they are above 1: values, logits, and mean rates over worlds."""
AFTER = ("counterfactual_prediction", "counterfactual_logit", "counterfactual_score", "counterfactual_cut")
LOGITS = ("logit", "score", "cut", *AFTER[1:])
SEARCHED = {
    *("attempts", "failed", "complete", "shared", "first_size", "closest_logit", "course", "minimal"),
    *("clearance", "collateral", "only_with_flips", "only_without_flips", "logits", "case"),
}
"""Fields that only a search knows, or that depend on each seed alone."""
COMPARED = ("prediction", AFTER[0], *(field.name for field in fields(Person)))
OF_GROUPS = ("sensitive", "sensitive_columns", "sensitive_bands", "blind")
OF_RUN = ("label_names", *OF_GROUPS, "budget", "members", "seeded", "decision")
BY_SEARCH = (None, ONE_LABEL, ENUMERATION)
"""Proofs by the search itself, or none."""


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `agrees`: everything that could be checked equals the record; `differs` lists the
    differences."""

    case: int | None
    sentence: str
    logit: float | None = None
    counterfactual_logit: float | None = None
    differs: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.differs

    def __repr__(self) -> str:
        return self.sentence

    def __bool__(self) -> bool:
        return self.agrees


def replay(
    verdict: Verdict | dict[str, Any],
    training: Table | None = None,
    model: Any = None,
    *,
    audit: Any = None,
    fresh: bool = False,
) -> Replay:
    """Train a verdict's models again and compare the results with the record.

    Parameters
    ----------
    verdict : Verdict or dict
        A verdict, or its record.
    training : butfor.Table, optional
        The training table, if the record cannot restore it.
    model : estimator, optional
        The model, if the record cannot restore it.
    audit : LabelAudit, optional
        The audit, in place of both.
    fresh : bool, default=False
        Also train the fresh seeds again.

    Returns
    -------
    Replay
        True if everything agrees; `differs` lists the differences.
    """
    if not isinstance(verdict, Verdict):
        verdict = Verdict.from_dict(verdict)
    if training is not None and not isinstance(training, Table):
        raise ReplayError(
            f"training={type(training).__name__!r} is not a butfor.Table: give butfor.Table(X, y), or replay the "
            "Verdict that explain returned."
        )
    return next(replay_all([verdict], training, model, audit=audit, fresh=fresh))


def replay_all(
    verdicts: Sequence[Verdict],
    training: Table | None = None,
    model: Any = None,
    *,
    audit: Any = None,
    fresh: bool = False,
    worlds: bool = False,
) -> Iterator[Replay]:
    """The same for all verdicts of a run, which share its data and first training; with `worlds`, also for the worlds
    of each group."""
    if not verdicts:
        return
    run, training, data = verdicts[0].run, training or verdicts[0].training, None
    if audit is not None:
        fitted, blind = audit.fitted_, False
    else:
        if training is None:
            training, data = load_rows(run)
        blind, seeds = without_groups(run, data), run.fresh_seeds if fresh else 0
        how: dict[str, Any] = {"fresh_seeds": seeds, "random_state": run.random_state, "engine": "joblib"}
        fitted = fitted_again(run, training, data, model, **how)
    people = _People(fitted, data if run.command else None, blind)
    proves = "strategy" not in run.lost and as_strategy(run.strategy).proves
    unknown = SEARCHED | set(() if fresh else ("fresh", "without_flips"))
    unknown |= {"group", "switch_changes", "doubt"} if blind else set()
    unknown |= {"eligible"} if blind or "phi" in run.lost else set()
    unknown |= {"flippable", "at_least", "proof"} if blind or "psi" in run.lost else set()
    differs_in_run = list(_run_differs(run, run_of(fitted), blind))
    doubted = not blind and any(flip.doubt is not None for v in verdicts for flip in v.flip_set)
    standards = fitted.compare(draws=0) if doubted else None
    for start in range(0, len(verdicts), BLOCK):
        block = verdicts[start : start + BLOCK]
        X, groups = people.of(block)
        with as_recorded("run.learner cannot be asked again"):
            sets = {k: v.positions for k, v in enumerate(block) if v.found}
            sets |= _overlooked(fitted, block, X, groups) if proves else {}
            recorded_sets = recorded({k: [tuple(sorted(flips))] for k, flips in sets.items()})
            asked = with_params(fitted, strategy=recorded_sets)
            again = explain_all(asked, X, sensitive_features=groups, towards=run.towards, standards=standards)[0]
            allowed = flippable_labels(fitted, X, sensitive_features=groups)
            outcomes = []
            for then, now, may in zip(block, again, allowed, strict=True):
                differs = dict.fromkeys([*differs_in_run, *_verdict_differs(then, now, may, unknown)])
                outcomes.append(_outcome(then, now, tuple(differs)))
        yield from outcomes
    for one in run.one_standard if worlds else ():
        about = f"one standard for {one.attribute} = {one.group}"
        everyone = None if blind else people.everyone(verdicts, one.asked)
        if everyone is None:
            yield Replay(None, f"{about}: not trained again, since the record does not include all people")
            continue
        with as_recorded(f"Invalid record: the worlds of {about} cannot be made again"):
            now_one = _worlds_again(fitted, run, one, *everyone)
            differs_in_worlds = tuple(_worlds_differ(one, now_one))
        course = f"{len(now_one.worlds)} worlds, on average {now_one.expected_in_words} decisions change"
        said = f"{about}: {'DISAGREE' if differs_in_worlds else 'agree'} ({course})"
        yield Replay(None, "; ".join([said, *differs_in_worlds]), differs=differs_in_worlds)


# --- asked again ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _People:
    """Recorded people as tables: the test rows of the record's `data`, else as recorded. `blind`: their groups stood
    beside the table and are unknown."""

    fitted: Fitted
    data: Dataset | None
    blind: bool

    def of(self, verdicts: Sequence[Verdict]) -> tuple[pd.DataFrame, Any]:
        """Their rows, and their groups if these stand beside the table."""
        people = pd.concat([self._row(v) for v in verdicts])
        if not self.fitted.sensitive.blind:
            return people, None
        if self.blind:
            return people, np.zeros(len(people))
        if self.data is not None and self.data.groups is not None:
            return people, self.data.groups["test"].iloc[[int(v.case or 0) for v in verdicts]]
        known = {str(plain(value)): value for value in self.fitted.sensitive.values}
        return people, np.array([known.get(str(v.group), v.group) for v in verdicts], dtype=object)

    def _row(self, verdict: Verdict) -> pd.DataFrame:
        if self.data is None or verdict.case is None:
            return recorded_person(verdict, self.fitted.table.X)
        rows = self.data.X_test
        if verdict.case >= len(rows):
            raise ReplayError(
                f"Invalid record: case is {verdict.case}, but the table's test rows are 0 to {len(rows) - 1}."
            )
        return rows.iloc[[verdict.case]]

    def everyone(self, verdicts: Sequence[Verdict], asked: int) -> tuple[Any, Any, Any] | None:
        """All people of the audit, their labels and groups; None if the record does not include them."""
        if self.data is not None:
            groups = self.data.groups["test"] if self.data.groups is not None else None
            return self.data.X_test, self.data.y_test, groups
        by_case = sorted(verdicts, key=lambda v: -1 if v.case is None else v.case)
        if [v.case for v in by_case] != list(range(asked)):
            return None
        people, groups = self.of(by_case)
        return people, None, groups


def _overlooked(fitted: Fitted, verdicts: Sequence[Verdict], X: pd.DataFrame, groups: Any) -> Mapping[int, FlipSet]:
    """Sets that proofs give for people without a recorded find."""
    left = [k for k, v in enumerate(verdicts) if v.status == "not_found" and v.complete]
    try:
        proven = brackets(fitted, X, sensitive_features=groups) if left else []
    except SettingError:  # there is no proof for this model
        return {}
    witnesses = {k: proven[k].witness for k in left}
    return {k: flips for k, flips in witnesses.items() if flips and len(flips) <= fitted.budget}


def _worlds_again(audit: Fitted, run: Run, recorded: OneStandard, X: Any, y: Any, groups: Any) -> OneStandard:
    """The worlds of the recorded seeds, for the people X. The gap and its error are the recorded ones; the tables that
    they come from are not drawn again."""
    if run.standard is None:
        raise ReplayError("Invalid record: run.one_standard has worlds, but run.standard compares nothing.")
    standards = replace(audit.compare(draws=0), comparisons=run.standard.comparisons)
    comparison = standards.of_group(recorded.group)
    if comparison is None or comparison.attribute != recorded.attribute:
        raise ReplayError(
            f"Invalid record: run.one_standard is about {brief(recorded.group)}, which run.standard does not compare."
        )
    with single_threaded():
        tried = FlipTrial.about(audit, X, y, groups, Progress())
        return in_worlds(standards, comparison, tried, [world.seed for world in recorded.worlds])


# --- compared -------------------------------------------------------------------------------------------


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
        logit = slack >= CLOSE and isinstance(now, float)
        if abs(recorded - now) > slack * (max(1.0, abs(now)) if isinstance(now, float) else 1):
            shown = (signed(recorded), signed(now)) if logit else (brief(recorded), brief(now))
            yield f"{path} is {shown[0]}, but should be {shown[1]}"
    elif recorded != now or type(recorded) is not type(now):
        yield f"{path} is {brief(recorded)}, but should be {brief(now)}"


def _run_differs(recorded: Run, now: Run, blind: bool) -> Iterator[str]:
    unknown: dict[str, Any] = {"people": 0, "favoured": 0}  # others may be asked about
    if now.decision is not None and not now.decision.pool:
        unknown |= {"pool": 0, "accepted": 0}
    recorded, now = (
        replace(run, decision=replace(run.decision, **unknown)) if run.decision else run for run in (recorded, now)
    )
    was, real = ({name: builtins_of(getattr(run, name)) for name in OF_RUN} for run in (recorded, now))
    yield from _unlike("run", was, real, {"decision": CLOSE}, OF_GROUPS if blind else ())


def _verdict_differs(recorded: Verdict, now: Verdict, allowed: NDArray[np.bool_], unknown: set[str]) -> Iterator[str]:
    """`allowed`: the labels that ψ allows to flip. `unknown`: fields that cannot be compared."""
    skip = unknown | {n for n in ("fresh", "without_flips") if None in (getattr(recorded, n), getattr(now, n))}
    if recorded.found != now.found:
        skip |= {"flip_set", "fresh", "without_flips", "new_decision", *AFTER}
        turned = f"status is {recorded.status}, but flipping rows {list(now.positions)} changes the decision"
        yield turned if now.found else "retraining with these flips does not change the decision"
    if recorded.proof == ENUMERATION and now.proof in BY_SEARCH:  # only the search knows that it tried all sets
        now = replace(now, proof=ENUMERATION, at_least=len(recorded.flip_set) or recorded.budget + 1)
    seeds = 1 + recorded.run.fresh_seeds // 20
    near = dict.fromkeys(LOGITS, CLOSE) | {"with_flips": seeds, "without_flips": seeds}
    near["pulls"] = CLOSE * max([1.0, *map(abs, (now.pulls or {}).values())])
    was, real = ({name: builtins_of(getattr(v, name)) for name in COMPARED} for v in (recorded, now))
    yield from _unlike("", was, real, near, skip)
    if "flippable" not in unknown:
        for position in (at for at in recorded.positions if not allowed[at]):
            yield f"row at position {position} is flipped, but the rule ψ does not allow it"


def _worlds_differ(recorded: OneStandard, now: OneStandard) -> Iterator[str]:
    cases = dict.fromkeys((person.case for one in (recorded, now) for person in one.changed), 0)
    known = None not in (recorded.accuracy_in_worlds, now.accuracy_in_worlds)
    was, real = (
        {name: builtins_of(getattr(one, name)) for name in ("labels", "asked", "people", "refused", "adverse_now")}
        | {"worlds": [builtins_of(world) for world in one.worlds]}
        | {"mean_rates": {group: mean for group, (mean, *_) in one.rates_in_worlds.items()}}
        | {"mean_accuracy": one.accuracy_in_worlds[0] if one.accuracy_in_worlds and known else None}
        | {"worlds_by_person": cases | {person.case: person.worlds for person in one.changed}}
        for one in (recorded, now)
    )
    near = {"turned": 1 + recorded.refused // 20, "worlds_by_person": 1 + len(now.worlds) // 20}
    yield from _unlike("", was, real, near | {"mean_rates": SHARE, "mean_accuracy": SHARE}, {"rates", "accuracy"})


def _outcome(recorded: Verdict, now: Verdict, differs: tuple[str, ...]) -> Replay:
    course, after = f"'{now.prediction}' at {now.run.measure} {now.measured}", now.counterfactual_logit
    if recorded.found:
        reached = f" at {now.measured_after}" if now.measured_after else ""
        after = after if after is not None else now.closest_logit
        plural, name = "s" * (len(recorded.flip_set) != 1), now.counterfactual_prediction or now.prediction
        course += f" → '{name}'{reached} with {len(recorded.flip_set)} label{plural} flipped"
    if recorded.proof is not None and now.at_least is not None and now.proof not in BY_SEARCH:
        course += f"; proven: at least {now.at_least} label{'s' * (now.at_least != 1)}"
    if now.fresh:
        course += f"; in {now.fresh.with_flips} of {now.fresh.seeds} fresh seeds, "
        course += f"{now.fresh.without_flips} without the flips"
    who = f"row {recorded.row}" if recorded.case is None else f"person {recorded.case}"
    sentence = "; ".join([f"{who}: {'DISAGREE' if differs else 'agree'} ({course})", *differs])
    return Replay(recorded.case, sentence, now.logit, after, differs)
