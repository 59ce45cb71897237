"""A whole audit file against itself: what it says about everyone together follows from what it says of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from butfor import __version__
from butfor.errors import ReplayError
from butfor.result.coherent import contradictions, same
from butfor.result.population import Population
from butfor.result.record import RecordFile
from butfor.result.shape import brief

ALIKE = 12
"""Letters that two texts share, shown before the place where they differ."""
WORDS = ("sentence", "direct", "warnings")
"""Another version may put the same figures into other words."""


def summary_differences(record: dict[str, Any]) -> Iterator[str]:
    """Where the summary of a record of many people is not what its verdicts say."""
    if "people" not in record:
        return
    run = record["run"]
    for case, times in Counter(person["case"] for person in record["people"]).items():
        if times > 1:
            yield f"people has {times} verdicts about person {case}"
    for place, person in enumerate(record["people"]):
        for name in {**run, **person["run"]} if person["run"] != run else ():
            if name not in run or name not in person["run"] or run[name] != person["run"][name]:
                yield f"people[{place}].run.{name} is not that of run"
    population = Population.from_dict(record)
    summary = population.summary()
    for name, value in summary.items():
        worded = name in WORDS and run.get("butfor") != __version__
        if name not in record or worded:
            continue
        told = _as_counted_now(name, record[name], value, bool(population.unfinished))
        if not same(told, value):
            yield _first_difference(name, told, value)


def _as_counted_now(name: str, told: Any, follows: Any, unfinished: bool) -> Any:
    """What a summary says, without what audits said until stopped searches and close calls were counted with care: that
    is no contradiction."""
    if name == "comparison" and unfinished:
        return None
    if name != "by_group" or len(told) != len(follows):
        return told
    excused = []
    for recorded, now in zip(told, follows, strict=True):
        names = ["low", "high", "solid_low", "solid_high"] if unfinished else []
        names += ["close_calls"] if not recorded.get("close_calls") and now["close_calls"] is None else []
        excused.append(recorded | {each: now[each] for each in names if each in recorded})
    return excused


def _first_difference(name: str, told: Any, follows: Any) -> str:
    """Where two values that are not the same first differ, and how."""
    if isinstance(told, dict) and isinstance(follows, dict) and told.keys() == follows.keys():
        key = next(key for key in told if not same(told[key], follows[key]))
        return _first_difference(f"{name}.{key}", told[key], follows[key])
    if isinstance(told, list) and isinstance(follows, list) and len(told) == len(follows):
        place = next(place for place, pair in enumerate(zip(told, follows, strict=True)) if not same(*pair))
        return _first_difference(f"{name}[{place}]", told[place], follows[place])
    if isinstance(told, str) and isinstance(follows, str):
        pairs = enumerate(zip(told, follows, strict=False))
        shorter = min(len(told), len(follows))
        start = max(0, next((k for k, (one, other) in pairs if one != other), shorter) - ALIKE)
        told, follows = (("..." if start else "") + text[start:] for text in (told, follows))
    return f"{name} is {brief(told)}, but by the verdicts it is {brief(follows)}"


def refuse_incoherent(file: RecordFile) -> None:
    """For readers that do not retrain: a file that contradicts itself is refused with the first contradiction."""
    for place, person in enumerate(file.people):
        where = f"people[{place}]." if "people" in file.record else ""
        for told in contradictions(person):
            raise ReplayError(f"{file.where} contradicts itself: {where}{told}. 'butfor replay' says all that differs.")
    for told in summary_differences(file.record):
        raise ReplayError(f"{file.where} contradicts itself: {told}. 'butfor replay' says all that differs.")
