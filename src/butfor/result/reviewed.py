"""A review: what its answers show, and what its corrections change.

Labels under review have controls: adverse labels of others that are as likely to be favourable. A
reviewer who changes both as often has shown nothing. Clear cases, labels that hardly anybody would
doubt, tell the reviewer's error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from butfor.result.fresh import (
    SOLID,
    FreshSeeds,
    interval_of,
    solidity,
)
from butfor.result.record import Cell
from butfor.standard.groups import Compared, GroupStandard
from butfor.support.errors import plural
from butfor.words.figures import (
    interval_in_words,
    often,
    percent,
    points,
    share,
)
from butfor.words.names import PLAIN

SIGNIFICANCE_LEVEL = 0.05
"""Significance level of tests."""
MOST_RECORDED_LABELS = 1000
"""The most labels in a record, in the order of review."""
MOST_REVIEWED_LABELS = 100
"""The most labels to review by default."""
MIN_WRONG_LABELS = 0.5
"""If fewer labels than this are likely to be wrong, a review has little to find."""
Counts = tuple[int, int]
"""A count, and out of how many."""


# --- to review ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingLabel:
    """One training label: its doubt and, if an adverse label is named, the probability that it is
    wrong. Where its group is not called, `wrong` is not given, and `wrong_if_real` is the
    probability were the gap real."""

    position: int
    row: Cell
    group: Cell
    label: str
    doubt: float
    wrong: float | None = None
    wrong_if_real: float | None = None

    @property
    def likely_wrong(self) -> float | None:
        """What a review may count on: `wrong` or, where the group is not called,
        `wrong_if_real`."""
        return self.wrong_if_real if self.wrong is None else self.wrong


def under_review(compared: Compared, attribute: str) -> dict[str, str]:
    """The groups whose labels are reviewed, and whom each is compared with: those that fall short
    by more than chance, as long as others remain; else the one that lacks most labels. Groups
    without comparable people are not reviewed."""
    ours = [c for c in compared.comparisons if c.attribute == attribute]
    small = {each.group for each in compared.left_out if each.attribute == attribute}
    references = {c.reference for c in ours if c.reference is not None}
    groups = small | {c.group for c in ours} | references
    comparable = [c for c in ours if not c.not_comparable]
    short = [c for c in comparable if c.differs and c.difference > 0]
    if not short or groups <= {c.group for c in short}:
        short = sorted(short or comparable, key=lambda c: c.rows * c.difference)[-1:]
    return {c.group: c.reference or "" for c in short}


def how_many_to_review(labels: Sequence[TrainingLabel]) -> int:
    """The default: labels that may be wrong, at most 100."""
    likely = sum(label.likely_wrong is None or label.likely_wrong > 0 for label in labels)
    return max(1, min(MOST_REVIEWED_LABELS, likely or len(labels)))


def worth_a_review(labels: Sequence[TrainingLabel]) -> bool:
    """Whether one of the first labels is likely to be wrong, or nobody knows."""
    first = [label.likely_wrong for label in labels[:MOST_REVIEWED_LABELS]]
    return any(wrong is None for wrong in first) or sum(filter(None, first)) >= MIN_WRONG_LABELS


def expectation(labels: Sequence[TrainingLabel]) -> str:
    """How many of these labels are likely to be wrong, in a sentence."""
    if not labels:
        return ""
    how = "the sum of their probabilities of being wrong"
    if labels[0].likely_wrong is None:
        how = (
            "the sum of their doubts, which is too high: name the adverse label (--adverse) for "
            "probabilities"
        )
    elif all(label.wrong is None for label in labels):
        how = "the sum of their probabilities of being wrong if the gap is real; it may be chance"
    elif any(label.wrong is None for label in labels):
        how += ", of groups that are not called if their gaps are real"
    likely = [label.doubt if label.likely_wrong is None else label.likely_wrong for label in labels]
    n = len(labels)
    expected = np.cumsum(likely)
    curve = "; ".join(f"of the first {k}, {expected[k - 1]:.0f}" for k in (n // 4, n // 2) if k)
    count = plural(expected[-1], f"of these {n} labels is", f"of these {n} labels are")
    likely_wrong = f"About {count} likely to be wrong"
    return f"{likely_wrong} ({curve}): {how}." if curve else f"{likely_wrong}: {how}."


# --- reviewed -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangedDecision:
    """A person whose decision changes once the labels are flipped."""

    case: int
    row: Cell
    group: Cell
    logit: float
    counterfactual_logit: float
    fresh: FreshSeeds | None = None


NOTHING = "These answers show nothing"
GUESSING_ERROR = 0.5
"""The error rate on clear cases of somebody who guesses."""
MIN_CLEAR_CASES = 10
"""With fewer clear cases a careful reviewer cannot be told from one who guesses."""
MOST_LINES = 10
"""The most lines on a terminal, besides two on the files."""


def guesses(wrong: int, judged: int) -> bool:
    """Whether so many errors on clear cases may be those of somebody who guesses."""
    return judged >= MIN_CLEAR_CASES and interval_of(wrong, judged)[1] >= GUESSING_ERROR


def chance(strata: Sequence[tuple[Counts, Counts]]) -> float:
    """The one-sided p of labels being changed more often than their controls: Fisher's exact test
    of all, and summed over strata; the larger of both. Whoever follows what makes the strata
    changes labels and controls of one alike."""
    p = 0.0
    for some in ([np.sum(strata, axis=0)], strata):
        chances = np.ones(1)
        changed = 0
        for (hit, n), (also, m) in some:
            if n and m and p <= SIGNIFICANCE_LEVEL:
                k = np.arange(max(0, hit + also - m), min(n, hit + also) + 1)
                # scipy.stats.hypergeom takes ten times as long.
                cells = (k, n - k, hit + also - k, m - hit - also + k)
                ways = -sum(gammaln(count + 1) for count in cells)
                weights = np.exp(ways - ways.max())
                chances = np.convolve(chances, np.pad(weights / weights.sum(), (k[0], n - k[-1])))
                changed += hit
        if p <= SIGNIFICANCE_LEVEL:
            p = max(p, min(1.0, float(chances[changed:].sum())))
    return p


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the answers show. `strata`: how many of the judged labels, and of the judged controls,
    all reviewers made favourable, of pairs where both got a label; first of those whom the others'
    standard does not favour, then of those whom it does. `alone`: of the labels without such a
    control. `errors`: per reviewer, the clear cases changed, of those judged. With several
    reviewers, `agreed` counts the tasks that all answer alike, and `kappa` is the mean of Cohen's κ
    over pairs. `unsure`: tasks without a label. `expected`: how many of the group's labels were
    likely to be wrong; `most`: the most that a reviewer who errs one time in ten would change.
    `file_column`: where reviewers saw the original file, the column that names it."""

    group: str
    others: str
    strata: tuple[tuple[Counts, Counts], ...]
    alone: Counts
    errors: tuple[Counts, ...]
    tasks: int
    unsure: int
    expected: float
    most: float
    agreed: Counts | None = None
    kappa: float | None = None
    file_column: str | None = None

    @cached_property
    def pairs(self) -> tuple[Counts, Counts]:
        """Of labels with a control, and of the controls: how many were changed, of how many."""
        (hit, n), (also, m) = np.sum(self.strata, axis=0).tolist()
        return (hit, n), (also, m)

    @cached_property
    def p(self) -> float | None:
        """See `chance`; None without pairs."""
        return chance(self.strata) if self.pairs[0][1] else None

    @property
    def difference(self) -> float:
        """The share of labels that were changed, less that of the controls."""
        (hit, n), (also, m) = self.pairs
        return hit / max(n, 1) - also / max(m, 1)

    @property
    def interval(self) -> tuple[float, float]:
        """90 %, of the difference (Newcombe's, from Wilson's of both shares): above 0 where the
        one-sided test at 5 % finds one."""
        (hit, n), (also, m) = self.pairs
        low, high = interval_of(hit, n, 1 - 2 * SIGNIFICANCE_LEVEL, "wilson")
        control_low, control_high = interval_of(also, m, 1 - 2 * SIGNIFICANCE_LEVEL, "wilson")
        below = math.hypot(hit / n - low, control_high - also / m)
        above = math.hypot(high - hit / n, also / m - control_low)
        return self.difference - below, self.difference + above

    @property
    def compared(self) -> str:
        """ "the reviewer changed 9 of 30 labels of sex = f (30 %) and 1 of 30 controls (3 %)"."""
        (hit, n), (also, m) = self.pairs
        labels = f"{hit} of {n} labels of {self.group} ({percent(hit / max(n, 1))})"
        controls = f"{also} of {m} controls ({percent(also / max(m, 1))})"
        return f"the reviewer{'s' * (len(self.errors) > 1)} changed {labels} and {controls}"

    @cached_property
    def shows_nothing(self) -> str:
        """Why the answers show nothing, in a sentence; empty if they do."""
        hit, n = self.pairs[0]
        if self.p is None:
            return f"{NOTHING}: no label under review got an answer together with its control."
        if not hit:
            return f"{NOTHING} wrong: none of the {plural(n, 'label')} of {self.group} was changed."
        if self.p > SIGNIFICANCE_LEVEL:
            return f"{NOTHING}: {self.compared}; that may be chance (p = {self.p:.2g})."
        for k, (wrong, judged) in enumerate(self.errors, start=1):
            if guesses(wrong, judged):
                who = f"reviewer {k}" if len(self.errors) > 1 else "the reviewer"
                clear = f"{wrong} of {judged} clear cases ({percent(wrong / judged)})"
                return f"{NOTHING}: {who} changed {clear}; guessing may do as well."
        return ""

    @property
    def lines(self) -> list[str]:
        """What the answers show, a sentence each; first whether they show anything."""
        lines = [self.shows_nothing]
        hit, n = self.pairs[0]
        also, alone = self.alone
        if not self.shows_nothing:
            counts = self.compared
            between = interval_in_words(self.interval)
            lines = [
                f"{counts[0].upper()}{counts[1:]}: {points(self.difference)} more (90 % interval "
                f"{between}), more than chance (Fisher's exact test, p = {self.p or 0:.2g}). So "
                f"about {round(self.difference * n)} of these {n} labels were held to a stricter "
                f"standard than labels of {self.others}. That shows that the labels differ under "
                "the same eyes, not which are right."
            ]
        if self.file_column:
            lines.append("The review was not blind to the group: reviewers saw the original files.")
        errors = []
        for k, (wrong, judged) in enumerate(self.errors, start=1):
            error = "not known, since no clear case got a label"
            if judged:
                low, high = interval_of(wrong, judged)
                interval = f"95 % interval {100 * low:.0f} to {100 * high:.0f} %"
                error = f"{percent(wrong / judged)}, {wrong} of {judged} ({interval})"
            errors.append(f"reviewer {k} {error}" if len(self.errors) > 1 else error)
        lines.append(f"Reviewer error on clear cases: {'; '.join(errors)}.")
        if self.agreed:
            kappa = "" if self.kappa is None else f" (Cohen's κ {self.kappa:.2f})".replace("-", "−")
            alike = "The reviewers gave the same answer to {} of {} tasks".format(*self.agreed)
            lines.append(f"{alike}{kappa}; labels are corrected only if they agree.")
        elif self.unsure:
            lines.append(
                f"{self.unsure} of {plural(self.tasks, 'task')} got no label ('cannot tell')."
            )
        if n + alone:
            lines.append(
                f"About {self.expected:.0f} of the group's {n + alone} labels were expected to be "
                "wrong."
            )
        if hit + also > self.most:
            lines[-1] += (
                f" Reviewers changed {hit + also}, far more than that and a usual error explain: "
                "they may go by another rule than those who gave the labels. Ask what they went by."
            )
        return lines


@dataclass(frozen=True, kw_only=True, repr=False)
class Reviewed:
    """One round of a review: `flips` are its corrections, of all `labels`, and `changed` whose
    decisions change. `answered` and `corrected` are those of all rounds so far; `corrected_to`:
    with more than two labels, the new labels. `rates`: per group, the share of favourable decisions
    before and after; `accuracy` likewise, if labels are known. `before` and `after`: each group
    beside comparable people. `seeded`: whether a seed changes the model."""

    flips: tuple[int, ...]
    labels: int
    changed: tuple[ChangedDecision, ...]
    rates: dict[str, tuple[float, float]]
    seeded: bool
    accuracy: tuple[float, float] | None = None
    attribute: str
    favourable: str
    answered: tuple[int, ...]
    corrected: tuple[int, ...]
    evidence: Evidence
    before: tuple[GroupStandard, ...] = ()
    after: tuple[GroupStandard, ...] = ()
    corrected_to: tuple[str, ...] = ()
    names = PLAIN
    """The reader's words, which a record holds once for all its parts."""

    def __repr__(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """How many labels were corrected, and how many decisions change."""
        solid = ""
        people = plural(len(self.changed), "decision changes", "decisions change")
        if self.changed and self.seeded and all(person.fresh for person in self.changed):
            count = sum(solidity(person.fresh, self.seeded) == SOLID for person in self.changed)
            solid = f", {count} of them under any seed tried"
        return f"With {len(self.flips)} of {self.labels} labels corrected, {people}{solid}."

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Accuracy, gaps and rates: a name, the value before and the value after."""
        names = self.names
        rows = list[tuple[str, ...]]()
        after = {c.name: c for c in self.after}
        favourable = names.label(self.favourable)
        if self.accuracy:
            rows.append(("Accuracy on the test labels", *map(share, self.accuracy)))
        for c in self.before:
            if c.name in after:
                now = after[c.name]
                group = names.group(c.attribute, c.group)
                what = f"{group}: labelled {favourable}, against comparable {names.noun}"
                gap_before = often(c.difference, c.interval)
                rows.append((what, gap_before, often(now.difference, now.interval)))
        for value, rates in self.rates.items():
            what = f"{names.group(self.attribute, value)}: decided {favourable}"
            rows.append((what, *map(share, rates)))
        return rows

    @property
    def lines(self) -> list[str]:
        """All that changed, a sentence each, for a terminal: the page has what does not fit."""
        evidence, *more = self.evidence.lines
        lines = [evidence, self.sentence, *more]
        rows = [f"{name}: {before} before, {after} after." for name, before, after in self.rows]
        room = MOST_LINES - len(lines)
        if room < len(rows):
            rows[room - 1 :] = [f"The page has {len(rows) - room + 1} more lines on groups."]
        return [*lines, *rows]
