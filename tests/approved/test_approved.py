"""Records that somebody has read and approved: what should change no figure changes none of them.

`pytest tests/approved --renew` writes them anew. On one machine the files are then equal to the
byte, so `git diff` shows what a change did. On other machines numbers may differ in their last
digits, so tests compare them less closely.
"""

import json
import math
import platform
from pathlib import Path

import pytest

from approved.audits import NAMES, record_of

RECORDS = Path(__file__).with_name("records")
PLATFORM = "Linux x86_64"
"""Where they were made: elsewhere a tie may fall to the other side, and with it a search takes
another course."""
CLOSE, CLOSE_OF_NETWORKS = 1e-6, 1e-3
"""Relative differences of numbers; our network computes with float32."""


def differences(approved: object, record: object, close: float, place: str = "") -> list[str]:
    """Where two records differ: numbers with fractions by more than `close`, everything else at
    all."""
    if isinstance(approved, dict) and isinstance(record, dict):
        keys = [*approved, *(key for key in record if key not in approved)]
        missing = object()
        return [
            line
            for key in keys
            for line in differences(
                approved.get(key, missing), record.get(key, missing), close, f"{place}.{key}"
            )
        ]
    if isinstance(approved, list) and isinstance(record, list) and len(approved) == len(record):
        return [
            line
            for number, (old, new) in enumerate(zip(approved, record, strict=True))
            for line in differences(old, new, close, f"{place}[{number}]")
        ]
    if isinstance(approved, float) and isinstance(record, float):
        same = math.isclose(approved, record, rel_tol=close, abs_tol=close * 1e-2)
    else:
        same = approved == record
    return [] if same else [f"{place}: {approved!r} was approved, now {record!r}"]


@pytest.mark.skipif(
    f"{platform.system()} {platform.machine()}" != PLATFORM,
    reason=f"records were approved on {PLATFORM}",
)
@pytest.mark.parametrize("name", NAMES)
def test_record(name, request, tmp_path):
    record = record_of(name, tmp_path)
    path = RECORDS / f"{name}.json"
    if request.config.getoption("renew"):
        RECORDS.mkdir(exist_ok=True)
        path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    approved = json.loads(path.read_text(encoding="utf-8"))
    close = CLOSE_OF_NETWORKS if name.startswith("network") else CLOSE
    found = differences(approved, record, close)
    assert not found, "\n".join(found[:20])


def test_every_approved_record_is_made(request):
    if request.config.getoption("renew"):
        pytest.skip("records are being written")
    assert {path.stem for path in RECORDS.glob("*.json")} == set(NAMES)


def test_differences_are_seen():
    approved = {"found": True, "p": 0.5, "flips": [1, 2], "why": None}
    assert differences(approved, approved | {"p": 0.5 + 1e-8}, CLOSE) == []
    for change in (
        {"found": False},
        {"p": 0.5001},
        {"flips": [1, 3]},
        {"flips": [1]},
        {"why": "time"},
        {"more": 1},
    ):
        assert len(differences(approved, approved | change, CLOSE)) == 1
