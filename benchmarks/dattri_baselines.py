"""The four influence-function baselines of the paper, through the `dattri` library (extra
`butfor[dattri]`).

They differ in how they apply the inverse of the training loss's Hessian H to a person's gradient:

    dattri-explicit     makes H and solves
    dattri-cg           conjugate gradients
    dattri-lissa        a truncated Neumann series
    dattri-arnoldi      the eigenvectors of a Krylov space

dattri's score is J_x H⁻¹ ∇lossᵢ, the effect of *removing* row i. The effect of flipping it has the
change of that gradient instead, −(1 − 2yᵢ)Jᵢ. The gradient (σ(zᵢ) − ỹ)Jᵢ of the very same loss is
just that where the rows to be attributed carry the label ỹ = σ(zᵢ) + 1 − 2yᵢ, so that is what they
are given; H is made from the true labels.

Everything goes through as one batch. With several, dattri applies the inverse of each batch's own
Hessian and adds up, which is not the inverse of their sum, and repeats that for every batch of rows
and of people.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.network_influence import (
    NetworkRanking,
    hessian,
    jacobian,
    lowest_eigenvalue,
    one_blas_thread,
    sufficient_damping,
)
from butfor.errors import SettingError
from butfor.models.seam import Floats, flip_direction
from butfor.nets.recipe import Network, Rows

INSTALL = 'pip install "butfor[dattri]"'

CG_STEPS = 40
"""dattri's default of 10 stops far from the solution. It never looks whether it is there, and soon
after it is, at 0/0, returns NaN; never more steps than parameters, then."""

LISSA_STEPS = 1000
"""Enough where `Problem.scaling` fits the Hessian; dattri's default is 5000 steps at a scale of 50.
"""

KRYLOV = 100
"""Arnoldi's steps, dattri's default, of whose eigenvalues the larger half is kept. A damped Hessian
is so well conditioned that the Krylov space is exhausted after some 30 steps in float32; what
follows are eigenvalues of about 0 that H does not have, by which dattri's own default (keep all)
would divide."""

SOLVERS = ("explicit", "cg", "lissa", "arnoldi")


class Dattri(NetworkRanking):
    """Predicted Δlogit away from the person's present class if label i were flipped, as dattri
    computes it.

    `solver` is one of `SOLVERS`; `damping` is added to H's diagonal. None means, as for
    `Influence`, 0.03 beyond H's most negative eigenvalue. With less than that eigenvalue takes,
    LiSSA diverges, CG goes astray and Arnoldi takes square roots of negative numbers; that is
    refused. What fails all the same, or comes back as NaN or beyond what H allows, is a
    SettingError that says so.
    """

    def __init__(self, solver: str, damping: float | None = None) -> None:
        if solver not in SOLVERS:
            raise SettingError(f"solver='{solver}' is not one of {', '.join(SOLVERS)}.")
        if damping is not None and not 0 <= damping < np.inf:
            raise SettingError(f"damping={damping} must be a number from 0 up.")
        self.solver, self.damping, self.name = solver, damping, f"dattri-{solver}"

    def score_network(self, network: Network, rows: Rows, people: Floats) -> NDArray[np.float64]:
        """`[people × n]`, in units of logit."""
        require_dattri()
        problem = Problem.of(network, rows, self.damping)
        return (
            self.changes(network, rows, people, problem)
            * flip_direction(network.logits(people))[:, None]
        )

    def changes(
        self, network: Network, rows: Rows, people: Floats, problem: Problem
    ) -> NDArray[np.float64]:
        """Δlogit for each flip, `[people × n]`, or the failure."""
        if problem.lowest <= 0:
            raise self._failure(
                problem, f"H's lowest eigenvalue is then {problem.lowest:.3g}, not above 0"
            )
        try:
            changes = flip_effects(
                attributor(self.solver, network, rows.n, problem), network, rows, people
            )
        except RuntimeError as error:  # torch's linear algebra: a singular matrix, no convergence
            raise self._failure(problem, str(error).strip().splitlines()[0].rstrip(".")) from error
        if not np.isfinite(changes).all():
            broken = (~np.isfinite(changes)).any(axis=1).sum()
            raise self._failure(
                problem, f"the scores of {broken} of {len(people)} people are not numbers"
            )
        longest = [
            np.linalg.norm(jacobian(network, X), axis=1).max(initial=0) for X in (people, rows.X)
        ]
        if np.abs(changes).max(initial=0) > 2 * longest[0] * longest[1] / (rows.n * problem.lowest):
            raise self._failure(
                problem, "it diverged, the scores are larger than H's lowest eigenvalue allows"
            )
        return changes

    def _failure(self, problem: Problem, what: str) -> SettingError:
        return SettingError(
            f"{self.name} failed with damping={problem.damping:g}: {what}. Give a larger damping, "
            "or none for "
            "a sufficient one."
        )


@dataclass(frozen=True)
class Problem:
    """The `damping`, H's `lowest` eigenvalue with it, and the `scaling` with which LiSSA
    converges."""

    damping: float
    lowest: float
    scaling: float

    @classmethod
    def of(cls, network: Network, rows: Rows, damping: float | None) -> Problem:
        with one_blas_thread():
            H = hessian(network, rows)
            lowest = lowest_eigenvalue(H)
        damping = sufficient_damping(lowest) if damping is None else damping
        return cls(damping, lowest + damping, float(np.linalg.norm(H)) + damping)


def flip_effects(
    attributor: Any, network: Network, rows: Rows, people: Floats
) -> NDArray[np.float64]:
    """Δlogit of each person for each flipped label, `[people × n]`, everything as one batch."""
    with quietly():
        attributor.cache(loader(rows.X, rows.y))
        asked = loader(people, np.zeros(len(people)))
        products = attributor.attribute(loader(rows.X, flip_labels(network, rows)), asked)
    return np.asarray(-products.detach().T.numpy().astype(np.float64) / rows.n)


def flip_labels(network: Network, rows: Rows) -> NDArray[np.float64]:
    """ỹ `[n]`: with these labels a row's loss gradient is the change that flipping its label
    makes."""
    from scipy.special import expit

    return np.asarray(expit(network.logits(rows.X)) + 1 - 2 * rows.y)


def attribution_task(network: Network) -> Any:
    """What dattri is asked: how the training loss, through the weights, moves the logit of a
    person."""
    import torch
    from torch.func import functional_call
    from torch.nn.functional import binary_cross_entropy_with_logits

    task = dattri_module("task").AttributionTask
    activations = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}
    parts = [
        (torch.nn.Linear(*W.T.shape), activations[network.activation]()) for W in network.weights
    ]
    model = torch.nn.Sequential(*[part for pair in parts for part in pair][:-1])
    tensors = [a for pair in zip(network.weights, network.biases, strict=True) for a in pair]
    kept = {
        name: torch.from_numpy(array)
        for name, array in zip(model.state_dict(), tensors, strict=True)
    }

    def loss(parameters: Any, batch: Any) -> torch.Tensor:
        X, y = batch
        return binary_cross_entropy_with_logits(functional_call(model, parameters, (X,))[..., 0], y)

    def logit(parameters: Any, batch: Any) -> torch.Tensor:
        return functional_call(model, parameters, (batch[0],)).sum()

    return task(loss_func=loss, target_func=logit, model=model, checkpoints=kept)


def attributor(solver: str, network: Network, n: int, problem: Problem) -> Any:
    """dattri's attributor, with settings that suit networks of this size."""
    with quietly():
        task = attribution_task(network)
        family = dattri_module("algorithm.influence_function")
        parameters = sum(array.size for array in (*network.weights, *network.biases))
        if solver == "explicit":
            return family.IFAttributorExplicit(task, regularization=problem.damping)
        if solver == "cg":
            steps = min(CG_STEPS, parameters)
            return family.IFAttributorCG(task, max_iter=steps, regularization=problem.damping)
        if solver == "arnoldi":
            steps = min(KRYLOV, parameters)
            return family.IFAttributorArnoldi(
                task, proj_dim=steps // 2, max_iter=steps, regularization=problem.damping
            )
        # LiSSA's series inverts H + damping·scaling·I.
        return family.IFAttributorLiSSA(
            task,
            batch_size=n,
            recursion_depth=LISSA_STEPS,
            damping=problem.damping / problem.scaling,
            scaling=problem.scaling,
        )


def loader(X: Floats, y: NDArray[Any], batch_size: int | None = None) -> Any:
    """The rows in order, in batches; one batch where no size is given."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    tensors = (torch.from_numpy(np.array(a, np.float32, order="C")) for a in (X, y))
    return DataLoader(TensorDataset(*tensors), batch_size=batch_size or len(X))


@contextmanager
def quietly() -> Iterator[None]:
    """One torch thread, a random state of its own, and neither dattri's progress bars nor the
    warnings of what it imports."""
    import torch

    from butfor.nets.recipe import one_thread

    with (
        one_thread(),
        torch.random.fork_rng(devices=[]),
        redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield


def require_dattri() -> None:
    """Refuse with the line that installs it."""
    with quietly():
        dattri_module("task")


def dattri_module(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"dattri.{module}")
    except ImportError:
        raise SettingError(f"The dattri baselines need the library dattri: {INSTALL}") from None
