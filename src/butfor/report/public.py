"""What the public may see (--public): counts in tens, nothing under ten, shares in whole per cent, and no person.

It cannot be trained again, reviewed or gated: for that the full record is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import SettingError
from butfor.files import make_folder
from butfor.report.groups import sensitive_of
from butfor.report.page import public_page
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION, plain, written

FEW = 10
KEPT = {
    *("butfor", "versions", "label_names", "sensitive", "blind", "learner_name", "seeded", "budget", "rank"),
    *("strategy", "phi", "psi", "members", "fresh_seeds", "random_state"),
}
FILES = ["audit.json", "report.html"]


class Public:
    """Groups of ten people or more, in round numbers."""

    def __init__(self, population: Population) -> None:
        self.population = population
        self.counted = "solid" if population.checked else "found"

    @property
    def sentence(self) -> str:
        p = self.population
        asked, many = (
            "fewer than ten" if tens(count) is None else f"about {tens(count)}"
            for count in (len(p.eligible), len(p.solid if p.checked else p.found))
        )
        seeds = ", whatever the seed" if p.checked and p.run.get("seeded") is not False else ""
        doubt = "" if p.checked else " It is not known of all of them whether that holds under other seeds."
        stopped = " Some searches were stopped early." if p.unfinished else ""
        return (
            f"For {many} of {asked} eligible people, changing at most {p.run['budget']} of the "
            f"{p.run['data']['training_rows']} training labels changes the decision{seeds}.{doubt}{stopped}"
        )

    def groups(self) -> pd.DataFrame:
        """Per group the counts, None under ten, and the share of finds where both of its counts are told."""
        by_group = self.population.by_group
        by_group = by_group[by_group["people"] >= FEW]
        columns = ("people", "switch_changes", "eligible", self.counted)
        counts = {name: [tens(count) for count in by_group[name]] for name in columns}
        frame = pd.DataFrame(counts, index=by_group.index, dtype=object)
        told = frame["eligible"].notna() & frame[self.counted].notna()
        share = (by_group[self.counted] / by_group["eligible"]).astype(float).round(2).where(told).astype(object)
        frame = frame.assign(share=share)
        return frame.where(frame.notna(), None)

    def shown(self) -> pd.DataFrame:
        """Per group, for reading."""
        frame = self.groups()
        frame["share"] = ["–" if share is None else f"{100 * share:.0f} %" for share in frame["share"]]
        return frame.where(frame.notna(), f"under {FEW}").reset_index(names=sensitive_of(self.population))

    def to_dict(self) -> dict[str, Any]:
        """The record that may be handed over."""
        run, rows = self.population.run, self.groups().reset_index(names="group").to_dict("records")
        data = {name: run["data"].get(name) for name in ("sha256", "training_rows")}
        return {
            "schema_version": SCHEMA_VERSION,
            "redacted": "public",
            "sentence": self.sentence,
            "by_group": [{str(name): plain(value) for name, value in row.items()} for row in rows],
            "performance": rates(self.population),
            "run": {name: run[name] for name in run if name in KEPT} | {"data": data},
        }

    def to_json(self, path: Path | None = None) -> str:
        return written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def write(self, directory: Path) -> list[str]:
        """Both files into the directory; their names."""
        make_folder(directory)
        self.to_json(directory / "audit.json")
        written(public_page(self.to_dict(), self.shown(), FEW), directory / "report.html")
        return FILES


def tens(count: float) -> int | None:
    """Rounded to tens; None under ten."""
    return None if count < FEW else 10 * round(count / 10)


def rates(population: Population) -> dict[str, Any] | None:
    """How good the model is, per group of ten people or more, in whole per cent and round numbers."""
    if population.performance is None or population.performance.people < FEW:
        return None
    record = population.performance.to_dict()
    return _round(record | {"by_group": [_round(row) for row in record["by_group"] if row["people"] >= FEW]})


def _round(row: dict[str, Any]) -> dict[str, Any]:
    shares = {name: round(value, 2) for name, value in row.items() if isinstance(value, float)}
    return row | shares | {"people": tens(row["people"])}


def refuse_other_files(directory: Path) -> None:
    """Refuse a folder that is not empty: a fuller audit's files would lie beside what is to be handed over."""
    there = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    if there:
        raise SettingError(
            f"--public --out {directory}: there is '{there[0]}' already, which may say more; name another folder, or "
            "empty it."
        )
