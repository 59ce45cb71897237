"""What pages and notebooks say about a status or a solidity, and about strategies and rankings.

`code` and **bold** are marked as in Markdown. What to do next is said alike about one person and
about many.
"""

from __future__ import annotations

from dataclasses import dataclass

from butfor.result.fresh import (
    DEFAULT_SEEDS,
    FIRST_LOOK_SEEDS,
    LEANING,
    MIN_SOLID_SEEDS,
    NOT_CHECKED,
    SEED_BOUND,
    SOLID,
    UNDECIDED,
)

REVIEW = (
    "**Have labels reviewed blind**, the likeliest to be wrong first: `{}` prepares the tasks. "
    "With the answers it corrects labels, retrains and shows whose decisions change."
)
BLIND = (
    "**Have the flipped labels reviewed blind**: by someone who sees the original file, but "
    "neither the recorded label nor the person's group nor this report."
)
CORRECT = (
    "**If a label is wrong**, correct it, retrain and decide again. **If all are right**, record "
    "that the decision hinges on a few labels and let a person look at it."
)
NO_DIFFERENCE = (
    "**Claim no difference between groups from these shares**: groups of other sizes and labels "
    "have other shares by construction. A difference is a reason to look at how the labels came "
    "about, not a proof of discrimination."
)


@dataclass(frozen=True)
class Words:
    """A status in words, and what to do next, in order."""

    sign: str
    title: str
    meaning: str = ""
    steps: tuple[str, ...] = ()


STATUS = {
    "found": Words("◆", "Counterfactual dataset found"),
    "not_found": Words(
        "○",
        "Nothing found",
        steps=(
            "**Do not file “not found” as “fair”.** If a decision matters or is contested, search "
            "wider: a larger budget, another ranking, the exhaustive strategy.",
        ),
    ),
    "proven_none": Words(
        "□",
        "Proven: no such labels",
        steps=(
            "**Do not file “proven” as “fair”** but as: no decision hinges on so few labels (with "
            "more than two labels: flipped to the one that the verdict names). If one is "
            "contested, look at the inputs, at labels that the rule ψ leaves out, at a larger "
            "budget.",
        ),
    ),
    "not_eligible": Words(
        "–",
        "Not audited",
        steps=(
            "**Audit other people** (`--cases`), or choose them by another rule (`--phi "
            "everyone`).",
        ),
    ),
}
"""By `verdict.status`."""
SOLIDITY = {
    SOLID: Words(
        "●",
        "Solid",
        "with the flips, at least 9 in 10 models decide differently, by the one-sided 95 % bound "
        f"(all of {FIRST_LOOK_SEEDS} fresh seeds, or {DEFAULT_SEEDS - 1} of {DEFAULT_SEEDS}), and "
        "fewer than half do without them",
        (BLIND, CORRECT),
    ),
    LEANING: Words(
        "◐",
        "Leaning",
        "with the flips, more than half of the models decide differently, and by that bound more "
        f"than without them, but too few to be solid (which takes {MIN_SOLID_SEEDS} seeds at "
        "least)",
        (
            "**Say that a leaning find is not certain.** More labels (a larger `--budget`) or "
            "more seeds (`--fresh-seeds`) may settle it.",
            BLIND,
            CORRECT,
        ),
    ),
    SEED_BOUND: Words(
        "≈",
        "Seed-bound",
        "the flips change no more than the seed does, or leave most models as they were",
        (
            "**Treat a seed-bound decision as unsettled.** It hangs on the seed as much as on any "
            "label: do not hold the labels responsible, and let a person decide.",
            "**Steady the training**: average more seeds (`--members`), train longer, or get more "
            "data; then audit again.",
        ),
    ),
    UNDECIDED: Words(
        "?",
        "Undecided",
        "too few seeds to tell which of these it is",
        (
            "**Settle what is undecided** before you act on its labels: with more fresh seeds "
            "(`--fresh-seeds`), each find says how many; where no number would do, let a person "
            "decide.",
        ),
    ),
    NOT_CHECKED: Words(
        "◌",
        "Not checked",
        "not tested under fresh seeds: none were asked for, or the audit was stopped before",
        (
            f"**Run the audit again with `--fresh-seeds {DEFAULT_SEEDS}`** before you act on any "
            "label: until then nobody knows which finds hang on the seed.",
        ),
    ),
}
"""By `verdict.solidity`, in the order shown."""
CLOSE_CALL = Words(
    "⇄",
    "Close call",
    "more than one fresh seed in ten decides differently on the unchanged data, found or not",
    (
        "**Have a person look at close calls**, found or not: more than one fresh seed in ten "
        "decides differently with nothing changed.",
    ),
)
BECAUSE = {
    "time": "the time allowed was up",
    "stopped": "the audit was stopped",
    "no training rows": "the model learned from no label of theirs, so there is none to flip",
    "no control": f"the seed alone changes some decisions, and fewer than {MIN_SOLID_SEEDS} models "
    "under fresh seeds say which",
}
"""Why a question was not asked, or not finished."""
STRATEGIES = {
    "solid": "flip the labels that rank best over all members of the ensemble, as many as the "
    "budget allows, and retrain every member; where nearly all of them decide differently, halve "
    "the set again and again to find the fewest labels",
    "guided": "flip as many labels as the budget allows and retrain; exchange some of them to do "
    "better; once the decision changes, take back every flip that is not needed (a budget of one "
    "label: try one after the other)",
    "algorithm1": "flip the best-ranked label and retrain; then the best two together, and so on "
    "up to the budget",
    "singles": "flip one label at a time and retrain: the best-ranked first, then through the top "
    "tenth",
    "attempts": "ten attempts per number of flips: the best-ranked labels, then draws from those "
    "nearly as high",
    "exhaustive": "try every set of labels within the budget",
}
RANKINGS = {
    "guided": "by the rankings that suit this kind of model (for a network 'gradient' and "
    "'combined'), or by their average, whichever moved some of the people furthest in a trial",
    "combined": "by two scores averaged: how much a simple linear model's answer about this "
    "person depends on the "
    "label, and how alike the network's neurons respond to the person and to that training row",
    "surrogate": "by how much a simple linear model's answer about this person depends on each "
    "label",
    "surrogate-signed": "by how far flipping each label would move a simple linear model towards "
    "the other answer",
    "activation": "by how alike the network's neurons respond to the person and to each training "
    "row",
    "distance": "the training rows most similar to the person first",
    "chance": "at random, as a baseline",
    "influence": "by an estimate of each label's influence on this decision",
    "leaves": "by how often the model's trees put the person and each training row into one leaf",
    "gradient": "by the derivative of this decision with respect to each training label",
}
