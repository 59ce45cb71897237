"""What a population says in a sentence: the result, what it took, and what to doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from butfor.result.fresh import LEAST, NOT_CHECKED
from butfor.result.record import percent
from butfor.result.verdict import ONE_LABEL

if TYPE_CHECKING:
    from butfor.result.population import Population


def fresh_seeds_of(population: Population) -> int:
    """Fresh seeds that judged."""
    return int(population.run.get("fresh_seeds") or 0)


def doubt(population: Population) -> str:
    """Why it is not known which finds are solid, in words; empty where it is."""
    seeds = fresh_seeds_of(population)
    seedless = population.run.get("seeded") is False
    left = population.solidity[NOT_CHECKED]
    if left and (seeds or left < len(population.found)):
        return f"{left} of these {'was' if left == 1 else 'were'} not put to fresh seeds"
    if left or not (seeds or seedless):
        return "whether it holds under other seeds was not checked"
    if seeds < LEAST and not seedless:
        return f"{seeds} fresh seed{'s are' if seeds > 1 else ' is'} too few to call one solid ({LEAST} at least)"
    return ""


def sentence(population: Population) -> str:
    """The result in one sentence."""
    if not population.verdicts:
        return "Nobody was asked about."
    if not population.eligible:
        if len(population) == 1:
            return f"The one person asked about is not eligible (φ: {population.run['phi']})."
        return f"None of the {len(population)} people asked about is eligible (φ: {population.run['phi']})."
    asked, found, solid = len(population.eligible), len(population.found), len(population.solid)
    if population.unfinished and not found:
        return (
            f"The search for {population.unfinished} of {_people(asked)} was stopped early; nothing was found until "
            "then, which says nothing about them."
        )
    budget, n = population.verdicts[0].budget, population.verdicts[0].training_rows
    at_most = f"at most {budget} of the {n} training labels ({percent(budget / n)})"
    if not population.checked:
        return (
            f"For {found} of {_people(asked)} ({percent(found / asked)}), changing {at_most} changes the decision"
            f"{f'; {doubt(population)}' if found else ''}.{_stopped(population)}"
        )
    whatever = "" if population.run.get("seeded") is False else ", whatever the seed"
    return (
        f"For {solid} of {_people(asked)} ({percent(solid / asked)}), changing {at_most} changes the decision"
        f"{whatever}.{_stopped(population)}"
    )


def _stopped(population: Population) -> str:
    left = population.unfinished
    return f" The search for {_people(left)} was stopped early, before it found anything." if left else ""


def _people(count: int) -> str:
    return f"{count} eligible {'person' if count == 1 else 'people'}"


def details(population: Population) -> str:
    """What it took, in one sentence."""
    sizes = [v.flippable for v in population.eligible]
    if not sizes:
        return ""
    asked = f"{len(population)} {'person' if len(population) == 1 else 'people'}"
    labels = f"{min(sizes)} to {max(sizes)}" if min(sizes) < max(sizes) else f"{min(sizes)}"
    shared, trained = sum(v.shared for v in population.found), population.run.get("retrainings", 0)
    return (
        f"{asked} asked about; {labels} flippable labels each; {population.one_shot} found at the first attempt, "
        f"{shared} with a model trained for another; {trained} retrainings.{_noise(population)}"
    )


def direct(population: Population) -> str:
    """How far the model depends on the protected attribute itself, in a sentence; empty where that is not known."""
    if not population.verdicts:
        return ""
    name = population.verdicts[0].sensitive
    if population.run.get("blind"):
        return f"The model does not see '{name}': no switch of it can change a decision."
    known = [v for v in population.verdicts if v.switch_changes is not None]
    if not known:
        return ""
    changed = sum(bool(v.switch_changes) for v in known)
    parts = []
    for group in population.groups:
        members = [v for v in known if v.group == group]
        parts.append(f"of '{group}' {sum(bool(v.switch_changes) for v in members)} of {len(members)}")
    verb = "changes" if changed == 1 else "change"
    return f"{changed} of {len(known)} decisions {verb} when '{name}' alone is switched ({', '.join(parts)})" + (
        ": there the attribute itself decides, whatever the labels." if changed else "."
    )


def uncompared(population: Population) -> str:
    """Why groups are not compared, in a sentence; empty where they are."""
    if population.comparison is not None:
        return ""
    if len({str(v.group) for v in population.eligible}) < 2:
        return "There are no two groups of eligible people to compare."
    return f"Groups are not compared: the search for {_people(population.unfinished)} was stopped early."


def proven(population: Population) -> str:
    """What is proven from the other side, in a sentence; empty where nothing is."""
    known = [v for v in population.eligible if v.proof and v.at_least is not None]
    if all(v.proof == ONE_LABEL for v in known):  # there is nothing to prove
        return ""
    exact, none = sum(v.exact for v in known), sum(v.status == "proven_none" for v in known)
    be = "is" if exact == 1 else "are"
    smallest = f"{exact} of the sets found {be} the smallest there {be}"
    people = f"{none} {'person' if none == 1 else 'people'}"
    return f"Proven: {smallest}; for {people} there is none within the budget."


def _noise(population: Population) -> str:
    if not population.found or population.run.get("seeded") is False:
        return ""
    words = ", ".join(f"{count} {word}" for word, count in population.solidity.items() if count)
    close = sum(bool(v.close_call) for v in population.eligible)
    be = "is a close call" if close == 1 else "are close calls"
    calls = f" {close} of all eligible people {be}." if any(v.base is not None for v in population) else ""
    return f" Of {len(population.found)} found: {words}.{calls}"
