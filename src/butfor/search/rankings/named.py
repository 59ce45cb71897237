"""Rankings by name: those of section 2 of the paper (surrogate, activation similarity, their mean,
and the two baselines), influence functions of linear models, leaves of trees, and the exact
gradient of a network's training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.models import abilities
from butfor.models.abilities import AsNetwork, FlipEffects
from butfor.models.seam import (
    Engine,
    FlipSet,
    Floats,
    Model,
    Numbers,
    flip_direction,
    person_keys,
)
from butfor.nets import Recipe, Rows, label_gradient
from butfor.search.rankings.ranking import (
    Ranking,
    Scores,
    check_above_zero,
    checked_scores,
    numbers_of,
    percentile,
)
from butfor.support import stopping
from butfor.support.checks import check_whole
from butfor.support.cores import available_cores
from butfor.support.errors import SettingError, nearest
from butfor.support.threads import single_threaded
from butfor.table.table import Table

if TYPE_CHECKING:
    from butfor.nets.sweeps import LabelGradient, Sweep


class Surrogate(Ranking):
    """The weight of each label in a ridge regression's prediction for a person: |zᵢ| as published,
    where the prediction is Σ zᵢyᵢ and z = xᵀ(XᵀX + λI)⁻¹Xᵀ.

    `signed=True` scores the change of the prediction, away from the person's present class, if
    label i is flipped (unit: probability). For ridge regression itself the signed order is optimal;
    |zᵢ| also ranks rows of the wrong sign high."""

    def __init__(self, ridge: float = 1.0, signed: bool = False) -> None:
        check_above_zero(ridge=ridge)
        self.ridge = ridge
        self.signed = signed
        self.name = "surrogate-signed" if signed else "surrogate"

    def weights(self, rows: Numbers, people: Numbers) -> NDArray[np.float64]:
        """z, `[people × training rows]`."""
        X = rows.astype(np.float64)
        asked = np.asarray(people, np.float64)
        if X.shape[1] > len(X):
            # The same by the smaller matrix: (XᵀX + λI)⁻¹Xᵀ = Xᵀ(XXᵀ + λI)⁻¹.
            gram = X @ X.T + self.ridge * np.eye(len(X))
            return np.asarray(np.linalg.solve(gram, X @ asked.T).T, np.float64)
        gram = X.T @ X + self.ridge * np.eye(X.shape[1])
        return np.linalg.solve(gram, asked.T).T @ X.T

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        z = self.weights(*numbers_of(model, table, people))
        if not self.signed:
            return np.abs(z, out=z)
        z *= flip_direction(model.logits(people))[:, None]
        z *= (1 - 2 * table.zero_one)[None, :]
        return z


class Activation(Ranking):
    """The weighted share of hidden neurons, from 0 to 1, that are in the same on/off state for the
    person and a training row. Neurons of the last hidden layer have weight 1, those of each layer
    before it `decay` times the next. A neuron is on if its output is above 0, of a sigmoid above
    one half."""

    name = "activation"
    needs = "a butfor.MLP with hidden layers"
    asks = AsNetwork

    def __init__(self, decay: float = 0.5) -> None:
        check_above_zero(decay=decay)
        self.decay = decay

    def accepts(self, model: Model) -> bool:
        ours = model.ability(AsNetwork)
        return ours is not None and bool(ours.as_network.network.recipe.hidden)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float32]:
        subject = model.needed(AsNetwork).as_network
        network = subject.network
        limit = 0.5 if network.activation == "sigmoid" else 0.0

        def signs(X: Floats) -> Floats:
            """±√weight per neuron, all layers side by side."""
            signed = []
            for k, layer in enumerate(reversed(network.layers(X)[:-1])):
                signed.append(np.sqrt(self.decay**k) * (2 * (layer > limit) - 1.0))
            return np.hstack(signed[::-1]).astype(np.float32)

        ours = signs(subject.encoded(people))
        theirs = signs(subject.rows.X)
        # With states as ±√w the dot product is (weight of equal neurons) − (weight of different
        # ones).
        similarity: NDArray[np.float32] = ours @ theirs.T
        similarity /= np.float32((ours[0] ** 2).sum())
        similarity += 1
        similarity /= 2
        return similarity


class Combined(Ranking):
    """The mean of the scores of several rankings, min–max normalised per person; by default of the
    two above."""

    name = "combined"

    def __init__(self, parts: Sequence[Any] = ("surrogate", "activation")) -> None:
        self.parts = [as_ranking(part) for part in parts]
        self.rebuildable = all(part.rebuildable for part in self.parts)
        self.needs = " and ".join(dict.fromkeys(part.needs for part in self.parts))

    def accepts(self, model: Model) -> bool:
        return all(part.accepts(model) for part in self.parts)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        total = np.zeros((len(people), table.n))
        for part in self.parts:
            # Person by person: a copy of all scores would double the memory.
            for k, scores in enumerate(checked_scores(part, model, table, people)):
                low = scores.min()
                spread = np.ptp(scores)
                total[k] += (scores - low) / (spread if spread > 0 else 1)
        total /= len(self.parts)
        return total


class Distance(Ranking):
    """Minus the Euclidean distance between the person and each training row, as the model sees
    them."""

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
        self.seed = check_whole("seed", seed, 0)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float64]:
        draws = [
            np.random.default_rng([self.seed, key]).random(table.n)
            for key in person_keys(model, people)
        ]
        return np.array(draws).reshape(len(people), table.n)


class Influence(Ranking):
    """The predicted change of the logit, away from the person's present class, if label i is
    flipped.

    Logistic regression and ridge classifiers stop at the minimum of their loss, so the first-order
    answer is exact for ridge and a Newton step for logistic regression. A network stops long before
    one; use `gradient` there."""

    name = "influence"
    needs = "logistic regression or ridge"
    asks = FlipEffects
    predicts = True
    signed = True

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        with single_threaded():
            effects = model.needed(FlipEffects).flip_effects(table, people)
        return effects * flip_direction(model.logits(people))[:, None]


class Leaves(Ranking):
    """The share of trees, from 0 to 1, in which person and row fall into the same leaf; the labels
    of a leaf's rows make its value."""

    name = "leaves"
    needs = "a tree, a forest or boosted trees"
    asks = abilities.Leaves

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> NDArray[np.float32]:
        trees = model.needed(abilities.Leaves)
        ours = trees.leaves(people)
        theirs = trees.leaves(table.X)
        shared = np.zeros((len(people), table.n), np.float32)
        for mine, others in zip(ours.T, theirs.T, strict=True):
            shared += mine[:, None] == others[None, :]
        return shared / ours.shape[1]


# --- the exact training gradient ------------------------------------------------------------------

CPU_MEMBERS = 4
"""Members whose gradients are averaged on the CPU; beside the published score more add little."""
MEMBERS_PER_TRIMMED = 8
"""One in this many members, and at least one, is left out at each end of a mean."""
LARGE_TABLE_ROWS = 10_000
"""Above this many training rows, sweeps at a person's own flips use that few members on every
device."""
EFFECTS_AT_ONCE = 2**27
"""Predicted effects held at a time."""


class Gradient(Ranking):
    """The change of the person's logit, away from the present class, if label i is flipped:
    predicted to first order through the whole training (unit: logit). Of an ensemble the trimmed
    mean over its members, on the CPU the first four, since a single network's prediction may be far
    off.

    `butfor.nets.sweeps` differentiates training as a program, with Adam and batches. Two things
    remain first-order. A flip moves its label by a whole 1. And early stopping picks an epoch: the
    pick is constant until it jumps, so the derivative misses the jump, which is often the largest
    effect of a flip. So validation losses are differentiated too: each of the `epochs` that came
    closest to being kept gets the probability of being kept after the flip, and the mean of their
    logits with these weights is added. `epochs=1` is the derivative alone. `tolerance`: differences
    of validation losses below it mean little. `RankingMix` measures how far to trust the
    predictions."""

    name = "gradient"
    needs = "a butfor.MLP"
    predicts = True

    def __init__(self, epochs: int = 8, tolerance: float = 5e-4) -> None:
        check_above_zero(tolerance=tolerance)
        self.epochs = check_whole("epochs", epochs, 1)
        self.tolerance = tolerance
        self.train_on(Engine())

    def train_on(self, engine: Engine) -> None:
        """Train on the engine's device and on its workers, if it has any."""
        self._device = str(engine.device)
        self._spread = engine.spread
        self.member_limit = CPU_MEMBERS if self._device == "cpu" else None

    def accepts(self, model: Model) -> bool:
        return all(member.ability(AsNetwork) is not None for member in model.members)

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Numbers:
        from scipy.stats import trim_mean

        from butfor.nets.sweeps import Sweep

        members = model.members[: self.member_limit]
        direction = flip_direction(model.logits(people))[:, None]
        seeds = [seed_of(member) for member in members]
        sweeps = [Sweep(seed, (), np.arange(len(people))) for seed in seeds]
        scores = [effects * direction for effects in self._effects(members[0], sweeps, people)]
        count = len(scores)
        if count == 1:
            return scores[0]
        cut = 0.0
        if count > 2:
            cut = (max(1, count // MEMBERS_PER_TRIMMED) + 0.5) / count
        # Person by person: copies of all members' scores would fill the memory.
        means = [
            trim_mean(np.array([of_member[k] for of_member in scores]), cut)
            for k in range(len(people))
        ]
        return np.array(means).reshape(len(people), table.n)

    def members_at_flips(self, model: Model, table: Table) -> Sequence[Model]:
        """The members of an ensemble that `score_at` uses."""
        limit = CPU_MEMBERS if table.n > LARGE_TABLE_ROWS else self.member_limit
        return model.members[:limit]

    def score_at(
        self, model: Model, table: Table, people: pd.DataFrame, flips: Sequence[FlipSet]
    ) -> Numbers:
        """Scores after each person's own `flips`: further flips away from what `model` decides now.
        Percentiles, their mean over the members of an ensemble."""
        from butfor.nets.sweeps import Sweep

        members = self.members_at_flips(model, table)
        out = flip_direction(model.logits(people))
        seeds = [seed_of(member) for member in members]
        sweeps = [
            Sweep(seed, flips[k], np.array([k])) for k in range(len(people)) for seed in seeds
        ]
        total = np.zeros((len(people), table.n))
        for sweep, effects in zip(sweeps, self._effects(members[0], sweeps, people), strict=True):
            k = int(sweep.people[0])
            total[k] += percentile(effects * out[k])[0]
        return total / len(members)

    def _effects(
        self, model: Model, sweeps: Sequence[Sweep], people: pd.DataFrame
    ) -> Iterator[Numbers]:
        """Predicted changes of the logits if label i is flipped, sweep by sweep, on all cores or on
        a cluster."""
        subject = model.needed(AsNetwork).as_network
        how = {"epochs": self.epochs, "device": self._device}
        walk = (subject.network.recipe, subject.rows, subject.encoded(people), self.tolerance, how)
        most_people = max(1, *(len(sweep.people) for sweep in sweeps))
        size = max(1, EFFECTS_AT_ONCE // (subject.rows.n * most_people))
        for first in range(0, len(sweeps), size):
            some = sweeps[first : first + size]
            # One part per core of this machine, also on a cluster: predictions must not depend on
            # its size.
            count = min(available_cores(), len(some))
            if self._spread is None:
                yield from swept_effects(walk, some, count)
            else:
                done = self._spread(swept_effects, walk, [some[k::count] for k in range(count)])
                yield from (done[k % count][k // count] for k in range(len(some)))


def seed_of(member: Model) -> int:
    """The seed of a network."""
    return member.needed(AsNetwork).as_network.network.recipe.seed


def swept_effects(
    walk: tuple[Recipe, Rows, Floats, float, dict[str, Any]],
    sweeps: Sequence[Sweep],
    threads: int = 1,
) -> list[Numbers]:
    """For each sweep the predicted change of the logits if label i is flipped, `[people × n]`."""
    from butfor.models.network import find_device, translated

    recipe, rows, people, tolerance, how = walk
    how = how | {"device": str(find_device(how["device"])), "threads": threads}
    with translated():
        swept = label_gradient(recipe, rows, sweeps, people, check=stopping.check, **how)
        return [flip_effects(gradient, tolerance) for gradient in swept]


def flip_effects(swept: LabelGradient, tolerance: float) -> Numbers:
    """The predicted change of the logit if label i is flipped, `[people × n]`. Each epoch's chance
    to be kept after the flip is a softmax of the predicted validation losses, whose differences
    mean little below `tolerance`."""
    effects = swept.moves * swept.gradient
    if len(swept.epochs) == 1:
        return effects
    losses = swept.validation_losses[:, None] + swept.moves * swept.validation_gradients
    chances = np.exp((losses.min(axis=0) - losses) / tolerance)
    jumps = (swept.epoch_logits - swept.logits).T @ (chances / chances.sum(axis=0))
    return jumps.astype(swept.gradient.dtype) + effects


# --- by name --------------------------------------------------------------------------------------

NAMED: dict[str, Callable[[], Ranking]] = {
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
NAMES = tuple(NAMED)


def as_ranking(given: Any, seed: int = 0) -> Ranking:
    """A ranking from its name, an object with `score`, or a plain function; `seed` is for the
    ranking "chance"."""
    if isinstance(given, Ranking):
        return given
    if isinstance(given, str):
        if given not in NAMES:
            raise SettingError(f"There is no ranking '{given}'. {nearest(given, NAMES)}")
        return Chance(seed) if given == "chance" else NAMED[given]()
    if isinstance(given, type):
        raise SettingError(
            f"rank={given.__name__} is a class; give an instance, {given.__name__}()."
        )
    if not (hasattr(given, "score") or callable(given)):
        raise SettingError(
            f"rank={given!r} is neither a ranking's name nor an object with a `score` method."
        )
    ranking = Ranking()
    ranking.name = str(getattr(given, "name", getattr(given, "__name__", type(given).__name__)))
    ranking.score = getattr(given, "score", given)  # type: ignore[method-assign]
    ranking.rebuildable = False
    return ranking
