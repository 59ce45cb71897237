"""Scores and cuts in words."""

import math

import pytest

from butfor.decide import DecisionFacts
from butfor.result.words import alike_sentence, course, cut_sentence, score, share_in_words, shown, what_moved


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
    assert course(0.446, 0.532, None) == "score 0.45 → 0.53"
    assert course(0.4996, None, None) == "score 0.4996"
    assert shown(0.3, 0.3) == ["0.30", "0.30"]
    assert shown(0.3, 0.3 + 1e-9) == ["0.30", "0.30"]
    assert shown(0.3, 0.300001) == ["0.300000", "0.300001"]


@pytest.mark.parametrize(
    ("answers", "cuts", "words"),
    [
        ((-1.0, 1.0), (0.0, 0.0), "Of the change, 100 % comes from the score and 0 % from the cut."),
        ((1.0, -1.0), (0.0, 0.5), "Of the change, 80 % comes from the score and 20 % from the cut."),
        ((-1.0, -1.2), (0.0, -1.5), "Of the change, 0 % comes from the score and 100 % from the cut."),
        ((-1.0, 0.5), (0.0, -0.5), "Of the change, 75 % comes from the score and 25 % from the cut."),
        ((-1.0, 3.0), (0.0, 2.0), "Of the change, 100 % comes from the score and 0 % from the cut."),
    ],
)
def test_whether_the_score_or_the_cut_moved(answers, cuts, words):
    assert what_moved(*answers, *cuts, probabilities=False).startswith(words)
    probabilities = [1 / (1 + math.exp(-each)) for each in (*answers, *cuts)]
    assert what_moved(*probabilities, probabilities=True).startswith(words)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.823, "82"), (0.004, "0.4"), (0.0178, "1.8"), (0.997, "99.7"), (0.99962, "99.962"), (0.1, "10")],
)
def test_shares_are_not_rounded_to_nobody_or_everybody(share, text):
    assert share_in_words(share) == text


def cut(**facts) -> str:
    return cut_sentence(DecisionFacts(**facts), "no")


def test_the_cut_in_a_sentence():
    seen, fixed = {"people": 476, "favoured": 295, "recorded": 0.88}, {"given": 0.8, "cut": True, "probability": 0.8}
    assert cut(**fixed, **seen) == "Decided 'no' at a probability of 0.80 or more: 62 % of 476 people."
    assert cut(**fixed) == cut(**fixed, people=1) == "Decided 'no' at a probability of 0.80 or more."
    own = "Decided 'no' at a probability of 0.31 or more, the model's own threshold."
    assert cut(given=None, cut=True, probability=0.31) == own
    assert cut(**seen) == "Decided 'no': 62 % of 476 people (training labels: 88 %)."
    assert not cut()


def test_a_moving_cut_in_a_sentence():
    top = {"given": "top 20%", "cut": True, "share": 0.2, "pool": 476}
    assert cut(**top, probability=0.331, accepted=97, ties=3) == (
        "Decided 'no': the best 20 % of 476 people, 97 of them, at a probability of 0.33 or more. 3 tie for "
        "the last place and all get one."
    )
    assert cut(**top, accepted=95) == "Decided 'no': the best 20 % of 476 people, 95 of them."


def alike(favoured=1046, recorded=0.82, command=True, **facts) -> str:
    facts = DecisionFacts(people=1046, favoured=favoured, recorded=recorded, **facts)
    return alike_sentence(facts, "no", "yes", command)


def test_everybody_decided_alike_and_the_way_out():
    assert alike() == (
        "At 0.5 this model decides 'no' about all 1046 people. Of the training labels, 82 % are 'no': "
        "try `--threshold 'top 82%'`."
    )
    assert alike(0, 0.12, command=False) == (
        "At 0.5 this model decides 'yes' about all 1046 people. Of the training labels, 12 % are 'no': "
        'try `threshold="top 12%"`.'
    )
    assert alike(given=None).startswith("This model decides 'no'")
    assert alike(given=0.9, cut=True, probability=0.9).startswith("At 0.9 this model")
    assert alike(given=None, cut=True, probability=0.9).startswith("This model")


def test_few_people_or_two_decisions_are_no_reason_to_say_so():
    assert DecisionFacts(people=1046, favoured=1046).alike
    assert DecisionFacts(people=1046, favoured=0).alike
    assert not DecisionFacts(people=1046, favoured=1045).alike
    assert not DecisionFacts(people=3, favoured=3).alike
