"""Rankings: which training labels to flip first for a person.

A ranking has a `name` and one method, ``score(model, table, people) -> [people × training rows]``, higher meaning "flip
first"; `Ranking` lists its further abilities. A person's scores do not depend on the other people. A plain function
with the signature of `score` is a ranking for every model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from butfor.errors import SettingError, nearest
from butfor.models.learner import Model
from butfor.rank.gradient import Gradient
from butfor.rank.named import Activation, Chance, Combined, Distance, Influence, Leaves, Surrogate
from butfor.rank.ranking import Ranking, Scores, checked_scores, wrap_ranking

__all__ = ["NAMES", "Ranking", "Scores", "as_ranking", "checked_scores", "refuse_unaccepted"]

_MAKERS: dict[str, Callable[..., Ranking]] = {
    "gradient": Gradient,
    "combined": Combined,
    "surrogate": Surrogate,
    "surrogate-signed": lambda: Surrogate(signed=True),
    "activation": Activation,
    "distance": Distance,
    "influence": Influence,
    "leaves": Leaves,
    "chance": Chance,
}
NAMES = tuple(_MAKERS)


def as_ranking(given: str | Ranking | Callable[..., Scores], seed: int = 0) -> Ranking:
    """A ranking from its name, an object with `score`, or a plain function; `seed` is for the ranking "chance"."""
    if isinstance(given, str):
        if given not in NAMES:
            raise SettingError(f"There is no ranking '{given}'. {nearest(given, NAMES)}")
        settings: dict[str, Any] = {"seed": seed} if given == "chance" else {}
        return _MAKERS[given](**settings)
    if isinstance(given, type):
        raise SettingError(f"rank={given.__name__} is a class; give an instance, {given.__name__}().")
    if hasattr(given, "score") or callable(given):
        return wrap_ranking(given)
    raise SettingError(f"rank={given!r} is neither a ranking's name nor an object with a `score` method.")


def refuse_unaccepted(ranking: Ranking, model: Model, name: str) -> None:
    """Raise an error if the ranking does not accept the model, which is called `name`."""
    if not ranking.ranks(model):
        possible = [each for each in NAMES if as_ranking(each).ranks(model)]
        raise SettingError(
            f"Ranking '{ranking.name}' needs {ranking.needs}, and this is an audit of {name}. Use one of "
            f"{', '.join(possible)}."
        )
