"""Texts of options as the values they stand for: names, cut points, people, budgets, times, layers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from butfor.errors import SettingError

if TYPE_CHECKING:
    from butfor.data.sensitive import Cuts

UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def names_in(text: str | None) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def references_in(text: str | None, attributes: Sequence[str]) -> dict[str, str] | list[str] | None:
    """Groups such as white, or attributes with their groups: race=white,sex=m."""
    named = names_in(text)
    pairs = [name.partition("=") for name in named]
    if named and all(equals and attribute.strip() in attributes for attribute, equals, _ in pairs):
        if len({attribute.strip() for attribute, _, _ in pairs}) < len(pairs):
            raise SettingError(f"--reference {text}: give one group per attribute.")
        return {attribute.strip(): group.strip() for attribute, _, group in pairs}
    return named or None


def bands_in(given: Sequence[str]) -> Cuts | None:
    """Cut points from texts such as 25,60 and age=25,60."""
    found: dict[str, list[float]] = {}
    for text in given:
        name, _, cuts = text.rpartition("=")
        try:
            found[name] = [float(cut) for cut in cuts.split(",")]
        except ValueError:
            raise SettingError(f"--bands {text}: give cut points such as 25,60, or age=25,60.") from None
    if len(found) > 1 and "" in found:
        raise SettingError("--bands: with cut points of several columns each needs its name, such as age=25,60.")
    return found.get("", found or None)


def cases_in(text: str, people: int) -> list[int]:
    """Positions from 148, 3,8 or 0:200; a range may reach past the end."""
    chosen: list[int] = []
    for part in text.split(","):
        start, colon, stop = part.partition(":")
        try:
            first, last = int(start or 0) if colon else int(part), int(stop) if stop.strip() else people
        except ValueError:
            raise SettingError(
                f"--cases {text}: give positions such as 148 or 3,8, or a range such as 0:200."
            ) from None
        if colon and (first < 0 or last <= min(first, people - 1)):
            raise SettingError(f"--cases {text}: a range goes from a smaller to a larger position, such as 0:200.")
        if colon and first >= people:
            raise SettingError(f"--cases {text}: there are only people 0 to {people - 1}.")
        chosen += range(first, min(last, people)) if colon else [first]
    return list(dict.fromkeys(chosen))


def budget_in(text: str) -> float:
    """A share such as 0.1% or 0.001, or a count such as 3."""
    share = text.strip().endswith("%")
    try:
        number = float(text.strip().removesuffix("%")) / (100 if share else 1)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingError(f"--budget {text}: give a share such as 0.1% or a count such as 3.")
    if share and not 0 < number < 1:
        raise SettingError(f"--budget {text}: a share must lie above 0 % and below 100 %.")
    return int(number) if number >= 1 and number == int(number) else number


def seconds_in(text: str) -> float:
    """A time such as 90s, 10m or 2h."""
    read = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh]?)\s*", text)
    if not read or not float(read[1]):
        raise SettingError(f"--max-seconds '{text}' is not a time above 0; write 90s, 10m or 2h.")
    return float(read[1]) * UNITS[read[2]]


def layers_in(text: str) -> tuple[int, ...]:
    """Widths such as 32,32, or none."""
    try:
        return () if text.strip() == "none" else tuple(int(width) for width in text.split(","))
    except ValueError:
        raise SettingError(f"--hidden {text}: give widths such as 32,32, or 'none'.") from None


def batch_in(text: str) -> int | None:
    """A number of rows, or all of them."""
    try:
        return None if text == "full" else int(text)
    except ValueError:
        raise SettingError(f"--batch-size {text}: give a number of rows, or 'full'.") from None
