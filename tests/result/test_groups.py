"""Comparing groups: Fisher's test, and the attribute shuffled."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from msgspec import convert
from scipy.stats import fisher_exact

import butfor
from butfor.data.sensitive import Sensitive
from butfor.result.groups import Shuffles, compare
from butfor.result.record import stored


def people(shares, n=60, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat(list(shares), n)
    turned = rng.random(len(groups)) < np.repeat(list(shares.values()), n)
    return groups, turned


def test_the_two_furthest_apart_are_compared_by_fishers_test():
    groups, turned = people({"a": 0.1, "b": 0.7, "c": 0.4})
    found = compare(groups, turned)
    assert (found.most, found.least, found.pairs) == ("b", "a", 3)
    counts = [[int(turned[groups == g].sum()), int((~turned[groups == g]).sum())] for g in ("b", "a")]
    assert found.p_value == pytest.approx(min(1.0, 3 * fisher_exact(counts)[1]))
    assert found.difference == pytest.approx(turned[groups == "b"].mean() - turned[groups == "a"].mean())
    assert "only shuffling it can tell (--shuffles 19)" in found.sentence


def test_chance_is_called_chance():
    groups, turned = people({"a": 0.3, "b": 0.3})
    assert "may be chance" in compare(groups, turned).sentence
    assert compare(["a"] * 5, turned[:5]) is None


def test_shuffles_decide_what_is_claimed():
    groups, turned = people({"a": 0.1, "b": 0.7})
    as_usual = compare(groups, turned, Shuffles(0.2, tuple([0.25] * 19)))
    assert as_usual.shuffles.p_value == 1.0
    assert "So groups differ as groups of these sizes do anyway." in as_usual.sentence
    more = compare(groups, turned, Shuffles(0.6, tuple([0.1] * 19)))
    assert more.shuffles.p_value == pytest.approx(0.05)
    assert "So groups differ more than groups of these sizes do anyway." in more.sentence
    four = np.array(["a", "a", "b", "b"], dtype=object), np.array([True, False, False, False])
    few = compare(*four, Shuffles(0.6, tuple([0.1] * 19)))
    assert (
        "may be chance. By who is turned by the first set of the whole budget, groups are up to 60.0 points"
        in few.sentence
    )
    assert convert(json.loads(json.dumps(stored(more.shuffles))), Shuffles) == more.shuffles


def test_groups_that_would_share_a_name_are_refused():
    X = pd.DataFrame({"sex": ["a · b", "a"] * 4, "race": ["c", "b · c"] * 4, "x": range(8)})
    with pytest.raises(butfor.errors.TableError, match="two groups would have one name"):
        Sensitive.of(["sex", "race"], X)
    assert len(set(Sensitive.of(["sex"], X).values)) == 2
    holes = pd.DataFrame({"sex": ["missing", None, "b", "b"]})
    with pytest.raises(butfor.errors.TableError, match="'sex' has the value 'missing' and missing values"):
        Sensitive.of("sex", holes)
    assert set(Sensitive.of("sex", holes.iloc[1:]).values) == {"missing", "b"}


def test_direct_dependence_comes_first():
    data = butfor.load_dataset("german")
    X, y = data.X_train, data.y_train
    men = (X["sex"] == "male").astype(int).to_numpy()
    from sklearn.linear_model import LogisticRegression

    audit = butfor.LabelAudit(LogisticRegression(max_iter=2000), budget=2, phi="everyone")
    audit.fit(X[["sex", "age"]], np.where(men == 1, 1, y), sensitive_features="sex")
    people = data.X_test[["sex", "age"]]
    population = audit.explain_all(people, cases=range(15))
    other = people[:15].assign(sex=people["sex"][:15].map({"male": "female", "female": "male"}))
    changed = (audit.model_.logits(other) > 0) != (audit.model_.logits(people[:15]) > 0)
    assert [v.switch_changes for v in population] == list(changed)
    assert f"{changed.sum()} of 15 decisions change" in population.direct
    assert "when 'sex' alone is switched (of 'female'" in population.direct
    assert population.by_group["switch_changes"].sum() == changed.sum()
    assert "Direct dependence." in population.to_html()
    assert [v.switch_changes for v in butfor.Population.from_json(population.to_json())] == list(changed)
    blind = butfor.LabelAudit(LogisticRegression(max_iter=2000), budget=2)
    blind.fit(X[["age", "amount"]], y, sensitive_features=X["sex"])
    told = blind.explain_all(data.X_test[["age", "amount"]], sensitive_features=data.X_test["sex"], cases=range(3))
    assert "does not see 'sex'" in told.direct
    assert {v.switch_changes for v in told} == {None}


def test_only_proofs_say_that_no_set_exists():
    from sklearn.linear_model import RidgeClassifier

    data = butfor.load_dataset("german")
    X, people = data.X_train.select_dtypes("number"), data.X_test.select_dtypes("number")
    audit = butfor.LabelAudit(RidgeClassifier(), budget=2, phi="everyone", psi="everything")
    audit.fit(X, data.y_train, sensitive_features=data.X_train["sex"])
    proven = audit.explain_all(people, sensitive_features=data.X_test["sex"], cases=range(20))
    assert any(v.status == "proven_none" for v in proven)
    searched = butfor.Population(
        [replace(v, at_least=None, proof=None) if v.status == "proven_none" else v for v in proven], proven.run
    )
    none = sum(v.status == "proven_none" for v in proven)
    assert f"for {none} people there is none within the budget" in proven.proven
    assert "for 0 people there is none within the budget" in searched.proven
    assert not any(v.status == "proven_none" for v in searched)
