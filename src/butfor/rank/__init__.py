"""Rankings: which training labels to flip first for a person. One ranking per file.

Every ranking has a `name` and one method, ``score(network, rows, people) -> [people × training rows]``,
higher meaning "flip first". Scores of one person do not depend on who else is asked about, except through the
trial that "guided" holds (`prepare`).
A plain function with that signature is a ranking too. One that trains networks itself has `train_on(device)`,
which an audit calls with its engine's device before it asks for scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.learn.recipe import Floats, Network, Rows

Scores = NDArray[np.floating[Any]]


class Ranking(Protocol):
    name: str

    def score(self, network: Network, rows: Rows, people: Floats) -> Scores: ...


class FunctionRanking:
    """A user's function as a ranking."""

    def __init__(self, function: Callable[[Network, Rows, Floats], Scores]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def score(self, network: Network, rows: Rows, people: Floats) -> Scores:
        return self.function(network, rows, people)


NAMES = (
    "guided", "gradient", "combined", "surrogate", "surrogate-signed", "activation", "distance",
    "influence", "influence-gn", "chance",
)  # fmt: skip


def as_ranking(given: str | Ranking | Callable[..., Scores], seed: int = 0) -> Ranking:
    """A ranking from its name, from an object with `score`, or from a plain function.

    `seed` is for the one that draws."""
    if isinstance(given, str):
        if given not in NAMES:
            raise SettingError(f"There is no ranking '{given}'; choose one of {', '.join(NAMES)}.")
        return _named(given, seed)
    if hasattr(given, "score"):
        return cast(Ranking, given)
    if callable(given):
        return FunctionRanking(given)
    raise SettingError(f"rank={given!r} is neither a ranking's name nor an object with a `score` method.")


def _named(name: str, seed: int) -> Ranking:
    from butfor.rank.activation import Activation
    from butfor.rank.chance import Chance
    from butfor.rank.combined import Combined
    from butfor.rank.distance import Distance
    from butfor.rank.gradient import Gradient
    from butfor.rank.guided import Guided
    from butfor.rank.influence import Influence
    from butfor.rank.surrogate import Surrogate

    makers: dict[str, Callable[[], Ranking]] = {
        "guided": Guided,
        "gradient": Gradient,
        "combined": Combined,
        "surrogate": Surrogate,
        "surrogate-signed": lambda: Surrogate(signed=True),
        "activation": Activation,
        "distance": Distance,
        "influence": Influence,
        "influence-gn": lambda: Influence(form="gauss-newton"),
        "chance": lambda: Chance(seed),
    }
    return makers[name]()


def checked_scores(ranking: Ranking, network: Network, rows: Rows, people: Floats) -> Scores:
    """The scores, refused with a sentence where a ranking returned something that cannot be sorted."""
    scores = np.asarray(ranking.score(network, rows, people))
    if scores.shape != (len(people), rows.n):
        raise SettingError(
            f"Ranking '{ranking.name}' returned scores of shape {scores.shape}; expected one row per person "
            f"and one column per training row, {(len(people), rows.n)}."
        )
    if not np.isfinite(scores).all():
        person, row = np.argwhere(~np.isfinite(scores))[0]
        raise SettingError(
            f"Ranking '{ranking.name}' returned {scores[person, row]} for person {person} and training row "
            f"{row}; every score must be a finite number."
        )
    return scores
