"""The comparison of all groups, on the table as it is and on tables drawn by one standard."""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from butfor.machine import check_n_jobs, in_worker, single_threaded
from butfor.progress import Progress
from butfor.standard.inference import FEW, Drawn
from butfor.standard.members import Group
from butfor.standard.model import Floats, Standard, TwoModels
from butfor.standard.null import OneStandard
from butfor.standard.second_opinion import Opinion
from butfor.stopping import Stop, listen

AT_ONCE = (5, 25)
"""So few and so many drawn tables are fitted side by side, whatever the number of cores: numbers must not depend on
that."""
CELLS_AT_ONCE = 400_000
REDRAWS = 40
"""Of a group's labels per drawn table, where quantiles are taken."""
FIRST, NEAR, SECOND = range(3)
"""The shares of a group: by the others' standard, of its comparable rows alone, by AIPW."""


@dataclass(frozen=True, eq=False)
class Work:
    """What is needed to compare groups, whatever the labels. Opinions, one per group, where second ones are wanted."""

    standard: Standard
    encoded: TwoModels
    groups: list[Group]
    opinions: list[Opinion]
    weight: Floats | None

    def shares(self, place: int, labels: Floats) -> tuple[Floats, Floats, Floats]:
        """Of one group on tables with these labels `[tables × rows]`: shares by the others' standard `[3 × tables]`,
        and on the first table the probabilities of the group's rows and the outcomes that AIPW expects."""
        found = np.full((3, len(labels)), np.nan)
        group, outcomes = self.groups[place], np.empty((1, 0))
        by_row = self.standard.predict(group.others, group.rows, labels[:, group.others], self.weight)
        found[:SECOND] = self.means(place, by_row)
        if self.opinions:
            outcomes = self.opinions[place].outcomes(self.encoded, labels)
            found[SECOND] = self.opinions[place].expected(outcomes, labels)
        return found, by_row[0], outcomes[0]

    def means(self, place: int, values: Floats) -> tuple[Floats, Floats]:
        """Of values `[tables × rows of the group]`: over all its rows, and over the comparable ones."""
        rows = self.groups[place].rows
        weights = np.ones(len(rows)) if self.weight is None else self.weight[rows]
        near = weights * self.opinions[place].comparable if self.opinions else weights
        if not near.any():
            near = weights
        return values @ weights / weights.sum(), values @ near / near.sum()

    def drawn(self, null: OneStandard, seeds: list[tuple[int, int]]) -> Floats:
        """Shares on tables drawn with these seeds."""
        with single_threaded():
            labels = np.array([null.uniforms(seed) < null.everybody for seed in seeds], np.float64)
            return np.stack([self.shares(place, labels)[0] for place in range(len(self.groups))])


def jobs_of(n_jobs: int | None, tasks: int) -> int:
    """How many of the tasks to do at a time."""
    return max(1, min(check_n_jobs(n_jobs), tasks))


def draw(
    work: Work,
    null: OneStandard,
    draws: int,
    n_jobs: int | None,
    random_state: int,
    seconds: float | None,
    progress: Progress,
) -> tuple[Floats, bool]:
    """Shares of all groups on the drawn tables that were finished `[groups × 3 × tables]`, and whether Ctrl-C ended
    them."""
    size = int(np.clip(CELLS_AT_ONCE // len(null.everybody), *AT_ONCE))
    seeds = [(random_state, k) for k in range(draws)]
    parts = [seeds[k : k + size] for k in range(0, draws, size)]
    progress.phase("tables drawn by one standard", draws, "tables")
    backend = "threading" if work.standard.threads else "loky"
    parallel = Parallel(jobs_of(n_jobs, len(parts)), backend=backend, return_as="generator")
    done, interrupted = _until_stopped(
        parallel(delayed(in_worker)(os.getpid(), work.drawn, null, part) for part in parts), seconds, progress
    )
    return np.concatenate(done, axis=2) if done else np.empty((len(work.groups), 3, 0)), interrupted


def _until_stopped(
    tasks: Generator[Floats, None, None], seconds: float | None, progress: Progress
) -> tuple[list[Floats], bool]:
    """Ctrl-C ends it with the tables that are done, and it is said; so does the time, where it is limited."""
    done: list[Floats] = []
    with listen(Stop(seconds)) as flag:
        try:
            for part in tasks:
                done.append(part)
                progress.advance(part.shape[2])
                if flag.requested:
                    break
        finally:
            with warnings.catch_warnings(action="ignore"):  # joblib tells what is thrown away
                tasks.close()
    return done, flag.interrupted


def figures(
    work: Work, null: OneStandard, place: int, recorded: Floats, drawn: Floats, labels: Floats, random_state: int
) -> list[Drawn]:
    """Of one group: the figures of all its rows, of the comparable ones, and of the second opinion. `recorded [3]` and
    `drawn [3 × tables]` are shares by the others' standard."""
    rows = work.groups[place].rows
    tables = drawn.shape[1]
    uniforms = np.array([null.uniforms((random_state, k))[rows] for k in range(tables)]).reshape(tables, len(rows))
    weights = np.ones(len(rows)) if work.weight is None else work.weight[rows]
    own_draws = work.means(place, (uniforms < null.everybody[rows]).astype(float))
    recorded_shares = work.means(place, labels[None, rows])
    one_standard = work.means(place, null.everybody[None, rows])
    alternative = null.own[rows]
    expected = work.means(place, alternative[None])
    counts = len(rows) * float(expected[0][0])
    few = min(counts, len(rows) - counts) < FEW
    clustered = bool(null.correlation)
    again = REDRAWS if few and not clustered else 1
    if again > 1:
        uniforms = np.random.default_rng([random_state, 7, place]).random((tables * again, len(rows)))
    label_draws = work.means(place, (uniforms < alternative).astype(float))
    near = weights * work.opinions[place].comparable if work.opinions else weights
    found = []
    for kind in (FIRST, NEAR, SECOND):
        which = 1 if kind == NEAR else 0
        counted = near if kind == NEAR and near.any() else weights
        spread = alternative * (1 - alternative)
        found.append(
            Drawn(
                expected=float(recorded[kind]),
                recorded=float(recorded_shares[which][0]),
                draws=drawn[kind],
                own_draws=own_draws[which],
                one_standard=float(one_standard[which][0]),
                label_variance=float(counted**2 @ spread / counted.sum() ** 2),
                label_draws=(label_draws[which] - expected[which]).reshape(tables, again),
                few=few,
                clustered=clustered,
            )
        )
    return found
