"""From people to verdicts: the steps of `LabelAudit.explain_all`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.data.check import check_people
from butfor.data.sensitive import in_order
from butfor.errors import SettingError, Stopped, TableError, listed
from butfor.fit import note_concerns
from butfor.ledger import Ledger
from butfor.machine import single_threaded
from butfor.models.ensemble import ledger_gaps
from butfor.models.learner import Engine
from butfor.progress import Progress
from butfor.prove import Bracket, prove
from butfor.result.groups import Performance
from butfor.result.labels import TrainingLabel
from butfor.result.population import Population
from butfor.result.run import RecordedStandards, StopLimits
from butfor.result.worlds import OneStandard
from butfor.rules import Allowed, eligible, flippable
from butfor.run.fitted import DRAWS, Fitted
from butfor.run.labels import labels_to_review
from butfor.run.parts import parts_of, run_parts
from butfor.run.runner import Runner
from butfor.run.trial import FlipTrial
from butfor.run.verdicts import run_of, verdicts_of
from butfor.situation import Situation
from butfor.standard.groups import Standards
from butfor.stopping import Stop, listen
from butfor.train import Trainer
from butfor.validate import as_positions
from butfor.worlds import WORLDS, falling_short, one_standard

STANDARDS_SHARE = 0.2
"""The share of the time limit for comparing groups."""


def explain_all(
    fitted: Fitted,
    X: Any,
    y: Any = None,
    *,
    sensitive_features: Any = None,
    cases: Sequence[int] | None = None,
    towards: Any = None,
    standards: Standards | None = None,
    stop: Stop | None = None,
    progress: Progress | None = None,
) -> tuple[Population, Standards | None]:
    """Verdicts about the rows of X at the positions `cases`, or about all, and the comparison of groups for later
    questions. `standards`: if already known."""
    begun, progress = time.monotonic(), progress or Progress()
    everyone, truth = fitted.people(X, y, sensitive_features)
    people = len(everyone.people)
    cases = list(range(people)) if cases is None else as_positions(cases, people)
    wanted = None if towards is None else fitted.label_number(towards, "towards")
    _refuse_infinite(everyone, cases)
    performance = None if truth is None else _performance(fitted, everyone, truth)
    concerns = [*fitted.concerns, *note_concerns(check_people(fitted.table.X, everyone.people), progress)]
    at_half = not fitted.table.decision.has_cut  # elsewhere fewer right decisions may be what is wanted
    concerns += [performance.concern] if performance and performance.concern and at_half else []
    searches = fitted.strategy.name != "recorded"
    with listen() as flag:
        if searches and standards is None:
            standards = _compare(fitted, progress, stop, draws=DRAWS if len(cases) > 1 else 0)
        if standards is not None:
            doubt = standards.doubt
            everyone = replace(everyone, doubts=lambda: doubt)
        engine = fitted.chosen_engine(progress)
        fitted.ranking.train_on(engine)
        with single_threaded() as opened:
            ledger = opened.enter_context(closing(open_ledger(fitted, progress))) if fitted.settings.ledger else None
            opened.enter_context(progress)
            runners = run_parts(
                fitted,
                everyone,
                truth,
                cases,
                wanted,
                engine,
                ledger=ledger,
                stop=stop,
                flag=flag,
                begun=begun,
                progress=progress,
                later=WORLDS * fitted.members * len(falling_short(standards)) if standards and len(cases) > 1 else 0,
            )
            changed, labels = list[OneStandard](), tuple[TrainingLabel, ...]()
            complete = not any(runner.interrupted or runner.out_of_time for runner in runners)
            if len(cases) > 1 and searches and standards is not None:
                if standards.draws or fitted.adverse is None:
                    labels = labels_to_review(fitted, standards)
                if standards.draws and complete:
                    whole = cases == list(range(people)) and not fitted.table.multiclass
                    trainer = runners[0].trainer if whole else _asking_everyone(fitted, everyone, runners[0], engine)
                    tried = FlipTrial.of(fitted, everyone, truth, trainer)
                    changed = one_standard(standards, tried, fitted.settings.random_state, fitted.fit_seconds)
        run = run_of(
            fitted,
            runners,
            everyone.decisions,
            groups=fitted.sensitive.combinations_of(everyone.people),
            remarks=tuple(fitted.remarks(everyone.people)),
            seconds=round(time.monotonic() - begun, 3),
            towards=None if wanted is None else fitted.label_names[wanted],
            stop=StopLimits(stop.seconds, stop.retrainings) if stop else None,
            performance=performance,
            concerns=tuple(concerns),
            standard=RecordedStandards.of(standards) if standards and standards.draws else None,
            one_standard=tuple(changed),
        )
        verdicts = {
            v.case: v for runner in runners for v in verdicts_of(runner, run, _doubt_for(fitted, runner, standards))
        }
        return Population([verdicts[case] for case in cases], run, labels), standards


def _refuse_infinite(everyone: Situation, cases: Sequence[int]) -> None:
    astray = [case for case in cases if not np.isfinite(everyone.logits[case])]
    if astray:
        raise TableError(
            f"The model's score for person {astray[0]} is infinite or not a number: check that row for numbers far "
            "outside the training rows."
        )


def _performance(fitted: Fitted, everyone: Situation, truth: NDArray[np.int64]) -> Performance:
    table = fitted.table
    groups = pd.Series(everyone.groups, name=fitted.sensitive.name)
    order = in_order(everyone.groups, fitted.sensitive.cuts)
    commonest = int(np.bincount(table.codes).argmax())  # the first of equally common ones
    named = None if table.multiclass and fitted.adverse is None else fitted.sides[1]
    return Performance.of(groups, truth, everyone.decisions, commonest, fitted.label_names, table.sides, named, order)


def _compare(fitted: Fitted, progress: Progress, stop: Stop | None, draws: int) -> Standards | None:
    """The comparison of groups, None if they cannot be compared or Ctrl-C came before the draws. Without an adverse
    label, only the doubts are computed. A time limit gives it a share."""
    if fitted.adverse is None and (not draws or fitted.table.multiclass):
        return None
    seconds = None if stop is None or stop.seconds is None else STANDARDS_SHARE * stop.seconds
    try:
        return fitted.compare(0 if fitted.adverse is None else draws, seconds, progress)
    except (TableError, SettingError) as error:
        if fitted.adverse is not None:
            progress.note(f"Note: groups are not compared. {error}")
        return None
    except Stopped:
        progress.note("Stopped before the groups were compared.")
        return None


def _asking_everyone(fitted: Fitted, everyone: Situation, runner: Runner, engine: Engine) -> Trainer:
    """A trainer like the runner's, for everyone."""
    return Trainer(engine, fitted.learner, fitted.table, everyone.people, progress=runner.progress, flag=runner.flag)


def _doubt_for(fitted: Fitted, runner: Runner, standards: Standards | None) -> NDArray[np.float64] | None:
    """The doubt about labels, if groups were compared. With more than two labels it is about two sides, and unknown for
    a flip within one side."""
    if standards is None or not fitted.table.multiclass:
        return None if standards is None else standards.doubt
    table, new = fitted.table, runner.situation.table.new_codes
    return np.where(table.sides(table.codes) != table.sides(new), standards.doubt, np.nan)


def open_ledger(fitted: Fitted, progress: Progress) -> Ledger:
    if gaps := ledger_gaps(fitted.learner):
        raise SettingError(
            f"A ledger identifies models by their records, and this model's record lacks {listed(gaps)}; leave the "
            "ledger out."
        )
    return Ledger(fitted.settings.ledger or "", progress.note)


# --- without a search -----------------------------------------------------------------------------------


def eligible_cases(fitted: Fitted, X: Any, most: int | None = None, *, sensitive_features: Any = None) -> list[int]:
    """The positions in X of the first `most` people whom φ admits."""
    situation, _ = fitted.people(X, None, sensitive_features)
    return [int(case) for case in np.flatnonzero(eligible(fitted.phi, situation))[:most]]


def flippable_labels(fitted: Fitted, X: Any, *, sensitive_features: Any = None) -> Allowed:
    """The training labels that ψ allows to flip for each row of X."""
    situation, _ = fitted.people(X, None, sensitive_features)
    return flippable(fitted.psi, situation)


def brackets(fitted: Fitted, X: Any, *, sensitive_features: Any = None) -> list[Bracket]:
    """Lower bounds for each row of X; an error if there is no proof for the model."""
    situation, _ = fitted.people(X, None, sensitive_features)
    psi, found = flippable(fitted.psi, situation), dict[int, Bracket]()
    for part in parts_of(situation):
        with single_threaded():
            proven = prove(part.of(situation), part.allowed(psi, situation))
        if proven is None:
            if fitted.table.decision.has_cut:
                raise SettingError(
                    f"There is no proof for {fitted.learner.name} at this threshold: with a threshold, only ridge "
                    "classifiers and nearest neighbours have proofs, at a fixed one."
                )
            raise SettingError(
                f"There is no proof for {fitted.learner.name}. Ridge classifiers, linear regression and kernel ridge "
                "on 0 and 1, nearest neighbours and PartitionEnsemble have proofs."
            )
        found |= zip(map(int, part.people), proven, strict=True)
    return [found[k] for k in sorted(found)]
