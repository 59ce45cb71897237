"""Makes the recorded worlds again, from their seeds and the recorded gap, with the model's own `fit`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from butfor.errors import ReplayError
from butfor.machine import single_threaded
from butfor.progress import Progress
from butfor.result.record import brief
from butfor.result.run import Run
from butfor.result.worlds import OneStandard
from butfor.run.fitted import Fitted
from butfor.run.trial import FlipTrial
from butfor.run.worlds import in_worlds

EXACT = 1e-9
SHARE = 0.05
"""How far mean rates and accuracies may differ."""


def worlds_again(audit: Fitted, run: Run, recorded: OneStandard, X: Any, y: Any, groups: Any) -> OneStandard:
    """The worlds of the recorded seeds, for the people X. The gap and its error are the recorded ones; the tables that
    they come from are not drawn again."""
    if run.standard is None:
        raise ReplayError("Invalid record: run.one_standard has worlds, but run.standard compares nothing.")
    standards = replace(audit.compare(draws=0), comparisons=run.standard.comparisons)
    comparison = standards.of_group(recorded.group)
    if comparison is None or comparison.attribute != recorded.attribute:
        raise ReplayError(
            f"Invalid record: run.one_standard is about {brief(recorded.group)}, which run.standard does not compare."
        )
    with single_threaded():
        tried = FlipTrial.about(audit, X, y, groups, Progress())
        return in_worlds(standards, comparison, tried, [world.seed for world in recorded.worlds])


def worlds_differ(recorded: OneStandard, now: OneStandard) -> Iterator[str]:
    """Their differences. Engines sum in another order than `fit`: one decision in twenty may differ."""
    for name in ("labels", "asked", "people", "refused", "adverse_now"):
        if getattr(recorded, name) != getattr(now, name):
            yield f"{name} is {brief(getattr(recorded, name))}, but should be {brief(getattr(now, name))}"
    if len(recorded.worlds) != len(now.worlds):
        yield f"worlds is {brief(recorded.worlds)}, but should be {brief(now.worlds)}"
        return
    people = 1 + recorded.refused // 20
    for was, again in zip(recorded.worlds, now.worlds, strict=True):
        drawn = abs(was.shortfall - again.shortfall) > EXACT or was.flips != again.flips
        if drawn or abs(was.turned - again.turned) > people:
            yield (
                f"world {was.seed} has {was.flips} flipped labels and {was.turned} changed decisions; retrained, "
                f"{again.flips} and {again.turned}"
            )
    for name, before, after in _shares(recorded, now):
        if not abs(before - after) <= SHARE:
            yield f"{name} is {before:.3f} on average over worlds; retrained, {after:.3f}"
    then, again_in = ({person.case: person.worlds for person in one.changed} for one in (recorded, now))
    for case in {**then, **again_in}:
        worlds, again_worlds = then.get(case, 0), again_in.get(case, 0)
        if abs(worlds - again_worlds) > 1 + len(now.worlds) // 20:
            yield f"the decision about person {case} changes in {worlds} worlds; retrained, in {again_worlds}"


def _shares(recorded: OneStandard, now: OneStandard) -> Iterator[tuple[str, float, float]]:
    """Rates and accuracy, averaged over worlds."""
    before, after = recorded.rates_in_worlds, now.rates_in_worlds
    yield from ((f"the rate of {group}", before.get(group, (-1.0,))[0], after[group][0]) for group in after)
    if recorded.accuracy_in_worlds and now.accuracy_in_worlds:
        yield "accuracy", recorded.accuracy_in_worlds[0], now.accuracy_in_worlds[0]
