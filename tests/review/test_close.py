"""What a review changes: corrections made, the model trained anew, and a next round."""

import os
import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import fisher_exact
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import butfor
from butfor.errors import SettingError, TableError
from butfor.models.by_name import model_named
from butfor.result.population import Population
from butfor.standard.model import TwoModels
from butfor.support import files
from butfor.words.figures import percent
from recorded import LABELS, OTHER, PLANTED, TABLE, answered, changed, fill_in, key_of, of_kind, run


def test_corrections_are_as_the_models_own_fit_and_a_next_round_is_new(
    german_file, tasks, tmp_path, capsys
):
    answers, after = answered(tasks, 9, 1, 1), tmp_path / "after"
    answers[of_kind(tasks, "label")[12]["id"]] = "cannot tell"
    code, out, _ = run(
        capsys, "review", german_file, "--answers", fill_in(tasks, answers, ";"), "--out", after
    )
    assert code == 0
    n, clear = len(of_kind(tasks, "control")) - 1, len(of_kind(tasks, "clear case"))
    p = fisher_exact([[9, n - 9], [1, n - 1]], alternative="greater")[1]
    assert out.startswith(
        f"The reviewer changed 9 of {n} labels of sex = female ({percent(9 / n)}) and 1 of {n} "
        "contr"
    )
    assert f": {100 * 8 / n:.1f} points more (90 % interval " in out
    shown = float(re.search(r"p = ([\d.]+)", out)[1].rstrip("."))
    assert float(f"{p:.2g}") <= shown < 0.05, "of all together or over strata, whichever says less"
    assert "\nWith 10 of 600 labels corrected, " in out
    assert (
        f"Reviewer error on clear cases: {percent(1 / clear)}, 1 of {clear} (95 % interval " in out
    )
    assert f"1 of {len(key_of(tasks))} tasks got no label" in out
    assert len(out.splitlines()) <= 10
    wrong = [*of_kind(tasks, "label")[:9], of_kind(tasks, "control")[0]]
    corrections = pd.read_csv(after / "corrections.csv")
    assert set(corrections["row"]) == {task["row"] for task in wrong}, (
        "both groups' labels; a clear case stays"
    )
    assert (corrections["reviewed"] == corrections["recorded"].map(OTHER)).all()
    data = butfor.load_dataset("german")
    recorded = data.y_train.map(dict(enumerate(data.label_names)))
    corrected = pd.read_csv(after / "corrected.csv", index_col="row")["label"]
    assert corrected.index.tolist() == recorded.index.tolist()
    assert set(corrected.index[corrected != recorded]) == {task["row"] for task in wrong}

    record = Population.from_json(after / "review.json")
    reviewed = record.run.reviewed
    encoder = butfor.TableEncoder("onehot", dtype="float64").fit(data.X_train)
    rows, people = encoder.transform(data.X_train), encoder.transform(data.X_test)
    model = model_named("logistic")
    before, then = (
        clone(model).fit(rows, y == "good credit").predict(people) for y in (recorded, corrected)
    )
    assert (
        [person.case for person in reviewed.changed]
        == np.flatnonzero(before != then).tolist()
        != []
    )
    women = (data.X_test["sex"] == "female").to_numpy()
    assert reviewed.rates["female"] == pytest.approx((before[women].mean(), then[women].mean()))
    assert reviewed.accuracy == pytest.approx(
        [(decided == data.y_test).mean() for decided in (before, then)]
    )
    rows, more = (
        pd.concat([data.X_train, data.X_val, data.X_test]).sort_index(),
        pd.concat([data.y_val, data.y_test]),
    )
    for gaps, y in ((reviewed.before, recorded), (reviewed.after, corrected)):
        labels = pd.concat([y, more.map(dict(enumerate(data.label_names)))]).loc[rows.index]
        again = butfor.compare_standards(
            rows, labels, sensitive_features="sex", adverse="bad credit", draws=20, n_jobs=1
        )
        assert [gap.difference for gap in gaps] == pytest.approx(
            [gap.difference for gap in again.comparisons]
        )
    page = (after / "review.html").read_text()
    assert f"<h1>{reviewed.sentence}</h1>" in page
    assert "not which are right" in page
    assert all(f"<th>{person.row}</th>" in page for person in reviewed.changed)

    first, record = {task["position"] for task in key_of(tasks)}, after / "review.json"
    assert (
        run(
            capsys,
            "review",
            record,
            "--out",
            tmp_path / "second" / "tasks",
            "--labels",
            20,
            "--anyway",
        )[0]
        == 0
    )
    second = key_of(tmp_path / "second" / "tasks")
    assert not first & {task["position"] for task in second}
    assert all(task["label"] == corrected.iloc[task["position"]] for task in second)
    filled = fill_in(tmp_path / "second" / "tasks", answered(tmp_path / "second" / "tasks", 12))
    code, out, _ = run(capsys, "review", record, "--answers", filled, "--out", tmp_path / "more")
    assert (code, "With 12 of 600 labels corrected" in out) == (0, True)
    both = Population.from_json(tmp_path / "more" / "review.json").run.reviewed
    assert len(both.corrected) == 22
    assert set(both.answered) == first | {task["position"] for task in second}
    assert both.before == reviewed.after
    assert both.accuracy[0] == pytest.approx(reviewed.accuracy[1]), (
        "the model of the corrected table"
    )


def test_the_same_in_python_and_whoever_follows_the_columns_shows_nothing():
    audit = butfor.LabelAudit(LogisticRegression(), budget=4, n_jobs=1, fresh_seeds=0)
    audit.fit(TABLE, LABELS, sensitive_features="group", adverse="no", draws=20)
    with pytest.raises(SettingError, match=r"review_tasks\(\) first"):
        audit.after_review({}, TABLE)
    review = audit.review_tasks(labels=60)
    X, others = TABLE[["income", "debts"]], np.flatnonzero(TABLE["group"] == "a")
    number = (LABELS == "yes").to_numpy().astype(float)
    standard = (
        TwoModels.of(X).predict(others, np.arange(len(X)), number[None, others], None)[0] > 0.5
    )
    for rule in (LogisticRegression().fit(X, LABELS).predict(X) == "yes", standard):
        follows = {t.id: "yes" if rule[t.position] else "no" for t in review.tasks}
        with pytest.raises(
            TableError, match=r"These answers show nothing: the reviewer changed .* may be chance"
        ):
            audit.after_review(follows, TABLE[:50])
    knows = {t.id: "yes" if PLANTED[t.position] else t.label for t in review.tasks}
    right, total = (
        sum(knows[t.id] != t.label for t in review.tasks if t.kind != "clear case"),
        len(knows),
    )
    for bad, sentence in (
        ({}, f"{total} of {total} tasks have no answer"),
        (knows | {"7": "yes"}, "this review has no task '7'"),
        ([knows, knows | {next(iter(knows)): "maybe"}], "The answers of reviewer 2"),
        ([], "There are no answers"),
        ("yes", "must be a dictionary from task ids to labels, not str"),
    ):
        with pytest.raises(TableError, match=sentence):
            audit.after_review(bad, TABLE)
    reviewed, corrected = audit.after_review(knows, TABLE)
    assert "held to a stricter standard than labels of other groups" in "\n".join(reviewed.lines)
    assert (corrected.table_.y != LABELS).sum() == right
    assert (audit.table_.y == LABELS).all()
    assert not {t.position for t in corrected.review_tasks(labels=20).tasks} & {
        t.position for t in review.tasks
    }
    assert (
        corrected.standards().of_group("b").difference
        < audit.standards().of_group("b").difference - 0.05
    )
    again = butfor.LabelAudit(LogisticRegression(), budget=4).fit(
        TABLE, corrected.table_.y, sensitive_features="group"
    )
    assert np.array_equal(again.model_.logits(TABLE), corrected.model_.logits(TABLE))
    assert (
        len(reviewed.changed)
        == ((corrected.model_.logits(TABLE) > 0) != (audit.model_.logits(TABLE) > 0)).sum()
    )
    verdict = corrected.explain(TABLE.iloc[0])
    assert "review that corrected its labels" in str(verdict.run.not_rebuildable)
    assert butfor.replay(verdict)
    audit.review_tasks(labels=9, random_state=1)
    with pytest.raises(TableError, match="Use the answers that were given for this review"):
        audit.after_review(knows, TABLE)


def test_a_careless_reviewer_corrects_nothing_unless_told_otherwise(
    german_file, tasks, tmp_path, capsys
):
    ids, after, rng = (
        [task["id"] for task in key_of(tasks)],
        tmp_path / "after",
        np.random.default_rng(0),
    )
    in_turn, at_random = np.arange(len(ids)) % 2, rng.integers(2, size=len(ids))
    same = (["good credit"] * len(ids), ["cannot tell"] * len(ids))
    for labels in (*same, *np.take(list(OTHER), (in_turn, at_random))):
        filled = fill_in(tasks, dict(zip(ids, labels, strict=True)))
        code, out, _ = run(capsys, "review", german_file, "--answers", filled, "--out", after)
        assert (code, out.startswith("These answers show nothing")) == (1, True)
        assert out.splitlines()[-1] == "Nothing was corrected or written; --anyway does it."
        assert not after.exists()
    code, out, _ = run(
        capsys, "review", german_file, "--answers", filled, "--out", after, "--anyway"
    )
    assert (code, out.startswith("These answers show nothing")) == (0, True)
    assert (
        "<h1>These answers show nothing: the reviewer changed"
        in (after / "review.html").read_text()
    )
    before = {path: path.read_bytes() for path in after.iterdir()}
    code, _, err = run(
        capsys, "review", german_file, "--answers", filled, "--out", after, "--anyway"
    )
    assert (code, "replace them with --overwrite" in err) == (2, True)
    for bend in ({"corrected": [10**6]}, {"corrected": [3], "corrected_to": ["maybe"]}):
        change = lambda record, bend=bend: record["run"]["reviewed"].update(bend)  # noqa: E731
        bent = changed(after / "review.json", tmp_path / "bent.json", change)
        code, _, err = run(capsys, "review", bent, "--out", tmp_path / "tasks2", "--anyway")
        assert (code, "Invalid record: run.reviewed." in err) == (2, True), err
    assert {path: path.read_bytes() for path in after.iterdir()} == before


STOPPING = """
import os, signal
from sklearn.linear_model import LogisticRegression

class Model(LogisticRegression):
    fits = 0

    def fit(self, X, y):
        Model.fits += 1
        if Model.fits == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return super().fit(X, y)
"""


def test_interrupted_a_review_leaves_all_files_or_none(
    german_file, tasks, tmp_path, capsys, monkeypatch
):
    (tmp_path / "stopping.py").write_text(STOPPING)
    monkeypatch.syspath_prepend(tmp_path)
    given = ("--answers", fill_in(tasks, answered(tasks, 12)), "--out", tmp_path / "after")
    code, _, err = run(capsys, "review", german_file, *given, "--model", "stopping:Model")
    assert (code, "Traceback" in err, (tmp_path / "after").exists()) == (130, False, False)

    real, calls, out = os.replace, [], tmp_path / "out"
    out.mkdir()

    def interrupted(*names):
        real(*names)
        calls.append(names)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.save_all({out / name: "text" for name in "xyz"})
    assert sorted(path.name for path in out.iterdir()) == ["x", "y", "z"], (
        "once the first is in its place"
    )
