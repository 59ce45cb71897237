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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NoReturn, NotRequired, TypedDict

import msgspec
from msgspec import Meta

from butfor.data.check import MOST_CLASSES
from butfor.errors import ReplayError
from butfor.result.flipped import ClosedGap, OneStandard
from butfor.result.groups import Shuffles
from butfor.result.labels import LabelValue
from butfor.result.person import Cell, Person
from butfor.result.record import SCHEMA_VERSION, Run, checksum
from butfor.result.reviewed import Reviewed
from butfor.standard.groups import GroupStandard

LARGEST_FILE = 2 * 1024**3
"""Bytes. A record of ten thousand people has about a hundred million."""
NAME_ONE = "Name a JSON file that butfor wrote."

Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Share = Annotated[float, Meta(ge=0, le=1)]
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
    names: NotRequired[list[str]]
    split_seed: NotRequired[Annotated[int, Meta(ge=0, le=2**32 - 1)] | None]
    missing: NotRequired[str]
    test: NotRequired[str | None]
    validation: NotRequired[str | None]
    hold_out: NotRequired[bool]
    identifier: NotRequired[str | None]
    given: NotRequired[str]


class Rates(TypedDict):
    group: Cell
    people: Count
    base_rate: Share | None
    selection_rate: Share | None
    error_rate: Share | None
    false_positive_rate: Share | None
    false_negative_rate: Share | None


class Performance(TypedDict):
    people: Count
    accuracy: Share
    majority: Share
    positive: str
    sensitive: str
    by_group: list[Rates]


class Concern(TypedDict):
    sentence: str


class StandardsBlock(TypedDict):
    attribute: str
    adverse: str
    favourable: str
    model: str
    shuffles: Count
    left_out: list[str]
    groups: list[GroupStandard]


class Settings(TypedDict):
    """The `run` block: what readers need, and of the rest the type."""

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
    encoder: NotRequired[dict[str, Any] | None]
    rank_parameters: NotRequired[dict[str, Any]]
    strategy_parameters: NotRequired[dict[str, Any]]
    phi_reason: NotRequired[str]
    seed_ranges: NotRequired[dict[str, list[Count]] | None]
    n_shuffles: NotRequired[Count]
    shuffles: NotRequired[Shuffles | None]
    random_state: NotRequired[Count]
    not_rebuildable: NotRequired[list[str]]
    engine: NotRequired[str]
    retrainings: NotRequired[Count]
    needed: NotRequired[Count]
    recalled: NotRequired[Count]
    confirmations: NotRequired[Count]
    agreement: NotRequired[dict[str, Any] | None]
    performance: NotRequired[Performance | None]
    remarks: NotRequired[list[str]]
    concerns: NotRequired[list[Concern]]
    command: NotRequired[str]
    seconds: NotRequired[float]
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


def read_record(text: str | Path, *, changed: bool = False) -> Record:
    """A record from JSON text or from the file that a path names. One that was changed since it was written is refused,
    but for a reader that trains everything again (`changed=True`)."""
    where = "The text"
    if isinstance(text, Path) or not text.lstrip().startswith(("{", "[")):
        where = f"'{text}'"
        text = _content(Path(text), where)
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
        record = check_record(found, where)
    except RecursionError:
        raise ReplayError(f"{where} nests too deeply to be a record. {NAME_ONE}") from None
    except json.JSONDecodeError as error:
        raise ReplayError(f"{where} is not JSON ({error}). {NAME_ONE}") from error
    except ValueError as error:  # a number of thousands of digits, half a character
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error
    if not record.sealed and not changed:
        raise ReplayError(
            f"{where} was changed since butfor wrote it: its checksum is not that of its content. Take the file as it "
            "was written, or run the audit again; 'butfor replay' says what differs."
        )
    return record


def check_record(record: Any, where: str = "The record") -> Record:
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
    except msgspec.ValidationError as error:
        raise ReplayError(f"The record is bent: {_sentence(str(error))}.") from None
    return Record(Run(record["run"]), file.people, file.labels, where, file.checksum == checksum(record))


def _check_together(file: _File) -> None:
    """What people must have in common with the run."""
    rows, budget, names = file.run["data"]["training_rows"], file.run["budget"], file.run["label_names"]
    cases = [person.case for person in file.people]
    reviewed = file.run.get("reviewed")
    for name, positions in (
        ("labels", [label.position for label in file.labels]),
        ("run.reviewed", [*reviewed.answered, *reviewed.corrected] if reviewed else []),
    ):
        if any(not 0 <= at < rows for at in positions):
            raise msgspec.ValidationError(f"{name} has a training row beyond the {rows} there are")
    for k, person in enumerate(file.people):
        place = f"people[{k}]"
        positions = [flip.position for flip in person.flip_set]
        beyond = [at for flips in (positions, *person.alternatives) for at in flips if at >= rows]
        if beyond:
            raise msgspec.ValidationError(f"{place} has training row {beyond[0]}, and there are {rows}")
        if max(person.flippable, 0) > rows:
            raise msgspec.ValidationError(f"{place}.flippable must be at most {rows}, the training rows")
        if max(map(len, (positions, *person.alternatives))) > budget:
            raise msgspec.ValidationError(f"{place}.flip_set must have at most {budget} labels, the budget")
        for name in ("decision", "new_label", "turned_into"):
            if getattr(person, name) not in (None, *names):
                raise msgspec.ValidationError(f"{place}.{name} must be one of {' and '.join(names)}")
        if (person.decision is None) == (len(names) > 2):
            raise msgspec.ValidationError(f"{place}.decision must be there with more than two labels, and only then")
        for j, flip in enumerate(person.flip_set):
            if flip.label not in names:
                raise msgspec.ValidationError(f"{place}.flip_set[{j}].label must be one of {' and '.join(names)}")
        seeds = person.fresh.seeds if person.fresh else file.run["fresh_seeds"]
        if seeds != file.run["fresh_seeds"] or (person.without_flips or 0) > seeds:
            raise msgspec.ValidationError(f"{place} must count {file.run['fresh_seeds']} fresh seeds, as run does")
        if person.case is not None and cases.index(person.case) < k:
            raise msgspec.ValidationError(f"{place}.case must not be that of another person")


KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}


def _sentence(error: str) -> str:
    """msgspec's message in our words: the path first, then what must be there."""
    message, _, path = error.partition(" - at `$")
    path = path.rstrip("`").lstrip(".")
    missing = re.fullmatch(r"Object missing required field `(\w+)`", message)
    if missing:
        return f"{path}.{missing[1]} is missing".lstrip(".")
    if not message.startswith("Expected"):
        return f"{path}.{message}".lstrip(".")
    wanted, _, got = message.removeprefix("Expected ").partition(", got ")
    for kind, words in KINDS.items():
        wanted, got = (re.sub(rf"\b{kind}\b", words, each) for each in (wanted, got))
    wanted = wanted.replace(" | ", " or ").replace("`", "").replace(">=", "from").replace("<=", "up to")
    return f"{path or 'it'} must be {wanted}" + (f", not {got.replace('`', '')}" if got else "")


def _content(path: Path, where: str) -> str:
    """A file's text, where it is a file, and one of a size that a record may have."""
    try:
        if path.exists() and not path.is_file():
            raise ReplayError(f"{where} is not a file. {NAME_ONE}")
        if path.stat().st_size > LARGEST_FILE:
            raise ReplayError(f"{where} has {path.stat().st_size} bytes, too many for a record. {NAME_ONE}")
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # also UnicodeError, and a null byte in the name
        raise ReplayError(f"{where} cannot be read ({error}). {NAME_ONE}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose names are all different: of two values under one name, readers would show either."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ReplayError(f"The record is bent: it names {twice!a} twice in one object. {NAME_ONE}")
    return found


def _no_number(word: str) -> NoReturn:
    raise ReplayError(f"The record is bent: it holds {word}, which is not a finite number. {NAME_ONE}")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _no_number(digits[:20])
