"""The comparison of all groups, on the table as it is and on tables drawn by one standard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from butfor.errors import Stopped
from butfor.machine import check_n_jobs, give_back_memory, in_threads, single_threaded
from butfor.progress import Progress
from butfor.standard.inference import FEW, Drawn
from butfor.standard.inputs import Floats, Mask
from butfor.standard.members import Group
from butfor.standard.model import Standard, TwoModels
from butfor.standard.null import OneStandard, seeds_of
from butfor.standard.second_opinion import EVERYBODY, Opinion, Part
from butfor.standard.slices import Slicing, sums_in
from butfor.stopping import Stop, listen

AT_ONCE = (5, 25)
"""At least and at most this many drawn tables are fitted side by side; the same on any number of cores, since figures
depend on it."""
CELLS_AT_ONCE, PREDICTED_AT_ONCE = 400_000, 4_000_000
"""Learned rows, and predicted ones, of the tables that are fitted side by side."""
REDRAWS = 40
"""Of a group's labels per drawn table, where quantiles are taken."""
FIRST, NEAR, SECOND, SLICES = range(4)
"""The shares of a group: by the others' standard, of its comparable rows alone, by AIPW, and of its slices."""

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Averages:
    """Means over a group's rows: all, the comparable ones, and each slice."""

    parts: tuple[tuple[NDArray[np.int32], Floats], ...]
    """Where rows count, see `sums_in`, and one over the weight of each place: all and comparable rows, then slices."""
    weight: Floats | None
    count: int
    """How many means there are."""

    @classmethod
    def of(cls, near: Mask, slicing: Slicing, weight: Floats | None) -> Averages:
        weights = np.ones(len(near)) if weight is None else weight
        both = np.column_stack([np.zeros(len(near)), np.where(near, 1, 2)]).astype(np.int32)
        places = [(both, 2), (slicing.places, len(slicing.names))]
        parts = [(at, 1 / sums_in(at, np.ones(at.shape), count, weights)) for at, count in places]
        return cls(tuple(parts), weight, 2 + len(slicing.names))

    def of_tables(self, values: Floats, power: int = 1) -> Floats:
        """Of values `[rows]` or `[tables × rows]`: `[means]` or `[means × tables]`; weights raised to a power."""
        found = []
        for places, factors in self.parts:
            weights = np.append(factors, 0.0)[places]
            weights = weights if self.weight is None else weights * self.weight[:, None]
            found.append(sums_in(places, weights**power if power > 1 else weights, len(factors), values).T)
        return np.concatenate(found)


@dataclass(frozen=True, eq=False)
class Work:
    """What every comparison of the groups needs, for any labels. Opinions and slices: one each per group, or none.
    `parts`: of each group's others, those that models of drawn labels learn from."""

    standard: Standard
    encoded: TwoModels
    groups: list[Group]
    opinions: list[Opinion]
    weight: Floats | None
    null: OneStandard
    parts: list[Part]
    slicings: list[Slicing] = field(default_factory=list)

    @cached_property
    def averages(self) -> list[Averages]:
        """Per group: over all its rows, over the comparable ones, and over each slice."""
        found = []
        for place, group in enumerate(self.groups):
            weights = self.weights(place)
            near = self.opinions[place].comparable if self.opinions else np.ones(len(group.rows), bool)
            if not (weights * near).any():
                near = np.ones(len(group.rows), bool)
            slicing = self.slicings[place] if self.slicings else Slicing.nothing(len(group.rows))
            found.append(Averages.of(near, slicing, None if self.weight is None else weights))
        return found

    def weights(self, place: int) -> Floats:
        """Of a group's rows."""
        rows = self.groups[place].rows
        return np.ones(len(rows)) if self.weight is None else self.weight[rows]

    def shares(self, place: int, labels: NDArray[Any], part: Part = EVERYBODY) -> tuple[Floats, Floats, Floats]:
        """Of one group on tables with these labels `[tables × rows]`: shares by the standard of the others, or of a
        part of them, `[shares × tables]`, and on the first table the probabilities of the group's rows and the outcomes
        that AIPW expects."""
        group, outcomes, second = self.groups[place], np.empty((1, 0)), np.full(len(labels), np.nan)
        learn = group.others[part.rows]
        learned = part.labels(labels[:, learn], self.null.everybody[learn])
        by_row = self.standard.predict(learn, group.rows, learned, part.weight(self.weight, learn))
        means, by_row = self.averages[place].of_tables(by_row), by_row[0].copy()
        if not isinstance(self.encoded.inputs, np.ndarray):  # a large table
            give_back_memory()
        if self.opinions:
            outcomes = self.opinions[place].outcomes(self.encoded, learned, part)
            second = self.opinions[place].expected(outcomes, learned, part)
        return np.insert(means, SECOND, second, axis=0), by_row, outcomes[0]

    def drawn(self, seeds: list[tuple[int, int]]) -> list[Floats]:
        """Shares of each group on tables drawn with these seeds."""
        with single_threaded():
            labels = np.array([self.null.uniforms(seed) < self.null.everybody for seed in seeds])
            return [self.shares(place, labels, part)[0] for place, part in enumerate(self.parts)]

    def as_by_all(self, place: int, drawn: Floats, all_others: Floats) -> Floats:
        """Shares on drawn tables as if models had learned from all of the others: the labels' noise moves those that
        learn from a part as far, and what is left is how they read the expected labels; all of the others'
        models read them as `all_others [shares]`."""
        part = self.parts[place]
        if part is EVERYBODY:
            return drawn
        return drawn + (all_others - self.shares(place, self.null.everybody[None], part)[0][:, 0])[:, None]


def side_by_side(
    n_jobs: int | None, function: Callable[..., T], each: Iterable[tuple[Any, ...]], progress: Progress | None = None
) -> list[T]:
    """The function's results for each of these arguments, in order."""
    advance = None if progress is None else progress.advance
    return list(in_threads(lambda given: function(*given), each, check_n_jobs(n_jobs), advance))


def draw(
    work: Work,
    null: OneStandard,
    draws: int,
    n_jobs: int | None,
    random_state: int,
    seconds: float | None,
    progress: Progress,
) -> tuple[list[Floats], bool]:
    """Shares of each group on the drawn tables that were finished `[shares × tables]`, and whether Ctrl-C ended
    them. Ctrl-C ends tables in hand too; a time limit lets the first ones finish."""
    learned = max(len(g.others[part.rows]) for g, part in zip(work.groups, work.parts, strict=True))
    predicted = max(len(group.rows) for group in work.groups)
    size = int(np.clip(min(CELLS_AT_ONCE // learned, PREDICTED_AT_ONCE // predicted), *AT_ONCE))
    seeds = seeds_of(random_state, range(draws))
    parts = [seeds[k : k + size] for k in range(0, draws, size)]
    progress.phase("tables drawn by one standard", draws, "tables")
    done = [[np.empty((1 + each.count, 0)) for each in work.averages]]
    shares = in_threads(lambda part: work.drawn(part), parts, check_n_jobs(n_jobs))
    with listen(Stop(seconds)) as flag, closing(shares), suppress(Stopped):
        for part in shares:
            done.append(part)
            progress.advance(part[0].shape[1])
            if flag.requested:
                break
    return [np.concatenate(group, axis=1) for group in zip(*done, strict=True)], flag.interrupted


def figures(
    work: Work, null: OneStandard, place: int, recorded: Floats, drawn: Floats, labels: Floats, random_state: int
) -> list[Drawn]:
    """Of one group: the figures of all its rows, of the comparable ones, of the second opinion, and of its slices.
    `recorded [shares]` and `drawn [shares × tables]` are shares by the others' standard."""
    rows, averages = work.groups[place].rows, work.averages[place]
    alternative, tables = null.own[rows], drawn.shape[1]
    everybody = null.everybody[rows]
    recorded_shares, one_standard, expected = averages.of_tables(np.array([labels[rows], everybody, alternative])).T
    counts = len(rows) * float(expected[0])
    few = min(counts, len(rows) - counts) < FEW
    clustered = bool(null.correlation)
    again = REDRAWS if few and not clustered else 1
    own, other = [np.empty((averages.count, 0))], [np.empty((averages.count, 0))]
    for uniforms in null.uniforms_of(rows, random_state, tables):
        own.append(averages.of_tables((uniforms < everybody).astype(float)))
        if again == 1:
            other.append(averages.of_tables((uniforms < alternative).astype(float)))
    if again > 1:
        uniforms = np.random.default_rng([random_state, 7, place]).random((tables * again, len(rows)))
        other.append(averages.of_tables((uniforms < alternative).astype(float)))
    own_draws = np.concatenate(own, axis=1)
    label_draws = np.concatenate(other, axis=1) - expected[:, None]
    label_variance = averages.of_tables(alternative * (1 - alternative), power=2)
    found = []
    for kind in range(len(recorded)):
        which = kind if kind < SECOND else 0 if kind == SECOND else kind - 1
        found.append(
            Drawn(
                expected=float(recorded[kind]),
                recorded=float(recorded_shares[which]),
                draws=drawn[kind],
                own_draws=own_draws[which],
                one_standard=float(one_standard[which]),
                label_variance=float(label_variance[which]),
                label_draws=label_draws[which].reshape(tables, again),
                few=few,
                clustered=clustered,
            )
        )
    return found
