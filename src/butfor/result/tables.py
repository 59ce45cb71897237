"""Tables of many verdicts: a row per person, per group, per number of labels, and per flipped training row."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

import pandas as pd

from butfor.result.fresh import SOLID, wilson
from butfor.result.run import Run
from butfor.result.verdict import Verdict

ALL = "everyone"
PEOPLE_COLUMNS = (
    *("case", "row", "group", "status", "prediction", "switch_changes", "logit", "score", "cut"),
    *("counterfactual_prediction", "counterfactual_logit", "counterfactual_score", "counterfactual_cut", "flips"),
    *("at_least", "proof", "flipped_rows", "doubted", "minimal", "solidity", "distance", "hold", "base", "close_call"),
    *("attempts", "flippable", "closest_logit", "shared", "complete"),
)


def people_frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """One row per person."""
    other: dict[str, Callable[[Verdict], Any]] = {
        "flips": lambda v: v.at_most,
        "flipped_rows": lambda v: in_one_cell(flip.row for flip in v.flip_set),
        "score": lambda v: v.scores[0],
        "counterfactual_score": lambda v: v.scores[1],
    }
    rows = [[other[c](v) if c in other else getattr(v, c) for c in PEOPLE_COLUMNS] for v in verdicts]
    whole = dict.fromkeys(("flips", "at_least", "doubted", "distance"), "Int64")
    return pd.DataFrame(rows, columns=list(PEOPLE_COLUMNS)).astype(whole)


def group_shares(verdicts: Sequence[Verdict], run: Run, checked: bool) -> dict[str, float]:
    """Counts and shares of one group. People whose search was stopped before it found anything might have been found:
    intervals reach as far up as if all of them were. `checked`: whether solid finds are known."""
    eligible = [v for v in verdicts if v.eligible]
    found, solid = sum(v.found for v in eligible), sum(v.solidity == SOLID for v in eligible)
    stopped, n = sum(v.unfinished for v in eligible), len(eligible)
    tested = not run.seeded or any(v.base is not None for v in eligible) or not eligible
    low, high = wilson(found, n, stopped)
    solid_low, solid_high = wilson(solid, n, stopped) if checked else (math.nan, math.nan)
    return {
        "people": len(verdicts),
        "eligible": n,
        "found": found,
        "share": found / (n or math.nan),
        "low": low,
        "high": high,
        "solid": solid,
        "share_solid": solid / (n or math.nan) if checked else math.nan,
        "solid_low": solid_low,
        "solid_high": solid_high,
        "close_calls": sum(bool(v.close_call) for v in eligible) if tested else math.nan,
        "switch_changes": sum(bool(v.switch_changes) for v in verdicts),
        "median_margin": median(abs(v.logit) for v in eligible) if eligible else math.nan,
    }


def distance_table(groups: dict[str, list[Verdict]], budget: int, checked: bool) -> pd.DataFrame:
    """Per group and number of labels up to the budget: the share of eligible people whose decision this many
    labels change, with its interval."""
    rows = []
    for group, people in groups.items():
        sizes = [v.distance if checked else v.at_most for v in people]
        stopped, n = sum(v.unfinished for v in people), len(people)
        for k in range(1, budget + 1) if people else ():
            turned = sum(size is not None and size <= k for size in sizes)
            rows.append((group, k, n, turned / n, *wilson(turned, n, stopped)))
    return pd.DataFrame(rows, columns=["group", "labels", "people", "share", "low", "high"])


def keystone_table(found: Sequence[Verdict], columns: Sequence[Any]) -> pd.DataFrame:
    """The flipped training rows by how many people's flip sets include them. `columns`: those of a row."""
    flips = pd.DataFrame([(at, str(v.case)) for v in found for at in v.positions], columns=["at", "case"])
    if flips.empty:
        return pd.DataFrame(columns=["people", "cases", *map(_unlike_ours, columns)]).rename_axis("row")
    first = ~flips["at"].duplicated().to_numpy()
    frame = pd.concat([v.flips for v in found])[first].rename(columns=_unlike_ours)
    frame.insert(0, "people", list(Counter(flips["at"]).values()))
    frame.insert(1, "cases", flips.groupby("at", sort=False)["case"].agg(" ".join).to_list())
    return frame.sort_values("people", ascending=False, kind="stable").rename_axis("row")


def in_one_cell(labels: Iterable[Any]) -> str:
    """Ids separated by spaces or, if one contains a space, as a JSON list."""
    texts = [str(label) for label in labels]
    simple = all(text and not any(map(str.isspace, text)) and text[0] != "[" for text in texts)
    return " ".join(texts) if simple else json.dumps(texts, ensure_ascii=False)


def _unlike_ours(column: Any) -> Any:
    """A column of the table, renamed if keystones have a column of that name."""
    return f"{column} (of the table)" if column in ("row", "people", "cases") else column
