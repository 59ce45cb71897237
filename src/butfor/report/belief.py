"""Is it more than chance? Seed controls, further flip sets and the gradient's test, in words and as small pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from butfor.report.values import shown
from butfor.result.control import SeedControl
from butfor.result.population import Population
from butfor.result.record import signed
from butfor.result.verdict import Verdict
from butfor.search.guided import leader_words

SETTLED = 0.2
"""Up to this share of other seeds may decide otherwise without any flip before a decision is called unsteady."""
LEAST_SEEDS = 5
"""With fewer, no counts whatever reach the 5 % of the test: 1 / 2⁴ is more."""
MOST_MARKS = 40
"""Seeds drawn as a mark each; more are drawn as a bar."""
MARK, STEP = 11, 15
MOST_SETS, MOST_ROWS = 10, 20


def steadiness(control: SeedControl) -> str:
    """How the unchanged training decides under other seeds: "steady", "unsteady", or "odd" where most of them
    decide otherwise, so that the model audited is the odd one out."""
    share = control.without_flips / control.seeds if control.seeds else 0.0
    return "steady" if share <= SETTLED else "odd" if share >= 1 - SETTLED else "unsteady"


def seed_rows(control: SeedControl) -> list[dict[str, Any]]:
    """Two rows of marks, with the flips and without. Marks above each other are of one seed."""
    both = control.with_flips - control.only_with_flips
    kinds: list[tuple[int, bool, bool]] = [
        (both, True, True),
        (control.only_with_flips, True, False),
        (control.only_without_flips, False, True),
    ]
    kinds.append((control.seeds - sum(count for count, *_ in kinds), False, False))
    with_flips = [with_ for count, with_, _ in kinds for _ in range(count)]
    without = [without for count, _, without in kinds for _ in range(count)]
    return [
        {"name": name, "count": sum(filled), "seeds": control.seeds} | _picture(filled)
        for name, filled in (("With the flips", with_flips), ("No flip", without))
    ]


def _picture(filled: list[bool]) -> dict[str, Any]:
    if len(filled) > MOST_MARKS:
        width = MOST_MARKS * STEP
        edge = round(width * sum(filled) / len(filled), 1)
        return {"width": width, "full": f"M0 1h{edge}v11H0z" if edge else "", "open": f"M.5 1.5h{width - 1}v10H.5z"}
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


def tested(population: Population) -> dict[str, Any] | None:
    """How the people found fared under other seeds; None where nobody's verdict was put to that test."""
    controlled = [v for v in population.found if v.control]
    if not controlled:
        return None
    fragile = sum(bool(v.fragile) for v in controlled)
    seeds = {v.control.seeds for v in controlled if v.control}
    return {
        "people": len(controlled),
        "fragile": fragile,
        "robust": len(controlled) - fragile,
        "untested": len(population.found) - len(controlled),
        "seeds": max(seeds),
        "few": max(seeds) < LEAST_SEEDS,
    }
