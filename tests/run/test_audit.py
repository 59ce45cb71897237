"""Audits through the public door: what is found, that it is true, and that it can be run again."""

import json
from copy import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import butfor
from benchmarks.work import reference_fits
from butfor.errors import ReplayError, SettingError, TableError
from butfor.explain import flippable_labels
from butfor.models.learners import as_learner
from butfor.models.network import MLPLearner, NetworkEngine
from butfor.nets import train_one as train
from butfor.result.fresh import wilson
from butfor.result.population import Population
from butfor.result.verdict import Verdict
from conftest import changed, fitted, odd_table, press


def found_cases(population: Population) -> set[int]:
    return {v.case for v in population.found}


# --- the published row for Salary, and what exhaustive enumeration must contain -------------------------


def test_salary_reproduces_the_published_ground_truth(salary_population):
    assert len(salary_population.eligible) == 10
    sizes = [v.flippable for v in salary_population.eligible]
    assert (min(sizes), max(sizes)) == (8, 9)
    assert found_cases(salary_population) == {4, 6, 9}


@pytest.mark.parametrize(("rank", "published"), [("combined", 3), ("surrogate", 3), ("chance", 1)])
def test_salary_reproduces_published_counts(rank, published):
    audit, data = fitted("salary", strategy="singles", rank=rank)
    population = audit.explain_all(data.X_test)
    assert len(population.found) == population.one_shot == published


@pytest.mark.parametrize("rank", ["combined", "surrogate-signed", "distance", "activation", "chance"])
def test_whatever_a_ranking_finds_enumeration_finds_too(rank, salary_population):
    audit, data = fitted("salary", strategy="singles", rank=rank)
    assert found_cases(audit.explain_all(data.X_test)) <= found_cases(salary_population)


def test_enumeration_is_what_retraining_every_label_by_hand_gives():
    data = butfor.load_dataset("salary")
    model = butfor.MLP(hidden=data.setup.hidden, max_epochs=25, batch_size=data.setup.batch_size)
    encoder = butfor.TableEncoder("embed", data.setup.numeric)
    audit = butfor.LabelAudit(model, encoder=encoder, budget=1, members=1, fresh_seeds=0, strategy="exhaustive")
    audit.fit(data.X_train, data.y_train, sensitive_features="Sex", validation=(data.X_val, data.y_val))
    population = audit.explain_all(data.X_test)
    X = audit.model_.encoder.transform(data.X_test)
    before = audit.model_.network.predict(X)
    by_hand = set()
    for row in range(audit.model_.rows.n):
        after = train(audit.model_.network.recipe, audit.model_.rows, (row,)).predict(X)
        for v in population.eligible:
            person, training = data.X_test.iloc[v.case], data.X_train.iloc[row]
            allowed = (
                person["Sex"] == training["Sex"]
                and audit.model_.rows.y[row] == before[v.case]
                and (audit.fitted_.training_logits > 0)[row] == before[v.case]
            )
            if allowed and after[v.case] != before[v.case]:
                by_hand.add(v.case)
    assert found_cases(population) == by_hand
    assert 0 < len(by_hand) < len(population.eligible)


# --- engines, sharing, stopping ---------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["algorithm1", "singles", "attempts"])
def test_the_engine_does_not_change_the_answer(strategy):
    populations = []
    for engine in ("joblib", "fused", "stacked"):
        audit, data = fitted("salary", strategy=strategy, budget=2, engine=engine)
        populations.append(audit.explain_all(data.X_test, cases=[2, 4, 6]))
    for other in populations[1:]:
        assert [v.status for v in other] == [v.status for v in populations[0]]
        assert [v.positions for v in other] == [v.positions for v in populations[0]]
        assert [v.attempts for v in other] == [v.attempts for v in populations[0]]


def test_a_person_alone_gets_the_answer_given_in_company(salary, salary_population):
    audit, data = salary
    for case in (4, 7, 10):
        alone = audit.explain(data.X_test.iloc[[case]])
        assert alone.case is None
        assert alone.status == salary_population[case].status
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
        audit.with_search(strategy=strategy, rank="combined").explain_all(data.X_test, cases=range(60))
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

        name = "liar"
        width = 4

        def fit_many(self, recipe, rows, flip_sets, people, advance=None, seeds=None):
            fits = reference_fits(recipe, rows, flip_sets, people)
            base = reference_fits(recipe, rows, [()], people)
            return fits._replace(logits=np.where(base.logits > 0, -1.0, 1.0) * np.ones_like(fits.logits))

    honest, data = fitted("salary", strategy="exhaustive", engine="joblib")
    liar, _ = fitted("salary", strategy="exhaustive", engine=Liar())
    cases = [4, 5, 6]
    assert found_cases(liar.explain_all(data.X_test, cases=cases)) == {4, 6}
    assert found_cases(honest.explain_all(data.X_test, cases=cases)) == {4, 6}


def test_retrainings_can_be_limited_and_the_rest_is_marked():
    audit, data = fitted("salary", strategy="exhaustive")
    population = audit.explain_all(data.X_test, stop=butfor.max_retrainings(4))
    assert population.run.retrainings == 4
    open_ = [v for v in population.eligible if not v.complete]
    assert open_
    assert all("stopped before" in v.sentence for v in open_)


def test_an_interrupted_search_keeps_what_is_done(monkeypatch):
    monkeypatch.setattr("butfor.stopping.GRACE", 60.0)  # the machine may be busy

    class Interrupted(NetworkEngine):
        name, width, calls = "interrupted", 1, 0

        def fit_many(self, recipe, rows, flip_sets, people, advance=None, seeds=None):
            self.calls += 1
            if self.calls == 1:  # all labels of both people are in the first round
                press()
            return reference_fits(recipe, rows, flip_sets, people)

    audit, data = fitted("salary", strategy="exhaustive", engine=Interrupted())
    population = audit.explain_all(data.X_test, cases=[4, 5])
    assert population.interrupted
    assert found_cases(population)
    assert not all(v.complete for v in population)


# --- what a verdict says ----------------------------------------------------------------------------------


def test_a_found_verdict_tells_the_whole_story(salary, salary_population):
    audit, data = salary
    v = salary_population[4]
    assert v.status == "found"
    assert v.found
    assert repr(v).startswith("Flipping 1 of 30 training labels (3.3 %) turns ")
    assert v.prediction in repr(v)
    assert v.counterfactual_prediction in repr(v)
    row = v.flips.index[0]
    assert v.flips.drop(columns=["label before", "label after"]).loc[row].to_dict() == data.X_train.loc[row].to_dict()
    assert v.flips.loc[row, "label before"] == data.label_names[data.y_train.loc[row]]
    X, y = v.dataset()
    assert X.equals(data.X_train)
    assert list(y.index[y != data.y_train]) == [row]
    encoded = audit.model_.encoder.transform(data.X_test)
    retrained = train(audit.model_.network.recipe, audit.model_.rows, v.positions).logits(encoded)
    assert v.counterfactual_logit == pytest.approx(retrained[4], abs=1e-6)


def test_the_other_two_results_are_not_called_fair(salary_population):
    none = next(v for v in salary_population if v.status == "proven_none")  # every label was tried
    assert "does not show that the decision is fair" in repr(none)
    assert none.flips.empty
    assert none.closest_logit is not None
    audit, data = fitted("salary", strategy="singles", rank="activation")
    not_found = next(v for v in audit.explain_all(data.X_test) if v.status == "not_found")
    assert "does not show that the decision is fair" in repr(not_found)
    not_eligible = salary_population[10]
    assert not_eligible.status == "not_eligible"
    assert "when Sex alone is switched" in repr(not_eligible)
    assert not_eligible.attempts == 0


def test_records_survive_json_and_replay_from_it_alone(salary, tmp_path):
    audit, _ = salary
    # as the command line has it: tables that remember where they came from
    from butfor.data.table import load_table

    remembered = load_table("salary")
    again = butfor.LabelAudit(
        audit.model, encoder=butfor.TableEncoder("embed", "raw"), members=1, budget=1, strategy="exhaustive",
        fresh_seeds=2,
    ).fit(
        remembered.X_train, remembered.y_train, sensitive_features="Sex",
        validation=(remembered.X_val, remembered.y_val),
    )  # fmt: skip
    population = again.explain_all(remembered.X_test)
    text = population.to_json(tmp_path / "all.json").read_text(encoding="utf-8")
    loaded = Population.from_json(tmp_path / "all.json")
    assert loaded.to_json() == text
    for verdict in loaded.found:
        assert verdict.training is None
        assert butfor.replay(verdict).agrees
        assert verdict.dataset(again.table_)[1].sum() != remembered.y_train.sum()
    one = Verdict.from_json(population[4].to_json())
    assert one.to_dict() == population[4].to_dict()
    assert one.sentence == population[4].sentence


def test_a_changed_record_does_not_replay(salary_population):
    verdict = salary_population[4]
    other_row = (verdict.positions[0] + 1) % verdict.run.data.training_rows
    record = verdict.to_dict()
    record["people"][0]["flip_set"][0]["position"] = other_row
    from butfor.review.replay import replay

    assert not replay(record).agrees
    record["schema_version"] = 99
    with pytest.raises(ReplayError, match="schema_version 99"):
        Verdict.from_dict(record)


def test_a_record_about_an_embedded_set_replays_by_itself(salary_population):
    verdict = salary_population[4]
    assert butfor.replay(verdict)
    assert butfor.replay(Verdict.from_json(verdict.to_json()))


def test_a_table_given_in_python_replays_from_the_verdict_only():
    data = butfor.load_dataset("salary")
    data.X_train.attrs.clear()
    audit = butfor.LabelAudit(
        butfor.MLP((4,), max_epochs=20), encoder=butfor.TableEncoder("embed", "raw"), members=1, budget=3
    )
    audit.fit(data.X_train, data.y_train, sensitive_features="Sex", validation=(data.X_val, data.y_val))
    verdict = audit.explain_all(data.X_test).verdicts[0]
    with pytest.raises(ReplayError, match="given in Python"):
        butfor.replay(Verdict.from_json(verdict.to_json()))
    assert butfor.replay(verdict)
    assert butfor.replay(verdict.to_dict(), audit=audit)


def test_keystones_and_a_table_may_call_columns_alike():
    X = pd.DataFrame({"row": np.arange(60.0), "people": np.arange(60) % 7, "sex": ["a", "b"] * 30})
    audit = butfor.LabelAudit(LogisticRegression(), budget=9, phi="everyone", psi="everything")
    audit.fit(X, (X["row"] > 30).astype(int), sensitive_features="sex")
    found = audit.explain_all(X.iloc[28:34]).keystones
    assert len(found)
    assert found.index.name == "row"
    assert {"row (of the table)", "people (of the table)"} < set(found.columns)


def test_populations_add_up(salary_population):
    frame = salary_population.to_frame()
    assert len(frame) == 11
    assert (frame["status"] == "found").sum() == 3
    groups = salary_population.by_group
    assert groups["found"].sum() == 3
    assert groups["eligible"].sum() == 10
    assert ((groups["low"] <= groups["share"]) & (groups["share"] <= groups["high"])).all()
    keystones = salary_population.keystones
    assert keystones["people"].sum() == sum(len(v.positions) for v in salary_population.found)
    assert list(keystones["people"]) == sorted(keystones["people"], reverse=True)
    with pytest.raises(KeyError, match="no verdict about person 77"):
        salary_population.about(77)


def test_intervals_are_wilson_intervals():
    assert wilson(0, 0) == (0, 1)
    low, high = wilson(5, 10)
    assert (low, high) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 20)[0] == 0
    assert wilson(20, 20)[1] == 1


# --- tables of one's own ----------------------------------------------------------------------------------


def test_a_protected_attribute_of_three_values():
    table = odd_table(300)
    X, y = table.drop(columns="granted"), table["granted"]
    model = butfor.MLP(hidden=(8,), max_epochs=40, batch_size=None)
    audit = butfor.LabelAudit(model, members=1, fresh_seeds=0, budget=1)
    audit.fit(X.iloc[:200], y.iloc[:200], sensitive_features="protected group?")
    population = audit.explain_all(X.iloc[200:])
    assert set(population.by_group.index) == {"αλφα", "b & c", "<none>"}
    before = audit.model_.logits(X.iloc[200:]) > 0
    stable = np.ones(100, dtype=bool)
    for value in ("αλφα", "b & c", "<none>"):
        other = X.iloc[200:].assign(**{"protected group?": value})
        stable &= (audit.model_.logits(other) > 0) == before
    assert [v.status != "not_eligible" for v in population] == list(stable)
    assert population.verdicts[0].prediction in ("granted = True", "granted = False")


def test_without_validation_rows_a_stratified_share_is_set_aside():
    table = odd_table(400)
    audit = butfor.LabelAudit(butfor.MLP(hidden=(4,), max_epochs=5), members=1)
    audit.fit(table.drop(columns="granted"), table["granted"], sensitive_features="région")
    assert audit.model_.rows.n == 300
    assert len(audit.table_.X) == 300
    assert len(audit.model_.rows.y_val) == 100
    assert np.array_equal(audit.model_.encoder.transform(audit.table_.X), audit.model_.rows.X)


def test_an_empty_psi_is_said_not_searched():
    audit, data = fitted("salary", psi=np.zeros(30, dtype=bool))
    verdict = audit.explain_all(data.X_test).eligible[0]
    assert verdict.status == "not_found"
    assert verdict.attempts == 0
    assert "allows no label" in verdict.sentence


def test_a_ranking_of_ones_own_is_recorded_by_name():
    def newest_first(model, table, people):
        return np.tile(np.arange(table.n, dtype=float), (len(people), 1))

    audit, data = fitted("salary", rank=newest_first, strategy="singles")
    assert audit.explain(data.X_test.iloc[[4]]).run.rank == "newest_first"


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (lambda X, y: {"sensitive_features": "age"}, TableError, "X has no column 'age'"),
        (lambda X, y: {"sensitive_features": X["Sex"].iloc[:5]}, TableError, "each of its 30 rows"),
        (lambda X, y: {"sensitive_features": X["Sex"].iloc[::-1]}, TableError, "index of sensitive_features"),
        (lambda X, y: {"y": y.iloc[::-1]}, TableError, "same rows in another order"),
        (lambda X, y: {"y": y.reset_index(drop=True)}, TableError, "different rows"),
        (lambda X, y: {"y": y.iloc[:5]}, TableError, "30 rows but there are 5 labels"),
        (lambda X, y: {"y": y * 0}, TableError, "only one class"),
        (lambda X, y: {"y": y * 0 + np.arange(len(y)) + 0.5}, TableError, "occurs in one row only"),
        (lambda X, y: {"X": X.to_numpy()}, TableError, "DataFrame"),
        (lambda X, y: {"X": X.assign(Year=np.inf)}, TableError, "'Year', row"),
    ],
)
def test_tables_that_cannot_be_audited_are_refused(wrong, error, said):
    data = butfor.load_dataset("salary")
    given = {"X": data.X_train, "y": data.y_train, "sensitive_features": "Sex"} | wrong(data.X_train, data.y_train)
    with pytest.raises(error, match=said):
        butfor.LabelAudit().fit(**given, validation=(data.X_val, data.y_val))


def test_questions_that_cannot_be_answered_are_refused(salary):
    audit, data = salary
    with pytest.raises(SettingError, match="call fit"):
        butfor.LabelAudit().explain(data.X_test.iloc[[0]])
    with pytest.raises(TableError, match="one person"):
        audit.explain(data.X_test)
    with pytest.raises(SettingError, match="are 0 to 10"):
        audit.explain_all(data.X_test, cases=[11])
    for nonsense in (5, slice(0, 3), "0:3", [0.5], [True, False]):
        with pytest.raises(SettingError, match="give positions in the table"):
            audit.explain_all(data.X_test, cases=nonsense)
    assert [v.case for v in audit.explain_all(data.X_test, cases=[3, 3, 0])] == [3, 0]
    mask = np.arange(len(data.X_test)) % 5 == 0
    assert [v.case for v in audit.explain_all(data.X_test, cases=mask)] == list(np.flatnonzero(mask))
    with pytest.raises(TableError, match="'Sex' is missing"):
        audit.explain(data.X_test.iloc[[0]].drop(columns="Sex"))
    wrong_settings = (
        ({"engine": "turbo"}, "no engine"), ({"n_jobs": 0}, "n_jobs=0"),
        ({"fresh_seeds": -1}, "fresh_seeds=-1"), ({"members": 0}, "members=0"),
        ({"random_state": -1}, "random_state=-1"),
        ({"rank": "best"}, "no ranking"), ({"strategy": "fast"}, "no strategy"),
        ({"phi": "nobody"}, "no rule"), ({"budget": 0}, "budget=0"),
    )  # fmt: skip
    for wrong, said in wrong_settings:
        with pytest.raises(SettingError, match=said):  # when it is fitted, before anything is trained
            butfor.LabelAudit(**wrong).fit(
                data.X_train, data.y_train, sensitive_features="Sex", validation=(data.X_val, data.y_val)
            )


def test_a_series_is_a_person_too(salary):
    audit, data = salary
    assert audit.explain(data.X_test.iloc[4]).found


def test_recipes_survive_their_record():
    learner = as_learner(butfor.MLP(hidden=(3, 2), batch_size=None, random_state=5))
    again = MLPLearner.from_record(json.loads(json.dumps(learner.record())))
    assert (again.recipe, again.recipe.hidden) == (learner.recipe, (3, 2))


def test_unknown_public_names_are_not_there():
    with pytest.raises(AttributeError, match="'Oracle'"):
        _ = butfor.Oracle
    assert set(butfor.__all__) <= set(dir(butfor))
    assert all(getattr(butfor, name) is not None for name in butfor.__all__)
    assert isinstance(butfor.load_dataset("salary").X_train, pd.DataFrame)


def test_a_replay_names_flips_that_psi_does_not_allow(salary, salary_population):
    audit, data = salary
    verdict = salary_population.found[0]
    assert butfor.replay(verdict)
    allowed = flippable_labels(audit.fitted_, data.X_test.iloc[[verdict.case]])[0]
    outside = int(np.flatnonzero(~allowed)[0])
    bent = changed(verdict, flip_set=(replace(verdict.flip_set[0], position=outside),))
    assert any(f"position {outside}" in line and "does not allow" in line for line in butfor.replay(bent).differs)


def test_settings_that_change_after_fit_are_not_ignored(salary):
    audit, data = salary
    changed = copy(audit).set_params(budget=2)
    with pytest.raises(SettingError, match="'budget' changed since fit: call fit again"):
        changed.explain(data.X_test.iloc[[0]])
    assert changed.set_params(budget=audit.budget).predict(data.X_test[:1]) in audit.classes_
    assert audit.with_search(strategy="singles").fitted_.strategy.name == "singles"
