"""What a review changed: the corrections made, the model trained anew, before and after."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.result.flipped import Flipped
from butfor.result.groups import LEVEL
from butfor.result.record import percent
from butfor.standard.groups import GroupStandard

Counts = tuple[int, int]
"""Labels that reviewers disagree with, of how many."""


@dataclass(frozen=True, kw_only=True)
class Reviewed(Flipped):
    """One round: `flips` are its corrections. `answered` and `corrected` are of all rounds so far. `chosen` labels and
    `decoys` disagreed with, of how many; `keystones`: of the chosen ones, those in somebody's flip set. `expected`: how
    many of the chosen ones were likely to be wrong, and whether that was calibrated. `before` and `after`: each group
    beside the others' standard."""

    favourable: str
    answered: tuple[int, ...]
    corrected: tuple[int, ...]
    chosen: Counts
    decoys: Counts
    keystones: Counts
    unsure: int
    expected: tuple[float, bool]
    before: tuple[GroupStandard, ...] = ()
    after: tuple[GroupStandard, ...] = ()
    corrected_to: tuple[str, ...] = ()
    """With more than two labels, what the corrected ones are now."""

    @property
    def sentence(self) -> str:
        people = f"{len(self.turned)} people are" if len(self.turned) != 1 else "1 person is"
        return (
            f"With {len(self.flips)} of {self.labels} labels corrected, {people} decided otherwise"
            f"{self.surely(self.turned)}."
        )

    @property
    def said(self) -> list[str]:
        """What the answers say, a sentence each."""
        decoys = f" and of {self.decoys[0]} of {self.decoys[1]} decoys" if self.decoys[1] else ""
        said = [
            f"Reviewers disagree with the recorded label of {self.chosen[0]} of {self.chosen[1]} labels{decoys}.",
            disagreement(self.chosen, self.decoys),
        ]
        expected, calibrated = self.expected
        if self.chosen[1]:
            how = "calibrated" if calibrated else "the sum of doubts, not calibrated"
            said.append(f"About {expected:.0f} of the {self.chosen[1]} labels were expected to be wrong ({how}).")
        if self.keystones[1]:
            hit, asked = self.keystones
            said.append(f"Of those in somebody's flip set: {hit} of {asked}.")
        if self.unsure:
            said.append(
                f"Reviewers could not tell about {self.unsure} of the labels and decoys; these stay as they were."
            )
        return said

    @property
    def lines(self) -> list[str]:
        """All that changed, a sentence each."""
        said = self.said
        for group, (before, after) in self.rates.items():
            said.append(f"{group}: {_percent(before)} decided '{self.favourable}' before, {_percent(after)} after.")
        said += [
            f"{name}: {was} by the standard of the others before, {now} after." for name, was, now in self.differences
        ]
        if self.accuracy:
            said.append("Right about the test labels: {} before, {} after.".format(*map(_percent, self.accuracy)))
        return said

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Per group, its difference to the others' standard before and after, in points."""
        after = {c.name: c.difference for c in self.after}
        return [(c.name, _points(c.difference), _points(after[c.name])) for c in self.before if c.name in after]


def disagreement(chosen: Counts, decoys: Counts) -> str:
    """Fisher's exact test, one-sided: could labels be disagreed with so much more often than decoys by chance?"""
    from scipy.stats import fisher_exact

    if not chosen[1] or not decoys[1]:
        return "Without answers on both the chosen labels and decoys there is nothing to compare."
    p = float(fisher_exact([[hit, n - hit] for hit, n in (chosen, decoys)], alternative="greater")[1])
    shares = f"{percent(chosen[0] / chosen[1])} against {percent(decoys[0] / decoys[1])} of decoys"
    more = "the chosen labels are disagreed with more often than labels like them"
    return (
        f"Disagreed with: {shares}; {'that may be chance' if p > LEVEL else more} (Fisher's exact test, p = {p:.2g})."
    )


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f} points".replace("-", "−")
