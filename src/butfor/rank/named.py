"""Rankings by name. From section 2 of the paper: surrogate, activation similarity, their mean, and the two baselines.
Then influence functions of linear models, and leaves of trees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError, nearest
from butfor.machine import single_threaded
from butfor.models.learner import Floats, Model, Numbers, Table, flip_direction, person_keys
from butfor.nets import Network, Rows
from butfor.rank.gradient import Gradient
from butfor.rank.ranking import NetworkRanking, Ranking, Scores, checked_scores, numbers_of


class Surrogate(Ranking):
    """The weight of each label in a ridge regression's prediction for the person, Σ zᵢyᵢ with z = xᵀ(XᵀX + λI)⁻¹Xᵀ:
    |zᵢ| as published. `signed=True` scores the change of the prediction, away from the person's present class, if label
    i is flipped (unit: probability). For ridge regression itself the signed order is optimal; |zᵢ| also ranks rows of
    the wrong sign high."""

    def __init__(self, ridge: float = 1.0, signed: bool = False) -> None:
        if not ridge > 0:
            raise SettingError(f"ridge={ridge} must be above 0.")
        self.ridge, self.signed = ridge, signed
        self.name = "surrogate-signed" if signed else "surrogate"

    def weights(self, rows: Numbers, people: Numbers) -> NDArray[np.float64]:
        """z, `[people × training rows]`."""
        X = rows.astype(np.float64)
        gram = X.T @ X + self.ridge * np.eye(X.shape[1])
        return np.linalg.solve(gram, np.asarray(people, np.float64).T).T @ X.T

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        z = self.weights(*numbers_of(model, table, people))
        if not self.signed:
            return np.abs(z, out=z)
        z *= flip_direction(model.logits(people))[:, None]
        z *= (1 - 2 * table.zero_one)[None, :]
        return z


class Activation(NetworkRanking):
    """The weighted share of hidden neurons, from 0 to 1, that are in the same on/off state for the person and a
    training row. Neurons of the last hidden layer have weight 1, those of each layer before it `decay` times the next.
    A neuron is on if its output is above `threshold`, by default that of the activation function."""

    name = "activation"
    needs = "a butfor.MLP with hidden layers"

    def __init__(self, decay: float = 0.5, threshold: float | None = None) -> None:
        if not 0 < decay <= 1:
            raise SettingError(f"decay={decay} must be above 0 and at most 1.")
        self.decay, self.threshold = decay, threshold

    def accepts(self, model: Model) -> bool:
        return super().accepts(model) and bool(model.as_network.network.recipe.hidden)

    def score_network(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float32]:
        limit = (0.5 if network.activation == "sigmoid" else 0.0) if self.threshold is None else self.threshold

        def signs(X: Floats) -> Floats:
            """±√weight per neuron, all layers side by side."""
            patterns = [layer > limit for layer in network.layers(X)[:-1]]
            weights = [self.decay**depth for depth in reversed(range(len(patterns)))]
            each = [(np.sqrt(w) * (2 * b - 1.0)).astype(np.float32) for w, b in zip(weights, patterns, strict=True)]
            return np.hstack(each)

        ours, theirs = signs(people), signs(rows.X)
        # With states as ±√w the dot product is (weight of equal neurons) − (weight of different ones).
        similarity: NDArray[np.float32] = ours @ theirs.T
        similarity /= np.float32((ours[0] ** 2).sum())
        similarity += 1
        similarity /= 2
        return similarity


class Combined(Ranking):
    """The mean of the scores of several rankings, min–max normalised per person; by default of the two above."""

    name = "combined"

    def __init__(self, parts: Sequence[Ranking] | None = None) -> None:
        self.parts = [as_ranking(part) for part in parts or (Surrogate(), Activation())]
        self.needs = " and ".join(dict.fromkeys(part.needs for part in self.parts))

    def accepts(self, model: Model) -> bool:
        return all(part.accepts(model) for part in self.parts)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        total = np.zeros((len(people), table.n))
        for part in self.parts:  # person by person: a copy of all scores would double the memory
            for own, scored in zip(total, checked_scores(part, model, table, people), strict=True):
                low, spread = scored.min(), np.ptp(scored)
                own += (scored - low) / (spread if spread > 0 else 1)
        total /= len(self.parts)
        return total


class Distance(Ranking):
    """Minus the Euclidean distance between the person and each training row, as the model sees them."""

    name = "distance"

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        from sklearn.metrics.pairwise import euclidean_distances

        rows, asked = numbers_of(model, table, people)
        return -euclidean_distances(np.asarray(asked, np.float64), rows.astype(np.float64))


class Chance(Ranking):
    """Uniform scores, drawn per person from `seed` and the person's own values."""

    name = "chance"
    is_random = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        keys = person_keys(model, people)
        draws = [np.random.default_rng([self.seed, key]).random(table.n) for key in keys]
        return np.array(draws).reshape(len(people), table.n)


class Influence(Ranking):
    """The predicted change of the logit, away from the person's present class, if label i is flipped.

    Logistic regression and ridge classifiers stop at the minimum of their loss, so the first-order answer is exact for
    ridge and a Newton step for logistic regression. A network stops long before one; use `gradient` there."""

    name = "influence"
    needs = "logistic regression or ridge"
    predicts = signed = True

    def accepts(self, model: Model) -> bool:
        return model.flip_effects is not None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        with single_threaded():
            effects = model.flip_effects(table, people)
        return effects * flip_direction(model.logits(people))[:, None]


class Leaves(Ranking):
    """The share of trees, from 0 to 1, in which person and row fall into the same leaf; the labels of a leaf's rows
    make its value."""

    name = "leaves"
    needs = "a tree, a forest or boosted trees"

    def accepts(self, model: Model) -> bool:
        return model.leaves is not None

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float32]:
        ours, theirs = map(model.leaves, (people, table.X))
        shared = np.zeros((len(people), table.n), np.float32)
        for mine, others in zip(ours.T, theirs.T, strict=True):
            shared += mine[:, None] == others[None, :]
        return shared / ours.shape[1]


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


def as_ranking(given: Any, seed: int = 0) -> Ranking:
    """A ranking from its name, an object with `score`, or a plain function; `seed` is for the ranking "chance"."""
    if isinstance(given, Ranking):
        return given
    if isinstance(given, str):
        if given not in NAMES:
            raise SettingError(f"There is no ranking '{given}'. {nearest(given, NAMES)}")
        return Chance(seed) if given == "chance" else _MAKERS[given]()
    if isinstance(given, type):
        raise SettingError(f"rank={given.__name__} is a class; give an instance, {given.__name__}().")
    if not (hasattr(given, "score") or callable(given)):
        raise SettingError(f"rank={given!r} is neither a ranking's name nor an object with a `score` method.")
    own = Ranking()
    own.name = str(getattr(given, "name", getattr(given, "__name__", type(given).__name__)))
    own.score = getattr(given, "score", given)  # type: ignore[method-assign]
    own.rebuildable = False
    return own


def refuse_unaccepted(ranking: Ranking, model: Model, name: str) -> None:
    """Raise an error if the ranking does not accept the model, which is called `name`."""
    if not ranking.ranks(model):
        possible = [each for each in NAMES if as_ranking(each).ranks(model)]
        raise SettingError(
            f"Ranking '{ranking.name}' needs {ranking.needs}, and this is an audit of {name}. Use one of "
            f"{', '.join(possible)}."
        )
