"""More than two labels, end to end: what is found is what the estimator's own `fit` says, and
nothing else."""

import json
import re
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import butfor
from butfor.errors import LearnerError, SettingError, TableError
from butfor.nets import train_one
from butfor.worlds import draw_world
from recorded import run

ASKED = {"psi": "labelled_as_predicted", "phi": "everyone"}


def wine() -> tuple[pd.DataFrame, pd.Series]:
    """Three labels in words, numbers alone but for the protected column."""
    data = load_wine(as_frame=True)
    X = data.data.assign(cellar=np.where(data.data["hue"] > 1, "old", "new"))
    return X, data.target.map({0: "barolo", 1: "grignolino", 2: "barbera"}).rename("cultivar")


def digits() -> tuple[pd.DataFrame, pd.Series]:
    """Ten labels that are numbers, from 3 on."""
    data = load_digits(as_frame=True)
    X = data.data.iloc[:300, 10:30].assign(pen=np.where(np.arange(300) % 3 > 0, "blue", "black"))
    return X, data.target.iloc[:300] + 3


def student() -> tuple[pd.DataFrame, pd.Series]:
    """The embedded file as it is, the last grade in three bands."""
    raw = pd.read_csv(
        Path(butfor.__file__).parent / "table" / "files" / "student-por.csv.gz", sep=";"
    )
    bands = pd.cut(raw["G3"], [-1, 9, 13, 20], labels=["fail", "pass", "good"]).astype(str)
    return raw[["sex", "age", "address", "studytime", "failures", "absences", "G1"]], bands.rename(
        "grade"
    )


def preprocessed(X: pd.DataFrame, model):
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    rest = [c for c in X if c not in numbers]
    return make_pipeline(make_column_transformer((StandardScaler(), numbers), (words, rest)), model)


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [0.5, "top 30%"])
def test_an_ensemble_is_searched_by_the_mean_of_its_members_scores(threshold):
    """With three labels or with places, the mean of the members' margins would be another
    number."""
    X, y = wine()
    y = y if threshold == 0.5 else y.eq("barolo")
    forest = RandomForestClassifier(n_estimators=3, max_depth=3, random_state=0)
    audit = butfor.LabelAudit(
        forest, members=3, budget=8, threshold=threshold, fresh_seeds=0, **ASKED
    )
    audit.fit(
        X[::2], y[::2], sensitive_features="cellar", pool=None if threshold == 0.5 else X[1::2]
    )
    found = audit.explain_all(X[1::2], cases=range(40)).found
    assert len(found) > 3
    for verdict in found:  # confirmed by `fit`, which the engine runs as well
        assert any(abs(gain - verdict.counterfactual_logit) < 1e-5 for _, gain in verdict.course), (
            verdict.course
        )


BOOSTING = HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=8, random_state=0)


@pytest.mark.parametrize(
    ("table", "protected", "model"),
    [(student, "sex", LogisticRegression(max_iter=500)), (digits, "pen", BOOSTING), (wine, "cellar", SVC()),
     (student, "sex", None)],
    ids=["logistic", "boosting", "svc", "network"],
)  # fmt: skip
def test_every_find_is_what_plain_scikit_learn_or_the_networks_definition_says(
    table, protected, model
):
    X, y = table()
    network = model is None
    model = butfor.MLP(hidden=(8,), max_epochs=20) if network else preprocessed(X, model)
    rows = np.random.default_rng(0).permutation(len(X))
    train, people = np.sort(rows[: 2 * len(X) // 3]), np.sort(rows[2 * len(X) // 3 :])[:3]
    audit = butfor.LabelAudit(
        model, budget=20, members=2 if network else 1, fresh_seeds=2, n_jobs=1, **ASKED
    )
    audit.fit(X.iloc[train], y.iloc[train], sensitive_features=protected)
    population = audit.explain_all(X.iloc[people], y.iloc[people])
    assert population.found
    for v in population.found:
        D, given = v.dataset()
        person = pd.Series(v.values, dtype=object).to_frame().T.astype(D.dtypes)
        recorded = y.loc[given.index]
        changed = given != recorded
        assert changed.sum() == len(v.positions) <= 20
        assert set(given[changed].astype(str)) == {v.new_label.rpartition(" = ")[2]}
        assert v.new_label != v.prediction
        assert v.logit < 0 < v.counterfactual_logit
        for labels, said in ((given, v.counterfactual_prediction), (recorded, v.prediction)):
            decided = (
                _by_hand(audit, labels, person)
                if network
                else model.fit(D, labels).predict(person)[0]
            )
            assert str(decided) == said.rpartition(" = ")[2]
        assert v.counterfactual_prediction != v.prediction


def _by_hand(audit: butfor.LabelAudit, y: pd.Series, person: pd.DataFrame) -> str:
    """What an ensemble of our networks decides by their definition, which tests/nets compares with
    plain PyTorch."""
    codes, scores = audit.table_.numbers_of(y.loc[audit.table_.X.index]), []
    for member in audit.model_.members:
        network = member.as_network
        rows = replace(network.rows, y=codes.astype(np.float32))
        scores.append(train_one(network.network.recipe, rows).logits(network.encoded(person)))
    return str(audit.classes_[int(np.mean(scores, axis=0).argmax())])


@pytest.mark.parametrize(
    ("model", "towards"),
    [(LogisticRegression(C=0.05), "b"), (RidgeClassifier(), None), (KNeighborsClassifier(5), "b"),
     (KNeighborsClassifier(4, weights="distance"), None)],
)  # fmt: skip
def test_single_flips_and_proofs_agree_with_trying_every_set(model, towards):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(24, 3)), columns=list("xyz"))
    y = pd.Series(
        np.array(["a", "b", "c"])[np.argmax(X.to_numpy() + rng.normal(0, 0.7, (24, 3)), axis=1)]
    )
    rows, labels, asked, proves = (
        X.iloc[:14],
        y.iloc[:14],
        X.iloc[14:],
        not isinstance(model, LogisticRegression),
    )
    budget, strategy = (2, None) if proves else (1, "exhaustive")
    audit = butfor.LabelAudit(model, budget=budget, strategy=strategy, **ASKED)
    audit.fit(rows, labels, sensitive_features=np.arange(14) % 2)
    population = audit.explain_all(asked, sensitive_features=np.arange(10) % 2, towards=towards)
    assert any(v.found for v in population)
    decided = clone(model).fit(rows, labels).predict(asked)

    @cache
    def after(some, new):
        """What everyone is told once these labels are others, by the estimator's own fit."""
        changed = labels.copy()
        changed.iloc[list(some)] = new
        return clone(model).fit(rows, changed).predict(asked) if changed.nunique() > 1 else decided

    for k, v in enumerate(population):
        assert v.prediction == decided[k]
        if not v.eligible:
            assert v.prediction == towards
            assert "already" in v.reason
            continue
        mine, fewest = np.flatnonzero(labels == v.prediction).tolist(), None
        for size in (2, 1) if proves else (1,):
            told = [after(some, v.new_label)[k] for some in combinations(mine, size)]
            fewest = (
                size
                if any(now == towards if towards else now != decided[k] for now in told)
                else fewest
            )
        assert v.flippable == len(mine)
        assert v.found == bool(fewest)
        if proves:
            assert v.at_least == fewest if fewest else v.at_least > 2
            assert v.proof == "weight moved between classes"


def test_a_proof_names_the_label_to_which_it_rules_out_flips():
    """A single flip to the third label changes a decision that takes at least two flips to the next
    label."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.normal(size=24), "z": rng.normal(size=24), "g": np.tile([0.0, 1.0], 12)}
    )
    y = pd.Series(rng.choice([*"abc"], 24))
    asked = pd.DataFrame(
        {"x": rng.normal(size=6), "z": rng.normal(size=6), "g": [0.0, 1.0] * 3}
    ).iloc[[2]]
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    audit = butfor.LabelAudit(tree, budget=1, members=1, fresh_seeds=0, n_jobs=1, **ASKED)
    population = audit.fit(X, y, sensitive_features="g").explain_all(asked)
    verdict = population[0]
    assert (verdict.status, verdict.at_least, verdict.new_label) == ("proven_none", 2, "b")
    assert "allowed, to 'b', cannot change the decision" in verdict.sentence
    assert "at least 2 flips to that label" in verdict.sentence
    assert "Flips to other labels are not ruled out." in verdict.sentence
    assert "about flips to the one label that its verdict names" in population.proven
    third = audit.explain(asked, towards="c")
    assert third.found
    assert len(third.positions) == 1
    assert clone(tree).fit(X, y.where(X.index != third.positions[0], "c")).predict(asked)[0] == "c"
    ridge = butfor.LabelAudit(RidgeClassifier(), budget=1, **ASKED).fit(
        X, y, sensitive_features="g"
    )
    (bracket,) = ridge.brackets(asked)
    assert bracket.new_label == ridge.explain(asked).new_label


def test_flips_give_the_likeliest_other_label_however_small_its_probability():
    rng = np.random.default_rng(0)
    y = pd.Series(np.repeat([*"abc"], 30))
    X = pd.DataFrame(
        {
            "x": rng.normal(size=90) + np.repeat([-60.0, -30.0, 0.0], 30),
            "g": np.tile([0.0, 1.0], 45),
        }
    )
    people = X.iloc[[0, 70]]
    for model in (GaussianNB(), make_pipeline(StandardScaler(), GaussianNB())):
        audit = butfor.LabelAudit(model, budget=1, fresh_seeds=0, n_jobs=1, **ASKED).fit(
            X, y, sensitive_features="g"
        )
        assert [verdict.new_label for verdict in audit.explain_all(people)] == ["b", "b"]
        theirs = clone(model).fit(X, y).predict_log_proba(people)
        assert np.allclose(audit.model_.scores(people), theirs, rtol=1e-6)
        assert audit.model_.scores(people).min() < -1000
    forest = RandomForestClassifier(
        n_estimators=3, max_depth=2, random_state=0
    )  # whole shares of votes: none is small
    scores = (
        butfor.LabelAudit(forest, members=1, **ASKED)
        .fit(X, y, sensitive_features="g")
        .model_.scores(people)
    )
    assert np.isfinite(scores).all()
    assert scores.min() == pytest.approx(np.log(1e-9))


def test_with_two_labels_towards_leaves_out_who_has_it():
    data = butfor.load_dataset("salary")
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=5)
    audit.fit(data.X_train, data.y_train, sensitive_features="Sex")
    every, upwards = (audit.explain_all(data.X_test, towards=towards) for towards in (None, 1))
    name = audit.fitted_.label_names[1]
    asked = [v.case for v in every if v.eligible and v.prediction != name]
    assert [(v.case, v.positions) for v in upwards if v.eligible] == [
        (k, every[k].positions) for k in asked
    ]


@pytest.mark.parametrize(
    "model", [LogisticRegression(C=0.02, tol=1e-8), RidgeClassifier()], ids=["logistic", "ridge"]
)
def test_predicted_effects_of_flips_are_those_of_retraining(model):
    """To first order for logistic regression; exactly for ridge."""
    X, y = wine()
    audit = butfor.LabelAudit(preprocessed(X, model), rank="influence", budget=3, n_jobs=1)
    audit.fit(X, y, sensitive_features="cellar", adverse="barbera", draws=20)
    some, rows, scores = (
        X.iloc[[5, 70, 150]],
        np.arange(0, 178, 16),
        audit.model_.scores(X.iloc[[5, 70, 150]]),
    )
    contrast = audit.table_.two_sides.contrast(scores)
    predicted = audit.model_.flip_effects(audit.table_, some)[:, rows].ravel()
    after = [
        audit.learner_.fit(audit.table_, audit.table_.labels((int(row),))).scores(some)
        for row in rows
    ]
    real = np.array([((each - scores) * contrast).sum(axis=1) for each in after]).T.ravel()
    if isinstance(model, RidgeClassifier):
        assert predicted == pytest.approx(real, abs=1e-5)
    assert np.corrcoef(predicted, real)[0, 1] > 0.98
    assert np.polyfit(predicted, real, 1)[0] == pytest.approx(1, abs=0.25)


# --- settings -------------------------------------------------------------------------------------


def test_a_mask_of_ones_own_is_about_everyone_whatever_the_question():
    X, y = wine()
    rows, people = X.iloc[::2], X.iloc[1::45]
    mask = np.random.default_rng(0).random((len(people), len(rows))) < 0.5
    audit = butfor.LabelAudit(
        preprocessed(X, RidgeClassifier()), n_jobs=1, budget=8, phi="everyone", psi=mask
    )
    audit.fit(rows, y.iloc[::2], sensitive_features="cellar")
    population = audit.explain_all(people)
    assert population.found
    for v, mine in zip(population, mask, strict=True):
        assert mine[list(v.positions)].all()
        assert v.flippable == (mine & (y.iloc[::2].to_numpy() != v.new_label)).sum()


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (lambda a, X, y: a.fit(X, y).explain_all(X[:3], towards="merlot"), SettingError,
         r"towards: there is no label 'merlot'\. The labels are 'barbera', 'barolo'"),
        (lambda a, X, y: a.fit(X, y, adverse=list(y.unique())), SettingError, "adverse names all "
                                                                              "labels"),
        (lambda a, X, y: a.fit(X, np.arange(178)), TableError, r"have 178 values .* at most 50"),
        (lambda a, X, y: a.fit(X, y).standards(), SettingError, "Name the label that people would "
                                                                "rather not have"),
        (lambda a, X, y: a.fit(X, y).brackets(X[:3]), SettingError, "There is no proof for"),
        (lambda a, X, y: a.set_params(model=preprocessed(X, SVC(decision_function_shape="ovo"))).fit(X, y),
         LearnerError, "decision_function_shape='ovr'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(asked, error, said):
    class Cellar(butfor.LabelAudit):
        def fit(self, X, y, **how):
            return super().fit(X, y, sensitive_features="cellar", **how)

    X, y = wine()
    with pytest.raises(error, match=said):
        asked(Cellar(preprocessed(X, LogisticRegression()), budget=3), X, y)


def test_what_the_documents_show_works_when_pasted(capsys):
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    section = text[
        text.index("## More than two labels") : text.index("## Thresholds of scikit-learn")
    ]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, names)
    assert "the decision stays target = 0" in capsys.readouterr().out
    assert len(names["audit"].learner_.seeds) == 2


# --- standards, reviews, records, the command line ------------------------------------------------


def test_record_and_review_from_the_command_line(tmp_path, capsys):
    X, y = student()
    X.assign(grade=y).to_csv(tmp_path / "student.csv", index=False)
    report, tasks, after = (
        tmp_path / "report" / "audit.json",
        tmp_path / "tasks",
        tmp_path / "after",
    )
    usual = [
        "audit",
        tmp_path / "student.csv",
        "--label",
        "grade",
        "--sensitive",
        "sex",
        "--model",
        "logistic",
    ]
    usual += ["--set", "n-jobs=1"]
    adverse = [
        "--adverse",
        "fail,pass",
        "--cases",
        "0:5",
        "--budget",
        8,
        "--out",
        tmp_path / "report",
    ]
    code, _, told = run(capsys, *usual, *adverse)
    assert (code, told.count("Searching for")) == (0, 1), "it is said once for everyone"
    population = butfor.Population.from_json(report)
    assert population.run.label_names == ("fail", "good", "pass")
    assert (
        population.run.sides == (population.run.adverse, ("good",)) == (("fail", "pass"), ("good",))
    )
    assert {v.prediction for v in population if v.eligible} <= {"fail", "pass"}
    assert population.found
    for v in population.found:
        assert set(v.flips["label after"]) == {v.new_label}
        assert f"from '{v.prediction}' to '{v.counterfactual_prediction}'" in v.sentence
    finds = len(population.found)
    assert f"{finds} of {finds} counterfactual datasets agree" in run(capsys, "replay", report)[1]
    assert "no label 'best'" in run(capsys, *usual, "--cases", "0:3", "--set", "towards=best")[2]
    assert run(capsys, "review", report, "--out", tasks, "--labels", 6, "--anyway")[0] == 0
    assert "    fail\n    good\n    pass\n" in (tasks / "instructions.txt").read_text()
    key = {
        task["id"]: task for task in json.loads((tmp_path / "tasks.key.json").read_text())["tasks"]
    }
    assert all(
        task["label"] in ("fail", "pass") for task in key.values() if task["kind"] != "clear case"
    )
    shown = pd.read_csv(tasks / "tasks.csv")
    shown["label"] = [
        "good" if key[each]["kind"] == "label" else key[each]["label"] for each in shown["id"]
    ]
    shown.to_csv(tasks / "answers.csv", index=False)
    assert (
        run(
            capsys, "review", report, "--answers", tasks / "answers.csv", "--out", after, "--anyway"
        )[0]
        == 0
    )
    corrected = pd.read_csv(after / "corrected.csv", index_col="row")["grade"]
    changed = corrected[corrected != y.loc[corrected.index]]
    assert changed.tolist() == ["good"] * 6
    assert set(butfor.Population.from_json(after / "review.json").run.reviewed.corrected_to) == {
        "good"
    }


def test_what_a_review_changes_is_what_the_corrected_model_decides():
    """Whichever of the favourable labels a reviewer gives, not only the one that a flip would
    have."""
    X, y = student()
    rows, people = X.iloc[::2], X.iloc[1::2]
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=3, n_jobs=1)
    audit.fit(rows, y.iloc[::2], sensitive_features="sex", adverse="fail", draws=20)
    review = audit.review_tasks(labels=30)
    given = {
        task.position: audit.fitted_.label_names[audit.table_.new_codes[task.position]]
        for task in review.tasks
    }
    other = {"good": "pass", "pass": "good"}
    answers = {
        t.id: other[given[t.position]] if t.kind == "label" else t.label for t in review.tasks
    }
    reviewed, after = audit.after_review(answers, people, before=())
    sides = [each.table_.sides(each.fitted_.people(people)[0].decisions) for each in (audit, after)]
    assert {turned.case for turned in reviewed.changed} == set(np.flatnonzero(sides[0] != sides[1]))
    assert reviewed.changed


def test_worlds_give_the_better_of_the_favourable_labels():
    X, y = student()
    women = np.flatnonzero((X["sex"] == "F") & (y != "fail"))
    y.iloc[np.random.default_rng(0).choice(women, len(women) // 3, replace=False)] = "fail"
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=3, n_jobs=1)
    audit.fit(X, y, sensitive_features="sex", adverse="fail", draws=20)
    [standard] = audit.one_standard(X)
    assert standard.group == "F"
    assert standard.changed
    flips = draw_world(audit.standards(), "F", standard.worlds[0].seed).flips
    assert len(flips) == standard.worlds[0].flips > 10
    assert set(audit.table_.classes[audit.table_.new_codes[list(flips)]]) == {"pass", "good"}
