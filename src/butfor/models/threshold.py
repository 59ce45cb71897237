"""Thresholds: a probability from which the decision is favourable, or a number of places.

A `Threshold` is what a user gives. A `Cut` is its form for a table: a class, and the score from which the decision is
that class. It converts a model's answers (log-odds of class 1 or, without probabilities, the decision function) to
logits measured from the cut. Under "top" the best of a pool of people have a place under every model: each model's cut
lies halfway between the last score in the pool with a place and the first without. Scores within `NEAR` of each other
are a tie, and everybody who ties with the last one has a place too.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from butfor.errors import SettingError

USUAL = 0.5
NEAR = 1e-5
"""Answers this close are a tie, since engines differ in the last digits."""
CLIP = 1e-9
"""Probabilities are clipped this far from 0 and 1, to keep log-odds finite."""
SMALLEST = float(np.finfo(np.float32).tiny)
TOP = re.compile(r"\s*top\s+([0-9.]+)\s*%\s*", re.IGNORECASE)
EXAMPLES = "give a probability above 0 and below 1, such as 0.8, or a share of people, such as 'top 20%'"

Answers = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Threshold:
    """`given`: the user's text. Either the lowest `probability` of the favourable label for a favourable decision, or
    the `share` of people who have a place."""

    given: float | str
    probability: float | None = None
    share: float | None = None

    @property
    def usual(self) -> bool:
        """Whether it is one half, the model's own decisions."""
        return self.probability == USUAL


def parse_threshold(given: Any) -> Threshold:
    """From a number, its text, or "top 20%"; an error for anything else."""
    if isinstance(given, str) and (top := TOP.fullmatch(given)):
        percent = _number(top[1])
        if percent is None or not 0 < percent < 100:
            raise SettingError(f"threshold={given!r}: the share of people must be above 0 % and below 100 %.")
        return Threshold(f"top {percent:g}%", share=percent / 100)
    number = _number(given)
    if number is None:
        raise SettingError(f"threshold={given!r} is not a threshold: {EXAMPLES}.")
    if not 0 < number < 1:
        hint = f" For the best {number:g} % of people write 'top {number:g}%'." if 1 < number < 100 else ""
        raise SettingError(f"threshold={number:g} is not a usable probability: {EXAMPLES}.{hint}")
    return Threshold(number, probability=number)


def _number(given: Any) -> float | None:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (str, int, float, np.integer, np.floating)):
        return None
    try:
        number = float(given)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class Places(NamedTuple):
    """The score at the cut, the number of people in the pool with a place, and the number who tie for the last place if
    more people have a place than there are places, else 0."""

    cut: NDArray[np.float64]
    accepted: NDArray[np.int64]
    ties: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cut:
    """`label`: the class, by number, on and above the cut. A fixed cut is at the score `at`, a probability or, if not
    `by_probability`, the decision function. With a `pool`, its best `places` get the label."""

    label: int
    at: float = USUAL
    by_probability: bool = True
    places: int = 0
    pool: pd.DataFrame | None = None

    @property
    def fixed(self) -> bool:
        return self.pool is None

    @property
    def sign(self) -> int:
        """1 if scores of the label are the answers, −1 if they are minus the answers."""
        return 1 if self.label == 1 else -1

    @property
    def fixed_answer(self) -> float:
        """A model's answer exactly at a fixed cut."""
        return self.sign * float(log_odds(self.at, np.finfo(float).eps) if self.by_probability else self.at)

    def margins(self, answers: Answers) -> NDArray[np.float32]:
        """Logits of class 1 measured from the cut, `[… × people]`, from answers `[… × people]` followed by those about
        the pool, if there is one."""
        if self.pool is None:
            return self.from_cut(answers, self.fixed_answer)
        pool = answers[..., -len(self.pool) :]
        return self.from_cut(answers[..., : -len(self.pool)], self.answer_at_cut(pool)[..., None])

    def from_cut(self, answers: Answers, at_cut: Any) -> NDArray[np.float32]:
        """Logits, given the answer at the cut; a person exactly there gets the label."""
        margins = answers.astype(np.float64) - at_cut
        if self.label == 1:
            margins[margins == 0] = SMALLEST
        return margins.astype(np.float32)

    def answer_at_cut(self, pool: Answers) -> NDArray[np.float64]:
        """Models' answers at their cut, from their answers about the pool, `[… × pool]`."""
        return np.array(self.fixed_answer) if self.fixed else self.sign * self.divide(pool).cut

    def divide(self, pool: Answers) -> Places:
        """The places in the pool, `[… × pool]` → `[…]`."""
        scores = -np.sort(-self.sign * pool.astype(np.float64), axis=-1)
        index, last = np.arange(scores.shape[-1] - 1), self.places - 1
        apart = scores[..., :-1] - scores[..., 1:] > NEAR
        below = apart & (index >= last)
        end = np.where(below.any(axis=-1), below.argmax(axis=-1), len(index))
        above = apart & (index < last)
        start = np.where(above.any(axis=-1), len(index) - above[..., ::-1].argmax(axis=-1), 0)
        after = np.minimum(end + 1, len(index))[..., None]
        inside, outside = (np.take_along_axis(scores, at, -1)[..., 0] for at in (end[..., None], after))
        cut = np.where(end == len(index), inside - 1, (inside + outside) / 2)
        cut[np.isnan(pool).any(axis=-1)] = np.nan
        return Places(cut, end + 1, np.where(end > last, end + 1 - start, 0))

    def score(self, answer: float, label: int) -> float:
        """An answer as shown: the probability of a label or, without probabilities, the decision function towards
        it."""
        towards = answer if label == 1 else -answer
        if not self.by_probability:
            return float(towards)
        if self.fixed and answer == self.fixed_answer:
            return self.at if label == self.label else 1 - self.at
        return float(expit(towards))

    def agreeing(self, answers: Answers, decided: NDArray[np.bool_]) -> NDArray[np.float32]:
        """Answers moved to the side of a fixed cut that `decided` says: probabilities are compared with more digits
        than float32 has."""
        found, at = answers.astype(np.float32), np.float32(self.fixed_answer)
        above, below = (_beyond(at, self.fixed_answer, way) for way in (1, -1))
        one, is_one = decided == (self.label == 1), self.from_cut(found, self.fixed_answer) > 0
        found[one & ~is_one], found[~one & is_one] = above, below
        return np.where(np.isnan(answers), np.float32(np.nan), found)


def _beyond(near: np.float32, at: float, way: int) -> np.float32:
    """The next float32 above `at`, or below it."""
    while way * (float(near) - at) <= 0:
        near = np.nextafter(near, np.float32(way * np.inf))
    return near


def log_odds(share: Any, least: float = CLIP) -> Any:
    clipped = np.clip(share, least, 1 - least)
    return np.log(clipped) - np.log1p(-clipped)
