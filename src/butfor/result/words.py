"""Every status in words, once: what it is called, what it means, what it shows and does not show, what to do about it.

Pages, notebooks and the terminal take their sentences from here. `code` and **weight** are marked as in Markdown.
Placeholders: {who}, {them} (this label, these labels), {rows}, {counts} (fresh seeds with and without the flips),
{settle} (how many more seeds would tell), {sensitive}, {prediction}, {other}, {change}, {budget}, {tried}, {reason},
{model} (the audited model where it is a mean of seeds, or this seed). `plain` is for somebody who knows nothing of
models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from butfor.result.fresh import LEAST, USUAL

ENOUGH = f"`--fresh-seeds {USUAL}`"
"""What to ask for where nothing was put to fresh seeds."""
RETRAINED = "This is no estimate; the models were in fact trained again."
TURNED = "that with {them} flipped and everything else kept, {model} gives the other decision. " + RETRAINED
BLIND_REVIEW = (
    "**Have {them} reviewed blind** ({rows}): by someone who judges from the original file and knows neither the "
    "recorded label, nor the {sensitive} of the person concerned, nor this report."
)
REVIEW = (
    "**Have labels reviewed blind**, the most likely wrong first: `butfor review audit.json --out tasks/` makes the "
    "tasks. With the answers it corrects, trains anew and says who is decided otherwise."
)
CORRECT = (
    "**If a label turns out wrong**, correct it, train again and decide anew about {who}. **If all stand**, record "
    "that the decision rests on so few labels, and let a human look at it."
)
KEYSTONES = (
    "**Check the keystones**: audit everybody and see whether the same training rows turn up for others. Those labels "
    "are to be reviewed first."
)
LACKS = (
    "that any of these labels is wrong. A correct label can carry a decision too;",
    "that this person or their group was discriminated against. It says where to look, not what will be seen there;",
    "that these are the only labels, or the fewest, that the decision hinges on;",
    "that another model would do the same.",
)


@dataclass(frozen=True)
class Words:
    """A status in words. `many`: the step to take where people of a whole audit have this status."""

    sign: str
    title: str
    meaning: str = ""
    plain: str = ""
    shows: str = ""
    lacks: tuple[str, ...] = LACKS
    steps: tuple[str, ...] = ()
    many: str = ""


DECIDES = "The model decides '{prediction}' about {who}. "
STATUS = {
    "found": Words(
        "◆",
        "Counterfactual dataset found",
        plain=DECIDES + "If {change}, it would decide '{other}'.",
    ),
    "not_found": Words(
        "○",
        "Nothing found",
        plain=DECIDES + "{tried} That does not mean that the decision is fair.",
        shows="that none of the flip sets tried, within this budget, turns the decision.",
        lacks=(
            "that the decision is fair, that the labels are right, or that no counterfactual dataset exists. “Not "
            "found” is the end of this search, not an acquittal.",
        ),
        steps=(
            "**Do not file this as “fair” or “passed”.** File it as: not found, with this budget and this search.",
            "**Search wider** if the decision matters or is contested: a larger budget, another ranking, the "
            "exhaustive strategy{rest}.",
            KEYSTONES,
        ),
        many="**Do not file “not found” as “fair” or “passed”.** Where a decision matters or is contested, search "
        "wider: a larger budget, another ranking, the exhaustive strategy.",
    ),
    "proven_none": Words(
        "□",
        "Proven: no such labels",
        plain=DECIDES + "Proven: changing {budget} cannot change that.",
        shows="that no set of so few labels, of those that may be flipped, turns the decision of this model: that is "
        "proven.",
        lacks=(
            "that the decision is fair or that the labels are right, nor anything about labels that the rule ψ leaves "
            "out, about other settings, or about wrong inputs.",
        ),
        steps=(
            "**Do not file this as “fair”.** File it as: proven not to hinge on so few labels.",
            "**Look elsewhere** if the decision is contested: at the inputs, at labels that the rule ψ leaves out, at "
            "more labels than the budget allows.",
        ),
    ),
    "not_eligible": Words(
        "–",
        "Not audited",
        plain="{sentence}",
        shows="only that this person is outside the audit's question as it was put.",
        lacks=("that the decision is fair, nor that it is not.",),
        steps=(
            "**Look at the reason first:** {reason}",
            "**If {who} should be audited all the same**, run again with another rule φ, for example `everyone`.",
        ),
    ),
}
"""By `verdict.status`."""

SOLIDITY = {
    "solid": Words(
        "●",
        "Solid",
        meaning="with the flips made, at least 9 in 10 models decide otherwise, by the one-sided 95 % bound (of "
        f"{USUAL} fresh seeds, {USUAL - 1} must), and without them less than half do",
        shows="that the decision hinges on {them} whatever the seed of training: {counts}. " + RETRAINED,
        steps=(BLIND_REVIEW, CORRECT, KEYSTONES),
        many="**Let a human look at the solid findings.** Those decisions rest on a few labels, right or wrong; record "
        "it, and decide anew where a review corrects one of them.",
    ),
    "leaning": Words(
        "◐",
        "Leaning",
        meaning="with the flips made, more than half of the models decide otherwise, and by that bound more than "
        f"without them; but not enough to be solid (which takes {LEAST} seeds at least)",
        shows=TURNED,
        lacks=("that it would be so whatever the seed: {counts};", *LACKS),
        steps=(
            "**Say that it is not certain.** More labels (a larger `--budget`) or more seeds (`--fresh-seeds`) may "
            "settle it.",
            BLIND_REVIEW,
            CORRECT,
            KEYSTONES,
        ),
        many="**Say of leaning findings that they are not certain**: more labels (a larger `--budget`) or more seeds "
        "may settle it.",
    ),
    "seed-bound": Words(
        "≈",
        "Seed-bound",
        meaning="the flips change nothing that could be told from the seed, or leave most models as they were",
        shows=TURNED,
        lacks=("that the decision hinges on {them}: {counts};", *LACKS),
        steps=(
            "**Do not hold {them} responsible** on this ground ({rows}).",
            "**Treat the decision as unsettled.** It hangs on the seed of training as much as on any label; let a "
            "human decide about {who}.",
            "**Steady the training**: average more seeds (`--members`), train longer, or get more data about people "
            "like {who}; then audit again.",
        ),
        many="**Treat seed-bound decisions as unsettled.** Do not hold their labels responsible; let a human decide "
        "about these people.",
    ),
    "undecided": Words(
        "?",
        "Undecided",
        meaning="too few seeds to tell which of these it is",
        shows=TURNED,
        lacks=("how other seeds would decide: {counts}, too few to tell;", *LACKS),
        steps=(
            "**Settle it first**: {settle}.",
            "**Do not act on {them}** ({rows}) before that; a larger budget may find labels that hold whatever the "
            "seed.",
        ),
        many="**Try more seeds for the undecided** ({settle}) before you act on their labels.",
    ),
    "not checked": Words(
        "◌",
        "Not checked",
        meaning="not put to fresh seeds: none were asked for, or the audit was stopped before",
        shows=TURNED,
        lacks=("how other seeds would decide: that was not checked;", *LACKS),
        steps=(
            f"**Run the audit again with {ENOUGH}.** A finding that holds under nearly all of them is solid; one that "
            "does not says that training itself is unsteady about this person.",
            BLIND_REVIEW,
            CORRECT,
            KEYSTONES,
        ),
        many=f"**Run the audit again with {ENOUGH}** before you act on any label. Until then nobody knows which of "
        "these findings hang on the seed.",
    ),
}
"""By `verdict.solidity`: how a find stands over seeds, in the order in which it is told."""

UNSEEDED = "Solid, because this learner has no seed noise: the same labels always give the same model"
"""Said where fresh seeds would be told of, or recommended."""
SEEDLESS = replace(
    SOLIDITY["solid"],
    shows="that the decision hinges on {them}: flipped, with everything else kept, the same training gives the other "
    "decision. This is no estimate; the model was in fact trained again.",
)
"""Solid where no seed changes anything."""

CLOSE_CALL = Words(
    "⇄",
    "Close call",
    meaning="more than one fresh seed in ten decides otherwise on the unchanged data, whether anything was found or "
    "not",
    steps=("**Let a human look at this close call** in any case: {base}.",),
    many="**Let a human look at the close calls**, found or not: more than one fresh seed in ten decides otherwise "
    "about them with nothing changed.",
)


def base_sentence(count: int, seeds: int) -> str:
    """How many fresh seeds decide otherwise with nothing flipped."""
    return f"{count} of {seeds} fresh seeds decide otherwise on the unchanged data"


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """What is said of a verdict: by its solidity where labels were found, by its status otherwise."""
    if solidity is None:
        return STATUS[status]
    return SOLIDITY[solidity] if seeded else SEEDLESS


# --- rules, strategies and rankings -----------------------------------------------------------------

STRATEGIES = {
    "solid": "flip as many of the labels that rank best over all members of the ensemble as the budget allows and "
    "retrain every member; where nearly all of them turn, halve the set again and again to find the fewest labels",
    "guided": "flip as many labels as the budget allows and retrain; exchange some of them to do better; once the "
    "decision turns, take back every flip that is not needed (a budget of one label: try one after the other)",
    "algorithm1": "flip the best-ranked label and retrain; then the best two together, and so on up to the budget",
    "singles": "flip one label at a time and retrain: the best-ranked first, and so on through the top tenth",
    "attempts": "per number of flips ten attempts: the best-ranked labels, then draws from those nearly as high",
    "exhaustive": "try every flippable label, leaving nothing out within the budget",
}

RANKINGS = {
    "guided": "by several rankings that know this kind of model (for a network 'gradient' and 'combined'), or by their "
    "average, whichever moved some of the people furthest in a trial",
    "combined": "by two scores averaged: how much a simple linear model's answer about this person rests on "
    "the label, and how alike the network's neurons respond to the person and to that training row",
    "surrogate": "by how much a simple linear model's answer about this person rests on each label",
    "surrogate-signed": "by how far flipping each label would move a simple linear model towards the other answer",
    "activation": "by how alike the network's neurons respond to the person and to each training row",
    "distance": "the training rows most similar to the person first",
    "chance": "at random, as a baseline",
    "influence": "by an estimate of each label's influence on this decision",
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
    "doubted": "the standard of the other groups doubts the training row's label, which is of the person's own group "
    "and what the model decides about the person",
    "everything": "no condition on the training row",
}
