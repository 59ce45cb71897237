"""Influence functions for one person of Student: seconds, beside the published hours, and where
those come from.

    python -m benchmarks.influence [--json]

The paper calls its four influence-function baselines intractable: 1 to 70 hours per person. They
are not; the hours come from feeding `dattri` one row at a time. Each claim about that is measured
here:

- rows in batches of 1 make dattri apply the inverse Hessian once per training row *and* row of the
table the Hessian
  is made from, n² times for one person (`products_counted`);
- with several batches it adds up the inverses of each batch's own Hessian, which is not the inverse
of
  the whole one (`batches`);
- Arnoldi as it comes returns NaN (`defaults`).

What n² products cost is extrapolated from a few that are measured. It has the published order for
Explicit and CG, more for LiSSA, whose published depth is unknown. Arnoldi's hour it does not
explain: dattri 0.3.0 projects only once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import dattri_baselines as baselines
from benchmarks import work
from benchmarks.dattri_baselines import SOLVERS, Dattri, Problem
from benchmarks.network_influence import FORMS, Influence, factorised, hessian, jacobian
from benchmarks.rows import options, run
from butfor.errors import SettingError
from butfor.models.seam import Floats, flip_direction
from butfor.nets import train_one as train
from butfor.nets.recipe import Network, Rows

PUBLISHED_HOURS = {"dattri-explicit": 2, "dattri-cg": 3, "dattri-lissa": 70, "dattri-arnoldi": 1}
"""Per test input of Student, before any retraining; Arnoldi's is "just under"."""

LISSA_DEPTH = 5000
"""dattri's default; the published depth is not stated."""


def influence_bench(name: str) -> dict[str, Any]:
    """Everything the table shows, as plain numbers."""
    network, rows, people = subject(name)
    person, problem = people[:1], Problem.of(network, rows, None)
    exact = Influence().score_network(network, rows, person)[0]
    methods = [ours(form, network, rows, people, exact) for form in FORMS]
    methods += [theirs(solver, network, rows, person, problem, exact) for solver in SOLVERS]
    record = {"dataset": name, "n": rows.n, "people": len(people), "methods": methods}
    if find_spec("dattri"):
        record["claims"] = {
            "products_counted": products_counted(network, rows, person, problem),
            "batches": batches(network, rows, person, problem),
            "defaults": as_it_comes(network, rows, person),
        }
    return record


def subject(name: str) -> tuple[Network, Rows, Floats]:
    """A set's published network, its encoded training rows and test people."""
    rows, people, setup = work.encoded(name)
    return train(work.network(setup).recipe(), rows), rows, people


def ours(
    form: str, network: Network, rows: Rows, people: Floats, exact: NDArray[np.float64]
) -> dict[str, Any]:
    """Seconds for one person and for all, each from nothing."""
    ranking = Influence(form=form)
    seconds, scores = _timed(lambda: ranking.score_network(network, rows, people[:1]))
    together, _ = _timed(lambda: Influence(form=form).score_network(network, rows, people))
    return {
        "name": ranking.name,
        "status": "ok",
        "seconds": seconds,
        "seconds_all": together,
        "agreement": agreement(scores[0], exact),
        "published_hours": None,
    }


def theirs(
    solver: str,
    network: Network,
    rows: Rows,
    person: Floats,
    problem: Problem,
    exact: NDArray[np.float64],
) -> dict[str, Any]:
    """dattri's seconds for one person, the damping already known; or why it failed."""
    ranking = Dattri(solver)
    row: dict[str, Any] = {"name": ranking.name, "status": "ok", "seconds": None, "agreement": None}
    row["published_hours"] = PUBLISHED_HOURS[ranking.name]
    try:
        baselines.require_dattri()
        row["seconds"], changes = _timed(lambda: ranking.changes(network, rows, person, problem))
        row["agreement"] = agreement(changes[0] * flip_direction(network.logits(person)), exact)
        row["batch1"] = batch_of_one(solver, network, rows, person, problem)
    except SettingError as error:
        row["status"] = str(error)
    return row


def agreement(scores: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    """Spearman's rank correlation with the exact influence of the flips."""
    from scipy.stats import spearmanr

    return float(spearmanr(scores, exact).statistic)


# --- where the hours come from --------------------------------------------------------------------


def batch_of_one(
    solver: str, network: Network, rows: Rows, person: Floats, problem: Problem
) -> dict[str, Any]:
    """What loaders with batches of 1 cost for one person: `hours`, from `seconds_each` of n²
    products.

    Arnoldi is measured as a whole: in dattri 0.3.0 it projects once, whatever the batches."""
    attributor = baselines.attributor(solver, network, 1, problem)
    if solver == "arnoldi":
        seconds, _ = _timed(lambda: attribute_in_ones(attributor, network, rows, rows, person))
        return {
            "products": 1,
            "seconds_each": seconds,
            "hours": seconds / 3600,
            "extrapolated": False,
        }
    with baselines.quietly():
        attributor.cache(baselines.loader(rows.X[:1], rows.y[:1]))
        gradient = torch_gradient(attributor, person)
        attributor.transform_test_rep(0, gradient)
        each, _ = _timed(lambda: attributor.transform_test_rep(0, gradient), repeats=3)
    if solver == "lissa":
        each *= LISSA_DEPTH / baselines.LISSA_STEPS
    return {
        "products": rows.n**2,
        "seconds_each": each,
        "hours": rows.n**2 * each / 3600,
        "extrapolated": True,
    }


def torch_gradient(attributor: Any, person: Floats) -> Any:
    """The person's ∂logit/∂θ as dattri hands it to its solvers."""
    [batch] = baselines.loader(person, np.zeros(len(person)))
    return attributor.generate_test_rep(0, tuple(part.unsqueeze(0) for part in batch))


def attribute_in_ones(
    attributor: Any, network: Network, seen: Rows, rows: Rows, person: Floats
) -> Any:
    """One person's attribution with every loader in batches of 1."""
    with baselines.quietly():
        attributor.cache(baselines.loader(seen.X, seen.y, 1))
        asked = baselines.loader(person, np.zeros(1), 1)
        labels = baselines.flip_labels(network, rows)
        return attributor.attribute(baselines.loader(rows.X, labels, 1), asked)


def products_counted(
    network: Network, rows: Rows, person: Floats, problem: Problem, some: int = 8
) -> dict[str, int]:
    """How many inverse-Hessian products one person takes with `some` rows in batches of 1."""
    few = Rows(rows.X[:some], rows.y[:some], rows.X_val, rows.y_val)
    attributor = baselines.attributor("cg", network, 1, problem)
    loss, calls = attributor.task.get_loss_func, 0

    def counted(*given: Any, **named: Any) -> Any:  # dattri asks for the loss once per product
        nonlocal calls
        calls += 1
        return loss(*given, **named)

    attributor.task.get_loss_func = counted
    attribute_in_ones(attributor, network, few, few, person)
    return {"rows": some, "products": calls, "rows_squared": some**2, "at_full_size": rows.n**2}


def batches(
    network: Network, rows: Rows, person: Floats, problem: Problem, parts: int = 4
) -> dict[str, float]:
    """H⁻¹v against what dattri returns for the same rows in `parts` batches, as relative
    distances."""
    attributor = baselines.attributor("explicit", network, rows.n, problem)
    size = -(-rows.n // parts)
    with baselines.quietly():
        attributor.cache(baselines.loader(rows.X, rows.y, size))
        asked = baselines.loader(person, np.zeros(1))
        labels = baselines.loader(rows.X, baselines.flip_labels(network, rows))
        theirs = (
            -attributor.attribute(labels, asked).detach().numpy()[:, 0].astype(np.float64) / rows.n
        )
    J, signs, v = jacobian(network, rows.X), (1 - 2 * rows.y) / rows.n, jacobian(network, person)
    whole = factorised(hessian(network, rows), problem.damping)(v)[0]
    summed = np.zeros_like(whole)
    for k in range(0, rows.n, size):
        piece = Rows(rows.X[k : k + size], rows.y[k : k + size], rows.X_val, rows.y_val)
        summed += np.linalg.solve(
            hessian(network, piece) + problem.damping * np.eye(len(whole)), v[0]
        )
    right, added = signs * (J @ whole), signs * (J @ summed)
    return {
        "parts": parts,
        "distance_to_inverse_of_whole": distance(theirs, right),
        "distance_to_sum_of_inverses": distance(theirs, added),
        "spearman_with_inverse_of_whole": agreement(theirs, right),
    }


def distance(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def as_it_comes(network: Network, rows: Rows, person: Floats) -> dict[str, str]:
    """What each attributor returns with dattri's default settings and full batches."""
    family = baselines.dattri_module("algorithm.influence_function")
    classes = {
        "explicit": family.IFAttributorExplicit,
        "cg": family.IFAttributorCG,
        "arnoldi": family.IFAttributorArnoldi,
    }
    found = {}
    for solver, attributor in classes.items():
        try:
            with baselines.quietly():
                made = attributor(baselines.attribution_task(network))
            effects = baselines.flip_effects(made, network, rows, person)
        except RuntimeError as error:
            found[solver] = str(error).strip().splitlines()[0]
            continue
        bad = int((~np.isfinite(effects)).sum())
        found[solver] = f"{bad} of {effects.size} scores are NaN" if bad else "finite"
    return found


def _timed(work: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds of the fastest run, and what it returned."""
    seconds, result = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        result = work()
        seconds = min(seconds, time.perf_counter() - started)
    return float(seconds), result


# --- printing -------------------------------------------------------------------------------------


def table(record: dict[str, Any]) -> str:
    lines = [
        f"One person of {record['dataset']}, {record['n']} training rows, one batch",
        f"{'ranking':<16} {'seconds':>8} {'published':>10} {'batches of 1':>14} {'agreement':>10}",
    ]
    for row in record["methods"]:
        if row["seconds"] is None:
            lines.append(f"{row['name']:<16} {row['status']}")
            continue
        published = f"{row['published_hours']} h" if row["published_hours"] else "–"
        ones = f"{row['batch1']['hours']:.3g} h" if "batch1" in row else "–"
        lines.append(
            f"{row['name']:<16} {row['seconds']:>8.2f} {published:>10} {ones:>14} "
            f"{row['agreement']:>10.3f}"
        )
    lines += [
        f"{row['name']}: all {record['people']} people in {row['seconds_all']:.2f} s"
        for row in record["methods"]
        if "seconds_all" in row
    ]
    claims = record.get("claims")
    if claims:
        count, apart = claims["products_counted"], claims["batches"]
        lines += [
            f"Batches of 1: {count['rows']} rows took {count['products']} inverse-Hessian "
            "products for one person "
            f"({count['rows']}² = {count['rows_squared']}); {record['n']} rows take "
            f"{count['at_full_size']}.",
            f"In {apart['parts']} batches dattri's scores lie "
            f"{apart['distance_to_sum_of_inverses']:.1e} from "
            f"Σ H_b⁻¹v and {apart['distance_to_inverse_of_whole']:.2g} from H⁻¹v (relative; "
            "Spearman "
            f"{apart['spearman_with_inverse_of_whole']:.2f}).",
            "dattri's defaults, one batch: "
            + "; ".join(f"{solver}: {what}" for solver, what in claims["defaults"].items())
            + ".",
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--dataset", default="student")
    given = parser.parse_args(arguments)
    record = influence_bench(given.dataset)
    print(json.dumps(record, indent=1) if given.json else table(record))


if __name__ == "__main__":
    run(main)
