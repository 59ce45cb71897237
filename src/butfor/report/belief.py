"""Is it more than chance? Fresh seeds, further flip sets and the gradient's test, in words and as small pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from butfor.report.values import shown
from butfor.result.fresh import LEAST, UNDECIDED, FreshSeeds, exact_interval
from butfor.result.population import Population
from butfor.result.record import signed
from butfor.result.verdict import Verdict
from butfor.search.guided import leader_words

MOST_MARKS = 60
"""Seeds drawn as a mark each; more are drawn as a bar."""
MARK, STEP = 8, 11
MOST_SETS, MOST_ROWS = 10, 20


def seed_rows(fresh: FreshSeeds) -> list[dict[str, Any]]:
    """Two rows of marks, with the flips and without. Marks above each other are of one seed."""
    both = fresh.with_flips - fresh.only_with_flips
    kinds: list[tuple[int, bool, bool]] = [
        (both, True, True),
        (fresh.only_with_flips, True, False),
        (fresh.only_without_flips, False, True),
    ]
    kinds.append((fresh.seeds - sum(count for count, *_ in kinds), False, False))
    with_flips = [with_ for count, with_, _ in kinds for _ in range(count)]
    without = [without for count, _, without in kinds for _ in range(count)]
    return [
        {"name": name, "count": sum(filled), "seeds": fresh.seeds} | _picture(filled)
        for name, filled in (("With the flips", with_flips), ("No flip", without))
    ]


DOTS, MIDDLE, REACH = 620, 310, 296
"""Width of the picture of logits, and its boundary and reach in it, in pixels."""


def seed_dots(verdict: Verdict) -> dict[str, Any] | None:
    """One dot per fresh seed at its logit, without the flips and with them: two rows around the boundary. A few
    seeds far out do not squeeze the others: they lie at the edge, and are counted. None where the record has no
    logits."""
    fresh = verdict.fresh
    if fresh is None or fresh.logits is None:
        return None
    sizes = [abs(logit) for row in fresh.logits for logit in row if logit is not None]
    if not sizes:
        return None
    usual = float(np.quantile(sizes, 0.9))
    reach = max(min(max(sizes), FAR_OUT * usual), 1e-6)
    rows = []
    for name, logits in zip(("No flip", "With the flips"), fresh.logits, strict=True):
        known = [logit for logit in logits if logit is not None]
        places = [MIDDLE + REACH * max(-1.0, min(1.0, logit / reach)) for logit in known]
        # Multiples of the golden ratio spread the dots evenly, and the same way every time.
        heights = [18 * ((k * 0.618034) % 1) for k in range(len(places))]
        middle = float(np.median(known)) if known else None
        rows.append({
            "name": name,
            "dots": "".join(f"M{x:.1f} {y:.1f}h0" for x, y in zip(places, heights, strict=True)),
            "middle": None if middle is None else round(MIDDLE + REACH * max(-1.0, min(1.0, middle / reach)), 1),
            "median": "" if middle is None else signed(middle),
        })  # fmt: skip
    beyond = sum(size > reach for size in sizes)
    return {
        "rows": rows,
        "reach": signed(reach).lstrip("+"),
        "beyond": beyond,
        "diverged": 2 * fresh.seeds - len(sizes),
    }


FAR_OUT = 2.0
"""Times the size that nine in ten logits keep within: where the picture ends."""


def share_rows(fresh: FreshSeeds) -> list[dict[str, str]]:
    """Hold, base and effect, each with its interval, as text."""
    low, high = fresh.effect_interval
    return [
        {"name": "Hold: with the flips", "share": _percent(fresh.hold), "interval": _interval(fresh.hold_interval)},
        {"name": "Base: without any", "share": _percent(fresh.base), "interval": _interval(fresh.base_interval)},
        {
            "name": "Effect: the difference",
            "share": f"{_points(fresh.effect)} points",
            "interval": f"{_points(low)} to {_points(high)} points",
        },
    ]


def base_words(verdict: Verdict) -> str:
    """How many fresh seeds decide otherwise on the unchanged data, with the interval of that share; empty where that
    is not known."""
    seeds = verdict.fresh.seeds if verdict.fresh else verdict.run.get("fresh_seeds")
    if verdict.base is None or not seeds:
        return ""
    count = round(verdict.base * seeds)
    share = f"{_percent(verdict.base)}, 95 % interval {_interval(exact_interval(count, seeds))}"
    return f"{count} of {seeds} fresh seeds decide otherwise on the unchanged data ({share})"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _interval(ends: tuple[float, float]) -> str:
    return f"{100 * ends[0]:.0f} – {100 * ends[1]:.0f} %"


def _points(difference: float) -> str:
    return f"{round(100 * difference)}".replace("-", "−")


def _picture(filled: list[bool]) -> dict[str, Any]:
    if len(filled) > MOST_MARKS:
        width = MOST_MARKS * STEP
        edge = round(width * sum(filled) / len(filled), 1)
        return {
            "width": width,
            "full": f"M0 1h{edge}v{MARK}H0z" if edge else "",
            "open": f"M.5 1.5h{width - 1}v{MARK - 1}H.5z",
        }
    return {
        "width": max(1, len(filled)) * STEP,
        "full": _marks((place for place, full in enumerate(filled) if full), 0.0, MARK),
        "open": _marks((place for place, full in enumerate(filled) if not full), 0.75, MARK - 1.5),
    }


def _marks(places: Iterable[int], inset: float, size: float) -> str:
    return "".join(f"M{place * STEP + inset:g} {1 + inset:g}h{size:g}v{size:g}h-{size:g}z" for place in places)


def further_sets(verdict: Verdict) -> dict[str, Any]:
    """The alternatives as text: row labels where the training rows are at hand, their positions otherwise."""
    index = verdict.training.X.index if verdict.training else None
    sets = []
    for positions in verdict.alternatives[:MOST_SETS]:
        names = [shown(p if index is None else index[p], 60) for p in positions[:MOST_ROWS]]
        more = len(positions) - len(names)
        sets.append(", ".join(names) + (f" and {more} more" if more else ""))
    return {"sets": sets, "more": len(verdict.alternatives) - len(sets), "labelled": index is not None}


def agreement_heading(figures: dict[str, Any]) -> str:
    """The question that `agreement_words` answers: not every model has a gradient, or a ranking that predicts."""
    if figures["spearman"] is None:
        return "What led the search?"
    return "Was the gradient right?" if "gradient" in figures.get("gains", ["gradient"]) else "Were predictions right?"


def agreement_words(figures: dict[str, Any]) -> str:
    """How well predicted and real effects of single flips agree, and what the search made of it."""
    led = f"with the whole budget, {leader_words(figures)} moved decisions furthest and led the search"
    rank = figures["spearman"]
    if rank is None:
        return led
    how = "poorly" if figures["poor"] else "well" if rank >= 0.7 else "fairly"
    people = "1 person" if figures["people"] == 1 else f"{figures['people']} people"
    flips = "1 flip" if figures["flips"] == 1 else f"{figures['flips']} flips"
    return (
        f"predicted and real effects of single flips agree {how}: rank correlation {signed(rank)} (1 is best), "
        f"real effects {figures['slope']:.2f} × the predicted ones ({flips} retrained, {people} asked); {led}"
    )


def checks(population: Population) -> dict[str, Any]:
    """What fresh seeds say of everybody: finds by word, close calls (None where that is not known), how many seeds
    were asked, and how many would tell more about the undecided."""
    seeds = max([v.fresh.seeds for v in population if v.fresh], default=population.run.get("fresh_seeds") or 0)
    open_ = [v.fresh.would_do for v in population.found if v.fresh and v.solidity == UNDECIDED]
    known = [v for v in population.eligible if v.base is not None]
    return {
        "words": population.solidity,
        "close": sum(bool(v.close_call) for v in known) if known else None,
        "seeds": seeds,
        "few": 0 < seeds < LEAST,
        "more": max([more for more in open_ if more], default=None),
    }
