"""What verdicts, populations, runs and worlds say, with a reader's names and without."""

import math
from dataclasses import replace

import pytest

from butfor.result.population import Population
from butfor.result.reviewed import TrainingLabel, expectation
from butfor.result.run import Performance
from butfor.result.verdict import Flip, Person, Verdict
from butfor.support.errors import plural
from butfor.table.decisions import DecisionFacts
from butfor.words.figures import share_in_words, told_apart
from butfor.words.names import Names
from recorded import RUN

NAMES = Names(
    people={"noun": "applicants"},
    groups={"afam": {"yes": "Black", "no": "white"}},
    labels={"yes": "were denied", "no": "were approved"},
    columns={"afam": "race"},
)
NAMED = replace(RUN, names=NAMES)
FOUND = {"flip_set": (Flip(3, 3, "deny = yes", {}),), "counterfactual_logit": -0.2}


def verdict(run=RUN, **known) -> Verdict:
    usual = {"case": 36, "row": 541, "group": "yes", "values": {}, "logit": 0.5, "flippable": 9}
    return Verdict(Person(**usual | known), run)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            verdict(**FOUND),
            "Flipping 1 of 100 training labels (1 %) changes the decision about person 36 (line "
            "543) from deny = yes "
            "to deny = no (score 0.38 → 0.55, confirmed by retraining). Not checked under fresh "
            "seeds.",
        ),
        (
            verdict(left_out="rule"),
            f"Person 36 (line 543) was not audited: the rule φ ({RUN.phi}) leaves this person out.",
        ),
        (
            verdict(case=None),
            "No counterfactual dataset found for the person in line 543: the decision stays",
        ),
        (
            verdict(at_least=9, proof="bound"),
            "Proven: flipping up to 3 of the 9 labels allowed cannot change the",
        ),
        (
            verdict(replace(RUN, data=replace(RUN.data, identifier="ref")), row="A-17"),
            "No counterfactual dataset found for person 36 (ref A-17)",
        ),
    ],
    ids=range(5),
)
def test_verdicts_in_words(one, said):
    assert repr(one).startswith(said)
    assert repr(one).endswith(("fair.", "seeds.", "does.", "do.", "out.", "through."))


def test_one_and_many_are_told_apart():
    said = {
        (0.2,): "this label is not",
        (0.8, 0.3): "1 of these 2 labels is",
        (0.8, 0.7): "2 of these 2 labels are",
    }
    for doubts, words in said.items():
        flips = tuple(Flip(k, k, "deny = yes", {}, doubt) for k, doubt in enumerate(doubts))
        assert verdict(flip_set=flips).doubt_sentence.startswith(
            f"By the other groups' standard, {words}"
        )
    assert [plural(k, "person") for k in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
    assert plural(0.6, "of 68 labels is", "of 68 labels are") == "1 of 68 labels is"
    assert expectation([TrainingLabel(0, 0, "f", "no", 0.5, 0.9)]).startswith(
        "About 1 of these 1 labels is likely"
    )
    people = Population(
        [
            verdict(NAMED, **known)
            for known in ({}, {"left_out": "switch"}, {"left_out": "decision", "logit": -0.5})
        ],
        NAMED,
    )
    why = "for 1 the decision is approved; for 1 it changes when race alone is switched."
    assert people.audited == f"Audited: 1 of 3 applicants; {why}"
    poor = Performance(people=9, accuracy=0.6, majority=0.6, by_group=(), commonest="no")
    assert "than always predicting approved (60 %)" in replace(NAMED, performance=poor).no_better
    cut = DecisionFacts(cut=True, probability=0.8)
    assert not replace(NAMED, performance=poor, decision=cut).no_better, (
        "at a threshold that may be wanted"
    )


FIXED = {"given": 0.8, "cut": True, "probability": 0.8}
SEEN = {"people": 476, "favoured": 295, "recorded": 0.88}


def test_scores_are_probabilities_of_the_favourable_label_and_margins_stay_margins():
    assert (RUN.measured(0.5), RUN.measured(0.0)) == ("0.38", "0.50")
    assert verdict(replace(RUN, log_odds=False), **FOUND).course_in_words == "margin +0.50 → −0.20"
    adverse_first = replace(RUN, label_names=("deny = yes", "deny = no"))
    assert (RUN.score_of(800), adverse_first.score_of(800)) == (0, 1)
    for probability in (0.001, 0.26, 0.999):
        for cut in (0.05, 0.5, 0.8):
            p, c = (math.log(share / (1 - share)) for share in (probability, cut))
            decision = DecisionFacts(given=cut, cut=True, probability=cut)
            assert replace(RUN, decision=decision).score_of(c - p) == pytest.approx(probability)
            assert replace(adverse_first, decision=decision).score_of(p - c) == pytest.approx(
                probability
            )


def test_numbers_have_the_decimals_that_tell_them_apart():
    for scores, cuts, said in (
        ((0.741, 0.833), (0.8,), "score 0.74 → 0.83, cut 0.80"),
        ((0.741,), (0.8,), "score 0.74, cut 0.80"),
        ((0.7996, 0.8004), (0.8,), "score 0.7996 → 0.8004, cut 0.8000"),
        ((0.31, 0.36), (0.33, 0.34), "score 0.31 → 0.36, cut 0.33 → 0.34"),
        ((0.31, 0.36), (0.33, 0.33), "score 0.31 → 0.36, cut 0.33"),
        ((0.4996,), (), "score 0.4996"),
    ):
        measured = dict(zip(("score", "counterfactual_score"), scores, strict=False))
        measured |= dict(zip(("cut", "counterfactual_cut"), cuts, strict=False))
        assert verdict(**measured).course_in_words == said
    assert list(told_apart(0.3, 0.3 + 1e-9).values()) == ["0.30", "0.30"]
    assert list(told_apart(0.3, 0.300001, None).values()) == ["0.300000", "0.300001"]
    shares = {0.823: "82", 0.004: "0.4", 0.0178: "1.8", 0.997: "99.7", 0.99962: "99.962", 0.1: "10"}
    assert {share: share_in_words(share) for share in shares} == shares, "never nobody or everybody"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (FIXED | SEEN, "Decided deny = no at a probability of 0.80 or more: 62 % of 476 people."),
        (SEEN, "Decided deny = no: 62 % of 476 people (training labels: 88 %)."),
        ({}, ""),
        (
            {
                "cut": True,
                "share": 0.2,
                "pool": 476,
                "probability": 0.331,
                "accepted": 97,
                "ties": 3,
            },
            "Decided deny = no: the best 20 % of 476 people, 97 of them, at a probability of 0.33 "
            "or more. 3 tie for "
            "the last place and all get one.",
        ),
    ],
)
def test_the_cut_in_a_sentence(facts, said):
    assert replace(RUN, decision=DecisionFacts(**facts)).cut == said


def test_everybody_decided_alike_and_the_way_out():
    def advice(command="", **facts):
        return Population(
            [verdict()], replace(RUN, decision=DecisionFacts(**facts), command=command)
        ).advice

    assert advice("butfor audit", people=1046, favoured=1046, recorded=0.82) == (
        "At 0.5 this model decides deny = no about all 1046 people. Of the training labels, 82 % "
        "are deny = no: "
        "try `--threshold 'top 82%'`."
    )
    nobody = advice(people=1046, favoured=0, recorded=0.12, given=None)
    assert nobody.startswith("This model decides deny = yes about all 1046 people.")
    assert nobody.endswith('try `threshold="top 12%"`.')
    assert not advice(people=3, favoured=3), "three people tell little"
    assert not replace(RUN, decision=DecisionFacts(people=1046, favoured=1046)).cut
    assert not advice(people=1046, favoured=1045)
