"""The version for the public (--public): counts in tens, nothing under ten, shares in whole per
cent, and no person.

Replay, review and gate need the full record.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.report.page import render
from butfor.report.text import short
from butfor.result.population import Population
from butfor.result.record import SCHEMA_VERSION, builtins_of
from butfor.support.errors import SettingError
from butfor.support.files import save
from butfor.words.names import LABEL_JOINT

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
    ),
    *("strategy", "phi", "psi", "members", "fresh_seeds", "random_state"),
}


def tens(count: float) -> int | None:
    """Rounded to tens; None under ten."""
    return None if count < FEW else 10 * round(count / 10)


def sentence(p: Population) -> str:
    """How many decisions hinge on few labels, in round numbers."""
    counts = [tens(len(people)) for people in (p.eligible, p.solid if p.checked else p.found)]
    asked, many = (f"about {count}" if count else "fewer than ten" for count in counts)
    seeds = ", under any seed tried" if p.checked and p.run.seeded else ""
    unchecked = "" if p.checked else " Whether they do under other seeds was not checked for all."
    stopped = " Some searches were stopped early." if p.unfinished else ""
    return (
        f"{many.capitalize()} of {asked} audited decisions hinge on at most {p.run.budget} of "
        f"{p.run.data.training_rows} training labels{seeds}.{unchecked}{stopped}"
    )


def groups(p: Population) -> list[dict[str, Any]]:
    """Per group of ten people or more: counts, None under ten, and the share of finds if both of
    its counts are shown."""
    finds, rows = "solid" if p.checked else "found", []
    for group, row in p.by_group[p.by_group["people"] >= FEW].iterrows():
        counts = {name: tens(row[name]) for name in ("people", "switch_changes", "eligible", finds)}
        share = (
            round(row[finds] / row["eligible"], 2) if counts["eligible"] and counts[finds] else None
        )
        rows.append({"group": str(group), **counts, "share": share})
    return rows


def table(p: Population) -> pd.DataFrame:
    """The same as text, for the page and the terminal."""
    rows = []
    for g in groups(p):
        group, *counts, share = g.values()
        rows.append(
            (
                group,
                *(n or f"under {FEW}" for n in counts),
                "–" if share is None else f"{100 * share:.0f} %",
            )
        )
    words = ("People", "Changed by a switch", "Audited", "Solid" if p.checked else "Found", "Share")
    return pd.DataFrame(rows, columns=[p.run.sensitive, *words])


def record(p: Population) -> str:
    """The text of the public audit.json."""

    def rounded(row: dict[str, Any]) -> dict[str, Any]:
        """Without shares that stand for fewer than ten people."""
        labelled = row["people"] * (row.get("base_rate") or 0)
        of = {"false_positive_rate": row["people"] - labelled, "false_negative_rate": labelled}
        shares = {name: value for name, value in row.items() if isinstance(value, float)}
        shown = {
            name: tens(round(share * of.get(name, row["people"]))) for name, share in shares.items()
        }
        rates = {name: round(share, 2) if shown[name] else None for name, share in shares.items()}
        return row | rates | {"people": tens(row["people"])}

    known = asdict(p.performance) if p.performance and p.performance.people >= FEW else None
    if known:
        by_group = [rounded(row) for row in known["by_group"] if row["people"] >= FEW]
        known = rounded(known) | {"by_group": by_group}
    run = {name: value for name, value in builtins_of(p.run).items() if name in KEPT}
    data = {"sha256": p.run.data.sha256, "training_rows": p.run.data.training_rows}
    content = {
        "schema_version": SCHEMA_VERSION,
        "redacted": "public",
        "sentence": sentence(p),
        "by_group": groups(p),
        "performance": known,
        "run": run | {"threshold": p.run.threshold_in_words, "data": data},
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def write(p: Population, directory: Path) -> list[str]:
    """Write the record and the page; returns their names."""
    text = record(p)
    s, yes = json.loads(text), short(LABEL_JOINT.join(p.run.sides[1]), 40)
    save(text, directory / "audit.json")
    save(
        render("public.html", s=s, run=s["run"], groups=table(p), few=FEW, yes=yes),
        directory / "report.html",
    )
    return ["audit.json", "report.html"]


def refuse_other_files(directory: Path | None) -> None:
    """Refuse a folder that is not empty: it may hold files that are not for the public."""
    there = (
        sorted(path.name for path in directory.iterdir())
        if directory and directory.is_dir()
        else []
    )
    if there:
        raise SettingError(
            f"--public --out {directory}: the folder holds '{there[0]}', which may say more; name "
            "another folder, or "
            "empty it."
        )
