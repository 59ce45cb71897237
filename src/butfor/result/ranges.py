"""What a record may say: shares are from 0 to 1, counts from 0, a count is at most what it is a
count of.

Everything is checked when a record is read, also one whose checksum was made again. Results in
memory are not checked: they were measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

SHARE = (0.0, 1.0)
"""A share or a probability."""
COUNT = (0.0, 2.0**53)
SIGNED = (-2.0, 2.0)
"""A difference of shares less what the method itself is off."""
CORRELATION = (-1.0, 1.0)
ROUNDING_TOLERANCE = 1e-9


def _all(names: str, bounds: tuple[float, float]) -> dict[str, tuple[float, float]]:
    return dict.fromkeys(names.split(), bounds)


RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "Data": _all("labelled set_aside", COUNT),
    "DecisionFacts": _all("probability share recorded", SHARE)
    | _all("pool accepted ties people favoured", COUNT),
    "Agreement": _all("spearman", CORRELATION) | _all("flips people", COUNT),
    "Performance": _all("accuracy majority", SHARE) | _all("people", COUNT),
    "GroupRates": _all(
        "base_rate selection_rate error_rate false_positive_rate false_negative_rate", SHARE
    )
    | _all("people", COUNT),
    "Person": _all("flippable attempts first_size without_flips at_least", COUNT),
    "Flip": _all("position", COUNT) | _all("doubt", SHARE),
    "FreshSeeds": _all("with_flips without_flips only_with_flips only_without_flips", COUNT),
    "Collateral": _all("others changed", COUNT) | _all("accuracy_before accuracy_after", SHARE),
    "TrainingLabel": _all("position", COUNT) | _all("doubt wrong wrong_if_real", SHARE),
    "Compared": _all("draws clusters", COUNT),
    "GroupStandard": _all("recorded p p_adjusted robustness_value", SHARE)
    | _all("rows error draws effective_rows", COUNT)
    | _all("expected difference centre raw_gap explained", SIGNED),
    "LeftOut": _all("rows effective_rows", COUNT),
    "Overlap": _all("comparable others effective_others", COUNT),
    "Slice": _all("rows", COUNT) | _all("recorded", SHARE),
    "OneStandard": _all("labels asked people refused", COUNT) | _all("accuracy rates", SHARE),
    "World": _all("flips turned", COUNT) | _all("accuracy rates", SHARE),
    "PersonInWorlds": _all("case worlds", COUNT),
    "Reviewed": _all("labels", COUNT) | _all("accuracy rates", SHARE),
    "Evidence": _all("tasks unsure expected most", COUNT) | _all("kappa", CORRELATION),
}
"""By dataclass, and by field or by the numbers in it."""


def check_ranges(thing: Any, place: str = "") -> None:
    """Raise a ValueError that names the first field of a part of a record that cannot be."""
    for problem in _problems(thing, place):
        raise ValueError(problem.lstrip("."))


def check_people(record: Any) -> None:
    """The same for what a record says of people and labels, beside what it says of the run."""
    rows = record.run.data.training_rows
    seeds = record.run.fresh_seeds
    for k, person in enumerate(record.people):
        place = f"people[{k}]"
        tried = {
            "fresh.seeds": person.fresh and person.fresh.seeds,
            "without_flips": person.without_flips,
        }
        for name, count in tried.items():
            if count is not None and count > seeds:
                raise ValueError(f"{place}.{name} is {count}, but the run has {seeds} fresh seeds")
        _check_positions((flip.position for flip in person.flip_set), rows, f"{place}.flip_set")
    _check_positions((label.position for label in record.labels), rows, "labels")


def _check_positions(positions: Iterable[int], rows: int, place: str) -> None:
    for k, position in enumerate(positions):
        if position >= rows:
            raise ValueError(
                f"{place}[{k}].position is {position}, but there are {rows} training rows"
            )


def _problems(thing: Any, place: str) -> Iterator[str]:
    if is_dataclass(thing):
        ranges = RANGES.get(type(thing).__name__, {})
        for field in fields(thing):
            value = getattr(thing, field.name)
            field_place = f"{place}.{field.name}"
            if field.name in ranges:
                yield from _outside(value, *ranges[field.name], field_place)
            else:
                yield from _problems(value, field_place)
        for wrong in _unrelated(thing):
            yield f"{place}.{wrong}"
    elif isinstance(thing, (list, tuple)):
        for k, one in enumerate(thing):
            yield from _problems(one, f"{place}[{k}]")


def _outside(value: Any, low: float, high: float, place: str) -> Iterator[str]:
    """Numbers in a field that are not from `low` to `high`; None and no number are unknown."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _outside(one, low, high, f"{place}.{name}")
    elif isinstance(value, (list, tuple)):
        for k, one in enumerate(value):
            yield from _outside(one, low, high, f"{place}[{k}]")
    elif isinstance(value, (int, float)):
        too_low = value < low - ROUNDING_TOLERANCE
        too_high = value > high + ROUNDING_TOLERANCE
        if too_low or too_high:
            wanted = f"from {low:g} to {high:g}" if high < COUNT[1] else "a count"
            yield f"{place} is {value}, but must be {wanted}"


def _unrelated(thing: Any) -> Iterator[str]:
    """What two fields of one part say against each other."""
    match type(thing).__name__:
        case "FreshSeeds":
            for name in RANGES["FreshSeeds"]:
                if getattr(thing, name) > thing.seeds:
                    yield f"{name} is {getattr(thing, name)}, above the {thing.seeds} seeds"
            both = thing.with_flips - thing.only_with_flips
            if both < 0 or both != thing.without_flips - thing.only_without_flips:
                yield "only_with_flips does not fit the other counts"
        case "Collateral":
            if thing.changed > thing.others:
                yield f"changed is {thing.changed}, above the {thing.others} others"
        case "DecisionFacts":
            if thing.favoured > thing.people:
                yield f"favoured is {thing.favoured}, above the {thing.people} people"
        case "GroupStandard":
            for name in ("interval", "bounds"):
                low, high = getattr(thing, name) or (0.0, 0.0)
                if low > high:
                    yield f"{name} is reversed: from {low} to {high}"
            low, high = thing.bounds or (thing.difference, thing.difference)
            if not low - ROUNDING_TOLERANCE <= thing.difference <= high + ROUNDING_TOLERANCE:
                yield f"bounds, {low} to {high}, leave out the difference, {thing.difference}"
        case "OneStandard":
            if not thing.refused <= thing.people <= thing.asked:
                yield f"refused is {thing.refused}, of {thing.people} people of {thing.asked} asked"
            for k, world in enumerate(thing.worlds):
                if world.turned > thing.refused:
                    yield f"worlds[{k}].turned is {world.turned}, above the {thing.refused} refused"
            for k, person in enumerate(thing.changed):
                if person.worlds > len(thing.worlds):
                    yield (
                        f"changed[{k}].worlds is {person.worlds}, above the {len(thing.worlds)} "
                        "worlds"
                    )
        case "Evidence":
            counts = [("alone", thing.alone)]
            counts += [(f"errors[{k}]", one) for k, one in enumerate(thing.errors)]
            counts += [(f"strata[{k}]", one) for k, pair in enumerate(thing.strata) for one in pair]
            for name, (hit, n) in counts:
                if not 0 <= hit <= n:
                    yield f"{name} is {hit} of {n}"
            if not thing.strata:
                yield "strata is empty"
        case "Compared":
            if not all(thing.sides):
                yield "sides must name labels on either side"
