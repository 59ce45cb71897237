"""The schema of audit files, and how they are read: whatever is absent or bent is refused with its name.

By msgspec: it imports in half the time of pydantic, decodes into our own dataclasses, and names the first fault by its
path. Reading what a record holds needs it; auditing does not.

    {"schema_version": 4, "run": settings, once, "people": [what was measured about each],
     "labels": [the training labels that are worth a review], "checksum": "sha256:…"}
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, NotRequired, TypedDict

import msgspec
from msgspec import Meta, ValidationError

from butfor.data.check import Concern
from butfor.data.labels import MOST_CLASSES
from butfor.errors import ReplayError
from butfor.result.groups import Performance
from butfor.result.labels import ClosedGap, LabelValue, OneStandard, Reviewed
from butfor.result.person import Cell, Person
from butfor.result.record import SCHEMA_VERSION, Run, checksum
from butfor.standard.groups import GroupStandard

NAME_ONE = "Name a JSON file that butfor wrote."

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Names = Annotated[list[str], Meta(min_length=2, max_length=MOST_CLASSES)]


class Data(TypedDict):
    """Where the table came from, and what it was."""

    table: str | None
    sha256: str
    training_rows: Positive
    set_aside: NotRequired[Count]
    validated: NotRequired[bool]
    weighted: NotRequired[bool]
    label: NotRequired[str | None]
    positive: NotRequired[str | None]
    sensitive: NotRequired[str | None]
    drop: NotRequired[list[str]]
    keep: NotRequired[list[str]]
    split_seed: NotRequired[Annotated[int, Meta(ge=0, le=2**32 - 1)] | None]
    missing: NotRequired[str]
    test: NotRequired[str | None]
    validation: NotRequired[str | None]
    hold_out: NotRequired[bool]
    identifier: NotRequired[str | None]
    given: NotRequired[str]


class StandardsBlock(TypedDict):
    attribute: str
    adverse: str
    favourable: str
    model: str
    shuffles: Count
    left_out: list[str]
    groups: list[GroupStandard]


class Settings(TypedDict):
    """The `run` block: what readers need."""

    butfor: str
    data: Data
    sensitive: str
    label_names: Names
    adverse: NotRequired[str | list[str] | None]
    towards: NotRequired[str | None]
    standard: NotRequired[StandardsBlock | None]
    one_standard: NotRequired[list[OneStandard] | None]
    close_gap: NotRequired[ClosedGap | None]
    reviewed: NotRequired[Reviewed | None]
    learner: dict[str, Any]
    seeded: bool
    budget: Positive
    rank: str
    strategy: str
    phi: str
    psi: str
    members: Positive
    fresh_seeds: Count
    versions: NotRequired[dict[str, str]]
    sensitive_columns: NotRequired[list[Cell]]
    sensitive_bands: NotRequired[dict[str, list[float]]]
    blind: NotRequired[bool]
    learner_name: NotRequired[str]
    phi_reason: NotRequired[str]
    random_state: NotRequired[Count]
    not_rebuildable: NotRequired[list[str]]
    engine: NotRequired[str]
    retrainings: NotRequired[Count]
    recalled: NotRequired[Count]
    confirmations: NotRequired[Count]
    agreement: NotRequired[dict[str, Any] | None]
    performance: NotRequired[Performance | None]
    remarks: NotRequired[list[str]]
    concerns: NotRequired[list[Concern]]
    command: NotRequired[str]
    interrupted: NotRequired[bool]
    out_of_time: NotRequired[bool]


@dataclass(frozen=True)
class _File:
    run: Settings
    people: list[Person]
    labels: list[LabelValue] = field(default_factory=list)
    checksum: str = ""


@dataclass(frozen=True)
class Record:
    """A record as it was read. `sealed`: whether its checksum agrees."""

    run: Run
    people: list[Person]
    labels: list[LabelValue]
    where: str
    sealed: bool

    @property
    def seal(self) -> str:
        """What the checksum says, in a sentence."""
        if self.sealed:
            return f"The checksum of {self.where} agrees."
        return f"{self.where} was changed since butfor wrote it: its checksum DISAGREES."


def read_record(source: str | Path | Mapping[str, Any], *, changed: bool = False) -> Record:
    """A record from JSON text, from the file that a path names, or from the object that JSON is. A text or file that
    was changed since it was written is refused, but for a reader that trains everything again (`changed=True`)."""
    if isinstance(source, Mapping):
        return _checked(source, "The record")
    where = "The text"
    try:
        if isinstance(source, Path) or not source.lstrip().startswith(("{", "[")):
            where = f"'{source}'"
            if Path(source).exists() and not Path(source).is_file():
                raise ReplayError(f"{where} is not a file. {NAME_ONE}")
            source = Path(source).read_text(encoding="utf-8-sig")
        found = json.loads(source, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
        record = _checked(found, where)
    except RecursionError:
        raise ReplayError(f"{where} nests too deeply to be a record. {NAME_ONE}") from None
    except json.JSONDecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from error
    except (OSError, ValueError) as error:  # also a null byte in a name, half a character, thousands of digits
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error
    if not record.sealed and not changed:
        raise ReplayError(
            f"{where} was changed since butfor wrote it: its checksum is not that of its content. Take the file as it "
            "was written, or run the audit again; 'butfor replay' says what differs."
        )
    return record


def _checked(record: Any, where: str) -> Record:
    """A record from the object of its JSON, every field checked."""
    if not isinstance(record, dict) or "schema_version" not in record:
        raise ReplayError(f"{where} is not an audit's record: it has no schema_version. {NAME_ONE}")
    if record.get("redacted"):
        raise ReplayError(
            f"{where} was written with --public: it has nothing to train, review or gate with. "
            "Name the full record of the same audit."
        )
    version = record["schema_version"]
    if version != SCHEMA_VERSION or isinstance(version, (bool, float)):
        raise ReplayError(
            f"{where} has schema_version {str(version)[:20]}, and this version of butfor reads {SCHEMA_VERSION}: run "
            "the audit again, or install the version that wrote it."
        )
    try:
        file = msgspec.convert(record, _File)
        _check_together(file)
    except ValidationError as error:
        raise ReplayError(f"The record is bent: {_sentence(str(error))}.") from None
    return Record(Run(record["run"]), file.people, file.labels, where, file.checksum == checksum(record))


def _check_together(file: _File) -> None:
    """What people and labels must have in common with the run."""
    run, reviewed = file.run, file.run.get("reviewed")
    rows, budget, seeds = run["data"]["training_rows"], run["budget"], run["fresh_seeds"]
    names = run["label_names"]
    named = {"labels": [label.position for label in file.labels]}
    named["run.reviewed"] = [*reviewed.answered, *reviewed.corrected] if reviewed else []
    cases: set[int | None] = set()
    for k, person in enumerate(file.people):
        place = f"people[{k}]"
        sets = [[flip.position for flip in person.flip_set]]
        named[place] = [position for flips in sets for position in flips]
        given = {person.decision, person.new_label, person.turned_into, *(flip.label for flip in person.flip_set)}
        if unknown := given - {None, *names}:
            raise ValidationError(
                f"{place} must not name the label {min(map(str, unknown))!r}; the labels are {', '.join(names)}"
            )
        if (person.decision is None) == (len(names) > 2):
            raise ValidationError(f"{place}.decision must be there with more than two labels, and only then")
        if person.flippable > rows or max(map(len, sets)) > budget:
            raise ValidationError(f"{place} must have at most {rows} flippable labels and {budget} flips, as run says")
        if (person.fresh and person.fresh.seeds != seeds) or (person.without_flips or 0) > seeds:
            raise ValidationError(f"{place} must count {seeds} fresh seeds, as run does")
        if person.case in cases:
            raise ValidationError(f"{place}.case must not be that of another person")
        cases |= {person.case} - {None}
    for name, positions in named.items():
        if any(not 0 <= position < rows for position in positions):
            raise ValidationError(f"{name} has a training row beyond the {rows} there are")


def _sentence(error: str) -> str:
    """msgspec's message with the path first."""
    message, _, path = error.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    if missing:
        return f"{path}.{missing[1]} is missing".lstrip(".")
    if not message.startswith("Expected"):
        return f"{path}.{message}".lstrip(".")
    wanted, _, got = message.replace("`", "").removeprefix("Expected ").partition(", got ")
    return f"{path or 'it'} must be {wanted.replace(' | ', ' or ')}" + (f", not {got}" if got else "")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names are all different: of two values under one name, readers would show either."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ReplayError(f"The record is bent: it names {name!a} twice in one object. {NAME_ONE}")
        found[name] = value
    return found


def _no_number(word: str) -> NoReturn:
    raise ReplayError(f"The record is bent: it holds {word}, which is not a finite number. {NAME_ONE}")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:20])
