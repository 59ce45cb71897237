"""What pages and notebooks say about a status or a solidity, and about strategies and rankings.

`code` and **bold** are marked as in Markdown. `facts` of `butfor.report.people` fills in {who}, {them} (this label,
these labels), {rows}, {counts} (fresh seeds with and without the flips), {settle} (how many more seeds would tell),
{model} (the mean of seeds, or the training under this seed) and the like.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from butfor.result.fresh import FIRST_LOOK, LEAST, USUAL

REVIEW = (
    "**Have labels reviewed blind**, the likeliest to be wrong first: `butfor review audit.json --out tasks/` prepares "
    "the tasks. With the answers it corrects labels, retrains and shows whose decisions change."
)
UNSEEDED = "Solid: this model has no seed; the same labels always give the same model"
BLIND_REVIEW = (
    "**Have {them} reviewed blind** ({rows}): by someone who sees the original file, but neither the recorded label "
    "nor the person's {sensitive} nor this report."
)
CORRECT = (
    "**If a label is wrong**, correct it, retrain and decide again about {who}. **If all are right**, record that the "
    "decision hinges on a few labels and let a person look at it."
)
KEYSTONES = "**Look at the keystones**: audit everybody, and review first the rows that turn up for many people."
DECIDES = "The model's decision about {who} is {prediction}. "
ENOUGH = f"`--fresh-seeds {USUAL}`"
CHANGED = "that with {them} flipped and everything else kept, {model} gives the other decision: it was retrained."
LACKS = (
    "that any of these labels is wrong: a correct label can carry a decision too;",
    "that this person or their group was discriminated against: it says where to look;",
    "that these are the only labels, or the fewest, that the decision hinges on;",
    "that another model would do the same.",
)
"""What no find shows, whatever its solidity."""


@dataclass(frozen=True)
class Words:
    """A status in words; the defaults are those of finds. `plain` is for lay readers. `shows`, `lacks`: what it shows
    and does not show; `steps`: what to do next, in order; `many`: what to do about all who have this status."""

    sign: str
    title: str
    meaning: str = ""
    plain: str = ""
    shows: str = CHANGED
    lacks: tuple[str, ...] = LACKS
    steps: tuple[str, ...] = (BLIND_REVIEW, CORRECT, KEYSTONES)
    many: str = ""


STATUS = {
    "found": Words("◆", "Counterfactual dataset found", plain=DECIDES + "If {change}, it would be {other}."),
    "not_found": Words(
        "○",
        "Nothing found",
        plain=DECIDES + "{tried} That does not mean that the decision is fair.",
        shows="that none of the flip sets tried, within this budget, changes the decision.",
        lacks=("that the decision is fair, that the labels are right, or that no counterfactual dataset exists.",),
        steps=(
            "**Do not file this as “fair”** but as: not found, with this budget and this search.",
            "**Search wider** if the decision matters or is contested: a larger budget, another ranking, the "
            "exhaustive strategy{rest}.",
            KEYSTONES,
        ),
        many="**Do not file “not found” as “fair”.** Where a decision matters or is contested, search wider: a larger "
        "budget, another ranking, the exhaustive strategy.",
    ),
    "proven_none": Words(
        "□",
        "Proven: no such labels",
        plain=DECIDES + "Proven: changing {budget} cannot change that.",
        shows="that no set of labels within the budget, of those that may be flipped, changes this model's decision.",
        lacks=(
            "that the decision is fair or that the labels are right; nor anything about labels that the rule ψ leaves "
            "out, other settings, or wrong inputs.",
        ),
        steps=(
            "**Do not file this as “fair”** but as: proven not to hinge on so few labels.",
            "**Look elsewhere** if the decision is contested: at the inputs, at labels that the rule ψ leaves out, at "
            "a larger budget.",
        ),
    ),
    "not_eligible": Words(
        "–",
        "Not audited",
        plain="{sentence}",
        shows="only that the audit did not ask about this person.",
        lacks=("that the decision is fair, nor that it is not.",),
        steps=(
            "**Look at the reason:** {reason}",
            "**To audit {who} all the same**, run again with another rule φ, for example `everyone`.",
        ),
    ),
}
"""By `verdict.status`."""
SOLIDITY = {
    "solid": Words(
        "●",
        "Solid",
        "with the flips, at least 9 in 10 models decide differently, by the one-sided 95 % bound (all of "
        f"{FIRST_LOOK} fresh seeds, or {USUAL - 1} of {USUAL}), and fewer than half do without them",
        shows="that the decision hinges on {them} under any seed tried: {counts}.",
        many="**Have a person look at the solid findings.** These decisions hinge on a few labels, right or wrong; "
        "decide again where a review corrects one.",
    ),
    "leaning": Words(
        "◐",
        "Leaning",
        "with the flips, more than half of the models decide differently, and by that bound more than without them, "
        f"but too few to be solid (which takes {LEAST} seeds at least)",
        lacks=("that it holds under other seeds: {counts};", *LACKS),
        steps=(
            "**Say that it is not certain.** More labels (a larger `--budget`) or more seeds (`--fresh-seeds`) may "
            "settle it.",
            *Words.steps,
        ),
        many="**Say that leaning findings are not certain**: a larger `--budget` or more seeds may settle them.",
    ),
    "seed-bound": Words(
        "≈",
        "Seed-bound",
        "the flips change no more than the seed does, or leave most models as they were",
        lacks=("that the decision hinges on {them}: {counts};", *LACKS),
        steps=(
            "**Do not hold {them} responsible** ({rows}).",
            "**Treat the decision as unsettled.** It hangs on the seed as much as on any label; let a person decide "
            "about {who}.",
            "**Steady the training**: average more seeds (`--members`), train longer, or get more data about people "
            "like {who}; then audit again.",
        ),
        many="**Treat seed-bound decisions as unsettled.** Do not hold their labels responsible; let a person decide.",
    ),
    "undecided": Words(
        "?",
        "Undecided",
        "too few seeds to tell which of these it is",
        lacks=("how other seeds would decide: {counts}, too few to tell;", *LACKS),
        steps=(
            "**Settle it first**: {settle}.",
            "**Do not act on {them}** ({rows}) before that; a larger budget may find labels that hold under any seed.",
        ),
        many="**Try more seeds for the undecided** ({settle}) before you act on their labels.",
    ),
    "not checked": Words(
        "◌",
        "Not checked",
        "not tested under fresh seeds: none were asked for, or the audit was stopped before",
        lacks=("how other seeds would decide: that was not checked;", *LACKS),
        steps=(
            f"**Run the audit again with {ENOUGH}.** A finding that holds under nearly all of them is solid.",
            *Words.steps,
        ),
        many=f"**Run the audit again with {ENOUGH}** before you act on any label: until then nobody knows which "
        "findings hang on the seed.",
    ),
}
"""By `verdict.solidity`, in the order shown."""
CLOSE_CALL = Words(
    "⇄",
    "Close call",
    "more than one fresh seed in ten decides differently on the unchanged data, found or not",
    steps=("**Have a person look at this close call**: {base}.",),
    many="**Have a person look at the close calls**, found or not: more than one fresh seed in ten decides differently "
    "about them with nothing changed.",
)


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """The words for a verdict: by its solidity if labels were found, else by its status."""
    if solidity is None or seeded:
        return STATUS[status] if solidity is None else SOLIDITY[solidity]
    hinges = (
        "that the decision hinges on {them}: with them flipped and everything else kept, the retrained model gives "
    )
    return replace(SOLIDITY["solid"], shows=f"{hinges}the other decision.")


STRATEGIES = {
    "solid": "flip the labels that rank best over all members of the ensemble, as many as the budget allows, and "
    "retrain every member; where nearly all of them decide differently, halve the set again and again to find the "
    "fewest labels",
    "guided": "flip as many labels as the budget allows and retrain; exchange some of them to do better; once the "
    "decision changes, take back every flip that is not needed (a budget of one label: try one after the other)",
    "algorithm1": "flip the best-ranked label and retrain; then the best two together, and so on up to the budget",
    "singles": "flip one label at a time and retrain: the best-ranked first, then through the top tenth",
    "attempts": "ten attempts per number of flips: the best-ranked labels, then draws from those nearly as high",
    "exhaustive": "try every set of labels within the budget",
}
RANKINGS = {
    "guided": "by the rankings that suit this kind of model (for a network 'gradient' and 'combined'), or by their "
    "average, whichever moved some of the people furthest in a trial",
    "combined": "by two scores averaged: how much a simple linear model's answer about this person depends on the "
    "label, and how alike the network's neurons respond to the person and to that training row",
    "surrogate": "by how much a simple linear model's answer about this person depends on each label",
    "surrogate-signed": "by how far flipping each label would move a simple linear model towards the other answer",
    "activation": "by how alike the network's neurons respond to the person and to each training row",
    "distance": "the training rows most similar to the person first",
    "chance": "at random, as a baseline",
    "influence": "by an estimate of each label's influence on this decision",
    "leaves": "by how often the model's trees put the person and each training row into one leaf",
    "gradient": "by the derivative of this decision with respect to each training label",
}
