"""Audits through the public door: what is found, that it is true, and that it can be run again."""

from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from benchmarks.work import reference_fits
from butfor.errors import SettingError, TableError
from butfor.models.network import NetworkEngine
from butfor.nets import train_one
from butfor.result.population import Population
from conftest import fitted, odd_table, press


def found_cases(population: Population) -> set[int]:
    return {v.case for v in population.found}


# --- the published row for Salary, and what exhaustive enumeration must contain -------------------------


def test_salary_reproduces_published_counts_and_enumeration_finds_whatever_a_ranking_finds(salary, salary_population):
    assert len(salary_population.eligible) == 10
    assert {v.flippable for v in salary_population.eligible} == {8, 9}
    assert found_cases(salary_population) == {4, 6, 9}
    audit, data = salary
    for rank, published in (("combined", 3), ("surrogate", 3), ("chance", 1), ("distance", None), ("activation", None)):
        population = audit.with_search(strategy="singles", rank=rank).explain_all(data.X_test)
        assert found_cases(population) <= {4, 6, 9}
        assert published in (None, len(population.found))


def test_enumeration_is_what_retraining_every_label_by_hand_gives(salary, salary_population):
    audit, data = salary
    network, rows, X = audit.model_.network, audit.model_.rows, audit.model_.encoded(data.X_test)
    before, by_hand = network.predict(X), set()
    own = network.predict(rows.X)
    for row in range(rows.n):
        after = train_one(network.recipe, rows, (row,)).predict(X)
        same = data.X_test["Sex"].to_numpy() == data.X_train["Sex"].iloc[row]
        allowed = same & (rows.y[row] == before) & (own[row] == before)
        by_hand |= set(np.flatnonzero(allowed & (after != before)).tolist())
    assert found_cases(salary_population) == by_hand & {v.case for v in salary_population.eligible}


# --- engines, sharing, stopping ---------------------------------------------------------------------------


def test_the_engine_does_not_change_the_answer():
    answers = []
    for engine in ("joblib", "fused", "stacked"):
        audit, data = fitted("salary", strategy="attempts", budget=2, engine=engine)
        answers.append([(v.status, v.positions, v.attempts) for v in audit.explain_all(data.X_test, cases=[2, 4, 6])])
    assert answers[0] == answers[1] == answers[2]


def test_a_person_alone_gets_the_answer_given_in_company(salary, salary_population):
    audit, data = salary
    for case, person in ((4, data.X_test.iloc[4]), (7, data.X_test.iloc[[7]]), (10, data.X_test.iloc[[10]])):
        alone = audit.explain(person)
        assert (alone.case, alone.status) == (None, salary_population[case].status)
        assert alone.logit == pytest.approx(salary_population[case].logit, abs=1e-6)


def test_sharing_finds_no_fewer_people_with_no_more_retrainings():
    def prefixes(person):
        """Algorithm 1, but a set that was trained for somebody else will do."""
        for k in range(1, person.budget + 1):
            if person.smallest():
                break
            yield person.best(k)
        return person.smallest()

    audit, data = fitted("german")
    alone, shared = (
        audit.with_search(strategy=strategy, rank="combined").explain_all(data.X_test, cases=range(40))
        for strategy in ("algorithm1", prefixes)
    )
    assert found_cases(alone) < found_cases(shared)
    assert shared.run.retrainings <= alone.run.retrainings
    assert shared.run.strategy == "prefixes"
    assert not any(verdict.shared for verdict in alone)
    theirs = [verdict for verdict in shared.found if verdict.shared]
    assert theirs
    assert all((verdict.flips["sex"] == verdict.group).all() for verdict in theirs)


def test_every_find_is_confirmed_by_the_reference():
    class Liar(NetworkEngine):
        """An engine that claims every flip changes everything."""

        name, width = "liar", 4

        def fit_many(self, recipe, rows, flip_sets, people, advance=None, seeds=None):
            fits, base = (reference_fits(recipe, rows, sets, people) for sets in (flip_sets, [()]))
            return fits._replace(logits=np.where(base.logits > 0, -1.0, 1.0) * np.ones_like(fits.logits))

    audit, data = fitted("salary", strategy="exhaustive", engine=Liar())
    assert found_cases(audit.explain_all(data.X_test, cases=[4, 5, 6])) == {4, 6}


def test_a_limit_of_trainings_and_ctrl_c_keep_what_is_done():
    class Interrupted(NetworkEngine):
        name, width, calls = "interrupted", 1, 0

        def fit_many(self, recipe, rows, flip_sets, people, advance=None, seeds=None):
            self.calls += 1
            if self.calls == 1:  # all labels of both people are in the first round
                press()
            return reference_fits(recipe, rows, flip_sets, people)

    audit, data = fitted("salary", strategy="exhaustive")
    limited = audit.explain_all(data.X_test, stop=butfor.max_retrainings(4))
    assert limited.run.retrainings == 4
    open_ = [v for v in limited.eligible if not v.complete]
    assert any("stopped before" in v.sentence for v in open_)
    audit, data = fitted("salary", strategy="exhaustive", engine=Interrupted())
    stopped = audit.explain_all(data.X_test, cases=[4, 5])
    assert stopped.interrupted
    assert not all(v.complete for v in stopped)
    assert found_cases(stopped) <= {4}


# --- what a verdict says ----------------------------------------------------------------------------------


def test_a_found_verdict_tells_the_whole_story(salary, salary_population):
    audit, data = salary
    v = salary_population[4]
    assert v.status == "found"
    assert f"from '{v.prediction}' to '{v.counterfactual_prediction}' (" in repr(v)
    row = v.flips.index[0]
    assert v.flips.drop(columns=["label before", "label after"]).loc[row].to_dict() == data.X_train.loc[row].to_dict()
    assert v.flips.loc[row, "label before"] == data.label_names[data.y_train.loc[row]]
    X, y = v.dataset()
    assert X.equals(data.X_train)
    assert list(y.index[y != data.y_train]) == [row]
    retrained = train_one(audit.model_.network.recipe, audit.model_.rows, v.positions)
    logits = retrained.logits(audit.model_.encoded(data.X_test))
    assert v.counterfactual_logit == pytest.approx(logits[4], abs=1e-6)


def test_the_other_results_are_not_called_fair(salary, salary_population):
    none = next(v for v in salary_population if v.status == "proven_none")  # every label was tried
    assert none.flips.empty
    assert none.closest_logit is not None
    audit, data = salary
    again = audit.with_search(strategy="singles", rank="activation").explain_all(data.X_test)
    not_found = next(v for v in again if v.status == "not_found")
    for verdict in (none, not_found):
        assert "does not show that the decision is fair" in repr(verdict)
    not_eligible = salary_population[10]
    assert (not_eligible.status, not_eligible.attempts) == ("not_eligible", 0)
    assert "when Sex alone is switched" in repr(not_eligible)
    empty, _ = fitted("salary", psi=np.zeros(30, dtype=bool))
    verdict = empty.explain_all(data.X_test).eligible[0]
    assert (verdict.status, verdict.attempts) == ("not_found", 0)
    assert "allows no label" in verdict.sentence


def test_populations_add_up(salary_population):
    frame = salary_population.to_frame()
    assert len(frame) == 11
    groups = salary_population.by_group
    assert groups["found"].sum() == (frame["status"] == "found").sum() == 3
    assert groups["eligible"].sum() == 10
    assert ((groups["low"] <= groups["share"]) & (groups["share"] <= groups["high"])).all()
    keystones = salary_population.keystones
    assert keystones["people"].sum() == sum(len(v.positions) for v in salary_population.found)
    assert list(keystones["people"]) == sorted(keystones["people"], reverse=True)


def test_keystones_and_a_table_may_call_columns_alike():
    X = pd.DataFrame({"row": np.arange(60.0), "people": np.arange(60) % 7, "sex": ["a", "b"] * 30})
    audit = butfor.LabelAudit(LogisticRegression(), budget=9, phi="everyone", psi="everything")
    audit.fit(X, (X["row"] > 30).astype(int), sensitive_features="sex")
    found = audit.explain_all(X.iloc[28:34]).keystones
    assert len(found)
    assert found.index.name == "row"
    assert {"row (of the table)", "people (of the table)"} < set(found.columns)


# --- tables of one's own ----------------------------------------------------------------------------------


def test_a_protected_attribute_of_three_values_and_no_validation_rows():
    table = odd_table(240)
    X, y, people = table.drop(columns="granted"), table["granted"], table.drop(columns="granted")[200:]
    net = butfor.MLP(hidden=(8,), max_epochs=20, batch_size=None)
    audit = butfor.LabelAudit(net, members=1, fresh_seeds=0, budget=1)
    audit.fit(X.iloc[:200], y.iloc[:200], sensitive_features="protected group?")
    assert (audit.model_.rows.n, len(audit.table_.X), len(audit.model_.rows.y_val)) == (150, 150, 50)
    population = audit.explain_all(people)
    assert set(population.by_group.index) == {"αλφα", "b & c", "<none>"}
    before, stable = audit.model_.logits(people) > 0, np.ones(40, dtype=bool)
    for value in ("αλφα", "b & c", "<none>"):
        stable &= (audit.model_.logits(people.assign(**{"protected group?": value})) > 0) == before
    assert [v.status != "not_eligible" for v in population] == list(stable)
    assert population.verdicts[0].prediction in ("granted = True", "granted = False")


def test_tables_and_settings_that_cannot_be_audited_are_refused():
    data = butfor.load_dataset("salary")
    X, y, sex = data.X_train, data.y_train, data.X_train["Sex"]
    for wrong, said in (
        ({"sensitive_features": "age"}, "X has no column 'age'"),
        ({"sensitive_features": sex.iloc[:5]}, "each of its 30 rows"),
        ({"sensitive_features": sex.iloc[::-1]}, "index of sensitive_features"),
        ({"y": y.iloc[::-1]}, "same rows in another order"),
        ({"y": y.reset_index(drop=True)}, "different rows"),
        ({"y": y.iloc[:5]}, "30 rows but there are 5 labels"),
        ({"y": y * 0}, "only one class"),
        ({"y": y * 0 + np.arange(len(y)) + 0.5}, "occurs in one row only"),
        ({"X": X.to_numpy()}, "DataFrame"),
        ({"X": X.assign(Year=np.inf)}, "'Year', row"),
    ):
        with pytest.raises(TableError, match=said):
            butfor.LabelAudit().fit(
                **{"X": X, "y": y, "sensitive_features": "Sex", "validation": (data.X_val, data.y_val)} | wrong
            )
    for wrong, said in (
        ({"engine": "turbo"}, "no engine"),
        ({"n_jobs": 0}, "n_jobs=0"),
        ({"fresh_seeds": -1}, "fresh_seeds=-1"),
        ({"members": 0}, "members=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"rank": "best"}, "no ranking"),
        ({"strategy": "fast"}, "no strategy"),
        ({"phi": "nobody"}, "no rule"),
        ({"budget": 0}, "budget=0"),
    ):
        with pytest.raises(SettingError, match=said):
            butfor.LabelAudit(**wrong).fit(X, y, sensitive_features="Sex")


def test_questions_that_cannot_be_answered_are_refused(salary):
    audit, data = salary
    with pytest.raises(SettingError, match="call fit"):
        butfor.LabelAudit().explain(data.X_test.iloc[[0]])
    with pytest.raises(TableError, match="one person"):
        audit.explain(data.X_test)
    with pytest.raises(TableError, match="'Sex' is missing"):
        audit.explain(data.X_test.iloc[[0]].drop(columns="Sex"))
    with pytest.raises(SettingError, match="are 0 to 10"):
        audit.explain_all(data.X_test, cases=[11])
    for nonsense in (5, slice(0, 3), "0:3", [0.5], [True, False]):
        with pytest.raises(SettingError, match="give positions in the table"):
            audit.explain_all(data.X_test, cases=nonsense)
    assert [v.case for v in audit.explain_all(data.X_test, cases=[3, 3, 0])] == [3, 0]
    assert [v.case for v in audit.explain_all(data.X_test, cases=np.arange(11) % 5 == 0)] == [0, 5, 10]


def test_settings_that_change_after_fit_are_not_ignored(salary):
    audit, data = salary
    other = copy(audit).set_params(budget=2)
    with pytest.raises(SettingError, match="'budget' changed since fit: call fit again"):
        other.explain(data.X_test.iloc[[0]])
    assert other.set_params(budget=audit.budget).predict(data.X_test[:1]) in audit.classes_
    assert audit.with_search(strategy="singles").fitted_.strategy.name == "singles"


def test_public_names_are_there_and_others_are_not():
    with pytest.raises(AttributeError, match="'Oracle'"):
        _ = butfor.Oracle
    assert set(butfor.__all__) <= set(dir(butfor))
    assert all(getattr(butfor, name) is not None for name in butfor.__all__)
