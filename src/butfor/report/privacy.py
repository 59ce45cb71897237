"""What may be handed over (--privacy): records and pages without anybody's values, or without anybody.

    redacted   who (position and id), their group, decision and distance; no value of a person or of a training row
    public     groups only: counts rounded to tens, nothing under ten, shares in whole per cent

Neither can be trained again, reviewed or gated: for that the full record is needed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import SettingError, listed
from butfor.files import make_folder, save_table
from butfor.report import overview, people
from butfor.report.files import folder_beside
from butfor.report.page import redacted_page
from butfor.result import headline
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION, plain, written

FEW = 10
KEPT = {
    *(
        "butfor",
        "versions",
        "label_names",
        "sensitive",
        "blind",
        "learner_name",
        "seeded",
        "budget",
        "rank",
        "strategy",
    ),
    *("phi", "psi", "members", "fresh_seeds", "random_state"),
}
COUNTS = ["people", "switch_changes", "eligible", "found", "solid"]
PEOPLE = ["case", "row", "group", "status", "prediction", "solidity", "distance", "complete", "flipped_rows"]
FILES = ("audit.json", "people.csv", "keystones.csv", "report.html")


class Redacted:
    """Everybody's id, group, decision and distance, and nothing else of them."""

    level = "redacted"

    def __init__(self, population: Population) -> None:
        self.population = population
        self.sentence = population.sentence
        self.counted = COUNTS if population.checked else COUNTS[:-1]

    def groups(self) -> pd.DataFrame:
        """Per group the counts, and the share of finds that count, of all eligible people."""
        p = self.population
        frame = p.by_group[self.counted].astype(int)
        return frame.assign(share=(frame[self.counted[-1]] / p.by_group["eligible"]).round(3))

    def to_dict(self) -> dict[str, Any]:
        """The record that may be handed over."""
        p = self.population
        record = {"schema_version": SCHEMA_VERSION, "redacted": self.level, "sentence": self.sentence}
        record |= {"by_group": _records(self.groups().reset_index(names="group")), "performance": rates(p)}
        if self.level == "redacted":
            record |= {"interrupted": p.interrupted, "people": _records(p.to_frame()[PEOPLE])}
        data = {name: p.run.get("data", {}).get(name) for name in ("sha256", "training_rows")}
        return record | {"run": {name: p.run[name] for name in p.run if name in KEPT} | {"data": data}}

    def to_json(self, path: Path | None = None) -> str:
        return written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def write(self, directory: Path) -> list[str]:
        """All files into the directory; their names."""
        make_folder(directory)
        self.to_json(directory / "audit.json")
        curve, rows = None, None
        if self.level == "redacted":
            save_table(directory / "people.csv", self.population.to_frame()[PEOPLE], index=False)
            save_table(directory / "keystones.csv", self.population.keystones[["people", "cases"]])
            rows = people.roster([(v, "") for v in self.population], overview.sensitive_of(self.population), least=True)
            curve = overview.curve(self.population)
        record = self.to_dict()
        page = redacted_page(
            sentence=self.sentence, groups=_table(self.shown()), performance=record["performance"], run=record["run"],
            roster=rows, curve=curve, count=len(self.population), FEW=FEW,
        )  # fmt: skip
        written(page, directory / "report.html")
        return list(FILES) if rows else ["audit.json", "report.html"]

    def shown(self) -> pd.DataFrame:
        """Per group, for reading."""
        frame = self.groups().astype(object)
        frame["share"] = [f"{100 * s:.0f} %" if s is not None and s == s else "–" for s in frame["share"]]
        return frame.where(frame.notna(), f"under {FEW}").reset_index(names=overview.sensitive_of(self.population))


class Public(Redacted):
    """Groups of ten people or more, in round numbers."""

    level = "public"

    def __init__(self, population: Population) -> None:
        super().__init__(population)
        counted = population.solid if population.checked else population.found
        self.sentence = headline.round_sentence(population, tens(len(counted)), tens(len(population.eligible)))

    def groups(self) -> pd.DataFrame:
        frame = super().groups()
        frame = frame[frame["people"] >= FEW]
        counts = frame[self.counted].map(tens).astype(object)
        known = counts[self.counted[-1]].notna() & counts["eligible"].notna()
        return counts.where(counts.notna(), None).assign(share=frame["share"].round(2).where(known))


def tens(count: float) -> int | None:
    """Rounded to tens; None under ten."""
    return None if count < FEW else 10 * round(count / 10)


def rates(population: Population) -> dict[str, Any] | None:
    """How good the model is, per group of ten people or more, in whole per cent and round numbers."""
    if population.performance is None or population.performance.people < FEW:
        return None
    record = population.performance.to_dict()
    groups = [row for row in record["by_group"] if row["people"] >= FEW]
    return _round(record | {"by_group": [_round(row) for row in groups]})


def _round(row: dict[str, Any]) -> dict[str, Any]:
    shares = {name: round(value, 2) for name, value in row.items() if isinstance(value, float)}
    return row | shares | {"people": tens(row["people"])}


def refuse_fuller_files(directory: Path, level: str) -> None:
    """Refuse a folder that holds the files of a fuller audit: they would lie beside what is to be handed over."""
    there = [name for name in (*FILES, "audit.toml") if (directory / name).exists()]
    beside = folder_beside(directory / "report.html")
    there += [beside.name] if beside.exists() else []
    if there and _level_of(directory / "audit.json") != level:
        raise SettingError(
            f"--privacy {level} --out {directory}: there are {listed(there)} of another audit already, which may say "
            "more; name another folder, or empty it."
        )


def _level_of(record: Path) -> str | None:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("redacted") if isinstance(found, dict) else None


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(c): plain(v) for c, v in row.items()} for row in frame.to_dict("records")]


def _table(frame: pd.DataFrame) -> dict[str, Any]:
    heads = [str(column).replace("_", " ").capitalize() for column in frame]
    return {"heads": heads, "rows": [(row[0], row[1:]) for row in frame.itertuples(index=False)]}
