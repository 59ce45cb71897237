"""What a population says in a sentence: the result, and what to doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from butfor.result.fresh import LEAST, NOT_CHECKED
from butfor.result.record import percent
from butfor.result.verdict import ONE_LABEL

if TYPE_CHECKING:
    from butfor.result.population import Population


def unchecked_reason(population: Population) -> str:
    """Why it is not known which finds are solid, in words; empty where it is."""
    seeds = int(population.run.get("fresh_seeds") or 0)
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
    run, asked, left = population.run, len(population.eligible), population.unfinished
    if not population.verdicts:
        return "Nobody was asked about."
    if not asked:
        everyone = "The one person" if len(population) == 1 else f"None of the {len(population)} people"
        return f"{everyone} asked about is {'not ' * (len(population) == 1)}eligible (φ: {run['phi']})."
    if left and not population.found:
        return (
            f"The search for {left} of {_people(asked)} was stopped early; nothing was found until then, which says "
            "nothing about them."
        )
    turned = len(population.solid if population.checked else population.found)
    doubted = f"; {population.unchecked_reason}" if turned and not population.checked else ""
    whatever = ", whatever the seed" if population.checked and run.get("seeded") is not False else ""
    stopped = f" The search for {_people(left)} was stopped early, before it found anything." if left else ""
    budget, n = run["budget"], run["data"]["training_rows"]
    return (
        f"For {turned} of {_people(asked)} ({percent(turned / asked)}), changing at most {budget} of the {n} training "
        f"labels ({percent(budget / n)}) changes the decision{whatever}{doubted}.{stopped}"
    )


def _people(count: int) -> str:
    return f"{count} eligible {'person' if count == 1 else 'people'}"


def direct(population: Population) -> str:
    """How far the model depends on the protected attribute itself, in a sentence; empty where that is not known."""
    name = population.run.get("sensitive")
    if population.run.get("blind"):
        return f"The model does not see '{name}': no switch of it can change a decision."
    known = [(v.group, v.switch_changes) for v in population if v.switch_changes is not None]
    if not known:
        return ""
    changed, parts = sum(change for _, change in known), []
    for group in population.groups:
        ours = [change for own, change in known if own == group]
        parts.append(f"of '{group}' {sum(ours)} of {len(ours)}")
    end = ": there the attribute itself decides, whatever the labels." if changed else "."
    verb = "changes" if changed == 1 else "change"
    return f"{changed} of {len(known)} decisions {verb} when '{name}' alone is switched ({', '.join(parts)}){end}"


def proven(population: Population) -> str:
    """What is proven from the other side, in a sentence; empty where nothing is."""
    known = [v for v in population.eligible if v.proof]
    if all(v.proof == ONE_LABEL for v in known):  # there is nothing to prove
        return ""
    exact, none = sum(v.exact for v in known), sum(v.status == "proven_none" for v in known)
    be = "is" if exact == 1 else "are"
    people = f"{none} {'person' if none == 1 else 'people'}"
    return (
        f"Proven: {exact} of the sets found {be} the smallest there {be}; for {people} there is none within the budget."
    )
