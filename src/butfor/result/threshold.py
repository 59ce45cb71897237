"""The cut and scores, in numbers and in words. A score is the probability of the favourable label; from the cut on that
label is the decision."""

from __future__ import annotations

import math
from dataclasses import dataclass

from butfor.result.record import Whole, percent

DEFAULT = 0.5
MOST_DIGITS = 6
MOSTLY = 0.9
"""The share of a change from which it counts as all of it."""
FEWEST = 10
"""Of fewer people it means little that all of them are decided alike."""
CLIP = 1e-15


@dataclass(frozen=True)
class ThresholdFacts(Whole):
    """Where the audited model draws the line, and how many of the `pool` it accepts.

    `given`: as the user wrote it. `probability`: of the favourable label at the cut, None of a model without
    probabilities. `share`: of "top 20%". The pool are the people given, for "top" those who compete; `ties`: how many
    of them tie for the last place, where all of these have one. `recorded`: the share of favourable training labels."""

    given: float | str
    probability: float | None
    share: float | None
    pool: int
    accepted: int
    ties: int
    recorded: float

    @property
    def usual(self) -> bool:
        """Whether the line is where it is when nobody says where."""
        return self.given == DEFAULT

    @property
    def speaks_of_scores(self) -> bool:
        """Whether verdicts show scores, not logits: somebody said where the cut is, and there are probabilities."""
        return not self.usual and self.probability is not None

    def sentence(self, favourable: str, named: bool, rows: str) -> str:
        """Where the cut is and how many are accepted; empty where there is nothing to say. `named`: whether somebody
        said which label is favourable. `rows`: what the pool consists of."""
        decided = f"{'Accepted' if named else 'Decided'} '{favourable}'"
        at = "" if self.probability is None else f"from a probability of {shown(self.probability)[0]} on"
        if self.share is None:
            share = percent(self.accepted / self.pool) if self.pool else ""
            return f"{decided} {at}; {share} of {self.pool} {rows} are." if at and share else ""
        tied = f" {self.ties} tie for the last place, and all of them have one." if self.ties else ""
        best = f"the best {share_in_words(self.share)} % of {self.pool} {rows}, {self.accepted} of them"
        return f"{decided}: {best}{', ' * bool(at)}{at}.{tied}"

    def alike(self, favourable: str, other: str, named: bool, command: bool) -> str:
        """That everybody is decided alike, and which threshold decides as often as the recorded labels do; empty where
        they are not. `command`: whether whoever reads it typed one."""
        if self.pool < FEWEST or 0 < self.accepted < self.pool:
            return ""
        share, favoured = share_in_words(self.recorded), bool(self.accepted)
        option = f"`--threshold 'top {share}%'`" if command else f'`threshold="top {share}%"`'
        if named:
            decides = f"accepts {'all' if favoured else 'none of the'} {self.pool} people"
            labels = f"Recorded labels accept {share} %"
        else:
            decides = f"decides '{favourable if favoured else other}' about all {self.pool} people"
            labels = f"Of the recorded labels {share} % are '{favourable}'"
        if self.share is not None:
            return f"This model {decides}: all of them have the same score."
        at = "This" if self.probability is None else f"At {self.given} this"
        return f"{at} model {decides}. {labels}: {option} decides as often."


def score(logit: float, cut: float, towards: bool) -> float:
    """The score of somebody whose logit is measured from the `cut`, a score too. `towards`: whether logits above 0 mean
    the favourable label."""
    at = (logit if towards else -logit) + log_odds(cut)
    return 1 / (1 + math.exp(-at)) if at >= 0 else math.exp(at) / (1 + math.exp(at))


def log_odds(probability: float) -> float:
    inside = min(max(probability, CLIP), 1 - CLIP)
    return math.log(inside) - math.log1p(-inside)


def shown(*scores: float) -> list[str]:
    """Scores with as many decimals, at least two, as it takes to tell different ones apart."""
    for digits in range(2, MOST_DIGITS):
        texts = [f"{each:.{digits}f}" for each in scores]
        if len(set(texts)) == len(set(scores)):
            return texts
    return [f"{each:.{MOST_DIGITS}f}" for each in scores]


def course(before: float, after: float | None, cut: float, cut_after: float | None = None) -> str:
    """ "score 0.74 → 0.83, cut 0.80"; where the cut moves, from where to where."""
    known = [each for each in (before, cut, after, cut_after) if each is not None]
    text = dict(zip(known, shown(*known), strict=True))
    scores = text[before] if after is None else f"{text[before]} → {text[after]}"
    moved = "" if cut_after is None or text[cut_after] == text[cut] else f" → {text[cut_after]}"
    return f"score {scores}, cut {text[cut]}{moved}"


def what_moved(logit: float, after: float, cut_moved: float) -> str:
    """Whether the score or the cut brought a change about. `logit` and `after` are measured from the cut before and
    after; `cut_moved` is how far that moved, on the same scale."""
    change = after - logit
    ours = (change + cut_moved) / change if change else 1.0
    if ours > 2 - MOSTLY:
        return "The score moved; the cut moved too, against it."
    if ours >= MOSTLY:
        return "The score moved, not the cut."
    if ours <= 1 - MOSTLY:
        return "The cut moved, not the score: the scores of others did."
    return f"Both moved: {percent(ours)} of the change is the score's, {percent(1 - ours)} the cut's."


def share_in_words(share: float) -> str:
    """A share in per cent, without the sign: whole, or to two digits of what is near to nobody or everybody."""
    edge = 100 * min(share, 1 - share)
    digits = 0 if edge >= 10 or edge <= 0 else 1 - math.floor(math.log10(edge))
    text = f"{100 * share:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
