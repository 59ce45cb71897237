"""What a ranking is, and how its answer is checked."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.protocols import Engine, FlipSet, Floats, Model, Table
from butfor.machine import available_cores, results

Scores = NDArray[np.floating[Any]]
BLOCK = 256
"""People whose scores are held at a time where only their sum is asked for."""


class Ranking:
    """`score` must be there; the rest says what more a ranking can do. A user's own class need not derive from this
    one: `as_ranking` takes whatever has `score`."""

    name: str
    needs = "any model"
    """Which models it ranks for, in words."""
    predicts = False
    """Scores are predictions in units of logit, which retrainings can be compared with."""
    signed = False
    """Scores count away from the model's own decision."""
    rough = False
    """A single model's scores may be far off: the mean over the members of an ensemble is trimmed."""
    rescores = False
    """Whether `score_at` can rank for other labels than those the model was trained on."""
    draws = False
    """Pure chance: attempts are independent draws instead of a walk down one order."""
    rebuildable = True
    """Whether its name and parameters bring it back."""

    further = math.inf
    """How many times the gain of a person's best set by `predictions` any other set may bring; infinite where that is
    not known."""

    def accepts(self, model: Model) -> bool:
        return True

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        """`[people × training rows]`, higher = flip first."""
        raise NotImplementedError

    def total(self, model: Model, table: Table, people: pd.DataFrame, weights: Scores, out: int) -> Scores:
        """Scores summed over people, `[sums × training rows]`: each row of `weights [sums × people]` adds up to 1 and
        says how much people count in one sum. All of them are decided alike, and `out` is the direction out of that
        decision: +1 towards class 1, −1 away from it."""
        total = np.zeros((len(weights), table.n))
        for first in range(0, len(people), BLOCK):
            some = slice(first, first + BLOCK)
            total += weights[:, some] @ checked_scores(self, model, table, people.iloc[some])
        return total

    @property
    def enough(self) -> int | None:
        """Members of an ensemble to average over where all would take long."""
        return None

    def score_members(self, members: Sequence[Model], table: Table, people: pd.DataFrame) -> Iterator[Scores]:
        """The scores of several models in turn, as many at work as there are cores."""

        def one(member: Model) -> Scores:
            return checked_scores(self, member, table, people)

        cores = min(available_cores(), len(members))
        if cores == 1:
            yield from map(one, members)
            return
        with ThreadPoolExecutor(cores) as pool:
            for first in range(0, len(members), cores):
                yield from results([pool.submit(one, member) for member in members[first : first + cores]])

    def total_members(
        self, members: Sequence[Model], table: Table, people: pd.DataFrame, weights: Scores, out: int
    ) -> Iterator[Scores]:
        """The sums of several models in turn."""
        return (self.total(member, table, people, weights, out) for member in members)

    def score_at(self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]) -> Scores:
        """Scores for each person once their own `flips` are made."""
        raise NotImplementedError

    def asks_fewer_at_flips(self, model: Model, table: Table) -> bool:
        """Whether `score_at` goes by fewer members of an ensemble than `score` does."""
        return False

    def predictions(self, model: Model, table: Table, people: pd.DataFrame) -> Scores | None:
        """Each label's effect on each person in logits, `[people × n]`, where that can be believed."""
        return None

    def train_on(self, engine: Engine) -> None:
        """Told before scores are asked for: where a ranking that trains models itself is to do so."""

    def trial(self, people: int) -> int:
        """How many flip sets `prepare` trains at the most; 0: there is no trial."""
        return 0

    def prepare(
        self,
        retrain: Callable[[Sequence[FlipSet]], Floats],
        model: Model,
        table: Table,
        people: pd.DataFrame,
        psi: Any,
        budget: int,
    ) -> dict[str, Any]:
        """Hold a trial with the first of the people; what came out goes into the record."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """What it was made with, for the record."""
        return parameters(self)


class OwnRanking(Ranking):
    """A user's own object with `score`, or a function with its signature."""

    rebuildable = False

    def __init__(self, given: Any) -> None:
        self.given = given
        self.name = str(getattr(given, "name", getattr(given, "__name__", type(given).__name__)))
        self.needs = str(getattr(given, "needs", Ranking.needs))

    def accepts(self, model: Model) -> bool:
        can = getattr(self.given, "accepts", None)
        return can is None or bool(can(model))

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        scores: Scores = getattr(self.given, "score", self.given)(model, table, people)
        return scores

    def parameters(self) -> dict[str, Any]:
        return parameters(self.given)


def adapted(given: Any) -> Ranking:
    """A ranking as it is, or the user's own with the rest added."""
    return given if isinstance(given, Ranking) else OwnRanking(given)


def parameters(thing: Any) -> dict[str, Any]:
    """What a ranking or protocol was made with, for the record: each argument of its constructor, by name."""
    found = {}
    for name, parameter in inspect.signature(type(thing)).parameters.items():
        if hasattr(thing, name) and parameter.kind is not parameter.VAR_POSITIONAL:
            found[name] = _plain(getattr(thing, name))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no word for it
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    return {"name": value.name} | parameters(value) if hasattr(value, "name") else type(value).__name__


def checked_scores(ranking: Ranking, model: Model, table: Table, people: pd.DataFrame) -> Scores:
    """The scores, refused with a sentence where a ranking returned something that cannot be sorted."""
    scores = np.asarray(ranking.score(model, table, people))
    if scores.shape != (len(people), table.n):
        raise SettingError(
            f"Ranking '{ranking.name}' returned scores of shape {scores.shape}; expected one row per person "
            f"and one column per training row, {(len(people), table.n)}."
        )
    if scores.dtype.kind not in "fiub":
        raise SettingError(f"Ranking '{ranking.name}' returned scores that are no numbers ({scores.dtype}).")
    if not np.isfinite(scores).all():
        person, row = np.argwhere(~np.isfinite(scores))[0]
        raise SettingError(
            f"Ranking '{ranking.name}' returned {scores[person, row]} for person {person} and training row "
            f"{row}; every score must be a finite number."
        )
    return scores
