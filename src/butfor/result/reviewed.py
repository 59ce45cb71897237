"""A review: what its answers show, and what its corrections change.

Decoys are labels that are hardly in doubt. Changing one is an error. A reviewer who changes decoys as often as the
chosen labels has shown nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.result.fresh import exact_interval
from butfor.result.labels import LEVEL, Counts, FlipOutcome
from butfor.result.record import percent
from butfor.standard.groups import GroupStandard, often, share

NOTHING = "These answers show nothing"
GUESSING = 0.5
"""The error rate on decoys of somebody who guesses."""
MOST_LINES = 10
"""The most lines on a terminal, besides two on the files."""


@dataclass(frozen=True)
class Tally:
    """Tasks with one recorded label: how many of the judged chosen labels, and of the judged decoys, all reviewers
    would change to the same label."""

    label: str
    chosen: Counts
    decoys: Counts


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the answers show. `tallies`: per recorded label of the chosen tasks. `errors`: per reviewer, the decoys
    changed, of those judged. With several reviewers, `agreed` counts the tasks that all answer alike, and `kappa` is
    the mean of Cohen's κ over pairs. `unsure`: tasks without a label. `expected`: how many chosen labels were likely to
    be wrong, and whether that number was calibrated."""

    tallies: tuple[Tally, ...]
    errors: tuple[Counts, ...]
    tasks: int
    unsure: int
    expected: tuple[float, bool]
    agreed: Counts | None = None
    kappa: float | None = None

    @property
    def chosen(self) -> Counts:
        """How many of the judged chosen labels reviewers would change."""
        return _sum([tally.chosen for tally in self.tallies])

    @cached_property
    def p(self) -> float | None:
        """The one-sided p of chosen labels being changed more often than decoys with the same recorded label: Fisher's
        exact test, summed over recorded labels. None without both kinds."""
        from scipy.stats import hypergeom

        chances, changed = np.ones(1), 0
        for tally in self._compared:
            (hit, n), (wrong, decoys) = tally.chosen, tally.decoys
            chances = np.convolve(chances, hypergeom.pmf(np.arange(n + 1), n + decoys, hit + wrong, n))
            changed += hit
        return min(1.0, float(chances[changed:].sum())) if self._compared else None

    @cached_property
    def shows_nothing(self) -> str:
        """Why the answers show nothing, in a sentence; empty if they do."""
        if self.p is None:
            return f"{NOTHING}: no chosen label, or no decoy with the same recorded label, got a label."
        if not self.chosen[0]:
            return f"{NOTHING} wrong: reviewers changed none of the {self.chosen[1]} chosen labels."
        if self.p > LEVEL:
            return f"{NOTHING}: {self._comparison}; that may be chance (p = {self.p:.2g})."
        for who, (wrong, judged) in zip(self._who, self.errors, strict=True):
            if not judged or exact_interval(wrong, judged)[1] >= GUESSING:
                return f"{NOTHING}: {who} changed {_share(wrong, judged, 'decoys')}; guessing may do as well."
        return ""

    @property
    def lines(self) -> list[str]:
        """What the answers show, a sentence each; first whether they show anything."""
        first = f"R{self._comparison[1:]}: more than chance explains (Fisher's exact test, p = {self.p or 0:.2g})."
        lines = [self.shows_nothing or first, self._error]
        if self.agreed:
            kappa = "" if self.kappa is None else f" (Cohen's κ {self.kappa:.2f})".replace("-", "−")
            alike = "The reviewers gave the same answer to {} of {} tasks".format(*self.agreed)
            lines.append(f"{alike}{kappa}; labels are corrected only if they agree.")
        elif self.unsure:
            lines.append(f"{self.unsure} of {self.tasks} tasks got no label ('cannot tell').")
        asked = self.chosen[1]
        if asked:
            how = "" if self.expected[1] else " (the sum of their doubts, which is too high)"
            lines.append(f"About {self.expected[0]:.0f} of the {asked} labels were expected to be wrong{how}.")
        return lines

    @property
    def mistakes(self) -> float:
        """How many corrections are likely to be mistakes, if reviewers err on chosen labels as often as on decoys with
        the same recorded label."""
        total = 0.0
        for (hit, n), (wrong, decoys) in ((tally.chosen, tally.decoys) for tally in self._compared):
            right = (n - hit) / (1 - wrong / decoys) if wrong < decoys else n
            total += min(hit, right * wrong / decoys)
        return total

    @property
    def _compared(self) -> list[Tally]:
        """Tallies with judged tasks of both kinds."""
        return [tally for tally in self.tallies if tally.chosen[1] and tally.decoys[1]]

    @property
    def _comparison(self) -> str:
        chosen, decoys = (_sum([getattr(t, kind) for t in self._compared]) for kind in ("chosen", "decoys"))
        return (
            f"reviewers changed {_share(*chosen, 'chosen labels')} and {_share(*decoys, 'decoys')} with the same "
            "recorded label"
        )

    @property
    def _error(self) -> str:
        """The reviewers' error with its interval, and how many corrections that makes mistakes."""
        each = []
        for who, (wrong, judged) in zip(self._who, self.errors, strict=True):
            error = "not known, no decoy got a label"
            if judged:
                low, high = exact_interval(wrong, judged)
                interval = f"95 % interval {100 * low:.0f} to {100 * high:.0f} %"
                error = f"{percent(wrong / judged)}, {wrong} of {judged} ({interval})"
            each.append(f"{who} {error}" if len(self.errors) > 1 else error)
        hit, about = self.chosen[0], round(self.mistakes)
        then = f" At that rate about {about} of {hit} corrections {'is a mistake' if about == 1 else 'are mistakes'}."
        return f"Reviewer error on decoys: {'; '.join(each)}.{then if about and not self.shows_nothing else ''}"

    @property
    def _who(self) -> list[str]:
        several = len(self.errors) > 1
        return [f"reviewer {k + 1}" if several else "the reviewer" for k in range(len(self.errors))]


@dataclass(frozen=True, kw_only=True, repr=False)
class Reviewed(FlipOutcome):
    """One round of a review: `flips` are its corrections. `answered` and `corrected` are those of all rounds so far.
    `before` and `after`: each group beside comparable people. `corrected_to`: with more than two labels, the new
    labels."""

    attribute: str
    favourable: str
    answered: tuple[int, ...]
    corrected: tuple[int, ...]
    evidence: Evidence
    before: tuple[GroupStandard, ...] = ()
    after: tuple[GroupStandard, ...] = ()
    corrected_to: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        people = f"{len(self.changed)} decisions change" if len(self.changed) != 1 else "1 decision changes"
        return f"With {len(self.flips)} of {self.labels} labels corrected, {people}{self.solid_clause(self.changed)}."

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """Accuracy, gaps and rates: a name, the value before and the value after."""
        rows, after = list[tuple[str, str, str]](), {c.name: c for c in self.after}
        if self.accuracy:
            rows.append(("Accuracy on the test labels", share(self.accuracy[0]), share(self.accuracy[1])))
        for c in (c for c in self.before if c.name in after):
            was, now = (often(each.difference, each.interval) for each in (c, after[c.name]))
            rows.append((f"{c.name}: labelled '{self.favourable}', against comparable people", was, now))
        for group, rates in self.rates.items():
            was, now = map(share, rates)
            rows.append((f"{self.attribute} = {group}: decided '{self.favourable}'", was, now))
        return rows

    @property
    def lines(self) -> list[str]:
        """All that changed, a sentence each, for a terminal: the page has what does not fit."""
        lines = [*self.evidence.lines[:1], self.sentence, *self.evidence.lines[1:]]
        rows = [f"{name}: {before} before, {after} after." for name, before, after in self.rows]
        room = MOST_LINES - len(lines)
        if len(rows) > room:
            rows[room - 1 :] = [f"The page has {len(rows) - room + 1} more lines on groups."]
        return [*lines, *rows]


def _sum(counts: list[Counts]) -> Counts:
    return sum(hit for hit, _ in counts), sum(n for _, n in counts)


def _share(count: int, n: int, what: str) -> str:
    return f"{count} of {n} {what} ({percent(count / n)})" if n else f"0 of 0 {what}"
