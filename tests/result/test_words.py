"""What verdicts, populations and worlds say, with a reader's names and without."""

import math
from dataclasses import replace

import pytest

from butfor.data.labels import label_names
from butfor.decide import DecisionFacts
from butfor.errors import plural
from butfor.names import Names
from butfor.result.fresh import Collateral, FreshSeeds
from butfor.result.population import Population
from butfor.result.reviewed import TrainingLabel, expectation
from butfor.result.run import Data, Run
from butfor.result.verdict import Flip, Person, Verdict
from butfor.result.words import alike_sentence, course, cut_sentence, score, share_in_words, shown, what_moved
from butfor.result.worlds import OneStandard, World

RUN = Run(
    butfor="0",
    data=Data(table="t.csv", sha256="", training_rows=100),
    sensitive="afam",
    label_names=("deny = no", "deny = yes"),
    adverse=("deny = yes",),
    learner={},
    seeded=True,
    members=1,
    budget=3,
    rank="r",
    strategy="s",
    phi="stable_under_switch & predicted(yes)",
    psi="published",
    fresh_seeds=29,
    log_odds=True,
)
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


def left_out(why, run=RUN, **known) -> Verdict:
    return verdict(run, eligible=False, left_out=why, **known)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (
            verdict(**FOUND),
            "Flipping 1 of 100 training labels (1 %) changes the decision about person 36 (row 541) from deny = yes to "
            "deny = no (score 0.38 → 0.55, confirmed by retraining). Not checked under fresh seeds.",
        ),
        (
            verdict(NAMED, **FOUND, fresh=FreshSeeds(29, 29, 15, 14, 0)),
            "A close call: 15 of 29 fresh seeds decide differently on the unchanged data. Flipping 1 of 100 training "
            "labels (1 %) changes the decision about applicant 36 (row 541) from denied to approved",
        ),
        (left_out("decision", logit=-0.5), "Person 36 (row 541) was not audited: the decision is deny = no."),
        (left_out("switch", NAMED), "Applicant 36 (row 541) was not audited: the decision changes when race alone is"),
        (left_out("rule"), f"Person 36 (row 541) was not audited: the rule φ ({RUN.phi}) leaves this person out."),
        (verdict(row=36, attempts=4), "No counterfactual dataset found for person 36: the decision stays deny = yes"),
        (verdict(case=None), "No counterfactual dataset found for the person of row 541: the decision stays"),
        (verdict(at_least=9, proof="bound"), "Proven: flipping up to 3 of the 9 labels allowed cannot change the"),
        (verdict(attempts=2, complete=False), "No counterfactual dataset found for person 36 (row 541)"),
    ],
    ids=range(9),
)
def test_verdicts_in_words(one, said):
    assert repr(one).startswith(said)
    assert repr(one).endswith(("fair.", "seeds.", "does.", "do.", "directly.", "out.", "no.", "through."))


def test_rows_are_named_as_the_table_names_them():
    named = replace(RUN, data=replace(RUN.data, identifier="ref"))
    assert "person 36 (ref A-17)" in verdict(named, row="A-17").sentence


def test_who_was_audited_and_why_not_the_others():
    people = [verdict(), *[left_out("decision", logit=-0.5)] * 3, left_out("switch")]
    population = Population(people, RUN)
    why = "for 3 the decision is deny = no; for 1 it changes when afam alone is switched."
    assert population.audited == f"Audited: 1 of 5 people; {why}"
    assert population.left_out == (
        "1 of 2 people whose decision is deny = yes was not audited, because switching afam alone changes that "
        "decision."
    )
    named = Population([replace(v, run=NAMED) for v in people], NAMED)
    assert named.left_out.startswith("1 of 2 applicants whose decision is denied was not audited")


def test_labels_that_say_nothing_alone_come_with_their_column():
    assert label_names(["no", "yes"], "deny") == ("deny = no", "deny = yes")
    assert label_names([False, True], "deny") == ("deny = False", "deny = True")
    assert label_names(["bad", "good"], "credit") == ("bad", "good")
    assert label_names(["no", "yes"]) == ("no", "yes")


@pytest.mark.parametrize(
    ("doubts", "words"),
    [
        ((0.2,), "this label is not doubtful"),
        ((0.8,), "this label is doubtful"),
        ((0.2, 0.3), "none of these 2 labels is doubtful"),
        ((0.8, 0.3), "1 of these 2 labels is doubtful"),
        ((0.8, 0.7, 0.1), "2 of these 3 labels are doubtful"),
    ],
)
def test_how_many_flipped_labels_are_doubtful(doubts, words):
    flips = tuple(Flip(k, k, "deny = yes", {}, doubt) for k, doubt in enumerate(doubts))
    assert verdict(flip_set=flips).doubt_sentence == f"By the other groups' standard, {words}."


def test_one_of_anything_is_spoken_of_as_one():
    assert [plural(k, "person") for k in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
    assert plural(0.6, "of 68 labels is", "of 68 labels are") == "1 of 68 labels is"
    close = verdict(fresh=FreshSeeds(5, 5, 1, 4, 0), **FOUND)
    assert "without them, 1 does" in close.belief
    assert "1 of 5 fresh seeds decides differently" in close.sentence
    assert expectation([TrainingLabel(0, 0, "f", "no", 0.5, 0.9)]).startswith("About 1 of these 1 labels is likely")


def test_side_effects_in_words():
    assert Collateral(99, 3).sentence == "These flips change 3 of 99 other test decisions."
    assert "72.0 % → 71.5 %" in Collateral(99, 3, 0.72, 0.715).sentence


def test_one_standard_says_what_its_range_is_and_counts_and_rates_have_one():
    turned = [9, 9, 10, 11, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 15, 15, 16, 17, 18, 19]
    worlds = tuple(World(k, 0.1, 5, n, {"yes": (60 + n) / 85}) for k, n in enumerate(turned))
    counts = {"labels": 100, "asked": 476, "people": 85, "refused": 25, "adverse_now": (), "changed": ()}
    one = OneStandard(attribute="afam", group="yes", worlds=worlds, rates={"yes": 60 / 85}, **counts)
    assert one.interval == (9, 18)
    assert one.rates_in_worlds["yes"][1:] == pytest.approx((69 / 85, 78 / 85))
    said = "Under one standard for all, the model would probably decide differently about 13 of 85 {} (in 9 of 10 "
    said += "simulated worlds: 9 to 18)."
    assert one.sentence == said.format("people with afam = yes")
    assert one.said(NAMES) == said.format("Black applicants")


# --- scores and cuts ------------------------------------------------------------------------------------


def test_scores_are_probabilities_of_the_favourable_label_and_margins_stay_margins():
    assert (RUN.measured(0.5), RUN.measured(0.0)) == ("0.38", "0.50")
    margins = replace(RUN, log_odds=False)
    assert verdict(margins, **FOUND).course_in_words == "margin +0.50 → −0.20"
    at_80 = replace(RUN, decision=DecisionFacts(given=0.8, cut=True, probability=0.8))
    assert at_80.score_of(0.0) == pytest.approx(0.8)
    assert (score(800, 0.5, towards=True), score(800, 0.5, towards=False)) == (1, 0)
    for probability in (0.001, 0.26, 0.999):
        for cut in (0.05, 0.5, 0.8):
            odds = [math.log(each / (1 - each)) for each in (probability, cut)]
            assert score(odds[0] - odds[1], cut, towards=True) == pytest.approx(probability)
            assert score(odds[1] - odds[0], cut, towards=False) == pytest.approx(probability)


def test_numbers_have_the_decimals_that_tell_them_apart():
    assert course(0.741, 0.833, 0.8) == "score 0.74 → 0.83, cut 0.80"
    assert course(0.741, None, 0.8) == "score 0.74, cut 0.80"
    assert course(0.7996, 0.8004, 0.8) == "score 0.7996 → 0.8004, cut 0.8000"
    assert course(0.31, 0.36, 0.33, 0.34) == "score 0.31 → 0.36, cut 0.33 → 0.34"
    assert course(0.31, 0.36, 0.33, 0.33) == "score 0.31 → 0.36, cut 0.33"
    assert course(0.4996, None, None) == "score 0.4996"
    assert shown(0.3, 0.3 + 1e-9) == ["0.30", "0.30"]
    assert shown(0.3, 0.300001) == ["0.300000", "0.300001"]
    shares = {0.823: "82", 0.004: "0.4", 0.0178: "1.8", 0.997: "99.7", 0.99962: "99.962", 0.1: "10"}
    assert {share: share_in_words(share) for share in shares} == shares, "never nobody or everybody"


@pytest.mark.parametrize(
    ("answers", "cuts", "percent"),
    [((-1, 1), (0, 0), 100), ((1, -1), (0, 0.5), 80), ((-1, -1.2), (0, -1.5), 0), ((-1, 0.5), (0, -0.5), 75)],
)
def test_whether_the_score_or_the_cut_moved(answers, cuts, percent):
    words = f"Of the change, {percent} % comes from the score and {100 - percent} % from the cut."
    assert what_moved(*answers, *cuts, probabilities=False) == words
    probabilities = [1 / (1 + math.exp(-each)) for each in (*answers, *cuts)]
    assert what_moved(*probabilities, probabilities=True) == words


TOP = {"given": "top 20%", "cut": True, "share": 0.2, "pool": 476}
FIXED = {"given": 0.8, "cut": True, "probability": 0.8}
SEEN = {"people": 476, "favoured": 295, "recorded": 0.88}


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (FIXED | SEEN, "Decided 'no' at a probability of 0.80 or more: 62 % of 476 people."),
        (FIXED | {"people": 1}, "Decided 'no' at a probability of 0.80 or more."),
        (FIXED | {"given": None}, "Decided 'no' at a probability of 0.80 or more, the model's own threshold."),
        (SEEN, "Decided 'no': 62 % of 476 people (training labels: 88 %)."),
        ({}, ""),
        (
            TOP | {"probability": 0.331, "accepted": 97, "ties": 3},
            "Decided 'no': the best 20 % of 476 people, 97 of them, at a probability of 0.33 or more. 3 tie for the "
            "last place and all get one.",
        ),
    ],
)
def test_the_cut_in_a_sentence(facts, said):
    assert cut_sentence(DecisionFacts(**facts), "'no'") == said


def test_everybody_decided_alike_and_the_way_out():
    def alike(favoured, recorded, command, **facts) -> str:
        facts = DecisionFacts(people=1046, favoured=favoured, recorded=recorded, **facts)
        return alike_sentence(facts, "'no'", "'yes'", command)

    assert alike(1046, 0.82, True) == (
        "At 0.5 this model decides 'no' about all 1046 people. Of the training labels, 82 % are 'no': "
        "try `--threshold 'top 82%'`."
    )
    assert alike(0, 0.12, False, given=None) == (
        "This model decides 'yes' about all 1046 people. Of the training labels, 12 % are 'no': "
        'try `threshold="top 12%"`.'
    )
    assert [DecisionFacts(people=n, favoured=f).alike for n, f in ((1046, 0), (1046, 1045), (3, 3))] == [
        True,
        False,
        False,
    ]
