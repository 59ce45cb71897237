"""Compares verdicts and worlds of a record with the same made again, field by field.

Machines differ in the order of sums, and engines sum in another order than `fit`. So logits need only be close, and one
seed or decision in twenty may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from butfor.result.record import brief, builtins_of, signed
from butfor.result.verdict import ENUMERATION, ONE_LABEL, Verdict
from butfor.result.worlds import OneStandard

CLOSE = 0.01
"""The largest difference of a logit, absolute or, if it is above 1, relative."""
EXACT = 1e-9
SHARE = 0.05
"""The largest difference of mean rates and accuracies over worlds."""
LOGITS = ("logit", "counterfactual_logit", "pulls", "score", "cut", "counterfactual_score", "counterfactual_cut")
COMPARED = (
    *("row", "values", "group", "eligible", "flippable", "prediction", "flip_set", "counterfactual_prediction"),
    *("new_label", "at_least", "proof", "switch_changes", *LOGITS),
)
BY_SEARCH = {ONE_LABEL, ENUMERATION}


def verdicts_differ(
    recorded: Verdict, now: Verdict, allowed: NDArray[np.bool_], unknown: Collection[str], fresh: bool
) -> Iterator[str]:
    """Differences of a person's verdicts. `allowed`: the labels that ψ allows to flip. `unknown`: fields that cannot be
    compared. `fresh`: whether fresh seeds were trained again."""
    skipped = set(unknown)
    if recorded.found != now.found:
        skipped |= {"counterfactual_logit", "counterfactual_score", "counterfactual_cut", "flip_set"}
        turned = f"status is {recorded.status}, but flipping rows {list(now.positions)} changes the decision"
        yield turned if now.found else "retraining with these flips does not change the decision"
    if "proof" not in skipped and {recorded.proof, now.proof} & BY_SEARCH:
        skipped |= {"at_least", "proof"}
        yield from _proofs_differ(recorded, now)
    if "doubt" in unknown:
        recorded, now = _without_doubts(recorded), _without_doubts(now)
    for name in (name for name in COMPARED if name not in skipped):
        was, real = (builtins_of(getattr(verdict, name)) for verdict in (recorded, now))
        yield from unlike(name, was, real, CLOSE if name in LOGITS else EXACT)
    if "flippable" not in unknown:
        for position in (at for at in recorded.positions if not allowed[at]):
            yield f"row at position {position} is flipped, but the rule ψ does not allow it"
    seeds = recorded.run.fresh_seeds if fresh else 0
    for name, share, again in (("with_flips", recorded.hold, now.hold), ("without_flips", recorded.base, now.base)):
        if seeds and share is not None and again is not None and abs(share - again) * seeds > 1 + seeds // 20:
            yield f"fresh.{name} is {round(share * seeds)} of {seeds}, retrained it is {round(again * seeds)}"


def _without_doubts(verdict: Verdict) -> Verdict:
    return replace(verdict, flip_set=tuple(replace(flip, doubt=None) for flip in verdict.flip_set))


def _proofs_differ(recorded: Verdict, now: Verdict) -> Iterator[str]:
    """Proofs by search: a single label, or all sets tried."""
    proven = now.proof not in (None, *BY_SEARCH)
    if recorded.proof is None or proven:
        if proven or (recorded.found and len(recorded.flip_set) == 1):
            yield f"proof is {brief(recorded.proof)}, but should be {brief(now.proof)}"
        return
    reached = len(recorded.flip_set) or recorded.budget + 1
    if recorded.proof not in BY_SEARCH:
        yield f"proof is {brief(recorded.proof)}, but there is no proof for this model"
    elif recorded.at_least != reached or (recorded.proof == ONE_LABEL and reached != 1):
        yield f"at_least is {recorded.at_least}, but the search reached {reached}"


def unlike(path: str, recorded: Any, real: Any, slack: float) -> Iterator[str]:
    """Fields that differ, numbers by more than the share `slack`: the path and both values."""
    if isinstance(recorded, dict) and isinstance(real, dict) and recorded.keys() == real.keys():
        scale = max([1.0, *(abs(v) for v in real.values() if isinstance(v, float))]) if slack == CLOSE else 1.0
        for name in real:
            yield from unlike(f"{path}.{name}", recorded[name], real[name], slack * scale)
    elif isinstance(recorded, list) and isinstance(real, list) and len(recorded) == len(real):
        for place, pair in enumerate(zip(recorded, real, strict=True)):
            yield from unlike(f"{path}[{place}]", *pair, slack)
    elif {type(recorded), type(real)} in ({float}, {float, int}):
        if abs(recorded - real) > slack * max(1.0, abs(real)):
            shown = (signed(recorded), signed(real)) if slack >= CLOSE else (brief(recorded), brief(real))
            yield f"{path} is {shown[0]}, but should be {shown[1]}"
    elif recorded != real or type(recorded) is not type(real):
        yield f"{path} is {brief(recorded)}, but should be {brief(real)}"


def worlds_differ(recorded: OneStandard, now: OneStandard) -> Iterator[str]:
    """Differences of a group's worlds."""
    for name in ("labels", "asked", "people", "refused", "adverse_now"):
        yield from unlike(name, builtins_of(getattr(recorded, name)), builtins_of(getattr(now, name)), EXACT)
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
