"""φ and ψ: what the published rules mean, how rules compose, and how they are read from text."""

import dataclasses
import pickle

import numpy as np
import pytest

from butfor.errors import SettingError
from butfor.search import rules


@pytest.fixture(scope="module")
def situation(salary):
    audit, data = salary
    return audit.fitted_.people(data.X_test)[0]


def test_the_published_rules_row_by_row_with_few_masks_for_everyone(situation, monkeypatch):
    s, sex = situation, situation.table.X["Sex"].to_numpy()
    other = s.people.assign(Sex=1 - s.people["Sex"])
    stable = (s.model.logits(other) > 0) == (s.predictions == 1)
    assert np.array_equal(rules.stable_under_switch()(s), stable)
    assert 0 < stable.sum() < len(stable)
    allowed = rules.flippable(rules.as_rule("published", "psi"), s)
    pairs = zip(s.people["Sex"], s.predictions, strict=True)
    rows = [
        (sex == own) & (s.table.zero_one == given) & (s.training_decisions == given)
        for own, given in pairs
    ]
    expected = np.array(rows)
    assert np.array_equal([*allowed], expected)
    assert len(allowed.masks) == len(np.unique(expected, axis=0)) <= 4
    monkeypatch.setattr(rules, "MASK_ENTRIES_AT_ONCE", 3 * s.table.n)
    assert np.array_equal([*rules.flippable(rules.published_psi(), s)], expected), (
        "three people at a time"
    )
    assert np.array_equal(allowed.counts, expected.sum(axis=1))
    pair = np.flatnonzero(expected[0])[:2]
    assert np.array_equal(allowed.permits(pair), expected[:, pair].all(axis=1))
    assert np.array_equal([*allowed.of_people([2, 0])], expected[[2, 0]])


def test_rules_compose_and_survive_text_and_pickling_and_callables_and_masks_are_rules(situation):
    s = situation
    one, female, stable = (
        s.predictions == 1,
        s.people["Sex"].to_numpy() == 0,
        rules.stable_under_switch()(s),
    )
    for text, expected in (
        ("everyone", one | ~one),
        ("predicted(1) & in_group(Sex, 0)", one & female),
        ("in_group(Sex, 0) | predicted(1) & everyone", female | one),
        ("~(in_group(Sex,0)|predicted(1))", ~(female | one)),
        ("stable_under_switch(Sex) & ~predicted(0)", stable & one),
    ):
        rule = rules.as_rule(text, "phi")
        for same in (rule, rules.as_rule(rule.text, "phi"), pickle.loads(pickle.dumps(rule))):
            assert same.text == rule.text
            assert np.array_equal(same(s), expected), text
    admitted = [
        why is None
        for why in rules.why_left_out(rules.as_rule(lambda s: s.people["Year"] > 5, "phi"), s)
    ]
    assert np.array_equal(admitted, s.people["Year"] > 5)
    assert rules.flippable(
        rules.as_rule(np.arange(s.table.n) < 3, "psi"), s
    ).counts.sum() == 3 * len(s.people)


def test_labels_are_named_by_name_or_value_and_any_value_is_read_back(situation):
    cases = [
        (situation.label_names, situation.label_names[1], 1),
        (("label = 1", "label = 0"), 0, 1),
    ]
    cases += [(("granted = False", "granted = True"), False, 0)]
    cases += [
        (("other", odd), odd, 1)
        for odd in ("bad, (credit)", "it's", 'a "b"', "x & y", "True", "two words")
    ]
    for names, value, decision in cases:
        named, rule = (
            dataclasses.replace(situation, label_names=names),
            rules.predicted(value) & rules.everyone(),
        )
        for same in (rule, rules.as_rule(rule.text, "phi")):
            assert np.array_equal(same(named), named.predictions == decision)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("nobody", "no rule 'nobody'"),
        ("everyone &", "cannot be read"),
        ("predicted(bad credit)", "near 'bad credit)'"),
        ("in_group(Sex)", "does not take 1 argument"),
        ("in_group(Sex, value=1)", "is not a rule"),
        ("predicted(print())", "put it in quotes"),
        ("predicted({[1]: 2})", "put it in quotes"),
        ("~" * 5000 + "everyone", "nested too deeply"),
        ("", "cannot be read"),
        (rules.stable_under_switch("Age"), "names column 'Age'"),
        (rules.in_group("Sex", 7), "no value '7'"),
        (rules.predicted("maybe"), "there is no label"),
        ([1, 2, 3], "boolean mask"),
        (np.array([True, False]), "shape"),
    ],
)
def test_what_is_no_rule_or_about_what_is_not_there_is_explained(situation, asked, said):
    with pytest.raises(SettingError) as caught:
        rules.why_left_out(rules.as_rule(asked, "phi"), situation)
    assert said in str(caught.value)
    assert not isinstance(asked, str) or "stable_under_switch" in str(caught.value)
