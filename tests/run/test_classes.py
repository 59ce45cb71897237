"""More than two labels, end to end: what is found is what the estimator's own `fit` says, and nothing else."""

import json
import re
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import butfor
from butfor.cli import main
from butfor.decide import Decision
from butfor.errors import LearnerError, SettingError, TableError
from butfor.ledger import Ledger
from butfor.models.engines import OwnFit
from butfor.worlds import draw_world


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
    raw = pd.read_csv(Path(butfor.__file__).parent / "data" / "files" / "student-por.csv.gz", sep=";")
    bands = pd.cut(raw["G3"], [-1, 9, 13, 20], labels=["fail", "pass", "good"]).astype(str)
    return raw[["sex", "age", "address", "studytime", "failures", "absences", "G1"]], bands.rename("grade")


def run(*arguments: object) -> int:
    return main([str(each) for each in arguments])


TABLES = {"wine": (wine, "cellar", 5), "digits": (digits, "pen", 8), "student": (student, "sex", 8)}


def preprocessed(X: pd.DataFrame, model):
    numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c])]
    words = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    rest = [c for c in X if c not in numbers]
    return make_pipeline(make_column_transformer((StandardScaler(), numbers), (words, rest)), model)


def models(X: pd.DataFrame) -> dict[str, object]:
    return {
        "logistic": preprocessed(X, LogisticRegression(max_iter=500)),
        "boosting": preprocessed(X, HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=8, random_state=0)),
        "network": butfor.MLP(hidden=(8,), max_epochs=20),
    }


def audited(name: str, which: str, **settings) -> tuple[butfor.LabelAudit, butfor.Population]:
    make, protected, budget = TABLES[name]
    X, y = make()
    rows = np.random.default_rng(0).permutation(len(X))
    train, people = np.sort(rows[: 2 * len(X) // 3]), np.sort(rows[2 * len(X) // 3 :])[:3]
    usual = {"budget": budget, "fresh_seeds": 5, "psi": "labelled_as_predicted", "phi": "everyone"}
    if which == "network":
        usual["members"] = 2
    audit = butfor.LabelAudit(models(X)[which], **usual | settings)
    audit.fit(X.iloc[train], y.iloc[train], sensitive_features=protected)
    return audit, audit.explain_all(X.iloc[people], y.iloc[people])


@pytest.mark.parametrize("which", ["logistic", "boosting", "network"])
@pytest.mark.parametrize("name", TABLES)
def test_every_find_is_what_plain_scikit_learn_says(name, which):
    audit, population = audited(name, which)
    assert population.found
    for v in population.found:
        X, y = v.dataset()
        person = pd.Series(v.values, dtype=object).to_frame().T.astype(X.dtypes)
        changed = np.flatnonzero(y.to_numpy() != TABLES[name][0]()[1].loc[y.index].to_numpy())
        assert len(changed) == len(v.positions) <= audit.fitted_.budget
        assert {str(each) for each in y.iloc[changed]} == {v.new_label} != {v.prediction}
        assert (v.logit < 0) & (v.counterfactual_logit > 0)
        if which != "network":  # the estimator itself, on the altered table
            fit = models(X)[which].fit(X, y)
            before = models(X)[which].fit(X, TABLES[name][0]()[1].loc[y.index])
            assert str(before.predict(person)[0]) == v.prediction
            assert str(fit.predict(person)[0]) == v.counterfactual_prediction != v.prediction
        else:  # two networks in plain PyTorch, the mean of their scores
            assert _by_hand(audit, X, y, person) == v.counterfactual_prediction != v.prediction


def _by_hand(audit: butfor.LabelAudit, X: pd.DataFrame, y: pd.Series, person: pd.DataFrame) -> str:
    """What an ensemble of our network decides, in twenty lines of PyTorch."""
    import torch
    from torch import nn

    table, classes = audit.table_, list(audit.classes_)
    encoder = butfor.TableEncoder().fit(table.X)
    rows, val, asked = (
        torch.tensor(encoder.transform(part), dtype=torch.float32) for part in (table.X, table.validation[0], person)
    )
    codes = torch.tensor([classes.index(each) for each in y.loc[table.X.index]])
    val_codes = torch.tensor([classes.index(each) for each in table.validation[1]])
    scores = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        f = nn.Sequential(nn.Linear(rows.shape[1], 8), nn.ReLU(), nn.Linear(8, len(classes)))
        adam, order = torch.optim.Adam(f.parameters(), lr=0.005), torch.Generator().manual_seed(seed)
        best, kept, since = float("inf"), None, 0
        for _ in range(20):
            for batch in torch.randperm(len(rows), generator=order).split(128):
                adam.zero_grad()
                nn.functional.cross_entropy(f(rows[batch]), codes[batch]).backward()
                adam.step()
            with torch.no_grad():
                loss, said = float(nn.functional.cross_entropy(f(val), val_codes)), f(asked)
            since = 0 if loss < best else since + 1
            if loss < best:
                best, kept = loss, said
            if since == 10:
                break
        scores.append(kept.numpy())
    return str(classes[int(np.mean(scores, axis=0).argmax())])


@pytest.mark.parametrize("towards", [None, "barolo"])
def test_single_flips_agree_with_brute_force(towards):
    X, y = wine()
    train, people = np.arange(0, 178, 4), np.arange(1, 178, 16)
    rows, labels, asked = X.iloc[train], y.iloc[train], X.iloc[people]
    model = preprocessed(X, LogisticRegression(C=0.05))
    settings = {"budget": 1, "strategy": "exhaustive", "psi": "labelled_as_predicted", "phi": "everyone"}
    audit = butfor.LabelAudit(model, **settings).fit(rows, labels, sensitive_features="cellar")
    population = audit.explain_all(asked, towards=towards)
    fitted = model.fit(rows, labels)
    decided, scores = fitted.predict(asked), fitted.decision_function(asked)
    found = 0

    @cache
    def after(at, new):
        """What everyone is told once this label is another, by the estimator's own fit."""
        changed = labels.copy()
        changed.iloc[at] = new
        return clone(model).fit(rows, changed).predict(asked)

    for k, v in enumerate(population):
        ranked = list(fitted.classes_[np.argsort(-scores[k])])
        assert v.prediction == decided[k] == ranked[0]
        if decided[k] == towards:
            assert v.status == "not_eligible"
            assert "already" in v.reason
            continue
        new = towards or ranked[1]
        turning = []
        for at in np.flatnonzero(labels == decided[k]):
            now = after(int(at), new)[k]
            if now == new if towards else now != decided[k]:
                turning.append(int(at))
        assert v.new_label == new
        assert v.flippable == (labels == decided[k]).sum()
        assert v.found == bool(turning)
        assert set(v.positions) <= set(turning)
        found += v.found
    assert found
    assert found < len(population) or towards is None


def test_the_margin_is_above_zero_exactly_where_the_decision_is_another():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 5)).astype(np.float32)
    away = Decision.away_from(2, 4, 5, 1)
    to = Decision.only(2, 4, 5, 1)
    sides = Decision.between(np.array([False, True, False, True, False]), rng.integers(0, 5, 300), scores)
    decided = scores.argmax(axis=1)
    assert np.array_equal(away.margins(scores.ravel()) > 0, decided != 2)
    assert np.array_equal(to.margins(scores.ravel()) > 0, decided == 4)
    assert np.array_equal(sides.margins(scores.ravel()) > 0, np.isin(decided, [1, 3]))
    assert np.allclose((sides.contrast(scores) * scores).sum(1), sides.margins(scores.ravel()))


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsClassifier(9),
        SVC(),
        RidgeClassifier(),
        LogisticRegression(class_weight="balanced"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_any_classifier_can_be_asked(model):
    X, y = wine()
    model = preprocessed(X, model)
    settings = {"budget": 20, "psi": "labelled_as_predicted", "phi": "everyone", "fresh_seeds": 0, "members": 1}
    audit = butfor.LabelAudit(model, **settings).fit(X.iloc[::2], y.iloc[::2], sensitive_features="cellar")
    population = audit.explain_all(X.iloc[1::40])
    assert [v.prediction for v in population] == list(model.fit(X.iloc[::2], y.iloc[::2]).predict(X.iloc[1::40]))
    assert population.found
    for v in population.found:
        D = v.dataset()
        person = pd.Series(v.values, dtype=object).to_frame().T.astype(D[0].dtypes)
        assert model.fit(*D).predict(person)[0] == v.counterfactual_prediction
    if isinstance(model[-1], (SVC, LogisticRegression)):
        with pytest.raises(SettingError, match="There is no proof for"):
            audit.brackets(X.iloc[:3])


@pytest.mark.parametrize(
    "model", [RidgeClassifier(), KNeighborsClassifier(5), KNeighborsClassifier(4, weights="distance")]
)
@pytest.mark.parametrize("towards", [None, "b"])
def test_proofs_are_what_trying_every_set_gives(model, towards):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(24, 3)), columns=list("xyz"))
    y = pd.Series(np.array(["a", "b", "c"])[np.argmax(X.to_numpy() + rng.normal(0, 0.7, (24, 3)), axis=1)])
    rows, labels, asked = X.iloc[:14], y.iloc[:14], X.iloc[14:]
    settings = {"budget": 1, "psi": "labelled_as_predicted", "phi": "everyone"}
    audit = butfor.LabelAudit(model, **settings).fit(rows, labels, sensitive_features=np.arange(14) % 2)
    population = audit.explain_all(asked, sensitive_features=np.arange(10) % 2, towards=towards)
    assert any(v.found for v in population)
    for k, v in enumerate(population):
        if not v.eligible:
            assert v.prediction == towards
            continue
        mine, fewest = np.flatnonzero(labels == v.prediction), None
        for size in (1, 2, 3):
            for some in combinations(mine, size):
                changed = labels.copy()
                changed.iloc[list(some)] = v.new_label
                if changed.nunique() > 1:
                    after = clone(model).fit(rows, changed).predict(asked.iloc[[k]])[0]
                    if after == towards if towards else after != v.prediction:
                        fewest = fewest or size
        assert v.found == (fewest == 1)
        assert v.at_least == fewest if fewest else v.at_least > 3


@pytest.mark.parametrize("model", [LogisticRegression(C=0.02, tol=1e-8), RidgeClassifier()], ids=["logistic", "ridge"])
def test_predicted_effects_of_flips_are_those_of_retraining(model):
    """To first order for logistic regression; exactly for ridge."""
    X, y = wine()
    audit = butfor.LabelAudit(preprocessed(X, model), rank="influence", budget=3).fit(
        X, y, sensitive_features="cellar", adverse="barbera"
    )
    some, decision = X.iloc[[5, 70, 150]], audit.table_.decision
    predicted = audit.model_.flip_effects(audit.table_, some)
    contrast, scores = decision.contrast(audit.model_.scores(some)), audit.model_.scores(some)
    rows = np.arange(0, 178, 11)
    real = []
    for row in rows:
        after = audit.learner_.fit(audit.table_, audit.table_.labels((int(row),))).scores(some)
        real.append(((after - scores) * contrast).sum(axis=1))
    exact = isinstance(model, RidgeClassifier)
    agree = np.corrcoef(predicted[:, rows].ravel(), np.array(real).T.ravel())[0, 1]
    assert agree > (0.999999 if exact else 0.98)
    slope = np.polyfit(predicted[:, rows].ravel(), np.array(real).T.ravel(), 1)[0]
    assert slope == pytest.approx(1, abs=0.25)
    if exact:
        assert np.allclose(predicted[:, rows], np.array(real).T, atol=1e-5)


def test_what_the_documents_show_works_when_pasted(capsys):
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    section = text[text.index("## More than two labels") : text.index("## Thresholds of scikit-learn")]
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(block, names)
    assert "'0'" in capsys.readouterr().out
    assert len(names["audit"].learner_.seeds) == 2


# --- standards, reviews, records, the command line --------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table of three labels and, from the command line, its audit."""
    folder = tmp_path_factory.mktemp("classes")
    X, y = student()
    X.assign(grade=y).to_csv(folder / "student.csv", index=False)
    options = ["--label", "grade", "--sensitive", "sex", "--adverse", "fail,pass", "--model", "logistic"]
    options += ["--cases", "0:25", "--budget", "8", "--out", folder / "report", "--quiet"]
    assert run("audit", folder / "student.csv", *options) == 0
    return folder


def test_the_record_says_all_there_is_to_say(folder, capsys):
    population = butfor.Population.from_json(folder / "report" / "audit.json")
    assert population.run.label_names == ("fail", "good", "pass")
    assert population.run.adverse == ("fail", "pass")
    assert population.run.sides == (("fail", "pass"), ("good",))
    assert {v.prediction for v in population if v.eligible} <= {"fail", "pass"}
    assert population.found
    for v in population.found:
        assert set(v.flips["label after"]) == {v.new_label}
        assert f"from '{v.prediction}' to '{v.counterfactual_prediction}'" in v.sentence
    page = (folder / "report" / "report.html").read_text()
    assert "fail or pass" in page or "'good'" in page
    assert run("replay", folder / "report" / "audit.json") == 0
    said = capsys.readouterr().out
    assert f"{len(population.found)} of {len(population.found)} counterfactual datasets agree" in said


def test_a_review_gives_any_of_the_labels(folder, capsys):
    report, tasks = folder / "report" / "audit.json", folder / "tasks"
    assert run("review", report, "--out", tasks, "--labels", "6", "--anyway") == 0
    assert "    fail\n    good\n    pass\n" in (tasks / "instructions.txt").read_text()
    shown = pd.read_csv(tasks / "tasks.csv")
    key = {task["id"]: task for task in json.loads((folder / "tasks.key.json").read_text())["tasks"]}
    assert all(task["label"] in ("fail", "pass") for task in key.values() if task["kind"] != "clear case")
    chosen = shown["id"].map({number: task["kind"] == "label" for number, task in key.items()})
    shown["label"] = shown["id"].map({number: task["label"] for number, task in key.items()}).mask(chosen, "good")
    shown.to_csv(tasks / "answers.csv", index=False)
    assert run("review", report, "--answers", tasks / "answers.csv", "--out", folder / "after", "--anyway") == 0
    corrected = pd.read_csv(folder / "after" / "corrected.csv", index_col="row")["grade"]
    _, y = student()
    changed = corrected[corrected != y.loc[corrected.index]]
    assert len(changed) == 6
    assert set(changed) == {"good"}
    again = butfor.Population.from_json(folder / "after" / "review.json").reviewed
    assert set(again.corrected_to) == {"good"}
    assert run("review", folder / "after" / "review.json", "--out", folder / "more", "--anyway") == 0
    capsys.readouterr()


def test_what_a_review_changes_is_what_the_corrected_model_decides():
    """Whichever of the favourable labels a reviewer gives, not only the one that a flip would have."""
    X, y = student()
    rows, people = X.iloc[::2], X.iloc[1::2]
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=3)
    audit.fit(rows, y.iloc[::2], sensitive_features="sex", adverse="fail")
    review = audit.review_tasks(labels=30)
    given = {task.position: audit.fitted_.label_names[audit.table_.new_codes[task.position]] for task in review.tasks}
    other = {"good": "pass", "pass": "good"}
    answers = {t.id: other[given[t.position]] if t.kind == "label" else t.label for t in review.tasks}
    reviewed, after = audit.after_review(answers, people, before=())
    sides = [each.table_.sides(each.fitted_.decide(people)) for each in (audit, after)]
    assert {turned.case for turned in reviewed.changed} == set(np.flatnonzero(sides[0] != sides[1]))
    assert reviewed.changed


def test_standards_are_about_two_sides_of_the_labels():
    X, y = student()
    found = butfor.compare_standards(X, y, sensitive_features="sex", adverse=["fail", "pass"], draws=3)
    two = y.where(y == "good", "not good")
    same = butfor.compare_standards(X, two, sensitive_features="sex", adverse="not good", draws=3)
    assert (found.adverse, found.favourable) == ("fail or pass", "good")
    assert [c.difference for c in found.comparisons] == [c.difference for c in same.comparisons]
    assert np.array_equal(found.doubt, same.doubt)


def test_one_standard_gives_the_better_of_the_favourable_labels():
    X, y = student()
    rng = np.random.default_rng(0)
    women = np.flatnonzero((X["sex"] == "F") & (y != "fail"))
    y.iloc[rng.choice(women, len(women) // 3, replace=False)] = "fail"
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=3)
    audit.fit(X, y, sensitive_features="sex", adverse="fail")
    [standard] = audit.one_standard(X)
    assert standard.group == "F"
    assert standard.changed
    flips = draw_world(audit.standards(), "F", standard.worlds[0].seed).flips
    assert len(flips) == standard.flips[0] > 10
    given = audit.table_.classes[audit.table_.new_codes[list(flips)]]
    assert set(given) == {"pass", "good"}
    assert (audit.fitted_.training_decisions == audit.table_.codes).mean() > 0.5


def test_what_cannot_be_is_said():
    X, y = wine()
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=3)
    with pytest.raises(SettingError, match=r"towards: there is no label 'merlot'\. The labels are 'barbera', 'barolo'"):
        audit.fit(X, y, sensitive_features="cellar").explain_all(X.iloc[:3], towards="merlot")
    with pytest.raises(SettingError, match="adverse names all labels"):
        audit.fit(X, y, sensitive_features="cellar", adverse=list(y.unique()))
    with pytest.raises(TableError, match=r"have 178 values .* at most 50"):
        audit.fit(X, pd.Series(np.arange(178), index=X.index), sensitive_features="cellar")
    pairwise = butfor.LabelAudit(preprocessed(X, SVC(decision_function_shape="ovo")), budget=3)
    with pytest.raises(LearnerError, match="decision_function_shape='ovr'"):
        pairwise.fit(X, y, sensitive_features="cellar")
    plain = audit.fit(X, y, sensitive_features="cellar")
    with pytest.raises(SettingError, match="Name the label that people would rather not have"):
        plain.fitted_.doubt  # noqa: B018


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--set", "towards=best"], "--towards: there is no label 'best'"),
        (["--adverse", "fail,bad"], "--adverse: there is no label 'bad'"),
    ],
)
def test_options_that_cannot_be_are_said(folder, options, said, capsys):
    usual = ["--label", "grade", "--sensitive", "sex", "--model", "logistic", "--cases", "0:3"]
    assert run("audit", folder / "student.csv", *usual, *options) != 0
    assert said in capsys.readouterr().err


def test_with_two_labels_towards_leaves_out_who_has_it():
    data = butfor.load_dataset("salary")
    audit = butfor.LabelAudit(LogisticRegression(max_iter=1000), budget=5)
    audit.fit(data.X_train, data.y_train, sensitive_features="Sex")
    every, upwards = (audit.explain_all(data.X_test, towards=towards) for towards in (None, 1))
    name = audit.fitted_.label_names[1]
    assert {v.prediction for v in upwards if v.eligible} == {audit.fitted_.label_names[0]}
    assert [v.positions for v in upwards if v.eligible] == [
        v.positions for v in every if v.eligible and v.prediction != name
    ]


def test_a_ledger_tells_one_new_label_from_another(tmp_path):
    _, first = audited("wine", "logistic", budget=1, ledger=tmp_path / "ledger")
    _, again = audited("wine", "logistic", budget=1, ledger=tmp_path / "ledger")
    _, plain = audited("wine", "logistic", budget=1)
    audit = butfor.LabelAudit(preprocessed(wine()[0], LogisticRegression())).fit(*wine(), sensitive_features="cellar")
    ledger, table, people = Ledger(tmp_path / "other"), audit.table_, wine()[0].iloc[:2]
    pages = [
        ledger.page(audit.learner_, table.with_decision(Decision.away_from(0, new, 3, table.n)), people, OwnFit(1))
        for new in (1, 2, 1)
    ]
    ledger.close()
    assert pages[0] == pages[2] != pages[1]
    assert again.run.recalled == again.run.retrainings > 0
    assert [v.positions for v in again] == [v.positions for v in first] == [v.positions for v in plain]


def test_a_mask_of_ones_own_is_about_everyone_whatever_the_question():
    X, y = wine()
    rows, people = X.iloc[::2], X.iloc[1::45]
    mask = np.random.default_rng(0).random((len(people), len(rows))) < 0.5
    audit = butfor.LabelAudit(preprocessed(X, RidgeClassifier()), budget=8, phi="everyone", psi=mask)
    population = audit.fit(rows, y.iloc[::2], sensitive_features="cellar").explain_all(people)
    assert population.found
    codes = y.iloc[::2].to_numpy()
    for v, mine in zip(population, mask, strict=True):
        assert mine[list(v.positions)].all()
        assert v.flippable == (mine & (codes != v.new_label)).sum()


def test_what_it_will_cost_is_said_once_for_everyone(folder, capsys):
    usual = ["--label", "grade", "--sensitive", "sex", "--model", "logistic", "--cases", "0:12", "--phi", "everyone"]
    assert run("audit", folder / "student.csv", *usual) == 0
    assert capsys.readouterr().err.count("12 people, about") == 1


def test_time_is_shared_between_the_questions():
    X, y = wine()
    audit = butfor.LabelAudit(preprocessed(X, LogisticRegression()), budget=5, psi="labelled_as_predicted")
    audit.fit(X.iloc[::2], y.iloc[::2], sensitive_features="cellar")
    stopped = audit.explain_all(X.iloc[1::8], stop=butfor.max_retrainings(40))
    assert stopped.run.retrainings <= 40
    assert len(stopped) == len(X.iloc[1::8])
    assert any(not v.complete for v in stopped)


def test_one_network_of_three_labels_says_what_pulls_its_decisions():
    """The pulls add up to the margin between two of the labels."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=120), "b": rng.normal(size=120), "c": rng.choice(["u", "v"], 120)})
    y = pd.Series(np.select([X["a"] > 0.5, X["a"] < -0.5], ["high", "low"], "middle"))
    audit = butfor.LabelAudit(butfor.MLP((4,), max_epochs=10), budget=2, members=1, fresh_seeds=0, phi="everyone")
    audit.fit(X, y, sensitive_features="c")
    for verdict in audit.explain_all(X[:6]):
        assert sum(verdict.pulls.values()) == pytest.approx(verdict.logit, abs=1e-4)
