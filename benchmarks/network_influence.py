"""Influence functions of networks for *flipped* labels: the classical first-order answer, without
any retraining.

No audit finds more people with them than with the training gradient, so they are here to be
compared with.

Training minimises the mean loss, whose gradient is g(θ) = (1/n) Σ (σ(zᵢ) − yᵢ) Jᵢ with Jᵢ = ∂zᵢ/∂θ.
Flipping label i adds −(1 − 2yᵢ) Jᵢ / n to it, and with the curvature H of the loss the minimum
moves so as to undo that:

    Δθ = H⁻¹ (1 − 2yᵢ) Jᵢ / n          Δlogit(x) = J_x H⁻¹ Jᵢ (1 − 2yᵢ) / n

That is a statement about a minimum. L stops early, long before one, and where it stops H has
negative eigenvalues; there the formula answers a question nobody asked (where would Newton's step
go?) and needs damping to answer at all. The derivative of what L really returns is the unrolled
gradient (`butfor.nets.sweeps`).

All parameters together have the order of this file: layer by layer, each layer's [W b] row by row.
Shapes: n training rows, P people, p parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from butfor.errors import SettingError
from butfor.models.abilities import AsNetwork
from butfor.models.seam import Floats, Model, flip_direction
from butfor.nets.recipe import Network, Rows, count
from butfor.search import rankings as rank
from butfor.search.rankings import Ranking, Scores
from butfor.table.table import Table

Array = NDArray[np.float64]

DAMPING = 0.03
"""The default. Too little follows flat directions in which L never moved, too much leaves plain
gradient similarity. Chosen by looking: on Student and German the real effects of single flips agree
best between 0.03 and 0.1."""

BLOCK_BYTES = 2**26
"""Memory of one block of rows while a matrix is summed over them."""

FORMS = {"hessian": "influence", "gauss-newton": "influence-gn", "tangent": "tangent"}


class NetworkRanking(Ranking):
    """A ranking for our network alone. Subclasses have `score_network`, which gets encoded rows and
    people."""

    needs = "a butfor.MLP"
    asks = AsNetwork

    def score(self, model: Model, table: Table, people: pd.DataFrame) -> Scores:
        subject = model.needed(AsNetwork).as_network
        return self.score_network(subject.network, subject.rows, subject.encoded(people))

    def score_network(self, network: Network, rows: Rows, people: Floats) -> Scores:
        raise NotImplementedError


class Influence(NetworkRanking):
    """Predicted Δlogit away from the person's present class if label i were flipped.

    `form="hessian"` ("influence") has the exact Hessian H of the mean training loss at the kept
    weights, `form="gauss-newton"` ("influence-gn") its positive part (1/n) Σ σ'(zᵢ) JᵢJᵢᵀ;
    `form="tangent"` ("tangent") has every loss bend as at even odds, σ' = ¼: the kernel ridge
    regression on the labels whose kernel is the network's tangent kernel, in which a label's effect
    does not depend on the others. To each `damping`·I is added. `damping=None` means 0.03, and for
    the Hessian 0.03 beyond its most negative eigenvalue: as long as one stays negative or near 0
    the prediction has the wrong sign or no bound along it. A damping given by hand is taken as it
    is, and refused where it leaves such an eigenvalue.

    The matrix is made and factorised once for all people, and again only for another network or
    table.

    """

    def __init__(self, damping: float | None = None, form: str = "hessian") -> None:
        if form not in FORMS:
            raise SettingError(f"form='{form}' is not one of {', '.join(FORMS)}.")
        if damping is not None and not 0 <= damping < np.inf:
            raise SettingError(f"damping={damping} must be a number from 0 up.")
        self.damping, self.form, self.name = damping, form, FORMS[form]
        self._solved: tuple[Network, Rows, Callable[[Array], Array]] | None = None

    predicts = True
    signed = True

    def score_network(self, network: Network, rows: Rows, people: Floats) -> Array:
        """`[P × n]`, in units of logit."""
        with one_blas_thread():
            return self._score(network, rows, people)

    def _score(self, network: Network, rows: Rows, people: Floats) -> Array:
        changes = self._solver(network, rows)(jacobian(network, people))
        scores = np.empty((len(people), rows.n))
        for block in row_blocks(rows.n, changes.shape[1]):
            scores[:, block] = changes @ jacobian(network, rows.X[block]).T
        scores *= (1 - 2 * rows.y) / rows.n
        scores *= flip_direction(network.logits(people))[:, None]
        return scores

    def _solver(self, network: Network, rows: Rows) -> Callable[[Array], Array]:
        if self._solved is None or self._solved[0] is not network or self._solved[1] is not rows:
            self._solved = network, rows, self._solve(network, rows)
        return self._solved[2]

    def _solve(self, network: Network, rows: Rows) -> Callable[[Array], Array]:
        if self.form == "hessian":
            H = hessian(network, rows)
            return factorised(
                H,
                sufficient_damping(lowest_eigenvalue(H)) if self.damping is None else self.damping,
            )
        damping, even = DAMPING if self.damping is None else self.damping, self.form == "tangent"
        if damping > 0 and rows.n < count(rows.widths(network.recipe)):
            return through_rows(network, rows, damping, even)
        return factorised(gauss_newton(network, rows, even), damping)


def as_ranking(given: str | Ranking, seed: int = 0) -> Ranking:
    """One of these by its name, or any of butfor's rankings."""
    forms = {name: form for form, name in FORMS.items()}
    return (
        Influence(form=forms[given])
        if isinstance(given, str) and given in forms
        else rank.as_ranking(given, seed)
    )


# --- solving --------------------------------------------------------------------------------------


def sufficient_damping(lowest: float) -> float:
    """The default damping of a Hessian with this lowest eigenvalue: `DAMPING` beyond it."""
    return DAMPING + max(0.0, -lowest)


def lowest_eigenvalue(H: Array) -> float:
    """To about a thousandth."""
    from scipy.linalg import eigvalsh
    from scipy.sparse.linalg import ArpackError, eigsh

    _refuse_infinite(H)
    vectors = 100
    if len(H) > 2 * vectors:
        start = np.random.default_rng(0).normal(
            size=len(H)
        )  # ARPACK's own start differs from call to call
        try:
            lowest = eigsh(
                H, k=1, which="SA", v0=start, ncv=vectors, tol=1e-3, return_eigenvectors=False
            )
            return float(lowest[0])
        except ArpackError:  # it did not converge
            pass
    return float(eigvalsh(H, subset_by_index=[0, 0])[0])


def factorised(H: Array, damping: float) -> Callable[[Array], Array]:
    """v `[P × p]` ↦ v(H + damping·I)⁻¹, through one Cholesky factorisation."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.linalg.lapack import dpocon

    _refuse_infinite(H)
    damped = H + damping * np.eye(len(H))
    size = np.abs(damped).sum(axis=0).max()
    try:
        factor = cho_factor(damped, lower=True, overwrite_a=True)
    except LinAlgError:
        lowest = lowest_eigenvalue(H)
        raise SettingError(
            f"damping={damping:g} leaves the curvature of the training loss indefinite: its "
            "lowest eigenvalue is "
            f"{lowest:.3g}. Give a damping above {max(-lowest, 0):.3g}, or none for a sufficient "
            "one."
        ) from None
    reciprocal_condition, _ = dpocon(factor[0], size, uplo="L")
    if reciprocal_condition < np.finfo(np.float64).eps * len(H):
        raise SettingError(
            f"damping={damping:g} leaves the curvature of the training loss singular to rounding "
            "(reciprocal "
            f"condition {reciprocal_condition:.1g}). Give a larger damping, or none for a "
            "sufficient one."
        )
    return lambda v: cho_solve(factor, v.T).T


def through_rows(
    network: Network, rows: Rows, damping: float, even: bool = False
) -> Callable[[Array], Array]:
    """v ↦ v(AᵀA + damping·I)⁻¹ through the n × n matrix AAᵀ; AᵀA is the Gauss–Newton matrix."""
    A = _bent(network, rows.X, rows.n, even)
    inner = factorised(A @ A.T, damping)
    return lambda v: (v - inner(v @ A.T) @ A) / damping


def _refuse_infinite(H: Array) -> None:
    if not np.isfinite(H).all():
        raise SettingError(
            "The curvature of the training loss is not finite at these weights, whatever the "
            "damping: "
            "the training has diverged; lower the learning rate."
        )


# --- derivatives ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Rows through the network and back, for layers l = 0 …: `inputs[l] [rows × in+1]`, its last
    column 1; `slopes[l]` and `bends[l] [rows × out]`, the activation's first two derivatives
    (hidden layers only); `deltas[l] [rows × out]`, ∂z/∂(what enters layer l's activation); `logits
    [rows]`."""

    inputs: list[Array]
    slopes: list[Array]
    bends: list[Array]
    deltas: list[Array]
    logits: Array


def there_and_back(network: Network, X: Floats) -> Pass:
    """One forward and one backward pass, in double precision: H is a small difference of large
    sums."""
    weights = [W.astype(np.float64) for W in network.weights]
    h, inputs, slopes, bends = np.asarray(X, np.float64), [], [], []
    for layer, (W, b) in enumerate(zip(weights, network.biases, strict=True)):
        inputs.append(np.column_stack([h, np.ones(len(h))]))
        h = h @ W.T + b
        if layer < len(weights) - 1:
            h, slope, bend = _activate(network.activation, h)
            slopes.append(slope)
            bends.append(bend)
    deltas = [np.ones((len(h), 1))]
    for W, slope in zip(weights[:0:-1], slopes[::-1], strict=True):
        deltas.insert(0, deltas[0] @ W * slope)
    return Pass(inputs, slopes, bends, deltas, h[:, 0])


def _activate(activation: str, z: Array) -> tuple[Array, Array, Array]:
    """The activation of z and its first two derivatives."""
    if activation == "relu":
        return np.maximum(z, 0), (z > 0).astype(np.float64), np.zeros_like(z)
    if activation == "tanh":
        h = np.tanh(z)
        return h, 1 - h * h, -2 * h * (1 - h * h)
    h = _sigmoid(z)
    return h, h * (1 - h), h * (1 - h) * (1 - 2 * h)


def jacobian(network: Network, X: Floats) -> Array:
    """J = ∂z/∂θ of each row of X, `[rows × p]`."""
    walk = there_and_back(network, X)
    parts = [
        (delta[:, :, None] * h[:, None, :]).reshape(len(h), -1)
        for delta, h in zip(walk.deltas, walk.inputs, strict=True)
    ]
    return np.concatenate(parts, axis=1)


def gauss_newton(network: Network, rows: Rows, even: bool = False) -> Array:
    """(1/n) Σ σ'(zᵢ) JᵢJᵢᵀ, `[p × p]`; `even`: with σ' = ¼ throughout."""
    p = count(rows.widths(network.recipe))
    G = np.zeros((p, p))
    for block in row_blocks(rows.n, p):
        J = _bent(network, rows.X[block], rows.n, even)
        G += J.T @ J
    return G


def hessian(network: Network, rows: Rows) -> Array:
    """The Hessian of the mean training loss, `[p × p]`: the Gauss–Newton matrix and what bends
    besides the loss.

    Between layers l ≤ m, with uₖ what enters layer k's activation and ĥₖ = [h 1] what enters the
    layer, a row adds to ∂²loss/∂[Wb]_l[c,d] ∂[Wb]_m[e,f] beyond Gauss–Newton

        ĥ_l[d] · ( r δ_m[e] ∂ĥ_m[f]/∂u_l[c] + S[c,e] ĥ_m[f] ),   r = (σ(z) − y)/n.

    The first term, for l < m, is there because W_m multiplies what W_l has changed; the second
    collects in S the bends of the activations of layers k ≥ m, of which ReLU has none.
    """
    H = gauss_newton(network, rows)
    sizes = [(len(b), W.shape[1] + 1) for W, b in zip(network.weights, network.biases, strict=True)]
    ends = np.cumsum([0] + [out * into for out, into in sizes])
    widest = max(out for out, _ in sizes) ** 2 * max(into for _, into in sizes)
    for block in row_blocks(rows.n, widest):
        terms = Bending(network, rows.X[block], rows.y[block], rows.n)
        for low, high in combinations_with_replacement(range(len(sizes)), 2):
            part = terms.between(low, high).reshape(ends[low + 1] - ends[low], -1)
            H[ends[low] : ends[low + 1], ends[high] : ends[high + 1]] += part
    # Only l ≤ m was added; within a layer both halves were, and they are the same.
    return np.asarray(np.triu(H) + np.triu(H, 1).T)


class Bending:
    """The two terms of `hessian`, summed over some rows."""

    def __init__(self, network: Network, X: Floats, y: Floats, n: int) -> None:
        self.walk = there_and_back(network, X)
        self.r = (_sigmoid(self.walk.logits) - y) / n
        self.weights = [W.astype(np.float64) for W in network.weights]
        self.bent = network.activation != "relu"
        self.reach = [self._reach(low) for low in range(len(self.weights))]
        """`reach[l][m]` is ∂u_m/∂u_l, `[rows × out_m × out_l]`."""

    def _reach(self, low: int) -> dict[int, Array]:
        width = len(self.weights[low])
        reach = {low: np.broadcast_to(np.eye(width), (len(self.r), width, width))}
        for layer in range(low + 1, len(self.weights)):
            reach[layer] = self.weights[layer] @ self._through(layer - 1, reach[layer - 1])
        return reach

    def _through(self, layer: int, reach: Array) -> Array:
        """∂h/∂u_l from ∂u/∂u_l: through the layer's activation."""
        return self.walk.slopes[layer][:, :, None] * reach

    def between(self, low: int, high: int) -> Array:
        """`[out_low × in_low+1 × out_high × in_high+1]`"""
        shape = (*self._shape(low), *self._shape(high))
        part = np.zeros(shape)
        if low < high:
            part[..., :-1] += self._products(low, high)
        if self.bent:
            part += self._bends(low, high)
        return part

    def _shape(self, layer: int) -> tuple[int, int]:
        out, into = self.weights[layer].shape
        return out, into + 1

    def _products(self, low: int, high: int) -> Array:
        """Σ ĥ_l[d] · r δ_m[e] ∂h_m[f]/∂u_l[c], `[c × d × e × f]`, without the constant last f."""
        pull = self.r[:, None] * self.walk.deltas[high]
        if high > low + 1:
            change = self._through(high - 1, self.reach[low][high - 1]).swapaxes(1, 2)
            return self._summed(low, change[:, :, None, :] * pull[:, None, :, None])
        # Between neighbours each neuron changes only its own output, f = c: a whole axis less to
        # sum.
        own = self._summed(low, self.walk.slopes[low][:, :, None] * pull[:, None, :])
        part = np.zeros((*own.shape, len(own)))
        at = np.arange(len(own))
        part[at, :, :, at] = own
        return part

    def _bends(self, low: int, high: int) -> Array:
        """Σ ĥ_l[d] · S[c,e] ĥ_m[f], `[c × d × e × f]`."""
        S = np.zeros((len(self.r), len(self.weights[low]), len(self.weights[high])))
        for layer in range(high, len(self.weights) - 1):
            by_output = self.walk.deltas[layer + 1] @ self.weights[layer + 1]
            bend = self.r[:, None] * by_output * self.walk.bends[layer]
            S += (self.reach[low][layer].swapaxes(1, 2) * bend[:, None, :]) @ self.reach[high][
                layer
            ]
        return self._summed(low, S[:, :, :, None] * self.walk.inputs[high][:, None, None, :])

    def _summed(self, low: int, terms: Array) -> Array:
        """Σ ĥ_l[d] · terms[c, …] over the rows, as `[c × d × …]`."""
        total = self.walk.inputs[low].T @ terms.reshape(len(terms), -1)
        return total.reshape(-1, *terms.shape[1:]).swapaxes(0, 1)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """On cores that others use too, BLAS threads waiting for each other cost ten times what they
    save."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):
        yield


def row_blocks(n: int, numbers: int) -> Iterator[slice]:
    """Consecutive slices of n rows, each row taking so many numbers."""
    rows = max(16, BLOCK_BYTES // (8 * numbers))
    for first in range(0, n, rows):
        yield slice(first, min(first + rows, n))


def _bent(network: Network, X: Floats, n: int, even: bool) -> Array:
    """√(σ'(zᵢ)/n) Jᵢ of each row; `even`: with σ' = ¼."""
    bend = np.full(len(X), 0.25) if even else _loss_bend(network, X)
    return jacobian(network, X) * np.sqrt(bend / n)[:, None]


def _loss_bend(network: Network, X: Floats) -> Array:
    """σ'(z), the loss's second derivative by the logit, `[rows]`."""
    probability = _sigmoid(there_and_back(network, X).logits)
    return probability * (1 - probability)


def _sigmoid(z: Array) -> Array:
    from scipy.special import expit

    return np.asarray(expit(z))
