"""Scores and cuts in words."""

import math

import pytest

from butfor.result.threshold import ThresholdFacts, course, score, share_in_words, shown, what_moved

FACTS = {"given": 0.5, "probability": 0.5, "share": None, "pool": 1046, "accepted": 1046, "ties": 0, "recorded": 0.82}


def facts(**other) -> ThresholdFacts:
    return ThresholdFacts(**(FACTS | other))


@pytest.mark.parametrize("probability", [0.001, 0.26, 0.8, 0.999])
@pytest.mark.parametrize("cut", [0.05, 0.5, 0.8])
def test_a_score_is_the_probability_whose_log_odds_are_the_logit_from_the_cut(probability, cut):
    odds = [math.log(each / (1 - each)) for each in (probability, cut)]
    assert score(odds[0] - odds[1], cut, towards=True) == pytest.approx(probability)
    assert score(odds[1] - odds[0], cut, towards=False) == pytest.approx(probability)
    assert score(0.0, cut, towards=True) == pytest.approx(cut)


def test_scores_of_models_that_are_certain():
    assert score(800, 0.5, towards=True) == 1
    assert score(800, 0.5, towards=False) == 0


def test_a_course_has_the_decimals_that_tell_the_score_from_the_cut():
    assert course(0.741, 0.833, 0.8) == "score 0.74 → 0.83, cut 0.80"
    assert course(0.741, None, 0.8) == "score 0.74, cut 0.80"
    assert course(0.7996, 0.8004, 0.8) == "score 0.7996 → 0.8004, cut 0.8000"
    assert course(0.31, 0.36, 0.33, 0.34) == "score 0.31 → 0.36, cut 0.33 → 0.34"
    assert course(0.31, 0.36, 0.33, 0.33) == "score 0.31 → 0.36, cut 0.33"
    assert shown(0.3, 0.3) == ["0.30", "0.30"]
    assert shown(0.3, 0.3 + 1e-9) == ["0.300000", "0.300000"]


@pytest.mark.parametrize(
    ("answers", "cuts", "words"),
    [
        ((-1.0, 1.0), (0.0, 0.0), "The score moved, not the cut."),
        ((1.0, -1.0), (0.0, 0.05), "The score moved, not the cut."),
        ((-1.0, -0.99), (0.0, -1.5), "The cut moved, not the score"),
        ((-1.0, -1.2), (0.0, -1.5), "The cut moved, not the score"),
        ((-1.0, 0.5), (0.0, -0.5), "Both moved: 75 % of the change is the score's, 25 % the cut's."),
        ((-1.0, 3.0), (0.0, 2.0), "The score moved; the cut moved too, against it."),
    ],
)
def test_whether_the_score_or_the_cut_moved(answers, cuts, words):
    before, after = (answer - cut for answer, cut in zip(answers, cuts, strict=True))
    assert what_moved(before, after, cuts[1] - cuts[0]).startswith(words)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.823, "82"), (0.004, "0.4"), (0.0178, "1.8"), (0.997, "99.7"), (0.99962, "99.962"), (0.1, "10")],
)
def test_shares_are_not_rounded_to_nobody_or_everybody(share, text):
    assert share_in_words(share) == text


def test_the_cut_in_a_sentence():
    fixed = facts(given=0.8, probability=0.8, pool=476, accepted=295)
    assert fixed.sentence("no", True, "test rows") == (
        "Accepted 'no' from a probability of 0.80 on; 62 % of 476 test rows are."
    )
    assert fixed.sentence("no", False, "people").startswith("Decided 'no' from a probability of 0.80 on; 62 % of 476")
    top = facts(given="top 20%", probability=0.331, share=0.2, pool=476, accepted=95, ties=3)
    assert top.sentence("no", True, "test rows") == (
        "Accepted 'no': the best 20 % of 476 test rows, 95 of them, from a probability of 0.33 on. 3 tie for "
        "the last place, and all of them have one."
    )
    bare = facts(given="top 20%", probability=None, share=0.2, pool=476, accepted=95, ties=0)
    assert bare.sentence("no", True, "test rows") == ("Accepted 'no': the best 20 % of 476 test rows, 95 of them.")
    assert not facts(probability=None).sentence("no", True, "test rows")  # a margin, and nobody said where to cut it


def test_everybody_decided_alike_and_the_way_out():
    assert facts().alike("no", "yes", True, command=True) == (
        "At 0.5 this model accepts all 1046 people. Recorded labels accept 82 %: `--threshold 'top 82%'` decides as often."
    )
    assert facts(accepted=0, recorded=0.12).alike("no", "yes", True, command=False) == (
        "At 0.5 this model accepts none of the 1046 people. Recorded labels accept 12 %: "
        '`threshold="top 12%"` decides as often.'
    )
    assert facts(accepted=0, recorded=0.12).alike("yes", "no", False, command=True) == (
        "At 0.5 this model decides 'no' about all 1046 people. Of the recorded labels 12 % are 'yes': "
        "`--threshold 'top 12%'` decides as often."
    )
    assert facts(probability=None).alike("no", "yes", True, command=True).startswith("This model accepts all 1046")
    assert facts(given=0.9).alike("no", "yes", True, command=True).startswith("At 0.9 this model")
    top = facts(given="top 20%", share=0.2).alike("no", "yes", True, command=True)
    assert top == "This model accepts all 1046 people: all of them have the same score."


def test_few_people_or_two_decisions_are_no_reason_to_say_so():
    assert not facts(accepted=1045).alike("no", "yes", True, command=True)
    assert not facts(accepted=3, pool=3).alike("no", "yes", True, command=True)


def test_scores_are_shown_where_a_cut_was_given_and_there_are_probabilities():
    assert facts(given=0.8, probability=0.8).speaks_of_scores
    assert not facts().speaks_of_scores
    assert not facts(given="top 20%", probability=None, share=0.2).speaks_of_scores
