"""Does a record agree with itself? What can be told without its table and without training anything.

Every contradiction is a few words that name the field: ``budget is 7, but run.budget is 6``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from butfor.result.fresh import SOLID, FreshSeeds, close_call, standing
from butfor.result.shape import brief

SLACK = 1e-6
"""Figures derived from counts by another version of scipy differ by less."""
ONE_LABEL, ENUMERATION = "one label is the fewest", "enumeration"


def same(one: Any, other: Any, slack: float = SLACK) -> bool:
    """Equal, but for the last digits of numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return math.isclose(one, other, rel_tol=slack, abs_tol=slack)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name], slack) for name in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def contradictions(record: dict[str, Any]) -> Iterator[str]:
    """Where one person's record, whose fields all have their shape, disagrees with itself."""
    yield from _with_run(record)
    yield from _decisions(record)
    yield from _find(record) if record["status"] == "found" else _nothing_found(record)
    yield from _proof(record)
    yield from _seeds(record)
    for name, value in _derived(record).items():
        if name in record and not same(record[name], value):
            yield f"{name} is {brief(record[name])}, but from the rest follows {brief(value)}"


def _with_run(record: dict[str, Any]) -> Iterator[str]:
    run = record["run"]
    data = run.get("data", {})
    told = {name: run[name] for name in ("budget", "rank", "protocol", "sensitive") if name in run}
    told |= {name: data[name] for name in ("training_rows", "table") if name in data}
    for name, value in told.items():
        if name in record and record[name] != value:
            block = "run.data" if name in data and name not in run else "run"
            yield f"{name} is {brief(record[name])}, but {block}.{name} is {brief(value)}"
    if record["flippable"] > record["training_rows"]:
        yield f"flippable is {record['flippable']}, but there are {record['training_rows']} training rows"


def _decisions(record: dict[str, Any]) -> Iterator[str]:
    names = record["run"].get("label_names")
    if names is None:
        return
    for decision, logit in (("prediction", "logit"), ("counterfactual_prediction", "counterfactual_logit")):
        if record[logit] is not None and record[decision] is not None:
            follows = names[int(record[logit] > 0)]
            if record[decision] != follows:
                yield f"{decision} is {brief(record[decision])}, but by its {logit} it is {brief(follows)}"
    for place, flip in enumerate(record["flips"]):
        if {flip["label_before"], flip["label_after"]} != set(names):
            yield (
                f"flips[{place}].label_after is {brief(flip['label_after'])}, but the labels are {' and '.join(names)} "
                f"and it was {brief(flip['label_before'])}"
            )


def _find(record: dict[str, Any]) -> Iterator[str]:
    flips = record["flips"]
    if not flips:
        yield "flips is empty, but status is found"
    if len(flips) > record["budget"]:
        yield f"flips has {len(flips)} labels, but budget is {record['budget']}"
    if len(flips) > record["flippable"]:
        yield f"flips has {len(flips)} labels, but flippable is {record['flippable']}"
    for name in ("counterfactual_prediction", "counterfactual_logit"):
        if record[name] is None:
            yield f"{name} is null, but status is found"
    if record["counterfactual_prediction"] == record["prediction"]:
        yield "counterfactual_prediction is the prediction itself, but status is found"
    if not record["confirmed"]:
        yield "confirmed is false, but status is found"
    taken = {flip["position"] for flip in flips}
    for place, positions in enumerate(record["alternatives"]):
        if taken & set(positions):
            yield f"alternatives[{place}] flips a row that another set flips"
        if not 0 < len(positions) <= record["budget"]:
            yield f"alternatives[{place}] has {len(positions)} labels, but budget is {record['budget']}"
        taken |= set(positions)
    for place, flip in enumerate(flips):
        if set(flip["values"]) != set(record["person"]):
            yield f"flips[{place}].values has other columns than person"


def _nothing_found(record: dict[str, Any]) -> Iterator[str]:
    """What only a find has."""
    status = record["status"]
    empty: dict[str, Any] = {
        "flips": [], "counterfactual_prediction": None, "counterfactual_logit": None, "confirmed": False,
        "minimal": False, "first_size": 0, "alternatives": [], "fresh": None, "control": None, "collateral": None,
        "clearance": None, "shared": False,
    }  # fmt: skip
    if status == "not_eligible":
        empty |= {"attempts": 0, "closest_logit": None, "course": [], "at_least": None, "proof": None, "base": None}
    for name, nothing in empty.items():
        if name in record and record[name] != nothing:
            yield f"{name} is {brief(record[name])}, but status is {status}"


def _proof(record: dict[str, Any]) -> Iterator[str]:
    at_least, proof, status = record.get("at_least"), record.get("proof"), record["status"]
    if (at_least is None) != (proof is None):
        yield f"at_least is {brief(at_least)}, but proof is {brief(proof)}"
    beyond = at_least is not None and at_least > min(record["budget"], record["flippable"])
    if (status == "proven_none") != beyond and status != "not_eligible":
        yield f"at_least is {brief(at_least)}, but status is {status}"
    if status == "found" and at_least is not None and at_least > len(record["flips"]):
        yield f"at_least is {at_least}, but {len(record['flips'])} labels were found to do"
    if proof == ONE_LABEL and (at_least != 1 or len(record["flips"]) != 1):
        yield f"at_least is {brief(at_least)}, but proof is that {ONE_LABEL}"
    reached = len(record["flips"]) if status == "found" else record["budget"] + 1
    if proof == ENUMERATION and at_least != reached:
        yield f"at_least is {brief(at_least)}, but enumeration got as far as {reached}"


def _seeds(record: dict[str, Any]) -> Iterator[str]:
    """Counts over fresh seeds: among each other, and with what the run says it asked."""
    counts, run = _counts(record), record["run"]
    where = "fresh" if record.get("fresh") else "control"
    if counts is None:
        return
    both = counts.with_flips - counts.only_with_flips
    if max(counts.with_flips, counts.without_flips) > counts.seeds:
        yield f"{where}.seeds is {counts.seeds}, fewer than it counts"
    elif both < 0 or both != counts.without_flips - counts.only_without_flips:
        yield f"{where}.with_flips, only_with_flips, without_flips and only_without_flips do not add up"
    elif both + counts.only_with_flips + counts.only_without_flips > counts.seeds:
        yield f"{where}.seeds is {counts.seeds}, fewer than it counts"
    elif where == "fresh":
        for name, value in counts.to_dict().items():
            if name in record["fresh"] and not same(record["fresh"][name], value):
                yield f"fresh.{name} is {brief(record['fresh'][name])}, but from the counts follows {brief(value)}"
        yield from _seed_logits(record, counts)
        if record.get("base") is not None and not same(record["base"], counts.base):
            yield f"base is {record['base']}, but by fresh.without_flips it is {counts.base:.4g}"
        if run.get("fresh_seeds", counts.seeds) != counts.seeds:
            yield f"fresh.seeds is {counts.seeds}, but run.fresh_seeds is {run['fresh_seeds']}"
        first = ((run.get("seed_ranges") or {}).get("fresh") or [counts.first])[0]
        if counts.first != first:
            yield f"fresh.first is {brief(counts.first)}, but run.seed_ranges.fresh begins with {brief(first)}"


def _seed_logits(record: dict[str, Any], counts: FreshSeeds) -> Iterator[str]:
    """Every seed's logit, beside the counts. They are rounded: one that became 0 may have been on either side."""
    names = record["run"].get("label_names")
    if counts.logits is None or names is None or record["prediction"] not in names:
        return
    out = -1 if names.index(record["prediction"]) else 1
    for name, logits, count in zip(
        ("without", "with"), counts.logits, (counts.without_flips, counts.with_flips), strict=True
    ):
        sure = sum(logit is not None and logit * out > 0 for logit in logits)
        if len(logits) != counts.seeds or not sure <= count <= sure + logits.count(0):
            yield f"fresh.logits.{name}: {sure} of {len(logits)} seeds decide otherwise, but {count} are counted"


def _derived(record: dict[str, Any]) -> dict[str, Any]:
    """Fields that say again what others say."""
    found, labels = record["status"] == "found", len(record["flips"])
    counts, base = _counts(record), record.get("base")
    try:
        solidity = standing(counts, record["run"].get("seeded")) if found else None
    except (ValueError, ZeroDivisionError):  # counts that do not add up, of which was told
        return {}
    return {
        "solidity": solidity,
        "distance": labels if solidity == SOLID else None,
        "close_call": None if base is None else close_call(base),
        "at_most": labels if found else None,
        "exact": found and record.get("at_least") == labels,
    }


def _counts(record: dict[str, Any]) -> FreshSeeds | None:
    counts = record.get("fresh") or record.get("control")
    return FreshSeeds.from_dict(counts) if counts else None
