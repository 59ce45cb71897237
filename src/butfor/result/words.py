"""Every status in words: its name and meaning, what it shows and does not show, what to do about it; scores and cuts.

Pages, notebooks and the terminal take their sentences from here. `code` and **bold** are marked as in Markdown.
Placeholders: {who}, {them} (this label, these labels), {rows}, {counts} (fresh seeds with and without the flips),
{settle} (how many more seeds would tell), {sensitive}, {prediction}, {other}, {change}, {budget}, {tried}, {reason},
{model} (the mean of seeds, or the training under this seed). `plain` is for lay readers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from butfor.decide import FEWEST, USUAL, DecisionFacts
from butfor.errors import plural
from butfor.result.fresh import FIRST_LOOK, LEAST
from butfor.result.fresh import USUAL as USUAL_SEEDS
from butfor.words import percent

ENOUGH = f"`--fresh-seeds {USUAL_SEEDS}`"
"""The option to use if finds were not tested under fresh seeds."""
CHANGED = "that with {them} flipped and everything else kept, {model} gives the other decision: it was retrained."
BLIND_REVIEW = (
    "**Have {them} reviewed blind** ({rows}): by someone who sees the original file, but neither the recorded label "
    "nor the person's {sensitive} nor this report."
)
REVIEW = (
    "**Have labels reviewed blind**, the likeliest to be wrong first: `butfor review audit.json --out tasks/` prepares "
    "the tasks. With the answers it corrects labels, retrains and shows whose decisions change."
)
CORRECT = (
    "**If a label is wrong**, correct it, retrain and decide again about {who}. **If all are right**, record that the "
    "decision hinges on a few labels and let a person look at it."
)
KEYSTONES = "**Look at the keystones**: audit everybody, and review first the rows that turn up for many people."
LACKS = (
    "that any of these labels is wrong: a correct label can carry a decision too;",
    "that this person or their group was discriminated against: it says where to look;",
    "that these are the only labels, or the fewest, that the decision hinges on;",
    "that another model would do the same.",
)


@dataclass(frozen=True)
class Words:
    """A status in words. `many`: what to do if people of a whole audit have this status."""

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
        meaning="with the flips, at least 9 in 10 models decide differently, by the one-sided 95 % bound (all of "
        f"{FIRST_LOOK} fresh seeds, or {USUAL_SEEDS - 1} of {USUAL_SEEDS}), and fewer than half do without them",
        shows="that the decision hinges on {them} under any seed tried: {counts}.",
        steps=(BLIND_REVIEW, CORRECT, KEYSTONES),
        many="**Have a person look at the solid findings.** These decisions hinge on a few labels, right or wrong; "
        "decide again where a review corrects one.",
    ),
    "leaning": Words(
        "◐",
        "Leaning",
        meaning="with the flips, more than half of the models decide differently, and by that bound more than without "
        f"them, but too few to be solid (which takes {LEAST} seeds at least)",
        shows=CHANGED,
        lacks=("that it holds under other seeds: {counts};", *LACKS),
        steps=(
            "**Say that it is not certain.** More labels (a larger `--budget`) or more seeds (`--fresh-seeds`) may "
            "settle it.",
            BLIND_REVIEW,
            CORRECT,
            KEYSTONES,
        ),
        many="**Say that leaning findings are not certain**: a larger `--budget` or more seeds may settle them.",
    ),
    "seed-bound": Words(
        "≈",
        "Seed-bound",
        meaning="the flips change no more than the seed does, or leave most models as they were",
        shows=CHANGED,
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
        meaning="too few seeds to tell which of these it is",
        shows=CHANGED,
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
        meaning="not tested under fresh seeds: none were asked for, or the audit was stopped before",
        shows=CHANGED,
        lacks=("how other seeds would decide: that was not checked;", *LACKS),
        steps=(
            f"**Run the audit again with {ENOUGH}.** A finding that holds under nearly all of them is solid.",
            BLIND_REVIEW,
            CORRECT,
            KEYSTONES,
        ),
        many=f"**Run the audit again with {ENOUGH}** before you act on any label: until then nobody knows which "
        "findings hang on the seed.",
    ),
}
"""By `verdict.solidity`, in the order shown."""

UNSEEDED = "Solid: this model has no seed; the same labels always give the same model"
"""Replaces sentences about fresh seeds."""
SEEDLESS = replace(
    SOLIDITY["solid"],
    shows="that the decision hinges on {them}: with them flipped and everything else kept, the retrained model gives "
    "the other decision.",
)
"""Solid, if no seed changes the model."""

CLOSE_CALL = Words(
    "⇄",
    "Close call",
    meaning="more than one fresh seed in ten decides differently on the unchanged data, found or not",
    steps=("**Have a person look at this close call**: {base}.",),
    many="**Have a person look at the close calls**, found or not: more than one fresh seed in ten decides differently "
    "about them with nothing changed.",
)


def base_sentence(count: int, seeds: int) -> str:
    """How many fresh seeds decide differently without any flip."""
    decide = plural(count, f"of {seeds} fresh seeds decides", f"of {seeds} fresh seeds decide")
    return f"{decide} differently on the unchanged data"


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """The words for a verdict: by its solidity if labels were found, else by its status."""
    if solidity is None:
        return STATUS[status]
    return SOLIDITY[solidity] if seeded else SEEDLESS


# --- strategies and rankings ------------------------------------------------------------------------

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


# --- scores and cuts ----------------------------------------------------------------------------------

MOST_DIGITS = 6
CLIP = 1e-15


def cut_sentence(facts: DecisionFacts, favourable: str) -> str:
    """Where the cut is and how many people get the favourable decision; empty if nothing is known."""
    decided = f"Decided '{favourable}'"
    share = ""
    if facts.people >= FEWEST:
        share = f": {percent(facts.favoured / facts.people)} of {facts.people} people"
    if not facts.cut:
        return f"{decided}{share} (training labels: {share_in_words(facts.recorded)} %)." if share else ""
    at = "" if facts.probability is None else f"at a probability of {shown(facts.probability)[0]} or more"
    if facts.share is not None:
        tied = f" {facts.ties} tie for the last place and all get one." if facts.ties else ""
        best = f"the best {share_in_words(facts.share)} % of {facts.pool} people, {facts.accepted} of them"
        return f"{decided}: {best}{', ' * bool(at)}{at}.{tied}"
    own = ", the model's own threshold" if facts.given is None else ""
    return f"{decided} {at}{own}{share}."


def alike_sentence(facts: DecisionFacts, favourable: str, other: str, command: bool) -> str:
    """That everybody, or nearly everybody, gets the same decision, and which threshold decides as often as the training
    labels do. `command`: whether the reader typed one."""
    share, now = share_in_words(facts.recorded), facts.favoured / facts.people
    option = f"`--threshold 'top {share}%'`" if command else f'`threshold="top {share}%"`'
    about = f"all {facts.people}" if now in (0, 1) else f"{share_in_words(now)} % of {facts.people}"
    return (
        f"{'This' if facts.given is None else f'At {facts.given} this'} model decides "
        f"'{favourable if facts.favoured else other}' about {about} people. Of the training labels, {share} % are "
        f"'{favourable}': "
        + (
            f"try {option}."
            if now in (0, 1) or facts.recorded < now
            else "audit more people, or set a stricter threshold."
        )
    )


def score(logit: float, cut: float, towards: bool) -> float:
    """The score at a logit that is measured from the `cut`. `towards`: whether logits above 0 mean the favourable
    label."""
    at = (logit if towards else -logit) + log_odds(cut)
    return 1 / (1 + math.exp(-at)) if at >= 0 else math.exp(at) / (1 + math.exp(at))


def log_odds(probability: float) -> float:
    inside = min(max(probability, CLIP), 1 - CLIP)
    return math.log(inside) - math.log1p(-inside)


def shown(*scores: float) -> list[str]:
    """Scores with at least two decimals, and as many as it takes to tell different ones apart."""
    different = len({round(each, MOST_DIGITS) for each in scores})
    for digits in range(2, MOST_DIGITS):
        texts = [f"{each:.{digits}f}" for each in scores]
        if len(set(texts)) == different:
            return texts
    return [f"{each:.{MOST_DIGITS}f}" for each in scores]


def shown_at(score: float, cut: float | None) -> str:
    """A score with enough digits to differ from the cut."""
    return shown(score, score if cut is None else cut)[0]


def course(before: float, after: float | None, cut: float | None, cut_after: float | None = None) -> str:
    """ "score 0.74 → 0.83, cut 0.80", "cut 0.80 → 0.78" if it moves; without a cut (one half), "score 0.44 → 0.53"."""
    known = [each for each in (before, USUAL if cut is None else cut, after, cut_after) if each is not None]
    text = dict(zip(known, shown(*known), strict=True))
    scores = text[before] if after is None else f"{text[before]} → {text[after]}"
    if cut is None:
        return f"score {scores}"
    moved = "" if cut_after is None or text[cut_after] == text[cut] else f" → {text[cut_after]}"
    return f"score {scores}, cut {text[cut]}{moved}"


def what_moved(before: float, after: float, cut: float, cut_after: float, *, probabilities: bool) -> str:
    """How much of a change comes from the score and how much from the cut, by how far each moved: in log-odds if scores
    are `probabilities`."""
    scale = log_odds if probabilities else float
    ours, cuts = scale(after) - scale(before), scale(cut_after) - scale(cut)
    share = min(1.0, max(0.0, ours / (ours - cuts))) if ours != cuts else 1.0
    return f"Of the change, {percent(share)} comes from the score and {percent(1 - share)} from the cut."


def share_in_words(share: float) -> str:
    """A share in per cent, without the sign: whole, or to two digits close to 0 or 100 %."""
    edge = 100 * min(share, 1 - share)
    digits = 0 if edge >= 10 or edge <= 0 else 1 - math.floor(math.log10(edge))
    text = f"{100 * share:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
