"""People who are audited together: everyone or, with more than two labels, those who share a decision and the label
that flips give. Runners go one after the other, within common limits."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from butfor.decide import Decision
from butfor.ledger import Ledger
from butfor.models.learner import Engine
from butfor.progress import Progress
from butfor.rules import Allowed, eligible, flippable
from butfor.run.fitted import Fitted
from butfor.run.runner import Runner
from butfor.situation import Situation
from butfor.stopping import Stop, StopFlag
from butfor.train import Trainer

LEAST_TIME = 0.1
"""The least share of the time limit for the search."""


@dataclass(frozen=True, eq=False)
class Part:
    """`people`: positions among the audited. `decision`: with more than two labels, the decisions asked about."""

    people: NDArray[np.int64]
    decision: Decision | None = None

    def of(self, situation: Situation) -> Situation:
        return situation if self.decision is None else situation.of(self.people).with_decision(self.decision)

    def allowed(self, psi: Allowed, situation: Situation) -> Allowed:
        """What `psi` allows for these people, without rows that have the new label already."""
        if self.decision is None:
            return psi
        theirs = psi.of_people(self.people)
        return replace(theirs, masks=theirs.masks & (self.decision.new != situation.table.codes))


def parts_of(situation: Situation, towards: int | None = None) -> list[Part]:
    """Everyone or, with more than two labels, by decision and by the label that flips give: `towards`, or the label
    with the next score."""
    if not situation.table.multiclass:
        return [Part(np.arange(len(situation.people)))]
    decided, others = situation.decisions, situation.model.scores(situation.people).copy()
    others[np.arange(len(others)), decided] = -np.inf
    asked = np.full(len(decided), False) if towards is None else decided != towards
    new = np.where(asked, -1 if towards is None else towards, others.argmax(axis=1))
    found = []
    for pair in sorted(set(zip(decided.tolist(), new.tolist(), strict=True))):
        people = np.flatnonzero((decided == pair[0]) & (new == pair[1]))
        make = Decision.only if asked[people[0]] else Decision.away_from
        found.append(Part(people, make(*pair, len(situation.table.classes), situation.table.n)))
    return found or [Part(np.arange(0))]


def run_parts(
    fitted: Fitted,
    everyone: Situation,
    truth: NDArray[np.int64] | None,
    cases: Sequence[int],
    towards: int | None,
    engine: Engine,
    *,
    ledger: Ledger | None,
    stop: Stop | None,
    flag: StopFlag,
    begun: float,
    progress: Progress,
    later: int = 0,
) -> list[Runner]:
    """Audit the people at `cases`, part by part. Side effects are counted on everyone, whose recorded labels are
    `truth`. `begun`: when the time of `stop` began; `flag`: what else ends the work; `later`: trainings after the
    search."""
    situation = everyone.of(np.array(cases, dtype=np.int64))
    psi = flippable(fitted.psi, situation)
    admitted = eligible(fitted.phi, situation) & (situation.decisions != towards)
    runners: list[Runner] = []
    # The part with most people comes first and estimates the time.
    for part in sorted(parts_of(situation, towards), key=lambda part: -int(admitted[part.people].sum())):
        left = len(cases) - sum(len(runner.situation.people) for runner in runners)
        trained = sum(runner.trainer.trained for runner in runners)
        limits = left_of(stop, time.monotonic() - begun, trained, len(part.people) / max(1, left))
        asked = part.of(situation)
        trainer = Trainer(
            engine,
            fitted.learner,
            asked.table,
            asked.people,
            ledger=ledger,
            n_jobs=fitted.settings.n_jobs,
            progress=progress,
            flag=flag.within(limits),
        )
        runner = Runner(
            fitted,
            asked,
            part.people,
            [cases[k] for k in part.people],
            part.allowed(psi, situation),
            np.flatnonzero(admitted[part.people]),
            trainer,
            everyone=None if runners else int(admitted.sum()),
            later=later,
        )
        runner.run(everyone.people, truth)
        runners.append(runner)
    return runners


def left_of(stop: Stop | None, spent: float, trained: int = 0, share: float = 1.0) -> Stop | None:
    """What is left of the limits: trainings, and a share of the remaining seconds or of a tenth of all."""
    if stop is None:
        return None
    seconds = None if stop.seconds is None else share * max(LEAST_TIME * stop.seconds, stop.seconds - spent)
    return Stop(seconds, None if stop.retrainings is None else max(0, stop.retrainings - trained))
