"""What `benchmarks.bias` measured, as tables with the aims in their headings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.planted import BASES
from benchmarks.rows import Columns, Row, line

PARTS = ("quarter", "whole")
"""Of as many labels as were planted."""
BOTH = "both"
"""Recorded and drawn labels together."""
FEW = 30
"""Bins with fewer people are not judged."""


def mean_of(values: Iterable[Any], name: str) -> Row:
    """The mean of what is known, and its standard error."""
    known = np.array([float(value) for value in values if value is not None and not pd.isna(value)])
    if not len(known):
        return {}
    return {name: float(known.mean()), f"{name}_error": float(known.std() / np.sqrt(len(known)))}


def ratio(some: pd.DataFrame, above: str, below: str) -> list[float | None]:
    """Per table; None where there is nobody."""
    return [a / b if b else None for a, b in zip(some[above], some[below], strict=True)]


def in_comparison(some: pd.DataFrame) -> Row:
    off = [
        d - t
        for d, t in zip(some["difference"], some["true"], strict=True)
        if t is not None and not pd.isna(t)
    ]
    return (
        mean_of(some["called"], "called")
        | mean_of(some["difference"], "difference")
        | mean_of(off, "off")
        | mean_of(some["covered"], "covered")
    )


def in_where(some: pd.DataFrame) -> Row:
    told = some[some["kind"] == "labeller"]
    even = some[some["kind"].isin(["nothing", "uniform"])]
    place = told["place"].fillna(np.inf)
    return (
        mean_of(place == 1, "first")
        | mean_of(place <= 3, "three")
        | mean_of(told["planted_called"], "found")
        | mean_of(even["any_called"], "false")
    )


def in_which(some: pd.DataFrame) -> Row:
    row: Row = {}
    for name in PARTS:
        row |= mean_of(some[name], name) | mean_of(some[f"foretold_{name}"], f"foretold_{name}")
    return row


def in_whose(some: pd.DataFrame) -> Row:
    null, some = some[some["kind"] == "nothing"], some[some["kind"] != "nothing"]
    shares = np.array(ratio(null, "likely", "people"), float)
    return (
        mean_of(ratio(some, "likely_hurt", "likely"), "precision")
        | mean_of(ratio(some, "likely_hurt", "hurt"), "recall")
        | mean_of(ratio(some, "sure_hurt", "sure"), "sure")
        | mean_of(some["covered"], "covered")
        | {"hurt": float(some["hurt"].sum()), "expected": float(some["expected"].sum())}
        | mean_of(100 * shares, "null")
        | mean_of(100 * shares * null["called"].to_numpy(float), "null_told")
    )


def in_seeds(some: pd.DataFrame) -> Row:
    """Of networks, by what worlds are compared with and who counts as hurt; and the people of any
    group who are listed where nothing was planted, of all tables and where the group is called."""
    null = some[some["kind"] == "nothing"]
    told, planted = null[null["called"].astype(bool)], some[some["kind"] != "nothing"]
    hits, likely, hurt = (int(planted[name].sum()) for name in ("likely_hurt", "likely", "hurt"))
    return in_whose(some) | {
        "all_precision": hits / likely if likely else None,
        "all_recall": hits / hurt if hurt else None,
        "listed": int(null["listed"].sum()),
        "listed_of": int(null["listed_of"].sum()),
        "listed_told": int(told["listed"].sum()),
        "listed_told_of": int(told["listed_of"].sum()),
    }


def in_bins(some: pd.DataFrame) -> list[Row]:
    """People by probability, of all tables together, beside how many of them were hurt."""
    bins = np.array(list(some[some["kind"] != "nothing"]["bins"])).sum(axis=0)
    return [
        {
            "bin": f"{k / 10:.1f} to {k / 10 + 0.1:.1f}",
            "people": int(people),
            "foretold": foretold / people,
        }
        | {
            "hurt": hurt / people,
            "off": hurt / people - foretold / people if people >= FEW else None,
        }
        for k, (people, foretold, hurt) in enumerate(bins)
        if people
    ]


def in_reviews(some: pd.DataFrame) -> Row:
    row: Row = {}
    for name in PARTS:
        row |= mean_of(some[name], name) | mean_of(some[f"restored_{name}"], f"restored_{name}")
    return row


BY: Columns = {
    "labels  ": "{base}",
    "by    ": "{by}",
    "of                        ": "{of}",
    "tables": "{tables}",
}
TABLES: dict[str, tuple[str, Sequence[str], Callable[[pd.DataFrame], Row | list[Row]], Columns]] = {
    "comparison": (
        "The comparison. On drawn labels: the difference less the true one, in points; the 95 % "
        "interval covers it",
        ("kind", "set"),
        in_comparison,
        {
            "called": "{called:.2f}",
            "  covers": "{covered:.2f}",
            "difference": "{difference:.3f}",
            "   off": "{off:.3f}",
        },
    ),
    "where": (
        "Where. Kind labeller: the planted value is the first slice, among the first three, "
        "called. Kinds uniform and nothing: any slice is called",
        ("kind", "set"),
        in_where,
        {
            "first (aim 0.80)": "{first:.2f} ± {first_error:.2f}",
            "three (aim 0.95)": "{three:.2f} ± {three_error:.2f}",
            "planted called": "{found:.2f} ± {found_error:.2f}",
            "false (aim at most 0.06)": "{false:.3f} ± {false_error:.3f}",
        },
    ),
    "which": (
        "Which labels. Wrong among the first n/4 and n; foretold is to be within 0.05 of real on "
        "drawn labels",
        ("way", "told", "set", "kind"),
        in_which,
        {
            "n/4 foretold": "{foretold_quarter:.2f}",
            "   n/4 real": "{quarter:.2f} ± {quarter_error:.2f}",
            "n foretold": "{foretold_whole:.2f}",
            "     n real": "{whole:.2f} ± {whole_error:.2f}",
        },
    ),
    "whose": (
        "Whose decisions. In more than half of the worlds; in more than 0.9 of them; nothing "
        "planted: % of the group's people above one half, and where the group is called",
        ("model", "told", "kind", "set"),
        in_whose,
        {
            "precision (0.78)": "{precision:.2f} ± {precision_error:.2f}",
            "recall (0.80)": "{recall:.2f} ± {recall_error:.2f}",
            "above 0.9 (0.88)": "{sure:.2f} ± {sure_error:.2f}",
            "covers (0.80)": "{covered:.2f} ± {covered_error:.2f}",
            "    hurt": "{hurt:.0f}",
            "expected": "{expected:.0f}",
            "nothing, % (0.5)": "{null:.2f} ± {null_error:.2f}",
            "told": "{null_told:.2f}",
        },
    ),
    "seeds": (
        "Networks: worlds beside what, and hurt by what; people of any group listed where nothing "
        "was planted, of all such tables and of those where the group is called",
        ("case",),
        in_seeds,
        {
            "precision    ": "{precision:.3f} ± {precision_error:.3f}",
            "recall       ": "{recall:.3f} ± {recall_error:.3f}",
            "of all people: precision": "{all_precision:.3f}",
            "recall": "{all_recall:.3f}",
            "covers": "{covered:.2f}",
            "    hurt": "{hurt:.0f}",
            "expected": "{expected:.0f}",
            "nothing: listed": "{listed} of {listed_of}",
            "    called": "{listed_told} of {listed_told_of}",
        },
    ),
    "reliability": (
        "Whose decisions, by probability: the share of people who were hurt (aim: within 0.1)",
        ("model",),
        in_bins,
        {
            "bin       ": "{bin}",
            "people": "{people}",
            "foretold": "{foretold:.2f}",
            "hurt": "{hurt:.2f}",
            "  off": "{off:+.2f}",
        },
    ),
    "reviews": (
        "Reviews. Wrong among the labels reviewed, and the share of the hurt whom that restores; "
        "the test people had no part in the choice. Aim, for each model: wrong as much as doubt, "
        "twice self-confidence",
        ("model",),
        in_reviews,
        {
            "way             ": "{way}",
            "  n/4 wrong": "{quarter:.2f} ± {quarter_error:.2f}",
            "n/4 restored": "{restored_quarter:.2f} ± {restored_quarter_error:.2f}",
            "    n wrong": "{whole:.2f} ± {whole_error:.2f}",
            " n restored": "{restored_whole:.2f} ± {restored_whole_error:.2f}",
        },
    ),
}


def summary(measured: Sequence[Row]) -> dict[str, list[Row]]:
    """Per question: all tables and then parts of them, for recorded labels, for drawn ones, and for
    both together."""
    found: dict[str, list[Row]] = {}
    for question, (_, keys, figures, _) in TABLES.items():
        asked = {"reliability": "whose"}.get(question, question)
        frame = pd.DataFrame([row for row in measured if row["question"] == asked])
        if not len(frame):
            continue
        if question == "seeds":
            frame["case"] = [
                f"{method}, {by}"
                for method, by in zip(frame["method"], frame["hurt_by"], strict=True)
            ]
        frame["told"] = np.where(frame["called"], "group called", "group not called")
        rows = found[question] = []
        for base, by in product((*BASES, BOTH), keys if question == "seeds" else ("all", *keys)):
            if base == BOTH and (
                by not in ("all", "model", "way", "case") or frame["base"].nunique() == 1
            ):
                continue
            part = frame[(frame["base"] == base) | (base == BOTH)].assign(all="all tables")
            if question == "which" and by != "way":
                part = part[part["way"] == "wrong"]
            inner = [by, "way"] if question == "reviews" else [by]
            for names_, some in part.groupby(inner, sort=False):
                about = {"base": base, "by": by, "of": names_[0], "tables": len(some)}
                about |= {"way": names_[1]} if question == "reviews" else {}
                more = figures(some)
                rows += [about | each for each in (more if isinstance(more, list) else [more])]
    return found


def in_words(measured: Sequence[Row]) -> str:
    """All tables of results, with how many tables there were."""
    failed = [row for row in measured if row["question"] == "failed"]
    count = sum(row["question"] == "comparison" for row in measured)
    lines = [f"{count} tables; {len(failed)} could not be compared."]
    for question, rows in summary(measured).items():
        title, _, _, columns = TABLES[question]
        headings = BY | columns
        lines += ["", title, " ".join(headings), *(line(row, headings) for row in rows)]
    return "\n".join(lines)
