"""What may be handed over: records and pages without anybody's values, or without anybody.

    Redacted   who (position and id), their group, decision and distance; no value of a person or of a training row
    Public     groups only, and no count under ten, nor one that could be worked out from the others

Both have a group's base, selection and error rates where its people with a known label are ten or more of each kind
(labelled so or otherwise, decided so or otherwise): less would tell somebody's label.

Neither can be trained again, reviewed or gated: for that the full record is needed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from butfor.errors import SettingError, listed
from butfor.files import make_folder, save_table
from butfor.report.files import folder_beside
from butfor.report.page import population_page_without_values, public_page
from butfor.report.words import FEW, HIDDEN
from butfor.result import headline
from butfor.result.groups import Comparison
from butfor.result.performance import Performance
from butfor.result.population import Population, wilson
from butfor.result.record import SCHEMA_VERSION, percent, plain, written

KEPT_OF_RUN = (
    "butfor", "versions", "label_names", "sensitive", "blind", "learner_name", "seeded", "budget", "rank", "protocol",
    "phi", "psi", "members", "fresh_seeds", "shuffles", "random_state",
)  # fmt: skip
KEPT_OF_DATA = ("sha256", "training_rows")
FILES = ("audit.json", "people.csv", "keystones.csv", "report.html")


class Redacted:
    """Everybody's id, group, decision and distance, and nothing else of them."""

    level = "redact"

    def __init__(self, population: Population) -> None:
        self.population = population
        self.sentence = population.sentence
        self.run = kept_of(population.run)

    def people(self) -> pd.DataFrame:
        frame = self.population.to_frame()
        known = ["case", "row", "group", "status", "prediction", "solidity", "distance", "complete", "flipped_rows"]
        return frame[known]

    def keystones(self) -> pd.DataFrame:
        return self.population.keystones[["people", "cases"]]

    def groups(self) -> pd.DataFrame:
        return self.population.by_group.drop(columns="median_margin")

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION, "redacted": self.level, "sentence": self.sentence,
            "direct": self.population.direct, "interrupted": self.population.interrupted,
            "by_group": _records(self.groups().reset_index(names="group")),
            "performance": told_performance(self.population.performance),
            "comparison": _comparison(self.population.comparison), "people": _records(self.people()), "run": self.run,
        }  # fmt: skip

    def to_json(self, path: Path | None = None) -> str:
        return written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def write(self, directory: Path) -> list[str]:
        """All files into the directory; their names."""
        make_folder(directory)
        self.to_json(directory / "audit.json")
        save_table(directory / "people.csv", self.people(), index=False)
        save_table(directory / "keystones.csv", self.keystones())
        rates = told_performance(self.population.performance)
        written(population_page_without_values(self.population, self.run, rates), directory / "report.html")
        return list(FILES)

    def shown(self) -> pd.DataFrame:
        """Per group, for the terminal."""
        frame = self.groups()
        columns = ["people", "switch_changes", "eligible", "found", *(["solid"] if self.population.checked else [])]
        return frame[columns].astype(int).reset_index()


class Public:
    """What can be said of groups without saying anything of a person."""

    level = "public"

    def __init__(self, population: Population) -> None:
        self.population = population
        self.run = kept_of(population.run)
        free = bool(population.run.get("blind")) or population.run.get("phi") == "everyone"
        counts = _merged(population.by_group[list(PARENTS)].fillna(0).astype(int))  # too few to tell, or not counted
        self.total, self.by_group = suppressed(counts, all_may_be_eligible=free)
        if population.run.get("seeded") is False:  # every find is solid: one count, not a part of another
            self.total["solid"], self.by_group["solid"] = self.total["found"], self.by_group["found"]
        if not population.checked:
            self.total["solid"] = None
            self.by_group["solid"] = None

    @property
    def counted(self) -> str:
        return "solid" if self.population.checked else "found"

    @property
    def sentence(self) -> str:
        if not len(self.population):
            return "Nobody was asked about."
        first, checked = self.population.verdicts[0], self.population.checked
        count, eligible = self.total[self.counted], self.total["eligible"]
        seeds = ", whatever the seed" if checked and self.population.run.get("seeded") is not False else ""
        had = (
            f"would have been decided otherwise had at most {first.budget} of the {first.training_rows} training "
            f"labels been different{seeds}"
        )
        doubt = headline.doubt(self.population, counted=False)
        rest = f" {doubt[0].upper()}{doubt[1:]}." if doubt else ""
        rest += " The search for some of them was stopped early." if self.population.unfinished else ""
        if count is None:
            whole = "the eligible people" if eligible is None else f"{eligible} eligible people"
            return f"How many of {whole} {had}, is {HIDDEN}: a count under {FEW} could be read from it.{rest}"
        whole = "Of the eligible people" if eligible is None else f"Of {eligible} eligible people"
        share = "" if eligible is None else f" ({percent(count / eligible)})"
        return f"{whole}, {count}{share} {had}.{rest}"

    def groups(self) -> list[dict[str, Any]]:
        """Per group the counts that may be told, and the share with its interval where both its counts may be."""
        rows = []
        for group, values in self.by_group.iterrows():
            counts = {name: _whole(values[name]) for name in PARENTS}
            found, n = counts[self.counted], counts["eligible"]
            known = found is not None and n is not None
            told = known and not self.population.unfinished  # how far up it reaches would tell how many were stopped
            low, high = wilson(found, n) if told else (None, None)  # type: ignore[arg-type]
            share = found / n if known else None  # type: ignore[operator]
            rows.append({"group": plain(group), **counts, "share": share, "low": low, "high": high})
        return rows

    def performance(self) -> dict[str, Any] | None:
        """The rates of the groups that have a name here and a number of people: rates tell that too."""
        named = {str(row["group"]) for row in self.groups() if row["people"] is not None}
        return told_performance(self.population.performance, named)

    def comparison(self) -> dict[str, Any] | None:
        """The difference between groups, where all that it could be worked out from may be told anyway."""
        found = self.population.comparison
        told = {str(row["group"]) for row in self.groups() if row["share"] is not None}
        if found is None or not {found.most, found.least} <= told:
            return None
        return _comparison(found)

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": SCHEMA_VERSION, "redacted": self.level, "suppressed_below": FEW,
            "sentence": self.sentence, "total": {k: _whole(v) for k, v in self.total.items()},
            "by_group": self.groups(), "comparison": self.comparison(), "performance": self.performance(),
            "run": self.run,
        }  # fmt: skip

    def to_json(self, path: Path | None = None) -> str:
        return written(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), path)

    def write(self, directory: Path) -> list[str]:
        make_folder(directory)
        self.to_json(directory / "audit.json")
        comparison = self.comparison()
        said = comparison["sentence"] if comparison else ""
        stopped = bool(self.population.unfinished)
        page = public_page(self.sentence, self.groups(), self.counted, self.run, said, self.performance(), stopped)
        written(page, directory / "report.html")
        return ["audit.json", "report.html"]

    def shown(self) -> pd.DataFrame:
        names = ["group", "people", "switch_changes", "eligible", "found"]
        names += ["solid"] if self.population.checked else []
        rows = [{name: HIDDEN if row[name] is None else row[name] for name in names} for row in self.groups()]
        return pd.DataFrame(rows, columns=names)


def told_performance(performance: Performance | None, named: Collection[str] | None = None) -> dict[str, Any] | None:
    """How good the model is, as far as that tells nobody's label: rates of the groups with ten or more people of each
    kind, and for all together only where no group is left out, whose own could be worked out from it."""
    if performance is None:
        return None
    record = performance.to_dict()
    told = [row for row in record["by_group"] if _many_of_each(row) and (named is None or str(row["group"]) in named)]
    whole = len(told) == len(record["by_group"])
    if not told:
        return None
    left_out = len(record["by_group"]) - len(told)
    return record | {"by_group": told, "left_out": left_out} | ({} if whole else dict.fromkeys(TOGETHER))


TOGETHER = ("people", "accuracy", "majority")


def _many_of_each(row: dict[str, Any]) -> bool:
    """Whether there are ten people or more of each kind: labelled so or otherwise, and of these decided so or not."""
    n, base = row["people"], row["base_rate"]
    if row["false_positive_rate"] is None or row["false_negative_rate"] is None:
        return False
    missed, wrong = row["false_negative_rate"] * base * n, row["false_positive_rate"] * (1 - base) * n
    kinds = (missed, base * n - missed, wrong, (1 - base) * n - wrong)
    return all(round(count) >= FEW for count in kinds)


PARENTS = {
    "people": None, "eligible": "people", "switch_changes": "people", "found": "eligible", "close_calls": "eligible",
    "solid": "found",
}  # fmt: skip
"""Which count is a part of which other."""
COMPLEMENTS = ("eligible", "switch_changes")
"""Where φ leaves out whom a switch changes, one is what the other leaves of the people."""
OTHERS = f"groups of fewer than {FEW} people"


def suppressed(counts: pd.DataFrame, *, all_may_be_eligible: bool) -> tuple[dict[str, Any], pd.DataFrame]:
    """The totals and the groups' counts, None where one may not be told: it or what is left of the whole is under ten,
    or it could be worked out from the total and the other groups."""
    total = counts.sum()
    whole = {name: _may_be_told(total, name, all_may_be_eligible) for name in PARENTS}
    shown = pd.DataFrame(
        {name: [_may_be_told(row, name, all_may_be_eligible) for _, row in counts.iterrows()] for name in PARENTS},
        index=counts.index,
    )
    linked = () if all_may_be_eligible else COMPLEMENTS
    hidden = -1
    while hidden != (hidden := int((~shown).to_numpy().sum())):  # what hides one count may give another away
        for name in linked:
            shown[name] = shown[list(linked)].all(axis=1)
        for name in PARENTS:
            while whole[name] and _gives_away(counts, ~shown[name], name, all_may_be_eligible):
                shown.loc[counts[name][shown[name]].idxmin(), name] = False
    for name in PARENTS:
        if (~shown[name]).sum() == len(counts) == 1:
            whole[name] = False
    told = counts.astype(object).where(shown, None)
    return {name: int(total[name]) if whole[name] else None for name in PARENTS}, told


def _gives_away(counts: pd.DataFrame, hidden: pd.Series, name: str, all_may_be_eligible: bool) -> bool:
    """Whether the total and the groups that are told leave less than several hidden groups with ten people or more
    together, who are of the kind and who are not."""
    if not 0 < hidden.sum() < len(counts):
        return False
    return hidden.sum() == 1 or not _may_be_told(counts[hidden].sum(), name, all_may_be_eligible)


def _may_be_told(counts: pd.Series, name: str, all_may_be_eligible: bool) -> bool:
    count, parent = int(counts[name]), PARENTS[name]
    if parent is None:
        return count >= FEW
    rest = int(counts[parent]) - count
    return count >= FEW and (rest >= FEW or (rest == 0 and name == "eligible" and all_may_be_eligible))


def _merged(counts: pd.DataFrame) -> pd.DataFrame:
    """Groups so small that their name alone would point at somebody, as one."""
    small = counts["people"] < FEW
    if not small.any():
        return counts
    return pd.concat([counts[~small], counts[small].sum().to_frame(OTHERS).T])


def kept_of(run: dict[str, Any]) -> dict[str, Any]:
    """Of a run block, what says nothing of anybody and of no place."""
    data = run.get("data", {})
    kept = {name: run[name] for name in KEPT_OF_RUN if name in run}
    return kept | {"data": {name: data[name] for name in KEPT_OF_DATA if name in data}}


def refuse_fuller_files(directory: Path, level: str) -> None:
    """Refuse a folder that holds the files of a fuller audit: they would lie beside what is to be handed over."""
    there = [name for name in (*FILES, "audit.toml") if (directory / name).exists()]
    beside = folder_beside(directory / "report.html")
    there += [beside.name] if beside.exists() else []
    if not there or _level_of(directory / "audit.json") == level:
        return
    raise SettingError(
        f"--{level} --out {directory}: there are {listed(there)} of another audit already, which may say more; name "
        "another folder, or empty it."
    )


def _level_of(record: Path) -> str | None:
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found.get("redacted") if isinstance(found, dict) else None


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns: Sequence[str] = list(frame.columns)
    return [{c: plain(v) for c, v in zip(columns, row, strict=True)} for row in frame.itertuples(index=False)]


def _comparison(found: Comparison | None) -> dict[str, Any] | None:
    return found.to_dict() | {"sentence": found.sentence} if found else None


def _whole(count: Any) -> int | None:
    return None if count is None or count != count else int(count)
