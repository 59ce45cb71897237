"""What a comparison of groups found, in words: rates, gaps with a direction, p-values, and the sentences about one
group. Figures come in, sentences go out."""

from __future__ import annotations

ASSUMPTION = (
    "This assumes that people of different groups with the same recorded columns should get the same label. It "
    "misleads if a legitimate reason is not recorded, or if a recorded column is itself biased."
)
ON_COLUMNS = (
    "These moves do not add up, and they depend on which columns remain. Explained does not mean justified: a column "
    "may itself come from unequal treatment."
)
NOTHING = 0.0005
"""A smaller gap is 0.0 points."""

Interval = tuple[float, float]


def number(value: float) -> str:
    """ "6.9", of a share in points."""
    return f"{100 * value:.1f}".replace("-0.0", "0.0").replace("-", "−")


def points(value: float) -> str:
    """ "6.9 points"."""
    return f"{number(value)} points"


def share(value: float) -> str:
    """ "71.7 %"."""
    return f"{100 * value:.1f} %"


def interval_in_words(interval: Interval, turned: bool = False) -> str:
    """ "3 to 11"; `turned`: of the difference in the other direction."""
    low, high = (-interval[1], -interval[0]) if turned else interval
    return f"{100 * low:.0f} to {100 * high:.0f}".replace("-0 ", "0 ").replace("-", "−")


def often(difference: float, interval: Interval | None = None) -> str:
    """ "6.3 points less often (1 to 11)"."""
    said = f"{points(abs(difference))} {'less' if difference > 0 else 'more'} often"
    said = "as often" if abs(difference) < NOTHING else said
    return said + (f" ({interval_in_words(interval, difference < 0)})" if interval else "")


def p_in_words(p: float, draws: int, explained: bool = True) -> str:
    """ "= 0.03", or that it is the smallest that these draws can show: beyond it only the normal tail speaks."""
    least = 1 / (1 + draws)
    if draws and p <= least:
        return f"≤ {least:.2g}" + (f", the smallest that {draws} draws can show" if explained else "")
    return f"= {p:.2f}" if p >= 0.01 else "< 0.01"


def gap_sentence(
    name: str, favourable: str, others: str, difference: float, interval: Interval | None, p: str | None
) -> str:
    """ "People with afam = yes were labelled 'no' 6.3 points less often than comparable people in other groups …" """
    details = [f"95 % interval {interval_in_words(interval, difference < 0)}"] if interval else []
    details += [f"adjusted p {p}"] if p else []
    than = "as" if abs(difference) < NOTHING else "than"
    return (
        f"People with {name} were labelled '{favourable}' {often(difference)} {than} comparable people in {others}"
        + (f" ({'; '.join(details)})." if details else ".")
    )


def rates_sentence(name: str, others: str, recorded: float, expected: float, raw_gap: float, explained: float) -> str:
    """The group's rate beside those of comparable people and of the others, and what the columns explain."""
    said = (
        f"{name}: favourable rate {share(recorded)}, comparable people {share(expected)}, all in {others} "
        f"{share(recorded + raw_gap)}."
    )
    if abs(raw_gap) < NOTHING:
        return said
    if explained * raw_gap < 0:
        return f"{said} Given the recorded columns, the gap is {points(abs(explained))} wider than the raw one."
    if abs(explained) > abs(raw_gap):
        return f"{said} The recorded columns explain more than the raw gap of {points(abs(raw_gap))}."
    return f"{said} The recorded columns explain {number(abs(explained))} of the {points(abs(raw_gap))}."


def missing_column_sentence(
    strongest: str | None, move: float | None, times: float | None, robustness_value: float | None
) -> str:
    """What a column that is not in the table would have to do to remove the gap."""
    least = []
    known = strongest is not None and move is not None and times is not None and abs(move) >= NOTHING
    if known:
        least.append(f"move it {times:.1f} times as far (a comparison, not a bound)")
    if robustness_value is not None:
        least.append(
            f"explain {100 * robustness_value:.1f} % of the remaining variation of both label and group (robustness "
            "value)"
        )
    first = f"Leaving out {strongest} moves the gap by {points(abs(move or 0))}."
    if not known:
        first = "No recorded column clearly narrows the gap." if robustness_value else ""
    rest = f"To remove the gap, a missing column would have to {', or '.join(least)}." if least else ""
    return " ".join(filter(None, [first, rest]))
