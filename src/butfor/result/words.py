"""Words for statuses, strategies and rankings, from words.toml; scores and cuts in words."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from scipy.special import expit

from butfor.decide import FEWEST, USUAL, DecisionFacts, log_odds
from butfor.errors import plural
from butfor.result.fresh import FIRST_LOOK, LEAST
from butfor.result.fresh import USUAL as USUAL_SEEDS
from butfor.words import percent

FILE = Path(__file__).parent / "words.toml"
NUMBERS = {"USUAL": USUAL_SEEDS, "BUT_ONE": USUAL_SEEDS - 1, "FIRST": FIRST_LOOK, "LEAST": LEAST}
SHARED = tomllib.loads(Template(FILE.read_text(encoding="utf-8")).safe_substitute(NUMBERS))["shared"]
TEXTS = tomllib.loads(Template(FILE.read_text(encoding="utf-8")).substitute(NUMBERS | SHARED))


@dataclass(frozen=True)
class Words:
    """A status in words; words.toml says what each text is for."""

    sign: str
    title: str
    meaning: str = ""
    plain: str = ""
    shows: str = ""
    lacks: Sequence[str] = ()
    steps: Sequence[str] = ()
    many: str = ""


STATUS = {name: Words(**texts) for name, texts in TEXTS["status"].items()}
"""By `verdict.status`."""
SOLIDITY = {
    name: Words(**texts | {"lacks": [*texts.get("lacks", ()), *SHARED["LACKS"]]})
    for name, texts in TEXTS["solidity"].items()
}
"""By `verdict.solidity`, in the order shown."""
SEEDLESS = replace(SOLIDITY["solid"], shows=TEXTS["seedless"])
"""Solid, if no seed changes the model."""
CLOSE_CALL = Words(**TEXTS["close_call"])
REVIEW, UNSEEDED = SHARED["REVIEW"], SHARED["UNSEEDED"]
STRATEGIES, RANKINGS = TEXTS["strategies"], TEXTS["rankings"]


def base_sentence(count: int, seeds: int) -> str:
    """How many fresh seeds decide differently without any flip."""
    decide = plural(count, f"of {seeds} fresh seeds decides", f"of {seeds} fresh seeds decide")
    return f"{decide} differently on the unchanged data"


def words_of(status: str, solidity: str | None, seeded: bool) -> Words:
    """The words for a verdict: by its solidity if labels were found, else by its status."""
    if solidity is None:
        return STATUS[status]
    return SOLIDITY[solidity] if seeded else SEEDLESS


# --- scores and cuts ----------------------------------------------------------------------------------

MOST_DIGITS = 6
CLIP = 1e-15


def cut_sentence(facts: DecisionFacts, favourable: str) -> str:
    """Where the cut is and how many people get the favourable decision; empty if nothing is known."""
    decided = f"Decided {favourable}"
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
        f"{favourable if facts.favoured else other} about {about} people. Of the training labels, {share} % are "
        f"{favourable}: "
        + (
            f"try {option}."
            if now in (0, 1) or facts.recorded < now
            else "audit more people, or set a stricter threshold."
        )
    )


def score(logit: float, cut: float, towards: bool) -> float:
    """The score at a logit that is measured from the `cut`. `towards`: whether logits above 0 mean the favourable
    label."""
    return float(expit((logit if towards else -logit) + log_odds(cut, CLIP)))


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
    at = [log_odds(each, CLIP) if probabilities else each for each in (before, after, cut, cut_after)]
    ours, cuts = at[1] - at[0], at[3] - at[2]
    share = min(1.0, max(0.0, ours / (ours - cuts))) if ours != cuts else 1.0
    return f"Of the change, {percent(share)} comes from the score and {percent(1 - share)} from the cut."


def share_in_words(share: float) -> str:
    """A share in per cent, without the sign: whole, or to two digits close to 0 or 100 %."""
    edge = 100 * min(share, 1 - share)
    digits = 0 if edge >= 10 or edge <= 0 else 1 - math.floor(math.log10(edge))
    text = f"{100 * share:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
