"""The charts of the report, as matplotlib figures.

Made with the object API alone: no pyplot, no display, nothing left behind. Colours are the light theme's;
`svg.inline_svg` turns them into the page's variables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from butfor.report.distance import MOST_CURVES, left_open, turned_by
from butfor.report.parallel import parallel_coordinates
from butfor.report.svg import LIGHT
from butfor.report.values import pulled, short, told_apart
from butfor.result.groups import Curves
from butfor.result.population import ALL, Population
from butfor.result.record import signed
from butfor.result.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "distance_curve",
    "group_shares",
    "logit_distribution",
    "logit_line",
    "parallel_coordinates",
    "pulls",
    "search_course",
    "shuffled_curves",
]

WIDTH = 620
"""Pixels at 72 dots per inch, of every chart."""
PAST = 1.08
"""How far the last step of a curve is drawn out."""
MOST_PEOPLE = 400
"""People of one kind with a mark of their own."""
MOST_MARKERS = 60
"""A course of more attempts is drawn as a line without a marker per attempt."""


def logit_line(verdict: Verdict) -> Figure:
    """The logit before and after, or the closest one reached, against the boundary at 0."""
    figure, axes = _axes(132, (24, 34, WIDTH - 24, 94))
    after = verdict.counterfactual_logit if verdict.found else verdict.closest_logit
    logits = [verdict.logit] if after is None else [verdict.logit, after]
    reach = 1.25 * max(max(abs(logit) for logit in logits), 1e-3)
    axes.set_xlim(-reach, reach)
    axes.set_ylim(0, 1)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    names = label_names(verdict)
    _note(axes, 0.0, 1.2, f"← decides '{short(names[0], 30)}'", transform=axes.transAxes, ha="left")
    _note(axes, 1.0, 1.2, f"decides '{short(names[1], 30)}' →", transform=axes.transAxes, ha="right")
    _boundary(axes.axvline)
    if after is not None:
        arrow = {"arrowstyle": "->", "color": LIGHT["muted"], "lw": 1.2, "shrinkA": 7, "shrinkB": 7}
        axes.annotate("", (after, 0.5), (verdict.logit, 0.5), arrowprops=arrow)
        word, style = ("after", _AFTER) if verdict.found else ("closest", _CLOSEST)
        axes.plot([after], [0.5], **style)
        _mark(axes, after, reach, f"{word} {signed(after)}", 0.17)
    axes.plot([verdict.logit], [0.5], **_BEFORE)
    _mark(axes, verdict.logit, reach, f"{'before' if verdict.found else 'now'} {signed(verdict.logit)}", 0.83)
    axes.set_xlabel("logit (0 is the decision boundary)", color=LIGHT["muted"], size=9)
    return figure


def pulls(verdict: Verdict) -> Figure:
    """What pulls this decision which way: to the right towards the second label, to the left towards the first."""
    bars = pulled(verdict)
    bottom = 34 + 21 * len(bars)
    figure, axes = _axes(bottom + 38, (244, 34, WIDTH - 24, bottom))
    # Room beyond the longest bar for its number; both sides alike, so that 0 is in the middle.
    reach = 1.3 * max([1e-3, *(abs(bar.pull) for bar in bars)])
    axes.set_xlim(-reach, reach)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    names = label_names(verdict)
    # From 0 outwards: so the two cannot meet, however long the labels' names.
    _note(axes, -0.03 * reach, -1, f"← towards '{short(names[0], 18)}'", ha="right")
    _note(axes, 0.03 * reach, -1, f"towards '{short(names[1], 18)}' →", ha="left")
    for k, bar in enumerate(bars):
        colour = LIGHT["flip"] if bar.pull < 0 else LIGHT["person"]
        axes.barh(k, bar.pull, 0.62, color=colour if bar.single else "none", ec=colour, lw=1.2, clip_on=False)
        _note(axes, -0.02, k, bar.name, transform=axes.get_yaxis_transform(), ha="right")
        side = -1 if bar.pull < 0 else 1
        _note(axes, bar.pull + 0.02 * side * reach, k, signed(bar.pull), ha="right" if side < 0 else "left")
    _boundary(axes.axvline)
    axes.set_xlabel(f"pull on the logit; all bars together: {signed(verdict.logit)}", color=LIGHT["muted"], size=9)
    return figure


def search_course(verdict: Verdict) -> Figure:
    """The person's logit after each retraining, and how many labels were flipped for it."""
    figure, axes = _axes(230, (52, 28, WIDTH - 16, 190))
    logits = [logit for _, logit in verdict.course]
    attempts = range(1, len(logits) + 1)
    marker: dict[str, Any] = {"marker": "s", "markersize": 3.5} if len(logits) <= MOST_MARKERS else {}
    axes.plot(attempts, logits, color=LIGHT["flip"], lw=1.2, clip_on=False, **marker)
    axes.axhline(verdict.logit, color=LIGHT["person"], lw=1.2, ls=(0, (6, 3)))
    last = len(logits) + bool(verdict.found and verdict.shared)
    if verdict.found and verdict.counterfactual_logit is not None:
        axes.plot([last], [verdict.counterfactual_logit], **_AFTER)
    axes.set_xlim(0.5, max(last, 2) + 0.5)
    seen = [*logits, verdict.logit, verdict.counterfactual_logit or 0.0, 0.0]
    margin = 0.08 * (max(seen) - min(seen)) or 1.0
    axes.set_ylim(min(seen) - margin, max(seen) + margin)
    _boundary(axes.axhline)
    _note(axes, 1.0, 0.0, "boundary", transform=axes.get_yaxis_transform(), ha="right", va="bottom")
    _note(
        axes, 1.0, verdict.logit, "before any flip", transform=axes.get_yaxis_transform(), ha="right",
        va="bottom", color=LIGHT["person"],
    )  # fmt: skip
    _whole_ticks(axes, max(last, 2))
    axes.set_xlabel("attempt" + _flip_counts(verdict), color=LIGHT["muted"], size=9)
    axes.set_ylabel("logit", color=LIGHT["muted"], size=9)
    return figure


def group_shares(population: Population) -> Figure:
    """Per protected group, the share of eligible people with a solid find and its interval, and as a ring the share
    with any; where nothing was checked under fresh seeds, the share with any and its interval."""
    groups = population.by_group if len(population) else None
    count = 0 if groups is None else len(groups)
    figure, axes = _axes(70 + 34 * max(1, count), (190, 14, WIDTH - 80, 26 + 34 * max(1, count)))
    axes.set_ylim(count - 0.5, -0.5) if count else axes.set_ylim(0.5, -0.5)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    rows = [] if groups is None else list(groups.iterrows())
    number, share, low, high = (
        ("solid", "share_solid", "solid_low", "solid_high") if population.checked else ("found", "share", "low", "high")
    )
    top = max([max(values[high], values["share"]) for _, values in rows if values["eligible"]], default=1.0)
    axes.set_xlim(0, min(1.0, 1.1 * top))
    named = told_apart((group for group, _ in rows), 26)
    for k, (group, values) in enumerate(rows):
        _note(axes, -0.04, k, named(group), transform=axes.get_yaxis_transform(), ha="right", size=10)
        told = f"{int(values[number])} of {int(values['eligible'])}"
        _note(axes, 1.03, k, told, transform=axes.get_yaxis_transform(), ha="left", size=10)
        if values["eligible"]:
            axes.plot([values[low], values[high]], [k, k], color=LIGHT["person"], lw=2, clip_on=False)
            axes.plot([values[share]], [k], color=LIGHT["person"], marker="o", markersize=8, clip_on=False)
            if population.checked:
                ring: dict[str, Any] = {"marker": "o", "markersize": 13, "mfc": "none", "mew": 1.5}
                axes.plot([values["share"]], [k], color=LIGHT["ink"], clip_on=False, **ring)
    axes.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.set_xlabel(f"{number} among the eligible, with 95 % interval", color=LIGHT["muted"], size=9)
    return figure


def distance_curve(population: Population) -> Figure:
    """How many labels it takes: for everyone and per group the share of decisions that k labels turn, with its
    interval. Where anything is proven, a band up to the share that is not proven to need more than k."""
    figure, axes = _axes(270, (56, 16, WIDTH - 150, 228))
    curves = turned_by(population)
    everyone = curves[curves["group"] == ALL]
    sizes = {name: people for name, people in zip(curves["group"], curves["people"], strict=True) if name != ALL}
    groups = sorted(sizes, key=lambda name: -sizes[name])[:MOST_CURVES] if len(sizes) > 1 else []
    ends = []
    if left_open(population):
        labels, found, open_ = _steps(everyone, "share", "proven")
        axes.fill_between(labels, found, open_, step="post", color=LIGHT["line"], alpha=0.5, lw=0, zorder=1)
        axes.plot(labels, open_, color=LIGHT["ink"], lw=1.2, ls=(0, (1, 2)), drawstyle="steps-post", zorder=1.2)
        ends.append((open_[-1], f"left open {100 * open_[-1]:.0f} %", LIGHT["ink"]))
    named = told_apart((*groups, ALL), 18)
    for name, (colour, dashes) in zip((*groups, ALL), (*_CURVES[: len(groups)], _EVERYONE), strict=True):
        labels, share, low, high = _steps(curves[curves["group"] == name], "share", "low", "high")
        axes.fill_between(labels[1:], low[1:], high[1:], step="post", color=colour, alpha=0.1, lw=0, zorder=1.1)
        axes.plot(labels, share, color=colour, lw=2, ls=dashes, drawstyle="steps-post")
        ends.append((share[-1], f"{named(name)} {100 * share[-1]:.0f} %", colour))
    budget = max([v.budget for v in population], default=1)
    # Bands of few people are so wide that they are cut rather than the lines flattened.
    needed = max([*everyone["high"], *(end for end, *_ in ends), 0.01])
    top = min(1.0, 1.05 * min(max([*curves["high"], needed]), 1.6 * needed))
    axes.set_ylim(0, top)
    axes.set_xlim(0, PAST * budget)
    for place, (_, text, colour) in zip(_apart([end for end, *_ in ends], 0.065 * top), ends, strict=True):
        _note(axes, 1.02, place, text, transform=axes.get_yaxis_transform(), ha="left", color=colour)
    _whole_ticks(axes, budget)
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
    axes.set_ylabel("decisions turned", color=LIGHT["muted"], size=9)
    axes.set_xlabel("training labels flipped together, at most", color=LIGHT["muted"], size=9)
    return figure


PANELS = 3
"""Groups side by side in `shuffled_curves`."""


def shuffled_curves(curves: Curves) -> Figure:
    """Per group, a panel: the share of decisions that so many labels turn as it is (line), and the range of the same
    with the protected attribute shuffled (band)."""
    from matplotlib.figure import Figure

    groups = list(curves.real)[:MOST_CURVES]
    down = -(-len(groups) // PANELS)
    height = 200 * down
    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    bands = {group: curves.band(group) for group in groups}
    highest = [band[1] for band in bands.values() if band]
    top = 1.08 * max([0.01, *(s for shares in (*(curves.real[g] for g in groups), *highest) for s in shares)])
    across = min(PANELS, len(groups))
    wide = (WIDTH - 56) / across
    named = told_apart(groups, 26)
    for k, group in enumerate(groups):
        row, column = divmod(k, PANELS)
        left, upper = 52 + wide * column, 200 * row + 26
        axes = figure.add_axes((left / WIDTH, 1 - (upper + 130) / height, (wide - 22) / WIDTH, 130 / height))
        _quiet(axes)
        labels = [0, *curves.sizes, PAST * curves.sizes[-1]]
        if band := bands[group]:
            low, high = ([0.0, *shares, shares[-1]] for shares in band)
            axes.fill_between(labels, low, high, step="post", color=LIGHT["muted"], alpha=0.3, lw=0)
        real = curves.real[group]
        axes.plot(labels, [0.0, *real, real[-1]], color=LIGHT["person"], lw=2, drawstyle="steps-post")
        axes.set_ylim(0, min(1.0, top))
        axes.set_xlim(0, labels[-1])
        _note(axes, 0.0, 1.08, named(group), transform=axes.transAxes, ha="left", size=10)
        _whole_ticks(axes, curves.sizes[-1], 5)
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:.3g} %")
        axes.yaxis.set_major_locator(_few_ticks())
        if column:
            axes.set_yticklabels([])
        axes.set_xlabel("labels, at most", color=LIGHT["muted"], size=9)
    return figure


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)


def _steps(curve: pd.DataFrame, *columns: str) -> list[list[float]]:
    """Labels and columns of a curve as the corners of its steps: from nothing at 0 labels to a little past the last."""
    last = [curve[column].iloc[-1] if len(curve) else 0.0 for column in ("labels", *columns)]
    rest = [[0.0, *curve[column], end] for column, end in zip(columns, last[1:], strict=True)]
    return [[0.0, *curve["labels"], PAST * last[0]], *rest]


def logit_distribution(population: Population) -> Figure:
    """The original logits of people found and not found: one mark per person, over a box."""
    figure, axes = _axes(190, (112, 16, WIDTH - 20, 148))
    axes.set_ylim(1.55, -0.55)
    axes.spines["left"].set_visible(False)
    axes.set_yticks([])
    kinds = (("found", "s", LIGHT["flip"]), ("not_found", "o", LIGHT["person"]))
    for k, (status, marker, colour) in enumerate(kinds):
        logits = np.sort([v.logit for v in population.eligible if v.found == (status == "found")])
        name = f"{status.replace('_', ' ')} ({len(logits)})"
        _note(axes, -0.015, k, name, transform=axes.get_yaxis_transform(), ha="right", size=10)
        if not len(logits):
            continue
        # Multiples of the golden ratio spread the marks evenly, and the same way every time.
        marked = _thinned(logits)
        spread = 0.3 * ((np.arange(len(marked)) * 0.618034) % 1) - 0.36
        axes.plot(marked, k + spread, ls="none", marker=marker, mfc="none", mec=colour, markersize=4, clip_on=False)
        _box(axes, logits, k + 0.2)
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, -0.05 * high), max(high, -0.05 * low))
    _boundary(axes.axvline)
    axes.set_xlabel("logit before any flip (0 is the decision boundary)", color=LIGHT["muted"], size=9)
    return figure


def logit_marks(population: Population) -> str:
    """What a mark of `logit_distribution` stands for."""
    found = len(population.found)
    most = max(found, len(population.eligible) - found)
    return "One mark per person" if most <= MOST_PEOPLE else f"At most {MOST_PEOPLE} people of each kind have a mark"


def _thinned(logits: Any) -> Any:
    """Sorted logits, or as many of them, evenly spaced among the people, as can be told apart."""
    return logits if len(logits) <= MOST_PEOPLE else logits[np.linspace(0, len(logits) - 1, MOST_PEOPLE).astype(int)]


def label_names(verdict: Verdict) -> tuple[str, str]:
    """The two labels' names, the one of negative logits first."""
    names = verdict.run.get("label_names")
    if names:
        return str(names[0]), str(names[1])
    other = verdict.counterfactual_prediction or "the other label"
    return (other, verdict.prediction) if verdict.logit > 0 else (verdict.prediction, other)


_EVERYONE: tuple[str, Any] = (LIGHT["ink"], "-")
_CURVES: list[tuple[str, Any]] = [
    (LIGHT["person"], (0, (6, 2))), (LIGHT["flip"], (0, (6, 2, 1, 2))), (LIGHT["muted"], (0, (3, 2))),
    (LIGHT["person"], (0, (1, 1))), (LIGHT["flip"], (0, (2, 1))), (LIGHT["muted"], (0, (6, 1, 1, 1, 1, 1))),
]  # fmt: skip
"""Groups are told apart by their dashes and the name at the end of the line; colour only repeats it."""
_BEFORE: dict[str, Any] = {
    "color": LIGHT["person"], "marker": "o", "markersize": 11, "mfc": "none", "mew": 2, "clip_on": False,
}  # fmt: skip
_AFTER: dict[str, Any] = {"color": LIGHT["flip"], "marker": "s", "markersize": 9, "clip_on": False}
_CLOSEST: dict[str, Any] = {
    "color": LIGHT["flip"],
    "marker": "x",
    "markersize": 9,
    "mew": 2,
    "clip_on": False,
}


def _axes(height: int, box: tuple[int, int, int, int]) -> tuple[Figure, Axes]:
    """A figure of `height` pixels with axes in `box` (left, top, right, bottom), quiet and without ticks."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    left, top, right, bottom = box
    size = (left / WIDTH, 1 - bottom / height, (right - left) / WIDTH, (bottom - top) / height)
    axes = figure.add_axes(size)
    _quiet(axes)
    return figure, axes


def _quiet(axes: Axes) -> None:
    axes.set_facecolor("none")
    axes.tick_params(left=False, bottom=False, labelsize=9, labelcolor=LIGHT["muted"])
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(LIGHT["line"])


def _boundary(line: Any) -> None:
    line(0, color=LIGHT["ink"], lw=1.4, zorder=1.5)


def _box(axes: Axes, logits: Any, y: float) -> None:
    """A box from quartile to quartile with the median, whiskers to the ends, as one broken line."""
    low, first, middle, third, high = np.percentile(logits, [0, 25, 50, 75, 100])
    up, down, gap = y - 0.11, y + 0.11, float("nan")
    x = [low, first, gap, third, high, gap, first, first, third, third, first]
    axes.plot(x, [y, y, gap, y, y, gap, up, down, down, up, up], color=LIGHT["ink"], lw=1.2, clip_on=False)
    axes.plot([middle, middle], [up, down], color=LIGHT["ink"], lw=2.8, clip_on=False)


def _note(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    look: dict[str, Any] = {"size": 9, "color": LIGHT["ink"], "va": "center", "parse_math": False}
    axes.text(x, y, text, **look | style)


def _mark(axes: Axes, x: float, reach: float, text: str, y: float) -> None:
    """A mark's name above or below it, kept inside the frame."""
    side = "left" if x < -0.75 * reach else "right" if x > 0.75 * reach else "center"
    axes.text(x, y, text, ha=side, va="center", size=10, color=LIGHT["ink"])


def _apart(places: Sequence[float], least: float) -> list[float]:
    """The places, in their order, moved up where two are nearer than `least`."""
    moved, floor = list(places), -np.inf
    for at in sorted(range(len(moved)), key=lambda at: moved[at]):
        moved[at] = floor = max(moved[at], floor + least)
    return moved


def _whole_ticks(axes: Axes, last: int, most: int = 12) -> None:
    step = max(1, -(-last // most))
    axes.set_xticks([k for k in range(1, last + 1) if k == 1 or k % step == 0])


def _flip_counts(verdict: Verdict) -> str:
    sizes = sorted({k for k, _ in verdict.course})
    if not sizes:
        return ""
    order = ", fewest first" if [k for k, _ in verdict.course] == sorted(k for k, _ in verdict.course) else ""
    one = f"{sizes[0]} label{'s' * (sizes[0] != 1)}"
    return f" (each flips {one})" if len(sizes) == 1 else f" (flipping {sizes[0]} to {sizes[-1]} labels{order})"
