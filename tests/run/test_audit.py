"""Audits through the public door: what is found, that it is true, and that it can be run again."""

from copy import copy

import numpy as np
import pytest

import butfor
from butfor.errors import SettingError, TableError
from butfor.models.network import NetworkEngine
from butfor.models.seam import Training
from butfor.nets import train_one
from butfor.result.population import Population
from conftest import fitted


def found_cases(population: Population) -> set[int]:
    return {v.case for v in population.found}


# --- Salary: the published row, and what every way of asking must contain -------------------------


def test_salary_is_what_retraining_every_label_by_hand_gives_and_rankings_find_the_published_counts(
    salary, salary_population
):
    audit, data = salary
    network, rows, X = audit.model_.network, audit.model_.rows, audit.model_.encoded(data.X_test)
    before, by_hand = network.predict(X), set()
    own = network.predict(rows.X)
    for row in range(rows.n):
        same = data.X_test["Sex"].to_numpy() == data.X_train["Sex"].iloc[row]
        allowed = same & (rows.y[row] == before) & (own[row] == before)
        if allowed.any():
            after = train_one(network.recipe, rows, (row,)).predict(X)
            by_hand |= set(np.flatnonzero(allowed & (after != before)).tolist())
    assert len(salary_population.eligible) == 10
    assert {v.flippable for v in salary_population.eligible} == {8, 9}
    assert (
        found_cases(salary_population)
        == by_hand & {v.case for v in salary_population.eligible}
        == {4, 6, 9}
    )
    for rank, published in (("combined", 3), ("surrogate", 3), ("chance", 1)):
        population = audit.with_search(strategy="singles", rank=rank).explain_all(data.X_test)
        assert found_cases(population) <= {4, 6, 9}
        assert len(population.found) == published


def test_neither_the_engine_nor_who_else_is_asked_about_changes_the_answer(
    salary, salary_population
):
    answers = []
    for engine in ("joblib", "fused", "stacked"):
        audit, data = fitted("salary", strategy="attempts", budget=2, engine=engine)
        answers.append(
            [
                (v.status, v.positions, v.attempts)
                for v in audit.explain_all(data.X_test, cases=[2, 4])
            ]
        )
    assert answers[0] == answers[1] == answers[2]
    for case, person in (
        (4, data.X_test.iloc[4]),
        (7, data.X_test.iloc[[7]]),
        (10, data.X_test.iloc[[10]]),
    ):
        alone = salary[0].explain(person)
        assert (alone.case, alone.status) == (None, salary_population[case].status)
        assert alone.logit == pytest.approx(salary_population[case].logit, abs=1e-6)


def test_who_shares_trainings_finds_no_fewer_people_by_labels_of_their_own_group():
    def prefixes(person):
        """Algorithm 1, but a set that was trained for somebody else will do."""
        for k in range(1, person.budget + 1):
            if person.smallest():
                break
            yield person.best(k)
        return person.smallest()

    audit, data = fitted("german")
    alone, shared = (
        audit.with_search(strategy=strategy, rank="combined").explain_all(
            data.X_test, cases=range(40)
        )
        for strategy in ("algorithm1", prefixes)
    )
    assert found_cases(alone) < found_cases(shared)
    assert shared.run.retrainings <= alone.run.retrainings
    assert shared.run.strategy == "prefixes"
    assert not any(verdict.shared for verdict in alone)
    theirs = [verdict for verdict in shared.found if verdict.shared]
    assert theirs
    assert all((verdict.flips["sex"] == verdict.group).all() for verdict in theirs)


class Liar(butfor.Engine):
    """An engine that claims every flip changes everything."""

    name = "liar"

    def bind(self, learner, table, people):
        base = NetworkEngine().bind(learner, table, people)([Training(())])
        return lambda trainings, advance=None: -np.repeat(np.sign(base), len(trainings), axis=0)


def test_every_find_is_confirmed_by_the_models_own_fit_and_a_limit_of_trainings_is_kept(salary):
    audit, data = fitted("salary", strategy="exhaustive", engine=Liar())
    assert found_cases(audit.explain_all(data.X_test, cases=[4, 5, 6])) == {4, 6}
    limited = salary[0].explain_all(data.X_test, stop=butfor.max_retrainings(4))
    assert limited.run.retrainings == 4
    assert any("stopped before" in v.sentence for v in limited.eligible if not v.complete)


# --- what a verdict says --------------------------------------------------------------------------


def test_verdicts_tell_the_whole_story_and_populations_add_up(salary, salary_population):
    audit, data = salary
    v = salary_population[4]
    assert v.status == "found"
    assert f"from '{v.prediction}' to '{v.counterfactual_prediction}' (" in repr(v)
    row = v.flips.index[0]
    assert (
        v.flips.drop(columns=["label before", "label after"]).loc[row].to_dict()
        == data.X_train.loc[row].to_dict()
    )
    assert v.flips.loc[row, "label before"] == data.label_names[data.y_train.loc[row]]
    X, y = v.dataset()
    assert X.equals(data.X_train)
    assert list(y.index[y != data.y_train]) == [row]
    retrained = train_one(audit.model_.network.recipe, audit.model_.rows, v.positions)
    logits = retrained.logits(audit.model_.encoded(data.X_test))
    assert v.counterfactual_logit == pytest.approx(logits[4], abs=1e-6)
    # The other results are not called fair.
    none = next(v for v in salary_population if v.status == "proven_none")  # every label was tried
    assert none.flips.empty
    assert none.closest_logit is not None
    again = audit.with_search(strategy="singles", rank="activation").explain_all(data.X_test)
    for verdict in (none, next(v for v in again if v.status == "not_found")):
        assert "does not show that the decision is fair" in repr(verdict)
    not_eligible = salary_population[10]
    assert (not_eligible.status, not_eligible.attempts) == ("not_eligible", 0)
    assert "when Sex alone is switched" in repr(not_eligible)
    verdict = (
        copy(audit)
        .set_params(psi=np.zeros(30, dtype=bool))
        .with_search()
        .explain_all(data.X_test)
        .eligible[0]
    )
    assert (verdict.status, verdict.attempts) == ("not_found", 0)
    assert "allows no label" in verdict.sentence
    groups, frame, keystones = (
        salary_population.by_group,
        salary_population.to_frame(),
        salary_population.keystones,
    )
    assert groups["found"].sum() == (frame["status"] == "found").sum() == 3
    assert (groups["eligible"].sum(), len(frame)) == (10, 11)
    assert ((groups["low"] <= groups["share"]) & (groups["share"] <= groups["high"])).all()
    assert keystones["people"].sum() == sum(len(v.positions) for v in salary_population.found)
    assert list(keystones["people"]) == sorted(keystones["people"], reverse=True)


# --- tables of one's own --------------------------------------------------------------------------


DATA = butfor.load_dataset("salary")
X, Y, PEOPLE = DATA.X_train, DATA.y_train, DATA.X_test


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"y": Y.iloc[::-1]}, "same rows in another order"),
        ({"y": Y.reset_index(drop=True)}, "different rows"),
        ({"y": Y.iloc[:5]}, "30 rows but there are 5 labels"),
        ({"y": Y * 0}, "only one class"),
        ({"y": Y * 0 + np.arange(30) + 0.5}, "occurs in one row only"),
        ({"X": X.to_numpy()}, "DataFrame"),
        ({"X": X.assign(Year=np.inf)}, "'Year', row"),
        *(
            (
                {"label_names": names},
                "list one name for each label, all different, in the sorted order",
            )
            for names in (["low", "low"], {0: "low", 1: "high"}, "lh", {"low", "high"}, ["1", "0"])
        ),
        ({"label_names": ["low"]}, "1 names for 2 labels"),
        *(({"also_labelled": rows}, r"give \(X, y\) or") for rows in (X, (X,))),
    ],
)
def test_tables_that_cannot_be_audited_are_refused(table, said):
    with pytest.raises((SettingError, TableError), match=said):
        butfor.LabelAudit().fit(**{"X": X, "y": Y, "sensitive_features": "Sex"} | table)


def test_questions_that_cannot_be_answered_are_refused_and_settings_that_change_after_fit_not_ignored(
    salary,
):
    audit, _ = salary
    other = copy(audit).set_params(budget=2)
    for asked, said in (
        (lambda: butfor.LabelAudit().explain(PEOPLE.iloc[[0]]), "call fit"),
        (lambda: other.explain(PEOPLE.iloc[[0]]), "'budget' changed since fit: call fit again"),
        (lambda: audit.explain(PEOPLE), "one person"),
        (lambda: audit.explain(PEOPLE.iloc[[0]].drop(columns="Sex")), "lacks 'Sex'"),
        (lambda: audit.explain_all(PEOPLE, cases=[11]), "are 0 to 10"),
        (lambda: audit.explain_all(PEOPLE, stop=600), r"stop=600: give butfor\.max_seconds"),
        *((lambda cases=cases: audit.explain_all(PEOPLE, cases=cases), "give positions in the "
                                                                       "table")
          for cases in (5, slice(0, 3), "0:3", [0.5], [True, False])),
    ):  # fmt: skip
        with pytest.raises((SettingError, TableError), match=said):
            asked()
    assert [v.case for v in audit.explain_all(PEOPLE, cases=[3, 3, 0])] == [3, 0]
    assert [v.case for v in audit.explain_all(PEOPLE, cases=np.arange(11) % 5 == 0)] == [0, 5, 10]
    assert other.set_params(budget=audit.budget).predict(PEOPLE[:1]) in audit.classes_
    assert audit.with_search(strategy="singles").fitted_.strategy.name == "singles"
