"""Runs a record again: the model is trained again with its own `fit`, with the recorded flip sets and in the recorded
worlds, and the results are compared with the record field by field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import ButforError, ReplayError, SettingError
from butfor.learn.protocols import FlipSet, Table
from butfor.result.record import brief, builtins_of, plain, signed
from butfor.result.run import Run
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Verdict
from butfor.result.worlds import OneStandard
from butfor.review.rebuild import as_recorded, fitted_again, load_rows, recorded_person, without_groups
from butfor.review.replay_worlds import worlds_again, worlds_differ
from butfor.run.explain import brackets, explain_all, flippable_labels
from butfor.run.fit import with_settings
from butfor.run.fitted import Fitted
from butfor.run.verdicts import run_of
from butfor.search import as_strategy
from butfor.search.published import Recorded
from butfor.standard.groups import Standards

BLOCK = 32
"""People who are checked together, before the next lines are printed."""
CLOSE = 0.01
"""How far a logit may be from the recorded one, absolutely or, if it is above 1, relatively: machines differ in the
order of sums."""
EXACT = 1e-12
COMPARED = (
    *("row", "values", "group", "eligible", "flippable", "logit", "prediction", "counterfactual_logit", "flip_set"),
    *("counterfactual_prediction", "new_label", "at_least", "proof", "switch_changes", "pulls"),
    *("score", "cut", "counterfactual_score", "counterfactual_cut"),
)
BY_SEARCH = {ONE_LABEL, ENUMERATION}
LOGITS = ("logit", "counterfactual_logit", "pulls", "score", "cut", "counterfactual_score", "counterfactual_cut")
"""The compared fields, and those that need only be close."""
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
            self.unknown |= {"group", "switch_changes"}
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
        for k, (recorded, again) in enumerate(zip(verdicts, now, strict=True)):
            differs = [*self.differs, *self._differences(recorded, again)]
            if "flippable" not in self.unknown:
                differs += _forbidden(recorded, allowed[k])
            yield _outcome(recorded, again, tuple(dict.fromkeys(differs)))

    def _ask(self, people: pd.DataFrame, groups: Any, sets: Mapping[int, FlipSet]) -> list[Verdict]:
        """The verdicts now, with only these flip sets tried."""
        recorded = Recorded({k: [tuple(sorted(flips))] for k, flips in sets.items()})
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
                now = worlds_again(self.audit, self.run, recorded, *asked)
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

    # --- compared -------------------------------------------------------------------------------------

    def _differences(self, recorded: Verdict, now: Verdict) -> Iterator[str]:
        skipped = set(self.unknown)
        if recorded.found != now.found:
            skipped |= {"counterfactual_logit", "counterfactual_score", "counterfactual_cut", "flip_set"}
            turned = f"status is {recorded.status}, but flipping rows {list(now.positions)} changes the decision"
            yield turned if now.found else "retraining with these flips does not change the decision"
        if "proof" not in skipped and {recorded.proof, now.proof} & BY_SEARCH:
            skipped |= {"at_least", "proof"}
            yield from _searched(recorded, now)
        for name in COMPARED:
            if name not in skipped:
                slack = CLOSE if name in LOGITS else EXACT
                yield from unlike(name, self._comparable(name, recorded), self._comparable(name, now), slack)
        if self.fresh and recorded.base is not None and now.base is not None:
            yield from _other_counts(recorded, now)

    def _comparable(self, name: str, verdict: Verdict) -> Any:
        """The value as in a file, without what depends on unknown groups."""
        value = getattr(verdict, name)
        if name == "flip_set" and self.without_groups:
            value = [replace(flip, doubt=None) for flip in value]
        return builtins_of(value)


def _forbidden(recorded: Verdict, allowed: NDArray[np.bool_]) -> Iterator[str]:
    """Flipped rows that ψ does not allow for this person."""
    for position in recorded.positions:
        if not allowed[position]:
            yield f"row at position {position} is flipped, but the rule ψ does not allow it"


def _searched(recorded: Verdict, now: Verdict) -> Iterator[str]:
    """Proofs by search: a single label, or all sets tried."""
    proven = now.proof not in (None, *BY_SEARCH)
    if recorded.proof is None or proven:
        if proven or (recorded.found and len(recorded.flip_set) == 1):
            yield f"proof is {brief(recorded.proof)}, but should be {brief(now.proof)}"
        return
    reached = len(recorded.flip_set) or recorded.budget + 1
    if recorded.proof not in BY_SEARCH:
        yield f"proof is {brief(recorded.proof)}, but there is no proof for this model"
    elif recorded.at_least != reached or (recorded.proof == ONE_LABEL and reached != 1):
        yield f"at_least is {recorded.at_least}, but the search reached {reached}"


def unlike(path: str, recorded: Any, real: Any, slack: float) -> Iterator[str]:
    """Fields that differ, numbers by more than the share `slack`: the path and both values."""
    if isinstance(recorded, dict) and isinstance(real, dict) and recorded.keys() == real.keys():
        scale = max([1.0, *(abs(v) for v in real.values() if isinstance(v, float))]) if slack == CLOSE else 1.0
        for name in real:
            yield from unlike(f"{path}.{name}", recorded[name], real[name], slack * scale)
    elif isinstance(recorded, list) and isinstance(real, list) and len(recorded) == len(real):
        for place, pair in enumerate(zip(recorded, real, strict=True)):
            yield from unlike(f"{path}[{place}]", *pair, slack)
    elif {type(recorded), type(real)} in ({float}, {float, int}):
        if abs(recorded - real) > slack * max(1.0, abs(real)):
            shown = (signed(recorded), signed(real)) if slack >= CLOSE else (brief(recorded), brief(real))
            yield f"{path} is {shown[0]}, but should be {shown[1]}"
    elif recorded != real or type(recorded) is not type(real):
        yield f"{path} is {brief(recorded)}, but should be {brief(real)}"


def _other_counts(recorded: Verdict, now: Verdict) -> Iterator[str]:
    """Counts of fresh seeds that differ. Engines sum in another order than `fit`: one seed in twenty may differ."""
    seeds = recorded.run.fresh_seeds
    for name, share, again in (("with_flips", recorded.hold, now.hold), ("without_flips", recorded.base, now.base)):
        if share is not None and again is not None and abs(share - again) * seeds > 1 + seeds // 20:
            yield f"fresh.{name} is {round(share * seeds)} of {seeds}, retrained it is {round(again * seeds)}"


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
