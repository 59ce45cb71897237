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
from butfor.learn.named import model_named
from butfor.report.page import review_page
from butfor.result.labels import worth_a_review
from butfor.result.population import Population
from recorded import LABELS, OTHER, PLANTED, TABLE, answered, audited, changed, fill_in, key_of, run


@pytest.fixture(scope="module")
def closed(german_file, tmp_path_factory) -> tuple[Path, Path, str]:
    """A review of 30 labels whose answers came back: nine changed, a decoy too, one that nobody could tell."""
    folder = tmp_path_factory.mktemp("closed")
    assert (
        main(["review", str(german_file), "--out", str(folder / "tasks"), "--labels", "30", "--random-state", "3"]) == 0
    )
    answers = answered(folder / "tasks", 9, 1)
    answers[next(t["id"] for t in reversed(key_of(folder / "tasks")) if not t["decoy"])] = "cannot tell"
    filled, printed = fill_in(folder / "tasks", answers, ";"), io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["review", str(german_file), "--answers", str(filled), "--out", str(folder / "after")]) == 0
    return folder / "tasks", folder / "after", printed.getvalue()


def test_corrections_are_made_and_what_changes_is_what_the_models_own_fit_says(german_file, closed):
    tasks, after, out = closed
    p = fisher_exact([[9, 20], [1, 19]], alternative="greater")[1]
    assert out.startswith(
        "Reviewers changed 9 of 29 chosen labels (31 %) and 1 of 20 decoys (5 %) with the same recorded"
    )
    assert f"p = {p:.2g}" in out
    assert "\nWith 9 of 600 labels corrected, " in out
    assert "Reviewer error on decoys: 3.3 %, 1 of 30 (95 % interval 0 to 17 %)." in out
    assert "1 of 60 tasks got no label" in out
    assert len(out.splitlines()) <= 10
    wrong = [t for t in key_of(tasks) if not t["decoy"]][:9]
    corrections = pd.read_csv(after / "corrections.csv")
    assert set(corrections["row"]) == {task["row"] for task in wrong}, "a decoy stays as it was"
    assert (corrections["reviewed"] == corrections["recorded"].map(OTHER)).all()
    data = load_dataset("german")
    recorded = data.y_train.map(dict(enumerate(data.label_names)))
    corrected = pd.read_csv(after / "corrected.csv", index_col="row")["label"]
    assert corrected.index.tolist() == recorded.index.tolist()
    assert set(corrected.index[corrected != recorded]) == {task["row"] for task in wrong}
    reviewed = Population.from_json(after / "review.json").reviewed
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
    assert "Reviewer error on decoys: 3.3" in page
    assert "show nothing" not in page
    assert page.count("<svg") == 2
    record = Population.from_json(after / "review.json")
    assert ("more-tasks/" in page) == worth_a_review(record.labels)
    assert "more-tasks/" not in review_page(Population([], record.run)), "no label is left"
    for person in reviewed.changed:
        assert f"<th>{person.case}</th>" in page


def test_a_second_round_starts_from_the_corrected_table_and_asks_nothing_twice(closed, tmp_path, capsys):
    tasks, after, _ = closed
    record = after / "review.json"
    first = {task["position"] for task in key_of(tasks)}
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 20)[0] == 0
    second = key_of(tmp_path / "tasks")
    assert not first & {task["position"] for task in second}
    corrected = pd.read_csv(after / "corrected.csv")["label"]
    assert all(task["label"] == corrected[task["position"]] for task in second)
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 12, 0))
    code, out, _ = run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")
    assert code == 0, out
    assert "With 12 of 600 labels corrected" in out
    both = Population.from_json(tmp_path / "after" / "review.json").reviewed
    assert len(both.corrected) == 21
    assert set(both.answered) == first | {task["position"] for task in second}
    first_round = Population.from_json(record).reviewed
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
    assert {label.group for label in review.labels} == {"b"}, "the group that falls short comes first"
    assert "group" not in review.shown.columns
    assert len(review.shown) == 120
    answers = {t.id: "yes" if PLANTED[t.position] else t.label for t in review.tasks}
    right = sum(bool(PLANTED[t.position]) for t in review.tasks if not t.decoy)
    assert right > 20
    wrong = np.array([label.wrong for label in review.labels])
    planted = sum(PLANTED[t.position] for t in review.tasks if not t.decoy)
    assert wrong.sum() == pytest.approx(planted, abs=2 * np.sqrt(wrong @ (1 - wrong)))  # two standard errors
    for bad, sentence in (
        ({}, "120 of 120 tasks have no answer"),
        (answers | {"17": "yes"}, "this review has no task '17'"),
        (answers | {review.tasks[0].id: "maybe"}, "'maybe' is not a label"),
        (dict.fromkeys(answers, "yes"), "These answers show nothing: .*apply_anyway=True"),
        (dict.fromkeys(answers, "no"), "show nothing wrong: reviewers changed none of the 60 chosen labels"),
        ([answers, dict.fromkeys(answers, "cannot tell")], "These answers show nothing: no chosen label"),
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
    small = ("--members", "2", "--fresh-seeds", "5", "--epochs", "30", "--budget", "3", "--cases", "0:4")
    record = audited(tmp_path / "audit", "german", *small)
    assert run(capsys, "review", record, "--out", tmp_path / "tasks", "--labels", 40)[0] == 0
    filled = fill_in(tmp_path / "tasks", answered(tmp_path / "tasks", 40, 0))
    assert run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "after")[0] == 0
    reviewed = Population.from_json(tmp_path / "after" / "review.json").reviewed
    assert reviewed.seeded
    assert reviewed.changed
    assert {person.fresh.seeds for person in reviewed.changed} == {5}


def test_a_table_that_changed_leaves_no_folder_behind(german_file, tasks, tmp_path, capsys):
    away = changed(german_file, tmp_path / "away.json", lambda record: record["run"]["data"].update(sha256="0"))
    filled = fill_in(tasks, answered(tasks, 9, 2))
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
        code, out, _ = run(capsys, *given, "--apply-anyway")
        assert code == 0
        reviewed = Population.from_json(tmp_path / "after" / "review.json").reviewed
        assert out.startswith("These answers show nothing")
        page = (tmp_path / "after" / "review.html").read_text()
        assert "<h1>These answers show nothing: reviewers changed" in page
        assert f"{reviewed.sentence} The corrections were made because of" in page


def test_a_round_with_little_to_find_says_so_and_stops(german_file, tmp_path, capsys):
    """Here because no group falls short: of its labels none is likely to be wrong."""

    def right(record: dict) -> None:
        for label in record["labels"]:
            label["wrong"] = 0.0

    record = changed(german_file, tmp_path / "right.json", right)
    code, out, _ = run(capsys, "review", record, "--out", tmp_path / "tasks")
    assert code == 1
    assert out.startswith(
        "A review has little to find: about 0 of the first 100 labels are likely to be wrong. No tasks were"
    )
    assert not (tmp_path / "tasks").exists()
    assert not (tmp_path / "tasks.key.json").exists()
    code, out, _ = run(capsys, "review", record, "--out", tmp_path / "tasks", "--anyway")
    assert code == 0
    assert len(key_of(tmp_path / "tasks")) > 90


def test_a_corrected_table_has_the_values_of_the_table_that_was_audited(tmp_path):
    """Sentences say "deny = no"; the column holds no."""
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"score": rng.normal(size=400), "sex": rng.choice(["f", "m"], 400)})
    table["deny"] = np.where(table["score"] + 0.5 * rng.normal(size=400) > 0, "no", "yes")
    hurt = table.index[(table["sex"] == "f") & (table["deny"] == "no")][::3]
    table.loc[hurt, "deny"] = "yes"
    table.to_csv(tmp_path / "loans.csv", index=False)
    audit = ["--label", "deny", "--adverse", "yes", "--sensitive", "sex", "--model", "logistic", "--cases", "0:3"]
    assert main(["audit", str(tmp_path / "loans.csv"), *audit, "--out", str(tmp_path / "report")]) == 0
    record = str(tmp_path / "report" / "audit.json")
    assert main(["review", record, "--out", str(tmp_path / "tasks"), "--labels", "15"]) == 0
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
