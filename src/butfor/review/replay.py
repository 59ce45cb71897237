"""Runs a record again: trains the model with its own `fit`, with the recorded flip sets and in the recorded worlds, and
compares the results with the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from butfor.errors import ButforError, ReplayError, SettingError
from butfor.learn.protocols import FlipSet, Table
from butfor.machine import single_threaded
from butfor.progress import Progress
from butfor.result.record import brief, builtins_of, plain
from butfor.result.run import Run
from butfor.result.verdict import Verdict
from butfor.result.worlds import OneStandard
from butfor.review.differences import BY_SEARCH, CLOSE, unlike, verdicts_differ, worlds_differ
from butfor.review.rebuild import as_recorded, fitted_again, load_rows, recorded_person, without_groups
from butfor.run.explain import brackets, explain_all, flippable_labels
from butfor.run.fit import with_settings
from butfor.run.fitted import Fitted
from butfor.run.trial import FlipTrial
from butfor.run.verdicts import run_of
from butfor.run.worlds import in_worlds
from butfor.search import as_strategy
from butfor.search import recorded as recorded_sets
from butfor.standard.groups import Standards

BLOCK = 32
"""People who are checked together, before the next lines are printed."""
OF_GROUPS = ("sensitive", "sensitive_columns", "sensitive_bands", "blind")
OF_RUN = ("label_names", *OF_GROUPS, "budget", "members", "seeded")


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
    known = None if audit is None else audit.fitted_
    again = _Again(verdicts[0].run, training or verdicts[0].training, model, known, fresh)
    for start in range(0, len(verdicts), BLOCK):
        yield from again.check(verdicts[start : start + BLOCK])
    if worlds:
        yield from again.check_worlds(verdicts)


class _Again:
    """The audit of a record, made again."""

    def __init__(self, run: Run, training: Table | None, model: Any, audit: Fitted | None, fresh: bool) -> None:
        self.run, self.fresh, self.data = run, fresh, None
        if audit is None and training is None:
            training, self.data = load_rows(run)
        self.without_groups = audit is None and without_groups(run, self.data)
        """An audit that is given knows its groups."""
        if audit is None:
            assert training is not None
            audit = fitted_again(
                run,
                training,
                self.data,
                model,
                fresh_seeds=run.fresh_seeds if fresh else 0,
                random_state=run.random_state,
                engine="joblib",
            )
        self.audit = audit
        self.standards: Standards | None = None
        self.people = self.data if run.command else None
        """Whether the people are test rows of the record's data; in Python they may be anybody."""
        lost = run.lost
        self.proves = "strategy" not in lost and self._proves()
        self.unknown = set[str]()
        """What cannot be compared without groups or rules."""
        if self.without_groups:
            self.unknown |= {"group", "switch_changes", "doubt"}
        if self.without_groups or "phi" in lost:
            self.unknown |= {"eligible"}
        if self.without_groups or "psi" in lost:
            self.unknown |= {"flippable", "at_least", "proof"}
        now = run_of(audit)
        self.differs = [
            f"run.{name} is {brief(getattr(run, name))}, but should be {brief(getattr(now, name))}"
            for name in OF_RUN
            if getattr(run, name) != getattr(now, name) and not (self.without_groups and name in OF_GROUPS)
        ]
        recorded, real = run.threshold, now.threshold
        if recorded is not None and real is not None and not real.pool:  # the pool is unknown
            recorded = replace(recorded, pool=0, accepted=0)
        self.differs += unlike("run.threshold", builtins_of(recorded), builtins_of(real), CLOSE)

    # --- asked again ----------------------------------------------------------------------------------

    def check(self, verdicts: Sequence[Verdict]) -> Iterator[Replay]:
        """Retrain the finds of these people and compare."""
        people = pd.concat([self._person(v) for v in verdicts])
        groups = self._groups(verdicts, people)
        if any(flip.doubt is not None for v in verdicts for flip in v.flip_set) and not self.without_groups:
            self.standards = self.standards or self.audit.compare(draws=0)
        with as_recorded("run.learner cannot be asked again"):
            finds = {k: v.positions for k, v in enumerate(verdicts) if v.found}
            now = self._ask(people, groups, finds | self._overlooked(verdicts, people, groups))
            allowed = flippable_labels(self.audit, people, sensitive_features=groups)
        for recorded, again, may in zip(verdicts, now, allowed, strict=True):
            differs = [*self.differs, *verdicts_differ(recorded, again, may, self.unknown, self.fresh)]
            yield _outcome(recorded, again, tuple(dict.fromkeys(differs)))

    def _ask(self, people: pd.DataFrame, groups: Any, sets: Mapping[int, FlipSet]) -> list[Verdict]:
        """The verdicts now, with only these flip sets tried."""
        recorded = recorded_sets({k: [tuple(sorted(flips))] for k, flips in sets.items()})
        asked = with_settings(self.audit, replace(self.audit.settings, strategy=recorded))
        towards = self.run.towards
        how = {"sensitive_features": groups, "towards": towards, "standards": self.standards}
        return list(explain_all(asked, people, **how)[0])

    def _overlooked(self, verdicts: Sequence[Verdict], people: pd.DataFrame, groups: Any) -> dict[int, FlipSet]:
        """Sets that proofs give for people with no recorded find, if the search uses proofs."""
        open_ = [k for k, v in enumerate(verdicts) if v.status == "not_found" and v.complete]
        if not open_ or not self.proves:
            return {}
        try:
            proven = brackets(self.audit, people, sensitive_features=groups)
        except SettingError:  # there is no proof for this model
            return {}
        witnesses = {k: proven[k].witness for k in open_}
        return {k: flips for k, flips in witnesses.items() if flips and len(flips) <= self.run.budget}

    def _proves(self) -> bool:
        """Whether the recorded search uses proofs."""
        try:
            return as_strategy(self.run.strategy).proves
        except ButforError as error:
            raise ReplayError(f"Invalid record: run.strategy is not a strategy ({error})") from error

    def _person(self, verdict: Verdict) -> pd.DataFrame:
        """The person: the test row or, if there is none, as recorded."""
        if self.people is None or verdict.case is None:
            return recorded_person(verdict, self.audit.table.X)
        rows = self.people.X_test
        if verdict.case >= len(rows):
            raise ReplayError(
                f"Invalid record: case is {verdict.case}, but the table's test rows are 0 to {len(rows) - 1}."
            )
        return rows.iloc[[verdict.case]]

    def _groups(self, verdicts: Sequence[Verdict], people: pd.DataFrame) -> Any:
        """The protected attribute of these people, if it stands beside the table."""
        if not self.audit.sensitive.blind:
            return None
        if self.without_groups:
            return np.zeros(len(people))
        if self.people is not None and self.people.groups is not None:
            return self.people.groups["test"].iloc[[int(v.case or 0) for v in verdicts]]
        known = {str(plain(value)): value for value in self.audit.sensitive.values}
        return np.array([known.get(str(v.group), v.group) for v in verdicts], dtype=object)

    def check_worlds(self, verdicts: Sequence[Verdict]) -> Iterator[Replay]:
        """Train the recorded worlds again, all of them, and compare."""
        for recorded in self.run.one_standard:
            about = f"one standard for {recorded.attribute} = {recorded.group}"
            asked = self._everyone(verdicts, recorded)
            if asked is None:
                yield Replay(None, f"{about}: not trained again, since the record does not include all people")
                continue
            with as_recorded(f"Invalid record: the worlds of {about} cannot be made again"):
                now = _worlds_again(self.audit, self.run, recorded, *asked)
            differs = tuple(worlds_differ(recorded, now))
            course = f"{len(now.worlds)} worlds, on average {now.expected_in_words} decisions change"
            yield Replay(
                None,
                "; ".join([f"{about}: {'DISAGREE' if differs else 'agree'} ({course})", *differs]),
                differs=differs,
            )

    def _everyone(self, verdicts: Sequence[Verdict], recorded: OneStandard) -> tuple[Any, Any, Any] | None:
        """All people of the audit, their labels and their groups; None if the record does not include them."""
        if self.without_groups:
            return None
        if self.people is not None:
            groups = self.people.groups["test"] if self.people.groups is not None else None
            return self.people.X_test, self.people.y_test, groups
        by_case = sorted(verdicts, key=lambda v: -1 if v.case is None else v.case)
        if [v.case for v in by_case] != list(range(recorded.asked)):
            return None
        people = pd.concat([self._person(v) for v in by_case])
        return people, None, self._groups(by_case, people)


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
