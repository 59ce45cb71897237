"""Statuses, solidity, rules, rankings and protocols in plain words, for readers who have never seen the method."""

from __future__ import annotations

import re
from typing import Any

STATUS = {
    "found": "Counterfactual dataset found",
    "not_found": "Nothing found",
    "proven_none": "Proven: no such labels",
    "not_eligible": "Not audited",
}

SIGN = {"found": "◆", "not_found": "○", "proven_none": "□", "not_eligible": "–"}
"""A status is told by its sign and its words; colour only repeats it."""

SOLIDITY = {
    "solid": "with the flips made, at least 9 in 10 models decide otherwise, by the one-sided 95 % bound (of 59 fresh "
    "seeds, 58 must), and without them less than half do",
    "leaning": "with the flips made, more than half of the models decide otherwise, and by that bound more than "
    "without them; but not enough to be solid",
    "seed-bound": "the flips change nothing that could be told from the seed, or leave most models as they were",
    "undecided": "too few seeds to tell which of these it is",
    "not checked": "not put to fresh seeds: none were asked for, or the audit was stopped before",
}
"""How a find stands over seeds, in the order in which it is told."""

SOLIDITY_SIGN = {"solid": "●", "leaning": "◐", "seed-bound": "≈", "undecided": "?", "not checked": "◌"}
CLOSE_CALL = (
    "more than one fresh seed in ten decides otherwise on the unchanged data, whether anything was found or not"
)
CLOSE_SIGN = "⇄"

UNSEEDED = "Solid, because this learner has no seed noise: the same labels always give the same model"
"""Said where fresh seeds would be told of, or recommended."""

FEW = 10
"""Counts below this, and remainders below it, are not told in public."""
HIDDEN = "not told"

PROTOCOLS = {
    "solid": "rank the labels by the mean over all members of the ensemble; flip as many of the best-ranked as the "
    "budget allows and retrain every member; where nearly all of them turn, halve the set again and again to find the "
    "fewest labels that do it",
    "guided": "flip as many labels as the budget allows and retrain; exchange some of them to do better; once the "
    "decision turns, take back every flip that is not needed (a budget of one label: try one after the other)",
    "algorithm1": "flip the best-ranked label and retrain; then the best two together, and so on up to the budget",
    "singles": "flip one label at a time and retrain: the best-ranked, then the second-ranked alone, and so "
    "on through the top tenth",
    "attempts": "for each number of flips ten attempts: first the best-ranked labels, then draws from those "
    "ranked nearly as high",
    "exhaustive": "try every flippable label, leaving nothing out within the budget",
}

RANKINGS = {
    "guided": "by several rankings that know this kind of model (for a network the derivative of the decision with "
    "respect to each training label, through training itself, and the published ranking 'combined'), or by their "
    "average, whichever moved some of the people furthest in a trial",
    "combined": "by two scores averaged: how much a simple linear model's answer about this person rests on "
    "the label, and how alike the network's neurons respond to the person and to that training row",
    "surrogate": "by how much a simple linear model's answer about this person rests on each label",
    "surrogate-signed": "by how far flipping each label would move a simple linear model towards the other answer",
    "activation": "by how alike the network's neurons respond to the person and to each training row",
    "distance": "the training rows most similar to the person first",
    "chance": "at random, as a baseline",
    "influence": "by an estimate of each label's influence on this decision",
    "influence-gn": "by an estimate of each label's influence on this decision (Gauss–Newton form)",
    "tangent": "by each label's weight in the kernel regression that the network resembles (tangent kernel)",
    "leaves": "by how often the model's trees put the person and each training row into one leaf",
    "gradient": "by the derivative of this decision with respect to each training label",
}

RULES = {
    "stable_under_switch": "the decision stays the same when only the protected attribute is switched",
    "in_group": "the person has the named value in the named column",
    "predicted": "the model decides the named label about the person",
    "everyone": "no condition on the person",
    "same_group": "the training row belongs to the person's own group",
    "labelled_as_predicted": "the training row's label is what the model decides about the person",
    "correctly_predicted": "the model decides about the training row what its label says",
    "everything": "no condition on the training row",
}


def rule_words(text: str) -> list[tuple[str, str]]:
    """The known rules named in a rule's text, each with its meaning."""
    names = dict.fromkeys(re.findall(r"[a-z_]+", text))
    return [(name, RULES[name]) for name in names if name in RULES]


def audited(run: dict[str, Any]) -> str:
    """What the audited model is where it is more than one training; empty for a single model."""
    members = run.get("members") or 1
    return f"the mean of {members} trainings that differ in the seed alone" if members > 1 else ""


def plural(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def steady_sentence(steady: dict[str, Any]) -> str:
    """Today's model beside the steady one, in one or two sentences."""
    everyone = steady["groups"][0]
    people, one, cap = everyone["people"], everyone["stand_against_one"], everyone["stand_against_budget"]
    told = (
        f"A vote of {steady['parts']} copies ({steady['copy']}) decides otherwise about {everyone['changed']} of "
        f"{people} people; {one} of its decisions are proven to stand against any one label, {cap} against "
        f"{steady['budget']}."
    )
    if not steady["right"]:
        return told
    today, beside, majority = (steady["right"][name] for name in ("today", "steady", "majority"))
    told += f" It is right about {100 * beside['accuracy']:.1f} % of them, the audited model about "
    told += f"{100 * today['accuracy']:.1f} %"
    if beside["balanced"] is not None:
        told += f" (both classes counted alike: {100 * beside['balanced']:.1f} and {100 * today['balanced']:.1f} %)"
    told += "."
    if (beside["balanced"] or beside["accuracy"]) <= (majority["balanced"] or majority["accuracy"]):
        told += " That is no better than always saying the larger class: what it certifies is empty."
    return told
