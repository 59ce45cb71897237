"""From a model's answers to decisions between two labels: one half, a cut, a share of places.

A model answers in log-odds of class 1 (or by its decision function). A `Decision` turns answers
into *margins*, logits measured from the line between two sides: above 0 a person is on side 1. With
more than two labels a model answers in one score per class, and `Sides` turn these into margins.
All other code sees margins, and so two sides.

    Decision()                                   one half, or whatever the model decides by itself:
                                                 margins are answers
    Decision(0.8, label=1, at=0.8)               a cut: the label is decided from this probability
    Decision("top 20%", share=0.2, pool=people)  places: the best of a pool of people get the label.
                                                 Each model's cut lies halfway between the last
                                                 score with a place and the first without

`DecisionFacts` is what a record stores of it.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from butfor.support.errors import SettingError
from butfor.table.sides import Margins

USUAL = 0.5
TIE_TOLERANCE = 1e-5
"""Answers this close are a tie, since engines differ in the last digits."""
CLIP = 1e-9
"""Probabilities are clipped this far from 0 and 1, to keep log-odds finite."""
SMALLEST_MARGIN = float(np.finfo(np.float32).tiny)
EXAMPLES = (
    "give a probability above 0 and below 1, such as 0.8, or a share of people, such as 'top 20%'"
)

Answers = NDArray[np.floating[Any]]


def decides_one(margins: Any) -> Any:
    """Whether margins decide for class 1 or, with more than two, for one that counts as 1."""
    return margins > 0


def changes_decision(logits: Margins, decision: int | NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each model decides differently; a training that diverged does not count."""
    return np.isfinite(logits) & (decides_one(logits) != decision)


def log_odds(probability: Any, least: float = CLIP) -> Any:
    clipped = np.clip(probability, least, 1 - least)
    return np.log(clipped) - np.log1p(-clipped)


def parse_threshold(given: Any) -> tuple[float | None, float | None]:
    """A user's threshold, a number, its text, or "top 20%": the probability, or the share of people
    who get a place."""
    number = math.nan
    top = None
    if isinstance(given, (str, int, float, np.integer, np.floating)) and not isinstance(
        given, (bool, np.bool_)
    ):
        top = re.fullmatch(r"\s*top\s+([0-9.]+)\s*%\s*", str(given), re.IGNORECASE)
        with suppress(ValueError):
            number = float(top[1] if top else given)
    if top and not 0 < number < 100:
        raise SettingError(
            f"threshold={given!r}: the share of people must be above 0 % and below 100 %."
        )
    if not math.isfinite(number):
        raise SettingError(f"threshold={given!r} is not a threshold: {EXAMPLES}.")
    if not top and not 0 < number < 1:
        hint = (
            f" For the best {number:g} % of people write 'top {number:g}%'."
            if 1 < number < 100
            else ""
        )
        raise SettingError(f"threshold={number:g} is not a usable probability: {EXAMPLES}.{hint}")
    return (None, number / 100) if top else (number, None)


@dataclass(frozen=True, eq=False)
class Decision:
    """The line between two sides. `given`: the threshold as the user wrote it.

    A cut: `label`, the class by number, is decided from the probability `at` on. Places: the best
    `share` of the `pool` get the label, by their decision function if not `by_probability`."""

    given: float | str | None = USUAL
    label: int = 1
    at: float | None = None
    by_probability: bool = True
    share: float | None = None
    pool: pd.DataFrame | None = None

    # --- what kind of line ---

    @property
    def has_cut(self) -> bool:
        """Whether a cut other than the model's own one half decides."""
        return self.at is not None or self.pool is not None

    @property
    def sign(self) -> int:
        """1 if scores of the label are the answers, −1 if they are minus the answers."""
        return 1 if self.label == 1 else -1

    @property
    def fixed_answer(self) -> float:
        """A model's answer exactly at a fixed cut; 0 without a cut."""
        return 0.0 if self.at is None else self.sign * float(log_odds(self.at, np.finfo(float).eps))

    # --- answers → margins ---

    def margins(self, answers: Answers, at_cut: Any = None) -> Margins:
        """Margins `[… × people]` from models' answers about people: `[… × people]`, followed by
        those about the pool if places are limited. `at_cut`: the answers at the cut if known, when
        the pool's are left out. A person exactly at the cut gets its label."""
        if not self.has_cut:
            return np.asarray(answers, np.float32)
        if at_cut is None:
            at_cut = self.answer_at_cut(answers)
            if self.pool is not None:
                answers = answers[..., : -len(self.pool)]
                at_cut = at_cut[..., None]
        margins = answers.astype(np.float64) - at_cut
        if self.label == 1:
            margins[margins == 0] = SMALLEST_MARGIN
        return margins.astype(np.float32)

    def decisions(self, answers: Answers) -> NDArray[np.int64]:
        """The decisions, 0 or 1, from the same answers."""
        return np.asarray(decides_one(self.margins(answers)), np.int64)

    def answer_at_cut(self, answers: Answers) -> NDArray[np.float64]:
        """Models' answers at their cut, `[…]`, from their answers, the last of which are about the
        pool."""
        if self.pool is None:
            return np.array(self.fixed_answer)
        cuts = [self.last_place(each)[0] for each in answers.reshape(-1, answers.shape[-1])]
        return self.sign * np.reshape(cuts, answers.shape[:-1])

    def with_pool(self, people: pd.DataFrame, X: pd.DataFrame) -> pd.DataFrame:
        """These people and, if places are limited, everyone who competes for them, with the
        categories of the training rows X."""
        if self.pool is None:
            return people
        both = pd.concat([people, self.pool])
        kinds = {
            name: dtype
            for name, dtype in X.dtypes.items()
            if isinstance(dtype, pd.CategoricalDtype)
        }
        return both.astype(kinds)

    @property
    def places(self) -> int:
        """How many people of the pool get a place."""
        people = 0 if self.pool is None else len(self.pool)
        rounding = 1e-9  # a share is seldom an exact float
        return math.floor((self.share or 0.0) * people + 0.5 + rounding)

    def last_place(self, answers: Answers) -> tuple[float, int]:
        """The score at the cut of one model, from its answers, the last of which are about the
        pool, and how many tie for the last place. Scores within `TIE_TOLERANCE` of each other tie.
        If more people tie than there are places, all of them have one; else the number is 0."""
        assert self.pool is not None
        scores = -np.sort(-self.sign * answers[-len(self.pool) :].astype(np.float64))
        if np.isnan(scores).any():
            return math.nan, 0
        # The last of each run of ties.
        ends = np.flatnonzero(np.append(scores[:-1] - scores[1:] > TIE_TOLERANCE, True))
        run = int(np.searchsorted(ends, self.places - 1))
        first = ends[run - 1] + 1 if run else 0
        last = ends[run]
        cut = (scores[last] + scores[last + 1]) / 2 if last + 1 < len(scores) else scores[last] - 1
        return float(cut), int(last + 1 - first) if last >= self.places else 0

    # --- scores, as shown ---

    def score(self, answer: float, label: int) -> float:
        """The score of a label at an answer: its probability or, without probabilities, the
        decision function towards it."""
        towards = answer if label == 1 else -answer
        if not self.by_probability:
            return float(towards)
        if self.at is not None and answer == self.fixed_answer:
            return self.at if label == self.label else 1 - self.at
        return float(expit(towards))

    def agreeing(self, answers: Answers, decided: NDArray[np.bool_]) -> Margins:
        """Answers moved to the side of a fixed cut, or of 0, where `decided` says whether they get
        the label: scores are compared with more digits than float32 has."""
        moved = answers.astype(np.float32)
        cut = np.float32(self.fixed_answer)
        step = max(abs(np.spacing(cut)), np.float32(SMALLEST_MARGIN))
        one = decided == (self.label == 1)
        is_one = self.margins(moved) > 0
        moved[one & ~is_one] = cut + step
        moved[~one & is_one] = cut - step
        return np.where(np.isnan(answers), np.float32(np.nan), moved)


ONE_HALF = Decision()


@dataclass(frozen=True)
class DecisionFacts:
    """What a record stores of the decision between two labels. `given`: the threshold as the user
    wrote it, None if it is the model's own. `cut`: whether it is another than one half, and where:
    the `probability` of the favourable label there, None without probabilities. With places for a
    `share` of people, `accepted` of the `pool` get one, and `ties` of them tie for the last. With a
    fixed cut, the pool is the rows given beside the training rows, if any.

    Of the `people` asked about, `favoured` get the favourable decision; of the training labels, the
    share `recorded` is favourable."""

    given: float | str | None = USUAL
    cut: bool = False
    probability: float | None = None
    share: float | None = None
    pool: int = 0
    accepted: int = 0
    ties: int = 0
    people: int = 0
    favoured: int = 0
    recorded: float = USUAL

    @property
    def alike(self) -> bool:
        """Whether everybody gets the same decision; of fewer than ten people that means little."""
        return self.people >= MIN_PEOPLE and self.favoured in (0, self.people)


MIN_PEOPLE = 10
"""Of fewer people, the share with the favourable decision means little."""
