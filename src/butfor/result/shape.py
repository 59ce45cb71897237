"""What a record must look like, field by field. Whatever is absent or bent is refused with a sentence that names it.

A shape is a function of a value and of its path, such as ``people[3].flips[0].position``, that refuses or returns.
Fields that the table below does not name are left alone: a newer version may write more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from butfor import __version__
from butfor.errors import ReplayError

Shape = Callable[[Any, str], None]

DEEPEST = 100
"""How deep anything that butfor writes nests, and far beyond."""
LARGEST = 2**63 - 1
STATUSES = ("found", "not_found", "proven_none", "not_eligible")
SEALED_FROM = 3
"""The schema version from which on every file has a checksum and every field."""


def refuse(path: str, wanted: str, value: Any) -> ReplayError:
    return ReplayError(f"The record is bent: {path or 'it'} must be {wanted}, not {brief(value)}.")


def brief(value: Any) -> str:
    """A value for a message: as JSON writes it, cut short."""
    words = {True: "true", False: "false", None: "null"}
    if value is None or isinstance(value, bool):
        return words[value]
    if isinstance(value, (list, dict)):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number beyond all bounds"
    text = ascii(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…{text[0] if isinstance(value, str) else ''}"


# --- kinds ----------------------------------------------------------------------------------------------


def kind(wanted: str, fits: Callable[[Any], bool]) -> Shape:
    def check(value: Any, path: str) -> None:
        if not fits(value):
            raise refuse(path, wanted, value)

    return check


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return (_is_whole(value) and abs(value) <= LARGEST) or (isinstance(value, float) and math.isfinite(value))


def whole(least: int = 0, most: int = LARGEST) -> Shape:
    wanted = f"a whole number from {least} up" if most == LARGEST else f"a whole number from {least} to {most}"
    return kind(wanted, lambda value: _is_whole(value) and least <= value <= most)


TEXT = kind("a text", lambda value: isinstance(value, str))
TRUTH = kind("true or false", lambda value: isinstance(value, bool))
NUMBER = kind("a finite number", _is_number)
SHARE = kind("a share from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1)
CELL = kind(
    "a text, a number, true, false or null",
    lambda value: value is None or isinstance(value, (str, bool)) or _is_number(value),
)
OBJECT = kind("an object", lambda value: isinstance(value, dict))


def one_of(*values: Any) -> Shape:
    return kind(f"one of {', '.join(map(str, values))}", lambda value: any(value is v or value == v for v in values))


def maybe(shape: Shape) -> Shape:
    """That, or null."""

    def check(value: Any, path: str) -> None:
        if value is not None:
            shape(value, path)

    return check


def each(shape: Shape, length: int | None = None) -> Shape:
    """A list whose items all have a shape."""
    wanted = "a list" if length is None else f"a list of {length}"

    def check(value: Any, path: str) -> None:
        if not isinstance(value, list) or length not in (None, len(value)):
            raise refuse(path, wanted, value)
        for place, item in enumerate(value):
            shape(item, f"{path}[{place}]")

    return check


def named(shape: Shape) -> Shape:
    """An object whose values all have a shape, whatever their names."""

    def check(value: Any, path: str) -> None:
        OBJECT(value, path)
        for name, item in value.items():
            shape(item, joined(path, name))

    return check


def fields(needed: Mapping[str, Shape], other: Mapping[str, Shape] | None = None) -> Shape:
    """An object that has every field that is needed, and all of those named in their shape."""
    known = {**needed, **(other or {})}

    def check(value: Any, path: str) -> None:
        OBJECT(value, path)
        for name in needed:
            if name not in value:
                raise ReplayError(f"The record is incomplete: {joined(path, name)} is missing.")
        for name, shape in known.items():
            if name in value:
                shape(value[name], joined(path, name))

    return check


def joined(path: str, name: str) -> str:
    shown = name if name.isidentifier() else brief(name)
    return f"{path}.{shown}" if path else shown


# --- the schema -----------------------------------------------------------------------------------------


def _positions(value: Any, path: str) -> None:
    each(whole())(value, path)
    if len(set(value)) < len(value):
        raise refuse(path, "a list of rows, each of them once", value)


def _flips(value: Any, path: str) -> None:
    each(FLIP)(value, path)
    seen: set[int] = set()
    for place, flip in enumerate(value):
        if flip["position"] in seen:
            raise ReplayError(
                f"The record is bent: {path}[{place}].position names row {flip['position']} a second time."
            )
        seen.add(flip["position"])


COUNTS = {name: whole() for name in ("with_flips", "without_flips", "only_with_flips", "only_without_flips")}
PAIR = each(NUMBER, 2)
FRESH = fields(
    {"seeds": whole(1)} | COUNTS,
    {
        "first": maybe(whole()), "hold": SHARE, "hold_interval": PAIR, "base": SHARE, "base_interval": PAIR,
        "effect": NUMBER, "effect_interval": PAIR,
        "logits": maybe(fields({"without": each(maybe(NUMBER)), "with": each(maybe(NUMBER))})),
    },
)  # fmt: skip
FLIP = fields({"row": CELL, "position": whole(), "label_before": TEXT, "label_after": TEXT, "values": named(CELL)})
COLLATERAL = fields(
    {"others": whole(), "changed": whole(), "accuracy_before": maybe(SHARE), "accuracy_after": maybe(SHARE)}
)
LINES = named(each(NUMBER))
CURVES = fields({"sizes": each(whole(1)), "real": LINES, "shuffled": each(LINES)})
NULL = fields({"gap": NUMBER, "shuffled": each(NUMBER)}, {"p_value": SHARE, "curves": maybe(CURVES)})
RATES = ("base_rate", "selection_rate", "error_rate", "false_positive_rate", "false_negative_rate")
PERFORMANCE = fields(
    {
        "people": whole(), "accuracy": SHARE, "majority": SHARE, "positive": TEXT, "sensitive": TEXT,
        "by_group": each(fields({"group": CELL, "people": whole()} | {name: maybe(SHARE) for name in RATES})),
    }
)  # fmt: skip
STEADY = fields(
    {
        "parts": whole(1), "copy": TEXT, "budget": whole(1),
        "right": maybe(named(fields({"accuracy": SHARE, "balanced": maybe(SHARE)}))),
        "groups": each(
            fields(
                {name: whole() for name in ("people", "changed", "stand_against_one", "stand_against_budget")}
                | {"group": CELL, "median_at_least": maybe(NUMBER)}
            )
        ),
    }
)  # fmt: skip

DATA = fields(
    {"table": maybe(TEXT), "sha256": TEXT},
    {
        "training_rows": whole(1), "set_aside": whole(), "validated": TRUTH, "weighted": TRUTH, "label": maybe(TEXT),
        "positive": maybe(TEXT), "sensitive": maybe(TEXT), "drop": each(TEXT), "keep": each(TEXT),
        "split_seed": maybe(whole(0, 2**32 - 1)), "missing": TEXT, "test": maybe(TEXT), "validation": maybe(TEXT),
        "hold_out": TRUTH, "identifier": maybe(TEXT), "given": TEXT, "names": each(TEXT),
    },
)  # fmt: skip
RUN = {
    "butfor": TEXT, "versions": named(TEXT), "data": DATA, "sensitive": TEXT, "sensitive_columns": each(CELL),
    "blind": TRUTH, "label_names": each(TEXT, 2), "learner": OBJECT, "learner_name": TEXT, "seeded": TRUTH,
    "budget": whole(1), "rank": TEXT, "rank_parameters": OBJECT, "protocol": TEXT, "protocol_parameters": OBJECT,
    "share": TRUTH, "phi": TEXT, "psi": TEXT, "max_retrainings": maybe(whole(1)), "members": whole(1),
    "fresh_seeds": whole(), "seed_ranges": maybe(named(each(whole()))), "alternatives": whole(), "shuffles": whole(),
    "random_state": whole(), "not_rebuildable": each(TEXT), "engine": TEXT, "retrainings": whole(), "needed": whole(),
    "recalled": whole(), "confirmations": whole(), "agreement": maybe(OBJECT), "null": maybe(NULL),
}  # fmt: skip
"""All of these in a file of this version; of one that an older version ran, what there is."""
RUN_BESIDES = {
    "sensitive_bands": named(each(NUMBER)),
    "performance": maybe(PERFORMANCE),
    "remarks": each(TEXT),
    "concerns": each(fields({"sentence": TEXT})),
    "command": TEXT,
    "seconds": NUMBER,
    "seeds": whole(),
    "steady": maybe(STEADY),
    "max_seconds": maybe(NUMBER),
    "out_of_time": TRUTH,
}

VERDICT = {
    "case": maybe(whole()), "row": CELL, "status": one_of(*STATUSES), "prediction": TEXT,
    "counterfactual_prediction": maybe(TEXT), "logit": NUMBER, "counterfactual_logit": maybe(NUMBER),
    "flips": _flips, "budget": whole(1), "attempts": whole(), "confirmed": TRUTH, "rank": TEXT, "protocol": TEXT,
    "closest_logit": maybe(NUMBER), "flippable": whole(), "training_rows": whole(1), "shared": TRUTH,
    "complete": TRUTH, "reason": TEXT, "minimal": TRUTH, "first_size": whole(), "alternatives": each(_positions),
    "collateral": maybe(COLLATERAL), "sensitive": TEXT, "group": CELL, "person": named(CELL),
    "course": each(each(NUMBER, 2)),
}  # fmt: skip
VERDICT_SINCE = {
    "table": maybe(TEXT), "solidity": maybe(TEXT), "distance": maybe(whole()), "base": maybe(SHARE),
    "close_call": maybe(TRUTH), "clearance": maybe(NUMBER), "fresh": maybe(FRESH), "at_least": maybe(whole()),
    "at_most": maybe(whole()), "exact": TRUTH, "proof": maybe(TEXT), "switch_changes": maybe(TRUTH),
    "pulls": maybe(named(NUMBER)),
}  # fmt: skip
"""What the first schema did not have."""

POPULATION = {"interrupted": TRUTH}
POPULATION_SINCE = {
    "sentence": TEXT, "direct": TEXT, "asked": whole(), "eligible": whole(), "found": whole(), "one_shot": whole(),
    "solidity": named(whole()), "warnings": each(TEXT), "by_group": each(OBJECT), "comparison": maybe(OBJECT),
}  # fmt: skip


def check_verdict(record: Any, path: str = "") -> None:
    """One person's record, of any schema, as far as reading it needs."""
    fields(VERDICT | {"run": fields({}, RUN | RUN_BESIDES)}, VERDICT_SINCE | {"control": maybe(FRESH)})(record, path)
    rows = record["training_rows"]
    for place, flip in enumerate(record["flips"]):
        whole(0, rows - 1)(flip["position"], f"{joined(path, 'flips')}[{place}].position")
    for place, positions in enumerate(record["alternatives"]):
        each(whole(0, rows - 1))(positions, f"{joined(path, 'alternatives')}[{place}]")
    for place, (labels, _) in enumerate(record["course"]):
        whole()(labels, f"{joined(path, 'course')}[{place}][0]")


def check_file(record: dict[str, Any]) -> None:
    """A whole file: one person's record, or that of many. Of the present schema every field must be there, and of a run
    of this version all that it says."""
    complete = record["schema_version"] >= SEALED_FROM
    told = record.get("run")
    of_today = complete and not (isinstance(told, dict) and told.get("butfor", __version__) != __version__)
    run = fields(RUN, RUN_BESIDES) if of_today else fields({}, RUN | RUN_BESIDES)
    if complete:
        fields({"checksum": TEXT})(record, "")
    if "people" not in record:
        fields({"run": run}, {})(record, "")
        fields(VERDICT_SINCE if complete else {}, {})(record, "")
        check_verdict(record)
        return
    fields(POPULATION | {"run": run} | (POPULATION_SINCE if complete else {}), POPULATION_SINCE)(record, "")
    each(OBJECT)(record["people"], "people")
    for place, person in enumerate(record["people"]):
        fields({"run": OBJECT} | (VERDICT_SINCE if complete else {}))(person, f"people[{place}]")
        check_verdict(person, f"people[{place}]")


def check_sound(record: Any) -> None:
    """What holds for any value anywhere: finite numbers, text that can be written, nothing nested without end."""
    todo: list[tuple[Any, Any, int]] = [(record, None, 0)]
    while todo:
        value, place, depth = todo.pop()
        if isinstance(value, (dict, list)):
            if depth > DEEPEST:
                raise ReplayError(f"The record is bent: it nests deeper than {DEEPEST} levels.")
            items = value.items() if isinstance(value, dict) else enumerate(value)
            todo += [(item, (place, name), depth + 1) for name, item in items]
            if isinstance(value, dict) and not all(map(_is_text, value)):
                raise ReplayError(f"The record is bent: {_spelled(place)} has a name that is no text.")
        elif isinstance(value, float) and not math.isfinite(value):
            raise refuse(_spelled(place), "a finite number", value)
        elif isinstance(value, str) and not _is_text(value):
            raise refuse(_spelled(place), "a text that can be written", value)
        elif _is_whole(value) and abs(value) > LARGEST:
            raise refuse(_spelled(place), "a number that fits in 64 bits", value)


def _is_text(text: str) -> bool:
    """Half a surrogate pair cannot be written."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _spelled(place: Any) -> str:
    """A path from its links, the last one first."""
    steps = []
    while place is not None:
        place, name = place
        steps.append(name)
    path = ""
    for name in reversed(steps):
        path = f"{path}[{name}]" if isinstance(name, int) else joined(path, name)
    return path or "it"
