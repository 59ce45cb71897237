"""Reads the key of a review and checks it against its audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from butfor.errors import ReplayError
from butfor.files import text_of
from butfor.learn.protocols import Table
from butfor.result.population import Population
from butfor.result.record import CHECKSUM, checksum
from butfor.review.tasks import Task, review_code
from butfor.review.write import key_of


@dataclass(frozen=True)
class _Key:
    audit_sha256: str
    seed: int
    label_names: tuple[str, ...]
    tasks: tuple[Task, ...]


def key_for(answers: Sequence[Path]) -> Path:
    """The default key of answers: that of the folder they are in, or one beside them."""
    folders = [path.resolve().parent for path in answers]
    places = [place for folder in folders for place in (key_of(folder), folder / "tasks.key.json")]
    return next((place for place in places if place.exists()), places[0])


def read_key(path: Path, audit: Population, training: Table) -> tuple[Task, ...]:
    """The tasks of a key; an error if it does not belong to this audit and these rows."""
    text = text_of(path, "The key", "Name the file that was written beside the tasks: --key FILE.")
    try:
        record = msgspec.json.decode(text)
        key = msgspec.convert(record, _Key)
    except RecursionError:
        raise ReplayError(f"'{path}' is nested too deeply for the key of a review.") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise ReplayError(f"'{path}' is not the key of a review ({error}).") from None
    if key.audit_sha256 != checksum(audit.to_dict()):
        raise ReplayError(f"The key '{path}' belongs to another audit: its tasks came from another file.")
    if record.get(CHECKSUM) != checksum(record) or not _matches(key, audit, training):
        raise ReplayError(f"The key '{path}' was changed since butfor wrote it. Use the original.")
    return key.tasks


def _matches(key: _Key, audit: Population, training: Table) -> bool:
    """Whether rows, labels, ids and decoys of the tasks are those of the audit; one may seal a changed key again."""
    names, positions = audit.run.label_names, [task.position for task in key.tasks]
    code = review_code(key.audit_sha256, key.seed, positions)
    chosen = {task.position for task in key.tasks if not task.decoy}
    return (
        bool(key.tasks)
        and key.label_names == names
        and all(0 <= position < training.n for position in positions)
        and all(task.label == names[training.codes[task.position]] for task in key.tasks)
        and all(task.id.startswith(f"{code}-") for task in key.tasks)
        and len({task.id for task in key.tasks}) == len(set(positions)) == len(key.tasks)
        and chosen == {label.position for label in audit.labels[: len(chosen)]}
    )
