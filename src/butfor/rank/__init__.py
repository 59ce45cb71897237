"""Rankings: which training labels to flip first for a person. One ranking per file.

Every ranking has a `name` and one method, ``score(model, table, people) -> [people × training rows]``, higher meaning
"flip first". What more it can do stands in `Ranking`. Scores of one person do not depend on who else is asked about. A
plain function with the signature of `score` is a ranking too, for every model.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from butfor.errors import SettingError
from butfor.learn.protocols import Model
from butfor.rank.ranking import Ranking, Scores, adapted, checked_scores

__all__ = ["NAMES", "Ranking", "Scores", "as_ranking", "checked_scores", "refuse_unaccepted"]

_CLASSES = {
    "gradient": "Gradient",
    "combined": "Combined",
    "surrogate": "Surrogate",
    "surrogate-signed": "Surrogate",
    "activation": "Activation",
    "distance": "Distance",
    "influence": "Influence",
    "leaves": "Leaves",
    "chance": "Chance",
}
"""Each in the file of its name, which is imported when it is used."""
NAMES = tuple(_CLASSES)


def as_ranking(given: str | Ranking | Callable[..., Scores], seed: int = 0) -> Ranking:
    """A ranking from its name, from an object with `score`, or from a plain function.

    `seed` is for the one that draws."""
    if isinstance(given, str):
        if given not in NAMES:
            raise SettingError(f"There is no ranking '{given}'; choose one of {', '.join(NAMES)}.")
        return _named(given, seed)
    if isinstance(given, type):
        raise SettingError(f"rank={given.__name__} is a class; give an instance, {given.__name__}().")
    if hasattr(given, "score") or callable(given):
        return adapted(given)
    raise SettingError(f"rank={given!r} is neither a ranking's name nor an object with a `score` method.")


def _named(name: str, seed: int) -> Ranking:
    home = import_module(f"butfor.rank.{name.removesuffix('-signed')}")
    settings: dict[str, dict[str, Any]] = {"surrogate-signed": {"signed": True}, "chance": {"seed": seed}}
    ranking: Ranking = getattr(home, _CLASSES[name])(**settings.get(name, {}))
    return ranking


def refuse_unaccepted(ranking: Ranking, model: Model, name: str) -> None:
    """One sentence where a ranking cannot rank for this model; `name` is the model's."""
    if not ranking.accepts(model):
        from butfor.rank.averaged import suited

        possible = [each for each in NAMES if suited(as_ranking(each), model).accepts(model)]
        raise SettingError(
            f"Ranking '{ranking.name}' needs {ranking.needs}, and this is an audit of {name}; for that there are "
            f"{', '.join(possible)}."
        )
