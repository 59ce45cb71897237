"""Numbers and labels in words, the same everywhere."""

from __future__ import annotations

import math

SMALLEST_SHOWN_GAP = 0.0005
"""A smaller gap is 0.0 points."""
MOST_DIGITS = 6
"""The most decimals of a score."""

Interval = tuple[float, float]


def percent(share: float) -> str:
    """ "62 %", "1.8 %"."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.0f} %"


def share(value: float) -> str:
    """ "71.7 %"."""
    return f"{100 * value:.1f} %"


def number(value: float) -> str:
    """ "6.9", of a share in points."""
    return f"{100 * value:.1f}".replace("-0.0", "0.0").replace("-", "−")


def points(value: float) -> str:
    """ "6.9 points"."""
    return f"{number(value)} points"


def often(difference: float, interval: Interval | None = None) -> str:
    """ "6.3 points less often (1 to 11)"."""
    gap = f"{points(abs(difference))} {'less' if difference > 0 else 'more'} often"
    if abs(difference) < SMALLEST_SHOWN_GAP:
        gap = "as often"
    if interval is None:
        return gap
    return f"{gap} ({interval_in_words(interval, difference < 0)})"


def interval_in_words(interval: Interval, turned: bool = False) -> str:
    """ "3 to 11"; `turned`: of the difference in the other direction. An end near 0 has a decimal
    where the interval leaves 0 out, so that "0.1 to 11" does not read as one that includes 0."""
    low, high = (-interval[1], -interval[0]) if turned else interval
    without_zero = low > 0 or high < 0
    ends = []
    for end in (low, high):
        decimals = 1 if without_zero and abs(100 * end) < 0.5 else 0
        text = f"{100 * end:.{decimals}f}"
        ends.append(text.replace("-", "−") if float(text) else "0")
    return " to ".join(ends)


def p_in_words(p: float, draws: int, explained: bool = True, error: float | None = None) -> str:
    """ "= 0.03", or that it is below the smallest that these draws can show: beyond it only the
    normal tail speaks. `error`: its Monte Carlo error, of a p that is so close to 0.05 that other
    draws may put it on the other side."""
    least = 1 / (1 + draws)
    if draws and p < least:
        smallest = f"≤ {least:.2g}"
        return f"{smallest}, the smallest that {draws} draws can show" if explained else smallest
    if error is not None:
        close = f"= {p:.2g} ± {error:.1g}"
        return f"{close}: close to the line" if explained else close
    return f"= {p:.2g}" if p >= 0.01 else "< 0.01"


def signed(logit: float) -> str:
    """A logit with its sign and two decimals, four if it is close to 0."""
    digits = 2 if abs(logit) >= 0.01 else 4
    return f"{logit:+.{digits}f}".replace("-", "−")


def told_apart(*scores: float | None) -> dict[float, str]:
    """Each score with at least two decimals, and as many as it takes to tell different ones
    apart."""
    numbers = [score for score in scores if score is not None]
    for digits in range(2, MOST_DIGITS + 1):
        texts = {score: f"{score:.{digits}f}" for score in numbers}
        if len(set(texts.values())) == len({round(score, MOST_DIGITS) for score in numbers}):
            break
    return texts


def share_in_words(share: float) -> str:
    """A share in per cent, without the sign: whole, or to two digits close to 0 or 100 %."""
    edge = 100 * min(share, 1 - share)
    digits = 0 if edge >= 10 or edge <= 0 else 1 - math.floor(math.log10(edge))
    text = f"{100 * share:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
