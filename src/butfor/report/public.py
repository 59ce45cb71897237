"""The version for the public (--public): counts in tens, nothing under ten, shares in whole per cent, and no person.

Replay, review and gate need the full record.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import SettingError
from butfor.files import save
from butfor.report.page import render
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION, builtins_of, plain

FEW = 10
KEPT = {
    *("butfor", "versions", "label_names", "sensitive", "blind", "learner_name", "seeded", "budget", "rank"),
    *("strategy", "phi", "psi", "members", "fresh_seeds", "random_state"),
}


class Public:
    """Groups of ten people or more, in round numbers."""

    def __init__(self, population: Population) -> None:
        self.population = population

    @property
    def sentence(self) -> str:
        p = self.population
        asked, many = (
            f"about {tens(len(people))}" if tens(len(people)) else "fewer than ten"
            for people in (p.eligible, p.solid if p.checked else p.found)
        )
        seeds = ", under any seed tried" if p.checked and p.run.seeded else ""
        unchecked = "" if p.checked else " Whether they do under other seeds was not checked for all."
        stopped = " Some searches were stopped early." if p.unfinished else ""
        return (
            f"{many.capitalize()} of {asked} audited decisions hinge on at most {p.run.budget} of "
            f"{p.run.data.training_rows} training labels{seeds}.{unchecked}{stopped}"
        )

    def groups(self) -> pd.DataFrame:
        """Per group: counts, None under ten, and the share of finds if both of its counts are shown."""
        by_group, finds = self.population.by_group, "solid" if self.population.checked else "found"
        by_group = by_group[by_group["people"] >= FEW]
        counts = {c: [tens(n) for n in by_group[c]] for c in ("people", "switch_changes", "eligible", finds)}
        frame = pd.DataFrame(counts, index=by_group.index, dtype=object)
        both = frame["eligible"].notna() & frame[finds].notna()
        share = (by_group[finds] / by_group["eligible"]).astype(float).round(2).where(both).astype(object)
        frame = frame.assign(share=share)
        return frame.where(frame.notna(), None)

    def shown(self) -> pd.DataFrame:
        """The same as text."""
        frame = self.groups()
        frame["share"] = ["–" if share is None else f"{100 * share:.0f} %" for share in frame["share"]]
        return frame.where(frame.notna(), f"under {FEW}").reset_index(names=self.population.run.sensitive)

    def to_dict(self) -> dict[str, Any]:
        """The public record."""
        p, rows = self.population, self.groups().reset_index(names="group").to_dict("records")
        known = asdict(p.performance) if p.performance and p.performance.people >= FEW else None
        by_group = [_round(row) for row in known["by_group"] if row["people"] >= FEW] if known else []
        run = {name: value for name, value in builtins_of(p.run).items() if name in KEPT}
        return {
            "schema_version": SCHEMA_VERSION,
            "redacted": "public",
            "sentence": self.sentence,
            "by_group": [{str(name): plain(value) for name, value in row.items()} for row in rows],
            "performance": _round(known | {"by_group": by_group}) if known else None,
            "run": run
            | {
                "threshold": p.run.threshold_in_words,
                "data": {"sha256": p.run.data.sha256, "training_rows": p.run.data.training_rows},
            },
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False)

    def write(self, directory: Path) -> list[str]:
        """Write both files; returns their names."""
        record, groups = self.to_dict(), self.shown()
        heads = [str(column).replace("_", " ").capitalize() for column in groups]
        rows, run = list(groups.itertuples(index=False)), record["run"]
        page = render("public.html", title="Label audit", s=record, run=run, heads=heads, rows=rows, few=FEW)
        save(self.to_json(), directory / "audit.json")
        save(page, directory / "report.html")
        return ["audit.json", "report.html"]


def tens(count: float) -> int | None:
    """Rounded to tens; None under ten."""
    return None if count < FEW else 10 * round(count / 10)


def _round(row: dict[str, Any]) -> dict[str, Any]:
    """Rates in whole per cent, people in tens."""
    shares = {name: round(value, 2) for name, value in row.items() if isinstance(value, float)}
    return row | shares | {"people": tens(row["people"])}


def refuse_other_files(directory: Path) -> None:
    """Refuse a folder that is not empty: it may hold files that are not for the public."""
    there = sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []
    if there:
        raise SettingError(
            f"--public --out {directory}: the folder holds '{there[0]}', which may say more; name another folder, or "
            "empty it."
        )
