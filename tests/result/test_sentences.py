"""What verdicts say: why somebody was not audited, scores or margins, close calls, doubtful labels."""

from dataclasses import replace

import pytest

from butfor.data.labels import label_names
from butfor.decide import DecisionFacts
from butfor.errors import plural
from butfor.result.fresh import FreshSeeds
from butfor.result.population import Population
from butfor.result.reviewed import TrainingLabel, expectation
from butfor.result.run import Data, Run
from butfor.result.verdict import Flip, Person, Verdict
from butfor.result.worlds import OneStandard, World
from conftest import changed

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


def verdict(run=RUN, **known) -> Verdict:
    usual = {"case": 36, "row": 541, "group": "yes", "values": {}, "logit": 0.5, "flippable": 9}
    return Verdict(Person(**usual | known), run)


def test_labels_that_say_nothing_alone_come_with_their_column():
    assert label_names(["no", "yes"], "deny") == ("deny = no", "deny = yes")
    assert label_names(["0", "1"], "deny") == ("deny = 0", "deny = 1")
    assert label_names([False, True], "deny") == ("deny = False", "deny = True")
    assert label_names(["bad", "good"], "credit") == ("bad", "good")
    assert label_names(["no", "yes"]) == ("no", "yes")


def test_why_somebody_was_not_audited_is_said_in_words():
    accepted = verdict(eligible=False, left_out="decision", logit=-0.5, switch_changes=True)
    assert accepted.sentence == "Person 36 (row 541) was not audited: the decision is 'deny = no'."
    switched = verdict(eligible=False, left_out="switch", switch_changes=True)
    assert switched.reason == "the decision changes when afam alone is switched, so the model uses it directly."
    for phi in ("in_group(afam, yes)", "~predicted(no)"):
        other = verdict(replace(RUN, phi=phi), eligible=False, switch_changes=True)
        assert other.reason == f"the rule φ ({phi}) leaves this person out."


def test_who_was_audited_is_counted_by_reason():
    accepted = [verdict(eligible=False, left_out="decision", logit=-0.5) for _ in range(3)]
    people = [verdict(), *accepted, verdict(eligible=False, left_out="switch", switch_changes=True)]
    assert Population(people, RUN).audited == (
        "Audited: 1 of 5 people; 3 got 'deny = no'; 1 changes when afam alone is switched."
    )


def test_people_are_named_as_the_table_names_them():
    named = replace(RUN, data=replace(RUN.data, identifier="ref"))
    for person, name in (
        (verdict(), "person 36 (row 541)"),
        (verdict(row=36), "person 36"),
        (verdict(case=None), "the person of row 541"),
        (verdict(named, row="A-17"), "person 36 (ref A-17)"),
    ):
        assert f"found for {name}: 'deny = yes' stays" in person.sentence


def test_scores_are_probabilities_of_the_favourable_label_and_margins_stay_margins():
    found = {"flip_set": (Flip(3, 3, "deny = yes", {}),), "counterfactual_logit": -0.2}
    assert verdict(**found).course_in_words == "score 0.38 → 0.55"
    assert verdict(**found).measured_before == "0.38"
    assert RUN.measured(0.0) == "0.50"
    margins = replace(RUN, log_odds=False)
    assert verdict(margins, **found).course_in_words == "margin +0.50 → −0.20"
    assert margins.measure == "margin"
    at_80 = replace(RUN, decision=DecisionFacts(given=0.8, cut=True, probability=0.8))
    assert at_80.score_of(0.0) == pytest.approx(0.8)


def test_a_close_call_is_said_first():
    seeds = FreshSeeds(29, 29, 15, 14, 0)
    close = verdict(flip_set=(Flip(3, 3, "deny = yes", {}),), counterfactual_logit=-0.2, fresh=seeds)
    assert close.sentence.startswith(
        "A close call: 15 of 29 fresh seeds decide differently on the unchanged data. Flipping 1 of 100 training "
    )
    steady = changed(close, fresh=FreshSeeds(29, 29, 1, 28, 0))
    assert steady.sentence.startswith("Flipping 1 of 100")


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
    close = verdict(fresh=FreshSeeds(5, 5, 1, 4, 0), flip_set=(Flip(3, 3, "deny = yes", {}),))
    assert "without them, 1 does" in close.belief
    assert "1 of 5 fresh seeds decides differently" in close.sentence
    wrong = TrainingLabel(0, 0, "f", "no", 0.5, 0.9)
    assert expectation([wrong]).startswith("About 1 of these 1 labels is likely to be wrong")


def test_counts_and_rates_of_the_worlds_have_one_range():
    turned = [9, 9, 10, 11, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 15, 15, 16, 17, 18, 19]
    worlds = tuple(World(k, 0.1, 5, n, {"yes": (60 + n) / 85}) for k, n in enumerate(turned))
    found = OneStandard(
        attribute="afam",
        group="yes",
        labels=100,
        asked=476,
        people=85,
        refused=25,
        adverse_now=(),
        worlds=worlds,
        changed=(),
        rates={"yes": 60 / 85},
    )
    low, high = found.interval
    assert (low, high) == (9, 18)
    assert found.rates_in_worlds["yes"][1:] == pytest.approx(((60 + low) / 85, (60 + high) / 85))
    assert found.sentence == "Under one standard, about 13 of 85 decisions on afam = yes would change (9 to 18)."
