"""The four influence-function baselines of the paper for one person of Student: seconds, beside the
published hours, and where those come from.

    python -m benchmarks.influence [--json]          (pip install "butfor[dattri]")

The paper calls its baselines intractable: 1 to 70 hours per person, through the library `dattri`.
They differ in how they apply the inverse of the training loss's Hessian H to a person's gradient:

    dattri-explicit     makes H and solves
    dattri-cg           conjugate gradients
    dattri-lissa        a truncated Neumann series
    dattri-arnoldi      the eigenvectors of a Krylov space

The hours come from feeding dattri one row at a time: it then applies the inverse once per training
row *and* row of the table that H is made from, n² times for one person (`products_counted`). What
n² products cost is extrapolated from a few that are measured. It has the published order for
Explicit and CG, more for LiSSA, whose published depth is unknown. Arnoldi's hour it does not
explain: dattri 0.3.0 projects only once.

dattri's score is J_x H⁻¹ ∇lossᵢ, the effect of *removing* row i. The effect of flipping it has the
change of that gradient instead, −(1 − 2yᵢ)Jᵢ. The gradient (σ(zᵢ) − ỹ)Jᵢ of the very same loss is
just that where the rows to be attributed carry the label ỹ = σ(zᵢ) + 1 − 2yᵢ, so that is what they
are given; H is made from the true labels.
"""

from __future__ import annotations

import io
import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import work
from benchmarks.rows import options, run
from butfor.errors import SettingError
from butfor.models.seam import Floats
from butfor.nets import train_one as train
from butfor.nets.recipe import Network, Rows

PUBLISHED_HOURS = {"explicit": 2, "cg": 3, "lissa": 70, "arnoldi": 1}
"""By solver, per test input of Student, before any retraining; Arnoldi's is "just under"."""
DAMPING = 0.03
"""What is added to H's diagonal beyond its most negative eigenvalue: L stops long before a minimum,
and where it stops H has negative eigenvalues."""
CG_STEPS = 40
"""dattri's default of 10 stops far from the solution. It never looks whether it is there, and soon
after it is, at 0/0, returns NaN; never more steps than parameters, then."""
LISSA_STEPS = 1000
"""Enough where `Problem.scaling` fits the Hessian."""
LISSA_DEPTH = 5000
"""dattri's default, at a scale of 50; the published depth is not stated."""
KRYLOV_STEPS = 100
"""dattri's default, of whose eigenvalues the larger half is kept. A damped Hessian is so well
conditioned that the Krylov space is exhausted after some 30 steps in float32; what follows are
eigenvalues of about 0 that H does not have, by which dattri's own default (keep all) would
divide."""
HESSIAN_ROWS_AT_ONCE = 64
COUNTED_ROWS = 8


def influence_bench(name: str) -> dict[str, Any]:
    """Everything the table shows, as plain numbers."""
    rows, people, setup = work.encoded(name)
    network = train(work.network(setup).recipe(), rows)
    person = people[:1]
    problem = Problem.of(network, rows)
    methods = [measured(solver, network, rows, person, problem) for solver in PUBLISHED_HOURS]
    counted = products_counted(network, rows, person, problem)
    return {"dataset": name, "n": rows.n, "methods": methods, "products_counted": counted}


def measured(
    solver: str, network: Network, rows: Rows, person: Floats, problem: Problem
) -> dict[str, Any]:
    """dattri's seconds for one person with everything as one batch, and what batches of 1 cost; or
    why it failed. With several batches it would apply the inverse of each batch's own Hessian."""
    row: dict[str, Any] = {"name": f"dattri-{solver}", "status": "ok", "seconds": None}
    row["published_hours"] = PUBLISHED_HOURS[solver]
    try:
        seconds, effects = _timed(
            lambda: flip_effects(
                attributor(solver, network, rows.n, problem), network, rows, person
            )
        )
    except RuntimeError as error:  # torch's linear algebra: a singular matrix, no convergence
        return row | {"status": str(error).strip().splitlines()[0]}
    if not np.isfinite(effects).all():
        return row | {"status": "scores are not numbers"}
    ones = hours_in_ones(solver, network, rows, person, problem)
    return row | {"seconds": seconds, "batch1": ones}


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


# --- where the hours come from --------------------------------------------------------------------


def hours_in_ones(
    solver: str, network: Network, rows: Rows, person: Floats, problem: Problem
) -> dict[str, Any]:
    """What loaders with batches of 1 cost for one person: `hours`, from `seconds_each` of n²
    products. Arnoldi is measured as a whole."""
    made = attributor(solver, network, 1, problem)
    products = 1 if solver == "arnoldi" else rows.n**2
    if solver == "arnoldi":
        each, _ = _timed(lambda: attribute_in_ones(made, network, rows, rows, person))
    else:
        with quietly():
            made.cache(loader(rows.X[:1], rows.y[:1]))
            [batch] = loader(person, np.zeros(len(person)))
            gradient = made.generate_test_rep(0, tuple(part.unsqueeze(0) for part in batch))
            made.transform_test_rep(0, gradient)
            each, _ = _timed(lambda: made.transform_test_rep(0, gradient), repeats=3)
        if solver == "lissa":
            each *= LISSA_DEPTH / LISSA_STEPS
    hours = products * each / 3600
    return {"products": products, "seconds_each": each, "hours": hours}


def attribute_in_ones(
    attributor: Any, network: Network, seen: Rows, rows: Rows, person: Floats
) -> Any:
    """One person's attribution with every loader in batches of 1."""
    with quietly():
        attributor.cache(loader(seen.X, seen.y, 1))
        labels = loader(rows.X, flip_labels(network, rows), 1)
        return attributor.attribute(labels, loader(person, np.zeros(1), 1))


def products_counted(
    network: Network, rows: Rows, person: Floats, problem: Problem
) -> dict[str, int]:
    """How many inverse-Hessian products one person takes with a few rows in batches of 1."""
    few = Rows(rows.X[:COUNTED_ROWS], rows.y[:COUNTED_ROWS], rows.X_val, rows.y_val)
    made = attributor("cg", network, 1, problem)
    loss = made.task.get_loss_func
    calls = 0

    def counted(*given: Any, **named: Any) -> Any:  # dattri asks for the loss once per product
        nonlocal calls
        calls += 1
        return loss(*given, **named)

    made.task.get_loss_func = counted
    attribute_in_ones(made, network, few, few, person)
    return {"rows": COUNTED_ROWS, "products": calls, "at_full_size": rows.n**2}


def _timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds of the fastest run, and what it returned."""
    seconds, result = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds = min(seconds, time.perf_counter() - started)
    return float(seconds), result


# --- what dattri is given -------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """The `damping` of H, and the `scaling` with which LiSSA converges."""

    damping: float
    scaling: float

    @classmethod
    def of(cls, network: Network, rows: Rows) -> Problem:
        H = hessian(network, rows)
        damping = DAMPING + max(0.0, -float(np.linalg.eigvalsh(H)[0]))
        return cls(damping, float(np.linalg.norm(H)) + damping)


def hessian(network: Network, rows: Rows) -> NDArray[np.float64]:
    """The Hessian of the mean training loss at the kept weights, `[p × p]`, in double precision."""
    import torch
    from torch.func import functional_call, grad, jacrev
    from torch.nn.functional import binary_cross_entropy_with_logits

    model, kept = torch_network(network)
    sizes = [part.numel() for part in kept.values()]
    flat = torch.cat([part.double().ravel() for part in kept.values()])
    X = torch.from_numpy(np.asarray(rows.X, np.float64))
    y = torch.from_numpy(np.asarray(rows.y, np.float64))

    def loss(parameters: Any) -> Any:
        pieces = zip(kept.items(), parameters.split(sizes), strict=True)
        named = {name: piece.view(part.shape) for (name, part), piece in pieces}
        return binary_cross_entropy_with_logits(functional_call(model, named, (X,))[..., 0], y)

    second = jacrev(grad(loss), chunk_size=HESSIAN_ROWS_AT_ONCE)(flat)
    return np.asarray(second.detach().numpy())


def torch_network(network: Network) -> tuple[Any, dict[str, Any]]:
    """The network as a torch module, and its weights by their names there."""
    import torch

    activations = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "sigmoid": torch.nn.Sigmoid}
    parts: list[Any] = []
    for W in network.weights:
        parts += [torch.nn.Linear(*W.T.shape), activations[network.activation]()]
    model = torch.nn.Sequential(*parts[:-1])
    arrays = [a for pair in zip(network.weights, network.biases, strict=True) for a in pair]
    names = zip(model.state_dict(), arrays, strict=True)
    return model, {name: torch.from_numpy(array) for name, array in names}


def attribution_task(network: Network) -> Any:
    """What dattri is asked: how the training loss, through the weights, moves the logit of a
    person."""
    from torch.func import functional_call
    from torch.nn.functional import binary_cross_entropy_with_logits

    model, kept = torch_network(network)

    def loss(parameters: Any, batch: Any) -> Any:
        X, y = batch
        return binary_cross_entropy_with_logits(functional_call(model, parameters, (X,))[..., 0], y)

    def logit(parameters: Any, batch: Any) -> Any:
        return functional_call(model, parameters, (batch[0],)).sum()

    task = dattri_module("task").AttributionTask
    return task(loss_func=loss, target_func=logit, model=model, checkpoints=kept)


def attributor(solver: str, network: Network, n: int, problem: Problem) -> Any:
    """dattri's attributor, with settings that suit networks of this size."""
    with quietly():
        task = attribution_task(network)
        family = dattri_module("algorithm.influence_function")
        parameters = sum(array.size for array in (*network.weights, *network.biases))
        damping = problem.damping
        if solver == "explicit":
            return family.IFAttributorExplicit(task, regularization=damping)
        if solver == "cg":
            steps = min(CG_STEPS, parameters)
            return family.IFAttributorCG(task, max_iter=steps, regularization=damping)
        if solver == "arnoldi":
            steps = min(KRYLOV_STEPS, parameters)
            return family.IFAttributorArnoldi(
                task, proj_dim=steps // 2, max_iter=steps, regularization=damping
            )
        # LiSSA's series inverts H + damping·scaling·I.
        return family.IFAttributorLiSSA(
            task,
            batch_size=n,
            recursion_depth=LISSA_STEPS,
            damping=damping / problem.scaling,
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


def dattri_module(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"dattri.{module}")
    except ImportError:
        raise SettingError(
            'The baselines need the library dattri: pip install "butfor[dattri]".'
        ) from None


# --- printing -------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    lines = [
        f"One person of {record['dataset']}, {record['n']} training rows, one batch",
        f"{'baseline':<16} {'seconds':>8} {'published':>10} {'batches of 1':>14}",
    ]
    for row in record["methods"]:
        if row["seconds"] is None:
            lines.append(f"{row['name']:<16} {row['status']}")
            continue
        published = f"{row['published_hours']} h"
        ones = f"{row['batch1']['hours']:.3g} h"
        lines.append(f"{row['name']:<16} {row['seconds']:>8.2f} {published:>10} {ones:>14}")
    count = record["products_counted"]
    lines.append(
        f"Batches of 1: {count['rows']} rows took {count['products']} inverse-Hessian products "
        f"for one person; {record['n']} rows take {count['at_full_size']}."
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--dataset", default="student")
    given = parser.parse_args(arguments)
    dattri_module("task")  # says how to install it before anything is trained
    record = influence_bench(given.dataset)
    print(json.dumps(record, indent=1) if given.json else table(record))


if __name__ == "__main__":
    run(main)
