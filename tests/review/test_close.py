"""What a review changes: corrections made, the model trained anew, and a next round."""

import contextlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import butfor
from butfor import load_dataset
from butfor.cli import main
from butfor.errors import SettingError, TableError
from butfor.models.learners import model_named
from butfor.report.page import review_page
from butfor.result.population import Population
from butfor.result.reviewed import worth_a_review
from butfor.words import percent
from recorded import LABELS, OTHER, PLANTED, TABLE, answered, audited, changed, fill_in, key_of, of_kind, run

KINDS = ("label", "control", "clear case")


@pytest.fixture(scope="module")
def closed(german_file, tmp_path_factory) -> tuple[Path, Path, str]:
    """A review of 30 labels whose answers came back: nine changed, a control and a clear case too, and one label that
    nobody could tell."""
    folder = tmp_path_factory.mktemp("closed")
    options = ["--labels", "30", "--random-state", "3", "--anyway"]
    assert main(["review", str(german_file), "--out", str(folder / "tasks"), *options]) == 0
    answers = answered(folder / "tasks", 9, 1, 1)
    answers[of_kind(folder / "tasks", "label")[12]["id"]] = "cannot tell"
    filled, printed = fill_in(folder / "tasks", answers, ";"), io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["review", str(german_file), "--answers", str(filled), "--out", str(folder / "after")]) == 0
    return folder / "tasks", folder / "after", printed.getvalue()


def test_corrections_are_made_and_what_changes_is_what_the_models_own_fit_says(german_file, closed):
    tasks, after, out = closed
    n, clear = len(of_kind(tasks, "control")) - 1, len(of_kind(tasks, "clear case"))
    p = fisher_exact([[9, n - 9], [1, n - 1]], alternative="greater")[1]
    assert out.startswith(f"The reviewer changed 9 of {n} labels of sex = female ({percent(9 / n)}) and 1 of {n} contr")
    assert f": {100 * 8 / n:.1f} points more (90 % interval " in out
    assert f"p = {p:.2g}" in out
    assert f"So about 8 of these {n} labels were held to a stricter standard than labels of other groups." in out
    assert "the labels differ under the same eyes, not which are right." in out
    assert "\nWith 10 of 600 labels corrected, " in out
    assert f"Reviewer error on clear cases: {percent(1 / clear)}, 1 of {clear} (95 % interval " in out
    assert f"1 of {len(key_of(tasks))} tasks got no label" in out
    assert len(out.splitlines()) <= 10
    wrong = [*of_kind(tasks, "label")[:9], of_kind(tasks, "control")[0]]
    corrections = pd.read_csv(after / "corrections.csv")
    assert set(corrections["row"]) == {task["row"] for task in wrong}, "both groups' labels; a clear case stays"
    assert corrections["kind"].value_counts().to_dict() == {"label": 9, "control": 1}
    assert (corrections["reviewed"] == corrections["recorded"].map(OTHER)).all()
    data = load_dataset("german")
    recorded = data.y_train.map(dict(enumerate(data.label_names)))
    corrected = pd.read_csv(after / "corrected.csv", index_col="row")["label"]
    assert corrected.index.tolist() == recorded.index.tolist()
    assert set(corrected.index[corrected != recorded]) == {task["row"] for task in wrong}
    reviewed = Population.from_json(after / "review.json").run.reviewed
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(data.X_train)
    rows, people = encoder.transform(data.X_train), encoder.transform(data.X_test)
    model = model_named("logistic")
    before, then = (clone(model).fit(rows, y == "good credit").predict(people) for y in (recorded, corrected))
    assert [person.case for person in reviewed.changed] == np.flatnonzero(before != then).tolist()
    assert reviewed.changed
    women = (data.X_test["sex"] == "female").to_numpy()
    assert reviewed.rates["female"] == pytest.approx((before[women].mean(), then[women].mean()))
    assert reviewed.accuracy == pytest.approx([(decided == data.y_test).mean() for decided in (before, then)])
    rows, more = pd.concat([data.X_train, data.X_val, data.X_test]).sort_index(), pd.concat([data.y_val, data.y_test])
    for c, y in ((reviewed.before, recorded), (reviewed.after, corrected)):
        labels = pd.concat([y, more.map(dict(enumerate(data.label_names)))]).loc[rows.index]
        found = butfor.compare_standards(
            rows, labels, sensitive_features="sex", adverse="bad credit", draws=20, n_jobs=1
        )
        assert [g.difference for g in c] == pytest.approx([g.difference for g in found.comparisons])
    assert f"\nsex = female: decided 'good credit': {100 * before[women].mean():.1f} % before" in out
    page = (after / "review.html").read_text()
    assert f"<h1>{reviewed.sentence}</h1>" in page
    assert "Reviewer error on clear cases: " in page
    assert "not which are right" in page
    assert "show nothing" not in page
    assert page.count("<svg") == 2
    record = Population.from_json(after / "review.json")
    assert ("more-tasks/" in page) == worth_a_review(record.labels)
    assert "more-tasks/" not in review_page(Population([], record.run)), "no label is left"
    for person in reviewed.changed:
        assert f"<th>{person.row}</th>" in page


def test_a_second_round_starts_from_the_corrected_table_and_asks_nothing_twice(closed, tmp_path, capsys):
    tasks, after, _ = closed
    record = after / "review.json"
    first = {task["position"] for task in key_of(tasks)}
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 20, "--anyway")[0] == 0
    second = key_of(tmp_path / "tasks")
    assert not first & {task["position"] for task in second}
    corrected = pd.read_csv(after / "corrected.csv")["label"]
    assert all(task["label"] == corrected[task["position"]] for task in second)
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 12))
    code, out, _ = run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")
    assert code == 0, out
    assert "With 12 of 600 labels corrected" in out
    both = Population.from_json(tmp_path / "after" / "review.json").run.reviewed
    assert len(both.corrected) == 22
    assert set(both.answered) == first | {task["position"] for task in second}
    first_round = Population.from_json(record).run.reviewed
    assert both.before == first_round.after
    assert both.accuracy[0] == pytest.approx(first_round.accuracy[1]), "the model of the corrected table"
    for group, rates in both.rates.items():
        assert rates[0] == pytest.approx(first_round.rates[group][1])


def test_the_same_in_python_without_files():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no")
    with pytest.raises(SettingError, match=r"review_tasks\(\) first"):
        audit.after_review({}, TABLE)
    review = audit.review_tasks(labels=60)
    assert {label.group for label in review.labels} == {"b"}, "the group that falls short"
    assert "group" not in review.shown.columns
    groups = {kind: {TABLE["group"][t.position] for t in review.tasks if t.kind == kind} for kind in KINDS}
    assert groups == {"label": {"b"}, "control": {"a"}, "clear case": {"a", "b"}}
    answers = {t.id: "yes" if PLANTED[t.position] else t.label for t in review.tasks}
    right = planted = sum(bool(PLANTED[t.position]) for t in review.tasks if t.kind == "label")
    assert right > 20
    wrong = np.array([label.wrong for label in review.labels])
    assert wrong.sum() == pytest.approx(planted, abs=2 * np.sqrt(wrong @ (1 - wrong)))  # two standard errors
    for bad, sentence in (
        ({}, f"{len(answers)} of {len(answers)} tasks have no answer"),
        (answers | {"17": "yes"}, "this review has no task '17'"),
        (answers | {review.tasks[0].id: "maybe"}, "'maybe' is not a label"),
        (dict.fromkeys(answers, "yes"), "These answers show nothing: .*apply_anyway=True"),
        (dict.fromkeys(answers, "no"), r"show nothing wrong: none of the \d+ labels of group = b was changed"),
        ([answers, dict.fromkeys(answers, "cannot tell")], "These answers show nothing: no label under review"),
        ([], "There are no answers"),
        ("yes", "must be a dictionary from task ids to labels, not str"),
    ):
        with pytest.raises(TableError, match=sentence):
            audit.after_review(bad, TABLE)
    reviewed, corrected = audit.after_review(answers, TABLE)
    assert (corrected.table_.y != LABELS).sum() == right
    assert (audit.table_.y == LABELS).all()
    assert not {t.position for t in corrected.review_tasks(labels=20).tasks} & {t.position for t in review.tasks}
    assert corrected.standards().of_group("b").difference < audit.standards().of_group("b").difference - 0.05
    clean = (TABLE["income"] - TABLE["debts"]).to_numpy() > 0
    agree = [((a.model_.logits(TABLE) > 0) == clean).mean() for a in (audit, corrected)]
    assert agree[1] > agree[0]
    assert reviewed.accuracy is None
    again = butfor.LabelAudit(LogisticRegression(), budget=4).fit(TABLE, corrected.table_.y, sensitive_features="group")
    assert np.array_equal(again.model_.logits(TABLE), corrected.model_.logits(TABLE))
    assert len(reviewed.changed) == ((corrected.model_.logits(TABLE) > 0) != (audit.model_.logits(TABLE) > 0)).sum()
    verdict = corrected.explain(TABLE.iloc[0])
    assert "review that corrected its labels" in str(verdict.run.not_rebuildable)
    assert butfor.replay(verdict).agrees


def test_a_network_is_trained_anew_under_its_members_and_fresh_seeds(tmp_path, capsys):
    small = ("--members", "2", "--fresh-seeds", "5", "--set", "epochs=30", "--budget", "3", "--cases", "0:4")
    record = audited(tmp_path / "audit", "german", *small)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 40, "--anyway")[0] == 0
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 40))
    assert run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")[0] == 0
    reviewed = Population.from_json(tmp_path / "after" / "review.json").run.reviewed
    assert reviewed.seeded
    assert reviewed.changed
    assert {person.fresh.seeds for person in reviewed.changed} == {5}


def test_a_table_that_changed_leaves_no_folder_behind(german_file, tasks, tmp_path, capsys):
    away = changed(german_file, tmp_path / "away.json", lambda record: record["run"]["data"].update(sha256="0"))
    filled = fill_in(tasks, answered(tasks, 9))
    code, _, said = run(capsys, "review", away, "--answers", filled, "--out", tmp_path / "after")
    assert code == 2
    assert "its training rows are different" in said
    assert not (tmp_path / "after").exists()


CARELESS = {
    "the favourable label": lambda tasks, rng: dict.fromkeys(tasks, "good credit"),
    "the adverse label": lambda tasks, rng: dict.fromkeys(tasks, "bad credit"),
    "cannot tell": lambda tasks, rng: dict.fromkeys(tasks, "cannot tell"),
    "in turn": lambda tasks, rng: {task: tuple(OTHER)[k % 2] for k, task in enumerate(tasks)},
    "at random": lambda tasks, rng: {task: tuple(OTHER)[rng.integers(2)] for task in tasks},
}


@pytest.mark.parametrize("kind", CARELESS)
def test_a_careless_reviewer_corrects_nothing_unless_told_otherwise(german_file, tasks, tmp_path, capsys, kind):
    answers = CARELESS[kind]([task["id"] for task in key_of(tasks)], np.random.default_rng(0))
    given = ("review", german_file, "--answers", fill_in(tasks, answers), "--out", tmp_path / "after")
    code, out, _ = run(capsys, *given)
    assert code == 1
    assert out.startswith("These answers show nothing")
    assert out.splitlines()[-1] == "Nothing was corrected or written; --anyway does it."
    assert not (tmp_path / "after").exists()
    if kind == "at random":
        code, out, _ = run(capsys, *given, "--anyway")
        assert code == 0
        reviewed = Population.from_json(tmp_path / "after" / "review.json").run.reviewed
        assert out.startswith("These answers show nothing")
        page = (tmp_path / "after" / "review.html").read_text()
        assert "<h1>These answers show nothing: the reviewer changed" in page
        assert f"{reviewed.sentence} The corrections were made because of" in page


def test_a_review_that_can_hardly_show_anything_is_not_written(german_file, tmp_path, capsys):
    """The gap of German women may be chance, and about 8 of their labels are likely to be wrong."""
    given = ("review", german_file, "--out", tmp_path / "tasks", "--labels", 40)
    code, out, _ = run(capsys, *given)
    assert code == 1
    assert "a reviewer who errs one time in ten will show it with probability 0." in out
    assert "no number of labels makes that 0.8." in out
    assert out.endswith("No tasks were written; --anyway writes them.\n")
    assert not list(tmp_path.iterdir())
    assert run(capsys, *given, "--anyway")[0] == 0
    assert len(of_kind(tmp_path / "tasks", "label")) == 40


def test_a_corrected_table_has_the_values_of_the_table_that_was_audited(tmp_path):
    """Sentences say "deny = no"; the column holds no."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"score": rng.normal(size=1000), "sex": rng.choice(["f", "m"], 1000)})
    table["deny"] = np.where(table["score"] + 1.2 * rng.normal(size=1000) > 0, "no", "yes")
    hurt = table.index[(table["sex"] == "f") & (table["deny"] == "no")][::3]
    table.loc[hurt, "deny"] = "yes"
    table.to_csv(tmp_path / "loans.csv", index=False)
    audit = ["--label", "deny", "--adverse", "yes", "--sensitive", "sex", "--model", "logistic", "--cases", "0:3"]
    assert main(["audit", str(tmp_path / "loans.csv"), *audit, "--out", str(tmp_path / "report")]) == 0
    record = str(tmp_path / "report" / "audit.json")
    assert main(["review", record, "--out", str(tmp_path / "tasks"), "--labels", "60"]) == 0
    truth = {t["id"]: "no" if t["row"] in hurt else t["label"] for t in key_of(tmp_path / "tasks")}
    filled = str(fill_in(tmp_path / "tasks", truth, ","))
    assert main(["review", record, "--answers", filled, "--out", str(tmp_path / "after")]) == 0
    corrected = pd.read_csv(tmp_path / "after" / "corrected.csv", index_col="row")["deny"]
    recorded = table.loc[corrected.index, "deny"]
    assert set(corrected) == {"yes", "no"}
    assert set(corrected.index[corrected != recorded]) <= set(hurt)
    assert (corrected != recorded).sum() >= 5
    corrections = pd.read_csv(tmp_path / "after" / "corrections.csv")
    assert set(corrections["recorded"]) == {"yes"}
    assert set(corrections["reviewed"]) == {"no"}
