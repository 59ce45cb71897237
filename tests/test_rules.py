"""φ and ψ: what the published rules mean, how rules compose, and how they are read from text."""

import dataclasses
import pickle

import numpy as np
import pandas as pd
import pytest

from butfor import rules
from butfor.data.sensitive import group_values
from butfor.errors import SettingError


@pytest.fixture(scope="module")
def situation(salary):
    audit, data = salary
    return audit.fitted_.people(data.X_test)[0]


def test_phi_switches_the_protected_attribute(situation):
    s = situation
    other = s.people.assign(Sex=1 - s.people["Sex"])
    stable = (s.model.logits(other) > 0) == (s.predictions == 1)
    assert np.array_equal(rules.stable_under_switch()(s), stable)
    assert 0 < stable.sum() < len(stable)


def test_the_published_psi_row_by_row(situation):
    s = situation
    allowed = rules.flippable(rules.as_psi("published"), s)
    for person in range(len(s.people)):
        for row in range(s.table.n):
            expected = (
                s.people["Sex"].iloc[person] == s.table.X["Sex"].iloc[row]
                and s.table.zero_one[row] == s.predictions[person]
                and s.training_decisions[row] == s.predictions[person]
            )
            assert allowed[person][row] == expected


def test_masks_are_kept_once_each_however_many_people_have_them(situation, monkeypatch):
    whole = rules.flippable(rules.as_psi("published"), situation).whole()
    monkeypatch.setattr("butfor.rules.BLOCK", 3 * situation.table.n)  # three people at a time
    found = rules.flippable(rules.as_psi("published"), situation)
    assert np.array_equal(found.whole(), whole)
    assert len(found.masks) == len(np.unique(whole, axis=0)) <= 4
    assert np.array_equal(found.counts, whole.sum(axis=1))
    pair = np.flatnonzero(whole[0])[:2]
    assert np.array_equal(found.permits(pair), whole[:, pair].all(axis=1))
    some = found.of_people([2, 0])
    assert np.array_equal(some.whole(), whole[[2, 0]])


def test_rules_compose(situation):
    a, b = rules.predicted(1), rules.in_group("Sex", 0)
    assert np.array_equal((a & b)(situation), a(situation) & b(situation))
    assert np.array_equal((a | b)(situation), a(situation) | b(situation))
    assert np.array_equal((~a)(situation), ~a(situation))
    assert str(~(a & b)) == "~(predicted(1) & in_group(Sex, 0))"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("everyone", rules.everyone()),
        ("stable_under_switch(Sex) & ~predicted(0)", rules.stable_under_switch("Sex") & ~rules.predicted(0)),
        (
            "in_group(Sex, 1) | predicted(1) & everyone",
            rules.in_group("Sex", 1) | (rules.predicted(1) & rules.everyone()),
        ),
        ("~(in_group(Sex,1)|predicted(1))", ~(rules.in_group("Sex", 1) | rules.predicted(1))),
    ],
)  # fmt: skip
def test_rules_are_read_from_text(situation, text, rule):
    assert np.array_equal(rules.as_phi(text)(situation), rule(situation))
    assert np.array_equal(rules.as_phi(rules.as_phi(text).text)(situation), rule(situation))


def test_label_names_are_understood(situation):
    name = situation.label_names[1]
    assert np.array_equal(rules.as_phi(f"predicted({name!r})")(situation), situation.predictions == 1)


def test_labels_that_are_no_text_are_named_by_their_value(situation):
    named = dataclasses.replace(situation, label_names=("granted = False", "granted = True"))
    assert np.array_equal(rules.as_phi("predicted(False)")(named), named.predictions == 0)
    swapped = dataclasses.replace(situation, label_names=("label = 1", "label = 0"))
    assert np.array_equal(rules.as_phi("predicted(0)")(swapped), swapped.predictions == 1)


@pytest.mark.parametrize("value", ["bad, (credit)", "it's", 'a "b"', "x & y", "True", "two words"])
def test_any_value_can_be_named_and_read_back(situation, value):
    named = dataclasses.replace(situation, label_names=("other", value))
    rule = rules.predicted(value) & rules.everyone()
    assert np.array_equal(rules.as_phi(rule.text)(named), named.predictions == 1)


def test_rules_survive_pickling(situation):
    rule = rules.as_phi("stable_under_switch(Sex) & ~(predicted(0) | in_group(Sex, 1))")
    again = pickle.loads(pickle.dumps(rule))
    assert again.text == rule.text
    assert np.array_equal(again(situation), rule(situation))


def test_callables_and_masks_are_rules(situation):
    rich = rules.as_phi(lambda s: s.people["Year"] > 5)
    assert np.array_equal(
        [why is None for why in rules.why_left_out(rich, situation)], situation.people["Year"].to_numpy() > 5
    )
    mask = np.arange(situation.table.n) < 3
    assert rules.flippable(rules.as_psi(mask), situation).counts.sum() == 3 * len(situation.people)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nobody", "no rule 'nobody'"),
        ("everyone &", "cannot be read"),
        ("(everyone", "cannot be read"),
        ("everyone everyone", "cannot be read"),
        ("predicted(bad credit)", "near 'bad credit)'"),
        ("in_group(Sex)", "does not take 1 argument"),
        ("in_group(Sex, value=1)", "is not a rule"),
        ("predicted(print())", "put it in quotes"),
        ("__import__('os')", "no rule '__import__'"),
        ("every?one", "cannot be read"),
        ("~" * 5000 + "everyone", "nested too deeply"),
        ("", "cannot be read"),
    ],
)
def test_text_that_is_no_rule_is_explained(text, said):
    with pytest.raises(SettingError) as caught:
        rules.as_phi(text)
    assert said in str(caught.value)
    assert "stable_under_switch" in str(caught.value)


def test_rules_about_what_is_not_there_are_refused(situation):
    with pytest.raises(SettingError, match="names column 'Age'"):
        rules.stable_under_switch("Age")(situation)
    with pytest.raises(SettingError, match="no value '7'"):
        rules.in_group("Sex", 7)(situation)
    with pytest.raises(SettingError, match="there is no label"):
        rules.predicted("maybe")(situation)
    with pytest.raises(SettingError, match="boolean mask"):
        rules.as_psi([1, 2, 3])
    with pytest.raises(SettingError, match="shape"):
        rules.why_left_out(rules.as_phi(np.array([True, False])), situation)
    with pytest.raises(SettingError, match="too many for a protected attribute"):
        group_values(pd.Series(range(30)), "age")
